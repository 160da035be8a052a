// A table's life: gpuhash_table_create, _destroy, _get_info.
#include "libgpuhash/src/table.hpp"

#include <memory>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/config.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_table_create(const gpuhash_config* config, gpuhash_table** out, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (out == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL");
    *out = nullptr;
    auto table = std::make_unique<gpuhash_table>();
    gpuhash_config c{};
    if (const auto status = read_config(config, c, table->memory, err)) return status;
    if (const auto status = find_backend(c.backend, &table->type, err)) return status;
    if (const auto status = check_config(c, *table->type, err)) return status;
    table->device = c.device;
    table->key_bytes = c.key_bytes;
    table->value_bytes = c.value_bytes;
    table->threads = c.threads;
    table->grows = c.grow != 0;
    table->seed = c.seed;
    table->generation = fork_generation;
    if (const auto status = ask_create(*table->type, c, &table->impl, err)) return status;
    *out = table.release();
    return GPUHASH_OK;
  });
}

extern "C" void gpuhash_table_destroy(gpuhash_table* table) {
  if (table == nullptr) return;
  // In a forked child the storage, locks and threads are the parent's: only the handle goes.
  if (table->generation == fork_generation) ask_destroy([table] { table->type->api.destroy(table->impl); });
  delete table;
}

extern "C" gpuhash_status gpuhash_table_get_info(gpuhash_table* table, gpuhash_table_info* out, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (const auto status = check_output(out, "out", err)) return status;
  const backend& b = *table->type;
  gpuhash_table_info info;
  if (const auto status = ask_info(*table, info, err)) return status;
  info.backend = b.name.c_str();
  info.device = table->device;
  info.key_bytes = table->key_bytes;
  info.value_bytes = table->value_bytes;
  if (info.seed == 0) info.seed = table->seed;       // a table of before, from a file, keeps its own
  if (info.traits == 0) info.traits = b.api.traits;  // a plugin may narrow them for one table
  if (!accumulates(*table)) info.traits &= ~uint64_t{GPUHASH_TRAIT_ACCUMULATE};
  if (!table->grows) info.traits &= ~uint64_t{GPUHASH_TRAIT_GROW};
  write_struct(out, info);
  return GPUHASH_OK;
}
