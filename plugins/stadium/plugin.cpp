// stadium as a module: names, traits, options.
#include <filesystem>

#include "libgpuhash/kit/plugin.hpp"
#include "structure.hpp"

GPUHASH_HOST_ENGINES(stadium)
GPUHASH_CUDA_ENGINES(stadium)

namespace gpuhash {
namespace {

constexpr uint32_t most_bytes = 256;  // of a key, or of a value

constexpr gpuhash_option_info option_list[] = {
    {"ticket", "8|16|4|2",
     "bits of a ticket: two for its state, the others from the key. Default: 16; 8 on CUDA, but for slots in the "
     "host's memory"},
    {"line", "8|4|2|1",
     "groups of tickets that lie together and that a path visits one after another before it goes on elsewhere. 1: "
     "double hashing by groups, as published. Default: 8, a cache line, on the CPU; 4 on CUDA, and 1 with "
     "placement=host there"},
    {"probe_limit", "16 to 2147483648",
     "groups of a path after which an insert reports FULL. Default: 4096, 512 if the table may not grow, or the whole "
     "table if it is filled above 0.9"},
    {"placement", "device|file|host",
     "where the slots are: device, the memory of the table's device; file, a file that is mapped into memory (CPU); "
     "host, pinned memory of the host, with the tickets in the device's (CUDA; on the CPU the same as device)"},
    {"path", "a file name", "placement=file: where the table is, and stays when it is closed"},
    {"file", "auto|new|existing", "placement=file: whether the file may exist, must not, or has to. Default: auto"},
    {"elements", "text",
     "placement=file: what keys and values are. A new file keeps it, and is opened again with the same only; from "
     "Python it follows the dtypes"},
    {"ordered_from", "0 to 1099511627776",
     "placement=host and file: batches of so many elements are served in order of the slots' addresses; 0: none is. "
     "Default: 65536"},
    {"window", "256 to 1099511627776, a power of two",
     "placement=host and file: bytes of a window of the slots, inside of which a batch is in no order; smaller where a "
     "batch has an element every few rows. Default: 16384"},
    {"inserts", "stash|clstash|hybrid",
     "For reproduction. CUDA: how warps serve inserts. stash: an element for each thread; clstash: threads share a "
     "stack of jobs; "
     "hybrid: "
     "clstash from a load of hybrid_from on. The CPU keeps many inserts under way at any time. Default: stash"},
    {"hybrid_from", "0 to 1",
     "For reproduction. inserts=hybrid: the load; python -m asv_bench.figures stadium 13 measures it"},
    {"repair", "0|1", "placement=file: 1 rebuilds a table of which a crash of the system has left parts"},
};

gpuhash_status parse(const gpuhash_config& c, stadium_options& o, gpuhash_error* err) {
  const char* ticket = option_text(c, "ticket");
  if (ticket && !strcmp(ticket, "1"))
    return host->fail(err, GPUHASH_UNSUPPORTED,
                      "option ticket=1: a ticket holds one of four states (never, busy, live, dead), which take two "
                      "bits; choose one of 8|16|4|2");
  const char* const placement = option_text(c, "placement");
  // More of the key in its ticket saves slots that are read for nothing. In a GPU's own memory a ticket's size counts for
  // more: that of what one read brings.
  const bool on_cuda = c.device.kind == GPUHASH_CUDA;
  const bool over_bus = on_cuda && placement && !strcmp(placement, "host");
  uint32_t width = on_cuda && !over_bus ? 0 : 1;
  uint32_t line = over_bus ? 3 : on_cuda ? 1 : 0;  // what one look takes in (plugin_cuda.cu, blocks_host.hpp, rows.hpp)
  gpuhash_status s = option_word(c, "ticket", "8|16|4|2", &width, err);
  if (!s) s = option_word(c, "line", "8|4|2|1", &line, err);
  if (!s) s = option_number(c, "probe_limit", 16, 1ull << 31, false, &o.probe_limit, err);
  if (s) return s;
  constexpr uint32_t log_bits[] = {3, 4, 2, 1};
  o.log_bits = log_bits[width];
  o.log_line = 3 - line;
  // A table that may not grow takes as many keys as its capacity. A key too many is refused after `longest_path`
  // groups, if the load factor makes longer paths impossible, and else after a look at the whole table.
  if (!o.probe_limit && c.max_load_factor <= 0.9) o.probe_limit = c.grow ? 4096 : longest_path;
  return GPUHASH_OK;
}

gpuhash_status parse_placement(const gpuhash_config& c, stadium_options& o, gpuhash_error* err) {
  const char* const path = option_text(c, "path");
  enum : uint32_t { in_device, in_file, in_host };
  uint32_t where = in_device;
  uint32_t file = 0;
  uint32_t repair = 0;
  uint64_t window = uint64_t(1) << o.window_shift;
  gpuhash_status s = option_word(c, "placement", "device|file|host", &where, err);
  if (!s) s = option_word(c, "file", "auto|new|existing", &file, err);
  if (!s) s = option_word(c, "repair", "0|1", &repair, err);
  if (!s) s = option_number(c, "ordered_from", 0, 1ull << 40, false, &o.ordered_from, err);
  if (!s) s = option_number(c, "window", 256, 1ull << 40, true, &window, err);
  if (s) return s;
  if (where == in_device && (option_text(c, "ordered_from") || option_text(c, "window")))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "options ordered_from and window need placement=host or file");
  o.window_shift = uint32_t(__builtin_ctzll(window));
  o.pinned = where == in_host && c.device.kind == GPUHASH_CUDA;
  // Memory of the CPU is reached in any order at nearly the same rate.
  if (!option_text(c, "ordered_from")) o.ordered_from = o.pinned || where == in_file ? 1 << 16 : 0;
  o.order_if_away = where == in_file && !option_text(c, "ordered_from");
  if (where == in_file && c.device.kind != GPUHASH_CPU)
    return host->fail(err, GPUHASH_UNSUPPORTED, "option placement=file is for the CPU; this table is on a CUDA device");
  const char* const elements = option_text(c, "elements");
  if (where != in_file && (path || option_text(c, "file") || elements || repair))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "options path, file, elements and repair need placement=file");
  if (where == in_file && (!path || !*path))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "option placement=file needs the name of a file: pass path");
  std::error_code no_matter;  // open() says what is wrong with a path
  if (where == in_file) o.path = std::filesystem::weakly_canonical(std::filesystem::absolute(path), no_matter);
  if (where == in_file && o.path.empty()) o.path = path;
  o.file = file == 1 ? stadium_options::fresh : file == 2 ? stadium_options::there : stadium_options::as_is;
  o.repair = repair;
  if (elements) o.elements = elements;
  return GPUHASH_OK;
}

