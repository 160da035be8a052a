"""Aggregates of groups in parts: `start` on each part of the rows, `split` by shard, `merge`, `finish`.

    from pygpuhash import partial

    parts = [partial.start(f["user"], {"rows": "count", "paid": ("sum", f["price"])}) for f in files]
    users, results = partial.finish(partial.merge(parts))   # results["rows"], results["paid"]

What a part comes to is a `Partial`: plain columns and arrays, which are pickled, sent and stored. The four functions
are pure: they change nothing that they are given, and give equal results for equal arguments in every process, in the
order in which keys first appear. So a system that runs a task again after it has lost a worker, or twice, gets what it
would have got, as long as it merges the same partials in the same order.

Where one table does not hold all groups, each partial is split by shard, and part s of all of them is merged by itself:

    shards = zip(*(partial.split(p, 16) for p in parts))
    results = [partial.finish(partial.merge(shard)) for shard in shards]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pygpuhash import _device_partial, _number_verbs, _verb_inputs, verbs
from pygpuhash import shards as _shards
from pygpuhash.columns import rows
from pygpuhash.errors import InvalidArgument

__all__ = ["AGGREGATES", "Partial", "finish", "merge", "split", "start"]

AGGREGATES = ("count", "sum", "min", "max", "mean", "first", "nunique")

_INDEX = np.dtype(np.int64)
_FLOAT = np.dtype(np.float64)
Codes = NDArray[np.int64]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class State:
    """What one aggregate of all groups has come to so far.

    op : its name in `AGGREGATES`.
    columns : count, sum, min, max, first: one element for each group. mean: sums and counts. nunique: the group of each
        distinct pair of a group and a value, and the value.
    """

    op: str
    columns: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Partial:
    """Distinct keys of some rows, in the order of their first appearance, and the state of each aggregate by name."""

    keys: Any
    states: dict[str, State]

    def __len__(self) -> int:
        return _size(self.keys)


def start(
    keys: Any,
    aggregates: Mapping[str, Any],
    *,
    nulls: Literal["group", "drop", "refuse"] = "group",
    threads: int | None = None,
) -> Partial:
    """The groups of some rows.

    keys : one-dimensional, a host column as the verbs take it, a tuple of columns, or a frame, whose rows are keys. Or
        numbers of CuPy or PyTorch on a GPU, also a tuple of them, with values there: they are aggregated there, and the
        `Partial` has arrays of numpy in memory of the host, which merge with those of other parts.
    aggregates : {name: "count"} or {name: (op, values)}, several at once; {} for the distinct keys alone. The ops:
        "sum", "min", "max" of numbers and times, as in `group_reduce`; "mean" of numbers, float64; "first", the value
        of the first row, and "nunique", how many distinct values there are, of any column. Null is a value of nunique.

    Floats are added in the order of the rows, so that sums are the same each time; on a GPU by `group_reduce` with
    reproducible=True.

    Raises InvalidArgument for other aggregates, ValueError for values of another length, and what `factorize` raises.
    """
    wanted = {name: _read_aggregate(name, given) for name, given in aggregates.items()}
    if _verb_inputs.lies_on_device(keys):
        distinct, states = _device_partial.start(keys, wanted, nulls)
        return Partial(distinct, {name: State(wanted[name][0], columns) for name, columns in states.items()})
    how: dict[str, Any] = {"order": "first", "nulls": nulls}
    if threads is not None:
        how["threads"] = threads
    if all(op == "count" for op, _ in wanted.values()):
        if not wanted:
            return Partial(verbs.unique(keys, **how), {})
        distinct, counts = verbs.value_counts(keys, **how)
        return Partial(distinct, {name: State("count", (np.asarray(counts, _INDEX),)) for name in wanted})
    given, distinct = verbs.factorize(keys, **how)
    codes = np.asarray(given, _INDEX)
    if codes.ndim != 1:
        raise ValueError(f"keys have shape {codes.shape}: pass a one-dimensional column")
    groups = _size(distinct)
    return Partial(distinct, {name: started(op, values, codes, groups, name) for name, (op, values) in wanted.items()})


def split(partial: Partial, shards: int, seed: int = 0) -> list[Partial]:
    """The groups of each shard, as `gh.partition` has it: equal keys of all partials are in parts of one number."""
    parts = _shards.partition(partial.keys, shards, seed, threads=1)
    bounds = list(zip(parts.offsets[:-1].tolist(), parts.offsets[1:].tolist(), strict=True))
    states = {name: _split_state(state, parts, bounds) for name, state in partial.states.items()}
    return [
        Partial(rows.cut(parts.keys, begin, end), {name: of_shards[i] for name, of_shards in states.items()})
        for i, (begin, end) in enumerate(bounds)
    ]


def merge(partials: Sequence[Partial], *, threads: int | None = None) -> Partial:
    """The groups of all rows of several partials, of which the first has the first rows.

    Keys of one library and type: integers of several widths are the same keys, floats beside integers are refused by
    name. So is a partial without a group whose keys have another type.

    Raises InvalidArgument for no partials and for those of other aggregates, TypeError for keys of two types.
    """
    partials = list(partials)
    if not partials:
        raise InvalidArgument("partials is empty: pass one partial at least, as that of no rows has its type")
    for i, partial in enumerate(partials):
        if not isinstance(partial, Partial):
            raise TypeError(f"partials[{i}] is a {type(partial).__name__}, not a Partial: pass what start has made")
        ops, first = ({name: s.op for name, s in p.states.items()} for p in (partial, partials[0]))
        if ops != first:
            raise InvalidArgument(f"partials[{i}] has the aggregates {ops}, partials[0] {first}: start all alike")
    if len(partials) == 1:
        return partials[0]
    how: dict[str, Any] = {} if threads is None else {"threads": threads}
    keys = rows.concat([p.keys for p in partials], "keys of partials")
    given, distinct = verbs.factorize(keys, order="first", **how)
    codes, groups = np.asarray(given, _INDEX), _size(distinct)
    starts = np.cumsum([0, *map(len, partials)])
    states = {
        name: combined(state.op, name, [p.states[name].columns for p in partials], codes, groups, starts)
        for name, state in partials[0].states.items()
    }
    return Partial(distinct, states)


def finish(partial: Partial) -> tuple[Any, dict[str, Any]]:
    """(distinct keys, {name: results}): numpy's arrays, for "first" a column of the values' library."""
    return partial.keys, {name: _finished(state, len(partial)) for name, state in partial.states.items()}


# ---- one aggregate ---------------------------------------------------------------------------------------------------


def _read_aggregate(name: str, given: Any) -> tuple[str, Any]:
    pair = (given, None) if isinstance(given, str) else given
    op, values = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
    if op not in AGGREGATES:
        raise InvalidArgument(
            f"aggregate {name!r} is {given!r}: pass 'count', or a pair of values and of one of the ops "
            f"{', '.join(AGGREGATES[1:])}, the op first"
        )
    if (op == "count") != (values is None):
        way_out = "'count' alone, which has no values" if op == "count" else f"({op!r}, values)"
        raise InvalidArgument(
            f"aggregate {name!r} is {op!r} {'with' if op == 'count' else 'without'} values: pass {way_out}"
        )
    return op, values


def started(op: str, values: Any, codes: Codes, groups: int, name: str) -> State:
    if op == "count":
        return State(op, (np.bincount(codes[codes >= 0], minlength=groups),))
    if op in ("first", "nunique"):
        if _size(values) != codes.size:
            raise ValueError(f"values of {name!r} have {_size(values)} rows, keys {codes.size}: pass one for each key")
        if op == "first":
            return State(op, (rows.take(values, _first_rows(codes)),))
        return State(op, _distinct_pairs(codes, values))
    amounts, given = _verb_inputs.values_of(values, codes.shape, False, f"values[{name!r}]")
    stored = _verb_inputs.dtype_of_results(given, op, None)
    if op == "mean":
        sums = _number_verbs.reduce(codes, groups, amounts.astype(_FLOAT), "sum", _FLOAT)
        return State(op, (sums, np.bincount(codes[codes >= 0], minlength=groups)))
    return State(op, (_number_verbs.reduce(codes, groups, amounts, op, stored),))


def combined(
    op: str, name: str, parts: list[tuple[Any, ...]], codes: Codes, groups: int, starts: NDArray[np.int64]
) -> State:
    """parts: the state's columns of each partial. codes: of the groups of all partials, one after the other."""
    if op == "nunique":
        own = np.concatenate([codes[pair[0] + begin] for pair, begin in zip(parts, starts[:-1], strict=True)])
        return State(
            op, _distinct_pairs(own, rows.concat([pair[1] for pair in parts], f"values of {name!r} in partials"))
        )
    columns = [rows.concat(list(column), f"values of {name!r} in partials") for column in zip(*parts, strict=True)]
    if op == "first":
        return State(op, (rows.take(columns[0], _first_rows(codes)),))
    how = op if op in ("min", "max") else "sum"
    return State(op, tuple(_number_verbs.reduce(codes, groups, column, how, column.dtype) for column in columns))


