// The index of columns: see index.hpp.
#include "libgpuhash/columns/index.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>

#include "libgpuhash/columns/give.hpp"
#include "libgpuhash/columns/locate.hpp"
#include "libgpuhash/columns/members.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {
namespace {

// Rows that are hashed before the first of them is looked up; rows whose slots are fetched at a time; rows that a
// thread sorts by partition; rows of a slice; and rows of a batch below which no other thread is woken.
constexpr int64_t block = tunable("index_block", int64_t{1} << 7), group = tunable("index_group", int64_t{64});
constexpr int64_t piece = tunable("index_piece", int64_t{1} << 11), slice = tunable("index_slice", int64_t{1} << 17);
constexpr int64_t alone = tunable("index_alone", int64_t{1} << 15);
constexpr uint32_t most_partitions = 64;
constexpr size_t few_keys = tunable("few_keys_of_index", size_t{1} << 11);  // which stay in cache, and need no fetching
// Rows that ask whether they are there, for each key and for each of so many more, that are worth an array for that.
constexpr int64_t members_share = tunable("members_share", int64_t{4}), few_rows = tunable("members_rows", int64_t{64});
constexpr uint64_t most_keys = UINT32_MAX - 1;
constexpr uint64_t merged_bytes = uint64_t{64} << 20;  // of the keys of one piece of a merge
constexpr int64_t absent_id = -1, not_added = -2;
constexpr int64_t pending = -3;  // and below: entry number pending - id of this row's partition, which has no id yet

template <class Key>
class index_of final : public index {
  using item_type = item<Key>;
  using parts_type = std::vector<partition<Key>>;

 public:
  index_of(row_type type, const settings& s) : index(std::move(type), s), parts_() {
    const size_t n = partitions(s.threads);
    parts_.reserve(n);
    for (size_t i = 0; i < n; ++i) parts_.emplace_back(s.counts, n > 1);
    for (auto& p : parts_) p.reserve(s.expected / parts_.size());
    places_.reserve(parts_.size() > 1 ? s.expected : 0);
  }

  gpuhash_status add(const row_type& type, const rows& given, const int64_t* weights, int64_t* ids,
                     gpuhash_error* err) override {
    if (const gpuhash_status s = refuse_rows(type, given, 0, err)) return s;
    const column_view& column = given.columns[0];
    bool all;
    if (type_.single() && column.values)
      all = add_dictionary(given, ids);
    else
      all = add_batch({given, &column, nullptr, weights, given.length}, ids);
    if (all) return GPUHASH_OK;
    return fail(err, GPUHASH_NO_MEMORY,
                "the index has %llu keys, and memory for no more, or rows of 4 GiB; rows whose "
                "id is -2 were not added",
                (unsigned long long)size_);
  }

  gpuhash_status find(const rows& given, int64_t* ids) const override { return find_rows(given, ids, find_null()); }
  gpuhash_status contains(const rows& given, uint8_t* mask) const override {
    return find_rows(given, mask, uint8_t(find_null() != absent_id));
  }

  gpuhash_status keys(uint64_t first, uint64_t count, ArrowSchema* type, ArrowArray* out) const override {
    return give(count, [first](size_t i) { return first + i; }, type, out);
  }
  gpuhash_status take(size_t n, const int64_t* ids, ArrowSchema* type, ArrowArray* out) const override {
    return give(n, [ids](size_t i) { return uint64_t(ids[i]); }, type, out);
  }
  uint64_t piece_of(uint64_t first, uint64_t count) const override {
    const uint64_t most = std::min(count, uint64_t(slice));
    if constexpr (sizeof(Key) == 8) return most;
    uint64_t n = 0;
    for (uint64_t bytes = 0; n < most && bytes < merged_bytes; ++n)
      if constexpr (sizeof(Key) > 8) bytes += key_of(first + n).length();
    return n;
  }
  void counts(uint64_t first, uint64_t count, int64_t* out) const override {
    for (uint64_t i = 0; i < count; ++i) {
      const place p = place_of(first + i);
      out[i] = int64_t(parts_[p.part].count(p.number));
    }
  }
  uint64_t size() const override { return size_; }
  uint64_t bytes() const override {
    uint64_t sum = sizeof(*this) + places_.capacity() * sizeof(places_[0]);
    for (const auto& p : parts_) sum += sizeof(p) + p.bytes();
    return sum;
  }
  int64_t null() const override {
    const uint32_t number = parts_[0].null_entry();
    return number == partition<Key>::nothing ? -1 : int64_t(parts_[0].id(number));
  }

