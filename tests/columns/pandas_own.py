"""pandas' own tests of unique, factorize, isin and value_counts, with the verbs in the place of pandas' functions.

    python tests/columns/pandas_own.py [pytest's arguments]

The adapter below turns what the verbs return into what pandas' functions do: NaN dropped as a null, results sorted,
the dtypes of counts, categories that do not occur. `LEFT_OUT` names the tests whose meaning differs by contract, each
with the reason, and they must fail: one that begins to pass is reported.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.core import algorithms, base
from pandas.core.dtypes.dtypes import BaseMaskedDtype

import pygpuhash as gh

FILES = ("test_algos.py", "base/test_unique.py", "base/test_value_counts.py")
CLASSES = ("TestFactorize", "TestUnique", "TestIsin", "TestValueCounts")  # of test_algos.py

REFUSED = "periods, intervals and columns of several kinds are refused by name"
NULLS = "None, NaN, NA and NaT of an array of objects are one null"
EXACT = "a list whose numbers no type holds exactly is refused, not compared as objects"
LEFT_OUT: tuple[tuple[str, str], ...] = (
    (r"\[([a-z0-9]+-)?(period|interval|mixed-int-string)[\[\]-]", REFUSED),
    (r"test_factorize_interval_non_nano|TestValueCounts::test_value_counts$|test_value_counts_dtypes", REFUSED),
    (r"test_factorize_tuple_list\[data[01]-|test_no_cast", REFUSED),
    (r"test_different_nan_objects|test_same_object_is_in", REFUSED),
    (
        r"test_do_not_mangle_na_values\[(?!None-None|nan-nan|\w+2-\w+22\])|test_value_counts_with_nan\[False|test_same_nan_is_in$",
        NULLS,
    ),
    (r"test_isin_mixed_int_float_targets|float64_target_list\[targets0|test_value_counts_uint64", EXACT),
    (r"test_first_nan_kept\[float64", "NaNs are one key, and nothing is promised of its bits"),
    (r"bad_unicode", "text is UTF-8, which has no lone surrogates: they are refused"),
    (r"keeps_numeric_path", "looks at which of pandas' own functions are called"),
)

CALLS = {"unique": 0, "factorize": 0, "isin": 0, "value_counts": 0}


# ---- the adapter -----------------------------------------------------------------------------------------------------


def outermost(original):
    """Of calls that the verbs, or the adapter itself, make of pandas, pandas' own function answers."""

    def wrap(ours):
        def call(*args, **kwargs):
            if outermost.inside:
                return original(*args, **kwargs)
            outermost.inside = True
            try:
                CALLS[ours.__name__.removeprefix("_")] += 1
                return ours(*args, **kwargs)
            finally:
                outermost.inside = False

        return call

    return wrap


outermost.inside = False


def array_of(result):
    """The array in a Series or Index."""
    return result.array if isinstance(result.dtype, pd.api.extensions.ExtensionDtype) else result.to_numpy()


def masked(given):
    """Has it one of pandas' dtypes of numbers and a mask?"""
    return isinstance(getattr(given, "dtype", None), BaseMaskedDtype)


@outermost(algorithms.unique)
def unique(values):
    if not pd.api.types.is_list_like(values) or isinstance(values, (list, tuple)):
        raise TypeError(f"unique requires a Series, Index, ExtensionArray, or np.ndarray, got {type(values).__name__}.")
    distinct = gh.unique(values, order="first")
    return array_of(distinct) if isinstance(distinct, pd.Series) else distinct


@outermost(base.IndexOpsMixin.unique)
def _unique(self):
    distinct = gh.unique(self, order="first")
    return distinct if isinstance(self, pd.MultiIndex) else distinct._values


@outermost(algorithms.factorize)
def factorize(values, sort=False, use_na_sentinel=True, size_hint=None):
    if isinstance(values, (pd.Index, pd.Series)):
        return values.factorize(sort=sort, use_na_sentinel=use_na_sentinel)
    if isinstance(values, (list, tuple)):
        raise TypeError("factorize requires a Series, Index, ExtensionArray, np.ndarray or NumpyExtensionArray")
    return coded(values, sort, use_na_sentinel)


def coded(values, sort, use_na_sentinel):
    codes, distinct = gh.factorize(values, nulls="drop" if use_na_sentinel else "group")
    missing = (
        np.asarray(pd.isna(distinct)) if not isinstance(distinct, pd.MultiIndex) else np.zeros(len(distinct), bool)
    )
    ranks = np.arange(len(distinct))
    if sort:
        order = (distinct if isinstance(distinct, pd.MultiIndex) else pd.Series(distinct)).argsort()
        order = np.asarray(order)
        order = np.concatenate([order[~missing[order]], order[missing[order]]])
        ranks[order], distinct, missing = np.arange(len(order)), distinct[order], missing[order]
    codes = np.where(codes < 0, -1, ranks[codes] if len(ranks) else codes)
    if use_na_sentinel and missing.any():
        kept = np.where(missing, -1, np.cumsum(~missing) - 1)
        codes, distinct = np.where(codes < 0, -1, kept[codes]), distinct[~missing]
    if missing.any() and distinct.dtype == object:
        distinct = np.where(pd.isna(distinct), np.nan, distinct)  # the null that pandas gives back
    return codes.astype(np.intp), distinct


