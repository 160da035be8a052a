"""SlabAlloc on its own, through Python: units, refusals, super blocks, threads."""

import ctypes
import threading

import numpy as np
import pytest

import pygpuhash as gh

KINDS = ["slab_alloc", "slab_alloc_light"]
NO_UNIT = 0xFFFFFFFF


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def allocator(kind="slab_alloc", **arguments):
    return gh.SlabAllocator(kind, seed=3, **arguments)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("batch", [1, 33, 1000, 20_000])
def test_every_unit_is_handed_out_exactly_once(kind, threads, batch):
    with allocator(kind, memory_blocks=10, super_blocks=2, max_super_blocks=2, threads=threads) as slabs:
        total = slabs.stats()["units"]
        assert total == 2 * 10 * 1024
        units = []
        while sum(map(len, units)) + batch <= total:
            units.append(slabs.allocate(batch))
            if batch == 1 and len(units) == 3000:
                break
        rest = total - sum(map(len, units))
        if rest:
            units.append(slabs.allocate(rest))
        every = np.concatenate(units)
        assert len(np.unique(every)) == total
        assert NO_UNIT not in every
        assert slabs.stats()["allocated"] == total
        assert slabs.stats()["full_blocks"] == 20
        slabs.free(every[:1])
        assert slabs.stats()["full_blocks"] == 19
        assert slabs.allocate(1) == every[0]
        with pytest.raises(gh.NoMemory, match="1 of 1 units could not be had: all 20480 are taken"):
            slabs.allocate(1)
        slabs.free(every)
        assert slabs.stats()["allocated"] == slabs.stats()["full_blocks"] == 0
        assert len(np.unique(slabs.allocate(total))) == total


@pytest.mark.parametrize("threads", [1, 4])
def test_units_that_could_not_be_had_are_counted_over_the_whole_batch(kind, threads):
    """Threads take pieces of it, and some of these have all of their units."""
    with allocator(kind, memory_blocks=40, max_super_blocks=1, threads=threads) as slabs:
        with pytest.raises(gh.NoMemory, match="29040 of 70000 units could not be had: all 40960 are taken"):
            slabs.allocate(70_000)
        slabs.free(slabs.allocate(slabs.stats()["units"] - slabs.stats()["allocated"]))


@pytest.mark.parametrize("threads", [1, 4])
def test_each_address_of_a_long_batch_is_its_own_handle_s(kind, threads):
    with allocator(kind, memory_blocks=64, max_super_blocks=1, threads=threads) as slabs:
        units = slabs.allocate(1 << 16)
        parts = [slabs.translate(some) for some in np.array_split(units, 10)]
        assert np.array_equal(slabs.translate(units), np.concatenate(parts))
        assert len(np.unique(np.concatenate(parts))) == len(units)


def test_what_was_freed_is_what_comes_back(kind):
    with allocator(kind, memory_blocks=2, max_super_blocks=1) as slabs:
        every = slabs.allocate(2048)
        some = every[::5]
        slabs.free(some)
        assert set(slabs.allocate(len(some)).tolist()) == set(some.tolist())


@pytest.mark.parametrize("n", [1, 40])
def test_the_last_free_units_of_many_blocks_are_found(kind, n):
    """30 blocks, and the free units in one of them: batches have to look beyond the blocks that the hash draws."""
    with allocator(kind, memory_blocks=30, max_super_blocks=1) as slabs:
        every = np.sort(slabs.allocate(30 * 1024))
        for block in (0, 13, 29):
            with pytest.raises(gh.NoMemory):
                slabs.allocate(1)
            some = every[block * 1024 :][:n]
            slabs.free(some)
            assert set(slabs.allocate(n).tolist()) == set(some.tolist())


def test_a_unit_freed_twice_is_refused_by_name(kind):
    with allocator(kind, memory_blocks=1) as slabs:
        units = slabs.allocate(10)
        slabs.free(units[4:5])
        with pytest.raises(gh.InvalidArgument) as caught:
            slabs.free(units)
        text = str(caught.value)
        assert f"1 of 10 handles were refused, the first 0x{units[4]:08x} at index 4" in text
        assert "not allocated" in text
        assert caught.value.status.tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]
        assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("at", [[60_000], [60_000, 12_345], [65_535], [40_000, 40_001, 65_000]])
def test_the_first_refused_handle_is_counted_from_the_beginning_of_the_batch(kind, threads, at):
    """Threads take pieces of it, and each sees the first one of its own."""
    with allocator(kind, memory_blocks=64, max_super_blocks=1, threads=threads) as slabs:
        units = slabs.allocate(1 << 16)
        slabs.free(units[at])
        with pytest.raises(gh.InvalidArgument) as caught:
            slabs.free(units)
        first = min(at)
        assert f"{len(at)} of 65536 handles were refused, the first 0x{units[first]:08x} at index {first}:" in str(
            caught.value
        )
        assert np.flatnonzero(caught.value.status == 0).tolist() == sorted(at)
        assert slabs.stats()["allocated"] == 0


