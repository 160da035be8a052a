// Large batches by parts of the table, as a model of the explorer: tiles, which the explorer interleaves, go through
// the steps of drive/bulk.
//
// An operation that ends in p is an element of such a batch; the first ones of all tiles are one batch, the second ones
// another. i4=9,i5=9:i0=1p+i1=2p+f0 inserts 0 and 1 by parts, where the slots of their home are taken, while a third
// tile looks for 0. The tiles of a batch are the threads of its blocks, too, and each serves any of its elements:
//
//   take_part     all elements are there, and the bins are empty; then the gate gives the table to the batch
//   divide        an element goes to the bin of its part, or is left over where that has no room. Those of key 0 (in
//                 layouts with an f) and of the side keys are joined instead: one operation carries out all of them
//   serve_part    the part is copied to the block's memory, its elements are carried out there, it is written back
//   serve_joined  in the table itself, by ordinary tiles
//   serve_left    the same: elements that their bin had no room for, and those whose path left their part
//
// Between two steps all tiles wait for each other, as threads of a block do and one kernel for another. What a part is,
// how it is a table of its own and when a path has left it are the real rules (plugins/linear_probe/parts.hpp), and all
// elements are carried out by ops.hpp. What the kernels have besides is left to tests on emulated warps: placing by
// counting, passes, samples, and dividing for a second time what is left.
#include "libgpuhash/sched/batch_gate.hpp"
#include "parts.hpp"
#include "sim_table.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 group_bits = 1, part_bits = 2, line = 1 << group_bits, n_keys = 12;
constexpr u32 most_joined = 3, no_leader = ~0u;  // keys whose elements are joined: 0 and the side keys

// A tile of one lane in the memory of a block.
template <class F, u32 R>
struct block_tile : sim_tile<F, R> {
  using base = sim_tile<F, R>;
  bool cas(bool go, typename F::word* slots, const typename base::row& r, typename base::hits h,
           typename F::word desired) {
    if (!GH_MUTANT(stores_in_block)) return base::cas(go, slots, r, h, desired);
    base::cas(false, slots, r, h, desired);
    if (go) mem::store<order::relaxed>(slots + __builtin_ctz(h.mask), desired);
    return go;
  }
};

// The batch, and the state of its elements.
struct batch {
  u32 n = 0;
  op element[max_tiles];
  u32 of_tile[max_tiles];  // which one
  reply answer[max_tiles];
};

template <class F>
class parts_model final : public linear_sim<F> {
  using rules = linear_part_rules<F>;
  using typename linear_sim<F>::key;
  using typename linear_sim<F>::word;
  using linear_sim<F>::t_;
  using linear_sim<F>::keys_;
  template <u32 Kind>
  using local_op = typename rules::template op<block_tile<F, line>, Kind>;
  using table_op = typename rules::template op<sim_tile<F, line>, mixed>;

 public:
  // r1, r2, r4: so many elements have room in a bin. f: key 0 is frequent. s: the last part is shorter than the first.
  void build(const std::string& layout, u64 seed) override {
    const auto has = [&](char c) { return layout.find(c) != std::string::npos; };
    const u32 slots = has('s') ? 6 : 8;
    this->place(slots, group_bits, line, slots, seed, 1 << part_bits);
    room_ = u32(layout[1] - '0'), frequent_ = has('f');
    parts_ = (slots + (1 << part_bits) - 1) >> part_bits;
    gate_.place();
    block_ = the_machine.place<word>(parts_ << part_bits);
    in_bin_ = the_machine.place<u32>(parts_);
    for (u32 p = 0; p < parts_; ++p) in_bin_[p] = 0;
    bin_ = the_machine.place<u32>(parts_ * room_);
    n_left_ = the_machine.place<u32>(1);
    left_ = the_machine.place<u32>(max_tiles);
    leader_ = the_machine.place<u32>(most_joined), last_ = the_machine.place<u32>(most_joined);
    failed_ = the_machine.place<u32>(most_joined), sum_ = the_machine.place<u64>(most_joined);
    // 0 1 2 4 5 at the edge of the first part, 3 and b behind it, 6 7 8 at the end of the table, 9 and a at its begin.
    u32 home_of[n_keys] = {1, 1, 1, 2, 1, 1, 3, 3, 3, 0, 0, 2};
    for (u32& home : home_of) home = std::min(home, u32(t_.groups) - 1);
    this->choose_keys(home_of, n_keys);
  }

