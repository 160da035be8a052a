"""`partition` and `shard_of`: rows by the shard that they belong to, the same in every process and on every machine.

The shard is computed from the published hash of the row (docs/hash.md), with a seed that is derived from the caller's:
keys of one shard are as evenly spread for `hash_array`, for files and for tables as any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pygpuhash import _arguments, _arrays, _device_shards, _tensors
from pygpuhash.columns import Column, View, read
from pygpuhash.columns import rows as _rows
from pygpuhash.columns._buffers import describe, sliced
from pygpuhash.columns._buffers import length as rows_of
from pygpuhash.columns._engine import MOST_SHARDS, Keys, partition_rows, rows_by_id
from pygpuhash.errors import Unsupported

__all__ = ["Partition", "partition", "shard_of"]

_SHARD = np.dtype(np.int32)
_ROW = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows grouped by shard: those of shard s are `offsets[s]` to `offsets[s + 1] - 1` of everything here.

    keys, values : what was given, grouped; values None where none were given.
    order : int64, the number that each row had: `keys` is the given keys at `order`.

    Of keys on a GPU, all four are arrays of their library there.
    """

    keys: Any
    values: Any
    offsets: Any
    order: Any

    def __len__(self) -> int:
        return len(self.offsets) - 1


def shard_of(keys: Any, shards: int, seed: int = 0, *, threads: int | None = None) -> Any:
    """The shard of each key, 0 to shards - 1: int32 of the shape and library of the column, as codes of `factorize`.

    With h = hash_array(key, seed=seed ^ 0x452821e638d01377) it is (h >> 32) * shards >> 32: equal for keys that are
    equal, whatever their type, library and machine. shards : 1 to 65,536. keys : as for `partition`, of any shape.
    Raises what `hash_array` and `partition` raise.
    """
    number, own_seed, limit = _checked(shards, seed, threads)
    if _arrays.on_device(keys):
        return _device_shards.shard_of(keys, number, own_seed)
    _refuse_device(keys, "keys")
    _tensors.check_results(_tensors.array_library(keys), _SHARD)
    column = read(keys, "keys")
    return column.give_numbers(_ids(column, number, own_seed, limit), True)


def partition(keys: Any, shards: int, seed: int = 0, values: Any = None, *, threads: int | None = None) -> Partition:
    """Keys, and a value of each, grouped by shard; in each shard they keep their order.

    keys : one-dimensional, a host column as the verbs take it, a tuple of such, or a frame, whose rows are keys. Or
        integers or floats of CuPy or PyTorch on a GPU: everything is then queued on the stream that is current in their
        library, and nothing comes back to the host.
    shards : 1 to 65,536. A shard may get no row. seed : from 0 to 2^64 - 1; with another one rows go elsewhere.
    values : None, an array (rows of any number of dimensions), or any column or frame of as many rows; on the GPU of
        the keys an array of it.
    threads : at most so many; None for one for each CPU that the process may use.

    A key's shard is that of `shard_of`: a contract that never changes, as the hash. Arrays of numbers are grouped by
    the library; columns of text and others are taken by their library, once `order` is known.

    Raises Unsupported for other arrays of a device, ValueError for columns that are not one-dimensional and values of
    another length, InvalidArgument for other shards, seeds or threads, and TypeError for what the verbs refuse.
    """
    number, own_seed, limit = _checked(shards, seed, threads)
    if _arrays.on_device(keys):
        return Partition(*_device_shards.partition(keys, number, own_seed, values))
    _refuse_device(keys, "keys")
    _refuse_device(values, "values")
    column = read(keys, "keys")
    if len(column.shape) != 1:
        raise ValueError(f"keys have shape {column.shape}: pass a one-dimensional column")
    _check_values(values, column.length)
    array = None if isinstance(keys, (list, tuple, range)) else _numbers(column)
    grouped = np.empty(column.length, array.dtype) if array is not None else None
    numeric = _direct(values)
    moved = np.empty_like(values) if numeric else None
    offsets, order = np.zeros(number + 1, _ROW), np.empty(column.length, _ROW)
    if len(column.chunks) <= 1:
        for chunk in column.chunks:
            given = values if numeric else None
            _named(column, chunk, number, own_seed, limit, None, offsets, order, grouped, given, moved)
    else:
        offsets, order = rows_by_id(_ids(column, number, own_seed, limit).astype(_ROW), number)
        moved = values[order] if numeric else None
    out = column.give(grouped) if grouped is not None else _rows.take(keys, order)
    if not numeric and values is not None:
        moved = _rows.take(values, order)
    return Partition(out, moved, offsets, order)


def _checked(shards: int, seed: int, threads: int | None) -> tuple[int, int, int | None]:
    limit = None if threads is None else _arguments.whole("threads", threads, 4096, least=1)
    number = _arguments.whole("shards", shards, MOST_SHARDS, least=1)
    return number, _arguments.whole("seed", seed, 2**64 - 1), limit


def _refuse_device(given: Any, what: str) -> None:
    for part in given if isinstance(given, tuple) else (given,):
        if _arrays.on_device(part):
            raise Unsupported(
                f"{what} are on a GPU, but not all of the call, or in a tuple: pass one column of CuPy or PyTorch and "
                "its values there, or copy them to the host, as with .cpu() of PyTorch or cupy.asnumpy"
            )


def _check_values(values: Any, length: int) -> None:
    for i, part in enumerate(values if isinstance(values, tuple) else () if values is None else (values,)):
        what = f"values[{i}]" if isinstance(values, tuple) else "values"
        try:
            own = part.num_rows if hasattr(part, "num_rows") else len(part)
        except TypeError:
            raise TypeError(f"{what} is a {type(part).__name__}, not a column: pass one value for each key") from None
        if own != length:
            raise ValueError(f"{what} has {own} rows, keys {length}: pass one value for each key")


def _ids(column: Column, shards: int, seed: int, threads: int | None) -> NDArray[np.int32]:
    ids, at = np.empty(column.length, _SHARD), 0
    for chunk in column.chunks:
        end = at + rows_of(chunk)
        _named(column, chunk, shards, seed, threads, ids[at:end])
        at = end
    return ids


def _named(column: Column, chunk: object, *arguments: Any) -> None:
    """A context in which a TypeError names the column."""
    try:
        partition_rows(column.schema, chunk, *arguments)
    except TypeError as error:
        raise TypeError(f"{column.what}: {error}") from None


def _numbers(column: Column) -> NDArray[Any] | None:
    """The elements, where the library groups copies of them: of one chunk, fixed width, and without nulls."""
    if column.stored is None or len(column.chunks) != 1 or describe(column.schema)[0] == "b":
        return None
    view = View(Keys(column.schema, sliced(column.chunks[0], 0, column.length)))
    return None if view.nulls() is not None else view.values(column.stored)


def _direct(values: Any) -> bool:
    """Are these values moved as they lie in memory?"""
    return (
        type(values) is np.ndarray
        and not values.dtype.hasobject
        and values.flags.c_contiguous
        and values.size > 0
        and values.itemsize > 0
    )
