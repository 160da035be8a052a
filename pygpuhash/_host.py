"""Host arrays on a CUDA table: through pinned memory, in chunks, copies in both directions beside the kernels.

A chunk goes through five steps: other threads copy its part of the inputs into pinned memory (send), the upload
stream copies that to the device (upload), the batch runs on the stream of the call (launch), the download stream
copies results into pinned memory (fetch), and other threads copy them to where they belong (collect). There are six
slots of memory, so six chunks are under way at once, each in a step of its own. This thread looks what has ended, and
begins what comes next; where nothing has, it copies too.

What bounds it: the larger of the bytes up and the bytes down, over the bus (55 GB/s each way for PCIe 5 x16, 50 in both
directions at once); and all bytes together over what the host copies, since each passes through the host's memory once
more. 16 threads of an H200's host copy 130 GB/s and more, one copies 5 to 8, so the threads that serve batches on the
CPU do it (`gpuhash_copies_begin`). New arrays for results cost the kernel's clearing of their pages on top, which the
same threads have done before results come: pass `out=` to use memory again. The first and the last chunks are small,
since nothing runs beside them.

  H1  A slot is written again when its results have been collected, which is after everything that used it.
  H2  What was launched is collected, whatever happens (Ctrl-C, a failure): the status of each element is true.
  H3  A staging area in doubt, with copies that may still run, is not used again.
"""

from __future__ import annotations

import atexit
import contextlib
from collections import deque
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda, _progress
from pygpuhash.errors import GpuHashError, HeapFull, NoMemory, TableFull

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
_NO_MEMORY = _NOT_CARRIED_OUT = 3  # GPUHASH_ELEMENT_NO_MEMORY


class _Slot:
    """Memory of one chunk on both sides, for both directions, and the events that order its steps."""

    def __init__(self, device: int, nbytes: int, streams: tuple[Any, Any]) -> None:
        self.nbytes = nbytes
        up, down = streams
        with _cuda.translate_errors:
            self.device = _cuda.memory_of(device).allocate(nbytes, stream=up)
            self.uploaded = up.record()  # what uses the memory follows it, and it follows the allocation
            self.downloaded = down.record()
        self.host = _pinned(nbytes)
        host = self.host.ctypes.data if isinstance(self.host, np.ndarray) else self.host.address
        self.at = int(host), int(self.device.handle)

    def close(self, up: Any) -> None:
        self.device.close(up)
        if not isinstance(self.host, np.ndarray):
            self.host.close()


def _pinned(nbytes: int) -> Any:
    """Pinned memory; pageable memory where the system refuses that, with which copies do not run beside anything."""
    try:
        return _cuda.PinnedMemory(nbytes)
    except NoMemory:
        return np.empty(nbytes, np.uint8)


class _Staging:
    """The slots of one batch at a time, with an upload and a download stream."""

    def __init__(self, device: int) -> None:
        self.device, self.forks = device, _core.forks()
        self.slots: list[_Slot] = []
        with _cuda.translate_errors:
            here = _cuda.core().Device(device)
            here.set_current()  # in the context that is current already; cuda.core wants to know
            self.up, self.down = here.create_stream(), here.create_stream()

    def provide(self, slots: int, nbytes: int) -> None:
        """Make so many slots of so many bytes. Slots that are there stay, unless they are too small."""
        for i in range(slots):
            if i < len(self.slots) and self.slots[i].nbytes >= nbytes:
                continue
            if i < len(self.slots):
                self.slots.pop(i).close(self.up)
            self.slots.insert(i, _Slot(self.device, nbytes, (self.up, self.down)))

    def close(self) -> None:
        """Give the memory back. Nothing uses it any more; the context is current."""
        while self.slots:
            self.slots.pop().close(self.up)

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


