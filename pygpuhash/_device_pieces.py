"""Columns on a GPU with more rows than one call takes, or with temporaries that memory does not hold, in pieces: first
the groups of each piece, then those of their keys, which are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash import _core
from pygpuhash._device_groups import Groups, Values, joined, maker

__all__ = ["PIECE", "groups", "pieces"]

PIECE = 1 << 28  # rows whose temporaries are a small part of a GPU's memory
_INDEX = np.dtype(np.int64)


GroupsOf = Callable[..., "Groups | None"]  # (array, order, counts=, codes=, values=)


def pieces(rows: int, most: int) -> Iterator[slice]:
    """Neighbouring rows, at most so many at a time."""
    return (slice(start, min(start + most, rows)) for start in range(0, rows, most))


def groups(
    array: Any, ordinal: int, most: int, order: str, of: GroupsOf, *, counts: bool, codes: bool, values: Values | None
) -> Groups | None:
    """The groups of an array; None where one call cannot take the keys of all pieces.

    of : gives the groups of an array of at most `most` elements, or None where it cannot.
    """
    piece = min(PIECE, most)
    flat, ops = array.reshape((-1,)), () if values is None else values.ops
    counted, found = counts or "mean" in ops, []
    for rows in pieces(len(flat), piece):
        mine = None if values is None else replace(values, array=values.array.reshape((-1,))[rows])
        part = of(flat[rows], order, counts=counted, codes=codes, values=mine)
        if part is None:
            return None
        if "mean" in ops:  # until all are there: sums
            part.aggregates["mean"] = part.aggregates["mean"] * part.counts
        found.append(part)
    whole: Groups | None = replace(found[0], codes=None)
    for part in found[1:]:
        assert whole is not None
        whole = _merged(whole, part, most, values, of)
        if whole is None:
            return None
    assert whole is not None
    if "mean" in ops:
        whole.aggregates["mean"] = whole.aggregates["mean"] / whole.counts
    if codes:
        whole.codes = maker(flat, ordinal)((len(flat),), _INDEX).reshape(tuple(array.shape))
        for rows, part in zip(pieces(len(flat), piece), found, strict=True):
            known = len(whole.distinct)
            if known + len(part.distinct) > most:
                return None
            numbers = of(joined([whole.distinct, part.distinct]), "first", codes=True).codes  # type: ignore[union-attr]
            whole.codes.reshape((-1,))[rows] = numbers[known:][part.codes]
            part.codes = None  # which is as long as the piece
    return whole


def _merged(one: Groups, other: Groups, most: int, values: Values | None, of: GroupsOf) -> Groups | None:
    """The groups of two pieces: those of the first, then those that it has not. None where they are too many."""
    if len(one.distinct) + len(other.distinct) > most:
        return None
    keys = joined([one.distinct, other.distinct])

    def together(results: list[Any], dtype: np.dtype[Any], op: str) -> Any:
        return of(keys, "first", values=Values(joined(results), dtype, (op,))).aggregates[op]  # type: ignore[union-attr]

    whole = of(keys, "first")
    if whole is None:
        return None
    if one.counts is not None:
        whole.counts = together([one.counts, other.counts], _INDEX, "sum")
    for op, results in one.aggregates.items():
        assert values is not None
        whole.aggregates[op] = together(
            [results, other.aggregates[op]], _core.result_of(op, values.dtype), "sum" if op == "mean" else op
        )
    return whole