  void begin_program(const program& p) override {
    for (const op& o : p.setup)
      if (o.by_parts) throw bad_input("'" + text(o) + "' is in the setup, where nothing goes by parts");
    for (u32 tile = 0; tile < p.tiles.size(); ++tile) {
      u32 turn = 0;
      for (const op& o : p.tiles[tile])
        if (o.by_parts) add(turn++, tile, o);
    }
  }
  void begin_run() override {
    linear_sim<F>::begin_run();
    for (u32& turn : turn_) turn = 0;
  }

  reply run(const op& o) override {
    if (o.by_parts) return take_part(batches_[turn_[the_machine.current]++]);
    gate_.enter();
    const reply r = serve<linear_op, line>(t_, o, keys_[o.key]);
    gate_.leave();
    return r;
  }

  std::string check() const override {
    const std::string left = gate_.check();
    return left.empty() ? linear_sim<F>::check() : left;
  }

  std::string draw() const override {
    std::string s = linear_sim<F>::draw() + "  gate " + gate_.draw() + "  block";
    for (u32 i = 0; i < parts_ << part_bits; ++i)
      s += (i && i % (1 << part_bits) == 0 ? " | " : " ") + this->text_of(block_[i]);
    return s;
  }
  std::string where(const void* p) const override {
    if (gate_.is(p)) return "gate";
    const auto in = [&](const auto* from, u32 n, const char* name) {
      const auto i = static_cast<const std::remove_reference_t<decltype(*from)>*>(p) - from;
      return i >= 0 && i < int(n) ? name + std::to_string(i) : std::string();
    };
    for (const std::string& s :
         {in(block_, parts_ << part_bits, "block "), in(in_bin_, parts_, "in bin "), in(bin_, parts_ * room_, "bin "),
          in(n_left_, 1, "n left "), in(left_, max_tiles, "left "), in(leader_, most_joined, "leader "),
          in(last_, most_joined, "last "), in(failed_, most_joined, "failed "), in(sum_, most_joined, "sum ")})
      if (!s.empty()) return s;
    return linear_sim<F>::where(p);
  }
  std::string show(const void* p, u128 w) const override {
    const bool is_slot = (p >= t_.slots && p < t_.side + 2) || (p >= block_ && p < in_bin_);
    return is_slot ? this->text_of(narrow_value<word>(w)) : std::to_string(int(w.lo));
  }

 private:
  // One tile's share of a batch. Returns the answer of its own element.
  reply take_part(batch& b) {
    const u32 me = b.of_tile[the_machine.current];
    if (me == 0) empty_bins(b);
    meet(b);
    if (me == 0 && !GH_MUTANT(beside_batches)) gate_.close();
    meet(b);
    divide(b, me);
    if (!GH_MUTANT(unawaited_bins)) meet(b);
    if (me == 0 && GH_MUTANT(early_opened)) gate_.open();
    if (GH_MUTANT(early_rest)) serve_left(b, me);
    for (u32 part = 0; part < parts_; ++part) serve_part(b, me, part);
    if (!GH_MUTANT(unawaited_parts)) meet(b);
    serve_joined(b, me);
    meet(b);
    tell_failed(b, me);
    if (!GH_MUTANT(early_rest)) serve_left(b, me);
    meet(b);
    if (me == 0 && !GH_MUTANT(beside_batches) && !GH_MUTANT(early_opened)) gate_.open();
    return b.answer[me];
  }

  void empty_bins(batch& b) {
    for (reply& r : b.answer) r = {};
    for (u32 p = 0; p < parts_; ++p)
      if (!GH_MUTANT(kept_bins)) put(in_bin_ + p, 0);
    put(n_left_, 0);
    for (u32 j = 0; j < most_joined; ++j)
      put(leader_ + j, no_leader), put(last_ + j, no_leader), put(failed_ + j, 0), put(sum_ + j, 0);
  }

