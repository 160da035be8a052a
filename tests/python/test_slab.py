"""SlabAllocator, where a backend provides it."""

import copy

import numpy as np
import pytest

import pygpuhash as gh

KINDS = ["slab_alloc", "slab_alloc_light"]


def allocator(kind, **arguments):
    try:
        return gh.SlabAllocator(kind, seed=3, **arguments)
    except (gh.BackendNotFound, gh.Unsupported) as error:
        pytest.skip(f"no slab allocation here: {error}")


@pytest.mark.parametrize("kind", KINDS)
def test_units_are_distinct_and_come_back(kind):
    with allocator(kind, memory_blocks=4) as slabs:
        units = slabs.allocate(1000)
        assert units.dtype == np.uint32
        assert len(np.unique(units)) == 1000
        addresses = slabs.translate(units)
        assert len(np.unique(addresses)) == 1000
        assert (np.diff(np.sort(addresses)) >= 128).all()
        assert slabs.stats()["allocated"] == 1000
        slabs.free(units[::2])
        assert slabs.stats()["allocated"] == 500
        slabs.free(units[1::2])
        assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_handles_that_are_not_allocated_are_refused(kind):
    with allocator(kind, memory_blocks=4) as slabs:
        units = slabs.allocate(3)
        slabs.free(units[:1])
        with pytest.raises(gh.InvalidArgument) as caught:
            slabs.free(units)
        assert caught.value.status.tolist() == [0, 1, 1]
        assert slabs.stats()["allocated"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_exhausted_allocator_keeps_nothing(kind):
    with allocator(kind, memory_blocks=1, super_blocks=1, max_super_blocks=1) as slabs:
        units = slabs.stats()["units"]
        with pytest.raises(gh.NoMemory):
            slabs.allocate(units + 1)
        assert slabs.stats()["allocated"] == 0
        assert len(slabs.allocate(units)) == units


@pytest.mark.parametrize("kind", KINDS)
def test_no_units(kind):
    with allocator(kind) as slabs:
        assert slabs.allocate(0).size == 0
        assert slabs.translate([]).size == 0
    with pytest.raises(gh.ClosedTable, match="this allocator is closed"):
        slabs.allocate(0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"kind": 3}, TypeError, "kind=3 is a int: pass 'slab_alloc'"),
        ({"unit_bytes": 128.5}, TypeError, "unit_bytes=128.5 is not an integer"),
        ({"unit_bytes": -1}, gh.InvalidArgument, "unit_bytes=-1 is out of range: pass 64 to 256"),
        ({"super_blocks": 1.5}, TypeError, "super_blocks=1.5 is not an integer"),
        ({"max_super_blocks": 2**32}, gh.InvalidArgument, "max_super_blocks=4294967296 is out of range: pass 0 to 255"),
        ({"memory_blocks": None}, TypeError, "memory_blocks=None is not an integer"),
        ({"threads": -1}, gh.InvalidArgument, "threads=-1 is out of range"),
        ({"threads": np.array([1, 2])}, TypeError, "threads=array.* is not an integer"),
        ({"wipe": "no"}, TypeError, "wipe='no' is neither True nor False"),
    ],
)
def test_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        gh.SlabAllocator(**arguments)


def test_an_allocator_is_made_once_and_not_copied():
    with allocator("slab_alloc", memory_blocks=1) as slabs:
        with pytest.raises(gh.InvalidArgument, match="this allocator was created already"):
            slabs.__init__()
        with pytest.raises(TypeError, match="an allocator cannot be pickled or copied"):
            copy.copy(slabs)


def test_bad_arguments():
    with pytest.raises(gh.BackendNotFound, match="allocator kind 'no_such_kind' is unknown"):
        gh.SlabAllocator("no_such_kind")
    with pytest.raises(gh.InvalidArgument, match="device='x'"):
        gh.SlabAllocator(device="x")
    with allocator("slab_alloc") as slabs:
        with pytest.raises(ValueError, match="n=-1"):
            slabs.allocate(-1)
        with pytest.raises(TypeError, match="n='x' is not an integer"):
            slabs.allocate("x")
        slabs.close()
        with pytest.raises(gh.ClosedTable, match="this allocator is closed"):
            slabs.allocate(1)
