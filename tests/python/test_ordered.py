"""Ordered verbs: what is refused and how, and what the conformance suite does not ask."""

from __future__ import annotations

import bisect
import contextlib
import random
import threading
from typing import ClassVar

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _ordered


@pytest.fixture
def table():
    with gh.Table("skiplist", key_dtype="int32", value_dtype="uint32", device="cpu") as t:
        keys = np.arange(-50, 50, 5, dtype="i4")
        t.insert(keys, np.arange(len(keys), dtype="u4"))
        yield t


def test_unordered_backends_say_so():
    with gh.Table("linear_probe", device="cpu") as t:
        for call in (lambda: t.successor([1]), lambda: t.range([1], [2]), t.min, lambda: t[1:2]):
            with pytest.raises(gh.Unsupported, match=r"does not have.*with needs=\['ordered'\]"):
                call()


def test_slices(table):
    keys, values = table[-12:11]
    assert keys.tolist() == [-10, -5, 0, 5, 10]
    assert values.tolist() == [8, 9, 10, 11, 12]
    assert table[:-45][0].tolist() == [-50]
    assert table[44:][0].tolist() == [45]
    assert len(table[:][0]) == len(table)
    assert table[10:-10][0].size == 0
    with pytest.raises(TypeError, match="takes no step"):
        table[0:10:2]
    with pytest.raises(TypeError, match="takes two numbers"):
        table[[0, 1] : [2, 3]]
    for ends in ([2, 3], [2], [], np.zeros((1, 2), "i4"), np.zeros(3, "i4")):
        with pytest.raises(TypeError, match="takes two numbers"):
            table[0:ends]
        with pytest.raises(TypeError, match="takes two numbers"):
            table[ends:5]
    with pytest.raises(TypeError, match="takes no step, and 1 was given"):
        table[0:10:1]


def test_ends_and_neighbours(table):
    assert table.min() == (-50, 0)
    assert table.max() == (45, 19)
    keys, values, found = table.successor([-50, 44, 45])
    assert keys.tolist() == [-45, 45, 0]
    assert values.tolist() == [1, 19, 0]
    assert found.tolist() == [True, True, False]
    assert table.predecessor([-50, -49, 100])[0].tolist() == [0, -50, 45]
    table.clear()
    with pytest.raises(ValueError, match="empty"):
        table.min()


