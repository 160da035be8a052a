// What a structure's layout and operations have to have for the drivers (tile/tile.hpp says what they mean), and a check.
//
// A driver is instantiated only for a structure that has all of it. One that lacks a member, or has it of another type, gets
// one line from the compiler for each.
#pragma once
#include <concepts>

#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

namespace structure_members {

template <class T>
T some();  // a value, for expressions that are not evaluated

// Of the layout, which kernels get as it is.
template <class T>
concept format = requires { typename T::format::word; };
template <class T>
concept key = requires { typename T::key; };
template <class T>
concept index = requires { typename T::index; };
template <class T>
concept kinds = requires {
  { T::kinds } -> std::convertible_to<u32>;
};
template <class T>
concept side_slots = requires {
  { T::side_slots } -> std::convertible_to<bool>;
};
template <class T>
concept home = requires {
  { some<const T&>().home(some<typename T::key>()) } -> std::convertible_to<typename T::index>;
};
template <class T>
concept layout = format<T> && key<T> && index<T> && kinds<T> && side_slots<T> && home<T>;

// Of an operation.
template <class Op>
concept op_types = requires {
  typename Op::F;
  typename Op::table;
  typename Op::key;
  typename Op::value;
  typename Op::word;
  typename Op::index;
  typename Op::tile_type;
};
template <class Op>
concept fixed_kind = requires {
  { Op::fixed_kind } -> std::convertible_to<u32>;
};
template <class Op>
concept has_slow = requires {
  { Op::has_slow } -> std::convertible_to<bool>;
};
template <class Op>
concept start = requires {
  some<Op&>().start(some<const typename Op::table&>(), u32(), some<typename Op::key>(), some<typename Op::value>(),
                    some<typename Op::index>());
};
template <class Op>
concept line = requires {
  { some<Op&>().line(some<const typename Op::table&>()) } -> std::convertible_to<const typename Op::word*>;
};
template <class Op>
concept step = requires {
  {
    some<Op&>().step(some<typename Op::tile_type&>(), some<const typename Op::table&>(), some<joiner>(),
                     some<const typename Op::tile_type::row&>(), bool())
  } -> std::same_as<verdict>;
};
template <class Op>
concept slow = requires {
  {
    some<Op&>().slow(some<typename Op::tile_type&>(), some<const typename Op::table&>(), some<joiner>(), bool())
  } -> std::same_as<verdict>;
};
template <class Op>
concept res = requires {
  { some<Op&>().res } -> std::convertible_to<result<typename Op::F>>;
};
template <class Op>
concept operation = op_types<Op> && fixed_kind<Op> && has_slow<Op> && start<Op> && line<Op> && step<Op> && res<Op>;

template <class Op>
constexpr bool needs_slow() {
  return Op::has_slow;
}

// Each of these is true, or does not compile.
template <class T>
constexpr bool has_layout() {
  static_assert(format<T>, "a structure's layout: missing `using format`: the slot format, as pair32");
  static_assert(key<T>, "a structure's layout: missing `using key`: of the format");
  static_assert(index<T>, "a structure's layout: missing `using index`: the type of a home");
  static_assert(kinds<T>,
                "a structure's layout: missing `static constexpr u32 kinds`: a bit for each operation it has");
  static_assert(
      side_slots<T>,
      "a structure's layout: missing `static constexpr bool side_slots`: do the keys of EMPTY and DEAD lie in "
      "slots of their own (`word* side`)?");
  static_assert(home<T> || !key<T> || !index<T>,
                "a structure's layout: missing `GH_FN index home(key) const`: where the path of a key begins");
  return layout<T>;
}
template <class Op>
constexpr bool has_operation() {
  static_assert(
      op_types<Op>,
      "a structure's op: missing one of `using F, table, key, value, word, index, tile_type`: the types of tile.hpp");
  if constexpr (op_types<Op>) {
    static_assert(fixed_kind<Op>, "a structure's op: missing `static constexpr u32 fixed_kind`: its kind, or `mixed`");
    static_assert(has_slow<Op>,
                  "a structure's op: missing `static constexpr bool has_slow`: may step() ask for slow()?");
    static_assert(start<Op>,
                  "a structure's op: missing `GH_FN void start(const table&, u32 kind, key, value, index home)`");
    static_assert(line<Op>, "a structure's op: missing `GH_FN const word* line(const table&)`: the row to visit now");
    static_assert(
        step<Op>,
        "a structure's op: missing `GH_FN verdict step(tile_type&, const table&, joiner, const row&, bool go)`");
    static_assert(res<Op>, "a structure's op: missing `result<F> res`: what it answers, valid once it is done");
  }
  if constexpr (operation<Op>) {
    static_assert(
        !needs_slow<Op>() || slow<Op>,
        "a structure's op: missing `GH_FN verdict slow(tile_type&, const table&, joiner, bool go)` (has_slow)");
    return !needs_slow<Op>() || slow<Op>;
  } else {
    return false;
  }
}

}  // namespace structure_members

// True for a structure with all members. Another one does not compile.
template <class Table, class Op>
constexpr bool has_structure_members() {
  const bool layout = structure_members::has_layout<Table>(), operation = structure_members::has_operation<Op>();
  return layout && operation;
}

GH_END
