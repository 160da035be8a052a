"""Batches on a GPU of tables in shards, over a fake driver, library of arrays and cards.

Everything that is queued waits for its turn (tests/python/fake_cuda.py), memory is of one card, and a copy from one to
another names both: what does not wait for the step before it sees what was there before. Two cards that are there:
tests/gpu/test_sharded.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _peers, _routes, sharded

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import fake_bytes
import fake_cuda
import fake_libraries
import fake_shards

CARDS = ["cuda:0", "cuda:1"]


@pytest.fixture
def cuda(monkeypatch):
    with fake_cuda.installed(monkeypatch) as fake:
        fake_shards.partition(monkeypatch, fake, [])
        fake.allocates_late = True
        yield fake


@pytest.fixture
def cupy(cuda, monkeypatch):
    fake_shards.collect(monkeypatch, cuda)
    return fake_shards.cupy(monkeypatch, cuda)


@pytest.fixture(params=[1, 3])
def chunks(request):
    """Into how many a batch is cut, however few rows it has."""
    return request.param


@pytest.fixture(params=[CARDS, ["cpu", "cpu"], ["cuda:1", "cpu"], "apart"], ids="+".join)
def devices(request, cuda):
    """ "apart": two cards that do not reach each other, so that rows are staged and copied."""
    cuda.reach = request.param != "apart"
    return request.param if cuda.reach else CARDS


def make(cuda, devices, chunks=1, **how):
    return sharded.Table(transport=fake_shards.local(cuda)(devices, chunks=chunks), **how)


def host(array):
    return array.array


@pytest.mark.parametrize("shards", [None, 5])
def test_operations_are_those_of_a_dict(cuda, cupy, devices, chunks, shards):
    random = np.random.default_rng(chunks)
    put, model = cupy.asarray, {}
    with make(cuda, devices, chunks, shards=shards) as table:
        for turn in range(5):
            keys = np.unique(random.integers(0, 90, 60)).astype("u8")
            random.shuffle(keys)
            values = random.integers(-9, 9, len(keys))
            pairs = dict(zip(keys.tolist(), values.tolist(), strict=True))
            there = [k in model for k in keys.tolist()]
            found_values, found = table.find(put(keys))
            assert type(found_values) is type(found) is cupy.ndarray
            assert host(found).dtype == bool
            assert host(found).tolist() == there == host(table.contains(put(keys))).tolist()
            assert host(found_values).tolist() == [model.get(k, 0) for k in keys.tolist()]
            method = ("insert", "insert_or_assign", "accumulate")[turn % 3]
            mask = getattr(table, method)(put(keys), put(values))
            assert host(mask).tolist() == [not yes for yes in there]
            for k, v in pairs.items():
                model[k] = {
                    "insert": model.get(k, v), "insert_or_assign": v, "accumulate": model.get(k, 0) + v,
                }[method]  # fmt: skip
            few = np.unique(random.integers(0, 90, 10)).astype("u8")
            assert host(table.erase(put(few))).tolist() == [model.pop(k, None) is not None for k in few.tolist()]
            exported, amounts = table.export()
            assert dict(zip(exported.tolist(), amounts.tolist(), strict=True)) == model
        table.check()
        table.clear()
        assert not host(table.contains(put(np.arange(90, dtype="u8")))).any()
        assert host(table.insert(put(keys), put(values))).all()
    assert not cuda.pooled, "memory was not given back"
    assert not cuda.contexts


def test_equal_keys_shapes_and_one_value_for_all(cuda, cupy, devices, chunks):
    put = cupy.asarray
    with make(cuda, devices, chunks) as table:
        assert host(table.insert(put(np.arange(12, dtype="u8").reshape(3, 4)), 7)).tolist() == [[True] * 4] * 3
        values, found = table.find(put(np.arange(24, dtype="u8").reshape(2, 3, 4)))
        assert host(values).tolist() == [[[7] * 4] * 3, [[0] * 4] * 3]
        assert host(found).shape == (2, 3, 4)
        keys = np.repeat(np.arange(10, 15, dtype="u8"), 20)
        assert host(table.accumulate(put(keys), 1)).sum() == 3
        assert host(table.accumulate(put(keys), put(np.arange(100)), op="max")).sum() == 0
        assert host(table.find(put(np.arange(10, 15, dtype="u8")))[0]).tolist() == [27, 39, 59, 79, 99]
        for empty in (np.empty(0, "u8"), np.empty((0, 3), "u8")):
            values, found = table.find(put(empty))
            assert host(values).shape == host(found).shape == empty.shape
            assert host(table.insert(put(empty), put(empty.astype("i8")))).shape == empty.shape


@pytest.mark.parametrize(
    ("key", "value"),
    [("i4", "f4"), ("u4", None), ("i2", "i2"), ("f8", "f2"), ("i8", ("f4", 3)), ("M8[us]", "m8[s]")],
)
def test_dtypes(cuda, cupy, devices, chunks, key, value):
    """Keys are of the shards that they are of on the host: batches from both are of one table."""
    put = cupy.asarray
    with make(cuda, devices, chunks, key_dtype=key, value_dtype=value, shards=3) as table:
        rng = np.random.default_rng(1)
        keys = np.unique(rng.integers(-200, 200, 100)).astype("i8" if key == "M8[us]" else key)
        keys = np.unique(keys)
        shape = (len(keys), 3) if isinstance(value, tuple) else len(keys)
        stored = {"m8[s]": "i8", ("f4", 3): "f4"}.get(value, value)
        given = [] if value is None else [rng.integers(0, 50, shape).astype(stored)]
        half = len(keys) // 2
        assert host(table.insert(put(keys[:half]), *(put(part[:half]) for part in given))).all()
        others = [part[half:].view(value) if value == "m8[s]" else part[half:] for part in given]
        assert table.insert(keys[half:].view(key), *others).all()
        values, found = table.find(put(keys))
        assert host(found).all()
        if value is None:
            assert values is None
        else:
            assert host(values).dtype == np.dtype(stored)
            assert np.array_equal(host(values), given[0])
        assert table.contains(keys.view(key)).all()
        assert len(table) == len(keys)
        table.check()


def test_batches_of_both_cards(cuda, cupy, chunks):
    """Rows go from the card that they lie on, whichever it is, and answers come back to it."""
    with make(cuda, CARDS, chunks) as table:
        for card in (1, 0, 2):  # the third has no shard
            fake_libraries.ndarray.device = card
            try:
                keys = cupy.asarray(np.arange(card * 100, card * 100 + 100))
                assert host(table.insert(keys, keys)).all()
                values, found = table.find(keys)
            finally:
                fake_libraries.ndarray.device = 0
            assert values.data.device_id == found.data.device_id == card
            assert host(values).tolist() == host(keys).tolist()
        assert len(table) == 300
        assert table._transport.lanes.copied > 0
        assert cuda.between == [], "rows were copied that kernels have moved"
        assert set(cuda.opened) == {(0, 1), (1, 0), (0, 2), (1, 2)}


def test_batches_of_cards_that_do_not_reach_each_other(cuda, cupy, chunks):
    cuda.reach = False
    with make(cuda, CARDS, chunks) as table:
        keys = [on_card(cupy, np.arange(card * 100, card * 100 + 100), card) for card in (0, 1)]
        assert all(host(mask).all() for mask in table.insert(keys, keys))
        assert all(host(found).all() for found in table.find(keys)[1])
        moved = sum(nbytes for _, _, nbytes in cuda.between)
        assert table._transport.lanes.copied == moved > 0
        assert {pair[:2] for pair in cuda.between} == {(1, 0), (0, 1)}


def test_more_shards_than_have_places_of_their_own(cuda, cupy, chunks):
    """Rows are staged by shard, and copied."""
    shards = _core.MOST_SPREAD + 3
    with make(cuda, CARDS, chunks, shards=shards) as table:
        keys = [on_card(cupy, np.arange(card * 400, card * 400 + 300), card) for card in (0, 1)]
        assert all(host(mask).all() for mask in table.accumulate(keys, 2, tag="x"))
        assert not any(host(mask).any() for mask in table.accumulate(keys, 2, tag="x"))
        values, found = table.find(keys)
        assert all(host(own).all() for own in found)
        assert [host(own).tolist() for own in values] == [[2] * 300] * 2
        assert cuda.between
        table.check()
    assert not cuda.pooled


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("fails", ["the table", "a copy", "memory"])
def test_errors_of_a_card(cuda, cupy, monkeypatch, fails, dead):
    """A card whose streams cannot be waited for has lost its shard, whatever has failed first."""
    cuda.reach = fails != "a copy"
    with make(cuda, CARDS) as table:
        keys = cupy.asarray(np.arange(100))
        table.insert(keys, 1)

        def cannot(*given):
            raise fake_cuda.CUDAError("CUDA_ERROR_ILLEGAL_ADDRESS")

        with monkeypatch.context() as failing:
            if dead:
                failing.setattr(type(table._transport.lanes.of(1, 1).going), "sync", cannot)
                failing.setattr(cuda.driver, "cuMemFreeAsync", lambda *given: (700,))
            if fails == "the table":
                poisoned = gh.Poisoned("the device reported an error")
                failing.setattr(table._transport._shards[1].table, "_raw", lambda *given, **rest: poisoned)
            elif fails == "memory":
                allocate = cuda.driver.cuMemAllocFromPoolAsync
                failing.setattr(
                    cuda.driver,
                    "cuMemAllocFromPoolAsync",
                    lambda n, pool, stream: (700, 0) if pool.location.id == 1 else allocate(n, pool, stream),
                )
            else:
                failing.setattr(cuda.driver, "cuMemcpyPeerAsync", lambda *given: (700,))
            lost = dead or fails == "the table"
            with pytest.raises(gh.ShardLost if lost else gh.DeviceError, match="shard 1 is lost" if lost else "700"):
                table.find(keys)
        if lost:
            with pytest.raises(gh.ShardLost):
                table.find(keys)
        else:
            assert host(table.find(keys)[1]).all()
            assert not cuda.pooled


def on_card(cupy, array, card):
    fake_libraries.ndarray.device = card
    try:
        return cupy.asarray(array)
    finally:
        fake_libraries.ndarray.device = 0


def test_a_batch_on_each_card(cuda, cupy, devices, chunks):
    """One call: answers come home to each card, and each shard has served all rows at once."""
    given = [np.arange(100).reshape(4, 25), np.empty(0, "i8"), np.arange(100, 407), np.arange(50, 150)]
    keys = [on_card(cupy, own, card) for card, own in enumerate(given)]
    with make(cuda, devices, chunks) as table:
        calls = [getattr(shard.table, "calls", None) for shard in table._transport._shards]
        masks = table.insert(keys, [on_card(cupy, own * 2, card) for card, own in enumerate(given)])
        assert [host(mask).shape for mask in masks] == [own.shape for own in given]
        assert sum(int(host(mask).sum()) for mask in masks) == len(table) == 407
        assert all(own is None or len(own) == chunks for own in calls)
        values, found = table.find(keys)
        for card, own in enumerate(given):
            assert values[card].data.device_id == found[card].data.device_id == card
            assert np.array_equal(host(values[card]), own * 2)
            assert host(found[card]).all()
        assert [int(host(mask).sum()) for mask in table.accumulate(tuple(keys), 1)] == [0] * 4
        assert host(table.find(keys[3])[0]).tolist() == [k * 2 + (2 if k < 150 else 1) for k in range(50, 150)]
        assert [host(mask).all() for mask in table.contains(keys)] == [True] * 4
        with pytest.raises(ValueError, match="there are values of 2 batches, and keys of 4: pass one of each"):
            table.insert(keys, keys[:2])
        for mixed in ([1, *keys[1:]], [1, 2, 3, 4], keys[0]):
            with pytest.raises(TypeError, match="values of several batches are an array on a GPU for each"):
                table.insert(keys, mixed)
    with make(cuda, devices, chunks, backend="linear_probe", capacity=64, grow=False) as table:
        keys = [on_card(cupy, np.arange(card * 2500, card * 2500 + 2500), card) for card in (0, 1)]
        with pytest.raises(gh.TableFull) as refused:
            table.insert(keys, 1)
        assert set(table.export()[0].tolist()) == set(np.arange(5000)[~refused.value.failed].tolist())
    assert not cuda.pooled


def test_only_rows_of_other_cards_travel(cuda, cupy):
    keys = np.arange(1000, dtype="u8")
    away = int((gh.shard_of(keys, 2) == 1).sum())
    with make(cuda, CARDS) as table:
        table.insert(cupy.asarray(keys), cupy.asarray(keys.astype("i8")))
        assert table._transport.lanes.copied == (8 + 8 + 1) * away
        table.find(cupy.asarray(keys))
        assert table._transport.lanes.copied == 2 * (8 + 8 + 1) * away
        assert not cuda.between
        assert cuda.with_host == [24, 24], "more than where the two shards begin and end came to the host"


def test_cards_that_do_not_reach_each_other(cuda, cupy, chunks):
    """The driver takes the same copies over the host, and the table says so."""
    cuda.reach = False
    with make(cuda, CARDS, chunks) as table:
        keys = cupy.asarray(np.arange(100))
        table.insert(keys, keys)
        assert host(table.find(keys)[0]).tolist() == list(range(100))
        assert cuda.opened == []
        assert table.stats["over host"] == [("cuda:0", "cuda:1")]
    cuda.reach = True
    _peers.reaches.cache_clear()
    with make(cuda, CARDS, chunks) as table:
        assert table.stats["over host"] == []
    with sharded.Table() as table:
        assert table.stats["over host"] == []


def test_batches_of_more_rows_than_places_can_count(cuda, cupy, devices, monkeypatch):
    monkeypatch.setattr(_routes, "_MOST_ROWS", 90)
    with make(cuda, devices) as table:
        keys = cupy.asarray(np.arange(200))
        assert host(table.insert(keys, keys)).all()
        assert host(table.find(keys)[0]).tolist() == list(range(200))
        for shard in table._transport._shards:
            assert len(getattr(shard.table, "calls", [0] * 6)) == 6, "two calls, of three chunks each"


def test_chunks_that_are_no_number():
    with pytest.raises(gh.InvalidArgument, match="chunks=0 is out of range"):
        sharded.Local(chunks=0)


def test_a_batch_with_a_tag_is_carried_out_once(cuda, cupy, devices, chunks):
    with make(cuda, devices, chunks) as table:
        keys = cupy.asarray(np.arange(100))
        assert host(table.accumulate(keys, 1, tag="monday")).all()
        assert not host(table.accumulate(keys, 1, tag="monday")).any()
        assert not table.accumulate(np.arange(100), 1, tag="monday").any()
        assert host(table.find(keys)[0]).tolist() == [1] * 100
        with pytest.raises(TypeError, match="tag=7 is a int: pass a text"):
            table.insert(keys, 1, tag=7)


def test_a_shard_that_is_full(cuda, cupy, devices, chunks):
    """The status of each key, in the order of the batch; a part that was refused is repeated under its tag."""
    with make(cuda, devices, chunks, backend="linear_probe", capacity=64, grow=False) as table:
        keys = np.arange(5000)
        with pytest.raises(gh.TableFull) as refused:
            table.accumulate(cupy.asarray(keys.reshape(50, 100)), 1, tag="x")
        failed = refused.value.failed
        assert failed.shape == (50, 100)
        assert 0 < failed.sum() < 5000
        assert set(table.export()[0].tolist()) == set(keys[~failed.reshape(-1)].tolist())
        assert "shard" in refused.value.__notes__[0]
        assert not cuda.pooled
    with make(cuda, devices, chunks, backend="linear_probe", capacity=64, grow=False) as table:
        mine = keys[gh.shard_of(keys, 2) == 0]
        other = keys[gh.shard_of(keys, 2) == 1][:5]
        with pytest.raises(gh.TableFull):
            table.accumulate(cupy.asarray(np.concatenate([mine, other])), 1, tag="x")
        with pytest.raises(gh.TableFull) as refused:  # shard 1 leaves its part out, and says of none that it was new
            table.accumulate(cupy.asarray(np.concatenate([mine, other])), 1, tag="x")
        assert refused.value.status.reshape(-1)[-5:].tolist() == [0] * 5
        table.erase(cupy.asarray(mine))
        table.accumulate(cupy.asarray(np.concatenate([mine[:5], other])), 1, tag="x")
        assert sorted(table.export()[0].tolist()) == sorted([*mine[:5].tolist(), *other.tolist()])


def test_a_shard_that_is_lost(cuda, cupy, devices, chunks):
    with make(cuda, devices, chunks) as table:
        keys = cupy.asarray(np.arange(100))
        table.insert(keys, 1)
        table._transport.lose(1)
        for call in (lambda: table.find(keys), lambda: table.insert(cupy.asarray(np.empty(0, "i8")), 1)):
            with pytest.raises(gh.ShardLost, match="shard 1 is lost, with its keys; there is no snapshot"):
                call()
    assert not cuda.pooled


def test_a_card_that_fails_loses_its_shard_only(cuda, cupy, monkeypatch):
    with make(cuda, CARDS) as table:
        keys = cupy.asarray(np.arange(100))
        table.insert(keys, 1)

        def fails(*given, **rest):
            raise gh.Poisoned("the device reported an error")

        monkeypatch.setattr(table._transport._shards[1].table, "_raw", fails)
        with pytest.raises(gh.ShardLost, match="shard 1 is lost: the device reported an error"):
            table.find(keys)
        assert [own.table is None for own in table._transport._shards] == [False, True]
        assert not cuda.pooled, "memory was not given back"
        assert not cuda.contexts


def test_a_copy_on_the_card_of_the_keys_answers(cuda, cupy):
    with make(cuda, CARDS) as table:
        table.insert(np.arange(100), np.arange(100) * 2)
        with table.replicate() as copy:
            for own in copy._transport._shards:
                own.table = own.table.table._pretend(_core.CUDA)
            cuda.between.clear()
            values, found = copy.find(cupy.asarray(np.arange(50, 150)))
            assert host(found).tolist() == [True] * 50 + [False] * 50
            assert host(values)[:50].tolist() == list(range(100, 200, 2))
            assert host(copy.contains(cupy.asarray(np.arange(99, 101)))).tolist() == [True, False]
            assert not cuda.between
            fake_libraries.ndarray.device = 2
            try:
                keys = cupy.asarray(np.arange(3))
            finally:
                fake_libraries.ndarray.device = 0
            with pytest.raises(gh.Unsupported, match="keys are on cuda:2, where there is no copy of the table"):
                copy.find(keys)


def test_other_libraries(cuda, cupy, chunks):
    """Anything with the interfaces of CUDA: results are the package's own arrays."""
    from pygpuhash import _cuda

    with make(cuda, CARDS, chunks) as table:
        keys = _cuda.from_host(np.arange(100, dtype="u8"), 0, 0)
        assert table.insert(keys, _cuda.from_host(np.arange(100), 0, 0)).get().all()
        values, found = table.find(keys)
        assert type(values) is type(found) is gh.DeviceArray
        assert values.get().tolist() == list(range(100))
        assert found.get().all()


