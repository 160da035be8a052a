"""Room: reserve, clear, shrink, growth of buckets and of the heap, and what happens when there is none."""

import itertools

import numpy as np
import pytest

import pygpuhash as gh

ALLOCATORS = ["slab_alloc", "slab_alloc_light"]


class Memory:
    """A memory resource that keeps count, and refuses after `budget` allocations."""

    def __init__(self, budget=None):
        self.held, self.taken, self.budget, self._arrays = 0, 0, budget, {}

    def allocate(self, nbytes, alignment, stream):
        if self.budget is not None and self.taken >= self.budget:
            return 0
        self.taken += 1
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self._arrays[address] = array
        self.held += nbytes
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self._arrays[address]
        self.held -= nbytes


def fill(table, n, first=0):
    """Insert n keys; which of them found room."""
    keys = np.arange(first, first + n, dtype=np.uint64)
    try:
        return keys, table.insert(keys, keys)
    except gh.NoMemory as caught:
        failure = caught
    assert set(failure.status.tolist()) <= {1, 2, 3}
    return keys, failure.status == 1


def test_buckets_double_as_the_table_fills(make):
    table = make(capacity=100)
    buckets = [table.stats()["buckets"]]
    for i in range(20):
        fill(table, 5000, i * 5000)
        buckets.append(table.stats()["buckets"])
    assert table.stats()["beta"] <= table.max_load_factor
    assert len(table) == 100_000
    grown = [b / a for a, b in itertools.pairwise(buckets) if b != a]
    assert grown
    assert min(grown) > 1.9


def test_fixed_buckets_are_never_rebuilt(make):
    """The paper's table: any number of elements in the buckets that it was made with."""
    table = make(buckets=100)
    for i in range(10):
        _, inserted = fill(table, 10_000, i * 10_000)
        assert inserted.all()
    stats = table.stats()
    assert (stats["buckets"], stats["rebuilds"]) == (100, 0)
    assert stats["super_blocks"] > 1
    assert stats["chain_max"] > 100
    assert (table[np.arange(100_000, dtype=np.uint64)] == np.arange(100_000)).all()


def test_a_heap_of_all_super_blocks_is_replaced_by_a_larger_one(make):
    """255 super blocks are what a handle can name; a table made small must not end there."""
    table = make(key_dtype="uint32", value_dtype="uint32", slab_bytes=64, buckets=30_000)
    assert table.stats()["heap_units"] == 1024
    n = (255 * 1024 + 30_000) * 7 + 100_000
    keys = np.arange(n, dtype=np.uint32)
    assert table.insert(keys, keys).all()
    stats = table.stats()
    assert (stats["buckets"], stats["size"]) == (30_000, n)
    assert stats["heap_units"] > 255 * 1024
    assert (table[keys] == keys).all()


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_growth_for_pairs_of_one_key(make, allocator):
    """One chain takes them all, which no number of buckets helps."""
    table = make(duplicates=1, allocator=allocator)
    n = 40_000
    assert table.insert_multi(np.full(n, 5, np.uint64), np.arange(n, dtype=np.uint64)).all()
    assert np.array_equal(np.sort(table.find_all([5])[1]), np.arange(n))
    table.check()


@pytest.mark.parametrize("duplicates", [0, 1])
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_full_heap_says_so_per_element_and_reserve_completes(make, allocator, duplicates):
    table = make(buckets=4, grow=False, allocator=allocator, duplicates=duplicates)
    n = 40_000
    keys, inserted = fill(table, n)
    stats = table.stats()
    assert stats["heap_taken"] == stats["heap_units"]
    assert 0 < inserted.sum() < n
    assert len(table) == inserted.sum()
    table.check()
    values, found = table.find(keys)
    assert (found == inserted).all()
    assert (values[inserted] == keys[inserted]).all()
    table.reserve(n)
    assert table.stats()["buckets"] == 4
    assert table.insert(keys, keys).tolist() == (~inserted).tolist()
    assert (table[keys] == keys).all()


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("way_out", ["flush", "clear", "reserve"])
def test_a_large_heap_that_was_full_hands_out_every_unit_that_came_back(make, allocator, way_out):
    """Of 20 blocks few have a free unit: an allocation has to look beyond those that its hash draws, each time anew."""
    # Threads that append to one chain have a unit more in hand for a moment.
    threads = 1 if way_out == "clear" else None
    table = make(buckets=5000, grow=False, allocator=allocator, capacity=180_000, threads=threads)
    units = int(table.stats()["heap_units"])
    assert units >= 20 * 1024
    n = 2 * 7 * units
    keys, inserted = fill(table, n)
    assert 0 < inserted.sum() < n
    assert table.stats()["heap_taken"] == units
    for round_ in range(1, 4):
        if way_out == "reserve":
            table.reserve(n)
            assert table.insert(keys, keys).sum() == (~inserted).sum()
            return
        if way_out == "flush":
            there = table.export()[0]
            table.erase(there[: 7 * 500])
            table.flush()
            assert 0 < units - table.stats()["heap_taken"] < 500
        else:
            table.clear()
            # What fitted fits again: no request gives up while there is a unit.
            assert table.insert(keys[inserted], keys[inserted]).all()
            table.clear()
        fill(table, n, round_ * n)
        assert table.stats()["heap_taken"] == units