gpuhash_status parse_inserts(const gpuhash_config& c, stadium_options& o, gpuhash_error* err) {
  uint32_t how = 0;
  double from = 0;
  gpuhash_status s = option_word(c, "inserts", "stash|clstash|hybrid", &how, err);
  if (!s) s = option_real(c, "hybrid_from", 0, 1, &from, err);
  if (s) return s;
  const bool has_load = option_text(c, "hybrid_from") != nullptr;
  if (has_load != (how == 2))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "options inserts=hybrid and hybrid_from need each other: python -m asv_bench.figures stadium 13 "
                      "measures the load");
  const char* const placement = option_text(c, "placement");
  if (how && placement && !strcmp(placement, "host"))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "option inserts is for slots in the device's memory; leave it out with placement=host");
  o.stack_from = how == 0 ? 2 : how == 1 ? 0 : from;
  return GPUHASH_OK;
}

gpuhash_status check_bytes(const char* what, uint32_t bytes, gpuhash_error* err) {
  if (bytes <= most_bytes) return GPUHASH_OK;
  return host->fail(err, GPUHASH_UNSUPPORTED, "%s is %u; stadium takes multiples of 4 up to %u", what, bytes,
                    most_bytes);
}

gpuhash_status make(const table::setup& given, table** out, gpuhash_error* err) {
  table::setup s = given;
  if (s.config.max_load_factor == 0.0) s.config.max_load_factor = 0.8;
  if (const gpuhash_status bad = check_bytes("key_bytes", s.config.key_bytes, err)) return bad;
  if (const gpuhash_status bad = check_bytes("value_bytes", s.config.value_bytes, err)) return bad;
  stadium_options o;
  if (const gpuhash_status bad = parse(s.config, o, err)) return bad;
  if (const gpuhash_status bad = parse_placement(s.config, o, err)) return bad;
  if (const gpuhash_status bad = parse_inserts(s.config, o, err)) return bad;
  return make_table<stadium>(s, o, out, err);
}

const plugin_parts parts = {host_engines_here, cuda_engines_here, cuda_device_here(), make, false};

gpuhash_backend_v1 backend() {
  return describe_backend<parts>(
      "stadium", "0.1.0",
      "a ticket for each slot in a table of its own; keys and values of any size; after Khorasani et al. 2015",
      traits_of_kinds(single_kinds) | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH | GPUHASH_TRAIT_WIDE, option_list);
}

}  // namespace
}  // namespace gpuhash

GPUHASH_PLUGIN(backend)
