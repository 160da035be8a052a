"""Verbs on whole columns: `unique`, `value_counts`, `factorize`, `isin`, `group_reduce`, `join_indexer`.

Each makes a `Table` for the call and closes it, so what is said of tables holds here: keys compare by their bits, every
key is legal, and results are exact. A column of keys is one of

- a host array: of numpy, a list, a column of pandas, polars or Arrow, a tensor on the CPU. Besides a table's dtypes,
  text of up to 64 characters, and bytes of any width up to 256;
- an array of a CUDA device, used where it lies; results are arrays of the same library;
- a tuple of host columns of one length: element i is what all of them have at i. Keys that come back are a tuple again.

Keyword arguments that are not named go to `Table`: `backend`, `device`, `threads`, `stream`, `memory`, `seed`,
`max_load_factor`, `capacity` (how many distinct keys are expected, which saves growing), and options of the backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device, _records, _tensors
from pygpuhash.errors import InvalidArgument, Unsupported
from pygpuhash.table import Table

__all__ = ["factorize", "group_reduce", "isin", "join_indexer", "unique", "value_counts"]

Order = Literal["any", "first"]
Reduction = Literal["sum", "min", "max", "count", "mean"]
Array = np.ndarray[Any, Any]

_FLOAT = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_OURS = ("key_dtype", "value_dtype", "grow", "needs")  # arguments of Table that a verb decides
_FIRST_PIECE, _PIECE = 1 << 14, 1 << 18  # elements that are put in order at first, and looked up at a time
_BITS_OF_PAIRS = 63  # of a code and a position that are sorted as one number
_REDUCTIONS = ("sum", "min", "max", "count", "mean")


def unique(keys: Any, *, order: Order = "any", **table: Any) -> Any:
    """The distinct keys of a column, one-dimensional.

    order : "any", which may differ from call to call, or "first": in the order of their first appearance, which takes
        up to three times as long.

    Raises TypeError for what is no column of keys, and what `Table` raises.
    """
    column = _column(keys, "keys")
    if _by_appearance(order):
        return column.give(_first_seen(column, table))
    with _table(column, None, table) as t:
        t.insert(column.array, out=False)
        return column.give(_pairs(t, column)[0])


def value_counts(keys: Any, *, order: Order = "any", **table: Any) -> tuple[Any, Any]:
    """(distinct keys, how often each occurs): one-dimensional, the counts int64.

    order : as for `unique`. ``np.argsort(-counts)`` has the most frequent first.
    """
    _by_appearance(order)  # refused before anything is done
    column = _column(keys, "keys")
    column.refuse_cut(_INDEX)
    with _table(column, _numbers(column), table) as t:
        t.accumulate(column.array, 1, out=False)
        distinct, counts = _results(t, column, order, table)
    return column.give(distinct), column.as_index(counts, table)


def factorize(keys: Any, *, order: Order = "first", **table: Any) -> tuple[Any, Any]:
    """(codes, distinct keys), of which ``distinct[codes]`` is the column.

    The codes are int64, from 0 to less than the number of distinct keys, and have the shape of the column.
    order : of the distinct keys, as for `unique`; where there are many, "any" takes two thirds of the time.
    """
    by_appearance = _by_appearance(order)
    column = _column(keys, "keys")
    column.refuse_cut(_INDEX)
    with _table(column, _numbers(column), table) as t:
        if by_appearance and not column.on_device:
            codes = np.empty(column.shape, _INDEX)
            distinct = _in_order(t, column.array.reshape(-1), codes.reshape(-1))
        else:
            if by_appearance:
                distinct = _in_order_on_device(t, column)
            elif column.on_device:
                t.insert(column.array, 0, out=False)
                distinct = _pairs(t, column)[0]
            else:
                distinct = column.array[t.insert(column.array, 0)]
            _number(t, column, distinct)
            codes = t.find(column.array, found=False)[0]
    return column.as_index(codes, table), column.give(distinct)


def isin(keys: Any, among: Any, **table: Any) -> Any:
    """Which keys are among others: a bool mask of the shape of `keys`.

    One column may be on a GPU and the other on the host: the table is on that GPU.
    """
    column, others = _alike(keys, "keys", among, "among")
    with _table(others if others.on_device else column, None, table) as t:
        t.insert(others.array, out=False)
        return column.as_tensor(t.contains(column.array))


def group_reduce(
    keys: Any, values: Any, op: Reduction = "sum", *, dtype: Any = None, order: Order = "any", **table: Any
) -> tuple[Any, Any]:
    """(distinct keys, what the values of each come to): a group-by with one aggregate.

    values : one for each key, on the same device, or a number for all of them.
    op : "sum", "min", "max", "mean" or "count".
    dtype : of sums; None for int64, uint64 of unsigned values, float64 of floats. Sums wrap and overflow as numpy's do.
        Means are float64, counts int64; "min" and "max" have the dtype of the values.
    order : as for `unique`.

    "min" and "max" leave out NaNs, unless a group has nothing else; sums and means with a NaN are NaN. Floats are added
    in no fixed order.
    """
    if op not in _REDUCTIONS:
        raise InvalidArgument(f"op={op!r} is none of {', '.join(_REDUCTIONS)}")
    if dtype is not None and op != "sum":
        raise InvalidArgument(f"dtype={dtype!r} is for op='sum': leave it out with op={op!r}, and convert the results")
    _by_appearance(order)
    column = _column(keys, "keys")
    amounts, given = _values(values, column)
    if op == "count":
        return value_counts(keys, order=order, **table)
    if op == "mean" and column.on_device and not _device.converts(column.array):
        name = type(keys).__name__
        raise TypeError(
            f"'mean' of a {name}, which cannot be divided: ask for 'sum' and 'count', or pass CuPy's arrays"
        )
    stored = _result_dtype(given, op) if dtype is None else _arrays.table_dtype(dtype, "dtype")
    column.refuse_cut(stored, f"pass dtype='{given}' or another of 4 bytes, " if op == "sum" else "")
    if op == "mean" or (given.kind == stored.kind == "f" and given != stored):
        amounts = _rounded(amounts, stored)
    with _table(column, stored, table) as t:
        if op == "sum" or op == "mean":
            t.accumulate(column.array, amounts, out=False)
        elif given.kind == "f":
            _accumulate_numbers(t, column, amounts, op)
        else:
            t.accumulate(column.array, amounts, op=op, out=False)
        distinct, results = _results(t, column, order, table)
    if op == "mean":
        with _table(column, _FLOAT, table) as t:
            t.accumulate(column.array, 1.0, out=False)
            counts = t.find(distinct, found=False)[0]
        _settle(column, table)
        results = results / counts
    return column.give(distinct), column.as_tensor(results)


def join_indexer(left: Any, right: Any, how: Literal["inner", "left"] = "inner", **table: Any) -> tuple[Any, Any]:
    """(indices into left, indices into right) of all pairs of equal keys: int64, by the first, then by the second.

    With how="left" an element of `left` that has no partner is there once, with -1 for the other index. The table holds
    the right column: pass the smaller one there. Columns on the host; on a GPU, `Table.find`, or `Table.find_all` where
    keys of the right column repeat, give the same.

    Raises Unsupported for arrays of a device, ValueError for columns that are not one-dimensional.
    """
    if how not in ("inner", "left"):
        raise InvalidArgument(f"how={how!r} is neither 'inner' nor 'left'")
    for given, what in ((left, "left"), (right, "right")):
        if _arrays.on_device(given):
            raise Unsupported(f"{what} is on a GPU: pass host columns, or use Table.find and Table.find_all there")
    one, other = _alike(left, "left", right, "right")
    for column, what in ((one, "left"), (other, "right")):
        if len(column.shape) != 1:
            raise ValueError(f"{what} has shape {column.shape}: pass a one-dimensional column")
    one.refuse_cut(_INDEX)
    with _table(other, _numbers(other), table) as t:
        fresh = t.insert(other.array, _positions(other))
        repeats = not fresh.all()
        if repeats:
            _number(t, other, other.array[fresh])
            codes = t.find(other.array, found=False)[0]
        at, found = t.find(one.array)
    pairs = _all_partners(at, found, codes, how) if repeats else _single_partners(at, found, how)
    return one.as_tensor(pairs[0]), one.as_tensor(pairs[1])


# ---- columns ---------------------------------------------------------------------------------------------------------


@dataclass
class _Column:
    """A column as a table takes it, and the ways back to what the user has."""

    array: Any
    dtype: np.dtype[Any]  # of the table's keys
    shape: tuple[int, ...]
    give: Callable[[Any], Any]  # keys of the table, as the user has them
    framework: str | None = None  # of a tensor on the CPU
    ordinal: int | None = None  # of the GPU

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def on_device(self) -> bool:
        return self.ordinal is not None

    def refuse_cut(self, dtype: np.dtype[Any], narrow: str = "") -> None:
        """Refuse results of this dtype, before anything is done, which JAX would cut to 32 bits."""
        _tensors.check_results(_tensors.library_of(self.array) if self.on_device else self.framework, dtype, narrow)

    def as_tensor(self, array: Any) -> Any:
        return array if self.framework is None else _tensors.give(self.framework, array)

    def as_index(self, numbers: Any, table: dict[str, Any]) -> Any:
        """Counts or codes as int64."""
        if self.ordinal is None:
            return self.as_tensor(numbers.astype(_INDEX, copy=False))
        if _numbers(self) == _INDEX:
            return numbers
        _settle(self, table)
        return _converted(numbers, _INDEX, self.ordinal, "numbers")


def _column(given: Any, what: str) -> _Column:
    if _arrays.on_device(given):
        return _on_device(given, what)
    return _packed(_parts(given, what), isinstance(given, tuple) and _is_several(given), what)


def _alike(a: Any, name_a: str, b: Any, name_b: str) -> tuple[_Column, _Column]:
    """Two columns of keys for one table."""
    if _arrays.on_device(a) and _arrays.on_device(b):
        one, other = _on_device(a, name_a), _on_device(b, name_b)
        if one.dtype != other.dtype:
            raise TypeError(f"{name_a} have dtype {one.dtype}, {name_b} {other.dtype}: convert one of them")
        return one, other
    if _arrays.on_device(a):
        one = _on_device(a, name_a)
        return one, _as_others(b, one.dtype, name_b)
    if _arrays.on_device(b):
        other = _on_device(b, name_b)
        return _as_others(a, other.dtype, name_a), other
    several = [isinstance(given, tuple) and _is_several(given) for given in (a, b)]
    left, right = _parts(a, name_a), _parts(b, name_b)
    if several[0] != several[1] or len(left) != len(right):
        raise ValueError(
            f"{name_a} is {len(left)} column(s), {name_b} {len(right)}: pass two columns, or two tuples of as many"
        )
    for i in range(len(left)):
        left[i], right[i] = _of_one_dtype(left[i], name_a, right[i], name_b)
    return _packed(left, several[0], name_a), _packed(right, several[1], name_b)


def _as_others(given: Any, dtype: np.dtype[Any], what: str) -> _Column:
    """A host column for a table of this dtype, which is that of a column on a device."""
    array = _arrays.to_base(_arrays.column(given, what), dtype, what)
    return _encoded(_Part(array, _tensors.array_library(given)), what)


def _is_several(given: tuple[Any, ...]) -> bool:
    """A tuple of columns, not of numbers."""
    return len(given) > 0 and all(_is_column(part) for part in given)


def _is_column(given: Any) -> bool:
    if isinstance(given, (str, bytes)):
        return False
    return given.ndim > 0 if hasattr(given, "ndim") else hasattr(given, "__len__")


@dataclass
class _Part:
    """A host column as it was given."""

    array: Array
    framework: str | None


def _parts(given: Any, what: str) -> list[_Part]:
    if not (isinstance(given, tuple) and _is_several(given)):
        return [_Part(_arrays.column(given, what), _tensors.array_library(given))]
    parts = []
    for i, part in enumerate(given):
        if _arrays.on_device(part):
            raise Unsupported(f"{what}[{i}] is on a GPU: pass host columns, or make one 8-byte key of them there")
        parts.append(_Part(_arrays.column(part, f"{what}[{i}]"), _tensors.array_library(part)))
        if parts[i].array.shape != parts[0].array.shape:
            raise ValueError(
                f"{what}[{i}] has shape {parts[i].array.shape}, {what}[0] {parts[0].array.shape}: pass columns of one "
                "length"
            )
    return parts


def _of_one_dtype(a: _Part, name_a: str, b: _Part, name_b: str) -> tuple[_Part, _Part]:
    """The same elements in one dtype: rather that of a."""
    one, other = a.array.dtype, b.array.dtype
    if one == other:
        return a, b
    numbers = {one.kind, other.kind} <= set("biufmM")
    if one.kind == other.kind and one.kind in "SU":
        wide = np.promote_types(one, other)
    elif {one.kind, other.kind} == set("SU"):
        raise TypeError(f"{name_a} have dtype {one}, {name_b} {other}: decode the bytes, or encode the text")
    elif numbers and a.array.size == 0:
        wide = other
    else:
        try:
            return a, _Part(_arrays.to_base(b.array, one, name_b), b.framework)
        except (OverflowError, TypeError):
            if not numbers:
                raise
            wide = np.promote_types(one, other)
            if not _arrays.lossless(one, wide) or not _arrays.lossless(other, wide):
                raise
    return _Part(a.array.astype(wide), a.framework), _Part(b.array.astype(wide), b.framework)


def _packed(parts: list[_Part], several: bool, what: str) -> _Column:
    """One column of keys: a host array as it is, or records of several."""
    encoded = [_encoded(part, what) for part in parts]
    if not several:
        return encoded[0]
    fields = [np.dtype(part.dtype if _records.is_record(part.dtype) else _stored(part.dtype)) for part in encoded]
    dtype = np.dtype([(f"f{i}", field) for i, field in enumerate(fields)])
    rows = np.empty(encoded[0].shape, dtype)
    for i, part in enumerate(encoded):
        rows[f"f{i}"] = _arrays.to_store(part.array, part.dtype, fields[i], what)

    def give(keys: Array) -> tuple[Any, ...]:
        return tuple(
            part.give(_arrays.from_store(np.ascontiguousarray(keys[f"f{i}"]), part.dtype))
            for i, part in enumerate(encoded)
        )

    return _Column(rows, dtype, rows.shape, give)


def _encoded(part: _Part, what: str) -> _Column:
    """A host column in a dtype of tables. Text is the bytes of its characters; bytes are made a multiple of 4 wide."""
    array, framework, given = part.array, part.framework, part.array.dtype
    if given.kind in "US":
        wide = np.dtype(f"S{max(-(-given.itemsize // 4) * 4, 4)}")
        if given.kind == "S":
            return _Column(array.astype(wide, copy=False), wide, array.shape, lambda keys: keys.astype(given))
        text = np.ascontiguousarray(array, given if given.itemsize else "U1").reshape(array.shape)
        return _Column(text.view(wide), wide, array.shape, lambda keys: keys.view(text.dtype))
    dtype = _arrays.table_dtype(given, f"the dtype of {what}")
    return _Column(
        array, dtype, array.shape, lambda keys: keys if framework is None else _tensors.give(framework, keys), framework
    )


def _on_device(given: Any, what: str) -> _Column:
    """Elements of 1 and 2 bytes are made 4 wide by their library, and narrow again."""
    ordinal = _ordinal(given)
    seen = _seen(given, ordinal, what)
    dtype = _arrays.table_dtype(seen.dtype, f"the dtype of {what}")
    wide = np.dtype(np.float32) if dtype == np.float16 else _stored(dtype)
    if wide == dtype:
        return _Column(given, dtype, seen.shape, lambda keys: keys, ordinal=ordinal)
    return _Column(
        _converted(given, wide, ordinal, what),
        wide,
        seen.shape,
        lambda keys: _converted(keys, dtype, ordinal, what),
        ordinal=ordinal,
    )


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _arrays.store_dtype(dtype, keys=True)


def _seen(array: Any, ordinal: int, what: str) -> _device.DeviceView:
    with _cuda.current(ordinal):
        return _device.view(array, ordinal, _device.current_stream(array, ordinal), what)


def _ordinal(array: Any) -> int:
    """The number of the GPU on which an array lies."""
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    return int(_core.pointer_device(array.__cuda_array_interface__["data"][0])[1])


def _converted(array: Any, dtype: np.dtype[Any], ordinal: int, what: str) -> Any:
    with _cuda.current(ordinal):
        return _device.astype(array, dtype, ordinal, _device.current_stream(array, ordinal), what)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _table(column: _Column, value_dtype: np.dtype[Any] | None, given: dict[str, Any]) -> Table:
    for name in _OURS:
        if name in given:
            raise TypeError(f"{name}= is decided by the verb: leave it out, or use Table")
    place = {} if column.ordinal is None else {"device": f"cuda:{column.ordinal}"}
    if column.ordinal is not None:
        _refuse_capture(column.array, column.ordinal, given.get("stream"))
    return Table(key_dtype=column.dtype, value_dtype=value_dtype, **(place | given))


def _refuse_capture(array: Any, ordinal: int, stream: Any) -> None:
    s = _device.stream_keeper(array, ordinal) if stream is None else stream
    with _cuda.current(ordinal):
        if _cuda.is_capturing(_device.usable_stream(s, ordinal)[1]):
            raise InvalidArgument(
                "the stream is being captured into a graph, and a verb makes a table for the call, which no graph can: "
                "call it outside of the capture, or capture batches of a Table that was made with grow=False before"
            )


def _settle(column: _Column, given: dict[str, Any]) -> None:
    """Wait for the table's calls, if they were on a stream that the column's library does not work on."""
    if column.ordinal is not None and given.get("stream") is not None:
        _cuda.synchronize(column.ordinal, _device.usable_stream(given["stream"], column.ordinal)[1])


def _by_appearance(order: str) -> bool:
    if order not in ("any", "first"):
        raise InvalidArgument(f"order={order!r} is neither 'any' nor 'first'")
    return order == "first"


def _numbers(column: _Column) -> np.dtype[Any]:
    """The dtype of counts, codes and positions in a table: narrow slots are faster. They are given back as int64."""
    narrow = column.size < 2**31 and (not column.on_device or _device.converts(column.array))
    return np.dtype(np.int32) if narrow else _INDEX


def _positions(column: _Column) -> Any:
    """0, 1, ... in the shape and on the device of a column."""
    host = np.arange(column.size, dtype=_numbers(column)).reshape(column.shape)
    return host if column.ordinal is None else _cuda.from_host(host, column.ordinal)


def _pairs(t: Table, column: _Column) -> tuple[Any, Any]:
    return t.export(like=column.array) if column.on_device else t.export()


def _first_seen(column: _Column, given: dict[str, Any]) -> Any:
    """Distinct keys in the order of their first appearance."""
    with _table(column, _numbers(column), given) as t:
        if column.ordinal is None:
            return _in_order(t, column.array.reshape(-1), None)
        return _in_order_on_device(t, column)


def _in_order(t: Table, keys: Array, codes: Array | None) -> Array:
    """The distinct keys of a host column in the order of their first appearance; codes[i] becomes keys[i]'s number.

    Where most of the keys that come are known after a part of the column, the others are looked up piece by piece, and
    only those that are not there are put in order.
    """
    dtype = t.value_dtype
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
        values = t.find(new[mask], found=False)[0] if few else t.values()
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


def _in_order_on_device(t: Table, column: _Column) -> Any:
    """The same on a GPU, of the whole column at once; the values in the table become positions."""
    assert column.ordinal is not None
    t.accumulate(column.array, _positions(column), op="min", out=False)
    keys, positions = _pairs(t, column)
    stream = _device.current_stream(column.array, column.ordinal)
    order = np.argsort(_device.to_host(positions, column.ordinal, stream, "positions"))
    return _to_device(_device.to_host(keys, column.ordinal, stream, "keys")[order], column, stream)


def _to_device(host: Array, column: _Column, stream: int) -> Any:
    """A host array as one of the column's library, on its GPU."""
    assert column.ordinal is not None
    with _cuda.current(column.ordinal):
        keeper = _device.stream_keeper(column.array, column.ordinal)
        array = _device.empty_like(column.array, host.shape, host.dtype, column.ordinal, keeper)
        room = _device.view(array, column.ordinal, stream, "keys")
        _cuda.copy_from_host(np.ascontiguousarray(host), room.ptr, column.ordinal, stream)
        return _device.give(column.array, array)


