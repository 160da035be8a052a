"""Joins of two columns on a GPU: the pairs of rows with equal keys, in arrays of the columns' library.

`_device_groups.join` gives the pairs, unless a key has very many right rows: then it says which group of right rows
each left row meets; a table does where the columns are none that it takes. What follows is arithmetic on whole arrays
by CuPy or PyTorch, on the stream of the call; many pairs are written piece by piece, so that repeats take memory for
the results alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["Pairs", "meet", "operations", "pairs"]

Pairs = tuple[Any, Any]
_PIECE = 1 << 26  # pairs that are found at a time


def operations(library: Any, device: str = "") -> Any:
    """What `pairs` asks of a library: CuPy or PyTorch, or numpy, which says what CuPy does."""
    if library.__name__ != "torch":
        return SimpleNamespace(
            arange=library.arange,
            empty=lambda n: library.empty(n, library.int64),
            nonzero=library.flatnonzero,
            where=library.where,
            sums=library.cumsum,
            counts=lambda codes, groups: library.bincount(codes, minlength=groups),
            order=lambda codes: library.argsort(codes, kind="stable"),
            after=lambda ends, places: library.searchsorted(ends, places, side="right"),
            spread=None,  # CuPy's would take the counts to the host
            narrow=lambda codes: codes.astype(library.int32),
        )

    return SimpleNamespace(
        arange=lambda *ends: library.arange(*ends, device=device),
        empty=lambda n: library.empty(n, dtype=library.int64, device=device),
        nonzero=lambda mask: library.nonzero(mask).reshape(-1),
        where=library.where,
        sums=lambda numbers: library.cumsum(numbers, 0),
        counts=lambda codes, groups: library.bincount(codes, minlength=groups),
        order=lambda codes: library.argsort(codes, stable=True),
        after=lambda ends, places: library.searchsorted(ends, places, right=True),
        spread=lambda many, total: library.repeat_interleave(many, output_size=total),
        narrow=lambda codes: codes.to(library.int32),
    )


def meet(xp: Any, first: Any, m: int, keep: bool) -> Pairs:
    """The pairs of rows of two columns with equal keys, by the first, then by the second; `keep` as in `pairs`.

    first : the first row of each key, of the m right rows and of the left ones, whose numbers are behind these.
    """
    return pairs(xp, xp.where(first[m:] < m, first[m:], -1), first[:m], m, keep)


def pairs(xp: Any, at: Any, codes: Any, groups: int, keep: bool, piece: int = _PIECE) -> Pairs:
    """(left rows, right rows), by the first, then by the second: left row i meets the right rows whose code is at[i].

    at : -1 where there is none; with `keep` such a row is there once, with -1.
    codes : of the right rows, 0 to groups - 1, some of which may be there in no row; None where each row is a group of
        its own, and its number the code.
    """
    known = at >= 0
    if codes is None:
        if keep:
            return xp.arange(len(at)), xp.where(known, at, -1)
        left = xp.nonzero(known)
        return left, at[left]
    if groups == 0:
        left = xp.arange(len(at) if keep else 0)
        return left, left * 0 - 1
    rows = xp.order(xp.narrow(codes) if groups < 2**31 else codes)
    many, group = xp.counts(codes, groups), xp.where(known, at, 0)
    starts = xp.sums(many) - many
    each = xp.where(known, many[group], 1 if keep else 0)
    ends = xp.sums(each)
    total = int(ends[-1]) if len(at) else 0
    # Of a left row: what is added to the number of a pair to find the place of its right row.
    shift = starts[group] - (ends - each)
    if xp.spread is not None and total <= piece:
        left = xp.spread(each, total)
        right = rows[xp.arange(total) + shift[left]]
        return left, xp.where(known[left], right, -1) if keep else right
    left, right = xp.empty(total), xp.empty(total)
    for begin in range(0, total, piece):
        end = min(begin + piece, total)
        places = xp.arange(begin, end)
        mine = xp.after(ends, places)
        left[begin:end] = mine
        right[begin:end] = rows[places + shift[mine]]
        if keep:
            right[begin:end] = xp.where(known[mine], right[begin:end], -1)
    return left, right
