// Two lock-free sets with a node for each key, for comparison only, in which a thread serves an operation alone: the classic
// skiplist, after Herlihy and Shavit's LockFreeSkipList (The Art of Multiprocessor Programming, 14.4), and a hash table of
// sorted linked lists, after Michael (SPAA 2002). They are what Misra and Chaudhuri (ICPADS 2012) ported to the GPU.
//
// c++ compiles it for the CPU, nvcc (-x cu) for CUDA: one_thread_each.py. A set lies in an array of words that are 0 at first.
// Word 0 counts the words that are taken; nodes are not given back, so that links need no protection against reuse. A link is
// twice the number of a node's first word, 0 if there is none, plus 1 if the node that has the link is erased.
#include <cstddef>
#include <cstdint>
#if !defined(__CUDACC__)
#include <thread>
#include <vector>
#endif

namespace {

using u32 = uint32_t;
constexpr u32 most_levels = 24, head = 1, mark = 1;
enum operation : uint8_t { insert = 1, find = 4, erase = 5 };
enum answer : uint8_t { no, yes, no_room = 3 };

#if defined(__CUDACC__)
#define FN __device__ inline
// Loads come from the second cache. What a node says is ordered before the link to it, and a reader's loads by their addresses.
FN u32 load(const u32* p) { return *static_cast<const volatile u32*>(p); }
FN void store(u32* p, u32 x) { *static_cast<volatile u32*>(p) = x; }
FN bool swap(u32* p, u32 from, u32 to) {
  __threadfence();
  return atomicCAS(p, from, to) == from;
}
FN u32 add(u32* p, u32 n) { return atomicAdd(p, n); }
#else
#define FN inline
FN u32 load(const u32* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
FN void store(u32* p, u32 x) { __atomic_store_n(p, x, __ATOMIC_RELAXED); }
FN bool swap(u32* p, u32 from, u32 to) {
  return __atomic_compare_exchange_n(p, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
FN u32 add(u32* p, u32 n) { return __atomic_fetch_add(p, n, __ATOMIC_RELAXED); }
#endif

FN u32 mix(u32 x) {  // the finaliser of MurmurHash3
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}
FN u32 target(u32 link) { return link >> 1; }
FN u32 link_to(u32 node) { return node << 1; }

// The first of so many words behind those that the set begins with; 0: they are used up.
FN u32 take(u32* words, u32 begin, u32 size, u32 many) {
  const u32 at = begin + add(words, many);
  return at + many > size ? 0 : at;
}

// A node: its key, its height, a link for each level. The head is one with all levels.
struct skiplist {
  u32* words;
  u32 size, levels;  // how many words there are; links of the head that are used

  FN uint8_t serve(uint8_t op, u32 key, u32 random) const {
    if (op == find) return contains(key);
    return op == erase ? remove(key) : put(key, random);
  }

 private:
  FN u32 key_of(u32 node) const { return load(words + node); }
  FN u32* link(u32 node, u32 level) const { return words + node + 2 + level; }

  // The nodes before and behind where the key is or would be, of each level; unlinks erased ones on its way.
  FN bool locate(u32 key, u32* before, u32* behind) const {
    for (bool again = true; again;) {
      again = false;
      u32 at = head;
      for (u32 l = levels; l-- > 0 && !again;) {
        u32 next = target(load(link(at, l)));
        while (next) {
          const u32 after = load(link(next, l));
          if (after & mark) {
            if (!swap(link(at, l), link_to(next), after - mark)) {
              again = true;
              break;
            }
          } else if (key_of(next) < key) {
            at = next;
          } else {
            break;
          }
          next = target(after);
        }
        before[l] = at, behind[l] = next;
      }
    }
    return behind[0] && key_of(behind[0]) == key;
  }
  FN uint8_t contains(u32 key) const {
    u32 at = head, next = 0;
    for (u32 l = levels; l-- > 0;) {
      next = target(load(link(at, l)));
      while (next) {
        const u32 after = load(link(next, l));
        if (!(after & mark)) {
          if (key_of(next) >= key) break;
          at = next;
        }
        next = target(after);
      }
    }
    return next && key_of(next) == key ? yes : no;
  }
  FN uint8_t put(u32 key, u32 random) const {
    u32 before[most_levels], behind[most_levels];
    if (locate(key, before, behind)) return no;
    u32 height = 1;  // p_key = 0.5
    while (random & 1 && height < levels) random >>= 1, ++height;
    const u32 fresh = take(words, head + 2 + most_levels, size, 2 + height);
    if (!fresh) return no_room;
    store(words + fresh, key), store(words + fresh + 1, height);
    for (;;) {
      for (u32 l = 0; l < height; ++l) store(link(fresh, l), link_to(behind[l]));
      if (swap(link(before[0], 0), link_to(behind[0]), link_to(fresh))) break;
      if (locate(key, before, behind)) return no;
    }
    for (u32 l = 1; l < height; ++l)
      for (;;) {
        const u32 mine = load(link(fresh, l));
        if (mine & mark) return yes;
        if (target(mine) != behind[l] && !swap(link(fresh, l), mine, link_to(behind[l]))) return yes;
        if (swap(link(before[l], l), link_to(behind[l]), link_to(fresh))) break;
        locate(key, before, behind);
        if (behind[0] != fresh) return yes;  // it was erased meanwhile
      }
    return yes;
  }
  FN uint8_t remove(u32 key) const {
    u32 before[most_levels], behind[most_levels];
    if (!locate(key, before, behind)) return no;
    const u32 node = behind[0];
    for (u32 l = load(words + node + 1); l-- > 0;)
      for (;;) {
        const u32 seen = load(link(node, l));
        if (seen & mark) {
          if (l) break;
          return no;  // another thread erased it
        }
        if (!swap(link(node, l), seen, seen | mark)) continue;
        if (l) break;
        locate(key, before, behind);
        return yes;
      }
    return no;
  }
};

// A link for each bucket, and then the nodes: a key and a link.
struct lists {
  u32* words;
  u32 size, buckets;

  FN uint8_t serve(uint8_t op, u32 key, u32) const {
    const u32 first = 1 + u32(uint64_t(mix(key)) * buckets >> 32);
    if (op == find) return contains(first, key);
    return op == erase ? remove(first, key) : put(first, key);
  }

 private:
  // The word of the link to the first node whose key is not less, and that node and its link; unlinks erased ones on its way.
  struct place {
    u32 before, node, after;
  };
  FN bool locate(u32 first, u32 key, place& p) const {
    p = {first, target(load(words + first)), 0};
    while (p.node) {
      p.after = load(words + p.node + 1);
      if (p.after & mark) {
        const bool unlinked = swap(words + p.before, link_to(p.node), p.after - mark);
        p = unlinked ? place{p.before, target(p.after), 0} : place{first, target(load(words + first)), 0};
        continue;
      }
      const u32 seen = load(words + p.node);
      if (seen >= key) return seen == key;
      p.before = p.node + 1, p.node = target(p.after);
    }
    return false;
  }
  FN uint8_t contains(u32 first, u32 key) const {
    for (u32 node = target(load(words + first)); node;) {
      const u32 seen = load(words + node), after = load(words + node + 1);
      if (seen >= key) return seen == key && !(after & mark) ? yes : no;
      node = target(after);
    }
    return no;
  }
  FN uint8_t put(u32 first, u32 key) const {
    u32 fresh = 0;
    for (place p;;) {
      if (locate(first, key, p)) return no;
      if (!fresh) {
        fresh = take(words, 1 + buckets, size, 2);
        if (!fresh) return no_room;
        store(words + fresh, key);
      }
      store(words + fresh + 1, link_to(p.node));
      if (swap(words + p.before, link_to(p.node), link_to(fresh))) return yes;
    }
  }
  FN uint8_t remove(u32 first, u32 key) const {
    for (place p;;) {
      if (!locate(first, key, p)) return no;
      if (!swap(words + p.node + 1, p.after, p.after | mark)) continue;
      swap(words + p.before, link_to(p.node), p.after);
      return yes;
    }
  }
};

struct batch {
  size_t n;
  const uint8_t* ops;
  const u32* keys;
  uint8_t* status;
  u32 seed;

  template <class Set>
  FN void serve(const Set& set, size_t i) const {
    status[i] = set.serve(ops[i], keys[i], mix(u32(i) + mix(seed)));
  }
};

#if defined(__CUDACC__)
constexpr u32 block_threads = 512;  // the paper's 16 warps

template <class Set>
__global__ void __launch_bounds__(block_threads) serve_each(const Set set, const batch b) {
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;
  if (i < b.n) b.serve(set, i);
}
template <class Set>
int serve_all(const Set& set, const batch& b, unsigned, void* stream) {
  serve_each<<<unsigned((b.n + block_threads - 1) / block_threads), block_threads, 0, cudaStream_t(stream)>>>(set, b);
  return int(cudaGetLastError());
}
#else
template <class Set>
int serve_all(const Set& set, const batch& b, unsigned threads, void*) {
  const auto part = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) b.serve(set, i);
  };
  std::vector<std::thread> team;
  for (unsigned t = 1; t < threads; ++t)
    team.emplace_back(part, b.n / threads * t, t + 1 < threads ? b.n / threads * (t + 1) : b.n);
  part(0, threads > 1 ? b.n / threads : b.n);
  for (std::thread& one : team) one.join();
  return 0;
}
#endif

}  // namespace

// 0, or CUDA's error. On the CPU by so many threads, on CUDA on a stream.
extern "C" int skiplist_serve(u32* words, u32 size, u32 levels, size_t n, const uint8_t* ops, const u32* keys,
                              uint8_t* status, u32 seed, unsigned threads, void* stream) {
  return serve_all(skiplist{words, size, levels}, {n, ops, keys, status, seed}, threads, stream);
}
extern "C" int lists_serve(u32* words, u32 size, u32 buckets, size_t n, const uint8_t* ops, const u32* keys,
                           uint8_t* status, u32 seed, unsigned threads, void* stream) {
  return serve_all(lists{words, size, buckets}, {n, ops, keys, status, seed}, threads, stream);
}
