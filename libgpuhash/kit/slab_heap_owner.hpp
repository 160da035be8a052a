// The host side of a slab_heap: makes its super blocks, adds more, counts what is taken, frees everything.
#pragma once
#include <string.h>

#include <vector>

#include "libgpuhash/alloc/slab_engine.hpp"
#include "libgpuhash/alloc/slab_heap.hpp"
#include "libgpuhash/kit/device.hpp"

namespace gpuhash {

// Memory comes and goes through the two functions given to it, so that a table's memory resource serves it too.
class slab_heap_owner {
 public:
  struct memory {
    void* context;
    void* (*take)(void* context, size_t bytes, void* stream);
    void (*give)(void* context, void* p, size_t bytes, void* stream);
  };

  slab_heap_owner(const device_api& api, const memory& m) : api_(api), memory_(m) {}
  slab_heap_owner(const slab_heap_owner&) = delete;
  slab_heap_owner& operator=(const slab_heap_owner&) = delete;
  ~slab_heap_owner() = default;  // its table releases what it holds, on a stream that is alive

  // light: one contiguous range for max_supers super blocks, made at once.
  void shape(uint32_t unit_bits, uint32_t blocks, bool light, uint32_t max_supers, uint64_t seed) {
    heap_.unit_bits = unit_bits, heap_.blocks = blocks, heap_.light = light, heap_.seed = seed;
    max_supers_ = max_supers;
  }
  // What the first so many super blocks take, or so many more.
  uint64_t bytes_of(uint32_t supers) const {
    const uint64_t bytes = uint64_t(heap_.blocks) * (uint64_t(block_units) << heap_.unit_bits) +
                           uint64_t(heap_.blocks) * block_words * sizeof(uint32_t);
    return heap_.light ? bytes * max_supers_ + note_bytes : (bytes + note_bytes) * supers;
  }
  // 0, or the device's error. api.out_of_memory both when memory is out and when the layout allows no more.
  int add_super(void* stream) {
    if (heap_.supers >= max_supers_) return api_.out_of_memory;
    const size_t unit_bytes = size_t(heap_.blocks) * block_units << heap_.unit_bits;
    const size_t map_bytes = size_t(heap_.blocks) * block_words * 4;
    const uint32_t how_many = heap_.light ? max_supers_ : 1;
    if (heap_.light && heap_.supers) return api_.out_of_memory;
    const size_t bytes = (unit_bytes + map_bytes) * how_many + note_bytes;
    owned_.reserve(owned_.size() + 1);  // may throw, while there is nothing to lose
    auto* p = static_cast<unsigned char*>(memory_.take(memory_.context, bytes, stream));
    if (!p) return api_.out_of_memory;
    owned_.push_back({p, bytes});
    int e = api_.fill(p, 0xff, unit_bytes * how_many, stream);  // A2
    if (!e) e = api_.fill(p + unit_bytes * how_many, 0, map_bytes * how_many + note_bytes, stream);
    if (e) return e;
    heap_.note = note_in(owned_.back());  // the latest: nothing is full any more
    for (uint32_t i = 0; i < how_many; ++i) {
      heap_.units[heap_.supers] = p + unit_bytes * i;
      heap_.bitmaps[heap_.supers] = reinterpret_cast<uint32_t*>(p + unit_bytes * how_many + map_bytes * i);
      ++heap_.supers;
    }
    return 0;
  }
  void drop(void* stream) {
    for (const piece& o : owned_) memory_.give(memory_.context, o.p, o.bytes, stream);
    owned_.clear();
    heap_.supers = 0;
    draw_all();
  }
  // The last super blocks, of which no unit is taken: so many stay.
  void drop_after(uint32_t supers, void* stream) {
    if (heap_.light) return;
    for (; owned_.size() > supers; owned_.pop_back())
      memory_.give(memory_.context, owned_.back().p, owned_.back().bytes, stream);
    heap_.supers = supers;
    draw_all();
    if (supers) heap_.note = note_in(owned_.back());
  }
  uint32_t most_supers() const { return heap_.light ? heap_.supers : max_supers_; }
  void swap(slab_heap_owner& o) {
    std::swap(heap_, o.heap_);
    std::swap(owned_, o.owned_);
    std::swap(max_supers_, o.max_supers_);
  }

  // Of the blocks that requests draw, this share lies in super blocks from this one on, the rest before them.
  void draw(uint32_t fresh, double share) {
    heap_.fresh = fresh, heap_.share = share < 1 ? uint32_t(share * 4294967296.0) : ~0u;
  }
  void draw_all() { heap_.fresh = heap_.share = 0; }

  // Every unit free and wiped again.
  int wipe(void* stream) {
    int e = 0;
    draw_all();
    for (uint32_t s = 0; !e && s < heap_.supers; ++s) {
      e = api_.fill(heap_.units[s], 0xff, size_t(heap_.blocks) * block_units << heap_.unit_bits, stream);
      if (!e) e = api_.fill(heap_.bitmaps[s], 0, size_t(heap_.blocks) * block_words * 4, stream);
    }
    return e ? e : api_.fill(heap_.note, 0, note_bytes, stream);
  }

  // Copies of the bitmaps in host memory, one after the other.
  int read_bitmaps(std::vector<uint32_t>& out, void* stream) const {
    const size_t words = size_t(heap_.blocks) * block_words;
    out.resize(words * heap_.supers);
    int e = 0;
    for (uint32_t s = 0; !e && s < heap_.supers; ++s)
      e = api_.copy(out.data() + words * s, heap_.bitmaps[s], words * 4, stream);
    return e ? e : api_.wait(stream);
  }
  // Units taken, and memory blocks with no free unit.
  int count(uint64_t* taken, uint32_t* full_blocks, void* stream) const {
    std::vector<uint32_t> maps;
    if (const int e = read_bitmaps(maps, stream)) return e;
    *taken = 0, *full_blocks = 0;
    for (size_t b = 0; b < maps.size(); b += block_words) {
      uint32_t here = 0;
      for (uint32_t w = 0; w < block_words; ++w) here += uint32_t(__builtin_popcount(maps[b + w]));
      *taken += here, *full_blocks += here == block_units;
    }
    return 0;
  }

  const slab_heap& heap() const { return heap_; }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const piece& o : owned_) sum += o.bytes;
    return sum;
  }
  bool can_add() const { return heap_.light ? heap_.supers == 0 : heap_.supers < max_supers_; }

 private:
  static constexpr size_t note_bytes = 128;
  struct piece {
    void* p;
    size_t bytes;
  };
  static u32* note_in(const piece& o) {
    return reinterpret_cast<u32*>(static_cast<unsigned char*>(o.p) + o.bytes - note_bytes);
  }
  const device_api& api_;
  memory memory_;
  slab_heap heap_{};
  std::vector<piece> owned_;
  uint32_t max_supers_ = slab_heap::max_supers;
};

}  // namespace gpuhash