 private:
  static size_t partitions(uint32_t threads) {
    return threads <= 1 ? 1 : std::min(std::bit_ceil(2 * std::min(threads, most_partitions)), most_partitions);
  }
  uint32_t part_of(const item_type& i) const { return uint32_t(i.hash) & uint32_t(parts_.size() - 1); }
  struct place {
    size_t part;
    uint32_t number;
  };
  place place_of(uint64_t id) const {
    if (parts_.size() == 1) return {0, uint32_t(id)};
    return {places_[id] & (parts_.size() - 1), uint32_t(places_[id] / parts_.size())};
  }
  const Key& key_of(uint64_t id) const {
    const place p = place_of(id);
    return parts_[p.part].key(p.number);
  }
  // Keys of ids id(0) .. id(n - 1).
  template <class Id>
  gpuhash_status give(size_t n, Id id, ArrowSchema* type, ArrowArray* out) const {
    struct source {
      const index_of& self;
      Id id;
      int64_t null;
    } from{*this, id, type_.single() ? null() : -1};
    const auto read = [](const void* context, size_t first, size_t count, const Key** keys) {
      const source& s = *static_cast<const source*>(context);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t number = s.id(first + i);
        keys[i] = int64_t(number) == s.null ? nullptr : &s.self.key_of(number);
      }
    };
    const bool bits = settings_.floats == GPUHASH_FLOATS_BITS;
    return give_keys(type_, bits, keys_to_give<Key>{n, n == size_ ? key_bytes() : 0, &from, read}, type, out);
  }
  // Of text and bytes: the length of all keys together.
  uint64_t key_bytes() const {
    uint64_t sum = 0;
    for (const auto& p : parts_) sum += p.key_bytes();
    return sum;
  }
  int64_t find_null() const { return settings_.nulls == GPUHASH_NULLS_GROUP ? null() : absent_id; }

  gatherer<Key> gather(const batch& b) const {
    return {b, type_, settings_.floats == GPUHASH_FLOATS_BITS, settings_.nulls == GPUHASH_NULLS_GROUP, settings_.seed};
  }

  // ---- what add refuses, before anything is added -----------------------------------------------------------------