def test_what_is_refused(cuda, cupy, devices, monkeypatch):
    keys, host_keys = cupy.asarray(np.arange(10)), np.arange(10)
    with make(cuda, devices) as table, make(cuda, devices, value_dtype=None) as set_:
        for call, error, message in [
            (lambda: table.insert(keys), TypeError, "this table holds int64 values: pass values, one per key or"),
            (lambda: set_.insert(keys, 1), TypeError, r"this table is a set \(value_dtype=None\): leave them out"),
            (lambda: table.insert(keys, cupy.asarray(np.arange(9))), ValueError, r"values have shape \(9,\), keys"),
            (lambda: table.insert(keys, host_keys), gh.InvalidArgument, "keys are on a CUDA device and values on the"),
            (lambda: table.insert(host_keys, keys), gh.Unsupported, "values are on a GPU and keys on the host"),
            (lambda: table.accumulate(keys, 1, op="xor"), gh.InvalidArgument, "op='xor' is none of"),
            (lambda: table.insert(cupy.asarray(np.arange(3.0)), 1), TypeError, "keys have dtype float64, the table"),
        ]:  # fmt: skip
            with pytest.raises(error, match=message):
                call()
        assert len(table) == len(set_) == 0
    for key in ("M8[D]", "S12", "?", "f2", "c8", [("a", "i4"), ("b", "u8")]):
        with (
            make(cuda, devices, key_dtype=key) as table,
            pytest.raises(
                gh.Unsupported, match=r"are divided into shards on the host alone: copy them .*, [(]'u1', 16[)]"
            ),
        ):
            table.contains(keys)
    text = fake_bytes.column("u", ["a", "bb"])
    for key in ("i8", ("u1", 16)):
        with make(cuda, devices, key_dtype=key) as table:
            for given in (text, [text, text]):
                with pytest.raises(
                    gh.Unsupported, match=r"keys are a Column, a column of Arrow on a GPU, .* text as rows"
                ):
                    table.insert(given, 1)
    with make(cuda, devices, value_dtype="f2") as table:
        other = gh.DeviceArray.from_dlpack(cupy.asarray(np.arange(10, dtype="u8")))
        with pytest.raises(TypeError, match="float16 results need CuPy, PyTorch or JAX arrays"):
            table.find(other)
    rows = cupy.asarray(np.zeros((10, 2), "f4"))
    for value, given, message in [
        (("f4", 2), rows, "cannot be accumulated: only single numbers can"),
        ("M8[s]", keys, "cannot be added: use op='min' or op='max'"),
    ]:
        with make(cuda, devices, value_dtype=value) as table, pytest.raises(TypeError, match=message):
            table.accumulate(keys, given)
    with make(cuda, devices) as table, fake_libraries.Stream(7):
        monkeypatch.setattr(cuda, "capturing", {7})
        with pytest.raises(gh.InvalidArgument, match="is being captured into a graph"):
            table.contains(keys)
        monkeypatch.setattr(cuda, "capturing", set())