def first_and_last(dtype):
    """The first and the last key that a dtype has, in the order of its values."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":  # NaNs lie outside of the infinities, by their sign
        bits = np.iinfo(f"i{dtype.itemsize}")
        return np.array([-1, bits.max], bits.dtype).view(dtype)
    bits = np.iinfo(np.int64 if dtype.kind in "mM" else dtype)
    return np.array([bits.min, bits.max], bits.dtype).view(dtype)


@pytest.mark.parametrize(
    "dtype", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "datetime64[ns]", "timedelta64[s]"]
)
def test_the_first_and_the_last_key_of_a_dtype(dtype):
    """Alone in the table each is its smallest and its largest; together they are its ends."""
    ends = first_and_last(dtype)
    for there in (ends[:1], ends[1:], ends):
        with gh.Table("skiplist", key_dtype=dtype, value_dtype="u4", device="cpu") as t:
            t.insert(there, np.arange(len(there), dtype="u4"))
            assert t.min()[0].tobytes() == there[0].tobytes()
            assert t.max()[0].tobytes() == there[-1].tobytes()
            assert t.max()[1] == len(there) - 1
            keys, values = t[:]
            assert keys.tobytes() == there.tobytes()
            assert values.tolist() == list(range(len(there)))


def test_bad_input(table):
    for limit in (None, 5):
        for low, high in (([1, 2], [3]), ([1], [2, 3]), ([], [3])):
            with pytest.raises(ValueError, match="pass one of each per range"):
                table.range(low, high, limit)
        for low, high, what in ((None, [2**40], "high"), ([-(2**40)], None, "low"), ([1], [2**40], "high")):
            with pytest.raises(OverflowError, match=f"^{what}"):
                table.range(low, high, limit)
    with pytest.raises(gh.InvalidArgument, match="limit"):
        table.range([1], [3], 0)
    with pytest.raises(TypeError):
        table.successor(["a"])
    with pytest.raises(gh.InvalidArgument, match="choose one of unsigned"):
        gh.Table("skiplist", order="descending", device="cpu")
    with pytest.raises(gh.InvalidArgument, match="p_chunk=2"):
        gh.Table("skiplist", p_chunk=2, device="cpu")


class OnDevice:
    """What tells an array on a device; its elements are not read."""

    __cuda_array_interface__: ClassVar[dict] = {}


@pytest.mark.parametrize("limit", [None, 5])
def test_ends_of_ranges_on_different_sides(table, limit):
    for ends in ((OnDevice(), [1]), ([1], OnDevice())):
        with pytest.raises(TypeError, match="low and high are on different sides"):
            table.range(*ends, limit)


@pytest.mark.parametrize(
    ("dtype", "order"),
    [
        ("f4", "float"),
        ("f2", None),
        ("i2", "signed"),
        ("m8[s]", "signed"),
        ("M8[s]", "signed"),
        ("u4", None),
        ("?", None),
    ],
)
def test_the_order_of_keys(dtype, order):
    assert _ordered.key_order(np.dtype(dtype), ("build", "order")) == order
    assert _ordered.key_order(np.dtype(dtype), ("build",)) is None


def test_an_order_that_was_asked_for_is_kept():
    with gh.Table("skiplist", key_dtype="i4", value_dtype=None, order="unsigned", device="cpu") as t:
        t.insert([-1, 1])
        assert t.keys().tolist() == [1, -1]


@pytest.mark.parametrize("dtype", ["float16", "S8", "S4", "complex64", ("u4", 2), [("x", "i4"), ("y", "i4")]])
def test_keys_whose_bits_are_in_another_order(dtype):
    with gh.Table("skiplist", key_dtype=dtype, device="cpu") as t:
        key = np.zeros((), dtype)
        for call in (t.min, lambda: t.floor(key), lambda: t[:], lambda: t.range(None, None), lambda: t.range(0, 1, 5)):
            with pytest.raises(gh.Unsupported, match="keys are not kept in the order of their values"):
                call()


def test_neighbours_have_the_shape_of_the_keys(table):
    key, value, found = table.floor(-11)
    assert (key, value, found) == (-15, 7, True)
    assert key.dtype == np.int32
    assert key.ndim == 0
    keys, values, found = table.lower_bound([[-11, 46], [0, 1]])
    assert keys.tolist() == [[-10, 0], [0, 5]]
    assert values.tolist() == [[8, 0], [10, 11]]
    assert found.tolist() == [[True, False], [True, True]]
    with gh.Table("skiplist", key_dtype="i4", value_dtype=("u4", 2), device="cpu") as t:
        t.insert([1, 5], [[1, 2], [3, 4]])
        assert t.floor(4)[1].tolist() == [1, 2]
        assert t.floor([9, 4])[1].tolist() == [[3, 4], [1, 2]]


@pytest.mark.parametrize("dtype", ["i4", "u8", "f4", "datetime64[s]"])
def test_limits_with_open_ends(dtype):
    """The last key that the dtype has is above every end, and not above none."""
    first, last = first_and_last(dtype)
    middle = np.array([5, 6, 7], "i4").astype(dtype)
    with gh.Table("skiplist", key_dtype=dtype, value_dtype="u4", device="cpu") as t:
        t.insert(middle, [1, 2, 3])
        for ends in ((None, None), (middle[1:], None), (None, middle[1:])):
            for k in (0, 1):
                keys, values, offsets = t.range(*ends)
                for limit in (1, 2, 9):
                    got_keys, got_values, counts = t.range(*ends, limit)
                    assert counts.tolist() == np.minimum(np.diff(offsets), limit).tolist()
                    for i, n in enumerate(counts):
                        part = slice(offsets[i], offsets[i] + n)
                        assert got_keys[i, :n].tobytes() == keys[part].tobytes()
                        assert got_values[i, :n].tolist() == values[part].tolist()
                        assert not got_keys[i, n:].view(f"u{got_keys.itemsize}").any()
                        assert not got_values[i, n:].any()
                if k == 0:
                    t.insert([last, first], [4, 5])
        assert t.range([], None, 3)[0].shape == (0, 3)


def test_many_ranges_of_any_length(table):
    keys, values, offsets = table.range([-50, 0, 7], [-40, 0, 100])
    assert offsets.tolist() == [0, 2, 2, 10]
    assert keys.tolist() == [-50, -45, *range(10, 50, 5)]
    assert len(values) == len(keys)
    none, _, offsets = table.range(np.zeros(0, "i4"), np.zeros(0, "i4"))
    assert none.size == 0
    assert offsets.tolist() == [0]


@pytest.mark.parametrize("chunk", [8, 16, 32])
@pytest.mark.parametrize("p_chunk", [0, 0.3, 1])
def test_random_operations_against_a_sorted_list(chunk, p_chunk):
    rng = random.Random(chunk * 10 + int(p_chunk * 10))
    held: list[int] = []
    with gh.Table("skiplist", key_dtype="u8", value_dtype=None, chunk=chunk, p_chunk=p_chunk, device="cpu") as t:
        for _ in range(60):
            some = [rng.randrange(3000) for _ in range(200)]
            batch = np.array(some, "u8")
            if rng.random() < 0.55:
                t.insert(batch)
                held = sorted(set(held) | set(some))
            else:
                t.erase(batch)
                held = sorted(set(held) - set(some))
            asked = [rng.randrange(3100) for _ in range(20)]
            keys, _, found = t.successor(np.array(asked, "u8"))
            for a, k, f in zip(asked, keys.tolist(), found.tolist(), strict=True):
                i = bisect.bisect_right(held, a)
                assert f == (i < len(held))
                assert not f or k == held[i]
        t.check()
        assert t.keys().tolist() == held


def test_ageing_leaves_bounded_memory():
    """A window of keys that moves on: zombies fill the pool, and are reclaimed without the table growing for ever."""
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", capacity=2000, device="cpu") as t:
        most = 0
        for r in range(300):
            new = np.arange(r * 200 + 2000, r * 200 + 2200, dtype="u4")
            t.insert(new, new)
            if r >= 5:
                t.erase(new - np.uint32(1000))
            most = max(most, t.nbytes)
        assert len(t) == 1000
        t.check()
        assert most < 40 * 2000
        t.flush()
        assert t.stats()["zombies"] == 0


def test_a_full_pool_says_no_memory_and_goes_on():
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", capacity=100, grow=False, device="cpu") as t:
        keys = np.random.default_rng(1).permutation(100_000).astype("u4")
        assert t.insert(keys[:100], keys[:100]).all()
        with pytest.raises(gh.TableFull, match="no free chunk") as caught:
            t.insert(keys[100:], keys[100:])
        status = caught.value.status
        assert set(status.tolist()) == {1, 3}
        assert t.contains(keys[100:]).tolist() == (status == 1).tolist()
        t.check()
        there = np.concatenate([keys[:100], keys[100:][status == 1]])
        assert t.erase(there).all()
        t.flush()
        assert t.insert(keys[:100], keys[:100]).all()
        t.reserve(100_000)
        t.insert(keys, keys)
        assert len(t) == len(keys)


class Blocks:
    """A memory resource that knows its blocks."""

    def __init__(self):
        self.held = {}

    def allocate(self, nbytes, alignment, stream):
        array = np.empty(nbytes + alignment, np.uint8)
        at = -array.ctypes.data % alignment
        self.held[array.ctypes.data + at] = array[at : at + nbytes]
        return array.ctypes.data + at

    def deallocate(self, address, nbytes, alignment, stream):
        del self.held[address]


@pytest.mark.parametrize("way_out", ["reserve", "insert", "clear", "flush", "shrink"])
def test_threads_that_ask_for_the_last_chunk_at_once(way_out):
    """Each of them counts, and one has it: the counter of chunks is then above their number."""
    blocks = Blocks()
    keys = np.random.default_rng(4).permutation(20_000).astype("u4")
    known = {"key_dtype": "u4", "value_dtype": "u4", "capacity": 1000, "device": "cpu", "threads": 1}
    with gh.Table("skiplist", grow=False, build="never", memory=blocks, **known) as t:
        with pytest.raises(gh.TableFull):
            t.insert(keys, keys)
        there = t.keys()
        pool = int(t.stats()["pool_chunks"])
        assert t.stats()["pool_taken"] == pool
        counters = [b.view("u4") for b in blocks.held.values() if b.size == 128]
        counters = [b for b in counters if b[16] == pool]  # the counter lies behind 64 bytes
        assert len(counters) == 1
        counters[0][16] += 5
        t.check()
        assert t.stats()["pool_taken"] == pool
        assert np.array_equal(t.keys(), there)
        if way_out in ("clear", "flush", "shrink"):
            t.erase(there[40:])
            getattr(t, way_out)()
            held = there[:0] if way_out == "clear" else there[:40]
            t.insert(keys[:40], keys[:40])
            held = np.union1d(held, keys[:40])
        elif way_out == "insert":
            with pytest.raises(gh.TableFull):
                t.insert(keys, keys)
            held = np.union1d(there, keys[t.contains(keys)])
        else:
            t.reserve(len(keys))
            t.insert(keys, keys)
            held = np.sort(keys)
        t.check()
        assert np.array_equal(t.keys(), held)


@pytest.mark.parametrize("way_out", ["reserve", "insert", "clear", "flush"])
def test_chunks_asked_for_in_vain_are_nobodys(way_out):
    """Each insert into a full pool asks for one more."""
    keys = np.random.default_rng(2).permutation(60_000).astype("u4")
    known = {"key_dtype": "u4", "value_dtype": "u4", "grow": False, "device": "cpu"}
    with gh.Table("skiplist", capacity=6000, **known) as t:
        for part in np.array_split(keys, 20):
            with contextlib.suppress(gh.TableFull):
                t.insert(part, part)
        there = t.keys()
        t.check()
        assert len(there) < len(keys)
        if way_out == "reserve":
            t.reserve(len(keys))
        else:
            t.erase(there)
            there = there[:0]
        if way_out in ("clear", "flush"):
            getattr(t, way_out)()
        t.check()
        rest = np.setdiff1d(keys, there)[:: 1 if way_out == "reserve" else 12]
        rest = np.random.default_rng(3).permutation(rest)
        assert t.insert(rest[:4500], rest[:4500]).all()  # in an empty table by a rebuild
        for part in np.array_split(rest[4500:], 30):
            assert t.insert(part, part).all()
        t.check()
        assert np.array_equal(t.keys(), np.union1d(there, rest))


def test_reserve_makes_room_for_what_it_says_though_zombies_have_taken_it():
    known = {"key_dtype": "u4", "value_dtype": None, "grow": False, "device": "cpu", "build": "never"}
    with gh.Table("skiplist", capacity=4000, **known) as t:
        batches = []

        def come_and_go():
            for first in range(0, 400_000, 4000):
                batches.append(np.arange(first, first + 4000, dtype="u4"))
                t.insert(batches[-1])
                t.erase(batches[-1])

        with pytest.raises(gh.TableFull):
            come_and_go()
        t.erase(batches[-1])
        t.reserve(4000)
        assert t.insert(batches[-1]).all()
        t.check()


def test_a_pool_of_any_number_of_small_steps():
    """Chunks are added to those that are there; where the list of pieces is full, all go into one."""
    keys = np.arange(3000, dtype="u4")
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", build="never") as t:
        pieces = []
        for part in np.array_split(keys, 100):
            t.reserve(t.capacity + 1)
            t.insert(part, part)
            pieces.append(t.stats()["segments"])
        assert 1 in pieces[5:], pieces
        t.check()
        found, values = t.export()
        assert np.array_equal(found, keys)
        assert np.array_equal(values, keys)


def test_neighbours_and_ranges_beside_batches_that_rebuild():
    """Keys that no batch touches are found while all chunks are written anew, in other memory or where they were."""
    fixed = np.arange(0, 80_000, 8, dtype="u4")
    moving = np.setdiff1d(np.arange(80_000, dtype="u4"), fixed)
    wrong, stop = [], threading.Event()
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u4", device="cpu", threads=1) as t:
        t.insert(fixed, fixed)

        def look():
            while not stop.is_set():
                keys, values, found = t.lower_bound(fixed[::16])
                if not (found.all() and (keys == fixed[::16]).all() and (values == keys).all()):
                    wrong.append("lower_bound")
                keys, values = t[100:60_000]
                if not (np.isin(fixed[13:7500], keys).all() and (keys == values).all()):
                    wrong.append("range")

        reader = threading.Thread(target=look)
        reader.start()
        try:
            for _ in range(12):
                t.insert(moving, moving)
                t.erase(moving)
                t.shrink()
        finally:
            stop.set()
            reader.join()
        assert not wrong
        t.check()


def test_threads_on_one_chunk():
    with gh.Table("skiplist", key_dtype="u4", value_dtype="u8", device="cpu", threads=1) as t:
        rounds, keys = 300, np.arange(12, dtype="u4")

        def work() -> None:
            for _ in range(rounds):
                t.accumulate(keys, np.ones(12, "u8"))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert t.find(keys)[0].tolist() == [4 * rounds] * 12
        t.check()


def test_offsets_that_promise_more_room_than_there_is(table):
    """range_pairs writes within the arrays, whatever the caller's offsets say; it counts all pairs all the same."""
    room, guard = 6, 0xDEADBEEF
    low, high = np.array([-50, 0], "i4"), np.array([0, 50], "i4")
    for places in ([0, 3, 2**40], [0, 2**40, 2**40 + 5], [5, 0, 100], [2**63, 2**63 + 4, 2**64 - 1]):
        offsets, counts = np.array(places, "u8"), np.zeros(2, "u8")
        keys = np.full(64, guard, "u4")
        values = np.full(64, guard, "u4")
        at = [a.ctypes.data for a in (low, high, offsets)]
        out = [a.ctypes.data for a in (keys, values, counts)]
        table._range_pairs(2, *at, room, *out)
        assert counts.tolist() == [10, 10]
        assert (keys[room:] == guard).all()
        assert (values[room:] == guard).all()


