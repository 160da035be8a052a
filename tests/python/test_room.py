"""Elements that found no room: one exception whatever the backend, and no status of 2 or above in a mask."""

import re

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.arange(20_000)


def test_one_exception_for_elements_without_room(backend):
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.insert(KEYS, KEYS)
        full = caught.value
        assert isinstance(full, gh.NoMemory) == (backend in ("slab_hash", "skiplist"))  # of a heap
        assert set(np.unique(full.status)) <= {1, 2, 3}
        assert full.failed.dtype == bool
        assert full.failed.sum() == len(KEYS) - len(table) > 0
        numbers = rf"{full.failed.sum()} of {len(KEYS)} elements found no .*\b{table.info['slots']} (slots|entries)"
        assert re.search(numbers, str(full))
        table.reserve(2 * len(KEYS))
        assert table.insert(KEYS[full.failed], KEYS[full.failed]).all()
        assert (table[KEYS] == KEYS).all()


@pytest.mark.parametrize("values", ["int64", None])
def test_reserve_makes_room_where_erased_keys_have_taken_it(backend, values):
    """Keys come and go in a table that may not grow, never more at a time than it has room for."""
    value = None if values is None else 1
    with gh.Table(backend, device="cpu", threads=1, capacity=1200, value_dtype=values, grow=False, seed=1) as table:
        size = table.nbytes
        table.insert(KEYS[:1000], value)
        for start in range(1000, len(KEYS), 10):
            table.erase(KEYS[start - 1000 : start - 990])
            left = KEYS[start : start + 10]
            try:
                table.insert(left, value)
                continue
            except gh.TableFull as full:
                left = left[full.failed]
            table.reserve(len(table) + len(left))
            assert table.insert(left, value).all()
        assert np.array_equal(np.sort(table.keys()), KEYS[-1000:])
        assert table.nbytes == size
        table.check()


def test_reserve_leaves_a_table_with_room_as_it_is(backend):
    with gh.Table(backend, device="cpu", threads=1, capacity=1000, grow=False) as table:
        table.insert(KEYS[:600], 1)
        table.erase(KEYS[:100])
        table.reserve(800)
        assert table.info["rebuilds"] == 0


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("keys", [0, 700, 3_000])
def test_reserve_of_what_is_there_takes_nothing(backend, keys, grow):
    known = {"device": "cpu", "threads": 1, "capacity": 3_000, "grow": grow, "seed": 1}
    for options in [{}, {"max_load_factor": 0.95}] + [{"buckets": 40}, {"duplicates": 1}] * (backend == "slab_hash"):
        with gh.Table(backend, **known, **options) as table:
            table.insert(KEYS[:keys], 1)
            there = table.nbytes, table.capacity
            assert table.capacity >= max(keys, 3_000)
            for n in (table.capacity, table.capacity - 1, keys, 0) * 2:
                table.reserve(n)
                assert (table.nbytes, table.capacity) == there


@pytest.mark.parametrize("load", [0.33, 0.7, 0.9, 1.0])
def test_there_is_room_for_as_many_as_asked(backend, load):
    """Whatever sizes are rounded to."""
    with gh.Table(backend, device="cpu", threads=1) as grown:
        for n in [*range(64, 400), 999, 1000, 4096, 4097, 9_999]:
            with gh.Table(backend, device="cpu", threads=1, capacity=n, max_load_factor=load, grow=False) as table:
                assert table.capacity >= n
            grown.reserve(n)
            assert grown.capacity >= n


@pytest.mark.usual_sizes("how often a table is rebuilt depends on the length of its pieces")
def test_what_is_as_small_as_can_be_is_not_rebuilt(backend):
    with gh.Table(backend, device="cpu", threads=1, capacity=100_000) as table:
        table.insert(KEYS, KEYS)
        large = table.nbytes
        table.shrink()
        assert table.nbytes < 0.7 * large
        small = table.info
        table.shrink()
        assert table.info == small


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_a_full_table_that_has_the_largest_keys(backend, dtype):
    """They may lie apart from the others, and still count as used slots."""
    keys = np.arange(-2, 60_000).astype(dtype)
    known = {"key_dtype": dtype, "value_dtype": None, "device": "cpu", "threads": 1}
    with gh.Table(backend, capacity=1000, grow=False, **known) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys)
        assert table.info["used"] <= table.info["slots"]
        assert len(table) == len(keys) - caught.value.failed.sum()
        assert table.contains(keys[:2]).all()


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("n", [100, 1000, 20_000])
def test_flush_takes_no_more_memory_each_time(backend, n, grow):
    with gh.Table(backend, device="cpu", threads=1, capacity=n, grow=grow, seed=1) as table:
        table.insert(KEYS[:n], KEYS[:n])
        table.flush()
        once = table.nbytes, table.capacity
        for _ in range(20):
            table.flush()
        assert (table.nbytes, table.capacity) == once
        assert (table[KEYS[:n]] == KEYS[:n]).all()


