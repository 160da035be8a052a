// gpuhash for C++20: tables that destroy themselves, over spans. Header only, above the C ABI of gpuhash.h.
//
//     gpuhash::map<std::uint64_t, float> table({.backend = "hive", .capacity = 1'000'000});
//     table.insert(keys, values);                       // any contiguous ranges: vectors, arrays, spans
//     std::vector<float> found_values(keys.size());
//     std::size_t n = table.find(keys, found_values);
//
// Spans name memory of the table's device: on CUDA device memory, and calls are ordered by `stream`. A call that fails
// throws gpuhash::error, which holds the library's code and its sentence. Where GPUHASH_EXPECTED is defined before this
// header is included, no call throws: each returns gpuhash::result<T>, which holds a value or an error, and `make` makes
// tables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "gpuhash/gpuhash.h"

namespace gpuhash {

enum class code : std::int32_t {
  ok = GPUHASH_OK,
  invalid_argument = GPUHASH_INVALID_ARGUMENT,
  unsupported = GPUHASH_UNSUPPORTED,
  no_memory = GPUHASH_NO_MEMORY,
  full = GPUHASH_FULL,
  not_found = GPUHASH_NOT_FOUND,
  device_error = GPUHASH_DEVICE_ERROR,
  poisoned = GPUHASH_POISONED,
  forked = GPUHASH_FORKED,
  plugin_error = GPUHASH_PLUGIN_ERROR,
  corrupt = GPUHASH_CORRUPT,
  internal = GPUHASH_INTERNAL
};
enum class device_kind : std::int32_t { cpu = GPUHASH_CPU, cuda = GPUHASH_CUDA };
enum class combine : std::uint32_t { add = GPUHASH_ADD, min = GPUHASH_MIN, max = GPUHASH_MAX };

/// An error: what the call did not do, and why.
class error : public std::runtime_error {
 public:
  error(gpuhash::code c, const std::string& sentence) : std::runtime_error(sentence), code_(c) {}
  gpuhash::code code() const noexcept { return code_; }

 private:
  gpuhash::code code_;
};

#if defined(GPUHASH_EXPECTED)
/// A value, or an error.
template <class T>
class [[nodiscard]] result {
  using held = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

 public:
  result(held value) : is_(std::in_place_index<0>, std::move(value)) {}
  result(gpuhash::error e) : is_(std::in_place_index<1>, std::move(e)) {}
  result()
    requires std::is_void_v<T>
      : is_(std::in_place_index<0>) {}
  bool has_value() const noexcept { return is_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  held& operator*() & { return std::get<0>(is_); }
  held&& operator*() && { return std::get<0>(std::move(is_)); }
  held* operator->() { return &std::get<0>(is_); }
  const gpuhash::error& error() const { return std::get<1>(is_); }

 private:
  std::variant<held, gpuhash::error> is_;
};
#else
template <class T>
using result = T;
#endif

/// Defaults of gpuhash_config, by name.
struct options {
  const char* backend = "linear_probe";
  device_kind device = device_kind::cpu;
  std::int32_t ordinal = 0;
  std::uint64_t capacity = 0;    // keys that fit without growing
  double max_load_factor = 0.0;  // 0: the backend's
  std::uint64_t seed = 0;        // 0: drawn at random
  bool grow = true;
  std::uint32_t threads = 0;  // CPU; 0: one for each CPU that this process may use
  const gpuhash_memory* memory = nullptr;
  std::vector<std::pair<std::string, std::string>> backend_options{};
  void* stream = nullptr;  // CUDA: the stream of every call
};

template <class T>
concept element = std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

namespace detail {

struct nothing {};
template <class T>
inline constexpr std::uint32_t bytes_of = std::is_void_v<T> ? 0 : sizeof(std::conditional_t<std::is_void_v<T>, int, T>);
template <class T>
inline constexpr std::uint32_t type_of = std::is_floating_point_v<T> ? GPUHASH_FLOAT
                                         : std::is_signed_v<T>       ? GPUHASH_INT
                                                                     : GPUHASH_UINT;

inline gpuhash_error fresh_error() { return GPUHASH_ERROR_INIT; }

template <class T>
result<T> failure(gpuhash::code c, const std::string& sentence) {
#if defined(GPUHASH_EXPECTED)
  return result<T>(error(c, sentence));
#else
  throw error(c, sentence);
#endif
}
template <class T>
result<T> failure(gpuhash_status status, const gpuhash_error& e) {
  return failure<T>(static_cast<gpuhash::code>(status), e.message);
}

}  // namespace detail

/// A table of pairs of Key and Value; of keys alone where Value is void. Moved, never copied; safe from many threads.
template <element Key, class Value>
  requires(element<Value> || std::is_void_v<Value>)
class basic_table {
  using stored = std::conditional_t<std::is_void_v<Value>, detail::nothing, Value>;
  static constexpr bool is_set = std::is_void_v<Value>;
  using keys_of = std::span<const Key>;
  using values_of = std::span<const stored>;
  using masks_of = std::span<std::uint8_t>;

