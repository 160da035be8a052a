// stadium under the explorer: tiny tables, colliding keys with equal and with different info bits, and the invariants of
// layout.hpp.
#include "libgpuhash/drive/sim.hpp"

#include "ops.hpp"
#include "rows.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 12, group_slots = 2;

// Words of the ticket-board, as opposed to keys and values.
u64* board = nullptr;
const stadium_table* table_here = nullptr;
bool is_ticket(const void* p) { return p >= board && p < board + table_here->groups; }
template <class T>
bool is_ticket_word(const T* p) {
  return sizeof(T) == 8 && is_ticket(p);
}
u64 ticket_mask() { return (u64(1) << (1u << table_here->log_bits)) - 1; }

// The accesses of ops.hpp. Most planted mistakes are made here.
struct explored_mem : mem {
  template <order O, class T>
  static T load(const T* p) {
    if constexpr (sizeof(T) == 8)
      if (is_ticket_word(p)) {
        if (GH_MUTANT(relaxed_look)) return mem::load<order::relaxed>(p);
        const T seen = mem::load<O>(p);
        const u32 kd = the_machine.current_kind();
        return GH_MUTANT(dead_ends_path) && (kd == find || kd == count) ? without_dead(seen) : seen;
      }
    return mem::load<O>(p);
  }
  template <order O, class T>
  static T cas(T* p, T expected, T desired) {
    if constexpr (sizeof(T) == 8)
      if (is_ticket_word(p)) {
        const T booked = expected ^ desired;
        if (GH_MUTANT(booked_as_live)) desired |= (booked & table_here->ones) << 1;
        if (GH_MUTANT(state_before_info)) return book_in_two<O>(p, expected, booked);
        if (GH_MUTANT(stored_booking)) return cas_by_store<O>(p, expected, desired);
        if (GH_MUTANT(lost_booking)) return mem::cas<O>(p, expected, desired), expected;
        if (GH_MUTANT(late_booking)) {
          const T now = mem::load<order::relaxed>(p);
          return mem::cas<O>(p, now, T(now | booked)) == now ? expected : T(~expected);
        }
      }
    if (GH_MUTANT(relaxed_lock)) return mem::cas<order::relaxed>(p, expected, desired);
    return mem::cas<O>(p, expected, desired);
  }
  template <order O, class T>
  static void store(T* p, T v) {
    if (GH_MUTANT(relaxed_unlock)) return mem::store<order::relaxed>(p, v);
    mem::store<O>(p, v);
  }
  template <order O, class T>
  static T fetch_or(T* p, T v) {
    if (GH_MUTANT(relaxed_ticket)) return mem::fetch_or<order::relaxed>(p, v);
    if (GH_MUTANT(stored_ticket)) {
      const T seen = mem::load<order::relaxed>(p);
      mem::store<order::release>(p, T(seen | v));
      return seen;
    }
    return mem::fetch_or<O>(p, v);
  }
  template <order O, class T>
  static T fetch_and(T* p, T v) {
    if (GH_MUTANT(cleared_by_erase)) {
      const u32 shift = u32(__builtin_ctzll(~v)) >> table_here->log_bits << table_here->log_bits;
      return mem::fetch_and<O>(p, T(~(ticket_mask() << shift)));
    }
    if (GH_MUTANT(stored_erase)) {
      const T seen = mem::load<order::relaxed>(p);
      mem::store<order::relaxed>(p, T(seen & v));
      return seen;
    }
    return mem::fetch_and<O>(p, v);
  }
  template <order O, class T>
  static T fetch_add(T* p, T v) {
    if (GH_MUTANT(stored_sum)) {
      const T seen = mem::load<order::relaxed>(p);
      mem::store<order::relaxed>(p, T(seen + v));
      return seen;
    }
    return mem::fetch_add<O>(p, v);
  }

 private:
  static u64 without_dead(u64 word) {
    for (u32 i = 0; i < group_slots; ++i)
      if (table_here->state_at(word, i) == dead) word &= ~(ticket_mask() << table_here->shift_of(i));
    return word;
  }
  template <order O>
  static u64 book_in_two(u64* p, u64 expected, u64 booked) {
    const u64 state = booked & table_here->ones;
    const u64 seen = mem::cas<O>(p, expected, expected | state);
    if (seen == expected) mem::fetch_or<order::relaxed>(p, booked);
    return seen;
  }
};

