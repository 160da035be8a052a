"""Tables in shards: every operation against a dict, and what is lost."""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import sharded, transports

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_torch
from tables import Together, contents, filled


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("structure", ["linear_probe", "hive"])
def test_operations_are_those_of_a_dict(transport, shards, structure):
    compare_with_a_dict(transport, shards, structure)


@pytest.mark.parametrize("shards", [129, 257])
def test_more_shards_than_keys(shards):
    compare_with_a_dict(lambda: sharded.Local(["cpu", "cpu"]), shards, "linear_probe")


def compare_with_a_dict(transport, shards, structure):
    random_ = np.random.default_rng(shards)
    model = {}
    with sharded.Table(structure, shards=shards, transport=transport()) as table:
        for _ in range(6):
            keys = random_.integers(0, 60, 20).astype("u8")
            values = random_.integers(-9, 9, 20)
            pairs = list(zip(keys.tolist(), values.tolist(), strict=True))
            assert table.contains(keys).tolist() == [k in model for k in keys.tolist()]
            found_values, found = table.find(keys)
            assert found.tolist() == [k in model for k in keys.tolist()]
            assert found_values.tolist() == [model.get(k, 0) for k in keys.tolist()]
            table.accumulate(keys, values)
            for k, v in pairs:
                model[k] = model.get(k, 0) + v
            few = np.unique(random_.integers(0, 60, 10)).astype("u8")
            assert table.erase(few).tolist() == [model.pop(k, None) is not None for k in few.tolist()]
            mask = table.insert_or_assign(keys, values)
            assert mask.sum() == len(set(keys.tolist()) - model.keys())
            model.update(pairs)
            fresh = np.unique(random_.integers(0, 60, 10)).astype("u8")
            assert table.insert(fresh, 7).tolist() == [k not in model for k in fresh.tolist()]
            model |= {k: 7 for k in fresh.tolist() if k not in model}
            assert contents(table) == model
        table.check()
        assert 5 in table or 5 not in model
        stats = table.stats
        assert stats["size"] == len(model)
        assert len(stats["shards"]) == table.shards == shards
        assert sum(s["size"] for s in stats["shards"]) == len(model)


def test_batches_keep_their_shape_and_dtype(transport):
    with sharded.Table(key_dtype="i4", value_dtype="f8", shards=4, transport=transport()) as table:
        keys = np.arange(12).reshape(3, 4)
        assert table.insert(keys, keys * 0.5).tolist() == np.ones((3, 4), bool).tolist()
        values, found = table.find(keys[:, ::2])
        assert values.dtype == np.float64
        assert values.tolist() == (keys[:, ::2] * 0.5).tolist()
        assert found.all()
        assert table.find([])[0].shape == (0,)
        assert table.accumulate(keys, 1.0, op="max").sum() == 0
        assert table.export()[0].dtype == np.int32
        assert 3 in table
        assert 99 not in table


def test_sets_text_of_fixed_width_and_rows(transport):
    with sharded.Table(key_dtype="S8", value_dtype=None, shards=3, transport=transport()) as table:
        assert table.insert([b"a", b"b", b"a"]).sum() == 2
        assert contents(table) == {b"a", b"b"}
        assert table.find([b"b", b"c"])[1].tolist() == [True, False]
        assert table.find([b"b"])[0] is None
        for call in (lambda: table.accumulate([b"a"]), lambda: table.insert([b"a"], [1])):
            with pytest.raises(TypeError, match="values are given, and this table is a set"):
                call()
    with sharded.Table(value_dtype=("f4", 2), shards=3, transport=transport()) as table:
        table.insert([1, 2], [[1, 2], [3, 4]])
        assert table.find([2, 1])[0].tolist() == [[3, 4], [1, 2]]


def test_a_cleared_table_is_as_new(transport, tmp_path):
    """Without keys and tags; snapshots and copies stay as they are."""
    with filled(50, transport=transport()) as table:
        table.accumulate(np.arange(50), 1, tag="monday")
        table.save(tmp_path / "full")
        with table.replicate() as copy:
            table.clear()
            assert len(copy) == 50
        assert contents(table) == {}
        assert not table.contains(np.arange(60)).any()
        table.check()
        assert str(tmp_path / "full") in table.stats["snapshot"]
        table.save(tmp_path / "empty")
        table.clear()
        assert table.accumulate(np.arange(20), 3, tag="monday").all()
        assert contents(table) == dict.fromkeys(range(20), 3)
    with sharded.load(tmp_path / "empty", shards=5, transport=transport()) as table:  # it has no tags
        assert contents(table) == {}
    with sharded.load(tmp_path / "full", transport=transport()) as table:
        assert contents(table) == {key: key * 2 + 1 for key in range(50)}
        table.accumulate(np.arange(50), 1, tag="monday")
        table.clear()
        assert table.accumulate([7], 1, tag="monday").all()