  bool same_cells(const row_type& type) const {
    if (type.columns.size() != type_.columns.size()) return false;
    for (size_t i = 0; i < type_.columns.size(); ++i) {
      const column_type &a = type.columns[i], &b = type_.columns[i];
      if (a.kind != b.kind) return false;
      if (b.variable() && b.how != layout::fixed_bytes) continue;  // which holds any number of bytes
      if (a.how != b.how || a.width != b.width || a.is_signed != b.is_signed || a.nanoseconds != b.nanoseconds ||
          a.scale != b.scale)
        return false;
    }
    return true;
  }
  bool holds_all(const row_type& type) const override {
    return settings_.nulls != GPUHASH_NULLS_REFUSE && same_cells(type);
  }
  gpuhash_status refuse_rows(const row_type& type, const rows& given, int64_t passed,
                             gpuhash_error* err) const override {
    if (holds_all(type)) return GPUHASH_OK;
    const bool nulls = settings_.nulls == GPUHASH_NULLS_REFUSE;
    const column_view& column = given.columns[0];
    std::vector<int64_t> selection;
    if (column.values && type_.single()) {
      selection.resize(size_t(given.length));
      for (int64_t i = 0; i < given.length; ++i) selection[i] = column.valid(i) ? column.dictionary_index(i) : -1;
    }
    const batch b{given, column.values && type_.single() ? column.values.get() : &column,
                  selection.empty() ? nullptr : selection.data(), nullptr, given.length};
    const gatherer<Key> look = gather(b);
    std::vector<item_type> items(static_cast<size_t>(block));
    heap bytes;
    for (int64_t begin = 0; begin < b.length; begin += block) {
      bytes.clear();
      const gathered g = look(begin, std::min(begin + block, b.length), begin, items.data(), &bytes);
      if (g.absent >= 0)
        return fail(err, GPUHASH_INVALID_ARGUMENT,
                    "row %lld is nothing that an index of %s can hold; convert the column, "
                    "or make an index of its type",
                    (long long)(passed + g.absent), describe(type_.columns[0]).c_str());
      if (nulls && g.null >= 0)
        return fail(err, GPUHASH_INVALID_ARGUMENT, "row %lld is null; drop nulls, or take them for a group",
                    (long long)(passed + g.null));
    }
    return GPUHASH_OK;
  }

  // ---- where keys may be ------------------------------------------------------------------------------------------

  using located = columns::located<size_t(group)>;
  located locate(const item_type* items, size_t n) const {
    if (parts_.size() > 1)
      return locate_by<size_t(group)>(items, n, [&](const item_type& i) { return parts_[part_of(i)].probe(); });
    return locate_by<size_t(group)>(items, n, [only = parts_[0].probe()](const item_type&) { return only; });
  }

  // serve(items, how many, where they may be) for groups of items, whose slots, entries and bytes are fetched ahead where
  // they may be far.
  template <class Serve>
  void in_groups(const item_type* items, size_t n, Serve serve) const {
    for (size_t at = 0; at < n; at += size_t(group)) {
      const item_type* const some = items + at;
      const size_t count = std::min(n - at, size_t(group));
      const bool far = parts_[part_of(*some)].size() * parts_.size() > few_keys;
      if (far)
        for (size_t k = 0; k < count; ++k) parts_[part_of(some[k])].fetch_slot(some[k]);
      const located l = locate(some, count);
      if (far) {
        each_bit(l.tagged, [&](int k) { parts_[part_of(some[k])].fetch_entry(l.numbers[k]); });
        if constexpr (sizeof(Key) > 8)
          each_bit(l.tagged, [&](int k) { parts_[part_of(some[k])].fetch_bytes(l.numbers[k]); });
      }
      serve(some, count, l);
    }
  }

  // ---- finding ----------------------------------------------------------------------------------------------------

  // The answer to a row: its id, or whether it has one.
  static int64_t answer(const partition<Key>& p, uint32_t number, bool here, int64_t*) {
    return int64_t(p.id(number)) | -int64_t(!here);
  }
  static uint8_t answer(const partition<Key>&, uint32_t, bool here, uint8_t*) { return uint8_t(here); }
  static int64_t absent(int64_t*) { return absent_id; }
  static uint8_t absent(uint8_t*) { return 0; }

  // Writes the answer to each row; nulls among the indices of a dictionary get for_null.
  template <class Answer>
  gpuhash_status find_rows(const rows& given, Answer* out, Answer for_null) const {
    const column_view& column = given.columns[0];
    if (type_.single() && column.values) {
      std::vector<Answer> values(size_t(column.values->length));
      const batch all{given, column.values.get(), nullptr, nullptr, column.values->length};
      find_batch(all, values.data());
      for (int64_t i = 0; i < given.length; ++i)
        out[i] = column.valid(i) ? values[size_t(column.dictionary_index(i))] : for_null;
      return GPUHASH_OK;
    }
    find_batch({given, &column, nullptr, nullptr, given.length}, out);
    return GPUHASH_OK;
  }

