"""Host arrays on a CUDA table: slots of pinned and device memory, through which the library passes a batch in chunks.

How a chunk goes up, is carried out and comes down again is in `libgpuhash/src/staging.cpp`. Here is what that takes: up
to six slots, so that as many chunks are under way at once, two streams, and chunks that fit the memory there is.

What bounds a batch: the larger of the bytes up and the bytes down, over the bus (55 GB/s each way for PCIe 5 x16, 50 in
both directions at once); and all bytes together over what the host copies, since each passes through the host's memory
once more. 16 threads of an H200's host copy 130 GB/s and more, one copies 5 to 8. New arrays for results cost the
kernel's clearing of their pages on top: pass `out=` to use memory again.

  H1  A staging area in doubt, with copies that may still run, is not used again.
"""

from __future__ import annotations

import atexit
import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpuhash import _core, _cuda, _progress
from pygpuhash.errors import GpuHashError, NoMemory, TableFull

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["run"]

Array = np.ndarray[Any, Any]

SLOTS = 6
CHUNK_BYTES = 10 << 20  # of one slot, in both directions
LEAST_KEYS = 1 << 12  # in a chunk, when there is little memory
FIRST_KEYS = 1 << 18  # in the first and the last chunk of a long batch
# Chunks of a table whose slots lie in memory of the host: it serves millions of keys at several times the rate of few
FAR_BYTES = 64 << 20
FAR_KEYS = 1 << 22
LONG_KEYS = 1 << 21  # results of such a batch leave the caches before the caller reads them
_ALIGNMENT = 256
_NOT_CARRIED_OUT = 3  # GPUHASH_ELEMENT_NO_MEMORY
_ARRAYS = 5  # of a batch: keys, values, ops, results, statuses


def _pinned(nbytes: int) -> Any:
    """Pinned memory; pageable memory where the system refuses that, with which copies do not run beside anything."""
    try:
        return _cuda.PinnedMemory(nbytes)
    except NoMemory:
        return np.empty(nbytes, np.uint8)


class _Staging:
    """Memory on both sides for the slots of one batch at a time, with an upload and a download stream."""

    def __init__(self, device: int) -> None:
        self.device, self.forks = device, _core.forks()
        # One piece on each side, of which each slot has a part: six pieces take twice as long to pin.
        self.nbytes = 0
        self.pinned: Any = None
        self.on_device: Any = None
        self.events: list[tuple[Any, Any]] = []  # of each slot, which order its steps
        # What the library gets: (host, device, two events) of each slot that this batch has, their bytes, the streams
        self.described: tuple[list[tuple[int, int, int, int]], int, int, int] = [], 0, 0, 0
        self.in_doubt = False  # copies to or from its memory may still run, of a device that has failed
        with _cuda.translate_errors:
            here = _cuda.core().Device(device)
            here.set_current()  # in the context that is current already; cuda.core wants to know
            self.up, self.down = here.create_stream(), here.create_stream()

    def provide(self, slots: int, nbytes: int) -> None:
        """Make so many slots of so many bytes, for which memory stays that is enough: nothing uses it any more."""
        if len(self.described[0]) == slots and self.described[1] >= nbytes:
            return
        self.described = [], 0, 0, 0
        if slots * nbytes > self.nbytes:
            self._make(slots * nbytes)
        with _cuda.translate_errors:
            while len(self.events) < slots:
                # What uses the memory follows them, and they follow the allocation.
                self.events.append((self.up.record(), self.down.record()))
        pinned = self.pinned
        here = int(pinned.ctypes.data if isinstance(pinned, np.ndarray) else pinned.address)
        there = int(self.on_device.handle)
        cut = [
            (here + i * nbytes, there + i * nbytes, int(uploaded.handle), int(downloaded.handle))
            for i, (uploaded, downloaded) in enumerate(self.events[:slots])
        ]
        self.described = cut, nbytes, int(self.up.handle), int(self.down.handle)

    def _make(self, nbytes: int) -> None:
        self.close()
        with _cuda.translate_errors:
            self.on_device = _cuda.memory_of(self.device).allocate(nbytes, stream=self.up)
        self.pinned = _pinned(nbytes)
        self.nbytes = nbytes

    def close(self) -> None:
        """Give the memory back. Nothing uses it any more; the context is current."""
        self.described, self.nbytes = ([], 0, 0, 0), 0
        self.events.clear()
        pinned, on_device = self.pinned, self.on_device
        self.pinned = self.on_device = None
        if on_device is not None:
            on_device.close(self.up)
        if pinned is not None and not isinstance(pinned, np.ndarray):
            pinned.close()

    # What cuda.core's objects would do at their end is not for a forked child, nor for an interpreter that ends.
    def __del__(self, abandoned: Any = _core.abandoned, keep: Any = _core.keep) -> None:
        if abandoned(self.forks):
            keep(vars(self))


_idle: dict[int, list[_Staging]] = {}  # at most one of each device is kept


