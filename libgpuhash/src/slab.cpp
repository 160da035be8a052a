// The stand-alone slab allocator: gpuhash_slab_*. The backend "slab_hash" provides it; here arguments are checked.
#include <memory>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/arrays.hpp"
#include "libgpuhash/src/config.hpp"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/fork.hpp"
#include "libgpuhash/src/registry.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/src/suggest.hpp"

struct gpuhash_slab_allocator {
  const gpuhash::backend* type;
  void* impl;  // the plugin's allocator
  gpuhash_device device;
  uint64_t generation;    // see fork.hpp
  gpuhash_memory memory;  // the caller's, kept: the plugin points to it
};

namespace gpuhash {
namespace {

constexpr const char* provider = "slab_hash";

gpuhash_status find_provider(const backend** b, gpuhash_error* err) {
  if (const auto status = find_backend(provider, b, err)) return status;
  if ((*b)->api.slab != nullptr) return GPUHASH_OK;
  return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' ('%s') has no stand-alone slab allocator", provider,
              (*b)->path.c_str());
}

gpuhash_status read_slab_config(const gpuhash_slab_config* from, gpuhash_slab_config& c, gpuhash_memory& memory,
                                gpuhash_error* err) {
  if (const auto status = read_struct(from, c, "config", "GPUHASH_SLAB_CONFIG_INIT", sizeof c, err)) return status;
  const std::vector<std::string_view> kinds = {"slab_alloc", "slab_alloc_light"};
  if (c.kind == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "config.kind is NULL");
  if (c.kind != kinds[0] && c.kind != kinds[1])
    return fail(err, GPUHASH_NOT_FOUND, "allocator kind '%s' is unknown%s", c.kind, suggestion(c.kind, kinds).c_str());
  if (c.unit_bytes != 64 && c.unit_bytes != 128 && c.unit_bytes != 256)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "unit_bytes is %u; it must be 64, 128 or 256", c.unit_bytes);
  if (c.max_super_blocks != 0 && c.max_super_blocks < c.super_blocks)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "max_super_blocks is %u, less than super_blocks, %u", c.max_super_blocks,
                c.super_blocks);
  if (c.wipe > 1) return fail(err, GPUHASH_INVALID_ARGUMENT, "wipe is %u; it must be 0 or 1", c.wipe);
  if (const auto status = check_threads(c.threads, err)) return status;
  if (const auto status = resolve_device(c.device, err)) return status;
  if (const auto status = check_stream(c.device, c.stream, err)) return status;
  if (const auto status = read_memory(c.memory, c.device, memory, &c.memory, err)) return status;
  if (c.device.kind == GPUHASH_CPU && c.threads == 0) c.threads = default_threads();
  return draw_seed(c.seed, err);
}

gpuhash_status check_call(const gpuhash_slab_allocator* allocator, const void* stream, gpuhash_error* err) {
  clear(err);
  if (allocator == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "allocator is NULL");
  if (const auto status = refuse_forked(allocator->generation, "allocator", err)) return status;
  return check_stream(allocator->device, stream, err);
}

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_slab_allocator_create(const gpuhash_slab_config* config, gpuhash_slab_allocator** out,
                                                        gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (out == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL");
    *out = nullptr;
    auto allocator = std::make_unique<gpuhash_slab_allocator>();
    gpuhash_slab_config c{};
    if (const auto status = read_slab_config(config, c, allocator->memory, err)) return status;
    if (const auto status = find_provider(&allocator->type, err)) return status;
    allocator->device = c.device;
    allocator->generation = fork_generation;
    const backend& b = *allocator->type;
    allocator->impl = nullptr;
    if (const auto status = ask(b, "slab create", err,
                                [&](gpuhash_error* said) { return b.api.slab->create(&c, &allocator->impl, said); }))
      return status;
    if (allocator->impl == nullptr)
      return wrong_answer(b, "slab create", err, "answered OK, but made no allocator (NULL)");
    *out = allocator.release();
    return GPUHASH_OK;
  });
}

extern "C" void gpuhash_slab_allocator_destroy(gpuhash_slab_allocator* allocator) {
  if (allocator == nullptr) return;
  if (allocator->generation == fork_generation)
    ask_destroy([allocator] { allocator->type->api.slab->destroy(allocator->impl); });
  delete allocator;
}

extern "C" gpuhash_status gpuhash_slab_allocate(gpuhash_slab_allocator* allocator, size_t n, uint32_t* units,
                                                void* stream, gpuhash_error* err) {
  if (const auto status = check_call(allocator, stream, err)) return status;
  array_check check(allocator->device, err);
  check.need({"units", units, n, sizeof *units, true});
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  return ask(*allocator->type, "slab allocate", err, [&](gpuhash_error* said) {
    return allocator->type->api.slab->allocate(allocator->impl, n, units, stream, said);
  });
}

extern "C" gpuhash_status gpuhash_slab_free(gpuhash_slab_allocator* allocator, size_t n, const uint32_t* units,
                                            uint8_t* status, void* stream, gpuhash_error* err) {
  if (const auto refused = check_call(allocator, stream, err)) return refused;
  array_check check(allocator->device, err);
  check.need({"units", units, n, sizeof *units, false});
  check.take({"status", status, n, 1, true});
  if (const auto refused = check.result()) return refused;
  if (n == 0) return GPUHASH_OK;
  return ask(*allocator->type, "slab free", err, [&](gpuhash_error* said) {
    return allocator->type->api.slab->free_units(allocator->impl, n, units, status, stream, said);
  });
}

extern "C" gpuhash_status gpuhash_slab_translate(gpuhash_slab_allocator* allocator, size_t n, const uint32_t* units,
                                                 void** addresses, void* stream, gpuhash_error* err) {
  if (const auto status = check_call(allocator, stream, err)) return status;
  array_check check(allocator->device, err);
  check.need({"units", units, n, sizeof *units, false});
  check.need({"addresses", addresses, n, sizeof *addresses, true});
  if (const auto status = check.result()) return status;
  if (n == 0) return GPUHASH_OK;
  return ask(*allocator->type, "slab translate", err, [&](gpuhash_error* said) {
    return allocator->type->api.slab->translate(allocator->impl, n, units, addresses, stream, said);
  });
}

extern "C" gpuhash_status gpuhash_slab_get_stats(gpuhash_slab_allocator* allocator, gpuhash_slab_stats* out,
                                                 gpuhash_error* err) {
  if (const auto status = check_call(allocator, nullptr, err)) return status;
  if (const auto status = check_output(out, "out", err)) return status;
  gpuhash_slab_stats stats;
  if (const auto status = ask_slab_stats(*allocator->type, allocator->impl, stats, err)) return status;
  write_struct(out, stats);
  return GPUHASH_OK;
}
