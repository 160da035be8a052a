// The CPU driver's combining of equal keys.
//
// Skewed keys: they are combined before they reach the table, in a cache of one thread. Frequent keys then cost what
// reading them costs, and no slot is written again and again, by one thread or by several.
//
// An element follows its leader, the one that brought its key into the cache, or it is a leader itself. Leaders go to the
// table, in batches which the driver serves. A follower takes effect right after its leader, so its key was there. Where a
// leader found no room, nothing of it or its followers has happened, and all of them say so: a retry serves them one by
// one. Floats are added to each other first, but for those so large that their sum might leave the range where the stored
// value would have kept it inside: such an element is its own leader.
//
// It is long, and wide instructions bring it nothing: skewed batches take as long where it is compiled for AVX-512. So one
// object of a module has it for all: every one that is not built for a wide instruction set, of which there is one
// (docs/plugins.md).
#pragma once
#include <memory>
#include <new>

#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/host.hpp"

namespace gpuhash {

// The function that carries out a slice of a batch, of whichever driver. Hidden, or the compiler would make copies of its
// own; and always inlined, so that no object has a function of it that another could take over.
class part_server {
  using call = totals (*)(const void* serve, const request& q, size_t begin, size_t end);
  call call_;
  const void* serve_;

 public:
  template <class Serve>
  [[gnu::always_inline]] explicit part_server(const Serve& serve)
      : call_([](const void* of, const request& q, size_t begin, size_t end) {
          return (*static_cast<const Serve*>(of))(q, begin, end);
        }),
        serve_(&serve) {
    asm("" : "+r"(call_));
  }
  [[gnu::always_inline]] totals operator()(const request& q, size_t begin, size_t end) const {
    return call_(serve_, q, begin, end);
  }
};

// Elements begin .. end - 1 of a batch, for a table with keys of KeyBytes and values of ValueBytes (0: none), of which the
// parts where that pays go through a cache; all, if `always`. serve(request, begin, end) carries a part out.
template <unsigned KeyBytes, unsigned ValueBytes>
[[gnu::used, gnu::noinline]] totals serve_combined(const request& q, unsigned kind, bool always, bool* may_be_few,
                                                   size_t begin, size_t end, part_server serve);

}  // namespace gpuhash

#define GH_HAS_A_NARROWER_avx2 1
#define GH_HAS_A_NARROWER_avx512 1
#if !GH_PASTE(GH_HAS_A_NARROWER_, GPUHASH_ISA)

GH_BEGIN

template <u32 KeyBytes, u32 ValueBytes>
struct combined_format {
  using key = std::conditional_t<KeyBytes == 8, u64, u32>;
  using value = std::conditional_t<ValueBytes == 8, u64, u32>;
  static constexpr bool has_value = ValueBytes != 0;
};

// run(may, join_them) for a batch. may(a, b): may operands a and b be joined by join_them(a, b) before they reach the table?
template <class F, class Run>
auto by_joining(const request& q, u32 kind, Run run) {
  using value = typename F::value;
  constexpr auto any_may = [](value, value) { return true; };
  const joiner how = joiner_of(q);
  if (kind == insert || !F::has_value)  // without values there is nothing to join
    return run(any_may, [](value kept, value) { return kept; });
  if (kind == assign) return run(any_may, [](value, value given) { return given; });
  if (adds_integers(how)) return run(any_may, [](value a, value b) { return value(a + b); });
  if (how.combine != 0) return run(any_may, [how](value a, value b) { return join_operands(how, a, b); });
  const auto adding = [&](auto narrow) {
    static constexpr joiner adds{0, 2, decltype(narrow)::value};
    return run([](value sum, value v) { return bool(int(may_join_first(adds, sum)) & int(may_join_first(adds, v))); },
               [](value sum, value v) { return join(adds, sum, v); });
  };
  return how.narrow ? adding(std::true_type{}) : adding(std::false_type{});
}

// One multiplication is not enough: keys may be numbers that the caller has multiplied to scatter them.
GH_FN u64 mixed_for_cache(u64 k) {
  u64 h = k * 0xbf58476d1ce4e5b9ull;
  h ^= h >> 32;
  return h * 0x94d049bb133111ebull;
}

