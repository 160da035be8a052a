// The side slots: homes of the two user keys whose patterns the structures use themselves (types.hpp).
//
// side[0] belongs to the key ~0 (EMPTY), side[1] to ~0 - 1 (DEAD). A side slot is one word of the table's format whose
// key half is `absent` or `present`; memory filled with 0xff reads as absent.
// Linearization: at the winning CAS, or at the load for operations that do not write.
#pragma once
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

template <class F, class Mem>
GH_FN result<F> serve_side(typename F::word* side, u32 kd, joiner j, typename F::key k, typename F::value v) {
  using key = typename F::key;
  constexpr key absent = empty_key<key>, present = 1;
  typename F::word* slot = side + (k == dead_key<key>);
  if (kd == nop) return {no, 0, 0, 0};
  for (;;) {
    const typename F::word seen = Mem::template load<order::relaxed>(slot);
    const bool alive = F::key_of(seen) != absent;
    const bool erases = in_kinds(kd, erasing_kinds);
    const result<F> res{status_of(kd, alive),
                        erases                       ? -int(alive)
                        : in_kinds(kd, adding_kinds) ? int(!alive)
                                                     : 0,
                        0, answer_of(kd, alive, F::value_of(seen), v)};
    if (!writes(kd, alive)) return res;
    const typename F::word want =
        erases ? empty_word<F>() : F::make(present, F::value_of(wanted<F>(kd, j, alive, F::value_of(seen), k, v)));
    if (Mem::template cas<order::relaxed>(slot, seen, want) == seen) return res;
    Mem::relax();
  }
}

GH_END