def test_more_keys_than_a_table_can_have(backend):
    """Of 4 bytes, which the address space would have room for."""
    said = r"too large for this table's layout|too many for this key width|more than a table can have"
    with pytest.raises(gh.InvalidArgument, match=said):
        gh.Table(backend, device="cpu", key_dtype="u4", value_dtype=None, capacity=2**59)
    with gh.Table(backend, device="cpu", key_dtype="u4", value_dtype=None) as table:
        table.insert(KEYS)
        with pytest.raises(gh.InvalidArgument, match=said):
            table.reserve(2**59)
        assert table.contains(KEYS).all()
        table.check()


@pytest.mark.parametrize(("structure", "most"), [("linear_probe", 1 << 14), ("stadium", 512)])
def test_keys_that_are_too_many_are_refused_soon(structure, most):
    """Each by a path of its own, not by a look at the whole table; and no key that there has to be room for."""
    keys = np.arange(125_000)
    with gh.Table(structure, device="cpu", capacity=100_000, max_load_factor=0.9, grow=False) as table:
        assert table.stats()["probe_limit"] == most
        assert table.insert(keys[:100_000], 1).all()
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys[100_000:], 1)
        assert 100_000 + (~caught.value.failed).sum() == len(table) > 105_000
        assert table.contains(keys).sum() == len(table)
        table.check()
    with gh.Table(structure, device="cpu", capacity=100_000, max_load_factor=0.95, grow=False) as table:
        assert table.stats()["probe_limit"] * 8 > table.stats()["slots"]  # all of them


def test_memory_that_runs_out_while_the_table_grows(backend):
    room, n = (1 << 17, 20_000) if backend == "linear_probe" else (1 << 20, 200_000)
    held, left = {}, [room]

    class Little:
        def allocate(self, nbytes, alignment, stream):
            if nbytes > left[0]:
                return None
            left[0] -= nbytes
            array = np.empty(nbytes + alignment, np.uint8)
            address = -(-array.ctypes.data // alignment) * alignment
            held[address] = array
            return address

        def deallocate(self, address, nbytes, alignment, stream):
            left[0] += nbytes
            del held[address]

    with gh.Table(backend, device="cpu", memory=Little()) as table:
        keys = np.arange(n)
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, 1)
        assert isinstance(caught.value, gh.NoMemory)
        assert isinstance(caught.value, MemoryError)
        assert "memory" in str(caught.value)
        assert "device" not in str(caught.value)
        done = ~caught.value.failed
        assert table.contains(keys[done]).all()
        assert not table.contains(keys[~done]).any()
        # A table that could not grow may hold more than its capacity; what it shows is still plain.
        shown = repr(table)
        assert f"{len(table)} of {table.capacity} keys" in shown or "above its capacity" in shown
        with pytest.raises(gh.NoMemory) as caught:
            table.reserve(10_000_000)
        assert caught.value.status is None
        assert not isinstance(caught.value, gh.TableFull)
        table.check()
    assert not held


def test_the_repr_of_a_table_above_its_capacity(table, monkeypatch):
    info = dict(table.info)
    monkeypatch.setattr(type(table), "_info", lambda self: {**info, "size": 83854771, "capacity": 67108864})
    assert "83854771 keys, above its capacity of 67108864" in repr(table)
    monkeypatch.setattr(type(table), "_info", lambda self: {**info, "size": 5, "capacity": 5})
    assert "5 of 5 keys" in repr(table)


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (gh.InvalidArgument, [ValueError]),
        (gh.ClosedTable, [gh.InvalidArgument]),
        (gh.Unsupported, [NotImplementedError]),
        (gh.NotFound, [LookupError]),
        (gh.BackendNotFound, [gh.NotFound]),
        (gh.OptionNotFound, [gh.NotFound, TypeError]),
        (gh.TableFull, [RuntimeError]),
        (gh.NoMemory, [MemoryError]),
        (gh.DeviceError, [RuntimeError]),
        (gh.Poisoned, [gh.DeviceError]),
        (gh.Forked, [RuntimeError]),
        (gh.PluginError, [ImportError]),
        (gh.Corrupt, [RuntimeError]),
    ],
)
def test_errors_are_also_those_of_python(error, also):
    assert all(issubclass(error, kind) for kind in [gh.GpuHashError, *also])


def test_the_family():
    assert issubclass(gh.HeapFull, gh.TableFull)
    assert issubclass(gh.HeapFull, gh.NoMemory)
    assert issubclass(gh.HeapFull, MemoryError)
    assert not issubclass(gh.NoMemory, gh.TableFull)
    assert not issubclass(gh.TableFull, gh.NoMemory)


@pytest.mark.parametrize("name", ["hive", "skiplist"])
@pytest.mark.parametrize("n", [1000, 20_000])
def test_inserts_of_a_mixed_batch_find_the_room_that_its_erasures_make(name, n):
    """A full table and as many new keys as others are erased, in turn. Elsewhere erased keys keep their slots."""
    ops = np.tile([gh.Op.INSERT, gh.Op.ERASE], n // 2).astype(np.uint8)
    keys = np.arange(n, dtype=np.uint64)
    keys[::2] += 1 << 20
    with gh.Table(name, capacity=n, grow=False, max_load_factor=0.9, seed=3, threads=1, device="cpu") as table:
        table.insert(np.arange(n), 1)
        assert table.execute(ops, keys, 2)[1].all()
        assert len(table) == n
        assert table[keys[::2]].tolist() == [2] * (n // 2)
        table.check()