// Elements from one clearing of a cache to the next.
inline constexpr u32 most_in_cache = tunable("cached", 1u << 15), most_in_cache_of_few = tunable("few", 1u << 17);

// Leaders on their way to the table, and what it says of them. Elements are counted from where a cache begins.
template <class F, u32 Most>
class batch_of_leaders {
 protected:
  using key = typename F::key;
  using value = typename F::value;
  static constexpr u32 room = tunable("leaders", 2048u), step = tunable("leaders_step", 512u);

  void start() {
    sum_ = {};
    any_failed_ = false;
  }

  // The batch of leaders goes to the table, and gets their statuses. 0: no element is in it now.
  [[gnu::noinline]] u32 leave(const request& q, size_t begin, u32 out, part_server serve) {
    if (!out) return 0;
    request r = q;
    r.n = out;
    r.n_there = nullptr;
    r.keys = key_;
    r.key_bytes = sizeof(key);
    r.values = q.values ? narrowed(q.value_bytes, out) : nullptr;
    r.status = status_;
    const totals part = serve(r, size_t(0), size_t(out));
    sum_.live += part.live, sum_.used += part.used, sum_.yes += part.yes, sum_.failed += part.failed;
    for (u32 i = 0; i < out && q.status; ++i) q.status[begin + leader_[i]] = status_[i];
    if (part.failed) {
      if (!any_failed_) __builtin_memset(said_, no, sizeof(said_));
      any_failed_ = true;
      for (u32 i = 0; i < out; ++i) said_[leader_[i]] = status_[i];
    }
    return 0;
  }

  // Among the first n elements, those that follow leader_of(j) get the leader's status if that is a failure.
  template <class LeaderOf>
  void tell_followers(const request& q, size_t begin, u32 n, LeaderOf leader_of) {
    for (u32 j = 0; j < n && any_failed_; ++j) {
      const u32 leader = leader_of(j);
      const u8 said = leader == j ? u8(no) : said_[leader];
      if (said <= yes) continue;
      if (q.status) q.status[begin + j] = said;
      ++sum_.failed;
    }
  }

  totals sum_;
  bool any_failed_;
  key key_[room];
  value value_[room];
  u32 leader_[room];

 private:
  // The values in the width of the caller's.
  const void* narrowed(u32 bytes, u32 n) {
    if (bytes == sizeof(value)) return value_;
    u32* const narrow = reinterpret_cast<u32*>(narrow_);
    for (u32 i = 0; i < n; ++i) narrow[i] = u32(value_[i]);
    return narrow;
  }

  alignas(8) u8 narrow_[sizeof(value) == 8 ? 4 * room : 8];
  u8 status_[room];
  u8 said_[Most];  // of each leader, once any has failed
};

// Any keys. The cache has one place for each of some thousands of keys, and the latest key takes a place. An element
// whose key is in its place follows the element that brought the key there; any other element takes the place for its
// own key. A key that loses its place, and every key that has one at the end, goes to the table.
template <class F>
class cache_of_equals : batch_of_leaders<F, most_in_cache> {
  using base = batch_of_leaders<F, most_in_cache>;
  using base::room, base::step, base::key_, base::value_, base::leader_;
  using typename base::key, typename base::value;

 public:
  static constexpr u32 most = most_in_cache;

  // How many of the first elements of begin .. begin + n - 1 repeat a key, as a share of them. Keys are distinguished
  // by the bits that they are hashed to.
  static double repeating(const request& q, size_t begin, u32 n) {
    constexpr u32 log_bits = 16;
    u64 seen[(1u << log_bits) / 64] = {};
    const u32 some = n < 512 ? n : n < 512 * 16 ? 512 : n < most ? n / 16 : most / 16;
    u32 repeats = 0;
    for (u32 j = 0; j < some; ++j) {
      const u32 h = u32(mixed_for_cache(read_key<F>(q, begin + j)) >> (64 - log_bits));
      repeats += u32(seen[h / 64] >> h % 64 & 1);
      seen[h / 64] |= u64(1) << h % 64;
    }
    return double(repeats) / some;
  }

  // Carry out begin .. begin + n - 1, `most` at most, by serve(request, begin, end).
  totals run(const request& q, u32 kind, size_t begin, u32 n, part_server serve) {
    return by_joining<F>(q, kind, [&](auto may, auto join_them) { return run_by(q, begin, n, may, join_them, serve); });
  }

