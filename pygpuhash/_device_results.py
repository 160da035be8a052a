"""Arrays of results that have an element for each group of a column on a GPU. The arrays are made before the number of
groups is known.

Each has room for as many elements as the column has rows. It is an array of its own, of which the result is a part; or
it lies behind the temporaries, if the groups are expected to be few, as they were in the last column of about as many
rows. Then its first elements are copied while the kernels still run, twice as many as there were groups, and the copy
is the result, so that a short column takes no longer than its kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pygpuhash import _cuda, _device_arrays

__all__ = ["Results", "part", "pointer"]

_SHORT = 1 << 22  # rows of a column
_LEAST = 1 << 6  # elements that are copied
_ALIGNMENT = 256  # of arrays behind temporaries
_BYTE = np.dtype(np.uint8)
_Empty = Callable[[tuple[int, ...], np.dtype[Any]], Any]  # makes an array

# Where the groups of the last column were few: how many elements are copied the next time, by how many bits its number
# of rows has.
_expected: dict[int, int] = {}


class Results:
    """The results of a call, by name. Its methods are called where `empty` allocates."""

    __slots__ = ("_arrays", "_at", "_behind", "_copied", "_dtypes", "_empty", "_end", "_first", "_n", "_scratch")

    def __init__(self, empty: _Empty, n: int, scratch: int, waits: bool) -> None:
        """Results of n rows, with temporaries of `scratch` bytes. waits: the call calls what `copying` gives."""
        self._empty, self._n, self._end = empty, n, scratch
        self._copied = min(_expected.get(n.bit_length(), 0), n) if waits and n <= _SHORT else 0  # elements
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._arrays: dict[str, Any] = {}  # of n elements; or instead:
        self._behind: dict[str, int] = {}  # where they begin behind the temporaries
        self._first: dict[str, Any] = {}  # and the copies of their first elements
        self._scratch: Any = None  # lives until the results are copied
        self._at = 0

    def add(self, name: str, dtype: np.dtype[Any]) -> None:
        """A result that the call writes."""
        self._dtypes[name] = dtype
        if not self._copied:
            self._arrays[name] = self._empty((self._n,), dtype)
            return
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self._behind[name] = start
        self._end = start + self._n * dtype.itemsize

    def scratch(self) -> int:
        """The address of the temporaries, when all results have been added."""
        self._scratch = self._empty((self._end,), _BYTE)
        self._at = pointer(self._scratch)
        return self._at

    def address(self, name: str) -> int:
        """Where the call writes a result; 0 if it does not."""
        if self._copied and name in self._behind:
            return self._at + self._behind[name]
        return pointer(self._arrays.get(name))

    def copying(self, stream: int) -> Callable[[], None] | None:
        """What is to be done while the kernels run, if anything."""
        if not self._copied:
            return None

        def copy() -> None:
            for name in self._behind:
                self._first[name] = self._copy(name, self._copied, stream)

        return copy

    def note(self, groups: int) -> None:
        """How many groups there are."""
        if self._n > _SHORT:
            return
        if _leaves_too_much(groups, self._n):
            _expected[self._n.bit_length()] = max(_LEAST, 2 * groups)
        else:
            _expected.pop(self._n.bit_length(), None)

    def give(self, name: str, groups: int, stream: int) -> Any:
        """A result, as an array of so many elements."""
        if not self._copied:
            return part(self._arrays[name], self._dtypes[name], groups, self._n, self._empty, stream)
        return _first_of(self._first[name], groups) if groups <= self._copied else self._copy(name, groups, stream)

    def _copy(self, name: str, n: int, stream: int) -> Any:
        return _copied(self.address(name), self._dtypes[name], n, self._empty, stream)


def pointer(array: Any) -> int:
    """The address of an array of CuPy, of PyTorch or of ours; 0 of None."""
    if array is None:
        return 0
    if type(array) is _cuda.DeviceArray:
        return array.ptr
    of_torch = getattr(array, "data_ptr", None)
    return int(array.data.ptr if of_torch is None else of_torch())


def part(array: Any, dtype: np.dtype[Any], n: int, rows: int, empty: _Empty, stream: int) -> Any:
    """The first n elements of so many, or a copy of them if they would keep too much memory for the others."""
    if _leaves_too_much(n, rows):
        return _copied(pointer(array), dtype, n, empty, stream)
    return _first_of(array, n)


def _leaves_too_much(n: int, rows: int) -> bool:
    """Of short columns the copies take as long as the verb, and the memory is little."""
    return n * (16 if rows <= _SHORT else 4) < rows


def _first_of(array: Any, n: int) -> Any:
    """The first n elements, over the same memory."""
    if type(array) is _cuda.DeviceArray:
        return _device_arrays.first_of(array, n)
    narrow = getattr(array, "narrow", None)  # of PyTorch
    return array[:n] if narrow is None else narrow(0, 0, n)


def _copied(at: int, dtype: np.dtype[Any], n: int, empty: _Empty, stream: int) -> Any:
    """A copy of n elements, by the driver: a kernel of their library starts later."""
    copy = empty((n,), dtype)
    _cuda.copy(pointer(copy), at, n * dtype.itemsize, stream)
    return copy