  void divide(batch& b, u32 me) {
    const op& o = b.element[me];
    if (joined_as(o) != no_leader) return join(b, me);
    const u32 part = part_of(o), place = mem::fetch_add<order::relaxed>(in_bin_ + part, 1u);
    if (place < room_ + GH_MUTANT(bin_one_longer))
      put(bin_ + part * room_ + place, me);
    else if (!GH_MUTANT(overflow_dropped))
      leave_over(me);
  }

  void join(batch& b, u32 me) {
    const op& o = b.element[me];
    const u32 j = joined_as(o);
    b.answer[me] = {GH_MUTANT(all_inserted) ? yes : no};
    const u32 leads = mem::cas<order::relaxed>(leader_ + j, no_leader, me);
    if (leads != no_leader && o.kind == assign) put(last_ + j, me);
    if (o.kind != accumulate) return;
    if (GH_MUTANT(lost_operand))
      put(sum_ + j, get(sum_ + j) + o.value);
    else
      mem::fetch_add<order::relaxed>(sum_ + j, o.value);
  }

  void serve_part(batch& b, u32 me, u32 part) {
    const u32 n = std::min(get(in_bin_ + part), room_);
    if (n == 0) return;
    const u32 begin = part << part_bits, whole = 1 << part_bits;
    const u32 size = GH_MUTANT(whole_last_part) ? whole : std::min(u32(t_.n_slots) - begin, whole);
    word* const slots = block_ + begin;
    for (u32 i = me; i < size; i += b.n) put(slots + i, get(t_.slots + begin + i));
    if (!GH_MUTANT(unawaited_copy)) meet(b);
    for (u32 i = me; i < n; i += b.n) {
      const u32 x = element(b, bin_ + part * room_ + i);
      switch (b.element[x].kind) {
        case insert: serve_here<insert>(b, x, part, size); break;
        case assign: serve_here<assign>(b, x, part, size); break;
        case accumulate: serve_here<accumulate>(b, x, part, size); break;
        case erase: serve_here<erase>(b, x, part, size); break;
      }
    }
    if (!GH_MUTANT(unawaited_elements)) meet(b);
    for (u32 i = me; i < size; i += b.n) put(t_.slots + begin + i, get(slots + i));
  }

  // Element x in its part, which is a table that no other block has: what has a key keeps it, unless the batch erases.
  template <u32 Kind>
  void serve_here(batch& b, u32 x, u32 part, u32 size) {
    const op& o = b.element[x];
    auto local = rules::local(t_, block_ + (part << part_bits), size);
    if (GH_MUTANT(wrapping_part)) local.widest = line;
    if (GH_MUTANT(limit_of_the_table)) local.probe_limit = t_.probe_limit;
    joiner j{};
    j.keys_stay = true;
    local_op<Kind> at_work;
    at_work.start(local, Kind, keys_[o.key], typename F::value(o.value), rules::local_home(t_, group_of(o, part)));
    const reply r = finish_op(at_work, local, j);
    const bool left = GH_MUTANT(only_full_left) ? r.status == full : rules::left(at_work);
    if (left && !GH_MUTANT(left_unnoticed))
      leave_over(x);
    else
      b.answer[x] = r;
  }

  void serve_joined(batch& b, u32 me) {
    for (u32 j = me; j < most_joined; j += b.n) {
      const u32 leads = get(leader_ + j), last = get(last_ + j);
      if (leads == no_leader) continue;
      op o = b.element[leads];
      if (o.kind == accumulate) o.value = get(sum_ + j);
      if (last != no_leader && !GH_MUTANT(first_assigned)) o.value = b.element[last].value;
      b.answer[leads] = serve_op<table_op>(t_, o, keys_[o.key]);
      if (b.answer[leads].status > yes) put(failed_ + j, b.answer[leads].status);
    }
  }
  // All elements have this status if the operation of their key found no room.
  void tell_failed(batch& b, u32 me) {
    const u32 j = joined_as(b.element[me]);
    if (j == no_leader || GH_MUTANT(failed_alone)) return;
    if (const u32 status = get(failed_ + j)) b.answer[me].status = status;
  }

