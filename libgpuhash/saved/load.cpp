// gpuhash_table_load: a table from a file of Arrow IPC, which is not trusted. Its memory is that of the largest block.
#include <stdarg.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "gpuhash/saved.h"
#include "libgpuhash/saved/crc32.hpp"
#include "libgpuhash/saved/flatbuffers.hpp"
#include "libgpuhash/saved/format.hpp"
#include "libgpuhash/saved/record.hpp"
#include "libgpuhash/src/error.hpp"
#include "libgpuhash/src/table.hpp"

namespace gpuhash::saved {
namespace {

constexpr uint64_t most_metadata = uint64_t{1} << 28;
constexpr size_t most_backend_name = 128;

struct refused_by_reader {
  int answer;
  uint64_t at, bytes;
};
struct answered {  // a status that is not CORRUPT
  gpuhash_status status;
  malformed why;
};
[[noreturn, gnu::format(printf, 2, 3), gnu::cold]] void answer(gpuhash_status status, const char* format, ...) {
  answered a{status, {}};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(a.why.text, sizeof a.why.text, format, arguments);
  va_end(arguments);
  throw a;
}

// A column: so many bytes an element, in the only buffer that has any.
struct column {
  uint32_t width = 0;
  uint32_t nodes = 1, buffers = 2;  // in a record batch
  uint64_t list = 1;                // elements of the inner node for each row
};

struct place {
  uint64_t begin, metadata, body;
};

struct file_contents {
  std::vector<column> columns;
  record recorded;
  std::vector<place> blocks;
  std::vector<uint32_t> sums;
  uint64_t head = 0;
};

// ---- columns ----------------------------------------------------------------------------------------------------------

uint32_t width_of_number(uint8_t type, const reading& t) {
  if (type == integer_type) {
    const int32_t bits = t.number<int32_t>(0);
    if (bits == 8 || bits == 16 || bits == 32 || bits == 64) return uint32_t(bits / 8);
  }
  if (type == float_type) {
    const int16_t precision = t.number<int16_t>(0);
    if (precision >= 0 && precision <= 2) return 2u << precision;
  }
  if (type == timestamp_type || type == duration_type) return 8;
  return 0;
}

column column_of(const reading& f, const char* name) {
  if (f.has(4)) refuse("column \"%s\" has a dictionary", name);
  const uint8_t type = f.number<uint8_t>(2);
  const reading described = f.table(3, "type");
  column c;
  c.width = width_of_number(type, described);
  uint64_t wide = 0;
  if (type == bytes_type) wide = uint64_t(described.number<int32_t>(0));
  if (type == list_type) {
    const int32_t n = described.number<int32_t>(0);
    if (f.count(5) != 1 || n < 1) refuse("column \"%s\" is no list of fixed size", name);
    const reading item = f.element(5, 0);
    c = {0, 2, 3, uint64_t(n)};
    wide = uint64_t(n) * width_of_number(item.number<uint8_t>(2), item.table(3, "type"));
  }
  if (wide && wide % 4 == 0 && wide < 1u << 30) c.width = uint32_t(wide);
  if (c.width < 4 || c.width % 4)
    answer(
        GPUHASH_UNSUPPORTED,
        "column \"%s\" has elements of %u bytes or of another kind than numbers, times, rows and bytes of a multiple "
        "of 4 bytes: load it with pygpuhash",
        name, c.width);
  return c;
}

// ---- the footer -------------------------------------------------------------------------------------------------------

std::string_view entry_of(const reading& table, uint32_t id, std::string_view name, bool* there) {
  const uint64_t n = std::min<uint64_t>(table.count(id), 64);
  for (uint64_t i = 0; i < n; ++i) {
    const reading entry = table.element(id, i);
    if (entry.text(0) != name) continue;
    *there = true;
    return entry.text(1);
  }
  return {};
}

// The checksums of all parts; the footer's own is looked at.
std::vector<uint32_t> sums_of(std::string_view footer, std::string_view text) {
  std::vector<uint32_t> sums;
  const auto digits = [](std::string_view word) {
    uint32_t sum = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), sum, 16);
    if (word.size() != 8 || error != std::errc() || end != word.data() + 8) refuse("its checksums are no numbers");
    return sum;
  };
  for (size_t at = 0; at < text.size(); at += 9) {
    sums.push_back(digits(text.substr(at, 8)));
    if (at + 8 < text.size() && text[at + 8] != ' ') refuse("its checksums are no numbers");
  }
  if (sums.empty()) refuse("its checksums are no numbers");
  const size_t own = size_t(text.data() - footer.data()) + text.size() - 8;
  uint32_t sum = crc32(footer.data(), own);
  sum = crc32(no_sum.data(), 8, sum);
  sum = crc32(footer.data() + own + 8, footer.size() - own - 8, sum);
  if (sum != sums.back()) refuse("its bytes do not have its checksum");
  return sums;
}