// Some planted mistakes make a path shorter or longer by a line.
void change_path(const stadium_table& t, bool adding, u64* left) {
  const u64 line = u64(1) << t.log_line;
  if (GH_MUTANT(short_path) && !adding && *left > line) *left -= line;
  if (GH_MUTANT(long_path) && adding) *left += line;
}

// The real operation; some planted mistakes deviate where it starts.
template <class S, u32 Kind>
struct explored_op : stadium_op<explored_mem, S, Kind> {
  void begin(const stadium_table& t, u32 kd, typename S::key k, const void* operand, void* out) {
    this->start(t, kd, k, operand, out);
    change_path(t, adds(kd), &this->left);
  }
};

// A wide pair: a key of three words and a value of three, each of which repeats the number that stands for it.
constexpr u32 wide_words = 3;

template <class F>
class stadium_model final : public model {
  using key = typename F::key;
  using value = typename F::value;
  using small = small_pair<key, F::has_value ? sizeof(value) : 0>;

 public:
  // t8, t4, t2: bits of a ticket. l8: paths of two of the three groups. A trailing c: counters are kept in memory, as
  // drivers do. w8: wide keys and values. r8: rows behind a bus. j8, k8: two lines of eight, or four, groups, of which three
  // are in use: as paths go, the first and the last of the first line and the last of the second.
  void build(const std::string& layout, u64 seed) override {
    wide_ = layout[0] == 'w';
    rows_ = layout[0] == 'r';
    const u32 key_bytes = wide_ ? 4 * wide_words : sizeof(key);
    const u32 value_bytes = wide_ ? 4 * wide_words : F::has_value ? sizeof(value) : 0;
    const slot_shape shape = (rows_ ? row_shape_of : shape_of)(key_bytes, value_bytes);
    t_ = {};
    t_.log_bits = layout[1] == '8' ? 3 : layout[1] == '4' ? 2 : 1;
    t_.log_line = layout[0] == 'j' ? 3 : layout[0] == 'k' ? 2 : 0;
    t_.log_tickets = 6 - t_.log_bits;
    t_.seed = seed;
    t_.groups = t_.log_line ? 2 << t_.log_line : 3;
    t_.path_limit = layout[0] == 'l' ? 2 : t_.groups;
    t_.ones = ~u64(0) / ((u64(1) << (1u << t_.log_bits)) - 1);
    t_.key_bytes = key_bytes;
    t_.value_bytes = value_bytes;
    t_.value_at = shape.value_at;
    t_.stride = shape.stride;
    t_.tickets = the_machine.place<u64>(u32(t_.groups));
    t_.place_slots(the_machine.place<unsigned char>(u32(t_.cells()) * t_.stride));
    t_.nothing = the_machine.place<unsigned char>(16);
    t_.by_rows = rows_;
    t_.lock_mask = 0;  // one lock, for which all keys compete
    t_.locks = the_machine.place<u32>(1);
    *t_.locks = 0;
    board = t_.tickets;
    table_here = &t_;
    // Groups of two slots: the tickets behind them have been dead for ever.
    for (u32 g = 0; g < t_.groups; ++g) {
      t_.tickets[g] = 0;
      for (u32 i = used(g) ? group_slots : 0; i < 1u << t_.log_tickets; ++i)
        t_.tickets[g] |= u64(dead) << t_.shift_of(i);
    }
    counted_ = layout.back() == 'c';
    if (counted_) counters_.place();
    choose_keys();
  }

  reply run(const op& o) override {
    if (rows_) return o.by_mixed || (o.kind != find && o.kind != count) ? serve_rows<mixed>(o) : serve_rows<find>(o);
    if (!wide_) return serve_key<small>(o, keys_[o.key]);
    u32 words[wide_words];
    for (u32& w : words) w = u32(keys_[o.key]);
    return serve_key<wide_pair>(o, static_cast<const u32*>(words));
  }

  std::optional<u64> stored(u32 k) const override {
    for (u32 c = 0; c < t_.groups * group_slots; ++c)
      if (used(c / group_slots) && state(c) == live && key_at(c) == keys_[k]) return value_at(c);
    return {};
  }