def test_one_handle_twice_in_a_batch_is_freed_once(kind):
    with allocator(kind, memory_blocks=1) as slabs:
        unit, other = slabs.allocate(2)
        with pytest.raises(gh.InvalidArgument, match="1 of 3 handles") as caught:
            slabs.free(np.array([unit, other, unit]))
        assert sorted(caught.value.status[[0, 2]].tolist()) == [0, 1]
        assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize("handle", [NO_UNIT, 1 << 24, 5 << 10, 254 << 24, 0x00FFFFFF])
def test_a_foreign_handle_is_refused_by_name(kind, handle):
    with allocator(kind, memory_blocks=2) as slabs:  # handles of super block 0 and memory blocks 0, 1
        unit = slabs.allocate(1)[0]
        with pytest.raises(gh.InvalidArgument, match=f"first 0x{handle:08x} at index 0: it is not of this allocator"):
            slabs.free(np.array([handle, unit], np.uint32))
        assert slabs.stats()["allocated"] == 0
        assert slabs.translate(np.array([handle], np.uint32)).tolist() == [0]


@pytest.mark.parametrize("unit_bytes", [64, 128, 256])
def test_addresses_are_distinct_aligned_and_inside(kind, unit_bytes):
    held = {}

    class Memory:
        def allocate(self, nbytes, alignment, stream):
            array = np.empty(nbytes + alignment, np.uint8)
            address = -(-array.ctypes.data // alignment) * alignment
            held[address] = (nbytes, array)
            return address

        def deallocate(self, address, nbytes, alignment, stream):
            assert held.pop(address)[0] == nbytes

    with allocator(kind, unit_bytes=unit_bytes, memory_blocks=2, super_blocks=3, memory=Memory()) as slabs:
        units = slabs.allocate(slabs.stats()["units"])
        addresses = np.sort(slabs.translate(units))
        assert (np.diff(addresses) >= unit_bytes).all()
        assert (addresses % min(unit_bytes, 128) == 0).all()
        inside = np.zeros(len(addresses), bool)
        for start, (nbytes, _) in held.items():
            inside |= (addresses >= start) & (addresses + unit_bytes <= start + nbytes)
        assert inside.all()
        assert slabs.stats()["bytes"] == sum(nbytes for nbytes, _ in held.values())
    assert not held


def test_units_keep_what_is_written_and_are_wiped_on_reuse():
    import ctypes

    with allocator(memory_blocks=1, max_super_blocks=1, unit_bytes=128, wipe=True) as slabs:
        units = slabs.allocate(1024)

        def contents(unit):
            address = int(slabs.translate(np.array([unit], np.uint32))[0])
            return np.ctypeslib.as_array((ctypes.c_uint8 * 128).from_address(address))

        for i, unit in enumerate(units):
            contents(unit)[:] = i % 256
        assert all((contents(unit) == i % 256).all() for i, unit in enumerate(units))
        slabs.free(units)
        assert all((contents(unit) == 255).all() for unit in slabs.allocate(1024))


def test_super_blocks_are_added_up_to_the_limit():
    with allocator(memory_blocks=1, super_blocks=1, max_super_blocks=4) as slabs:
        units = [slabs.allocate(1000)]
        assert slabs.stats()["super_blocks"] == 1
        units.append(slabs.allocate(1000))
        assert slabs.stats()["super_blocks"] == 2
        units.append(slabs.allocate(2096))
        assert slabs.stats()["super_blocks"] == 4
        assert len(np.unique(np.concatenate(units))) == 4096
        with pytest.raises(gh.NoMemory, match="super blocks"):
            slabs.allocate(1)
        assert slabs.stats()["allocated"] == 4096


def test_the_last_super_block_has_no_handle_that_means_none():
    """255 super blocks, not 256: the last handle of a 256th would be NO_UNIT."""
    with allocator(memory_blocks=1, super_blocks=255, unit_bytes=64) as slabs:
        units = slabs.allocate(255 * 1024)
        assert len(np.unique(units)) == 255 * 1024
        assert units.max() < NO_UNIT
        with pytest.raises(gh.NoMemory):
            slabs.allocate(1)


@pytest.mark.parametrize("kind", ["slab_alloc", "slab_alloc_light"])
def test_units_that_are_too_few_are_nobodys(kind):
    with gh.SlabAllocator(kind, memory_blocks=1, super_blocks=1, max_super_blocks=1) as allocator:
        units = allocator.allocate(600)
        with pytest.raises(gh.NoMemory, match=r"\d+ of 600 units could not be had"):
            allocator.allocate(600)
        assert allocator.stats()["allocated"] == 600
        rest = allocator.allocate(424)
        assert len(np.unique(np.append(units, rest))) == 1024


def test_units_of_a_call_that_failed_are_nobodys_wherever_they_stand(kind):
    """On a GPU, and with several threads, they lie anywhere among those that were not had."""

    class Short(gh.SlabAllocator):
        __slots__ = ()

        def _call(self, what, n, *arguments):
            failure = super()._call(what, n, *arguments)
            return gh.NoMemory("no") if what == "allocate" else failure

    with Short(kind, memory_blocks=1) as slabs:
        for n in (1, 2, 100):
            with pytest.raises(gh.NoMemory, match="no"):
                slabs.allocate(n)
            assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"threads": 4097}, "threads=4097 is out of range: pass 0 to 4096"),
        ({"memory_blocks": 16385}, "memory_blocks=16385 is out of range: pass 0 to 16384"),
        ({"super_blocks": 256}, "super_blocks=256 is out of range: pass 0 to 255"),
        ({"unit_bytes": 63}, "unit_bytes=63 is out of range: pass 64 to 256"),
    ],
)
def test_numbers_that_are_out_of_range(arguments, words):
    with pytest.raises(gh.InvalidArgument, match=words):
        allocator(**arguments)
    with allocator(memory_blocks=1, threads=4096, max_super_blocks=255) as slabs:
        assert slabs.allocate(3).size == 3


