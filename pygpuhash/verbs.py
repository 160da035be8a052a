"""Verbs on whole columns: `unique`, `value_counts`, `factorize`, `isin`, `group_reduce`, `join_indexer`.

A column of keys is one of

- a host column: an array of numpy, a list, a column or frame of pandas, polars or Arrow, a tensor on the CPU. Elements
  are numbers, times, text and bytes of any length, decimals, structs and dictionaries of these, and nulls;
- an array of a CUDA device, used where it lies; results are arrays of the same library;
- a column with Arrow's device interface on a CUDA device: numbers, times, text, bytes, and nulls. Keys that come back
  are a `DeviceArray` where they are numbers without nulls, else a `DeviceColumn`;
- a tuple of columns of one length, of the host or all on one GPU, of CuPy or of PyTorch and of Arrow: element i is
  what all of them have at i. Keys that come back are a tuple again.

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
number, or less, are looked up in an array over the range; so are those that are multiples of a step in such a range.
Integers of which few are distinct are counted in a small array of slots, and an index serves others where that is
faster than a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from pygpuhash import _device_groups, _host_rows, _number_verbs, _reproducible, _table_verbs, _verb_inputs
from pygpuhash._keywords import refuse_unknown as _refuse_unknown
from pygpuhash._verb_inputs import (
    add,
    alike_on_device,
    both_for_table,
    by_numbers,
    check,
    dtype_of_results,
    few_numbers,
    find,
    for_table,
    ids_of,
    index_for,
    is_element,
    join_on_device,
    lies_on_device,
    named,
    numbers_of,
    of_device,
    of_one,
    on_device,
    read_on_host,
    ready_alike,
    refuse_cut,
    values_of,
    values_of_kept,
)
from pygpuhash.columns._engine import pairs, rows_by_id
from pygpuhash.errors import InvalidArgument

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

_INDEX = np.dtype(np.int64)
_SETS: tuple[type[Iterable[Any]], ...] = (set, frozenset, type(dict[Any, Any]().keys()))
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
    check(table, nulls, floats, order)
    found = _number_verbs.unique(keys, floats, table, _verb_inputs.FEW)
    if found is not None:
        return found
    plain = _device_groups.plain(keys, order, table)
    if plain is not None:
        return plain[0]
    there = of_device(keys, nulls, floats, table)
    if there is not None:
        return _table_verbs.unique(there, order, table)
    column = by_numbers(read_on_host(keys, "keys"), nulls, floats, table)
    found = _number_verbs.unique(few_numbers(column), floats, table, _verb_inputs.FEW)
    if found is not None:
        return column.give(found)
    array = for_table(column, floats, table)
    if array is not None:
        found = _number_verbs.unique(array, floats, table, 0)
        if found is None:
            found = _table_verbs.unique(_table_verbs.on_host(array), order, table)
        return column.give(found)
    index = index_for(column, nulls, floats, table)
    add(index, column)
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
    check(table, nulls, floats, order)
    pair: tuple[Any, Any] | None = _number_verbs.value_counts(keys, floats, table, _verb_inputs.FEW)
    if pair is not None:
        return pair
    plain = _device_groups.plain(keys, order, table, counts=True)
    if plain is not None:
        return plain[0], plain[1]
    there = of_device(keys, nulls, floats, table, _INDEX)
    if there is not None:
        return _table_verbs.value_counts(there, order, table)
    column = by_numbers(read_on_host(keys, "keys"), nulls, floats, table)
    distinct: Any
    pair = _number_verbs.value_counts(few_numbers(column), floats, table, _verb_inputs.FEW)
    array = None if pair else for_table(column, floats, table)
    if pair is not None:
        distinct, counts = pair
    elif array is not None:
        pair = _number_verbs.value_counts(array, floats, table, 0)
        distinct, counts = pair or _table_verbs.value_counts(_table_verbs.on_host(array), order, table)
    else:
        index = index_for(column, nulls, floats, table, counts=True)
        add(index, column)
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
    check(table, nulls, floats, order)
    pair: tuple[Any, Any] | None = _number_verbs.factorize(keys, floats, table, _verb_inputs.FEW)
    if pair is not None:
        return pair
    plain = _device_groups.plain(keys, order, table, codes=True)
    if plain is not None:
        return plain[2], plain[0]
    there = of_device(keys, nulls, floats, table, _INDEX)
    if there is not None:
        return _table_verbs.factorize(there, order, table)
    column = by_numbers(read_on_host(keys, "keys"), nulls, floats, table)
    distinct: Any
    pair = _number_verbs.factorize(few_numbers(column), floats, table, _verb_inputs.FEW)
    array = None if pair else for_table(column, floats, table)
    if pair is not None:
        codes, distinct = pair
    elif array is not None:
        pair = _number_verbs.factorize(array, floats, table, 0)
        codes, distinct = pair or _table_verbs.factorize(_table_verbs.on_host(array), order, table)
    else:
        index = index_for(column, nulls, floats, table)
        codes = ids_of(index, column)
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
    among integers. `among` may be a set, too. One column may be on a GPU and the other on the host: the table is on
    that GPU.
    """
    if type(among) is not np.ndarray and isinstance(among, _SETS):
        among = list(among)
    if table:
        _refuse_unknown(isin, table)
    check(table, nulls, floats)
    found = _number_verbs.isin(keys, among, floats, table, _verb_inputs.FEW)
    if found is not None:
        return found
    pair = ready_alike(keys, among)
    if pair is None and (lies_on_device(keys) or lies_on_device(among)):
        pair = alike_on_device(keys, among, nulls, floats, table)
    if pair is not None:
        return _table_verbs.isin(*pair, table)
    if is_element(among):
        among = of_one(among)
    if is_element(keys):
        return isin(of_one(keys), among, nulls=nulls, floats=floats, **table)[0]
    column, others = read_on_host(keys, "keys"), read_on_host(among, "among")
    if column.length + others.length >= _host_rows.SHORT:
        column, others = _host_rows.as_numbers((column, others), nulls, floats, table)
    mask = _number_verbs.isin(few_numbers(column), few_numbers(others), floats, table, _verb_inputs.FEW)
    arrays = None if mask is not None else both_for_table(column, others, floats, table)
    if mask is not None:
        pass
    elif arrays is not None:
        mask = _number_verbs.isin(*arrays, floats, table, 0)
        if mask is None:
            mask = _table_verbs.isin(_table_verbs.on_host(arrays[0]), _table_verbs.on_host(arrays[1]), table)
    else:
        index = index_for(others, nulls, floats, table, rows=column.length)
        add(index, others)
        mask = np.empty(column.length, np.bool_)
        with named(column, others):
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
    reproducible: bool = False,
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
    reproducible : sums and means of floats are the same bits in each call, on each device, and whatever the order of
        the rows and the number of threads; they take several times as long. Other results are so anyway.
    order : as for `unique`.

    "min" and "max" leave out NaNs and NaTs, unless a group has nothing else; sums leave out NaTs; sums and means with a
    NaN are NaN. Unless they are to be reproducible, floats are added in no fixed order, so that their sums and means
    differ in the last bits from call to call.
    """
    if table:
        _refuse_unknown(group_reduce, table)
    if isinstance(op, (tuple, list)):
        return _reduce_by_all(keys, values, tuple(op), dtype, reproducible, order, nulls, floats, table)
    if op not in _REDUCTIONS:
        raise InvalidArgument(f"op={op!r} is none of {', '.join(_REDUCTIONS)}")
    if dtype is not None and op != "sum":
        raise InvalidArgument(f"dtype={dtype!r} is for op='sum': leave it out with op={op!r}, and convert the results")
    check(table, nulls, floats, order)
    exact = reproducible and op in ("sum", "mean")
    of_numpy = type(keys) is np.ndarray
    if not of_numpy and lies_on_device(keys):
        if not exact and op != "count" and dtype is None:
            plain = _device_groups.plain(keys, order, table, values=values, op=op)
            if plain is not None:
                return plain[:2]
        there = on_device(keys, "keys", nulls, floats, table)
        amounts, given = values_of_kept(there, values)
        if op == "count":
            refuse_cut(keys, _INDEX)
            return _table_verbs.value_counts(there, order, table)
        stored = dtype_of_results(given, op, dtype)
        refuse_cut(keys, stored, given, op)
        if exact and given.kind == stored.kind == "f":
            return _reproducible.on_device(there, amounts, op, stored, order, table)
        return _table_verbs.group_reduce(there, amounts, given, op, stored, order, table)
    if exact:
        distinct, (results,) = _reduce_by_all_on_host(keys, values, (op,), dtype, True, order, nulls, floats, table)
        return distinct, results
    column = (
        None
        if of_numpy and keys.size < _verb_inputs.FEW
        else by_numbers(read_on_host(keys, "keys"), nulls, floats, table)
    )
    amounts, given = values_of(values, keys.shape if column is None else column.shape, False)
    if op == "count":
        return value_counts(keys, order=order, nulls=nulls, floats=floats, **table)
    stored = dtype_of_results(given, op, dtype)
    if not of_numpy:
        refuse_cut(keys, stored, given, op)
    amounts = amounts.reshape(-1) if np.ndim(amounts) else amounts
    if column is None:
        pair = _number_verbs.group_reduce(keys, amounts, op, stored, floats, table, _verb_inputs.FEW)
        if pair is not None:
            return pair
        column = by_numbers(read_on_host(keys, "keys"), nulls, floats, table)
    pair = _number_verbs.group_reduce(few_numbers(column), amounts, op, stored, floats, table, _verb_inputs.FEW)
    array = None if pair else for_table(column, floats, table)
    if pair is not None:
        distinct, results = pair
    elif array is not None:
        pair = _number_verbs.group_reduce(array, amounts, op, stored, floats, table, 0)
        distinct, results = pair or _table_verbs.group_reduce(
            _table_verbs.on_host(array), amounts, given, op, stored, order, table
        )
    else:
        index = index_for(column, nulls, floats, table)
        ids = ids_of(index, column)
        distinct, results = index.keys(0, index.size), _number_verbs.reduce(ids, index.size, amounts, op, stored)
    return column.give(distinct), numbers_of(column, results, op)


def _dtypes(keys: Any, given: np.dtype[Any], ops: tuple[str, ...], dtype: Any) -> dict[str, np.dtype[Any]]:
    """The dtype of the results of each aggregate; those that JAX would cut are refused. given: that of the values."""
    stored = dict.fromkeys(ops, _INDEX)
    for op in ops:
        if op != "count":
            stored[op] = dtype_of_results(given, op, dtype if op == "sum" else None)
        refuse_cut(keys, stored[op], given, op)
    return stored


def _reduce_by_all(
    keys: Any,
    values: Any,
    ops: tuple[Any, ...],
    dtype: Any,
    reproducible: bool,
    order: Order,
    nulls: Nulls,
    floats: Floats,
    table: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """(distinct keys, a tuple of aggregates of their values)."""
    for i, op in enumerate(ops):
        if op not in _REDUCTIONS:
            raise InvalidArgument(f"op[{i}]={op!r} is none of {', '.join(_REDUCTIONS)}")
    if not ops:
        raise InvalidArgument("op=() asks for nothing: name one aggregate or more, or use unique")
    if dtype is not None and "sum" not in ops:
        raise InvalidArgument(f"dtype={dtype!r} is for 'sum', which op={ops!r} does not have: leave it out")
    check(table, nulls, floats, order)
    if lies_on_device(keys):
        there = on_device(keys, "keys", nulls, floats, table)
        amounts, given = values_of_kept(there, values)
        stored = _dtypes(keys, given, ops, dtype)
        if not reproducible or given.kind != "f":
            found = _table_verbs.reduce_by_all(there, amounts, given, ops, stored.get("sum"), order, table)
            if found is not None:
                return found
    elif len(ops) > 1:
        return _reduce_by_all_on_host(keys, values, ops, dtype, reproducible, order, nulls, floats, table)
    distinct, results = None, []
    alike: dict[str, Any] = {"reproducible": reproducible, "order": "first", "nulls": nulls, "floats": floats, **table}
    for op in ops:  # in the order of first appearance, which is the same in each call
        distinct, result = group_reduce(keys, values, op, dtype=dtype if op == "sum" else None, **alike)
        results.append(result)
    return distinct, tuple(results)


def _reduce_by_all_on_host(
    keys: Any,
    values: Any,
    ops: tuple[Any, ...],
    dtype: Any,
    reproducible: bool,
    order: Order,
    nulls: Nulls,
    floats: Floats,
    table: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """Groups are found once, for all aggregates."""
    column = read_on_host(keys, "keys")
    amounts, given = values_of(values, column.shape, False)
    stored = _dtypes(keys, given, ops, dtype)
    codes, distinct = factorize(keys, order=order, nulls=nulls, floats=floats, **table)
    ids = np.ascontiguousarray(codes).reshape(-1)
    groups = int(ids.max(initial=-1)) + 1

    def results(op: str) -> Array:
        if op == "count":
            return _number_verbs.reduce(ids, groups, 1, "sum", _INDEX)
        if reproducible and op in ("sum", "mean") and given.kind == stored[op].kind == "f":
            return _reproducible.on_host(ids, amounts, op, stored[op])
        return _number_verbs.reduce(ids, groups, amounts, op, stored[op])

    return distinct, tuple(numbers_of(column, results(op), op) for op in ops)


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
    CuPy or of PyTorch, or columns of Arrow.

    Raises ValueError for columns that are not one-dimensional, Unsupported for arrays of other libraries on a GPU.
    """
    if table:
        _refuse_unknown(join_indexer, table)
    if how not in ("inner", "left"):
        raise InvalidArgument(f"how={how!r} is neither 'inner' nor 'left'")
    check(table, nulls, floats)
    of_numpy = type(left) is type(right) is np.ndarray
    if not of_numpy and (lies_on_device(left) or lies_on_device(right)):
        return join_on_device(left, right, how, nulls, floats, table)
    refuse_cut(left, _INDEX)
    numbers = _number_verbs.join(left, right, table)
    if numbers is not None:
        return _partners(*numbers, _groups(numbers[1]), how)
    one, other = read_on_host(left, "left"), read_on_host(right, "right")
    for column in (one, other):
        if len(column.shape) != 1:
            raise ValueError(f"{column.what} has shape {column.shape}: pass a one-dimensional column")
    if one.length + other.length >= _host_rows.SHORT:
        one, other = _host_rows.as_numbers((one, other), nulls, floats, table)
    few = None if of_numpy else _number_verbs.join(few_numbers(one), few_numbers(other), table)  # tried above
    arrays = None if few else both_for_table(one, other, floats, table)
    if few is not None:
        at, codes = few
        groups = _groups(codes)
    elif arrays is not None:
        hosts = _table_verbs.on_host(arrays[0]), _table_verbs.on_host(arrays[1])
        at, codes = _number_verbs.join(*arrays, table) or _table_verbs.join_indexer(*hosts, table)
        groups = _groups(codes)
    else:
        index = index_for(other, nulls, floats, table, rows=one.length)
        codes = ids_of(index, other)
        at, groups = find(index, one, other), index.size
    met = _partners(at, codes, groups, how)
    return numbers_of(one, met[0], "left"), numbers_of(one, met[1], "right")


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
