"""pickle, copy.copy, copy.deepcopy, cloudpickle, joblib."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import pygpuhash as gh

CLONES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {i}": lambda given, i=i: pickle.loads(pickle.dumps(given, i)) for i in range(2, 6)},
}
EVERY = pytest.mark.parametrize("clone", CLONES.values(), ids=CLONES.keys())


class Counted(gh.Table):
    """A table of a user, with an attribute."""


@EVERY
def test_tables(clone, backend, pairs):
    with gh.Table(backend, key_dtype="i4", value_dtype="f4", device="cpu", seed=9, threads=1, capacity=500) as table:
        table.insert(np.arange(300), 0.5)
        with clone(table) as other:
            assert type(other) is gh.Table
            assert pairs(other) == pairs(table)
            assert (other.backend, other.seed, other._threads, other.device) == (backend, 9, 1, "cpu")
            other.insert(1000, 1)
            assert 1000 not in table


@EVERY
def test_a_copy_has_all_options(clone):
    with gh.Table("hive", bucket=16, stash=0.2, grow=False, capacity=640, device="cpu", max_load_factor=0.1) as table:
        table[5] = 6
        with clone(table) as other:
            assert other._options == table._options == {"bucket": "16", "stash": "0.2"}
            assert other.max_load_factor == table.max_load_factor
            assert other.capacity >= 640
            assert not other._grow
            assert other[5] == 6


@EVERY
def test_several_values_of_a_key(clone):
    with gh.Table("slab_hash", duplicates=1, key_dtype="u4", value_dtype="u4", device="cpu") as table:
        table.insert_multi([1, 1, 1, 2], [4, 5, 6, 7])
        with clone(table) as other:
            assert sorted(other.find_all([1])[1].tolist()) == [4, 5, 6]


@EVERY
def test_text_and_indexes(clone, pairs):
    with gh.Table(key_dtype=str, value_dtype=None) as table:
        table.insert(["a", "é", ""])
        with clone(table) as other:
            assert isinstance(other, gh.TextTable)
            assert pairs(other) == pairs(table)
    index = gh.Index(["b", None, "a"], floats="bits")
    other = clone(index)
    assert other.get_indexer(["a", None, "b", "c"]).tolist() == [2, 1, 0, -1]
    assert other._settings[1] == "bits"
    assert other.add(["c"]).tolist() == [3]
    assert len(index) == 3
    assert len(clone(gh.Index())) == 0


@EVERY
def test_counters_and_groups(clone):
    counter = gh.Counter(["b", None, "a", "b"], floats="bits", threads=1, seed=8)
    other = clone(counter)
    assert type(other) is gh.Counter
    assert (list(other), other.counts.tolist()) == (["b", None, "a"], [2, 1, 1])
    assert other._groups._index._settings == counter._groups._index._settings
    other.add(["a", "c"])
    assert (other["a"], counter["a"], len(counter)) == (2, 1, 3)
    groups = gh.GroupBy({"s": "sum", "mean": "mean"}, nulls="drop")
    groups.add([1, 2, 1], s=[1, 2, 3], mean=[1, 2, 4])
    other = clone(groups)
    assert (type(other), other.aggregates) == (gh.GroupBy, {"s": "sum", "mean": "mean"})
    other.add([2], s=[5], mean=[6])
    assert [column.tolist() for column in other.result()[1].values()] == [[4, 7], [2.5, 4]]
    assert [column.tolist() for column in groups.result()[1].values()] == [[4, 2], [2.5, 2]]
    for empty in (gh.Counter(), gh.Counter(str), gh.GroupBy({"n": "count"}), gh.GroupBy({"s": "sum"}, int)):
        assert (type(clone(empty)), len(clone(empty))) == (type(empty), 0)


class Named(gh.Counter):
    """A counter of a user, with an attribute."""


@EVERY
def test_a_subclass_of_a_counter(clone):
    counter = Named(["a"])
    counter.name = "of a user"
    other = clone(counter)
    assert (type(other), other.name, other["a"]) == (Named, "of a user", 1)


@EVERY
def test_subclasses(clone):
    table = Counted("hive", key_dtype="u4", device="cpu")
    table.name = "of a user"
    table[1] = 2
    other = clone(table)
    assert type(other) is Counted
    assert other.name == "of a user"
    assert other[1] == 2


def test_buffers_are_left_outside():
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(10_000), 1)
        buffers = []
        data = pickle.dumps(table, 5, buffer_callback=buffers.append)
        assert len(data) < 500
        assert [buffer.raw().nbytes > 160_000 for buffer in buffers] == [True]
        with pickle.loads(data, buffers=buffers) as other:
            assert len(other) == 10_000


def test_a_table_in_a_file_is_copied_into_memory(tmp_path):
    with gh.Table("stadium", placement="file", path=tmp_path / "table", device="cpu", key_dtype="u4") as table:
        table[1] = 2
        with copy.copy(table) as other:
            assert other[1] == 2
            assert "path" not in other._options


def test_closed_ones():
    table = gh.Table("hive", device="cpu")
    table.close()
    with pytest.raises(gh.ClosedTable):
        pickle.dumps(table)


def test_a_broken_pickle():
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(100), 1)
        data = bytearray(pickle.dumps(table))
    data[len(data) // 2] ^= 1
    with pytest.raises(gh.Corrupt, match="the pickled table: block 1 of 1 is broken"):
        pickle.loads(bytes(data))


def test_another_process(tmp_path):
    with gh.Table("skiplist", key_dtype="u4", device="cpu") as table:
        table.insert(np.arange(100), 3)
        (tmp_path / "table").write_bytes(pickle.dumps(table))
    program = "import pickle, sys; t = pickle.load(open(sys.argv[1], 'rb')); print(t.backend, len(t), t[99])"
    ran = subprocess.run([sys.executable, "-P", "-c", program, tmp_path / "table"], capture_output=True, text=True)
    assert ran.stdout == "skiplist 100 3\n", ran.stderr


def test_cloudpickle(pairs):
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    with gh.Table("hive", device="cpu") as table:
        table[7] = 8
        found = pickle.loads(cloudpickle.dumps(lambda key: table[key]))
        assert found(7) == 8
        with pickle.loads(cloudpickle.dumps(table)) as other:
            assert pairs(other) == pairs(table)


def test_joblib(tmp_path, pairs):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    with gh.Table("hive", device="cpu") as table:
        table[7] = 8
        joblib.dump({"table": table}, tmp_path / "kept")
        with joblib.load(tmp_path / "kept")["table"] as other:
            assert pairs(other) == pairs(table)


def test_torch(tmp_path, pairs):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with gh.Table("hive", device="cpu") as table:
        table[7] = 8
        torch.save({"table": table}, tmp_path / "kept")
        with torch.load(tmp_path / "kept", weights_only=False)["table"] as other:
            assert pairs(other) == pairs(table)


DASK = """
import os
import numpy as np, pygpuhash as gh
import dask
from distributed import Client

