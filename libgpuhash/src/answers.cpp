// Checks of the answers of plugins: see answers.hpp.
#include "libgpuhash/src/answers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "libgpuhash/src/team.hpp"

namespace gpuhash {
namespace {

constexpr uint64_t most_bytes = uint64_t{1} << 48;  // no address space of today holds more
constexpr size_t most_stats = 1024;
constexpr uint64_t beside_slots = 2;          // keys that a structure may keep outside its slots (kit/side.hpp)
constexpr uint64_t untouched = ~uint64_t{0};  // marks what a plugin has to write

using number = unsigned long long;

bool on_cpu(const gpuhash_table& table) { return table.device.kind == GPUHASH_CPU; }

// The bits that are set in any of n bytes.
uint8_t bits_of(const uint8_t* bytes, size_t n) {
  uint64_t all[4] = {};
  size_t i = 0;
  for (; i + sizeof all <= n; i += sizeof all) {
    uint64_t four[4];
    std::memcpy(four, bytes + i, sizeof four);
    for (int j = 0; j < 4; ++j) all[j] |= four[j];
  }
  uint64_t any = all[0] | all[1] | all[2] | all[3];
  for (; i + sizeof any <= n; i += sizeof any) {
    uint64_t eight;
    std::memcpy(&eight, bytes + i, sizeof eight);
    any |= eight;
  }
  for (int shift = 32; shift >= 8; shift /= 2) any |= any >> shift;
  for (; i < n; ++i) any |= bytes[i];
  return uint8_t(any);
}

// The same by the table's threads, whose caches have the bytes of a large batch.
uint8_t any_bits(const gpuhash_table& table, const uint8_t* bytes, size_t n) {
  return any_of(table.threads, n, [bytes](size_t begin, size_t end) { return bits_of(bytes + begin, end - begin); });
}

[[gnu::cold]] gpuhash_status refuse_byte(const gpuhash_table& table, const char* op, const char* array,
                                         const uint8_t* bytes, size_t n, uint8_t most, gpuhash_error* err) {
  const size_t at = size_t(std::find_if(bytes, bytes + n, [most](uint8_t byte) { return byte > most; }) - bytes);
  return wrong_answer(*table.type, op, err, "set %s[%zu] to %u, which has no meaning in a call that answers so", array,
                      at, unsigned(at < n ? bytes[at] : 0));
}

// OK means that every element was carried out: its byte is NO or YES.
gpuhash_status check_status_bytes(const gpuhash_table& table, const char* op, const char* array, const uint8_t* bytes,
                                  size_t n, gpuhash_status status, gpuhash_error* err) {
  if (bytes == nullptr || !on_cpu(table)) return status;
  const uint8_t any = any_bits(table, bytes, n);
  if (status == GPUHASH_OK && any > GPUHASH_YES) [[unlikely]]
    return refuse_byte(table, op, array, bytes, n, GPUHASH_YES, err);
  if ((status == GPUHASH_FULL || status == GPUHASH_NO_MEMORY) && any > GPUHASH_ELEMENT_NO_MEMORY) [[unlikely]]
    return refuse_byte(table, op, array, bytes, n, GPUHASH_ELEMENT_NO_MEMORY, err);
  return status;
}

gpuhash_status check_counts(const gpuhash_table& table, const char* op, const gpuhash_batch& batch,
                            gpuhash_status status, gpuhash_error* err) {
  const gpuhash_counts got = *batch.counts;
  const bool unset = got.yes == untouched || got.failed == untouched;
  const bool too_many = got.yes > batch.n || got.failed > batch.n - got.yes;
  if (!unset && !too_many && (got.failed == 0 || status != GPUHASH_OK)) return status;
  *batch.counts = {0, 0};
  if (unset && status != GPUHASH_OK) return status;  // it had nothing to count
  if (unset) return wrong_answer(*table.type, op, err, "left counts unset, though the batch asks for them");
  if (too_many)
    return wrong_answer(*table.type, op, err, "counted %llu successes and %llu failures in a batch of %zu elements",
                        number{got.yes}, number{got.failed}, batch.n);
  return wrong_answer(*table.type, op, err, "answered OK, but counted %llu elements that failed", number{got.failed});
}

// The first impossible figure of a table's info, as a sentence in `text`.
bool is_wrong(const gpuhash_table& table, const gpuhash_table_info& info, char (&text)[160]) {
  text[0] = 0;
  const auto say = [&text](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    return true;
  };
  if (info.struct_size > sizeof info)
    return say("set struct_size to %zu; the host offered %zu bytes", info.struct_size, sizeof info);
  if ((info.traits & ~table.type->api.traits) != 0)
    return say("said traits 0x%llx; the backend announces 0x%llx", number{info.traits}, number{table.type->api.traits});
  if (info.slots > most_bytes || info.bytes > most_bytes)
    return say("said %llu slots in %llu bytes, more than memory holds", number{info.slots}, number{info.bytes});
  if (info.used > info.slots)
    return say("said that %llu of %llu slots are used", number{info.used}, number{info.slots});
  if (info.size > info.used + beside_slots)
    return say("said that %llu keys are in %llu used slots", number{info.size}, number{info.used});
  if (info.capacity > info.slots + beside_slots)
    return say("said that %llu keys fit into %llu slots", number{info.capacity}, number{info.slots});
  if (!std::isfinite(info.max_load_factor) || info.max_load_factor < 0)
    return say("said a max_load_factor of %g", info.max_load_factor);
  return false;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string printable(const char* text, size_t most) {
  std::string out(text == nullptr ? "" : text, text == nullptr ? 0 : strnlen(text, most));
  std::replace_if(out.begin(), out.end(), is_control, '?');
  return out;
}

gpuhash_status wrong_answer(const backend& b, const char* entry, gpuhash_error* err, const char* format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return fail(err, GPUHASH_PLUGIN_ERROR, "backend '%s' ('%.200s'): %s %s; report it to the plugin's author",
              b.name.c_str(), b.path.c_str(), entry, what);
}

gpuhash_status explain_exception(const backend& b, const char* entry, gpuhash_error* err) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(err, GPUHASH_NO_MEMORY, "backend '%s': no host memory was left for %s", b.name.c_str(), entry);
  } catch (const std::exception& e) {
    return wrong_answer(b, entry, err, "threw an exception through the C ABI (%.120s)", e.what());
  } catch (...) {
    return wrong_answer(b, entry, err, "threw an exception through the C ABI (not a std::exception)");
  }
}

gpuhash_status explain_failure(const backend& b, const char* entry, gpuhash_status status, gpuhash_error& said,
                               gpuhash_error* err) noexcept {
  if (status < GPUHASH_OK || status > GPUHASH_INTERNAL)
    return wrong_answer(b, entry, err, "answered with the status %d, which gpuhash.h does not have", int(status));
  said.message[sizeof said.message - 1] = 0;
  std::replace_if(said.message, said.message + std::strlen(said.message), is_control, ' ');
  if (said.message[0] != 0) return fail(err, status, "%s", said.message);
  return fail(err, status, "backend '%s': %s failed with %s and gave no reason", b.name.c_str(), entry,
              gpuhash_status_name(status));
}

gpuhash_status ask_create(const backend& b, const gpuhash_config& config, void** impl, gpuhash_error* err) {
  *impl = nullptr;
  const auto status = ask(b, "create", err, [&](gpuhash_error* said) { return b.api.create(&config, impl, said); });
  if (status == GPUHASH_OK && *impl == nullptr)
    return wrong_answer(b, "create", err, "answered OK, but made no table (NULL)");
  return status;
}

gpuhash_status ask_run(const gpuhash_table& table, const gpuhash_batch& batch, const char* op, gpuhash_error* err) {
  if (batch.counts != nullptr) *batch.counts = {untouched, untouched};
  auto status =
      ask(*table.type, op, err, [&](gpuhash_error* said) { return table.type->api.run(table.impl, &batch, said); });
  if (batch.counts != nullptr) status = check_counts(table, op, batch, status, err);
  return check_status_bytes(table, op, "out_status", batch.out_status, batch.n, status, err);
}

gpuhash_status ask_info(const gpuhash_table& table, gpuhash_table_info& info, gpuhash_error* err) {
  info = gpuhash_table_info{};
  info.struct_size = sizeof info;
  const auto status =
      ask(*table.type, "info", err, [&](gpuhash_error* said) { return table.type->api.info(table.impl, &info, said); });
  if (status != GPUHASH_OK) return status;
  char text[160];
  if (is_wrong(table, info, text)) return wrong_answer(*table.type, "info", err, "%s", text);
  info.struct_size = sizeof info;
  return GPUHASH_OK;
}

gpuhash_status ask_export(const gpuhash_table& table, size_t* n, void* keys, void* values, void* stream,
                          gpuhash_error* err) {
  const size_t room = *n;
  size_t answer = room;
  const auto status = ask(*table.type, "export", err, [&](gpuhash_error* said) {
    return table.type->api.export_pairs(table.impl, &answer, keys, values, stream, said);
  });
  if (keys != nullptr && status == GPUHASH_OK && answer > room)
    return wrong_answer(*table.type, "export", err, "answered OK with %zu pairs, but the arrays have room for %zu",
                        answer, room);
  if (answer > most_bytes / table.key_bytes)
    return wrong_answer(*table.type, "export", err, "said that there are %zu pairs, more than memory holds", answer);
  *n = answer;
  return status;
}

gpuhash_status ask_export_part(const gpuhash_table& table, gpuhash_export_cursor& cursor, size_t* n, void* keys,
                               void* values, void* stream, gpuhash_error* err) {
  const size_t room = *n;
  size_t answer = room;
  const auto status = ask(*table.type, "export_part", err, [&](gpuhash_error* said) {
    return table.type->api.export_part(table.impl, &cursor, &answer, keys, values, stream, said);
  });
  *n = answer;
  if (status != GPUHASH_OK) return status;
  cursor.struct_size = sizeof cursor;
  cursor.table = const_cast<gpuhash_table*>(&table);
  *n = 0;
  if (answer > room)
    return wrong_answer(*table.type, "export_part", err, "answered OK with %zu pairs, but the arrays have room for %zu",
                        answer, room);
  if (cursor.state != GPUHASH_EXPORT_GOES_ON && cursor.state != GPUHASH_EXPORT_DONE)
    return wrong_answer(*table.type, "export_part", err, "answered OK, and set the cursor's state to %u",
                        unsigned(cursor.state));
  if (cursor.state == GPUHASH_EXPORT_GOES_ON && answer == 0)
    return wrong_answer(*table.type, "export_part", err,
                        "answered OK without a pair, though it says that there are more");
  *n = answer;
  return GPUHASH_OK;
}

gpuhash_status ask_stats(const gpuhash_table& table, size_t* n, gpuhash_stat* out, gpuhash_error* err) {
  const size_t room = *n;
  const size_t looked_at = std::min(room, most_stats);
  if (out != nullptr) std::fill_n(out, looked_at, gpuhash_stat{});
  size_t answer = looked_at;
  const auto status = ask(*table.type, "stats", err,
                          [&](gpuhash_error* said) { return table.type->api.stats(table.impl, &answer, out, said); });
  if (status != GPUHASH_OK) return status;
  if (answer > most_stats)
    return wrong_answer(*table.type, "stats", err, "said that there are %zu figures; at most %zu are taken", answer,
                        most_stats);
  for (size_t i = 0; i < std::min(answer, looked_at); ++i) {
    const char* name = out[i].name;
    const size_t length = strnlen(name, sizeof out[i].name);
    if (length == 0 || length == sizeof out[i].name)
      return wrong_answer(*table.type, "stats", err, "%s",
                          length == 0 ? "left the name of a figure empty" : "gave a figure a name without an end");
    if (std::any_of(name, name + length, is_control))
      return wrong_answer(*table.type, "stats", err, "gave figure %zu a name that cannot be printed", i);
  }
  *n = answer;
  return GPUHASH_OK;
}

namespace {

// Offsets and so many elements, which a call that is given room for `room` of them answers.
gpuhash_status check_offsets(const gpuhash_table& table, const char* op, const char* elements, size_t n,
                             const uint64_t* offsets, bool copied, size_t room, gpuhash_error* err) {
  const bool ascending = offsets[0] == 0 && offsets[n] != untouched && std::is_sorted(offsets, offsets + n + 1);
  if (!ascending) return wrong_answer(*table.type, op, err, "did not fill offsets with ascending numbers from 0 on");
  if (offsets[n] > (copied ? uint64_t{room} : most_bytes))
    return wrong_answer(*table.type, op, err, "answered OK with %llu %s, but the array has room for %zu",
                        number{offsets[n]}, elements, room);
  return GPUHASH_OK;
}

}  // namespace

gpuhash_status ask_find_all(const gpuhash_table& table, size_t n, const void* keys, uint64_t* offsets, void* values,
                            size_t max_values, void* stream, gpuhash_error* err) {
  if (on_cpu(table)) offsets[n] = untouched;
  const auto status = ask(*table.type, "find_all", err, [&](gpuhash_error* said) {
    return table.type->api.find_all(table.impl, n, keys, offsets, values, max_values, stream, said);
  });
  if (status != GPUHASH_OK || !on_cpu(table)) return status;
  const bool copied = values != nullptr && table.value_bytes != 0;
  return check_offsets(table, "find_all", "values", n, offsets, copied, max_values, err);
}

gpuhash_status ask_range_all(const gpuhash_table& table, size_t n, const void* low, const void* high, uint64_t* offsets,
                             size_t max_pairs, void* keys, void* values, void* stream, gpuhash_error* err) {
  if (on_cpu(table)) offsets[n] = untouched;
  const auto status = ask(*table.type, "range_all", err, [&](gpuhash_error* said) {
    return table.type->api.range_all(table.impl, n, low, high, offsets, max_pairs, keys, values, stream, said);
  });
  if (status != GPUHASH_OK || !on_cpu(table)) return status;
  const bool copied = keys != nullptr || (values != nullptr && table.value_bytes != 0);
  return check_offsets(table, "range_all", "pairs", n, offsets, copied, max_pairs, err);
}

gpuhash_status ask_lower_bound(const gpuhash_table& table, size_t n, const void* keys, void* out_keys, void* out_values,
                               uint8_t* found, void* stream, gpuhash_error* err) {
  const auto status = ask(*table.type, "lower_bound", err, [&](gpuhash_error* said) {
    return table.type->api.lower_bound(table.impl, n, keys, out_keys, out_values, found, stream, said);
  });
  return check_status_bytes(table, "lower_bound", "found", found, n, status, err);
}

gpuhash_status ask_neighbors(const gpuhash_table& table, uint32_t which, size_t n, const void* keys, void* out_keys,
                             void* out_values, uint8_t* found, void* stream, gpuhash_error* err) {
  const auto status = ask(*table.type, "neighbors", err, [&](gpuhash_error* said) {
    return table.type->api.neighbors(table.impl, which, n, keys, out_keys, out_values, found, stream, said);
  });
  return check_status_bytes(table, "neighbors", "found", found, n, status, err);
}

gpuhash_status ask_range(const gpuhash_table& table, size_t n, const void* low, const void* high, size_t max_per_range,
                         void* out_keys, void* out_values, uint64_t* counts, void* stream, gpuhash_error* err) {
  const auto status = ask(*table.type, "range", err, [&](gpuhash_error* said) {
    return table.type->api.range(table.impl, n, low, high, max_per_range, out_keys, out_values, counts, stream, said);
  });
  if (status != GPUHASH_OK || !on_cpu(table)) return status;
  const uint64_t most = *std::max_element(counts, counts + n);
  if (most > max_per_range)
    return wrong_answer(*table.type, "range", err, "counted %llu pairs in a range that takes %zu", number{most},
                        max_per_range);
  return GPUHASH_OK;
}

gpuhash_status ask_slab_stats(const backend& b, void* allocator, gpuhash_slab_stats& stats, gpuhash_error* err) {
  stats = gpuhash_slab_stats{};
  stats.struct_size = sizeof stats;
  const auto status =
      ask(b, "slab stats", err, [&](gpuhash_error* said) { return b.api.slab->stats(allocator, &stats, said); });
  if (status != GPUHASH_OK) return status;
  if (stats.allocated > stats.units || stats.units > most_bytes || stats.bytes > most_bytes)
    return wrong_answer(b, "slab stats", err, "said that %llu of %llu units in %llu bytes are allocated",
                        number{stats.allocated}, number{stats.units}, number{stats.bytes});
  stats.struct_size = sizeof stats;
  return GPUHASH_OK;
}

}  // namespace gpuhash