def _number(t: Table, column: _Column, distinct: Any) -> None:
    """Make number i the value of distinct[i]."""
    n = len(distinct) if column.ordinal is None else _seen(distinct, column.ordinal, "keys").size
    numbers = np.arange(n, dtype=_numbers(column))
    t.insert_or_assign(
        distinct, numbers if column.ordinal is None else _cuda.from_host(numbers, column.ordinal), out=False
    )


def _results(t: Table, column: _Column, order: str, given: dict[str, Any]) -> tuple[Any, Any]:
    """(distinct keys, their values in the table)."""
    if not _by_appearance(order):
        return _pairs(t, column)
    distinct = _first_seen(column, given)
    return distinct, t.find(distinct, found=False)[0]


# ---- aggregates ------------------------------------------------------------------------------------------------------


def _values(values: Any, column: _Column) -> tuple[Any, np.dtype[Any]]:
    """Values for the elements of a column, and the dtype in which they were given."""
    if _arrays.on_device(values):
        seen = _seen(values, _ordinal(values), "values")
        given, shape = seen.dtype, seen.shape
    else:
        values = _arrays.column(values, "values")
        given, shape = values.dtype, values.shape
    if shape not in ((), column.shape):
        raise ValueError(f"values have shape {shape}, keys {column.shape}: pass one value per key, or a number for all")
    if given.kind not in "biufmM":
        raise TypeError(f"values have dtype {given}: pass single numbers or times")
    if shape and column.on_device != _arrays.on_device(values):
        places = ("a GPU", "the host") if column.on_device else ("the host", "a GPU")
        raise TypeError(f"keys are on {places[0]} and values on {places[1]}: copy them to one place")
    return values, given