 private:
  static constexpr u32 log_places = tunable("log_cached", 13u);
  static_assert(step % 4 == 0 && (1u << log_places) % step == 0 && step <= room);  // places are emptied by fours
  static constexpr uint16_t no_leader = 0xffff;
  struct place {
    key k;
    value v;
  };

  template <class May, class Join>
  totals run_by(const request& q, size_t begin, u32 n, May may, Join join_them, part_server serve) {
    this->start();
    if (q.status) __builtin_memset(q.status + begin, no, n);
    __builtin_memset(holder_, 0xff, sizeof(holder_));
    u32 out = 0;
    bool foreseen = false;  // nearly all elements follow, and the processor knows
    for (u32 j = 0; j < n; j += step) {
      const u32 many = n - j < step ? n - j : step;
      const u32 before = out;
      out = foreseen ? take_followers(q, begin, j, many, out, may, join_them)
                     : take_any(q, begin, j, many, out, may, join_them);
      foreseen = out - before < many / 16;
      if (out > room - step) out = this->leave(q, begin, out, serve);
    }
    for (u32 at = 0; at < 1u << log_places; at += step) {
      for (u32 i = at; i < at + step; i += 4) {
        u64 four;
        static_assert(sizeof(four) == 4 * sizeof(holder_[0]));
        __builtin_memcpy(&four, holder_ + i, sizeof(four));
        if (four == ~u64(0)) continue;  // these places are empty
        for (u32 j = i; j < i + 4; ++j) out = put_out(j, out);
      }
      if (out > room - step) out = this->leave(q, begin, out, serve);
    }
    this->leave(q, begin, out, serve);
    this->tell_followers(q, begin, n, [this](u32 j) { return u32(leads_[j]); });
    return this->sum_;
  }

  GH_FN static u32 place_of(key k) { return u32(mixed_for_cache(k) >> (64 - log_places)); }
  // The key in place number `at` goes to the table, unless the place is empty.
  GH_FN u32 put_out(u32 at, u32 out) {
    key_[out] = places_[at].k, value_[out] = places_[at].v, leader_[out] = holder_[at];
    return out + (holder_[at] != no_leader);
  }

  // n elements, of which the first is number `first`, go to the cache, and the keys whose places they take are appended
  // to the batch. Here nearly all of them follow others, and the processor foresees it.
  template <class May, class Join>
  [[gnu::noinline]] u32 take_followers(const request& given, size_t begin, u32 first, u32 n, u32 out, May may,
                                       Join join_them) {
    const request q = given;  // the compiler knows that no other code writes to it
    for (u32 j = first; j < first + n; ++j) {
      const key k = host_read_once(read_key<F>(q, begin + j));
      const value v = host_read_once(read_value<F>(q, begin + j));
      const u32 at = place_of(k);
      place& p = places_[at];
      const uint16_t leader = holder_[at];
      if (__builtin_expect(int(p.k == k) & int(leader != no_leader) & int(may(p.v, v)), 1)) {
        p.v = join_them(p.v, v);
        leads_[j] = leader;
        continue;
      }
      out = put_out(at, out);
      p.k = k, p.v = v;
      holder_[at] = leads_[j] = uint16_t(j);
    }
    return out;
  }
  // The processor cannot predict which element follows a leader here, so that there is no branch on it.
  template <class May, class Join>
  [[gnu::noinline]] u32 take_any(const request& given, size_t begin, u32 first, u32 n, u32 out, May may,
                                 Join join_them) {
    const request q = given;
    for (u32 j = 0; j < n; ++j) now_key_[j] = read_key<F>(q, begin + first + j);
    for (u32 j = 0; j < n; ++j) now_value_[j] = read_value<F>(q, begin + first + j);
    asm volatile("" : : "r"(this) : "memory");  // from here on the caller's arrays are not read again
    for (u32 j = 0; j < n; ++j) now_place_[j] = uint16_t(place_of(now_key_[j]));
    for (u32 j = 0; j < n; ++j) {
      const key k = now_key_[j];
      const value v = now_value_[j];
      const u32 at = now_place_[j];
      place& p = places_[at];
      // One by one: a load of both would wait until both have reached the cache.
      const key was = host_read_once(p.k);
      const value operand = host_read_once(p.v);
      const u32 leader = holder_[at];
      const bool full = leader != no_leader;
      bool follows = int(was == k) & int(full) & int(may(operand, v));
      asm("" : "+r"(follows));
      key_[out] = was, value_[out] = operand, leader_[out] = leader;
      out += int(full) & int(!follows);
      const u64 old = u64(0) - u64(follows);
      p.k = k;
      p.v = value((u64(join_them(operand, v)) & old) | (u64(v) & ~old));
      holder_[at] = leads_[first + j] = uint16_t((leader & old) | ((first + j) & ~old));
    }
    return out;
  }