 public:
#if !defined(GPUHASH_EXPECTED)
  explicit basic_table(const options& o = {}) : basic_table(make(o)) {}
#endif
  basic_table(basic_table&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), stream_(other.stream_), counts_(other.counts_) {}
  basic_table& operator=(basic_table&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(stream_, other.stream_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~basic_table() { gpuhash_table_destroy(table_); }

  static result<basic_table> make(const options& o = {}) {
    gpuhash_config config = GPUHASH_CONFIG_INIT;
    std::vector<gpuhash_option> pairs;
    for (const auto& [key, value] : o.backend_options) pairs.push_back({key.c_str(), value.c_str()});
    config.backend = o.backend;
    config.device = {static_cast<std::int32_t>(o.device), o.ordinal};
    config.key_bytes = sizeof(Key);
    config.value_bytes = detail::bytes_of<Value>;
    config.capacity = o.capacity;
    config.max_load_factor = o.max_load_factor;
    config.seed = o.seed;
    config.grow = o.grow;
    config.threads = o.threads;
    config.memory = o.memory;
    config.options = pairs.data();
    config.n_options = pairs.size();
    config.stream = o.stream;
    gpuhash_error e = detail::fresh_error();
    gpuhash_table* table = nullptr;
    if (const gpuhash_status s = gpuhash_table_create(&config, &table, &e)) return detail::failure<basic_table>(s, e);
    return basic_table(table, o);
  }

  // ---- batches: `mask`, unless it is empty, gets a byte for each key. On the CPU a call returns how many bytes are 1.

  /// Add the pairs whose keys are absent. 1: newly inserted.
  result<std::size_t> insert(keys_of keys, values_of values, masks_of mask = {})
    requires(!is_set)
  {
    return batch(GPUHASH_OP_INSERT, keys, values, {}, mask);
  }
  result<std::size_t> insert(keys_of keys, masks_of mask = {})
    requires is_set
  {
    return batch(GPUHASH_OP_INSERT, keys, {}, {}, mask);
  }
  /// Add each pair, or replace the value. 1: newly inserted.
  result<std::size_t> insert_or_assign(keys_of keys, values_of values, masks_of mask = {})
    requires(!is_set)
  {
    return batch(GPUHASH_OP_ASSIGN, keys, values, {}, mask);
  }
  /// Add to each value, or take the minimum or maximum; a key that is absent gets the operand. 1: newly inserted.
  result<std::size_t> accumulate(keys_of keys, values_of values, combine how = combine::add, masks_of mask = {})
    requires(!is_set && std::is_arithmetic_v<stored>)
  {
    return batch(GPUHASH_OP_ACCUMULATE, keys, values, {}, mask, how);
  }
  /// The value of each key, 0 where it is absent. 1: found.
  result<std::size_t> find(keys_of keys, std::span<stored> values, masks_of mask = {})
    requires(!is_set)
  {
    return batch(GPUHASH_OP_FIND, keys, {}, values, mask);
  }
  result<std::size_t> contains(keys_of keys, masks_of mask = {}) { return batch(GPUHASH_OP_FIND, keys, {}, {}, mask); }
  /// Remove keys. 1: erased.
  result<std::size_t> erase(keys_of keys, masks_of mask = {}) { return batch(GPUHASH_OP_ERASE, keys, {}, {}, mask); }

  // ---- the whole table

  result<std::uint64_t> size() const {
    std::uint64_t n = 0;
    gpuhash_error e = detail::fresh_error();
    if (const gpuhash_status s = gpuhash_size(table_, &n, &e)) return detail::failure<std::uint64_t>(s, e);
    return n;
  }
  result<gpuhash_table_info> info() const {
    gpuhash_table_info i{};
    i.struct_size = sizeof i;
    gpuhash_error e = detail::fresh_error();
    if (const gpuhash_status s = gpuhash_table_get_info(table_, &i, &e))
      return detail::failure<gpuhash_table_info>(s, e);
    return i;
  }
  result<void> clear() {
    return done([&](auto* e) { return gpuhash_clear(table_, stream_, e); });
  }
  result<void> reserve(std::uint64_t keys) {
    return done([&](auto* e) { return gpuhash_reserve(table_, keys, stream_, e); });
  }
  result<void> shrink() {
    return done([&](auto* e) { return gpuhash_shrink(table_, stream_, e); });
  }
  result<void> flush() {
    return done([&](auto* e) { return gpuhash_flush(table_, stream_, e); });
  }
  /// Test the structure's invariants; code::corrupt names the first one that is broken.
  result<void> check() const {
    return done([&](auto* e) { return gpuhash_check(table_, e); });
  }
  /// All keys and values, of a table on the CPU that no thread adds to meanwhile.
  result<std::pair<std::vector<Key>, std::vector<stored>>> pairs() const {
    using all = std::pair<std::vector<Key>, std::vector<stored>>;
    gpuhash_error e = detail::fresh_error();
    std::size_t n = 0;
    if (const gpuhash_status s = gpuhash_export(table_, &n, nullptr, nullptr, stream_, &e))
      return detail::failure<all>(s, e);
    all made{std::vector<Key>(n), std::vector<stored>(is_set ? 0 : n)};
    if (n == 0) return made;
    const gpuhash_status s =
        gpuhash_export(table_, &n, made.first.data(), is_set ? nullptr : made.second.data(), stream_, &e);
    if (s) return detail::failure<all>(s, e);
    return made;
  }

  /// The handle, for the other functions of the C ABI. This object owns it.
  gpuhash_table* get() const noexcept { return table_; }

 private:
  basic_table(gpuhash_table* table, const options& o)
      : table_(table), stream_(o.stream), counts_(o.device == device_kind::cpu) {}

  template <class Call>
  static result<void> done(Call call) {
    gpuhash_error e = detail::fresh_error();
    if (const gpuhash_status s = call(&e)) return detail::failure<void>(s, e);
#if defined(GPUHASH_EXPECTED)
    return {};
#endif
  }
  result<std::size_t> batch(std::uint32_t op, keys_of keys, values_of values, std::span<stored> out, masks_of mask,
                            combine how = combine::add) {
    const auto of_other_length = [&](std::size_t n, bool may_be_empty) {
      return n != keys.size() && !(may_be_empty && n == 0);
    };
    const bool adds = op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE;
    if (of_other_length(mask.size(), true) || of_other_length(values.size(), is_set || !adds) ||
        of_other_length(out.size(), true))
      return detail::failure<std::size_t>(
          code::invalid_argument, "there are " + std::to_string(keys.size()) + " keys, " +
                                      std::to_string(values.size() + out.size()) + " values and " +
                                      std::to_string(mask.size()) + " places in the mask: pass spans of one length");
    gpuhash_counts counts{};
    gpuhash_batch b{};
    b.struct_size = sizeof b;
    b.op = op;
    b.combine = static_cast<std::uint32_t>(how);
    b.value_type = detail::type_of<stored>;
    b.n = keys.size();
    b.keys = keys.data();
    b.values = is_set || values.empty() ? nullptr : values.data();
    b.out_values = is_set || out.empty() ? nullptr : out.data();
    b.out_status = mask.empty() ? nullptr : mask.data();
    b.counts = counts_ ? &counts : nullptr;
    b.stream = stream_;
    gpuhash_error e = detail::fresh_error();
    if (const gpuhash_status s = gpuhash_run(table_, &b, &e)) return detail::failure<std::size_t>(s, e);
    return static_cast<std::size_t>(counts.yes);
  }

  gpuhash_table* table_ = nullptr;
  void* stream_ = nullptr;
  bool counts_ = false;  // on the CPU; on CUDA counting would wait for the batch
};

template <element Key, element Value>
using map = basic_table<Key, Value>;
template <element Key>
using set = basic_table<Key, void>;

}  // namespace gpuhash