@outermost(base.IndexOpsMixin.factorize)
def _factorize(self, sort=False, use_na_sentinel=True):
    codes, distinct = coded(self if isinstance(self, pd.MultiIndex) else self._values, sort, use_na_sentinel)
    if isinstance(distinct, pd.MultiIndex):
        return codes, distinct.set_names([None] * distinct.nlevels) if len(distinct) else self[:0]
    if distinct.dtype == np.float16:
        distinct = distinct.astype(np.float32)
    dtype = self.dtype if self.dtype != np.float16 and self.dtype.kind not in "S" else None
    return codes, pd.Index(distinct, dtype=dtype)


@outermost(algorithms.isin)
def isin(comps, values):
    for given in (comps, values):
        if not pd.api.types.is_list_like(given):
            raise TypeError(
                f"only list-like objects are allowed to be passed to isin(), you passed a `{type(given).__name__}`"
            )
    mask = np.asarray(among(comps, values))
    return pd.array(mask, dtype="boolean") if masked(comps) else mask


def among(comps, values):
    if not hasattr(comps, "dtype"):
        comps = list(comps)
    if not hasattr(values, "dtype"):
        values = list(values)
    try:
        return gh.isin(comps, values)
    except TypeError as error:  # types that are never equal are refused; in pandas nothing is among them
        if " beside " not in str(error):
            raise
        return np.zeros(len(comps), bool)


@outermost(algorithms.value_counts_internal)
def value_counts(values, sort=True, ascending=False, normalize=False, bins=None, dropna=True):
    if bins is not None:
        return original_value_counts(values, sort, ascending, normalize, bins, dropna)
    if not isinstance(values, (pd.Series, pd.Index)):
        values = pd.Series(values)
    dtype, name = values.dtype, "proportion" if normalize else "count"
    keys, counts = gh.value_counts(values, order="first", nulls="drop" if dropna else "group")
    counts = np.asarray(counts)
    if keys.dtype == np.float16:
        keys = keys.astype(np.float32)
    index = keys if isinstance(keys, pd.Index) else pd.Index(array_of(keys), dtype=keys.dtype, name=keys.name)
    if dropna and not isinstance(index, pd.MultiIndex):
        counts, index = counts[~index.isna()], index[~index.isna()]
    if isinstance(dtype, pd.CategoricalDtype):  # in pandas in the order of the categories, those that do not occur, too
        codes = np.concatenate([np.arange(len(dtype.categories)), np.full(int(index.isna().any()), -1)])
        places = index.codes.tolist()
        counts = np.array([counts[places.index(code)] if code in places else 0 for code in codes.tolist()], np.int64)
        index = pd.CategoricalIndex(pd.Categorical.from_codes(codes, dtype=dtype), name=index.name)
    result = pd.Series(counts, index=index, name=name)
    text_of_arrow = isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow" and dtype.na_value is pd.NA
    if isinstance(dtype, pd.ArrowDtype) or text_of_arrow:
        result = result.astype("int64[pyarrow]")
    elif (isinstance(dtype, pd.StringDtype) and dtype.na_value is pd.NA) or masked(values):
        result = result.astype("Int64")
    if sort:
        result = result.sort_values(ascending=ascending, kind="stable")
    return result / result.sum() if normalize else result


original_value_counts = algorithms.value_counts_internal


def put_in_place():
    for module in (algorithms, pd, pd.api.extensions):
        for ours in (unique, factorize, isin):
            name = "unique" if ours is unique else "factorize" if ours is factorize else "isin"
            if hasattr(module, name):
                setattr(module, name, ours)
    algorithms.unique1d = unique
    algorithms.value_counts_internal = value_counts
    base.IndexOpsMixin.unique = _unique
    base.IndexOpsMixin.factorize = _factorize


# ---- the run ---------------------------------------------------------------------------------------------------------


class Plugin:
    def pytest_configure(self, config):
        put_in_place()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        kept = [x for x in items if "test_algos" not in x.nodeid or any(f"::{name}::" in x.nodeid for name in CLASSES)]
        config.hook.pytest_deselected(items=[x for x in items if x not in kept])
        items[:] = kept
        for item in items:
            for pattern, reason in LEFT_OUT:
                if re.search(pattern, item.nodeid):
                    item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
                    break

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(f"calls of the verbs: {CALLS}")


if __name__ == "__main__":
    folder = Path(pd.__file__).parent
    files = [str(folder / "tests" / name) for name in FILES]
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *files, *sys.argv[1:]], [Plugin()]))