  place places_[1u << log_places];
  uint16_t holder_[1u << log_places];  // the leader whose place it is, counted from `begin`; or no_leader
  // Elements on their way to it.
  key now_key_[step];
  value now_value_[step];
  uint16_t now_place_[step];
  uint16_t leads_[most];  // the leader of each element: the element itself, if it follows none
};

// Few keys, each of them many times. A key keeps its place, so that it goes to the table once for all of its elements,
// however many there are, and later elements take a branch that the processor predicts. When the cache has as many keys
// as it takes, elements of other keys go to the table one by one.
template <class F>
class cache_of_few : batch_of_leaders<F, most_in_cache_of_few> {
  using base = batch_of_leaders<F, most_in_cache_of_few>;
  using base::room, base::step, base::key_, base::value_, base::leader_;
  using typename base::key, typename base::value;

 public:
  static constexpr u32 most = most_in_cache_of_few;
  static constexpr u32 most_keys =
      tunable("keys_of_few", 3u << 11);  // three eighths of the places: hardly any key is far from its own

  cache_of_few() { __builtin_memset(holder_, 0xff, sizeof(holder_)); }

  // Carry out begin .. begin + *n - 1, `most` at most, by serve(request, begin, end); or so many of them, which *n says
  // then, if they have too many keys after all.
  totals run(const request& q, u32 kind, size_t begin, u32* n, part_server serve) {
    return by_joining<F>(q, kind, [&](auto may, auto join_them) { return run_by(q, begin, n, may, join_them, serve); });
  }

 private:
  static constexpr u32 log_places = tunable("log_few", 14u);
  static constexpr u32 no_leader = ~u32(0);
  static constexpr uint16_t itself = 0xffff;
  struct place {
    key k;
    value v;
  };

  template <class May, class Join>
  totals run_by(const request& q, size_t begin, u32* n, May may, Join join_them, part_server serve) {
    this->start();
    u32 out = 0;
    u32 j = 0;
    for (bool many_alone = false; j < *n && !many_alone;) {
      const u32 many = *n - j < step ? *n - j : step;
      const u32 before = out;
      if (q.status) __builtin_memset(q.status + begin + j, no, many);
      out = take(q, begin, j, many, out, may, join_them);
      many_alone = out - before > many / 16;
      j += many;
      if (out > room - step) out = this->leave(q, begin, out, serve);
    }
    *n = j;
    for (u32 i = 0; i < taken_; ++i) {
      const place& p = places_[place_[i]];
      key_[out] = p.k, value_[out] = p.v, leader_[out] = holder_[place_[i]];
      if (++out == room) out = this->leave(q, begin, out, serve);
    }
    this->leave(q, begin, out, serve);
    this->tell_followers(q, begin, j, [this](u32 e) { return leads_[e] == itself ? e : holder_[leads_[e]]; });
    for (u32 i = 0; i < taken_; ++i) holder_[place_[i]] = no_leader;
    taken_ = 0;
    return this->sum_;
  }