@atexit.register
def _close_all() -> None:
    """Close all staging areas, while the driver is still there."""
    for kept in _idle.values():
        for staging in kept:
            if staging.forks == _core.forks():
                with contextlib.suppress(Exception), _cuda.current(staging.device):
                    staging.close()
    _idle.clear()


def _take(device: int, slots: int, nbytes: int) -> _Staging:
    """A staging area with so many slots of so many bytes."""
    kept = _idle.get(device)
    try:
        staging = kept.pop() if kept else _Staging(device)
    except IndexError:  # another thread was faster
        staging = _Staging(device)
    try:
        staging.provide(slots, nbytes)
    except NoMemory:
        staging.close()
        raise
    return staging


def _room(nbytes: int) -> int:
    """The size rounded up to three significant bits, so that batches of about one size use the same memory."""
    unit = 1 << max(nbytes.bit_length() - 3, 8)
    return -(-nbytes // unit) * unit


def _give_back(staging: _Staging) -> None:
    kept = _idle.setdefault(staging.device, [])
    if kept:
        staging.close()
    else:
        kept.append(staging)


def _bytes_of(keys: int, per_key: int) -> int:
    """Bytes of a slot for so many keys, in both directions, so that the next operation with as many finds room, too."""
    return _room(keys * per_key) + _ARRAYS * _ALIGNMENT


class _Chunks:
    """How a batch of n keys is cut: none longer than `most`, short ones first and last."""

    def __init__(self, table: Any, n: int, per_key: int) -> None:
        self.n, self.per_key, self.far = n, per_key, table._behind_bus
        self.most = CHUNK_BYTES // per_key
        if self.far:
            self.most = max(self.most, min(n // 8, FAR_KEYS, FAR_BYTES // per_key))
        self.most = min(n, self.most)

    @property
    def first(self) -> int:
        return max(self.most // 4, 1) if self.far else min(FIRST_KEYS, self.most)

    @property
    def longest(self) -> int:
        return min(self.most, max(self.first, self.n // 2))

    @contextlib.contextmanager
    def staging(self, device: int) -> Iterator[_Staging]:
        """A staging area for them: of fewer keys in a chunk where there is little memory."""
        while True:
            slots = min(SLOTS, -(-self.n // self.first))
            try:
                staging = _take(device, slots, _bytes_of(self.longest, self.per_key))
                break
            except NoMemory:
                if self.most <= LEAST_KEYS:
                    raise
                self.most = max(self.most // 4, LEAST_KEYS)
        try:
            yield staging
        finally:
            if not staging.in_doubt:  # H1
                _give_back(staging)


def _told(n: int, chunks: _Chunks) -> Any:
    """What the library calls before each chunk: the function that `progress` was given hears of what has changed."""
    report, said = _progress.current(), 0

    def tell(done: int, _: int) -> None:
        nonlocal said
        if report is not None and done > said and n > chunks.first:
            said = done
            report(done, n)

    return tell


def run(
    table: Any,
    op: int,
    inputs: tuple[Array, Array | None, Array | None],
    outputs: tuple[Array | None, Array],
    new: tuple[bool, bool],
    how: tuple[int, int],
    stream: int,
) -> GpuHashError | None:
    """One batch on flat host arrays: inputs (keys, values, ops), outputs (values, statuses), (flags, combine).

    The inputs are stored as the table stores them; `values` may be one for all, without a dimension.
    new : whether each output was made for this batch, with memory whose pages may have to be brought in.

    Returns when the results are there: None, or the exception of single elements (`TableFull`) or of the call. Elements
    that the library never came to have the status 3. What a signal or the function of `progress` raises is raised when
    the results of what the library has had are there.
    """
    keys, values, ops = inputs
    statuses = outputs[1]
    n, device = keys.size, table._ordinal
    if n == 0:
        failure: GpuHashError | None = table._raw(op, 0, 0, flags=how[0], combine=how[1], stream=stream)
        return failure
    one = values if values is not None and values.ndim == 0 else None  # value for all keys
    sent = keys, None if one is not None else values, ops
    chunks = _Chunks(table, n, sum(0 if a is None else a.itemsize for a in (*sent, *outputs)))
    flags = 0
    if n >= LONG_KEYS:
        flags = _core.STAGING_PAST_CACHES
        flags |= (_core.STAGING_NEW_VALUES if new[0] else 0) | (_core.STAGING_NEW_STATUS if new[1] else 0)
    done, tell = 0, _told(n, chunks)
    try:
        with _cuda.working(device), chunks.staging(device) as staging:
            filled = None
            if one is not None:
                filled = _cuda.full((chunks.longest,), one, device, _cuda.Address(stream))
            done, staging.in_doubt, found = _core.run_staged(
                table,
                op,
                n,
                (*sent, *outputs),
                (*how, stream),
                staging.described,
                (chunks.most, chunks.first),
                0 if filled is None else filled.ptr,
                flags,
                tell,
            )
    finally:
        statuses[done:] = _NOT_CARRIED_OUT
    if found is not None and not isinstance(found, GpuHashError):
        raise found
    tell(done, n)
    if found is not None and (done or isinstance(found, TableFull)):
        found.status = statuses.copy()
    return found