@pytest.mark.parametrize("room", [0, 5, 64])
def test_without_offsets_pairs_are_counted_and_written_nowhere(table, room):
    low, high = np.array([-50, 0], "i4"), np.array([0, 50], "i4")
    keys, values, counts = np.full(64, 77, "i4"), np.full(64, 77, "u4"), np.zeros(2, "u8")
    low_at, high_at, *out = [a.ctypes.data for a in (low, high, keys, values, counts)]
    table._range_pairs(2, low_at, high_at, 0, room, *out)
    assert counts.tolist() == [10, 10]
    assert (keys == 77).all()
    assert (values == 77).all()


@pytest.mark.parametrize("room", [0, 11, 12, 20])
def test_all_pairs_of_ranges_at_one_moment(table, room):
    """range_all writes pairs where they all fit, and where they begin in any case."""
    low, high = np.array([-50, 10, 0], "i4"), np.array([-40, 0, 100], "i4")
    offsets = np.full(5, 77, "i8")
    keys, values = np.full(20, 77, "i4"), np.full(20, 77, "u4")
    arrays = [a.ctypes.data for a in (low, high, offsets)]
    failure = table._range_all(3, *arrays, room, keys.ctypes.data, values.ctypes.data)
    assert offsets.tolist() == [0, 2, 2, 12, 77]
    if room < 12:
        assert isinstance(failure, gh.InvalidArgument)
        assert f"have 12 pairs and the arrays have room for {room}" in str(failure)
        assert (keys == 77).all()
        return
    assert failure is None
    assert keys[:12].tolist() == [-50, -45, *range(0, 50, 5)]
    assert values[:12].tolist() == [0, 1, *range(10, 20)]
    assert (keys[12:] == 77).all()
    assert (values[12:] == 77).all()
    offsets[:] = 77
    assert table._range_all(3, *arrays, 0, 0, 0) is None
    assert offsets.tolist() == [0, 2, 2, 12, 77]
    for n, ends, expected in ((1, (0, 0), [0, 20]), (0, (0, 0), [0]), (3, (0, arrays[1]), [0, 2, 12, 32])):
        assert table._range_all(n, *ends, arrays[2], 0, 0, 0) is None
        assert offsets[: n + 1].tolist() == expected
    with gh.Table("linear_probe", device="cpu") as t:
        assert isinstance(t._range_all(1, 0, 0, arrays[2], 0, 0, 0), gh.Unsupported)