def test_what_is_not_said_is_as_documented():
    with gh.SlabAllocator(memory_blocks=1) as slabs:  # of the kind that can be added to
        assert slabs.stats()["super_blocks"] == 1
        units = slabs.allocate(2000)
        assert slabs.stats()["super_blocks"] == 2
        addresses = np.sort(slabs.translate(units[:1024]))
        assert np.diff(addresses).min() == 128
        ctypes.memset(int(addresses[0]), 7, 128)
        slabs.free(units)
        assert ctypes.string_at(int(addresses[0]), 128) == b"\x07" * 128  # it is not wiped
    with gh.SlabAllocator() as slabs:
        assert slabs.stats()["units"] == 256 * 1024


def test_the_light_allocator_has_one_range():
    with allocator("slab_alloc_light", memory_blocks=2, super_blocks=3) as slabs:
        units = slabs.allocate(3 * 2048)
        addresses = np.sort(slabs.translate(units))
        assert (np.diff(addresses) == 128).all()
        with pytest.raises(gh.NoMemory):
            slabs.allocate(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit_bytes": 96}, "unit_bytes is 96"),
        ({"memory_blocks": 16385}, "memory_blocks=16385 is out of range"),
        ({"super_blocks": 256}, "super_blocks=256 is out of range: pass 0 to 255"),
        ({"super_blocks": 3, "max_super_blocks": 2}, "max_super_blocks is 2"),
        ({"max_super_blocks": 256}, "255"),
    ],
)
def test_shapes_that_are_refused(arguments, message):
    with pytest.raises(gh.InvalidArgument, match=message):
        allocator(**arguments)


def test_nothing_of_nothing(kind):
    with allocator(kind, memory_blocks=1) as slabs:
        empty = slabs.allocate(0)
        assert (empty.dtype, empty.size) == (np.dtype(np.uint32), 0)
        slabs.free(empty)
        assert slabs.translate(empty).size == 0
        assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize("grow", [False, True])
def test_threads_allocate_and_free_at_the_same_time(kind, grow):
    """A unit is in one hand at a time: each thread enters what it holds in a shared array of owners."""
    limits = {"max_super_blocks": 16} if grow else {"super_blocks": 16, "max_super_blocks": 16}
    if grow and kind == "slab_alloc_light":
        pytest.skip("a contiguous range cannot be added to")
    owner = np.zeros(16 << 24, np.uint8)
    failures = []
    with allocator(kind, memory_blocks=1, threads=1, **limits) as slabs:

        def work(me):
            try:
                rng = np.random.default_rng(me)
                held = np.empty(0, np.uint32)
                for _ in range(150):
                    fresh = slabs.allocate(int(rng.integers(1, 600)))
                    assert not owner[fresh].any()
                    owner[fresh] = me
                    held = rng.permutation(np.concatenate([held, fresh]))
                    gone, held = held[1500:], held[:1500]
                    assert (owner[held] == me).all()
                    owner[gone] = 0
                    slabs.free(gone)
                owner[held] = 0
                slabs.free(held)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]
        assert slabs.stats()["allocated"] == 0
        assert slabs.stats()["super_blocks"] <= 16


def test_threads_that_run_out_together_add_what_is_needed_once():
    """Every thread asks for as much as there is: as many super blocks as threads, not more."""
    with allocator(memory_blocks=4, super_blocks=1, threads=1) as slabs:
        barrier = threading.Barrier(4)
        got = []

        def work():
            barrier.wait()
            got.append(slabs.allocate(4096))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(np.unique(np.concatenate(got))) == 4 * 4096
        assert 4 <= slabs.stats()["super_blocks"] <= 7
