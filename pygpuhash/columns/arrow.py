"""Everything with Arrow's capsules: `__arrow_c_array__` is one chunk, `__arrow_c_stream__` has as many as it has;
`__arrow_c_device_array__` may be in memory of the host, too (those on a GPU: _arrow_devices.py).

No library is imported here. Keys of pyarrow's arrays come back as pyarrow's arrays of the type, those of nanoarrow's as
nanoarrow's (text and bytes with offsets of 64 bits, dictionaries as values), those of others as a `View`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash.columns import _buffers, _utf8
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column, Give, bitmap, in_shape, text
from pygpuhash.columns.numpy_arrays import FORMATS

__all__ = ["as_numbers", "read", "read_capsules"]

_TAKEN = re.compile(
    r"[nbcCsSiIlLefgzZuU]|v[uz]|w:\d+|d:\d+,-?\d+(,128)?|td[Dm]|tt[smun]|ts[smun]:.*|tD[smun]|\+s", re.DOTALL
)
_DTYPES = {format: np.dtype(code) for code, format in FORMATS.items()}
_TIMES = dict.fromkeys(("td", "tt", "ts", "tD"), np.dtype(np.int64))
_OF_FOUR_BYTES = ("tdD", "tts", "ttm")
_NAMES = {
    "+l": "list", "+L": "list", "+vl": "list", "+vL": "list", "+w": "list of fixed size", "+m": "map", "+r": "run-end "
    "encoded", "+u": "union", "ti": "interval", "d:": "decimal of another width than 128 bits",
}  # fmt: skip
_WAYS_OUT = {
    "list": "pass a struct, or text",
    "list of fixed size": "pass a struct of its elements",
    "map": "pass a struct, or text",
    "run-end encoded": "decode it",
    "union": "pass a tuple of columns",
    "interval": "pass a duration",
    "decimal of another width than 128 bits": "cast it to decimal128",
}


def read(given: Any, what: str) -> Column:
    """A column of an object with Arrow's capsules. Raises TypeError, by name, for types without an equality here."""
    column = read_capsules(given, what)
    library = type(given).__module__.partition(".")[0]
    if library == "pyarrow":
        pa = sys.modules["pyarrow"]
        column.give = _pyarrow(pa, given)
        column.give_numbers = lambda numbers, like_rows: _to_pyarrow(pa, numbers)
    elif library == "nanoarrow":
        nanoarrow = sys.modules["nanoarrow"]
        column.give = lambda keys: nanoarrow.Array(_without_views(View(keys)))
        column.give_numbers = lambda numbers, like_rows: _to_nanoarrow(nanoarrow, numbers)
    as_numbers(column)
    return column


def read_capsules(given: Any, what: str) -> Column:
    """A column whose keys are given back as they are."""
    if hasattr(given, "__arrow_c_stream__"):  # also of objects with both, as several chunks are no array
        schema, chunks = _buffers.read_stream(given.__arrow_c_stream__(), what)
    else:
        schema, array = _array(given, what)
        chunks = [array] if _buffers.length(array) else []
    _check(_buffers.describe(schema), what)
    length = sum(map(_buffers.length, chunks))
    return Column(schema, chunks, length, (length,), what, lambda keys: keys, in_shape((length,)))


def as_numbers(column: Column) -> None:
    """Say of a column of numbers or times, in one chunk and without nulls, where they lie: as of an array of numpy."""
    if len(column.chunks) != 1:
        return
    format, _, _, dictionary = _buffers.describe(column.schema)
    dtype = _DTYPES.get(format) or _TIMES.get(format[:2])
    if dtype is None or dictionary is not None:
        return
    view = View(_Made(column.schema, _buffers.sliced(column.chunks[0], 0, column.length)))
    values = view.values(np.int32 if format in _OF_FOUR_BYTES else dtype)
    if view.nulls() is not None or not values.flags.aligned:
        return
    plain = column.give

    def give(keys: Any) -> Any:
        if isinstance(keys, np.ndarray):
            keys = _Made(_buffers.schema(format), _buffers.array(len(keys), (None, np.ascontiguousarray(keys))))
        return plain(keys)

    column.give, column.stored = give, values.dtype
    column.memory = values if format in _DTYPES else None


