"""The kernels of `gpuhash_partition` and tables on several cards, over host memory."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import fake_libraries
import numpy as np

import pygpuhash as gh
from pygpuhash import _core, _device_groups, sharded

FORMATS = {"c": "i1", "s": "i2", "i": "i4", "l": "i8", "C": "u1", "S": "u2", "I": "u4", "L": "u8"}
FORMATS |= {"e": "f2", "f": "f4", "g": "f8"}


def at(address: int, n: int, dtype: Any) -> Any:
    return np.frombuffer((ctypes.c_char * (n * np.dtype(dtype).itemsize)).from_address(address), dtype)


def dtype_of(format: bytes) -> str:
    """Numpy's of one of Arrow."""
    text = format.decode()
    if text[:2] in ("ts", "tD"):
        return f"{'M' if text[1] == 's' else 'm'}8[{ {'s': 's', 'm': 'ms', 'u': 'us', 'n': 'ns'}[text[2]] }]"
    return f"V{text[2:]}" if text[:2] == "w:" else FORMATS[text]


def partition(monkeypatch: Any, cuda: Any, streams: list[int]) -> None:
    """What the kernels do, in the order of the stream; `streams` gets that of each call."""
    scratch_of = _core.partition
    counts: set[tuple[Any, ...]] = set()

    def fake(
        ordinal: int, format: bytes, n: int, keys: int, shards: int, seed: int, values: int = 0,
        value_bytes: int = 0, ids: int = 0, offsets: int = 0, order: int = 0, out_keys: int = 0,
        out_values: int = 0, scratch: int = 0, nbytes: int = 0, stream: int = 0, asks: bool = False,
        places: int = 0, shard_keys: Any = None, shard_values: Any = None, counted: bool = False,
    ) -> int:  # fmt: skip
        wanted = scratch_of(ordinal, format, n, keys, shards, seed, offsets=offsets, order=order, places=places,
                            out_keys=out_keys, out_values=out_values, shard_keys=shard_keys, asks=True)  # fmt: skip
        if asks:
            return wanted
        assert nbytes == wanted
        assert (scratch != 0) == (nbytes != 0) or nbytes == 0
        streams.append(stream)
        dtype = np.dtype(dtype_of(format))
        request = ordinal, format, n, keys, shards, seed, scratch, stream
        if counted:
            assert request in counts, "no call has counted these rows"
        counts.add(request)
        ends = gh.partition(at(keys, n, dtype), shards, seed).offsets if shard_keys else []
        spread = [
            (name, place, slice(int(ends[s]), int(ends[s + 1])))
            for name, given in (("keys", shard_keys), ("values", shard_values))
            for s, place in enumerate(given or [])
            if ends[s] < ends[s + 1]
        ]
        for _, place, _ in spread:
            assert place, "rows go nowhere"
            reachable(cuda, ordinal, place)

        def run() -> None:
            given = at(keys, n, dtype)
            rows = at(values, n, f"V{value_bytes}") if values else None
            made = gh.partition(given, shards, seed, rows)
            for place, result in ((offsets, made.offsets), (order, made.order), (out_keys, made.keys)):
                if place:
                    at(place, len(result), result.dtype)[:] = result
            if places:
                at(places, n, "u4")[made.order] = np.arange(n)
            for name, place, own in spread:
                assert cuda.start(place) not in cuda.awaited, "rows go to memory that is not there yet"
                part = getattr(made, name)[own]
                at(place, len(part), part.dtype)[:] = part
            if ids:
                at(ids, n, "i4")[:] = gh.shard_of(given, shards, seed)
            if out_values:
                at(out_values, n, f"V{value_bytes}")[:] = made.values

        sizes = (
            (offsets, 8 * (shards + 1)), (order, 8 * n), (out_keys, n * dtype.itemsize), (ids, 4 * n),
            (out_values, n * value_bytes), (places, 4 * n),
            *(
                (place, (dtype.itemsize if name == "keys" else value_bytes) * (own.stop - own.start))
                for name, place, own in spread
            ),
        )  # fmt: skip
        cuda.kernel(stream, run, [(place, size) for place, size in sizes if place and size])
        for _, place, _ in spread:
            cuda.uses(place, stream)
        return 0

    monkeypatch.setattr(_core, "partition", fake)
    monkeypatch.setattr(_device_groups, "KERNELS", True)