  std::string check() const override {
    for (u32 c = 0; c < t_.groups * group_slots; ++c) {
      const u32 g = c / group_slots;
      if (!used(g)) continue;
      const std::string where = "slot " + std::to_string(c);
      if (state(c) == never && ticket(c)) return "I1: " + where + " was never booked and has info bits";
      if (state(c) == busy) return "I1: " + where + " is busy after the end";
      if (state(c) == never) continue;
      const u64 h = hash_of(key_at(c));
      if ((t_.live_ticket(h) & ticket_mask()) >> state_bits != ticket(c) >> state_bits)
        return "I1: the info bits of " + where + " are not those of key " + name(key_at(c));
      u64 at = t_.home(h);
      for (u64 left = t_.path_limit; at != g;) {
        if (left == 1) return "I4: key " + name(key_at(c)) + " lies beyond its path in " + where;
        if (has_room(u32(at)))
          return "I2: group " + std::to_string(at) + " has room before key " + name(key_at(c)) + " in " + where;
        at = t_.after(at, t_.stride_of(h), --left);
      }
      for (u32 o = 0; o < c; ++o)
        if (used(o / group_slots) && state(c) == live && state(o) == live && key_at(o) == key_at(c))
          return "I3: slots " + std::to_string(o) + " and " + std::to_string(c) + " both hold key " + name(key_at(c));
    }
    return broken_history_;
  }

  std::string room_left(const op& o) const override {
    const u64 h = hash_of(keys_[o.key]);
    u64 at = t_.home(h);
    for (u64 left = t_.path_limit; left;) {
      if (has_room(u32(at))) return "group " + std::to_string(at) + " has room for key " + name(keys_[o.key]);
      at = t_.after(at, t_.stride_of(h), --left);
    }
    return stored(o.key) ? "the key is there" : "";
  }

  std::pair<long, long> holds() const override {
    long n_live = 0;
    long n_used = 0;
    for (u32 c = 0; c < t_.groups * group_slots; ++c) {
      if (!used(c / group_slots)) continue;
      n_live += state(c) == live;
      n_used += state(c) != never;
    }
    return {n_live, n_used};
  }

