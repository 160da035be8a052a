"""Makes indexes, counters and groups from a container: from keys in the order of their ids, and arrays beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _verb_inputs
from pygpuhash.counter import COUNT, COUNTS, Counter
from pygpuhash.group_by import GroupBy, columns_of
from pygpuhash.index import Index
from pygpuhash.saved import columns, elements
from pygpuhash.saved.chunk import Chunk, Cursor
from pygpuhash.saved.container import Reader
from pygpuhash.saved.flatbuffers import Malformed
from pygpuhash.saved.record import Record
from pygpuhash.saved.types import Type

__all__ = ["KINDS", "made_of"]

KINDS: dict[str, tuple[Any, str]] = {
    "index": (Index, "an index"),
    "counter": (Counter, "a counter"),
    "groups": (GroupBy, "a group-by"),
}


@dataclass(frozen=True)
class _State:
    """An array of an aggregate."""

    aggregate: str
    type: Type
    dtype: np.dtype[Any]
    counts: bool  # of the rows of each group, which has one at least


def made_of(
    reader: Reader, record: Record, chunks: Iterator[tuple[str, Chunk]], arguments: dict[str, Any], cls: type | None
) -> Any:
    """cls : of a copy, its class; None: that of the kind."""
    base, what = KINDS[record.kind]
    refused = set(arguments) - {"threads", "seed", "capacity"}
    if refused:
        raise TypeError(f"{what} is loaded without {', '.join(sorted(refused))}: pass threads, seed or capacity")
    states = reader.refused("the footer", lambda: _states(record))
    made = reader.refused("the footer", lambda: _new(base, cls or base, reader.types, record, states, arguments))
    first = 0
    for name, chunk in chunks:
        reader.refused(name, lambda chunk=chunk, first=first: _add(made, reader.types, states, chunk, first))  # type: ignore[misc]
        first += chunk.rows
    _index_of(made)._give = None  # keys come back as numpy's arrays
    return made


def _states(record: Record) -> list[_State]:
    """The arrays beside the keys that the record describes. Raises Malformed."""
    if record.kind == "index":
        return []
    if record.kind == "counter":
        return [_State(COUNT, elements.type_of(COUNTS, COUNT), COUNTS, True)]
    given, states = record.aggregates, []
    try:
        aggregates = [(name, op, elements.read_dtype(dtype)) for name, op, dtype in given]
        GroupBy({name: op for name, op, _ in aggregates})
    except (TypeError, ValueError) as error:  # which InvalidArgument is, too
        raise Malformed(f"its record has the aggregates {str(given)[:80]}: {str(error)[:160]}") from None
    if len({name for name, _, _ in aggregates}) != len(aggregates):
        raise Malformed(f"its record has the aggregates {str(given)[:80]}, of which two have one name")
    for name, op, dtype in aggregates:
        if not _may_be(op, dtype):
            raise Malformed(f"its record has the {op} {name[:80]!r} of dtype {dtype}, which no {op} has")
        for column, own in zip(columns_of(name, op), (dtype, COUNTS), strict=False):
            states.append(_State(name, elements.type_of(own, column), own, op == "count" or column == f"{name}.rows"))
    return states


def _may_be(op: str, dtype: np.dtype[Any]) -> bool:
    """Is the state of an op ever of this dtype?"""
    if op == "count" or dtype.kind not in "biufmM":
        return op == "count" and dtype == COUNTS
    try:
        return _verb_inputs.dtype_of_results(dtype, op, None) == dtype
    except TypeError:  # times have no sum
        return False


def _new(
    base: Any, cls: type, types: tuple[Type, ...], record: Record, states: list[_State], arguments: dict[str, Any]
) -> Any:
    nulls, floats = (record.options.get(name, "") for name in ("nulls", "floats"))
    fit = not types or types[1:] == tuple(state.type for state in states)  # none: of an index without a type
    if nulls not in ("group", "drop", "refuse") or floats not in ("numbers", "bits") or not fit:
        there = "; ".join(map(str, types))
        raise Malformed(f"its record describes no {record.kind}: {record.options}, and the columns are {there}")
    made = base.__new__(cls)
    aggregates = ({name: op for name, op, _ in record.aggregates},) if record.kind == "groups" else ()
    keys = columns.schema_of(types[0]) if types else None
    try:
        base.__init__(made, *aggregates, keys, nulls=nulls, floats=floats, **arguments)
    except TypeError as error:
        raise Malformed(str(error)) from None
    return made


def _index_of(made: Any) -> Index:
    groups = made._groups if isinstance(made, Counter) else made
    index: Index = groups._index if isinstance(groups, GroupBy) else groups
    return index


def _add(made: Any, types: tuple[Type, ...], states: list[_State], chunk: Chunk, first: int) -> None:
    """Add the rows of a block, of which each has a key of its own."""
    if not types:
        raise Malformed(f"it has {chunk.rows} rows, and the file no columns")
    cursor = Cursor(chunk)
    keys = columns.take(cursor, types[0], chunk.rows)
    arrays: dict[str, tuple[Any, ...]] = {}
    for state in states:
        array = elements.take(cursor, state.type, state.dtype, chunk.rows)
        if state.counts and array.min(initial=1) < 1:
            raise Malformed(
                f"column {state.type.name!r} has the count {array.min()}, and each key has one row at least"
            )
        arrays[state.aggregate] = (*arrays.get(state.aggregate, ()), array)
    try:
        if isinstance(made, Index):
            _want_new(made.added(keys)[1], first)
            return
        groups: GroupBy = made._groups if isinstance(made, Counter) else made
        with groups._held():
            groups._append(keys, arrays, lambda ids: _want_new(ids, first))
    except TypeError as error:
        raise Malformed(str(error)) from None


def _want_new(ids: Any, first: int) -> None:
    if not (ids == np.arange(first, first + ids.size)).all():
        raise Malformed("it repeats keys")
