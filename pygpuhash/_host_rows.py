"""Rows of several host columns, and numbers with nulls, as one column of integers, which every verb takes faster.

Numbers and times become distances from the least one, all other columns of rows (text, structs) ids in an index of
their own: `_packed` has the arithmetic. Columns stay what they are where they are short, where their integers would
have more than 64 bits, and where such an index would have many keys: an index of the rows is faster then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash import _number_verbs, _packed
from pygpuhash._packed import LONG, Part
from pygpuhash.columns import Column, View, _buffers, _direct, plain
from pygpuhash.columns._engine import CoreIndex, Keys, canonical
from pygpuhash.columns.column import bitmap, fixed
from pygpuhash.columns.numpy_arrays import FORMATS

__all__ = ["SHORT", "as_numbers"]

Array = np.ndarray[Any, Any]

SHORT = 1 << 12  # rows below which the arithmetic takes longer than an index of the rows
_HOSTS = ("auto", "cpu")
_SAMPLE, _MANY = 1 << 14, 4  # elements that are looked at, and how many of them a key has to stand for
_FIRST = 256  # elements that say whether a column's integers are a step apart
_BLOCK = 1 << 15  # rows that are packed at a time
_NUMBERS = {format: np.dtype(code) for code, format in FORMATS.items()} | {"b": np.dtype(np.bool_)}
_OF_FOUR_BYTES = ("tdD", "tts", "ttm")  # times of Arrow; all others of "td", "tt", "ts" and "tD" have 8


def as_numbers(columns: Sequence[Column], nulls: str, floats: str, table: dict[str, Any]) -> Sequence[Column]:
    """Columns of integers, equal where elements of `columns` are, with the same ways back; or the columns themselves.

    columns : one, or several whose elements are compared with each other.

    They stay what they are where they are neither rows nor numbers with nulls, or of two types, with arguments that not
    both an index and a table of numbers take, with nulls that are not to be keys like others, and where it is slower.
    """
    rows = sum(column.length for column in columns)
    if rows < SHORT or not _number_verbs.OF_INDEX.issuperset(table) or table.get("device", "cpu") not in _HOSTS:
        return columns
    fields = _fields(columns, nulls)
    if not fields:
        return columns
    part = _of_integers(fields) if len(fields) > 1 else None
    if part is None:
        parts = _parts(fields, floats, table)
        if parts is None:
            return columns
        part = _side_by_side(parts)
    names = [_buffers.describe(field[0].__arrow_c_array__()[0])[1] for field in fields]
    of_rows = _buffers.describe(columns[0].schema)[0] == "+s"

    def rows_of(distinct: Any) -> View:
        integers = distinct if isinstance(distinct, np.ndarray) else View(distinct).values(part.numbers.dtype)
        found = part.back(integers)
        return _rows(found, names) if of_rows else View(found[0])

    ends = np.cumsum([column.length for column in columns])[:-1]
    return [_column(c, numbers, rows_of) for c, numbers in zip(columns, np.split(part.numbers, ends), strict=True)]


def _fields(columns: Sequence[Column], nulls: str) -> list[list[View]]:
    """The chunks of each column of rows, or of the column with nulls that there is; none, if all stay what they are."""
    formats = {_buffers.describe(column.schema)[0] for column in columns}
    if not all(plain.same_type(column.schema, columns[0].schema) for column in columns[1:]):
        return []
    chunks = [View(Keys(c.schema, _buffers.sliced(a, 0, _buffers.length(a)))) for c in columns for a in c.chunks]
    if formats != {"+s"}:  # plain numbers have faster ways of their own, and an index is as fast for all others
        numbers = nulls == "group" and _dtype(columns[0].schema) is not None
        return [chunks] if numbers and any(chunk.nulls() is not None for chunk in chunks) else []
    fields = [[chunk.child(i) for chunk in chunks] for i in range(chunks[0].columns)]
    if any(chunk.nulls() is not None for chunk in chunks):
        return []
    if nulls != "group" and any(view.nulls() is not None or view.columns for field in fields for view in field):
        return []
    return fields


def _dtype(schema: object) -> np.dtype[Any] | None:
    """That of numbers and times; None of other types, dictionaries among them."""
    format, _, _, dictionary = _buffers.describe(schema)
    if dictionary is not None:
        return None
    if format[0] == "t" and format[:2] != "ti":
        return np.dtype(np.int32 if format in _OF_FOUR_BYTES else np.int64)
    return _NUMBERS.get(format)


def _column(column: Column, numbers: Array, rows_of: Callable[[Any], View]) -> Column:
    """A column of integers, with the ways back of the column of rows."""
    packed = fixed(FORMATS[numbers.dtype.str], numbers, column.what, lambda distinct: column.give(rows_of(distinct)))
    packed.shape, packed.give_numbers = column.shape, column.give_numbers
    packed.stored, packed.memory = numbers.dtype, numbers
    return packed


def _parts(fields: list[list[View]], floats: str, table: dict[str, Any]) -> list[Part] | None:
    """All columns as numbers of at most 64 bits together; None if there are none, or only slow ones."""
    if _bits([_distances([_head(field)], floats) for field in fields]) > _packed.BITS:  # and so it is of all elements
        return None
    parts = [_distances(field, floats) for field in fields]
    for i, field in enumerate(fields):
        if _bits(parts) > _packed.BITS:
            return None
        try:
            parts[i] = parts[i] or _ids(field, floats, table)
        except TypeError:  # by a type that is no key: the index of rows names it
            return None
    found = [part for part in parts if part is not None]
    return found if len(found) == len(parts) and _bits(parts) <= _packed.BITS else None


def _of_integers(fields: list[list[View]]) -> Part | None:
    """Rows of integers and times without nulls, packed in one pass; None of others, and of such as are steps apart."""
    columns = []
    for field in fields:
        dtype = _dtype(field[0].__arrow_c_array__()[0])
        if dtype is None or dtype.kind not in "iu" or any(view.nulls() is not None for view in field):
            return None
        chunks = [view.values(dtype) for view in field if view.length]
        if not chunks or not all(chunk.flags.aligned and chunk.flags.c_contiguous for chunk in chunks):
            return None
        steps = _direct.offsets(chunks[0][:_FIRST])
        if steps is not None and steps[2] > 1:
            return None
        low, high = min(int(chunk.min()) for chunk in chunks), max(int(chunk.max()) for chunk in chunks)
        columns.append((chunks, low, (high - low).bit_length()))
    if sum(bits for _, _, bits in columns) >= _packed.BITS:
        return None
    formats = [field[0].format for field in fields]
    back = [
        Part(np.empty(0, LONG), bits, _back_above(format, low, chunks[0].dtype))
        for format, (chunks, low, bits) in zip(formats, columns, strict=True)
    ]
    part = _packed.side_by_side(back)
    return replace(part, numbers=_packed_rows(columns, part.numbers.dtype))


def _back_above(format: str, low: int, dtype: np.dtype[Any]) -> Callable[[Array], list[Any]]:
    """From how much integers of a dtype are above the least one."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    least = unsigned.type(low % 2 ** (8 * dtype.itemsize))
    return lambda numbers: [_of_numbers(format, (numbers.astype(unsigned) + least).view(dtype))]


