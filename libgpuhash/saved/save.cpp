// gpuhash_table_save: the pairs of a table as a file of Arrow IPC, a block at a time.
#include "gpuhash/saved.h"

#include <algorithm>
#include <cinttypes>
#include <memory>

#include "libgpuhash/saved/crc32.hpp"
#include "libgpuhash/saved/flatbuffers.hpp"
#include "libgpuhash/saved/format.hpp"
#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/table.hpp"

namespace gpuhash::saved {
namespace {

constexpr size_t default_block = size_t{16} << 20;

// A column: single numbers of 4 and 8 bytes, or wider elements as lists of uint32.
struct column {
  const char* name;
  uint32_t width, kind;  // kind: GPUHASH_UINT, ...

  bool wide() const { return width > 8; }
  static field number(uint32_t width, uint32_t kind) {
    if (kind == GPUHASH_FLOAT) return field::of_table({field::of_number(2, width == 4 ? 1 : 2)});
    return field::of_table({field::of_number(4, 8 * width), field::of_number(1, kind == GPUHASH_INT)});
  }
  static field of(const char* name, uint8_t type, field described, std::vector<field> children) {
    return field::of_table({field::of_text(name), field::of_number(1, 0), field::of_number(1, type),
                            std::move(described), field{}, field::of_tables(std::move(children))});
  }
  field schema() const {
    if (!wide()) return of(name, kind == GPUHASH_FLOAT ? float_type : integer_type, number(width, kind), {});
    std::vector<field> item;
    item.push_back(of("item", integer_type, number(4, GPUHASH_UINT), {}));
    return of(name, list_type, field::of_table({field::of_number(4, width / 4)}), std::move(item));
  }
  std::string dtype() const {  // as the record has it
    const std::string bytes = std::to_string(width);
    if (wide()) return "{\"of\": \"<u4\", \"shape\": [" + std::to_string(width / 4) + "]}";
    return "\"<" + std::string(kind == GPUHASH_FLOAT ? "f" : kind == GPUHASH_INT ? "i" : "u") + bytes + "\"";
  }
};

struct refused_by_writer {
  int answer;
  uint64_t at;
};

// The container. Parts have checksums, of which the footer has all.
class container {
 public:
  container(const gpuhash_saved_writer& to, const std::vector<column>& columns, const std::string& record)
      : to_(to), columns_(columns) {
    std::vector<field> fields, entry;
    for (const column& c : columns) fields.push_back(c.schema());
    entry.push_back(field::of_table({field::of_text(record_name), field::of_text(record)}));
    schema_ = field::of_table(
        {field::of_number(2, 0), field::of_tables(std::move(fields)), field::of_tables(std::move(entry))});
    put(magic);
    message(schema_message, schema_, 0);
    end_part();
  }

  void block(uint64_t rows, const std::vector<const void*>& arrays) {
    const uint64_t begin = at_;
    std::string nodes, buffers;
    std::vector<std::string_view> parts;
    uint64_t body = 0;
    const auto pair = [](std::string& to, uint64_t a, uint64_t b) {
      to.append(reinterpret_cast<const char*>(&a), 8).append(reinterpret_cast<const char*>(&b), 8);
    };
    for (size_t i = 0; i < columns_.size(); ++i) {
      const column& c = columns_[i];
      pair(nodes, rows, 0);
      pair(buffers, body, 0);  // of nulls, of which there are none
      if (c.wide()) pair(nodes, rows * (c.width / 4), 0), pair(buffers, body, 0);
      pair(buffers, body, rows * c.width);
      parts.emplace_back(static_cast<const char*>(arrays[i]), rows * c.width);
      body += padded(rows * c.width);
    }
    const uint64_t n_nodes = nodes.size() / 16, n_buffers = buffers.size() / 16;
    const uint64_t metadata =
        message(batch_message,
                field::of_table({field::of_number(8, rows), field::of_structs(n_nodes, std::move(nodes)),
                                 field::of_structs(n_buffers, std::move(buffers)), field{}}),
                body);
    for (const std::string_view part : parts) put(part), put(std::string(padded(part.size()) - part.size(), '\0'));
    const uint64_t place[3] = {begin, metadata, body};
    blocks_.append(reinterpret_cast<const char*>(place), sizeof place);
    end_part();
  }

  void finish() {
    std::string sums;
    char text[16];
    for (const uint32_t sum : sums_) {
      std::snprintf(text, sizeof text, "%08x ", sum);
      sums += text;
    }
    sums += no_sum;
    std::vector<field> entry;
    entry.push_back(field::of_table({field::of_text(sums_name), field::of_text(sums)}));
    const uint64_t n = blocks_.size() / 24;
    std::string footer =
        writing::bytes(field::of_table({field::of_number(2, metadata_v5), schema_, field::of_structs(0, ""),
                                        field::of_structs(n, std::move(blocks_)), field::of_tables(std::move(entry))}));
    std::snprintf(text, sizeof text, "%08x", crc32(footer.data(), footer.size()));
    footer.replace(footer.find(sums) + sums.size() - 8, 8, text);
    put(end_mark);
    put(footer);
    const int32_t size = int32_t(footer.size());
    put({reinterpret_cast<const char*>(&size), sizeof size});
    put(last_magic);
  }