  void serve_left(batch& b, u32 me) {
    const u32 n = get(n_left_);
    for (u32 i = me; i < n; i += b.n) {
      const u32 x = element(b, left_ + i);
      b.answer[x] = serve_op<table_op>(t_, b.element[x], keys_[b.element[x].key]);
    }
  }

  void leave_over(u32 x) {
    u32 place;
    if (GH_MUTANT(stored_count))
      put(n_left_, 1 + (place = get(n_left_)));
    else
      place = mem::fetch_add<order::relaxed>(n_left_, 1u);
    put(left_ + place, x);
  }

  // ---- what an element belongs to ----

  u32 joined_as(const op& o) const {
    return o.key >= dead_pattern ? o.key - dead_pattern + 1 : frequent_ && o.key == 0 ? 0 : no_leader;
  }
  u32 part_of(const op& o) const {
    constexpr u32 shift = part_bits - group_bits;
    const u32 group = u32(rules::group_of(t_, keys_[o.key]));
    return GH_MUTANT(edge_goes_on) ? std::min((group + 1) >> shift, parts_ - 1) : group >> shift;
  }
  u32 group_of(const op& o, u32 part) const {  // in its part
    const u32 group = u32(rules::group_of(t_, keys_[o.key])), first = part << (part_bits - group_bits);
    return GH_MUTANT(edge_goes_on) && group < first ? 0 : group - first;
  }
  static u32 element(const batch& b, const u32* at) {
    const u32 x = get(at);
    if (x >= b.n) the_machine.fail("parts: a list has no element where one is looked up");
    return x;
  }

  void add(u32 turn, u32 tile, const op& o) {
    if (!(o.kind >= insert && o.kind <= accumulate) && o.kind != erase)
      throw bad_input("'" + text(o) + "' does not go by parts: only i, s, a and e do");
    if (turn == batches_.size()) batches_.emplace_back();
    batch& b = batches_[turn];
    if (b.n && b.element[0].kind != o.kind) throw bad_input("'" + text(o) + "' is in a batch of another kind");
    b.of_tile[tile] = b.n;
    b.element[b.n++] = o;
    if (!F::has_value) b.element[b.n - 1].value = 0;
  }

  static void meet(const batch& b) { the_machine.meet(b.n); }
  template <class T>
  static T get(const T* p) {
    return mem::load<order::relaxed>(p);
  }
  template <class T>
  static void put(T* p, std::type_identity_t<T> v) {
    mem::store<order::relaxed>(p, v);
  }

  std::vector<batch> batches_;
  u32 turn_[max_tiles];  // batches that each tile has taken part in
  batch_gate gate_;
  u32 room_ = 0, parts_ = 0;
  bool frequent_ = false;
  word* block_;                    // the parts, one behind the other
  u32 *in_bin_, *bin_;             // how many want to be in each bin; and numbers of elements, bin after bin
  u32 *n_left_, *left_;            // elements for serve_left
  u32 *leader_, *last_, *failed_;  // of a joined key: the first element, another one, and a status
  u64* sum_;                       // and its operands
};

using program_list = std::vector<std::pair<std::string, std::string>>;  // layout and program

// Setups: an empty table, key 0 at its home, a full home at the edge of its part, key 0 or its tombstone behind that.
const char* const at_the_edge[] = {"", "i0=8", "i4=9,i5=9", "i4=9,i5=9,i0=8", "i4=9,i5=9,i0=8,e0"};
constexpr char end_full[] = "i6=9,i7=9";  // the path of 8 goes on at the begin of the table
constexpr char all_full[] = "i4=9,i5=9,i3=9,ib=9,i6=9,i7=9,i9=9,ia=9";

// A batch of one kind, an element for each of these keys; then what is beside it.
std::string batch_of(const std::string& setup, char letter, const std::string& keys, const std::string& beside = "") {
  std::string s = setup + ":";
  for (size_t i = 0; i < keys.size(); ++i) {
    s += (i ? "+" : "") + std::string{letter, keys[i]};
    if (letter != 'e') s += "=" + std::to_string(i + 1);
    s += "p";
  }
  return s + beside;
}