  // The keys, where they are few texts that are looked up often enough.
  std::optional<members> few_members(const batch& b) const {
    if constexpr (sizeof(Key) > 8) {
      if (size_ > members::most || b.length < members_share * int64_t(size_ + few_rows) || !b.texts_alone(type_))
        return std::nullopt;
      members all(size_, hash_keys(settings_.seed));
      for (const auto& p : parts_)
        for (uint32_t i = 0; i < p.size(); ++i)
          if (i != p.null_entry() && !all.add(p.key(i).view())) return std::nullopt;
      return all;
    }
    return std::nullopt;
  }

  template <class Answer>
  void find_batch(const batch& b, Answer* out) const {
    struct work {
      const index_of& self;
      const batch& b;
      Answer* out;
      const std::optional<members> few;
      std::atomic<bool> memory{true};
    } all{*this, b, out, sizeof(Answer) == 1 ? few_members(b) : std::nullopt};
    const auto body = [](void* context, size_t i) {
      work& w = *static_cast<work*>(context);
      const int64_t begin = int64_t(i) * piece, end = std::min(begin + piece, w.b.length);
      try {
        if constexpr (sizeof(Answer) == 1)
          if (w.few) return w.few->look(*w.b.column, begin, end, w.out + begin, w.self.find_null() != absent_id);
        w.self.find_piece(w.b, begin, end, w.out);
      } catch (const std::bad_alloc&) {
        w.memory = false;
      }
    };
    const uint32_t threads = b.length < alone ? 1 : settings_.threads;
    parallel(threads, size_t((b.length + piece - 1) / piece), body, &all);
    if (!all.memory) throw std::bad_alloc();
  }

  template <class Answer>
  void find_piece(const batch& b, int64_t begin, int64_t end, Answer* out) const {
    const gatherer<Key> read = gather(b);
    std::array<item_type, size_t(block)> items;
    heap bytes;
    for (; begin < end; begin += block) {
      const int64_t n = std::min(block, end - begin);
      bytes.clear();
      const size_t found = read(begin, begin + n, begin, items.data(), &bytes).items;
      std::fill_n(out + begin, n, absent(out));
      in_groups(items.data(), found,
                [&](const item_type* some, size_t, const located& l) { find_group(some, l, out + begin); });
    }
  }

  // Rows of absent keys keep what `out` has.
  template <class Answer>
  void find_group(const item_type* items, const located& l, Answer* out) const {
    uint64_t left = l.nulls;
    each_bit(l.tagged, [&](int k) {
      const item_type& i = items[k];
      const partition<Key>& p = parts_[part_of(i)];
      const bool here = p.key(l.numbers[k]).same_after_tag(i.key);
      out[i.row] = answer(p, l.numbers[k], here, out);
      left |= uint64_t(!here) << k;
    });
    each_bit(left, [&](int k) {
      const partition<Key>& p = parts_[part_of(items[k])];
      const uint32_t number = p.find(items[k]);
      if (number != partition<Key>::nothing) out[items[k].row] = answer(p, number, true, out);
    });
  }

  // ---- adding -----------------------------------------------------------------------------------------------------

  // Each value that is used is added once, in the order of first appearance. False: not all rows were added.
  bool add_dictionary(const rows& given, int64_t* ids) {
    const column_view& column = given.columns[0];
    const auto n_values = size_t(column.values->length);
    std::vector<int64_t> number(n_values + 1, -1), selection, weights;  // number: in selection; the last is of null
    for (int64_t i = 0; i < given.length; ++i) {
      const int64_t value = column.valid(i) ? column.dictionary_index(i) : -1;
      int64_t& known = number[value < 0 ? n_values : size_t(value)];
      if (known < 0) {
        known = int64_t(selection.size());
        selection.push_back(value);
        weights.push_back(0);
      }
      ++weights[size_t(known)];
    }
    std::vector<int64_t> found(selection.size());
    const batch used{given, column.values.get(), selection.data(), weights.data(), int64_t(selection.size())};
    const bool all = add_batch(used, found.data());
    if (ids)
      for (int64_t i = 0; i < given.length; ++i)
        ids[i] = found[size_t(number[column.valid(i) ? size_t(column.dictionary_index(i)) : n_values])];
    return all;
  }