def looked_up(table, keys):
    if isinstance(table, gh.Counter):
        found = table.get(keys)
    elif isinstance(table, gh.GroupBy):
        table.add(keys, paid=1)
        found = table.result()[1]["paid"]
    else:
        found = table.get_indexer(keys) if isinstance(table, gh.Index) else table.find(keys)[0]
    return os.getpid(), type(table).__name__, np.asarray(found).tolist()

if __name__ == "__main__":
    table = gh.Table("hive", key_dtype="u4", device="cpu")
    table.insert(np.arange(50_000), np.arange(50_000) + 7)
    texts = gh.Table("hive", key_dtype=str, device="cpu")
    texts.insert(["a", "é"], [1, 2])
    index = gh.Index(["x", "y"])
    counter = gh.Counter(["x", "y", "y"])
    groups = gh.GroupBy({"paid": "sum"})
    groups.add(["x", "y"], paid=[5, 6])
    with dask.config.set({"distributed.worker.daemon": True}), Client(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        (kept,) = client.scatter([table])
        there = client.submit(looked_up, kept, [49_999, 3])
        others = [client.submit(looked_up, texts, ["é"]), client.submit(looked_up, index, ["y", "z"])]
        others += [client.submit(looked_up, counter, ["y", "z"]), client.submit(looked_up, groups, ["y", "z"])]
        back = client.submit(lambda table: table, kept)
        for pid, *found in client.gather([there, *others]):
            print(*found, pid != os.getpid())
        print(dict(back.result().items()) == dict(table.items()))
"""


@pytest.mark.slow
def test_a_worker_of_dask(tmp_path):
    """Tables of this process are scattered to another one, used there, and come back."""
    pytest.importorskip("distributed", reason="dask's distributed is not installed")
    (tmp_path / "program.py").write_text(DASK)
    ran = subprocess.run([sys.executable, "-P", tmp_path / "program.py"], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    tables = ["Table [50006, 10] True", "TextTable [2] True", "Index [1, -1] True"]
    assert ran.stdout.splitlines() == [*tables, "Counter [2, 0] True", "GroupBy [5, 7, 1] True", "True"]