def _array(given: Any, what: str) -> tuple[object, object]:
    if hasattr(given, "__arrow_c_array__"):
        return given.__arrow_c_array__()  # type: ignore[no-any-return]
    schema, there = given.__arrow_c_device_array__()
    kind, number = _buffers.device_of(there)
    if kind not in (1, 3, 11):  # of the CPU, and of the host for CUDA and ROCm
        raise TypeError(f"{what} lies on device {number} of type {kind} of Arrow's: copy it to the host")
    return schema, _buffers.of_device(there)[0]


def _check(described: tuple[str, str, tuple[Any, ...], Any], what: str) -> None:
    format, _, children, dictionary = described
    if not _TAKEN.fullmatch(format):
        name = next((name for start, name in _NAMES.items() if format.startswith(start)), f"type {format!r} of Arrow")
        raise TypeError(
            f"{what} is a column of {name}, which has no equality here: {_WAYS_OUT.get(name, 'convert it')}"
        )
    if format == "+s" and not children:
        raise TypeError(f"{what} is a struct without fields: pass one or more columns")
    for child in children:
        _check(child, f"{what}.{child[1]}")
    if dictionary is not None:
        _check(dictionary, what)


# ---- the ways back ---------------------------------------------------------------------------------------------------


def _to_pyarrow(pa: Any, numbers: Any) -> Any:
    if numbers.dtype != bool:
        return pa.array(numbers)
    bits = np.packbits(numbers, bitorder="little")  # as Arrow has bool; pa.array takes twenty times as long
    return pa.Array.from_buffers(pa.bool_(), len(numbers), [None, pa.py_buffer(bits)])


def _to_nanoarrow(nanoarrow: Any, numbers: Array) -> Any:
    kinds = {"b": nanoarrow.bool_, "f": nanoarrow.float64, "u": nanoarrow.uint64}
    format = kinds.get(numbers.dtype.kind, nanoarrow.int64)()
    return nanoarrow.Array(numbers.tolist(), format) if numbers.dtype.kind == "b" else nanoarrow.Array(numbers, format)


@dataclass
class _Made:
    """An array that was made here."""

    schema: object
    array: object

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.schema, self.array


def _without_views(view: View) -> View | _Made:
    """Text and bytes with offsets, as nanoarrow 0.9 crashes on the layout of views."""
    nulls, format = view.nulls(), view.format
    if format in ("vu", "vz"):
        column = text(format[1].upper(), _utf8.texts(view.objects(), nulls, "keys"), "keys", View, nulls)
        return _Made(column.schema, column.chunks[0]) if column.chunks else view
    if format != "+s":
        return view
    parts = [_without_views(view.child(i)).__arrow_c_array__() for i in range(view.columns)]
    names = [child[1] for child in _buffers.describe(view.__arrow_c_array__()[0])[2]]
    schema = _buffers.schema("+s", children=[part[0] for part in parts], names=names)
    return _Made(schema, _buffers.array(view.length, (bitmap(nulls),), children=[part[1] for part in parts]))


def _pyarrow(pa: Any, given: Any) -> Give:
    """Keys of the type of an Array or ChunkedArray as an Array; those of a Table or RecordBatch as one of these."""
    if not hasattr(given, "schema"):
        return lambda keys: as_type(pa, pa.array(View(keys)), given.type)

    def rows(keys: Any) -> Any:
        view = View(keys)
        fields = [as_type(pa, pa.array(view.child(i)), field.type) for i, field in enumerate(given.schema)]
        kind = pa.RecordBatch if isinstance(given, pa.RecordBatch) else pa.Table
        return kind.from_arrays(fields, schema=given.schema)

    return rows


def as_type(pa: Any, array: Any, kind: Any) -> Any:
    """An array of pyarrow in another layout of its type."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(as_type(pa, array, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return as_type(pa, array, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        fields = [as_type(pa, array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    return array.cast(kind)
