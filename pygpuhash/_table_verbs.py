"""Verbs over tables: of arrays on a GPU, and of host arrays of single numbers and times.

Each makes a `Table` for the call and closes it. Keys compare by their bits here; `verbs` has made equal numbers alike.
Results are arrays of the column's library, one-dimensional but for codes and masks, which have the column's shape.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pygpuhash import (
    _arrays,
    _cuda,
    _device_arrays,
    _device_groups,
    _device_joins,
    _device_pieces,
    _streams,
    _tensors,
)
from pygpuhash._key_columns import (
    Kept,
    KeyColumn,
    as_others,
    converted,
    equal_numbers,
    numbers_dtype,
    on_device,
    on_host,
    ordinal_of,
    ready_on_device,
    seen,
    settle,
    view_of,
)
from pygpuhash.errors import InvalidArgument, Unsupported
from pygpuhash.table import Table

__all__ = [
    "Kept",
    "KeyColumn",
    "as_others",
    "equal_numbers",
    "factorize",
    "group_reduce",
    "isin",
    "join_indexer",
    "join_on_device",
    "on_device",
    "on_host",
    "ordinal_of",
    "ready_on_device",
    "reduce_by_all",
    "refuse_capture",
    "refuse_captured",
    "seen",
    "unique",
    "value_counts",
]

Order = Literal["any", "first"]
Array = np.ndarray[Any, Any]

_FLOAT = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_FIRST_PIECE, _PIECE = 1 << 14, 1 << 18  # elements that are put in order at first, and looked up at a time


def unique(column: KeyColumn, order: Order, table: dict[str, Any]) -> Any:
    """The distinct keys."""
    found = _groups(column, order, table)
    if found is not None:
        return column.give(found.distinct)
    if order == "first":
        return column.give(_first_seen(column, table))
    with _table(column, None, table) as t:
        t.insert(column.array, out=False)
        return column.give(_pairs(t, column)[0])


def value_counts(column: KeyColumn, order: Order, table: dict[str, Any]) -> tuple[Any, Any]:
    """(distinct keys, how often each occurs, int64)."""
    found = _groups(column, order, table, counts=True)
    if found is not None:
        return column.give(found.distinct), found.counts
    with _table(column, numbers_dtype(column), table) as t:
        t.accumulate(column.array, 1, out=False)
        distinct, counts = _results(t, column, order, table)
    return column.give(distinct), column.as_index(counts, table)


def factorize(column: KeyColumn, order: Order, table: dict[str, Any]) -> tuple[Any, Any]:
    """(codes, distinct keys)."""
    found = _groups(column, order, table, codes=True)
    if found is not None:
        codes = found.codes
        if column.kept is not None and found is not column.known:
            codes = column.kept.spread(codes)
        return codes, column.give(found.distinct)
    with _table(column, numbers_dtype(column), table) as t:
        if order == "first" and not column.on_device:
            codes = np.empty(column.shape, _INDEX)
            distinct = _in_order(t, column, codes.reshape(-1))
        else:
            if order == "first":
                distinct = _in_order_on_device(t, column)
            elif column.on_device:
                t.insert(column.array, 0, out=False)
                distinct = _pairs(t, column)[0]
            else:
                distinct = column.array[t.insert(column.array, 0)]
            _number(t, column, distinct)
            codes = t.find(column.array, found=False)[0]
    codes = column.as_index(codes, table)
    return codes if column.kept is None else column.kept.spread(codes), column.give(distinct)


def isin(column: KeyColumn, others: KeyColumn, table: dict[str, Any]) -> Any:
    """Which keys are among others; the table is on the GPU of either."""
    mask = _isin(column, others, table)
    if mask is not None:
        return mask
    with _table(others if others.on_device else column, None, table) as t:
        t.insert(others.array, out=False)
        return t.contains(column.array)


def group_reduce(
    column: KeyColumn,
    amounts: Any,
    given: np.dtype[Any],
    op: Literal["sum", "min", "max", "mean"],
    stored: np.dtype[Any],
    order: Order,
    table: dict[str, Any],
) -> tuple[Any, Any]:
    """(distinct keys, what the values of each come to). given, stored: dtypes of the values and of the results."""
    found = reduce_by_all(column, amounts, given, (op,), stored if op == "sum" else None, order, table)
    if found is not None:
        return found[0], found[1][0]
    if op == "mean" and column.on_device and not _device_arrays.converts(column.array):
        name = type(column.array).__name__
        raise TypeError(
            f"'mean' of a {name}, which cannot be divided: ask for 'sum' and 'count', or pass CuPy's arrays"
        )
    if op == "mean" or (given.kind == stored.kind == "f" and given != stored):
        amounts = _rounded(amounts, stored)
    with _table(column, stored, table) as t:
        if op == "sum" and given.kind == "m":
            _add_times(t, column.array, amounts)
        elif op == "sum" or op == "mean":
            t.accumulate(column.array, amounts, out=False)
        elif given.kind in "fmM":
            _accumulate_numbers(t, column, amounts, op)
        else:
            t.accumulate(column.array, amounts, op=op, out=False)
        distinct, results = _results(t, column, order, table)
    if op == "mean":
        with _table(column, _FLOAT, table) as t:
            t.accumulate(column.array, 1.0, out=False)
            counts = t.find(distinct, found=False)[0]
        settle(column, table)
        results = results / counts
    return column.give(distinct), results


def join_indexer(one: KeyColumn, other: KeyColumn, table: dict[str, Any]) -> tuple[Array, Array | None]:
    """(codes of the left column, -1 where absent; codes of the right one), host columns of one dtype.

    Codes of the right column are None where no key repeats in it: then its positions are what the left one's codes are.
    """
    with _table(other, numbers_dtype(other), table) as t:
        fresh = t.insert(other.array, _positions(other))
        codes = None
        if not fresh.all():
            _number(t, other, other.array[fresh])
            codes = t.find(other.array, found=False)[0].astype(_INDEX, copy=False)
        at, found = t.find(one.array)
    return np.where(found, at, -1).astype(_INDEX, copy=False), codes


def join_on_device(one: KeyColumn, other: KeyColumn, how: str, given: dict[str, Any]) -> _device_joins.Pairs:
    """(left rows, right rows) of two columns of CuPy or of PyTorch on one GPU."""
    assert one.ordinal is not None
    library, most = sys.modules[_tensors.library_of(one.array) or ""], _device_groups.MOST
    taken = _device_groups.serves(library.__name__, one.dtype, most, one.ordinal, given)
    if taken and one.size + other.size > most >= 2 * other.size:
        parts = []
        for rows in _device_pieces.pieces(one.size, most - other.size):
            array = one.array[rows]
            parts.append(join_on_device(replace(one, array=array, shape=(len(array),), ready=None), other, how, given))
        settle(one, given)
        with _cuda.current(one.ordinal):
            starts = [rows.start for rows in _device_pieces.pieces(one.size, most - other.size)]
            left = [rows + start for (rows, _), start in zip(parts, starts, strict=True)]
            return _device_groups.joined(left), _device_groups.joined([rows for _, rows in parts])
    if _device_groups.serves(library.__name__, one.dtype, one.size + other.size, one.ordinal, given):
        where = _device_groups.Place(one.ordinal, one.array, one.ready, given)
        try:
            with where.on_device():
                refuse_captured(where.stream)
                pairs, first = _device_groups.join(where, other.array, one.dtype, how == "left")
                if pairs is not None:
                    return pairs
                with where.allocating():
                    xp = _device_joins.operations(library, f"cuda:{one.ordinal}")
                    return _device_joins.meet(xp, first, other.size, how == "left")
        except Unsupported:  # by a device with little shared memory
            pass
    refuse_capture(one.array, one.ordinal, given.get("stream"))
    keeper = _streams.stream_keeper(one.array, one.ordinal) if given.get("stream") is None else given["stream"]
    _, stream = _streams.usable_stream(keeper, one.ordinal)
    with _cuda.current(one.ordinal), _streams.working_on(one.array, one.ordinal, stream):
        xp = _device_joins.operations(library, f"cuda:{one.ordinal}")
        codes, groups = None, other.size
        with _table(other, _INDEX, given) as t:
            fresh = t.insert(other.array, xp.arange(other.size))
            if bool(fresh.all()):
                at, found = t.find(one.array)
        if not bool(fresh.all()):
            codes, distinct = factorize(other, "any", given)
            groups = len(distinct)
            with _table(other, _INDEX, given) as t:
                t.insert(distinct, xp.arange(groups), out=False)
                at, found = t.find(one.array)
        return _device_joins.pairs(xp, xp.where(found, at, -1), codes, groups, how == "left")


# ---- groups of a column on a GPU, without a table --------------------------------------------------------------------


def _groups(
    column: KeyColumn,
    order: str,
    given: dict[str, Any],
    *,
    counts: bool = False,
    codes: bool = False,
    values: _device_groups.Values | None = None,
) -> _device_groups.Groups | None:
    """The groups of a column on a GPU; None where a table serves it."""
    if column.ordinal is None:
        return None
    library, ordinal, most = _tensors.library_of(column.array), column.ordinal, _device_groups.MOST
    if not _device_groups.serves(library, column.dtype, min(column.size, most), ordinal, given):
        return None

    def of(where: _device_groups.Place, order: str, **wanted: Any) -> _device_groups.Groups:
        with where.on_device():
            refuse_captured(where.stream)
            return _device_groups.group(where, column.dtype, order == "first", **wanted)

    def of_array(array: Any, *arguments: Any, **wanted: Any) -> _device_groups.Groups:
        return of(_device_groups.Place(ordinal, array, None, given), *arguments, **wanted)

    if column.known is not None and values is None:
        return column.known
    if library == _device_groups.OWN and column.size > most:
        return None
    wanted: dict[str, Any] = {"counts": counts, "codes": codes, "values": values}
    try:
        if column.size <= most:
            try:
                return of(_device_groups.Place(ordinal, column.array, column.ready, given), order, **wanted)
            except Exception as error:  # the library's
                if type(error).__name__ != "OutOfMemoryError" or column.size <= _device_pieces.PIECE:
                    raise
        with _cuda.current(ordinal):
            return _device_pieces.groups(column.array, ordinal, most, order, of_array, **wanted)
    except Unsupported:  # by a device with little shared memory
        return None


def reduce_by_all(
    column: KeyColumn,
    amounts: Any,
    given: np.dtype[Any],
    ops: tuple[str, ...],
    sums: np.dtype[Any] | None,
    order: str,
    table: dict[str, Any],
) -> tuple[Any, tuple[Any, ...]] | None:
    """(distinct keys, the aggregates `ops`) of a column on a GPU, by one call; None where tables serve it.

    sums: the dtype of sums, if they are among the aggregates.
    """
    if column.ordinal is None or not _arrays.on_device(amounts):
        return None
    if not _device_groups.serves_values(_tensors.library_of(column.array), amounts, given, sums):
        return None
    values = _device_groups.Values(amounts, given, tuple(op for op in ops if op != "count"))
    found = _groups(column, order, table, counts="count" in ops, values=values)
    if found is None:
        return None
    results = {**found.aggregates, "count": found.counts}
    return column.give(found.distinct), tuple(results[op] for op in ops)


def _isin(column: KeyColumn, others: KeyColumn, given: dict[str, Any]) -> Any:
    """The mask of a column on a GPU; None where a table serves it."""
    if column.ordinal is None:
        return None
    library = _tensors.library_of(column.array)
    if not _device_groups.serves_isin(library, column.dtype, column.size, others.size, column.ordinal, given):
        return None
    if others.ordinal not in (None, column.ordinal):
        return None
    where = _device_groups.Place(column.ordinal, column.array, column.ready, given)
    try:
        with where.on_device():
            refuse_captured(where.stream)
            among = others.array
            if others.ordinal is None:
                with _cuda.current(column.ordinal):  # on whose default stream the copy may be
                    among = _cuda.from_host(np.ascontiguousarray(among), column.ordinal, where.keeper())
            return _device_groups.isin(where, among, column.dtype)
    except Unsupported:  # by a device with little shared memory
        return None
    except Exception as error:
        if not _device_groups.is_memory_short(error) or others.size == 0:
            raise
        return None  # a table takes less memory


# ---- tables ----------------------------------------------------------------------------------------------------------


def _table(column: KeyColumn, value_dtype: np.dtype[Any] | None, given: dict[str, Any]) -> Table:
    place = {} if column.ordinal is None else {"device": f"cuda:{column.ordinal}"}
    if column.ordinal is not None:
        refuse_capture(column.array, column.ordinal, given.get("stream"))
    return Table(key_dtype=column.dtype, value_dtype=value_dtype, **(place | given))


def refuse_capture(array: Any, ordinal: int, stream: Any) -> None:
    """Refuse a call on a stream that is being captured. stream: that of the call; None for the array's."""
    s = _streams.stream_keeper(array, ordinal) if stream is None else stream
    with _cuda.current(ordinal):
        refuse_captured(_streams.usable_stream(s, ordinal)[1])


