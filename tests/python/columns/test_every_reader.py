"""The same columns, given by every library: they arrive as they are, and their keys come back as what was given."""

from __future__ import annotations

import contextlib

import numpy as np
import oracle
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from makers import ELEMENTS, LIBRARIES, Lacks
from oracle import COLUMNS, all_same, distinct, engine_keys, expected, pa, values

from pygpuhash.columns import read


def check(library, elements, kind):
    given = LIBRARIES[library](elements, kind)
    column = read(given, "keys")
    want = oracle.python(pa.array(elements, kind))
    assert all_same(values(column)) == all_same(want)
    assert column.shape == (len(elements),)
    back = column.give(engine_keys(column))
    objects = library == "list" and isinstance(back, np.ndarray) and back.dtype == object
    again = list(back) if objects else back  # NaN is null among objects
    assert all_same(values(read(again, "again"))) == all_same(distinct(want))
    if library != "list":
        expected_class = pa.Array if library.startswith("Arrow") else type(given)
        assert isinstance(back, expected_class)
        for attribute in ("dtype", "type", "name"):
            if library != "nanoarrow" and hasattr(given, attribute):
                assert getattr(back, attribute) == getattr(given, attribute), attribute


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_arrive_as_they_are_and_keys_come_back(library, name):
    try:
        check(library, *COLUMNS[name])
    except Lacks:
        assert library != "Arrow"


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_have_most_of_the_columns(library):
    """So that a maker that says "lacks" too often is noticed."""
    made = 0
    for elements, kind in COLUMNS.values():
        try:
            LIBRARIES[library](elements, kind)
            made += 1
        except Lacks:
            pass
    assert made >= {"polars categories": 3, "Arrow views": 6, "Arrow small": 6}.get(library, 25)


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=60, deadline=None)
@for_all(data=st.data())
def test_any_column_of_any_library(library, data):
    name = data.draw(st.sampled_from(sorted(ELEMENTS)))
    element = ELEMENTS[name] if data.draw(st.booleans()) else ELEMENTS[name] | st.none()
    elements = data.draw(st.lists(element, max_size=20))
    with contextlib.suppress(Lacks):
        check(library, elements, COLUMNS[name][1])


def test_the_list_of_columns_is_what_arrow_has():
    for name in COLUMNS:
        assert len(expected(name)) == len(COLUMNS[name][0])