def test_the_error_of_a_full_heap_says_how_many_and_what_to_do(make):
    table = make(buckets=1, grow=False)
    with pytest.raises(gh.NoMemory, match=r"\d+ of 20000 elements found no slab: all of a table of 7189 slots"):
        table.insert(np.arange(20_000, dtype=np.uint64), 1)


def test_other_operations_go_on_in_a_full_heap(make):
    table = make(buckets=1, grow=False)
    keys, inserted = fill(table, 20_000)
    there, absent = keys[inserted], keys[~inserted]
    assert not table.insert_or_assign(there, there + 1).any()
    assert (table[there] == there + 1).all()
    assert table.erase(there[:100]).all()
    assert table.insert(there[:100], 5).all()  # into their own slots
    assert not table.contains(absent).any()
    table.erase(there[:1000])
    table.flush()
    assert table.insert(absent[:900], 1).all()  # slabs that came back


@pytest.mark.parametrize("duplicates", [0, 1])
def test_capacity_fits_without_growing(make, duplicates):
    table = make(capacity=50_000, grow=False, duplicates=duplicates)
    _, inserted = fill(table, 50_000)
    assert inserted.all()
    if duplicates:
        same = make(capacity=50_000, grow=False, duplicates=1)
        assert same.insert_multi(np.full(50_000, 3, np.uint64), 1).all()


def test_reserve_makes_more_buckets_once(make):
    table = make(capacity=1000)
    fill(table, 1000)
    buckets = table.stats()["buckets"]
    table.reserve(100_000)
    more, rebuilds = table.stats()["buckets"], table.info["rebuilds"]
    assert more >= 90 * buckets
    assert table.capacity >= 100_000
    fill(table, 99_000, 1000)
    table.reserve(500)  # never shrinks
    assert table.info["rebuilds"] == rebuilds
    assert table.stats()["buckets"] == more
    assert len(table) == 100_000


@pytest.mark.parametrize("options", [{}, {"buckets": 40}, {"allocator": "slab_alloc_light"}])
def test_clear_and_shrink(make, options):
    table = make(capacity=100_000, **options)
    keys, _ = fill(table, 100_000)
    table.erase(keys[100:])
    before = table.nbytes
    table.shrink()
    assert table.nbytes < before / 10
    assert (len(table), table.info["used"]) == (100, 100)
    assert (table[keys[:100]] == keys[:100]).all()
    if "buckets" in options:
        assert table.stats()["buckets"] == 40
    table.clear()
    assert (len(table), table.info["used"], table.stats()["heap_taken"]) == (0, 0, 0)
    table.check()
    assert table.insert(keys, keys).all()
    assert len(table) == 100_000


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_all_memory_comes_from_the_resource_and_goes_back(allocator):
    memory = Memory()
    with gh.Table("slab_hash", device="cpu", seed=7, memory=memory, allocator=allocator) as table:
        fill(table, 100_000)
        before = table.nbytes
        assert before == memory.held
        table.erase(np.arange(99_000, dtype=np.uint64))
        table.shrink()
        assert table.nbytes == memory.held < before / 4
    assert memory.held == 0


@pytest.mark.parametrize("options", [{}, {"buckets": 20}, {"allocator": "slab_alloc_light"}, {"duplicates": 1}])
def test_every_allocation_failing_in_turn_loses_nothing(options):
    """The memory resource refuses from its i-th allocation on: what was inserted stays, and the table stays valid."""
    budget = 0
    while True:
        memory = Memory(budget)
        try:
            table = gh.Table("slab_hash", device="cpu", seed=7, memory=memory, **options)
        except gh.NoMemory:
            assert memory.held == 0
            budget += 1
            continue
        keys, inserted = fill(table, 30_000)
        table.check()
        assert len(table) == inserted.sum()
        assert (table.contains(keys) == inserted).all()
        memory.budget = None
        assert table.insert(keys, keys).tolist() == (~inserted).tolist()
        table.check()
        assert (table[keys] == keys).all()
        table.close()
        assert memory.held == 0
        if inserted.all():
            break
        budget += 1
    assert budget > 3