  // I1: what may follow what.
  void begin_run() override { broken_history_.clear(); }
  void on_write(const void* p, u128 old) override {
    if (!broken_history_.empty()) return;
    if (is_ticket(p)) {
      const u32 g = u32(static_cast<const u64*>(p) - t_.tickets);
      for (u32 i = 0; i < 1u << t_.log_tickets; ++i) {
        const u64 was = old.lo >> t_.shift_of(i) & ticket_mask();
        const u64 is = t_.tickets[g] >> t_.shift_of(i) & ticket_mask();
        const bool books = was == 0 && (is & 3) == busy;
        const bool goes_on = was >> state_bits == is >> state_bits &&
                             (((was & 3) == busy && (is & 3) == live) || ((was & 3) == live && (is & 3) == dead));
        if (was != is && !books && !goes_on)
          broken_history_ = "I1: a ticket of group " + std::to_string(g) + " went from " + std::to_string(was) +
                            " to " + std::to_string(is);
      }
      return;
    }
    const u64 byte = u64(static_cast<const unsigned char*>(p) - t_.slots);
    if (p < t_.slots || byte >= t_.cells() * t_.stride) return;
    const u64 cell = byte / t_.stride;
    const u64 word = t_.tickets[cell >> t_.log_tickets];
    const u32 now = t_.state_at(word, u32(cell & ((1u << t_.log_tickets) - 1)));
    const bool of_key = byte % t_.stride < t_.key_bytes;
    if (of_key ? now != busy : now == never)
      broken_history_ = "I1: " + where(p) + " is written in state " + std::to_string(now);
  }

  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }
  std::string check_counters() const override { return counted_ ? counters_.check(holds()) : ""; }

  std::string draw() const override {
    std::string s;
    for (u32 c = 0; c < t_.groups * group_slots; ++c) {
      static constexpr char mark[] = ".?x ";
      if (!used(c / group_slots)) continue;
      s += c % group_slots ? " " : c ? " | " : "";
      if (state(c) != live) s += mark[state(c)];
      if (state(c) == never || state(c) == busy) continue;
      s += name(key_at(c));
      if (state(c) == live && t_.value_bytes) s += "=" + std::to_string(value_at(c));
    }
    return s;
  }
  std::string where(const void* p) const override {
    if (is_ticket(p)) return "tickets " + std::to_string(static_cast<const u64*>(p) - t_.tickets);
    const u64 byte = u64(static_cast<const unsigned char*>(p) - t_.slots);
    if (p >= t_.slots && byte < t_.cells() * t_.stride) {
      const u64 cell = byte / t_.stride;
      const u64 group = cell >> t_.log_tickets;
      const u64 slot = group * group_slots + (cell & ((1u << t_.log_tickets) - 1));
      return (byte % t_.stride < t_.key_bytes ? "key " : "value ") + std::to_string(slot);
    }
    if (p == t_.locks) return "lock";
    return p == counters_.live ? "live" : "used";
  }
  std::string show(const void* p, u128 w) const override {
    if (!is_ticket(p)) return std::to_string((long long)w.lo);
    std::string s;
    for (u32 i = 0; i < group_slots; ++i) {
      const u64 one = w.lo >> t_.shift_of(i) & ticket_mask();
      static constexpr const char* const states[] = {"never", "busy", "dead", "live"};
      s += (i ? " " : "") + std::string(states[one & 3]);
      if (one >> state_bits) s += ":" + std::to_string(one >> state_bits);
    }
    return s;
  }

 private:
  template <class S>
  reply serve_key(const op& o, typename S::key k) {
    if (o.by_mixed) return serve_as<S, mixed>(o, k);
    switch (o.kind) {
      case insert: return serve_as<S, insert>(o, k);
      case find:
      case count:
        if constexpr (S::wide)
          return serve_as<S, find>(o, k);
        else
          return serve_look<S>(o, k);
      default: return serve_as<S, mixed>(o, k);  // what the drivers do
    }
  }
  template <class S, u32 Kind>
  reply serve_as(const op& o, typename S::key k) {
    u32 operand[wide_words] = {};
    u32 answer[wide_words] = {};
    value small_operand = value(o.value);
    value small_answer = 0;
    for (u32& w : operand) w = u32(o.value);
    explored_op<S, Kind> run;
    run.begin(t_, o.kind, k, S::wide ? static_cast<void*>(operand) : &small_operand,
              !in_kinds(o.kind, answering_kinds) ? nullptr
              : S::wide                          ? static_cast<void*>(answer)
                                                 : &small_answer);
    while (run.step(t_, joiner{}) != verdict::done) {
    }
    const auto& r = run.res;
    if (S::wide)
      for (u32 w : answer)
        if (w != answer[0]) the_machine.fail("a wide value was found in pieces of two");
    const u64 found = S::wide ? answer[0] : small_answer;
    return {r.status, r.live, r.used, o.kind == count ? u64(r.status == yes) : found};
  }

  // A find of a small key, as the CPU's driver carries it out.
  template <class S>
  reply serve_look(const op& o, typename S::key k) {
    if (t_.has_lines_of(8))
      return serve_look_by<S, stadium_line_look<explored_mem, S, word_by_word<explored_mem, 8>>>(o, k);
    if (t_.has_lines_of(4))
      return serve_look_by<S, stadium_line_look<explored_mem, S, word_by_word<explored_mem, 4>>>(o, k);
    return serve_look_by<S, stadium_look<explored_mem, S>>(o, k);
  }
  template <class S, class Look>
  reply serve_look_by(const op& o, typename S::key k) {
    stadium_visit<S> v;
    v.start(t_, k);
    change_path(t_, false, &v.left);
    const auto answer = [&](bool found, value got) {
      return reply{found ? yes : no, 0, 0, o.kind == count ? u64(found) : found ? u64(got) : 0};
    };
    for (;;) {
      Look seen;
      seen.look(t_, v);
      value got = 0;
      if (seen.finds(t_, k, &got)) return answer(true, S::value_size ? got : value(0));
      if (seen.absent) return answer(false, 0);
      bool found = false;
      value rest = 0;
      if (seen.rest(t_, v, &rest, &found) == verdict::done) return answer(found, rest);
    }
  }

  // By the kernels of rows, as batches in order of windows are: tickets first. Those of mixed kernels come as they are.
  template <u32 Kind>
  reply serve_rows(const op& o) {
    const key k = keys_[o.key];
    value found = 0;
    row_op<explored_mem, Kind> run;
    start_rows(run, o);
    if (!o.by_mixed) {
      verdict d;
      do d = run.look_ahead(t_);
      while (d == verdict::next);
      if (d == verdict::done) return {no, 0, 0, 0};
      start_rows(run, o);
    }
    while (!run.done) {
      const wish w = run.look(t_);
      if (w == wish::compare) run.compared(t_, row_is_of(run.cell(t_), k, &found));
      if (w == wish::update && run.lock(t_)) {
        const u64 before = o.kind == accumulate ? run.value(t_) : 0;
        run.unlock(t_, run.changed(t_, before, o.value, joiner{}));
        run.updated();
      }
      if (w == wish::write) {
        write_row(run.cell(t_), k, value(o.value));
        found = value(o.value);  // which the driver copies then
        run.publish(t_);
      }
    }
    const auto& r = run.res;
    const u64 answer = o.kind == count ? u64(r.status == yes) : answers_with(o.kind, r.status) ? u64(found) : 0;
    return {r.status, r.live, r.used, answer};
  }
  template <class Op>
  void start_rows(Op& run, const op& o) {
    run.start(t_, o.kind, hash_of(keys_[o.key]));
    change_path(t_, adds(o.kind), &run.left);
  }
  // A row is no snapshot. Where the value has 8 bytes all accesses have.
  bool row_is_of(u64 cell, key k, value* found) {
    const unsigned char* const row = t_.slots + cell * t_.stride;
    unsigned char bytes[16] = {};
    for (u32 at = 0; at < t_.key_bytes + t_.value_bytes; at += t_.value_bytes == 8 ? 8 : 4)
      if (t_.value_bytes == 8) {
        const u64 w = explored_mem::load<order::relaxed>(reinterpret_cast<const u64*>(row + at));
        memcpy(bytes + at, &w, 8);
      } else {
        const u32 w = explored_mem::load<order::relaxed>(reinterpret_cast<const u32*>(row + at));
        memcpy(bytes + at, &w, 4);
      }
    if (t_.value_bytes) memcpy(found, bytes + t_.value_at, sizeof(value));
    return memcmp(bytes, &k, sizeof(key)) == 0;
  }
  void write_row(u64 cell, key k, value v) {
    unsigned char* const row = t_.slots + cell * t_.stride;
    unsigned char bytes[16] = {};
    memcpy(bytes, &k, sizeof(key));
    if (t_.value_bytes) memcpy(bytes + t_.value_at, &v, sizeof(value));
    for (u32 at = 0; at < t_.key_bytes + t_.value_bytes; at += t_.value_bytes == 8 ? 8 : 4)
      if (t_.value_bytes == 8) {
        u64 w;
        memcpy(&w, bytes + at, 8);
        explored_mem::store<order::relaxed>(reinterpret_cast<u64*>(row + at), w);
      } else {
        u32 w;
        memcpy(&w, bytes + at, 4);
        explored_mem::store<order::relaxed>(reinterpret_cast<u32*>(row + at), w);
      }
  }

  bool used(u32 group) const { return !t_.log_line || group <= 1 || group == u64(1) << t_.log_line; }
  u64 ticket(u32 c) const { return t_.tickets[c / group_slots] >> t_.shift_of(c % group_slots) & ticket_mask(); }
  u32 state(u32 c) const { return u32(ticket(c)) & 3; }
  bool has_room(u32 g) const {
    for (u32 i = 0; i < group_slots; ++i)
      if (t_.state_at(t_.tickets[g], i) == never) return true;
    return false;
  }
  const unsigned char* slot(u32 c) const { return t_.slot(c / group_slots, c % group_slots); }
  key key_at(u32 c) const {
    if (wide_) return *reinterpret_cast<const u32*>(slot(c));
    return *reinterpret_cast<const key*>(slot(c));
  }
  u64 value_at(u32 c) const {
    const unsigned char* const at = slot(c) + t_.value_at;
    if (t_.value_bytes == 0) return 0;
    return t_.value_bytes == 8 ? *reinterpret_cast<const u64*>(at) : *reinterpret_cast<const u32*>(at);
  }
  u64 hash_of(key k) const {
    if (!wide_) return small::hash_of(t_, k);
    u32 words[wide_words];
    for (u32& w : words) w = u32(k);
    return wide_pair::hash_of(t_, words);
  }

  // Keys 0 and 1 have the same path and the same info bits, key 2 has the same path and (if there are any) other info bits,
  // key 3 begins elsewhere; and so on.
  void choose_keys() {
    key candidate = 1;
    for (u32 i = 0; i < n_keys; ++i)
      for (;; ++candidate) {
        const u64 h = hash_of(candidate);
        const bool same_info = t_.live_ticket(h) == t_.live_ticket(hash_of(keys_[0]));
        const bool same_path = t_.home(h) == 1 && t_.stride_of(h) == u64(1) << t_.log_line;
        const bool has_info = t_.log_bits > 1;
        const bool fits = i == 0       ? same_path
                          : i % 4 == 2 ? same_path && same_info != has_info
                          : i % 4 == 3 ? t_.home(h) == 2
                                       : same_path && same_info;
        if (!fits) continue;
        keys_[i] = candidate++;
        break;
      }
  }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }

  stadium_table t_;
  key keys_[n_keys] = {};
  bool wide_ = false;
  bool rows_ = false;
  bool counted_ = false;
  counters counters_;
  std::string broken_history_;
};