@pytest.mark.parametrize(
    ("how", "key", "value"),
    [
        ({}, 5, 7),
        ({"key_dtype": "S16"}, b"five", 7),
        ({"key_dtype": [("a", "i4"), ("b", "u8")]}, (5, 6), 7),
        ({"key_dtype": ("u4", 2)}, [5, 6], 7),
        ({"value_dtype": ("f4", 2)}, 5, [0.5, 7]),
    ],
)
def test_a_single_key(transport, how, key, value):
    """What gh.Table answers for it, numpy's scalars."""
    with sharded.Table(shards=3, transport=transport(), **how) as table, gh.Table(**how) as whole:
        for one in (table, whole):
            assert one.insert(key, value) is np.True_
            assert one.insert_or_assign(key, value) is np.False_
            values, found = one.find(key)
            assert found is np.True_
            assert values.tolist() == value
            assert one.contains(key) is np.True_
        with table.replicate() as copy:
            assert copy.find(key)[0].tolist() == value
            assert copy.contains(key) is np.True_
        if how.get("value_dtype") is None:
            assert table.accumulate(key, 3) is np.False_
            assert table.find(key)[0] == 10
        assert table.erase(key) is np.True_
        assert key not in table


RECORD = np.dtype([("a", "i4"), ("b", "u8"), ("name", "S4")])
KINDS = {
    "S8": lambda n: np.array([f"{i:x}" for i in n], "S8"),
    "S24": lambda n: np.array([f"key {i:016}" for i in n], "S24"),
    "record": lambda n: np.array([(i, i * i, f"{i % 7}") for i in n.tolist()], RECORD),
    "rows of integers": lambda n: np.stack([n, -n, n * n], axis=1).astype("i4"),
    "rows of floats": lambda n: np.stack([n / 4, np.sqrt(n)], axis=1),
    "complex": lambda n: n - 2j * n,
    "float": lambda n: (n / 8).astype("f2"),
    "date": lambda n: n.astype("M8[D]"),
    "bool": lambda n: n % 2 == 0,
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_any_fixed_width(transport, kind, tmp_path):
    """Bytes, records, rows of numbers: all operations against a dict, each shard's invariants, a copy, a snapshot."""
    of, random_ = KINDS[kind], np.random.default_rng(len(kind))
    some = of(np.arange(1, 4))
    dtype = (some.dtype, *some.shape[1:]) if some.ndim > 1 else some.dtype
    model: dict[bytes, int] = {}

    def spelled(keys):
        return [key.tobytes() for key in keys]

    with sharded.Table(key_dtype=dtype, shards=3, transport=transport()) as table:
        for _ in range(3):
            keys = of(random_.integers(0, 60, 90))
            table.accumulate(keys, 2)
            for key in spelled(keys):
                model[key] = model.get(key, 0) + 2
            few = of(np.unique(random_.integers(0, 60, 10)))
            assert table.erase(few[:1]).tolist() == [model.pop(spelled(few)[0], None) is not None]
            table.insert_or_assign(few, 7)
            model |= dict.fromkeys(spelled(few), 7)
            assert table.insert(few, 9).sum() == 0
            everything = of(np.arange(80))
            values, found = table.find(everything)
            assert values.tolist() == [model.get(key, 0) for key in spelled(everything)]
            assert (
                found.tolist() == table.contains(everything).tolist() == [key in model for key in spelled(everything)]
            )
        exported, values = table.export()
        assert exported.dtype == some.dtype
        assert exported.shape[1:] == some.shape[1:]
        assert dict(zip(spelled(exported), values.tolist(), strict=True)) == model
        table.check()
        with table.replicate() as copy:
            assert copy.find(everything)[0].tolist() == table.find(everything)[0].tolist()
        table.save(tmp_path / "t")
    with sharded.load(tmp_path / "t", shards=5, transport=transport()) as table:
        table.check()
        assert table.find(everything)[0].tolist() == [model.get(key, 0) for key in spelled(everything)]


@pytest.mark.parametrize("dtype", [str, bytes])
def test_keys_of_any_length_are_refused_by_name(dtype):
    with pytest.raises(gh.Unsupported, match=rf"key_dtype={dtype!r}: keys of a table in shards have one width.*'S16'"):
        sharded.Table(key_dtype=dtype)


def test_what_the_refusal_of_text_says_works(transport):
    words = np.array(["one", "two", "", "one"])
    with sharded.Table(key_dtype="S16", shards=3, transport=transport()) as table:
        with pytest.raises(TypeError, match=r"keys are text, the table holds bytes: pass np\.char.encode"):
            table.accumulate(words, 1)
        table.accumulate(np.char.encode(words), 1)
        assert contents(table) == {b"one": 2, b"two": 1, b"": 1}


def test_threads_share_a_table(transport):
    with sharded.Table(shards=4, transport=transport()) as table:
        each = [threading.Thread(target=table.accumulate, args=(np.arange(500),)) for _ in range(6)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
        assert contents(table) == dict.fromkeys(range(500), 6)


def test_keys_of_other_dtypes_are_refused_by_name(transport):
    with filled(transport=transport()) as table:
        before = contents(table)
        for keys in (np.array([0.5]), np.array(["a"]), np.array([-1])):
            with pytest.raises((TypeError, OverflowError, ValueError), match="keys"):
                table.insert(keys, 1)
        assert table.contains(np.array([5], "i2")).all()
        with pytest.raises(ValueError, match=r"values have shape \(2,\), keys \(1,\)"):
            table.insert([1], [1, 2])
        with pytest.raises(TypeError, match="values"):
            table.insert_or_assign(np.arange(9), np.array(["a"] * 9))
        assert contents(table) == before


def test_a_batch_is_atomic_for_each_shard(transport):
    """A shard that has no room refuses its part, the others carry theirs out, and the status says which is which."""
    with sharded.Table("linear_probe", shards=4, capacity=400, grow=False, transport=transport()) as table:
        keys = np.arange(100_000)
        with pytest.raises(gh.TableFull) as refused:
            table.insert(keys, 1)
        failed = refused.value.failed
        assert failed.shape == keys.shape
        assert set(table.export()[0].tolist()) == set(keys[~failed].tolist())
        assert "shard" in refused.value.__notes__[0]


def test_equal_keys_of_a_batch(transport):
    """Each key is new once, whatever travels; what its values come to is what one table says."""
    keys = np.random.default_rng(4).zipf(1.3, (20, 50)) % 97
    values = np.random.default_rng(5).integers(-99, 99, keys.shape)
    for op in ("add", "min", "max"):
        with sharded.Table(shards=3, transport=transport()) as table, gh.Table() as whole:
            for _ in range(2):
                mask = table.accumulate(keys, values, op=op)
                assert mask.shape == keys.shape
                assert mask.sum() == whole.accumulate(keys, values, op=op).sum()
            assert contents(table) == dict(zip(*(part.tolist() for part in whole.export()), strict=True))
            assert table.accumulate(keys, 3, op=op).sum() == 0
            assert table.accumulate([], op=op).shape == (0,)


def test_equal_keys_that_find_no_room(transport):
    """The status of a key that was combined is that of all of its rows."""
    with sharded.Table("linear_probe", shards=2, capacity=64, grow=False, transport=transport()) as table:
        keys = np.repeat(np.arange(5000), 3).reshape(3, 5000)
        with pytest.raises(gh.TableFull) as refused:
            table.accumulate(keys, 1)
        failed = refused.value.failed
        assert failed.shape == keys.shape
        assert contents(table) == Counter(keys[~failed].tolist())


def test_replicas_answer_for_the_moment_at_which_they_were_made(transport):
    with filled(1000, transport=transport()) as table, table.replicate() as copy:
        table.erase(np.arange(500))
        for shape in ((0,), (1,), (7, 3), (1500,)):
            keys = np.random.default_rng(1).integers(0, 2000, shape)
            values, found = copy.find(keys)
            assert found.tolist() == (keys < 1000).tolist() == copy.contains(keys).tolist()
            assert values.tolist() == np.where(keys < 1000, keys * 2, 0).tolist()
        assert len(copy) == 1000
        assert 7 in copy
        assert 7 not in table
    with sharded.Table(value_dtype=None, shards=2, transport=transport()) as table:
        table.insert([1, 2])
        with table.replicate() as copy:
            assert copy.find([2, 3])[0] is None
            assert copy.find([2, 3])[1].tolist() == [True, False]


def test_keys_travel_once():
    """Of a batch with a frequent key one pair of it leaves the process."""
    calls = []

    class Counted(sharded.Local):
        travels = True

        def call(self, given):
            calls.extend(given)
            return super().call(given)

    with sharded.Table(shards=2, transport=Counted(["cpu", "cpu"])) as table:
        table.accumulate(np.repeat([5, 6, 7], 1000), 1)
        assert sum(len(call.given[0]) for call in calls) == 3
        assert contents(table) == {5: 1000, 6: 1000, 7: 1000}


def test_a_key_in_the_wrong_shard_is_found_by_check():
    local = sharded.Local(["cpu", "cpu"])
    with filled(transport=local, shards=None) as table:
        table.check()
        away = np.arange(1000)[gh.shard_of(np.arange(1000), 2) == 1][:1]
        local._shards[0].table.insert(away, 1)
        with pytest.raises(gh.Corrupt, match=r"shard 0 has keys of the shards \[1\]"):
            table.check()


# ---- what is done once -----------------------------------------------------------------------------------------------


def test_a_batch_with_a_tag_is_carried_out_once(transport, tmp_path):
    with sharded.Table(shards=3, transport=transport()) as table:
        for _ in range(3):
            table.accumulate(np.arange(50), 1, tag="monday")
        assert table.accumulate([7], 1, tag="tuesday").tolist() == [False]
        table.save(tmp_path / "t")
    with sharded.load(tmp_path / "t", transport=transport()) as table:
        table.accumulate(np.arange(50), 1, tag="monday")
        assert contents(table) == dict.fromkeys(range(50), 1) | {7: 2}
        with pytest.raises(TypeError, match="tag=7 is a int: pass a text"):
            table.insert([1], 1, tag=7)
    with pytest.raises(gh.Unsupported, match="has tags of batches, which are of its shards: load it with shards=3"):
        sharded.load(tmp_path / "t", shards=5)


def test_a_part_that_was_refused_is_repeated(transport):
    """The tag stays with the shards that carried their part out: the others do so the next time."""
    with sharded.Table("linear_probe", shards=2, capacity=64, grow=False, transport=transport()) as table:
        mine = np.arange(4000)[gh.shard_of(np.arange(4000), 2) == 0]
        batch = np.concatenate([mine, np.arange(4000)[gh.shard_of(np.arange(4000), 2) == 1][:5]])
        with pytest.raises(gh.TableFull):
            table.accumulate(batch, 1, tag="x")
        table.erase(mine)
        table.accumulate(np.concatenate([mine[:5], batch[-5:]]), 1, tag="x")
        assert contents(table) == dict.fromkeys([*mine[:5].tolist(), *batch[-5:].tolist()], 1)


# ---- what is lost ----------------------------------------------------------------------------------------------------


def test_every_call_after_a_loss_names_the_shard_and_the_snapshot(tmp_path):
    local = sharded.Local(["cpu"] * 3)
    table = filled(transport=local, shards=None)
    table.save(tmp_path / "t")
    local.lose(1)
    calls = {
        "insert": lambda: table.insert(np.arange(10), 1),
        "insert_or_assign": lambda: table.insert_or_assign([1], 1),
        "accumulate": lambda: table.accumulate([1]),
        "find": lambda: table.find([1]),
        "contains": lambda: table.contains([1]),
        "erase": lambda: table.erase([1]),
        "export": table.export,
        "len": lambda: len(table),
        "stats": lambda: table.stats,
        "check": table.check,
        "clear": table.clear,
        "save": lambda: table.save(tmp_path / "t", overwrite=True),
    }
    for name in ["export", *random.Random(3).sample(sorted(calls), len(calls))]:
        with pytest.raises(gh.ShardLost, match=r"shard 1 is lost, with its keys; the last snapshot is .*t \("):
            calls[name]()
    with sharded.load(tmp_path / "t") as again:
        assert len(again) == 1000
    assert sorted(p.name for p in (tmp_path / "t").glob("*.arrow")) == sorted(
        p.name for p in (tmp_path / "t").glob("s*w")
    )


def test_a_loss_that_a_batch_does_not_meet_is_met_by_the_next():
    local = sharded.Local(["cpu"] * 2)
    table = filled(transport=local, shards=2)
    mine = np.arange(1000)[gh.shard_of(np.arange(1000), 2) == 0]
    local.lose(1)
    assert table.contains(mine).all()
    with pytest.raises(gh.ShardLost, match="there is no snapshot: load one"):
        table.contains(np.arange(1000))
    with pytest.raises(gh.ShardLost):
        table.contains(mine)


def test_a_device_that_fails_loses_its_shard_only(monkeypatch):
    local = sharded.Local(["cpu"] * 2)
    table = filled(transport=local, shards=2)

    def fails(shard, keys):
        raise gh.Poisoned("the device reported an error")

    monkeypatch.setattr(transports, "_SERVED", dict(transports._SERVED) | {"contains": fails})
    mine = np.arange(1000)[gh.shard_of(np.arange(1000), 2) == 0]
    with pytest.raises(gh.ShardLost, match="shard 0 is lost: the device reported an error"):
        table.contains(mine)
    assert [own.table is None for own in local._shards] == [True, False]


def test_a_tag_is_of_the_batch_of_one_process(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    group = fake_torch.Group(2)

    def process(rank):
        table = sharded.Table(transport=sharded.Torch(group.of(rank)), shards=3)
        for _ in range(2):
            table.accumulate(np.arange(rank * 50, rank * 50 + 100), 1, tag="monday")
        return table.find(np.arange(150))[0].tolist()

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(process, range(2)))
    assert found == [[1] * 50 + [2] * 50 + [1] * 50] * 2


def test_a_process_of_a_group_that_ends(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    together = Together()
    table = filled(transport=together)
    together.group.fails = "Connection closed by peer"
    for _ in range(2):
        with pytest.raises(gh.ShardLost, match=r"shard 0, or another process of the group, is lost: Connection closed"):
            table.export()


def test_a_client_of_dask_that_is_closed(monkeypatch, tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    client = distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    table = filled(transport=sharded.Dask(client))
    table.save(tmp_path / "t")
    unused = sharded.Dask(client)
    client.close()
    for call in (lambda: sharded.Dask(client), lambda: sharded.Table(transport=unused)):
        with pytest.raises(gh.InvalidArgument, match="the Dask client is closed: pass one that is connected"):
            call()
    for call in (lambda: table.contains([1]), lambda: len(table), table.clear, table.export):
        with pytest.raises(
            gh.ShardLost, match="the Dask client that kept it is closed, with its keys; the last snapsho"
        ):
            call()
    table.close()
    for other in (3, "tcp://127.0.0.1:8786"):
        with pytest.raises(TypeError, match=f"client={other!r} is a {type(other).__name__}: pass a distributed.Client"):
            sharded.Dask(other)

    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(gh.InvalidArgument, match="there is no Dask client: make one"):
        sharded.Dask()


def test_a_worker_of_dask_that_is_gone(client, monkeypatch):
    """Between the list of workers and the first shard: Dask itself would wait for it."""
    monkeypatch.setattr(transports, "_PATIENCE", 0.2)
    transport = sharded.Dask(client)
    transport._workers = ["inproc://192.0.2.9/1/1"]
    with pytest.raises(gh.ShardLost, match=r"shard 0 was not made: Dask's worker inproc://192.0.2.9/1/1 did not begin"):
        sharded.Table(transport=transport)


def test_workers_with_another_version_are_refused():
    make = transports.Maker("auto", "u8", "i8", 0, {})
    assert pickle.loads(pickle.dumps(make)) == make
    for other in (("9.9.9", transports.VERSIONS[1]), (transports.VERSIONS[0], 2)):
        with pytest.raises(gh.Unsupported, match=r"shard 3 is of gpuhash .*: install one version everywhere"):
            transports.Shard(3, make, "cpu", other)


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_what_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module(initialized=False))
    for make, error, message in [
        (lambda: sharded.Table(shards=0), gh.InvalidArgument, "shards=0 is out of range"),
        (lambda: sharded.Table(seed=-1), gh.InvalidArgument, "seed=-1"),
        (lambda: sharded.Table(device="cpu"), TypeError, "device= is decided by the transport"),
        (lambda: sharded.Table("nope"), gh.BackendNotFound, "nope"),
        (lambda: sharded.Local([]), gh.InvalidArgument, "devices is empty"),
        (lambda: sharded.Local([3]), TypeError, "devices has 3, a int"),
        (lambda: sharded.Local(["cuda:0", "cuda:0"]), gh.InvalidArgument, "has 'cuda:0' 2 times: pass each GPU once"),
        (lambda: sharded.Local(["cuda", "cpu", "cuda:0"]), gh.InvalidArgument, "has 'cuda:0' 2 times: pass each GPU"),
        (lambda: sharded.Local(["cuda:01", "cuda:1"]), gh.InvalidArgument, "has 'cuda:1' 2 times: pass each GPU once"),
        (lambda: sharded.Local(None), TypeError, r"devices=None is a NoneType: pass a list of names"),
        (lambda: sharded.Torch(), gh.InvalidArgument, "torch.distributed is not initialized: call init_process_group"),
    ]:
        with pytest.raises(error, match=message):
            make()
    local = sharded.Local()
    sharded.Table(transport=local)
    with pytest.raises(gh.InvalidArgument, match="has a table already"):
        sharded.Table(transport=local)


def test_shards_have_seeds_of_their_own():
    with filled(shards=2, seed=3) as table:
        seeds = {own.table.seed for own in table._transport._shards}
    assert len(seeds) == 2
    assert not seeds & {3, 3 ^ 0x452821E638D01377}
