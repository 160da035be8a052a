"""Inputs of the verbs on columns: their common arguments, and the index or table that has the keys of a column.

A column of the host goes into an index (`index_for`, `add`, `ids_of`, `find`), or as an array of numbers into a table
(`for_table`, `both_for_table`), if it is long or a table is asked for; an array of a GPU becomes a `KeyColumn`
(`on_device`). `values_of` and `dtype_of_results` are of aggregates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from pygpuhash import (
    _arrays,
    _arrow_devices,
    _device_bytes,
    _device_rows,
    _host_rows,
    _number_verbs,
    _table_verbs,
    _tensors,
)
from pygpuhash.columns import Column, View, frames, read
from pygpuhash.columns._buffers import describe, sliced
from pygpuhash.columns._engine import CoreIndex, Keys, canonical
from pygpuhash.errors import InvalidArgument, Unsupported

Array = np.ndarray[Any, Any]

FEW = 1 << 14  # elements below which making a table takes longer than the index takes for all of them
_FEW_FOR_THREADS = 1 << 12  # elements below which not even the number of processors is asked for
_FLOAT = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_OURS = ("key_dtype", "value_dtype", "grow", "needs")  # arguments of Table that a verb decides
_ELEMENTS = (str, bytes, int, float, complex, np.generic, date, time, timedelta, Decimal)
_INTEGERS = frozenset("cCsSiIlL")  # Arrow's formats
_LOOKED_AT = frozenset(("cupy", "torch"))  # libraries whose arrays are found ready by one look


# ---- arguments -------------------------------------------------------------------------------------------------------


def check(table: dict[str, Any], nulls: str, floats: str, order: str = "any") -> None:
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


def refuse_cut(keys: Any, dtype: np.dtype[Any], given: np.dtype[Any] | None = None, op: str = "") -> None:
    """Refuse results of this dtype, before anything is done, which JAX would cut to 32 bits. given: that of values."""
    library = _tensors.library_of(keys) if _arrays.on_device(keys) else _tensors.array_library(keys)
    if _tensors.cuts(library, dtype):
        narrow = f"pass dtype='{given}' or another of 4 bytes, " if op == "sum" else ""
        _tensors.check_results(library, dtype, narrow)


def is_element(given: Any) -> bool:
    """A single number, text or time, not a column."""
    if type(given) is list or type(given).__module__.startswith("polars."):  # which looks long for what it lacks
        return False
    return isinstance(given, _ELEMENTS) or getattr(given, "ndim", 1) == 0 or _is_arrow_scalar(given)


def _is_arrow_scalar(given: Any) -> bool:
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(given, pa.Scalar)


def of_one(element: Any) -> Any:
    """A column of a single element; of an array or tensor without a dimension, of its library."""
    if _is_arrow_scalar(element):
        return sys.modules["pyarrow"].repeat(element, 1)
    return [element] if isinstance(element, _ELEMENTS) and not isinstance(element, np.void) else element.reshape(1)


def read_on_host(given: Any, what: str) -> Column:
    return read(given, what)


def by_numbers(column: Column, nulls: str, floats: str, table: dict[str, Any]) -> Column:
    """A column that is equal where this one is, for verbs of one column: codes of a categorical, integers of rows."""
    if column.coded is not None:
        return column if nulls != "group" else column.coded()
    if column.length < _host_rows.SHORT:
        return column
    return _host_rows.as_numbers([column], nulls, floats, table)[0]


def few_numbers(column: Column) -> Array | None:
    """The elements of a short column of plain numbers; a long one goes to `for_table`."""
    return column.numbers if column.length < FEW else None


# ---- an index, or a table of numbers ---------------------------------------------------------------------------------


def index_for(
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


def add(index: CoreIndex, column: Column, ids: Array | None = None) -> None:
    try:
        index.add(column.schema, column.chunks, ids)
    except TypeError as error:
        raise TypeError(f"{column.what}: {error}") from None


def ids_of(index: CoreIndex, column: Column) -> Array:
    ids = np.empty(column.length, _INDEX)
    add(index, column, ids)
    return ids


def find(index: CoreIndex, column: Column, others: Column) -> Array:
    ids = np.empty(column.length, _INDEX)
    with named(column, others):
        index.find(column.schema, column.chunks, ids)
    return ids


@contextmanager
def named(column: Column, others: Column) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{column.what} beside {others.what}: {error}") from None


def _wants_table(column: Column, table: dict[str, Any]) -> bool:
    """Can a table have these keys, and is it asked for, or faster?"""
    if column.stored is None or len(column.chunks) != 1:
        return False
    return column.length >= FEW or any(
        name not in ("threads", "seed", "capacity") for name in table if table[name] != "cpu"
    )


def for_table(column: Column, floats: str, table: dict[str, Any]) -> Array | None:
    """The keys as numpy has them, if a table is to take them."""
    if not _wants_table(column, table):
        return None
    view = View(Keys(column.schema, sliced(column.chunks[0], 0, column.length)))
    if view.nulls() is not None:
        return None
    assert column.stored is not None
    array = view.values(column.stored)
    return canonical(array) if floats == "numbers" and array.dtype.kind == "f" else array


def both_for_table(one: Column, other: Column, floats: str, table: dict[str, Any]) -> tuple[Array, Array] | None:
    """The keys of two columns as numpy has them, in one dtype, if a table is to take them."""
    if not (_wants_table(one, table) or _wants_table(other, table)):
        return None
    a, b = one.stored, other.stored
    formats = {describe(one.schema)[0], describe(other.schema)[0]}
    if a is None or b is None or (len(formats) > 1 and not formats <= _INTEGERS):
        return None
    wide = np.promote_types(a, b)
    if a != b and wide.kind not in "iu":  # int64 and uint64 have no such dtype
        return None
    force = {**table, "backend": table.get("backend")}
    left, right = for_table(one, floats, force), for_table(other, floats, force)
    if left is None or right is None:
        return None
    return left.astype(wide, copy=False), right.astype(wide, copy=False)


# ---- arrays of a device ----------------------------------------------------------------------------------------------


def lies_on_device(given: Any) -> bool:
    """Is this an array on a GPU, or a tuple with one?"""
    return any(map(_arrays.on_device, given)) if isinstance(given, tuple) else _arrays.on_device(given)


def on_device(given: Any, what: str, nulls: str, floats: str, table: dict[str, Any]) -> _table_verbs.KeyColumn:
    """A column on a GPU, or the rows of a tuple of several."""
    if isinstance(given, tuple):
        return _device_rows.as_keys(_columns(given, what, nulls, floats, table), table.get("stream"))
    given = _arrow_devices.column(given, what)
    if isinstance(given, _arrow_devices.Bytes):
        return _device_bytes.as_keys(given, what, nulls, floats, table)
    return _array_on_device(given, what, floats)


def of_device(
    given: Any, nulls: str, floats: str, table: dict[str, Any], cut: np.dtype[Any] | None = None
) -> _table_verbs.KeyColumn | None:
    """The keys of a verb, if they lie on a GPU; else None. cut: as of `refuse_cut`, if JAX may cut results."""
    if _tensors.library_of(given) in _LOOKED_AT:
        ready = _table_verbs.ready_on_device(given)
        if ready is not None:
            return _table_verbs.equal_numbers(ready) if floats == "numbers" else ready
    if cut is not None:
        refuse_cut(given, cut)
    return on_device(given, "keys", nulls, floats, table) if lies_on_device(given) else None


def _array_on_device(given: Any, what: str, floats: str) -> _table_verbs.KeyColumn:
    column = _table_verbs.on_device(given, what)
    return _table_verbs.equal_numbers(column) if floats == "numbers" else column


def _columns(
    given: tuple[Any, ...], what: str, nulls: str, floats: str, table: dict[str, Any]
) -> list[_table_verbs.KeyColumn]:
    def read(part: Any, name: str) -> _table_verbs.KeyColumn:
        if isinstance(part, _arrow_devices.Bytes):
            return _device_bytes.as_member(part, name, nulls, floats, table)
        return _array_on_device(part, name, floats)

    return _device_rows.columns(given, what, read)


def _both_as_bytes(
    one: Any, other: Any, names: tuple[str, str], nulls: str, floats: str, table: dict[str, Any]
) -> tuple[_table_verbs.KeyColumn, _table_verbs.KeyColumn] | None:
    """Two columns of which one is no array of numbers; None where both are. The other one may be, on the same GPU."""
    found = [_arrow_devices.column(given, what) for given, what in zip((one, other), names, strict=True)]
    like = next((given for given in found if isinstance(given, _arrow_devices.Bytes)), None)
    if like is None:
        return None

    def as_bytes(i: int) -> _arrow_devices.Bytes:
        given = found[i]
        if isinstance(given, _arrow_devices.Bytes):
            return given
        given = of_one(given) if is_element(given) else given
        return _device_bytes.of_array(given, like, names[i], names[1 - i], table)

    a, b = as_bytes(0), as_bytes(1)
    _device_bytes.check_alike(a, b, *names)
    return _device_bytes.both_as_keys(a, b, names, nulls, floats, table)


def _rows_alike(
    keys: Any, others: Any, names: tuple[str, str], nulls: str, floats: str, table: dict[str, Any]
) -> tuple[_table_verbs.KeyColumn, _table_verbs.KeyColumn]:
    """The rows of two tuples of columns on a GPU."""
    for given, other, what, there in ((keys, others, *names), (others, keys, *names[::-1])):
        if not isinstance(given, tuple):
            raise TypeError(
                f"{there} are rows of {len(other)} columns, {what} a {type(given).__name__}: pass a tuple, too"
            )
    if len(keys) != len(others):
        raise TypeError(f"{names[0]} has {len(keys)} columns, {names[1]} {len(others)}: pass the same ones of both")
    keys, others = _without_bytes(keys, others, names, nulls, floats, table)
    one, other = (
        _columns(given, what, nulls, floats, table) for given, what in zip((keys, others), names, strict=True)
    )
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        _same(a, b, f"{names[0]}[{i}]", f"{names[1]}[{i}]")
    return _device_rows.both_as_keys(one, other, table.get("stream"))


def _without_bytes(
    keys: tuple[Any, ...],
    others: tuple[Any, ...],
    names: tuple[str, str],
    nulls: str,
    floats: str,
    table: dict[str, Any],
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two tuples of columns, of which those of bytes are numbers that are equal in both where their rows are."""
    pairs = []
    for i, (a, b) in enumerate(zip(keys, others, strict=True)):
        of_one = f"{names[0]}[{i}]", f"{names[1]}[{i}]"
        there = _arrays.on_device(a) and _arrays.on_device(b)
        found = _both_as_bytes(a, b, of_one, nulls, floats, table) if there else None
        pairs.append((a, b) if found is None else (found[0].array, found[1].array))
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _same(a: _table_verbs.KeyColumn, b: _table_verbs.KeyColumn, what: str, other: str) -> None:
    """Refuse columns of two dtypes, places or libraries."""
    if a.dtype != b.dtype:
        raise TypeError(f"{what} has dtype {a.dtype}, {other} {b.dtype}: convert one of them")
    if a.ordinal != b.ordinal:
        raise TypeError(f"{what} is on cuda:{a.ordinal}, {other} on cuda:{b.ordinal}: copy one of them")
    if _tensors.library_of(a.array) != _tensors.library_of(b.array):
        raise TypeError(
            f"{what} is a {type(a.array).__name__}, {other} a {type(b.array).__name__}: pass two of one library"
        )


