// The CUDA kernels of linear_probe on emulated warps: linear_probe [ROUNDS [FIRST SEED]]
#include "libgpuhash/kit/device.hpp"
#include "plugins/linear_probe/layout.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_linear_probe_engines_cuda();
extern "C" const gpuhash::device_api* gpuhash_linear_probe_device_cuda();

namespace warp_test {
namespace {

template <class F>
struct linear_store final : store {
  linear_table<F> t{};
  vector<u128> memory;

  linear_store(format_id format, u64 keys, u32 row) {
    const u32 widest = 128 / sizeof(typename F::word);
    const u64 n = (keys + widest - 1) / widest * widest;
    memory.resize(n * sizeof(typename F::word) / 16 + 10);
    memset(memory.data(), 0xff, memory.size() * 16);
    auto* base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory.data()) + 127) & ~uintptr_t(127));
    side_.resize(4);
    memset(side_.data(), 0xff, 64);
    t.slots = reinterpret_cast<typename F::word*>(base);
    t.side = reinterpret_cast<typename F::word*>(side_.data());
    t.seed = 12345, t.n_slots = n, t.group_bits = u32(__builtin_ctz(row));
    t.groups = typename F::index(n / row), t.widest = widest, t.probe_limit = u32(n + widest);
    run = gpuhash_linear_probe_engines_cuda() + format, layout = &t, cells = n;
    key_bytes = sizeof(typename F::key), value_bytes = F::has_value ? sizeof(typename F::value) : 0;
  }
  int64_t used() const override {
    int64_t n = 0;
    for (u64 i = 0; i < t.n_slots; ++i) n += F::key_of(t.slots[i]) != empty_key<typename F::key>;
    return n;
  }
  void beside(std::multimap<u64, u64>& found) const override {
    for (int i = 0; i < 2; ++i)
      if (F::key_of(t.side[i]) != empty_key<typename F::key>)
        found.emplace(typename F::key(empty_key<typename F::key> - typename F::key(i)), F::value_of(t.side[i]));
  }

 private:
  vector<u128> side_;
};

template <class F>
void add(vector<shape>& to, const char* name, format_id format) {
  for (const u32 bytes : {u32(sizeof(typename F::word)), 64u, 128u}) {
    const u32 row = bytes / u32(sizeof(typename F::word));
    to.push_back({std::string(name) + " row " + std::to_string(row),
                  sizeof(typename F::key),
                  F::has_value ? u32(sizeof(typename F::value)) : 0,
                  {insert, assign, accumulate, find, erase, count, mixed},
                  full,
                  [=](u64 keys) { return std::make_unique<linear_store<F>>(format, keys, row); },
                  row * sizeof(typename F::word) >= 32});
  }
}

// What a growing table asks about a mixed batch.
void count_codes(u64 seed) {
  random_numbers draw{seed};
  vector<u8> ops(draw.below(draw.below(4) ? 600 : 12000) + 1);
  uint64_t expected = draw.below(100), sum = expected;
  for (u8& op : ops) {
    op = u8(draw.below(11));
    expected += op == insert || op == assign || op == accumulate;
  }
  if (gpuhash_linear_probe_device_cuda()->count_adding(ops.data(), ops.size(), &sum, nullptr)) wrong("codes: a fault");
  SAME(sum, expected);
}
}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  vector<shape> shapes;
  add<pair32>(shapes, "pair32", format_pair32);
  add<set32>(shapes, "set32", format_set32);
  add<pair64>(shapes, "pair64", format_pair64);
  add<set64>(shapes, "set64", format_set64);
  return run_all(shapes, argc, argv, count_codes);
}