// Where all parts are. They follow each other from the file's first byte to the footer.
void read_places(const reading& root, uint64_t end, file_contents& made) {
  if (root.count(2)) refuse("there are dictionaries");
  const std::string_view structs = root.structs(3, 24);
  for (size_t at = 0; at < structs.size(); at += 24)
    made.blocks.push_back({reading::number_at<uint64_t>(structs, at), reading::number_at<uint32_t>(structs, at + 8),
                           reading::number_at<uint64_t>(structs, at + 16)});
  if (made.sums.size() != made.blocks.size() + 2)
    refuse("it has %zu checksums for %zu blocks", made.sums.size(), made.blocks.size());
  uint64_t at = made.blocks.empty() ? end : made.blocks[0].begin;
  made.head = at;
  for (size_t i = 0; i < made.blocks.size(); ++i) {
    const place& p = made.blocks[i];
    if (p.begin != at || p.begin > end || p.metadata < 16 || p.metadata > most_metadata || p.metadata > end - p.begin ||
        p.body > end - p.begin - p.metadata)
      refuse("block %zu would be at byte %llu, of %llu and %llu bytes", i + 1, (unsigned long long)p.begin,
             (unsigned long long)p.metadata, (unsigned long long)p.body);
    at = p.begin + p.metadata + p.body;
  }
  if (at != end || made.head < 16)
    refuse("the blocks end at byte %llu, and it begins at %llu", (unsigned long long)at, (unsigned long long)end);
}

constexpr std::pair<std::string_view, const char*> of_python[] = {
    {"text", "a table of text"}, {"index", "an index"}, {"counter", "a counter"}, {"groups", "a group-by"}};

void read_record(std::string_view text, file_contents& made) {
  record& r = made.recorded;
  r = record_reader::read(text);
  if (r.format < 1) refuse("its record has no format");
  if (r.format > version)
    answer(GPUHASH_UNSUPPORTED,
           "the file has format %lld of saved tables, and this gpuhash reads up to %d: update gpuhash",
           (long long)r.format, version);
  for (const auto& [kind, what] : of_python)
    if (r.kind == kind) answer(GPUHASH_UNSUPPORTED, "the file has %s: load it with pygpuhash", what);
  const std::string& name = r.backend;
  const bool is_name =
      !name.empty() && name.size() <= most_backend_name && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_.:-").find(c) != std::string_view::npos;
      });
  if (r.kind != "table" || !r.has_rows || !is_name || name.ends_with(".so")) refuse("its record describes no table");
}

class source {
 public:
  explicit source(const gpuhash_saved_reader& from) : from_(from) {}
  uint64_t size() const { return from_.size; }
  void read(uint64_t at, void* to, size_t bytes) const {
    if (!bytes) return;
    if (const int said = from_.read(from_.context, at, to, bytes)) throw refused_by_reader{said, at, bytes};
  }

 private:
  const gpuhash_saved_reader& from_;
};

