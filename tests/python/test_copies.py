"""Copies of host memory that other threads carry out, on which the staging of host arrays stands."""

import ctypes
import mmap
import os

import numpy as np
import pytest

from pygpuhash import _core


def test_more_copies_than_one_call_takes(rng):
    source, target = rng.integers(0, 256, 9, np.uint8), np.zeros(9, np.uint8)
    parts = [(target.ctypes.data + i, source.ctypes.data + i, 1, 0) for i in range(9)]
    with pytest.raises(ValueError, match="9 parts are more than the 8 of one call"):
        _core.Copies(parts)
    assert _core.Copies(parts[:8]).end() == 0
    assert target.tolist() == [*source[:8], 0]


@pytest.mark.parametrize("past_caches", [0, _core.COPY_STREAM])
@pytest.mark.parametrize("begin", [0, 1, 16, 77])
def test_copies_of_host_memory(rng, begin, past_caches):
    for sizes in ([0], [1], [15], [100, 7], [1 << 20, 3, (1 << 18) + 1]):
        sources = [rng.integers(0, 2, n, np.uint8) for n in sizes]
        arrays = [np.full(begin + n + 1, 9, np.uint8) for n in sizes]
        targets = [a[begin:] for a in arrays]
        parts = [
            (t.ctypes.data, s.ctypes.data, s.nbytes, past_caches | (_core.COPY_LOOK if i == 0 else 0))
            for i, (s, t) in enumerate(zip(sources, targets, strict=True))
        ]
        seen = _core.Copies(parts, threads=3).end()
        assert seen == (np.bitwise_or.reduce(sources[0]) if sizes[0] else 0)
        for source, target in zip(sources, targets, strict=True):
            assert np.array_equal(target[:-1], source)
            assert target[-1] == 9
        assert all((a[:begin] == 9).all() for a in arrays)
    bad = np.zeros(1 << 20, np.uint8)
    bad[-1] = 6
    target = np.empty_like(bad)  # has to outlive the copy
    assert _core.Copies([(target.ctypes.data, bad.ctypes.data, bad.nbytes, _core.COPY_LOOK)]).end() == 6


@pytest.mark.parametrize("threads", [1, 3])
def test_several_copies_at_once(rng, threads):
    source = rng.integers(1, 256, (5, 1 << 20), np.uint8)
    target = np.zeros_like(source)
    copies = [
        _core.Copies([(t.ctypes.data, s.ctypes.data, s.nbytes, _core.COPY_LOOK)], threads, more=True)
        for s, t in zip(source, target, strict=True)
    ]
    last = copies.pop()
    for _ in range(10**6):
        if last.done():  # the one begun last, before the others are ended
            break
        last.help()
    assert last.done()
    assert np.array_equal(target[-1], source[-1])
    assert last.end() == np.bitwise_or.reduce(source[-1])
    assert last.end() == 0  # it has ended before
    assert last.done()
    last.help()
    dropped = copies.pop(0)
    del dropped  # ends it
    assert np.array_equal(target[0], source[0])
    assert [c.end() for c in copies] == [np.bitwise_or.reduce(s) for s in source[1:-1]]
    assert np.array_equal(target, source)


def test_one_thread_copies_only_when_it_is_called():
    source, target = np.ones(300_000, np.uint8), np.zeros(300_000, np.uint8)
    copies = _core.Copies([(target.ctypes.data, source.ctypes.data, source.nbytes, 0)], threads=1)
    assert not copies.done()
    assert not target.any()
    copied = []
    while not copies.done():
        copies.help()
        copied.append(int(target.sum()))
    assert copied[0] < copied[1] < copied[2] == source.size
    copies.end()


def test_copies_of_the_parent_are_not_the_childs():
    source, target = np.ones(1 << 22, np.uint8), np.zeros(1 << 22, np.uint8)
    copies = _core.Copies([(target.ctypes.data, source.ctypes.data, source.nbytes, 0)])
    child = os.fork()
    if child == 0:
        # Each returns at once, without the parent's threads.
        os._exit(0 if copies.done() and copies.help() is None and copies.end() == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    copies.end()
    assert target.all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("begin", [0, 5, 4095, (2 << 20) - 1])
@pytest.mark.parametrize("size", [(6 << 20) + 77, 5000])
def test_pages_that_are_brought_in(threads, begin, size):
    """Each page of the memory is there, no page beside it is, and what is written meanwhile stays."""
    page, huge = mmap.PAGESIZE, 2 << 20
    memory = mmap.mmap(-1, 8 * huge, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % huge + begin
    some = whole[start : start + size]
    there = np.zeros(whole.size // page, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)

    def pages_there():  # /proc/self/pagemap says more, but not to everyone
        assert libc.mincore(*(ctypes.c_void_p(x) for x in (whole.ctypes.data, whole.size, there.ctypes.data))) == 0
        return np.flatnonzero(there & 1)

    if pages_there().size:
        pytest.skip("mincore of this system says of pages that nobody has written to that they are there")
    some[1] = some[size // 2] = 7
    _core.Copies([(some.ctypes.data, 0, some.size, _core.COPY_TOUCH)], threads).end()
    first, last = start // page, (start + some.size - 1) // page
    assert np.array_equal(pages_there(), np.arange(first, last + 1))
    assert some[1] == some[size // 2] == 7  # from here on pages are there since they are read
    assert some.sum() == 14
    assert _core.Copies([(0, 0, 0, _core.COPY_TOUCH)], threads).end() == 0