def _split_state(state: State, parts: _shards.Partition, bounds: list[tuple[int, int]]) -> list[State]:
    if state.op != "nunique":
        columns = [rows.take(column, parts.order) for column in state.columns]
        return [State(state.op, tuple(rows.cut(c, begin, end) for c in columns)) for begin, end in bounds]
    groups, values = state.columns
    place = np.empty(parts.order.size, _INDEX)  # of each group among all of all shards
    place[parts.order] = np.arange(parts.order.size)
    at = place[groups]
    shard = np.searchsorted(parts.offsets, at, "right") - 1
    order = np.argsort(shard, kind="stable")
    ends = np.cumsum(np.bincount(shard, minlength=len(bounds)))
    out = []
    for i, (begin, _) in enumerate(bounds):
        own = order[ends[i - 1] if i else 0 : ends[i]]
        out.append(State(state.op, (at[own] - begin, rows.take(values, own))))
    return out


def _finished(state: State, groups: int) -> Any:
    if state.op == "mean":
        return state.columns[0] / state.columns[1]
    if state.op == "nunique":
        return np.bincount(state.columns[0], minlength=groups)
    return state.columns[0]


def _first_rows(codes: Codes) -> Codes:
    """The row of each code's first appearance; codes count in its order, and are -1 for rows that are left out."""
    highest = np.maximum.accumulate(np.concatenate((np.array([-1]), codes)))
    return np.flatnonzero(highest[1:] > highest[:-1])


def _distinct_pairs(codes: Codes, values: Any) -> tuple[Codes, Any]:
    """Distinct pairs of a group and a value, by the first row of each."""
    number, _ = verbs.factorize(values, order="first")
    numbers = np.asarray(number, _INDEX)
    kept = np.flatnonzero(codes >= 0)
    width = int(numbers.max(initial=0)) + 1
    pair, _ = verbs.factorize(codes[kept] * width + numbers[kept], order="first")
    first = kept[_first_rows(pair)]
    return codes[first], rows.take(values, first)


def _size(keys: Any) -> int:
    if rows.library(keys) == "tuple":
        return _size(keys[0])
    return keys.num_rows if hasattr(keys, "num_rows") else len(keys)