file_contents read_footer(const source& from) {
  char ends[18] = {};
  if (from.size() >= 8) from.read(0, ends, 8);
  if (std::string_view(ends, 8) != magic)
    answer(GPUHASH_INVALID_ARGUMENT, "the file is no saved table: it does not begin as files of Arrow IPC do");
  if (from.size() < 34) refuse("the file ends before its end mark");
  from.read(from.size() - 10, ends, 10);
  const int64_t length = reading::number_at<int32_t>({ends, 10}, 0);
  if (std::string_view(ends + 4, 6) != last_magic || length < 8 || uint64_t(length) + 26 > from.size())
    refuse("the file ends before its end mark");
  const uint64_t end = from.size() - 18 - uint64_t(length);
  std::string data(size_t(length) + 8, '\0');
  from.read(end, data.data(), data.size());
  const std::string_view footer = std::string_view(data).substr(8);
  if (std::string_view(data).substr(0, 8) != end_mark) refuse("there is no end mark before it");
  const reading root = reading::root(footer);
  const reading schema = root.table(1, "schema");
  bool recorded = false, summed = false;
  const std::string_view text = entry_of(schema, 2, record_name, &recorded);
  const std::string_view sums = entry_of(root, 4, sums_name, &summed);
  if (!recorded && !summed)
    answer(GPUHASH_INVALID_ARGUMENT,
           "the file is one of Arrow without a record of gpuhash: read it as such, and insert it");
  if (!recorded || !summed) refuse(recorded ? "it has no checksums" : "it has no record");
  file_contents made;
  made.sums = sums_of(footer, sums);
  read_record(text, made);
  read_places(root, end, made);
  if (schema.number<int16_t>(0) != 0)
    answer(GPUHASH_UNSUPPORTED, "the file has numbers of another byte order: read it with pyarrow");
  const uint64_t n = schema.count(1);
  if (n < 1 || n > 2) refuse("it has %llu columns, and a table has keys and perhaps values", (unsigned long long)n);
  for (uint64_t i = 0; i < n; ++i) made.columns.push_back(column_of(schema.element(1, i), i ? "value" : "key"));
  return made;
}

void check_head(const source& from, const file_contents& file) {
  uint32_t sum = 0;
  std::unique_ptr<unsigned char[]> some(new unsigned char[1 << 16]);
  for (uint64_t at = 0; at < file.head;) {
    const size_t bytes = size_t(std::min<uint64_t>(file.head - at, 1 << 16));
    from.read(at, some.get(), bytes);
    sum = crc32(some.get(), bytes, sum);
    at += bytes;
  }
  if (sum != file.sums[0]) refuse("its bytes do not have its checksum");
}

// ---- blocks -----------------------------------------------------------------------------------------------------------

struct rows_of_block {
  uint64_t rows = 0;
  const void* arrays[2] = {};
};

