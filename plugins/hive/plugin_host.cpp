// The kernels of hive for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include "host_tile.hpp"
#include "libgpuhash/drive/host.hpp"
#include "libgpuhash/kit/kernels.hpp"

GH_BEGIN

template <class Tile, u32 Kind>
using host_op = hive_op<hive_host_tile<typename Tile::format, Tile::slots>, Kind>;

template <class F>
using own_table = hive_table<F, true>;
template <class Tile, u32 Kind>
using own_op =
    hive_op<hive_host_tile<typename Tile::format, Tile::slots>, Kind, false, own_table<typename Tile::format>>;

// Buckets of several cache lines, and hash functions by name: their visits are functions of their own, since one at each
// place of the driver takes long to compile, and to call it takes little next to reading the lines.
template <class Tile, u32 Kind>
struct wide_op : host_op<Tile, Kind> {
  using base = host_op<Tile, Kind>;
  using F = typename base::F;
  struct tile_type {
    struct row {};  // visit reads it
    row load(const typename F::word*) const { return {}; }
  };
  verdict step(tile_type&, const typename base::table& t, joiner j, typename tile_type::row, bool) {
    return visit(*this, t, j);
  }
  verdict slow(tile_type&, const typename base::table& t, joiner j, bool go) {
    typename base::tile_type tile{};
    return base::slow(tile, t, j, go);
  }

 private:
  [[gnu::noinline]] static verdict visit(base& op, const typename base::table& t, joiner j) {
    typename base::tile_type tile{};
    base copy = op;  // which lives in registers
    const verdict d = copy.step(tile, t, j, tile.load(copy.line(t)), true);
    op = copy;
    return d;
  }
};

template <class F, int R>
int run_wide(const void* table, const request& q, totals* sum) {
  using tile = host_tile<F, R>;
  if (q.kind == find) return run_on_host<wide_op<tile, find>, wide_op<tile, find>>(table, q, sum);
  if (q.kind == count) return run_on_host<wide_op<tile, count>, wide_op<tile, find>>(table, q, sum);
  const table_of_kind<hive_table<F>> t{*static_cast<const hive_table<F>*>(table), q.kind};
  return run_on_host<op_of_kind<wide_op<tile, mixed>>, wide_op<tile, find>>(&t, q, sum);
}

template <class F>
int run(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const hive_table<F>*>(table);
  switch (t.slot_bits) {
    case 3: {
      if (t.functions) return run_wide<F, 8>(table, q, sum);
      const own_table<F> own = t.with_own_hashes();
      return host_engines<own_table, own_op, 8 * sizeof(typename F::word)>::template run<F>(&own, q, sum);
    }
    case 4: return run_wide<F, 16>(table, q, sum);
    default: return run_wide<F, 32>(table, q, sum);
  }
}

template <class F>
constexpr engine of_hive() {
  return host_homes<hive_table<F>>::added_to({run<F>, collect_on_host<hive_table<F>>});
}
static constinit const engine engines[format_count] = GPUHASH_OF_FORMATS(of_hive);

GH_END

GPUHASH_HOST_KERNELS(hive)