def refuse_captured(stream: int) -> None:
    if _cuda.is_capturing(stream):
        raise InvalidArgument(
            "the stream is being captured into a graph, and a verb gives results of a size known at its end, or "
            "has temporaries that end with the call: call it outside of the capture, or capture batches of a Table "
            "that was made with grow=False before"
        )


def _positions(column: KeyColumn) -> Any:
    """0, 1, ... in the shape and on the device of a column."""
    host = np.arange(column.size, dtype=numbers_dtype(column)).reshape(column.shape)
    return host if column.ordinal is None else _cuda.from_host(host, column.ordinal)


def _pairs(t: Table, column: KeyColumn) -> tuple[Any, Any]:
    return t.export(like=column.array) if column.on_device else t.export()


def _first_seen(column: KeyColumn, given: dict[str, Any]) -> Any:
    """Distinct keys in the order of their first appearance."""
    found = _groups(replace(column, known=None), "first", given)
    if found is not None:
        return found.distinct
    with _table(column, numbers_dtype(column), given) as t:
        if column.ordinal is None:
            return _in_order(t, column, None)
        return _in_order_on_device(t, column)


def _in_order(t: Table, column: KeyColumn, codes: Array | None) -> Array:
    """The distinct keys of a host column in the order of their first appearance; codes[i] becomes keys[i]'s number.

    Where most of the keys that come are known after a part of the column, the others are looked up piece by piece, and
    only those that are not there are put in order.
    """
    keys, dtype = column.array.reshape(-1), numbers_dtype(column)
    parts, known, start, size, few = [keys[:0]], 0, 0, max(_FIRST_PIECE, keys.size // 16), False
    while start < keys.size:
        piece = keys[start : start + size]
        new, at = piece, None
        if few:
            found = t.contains(piece) if codes is None else _look_up(t, piece, codes[start : start + size])
            at = np.flatnonzero(~found)
            new = piece[at]
        # A key that is known has a smaller value, and keeps it.
        mask = t.accumulate(new, np.arange(start, start + new.size, dtype=dtype), op="min", out=None if few else False)
        values = t.find(new[mask], found=False)[0] if few else t.export()[1]
        first = np.zeros(new.size, bool)
        first[values[values >= start] - start] = True
        parts.append(new[first])
        if codes is not None:
            t.insert_or_assign(parts[-1], np.arange(known, known + parts[-1].size, dtype=dtype), out=False)
            codes[slice(start, start + size) if at is None else start + at] = t.find(new, found=False)[0]
        known += parts[-1].size
        some = first if few else first[-piece.size // 4 :]
        few = bool(np.count_nonzero(some) * 8 < (piece.size if few else some.size))
        start += piece.size
        size = _PIECE if few else keys.size
    return np.concatenate(parts)


def _look_up(t: Table, keys: Array, codes: Array) -> Array:
    """Which keys are there; their values go into the codes."""
    codes[:], found = t.find(keys)
    return found


def _in_order_on_device(t: Table, column: KeyColumn) -> Any:
    """`_in_order` on a GPU, of the whole column at once; the values in the table become positions."""
    assert column.ordinal is not None
    t.accumulate(column.array, _positions(column), op="min", out=False)
    keys, positions = _pairs(t, column)
    stream = _streams.current_stream(column.array, column.ordinal)
    order = np.argsort(_device_arrays.to_host(positions, column.ordinal, stream, "positions"))
    return _to_device(_device_arrays.to_host(keys, column.ordinal, stream, "keys")[order], column, stream)


def _to_device(host: Array, column: KeyColumn, stream: int) -> Any:
    """A host array as one of the column's library, on its GPU."""
    assert column.ordinal is not None
    with _cuda.current(column.ordinal):
        keeper = _streams.stream_keeper(column.array, column.ordinal)
        array = _device_arrays.empty_like(column.array, host.shape, host.dtype, column.ordinal, keeper)
        room = _device_arrays.view(array, column.ordinal, stream, "keys")
        _cuda.copy_from_host(np.ascontiguousarray(host), room.ptr, column.ordinal, stream)
        return _device_arrays.give(column.array, array)


def _number(t: Table, column: KeyColumn, distinct: Any) -> None:
    """Make number i the value of distinct[i]."""
    n = len(distinct) if column.ordinal is None else view_of(distinct, column.ordinal, "keys").size
    numbers = np.arange(n, dtype=numbers_dtype(column))
    t.insert_or_assign(
        distinct, numbers if column.ordinal is None else _cuda.from_host(numbers, column.ordinal), out=False
    )


def _results(t: Table, column: KeyColumn, order: str, given: dict[str, Any]) -> tuple[Any, Any]:
    """(distinct keys, their values in the table)."""
    if order != "first":
        return _pairs(t, column)
    distinct = _first_seen(column, given)
    return distinct, t.find(distinct, found=False)[0]


# ---- aggregates ------------------------------------------------------------------------------------------------------


def _rounded(values: Any, dtype: np.dtype[Any]) -> Any:
    if _arrays.on_device(values):
        return converted(values, dtype, ordinal_of(values), "values")
    return np.asarray(values, dtype)


def _add_times(t: Table, keys: Array, spans: Any) -> None:
    """Sums of times leave out NaTs; those of a group without any other are 0."""
    spans = np.broadcast_to(spans, keys.shape)
    nats = np.isnat(spans)
    t.accumulate(keys[~nats], spans[~nats], out=False)
    if nats.any():
        t.insert(keys[nats], np.zeros(int(nats.sum()), spans.dtype), out=False)


def _accumulate_numbers(t: Table, column: KeyColumn, values: Any, op: Literal["min", "max"]) -> None:
    """min or max of floats and times: NaNs and NaTs come last, and only where there is nothing else."""
    keys = column.array
    if _arrays.on_device(values) and not _device_arrays.converts(values):
        raise Unsupported(
            f"{op!r} of floats in a {type(values).__name__} cannot leave out NaNs: pass CuPy's or PyTorch's"
        )
    nans = values != values
    if not nans.any():
        t.accumulate(keys, values, op=op, out=False)
    elif np.ndim(nans) == 0:
        t.insert(keys, values, out=False)
    else:
        t.accumulate(keys[~nans], values[~nans], op=op, out=False)
        t.insert(keys[nans], values[nans], out=False)