def _up(n: int) -> int:
    return -(-n // _ALIGNMENT) * _ALIGNMENT


def chunks(n: int, most: int, first: int | None = None) -> list[tuple[int, int]]:
    """(begin, end) of the chunks of n keys: none longer than `most`, short ones first and last."""
    first = min(most, first or FIRST_KEYS)
    rows, begin, size = [], 0, first
    while begin < n:
        left = n - begin
        step = min(size, max(left // 2, first), left)
        rows.append((begin, begin + step))
        begin += step
        size = min(2 * size, most)
    return rows


class _Batch:
    """One batch. Inputs are one-dimensional and stored as the table stores them; `values` may be one for all."""

    def __init__(
        self,
        table: Any,
        op: int,
        inputs: tuple[Array, Array | None, Array | None],
        outputs: tuple[Array | None, Array],
        new: tuple[bool, bool],
        how: tuple[int, int],
        stream: int,
    ) -> None:
        self.table, self.op, self.how, self.stream = table, op, how, stream
        self.keys, self.values, self.ops = inputs
        self.results, self.statuses = outputs
        self.one = self.values if self.values is not None and self.values.ndim == 0 else None  # value for all keys
        sent = [self.keys, None if self.one is not None else self.values, self.ops]
        self.sent_sizes = [0 if a is None else a.itemsize for a in sent]
        self.received = [0 if self.results is None else self.results.itemsize, 1]
        # Addresses, asked for once: the interpreter's share of a chunk is time in which nothing is copied.
        self.sources = [0 if a is None else a.ctypes.data for a in sent]
        self.statuses_at = self.statuses.ctypes.data
        self.out = 0 if self.results is None else self.results.ctypes.data
        long = self.keys.size >= LONG_KEYS
        self.past = _core.COPY_STREAM if long else 0
        self.to_touch = [  # (address, bytes of an element) of new memory for results
            (at, size)
            for at, size, is_new in zip((self.out, self.statuses_at), self.received, new, strict=True)
            if long and is_new and size
        ]
        self.rows: list[tuple[int, int]] = []
        self.staging: _Staging | None = None
        self.filled: Any = None  # the one value, for all keys of a chunk, on the device
        self.log: list[int] = []  # an entry for each chunk that the library has had
        # Copies of the host that are under way: of chunks that are sent, touched and collected, the first one first.
        self.sends, self.touches, self.collects = (deque[_core.Copies]() for _ in range(3))
        # Chunks that have begun so many steps, or have ended all.
        self.sent = self.uploaded = self.launched = self.arrived = self.collected = self.said = 0
        self.layouts: dict[int, tuple[list[int], list[int]]] = {}
        self.failure: GpuHashError | None = None
        self.full = False  # some elements found no room

    # ---- where things lie in a slot: each array of a chunk after the other

    def layout(self, n: int) -> tuple[list[int], list[int]]:
        """Where the arrays that are sent begin in a slot, for a chunk of n keys, and those that are received; each with
        the end of the last one."""
        if n not in self.layouts:
            self.layouts[n] = self.places(self.sent_sizes, n), self.places(self.received, n)
        return self.layouts[n]

    def places(self, sizes: list[int], n: int) -> list[int]:
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + _up(size * n))
        return ends

    def bytes_of(self, n: int) -> int:
        """Bytes of a slot for n keys, for both directions, so that the next operation with n keys finds room, too."""
        arrays = len(self.sent_sizes) + len(self.received)
        return _room(n * (sum(self.sent_sizes) + sum(self.received))) + arrays * _ALIGNMENT

    # ---- the steps

    def run(self) -> None:
        """All chunks. The failure of single elements is left in `failure`."""
        device = self.table._ordinal
        with _cuda.relaxed(), _cuda.current(device):
            try:
                staging = self.prepare(device)
                self.staging, self.slots, self.up, self.down = staging, staging.slots, staging.up, staging.down
                self.up_at, self.down_at = int(self.up.handle), int(self.down.handle)
                # The same for all chunks: one that is copied up must not touch the results of the one before it there.
                self.results_at = self.places(self.sent_sizes, self.longest())[-1]
                self.here = _cuda.stream_at(self.stream)
                if self.one is not None:
                    self.filled = _cuda.full((self.longest(),), self.one, device, _cuda.Address(self.stream))
                with _cuda.translate_errors:
                    self.loop()
                if self.full and self.failure is None:
                    self.failure = self.no_room()
            except BaseException:
                self.abandon()  # where this fails, the staging area is dropped (H3)
                raise
            finally:
                self.statuses[self.done() :] = _NOT_CARRIED_OUT
            _give_back(staging)

    def prepare(self, device: int) -> _Staging:
        """A staging area, and chunks that its slots have room for: of fewer keys where there is little memory."""
        per_key = sum(self.sent_sizes) + sum(self.received)
        most = CHUNK_BYTES // per_key
        if self.table._behind_bus:
            most = max(most, min(self.keys.size // 8, FAR_KEYS, FAR_BYTES // per_key))
        most = min(self.keys.size, most)
        while True:
            self.rows = chunks(self.keys.size, most, most // 4 if self.table._behind_bus else None)
            try:
                return _take(device, min(SLOTS, len(self.rows)), self.bytes_of(self.longest()))
            except NoMemory:
                if most <= LEAST_KEYS:
                    raise
                most = max(most // 4, LEAST_KEYS)

    def longest(self) -> int:
        return max(end - begin for begin, end in self.rows)

    def loop(self) -> None:
        while self.collected < len(self.rows):
            if self.sends and self.sends[0].done():
                self.upload(self.uploaded)
            elif self.launched < self.uploaded:  # which may wait for the device, and uploads go on meanwhile
                if not self.launch(self.launched):
                    break
            elif self.arrived < self.launched and self.slot(self.arrived).downloaded.is_done:
                self.begin_to_collect()
            elif self.collects and self.collects[0].done():
                self.end_to_collect()
            elif self.sent < min(len(self.rows), self.collected + SLOTS):  # H1
                self.send(self.sent)
            elif copies := self.sends or self.collects:
                copies[0].help()
            else:
                self.slot(self.arrived).downloaded.sync()
        self.collect_rest()

    def slot(self, i: int) -> _Slot:
        return self.slots[i % SLOTS]

    def send(self, i: int) -> None:
        """Begin to copy a chunk into pinned memory, and to bring in the pages of its results."""
        begin, end = self.rows[i]
        n = end - begin
        host, _ = self.slot(i).at
        parts = [
            (host + place, source + begin * size, n * size, 0)
            for source, size, place in zip(self.sources, self.sent_sizes, self.layout(n)[0], strict=False)
            if size
        ]
        self.sends.append(_core.Copies(parts, more=True))
        self.sent = i + 1
        if self.to_touch:
            pages = [(at + begin * size, 0, n * size, _core.COPY_TOUCH) for at, size in self.to_touch]
            self.touches.append(_core.Copies(pages, more=True))

    def upload(self, i: int) -> None:
        """Copy a chunk up, which lies in pinned memory now."""
        (begin, end), slot = self.rows[i], self.slot(i)
        host, device = slot.at
        _cuda.copy(device, host, self.layout(end - begin)[0][-1], self.up_at)
        self.up.record(slot.uploaded)
        self.sends.popleft().end()
        self.uploaded = i + 1

    def launch(self, i: int) -> bool:
        """Run a chunk and fetch its results. False: nothing more can be done."""
        self.tell()
        (begin, end), slot = self.rows[i], self.slot(i)
        n = end - begin
        device = slot.at[1]
        (keys, values, ops, _), (out, statuses, _) = self.layout(n)
        results = device + self.results_at
        self.launched = i + 1
        self.here.wait(slot.uploaded)
        failure = self.table._raw(
            self.op,
            n,
            device + keys,
            values=0 if self.values is None else self.filled.ptr if self.filled is not None else device + values,
            ops=0 if self.ops is None else device + ops,
            out_values=0 if self.results is None else results + out,
            out_status=results + statuses,
            flags=self.how[0],
            combine=self.how[1],
            stream=self.stream,
            log=self.log,
        )
        if failure is not None:
            self.failure = self.failure or failure
            if not isinstance(failure, TableFull):
                self.log.pop()  # nothing was carried out
                return False
        self.fetch(i)
        return True

    def fetch(self, i: int) -> None:
        (begin, end), slot = self.rows[i], self.slot(i)
        host, device = slot.at
        self.down.wait(self.here)
        _cuda.copy(host + self.results_at, device + self.results_at, self.layout(end - begin)[1][-1], self.down_at)
        self.down.record(slot.downloaded)

    def begin_to_collect(self) -> None:
        """Begin to copy the results of a chunk, which have arrived in pinned memory, to where they belong."""
        (begin, end), slot = self.rows[self.arrived], self.slot(self.arrived)
        n = end - begin
        host = slot.at[0] + self.results_at
        out, statuses, _ = self.layout(n)[1]
        parts = [(self.statuses_at + begin, host + statuses, n, self.past | _core.COPY_LOOK)]
        if self.results is not None:
            size = self.received[0]
            parts.append((self.out + begin * size, host + out, n * size, self.past))
        self.collects.append(_core.Copies(parts, more=True))
        self.arrived += 1

    def end_to_collect(self) -> None:
        self.full |= self.collects[0].end() > 1
        self.collects.popleft()
        if self.touches:
            self.touches.popleft().end()
        self.collected += 1

    def collect_rest(self) -> None:
        """Collect what was launched, and end all copies of the host."""
        while self.collected < len(self.log):
            if not self.collects:
                self.slot(self.arrived).downloaded.sync()
                self.begin_to_collect()
            self.end_to_collect()
        for copies in (*self.sends, *self.touches):
            copies.end()

    def no_room(self) -> TableFull:
        """No call waited for the chunks of a table that may not grow: their statuses say what became of them."""
        with contextlib.suppress(TableFull):
            len(self.table)  # the library would report them to the next call that waits
        failed = self.statuses[self.statuses > 1]
        kind = HeapFull if (failed == _NO_MEMORY).all() else TableFull
        return kind(
            f"{failed.size} of {self.keys.size} elements found no room: reserve more and retry those of status 2 or 3"
        )

    def abandon(self) -> None:
        """Collect what was launched, and wait for what is on its way (H2)."""
        if self.staging is None:
            return
        with contextlib.suppress(Exception):  # of a device that has failed
            for copies in (*self.sends, *self.touches, *self.collects):
                copies.end()
            self.collects.clear()  # what was under way is collected again
            self.arrived = self.collected
            for i in range(self.collected, len(self.log)):
                self.fetch(i)
            self.collect_rest()
            self.up.sync()
            self.down.sync()
            _give_back(self.staging)

    def tell(self) -> None:
        """Report how far this batch has come to the function that `progress` was given."""
        report = _progress.current()
        if report is not None and len(self.rows) > 1 and self.collected > self.said:
            self.said = self.collected
            report(self.done(), self.keys.size)

    def done(self) -> int:
        """Elements whose status is known."""
        return self.rows[self.collected - 1][1] if self.collected else 0


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

    new : whether each output was made for this batch, with memory whose pages may have to be brought in.

    Returns when the results are there: None, or the exception of single elements (`TableFull`) or of the call. Elements
    that the library never came to have the status 3.
    """
    if inputs[0].size == 0:
        failure: GpuHashError | None = table._raw(op, 0, 0, flags=how[0], combine=how[1], stream=stream)
        return failure
    batch = _Batch(table, op, inputs, outputs, new, how, stream)
    batch.run()
    batch.tell()
    failure = batch.failure
    if failure is not None and (batch.done() or isinstance(failure, TableFull)):
        failure.status = outputs[1].copy()
    return failure