def test_more_ranges_than_a_call_takes(table):
    failure = table._range_all(2**32 - 1, 0, 0, 8, 0, 0, 0)
    assert isinstance(failure, gh.InvalidArgument)
    assert "4294967295 ranges are more than one call takes" in str(failure)


@pytest.mark.parametrize("which", [4, 5, 2**32 - 1])
def test_neighbours_that_do_not_exist_are_refused(table, which):
    keys, found = np.array([0], "i4"), np.zeros(1, "u1")
    with pytest.raises(gh.InvalidArgument, match=f"which is {which}; pass GPUHASH_AT_LEAST"):
        table._neighbors(which, 1, keys.ctypes.data, 0, 0, found.ctypes.data, 0)


def test_offsets_of_so_many_ranges_that_one_more_is_none():
    """n + 1 offsets of SIZE_MAX ranges would be none: with both ends open no other array is as long."""
    offsets = np.zeros(1, "u8")
    with (
        gh.Table("skiplist", device="cpu") as t,
        pytest.raises(gh.InvalidArgument, match=r"offsets has n \+ 1 entries"),
    ):
        t._range_pairs(2**64 - 1, 0, 0, offsets.ctypes.data, 0, 0, 0, 0, 0)


class Meanwhile:
    """A table in which something happens between the two passes over its ranges."""

    def __init__(self, table, happens):
        self.table, self.happens = table, list(happens)

    def __getattr__(self, name):
        return getattr(self.table, name)

    def _range_pairs(self, *arguments):
        self.table._range_pairs(*arguments)
        if self.happens:
            self.happens.pop(0)()