program_list programs() {
  program_list all;
  for (char kind : {'i', 's', 'a', 'e'}) {
    for (const char* setup : at_the_edge)
      for (const char* keys : {"00", "01", "03"})
        for (const char* layout : {"r1", "r2"}) all.push_back({layout, batch_of(setup, kind, keys)});
    for (const char* keys : {"88", "89"}) all.push_back({"r2", batch_of(end_full, kind, keys)});
    for (const char* keys : {"00", "01"}) all.push_back({"r2", batch_of(all_full, kind, keys)});
    for (const char* keys : {"678", "668"}) all.push_back({"r4s", batch_of("", kind, keys)});
    for (const char* setup : {"", "i0=8", all_full})  // joined elements
      for (const char* keys : {"00", "001", "000"}) all.push_back({"r2f", batch_of(setup, kind, keys)});
    for (const char* keys : {"zz", "yz"}) all.push_back({"r2", batch_of("", kind, keys)});
    all.push_back({"r1", batch_of("i4=9,i5=9", kind, "010")});
    all.push_back({"r4", batch_of("", kind, "001")});
    all.push_back({"r2", batch_of("i4=9,i5=9,i0=8", kind, "01", "+f0")});
    all.push_back({"r2", batch_of("i0=8", kind, "10", "+e0")});
    all.push_back({"r2f", batch_of("", kind, "00", "+f0")});
  }
  // One batch after another, and after operations.
  all.push_back({"r1", ":i0=1p,a0=2p+i1=3p,a1=4p"});
  all.push_back({"r1", "i4=9,i5=9:a0=1p,a0=2p+a0=3p,a0=4p"});
  all.push_back({"r2", "i4=9,i5=9:i0=1p,e0p+i0=3p,e1p"});
  all.push_back({"r2", "i4=9,i5=9:i0=5,a0=1p+e0,a0=2p"});
  all.push_back({"r2", "i4=9,i5=9:i0=1p,e0+s4=5,i0=2p,f0"});
  return all;
}

// What takes longer: more operations beside a batch, and three elements that leave their part.
program_list long_programs() {
  program_list all;
  for (char kind : {'i', 's', 'a', 'e'})
    for (const char* setup : at_the_edge) {
      for (const char* beside : {"+f0", "+e0", "+i0=7", "+a1=7"})
        for (const char* keys : {"00", "01"})
          for (const char* layout : {"r1", "r2"}) all.push_back({layout, batch_of(setup, kind, keys, beside)});
      for (const char* keys : {"000", "001", "012", "013"})
        for (const char* layout : {"r1", "r2", "r4"}) all.push_back({layout, batch_of(setup, kind, keys)});
      for (const char* beside : {"+f0", "+e0", "+a0=7"}) all.push_back({"r2f", batch_of(setup, kind, "001", beside)});
    }
  all.push_back({"r1", batch_of("i4=9,i5=9", 'i', "010", "+f0")});
  return all;
}

const registration parts{{
    .name = "parts",
    .formats = all_formats,
    .layouts = {"r1", "r2", "r4", "r2f", "r4s"},
    .widths = {line},
    .letters = "isafec",
    .fillers = n_keys,
    .side_keys = true,
    .synchronized = true,
    .by_parts = true,
    .mutants = {mutant::beside_batches,     mutant::unawaited_bins,   mutant::unawaited_parts,
                mutant::early_opened,       mutant::early_rest,       mutant::kept_bins,
                mutant::bin_one_longer,     mutant::overflow_dropped, mutant::all_inserted,
                mutant::lost_operand,       mutant::whole_last_part,  mutant::unawaited_copy,
                mutant::unawaited_elements, mutant::wrapping_part,    mutant::limit_of_the_table,
                mutant::only_full_left,     mutant::left_unnoticed,   mutant::first_assigned,
                mutant::failed_alone,       mutant::stored_count,     mutant::edge_goes_on,
                mutant::stores_in_block},
    .scenes = {},
    .failures = 0,
    .make = make_model<parts_model>,
    .programs = programs(),
    .long_programs = long_programs(),
}};

}  // namespace
}  // namespace gpuhash::sim
