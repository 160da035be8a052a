"""Kernels of columns of bytes that are not here: what they do, in memory of the host; and such columns.

`column(...)` makes a column with Arrow's device interface of a list, in memory that a function of the caller puts where
it has to be: on the host for a fake device, or on a card.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pygpuhash import _core

sys.path.insert(0, str(Path(__file__).resolve().parent / "columns"))
import test_arrow_devices as made

Array = np.ndarray[Any, Any]
OFFSETS = {"u": "i4", "z": "i4", "U": "i8", "Z": "i8"}
CODES = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "e": "e", "f": "f", "g": "d"}


class Column(made.Column):
    """A column over buffers at these addresses."""

    def __init__(self, format: str, length: int, buffers: list[int], owner: Any, **given: Any) -> None:
        super().__init__(np.zeros(length), made.CUDA, format, nulls=given.get("nulls", 0), event=given.get("event"))
        self._buffers = (ctypes.c_void_p * len(buffers))(*(address or None for address in buffers))
        self.first, self.number, self.owner = given.get("first", 0), given.get("ordinal", 0), owner


def packed(format: str, element: Any) -> bytes:
    if element is None:
        return b""
    if isinstance(element, (str, bytes)):
        return element.encode() if isinstance(element, str) else element
    return struct.pack("<" + CODES.get(format, "q"), element)


def column(
    format: str,
    elements: list[Any],
    put: Callable[[Array], tuple[int, Any]] = lambda array: (array.ctypes.data, array),
    before: int = 0,
    counted: bool = True,
    unaligned: int = 0,
    **given: Any,
) -> Column:
    """A column of these elements, of which so many others come before in its buffers.

    put : gives (the address of a copy of an array, what keeps it alive).
    counted : is it said how many nulls there are?
    unaligned : bytes before the data that are none of a row's.
    """
    cells = [packed(format, element) for element in elements]
    width = 0 if format in OFFSETS else max(map(len, cells), default=8) or 8
    wrong = [b"\xa5" * (width or 3)] * before  # which must not be seen
    cells = wrong + [cell.ljust(width, b"\x5a") for cell in cells]
    valid = np.array([True] * before + [element is not None for element in elements], bool)
    data = np.frombuffer(b"\xc3" * (8 if width else unaligned) + b"".join(cells), np.uint8)
    offsets = np.cumsum([unaligned, *map(len, cells)])
    nulls = elements.count(None)
    arrays = [np.packbits(valid, bitorder="little") if nulls or not counted else None]
    if not width:
        arrays.append(offsets.astype(OFFSETS[format]))
    arrays.append(data)
    places = [(0, None) if array is None else put(np.array(array)) for array in arrays]
    addresses = [address for address, _ in places]
    if width:
        addresses[-1] += 8
    return Column(format, len(elements), addresses, places, first=before, nulls=nulls if counted else -1, **given)


def elements(column: Any) -> list[Any]:
    """What a column of the host has, or one of the device that is copied to it."""
    view = column.get()
    if isinstance(view, np.ndarray):
        return view.tolist()
    if view.format in OFFSETS or view.format.startswith("w:"):
        return view.objects()
    nulls = view.nulls()
    values = view.values(
        {"e": "f2", "f": "f4", "g": "f8"}.get(view.format, "i" + str(struct.calcsize(CODES.get(view.format, "q"))))
    )
    return [None if nulls is not None and nulls[i] else x for i, x in enumerate(values.tolist())]


def memory(address: int, nbytes: int) -> bytes:
    return ctypes.string_at(address, nbytes) if nbytes else b""


class BytesCall:
    """`_core.BytesCall`. Hashes with the seeds `constant` are all the same one, with others of 64 bits."""

    seeds: ClassVar[list[int]] = []
    streams: ClassVar[set[int]] = set()  # of all calls
    constant: ClassVar[Callable[[int], bool]] = staticmethod(lambda attempt: False)
    bring: Callable[[int], None]

    def __init__(self, ordinal: int, one: Any, other: Any, scratch: int, nbytes: int, stream: int) -> None:
        self.one, self.other, self.stream, self.nbytes = one, other, stream, nbytes
        assert scratch % 8 == 0
        self.streams.add(stream)

    def rows(self, picked: int = 0) -> list[bytes | None]:
        """The bytes of all rows; None is null."""
        type(self).bring(self.stream)
        cells = [*self.side(*self.one), *self.side(*self.other)]
        assert self.nbytes >= _core.bytes_scratch(max(len(cells), picked))
        return cells

    @staticmethod
    def side(
        n: int, first: int, data: int, offsets: int, validity: int, offset_bytes: int, width: int, floats: bool
    ) -> list[bytes | None]:
        rows: list[bytes | None] = []
        for i in range(first, first + n):
            if validity and not memory(validity + i // 8, 1)[0] >> i % 8 & 1:
                rows.append(None)
            elif offset_bytes:
                ends = np.frombuffer(memory(offsets + i * offset_bytes, 2 * offset_bytes), f"i{offset_bytes}")
                rows.append(memory(data + int(ends[0]), int(ends[1] - ends[0])))
            else:
                cell = memory(data + i * width, width)
                if floats:
                    number = np.frombuffer(cell, f"f{width}") + 0
                    cell = (np.full(1, np.nan, number.dtype) if number != number else number).tobytes()
                rows.append(cell)
        return rows

    def hash(self, seed: int, hashes: int, nulls: bool) -> int | None:
        rows = self.rows()
        attempt = len(self.seeds)
        self.seeds.append(seed)
        for i, row in enumerate(rows):
            given = b"" if row is None else b"1" + row
            digest = hashlib.blake2b(given, digest_size=8, key=seed.to_bytes(8, "little")).digest()
            ctypes.memmove(hashes + 8 * i, bytes(8) if type(self).constant(attempt) else digest, 8)
        return next((i for i, row in enumerate(rows) if row is None), None) if nulls else None

    def check(self, codes: int, groups: int, first: int) -> bool:
        rows, seen, same = self.rows(), dict[int, int](), True
        for i, code in enumerate(np.frombuffer(memory(codes, 8 * len(rows)), np.int64).tolist()):
            assert code < groups
            if code >= 0:
                seen.setdefault(code, i)
                same &= rows[i] == rows[seen[code]]
        for code, row in seen.items():
            ctypes.memmove(first + 8 * code, row.to_bytes(8, "little"), 8)
        return same

    def keep(self, rows: int) -> int:
        kept = np.array([i for i, row in enumerate(self.rows()) if row is not None], np.int64)
        ctypes.memmove(rows, kept.ctypes.data, kept.nbytes)
        return len(kept)

    def picked(self, rows: int, n: int) -> list[bytes | None]:
        cells = self.rows(n)
        return [cells[i] for i in np.frombuffer(memory(rows, 8 * n), np.int64)]

    def place(self, rows: int, n: int, offsets: int) -> int:
        ends = np.cumsum([0, *(len(row or b"") for row in self.picked(rows, n))]).astype(f"i{self.one[5]}")
        ctypes.memmove(offsets, ends.ctypes.data, ends.nbytes)
        return int(ends[-1])

    def take(self, rows: int, n: int, offsets: int, data: int, validity: int) -> None:
        found = self.picked(rows, n)
        joined = b"".join(bytes(self.one[6]) if row is None else row for row in found)
        ctypes.memmove(data, joined, len(joined))
        if validity:
            bits = np.packbits([row is not None for row in found], bitorder="little")
            ctypes.memmove(validity, bits.ctypes.data, bits.nbytes)


def ungroup(bring: Callable[[int], None]) -> Callable[..., None]:
    def run(ordinal: int, n: int, order: int, rows: int, row_bytes: int, to: int, stream: int = 0) -> None:
        bring(stream)
        for i, place in enumerate(np.frombuffer(memory(order, 8 * n), np.int64).tolist()):
            ctypes.memmove(to + place * row_bytes, rows + i * row_bytes, row_bytes)

    return run