  template <class Serve>
  void each_item(const item_type* items, size_t n, Serve serve) const {
    in_groups(items, n,
              [&](const item_type* some, size_t count, const located&) { std::for_each(some, some + count, serve); });
  }

  bool add_batch(const batch& b, int64_t* ids) {
    const bool divide = settings_.threads > 1 && b.length >= alone;
    slice_memory memory;
    bool all = true;
    for (int64_t begin = 0; begin < b.length; begin += slice) {
      const int64_t end = std::min(begin + slice, b.length);
      int64_t* const mine = ids ? ids + begin : nullptr;
      if (mine) std::fill_n(mine, end - begin, not_added);
      try {
        all &= divide ? add_divided(b, begin, end, mine, &memory) : add_alone(b, begin, end, mine);
      } catch (const std::bad_alloc&) {  // before these rows were served
        all = false;
      }
    }
    return all;
  }

  bool room_for_ids(int64_t n) {
    if (size_ + uint64_t(n) > most_keys) return false;
    if (parts_.size() > 1 && places_.capacity() < size_ + uint64_t(n))
      places_.reserve(std::max<uint64_t>(2 * places_.capacity(), size_ + uint64_t(n)));
    return true;
  }

  bool add_alone(const batch& b, int64_t begin, int64_t end, int64_t* ids) {
    const gatherer<Key> read = gather(b);
    std::array<item_type, size_t(block)> items;
    heap bytes;
    bool all = true;
    for (int64_t at = begin; at < end; at += block) {
      const int64_t n = std::min(block, end - at);
      bytes.clear();
      const gathered g = read(at, at + n, begin, items.data(), &bytes);
      const bool room = room_for_ids(n);
      all &= room && g.absent < 0;
      if (ids) std::fill_n(ids + (at - begin), n, g.absent < 0 ? absent_id : not_added);
      if (!room) {
        if (ids)
          for (size_t i = 0; i < g.items; ++i) ids[items[i].row] = not_added;
        continue;
      }
      in_groups(items.data(), g.items, [&](const item_type* some, size_t count, const located& l) {
        all &= add_group(b, begin, some, count, l, ids);
      });
    }
    return all;
  }
  // First the items that are there; then the others, in their order, in which new keys get ids.
  bool add_group(const batch& b, int64_t begin, const item_type* items, size_t n, const located& l, int64_t* ids) {
    uint64_t left = ~uint64_t(0) >> (64 - n);
    if (parts_.size() == 1) {
      auto& p = parts_[0];
      each_bit(l.tagged, [&](int k) {
        const item_type& i = items[k];
        const uint32_t number = l.numbers[k];
        const bool here = p.key(number).same_after_tag(i.key);
        left ^= uint64_t(here) << k;
        p.add_to_count(number, here ? weight(b, begin, i) : 0);
        if (ids) ids[i.row] = number;
      });
    }
    bool all = true;
    each_bit(left, [&](int k) {
      const item_type& i = items[k];
      int64_t id = not_added;
      try {
        id = add_one(i, weight(b, begin, i));
      } catch (const std::bad_alloc&) {
        all = false;
      }
      if (ids) ids[i.row] = id;
    });
    return all;
  }
  // The id of an item, for which there is room. Throws bad_alloc, and nothing has changed.
  uint32_t add_one(const item_type& i, uint64_t times) {
    const uint32_t part = part_of(i);
    auto& p = parts_[part];
    bool fresh = false;
    const uint32_t number = p.add(i, &fresh);
    if (fresh) {
      if (parts_.size() > 1) {
        places_.push_back(number * parts_.size() + part);
        p.set_id(number, uint32_t(size_));
      }
      ++size_;
    }
    p.add_to_count(number, times);
    return p.id(number);
  }
  uint64_t weight(const batch& b, int64_t begin, const item_type& i) const {
    return b.weights ? uint64_t(b.weights[begin + i.row]) : 1;
  }