  // Elements from number `first` on, as long as each has the key of the one before: sorted keys, or one key only.
  // Returns the number of the first element with another key, which is read again.
  template <class May, class Join>
  GH_FN u32 follow_last(const request& q, size_t begin, u32 first, u32 end, May may, Join join_them) {
    if (!first || leads_[first - 1] == itself) return first;
    const uint16_t at = leads_[first - 1];
    const key k = places_[at].k;
    value sum = places_[at].v;
    u32 j = first;
    for (; j < end; ++j) {
      const value v = host_read_once(read_value<F>(q, begin + j));
      if (host_read_once(read_key<F>(q, begin + j)) != k || !may(sum, v)) break;
      sum = join_them(sum, v);
      leads_[j] = at;
    }
    places_[at].v = sum;
    return j;
  }
  // n elements, of which the first is number `first`. Elements whose keys have no place in the cache are appended to
  // the batch.
  template <class May, class Join>
  [[gnu::noinline]] u32 take(const request& given, size_t begin, u32 first, u32 n, u32 out, May may, Join join_them) {
    const request q = given;  // the compiler knows that no other code writes to it
    for (u32 j = follow_last(q, begin, first, first + n, may, join_them); j < first + n; ++j) {
      const key k = host_read_once(read_key<F>(q, begin + j));
      const value v = host_read_once(read_value<F>(q, begin + j));
      const u32 at = place_of(k);
      place& p = places_[at];
      leads_[j] = uint16_t(at);
      if (__builtin_expect(int(holder_[at] != no_leader) & int(may(p.v, v)), 1)) {
        p.v = join_them(p.v, v);
      } else if (int(holder_[at] == no_leader) & int(taken_ < most_keys) & int(may(v, v))) {
        p.k = k, p.v = v;
        holder_[at] = j;
        place_[taken_++] = uint16_t(at);
      } else {
        key_[out] = k, value_[out] = v, leader_[out] = j;
        leads_[j] = itself;
        ++out;
      }
    }
    return out;
  }
  // The place that k has, or else the one that it may take.
  GH_FN u32 place_of(key k) const {
    u32 at = u32(mixed_for_cache(k) >> (64 - log_places));
    while (__builtin_expect(int(places_[at].k != k) & int(holder_[at] != no_leader), 0))
      at = (at + 1) % (1u << log_places);
    return at;
  }

  u32 taken_ = 0;
  place places_[1u << log_places];
  u32 holder_[1u << log_places];  // the leader that brought the key, counted from `begin`; or no_leader
  uint16_t place_[most_keys];     // those that are taken
  uint16_t leads_[most];          // the place of the key of each element; or itself
};

// serve_combined: slices go through a cache if an eighth of a sample repeats a key, and through the cache of few keys
// if a sixth does.
template <class F>
totals serve_by_caches(const request& q, u32 kind, bool always, bool* may_be_few, size_t begin, size_t end,
                       part_server serve) {
  using cache = cache_of_equals<F>;
  using few_cache = cache_of_few<F>;
  std::unique_ptr<cache> equals;
  std::unique_ptr<few_cache> few;
  totals sum{};
  size_t left = begin;  // for the driver
  u32 many = 0;
  for (size_t b = begin; b < end; b += many) {
    many = u32(end - b < cache::most ? end - b : cache::most);
    const double repeating = cache::repeating(q, b, many);
    if (!always && repeating < 1. / 8) continue;
    const bool are_few = many == cache::most && repeating >= 1. / 6 && __atomic_load_n(may_be_few, __ATOMIC_RELAXED);
    if (are_few && !few) few.reset(new (std::nothrow) few_cache);
    if (!are_few && !equals) equals.reset(new (std::nothrow) cache);
    if (are_few ? !few : !equals) break;
    if (left < b) add_totals(&sum, serve(q, left, b));
    if (are_few) {
      const u32 wanted = u32(end - b < few_cache::most ? end - b : few_cache::most);
      many = wanted;
      add_totals(&sum, few->run(q, kind, b, &many, serve));
      if (many < wanted) __atomic_store_n(may_be_few, false, __ATOMIC_RELAXED);
    } else {
      add_totals(&sum, equals->run(q, kind, b, many, serve));
    }
    left = b + many;
  }
  if (left < end) add_totals(&sum, serve(q, left, end));
  return sum;
}

GH_END

template <unsigned KeyBytes, unsigned ValueBytes>
gpuhash::totals gpuhash::serve_combined(const request& q, unsigned kind, bool always, bool* may_be_few, size_t begin,
                                        size_t end, part_server serve) {
  return serve_by_caches<combined_format<KeyBytes, ValueBytes>>(q, kind, always, may_be_few, begin, end, serve);
}

#endif
