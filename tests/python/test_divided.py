"""Batches on the CPU in the order of the table: they answer and leave behind what the same batch does as it comes."""

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

BACKENDS = ["hive", "linear_probe", "slab_hash"]
DTYPES = [("u4", "u4"), ("u8", "u8"), ("u4", "u8"), ("u8", "u4"), ("u8", None), ("u4", None)]
PIECE = 1 << 17  # elements that a thread divides at a time


class Memory:
    """A memory resource that counts blocks of some size, and has none of them if it is told so."""

    def __init__(self, least: int, refuses: bool = False):
        self.least, self.refuses, self.asked, self.blocks = least, refuses, 0, {}

    def allocate(self, nbytes, alignment, stream):
        if nbytes >= self.least:
            self.asked += 1
            if self.refuses:
                raise MemoryError("none")
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.blocks[address] = array
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self.blocks[address]


def random_keys(n: int, most: int, dtype: str, seed: int) -> np.ndarray:
    print(f"seed {seed}")
    return np.random.default_rng(seed).integers(0, most, n).astype(dtype) * np.dtype(dtype).type(0x9E3779B1)


def check_mask(mask: np.ndarray, keys: np.ndarray, fresh: set) -> None:
    """Of the elements with a key of `fresh` exactly one says so, and no other."""
    said = keys[mask]
    assert len(said) == len(np.unique(said))
    assert set(said.tolist()) == fresh