@pytest.mark.parametrize("what", ["fewer", "more", "fewer and more", "more twice", "none left"])
def test_ranges_of_a_table_that_changes_between_counting_and_reading(what):
    there = np.arange(0, 400, 2, dtype="i4")
    odd = np.arange(1, 400, 2, dtype="i4")
    low, high = np.array([0, 100, 200], "i4"), np.array([100, 200, 400], "i4")
    with gh.Table("skiplist", key_dtype="i4", value_dtype="i4", device="cpu") as t:
        t.insert(there, there)
        happens = {
            "fewer": [lambda: t.erase(there[::3])],
            "more": [lambda: t.insert(odd, odd)],
            "fewer and more": [lambda: (t.erase(there[:50]), t.insert(odd[50:100], odd[50:100]))],
            "more twice": [lambda: t.insert(odd[:60], odd[:60]), lambda: t.insert(odd[60:], odd[60:])],
            "none left": [t.clear],
        }[what]
        keys, values, offsets = _ordered.pairs(Meanwhile(t, happens), low, high, None)
        expected = np.sort(t.keys())
    parts = [expected[(expected >= a) & (expected < b)] for a, b in zip(low, high, strict=True)]
    assert keys.tolist() == np.concatenate(parts).tolist()
    assert values.tolist() == keys.tolist()
    assert offsets.tolist() == np.cumsum([0, *map(len, parts)]).tolist()


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ("u8", "i8"),
        ("i4", None),
        ("i2", "u1"),
        ("datetime64[s]", "timedelta64[ms]"),
        ("f8", ("u4", 2)),
        ("u4", "f2"),
        ("i8", [("a", "i4"), ("b", "f4")]),
    ],
)
def test_ranges_go_into_arrays_of_the_caller(keys, values):
    """The same as without `out`, in its memory, and with a limit nothing behind the rows that were asked for."""
    rng = np.random.default_rng(6)
    bits = np.arange(-300, 300, 4, dtype="i8") if np.dtype(keys).kind in "im" else np.arange(0, 600, 4, dtype="u8")
    held = bits.astype(keys) if np.dtype(keys).kind not in "M" else bits.view("i8").astype(keys)
    with gh.Table("skiplist", key_dtype=keys, value_dtype=values, device="cpu") as t:
        given = None if values is None else np.zeros(len(held), values)
        if given is not None:
            given.reshape(-1).view("u1")[:] = rng.integers(1, 100, given.nbytes)
        t.insert(held, given)

        def room(*shape):
            return np.full(shape, held[0]), None if values is None else np.zeros(shape, values)

        asked = (
            (held[[5]], held[[90]]),
            (held[[5, 50, 60, 20]], held[[90, 50, 10, 21]]),
            (None, held[[3, 9]]),
            (held[[100]], None),
            (None, None),
            (held[:0], held[:0]),
        )
        for ends in asked:
            expected = t.range(*ends)
            for more in (0, 1, 500):
                out = room(len(expected[0]) + more)
                answer = t.range(*ends, out=out)
                assert answer[2].tolist() == expected[2].tolist()
                for got, right, array in zip(answer[:2], expected[:2], out, strict=True):
                    assert (got is None) == (right is None)
                    if got is not None:
                        assert got.dtype == right.dtype
                        assert got.tobytes() == right.tobytes()
                        assert got.size == 0 or np.shares_memory(got, array)
            for limit in (1, 7):
                expected = t.range(*ends, limit)
                out = room(len(expected[0]) + 2, limit)
                behind = [None if array is None else array[-2:].tobytes() for array in out]
                answer = t.range(*ends, limit, out=out)
                assert answer[2].tolist() == expected[2].tolist()
                for got, right, array, rest in zip(answer[:2], expected[:2], out, behind, strict=True):
                    if right is not None:
                        assert got.tobytes() == right.tobytes()
                        assert got.shape == right.shape
                        assert got.size == 0 or np.shares_memory(got, array)
                        assert array[-2:].tobytes() == rest


