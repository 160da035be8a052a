"""The type that all readers make: a column as Arrow structs, with the way back to its library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash.columns import _buffers
from pygpuhash.columns._buffers import View

__all__ = ["Array", "Column", "Give", "bitmap", "fixed", "in_shape", "nothing", "struct", "text"]

Array = np.ndarray[Any, Any]
Give = Callable[[Any], Any]


@dataclass(slots=True)
class Column:
    """A column as the engine takes it, and the ways back to the caller's library.

    kind : the schema, or its format, of which it is made where it is asked for.
    made : the chunks, or what makes them where they are asked for: verbs on few numbers need neither.
    length : elements of all chunks.
    shape : that of the input: (length,), but for arrays and tensors of several dimensions, which count in C order.
    what : the argument's name, for messages.
    give : distinct keys, an object with `__arrow_c_array__` of the column's type (text and bytes in any layout, values
        instead of dictionaries), as the caller's library has them: of its type, with its name. Where `stored` is a
        dtype, also of a one-dimensional numpy array of that dtype, which has no nulls.
    give_numbers : (one-dimensional numpy array of int64, float64 or bool; like_rows) as the caller's library has them.
        like_rows: one for each row (codes, masks), else one for each key (counts, sums).
    coded : of a categorical whose values are known to be distinct: makes the column of its codes, -1 for null, with the
        same ways back.
    stored : the dtype of the elements in Arrow's memory, where `give` takes numpy arrays.
    memory : of numbers without nulls that numpy has in one piece of memory, these, one-dimensional.
    """

    kind: object
    made: list[object] | Callable[[], list[object]]
    length: int
    shape: tuple[int, ...]
    what: str
    give: Give
    give_numbers: Callable[[Array, bool], Any]
    stored: np.dtype[Any] | None = None
    coded: Callable[[], Column] | None = None
    memory: Array | None = None

    @property
    def schema(self) -> object:
        """PyCapsule "arrow_schema"."""
        if isinstance(self.kind, str):
            self.kind = _buffers.schema(self.kind)
        return self.kind

    @schema.setter
    def schema(self, schema: object) -> None:
        self.kind = schema

    @property
    def chunks(self) -> list[object]:
        """PyCapsules "arrow_array", none of them of another type; no chunk where there is no element."""
        if callable(self.made):
            self.made = self.made()
        return self.made

    @chunks.setter
    def chunks(self, chunks: list[object]) -> None:
        self.made = chunks

    @property
    def numbers(self) -> Array | None:
        """The elements as an array, of whose dtype `give` takes keys; None where they are no plain numbers."""
        return self.memory if self.stored is not None else None


def in_shape(shape: tuple[int, ...]) -> Callable[[Array, bool], Any]:
    """Numbers as numpy's arrays: those of rows in the shape of the column."""
    return lambda numbers, like_rows: numbers.reshape(shape) if like_rows else numbers


def bitmap(nulls: Array | None) -> Array | None:
    """Arrow's bitmap of the elements that are not null."""
    return None if nulls is None else np.packbits(~nulls, bitorder="little")


def fixed(
    format: str, values: Array, what: str, give: Give, nulls: Array | None = None, length: int | None = None
) -> Column:
    """A column of a type of fixed width over the memory of a one-dimensional contiguous array.

    length : of elements, where it is not that of the array: of bits.
    """
    length = len(values) if length is None else length
    return _of_chunk(format, (bitmap(nulls), values), length, what, give)


def text(format: str, made: tuple[Array, Array], what: str, give: Give, nulls: Array | None = None) -> Column:
    """A column of text "U" or bytes "Z", of (offsets, bytes)."""
    return _of_chunk(format, (bitmap(nulls), *made), len(made[0]) - 1, what, give)


def nothing(length: int, what: str, give: Give) -> Column:
    """A column of nulls alone, which have no type."""
    return _of_chunk("n", (), length, what, give)


def _of_chunk(format: str, buffers: tuple[Array | None, ...], length: int, what: str, give: Give) -> Column:
    def made() -> list[object]:
        return [_buffers.array(length, buffers, null_count=-1 if buffers else length)] if length else []

    return Column(format, made, length, (length,), what, give, in_shape((length,)))


def struct(
    parts: Sequence[Column], names: Sequence[str], what: str, give: Callable[[View], Any], nulls: Array | None = None
) -> Column:
    """One column of several of one length: element i is what all of them have at i. Their chunks move into it.

    nulls : rows that are null as a whole, of columns of one chunk each.
    """
    length = parts[0].length
    schema = _buffers.schema("+s", children=[part.schema for part in parts], names=names)
    if all(len(part.chunks) == 1 for part in parts):
        rows = [[part.chunks[0] for part in parts]]
    else:
        rows = list(zip(*_cut_alike([part.chunks for part in parts]), strict=True))  # type: ignore[arg-type]
    chunks = [_buffers.array(_buffers.length(children[0]), (bitmap(nulls),), children=children) for children in rows]
    shape = (length,)
    return Column(schema, chunks, length, shape, what, lambda keys: give(_view(keys)), in_shape(shape))


def _view(keys: Any) -> View:
    return keys if isinstance(keys, View) else View(keys)


def _cut_alike(columns: list[list[object]]) -> list[list[object]]:
    """The chunks of columns of one length, cut where any of them ends."""
    ends = [np.cumsum([_buffers.length(chunk) for chunk in chunks], dtype=np.int64) for chunks in columns]
    cuts = np.unique(np.concatenate(ends))
    out = []
    for chunks, own in zip(columns, ends, strict=True):
        pieces, begin = [], 0
        for end in cuts.tolist():
            at = int(np.searchsorted(own, end))
            start = int(own[at - 1]) if at else 0
            pieces.append(_buffers.sliced(chunks[at], begin - start, end - begin))
            begin = end
        out.append(pieces)
    return out