@pytest.mark.parametrize("options", [{}, {"buckets": 1000}, {"buckets": 1000, "duplicates": 1}])
def test_a_reserve_without_memory_is_as_if_it_had_not_been_asked_for(options):
    """Now, and for what the table grows to later."""
    grown = []
    for failing in (True, False):
        memory = Memory()
        with gh.Table("slab_hash", device="cpu", seed=7, memory=memory, **options) as table:
            fill(table, 20_000)
            before, held = table.stats(), memory.held
            if failing:
                for budget in range(3 if options else 2):  # what it takes, but for the last block
                    memory.budget = memory.taken + budget
                    with pytest.raises(gh.NoMemory):
                        table.reserve(1_000_000)
                    assert table.stats() == before
                    assert memory.held == held
                memory.budget = None
            fill(table, 80_000, 20_000)
            table.check()
            grown.append(table.stats())
    assert grown[0] == grown[1]


def test_every_unit_is_found_after_a_reserve_that_failed():
    """What was given back by then is somebody else's, who writes to it."""
    spoilt = []

    class Spoilt(Memory):
        def deallocate(self, address, nbytes, alignment, stream):
            self._arrays[address][:] = 1
            spoilt.append(self._arrays[address])
            super().deallocate(address, nbytes, alignment, stream)

    memory = Spoilt()
    with gh.Table("slab_hash", device="cpu", seed=7, memory=memory, buckets=200, capacity=60_000, grow=False) as table:
        units = table.stats()["heap_units"]
        assert units > 8 * 1024
        memory.budget = memory.taken + 1
        with pytest.raises(gh.NoMemory):
            table.reserve(1_000_000)
        assert spoilt
        fill(table, 120_000)
        assert table.stats()["heap_taken"] == table.stats()["heap_units"] == units
        table.check()


@pytest.mark.parametrize("options", [{}, {"hash": "paper"}])
def test_growth_goes_by_the_same_after_a_move_that_failed(make, options):
    """Wherever memory runs out while a table is moved, it later has as many buckets as one without that."""

    def grow(table):
        buckets = []
        for i in range(12):
            fill(table, 2500, 3000 + i * 2500)
            buckets.append(table.stats()["buckets"])
        table.reserve(60_000)
        return [*buckets, table.stats()["buckets"]]

    untouched = make(capacity=100, seed=5, **options)
    fill(untouched, 3000)
    expected = grow(untouched)
    for budget in range(20):
        memory = Memory()
        table = make(capacity=100, seed=5, memory=memory, **options)
        fill(table, 3000)
        memory.budget = memory.taken + budget
        try:
            table.reserve(20_000)
            break
        except gh.NoMemory:
            memory.budget = None
        assert grow(table) == expected
        table.check()
    assert budget == 2 if not options else budget > 5  # base slabs, a super block; and arrays for the pairs


def test_a_reserve_of_more_super_blocks_than_there_may_be(make):
    """Then the heap gets larger ones."""
    table = make(key_dtype="uint32", value_dtype="uint32", buckets=10)
    table.insert(np.arange(1000, dtype=np.uint32), 1)
    table.reserve(4_500_000)
    assert table.stats()["heap_units"] >= 300_000
    assert len(table) == 1000


def test_fewer_super_blocks_than_wanted_are_better_than_none(make):
    """A heap that is full asks for as many as it has; there is memory for one."""

    class Little(Memory):
        most = 1 << 40

        def allocate(self, nbytes, alignment, stream):
            return 0 if self.held + nbytes > self.most else super().allocate(nbytes, alignment, stream)

    memory = Little()
    table = make(key_dtype="uint32", value_dtype="uint32", buckets=100, memory=memory)
    keys = np.arange(40_000, dtype=np.uint32)
    table.insert(keys[:28_000], 1)
    assert table.stats()["super_blocks"] == 2
    memory.most = memory.held + 200_000  # a super block has 1024 slabs of 128 bytes here
    assert table.insert(keys[28_000:], 1).all()
    assert table.stats()["super_blocks"] == 3