 private:
  // A message without its body; returns its bytes.
  uint64_t message(uint8_t kind, const field& header, uint64_t body) {
    std::string data = writing::bytes(field::of_table(
        {field::of_number(2, metadata_v5), field::of_number(1, kind), header, field::of_number(8, body)}));
    data.resize(padded(at_ + 8 + data.size()) - at_ - 8, '\0');
    const int32_t size = int32_t(data.size());
    put(mark);
    put({reinterpret_cast<const char*>(&size), sizeof size});
    put(data);
    return 8 + data.size();
  }
  void put(std::string_view data) {
    if (data.empty()) return;
    sum_ = crc32(data.data(), data.size(), sum_);
    if (const int answer = to_.write(to_.context, data.data(), data.size())) throw refused_by_writer{answer, at_};
    at_ += data.size();
  }
  void end_part() {
    sums_.push_back(sum_);
    sum_ = 0;
  }

  const gpuhash_saved_writer& to_;
  const std::vector<column>& columns_;
  field schema_;
  uint64_t at_ = 0;
  uint32_t sum_ = 0;
  std::vector<uint32_t> sums_;
  std::string blocks_;
};

std::string record_of(const gpuhash_table& table, const gpuhash_table_info& info, const std::vector<column>& columns,
                      uint64_t rows) {
  char text[512];
  uint32_t v[3];
  gpuhash_version(&v[0], &v[1], &v[2]);
  std::snprintf(text, sizeof text,
                "\"seed\": %" PRIu64
                ", \"options\": {%s}, \"max_load_factor\": %#.17g, \"grow\": %s, "
                "\"device\": \"cpu\", \"order\": %s, \"gpuhash\": \"%u.%u.%u\"}",
                info.seed, info.traits & GPUHASH_TRAIT_MULTI ? "\"duplicates\": \"1\"" : "",
                std::clamp(info.max_load_factor, 0.0, 1.0), table.grows ? "true" : "false",
                info.traits & GPUHASH_TRAIT_ORDERED ? "\"key\"" : "null", v[0], v[1], v[2]);
  return "{\"format\": " + std::to_string(version) + ", \"kind\": \"table\", \"rows\": " + std::to_string(rows) +
         ", \"backend\": \"" + table.type->name + "\", \"key\": " + columns[0].dtype() +
         ", \"value\": " + (columns.size() > 1 ? columns[1].dtype() : "null") + ", " + text;
}

gpuhash_status save(gpuhash_table* table, const gpuhash_saved_types& types, const gpuhash_saved_writer& writer,
                    gpuhash_error* err) {
  std::vector<column> columns{{"key", table->key_bytes, types.key_type}};
  if (table->value_bytes) columns.push_back({"value", table->value_bytes, types.value_type});
  gpuhash_table_info info;
  if (const auto status = ask_info(*table, info, err)) return status;
  size_t room = (types.block_bytes ? types.block_bytes : default_block) / (table->key_bytes + table->value_bytes);
  room = std::max(room, size_t{1});
  std::unique_ptr<unsigned char[]> keys, values;
  std::unique_ptr<container> file;
  gpuhash_export_cursor cursor = GPUHASH_EXPORT_CURSOR_INIT;
  cursor.order = GPUHASH_EXPORT_AS_STORED;
  for (size_t most = 0; cursor.state != GPUHASH_EXPORT_DONE;) {
    if (most < room) {
      most = room;
      keys.reset(new unsigned char[most * table->key_bytes]);
      values.reset(table->value_bytes ? new unsigned char[most * table->value_bytes] : nullptr);
    }
    size_t n = most;
    const auto status = gpuhash_export_part(table, &cursor, &n, keys.get(), values.get(), nullptr, err);
    if (status == GPUHASH_INVALID_ARGUMENT && cursor.state < GPUHASH_EXPORT_DONE && n > most) {
      room = n;  // of a bucket
      continue;
    }
    if (status != GPUHASH_OK) return status;
    if (!file) file = std::make_unique<container>(writer, columns, record_of(*table, info, columns, cursor.pairs));
    if (n) file->block(n, {keys.get(), values.get()});
  }
  file->finish();
  return GPUHASH_OK;
}

}  // namespace
}  // namespace gpuhash::saved

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_table_save(gpuhash_table* table, const gpuhash_saved_types* types,
                                             const gpuhash_saved_writer* writer, gpuhash_error* err) {
  if (const auto status = begin_call(table, err)) return status;
  if (writer == nullptr || writer->write == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "writer is NULL; it is called with the bytes of the file");
  gpuhash_saved_types given = GPUHASH_SAVED_TYPES_INIT;
  if (types != nullptr) {
    if (types->struct_size != sizeof given)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "types: struct_size is %zu; begin with GPUHASH_SAVED_TYPES_INIT",
                  types->struct_size);
    given = *types;
  }
  if (given.key_type > GPUHASH_FLOAT || given.value_type > GPUHASH_FLOAT)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "types: %u is no type; pass GPUHASH_UINT, GPUHASH_INT or GPUHASH_FLOAT",
                std::max(given.key_type, given.value_type));
  if (table->device.kind != GPUHASH_CPU)
    return fail(err, GPUHASH_UNSUPPORTED,
                "the table is on CUDA; insert what gpuhash_export_part gives into one of the CPU");
  try {
    return saved::save(table, given, *writer, err);
  } catch (const saved::refused_by_writer& refused) {
    return fail(err, GPUHASH_INVALID_ARGUMENT, "the writer answered %d at byte %llu: what it has is no whole file",
                refused.answer, static_cast<unsigned long long>(refused.at));
  } catch (const std::bad_alloc&) {
    return fail(err, GPUHASH_NO_MEMORY, "no memory for a block of the file; pass smaller block_bytes");
  }
}