  // ---- adding by all threads --------------------------------------------------------------------------------------

  struct slice_memory {                        // kept from slice to slice
    std::vector<item_type> items;              // of piece i, from i * piece on, by partition
    std::vector<uint32_t> starts;              // of piece i, from i * (partitions + 1) on: where its partitions begin
    std::vector<uint64_t> firsts;              // a bit for each row that is the first of its key
    std::vector<uint32_t> ranks;               // bits before each word of these
    std::vector<std::vector<uint32_t>> fresh;  // of each partition: rows of its new entries
    std::vector<uint32_t> known;               // entries of each partition before the slice
    std::vector<heap> bytes;                   // of encoded rows, of each piece
  };
  struct slice_work {
    index_of& self;
    const batch& b;
    slice_memory& m;
    int64_t begin, end;
    int64_t* ids;
    std::atomic<bool> all{true};
  };

  bool add_divided(const batch& b, int64_t begin, int64_t end, int64_t* ids, slice_memory* memory) {
    const auto rows = size_t(end - begin), pieces = size_t((end - begin + piece - 1) / piece);
    slice_memory& m = *memory;
    if (!room_for_ids(end - begin)) return false;
    m.items.resize(rows);
    m.starts.resize(pieces * (parts_.size() + 1));
    m.firsts.assign((rows + 63) / 64, 0);
    m.ranks.resize(m.firsts.size());
    m.fresh.resize(parts_.size());
    m.known.resize(parts_.size());
    if (m.bytes.size() < pieces) m.bytes.resize(pieces);
    if (ids) std::fill_n(ids, rows, absent_id);
    slice_work work{*this, b, m, begin, end, ids};
    const auto run = [&](size_t n, void (*body)(void*, size_t)) { parallel(settings_.threads, n, body, &work); };
    run(pieces,
        [](void* w, size_t i) { static_cast<slice_work*>(w)->self.sort_piece(*static_cast<slice_work*>(w), i); });
    run(parts_.size(),
        [](void* w, size_t i) { static_cast<slice_work*>(w)->self.serve_part(*static_cast<slice_work*>(w), i); });
    uint32_t sum = 0;
    for (size_t i = 0; i < m.firsts.size(); ++i) {
      m.ranks[i] = sum;
      sum += uint32_t(std::popcount(m.firsts[i]));
    }
    places_.resize(parts_.size() > 1 ? size_ + sum : 0);
    run(parts_.size(),
        [](void* w, size_t i) { static_cast<slice_work*>(w)->self.number_part(*static_cast<slice_work*>(w), i); });
    size_ += sum;
    return work.all;
  }

  // Hash the rows of a piece, and sort them by partition.
  void sort_piece(slice_work& w, size_t i) const {
    try {
      const int64_t begin = w.begin + int64_t(i) * piece, end = std::min(begin + piece, w.end);
      const size_t parts = parts_.size();
      uint32_t* const starts = &w.m.starts[i * (parts + 1)];
      std::fill_n(starts, parts + 1, 0);
      std::array<item_type, size_t(piece)> read;
      w.m.bytes[i].clear();
      const gathered g = gather(w.b)(begin, end, w.begin, read.data(), &w.m.bytes[i]);
      if (g.absent >= 0) {  // rows of 4 GiB
        w.all = false;
        if (w.ids) std::fill_n(w.ids + (begin - w.begin), end - begin, not_added);
      }
      for (size_t j = 0; j < g.items; ++j) ++starts[part_of(read[j]) + 1];
      for (size_t p = 0; p < parts; ++p) starts[p + 1] += starts[p];
      std::array<uint32_t, most_partitions> next;
      std::copy_n(starts, parts, next.begin());
      item_type* const to = &w.m.items[size_t(int64_t(i) * piece)];
      for (size_t j = 0; j < g.items; ++j) to[next[part_of(read[j])]++] = read[j];
    } catch (const std::bad_alloc&) {
      std::fill_n(&w.m.starts[i * (parts_.size() + 1)], parts_.size() + 1, 0);
      if (w.ids)
        std::fill_n(w.ids + int64_t(i) * piece, std::min(piece, w.end - w.begin - int64_t(i) * piece), not_added);
      w.all = false;
    }
  }

