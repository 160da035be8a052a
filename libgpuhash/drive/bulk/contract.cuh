// Large batches: what a structure says of the partitions of its table, and a check of it.
//
// A structure writes a class with the members that the checks below name (`own_partitions` decides which);
// bulk_engine_of turns it into an engine. A class that lacks a member, or has one of another type, gets one line from
// the compiler.
#pragma once
#include <concepts>

#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/policy.hpp"

GH_BEGIN

namespace bulk_members {

template <class P>
using table_of = const typename P::table&;
template <class T>
T some();  // a value, for expressions that are not evaluated

// Types: slot format, layout of the table, numbers of groups, operations of any kind for a tile.
template <class P>
concept format = requires { typename P::F::key; };
template <class P>
concept table = requires { typename P::table; };
template <class P>
concept index = requires { typename P::index; };
template <class P>
concept rest_op = requires { typename P::rest_op::tile_type; };
template <class P>
concept types = format<P> && table<P> && index<P> && rest_op<P>;

// Of all structures.
template <class P>
concept own_partitions = requires {
  { P::own_partitions } -> std::convertible_to<bool>;
};
template <class P>
concept combines_directly = requires {
  { P::combines_directly } -> std::convertible_to<bool>;
};
template <class P>
concept policy = requires {
  { P::policy } -> std::convertible_to<const bulk_policy&>;
};
template <class P>
concept applies = requires {
  { P::applies(some<table_of<P>>()) } -> std::convertible_to<bool>;
};
template <class P>
concept slots = requires {
  { P::slots(some<table_of<P>>()) } -> std::convertible_to<u64>;
};
template <class P>
concept chain_after = requires {
  { P::chain_after(some<table_of<P>>(), u64()) } -> std::convertible_to<u64>;
};
template <class P>
concept group_of = requires {
  { P::group_of(some<table_of<P>>(), some<typename P::F::key>()) } -> std::convertible_to<typename P::index>;
};
template <class P>
concept group_bits = requires {
  { P::group_bits(some<table_of<P>>()) } -> std::convertible_to<u32>;
};
template <class P>
concept common = own_partitions<P> && combines_directly<P> && policy<P> && applies<P> && slots<P> && chain_after<P> &&
                 group_of<P> && group_bits<P>;

// Its operations of one kind, for a tile of one lane in the memory of a block.
template <class P>
concept op = requires { typename P::template op<lone_tile<typename P::F, block_mem>, insert>; };
template <class P>
concept dead_at = requires {
  { P::dead_at(some<table_of<P>>(), u64()) } -> std::convertible_to<bool>;
};

// Without own partitions: a partition is 2^n slots, and a table of its own.
template <class P>
concept goes_on = requires {
  { P::goes_on } -> std::convertible_to<bool>;
};
template <class P>
concept least_bits = requires {
  { P::least_bits(some<table_of<P>>()) } -> std::convertible_to<u32>;
};
template <class P>
concept local = requires {
  { P::local(some<table_of<P>>(), some<typename P::F::word*>(), u32()) } -> std::convertible_to<typename P::table>;
};
template <class P>
concept local_home = requires {
  { P::local_home(some<table_of<P>>(), u32()) } -> std::convertible_to<typename P::index>;
};
template <class P>
concept left = requires {
  {
    P::left(some<const typename P::template op<lone_tile<typename P::F, block_mem>, insert>&>())
  } -> std::convertible_to<bool>;
};
template <class P>
concept as_tables = goes_on<P> && least_bits<P> && local<P> && local_home<P> && left<P>;

// With own partitions: how many there are, and the kernel that serves them.
template <class P>
concept partitions = requires {
  { P::partitions(some<table_of<P>>()) } -> std::convertible_to<u64>;
};
template <class P>
concept partition_bits = requires {
  { P::partition_bits(some<table_of<P>>()) } -> std::convertible_to<u32>;
};
template <class P>
concept shares = requires {
  { P::shares(some<table_of<P>>()) } -> std::convertible_to<u64>;
};
template <class P>
concept serve_bytes = requires {
  { P::serve_bytes(some<table_of<P>>(), bool()) } -> std::convertible_to<size_t>;
};
template <class P>
concept server = requires { P::server(u32()); };
template <class P>
concept with_own_kernel = partitions<P> && partition_bits<P> && shares<P> && serve_bytes<P> && server<P>;

template <class P>
constexpr bool uses_op() {
  return !P::own_partitions || P::combines_directly;
}
template <class P>
constexpr bool declines_dead() {
  return P::policy.declines_dead;
}

// Each of these is true, or does not compile, with a line for each member that is missing or of another type.
template <class P>
constexpr bool has_types() {
  static_assert(format<P>, "large batches: missing `using F`: the slot format");
  static_assert(table<P>, "large batches: missing `using table`: the struct that kernels get");
  static_assert(index<P>, "large batches: missing `using index`: the type of a group's number");
  static_assert(rest_op<P>, "large batches: missing `using rest_op`: the structure's op of kind `mixed`, for a tile");
  return types<P>;
}
template <class P>
constexpr bool has_common() {
  static_assert(
      own_partitions<P>,
      "large batches: missing `static constexpr bool own_partitions`: are partitions of another shape than 2^n "
      "slots, and served by a kernel of the structure's own?");
  static_assert(
      combines_directly<P>,
      "large batches: missing `static constexpr bool combines_directly`: may one lane serve an element in the "
      "table itself?");
  static_assert(policy<P>, "large batches: missing `static constexpr bulk_policy policy`: which batches are divided");
  static_assert(applies<P>, "large batches: missing `static bool applies(table)`: may this table be divided at all?");
  static_assert(slots<P>, "large batches: missing `static u64 slots(table)`: how many the table has");
  static_assert(
      chain_after<P>,
      "large batches: missing `static u64 chain_after(table, keys)`: keys of a chain when the table has so many, "
      "or 0");
  static_assert(
      group_of<P>,
      "large batches: missing `GH_FN static index group_of(table, key)`: the group of slots where a path begins; "
      "with own_partitions the partition, or a bucket of it");
  static_assert(
      group_bits<P>,
      "large batches: missing `static u32 group_bits(table)`: a group is 2^group_bits slots, of 64 to 128 bytes; "
      "with own_partitions 0");
  return common<P>;
}
template <class P>
constexpr bool has_used() {
  constexpr bool lacks_op = uses_op<P>() && !op<P>, lacks_dead_at = declines_dead<P>() && !dead_at<P>;
  static_assert(
      !lacks_op,
      "large batches: missing `template <class Tile, u32 Kind> using op`: the structure's operations, for a tile "
      "of one lane");
  static_assert(!lacks_dead_at,
                "large batches: missing `GH_FN static bool dead_at(table, random)`: is a random slot dead? "
                "(policy.declines_dead)");
  return !lacks_op && !lacks_dead_at;
}
template <class P>
constexpr bool has_tables() {
  static_assert(
      goes_on<P>,
      "large batches: missing `static constexpr bool goes_on`: does a path go from a full group to the next one?");
  static_assert(least_bits<P>,
                "large batches: missing `static u32 least_bits(table)`: the smallest partition has 2^least_bits slots");
  static_assert(
      local<P>,
      "large batches: missing `GH_FN static table local(table, slots, n)`: a partition of n slots as a table");
  static_assert(
      local_home<P>,
      "large batches: missing `GH_FN static index local_home(table, group)`: a home there whose group is this one");
  static_assert(left<P> || !op<P>,
                "large batches: missing `GH_FN static bool left(op)`: did the path of a finished operation leave the "
                "partition, so that nothing was done?");
  return as_tables<P>;
}
template <class P>
constexpr bool has_own_kernel() {
  static_assert(partitions<P>, "large batches: missing `static u64 partitions(table)`: how many there are");
  static_assert(partition_bits<P>,
                "large batches: missing `static u32 partition_bits(table)`: 2^n of what group_of says are a partition");
  static_assert(
      shares<P>,
      "large batches: missing `static u64 shares(table)`: no partition has more than one in so many of the keys");
  static_assert(
      serve_bytes<P>,
      "large batches: missing `static size_t serve_bytes(table, with_statuses)`: of the memory of a block that "
      "serves a partition");
  static_assert(server<P>, "large batches: missing `static auto server(kind)`: the kernel that serves partitions");
  return with_own_kernel<P>;
}

}  // namespace bulk_members

// True for a class with all members, which is all that the driver needs. Another one does not compile.
template <class P>
constexpr bool has_bulk_members() {
  if constexpr (!bulk_members::has_types<P>())
    return false;
  else if constexpr (!bulk_members::has_common<P>())
    return false;
  else if constexpr (P::own_partitions)
    return bulk_members::has_own_kernel<P>() && bulk_members::has_used<P>();
  else
    return bulk_members::has_tables<P>() && bulk_members::has_used<P>();
}

GH_END
