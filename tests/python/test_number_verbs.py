"""Verbs over numpy's numbers as they lie, against a dict, at both ends of what is dense and of integers' types."""

import collections
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpuhash as gh
from pygpuhash import _arrays, _number_verbs, _verb_inputs, verbs
from pygpuhash.columns import _direct

INTEGERS = [np.dtype(f"{kind}{width}") for kind in "iu" for width in (1, 2, 4, 8)]
DTYPES = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


@pytest.fixture(params=[1, 7, 1 << 22])
def piece(request):
    """Elements between two looks at signals."""
    was = _direct.piece(request.param)
    yield request.param
    _direct.piece(was)


def check(one, other):
    """Every verb agrees with a dict, or has nothing to say. Says how many of them had."""
    a, b = one.tolist(), other.tolist()
    order, others = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    answers = 0
    if (keys := _direct.unique(one)) is not None:
        assert keys.tolist() == order
        assert keys.dtype == one.dtype
        answers += 1
    if (pair := _direct.value_counts(one)) is not None:
        assert pair[0].tolist() == order
        assert pair[0].dtype == one.dtype
        assert pair[1].tolist() == [collections.Counter(a)[x] for x in order]
        answers += 1
    if (pair := _direct.factorize(one)) is not None:
        assert pair[1].tolist() == order
        assert pair[0].tolist() == [order.index(x) for x in a]
        answers += 1
    if (mask := _direct.isin(one, other)) is not None:
        assert mask.dtype == bool
        assert mask.tolist() == [x in others for x in a]
        answers += 1
    if (pair := _direct.join(one, other)) is not None:
        assert pair[0].tolist() == [others.index(x) if x in others else -1 for x in a]
        repeats = len(others) < len(b)
        assert (pair[1] is not None) == repeats
        assert not repeats or pair[1].tolist() == [others.index(x) for x in b]
        answers += 1
    return answers


def column(dtype):
    """Integers around a number, the type's ends among them."""
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    around = st.sampled_from([least, most, 0, -1, 100, 2**31, 2**63 - 1, 2**63])
    spread = st.sampled_from([1, 9, 300, 3000])
    numbers = st.tuples(around, spread).flatmap(
        lambda at: st.lists(st.integers(-at[1], at[1]).map(lambda x: min(max(at[0] + x, least), most)), max_size=40)
    )
    return numbers.map(lambda x: np.array(x, dtype))


def columns():
    return st.sampled_from(INTEGERS).flatmap(column)


@settings(max_examples=300, deadline=None)
@given(columns(), columns(), st.integers(1, 9))
def test_dense_integers_of_any_two_types_are_those_of_a_dict(one, other, elements):
    was = _direct.piece(elements)
    try:
        check(one, other)
    finally:
        _direct.piece(was)


@settings(max_examples=150, deadline=None)
@given(columns(), columns())
def test_an_array_over_the_range_and_an_index_agree(one, other):
    """Columns of different signs, ends of types, and empty ones among them."""

    def answers():
        return [
            gh.unique(one),
            *gh.value_counts(one),
            *gh.factorize(one),
            gh.isin(one, other),
            *gh.join_indexer(one, other),
            *gh.join_indexer(one, other, "left"),
        ]

    dense = answers()
    was = _direct.bounds(0, 0)
    try:
        hashed = answers()
    finally:
        _direct.bounds(*was)
    for x, y in zip(dense, hashed, strict=True):
        assert x.dtype == y.dtype
        assert x.tolist() == y.tolist()


