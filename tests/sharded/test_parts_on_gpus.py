"""`gh.partial` and verbs on Dask of parts that lie on GPUs, over a fake library of arrays and fake kernels.

Two cards that are there: tests/gpu/test_dask.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import partial

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import fake_kernels
import fake_libraries

RANDOM = np.random.default_rng(5)
KEYS = RANDOM.integers(-20, 20, 600)
AMOUNTS = RANDOM.integers(-9, 9, 600)
FLOATS = RANDOM.integers(-9, 9, 600) / 8  # whose sums are exact in any order
EVERY = {
    "rows": "count",
    "sum": ("sum", AMOUNTS),
    "low": ("min", AMOUNTS),
    "high": ("max", FLOATS),
    "mean": ("mean", AMOUNTS),
    "total": ("sum", FLOATS),
    "first": ("first", FLOATS),
    "kinds": ("nunique", AMOUNTS),
}


@pytest.fixture
def put(monkeypatch):
    """A function that makes an array of CuPy."""
    with fake_kernels.installed(monkeypatch) as (put, _):
        for name, function in (("arange", lambda n: put(np.arange(n))), ("take", None), ("tensordot", None)):
            monkeypatch.setattr(sys.modules["cupy"], name, function, raising=False)  # the last two Dask names only
        yield put


def there(put, aggregates, rows=slice(None)):
    return {name: a if isinstance(a, str) else (a[0], put(a[1][rows])) for name, a in aggregates.items()}


def host(aggregates, rows=slice(None)):
    return {name: a if isinstance(a, str) else (a[0], a[1][rows]) for name, a in aggregates.items()}


def same(one, other):
    """Two partials have the same arrays of numpy."""
    assert list(one.states) == list(other.states)
    columns = [(one.keys, other.keys)]
    for name in one.states:
        assert one.states[name].op == other.states[name].op
        columns += zip(one.states[name].columns, other.states[name].columns, strict=True)
    for own, wanted in columns:
        assert type(own) is np.ndarray
        assert own.dtype == wanted.dtype
        assert np.array_equal(own, wanted)


@pytest.mark.parametrize("name", [*EVERY, None])
def test_one_aggregate_is_that_of_the_host(put, name):
    wanted = {} if name is None else {name: EVERY[name]}
    same(partial.start(put(KEYS), there(put, wanted)), partial.start(KEYS, wanted))


@pytest.mark.parametrize("kind", ["i4", "u8", "i2", "f4", "f8"])
def test_all_aggregates_of_keys_of_any_width(put, kind):
    keys = np.abs(KEYS).astype(kind)
    if kind == "i2":  # a table has those, of which there is none here
        keys = keys.astype("i4")
    same(partial.start(put(keys), there(put, EVERY)), partial.start(keys, EVERY))
    same(partial.start(put(keys[:0]), there(put, EVERY, slice(0))), partial.start(keys[:0], host(EVERY, slice(0))))


def test_rows_of_two_columns(put):
    keys = (KEYS.astype("i4"), (AMOUNTS % 3).astype("i4"))
    found = partial.start(tuple(map(put, keys)), there(put, {"n": "count", "s": ("sum", AMOUNTS)}))
    wanted = partial.start(keys, {"n": "count", "s": ("sum", AMOUNTS)})
    assert all(np.array_equal(a, b) for a, b in zip(found.keys, wanted.keys, strict=True))
    assert [np.array_equal(found.states[x].columns[0], wanted.states[x].columns[0]) for x in "ns"] == [True, True]


def test_parts_of_both_merge(put):
    cuts = [slice(0, 100), slice(100, 130), slice(130, None)]
    on_host = [partial.start(KEYS[rows], host(EVERY, rows)) for rows in cuts]
    mixed = [partial.start(put(KEYS[rows]), there(put, EVERY, rows)) for rows in cuts[:2]] + on_host[2:]
    same(partial.merge(mixed), partial.merge(on_host))
    for one, other in zip(partial.split(mixed[0], 3), partial.split(on_host[0], 3), strict=True):
        same(one, other)


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_sums_of_floats_do_not_depend_on_the_order_in_which_they_are_added(put, monkeypatch, op):
    """The same bits when a task runs again: of numbers whose sum in doubles depends on their order."""
    keys = KEYS % 3
    random = np.random.default_rng(6)
    amounts = random.standard_normal(600) * 10.0 ** random.integers(0, 16, 600)
    found = [
        partial.start(put(keys[order]), {"s": (op, put(amounts[order]))})
        for order in (np.arange(600), np.argsort(keys, kind="stable"), np.arange(600)[::-1].copy())
    ]
    first, *others = [dict(zip(one.keys.tolist(), one.states["s"].columns[0].tolist(), strict=True)) for one in found]
    assert others == [first, first]


def test_what_is_refused(put):
    class Array:
        shape, dtype = (3,), np.dtype("i8")
        __cuda_array_interface__ = {"shape": (3,), "typestr": "<i8", "data": (4096, True), "version": 3}  # noqa: RUF012

    keys = put(KEYS)
    for call, error, message in [
        (lambda: partial.start(Array(), {}), gh.Unsupported, "keys are a Array, and keys of a part on a GPU are colu"),
        (lambda: partial.start((keys, KEYS), {}), gh.Unsupported, r"keys\[1\] are a ndarray, .* copy all of them to"),
        (lambda: partial.start(keys, {"s": ("sum", AMOUNTS)}), gh.Unsupported, "values of 's' are on the host, and"),
        (lambda: partial.start(keys, {"f": ("first", put(AMOUNTS[1:]))}), ValueError, "have 599 rows, keys 600: pass"),
        (lambda: partial.start(keys, {"f": ("first", AMOUNTS[1:])}), ValueError, "have 599 rows, keys 600: pass one"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    found = partial.start(keys, {"f": ("first", AMOUNTS)})  # of the host
    same(found, partial.start(KEYS, {"f": ("first", AMOUNTS)}))


# ---- Dask ------------------------------------------------------------------------------------------------------------

CUTS = [slice(0, 150), slice(150, 150), slice(150, 390), slice(390, None)]


class Rows(np.ndarray):
    """No rows, which say that parts are CuPy's."""

    def __array_function__(self, *call):
        found = super().__array_function__(*call)
        return found.view(Rows) if type(found) is np.ndarray else found


