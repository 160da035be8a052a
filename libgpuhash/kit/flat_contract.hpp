// What a structure has to have for flat_table.hpp, which says what each member means, and a check: one that lacks a member,
// or has it of another type, gets one line from the compiler before all others.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpuhash/plugin.h"

namespace gpuhash::flat_members {

template <class S>
concept types = requires {
  typename S::options;
  typename S::layout;
};
template <class S>
concept line_cells = requires {
  { S::line_cells } -> std::convertible_to<uint32_t>;
};
template <class S>
concept parts = requires(const typename S::options& o) {
  { o.parts } -> std::convertible_to<uint32_t>;
};
template <class S>
concept slots_for = requires(const typename S::options& o, uint64_t keys, double max_load) {
  { S::slots_for(o, keys, max_load) } -> std::same_as<uint64_t>;
};
template <class S>
concept bind = requires(const typename S::options& o, void* memory, uint64_t number) {
  { S::bind(o, memory, number, memory, number) } -> std::same_as<typename S::layout>;
};
template <class S>
concept finds_room = requires(const typename S::layout& t, double max_load) {
  { S::finds_room(t, max_load) } -> std::same_as<bool>;
};
template <class S>
concept memory = requires(const typename S::layout& t) {
  { S::memory(t) } -> std::convertible_to<const void*>;
};
template <class S>
concept broken = requires(const typename S::layout& t, uint64_t* cell) {
  { S::broken(t, cell) } -> std::convertible_to<const char*>;
};
template <class S>
concept distances = requires(const typename S::layout& t, size_t n, uint64_t* counts) { S::distances(t, n, counts); };
template <class S>
concept figures = requires(const typename S::layout& t, std::vector<gpuhash_stat>& out) { S::figures(t, out); };

// True for a structure with all members. Another one does not compile.
template <class S>
constexpr bool all() {
  static_assert(types<S>,
                "a structure: missing `using options` or `using layout`: what its plugin.cpp reads of a config, "
                "and what its kernels take");
  if constexpr (types<S>) {
    static_assert(line_cells<S>, "a structure: missing `static constexpr uint32_t line_cells`: slots of a cache line");
    static_assert(parts<S>, "a structure's options: missing `uint32_t parts = 0`: 0 lets the kit choose");
    static_assert(slots_for<S>,
                  "a structure: missing `static uint64_t slots_for(const options&, uint64_t keys, double "
                  "max_load)`: the smallest legal number of slots; 0: too many");
    static_assert(bind<S>,
                  "a structure: missing `static layout bind(const options&, void* slots, uint64_t n_slots, void* "
                  "side, uint64_t seed)`");
    static_assert(finds_room<S>,
                  "a structure: missing `static bool finds_room(const layout&, double max_load)`: below "
                  "max_load, does every key find a place?");
    static_assert(memory<S>, "a structure: missing `static const void* memory(const layout&)`: the slots");
    static_assert(broken<S>,
                  "a structure: missing `static const char* broken(const layout&, uint64_t* cell)`: which "
                  "invariant fails at which cell, or NULL");
    static_assert(distances<S>,
                  "a structure: missing `static void distances(const layout&, size_t n, uint64_t* counts)`: "
                  "how many keys are how far from home");
    static_assert(figures<S>,
                  "a structure: missing `static void figures(const layout&, std::vector<gpuhash_stat>&)`: "
                  "statistics of its own");
  }
  return true;
}

}  // namespace gpuhash::flat_members