ROWS = [("u1", 16), ("i4", 3), ("u4", (1,)), ("f4", 2), ("u2", (2, 5)), ("i8", 4)]


@pytest.mark.parametrize("shards", [None, 20])
@pytest.mark.parametrize("kind", ROWS, ids=str)
def test_rows_of_numbers_are_keys(cuda, cupy, devices, chunks, kind, shards):
    """In each shard that the host gives them, so that batches of both find each other's keys."""
    random = np.random.default_rng(len(str(kind)))
    base, shape = np.dtype(kind[0]), np.dtype(kind).shape or (1,)
    keys = random.integers(0, 2, (200, *shape)).astype(base)
    keys[:, ..., -1] = np.arange(200).reshape((200,) + (1,) * (len(shape) - 1))
    values = np.arange(200)
    put = cupy.asarray
    with make(cuda, devices, chunks, shards=shards, key_dtype=kind) as table:
        assert host(table.insert(put(keys[:150]), put(values[:150]))).all()
        assert table.insert(keys[150:], values[150:]).all()
        found, mask = table.find(put(keys))
        assert host(mask).all()
        assert host(found).tolist() == table.find(keys)[0].tolist() == values.tolist()
        assert not host(table.accumulate(put(keys), put(values))).any()
        assert not host(table.insert_or_assign(put(keys[:7]), 5)).any()
        masks = table.contains([put(keys[:100]), put(keys[100:])])
        assert [host(mask).all() for mask in masks] == [True, True]
        absent = keys + (np.arange(keys[0].size).reshape(shape) == 0).astype(base) * (3 if keys[0].size > 1 else 1000)
        assert not host(table.contains(put(absent))).any()
        assert not table.contains(absent).any()
        assert host(table.erase(put(np.ascontiguousarray(keys[::2])))).all()
        assert len(table) == 100
        assert table.find(keys[1])[0] == 5
        table.check()
        with pytest.raises(ValueError, match=r"keys have shape \(200,\)"):
            table.find(put(np.zeros(200, base)))
        with pytest.raises(TypeError, match="keys have dtype float64, the table holds"):
            table.find(put(keys.astype("f8")))


def test_transports_to_other_processes_take_host_arrays(cuda, cupy):
    class Other:
        devices, travels, leads = ["cpu"], True, True

        def open(self, shards, make):
            pass

    table = sharded.Table(transport=Other())
    with pytest.raises(gh.Unsupported, match="keys are on a GPU, and Other takes host arrays: copy them"):
        table.accumulate(cupy.asarray(np.arange(3)), 1)