def _packed_rows(columns: list[tuple[list[Array], int, int]], dtype: np.dtype[Any]) -> Array:
    """The bits of all columns, (chunks, least integer, bits), side by side. A block stays in cache meanwhile."""
    lengths = [len(chunk) for chunk in columns[0][0]]
    out, other, begin = np.empty(sum(lengths), dtype), np.empty(_BLOCK, dtype), 0
    for i, length in enumerate(lengths):
        for at in range(0, length, _BLOCK):
            block = out[begin + at : begin + min(at + _BLOCK, length)]
            for n, (chunks, low, bits) in enumerate(columns):
                unsigned = np.dtype(f"u{chunks[i].itemsize}")
                cells, to = chunks[i][at : at + _BLOCK].view(unsigned), other[: len(block)] if n else block
                np.subtract(cells, unsigned.type(low % 2 ** (8 * unsigned.itemsize)), out=to, casting="unsafe")
                if n:
                    block <<= bits
                    block |= to
        begin += length
    return out


def _side_by_side(parts: Sequence[Part]) -> Part:
    """`_packed.side_by_side`, in the memory of the first part's numbers."""
    bits = _bits(parts)
    dtype = np.dtype(np.int32) if bits < 32 else LONG
    numbers, before = parts[0].numbers.astype(dtype, copy=False), parts[0].bits
    for part in parts[1:]:
        if before:
            numbers <<= part.bits
            np.bitwise_or(numbers, part.numbers, out=numbers, casting="unsafe")  # no int32 is beyond its bits
        else:
            numbers = part.numbers.astype(dtype, copy=False)
        before += part.bits
    return replace(_packed.side_by_side([replace(part, numbers=part.numbers[:0]) for part in parts]), numbers=numbers)


