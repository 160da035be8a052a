// The classic skiplist, for comparison only: a node for each key, lock free, after Herlihy and Shavit's LockFreeSkipList (The
// Art of Multiprocessor Programming, 14.4), which is what Misra and Chaudhuri (HiPC 2012) ported to the GPU. Nodes that were
// removed are not freed before the list is, so that links need no protection against reuse.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

namespace {

constexpr int most_levels = 24;
enum operation : uint8_t { insert = 1, find = 4, erase = 5 };

struct node {
  uint32_t key;
  int height;
  std::atomic<uintptr_t>& next(int level) { return reinterpret_cast<std::atomic<uintptr_t>*>(this + 1)[level]; }
};
bool marked(uintptr_t link) { return link & 1; }
node* target(uintptr_t link) { return reinterpret_cast<node*>(link & ~uintptr_t(1)); }
uintptr_t link_to(node* n) { return reinterpret_cast<uintptr_t>(n); }

class skiplist {
 public:
  explicit skiplist(size_t nodes) : bytes_(nodes * (sizeof(node) + 4 * sizeof(uintptr_t)) + (size_t(1) << 20)) {
    memory_ = static_cast<char*>(malloc(bytes_));
    if (!memory_) throw std::bad_alloc();
    head_ = make(0, most_levels);
  }
  ~skiplist() { free(memory_); }

  // 1: done, 0: not; 3: the memory is used up.
  uint8_t serve(uint8_t op, uint32_t key, uint64_t& random) {
    if (op == find) return contains(key);
    if (op == erase) return remove(key);
    return add(key, random);
  }

 private:
  node* make(uint32_t key, int height) {
    const size_t size = sizeof(node) + size_t(height) * sizeof(std::atomic<uintptr_t>);
    const size_t at = taken_.fetch_add(size, std::memory_order_relaxed);
    if (at + size > bytes_) return nullptr;
    node* const n = reinterpret_cast<node*>(memory_ + at);
    n->key = key;
    n->height = height;
    for (int l = 0; l < height; ++l) new (&n->next(l)) std::atomic<uintptr_t>(0);
    return n;
  }
  // The nodes before and behind where the key is or would be, of each level; unlinks marked ones on its way.
  bool locate(uint32_t key, node** before, node** behind) {
    for (bool again = true; again;) {
      again = false;
      node* at = head_;
      for (int l = most_levels - 1; l >= 0 && !again; --l) {
        node* next = target(at->next(l).load());
        while (next) {
          const uintptr_t after = next->next(l).load();
          if (marked(after)) {
            uintptr_t expected = link_to(next);
            if (!at->next(l).compare_exchange_strong(expected, link_to(target(after)))) {
              again = true;
              break;
            }
            next = target(after);
          } else if (next->key < key) {
            at = next;
            next = target(after);
          } else {
            break;
          }
        }
        before[l] = at;
        behind[l] = next;
      }
    }
    return behind[0] && behind[0]->key == key;
  }
  bool contains(uint32_t key) {
    node* at = head_;
    node* next = nullptr;
    for (int l = most_levels - 1; l >= 0; --l)
      for (next = target(at->next(l).load()); next; next = target(next->next(l).load())) {
        if (marked(next->next(l).load())) continue;
        if (next->key >= key) break;
        at = next;
      }
    return next && next->key == key;
  }
  uint8_t add(uint32_t key, uint64_t& random) {
    node *before[most_levels], *behind[most_levels];
    if (locate(key, before, behind)) return 0;
    random = random * 6364136223846793005u + 1442695040888963407u;
    int height = 1;  // p_key = 0.5
    for (uint64_t bits = random >> 32; (bits & 1) && height < most_levels; bits >>= 1) ++height;
    node* const fresh = make(key, height);
    if (!fresh) return 3;
    for (;;) {
      for (int l = 0; l < height; ++l) fresh->next(l).store(link_to(behind[l]));
      uintptr_t expected = link_to(behind[0]);
      if (before[0]->next(0).compare_exchange_strong(expected, link_to(fresh))) break;
      if (locate(key, before, behind)) return 0;
    }
    for (int l = 1; l < height; ++l)
      for (;;) {
        uintptr_t mine = fresh->next(l).load();
        if (marked(mine)) return 1;
        if (target(mine) != behind[l] && !fresh->next(l).compare_exchange_strong(mine, link_to(behind[l]))) return 1;
        uintptr_t expected = link_to(behind[l]);
        if (before[l]->next(l).compare_exchange_strong(expected, link_to(fresh))) break;
        locate(key, before, behind);
        if (behind[0] != fresh) return 1;  // erased meanwhile
      }
    return 1;
  }
  uint8_t remove(uint32_t key) {
    node *before[most_levels], *behind[most_levels];
    if (!locate(key, before, behind)) return 0;
    node* const n = behind[0];
    for (int l = n->height - 1; l > 0; --l)
      for (uintptr_t link = n->next(l).load(); !marked(link);) n->next(l).compare_exchange_weak(link, link | 1);
    for (uintptr_t link = n->next(0).load(); !marked(link);)
      if (n->next(0).compare_exchange_weak(link, link | 1)) {
        locate(key, before, behind);
        return 1;
      }
    return 0;
  }

  const size_t bytes_;
  char* memory_;
  std::atomic<size_t> taken_{0};
  node* head_;
};

}  // namespace

extern "C" {

void* classic_make(size_t nodes) {
  try {
    return new skiplist(nodes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void classic_drop(void* list) { delete static_cast<skiplist*>(list); }
void classic_serve(void* list, size_t n, const uint8_t* ops, const uint32_t* keys, uint8_t* status, unsigned threads) {
  const auto part = [=](size_t begin, size_t end) {
    uint64_t random = begin * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = begin; i < end; ++i) status[i] = static_cast<skiplist*>(list)->serve(ops[i], keys[i], random);
  };
  std::vector<std::thread> team;
  for (unsigned t = 1; t < threads; ++t)
    team.emplace_back(part, n / threads * t, t + 1 < threads ? n / threads * (t + 1) : n);
  part(0, threads > 1 ? n / threads : n);
  for (std::thread& t : team) t.join();
}
}
