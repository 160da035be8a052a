"""Verbs on arrays of a fake GPU, of columns that hypothesis makes, against pandas.

The kernels are those of `fake_kernels.py`: this is about the way to them and back. GPUHASH_EXAMPLES: how many columns.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

import pygpuhash as gh

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_kernels
from fake_kernels import host

Array = np.ndarray[Any, Any]


def columns(dtype: str) -> st.SearchStrategy[Array]:
    """Of few keys and of many, the least and the largest number among them; of floats both zeros and NaN."""
    if dtype[0] == "f":
        elements = st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5]) | st.floats(width=32)
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        elements = st.sampled_from([0, 1, 2, 3, least, most]) | st.integers(int(least), int(most))
    return st.lists(elements, max_size=60).map(lambda some: np.array(some, dtype))


def pairs_of(left: Array, right: Array, how: Any) -> list[tuple[int, int]]:
    """Row numbers that pandas joins, -1 for none, by their left rows and then by their right ones."""
    one, other = (pd.DataFrame({"key": keys, name: np.arange(len(keys))}) for keys, name in ((left, "i"), (right, "j")))
    joined = one.merge(other, on="key", how=how).fillna({"j": -1})
    return sorted(zip(joined["i"].astype(int), joined["j"].astype(int), strict=True))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
def test_equal_to_pandas(dtype: str) -> None:
    @settings(max_examples=int(os.environ.get("GPUHASH_EXAMPLES", "25")), deadline=None)
    @for_all(columns(dtype), columns(dtype), st.sampled_from(["inner", "left"]))
    def check(keys: Array, others: Array, how: Any) -> None:
        amounts = np.arange(len(keys)) * 3 - 50
        with pytest.MonkeyPatch.context() as patch, fake_kernels.installed(patch) as (array, calls):
            fake_kernels.arithmetic(patch, array)
            column, other = array(keys), array(others)
            codes, found = gh.factorize(column)
            wanted_codes, wanted = pd.factorize(keys, use_na_sentinel=False)
            np.testing.assert_array_equal(host(found), wanted)
            np.testing.assert_array_equal(host(codes), wanted_codes)
            found, counts = gh.value_counts(column, order="first")
            np.testing.assert_array_equal(host(found), wanted)
            np.testing.assert_array_equal(host(counts), np.bincount(wanted_codes, minlength=len(wanted)))
            found, (sums, least) = gh.group_reduce(column, array(amounts), ("sum", "min"), order="first")
            groups = pd.Series(amounts).groupby(wanted_codes, sort=False)
            np.testing.assert_array_equal(host(found), wanted)
            np.testing.assert_array_equal(host(sums), groups.sum())
            np.testing.assert_array_equal(host(least), groups.min())
            np.testing.assert_array_equal(host(gh.isin(column, other)), pd.Series(keys).isin(others))
            rows = map(host, gh.join_indexer(column, other, how))
            assert list(zip(*(r.tolist() for r in rows), strict=True)) == pairs_of(keys, others, how)
            assert len(calls) >= (5 if len(keys) else 0)

    check()