@DTYPES
def test_both_ends_of_a_range(dtype, piece):
    info = np.iinfo(dtype)
    for least in (int(info.min), 0, int(info.max) - 40):
        values = np.array([least + i for i in (40, 0, 20, *range(41))], dtype)
        assert check(values, values[2:3].repeat(2)) == 5
        assert check(values[2:3].repeat(2), values) == 5
        assert check(values, np.array([least + i for i in range(1, 40)], dtype)) == 5


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8"])
@pytest.mark.parametrize(("verb", "each"), [("unique", 32), ("value_counts", 4), ("factorize", 4)])
def test_the_widest_range_that_is_dense(dtype, verb, each):
    for n in (2, 3):
        for largest, dense in ((each * n - 1, True), (each * n, False)):
            keys = np.array([0] * (n - 1) + [largest], dtype)
            assert (getattr(_direct, verb)(keys) is not None) == dense, (n, largest)
    keys, others = np.zeros(3, dtype), np.array([0, 127], dtype)
    assert _direct.isin(keys[:1], others) is None  # 128 integers for 3 elements
    assert _direct.isin(keys[:2], others).tolist() == [True, True]


def test_extremes_of_64_bits_are_no_dense_column():
    ends = np.array([-(2**63), 2**63 - 1])
    assert check(ends, ends) == 0
    assert check(ends.view("u8"), ends) == 3  # their distance is 1
    assert gh.unique(ends).tolist() == ends.tolist()
    assert gh.isin(ends, ends[1:]).tolist() == [False, True]


@pytest.mark.parametrize("signed", [-1, -(2**63), 2**63 - 1])
def test_bits_of_a_number_are_no_number_of_the_other_sign(signed):
    one = np.array([signed] * 3, "i8")
    same_bits = one.view("u8")
    assert gh.isin(one, same_bits).tolist() == [signed >= 0] * 3
    assert gh.isin(same_bits, one).tolist() == [signed >= 0] * 3
    assert len(gh.join_indexer(one, same_bits)[0]) == (9 if signed >= 0 else 0)
    assert gh.isin(np.array([-1], "i1"), np.arange(250, 256, dtype="u1")).tolist() == [False]


def test_a_range_that_begins_before_what_the_left_column_can_hold():
    one, other = np.array([0, 1, 3, 255], "u1"), np.array([-5, -4, 1, 3], "i2")
    assert _direct.isin(one, other).tolist() == [False, True, True, False]
    assert _direct.join(one, other)[0].tolist() == [-1, 2, 3, -1]
    below = np.array([-5, -4], "i2")
    assert _direct.isin(one, below).tolist() == [False] * 4
    assert _direct.join(one, below)[0].tolist() == [-1] * 4