// The rows of block i; `room` gets its bytes, of which the body begins at a multiple of 64.
rows_of_block read_block(const source& from, const file_contents& file, size_t i,
                         std::unique_ptr<unsigned char[]>& memory, uint64_t* room) {
  const place& p = file.blocks[i];
  const uint64_t bytes = p.metadata + p.body;
  if (bytes + 2 * alignment > *room) {
    memory.reset();
    memory.reset(new unsigned char[bytes + 2 * alignment]);
    *room = bytes + 2 * alignment;
  }
  unsigned char* const base = memory.get();
  unsigned char* const whole = base + (alignment - (uintptr_t(base) + p.metadata) % alignment) % alignment;
  from.read(p.begin, whole, bytes);
  if (crc32(whole, bytes) != file.sums[i + 1]) refuse("its bytes do not have its checksum");
  const std::string_view head(reinterpret_cast<const char*>(whole), p.metadata);
  if (head.substr(0, 4) != mark || reading::number_at<uint32_t>(head, 4) != p.metadata - 8)
    refuse("it does not begin as a message");
  const reading message = reading::root(head.substr(8));
  if (message.number<uint8_t>(1) != batch_message || message.number<uint64_t>(3) != p.body)
    refuse("it is no record batch of its size");
  const reading batch = message.table(2, "record batch");
  if (batch.has(3)) answer(GPUHASH_UNSUPPORTED, "the file is compressed: load it with pygpuhash");
  rows_of_block made;
  made.rows = batch.number<uint64_t>(0);
  const std::string_view nodes = batch.structs(1, 16), buffers = batch.structs(2, 16);
  size_t want_nodes = 0, want_buffers = 0;
  for (const column& c : file.columns) want_nodes += c.nodes, want_buffers += c.buffers;
  if (nodes.size() != 16 * want_nodes || buffers.size() != 16 * want_buffers)
    refuse("it has %zu columns and %zu buffers, not %zu and %zu", nodes.size() / 16, buffers.size() / 16, want_nodes,
           want_buffers);
  if (made.rows > p.body / 4)
    refuse("it has %llu rows in %llu bytes", (unsigned long long)made.rows, (unsigned long long)p.body);
  uint64_t at = 0, node = 0, buffer = 0;
  for (size_t k = 0; k < file.columns.size(); ++k) {
    const column& c = file.columns[k];
    for (uint32_t j = 0; j < c.nodes; ++j, node += 16) {
      const uint64_t length = reading::number_at<uint64_t>(nodes, node);
      if (length != (j ? made.rows * c.list : made.rows) || reading::number_at<uint64_t>(nodes, node + 8))
        refuse("column \"%s\" has %llu elements, or nulls", k ? "value" : "key", (unsigned long long)length);
    }
    for (uint32_t j = 0; j < c.buffers; ++j, buffer += 16) {
      const uint64_t begin = reading::number_at<uint64_t>(buffers, buffer);
      const uint64_t size = reading::number_at<uint64_t>(buffers, buffer + 8);
      const uint64_t want = j + 1 == c.buffers ? made.rows * c.width : 0;
      if (begin != at || size != want || size > p.body - std::min(at, p.body))
        refuse("a buffer would be at byte %llu of the body, of %llu bytes", (unsigned long long)begin,
               (unsigned long long)size);
      if (j + 1 == c.buffers) made.arrays[k] = whole + p.metadata + begin;
      at += padded(size);
    }
  }
  return made;
}

// ---- the table --------------------------------------------------------------------------------------------------------

bool takes_duplicates(const char* backend) {
  gpuhash_backend_info info{};
  info.struct_size = sizeof info;
  if (gpuhash_backend_load(backend, &info, nullptr) != GPUHASH_OK) return false;
  for (size_t i = 0; i < info.n_options; ++i)
    if (std::string_view(info.options[i].key) == "duplicates") return true;
  return false;
}

gpuhash_status create(const gpuhash_config& given, const file_contents& file, uint64_t size, gpuhash_table** out,
                      gpuhash_error* err) {
  gpuhash_config config = given;
  const record& r = file.recorded;
  if (config.backend == nullptr) config.backend = r.backend.c_str();
  config.key_bytes = file.columns[0].width;
  config.value_bytes = file.columns.size() > 1 ? file.columns[1].width : 0;
  config.capacity = std::max(config.capacity, std::min(r.rows, size / config.key_bytes));
  // A smaller maximum load factor of a file would ask for more memory than its keys need.
  if (config.max_load_factor == 0 && r.backend == config.backend && r.max_load_factor >= 0.25 && r.max_load_factor <= 1)
    config.max_load_factor = r.max_load_factor;
  std::vector<gpuhash_option> options(config.options, config.options + config.n_options);
  const bool given_already = std::any_of(options.begin(), options.end(), [](const gpuhash_option& o) {
    return o.key != nullptr && std::string_view(o.key) == "duplicates";
  });
  if (r.duplicates && !given_already && takes_duplicates(config.backend)) options.push_back({"duplicates", "1"});
  config.options = options.data();
  config.n_options = options.size();
  return gpuhash_table_create(&config, out, err);
}

