"""Batches of rows of a table, some thousands of rows each, on their way through a command."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pygpuhash.columns import Column, View, _utf8, column, plain, read

__all__ = ["Arrow", "Batch", "Lists", "Text", "plain_array", "text_of"]


Text = tuple[NDArray[np.int64], NDArray[np.uint8]]  # offsets, bytes


class Batch(Protocol):
    """Rows with named columns."""

    names: list[str]
    rows: int
    nbytes: int

    def key(self, names: list[str]) -> Column:
        """The column of this name, or of several as one."""

    def take(self, places: NDArray[np.int64]) -> Batch:
        """Rows by their places; null at -1."""

    def only(self, columns: list[int]) -> Batch:
        """Some columns, by their places."""

    def texts(self) -> list[tuple[Text, NDArray[np.bool_] | None]]:
        """All columns as text, and where they are null."""

    def arrays(self) -> list[Any]:
        """All columns as arrays of pyarrow."""


class Lists:
    """Columns as lists of bytes, or None, as the standard library's readers make them."""

    def __init__(self, names: list[str], columns: list[list[bytes | None]]) -> None:
        self.names, self.columns = names, columns
        self.rows = len(columns[0]) if columns else 0
        self.nbytes = 0  # beside the key's

    def key(self, names: list[str]) -> Column:
        """The column of this name, or of several as one."""
        parts = [_bytes_column(self.columns[self.names.index(name)], name) for name in names]
        return parts[0] if len(parts) == 1 else column.struct(parts, names, "keys", lambda keys: keys)

    def take(self, places: NDArray[np.int64]) -> Lists:
        """Rows by their places; null at -1."""
        chosen = places.tolist()
        return Lists(self.names, [[None if i < 0 else cells[i] for i in chosen] for cells in self.columns])

    def only(self, columns: list[int]) -> Lists:
        """Some columns, by their places."""
        return Lists([self.names[i] for i in columns], [self.columns[i] for i in columns])

    def texts(self) -> list[tuple[Text, NDArray[np.bool_] | None]]:
        """All columns as text, and where they are null."""
        return [text_of(View(_Capsules(_bytes_column(cells, "")))) for cells in self.columns]

    def arrays(self) -> list[Any]:
        """All columns as arrays of pyarrow."""
        pa: Any = importlib.import_module("pyarrow")

        return [pa.array(cells, pa.binary()) for cells in self.columns]


class Arrow:
    """A record batch of pyarrow."""

    def __init__(self, names: list[str], columns: list[Any]) -> None:
        self.names, self.columns = names, columns
        self.rows = len(columns[0]) if columns else 0
        self.nbytes = sum(cells.nbytes for cells in columns)

    def key(self, names: list[str]) -> Column:
        """The column of this name, or of several as one."""
        parts = tuple(self.columns[self.names.index(name)] for name in names)
        return read(parts if len(parts) > 1 else parts[0], names[0] if len(names) == 1 else "keys")

    def take(self, places: NDArray[np.int64]) -> Arrow:
        """Rows by their places; null at -1."""
        pa: Any = importlib.import_module("pyarrow")

        chosen = pa.array(places, mask=places < 0)
        return Arrow(self.names, [cells.take(chosen) for cells in self.columns])

    def only(self, columns: list[int]) -> Arrow:
        """Some columns, by their places."""
        return Arrow([self.names[i] for i in columns], [self.columns[i] for i in columns])

    def texts(self) -> list[tuple[Text, NDArray[np.bool_] | None]]:
        """All columns as text, and where they are null."""
        return [text_of(View(plain_array(cells))) for cells in self.columns]

    def arrays(self) -> list[Any]:
        """All columns as arrays of pyarrow."""
        return self.columns


class _Capsules:
    """A column's capsules, for one consumer."""

    def __init__(self, given: Column) -> None:
        self._given = given

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._given.schema, self._given.chunks[0]


def _bytes_column(cells: list[bytes | None], what: str) -> Column:
    nulls = np.fromiter((cell is None for cell in cells), bool, len(cells))
    has = bool(nulls.any())
    return column.text("Z", _utf8.texts(cells, nulls if has else None, what), what, View, nulls if has else None)


def plain_array(cells: Any) -> Any:
    """An array of pyarrow whose texts lie in one buffer."""
    pa: Any = importlib.import_module("pyarrow")

    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells = cells.dictionary_decode()
        kind = cells.type
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return cells.cast(pa.large_string())
    if pa.types.is_binary_view(kind) or pa.types.is_binary(kind):
        return cells.cast(pa.large_binary())
    if pa.types.is_nested(kind) or pa.types.is_decimal(kind):
        return pa.array([None if x is None else str(x) for x in cells.to_pylist()], pa.large_string())
    return cells


def text_of(view: View) -> tuple[Text, NDArray[np.bool_] | None]:
    """A column as text, and where it is null."""
    nulls = view.nulls()
    if view.format in ("U", "Z", "u", "z"):
        return view.text(), nulls
    if view.format == "+s":  # of parquet and Arrow alone, so that pyarrow is here
        rows = importlib.import_module("pyarrow").array(view).to_pylist()
        return _utf8.texts([None if row is None else str(row) for row in rows], nulls, "keys"), nulls
    values = np.ma.getdata(plain.in_numpy(view))
    cells = [str(x) for x in (values if values.dtype.kind in "mM" else values.tolist())]
    return _utf8.texts(cells, nulls, "keys"), nulls
