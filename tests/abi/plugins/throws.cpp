// A plugin whose entry THROWS (an environment variable) throws: a std::exception, or with -DOTHER something else.
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "gpuhash/plugin.h"

namespace {

void may_throw(const char* entry) {
  const char* chosen = std::getenv("THROWS");
  if (chosen == nullptr || std::strcmp(chosen, entry) != 0) return;
#ifdef OTHER
  throw 7;
#else
  throw std::runtime_error("a bad day");
#endif
}

int a_table;

gpuhash_status whole(const char* entry) {
  may_throw(entry);
  return GPUHASH_OK;
}

}  // namespace

extern "C" gpuhash_status gpuhash_plugin_init_v1(uint32_t, uint32_t, const gpuhash_host_api*, gpuhash_backend_v1* out,
                                                 gpuhash_error*) {
  may_throw("init");
  out->name = "throws";
  out->traits = GPUHASH_TRAIT_INSERT | GPUHASH_TRAIT_FLUSH | GPUHASH_TRAIT_MULTI | GPUHASH_TRAIT_ORDERED;
  out->key_widths = out->value_widths = 1u << 8;
  out->devices = 1u << GPUHASH_CPU;
  out->probe = [](gpuhash_device, gpuhash_error*) { return whole("probe"); };
  out->create = [](const gpuhash_config*, void** table, gpuhash_error*) {
    *table = &a_table;
    return whole("create");
  };
  out->destroy = [](void*) { may_throw("destroy"); };
  out->run = [](void*, const gpuhash_batch*, gpuhash_error*) { return whole("run"); };
  out->info = [](void*, gpuhash_table_info*, gpuhash_error*) { return whole("info"); };
  out->export_pairs = [](void*, size_t* n, void*, void*, void*, gpuhash_error*) {
    *n = 0;
    return whole("export");
  };
  out->clear = [](void*, void*, gpuhash_error*) { return whole("clear"); };
  out->reserve = [](void*, uint64_t, void*, gpuhash_error*) { return whole("reserve"); };
  out->shrink = [](void*, void*, gpuhash_error*) { return whole("shrink"); };
  out->flush = [](void*, void*, gpuhash_error*) { return whole("flush"); };
  out->flush_range = [](void*, uint64_t, uint64_t, void*, gpuhash_error*) { return whole("flush_range"); };
  out->check = [](void*, gpuhash_error*) { return whole("check"); };
  out->stats = [](void*, size_t* n, gpuhash_stat*, gpuhash_error*) {
    *n = 0;
    return whole("stats");
  };
  out->histogram = [](void*, size_t, uint64_t*, gpuhash_error*) { return whole("histogram"); };
  out->find_all = [](void*, size_t n, const void*, uint64_t* offsets, void*, size_t, void*, gpuhash_error*) {
    std::memset(offsets, 0, (n + 1) * sizeof *offsets);
    return whole("find_all");
  };
  out->lower_bound = [](void*, size_t, const void*, void*, void*, uint8_t*, void*, gpuhash_error*) {
    return whole("lower_bound");
  };
  out->range = [](void*, size_t n, const void*, const void*, size_t, void*, void*, uint64_t* counts, void*,
                  gpuhash_error*) {
    std::memset(counts, 0, n * sizeof *counts);
    return whole("range");
  };
  return GPUHASH_OK;
}