def _head(field: list[View]) -> View:
    """The first elements of a column's longest chunk."""
    longest = max(field, key=lambda view: view.length)
    schema, array = longest.__arrow_c_array__()
    return View(Keys(schema, _buffers.sliced(array, 0, min(_SAMPLE, longest.length))))


def _bits(parts: Sequence[Part | None]) -> int:
    return sum(part.bits for part in parts if part is not None)


def _distances(field: list[View], floats: str) -> Part | None:
    """Of numbers and times, where 0 is null if there are nulls; None of other columns."""
    dtype = _dtype(field[0].__arrow_c_array__()[0])
    if dtype is None:
        return None
    values = np.concatenate([view.values(dtype) for view in field]) if len(field) > 1 else field[0].values(dtype)
    absent = [view.nulls() for view in field]
    nulls = None
    if any(mask is not None for mask in absent):
        nulls = np.concatenate(
            [np.zeros(v.length, bool) if m is None else m for v, m in zip(field, absent, strict=True)]
        )
        found = _offsets(values, dtype, nulls)
        if found is not None:
            return replace(found, back=_back_with_nulls(field[0].format, found.back))
        values = np.where(nulls, values[np.argmin(nulls)], values)  # what lies there may be anything
    if dtype.kind == "f" and floats == "numbers":
        values = canonical(values)
    format = field[0].format
    part = _offsets(values, dtype) or _packed.distances(values, dtype)
    if nulls is None:
        return replace(part, back=lambda numbers: [_of_numbers(format, part.back(numbers)[0])])
    if part.bits > 63:
        return None
    numbers = part.numbers.astype(LONG, copy=False)
    numbers += 1
    numbers *= ~nulls
    return Part(numbers, part.bits + 1, _back_with_nulls(format, part.back))


def _back_with_nulls(format: str, back: Callable[[Array], list[Any]]) -> Callable[[Array], list[Any]]:
    """From numbers of which 0 is null."""
    return lambda numbers: [_of_numbers(format, back(np.maximum(numbers - 1, 0))[0], numbers == 0)]


def _offsets(values: Array, dtype: np.dtype[Any], nulls: Array | None = None) -> Part | None:
    """Of integers and times in a small range, or a step apart in one, as days in a column of microseconds."""
    if dtype.kind not in "iu" or not values.flags.aligned:
        return None
    found = _direct.offsets(np.ascontiguousarray(values), nulls)
    if found is None:
        return None
    numbers, least, step, largest = found
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def back(numbers: Array) -> list[Any]:
        integers = numbers.astype(np.uint64) * np.uint64(step) + np.uint64(least)
        return [integers.astype(unsigned, copy=False).view(dtype)]

    return Part(numbers, largest.bit_length(), back)


def _ids(field: list[View], floats: str, table: dict[str, Any]) -> Part | None:
    """Of a column that is no plain numbers, by an index; None if many of some elements are distinct."""
    threads, _, seed = _number_verbs.of_index(table)
    schema, head = field[0].__arrow_c_array__()[0], _head(field)
    index = CoreIndex(schema, "group", floats, threads, False, 0, seed)
    index.add(schema, [head.__arrow_c_array__()[1]])
    if index.size * _MANY > head.length:
        return None
    ids = np.empty(sum(view.length for view in field), LONG)
    index.add(schema, [view.__arrow_c_array__()[1] for view in field], ids)
    return _packed.codes(ids, index.size, lambda numbers: index.take(np.ascontiguousarray(numbers)))


def _of_numbers(format: str, values: Array, nulls: Array | None = None) -> Keys:
    """Numbers or times as a column of Arrow."""
    memory = np.packbits(values, bitorder="little") if format == "b" else np.ascontiguousarray(values)
    return Keys(_buffers.schema(format), _buffers.array(len(values), (bitmap(nulls), memory)))


def _rows(columns: list[Any], names: list[str]) -> View:
    """Columns of Arrow as a view of their rows."""
    given = [column.__arrow_c_array__() for column in columns]
    n = _buffers.length(given[0][1])
    schema = _buffers.schema("+s", children=[schema for schema, _ in given], names=names)
    return View(Keys(schema, _buffers.array(n, (None,), children=[array for _, array in given])))