def _result_dtype(given: np.dtype[Any], op: str) -> np.dtype[Any]:
    if op in ("min", "max"):
        return given
    if given.kind == "M" or (given.kind == "m" and op == "mean"):
        raise TypeError(f"values of dtype {given} have no {op}: use 'min' or 'max', or numbers")
    if op == "mean":
        return _FLOAT
    return {"u": np.dtype(np.uint64), "f": _FLOAT, "m": given}.get(given.kind, _INDEX)


def _rounded(values: Any, dtype: np.dtype[Any]) -> Any:
    if _arrays.on_device(values):
        return _converted(values, dtype, _ordinal(values), "values")
    return np.asarray(values, dtype)


def _accumulate_numbers(t: Table, column: _Column, values: Any, op: Literal["min", "max"]) -> None:
    """min or max of floats: NaNs come last, and only where there is nothing else."""
    keys = column.array
    if _arrays.on_device(values) and not _device.converts(values):
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


# ---- joins -----------------------------------------------------------------------------------------------------------

Pairs = tuple[Array, Array]


def _single_partners(at: Array, found: Array, how: str) -> Pairs:
    """No key of the right column repeats: element i of the left one meets the element at[i] of it, if found[i]."""
    if how == "left":
        return np.arange(len(at), dtype=_INDEX), np.where(found, at, -1).astype(_INDEX, copy=False)
    left = np.flatnonzero(found)
    return left, at[left].astype(_INDEX, copy=False)


def _all_partners(at: Array, found: Array, codes: Array, how: str) -> Pairs:
    """Element i of the left column meets all elements of the right one whose code is at[i], if found[i]."""
    by_code = _grouped(codes)
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    left = np.arange(len(at), dtype=_INDEX) if how == "left" else np.flatnonzero(found)
    here, code = found[left], at[left]
    partners = np.where(here, counts[code], 1)  # -1 is a partner, too
    ends = np.cumsum(partners)
    i = np.repeat(left, partners)
    step = np.arange(len(i), dtype=_INDEX) - np.repeat(ends - partners, partners)
    right = by_code[np.repeat(starts[code], partners) + step]  # of an absent key, whose code is 0, some element
    return i, right if how == "inner" else np.where(np.repeat(here, partners), right, -1)


def _grouped(codes: Array) -> Array:
    """Positions in the order of their codes, ascending for each."""
    bits = len(codes).bit_length()
    if 2 * bits > _BITS_OF_PAIRS:
        return np.argsort(codes, kind="stable")
    # Plain numbers are sorted several times as fast as positions by their codes.
    both = codes.astype(_INDEX) << bits | np.arange(len(codes), dtype=_INDEX)
    both.sort()
    return both & ((1 << bits) - 1)