def reachable(cuda: Any, ordinal: int, place: int) -> None:
    """Memory of another card is of a pool that is open to this one."""
    card = cuda.on.get(cuda.start(place), ordinal) if place else ordinal
    assert card == ordinal or (card, ordinal) in cuda.opened, f"cuda:{ordinal} does not reach memory of cuda:{card}"


def collect(monkeypatch: Any, cuda: Any) -> None:
    """Nothing here looks at results before it has come to them: they are brought at once."""

    def fake(ordinal: int, n: int, places: int, offsets: Any, arrays: Any, stream: int = 0) -> None:
        assert cuda.contexts[-1] == ordinal, "another device is current"
        cuda.bring(stream)
        for sources, row_bytes, to in arrays:
            for place in sources:
                reachable(cuda, ordinal, place)
            grouped = [
                at(place, end - begin, f"V{row_bytes}")
                if place and begin < end
                else np.zeros(end - begin, f"V{row_bytes}")
                for place, begin, end in zip(sources, offsets, offsets[1:], strict=False)
            ]
            at(to, n, f"V{row_bytes}")[:] = np.concatenate(grouped)[at(places, n, "u4")]
        cuda.queue(stream, lambda: None)
        for place in (place for sources, _, _ in arrays for place in sources if place):
            cuda.uses(place, stream)

    monkeypatch.setattr(_core, "collect", fake)


class Card:
    """A table on the CPU in the place of one on a card: what a call writes is there when its stream has come to it."""

    def __init__(self, table: Any, ordinal: int, cuda: Any) -> None:
        self.table, self._ordinal, self._kind, self.cuda = table, ordinal, _core.CUDA, cuda
        self.device = f"cuda:{ordinal}"
        self.calls: list[tuple[int, int]] = []  # (operation, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    def _raw(self, op: int, n: int, keys: int, *, stream: int, **places: Any) -> Any:
        assert self.cuda.contexts[-1] == self._ordinal, "another device is current"
        for place in (keys, places["values"], places["out_values"], places["out_status"]):
            held = self.cuda.on.get(self.cuda.start(place), self._ordinal) if place else self._ordinal
            assert held == self._ordinal, "memory of another card"
        self.calls.append((op, n))
        width = 0 if self.table.value_dtype is None else self.table._value_store.itemsize
        sizes = ((places["out_status"], n), (places["out_values"], n * width))
        outputs = [(place, size) for place, size in sizes if place]
        answer = self.cuda.kernel(stream, lambda: self.table._raw(op, n, keys, **places), outputs)
        for place in (keys, places["values"], places["out_values"], places["out_status"]):
            if place:
                self.cuda.uses(place, stream)
        return answer


class Local(sharded.Local):
    """`Local`, of which each card is a table of the CPU. Calls are one after the other: the fake driver has no lock."""

    cuda: Any = None

    def open(self, shards: int, make: Any) -> None:
        """As `Local`, on cards that are not there."""

        def made(device: str) -> Any:
            table = make("cpu")
            if device == "cpu":
                return table
            return Card(table, int(device.partition(":")[2] or 0), self.cuda)

        super().open(shards, made)
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def local(cuda: Any) -> Any:
    """A function that makes a transport to devices of a fake driver."""
    return type("Local", (Local,), {"cuda": cuda, "__module__": sys.modules[__name__].__name__})


def cupy(monkeypatch: Any, cuda: Any) -> Any:
    """A CuPy whose new arrays are on the card that is current."""
    library = fake_libraries.cupy(monkeypatch)

    def where() -> int:
        return int(cuda.contexts[-1] if cuda.contexts else fake_libraries.ndarray.current_device)

    monkeypatch.setattr(fake_libraries.ndarray, "where", staticmethod(where))
    return library