Rows.__module__ = "cupy"


@pytest.fixture
def dask(monkeypatch):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    pytest.importorskip("dask.array", reason="dask.array is not installed")
    with dask.config.set(scheduler="synchronous"):
        yield dask


def on_gpus(dask, put, column):
    """Delayed parts, and a dask.array of them."""
    made = dask.delayed(lambda part: put(np.array(part)), pure=True)
    parts, da = [made(column[rows]) for rows in CUTS], dask.array
    meta = np.empty(0, column.dtype).view(Rows)
    each = [
        da.from_delayed(part, shape=(len(column[rows]),), dtype=column.dtype, meta=meta)
        for part, rows in zip(parts, CUTS, strict=True)
    ]
    return parts, da.concatenate(each)


def computed(dask, collection, kind=None):
    """The parts of a result as one array of the host; kind : what each of them is."""
    parts = dask.compute(*(collection.to_delayed().ravel() if hasattr(collection, "to_delayed") else collection))
    assert kind is None or {type(part) for part in parts} == {kind}
    return np.concatenate([fake_kernels.host(part) for part in parts])


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["delayed", "array"])
def test_verbs(dask, put, kind, shards):
    import pygpuhash.dask as ghd

    which = ["delayed", "array"].index(kind)
    keys, amounts = on_gpus(dask, put, KEYS)[which], on_gpus(dask, put, AMOUNTS)[which]
    cupy, home = fake_libraries.ndarray, (np.ndarray, fake_libraries.ndarray)[which]
    distinct, counts = np.unique(KEYS, return_counts=True)
    sums = [AMOUNTS[key == KEYS].sum() for key in distinct]
    assert np.array_equal(np.sort(computed(dask, ghd.unique(keys, shards=shards), home)), distinct)
    assert dask.compute(ghd.nunique(keys, shards=shards)) == (len(distinct),)
    for made, wanted in ((ghd.value_counts(keys, shards=shards), counts),
                         (ghd.group_reduce(keys, amounts, shards=shards), sums)):  # fmt: skip
        pairs = made if which else [[pair[0] for pair in made], [pair[1] for pair in made]]
        found, results = (computed(dask, part, home) for part in pairs)
        order = np.argsort(found)
        assert np.array_equal(found[order], distinct)
        assert np.array_equal(results[order], wanted)
    codes, known = ghd.factorize(keys, shards=shards)
    assert not which or type(codes._meta) is type(known._meta) is type(ghd.isin(keys, put(KEYS))._meta) is Rows
    assert np.array_equal(computed(dask, known, home)[computed(dask, codes, cupy)], KEYS)
    among = np.array([-3, 4, 5, 99])
    for others in (
        among,
        among.astype("i1"),
        [-3, 4, 5, 2**40],
        on_gpus(dask, put, among)[0],
    ):
        assert np.array_equal(computed(dask, ghd.isin(keys, others), cupy), np.isin(KEYS, among))
    assert np.array_equal(computed(dask, ghd.isin(keys, put(among)), cupy), np.isin(KEYS, among))
    with pytest.raises(TypeError, match="keys have dtype int64, among float64: convert one of them"):
        computed(dask, ghd.isin(keys, among / 2))