def ready_alike(keys: Any, among: Any) -> tuple[_table_verbs.KeyColumn, _table_verbs.KeyColumn] | None:
    """Two columns of integers on a GPU for one table, each found by one look; None where one of them takes more."""
    if not (_tensors.library_of(keys) in _LOOKED_AT and _tensors.library_of(among) in _LOOKED_AT):
        return None
    column, others = _table_verbs.ready_on_device(keys), _table_verbs.ready_on_device(among)
    if column is None or others is None or column.dtype != others.dtype or column.dtype.kind not in "iu":
        return None
    return column, others


def alike_on_device(
    keys: Any, among: Any, nulls: str, floats: str, table: dict[str, Any]
) -> tuple[_table_verbs.KeyColumn, _table_verbs.KeyColumn]:
    """Two columns of keys for one table, of which one or both are on a GPU."""
    if isinstance(keys, tuple) or isinstance(among, tuple):
        return _rows_alike(keys, among, ("keys", "among"), nulls, floats, table)
    pair = _both_as_bytes(keys, among, ("keys", "among"), nulls, floats, table)
    if pair is not None:
        return pair
    if _arrays.on_device(keys) and _arrays.on_device(among):
        one, other = _array_on_device(keys, "keys", floats), _array_on_device(among, "among", floats)
        if one.dtype != other.dtype:
            raise TypeError(f"keys have dtype {one.dtype}, among {other.dtype}: convert one of them")
        return one, other
    if _arrays.on_device(keys):
        one = _array_on_device(keys, "keys", floats)
        return one, _table_verbs.as_others(among, one.dtype, "among")
    other = _array_on_device(among, "among", floats)
    return _table_verbs.as_others(keys, other.dtype, "keys"), other