def test_few_elements_of_narrow_types_have_no_array_for_all_integers_of_the_type():
    assert _direct.unique(np.array([1, 60_000], "u2")) is None
    assert _direct.factorize(np.array([-100, 100], "i1")) is None
    assert _direct.factorize(np.array([-1, 2, 3], "i1"))[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8", "u4"])
def test_few_numbers_need_no_column(dtype, monkeypatch):
    monkeypatch.setattr(verbs, "read_on_host", None)
    wide = np.array([0, 3, 0, 60_000, 60_000, 7], dtype)
    assert gh.unique(wide).tolist() == [0, 3, 60_000, 7]
    distinct, counts = gh.value_counts(wide)
    assert (distinct.dtype, counts.tolist()) == (wide.dtype, [2, 1, 2, 1])
    codes, distinct = gh.factorize(wide)
    assert (codes.tolist(), distinct.dtype) == ([0, 1, 0, 2, 2, 3], wide.dtype)
    assert gh.isin(wide, wide[2:4]).tolist() == [True, False, True, True, True, False]
    assert gh.isin(wide, np.array([60_000, -1.5])).tolist() == [False, False, False, True, True, False]
    assert gh.unique(wide[:0]).tolist() == []
    assert gh.unique(wide[:0]).dtype == wide.dtype


@pytest.mark.parametrize(("few", "many"), [(5, 5000), (5000, 5), (5, 5)])
def test_only_where_both_columns_are_few_is_one_thread_enough(few, many, monkeypatch):
    threads = []

    class Recorded(_verb_inputs.CoreIndex):
        def __init__(self, schema, nulls, floats, threads_of_it, *rest):
            threads.append(threads_of_it)
            super().__init__(schema, nulls, floats, threads_of_it, *rest)

    monkeypatch.setattr(_verb_inputs, "CoreIndex", Recorded)
    keys, others = [str(i) for i in range(many)], [str(i) for i in range(few)]
    assert gh.isin(keys, others, threads=3).sum() == 5
    assert len(gh.join_indexer(keys, others, threads=3)[0]) == 5
    assert threads == [1 if few == many else 3] * 2


def test_floats_are_numbers_or_bits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = np.array([0.0, -0.0, np.nan, -np.nan, 1.5])
        assert str(gh.unique(given).tolist()) == "[0.0, nan, 1.5]"
        assert len(gh.unique(given, floats="bits")) == 5
        assert gh.isin(given, given[1:3]).tolist() == [True, True, True, True, False]
        assert gh.isin(given, given[1:3], floats="bits").tolist() == [False, True, True, False, False]
    with pytest.raises(TypeError, match="keys beside among"):
        gh.isin(given, given.astype("f4"), floats="bits")


@pytest.mark.parametrize(
    "given",
    [
        np.arange(20)[::2],
        np.arange(20).reshape(4, 5),
        np.arange(20, dtype=">i4"),
        np.frombuffer(b"x" + np.arange(20).tobytes(), "u1")[1:].view("i8"),
        np.ma.MaskedArray(np.arange(3), [0, 1, 0]),
        np.arange(3) > 1,
        np.arange(0, 3, dtype="M8[s]"),
        np.array(3),
        [1, 2],
    ],
    ids=["strided", "two dimensions", "big-endian", "misaligned", "masked", "bool", "times", "no dimension", "list"],
)
def test_others_are_left_to_columns(given):
    assert _number_verbs.unique(given, "numbers", {}, 100) is None
    assert gh.unique(given if np.ndim(given) else given.reshape(1)) is not None


def test_arguments_of_tables_go_to_tables_and_others_are_checked():
    keys = np.arange(5)
    assert _number_verbs.unique(keys, "numbers", {"backend": "hive"}, 100) is None
    assert _number_verbs.unique(keys, "numbers", {"device": "cuda"}, 100) is None
    assert (
        _number_verbs.unique(keys, "numbers", {"threads": 2, "device": "cpu", "seed": 1, "capacity": 3}, 100)
        is not None
    )
    for wrong in ({"threads": 0}, {"threads": "2"}, {"capacity": -1}, {"seed": -1}):
        with pytest.raises((TypeError, gh.InvalidArgument), match=next(iter(wrong))):
            gh.unique(keys, **wrong)


def test_arrays_that_may_not_be_written():
    keys = np.arange(6) % 4
    keys.flags.writeable = False
    assert _direct.unique(keys).tolist() == [0, 1, 2, 3]
    assert _number_verbs.unique(keys, "numbers", {}, 0) is not None


def test_results_hold_no_more_memory_than_they_need():
    keys = np.zeros(100_000, "i8")
    assert _direct.unique(keys).base is None
    assert _direct.unique(keys).nbytes == 8


# ---- integers that are a step apart ----------------------------------------------------------------------------------


def steps_apart(step, least, numbers, dtype):
    """least + step * number, modulo 2^64."""
    return (np.asarray(numbers, "u8") * np.uint64(step) + np.uint64(least % 2**64)).view(dtype)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("step", [2, 3, 24, 1000, 86_400_000_000, 2**40, 2**45 - 1])
def test_columns_of_steps(step, dtype, piece):
    """Numbers, least integer and step are what the column was made of, whatever the sign."""
    rng = np.random.default_rng(step % 1000)
    numbers = np.append(rng.integers(0, 900, 398), (0, 1))
    for least in (-500 * step, -1, 0, 7, 2**62) if dtype == "i8" else (0, 7, 2**63 - 400 * step % 2**63):
        found = _direct.steps(steps_apart(step, least, numbers, dtype))
        assert found[0].dtype == np.uint32
        assert found[0].tolist() == numbers.tolist()
        assert found[1:] == (least % 2**64, step)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("step", [1, 7, 2**40])
def test_offsets(dtype, step, piece):
    """Numbers from 0 on, or from 1 on beside nulls, from which the integers come back, whatever lies under a null."""
    rng = np.random.default_rng(step % 1000)
    info = np.iinfo(dtype)
    step = step if info.bits == 64 else 1
    for least in {info.min, 0, info.max - 100 * step}:
        column = np.array([least + step * int(i) for i in rng.integers(0, 100, 700)], dtype)
        column[[300, 301]] = least, least + 99 * step
        nulls = rng.random(700) < 0.3
        nulls[[300, 301]] = False
        dirty = np.where(nulls, rng.integers(info.min, info.max, 700, dtype, endpoint=True), column)
        for some, absent in ((column, None), (dirty, nulls), (column, np.zeros(700, bool))):
            numbers, low, by, largest = _direct.offsets(some, absent)
            assert numbers.dtype == np.int32
            one = absent is not None
            assert (low, by) == (least % 2**info.bits, step)
            assert (numbers.max(), largest) == (99 + one, 99 + one)
            valid = slice(None) if absent is None else ~absent
            assert [least + step * (int(i) - one) for i in numbers[valid]] == column[valid].tolist()
            assert absent is None or not numbers[absent].any()


def test_columns_without_offsets(piece):
    """More than 31 bits, one of which is that of null; nulls alone; and steps that later elements are not."""
    wide = np.array([0, 2**31 - 2, 5] * 300)
    assert _direct.offsets(wide)[3] == 2**31 - 2
    assert _direct.offsets(wide, np.zeros(900, bool))[3] == 2**31 - 1
    for wide[899] in (2**31 - 1, -1):
        assert _direct.offsets(wide) is None
    absent = np.arange(900) == 899
    assert _direct.offsets(wide, absent)[3] == 2**31 - 1
    assert _direct.offsets(wide, np.ones(900, bool)) is None
    assert _direct.offsets(np.empty(0, "i8")) is None
    column = np.arange(900) * 10
    for i in (0, 256, 899):
        column[i] += 3
        assert _direct.offsets(column)[1:] == (column.min(), 1, np.ptp(column))
        assert _direct.offsets(column, np.arange(900) == 7)[1:] == (column.min(), 1, np.ptp(column) + 1)
        column[i] -= 3
    column[899] = 10 * 2**40 + 1
    assert _direct.offsets(column) is None
    for nulls in (np.zeros(899, bool), np.zeros(900, "u1"), np.zeros(1800, bool)[::2]):
        with pytest.raises(ValueError, match="pass bool of 900 elements"):
            _direct.offsets(column, nulls)


def test_columns_that_are_none_of_steps():
    """One element that is no step, or far away, and the column is none; the first elements say what the step is."""
    numbers = np.arange(2000) % 1999
    column = steps_apart(1000, 5, numbers, "i8")
    assert _direct.steps(column) is not None
    for i in (0, 1, 255, 256, 1999):
        for wrong in (1, 499, 999, 2**40, -(2**40)):
            spoilt = column.copy()
            spoilt[i] += wrong
            assert _direct.steps(spoilt) is None, (i, wrong)
    assert _direct.steps(np.full(500, 8)) is None
    assert _direct.steps(np.array([7])) is None
    assert _direct.steps(np.empty(0, "i8")) is None
    assert _direct.steps(np.arange(500) * 3) is not None
    assert _direct.steps((np.arange(500) * 3).astype("i4")) is None
    assert _direct.steps(np.arange(500) * 1) is None
    ends = np.array([-(2**63), 2**63 - 1, -(2**63)] * 200)
    assert _direct.steps(ends) is None  # numbers of a larger column would be beyond 64 bits
    for beyond in (0, 1):  # 4 integers for each element
        wide = np.append(np.arange(500) * 10, (4 * 501 - 1 + beyond) * 10)
        assert (_direct.steps(wide) is None) == bool(beyond)
    was = _direct.bounds(0, 0)
    try:
        assert _direct.steps(column) is None
    finally:
        _direct.bounds(*was)


@pytest.mark.parametrize("far", [0, 1], ids=["a step apart", "sparse"])
@pytest.mark.parametrize("distinct", [3, 900, 9000])
@pytest.mark.parametrize("threads", [1, 3])
def test_long_columns(distinct, threads, far, monkeypatch):
    """By steps, by an index of one thread, by a table: the same."""
    monkeypatch.setattr(_number_verbs, "_SAMPLE", 400)
    rng = np.random.default_rng(distinct)
    some = rng.permutation(60_000)[:distinct] * 1000 + far * rng.integers(-(10**15), 10**15, distinct)
    keys = some[rng.integers(0, distinct, 20_000)]
    wanted = collections.Counter(keys.tolist())
    order = list(wanted)
    assert (_direct.steps(keys) is None) == bool(far)
    codes, found = gh.factorize(keys, threads=threads)
    assert found.tolist() == order
    assert np.array_equal(found[codes], keys)
    found, counts = gh.value_counts(keys, threads=threads)
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == wanted
    assert sorted(gh.unique(keys, threads=threads).tolist()) == sorted(order)
    for op in ("sum", "mean"):
        found, results = gh.group_reduce(keys, keys % 7, op, threads=threads)
        for key, result in list(zip(found.tolist(), results.tolist(), strict=True))[:50]:
            assert result == pytest.approx(float(getattr(keys[keys == key] % 7, op)()))


@pytest.mark.parametrize(("most", "step"), [(0, 1), (1, 1), (10, 1), (12, 11), (130, 127), (1024, 1021)])
def test_steps_of_a_sample_share_no_small_factor(most, step):
    assert _arrays.step_of_sample(100 * most + 99, 100) == step


def test_which_long_columns_an_index_takes(monkeypatch):
    """Those of neither very few nor many keys in a sample; all for codes and means; none with many threads."""
    monkeypatch.setattr(_number_verbs, "_SAMPLE", 100)
    random = np.random.default_rng(1).integers(0, 2**62, 4000)
    few, many, sorted_pairs = random[np.arange(4000) % 60], random, np.repeat(random[:2000], 2)
    very_few = random[np.arange(4000) % 7]

    def takes(verb, keys, *more, threads=1):
        return getattr(_number_verbs, verb)(keys, *more, "numbers", {"threads": threads}, 0) is not None

    assert takes("value_counts", few)
    assert not takes("value_counts", few, threads=3)
    assert not takes("value_counts", many)
    assert not takes("value_counts", very_few)
    assert not takes("value_counts", sorted_pairs)
    assert not takes("factorize", many, threads=3)
    for keys in (very_few, few, many, sorted_pairs):
        assert takes("factorize", keys)
        assert takes("group_reduce", keys, keys, "mean", np.dtype("f8"))
        assert takes("group_reduce", keys, keys, "sum", np.dtype("i8")) == (keys is few)


@pytest.mark.parametrize("unit", ["D", "h", "s", "us"])
def test_times_a_step_apart(unit):
    """Days in a column of nanoseconds, with NaT and without."""
    rng = np.random.default_rng(1)
    days = rng.integers(-3000, 3000, 9000).astype("m8[D]").astype(f"m8[{unit}]") + np.datetime64("2020-01-01", unit)
    for column in (days, np.where(rng.random(9000) < 0.1, np.datetime64("NaT"), days)):
        plain = column.view("i8").tolist()
        found, counts = gh.value_counts(column)
        assert found.dtype == column.dtype
        assert dict(zip(found.view("i8").tolist(), counts.tolist(), strict=True)) == collections.Counter(plain)
        codes, found = gh.factorize(column)
        assert found.view("i8")[codes].tolist() == plain
