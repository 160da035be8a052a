"""The same columns as every library has them."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from hypothesis import strategies as st
from oracle import distinct, pa

NUMPY = {
    "float": "f4",
    "double": "f8",
    "date32[day]": "M8[D]",
    "timestamp[us]": "M8[us]",
    "duration[us]": "m8[us]",
    "halffloat": "f2",
    "bool": "?",
}
NULLABLE = {"float": "Float32", "double": "Float64", "bool": "boolean"}


class Lacks(Exception):
    """A library that has no such column."""


def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


def listed(elements, kind):
    if pa.types.is_struct(kind):
        return [x and tuple(x.values()) for x in elements]
    return list(elements)


def of_numpy(elements, kind):
    name = str(kind)
    if name == "large_string":
        dtypes = getattr(np, "dtypes", None)
        if not hasattr(dtypes, "StringDType"):
            raise Lacks
        return np.array(elements, dtypes.StringDType(na_object=None) if None in elements else dtypes.StringDType())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or name in NUMPY):
        raise Lacks
    dtype = np.dtype(NUMPY.get(name, name))
    if None in elements and dtype.kind not in "mM":
        mask = [x is None for x in elements]
        return np.ma.MaskedArray([0 if x is None else x for x in elements], mask, dtype=dtype)
    return np.array(elements, dtype)


def of_pandas(elements, kind):
    name, pd = str(kind), pandas()
    if pa.types.is_integer(kind) or name in NULLABLE:
        if "float" in name or "double" in name:
            mask = np.array([x is None for x in elements], bool)
            numbers = np.array([0 if x is None else x for x in elements], kind.to_pandas_dtype())
            array = pd.arrays.FloatingArray(numbers, mask)
            return pd.Series(array, name="n")
        return pd.Series(elements, dtype=NULLABLE.get(name, name.title().replace("Ui", "UI")), name="n")
    if name == "large_string":
        return pd.Series(elements, dtype=pd.StringDtype("python"), name="n")
    if name == "timestamp[us, tz=UTC]":
        return pd.Series(elements, dtype="datetime64[us, UTC]", name=("a", 1))
    if name in NUMPY and not ("date32" in name or "half" in name):
        return pd.Series(of_numpy(elements, kind), name="n")
    raise Lacks


def of_pandas_arrow(elements, kind):
    pd = pandas()
    if str(kind) in ("null", "halffloat"):
        raise Lacks
    array = pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(elements, kind)]))
    return pd.Series(array, name="n")


def of_pandas_categories(elements, kind):
    pd = pandas()
    if pa.types.is_struct(kind) or pa.types.is_floating(kind) or str(kind) in ("null", "halffloat"):
        raise Lacks
    present = distinct(x for x in elements if x is not None)
    categories = pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(present, kind)])))
    codes = [-1 if x is None else present.index(x) for x in elements]
    return pd.Series(pd.Categorical.from_codes(codes, categories), name="n")


def of_polars(elements, kind):
    if str(kind) == "halffloat":
        raise Lacks
    return polars().Series("n", pa.array(elements, kind))


def of_polars_categories(elements, kind):
    pl = polars()
    if str(kind) != "large_string":
        raise Lacks
    return pl.Series("n", elements, dtype=pl.Categorical)


def of_arrow(elements, kind):
    return pa.array(elements, kind)


def of_arrow_slice(elements, kind):
    around = pa.array([*elements[:1], *elements, *elements[-1:]], kind)
    return around[min(len(elements), 1) :][: len(elements)]


def of_arrow_chunks(elements, kind):
    array = pa.array(elements, kind)
    return pa.chunked_array([array[:1], array[:0], array[1:]], kind)


def of_arrow_dictionary(elements, kind):
    if pa.types.is_struct(kind) or pa.types.is_null(kind) or str(kind) == "halffloat":
        raise Lacks
    return pa.array(elements, kind).dictionary_encode()


def of_arrow_views(elements, kind):
    to = {"large_string": pa.string_view(), "large_binary": pa.binary_view()}.get(str(kind))
    if to is None:
        raise Lacks
    return pa.array(elements, kind).cast(to)


def of_arrow_small(elements, kind):
    to = {"large_string": pa.string(), "large_binary": pa.binary()}.get(str(kind))
    if to is None:
        raise Lacks
    return pa.array(elements, to)


def of_nanoarrow(elements, kind):
    nanoarrow = pytest.importorskip("nanoarrow", reason="nanoarrow is not installed")
    return nanoarrow.Array(pa.array(elements, kind))


LIBRARIES = {
    "list": listed,
    "numpy": of_numpy,
    "pandas": of_pandas,
    "pandas over Arrow": of_pandas_arrow,
    "pandas categories": of_pandas_categories,
    "polars": of_polars,
    "polars categories": of_polars_categories,
    "Arrow": of_arrow,
    "Arrow slice": of_arrow_slice,
    "Arrow chunks": of_arrow_chunks,
    "Arrow dictionary": of_arrow_dictionary,
    "Arrow views": of_arrow_views,
    "Arrow small": of_arrow_small,
    "nanoarrow": of_nanoarrow,
}


ELEMENTS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "doubles": st.floats(),
    "booleans": st.booleans(),
    "text": st.text(max_size=30),
    "bytes": st.binary(max_size=30),
    "dates": st.dates(),
    "datetimes": st.datetimes(),
    "times": st.times(),
    "lengths": st.timedeltas(min_value=-(10**5) * oracle.dt.timedelta(1), max_value=10**5 * oracle.dt.timedelta(1)),
    "decimals": st.decimals(-(10**20), 10**20, places=2),
}