def join_on_device(left: Any, right: Any, how: str, nulls: str, floats: str, table: dict[str, Any]) -> tuple[Any, Any]:
    if isinstance(left, tuple) or isinstance(right, tuple):
        rows = _rows_alike(left, right, ("left", "right"), nulls, floats, table)
        return _table_verbs.join_on_device(*rows, how, table)
    columns = []
    for given, what in ((left, "left"), (right, "right")):
        if not _arrays.on_device(given):
            there = "right" if what == "left" else "left"
            raise TypeError(f"{what} is on the host and {there} on a GPU: copy one of them to where the other one is")
        if _tensors.library_of(given) not in ("cupy", "torch") and not _arrays.is_arrow_on_device(given):
            raise Unsupported(
                f"{what} is a {type(given).__name__} on a GPU, which cannot be asked for pairs of rows: pass CuPy's or "
                f"PyTorch's, or use Table.find and Table.find_all"
            )
    pair = _both_as_bytes(left, right, ("left", "right"), nulls, floats, table)
    if pair is not None:
        return _device_bytes.join(*pair, how, table)
    for given, what in ((left, "left"), (right, "right")):
        columns.append(_array_on_device(given, what, floats))
        if len(columns[-1].shape) != 1:
            raise ValueError(f"{what} has shape {columns[-1].shape}: pass a one-dimensional column")
    one, other = columns
    _same(one, other, "left", "right")
    join = _table_verbs.join_on_device if _tensors.library_of(one.array) in ("cupy", "torch") else _device_bytes.join
    return join(one, other, how, table)