@pytest.mark.parametrize("n", [1, 3])
def test_arrays_that_are_too_short_for_the_pairs_of_a_range(table, n):
    """The refusal says how many there are; the next call has them, and nothing is written behind the arrays."""
    low, high = np.array([-50, 0, 7][:n], "i4"), np.array([0, 40, 40][:n], "i4")
    expected = [part.tolist() for part in table.range(low, high)]
    there = len(expected[0])
    for short in range(there):
        keys, values = np.full(there + 3, 77, "i4"), np.full(there + 3, 77, "u4")
        with pytest.raises(gh.InvalidArgument, match=rf"the ranges have {there} pairs and out has room for {short}: "):
            table.range(low, high, out=(keys[:short], values))
        assert (keys[short:] == 77).all()
        with pytest.raises(ValueError, match=f"have {there} pairs and out has room for {short}"):
            table.range(low, high, out=(keys, values[:short]))
        assert (values[short:] == 77).all()
    answer = table.range(low, high, out=(keys, values))
    assert [part.tolist() for part in answer] == expected


def test_outputs_of_ranges_that_are_refused(table):
    keys, values = np.empty(20, "i4"), np.empty(20, "u4")
    read_only = keys.copy()
    read_only.flags.writeable = False
    for limit, shape in ((None, (20,)), (4, (2, 4))):
        k, v = np.empty(shape, "i4"), np.empty(shape, "u4")
        example = r"np.empty\(\(n,\), 'int32'\)" if limit is None else r"np.empty\(\(n, 4\), 'int32'\)"
        for out, kind, words in (
            (k, TypeError, "out is a ndarray: pass a tuple of two arrays"),
            ((k,), TypeError, "out is a tuple"),
            ((k, v, v), TypeError, "out is a tuple"),
            ((k[0], v), (TypeError, ValueError), r"out\[0\]"),
            ((k, None), TypeError, "out has no array for the values"),
            ((None, v), TypeError, "out has no array for the keys"),
            ((k.astype("i8"), v), TypeError, r"out\[0\] has dtype int64, the results int32: pass " + example),
            ((k, v.view("i4")), TypeError, r"out\[1\] has dtype int32, the results uint32"),
            ((k, v.tolist()), TypeError, r"out\[1\] is a list"),
            ((k[..., None], v), ValueError, r"out\[0\] has shape"),
            ((k, np.broadcast_to(v[:1], shape)), ValueError, r"out\[1\] is read-only"),
            ((np.empty((*shape, 2), "i4")[..., 0], v), ValueError, r"out\[0\] is strided"),
            ((k, k.view("u4")), gh.InvalidArgument, r"out\[1\] overlaps another array"),
        ):
            with pytest.raises(kind, match=words):
                table.range([1, 2], [3, 4], limit, out=out)
    for limit, shape in ((None, (20,)), (4, (5, 4))):
        out = keys.reshape(shape), values.reshape(shape)
        for low, high in ((keys[:2], [3, 4]), ([1, 2], keys[2:4])):
            with pytest.raises(gh.InvalidArgument, match=r"out\[0\] overlaps another array"):
                table.range(low, high, limit, out=out)
    for shape in ((1, 4), (2, 3), (2, 5), (8,)):
        with pytest.raises(ValueError, match=r"out\[0\] has shape .*: pass one of shape \(2, 4\), or of more rows"):
            table.range([1, 2], [3, 4], 4, out=(np.empty(shape, "i4"), np.empty((2, 4), "u4")))
    with (
        gh.Table("skiplist", value_dtype=None, device="cpu") as t,
        pytest.raises(TypeError, match="this table is a set"),
    ):
        t.range(1, 2, out=(np.empty(1, "u8"), np.empty(1, "u8")))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "what", ["fewer", "more", "more, and hardly room", "more than there is room for", "more twice", "none left"]
)
def test_outputs_of_ranges_of_a_table_that_changes_between_counting_and_reading(what, n):
    there = np.arange(0, 400, 2, dtype="i4")
    odd = np.arange(1, 400, 2, dtype="i4")
    low, high = np.array([0, 100, 200][-n:], "i4"), np.array([100, 200, 400][-n:], "i4")
    with gh.Table("skiplist", key_dtype="i4", value_dtype="i2", device="cpu") as t:
        t.insert(there, there)
        happens = {
            "fewer": [lambda: t.erase(there[::3])],
            "more": [lambda: t.insert(odd, odd)],
            "more, and hardly room": [lambda: t.insert(odd, odd)],
            "more than there is room for": [lambda: t.insert(odd, odd)],
            "more twice": [lambda: t.insert(odd[:60], odd[:60]), lambda: t.insert(odd[60:], odd[60:])],
            "none left": [t.clear],
        }[what]
        room = {"more than there is room for": 210, "more, and hardly room": 402}.get(what, 400)
        out = np.empty(room, "i4"), np.empty(room, "i2")
        spy = Meanwhile(t, happens)
        if n == 3 and what == "more than there is room for":
            with pytest.raises(gh.InvalidArgument, match="the ranges have 400 pairs and out has room for 210"):
                _ordered.pairs(spy, low, high, None, out)
            return
        keys, values, offsets = _ordered.pairs(spy, low, high, None, out)
        # One range is read in one pass, after which all this happens.
        held = np.sort(t.keys()) if n == 3 else there
    parts = [held[(held >= a) & (held < b)] for a, b in zip(low, high, strict=True)]
    assert keys.tolist() == np.concatenate(parts).tolist()
    assert values.tolist() == keys.tolist()
    assert np.shares_memory(keys, out[0]) or not keys.size
    assert offsets.tolist() == np.cumsum([0, *map(len, parts)]).tolist()