gpuhash_status fill(gpuhash_table* table, const source& from, const file_contents& file, std::string& part,
                    gpuhash_error* err) {
  gpuhash_table_info info{};
  info.struct_size = sizeof info;
  if (const auto status = gpuhash_table_get_info(table, &info, err)) return status;
  std::unique_ptr<unsigned char[]> memory;
  uint64_t room = 0, done = 0;
  part = "the head";
  check_head(from, file);
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    part = "block " + std::to_string(i + 1) + " of " + std::to_string(file.blocks.size());
    const rows_of_block block = read_block(from, file, i, memory, &room);
    done += block.rows;
    if (done > file.recorded.rows) break;
    gpuhash_counts counts{};
    gpuhash_batch batch = GPUHASH_BATCH_INIT;
    batch.op = info.traits & GPUHASH_TRAIT_MULTI ? GPUHASH_OP_INSERT_MULTI : GPUHASH_OP_INSERT;
    batch.n = size_t(block.rows);
    batch.keys = block.arrays[0];
    batch.values = block.arrays[1];
    batch.counts = &counts;
    if (const auto status = gpuhash_run(table, &batch, err)) return status;
    if (counts.yes == block.rows) continue;
    if (file.recorded.duplicates)
      answer(GPUHASH_INVALID_ARGUMENT, "the file has several values of some keys, and a table of %.60s one of each",
             info.backend);
    refuse("it repeats %llu keys", (unsigned long long)(block.rows - counts.yes));
  }
  part = "the footer";
  if (done != file.recorded.rows)
    refuse("the blocks have %llu rows or more, and its record %llu", (unsigned long long)done,
           (unsigned long long)file.recorded.rows);
  return GPUHASH_OK;
}

gpuhash_status load(const gpuhash_config& config, const source& from, gpuhash_table** out, gpuhash_error* err) {
  gpuhash_table* table = nullptr;
  std::string part = "the footer";
  gpuhash_status status = GPUHASH_OK;
  try {
    const file_contents file = read_footer(from);
    status = create(config, file, from.size(), &table, err);
    if (status == GPUHASH_OK) status = fill(table, from, file, part, err);
  } catch (const malformed& m) {
    status = fail(err, GPUHASH_CORRUPT, "%s is broken: %s. Save the table again, or take a copy", part.c_str(), m.text);
  } catch (const answered& a) {
    status = fail(err, a.status, "%s", a.why.text);
  } catch (const refused_by_reader& r) {
    status = fail(err, GPUHASH_INVALID_ARGUMENT, "the reader answered %d for %llu bytes at byte %llu", r.answer,
                  (unsigned long long)r.bytes, (unsigned long long)r.at);
  } catch (const std::bad_alloc&) {
    status = fail(err, GPUHASH_NO_MEMORY, "no memory for %s", part.c_str());
  }
  if (status == GPUHASH_OK)
    *out = table;
  else
    gpuhash_table_destroy(table);
  return status;
}

}  // namespace
}  // namespace gpuhash::saved

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_table_load(const gpuhash_config* config, const gpuhash_saved_reader* reader,
                                             gpuhash_table** out, gpuhash_error* err) {
  clear(err);
  if (out == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "out is NULL; it receives the table");
  *out = nullptr;
  if (config == nullptr || config->struct_size != sizeof *config)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "config is %s; begin with GPUHASH_CONFIG_INIT",
                config == nullptr ? "NULL" : "none of this version");
  if (reader == nullptr || reader->read == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "reader is NULL; it is called for the bytes of the file");
  if (config->n_options != 0 && config->options == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "options is NULL, but n_options is %zu", config->n_options);
  if (config->device.kind != GPUHASH_CPU)
    return fail(err, GPUHASH_UNSUPPORTED,
                "tables are loaded on the CPU; insert what gpuhash_export_part gives into one on CUDA");
  return saved::load(*config, saved::source(*reader), out, err);
}