@pytest.mark.parametrize(("n", "threads"), [(0, 1), (1, 1), (5000, 2), (PIECE, 2), (PIECE + 1, 1), (3 * PIECE + 77, 2)])
@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: f"{d[0]}-{d[1]}")
@pytest.mark.parametrize("name", BACKENDS)
def test_against_a_model(name: str, dtypes: tuple, n: int, threads: int) -> None:
    key, value = dtypes
    capacity = max(64, 2 * n)
    with gh.Table(
        name,
        key_dtype=key,
        value_dtype=value,
        capacity=capacity,
        grow=False,
        device="cpu",
        threads=threads,
        parts="always",
        seed=3,
    ) as t:
        keys = random_keys(n, max(1, n), key, n + threads)
        keys[: n // 100] = ~(np.arange(n // 100) % 3).astype(key)  # those that live in side slots, too
        values = None if value is None else (keys % 1000).astype(value)
        there = set(keys.tolist())
        mask = t.insert(keys, values)
        check_mask(mask, keys, there)
        assert len(t) == len(there)
        if value is not None:
            assert (t[keys] == values).all()
            t.accumulate(keys, values)
            found, times = np.unique(keys, return_counts=True)
            assert (t[found] == (found % 1000 * (times + 1).astype("u8")).astype(value)).all()
            t.insert_or_assign(keys, values)
            assert (t[keys] == values).all()
        gone = np.concatenate([keys[::2], random_keys(n // 3, max(1, n), key, 77)])
        mask = t.erase(gone)
        check_mask(mask, gone, there & set(gone.tolist()))
        left = there - set(gone.tolist())
        assert set(t.keys().tolist()) == left
        assert len(t) == len(left)
        t.check()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BACKENDS)
def test_elements_without_room(name: str, threads: int) -> None:
    """Every element says whether its key got in."""
    n = 20_000
    keys = np.arange(1, n + 1, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    with gh.Table(
        name, capacity=12_000, grow=False, device="cpu", threads=threads, parts="always", value_dtype="u8"
    ) as t:
        status = np.full(n, 9, np.uint8)
        with pytest.raises(gh.TableFull) as caught:
            t.insert(keys, keys, out=status.view(bool))
        got_in = t.contains(keys)
        assert 0 < got_in.sum() < n
        assert len(t) == got_in.sum()
        assert (t[keys[got_in]] == keys[got_in]).all()
        assert ((status == 1) == got_in).all()
        assert str(n - got_in.sum()) in str(caught.value).replace(",", "")
        t.check()


@pytest.mark.usual_sizes("which batches are divided depends on the length of pieces")
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("name", BACKENDS)
def test_scratch_memory(name: str, refuses: bool) -> None:
    """Only hive gains by the order of the table, and asks for memory; where there is none, the batch is served."""
    n = PIECE + 5
    memory = Memory(least=n * 19)
    keys = np.arange(1, n + 1, dtype="u8")
    with gh.Table(name, capacity=1000, device="cpu", parts="always", memory=memory, grow=False, value_dtype="u8") as t:
        memory.asked, memory.refuses = 0, refuses
        t.insert(keys[:500], keys[:500])
        big = np.tile(keys[:500], n // 500 + 1)
        mask = t.insert_or_assign(big, big)
        assert memory.asked == (name == "hive")
        assert not mask.any()
        assert len(t) == 500
        assert t.erase(big).sum() == 500


def test_chunks() -> None:
    """A batch that is longer than what is divided at a time."""
    n = (1 << 23) + 5
    keys = (np.arange(n + 100, dtype="u4") * np.uint32(0x9E3779B1))[:n]  # more lie behind them
    was = _core.piece(1 << 25)
    try:
        with gh.Table(
            "hive", key_dtype="u4", value_dtype=None, capacity=n, grow=False, device="cpu", parts="always"
        ) as t:
            assert t.insert(keys).all()
            assert len(t) == n
            assert t.contains(keys).all()
            mask = t.erase(np.append(keys[::2], keys[:9]))
            assert mask.sum() == len(keys[::2]) + 4
    finally:
        _core.piece(was)


def test_growth() -> None:
    for backend in BACKENDS:
        with gh.Table(backend, device="cpu", parts="always", value_dtype="u8", threads=2) as t:
            for i in range(4):
                keys = np.arange(i << 17, (i + 3) << 17, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
                mask = t.insert(keys, keys)
                assert mask.sum() == (1 << 17) * (1 if i else 3)
                assert (t[keys] == keys).all()
            assert len(t) == 6 << 17
            t.check()


def asked(memory: Memory, call, *args) -> int:
    """Blocks of scratch memory that a call takes."""
    before = memory.asked
    call(*args)
    return memory.asked - before


@pytest.mark.usual_sizes("which batches are divided depends on the length of pieces")
@pytest.mark.parametrize("threads", [1, 2])
def test_which_batches_of_hive_are_divided(threads: int) -> None:
    n = 1 << 20
    memory = Memory(least=n * 9)
    keys = np.arange(1, 4 * n + 1, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    half = 5 * n // 4
    old, new, few, others = keys[:half], keys[half : half + n], keys[half + n : 5 * n // 2], keys[3 * n :]
    skewed = np.where(np.arange(n) % 4, np.resize(others[: n // 8], n), others[0])
    makes = {"value_dtype": "u8", "grow": False, "device": "cpu", "memory": memory, "threads": threads}
    with gh.Table("hive", capacity=5 * n // 2, **makes) as t:
        assert asked(memory, t.insert, old, old) == 0  # leave room for many more
        assert asked(memory, t.insert, new, new) == 1
        assert asked(memory, t.insert, few, few) == 0
        assert asked(memory, t.insert, skewed, skewed) == 0
        t.erase(skewed)
        assert asked(memory, t.insert_or_assign, old, old) == 0  # they are there
        assert asked(memory, t.contains, others) == 0
        assert asked(memory, t.erase, others) == 0
        assert asked(memory, t.erase, new) == 0
        assert len(t) == len(old) + len(few)
        back = keys[: 5 * n // 2][::-1]
        mask = t.insert(back, back)
        check_mask(mask, back, set(new.tolist()))
        t.check()


@pytest.mark.usual_sizes("which batches are divided depends on the length of pieces")
@pytest.mark.parametrize(
    ("options", "divided"),
    [({}, 1), ({"parts": "never"}, 0), ({"segment": "whole"}, 0), ({"capacity": 8 << 20}, 0)],
    ids=str,
)
def test_which_tables_divide(options: dict, divided: int) -> None:
    n = 1 << 20
    memory = Memory(least=n * 19)
    keys = np.arange(1, n + 1, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    makes = {"value_dtype": "u8", "grow": False, "device": "cpu", "memory": memory, "capacity": n, **options}
    with gh.Table("hive", **makes) as t:
        assert asked(memory, t.insert, keys, keys) == divided
        assert len(t) == n


@pytest.mark.parametrize("name", BACKENDS)
def test_other_batches_come_as_they_are(name: str) -> None:
    """Mixed ones and those that read have no statuses alone."""
    keys = random_keys(10_000, 3000, "u8", 5)
    with gh.Table(name, value_dtype="u8", capacity=20_000, grow=False, device="cpu", parts="always") as t:
        ops = np.where(np.arange(len(keys)) % 3, np.uint8(gh.Op.INSERT), np.uint8(gh.Op.FIND))
        t.execute(ops, keys, keys)
        there = set(keys[ops == gh.Op.INSERT].tolist())
        assert set(t.keys().tolist()) == there
        found, mask = t.find(keys)
        assert mask.tolist() == [k in there for k in keys.tolist()]
        assert (found[mask] == keys[mask]).all()