def test_integers_that_the_keys_cannot_hold_are_not_among_them(dask, put):
    import pygpuhash.dask as ghd

    keys = on_gpus(dask, put, KEYS.astype("i4"))[0]
    others = np.array([3 + 2**32, -(2**32), 7])  # which a cast would make 3, 0 and 7
    assert np.array_equal(computed(dask, ghd.isin(keys, others)), KEYS == 7)
    one = ghd.isin(on_gpus(dask, put, KEYS.astype("u4") % 9)[0], others)  # another type, of the same column beside it
    assert np.array_equal(computed(dask, one), KEYS.astype("u4") % 9 == 7)


def test_keys_of_the_host_are_among_those_of_a_gpu(dask, put):
    import pygpuhash.dask as ghd

    parts = [dask.delayed(KEYS[rows]) for rows in CUTS]
    assert np.array_equal(computed(dask, ghd.isin(parts, put(np.array([1, 2])))), np.isin(KEYS, [1, 2]))


def test_frames_of_cudf_are_refused_with_a_way_out(dask):
    import pygpuhash.dask as ghd

    class Frame:
        npartitions, ndim = 2, 2
        dtypes = _meta = type("DataFrame", (), {"__module__": "cudf.core.dataframe"})()
        to_delayed = None

    Frame.__module__ = "dask.dataframe.dask_expr"
    with pytest.raises(gh.Unsupported, match=r'frame has parts of cuDF: .* CuPy, .*or frame[.]to_backend\("pandas"\)'):
        ghd.drop_duplicates(Frame())


def test_parts_of_other_widths_and_types(dask, put):
    import pygpuhash.dask as ghd

    made = dask.delayed(lambda kind: put(np.array([1, 2, 2], kind)))
    pairs = dask.compute(*ghd.value_counts([made("i4"), made("i8"), dask.delayed(np.array)([2, 3])], shards=2))
    counts = {key: many for keys, each in pairs for key, many in zip(keys.tolist(), each.tolist(), strict=True)}
    assert counts == {1: 2, 2: 5, 3: 1}
    with pytest.raises(TypeError, match=r"keys of partials\[1\] has type float64, keys of partials\[0\] int64"):
        dask.compute(*ghd.unique([made("i8"), made("f8")], shards=2))


def test_workers_of_another_version_are_refused(dask, put, monkeypatch):
    import pygpuhash.dask as ghd
    from pygpuhash import _dask_tasks

    keys = on_gpus(dask, put, KEYS)[0]
    asked = [ghd.nunique(keys), ghd.isin(keys, [1])[0], ghd.factorize(keys)[0][0]]
    monkeypatch.setattr(_dask_tasks, "VERSIONS", ("0.0.1", 1))
    for one in asked:
        with pytest.raises(
            gh.Unsupported, match=r"a worker has gpuhash 0\.0\.1 with version 1 of the hash, the client"
        ):
            dask.compute(one)
