"""Columns and frames of pandas and polars: how they are read, and how results become such columns and frames again.

Neither library is imported here: an object of one can only come from a program that has imported it. pyarrow is needed
for no column that pandas makes without it.

Keys come back as the same class, dtype and name, pandas' with a new index: Series, Index, MultiIndex, DataFrame, arrays
of pandas; Series and DataFrame of polars. Numbers for pandas' Series and DataFrame: masks are Series with its index and
name, numbers of keys Series named "count" (which the verbs rename "sum", "min", "max", "mean", and "left" and "right"
for a join's indices), codes numpy's arrays; for an Index and arrays, all are numpy's. Numbers for polars are Series:
those of rows have the column's name, those of keys the names that they have in pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pygpuhash.columns import _buffers, _utf8, arrow, lists, numpy_arrays
from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Array, Column, Give, bitmap, fixed, nothing, struct, text

__all__ = ["library", "read"]

_REFUSED = {
    "PeriodDtype": "pass {}.dt.to_timestamp(), or its numbers",
    "IntervalDtype": "pass a tuple of columns, ({0}.array.left, {0}.array.right)",
    "SparseDtype": "pass {}.sparse.to_dense()",
}

# The kinds of categories that differ here where they differ for pandas, which lets none repeat.
_DISTINCT = frozenset(("string", "integer", "floating", "boolean", "datetime64", "timedelta64"))
Back = Callable[[Any], Any]  # keys as an array of pandas, or of numpy


def library(given: Any) -> str | None:
    """ "pandas", "polars", or None: whose column or frame this is."""
    name = type(given).__module__.partition(".")[0]
    if name == "polars":
        return name
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    kinds = (pandas.Series, pandas.Index, pandas.DataFrame, pandas.api.extensions.ExtensionArray)
    return "pandas" if isinstance(given, kinds) else None


def read(given: Any, name: str, what: str) -> Column:
    """A column of pandas or polars; of a frame, its rows.

    Raises TypeError for dtypes without an equality here, by name, and for frames without columns.
    """
    return _polars(given, what) if name == "polars" else _pandas(given, what)


# ---- polars ----------------------------------------------------------------------------------------------------------


def _polars(given: Any, what: str) -> Column:
    pl = sys.modules["polars"]
    if isinstance(given, pl.DataFrame):
        if not given.width:
            raise TypeError(f"{what} is a frame without columns: pass one with columns")
        series = given.to_struct("")
    elif isinstance(given, pl.Series):
        series = given
    else:
        way_out = f": pass {what}.collect()" if hasattr(given, "collect") else ": pass a Series or a DataFrame"
        raise TypeError(f"{what} is a {type(given).__name__} of polars, which has no elements{way_out}")
    dtype, name = series.dtype, series.name
    if dtype == pl.Object:
        raise TypeError(f"{what} has dtype Object of polars, which has no equality here: pass {what}.to_list()")
    column = arrow.read_capsules(series, what)

    def give(keys: Any) -> Any:
        if isinstance(keys, np.ndarray):  # of numbers or times, by their ticks
            out = pl.Series(name, keys)
            return out if out.dtype == dtype else out.cast(dtype)
        out = pl.Series(View(keys)).cast(dtype).alias(name)
        return out if series is given else out.struct.unnest()

    column.give = give
    column.give_numbers = lambda numbers, like_rows: pl.Series(name if like_rows else "count", numbers)
    arrow.as_numbers(column)
    if column.stored is not None:
        column.give = give
    return column


# ---- pandas ----------------------------------------------------------------------------------------------------------


def _pandas(given: Any, what: str) -> Column:
    pd = sys.modules["pandas"]
    if isinstance(given, pd.DataFrame):
        column = _frame(pd, given, what)
    elif isinstance(given, pd.MultiIndex):
        column = _levels(pd, given, what)
    else:
        dtype = given.dtype
        if isinstance(dtype, np.dtype) and isinstance(given, (pd.Series, pd.Index)):
            column = _of_values(given.values, what)
            back = column.give
        else:
            array = getattr(given, "array", given)
            column, back = _column(pd, array, what)
        column.give = _whole(pd, given, dtype, back)
        if isinstance(dtype, pd.CategoricalDtype) and array.categories.inferred_type in _DISTINCT:
            column.coded = lambda: _coded(pd, given, array, what)
    index = given.index if isinstance(given, (pd.Series, pd.DataFrame)) else None
    column.give_numbers = _numbers(pd, index, getattr(given, "name", None))
    return column


def _whole(pd: Any, given: Any, dtype: Any, back: Back) -> Give:
    """Keys as `given`: a Series, an Index, or an array."""
    name = getattr(given, "name", None)
    if isinstance(given, pd.Series):

        def give(keys: Any) -> Any:
            array = back(keys)  # a Series looks through its elements where it is asked for a dtype
            same = dtype.kind != "O" and array.dtype == dtype
            return pd.Series(array, name=name, dtype=None if same else dtype, copy=False)

        return give
    if isinstance(given, pd.Index):
        return lambda keys: pd.Index(back(keys), name=name, dtype=dtype)
    return lambda keys: pd.array(back(keys), dtype=dtype)


def _coded(pd: Any, given: Any, array: Any, what: str) -> Column:
    """The codes of a categorical, of which -1 is null."""
    column = numpy_arrays.column(np.asarray(array.codes), what)
    codes = column.give
    column.give = _whole(pd, given, array.dtype, lambda keys: pd.Categorical.from_codes(codes(keys), dtype=array.dtype))
    column.give_numbers = _numbers(
        pd, given.index if isinstance(given, pd.Series) else None, getattr(given, "name", None)
    )
    return column


def _numbers(pd: Any, index: Any, name: Any) -> Callable[[Array, bool], Any]:
    def give(numbers: Array, like_rows: bool) -> Any:
        if index is None or (like_rows and numbers.dtype != bool):
            return numbers
        if like_rows:
            return pd.Series(numbers, index=index, name=name, copy=False)
        return pd.Series(numbers, name="count", copy=False)

    return give


def _frame(pd: Any, given: Any, what: str) -> Column:
    """The rows of a DataFrame; its columns by number, as labels may repeat."""
    if not given.shape[1]:
        raise TypeError(f"{what} is a frame without columns: pass one with columns")
    parts = [_pandas(given.iloc[:, i], f"{what}[{label!r}]") for i, label in enumerate(given.columns)]

    def give(keys: View) -> Any:
        frame = pd.DataFrame({i: part.give(keys.child(i)) for i, part in enumerate(parts)}, copy=False)
        frame.columns = given.columns
        return frame

    return struct(parts, [str(label) for label in given.columns], what, give)


def _levels(pd: Any, given: Any, what: str) -> Column:
    """An index of several levels; each is codes over values, as a categorical."""
    parts = [
        _dictionary(pd, np.asarray(codes), level, f"{what}.levels[{i}]")
        for i, (codes, level) in enumerate(zip(given.codes, given.levels, strict=True))
    ]

    def give(keys: View) -> Any:
        codes = [part.give(keys.child(i)) for i, part in enumerate(parts)]
        return pd.MultiIndex(given.levels, codes, names=given.names, verify_integrity=False).remove_unused_levels()

    return struct(parts, [str(name) for name in given.names], what, give)


def _column(pd: Any, array: Any, what: str, *, whole: bool = False) -> tuple[Column, Back]:
    """An array of pandas, `whole`: in one chunk. Those over numpy's memory are read as numpy's."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype) or isinstance(array, pd.arrays.NumpyExtensionArray):
        column = _of_values(np.asarray(array), what)
        return column, column.give
    if isinstance(dtype, pd.CategoricalDtype):
        _check_categories(dtype, what)
        column = _dictionary(pd, np.asarray(array.codes), array.categories, what)
        codes = column.give
        return column, lambda keys: pd.Categorical.from_codes(codes(keys), dtype=dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _instants(pd, array, what)
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        return _strings(pd, array, what)
    if isinstance(dtype, (pd.StringDtype, pd.ArrowDtype)):
        return _arrow(array, what, whole)
    if isinstance(array, (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)):
        return _masked(array, what)
    way_out = _REFUSED.get(type(dtype).__name__, "pass {}.to_numpy(), or text").format(what)
    raise TypeError(f"{what} has dtype {dtype} of pandas, which has no equality here: {way_out}")


def _of_values(values: Array, what: str) -> Column:
    return lists.read_objects(values, what) if values.dtype == object else numpy_arrays.read(values, what)


def _check_categories(dtype: Any, what: str) -> None:
    """Refuse categories without an equality here, such as the intervals of `pd.cut`."""
    sort = dtype.categories.dtype
    if type(sort).__name__ in _REFUSED:
        raise TypeError(
            f"the categories of {what} have dtype {sort} of pandas, which has no equality here: pass {what}.cat.codes "
            "of a Series, or .codes of a Categorical"
        )


def _masked(array: Any, what: str) -> tuple[Column, Back]:
    """Int64, Float64, boolean and the like: numbers and a mask."""
    dtype = array.dtype
    nulls = np.asarray(array.isna(), bool)
    numbers = dtype.numpy_dtype
    some = bool(nulls.any())
    values = getattr(array, "_data", None)  # without a copy, where pandas keeps them there
    if type(values) is not np.ndarray or values.dtype != numbers or values.shape != nulls.shape:
        values = array.to_numpy(dtype=numbers, **({"na_value": numbers.type(0)} if some else {}))

    column = numpy_arrays.column(values, what, nulls if some else None)
    plain = column.give

    def back(keys: Any) -> Any:
        view = keys if isinstance(keys, np.ndarray) else View(keys)
        absent = None if isinstance(view, np.ndarray) else view.nulls()
        found = plain(view)
        return dtype.construct_array_type()(found, np.zeros(len(found), bool) if absent is None else absent)

    return column, back


def _dictionary(pd: Any, codes: Array, values: Any, what: str) -> Column:
    """Codes, of which -1 is null, over the values of an Index: a dictionary of Arrow. Keys are given back as codes."""
    nulls = codes < 0
    inner, back = _column(pd, values.array, what, whole=True)

    def give(keys: Any) -> Array:
        view = View(keys)
        absent = view.nulls()
        if not len(values):
            return np.full(view.length, -1)
        found: Array = values.get_indexer(pd.Index(back(view), dtype=values.dtype))
        return found if absent is None else np.where(absent, -1, found)

    if not inner.chunks:
        return nothing(len(codes), what, give)
    column = fixed("l", codes, what, give)
    format = {1: "c", 2: "s", 4: "i", 8: "l"}[codes.itemsize]
    column.schema = _buffers.schema(format, dictionary=inner.schema)
    bits = bitmap(nulls) if nulls.any() else None
    codes = np.ascontiguousarray(codes)
    column.chunks = [_buffers.array(len(codes), (bits, codes), dictionary=inner.chunks[0])] if len(codes) else []
    return column


def _instants(pd: Any, array: Any, what: str) -> tuple[Column, Back]:
    """Times with a time zone: instants in UTC."""
    dtype = array.dtype
    column = numpy_arrays.column(np.asarray(array, f"M8[{dtype.unit}]"), what)
    column.schema = _buffers.schema(f"ts{dtype.unit[0]}:UTC")
    moments = column.give
    return column, lambda keys: pd.DatetimeIndex(moments(keys)).tz_localize("UTC").tz_convert(dtype.tz).array


def _strings(pd: Any, array: Any, what: str) -> tuple[Column, Back]:
    """Text that pandas holds as Python's objects."""
    nulls = np.asarray(array.isna(), bool)
    some = nulls if nulls.any() else None
    made = _utf8.texts(np.asarray(array, object).tolist(), some, what)
    back = lambda keys: pd.array(View(keys).objects(), dtype=array.dtype)  # noqa: E731
    return text("U", made, what, back, some), back


def _arrow(array: Any, what: str, whole: bool) -> tuple[Column, Back]:
    """What pandas holds in pyarrow's memory."""
    pa = sys.modules["pyarrow"]
    given = array.__arrow_array__()
    column = arrow.read_capsules(given.combine_chunks() if whole else given, what)
    return column, lambda keys: array.dtype.__from_arrow__(arrow.as_type(pa, pa.array(View(keys)), given.type))
