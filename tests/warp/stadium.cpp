// The CUDA kernels of stadium on emulated warps: stadium [ROUNDS [FIRST SEED]]
#include "plugins/stadium/engines.hpp"
#include "plugins/stadium/layout.hpp"
#include "plugins/stadium/primes.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_stadium_engines_cuda();

namespace warp_test {
namespace {

struct stadium_store final : store {
  stadium_table t{};
  vector<u64> tickets;
  vector<u128> memory;

  stadium_store(u32 key, u32 value, u32 number, u32 log_bits, u64 keys) {
    const slot_shape shape = shape_of(key, value);
    t.log_bits = log_bits, t.log_tickets = 6 - log_bits;
    t.groups = prime_from((keys >> t.log_tickets) + 1), t.path_limit = t.groups;
    t.ones = ~u64(0) / ((u64(1) << (1u << log_bits)) - 1);
    t.seed = 12345, t.key_bytes = key, t.value_bytes = value, t.value_at = shape.value_at, t.stride = shape.stride;
    tickets.resize(t.groups);
    memory.resize(t.cells() * t.stride / 16 + 1);
    memset(memory.data(), 0x5a, memory.size() * 16);  // what nobody has written yet
    t.tickets = tickets.data();
    t.place_slots(memory.data());
    run = gpuhash_stadium_engines_cuda() + number, layout = &t, cells = t.cells();
    key_bytes = key, value_bytes = value;
  }
  int64_t used() const override {
    int64_t n = 0;
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i) n += t.state_at(t.tickets[group], i) != never;
    return n;
  }
};

void add(vector<shape>& to, const char* name, u32 key, u32 value, u32 number) {
  for (const u32 log_bits : {3u, 2u, 1u})
    to.push_back({std::string(name) + " tickets of " + std::to_string(1u << log_bits),
                  key,
                  value,
                  {insert, assign, accumulate, find, erase, count, mixed},
                  full,
                  [=](u64 keys) { return std::make_unique<stadium_store>(key, value, number, log_bits, keys); }});
}

}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  vector<shape> shapes;
  add(shapes, "4+4", 4, 4, stadium_engine(4, 4));
  add(shapes, "4+0", 4, 0, stadium_engine(4, 0));
  add(shapes, "8+8", 8, 8, stadium_engine(8, 8));
  add(shapes, "8+4, as wide ones", 8, 4, stadium_wide);
  return run_all(shapes, argc, argv, [](u64) {});
}
