"""Groups of a column on a GPU, from the column as it lies: distinct keys, counts and codes, without a table.

Everything is queued on one stream; what comes back to the host is the number of groups alone. Results and temporaries
are arrays of the column's library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arguments, _core, _cuda, _device, _tensors

__all__ = ["Groups", "group", "serves"]

MOST = 2**31  # rows of one call
KERNELS = not _core.build_info().endswith("CUDA: off")  # that this build of the library has
_LIBRARIES = ("cupy", "torch")  # that can be asked for arrays, parts of arrays, and copies
_TAKEN = frozenset(("stream", "seed", "device"))  # arguments that do not ask for a table
_INDEX, _BYTE = np.dtype(np.int64), np.dtype(np.uint8)


@dataclass
class Groups:
    """Arrays of the column's library; counts and codes are None where they were not asked for."""

    distinct: Any
    counts: Any
    codes: Any


def serves(library: str | None, dtype: np.dtype[Any], rows: int, ordinal: int, table: dict[str, Any]) -> bool:
    """Are groups found in the column itself? Else a table serves it, which takes every array and argument."""
    own = (f"cuda:{ordinal}", "cuda") if ordinal == 0 else (f"cuda:{ordinal}",)
    return (
        KERNELS
        and library in _LIBRARIES
        and dtype.kind in "iuf"
        and dtype.itemsize in (4, 8)
        and rows <= MOST
        and _TAKEN.issuperset(table)
        and table.get("device", own[0]) in own
    )


def group(
    array: Any, dtype: np.dtype[Any], ordinal: int, table: dict[str, Any], first: bool, *, counts: bool, codes: bool
) -> Groups:
    """The groups of an array, which `serves` has allowed, in the order of first appearance or in any."""
    given = table.get("stream")
    seed = _arguments.seed(table.get("seed")) or int.from_bytes(os.urandom(8), "little")
    _, stream = _device.usable_stream(_device.stream_keeper(array, ordinal) if given is None else given, ordinal)
    with _cuda.current(ordinal):
        keys = _device.view(array, ordinal, stream, "keys")
        n, nbytes = keys.size, _core.group_scratch(keys.size, dtype.itemsize, first, counts, codes)
        with _device.working_on(array, ordinal, stream):
            empty = _maker(array, ordinal)
            distinct = empty((n,), dtype)
            many = empty((n,), _INDEX) if counts else None
            numbers = empty(keys.shape, _INDEX) if codes else None
            if n == 0:
                return Groups(distinct, many, numbers)
            scratch = empty((nbytes + _INDEX.itemsize,), _BYTE)  # the number of groups is behind the temporaries
            size = _pointer(scratch) + nbytes
            _core.group(
                ordinal, n, keys.ptr, dtype.itemsize, first, seed, _pointer(distinct), _pointer(many),
                _pointer(numbers), size, _pointer(scratch), nbytes, stream,
            )  # fmt: skip
            found = np.empty(1, _INDEX)
            _cuda.copy_to_host(found, size, ordinal, stream)
            groups = int(found[0])
            return Groups(_part(distinct, groups), _part(many, groups), numbers)


def _maker(array: Any, ordinal: int) -> Callable[[tuple[int, ...], np.dtype[Any]], Any]:
    """What makes a new array of the library of `array`, on the stream that is current there."""
    library = sys.modules[_tensors.library_of(array) or ""]
    if library.__name__ == "cupy":
        return library.empty  # type: ignore[no-any-return]
    return lambda shape, dtype: library.empty(shape, dtype=getattr(library, dtype.name), device=f"cuda:{ordinal}")


def _pointer(array: Any) -> int:
    if array is None:
        return 0
    return int(array.data_ptr() if _tensors.library_of(array) == "torch" else array.data.ptr)


def _part(array: Any, n: int) -> Any:
    """The first n elements; a copy where the rest would keep more memory than they take."""
    if array is None or 2 * n >= len(array):
        return None if array is None else array[:n]
    return array[:n].clone() if _tensors.library_of(array) == "torch" else array[:n].copy()
