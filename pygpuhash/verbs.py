"""Verbs on whole columns: `unique`, `value_counts`, `factorize`, `isin`, `group_reduce`, `join_indexer`.

A column of keys is one of

- a host column: an array of numpy, a list, a column or frame of pandas, polars or Arrow, a tensor on the CPU. Elements
  are numbers, times, text and bytes of any length, decimals, structs and dictionaries of these, and nulls;
- an array of a CUDA device, used where it lies; results are arrays of the same library;
- a tuple of host columns of one length: element i is what all of them have at i. Keys that come back are a tuple again.

Results have the caller's library, type and name. What is equal is the same for all verbs, libraries and devices:
integers of any width and sign, and integers and floats, by the number; 0.0 and -0.0 are one key, as are all NaNs; times
by the instant whatever their unit; text and bytes by their bytes; null is null. Columns of two kinds that are never
equal, as text and numbers, are refused.

Keyword arguments of all verbs:

nulls : "group" (all nulls are one key), "drop" (rows with a null are no key; their code is -1), or "refuse".
floats : "numbers", or "bits": floats are equal if their bits are.

Others go to `Table` where keys are single numbers or times: `backend`, `device`, `threads`, `stream`, `memory`, `seed`,
`max_load_factor`, `capacity` (how many distinct keys are expected, which saves growing), and options of the backend.
Keys of text, of several columns, and of few elements are kept by an index of their own on the CPU, which takes
`threads`, `seed` and `capacity`. With no other arguments than these, integers whose range is a small multiple of their
number, or less, are looked up in an array over the range.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from pygpuhash import _arrays, _arrow_devices, _number_verbs, _table_verbs, _tensors
from pygpuhash._keywords import refuse_unknown as _refuse_unknown
from pygpuhash.columns import Column, View, frames, read
from pygpuhash.columns._buffers import describe, sliced
from pygpuhash.columns._engine import CoreIndex, Keys, canonical, pairs, rows_by_id
from pygpuhash.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pygpuhash._typing import (
        Columns,
        Distinct,
        Element,
        Frame,
        Mask,
        Mixed,
        Plain,
        Reduced,
        Rows,
        Series,
        Single,
        SupportsNumpy,
        Tensor,
    )

__all__ = ["factorize", "group_reduce", "isin", "join_indexer", "unique", "value_counts"]

Order = Literal["any", "first"]
Nulls = Literal["group", "drop", "refuse"]
Floats = Literal["numbers", "bits"]
Reduction = Literal["sum", "min", "max", "count", "mean"]
Array = np.ndarray[Any, Any]

_FLOAT = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_OURS = ("key_dtype", "value_dtype", "grow", "needs")  # arguments of Table that a verb decides
_FEW = 1 << 14  # elements below which making a table takes longer than the index takes for all of them
_FEW_FOR_THREADS = 1 << 12  # elements below which not even the number of processors is asked for
_ELEMENTS = (str, bytes, int, float, complex, np.generic, date, time, timedelta, Decimal)
_INTEGERS = frozenset("cCsSiIlL")  # Arrow's formats
_REDUCTIONS = ("sum", "min", "max", "count", "mean")


@overload
def unique(keys: NDArray[Element], **arguments: Unpack[Distinct]) -> NDArray[Element]: ...
@overload
def unique(keys: Tensor, **arguments: Unpack[Distinct]) -> Tensor: ...
@overload
def unique(keys: Frame, **arguments: Unpack[Distinct]) -> Frame: ...
@overload
def unique(keys: Columns, **arguments: Unpack[Distinct]) -> Columns: ...
@overload
def unique(keys: Mixed, **arguments: Unpack[Distinct]) -> tuple[Any, ...]: ...
@overload
def unique(keys: Rows, **arguments: Unpack[Distinct]) -> NDArray[Any]: ...
def unique(keys: Any, *, order: Order = "any", nulls: Nulls = "group", floats: Floats = "numbers", **table: Any) -> Any:
    """The distinct keys of a column, one-dimensional.

    order : "any", which may differ from call to call, or "first": in the order of their first appearance, which takes
        up to three times as long for numbers.

    Raises TypeError for what is no column of keys, and what `Table` raises.
    """
    if table:
        _refuse_unknown(unique, table)
    _check(table, nulls, floats, order)
    found = _number_verbs.unique(keys, floats, table, _FEW)
    if found is not None:
        return found
    if _arrays.on_device(keys):
        return _table_verbs.unique(_on_device(keys, "keys", floats), order, table)
    column = _codes(_read(keys, "keys"), nulls)
    found = _number_verbs.unique(column.numbers, floats, table, _FEW)
    if found is not None:
        return column.give(found)
    array = _plain(column, floats, table)
    if array is not None:
        found = _number_verbs.unique(array, floats, table, 0)
        if found is None:
            found = _table_verbs.unique(_table_verbs.on_host(array), order, table)
        return column.give(found)
    index = _index(column, nulls, floats, table)
    _add(index, column)
    return column.give(index.keys(0, index.size))


@overload
def value_counts(
    keys: NDArray[Element], **arguments: Unpack[Distinct]
) -> tuple[NDArray[Element], NDArray[np.int64]]: ...
@overload
def value_counts(keys: Tensor, **arguments: Unpack[Distinct]) -> tuple[Tensor, Tensor]: ...
@overload
def value_counts(keys: Series, **arguments: Unpack[Distinct]) -> tuple[Series, Series]: ...
@overload
def value_counts(keys: Frame, **arguments: Unpack[Distinct]) -> tuple[Frame, Any]: ...
@overload
def value_counts(keys: Columns, **arguments: Unpack[Distinct]) -> tuple[Columns, Any]: ...
@overload
def value_counts(keys: Mixed, **arguments: Unpack[Distinct]) -> tuple[tuple[Any, ...], Any]: ...
@overload
def value_counts(keys: Rows, **arguments: Unpack[Distinct]) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
def value_counts(
    keys: Any, *, order: Order = "any", nulls: Nulls = "group", floats: Floats = "numbers", **table: Any
) -> tuple[Any, Any]:
    """(distinct keys, how often each occurs): one-dimensional, the counts int64.

    order : as for `unique`. ``np.argsort(-counts)`` has the most frequent first.
    """
    if table:
        _refuse_unknown(value_counts, table)
    _check(table, nulls, floats, order)
    pair: tuple[Any, Any] | None = _number_verbs.value_counts(keys, floats, table, _FEW)
    if pair is not None:
        return pair
    _refuse_cut(keys, _INDEX)
    if _arrays.on_device(keys):
        return _table_verbs.value_counts(_on_device(keys, "keys", floats), order, table)
    column = _codes(_read(keys, "keys"), nulls)
    distinct: Any
    pair = _number_verbs.value_counts(column.numbers, floats, table, _FEW)
    array = None if pair else _plain(column, floats, table)
    if pair is not None:
        distinct, counts = pair
    elif array is not None:
        pair = _number_verbs.value_counts(array, floats, table, 0)
        distinct, counts = pair or _table_verbs.value_counts(_table_verbs.on_host(array), order, table)
    else:
        index = _index(column, nulls, floats, table, counts=True)
        _add(index, column)
        distinct, counts = index.keys(0, index.size), index.counts()
    return column.give(distinct), column.give_numbers(counts, False)


@overload
def factorize(keys: NDArray[Element], **arguments: Unpack[Distinct]) -> tuple[NDArray[np.int64], NDArray[Element]]: ...
@overload
def factorize(keys: Tensor, **arguments: Unpack[Distinct]) -> tuple[Tensor, Tensor]: ...
@overload
def factorize(keys: Frame, **arguments: Unpack[Distinct]) -> tuple[Any, Frame]: ...
@overload
def factorize(keys: Columns, **arguments: Unpack[Distinct]) -> tuple[Any, Columns]: ...
@overload
def factorize(keys: Mixed, **arguments: Unpack[Distinct]) -> tuple[Any, tuple[Any, ...]]: ...
@overload
def factorize(keys: Rows, **arguments: Unpack[Distinct]) -> tuple[NDArray[np.int64], NDArray[Any]]: ...
def factorize(
    keys: Any, *, order: Order = "first", nulls: Nulls = "group", floats: Floats = "numbers", **table: Any
) -> tuple[Any, Any]:
    """(codes, distinct keys), of which ``distinct[codes]`` is the column.

    The codes are int64, from 0 to less than the number of distinct keys, and have the shape of the column. With
    nulls="drop" rows with a null have code -1.
    order : of the distinct keys, as for `unique`; where there are many numbers, "any" takes two thirds of the time.
    """
    if table:
        _refuse_unknown(factorize, table)
    _check(table, nulls, floats, order)
    pair: tuple[Any, Any] | None = _number_verbs.factorize(keys, floats, table, _FEW)
    if pair is not None:
        return pair
    _refuse_cut(keys, _INDEX)
    if _arrays.on_device(keys):
        return _table_verbs.factorize(_on_device(keys, "keys", floats), order, table)
    column = _codes(_read(keys, "keys"), nulls)
    distinct: Any
    pair = _number_verbs.factorize(column.numbers, floats, table, _FEW)
    array = None if pair else _plain(column, floats, table)
    if pair is not None:
        codes, distinct = pair
    elif array is not None:
        pair = _number_verbs.factorize(array, floats, table, 0)
        codes, distinct = pair or _table_verbs.factorize(_table_verbs.on_host(array), order, table)
    else:
        index = _index(column, nulls, floats, table)
        codes = _ids(index, column)
        distinct = index.keys(0, index.size)
    return column.give_numbers(codes, True), column.give(distinct)


@overload
def isin(keys: Single, among: object, **arguments: Unpack[Plain]) -> np.bool_: ...
@overload
def isin(keys: NDArray[Any], among: object, **arguments: Unpack[Plain]) -> Mask: ...
@overload
def isin(keys: Tensor, among: object, **arguments: Unpack[Plain]) -> Tensor: ...
@overload
def isin(keys: Series, among: object, **arguments: Unpack[Plain]) -> Series: ...
@overload
def isin(keys: SupportsNumpy | Mixed, among: object, **arguments: Unpack[Plain]) -> Any: ...
@overload
def isin(keys: Rows, among: object, **arguments: Unpack[Plain]) -> Mask: ...
def isin(keys: Any, among: Any, *, nulls: Nulls = "group", floats: Floats = "numbers", **table: Any) -> Any:
    """Which keys are among others: a bool mask of the shape of `keys`.

    Either may be a single element. An element that the other column's type cannot hold is not among it: 2.5 is not
    among integers. One column may be on a GPU and the other on the host: the table is on that GPU.
    """
    if table:
        _refuse_unknown(isin, table)
    _check(table, nulls, floats)
    found = _number_verbs.isin(keys, among, floats, table, _FEW)
    if found is not None:
        return found
    if _arrays.on_device(keys) or _arrays.on_device(among):
        one, other = _alike_on_device(keys, among, floats)
        return _table_verbs.isin(one, other, table)
    if _is_element(among):
        among = _of_one(among)
    if _is_element(keys):
        return isin(_of_one(keys), among, nulls=nulls, floats=floats, **table)[0]
    column, others = _read(keys, "keys"), _read(among, "among")
    mask = _number_verbs.isin(column.numbers, others.numbers, floats, table, _FEW)
    arrays = None if mask is not None else _two_plain(column, others, floats, table)
    if mask is not None:
        pass
    elif arrays is not None:
        mask = _number_verbs.isin(*arrays, floats, table, 0)
        if mask is None:
            mask = _table_verbs.isin(_table_verbs.on_host(arrays[0]), _table_verbs.on_host(arrays[1]), table)
    else:
        index = _index(others, nulls, floats, table, rows=column.length)
        _add(index, others)
        mask = np.empty(column.length, np.bool_)
        with _named(column, others):
            index.contains(column.schema, column.chunks, mask)
    return column.give_numbers(mask, True)


@overload
def group_reduce(
    keys: NDArray[Element], values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[NDArray[Element], NDArray[Any]]: ...
@overload
def group_reduce(
    keys: Tensor, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[Tensor, Tensor]: ...
@overload
def group_reduce(
    keys: Series, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[Series, Series]: ...
@overload
def group_reduce(
    keys: Frame, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[Frame, Any]: ...
@overload
def group_reduce(
    keys: Columns, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[Columns, Any]: ...
@overload
def group_reduce(
    keys: Mixed, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[tuple[Any, ...], Any]: ...
@overload
def group_reduce(
    keys: Rows, values: object, op: Reduction = ..., **arguments: Unpack[Reduced]
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def group_reduce(
    keys: object, values: object, op: tuple[Reduction, ...] | list[Reduction], **arguments: Unpack[Reduced]
) -> tuple[Any, tuple[Any, ...]]: ...
def group_reduce(
    keys: Any,
    values: Any,
    op: Reduction | tuple[Reduction, ...] | list[Reduction] = "sum",
    *,
    dtype: Any = None,
    order: Order = "any",
    nulls: Nulls = "group",
    floats: Floats = "numbers",
    **table: Any,
) -> tuple[Any, Any]:
    """(distinct keys, what the values of each come to): a group-by.

    values : one for each key, on the same device, or a number for all of them.
    op : "sum", "min", "max", "mean" or "count"; or a tuple of several, whose results are a tuple, too. Of numbers of 4
        and 8 bytes on a GPU they come out of one pass.
    dtype : of sums; None for int64, uint64 of unsigned values, float64 of floats. Sums wrap and overflow as numpy's do.
        Means are float64, counts int64; "min" and "max" have the dtype of the values.
    order : as for `unique`.

    "min" and "max" leave out NaNs and NaTs, unless a group has nothing else; sums leave out NaTs; sums and means with a
    NaN are NaN. Floats are added in no fixed order, so that sums and means of them differ in the last bits from call to
    call.
    """
    if table:
        _refuse_unknown(group_reduce, table)
    if isinstance(op, (tuple, list)):
        return _reduce_by_all(keys, values, tuple(op), dtype, order, nulls, floats, table)
    if op not in _REDUCTIONS:
        raise InvalidArgument(f"op={op!r} is none of {', '.join(_REDUCTIONS)}")
    if dtype is not None and op != "sum":
        raise InvalidArgument(f"dtype={dtype!r} is for op='sum': leave it out with op={op!r}, and convert the results")
    _check(table, nulls, floats, order)
    if _arrays.on_device(keys):
        there = _on_device(keys, "keys", floats)
        amounts, given = _values(values, there.shape, True)
        if op == "count":
            _refuse_cut(keys, _INDEX)
            return _table_verbs.value_counts(there, order, table)
        stored = _stored(given, op, dtype)
        _refuse_cut(keys, stored, _narrower(given, op))
        return _table_verbs.group_reduce(there, amounts, given, op, stored, order, table)
    of_numpy = type(keys) is np.ndarray
    column = None if of_numpy and keys.size < _FEW else _codes(_read(keys, "keys"), nulls)
    amounts, given = _values(values, keys.shape if column is None else column.shape, False)
    if op == "count":
        return value_counts(keys, order=order, nulls=nulls, floats=floats, **table)
    stored = _stored(given, op, dtype)
    if not of_numpy:
        _refuse_cut(keys, stored, _narrower(given, op))
    amounts = amounts.reshape(-1) if np.ndim(amounts) else amounts
    if column is None:
        pair = _number_verbs.group_reduce(keys, amounts, op, stored, floats, table, _FEW)
        if pair is not None:
            return pair
        column = _codes(_read(keys, "keys"), nulls)
    distinct: Any
    pair = _number_verbs.group_reduce(column.numbers, amounts, op, stored, floats, table, _FEW)
    array = None if pair else _plain(column, floats, table)
    if pair is not None:
        distinct, results = pair
    elif array is not None:
        pair = _number_verbs.group_reduce(array, amounts, op, stored, floats, table, 0)
        distinct, results = pair or _table_verbs.group_reduce(
            _table_verbs.on_host(array), amounts, given, op, stored, order, table
        )
    else:
        index = _index(column, nulls, floats, table)
        ids = _ids(index, column)
        distinct, results = index.keys(0, index.size), _number_verbs.reduce(ids, index.size, amounts, op, stored)
    return column.give(distinct), _numbers_of(column, results, op)


def _reduce_by_all(
    keys: Any, values: Any, ops: tuple[Any, ...], dtype: Any, order: Order, nulls: Nulls, floats: Floats, table: Any
) -> tuple[Any, tuple[Any, ...]]:
    """(distinct keys, a tuple of aggregates of their values)."""
    for i, op in enumerate(ops):
        if op not in _REDUCTIONS:
            raise InvalidArgument(f"op[{i}]={op!r} is none of {', '.join(_REDUCTIONS)}")
    if not ops:
        raise InvalidArgument("op=() asks for nothing: name one aggregate or more, or use unique")
    if dtype is not None and "sum" not in ops:
        raise InvalidArgument(f"dtype={dtype!r} is for 'sum', which op={ops!r} does not have: leave it out")
    _check(table, nulls, floats, order)
    if _arrays.on_device(keys):
        there = _on_device(keys, "keys", floats)
        amounts, given = _values(values, there.shape, True)
        stored = {op: _INDEX if op == "count" else _stored(given, op, dtype if op == "sum" else None) for op in ops}
        for op in ops:
            _refuse_cut(keys, stored[op], _narrower(given, op))
        found = _table_verbs.reduce_by_all(there, amounts, given, ops, stored.get("sum"), order, table)
        if found is not None:
            return found
    distinct, results = None, []
    for op in ops:  # in the order of first appearance, which is the same in each call
        distinct, result = group_reduce(
            keys, values, op, dtype=dtype if op == "sum" else None, order="first", nulls=nulls, floats=floats, **table
        )
        results.append(result)
    return distinct, tuple(results)


@overload
def join_indexer(
    left: NDArray[Any], right: object, how: Literal["inner", "left"] = ..., **arguments: Unpack[Plain]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
@overload
def join_indexer(
    left: Tensor, right: object, how: Literal["inner", "left"] = ..., **arguments: Unpack[Plain]
) -> tuple[Tensor, Tensor]: ...
@overload
def join_indexer(
    left: Series, right: object, how: Literal["inner", "left"] = ..., **arguments: Unpack[Plain]
) -> tuple[Series, Series]: ...
@overload
def join_indexer(
    left: SupportsNumpy | Mixed, right: object, how: Literal["inner", "left"] = ..., **arguments: Unpack[Plain]
) -> tuple[Any, Any]: ...
@overload
def join_indexer(
    left: Rows, right: object, how: Literal["inner", "left"] = ..., **arguments: Unpack[Plain]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def join_indexer(
    left: Any,
    right: Any,
    how: Literal["inner", "left"] = "inner",
    *,
    nulls: Nulls = "group",
    floats: Floats = "numbers",
    **table: Any,
) -> tuple[Any, Any]:
    """(indices into left, indices into right) of all pairs of equal keys: int64, by the first, then by the second.

    With how="left" an element of `left` that has no partner is there once, with -1 for the other index. The table holds
    the right column: pass the smaller one there. Both columns are on the host, or both are on one GPU and arrays of
    CuPy or of PyTorch.

    Raises ValueError for columns that are not one-dimensional, Unsupported for arrays of other libraries on a GPU.
    """
    if table:
        _refuse_unknown(join_indexer, table)
    if how not in ("inner", "left"):
        raise InvalidArgument(f"how={how!r} is neither 'inner' nor 'left'")
    _check(table, nulls, floats)
    if _arrays.on_device(left) or _arrays.on_device(right):
        return _join_on_device(left, right, how, floats, table)
    _refuse_cut(left, _INDEX)
    numbers = _number_verbs.join(left, right, table)
    if numbers is not None:
        return _partners(*numbers, _groups(numbers[1]), how)
    one, other = _read(left, "left"), _read(right, "right")
    for column in (one, other):
        if len(column.shape) != 1:
            raise ValueError(f"{column.what} has shape {column.shape}: pass a one-dimensional column")
    arrays = _two_plain(one, other, floats, table)
    if arrays is not None:
        hosts = _table_verbs.on_host(arrays[0]), _table_verbs.on_host(arrays[1])
        at, codes = _number_verbs.join(*arrays, table) or _table_verbs.join_indexer(*hosts, table)
        groups = _groups(codes)
    else:
        index = _index(other, nulls, floats, table, rows=one.length)
        codes = _ids(index, other)
        at, groups = _find(index, one, other), index.size
    met = _partners(at, codes, groups, how)
    return _numbers_of(one, met[0], "left"), _numbers_of(one, met[1], "right")


# ---- arguments -------------------------------------------------------------------------------------------------------


def _check(table: dict[str, Any], nulls: str, floats: str, order: str = "any") -> None:
    """Refuse arguments before anything is done."""
    if order not in ("any", "first"):
        raise InvalidArgument(f"order={order!r} is neither 'any' nor 'first'")
    if nulls not in ("group", "drop", "refuse"):
        raise InvalidArgument(f"nulls={nulls!r} is none of 'group', 'drop', 'refuse'")
    if floats not in ("numbers", "bits"):
        raise InvalidArgument(f"floats={floats!r} is neither 'numbers' nor 'bits'")
    for name in _OURS:
        if name in table:
            raise TypeError(f"{name}= is decided by the verb: leave it out, or use Table")


def _refuse_cut(keys: Any, dtype: np.dtype[Any], narrow: str = "") -> None:
    """Refuse results of this dtype, before anything is done, which JAX would cut to 32 bits."""
    library = _tensors.library_of(keys) if _arrays.on_device(keys) else _tensors.array_library(keys)
    _tensors.check_results(library, dtype, narrow)


def _narrower(given: np.dtype[Any], op: str) -> str:
    return f"pass dtype='{given}' or another of 4 bytes, " if op == "sum" else ""


def _is_element(given: Any) -> bool:
    """A single number, text or time, not a column."""
    return isinstance(given, _ELEMENTS) or getattr(given, "ndim", 1) == 0 or _is_arrow_scalar(given)


def _is_arrow_scalar(given: Any) -> bool:
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(given, pa.Scalar)


def _of_one(element: Any) -> Any:
    """A column of a single element; of an array or tensor without a dimension, of its library."""
    if _is_arrow_scalar(element):
        return sys.modules["pyarrow"].repeat(element, 1)
    return [element] if isinstance(element, _ELEMENTS) and not isinstance(element, np.void) else element.reshape(1)


def _read(given: Any, what: str) -> Column:
    if isinstance(given, tuple):
        for i, part in enumerate(given):
            if _arrays.on_device(part):
                raise Unsupported(f"{what}[{i}] is on a GPU: pass host columns, or make one 8-byte key of them there")
    return read(given, what)


def _codes(column: Column, nulls: str) -> Column:
    """A column that is equal where this one is, for verbs of one column: of a categorical, its codes."""
    return column if column.coded is None or nulls != "group" else column.coded()


# ---- an index, or a table of numbers ---------------------------------------------------------------------------------


def _index(
    column: Column, nulls: str, floats: str, table: dict[str, Any], counts: bool = False, rows: int = 0
) -> CoreIndex:
    """An empty index for the keys of a column, in which so many rows are looked up."""
    for name, value in table.items():
        if name not in _number_verbs.OF_INDEX or (name == "device" and value not in ("auto", "cpu")):
            raise Unsupported(
                f"{name}={value!r} is for keys that are single numbers or times without nulls: leave it out, "
                f"{column.what} is kept by an index of its own, which takes threads, seed and capacity"
            )
    threads, capacity, seed = _number_verbs.of_index(table)
    if max(column.length, rows) < _FEW_FOR_THREADS:
        threads = 1  # which gives the same ids
    try:
        return CoreIndex(column.schema, nulls, floats, threads, counts, min(capacity, column.length), seed)
    except TypeError as error:
        raise TypeError(f"{column.what}: {error}") from None


def _add(index: CoreIndex, column: Column, ids: Array | None = None) -> None:
    try:
        index.add(column.schema, column.chunks, ids)
    except TypeError as error:
        raise TypeError(f"{column.what}: {error}") from None


def _ids(index: CoreIndex, column: Column) -> Array:
    ids = np.empty(column.length, _INDEX)
    _add(index, column, ids)
    return ids


def _find(index: CoreIndex, column: Column, others: Column) -> Array:
    ids = np.empty(column.length, _INDEX)
    with _named(column, others):
        index.find(column.schema, column.chunks, ids)
    return ids


@contextmanager
def _named(column: Column, others: Column) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{column.what} beside {others.what}: {error}") from None


def _wants_table(column: Column, table: dict[str, Any]) -> bool:
    """Can a table have these keys, and is it asked for, or faster?"""
    if column.stored is None or len(column.chunks) != 1:
        return False
    return column.length >= _FEW or any(
        name not in ("threads", "seed", "capacity") for name in table if table[name] != "cpu"
    )


def _plain(column: Column, floats: str, table: dict[str, Any]) -> Array | None:
    """The keys as numpy has them, if a table is to take them."""
    if not _wants_table(column, table):
        return None
    view = View(Keys(column.schema, sliced(column.chunks[0], 0, column.length)))
    if view.nulls() is not None:
        return None
    assert column.stored is not None
    array = view.values(column.stored)
    return canonical(array) if floats == "numbers" and array.dtype.kind == "f" else array


def _two_plain(one: Column, other: Column, floats: str, table: dict[str, Any]) -> tuple[Array, Array] | None:
    """The same of two columns, in one dtype."""
    a, b = one.stored, other.stored
    formats = {describe(one.schema)[0], describe(other.schema)[0]}
    if a is None or b is None or (len(formats) > 1 and not formats <= _INTEGERS):
        return None
    wide = np.promote_types(a, b)
    if a != b and wide.kind not in "iu":  # int64 and uint64 have no such dtype
        return None
    if not (_wants_table(one, table) or _wants_table(other, table)):
        return None
    force = {**table, "backend": table.get("backend")}
    left, right = _plain(one, floats, force), _plain(other, floats, force)
    if left is None or right is None:
        return None
    return left.astype(wide, copy=False), right.astype(wide, copy=False)


# ---- arrays of a device ----------------------------------------------------------------------------------------------


def _on_device(given: Any, what: str, floats: str) -> _table_verbs.KeyColumn:
    column = _table_verbs.on_device(given, what)
    return _table_verbs.equal_numbers(column) if floats == "numbers" else column


def _alike_on_device(keys: Any, among: Any, floats: str) -> tuple[_table_verbs.KeyColumn, _table_verbs.KeyColumn]:
    """Two columns of keys for one table, of which one or both are on a GPU."""
    if _arrays.on_device(keys) and _arrays.on_device(among):
        one, other = _on_device(keys, "keys", floats), _on_device(among, "among", floats)
        if one.dtype != other.dtype:
            raise TypeError(f"keys have dtype {one.dtype}, among {other.dtype}: convert one of them")
        return one, other
    if _arrays.on_device(keys):
        one = _on_device(keys, "keys", floats)
        return one, _table_verbs.as_others(among, one.dtype, "among")
    other = _on_device(among, "among", floats)
    return _table_verbs.as_others(keys, other.dtype, "keys"), other


def _join_on_device(left: Any, right: Any, how: str, floats: str, table: dict[str, Any]) -> tuple[Any, Any]:
    columns = []
    for given, what in ((left, "left"), (right, "right")):
        if not _arrays.on_device(given):
            there = "right" if what == "left" else "left"
            raise TypeError(f"{what} is on the host and {there} on a GPU: copy one of them to where the other one is")
        if _tensors.library_of(given) not in ("cupy", "torch"):
            raise Unsupported(
                f"{what} is a {type(given).__name__} on a GPU, which cannot be asked for pairs of rows: pass CuPy's or "
                f"PyTorch's, or use Table.find and Table.find_all"
            )
        columns.append(_on_device(given, what, floats))
        if len(columns[-1].shape) != 1:
            raise ValueError(f"{what} has shape {columns[-1].shape}: pass a one-dimensional column")
    one, other = columns
    if _tensors.library_of(left) != _tensors.library_of(right):
        raise TypeError(f"left is a {type(left).__name__}, right a {type(right).__name__}: pass two of one library")
    if one.dtype != other.dtype:
        raise TypeError(f"left has dtype {one.dtype}, right {other.dtype}: convert one of them")
    if one.ordinal != other.ordinal:
        raise TypeError(f"left is on cuda:{one.ordinal}, right on cuda:{other.ordinal}: copy one of them")
    return _table_verbs.join_on_device(one, other, how, table)


# ---- aggregates ------------------------------------------------------------------------------------------------------


def _values(values: Any, shape: tuple[int, ...], on_device: bool) -> tuple[Any, np.dtype[Any]]:
    """Values for the elements of a column of this shape, and the dtype in which they were given."""
    if _arrays.on_device(values):
        values = _arrow_devices.numbers(values, "values")
        given, own = _table_verbs.seen(values, "values")
    else:
        values = _arrays.column(values, "values")
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        given, own = values.dtype, values.shape
    if own not in ((), shape):
        raise ValueError(f"values have shape {own}, keys {shape}: pass one value per key, or a number for all")
    if given.kind not in "biufmM":
        raise TypeError(f"values have dtype {given}: pass single numbers or times")
    if own and on_device != _arrays.on_device(values):
        places = ("a GPU", "the host") if on_device else ("the host", "a GPU")
        raise TypeError(f"keys are on {places[0]} and values on {places[1]}: copy them to one place")
    return values, given


def _stored(given: np.dtype[Any], op: str, dtype: Any) -> np.dtype[Any]:
    """The dtype of results."""
    if dtype is not None:
        return _arrays.table_dtype(dtype, "dtype")
    if op in ("min", "max"):
        return given
    if given.kind == "M" or (given.kind == "m" and op == "mean"):
        raise TypeError(f"values of dtype {given} have no {op}: use 'min' or 'max', or numbers")
    if op == "mean":
        return _FLOAT
    return {"u": np.dtype(np.uint64), "f": _FLOAT, "m": given}.get(given.kind, _INDEX)


def _numbers_of(column: Column, results: Array, name: str) -> Any:
    """Results as the column's library has them, but for times, which some lack; a Series has the name."""
    if results.dtype.kind in "mM":
        return results
    given = column.give_numbers(results, False)
    return given if isinstance(given, np.ndarray) or frames.library(given) is None else given.rename(name)


# ---- joins -----------------------------------------------------------------------------------------------------------

Pairs = tuple[Array, Array]


def _partners(at: Array, codes: Array | None, groups: int, how: str) -> Pairs:
    return _single_partners(at, how) if codes is None else _all_partners(at, codes, groups, how)


def _groups(codes: Array | None) -> int:
    return 0 if codes is None else int(codes.max(initial=-1)) + 1


def _single_partners(at: Array, how: str) -> Pairs:
    """No key of the right column repeats: element i of the left one meets element at[i] of it, if that is not -1."""
    if how == "left":
        return np.arange(len(at), dtype=_INDEX), at
    left = np.flatnonzero(at >= 0)
    return left, at[left]


def _all_partners(at: Array, codes: Array, groups: int, how: str) -> Pairs:
    """Element i of the left column meets all elements of the right one whose code is at[i], if that is not -1."""
    offsets, rows = rows_by_id(codes, groups)
    return pairs(at, offsets, rows, how == "left")
