"""Every verb with columns of every library, against lists and dicts of Python: one model of what is equal."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import oracle
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from makers import ELEMENTS, LIBRARIES, Lacks
from oracle import COLUMNS, pa, values

import pygpuhash as gh
from pygpuhash.columns import read

NUMBERS = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{"singles": 32, "doubles": 64},
}


def key(x):
    """Equal elements have equal keys: numbers by their value whatever their type, zeros and NaNs alike."""
    if isinstance(x, tuple):
        return tuple(map(key, x))
    if isinstance(x, float) and x != x:
        return "NaN"
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return "number", int(x) if math.isfinite(x) and x == int(x) else x
    return type(x).__name__, x


def elements_of(result) -> list:
    """The elements of a result of any library."""
    objects = isinstance(result, np.ndarray) and result.dtype == object  # in which NaN is null
    return values(read(list(result) if objects else result, "result")) if len(result) else []


def keys_of(result) -> list:
    return list(map(key, elements_of(result)))


class Model:
    """The rows of a column that count, with their keys."""

    def __init__(self, elements: list, nulls: str) -> None:
        kept = [None if nulls == "drop" and x is None else key(x) for x in elements]
        self.keys = kept
        self.distinct = list(dict.fromkeys(k for k in kept if k is not None))
        self.codes = [-1 if k is None else self.distinct.index(k) for k in kept]


def check_one(given, elements: list, amounts: list, nulls: str, more: dict) -> None:
    """The verbs of one column."""
    model = Model(elements, nulls)
    more = {"nulls": nulls, **more}
    assert keys_of(gh.unique(given, order="first", **more)) == model.distinct
    assert sorted(keys_of(gh.unique(given, **more)), key=repr) == sorted(model.distinct, key=repr)
    for order in ("first", "any"):
        distinct, counts = gh.value_counts(given, order=order, **more)
        found = dict(zip(keys_of(distinct), elements_of(counts), strict=True))
        assert found == {k: model.keys.count(k) for k in model.distinct}
        codes, distinct = gh.factorize(given, order=order, **more)
        there = keys_of(distinct)
        assert [None if i < 0 else there[i] for i in elements_of(codes)] == model.keys
        assert len(there) == len(model.distinct)
    assert elements_of(gh.factorize(given, **more)[0]) == model.codes
    groups: dict = {k: [] for k in model.distinct}
    for k, amount in zip(model.keys, amounts, strict=True):
        if k is not None:
            groups[k].append(amount)
    mean = lambda group: sum(group) / len(group)  # noqa: E731
    for op, reduce in {"sum": sum, "min": min, "max": max, "count": len, "mean": mean}.items():
        distinct, results = gh.group_reduce(given, np.array(amounts, "i8"), op, **more)
        found = dict(zip(keys_of(distinct), elements_of(results), strict=True))
        assert found == {k: reduce(group) for k, group in groups.items()}, op


def check_two(left, right, lefts: list, rights: list, nulls: str, more: dict) -> None:
    """The verbs of two columns."""
    one, other = Model(lefts, nulls), Model(rights, nulls)
    more = {"nulls": nulls, **more}
    assert elements_of(gh.isin(left, right, **more)) == [k is not None and k in other.distinct for k in one.keys]
    for how in ("inner", "left"):
        pairs = []
        for i, k in enumerate(one.keys):
            partners = [j for j, other_key in enumerate(other.keys) if k is not None and other_key == k]
            pairs += [(i, j) for j in partners or ([-1] if how == "left" else [])]
        found = gh.join_indexer(left, right, how, **more)
        assert list(zip(*map(elements_of, found), strict=True)) == pairs


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=10, deadline=None)
@for_all(data=st.data())
def test_verbs_agree_with_python(library, data):
    name = data.draw(st.sampled_from(sorted(ELEMENTS)))
    drawn = data.draw(st.lists(ELEMENTS[name], min_size=1, max_size=4))
    if name == "doubles":
        drawn += [0.0, -0.0, float("nan")]
    pool = st.sampled_from([*drawn, None] if data.draw(st.booleans()) else drawn)  # so that elements repeat
    lefts, rights = data.draw(st.lists(pool, max_size=12)), data.draw(st.lists(pool, max_size=12))
    amounts = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=len(lefts), max_size=len(lefts)))
    nulls = data.draw(st.sampled_from(["group", "drop"]))
    more = data.draw(st.sampled_from([{}, {"threads": 2}, {"seed": 5}]))
    kind = COLUMNS[name][1]
    other = data.draw(st.sampled_from(sorted(LIBRARIES)))
    with contextlib.suppress(Lacks):
        left = LIBRARIES[library](lefts, kind)
        one = oracle.python(pa.array(lefts, kind))
        check_one(left, one, amounts, nulls, more)
        if None not in lefts and read(left, "keys").stored is not None and lefts:
            check_one(left, one, amounts, nulls, {"backend": "linear_probe", "device": "cpu"})
        right = LIBRARIES[other](rights, kind)
        if lefts or rights or library == other:
            check_two(left, right, one, oracle.python(pa.array(rights, kind)), nulls, more)


OBJECTS = {
    "objects": lambda elements, kind: np.array(elements, object),
    "objects in pandas": lambda elements, kind: pytest.importorskip("pandas").Series(elements, dtype=object),
    "masked objects": lambda elements, kind: np.ma.MaskedArray(np.array(elements, object), False),
}


@pytest.mark.parametrize("library", [*LIBRARIES, *OBJECTS])
@pytest.mark.parametrize("elements", [[3, 1, 3, -7], [0.5, 2.0, 0.5, -1.5]], ids=["integers", "floats"])
def test_a_few_numbers(library, elements):
    kind = COLUMNS["int64" if isinstance(elements[0], int) else "doubles"][1]
    with contextlib.suppress(Lacks):
        given = {**LIBRARIES, **OBJECTS}[library](elements, kind)
        check_one(given, elements, [5, -1, 2, 9], "group", {})
        check_two(given, given, elements, elements, "group", {})


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=10, deadline=None)
@for_all(data=st.data())
def test_numbers_of_two_types_are_equal_by_their_value(library, data):
    def draw(name):
        limits = NUMBERS[name]
        if isinstance(limits, int):
            some = st.floats(width=limits) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**24, 2.0**53, 2.0**63])
        else:
            edges = (0, 1, -1, 127, 128, 255, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, *limits)
            some = st.integers(*limits) | st.sampled_from([x for x in edges if limits[0] <= x <= limits[1]])
        return data.draw(st.lists(some, max_size=8))

    first, second = (data.draw(st.sampled_from(sorted(NUMBERS))) for _ in range(2))
    lefts, rights = draw(first), draw(second)
    with contextlib.suppress(Lacks):
        left, right = LIBRARIES[library](lefts, COLUMNS[first][1]), LIBRARIES["Arrow"](rights, COLUMNS[second][1])
        check_two(left, right, lefts, rights, "group", {})
        check_two(right, left, rights, lefts, "group", {})


@pytest.mark.parametrize("library", LIBRARIES)
def test_nulls_that_are_refused_are_named_by_their_row(library):
    with contextlib.suppress(Lacks):
        given = LIBRARIES[library]([b"a", None, b"b", None], COLUMNS["bytes"][1])
        with pytest.raises(TypeError, match="row 1 is null"):
            gh.unique(given, nulls="refuse")