std::vector<scene> scenes() {
  return {
      {"empty, equal info", "t8", "", {0, 1}, {{0, 0}}, "iafe", 2},
      {"empty, other info", "t8", "", {0, 2}, {{0, 0}}, "ife", 2},
      {"present", "t8", "i2=9,i0=8", {0, 1}, {{0, 0}}, "isafe", 2},
      {"erased", "t8", "i0=8,e0", {0, 1}, {{0, 0}}, "ife", 2},
      {"erased and back", "t8", "i0=8,e0,i0=7", {0, 2}, {{0, 0}}, "ife", 2},
      {"near full", "t8", "i2=9,i4=9,i5=9,i6=9", {0, 1}, {{0, 0}}, "ife"},
      {"near full, dead", "t8", "i2=9,i4=9,e4,i0=8,e0", {0, 1}, {{0, 0}}, "ife", 2},
      {"full", "t8", "i2=9,i4=9,i5=9,i6=9,i8=9,i9=9", {0, 1}, {{0, 0}}, "ife"},
      {"full, present", "t8", "i2=9,i4=9,i5=9,i0=8,i8=9,i9=9", {0, 1}, {{0, 0}}, "iafe", 2},
      {"end of paths", "l8", "i2=9,i4=9,i5=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"narrow tickets", "t4", "i2=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"states only", "t2", "i2=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"wide", "w8", "i2=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"rows", "r8", "i2=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"rows, present", "r8", "i0=8,i1=7", {0, 1}, {{0, 0}}, "safe", 1},
      {"lines", "j8", "i2=9", {0, 1}, {{0, 0}}, "ife", 2},
      {"lines, present", "j8", "i1=9,i0=8", {0, 1}, {{0, 0}}, "iafe", 2},
      {"lines, second one", "j8", "i2=9,i4=9,i5=9,i6=9", {0, 1}, {{0, 0}}, "ife"},
      {"lines, present in the second", "j8", "i2=9,i6=9,i4=9,e4,i5=9,e5,i0=8", {0, 1}, {{0, 0}}, "iafe", 1},
      {"shorter lines", "k8", "i2=9,i4=9,i5=9,i6=9,i0=8", {0, 1}, {{0, 0}}, "ife"},
      {"pop", "t8x", "i2=9,i0=8", {0, 1}, {{0, 0}}, "pie", 1},
      {"pop, wide", "w8x", "i0=8", {0, 1}, {{0, 0}}, ""},
      {"pop, rows", "r8x", "i0=8,i1=7", {0, 1}, {{0, 0}}, ""},
      {"counted", "t8c", "i0=8", {0, 1}, {{0, 0}}, "ife", 2},
  };
}

const registration stadium{{
    .name = "stadium",
    .formats = all_formats,
    .layouts = {"t8", "t4", "t2", "l8", "t8c", "w8", "r8", "j8", "k8", "t8x", "w8x", "r8x"},
    .widths = {0},
    .letters = "isafeco",
    .fillers = n_keys,
    .side_keys = false,
    .mutants = {mutant::booked_as_live,      mutant::state_before_info,
                mutant::rebooked_slot,       mutant::cleared_by_erase,
                mutant::dead_ends_path,      mutant::stadium_no_wait,
                mutant::stadium_info_is_key, mutant::stadium_blind_erase,
                mutant::relaxed_ticket,      mutant::relaxed_look,
                mutant::stored_booking,      mutant::stored_ticket,
                mutant::stored_erase,        mutant::lost_booking,
                mutant::late_booking,        mutant::stored_sum,
                mutant::short_path,          mutant::long_path,
                mutant::first_match_only,    mutant::hasty_look,
                mutant::settled_unseen,      mutant::rows_first_match_only,
                mutant::unlocked_value,      mutant::unlocked_assign,
                mutant::relaxed_lock,        mutant::relaxed_unlock,
                mutant::full_line_ends_path, mutant::forgotten_line},
    .scenes = scenes(),
    .failures = 0,
    .make = make_model<stadium_model>,
    .programs = {},
    .triple_formats = {"pair32"},
    .letters_in = {{"w8", "ifeco"}, {"t8x", "ifecpo"}, {"w8x", "ifecpo"}, {"r8x", "ifecpo"}},
}};

}  // namespace
}  // namespace gpuhash::sim
