"""numpy's own tests of unique and isin, with the verbs in the place of numpy's functions.

    python tests/columns/numpy_own.py [pytest's arguments]

The adapter sorts what the verbs give, and makes indices and inverses of codes. What verbs do not have goes to numpy:
`axis`, NaNs that differ, complex NaNs (one key there, whatever the other part is), `longdouble`, subclasses, objects in
`unique`, which numpy sorts, and the arguments of `kind`. `LEFT_OUT` names the tests whose meaning
differs by contract, and they must fail.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.tests import test_arraysetops as own

import pygpuhash as gh

LEFT_OUT = (
    (r"test_isin_mixed_boolean\[(None|sort)", "a bool is no number"),
    (r"test_isin_with_arrays_containing_tuples", "columns of several kinds are refused by name"),
    (r"test_isin_both_arrays_have_structured_dtype", "fields of objects are refused by name"),
)
CALLS = {"unique": 0, "isin": 0}
numpy_unique, numpy_isin = np.unique, np.isin


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True
):
    array = np.asanyarray(ar)
    unlike = array.dtype.char in "gGO" or (array.dtype.kind == "c" and np.isnan(array).any())
    if axis is not None or not equal_nan or unlike or type(array) is not np.ndarray:
        return numpy_unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, sorted=sorted)
    CALLS["unique"] += 1
    array = array.reshape(1) if array.ndim == 0 else array
    codes, distinct = gh.factorize(array)
    order = distinct.argsort(kind="stable") if sorted else np.arange(len(distinct))
    ranks = np.empty(len(order), np.intp)
    ranks[order] = np.arange(len(order))
    assert gh.unique(array, order="first").tolist().__repr__() == distinct.tolist().__repr__()
    results = [distinct[order]]
    if return_index:
        first = np.full(len(order), array.size)
        np.minimum.at(first, codes.reshape(-1), np.arange(array.size))
        results.append(first[order])
    if return_inverse:
        results.append(ranks[codes].reshape(np.shape(ar) if np.ndim(ar) else 1))
    if return_counts:
        results.append(gh.value_counts(array, order="first")[1][order])
    return results[0] if len(results) == 1 else tuple(results)


def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    if kind == "table" or kind not in (None, "sort"):
        return numpy_isin(element, test_elements, assume_unique, invert, kind=kind)
    CALLS["isin"] += 1
    keys, among = (np.asarray(given) for given in (element, test_elements))
    try:
        mask = gh.isin(keys.reshape(-1), among.reshape(-1)).reshape(keys.shape)
    except TypeError as error:  # types that are never equal are refused; in numpy nothing is among them
        if " beside " not in str(error) or "bool" in str(error):
            raise
        mask = np.zeros(keys.shape, bool)
    return ~mask if invert else mask


class Plugin:
    def pytest_configure(self, config):
        np.unique, np.isin = unique, isin

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        kept = [x for x in items if re.search(r"::test_(isin|unique)", x.nodeid)]
        config.hook.pytest_deselected(items=[x for x in items if x not in kept])
        items[:] = kept
        for item in items:
            item.module.unique, item.module.isin = unique, isin
            reason = next((reason for pattern, reason in LEFT_OUT if re.search(pattern, item.nodeid)), None)
            if reason is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(f"calls of the verbs: {CALLS}")


if __name__ == "__main__":
    folder = Path(own.__file__).parent
    arguments = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", f"--rootdir={folder}"]
    sys.exit(pytest.main([*arguments, "--import-mode=importlib", own.__file__, *sys.argv[1:]], [Plugin()]))