  // serve(items, n) for the items of a partition, piece by piece.
  template <class Serve>
  void each_piece(const slice_work& w, size_t part, Serve serve) const {
    const auto pieces = size_t((w.end - w.begin + piece - 1) / piece);
    for (size_t i = 0; i < pieces; ++i) {
      const uint32_t* const starts = &w.m.starts[i * (parts_.size() + 1) + part];
      serve(&w.m.items[size_t(int64_t(i) * piece)] + starts[0], size_t(starts[1] - starts[0]));
    }
  }

  void serve_part(slice_work& w, size_t part) {
    auto& p = parts_[part];
    std::vector<uint32_t>& rows = w.m.fresh[part];
    rows.clear();
    w.m.known[part] = uint32_t(p.size());
    each_piece(w, part, [&](const item_type* items, size_t n) {
      each_item(items, n, [&](const item_type& i) {
        int64_t id = not_added;
        try {
          bool fresh = false;
          if (rows.size() == rows.capacity()) rows.reserve(2 * rows.capacity() + 64);
          const uint32_t number = p.add(i, &fresh);
          if (fresh) {
            rows.push_back(i.row);
            std::atomic_ref(w.m.firsts[i.row / 64]).fetch_or(uint64_t(1) << i.row % 64, std::memory_order_relaxed);
          }
          p.add_to_count(number, weight(w.b, w.begin, i));
          id = number < w.m.known[part] ? int64_t(p.id(number)) : pending - int64_t(number);
        } catch (const std::bad_alloc&) {
          w.all = false;
        }
        if (w.ids) w.ids[i.row] = id;
      });
    });
  }

  // The ids of a partition's new keys, and of the rows that have them.
  void number_part(slice_work& w, size_t part) {
    auto& p = parts_[part];
    const std::vector<uint32_t>& fresh = w.m.fresh[part];
    for (size_t i = 0; i < fresh.size(); ++i) {
      const uint64_t before = w.m.firsts[fresh[i] / 64] & ((uint64_t(1) << fresh[i] % 64) - 1);
      const uint64_t id = size_ + w.m.ranks[fresh[i] / 64] + uint64_t(std::popcount(before));
      const uint32_t number = w.m.known[part] + uint32_t(i);
      p.set_id(number, uint32_t(id));
      places_[id] = number * parts_.size() + part;
    }
    if (!w.ids || fresh.empty()) return;
    each_piece(w, part, [&](const item_type* items, size_t n) {
      for (size_t i = 0; i < n; ++i) {
        int64_t& id = w.ids[items[i].row];
        if (id <= pending) id = p.id(uint32_t(pending - id));
      }
    });
  }

  parts_type parts_;
  std::vector<uint64_t> places_;  // of several partitions: of each id, entry * partitions + partition
  uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<index> make_index(row_type type, const settings& s) {
  const column_type& t = type.columns[0];
  if (type.single() && !t.variable() && t.kind != family::decimal && t.kind != family::structure)
    return std::make_unique<index_of<word_key>>(std::move(type), s);
  return std::make_unique<index_of<bytes_key>>(std::move(type), s);
}

}  // namespace gpuhash::columns
