"""The oracle of the tests of readers: a list of columns, and pyarrow, which reads the structs that readers make.

`values(column)` are the elements as Python has them, `engine_keys(column)` the distinct ones in the types in which the
engine gives keys: text and bytes as views, dictionaries as their values.
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow, which reads what readers make, is not installed")

from pygpuhash.columns import _buffers  # noqa: E402

UTC = dt.UTC
CET = dt.timezone(dt.timedelta(hours=1))
LONG = "x" * 70

# name -> (elements of Python, with None for null; type of Arrow)
COLUMNS = {
    **{
        f"int{bits}": ([0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 0], getattr(pa, f"int{bits}")())
        for bits in (8, 16, 32, 64)
    },
    **{f"uint{bits}": ([0, 1, 2**bits - 1, 1], getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)},
    "halves": ([0.5, -0.0, float("nan"), float("inf")], pa.float16()),
    "singles": ([0.5, -0.0, float("nan"), 2.0**100], pa.float32()),
    "doubles": ([0.1, -0.0, 0.0, float("nan"), 5e-324], pa.float64()),
    "booleans": ([True, False, True], pa.bool_()),
    "text": (["a", "", "a\0", "ü€𝄞", LONG, "a", "\0"], pa.large_string()),
    "bytes": ([b"a", b"", b"a\0", b"\xff\xfe", b"y" * 70, b"a"], pa.large_binary()),
    "dates": ([dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date32()),
    "datetimes": ([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)], pa.timestamp("us")),
    "instants": ([dt.datetime(2020, 7, 1, tzinfo=UTC), dt.datetime(1900, 1, 1, tzinfo=CET)], pa.timestamp("us", "UTC")),
    "times": ([dt.time(0), dt.time(23, 59, 59, 999999)], pa.time64("us")),
    "lengths": ([dt.timedelta(days=-1, microseconds=1), dt.timedelta(0)], pa.duration("us")),
    "decimals": ([Decimal("1.50"), Decimal("-99999999999999999999.01"), Decimal("0.00")], pa.decimal128(38, 2)),
    "rows": (
        [{"0": 1, "1": "a"}, {"0": 1, "1": "b"}, {"0": 1, "1": "a"}],
        pa.struct([("0", pa.int64()), ("1", pa.large_string())]),
    ),
}
COLUMNS |= {f"{name} and nulls": ([None, *values, None], kind) for name, (values, kind) in COLUMNS.items()}
COLUMNS |= {
    f"no {name}": ([], COLUMNS[name][1]) for name in ("int64", "doubles", "booleans", "text", "bytes", "dates", "rows")
}
COLUMNS["nothing"] = ([], pa.null())
COLUMNS["nulls"] = ([None, None], pa.null())


class Given:
    """An array as a library of Arrow gives it."""

    def __init__(self, schema, array):
        self.capsules = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


def chunks(column) -> list:
    """The chunks of a column as pyarrow's arrays, checked; the column keeps its own."""
    out = []
    for chunk in column.chunks:
        n = _buffers.length(chunk)
        schema = _buffers.schema("+s", children=[column.schema], names=["x"])
        array = pa.array(Given(schema, _buffers.array(n, (None,), children=[_buffers.sliced(chunk, 0, n)]))).field(0)
        array.validate(full=True)
        out.append(array)
    return out


def kind(column):
    """The type of a column in pyarrow."""
    schema = _buffers.schema("+s", children=[column.schema], names=["x"])
    capsule = type("Capsule", (), {"__arrow_c_schema__": lambda self: schema})()
    return pa.schema(capsule).field(0).type


def values(column) -> list:
    """The elements of a column."""
    out = [x for chunk in chunks(column) for x in python(chunk)]
    assert column.length == len(out)
    return out


def python(array) -> list:
    """pyarrow's elements as Python's, exactly: times as (unit, zone, number)."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return python(plain(array))
    if pa.types.is_struct(kind):
        fields = [python(field) for field in array.flatten()]
        return [None if gone else row for gone, row in zip(array.is_null().to_pylist(), zip(*fields, strict=True))]  # noqa: B905
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        sort = "instant" if getattr(kind, "tz", None) else str(kind).partition("[")[0]
        numbers = array.view(pa.int64()).to_pylist()
        return [None if n is None else (sort, n * (10**9 // per_second)) for n in numbers]
    return array.to_pylist()


def same(x) -> object:
    """What is equal to what, bit for bit: floats by their bits, NaNs alike, numbers apart from booleans."""
    if isinstance(x, float):
        return "float", "nan" if x != x else struct.pack("<d", x)
    if isinstance(x, tuple):
        return tuple(map(same, x))
    return type(x).__name__, x


def all_same(xs) -> list:
    return [same(x) for x in xs]


def expected(name: str) -> list:
    """The elements of one of COLUMNS in the form of `values`."""
    elements, kind = COLUMNS[name]
    return python(pa.array(elements, kind))


def engine_keys(column) -> Given:
    """Distinct elements of a column of one or more, in the order of their appearance, as the engine gives them."""
    arrays = [plain(chunk) for chunk in chunks(column)]
    array = pa.concat_arrays(arrays) if arrays else plain(pa.nulls(0, kind(column)))
    seen, rows = set(), []
    for i, x in enumerate(python(array)):
        if repr(same(x)) not in seen:
            seen.add(repr(same(x)))
            rows.append(i)
    array = array if len(rows) == len(array) else array.take(pa.array(rows, pa.int64()))
    return Given(*views(array).__arrow_c_array__())


def plain(array):
    """Dictionaries as their values, views as text: types of which pyarrow can take elements."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary)).dictionary_decode()
    if pa.types.is_struct(kind):
        return of_fields(array, [plain(field) for field in array.flatten()])
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) or pa.types.is_binary(kind) else array


def views(array):
    """Text and bytes as views."""
    kind = array.type
    if pa.types.is_struct(kind):
        return of_fields(array, [views(field) for field in array.flatten()])
    if pa.types.is_large_string(kind):
        return array.cast(pa.string_view())
    return array.cast(pa.binary_view()) if pa.types.is_large_binary(kind) else array


def of_fields(array, fields):
    names = [field.name for field in array.type]
    made = [pa.field(name, field.type) for name, field in zip(names, fields, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=made, mask=array.is_null())


def distinct(xs) -> list:
    """The distinct elements of a list, in the order of their appearance."""
    seen: dict = {}
    for x in xs:
        seen.setdefault(repr(same(x)), x)
    return list(seen.values())