# ---- aggregates ------------------------------------------------------------------------------------------------------


def values_of(values: Any, shape: tuple[int, ...], on_device: bool, what: str = "values") -> tuple[Any, np.dtype[Any]]:
    """Values for the elements of a column of this shape, and the dtype in which they were given."""
    if _arrays.on_device(values):
        values = _arrow_devices.numbers(values, what)
        given, own = _table_verbs.seen(values, what)
    else:
        values = _arrays.column(values, what)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        given, own = values.dtype, values.shape
    if own not in ((), shape):
        raise ValueError(f"{what} have shape {own}, keys {shape}: pass one value per key, or a number for all")
    if given.kind not in "biufmM":
        raise TypeError(f"{what} have dtype {given}: pass single numbers or times")
    if own and on_device != _arrays.on_device(values):
        places = ("a GPU", "the host") if on_device else ("the host", "a GPU")
        raise TypeError(f"keys are on {places[0]} and {what} on {places[1]}: copy them to one place")
    return values, given


def values_of_kept(column: _table_verbs.KeyColumn, values: Any) -> tuple[Any, np.dtype[Any]]:
    """`values_of` a column on a GPU, where some of its rows may be dropped."""
    amounts, given = values_of(values, column.shape if column.kept is None else column.kept.shape, True)
    if column.kept is None or not _arrays.on_device(amounts):
        return amounts, given
    return column.kept.take(amounts, given), given


def dtype_of_results(given: np.dtype[Any], op: str, dtype: Any) -> np.dtype[Any]:
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


def numbers_of(column: Column, results: Array, name: str) -> Any:
    """Results as the column's library has them, but for times, which some lack; a Series has the name."""
    if results.dtype.kind in "mM":
        return results
    given = column.give_numbers(results, False)
    library = None if isinstance(given, np.ndarray) else frames.library(given)
    if library == "pandas":
        given.name = name  # which takes a tenth of the time that `rename` does
        return given
    return given if library is None else given.rename(name)
