"""Batches that lie on a GPU, of a table in shards: rows go from the caller's card to those of the shards, and home.

    count       the caller's card counts the rows of each shard                    `Batch.begin`
    read        the host waits for where the shards begin, 8 bytes each            `Batch.read`
    move        the caller's card writes the rows to the cards of their shards     `Step.send` of _exchange.py
    serve       each shard's table carries out all rows that it has got            `Step.__call__`
    bring back  the caller's card reads the answers, in the order of the batch     `Batch.finish`

One call may have a batch on each of several cards, of which each shard serves all its rows at once. A batch may be cut
into chunks, whose steps then run beside each other: each shard has a stream for what comes, one for its table and one
for what goes. Kernels write rows to other cards and read answers there, so that each is in memory once. Where that
cannot be, rows are staged on the caller's card and copied: where two cards do not reach each other, where a shard is on
the CPU, and of more shards than `MOST_SPREAD`.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pygpuhash import (
    _arrays,
    _core,
    _cuda,
    _device_arrays,
    _device_groups,
    _peers,
    _records,
    _stored_views,
    _streams,
    _table_verbs,
    _tensors,
)
from pygpuhash._views import DeviceView
from pygpuhash.errors import DeviceError, InvalidArgument, TableFull, Unsupported

__all__ = ["Batch", "Chunk", "Kinds", "Lane", "Lanes", "card_of"]

_FORMATS = {  # Arrow's
    "i4": b"i", "i8": b"l", "u4": b"I", "u8": b"L", "f4": b"f", "f8": b"g",
}  # fmt: skip
_UNITS = {"s": b"s", "ms": b"m", "us": b"u", "ns": b"n"}
_COMBINE = {"add": 0, "min": 1, "max": 2}
_OPERATIONS = {
    "insert": _core.OP_INSERT,
    "insert_or_assign": _core.OP_ASSIGN,
    "accumulate": _core.OP_ACCUMULATE,
    "erase": _core.OP_ERASE,
    "find": _core.OP_FIND,
    "contains": _core.OP_FIND,
}
_QUICK = ("cupy", "torch")  # which make an array on their current stream, and say where it lies
_MOST_ROWS = 1 << 31  # of a chunk: places have 32 bits
_STATUS = np.dtype(np.uint8)


@dataclass(frozen=True)
class Kinds:
    """The dtypes of keys and values of a table, and the dtypes in which they are stored. Values are None for a set."""

    keys: np.dtype[Any]
    key_store: np.dtype[Any]
    values: np.dtype[Any] | None
    value_store: np.dtype[Any] | None

    @property
    def value_bytes(self) -> int:
        return 0 if self.value_store is None else self.value_store.itemsize


class Lane:
    """Streams of a device. What cuda.core's objects do at their end is not for a forked child."""

    def __init__(self, device: int) -> None:
        self.forks = _core.forks()
        with _cuda.current(device), _cuda.translate_errors:
            here = _cuda.core().Device(device)
            here.set_current()  # in the context that is current already; cuda.core wants to know
            self.coming, self.serving, self.going = (here.create_stream() for _ in range(3))

    def __del__(self, abandoned: Any = _core.abandoned, keep: Any = _core.keep) -> None:
        if abandoned(getattr(self, "forks", 0)):
            keep(vars(self))


class Lanes:
    """The streams of a transport: of each shard, and of each card that batches lie on; and the bytes between cards."""

    def __init__(self, of_shards: list[int | None]) -> None:
        """of_shards : the number of the GPU of each shard; None for the CPU."""
        self.of_shards = of_shards
        self.cards = tuple({card: 0 for card in of_shards if card is not None})
        self._of: dict[Any, Lane] = {}
        self._lock = threading.Lock()
        self.copied = 0

    def of(self, shard: int | None, device: int) -> Lane:
        """The streams of a shard on a device; of None, the streams of batches that lie on the device."""
        with self._lock:
            found = self._of.get((shard, device))
            if found is None or found.forks != _core.forks():
                found = self._of[shard, device] = Lane(device)
            return found

    def used(self) -> list[int]:
        """The devices on which there are streams."""
        with self._lock:
            return sorted({device for _, device in self._of})

    def count(self, nbytes: int) -> None:
        """Add bytes that have gone from one card to another."""
        with self._lock:
            self.copied += nbytes


@dataclass
class Chunk:
    """Neighbouring rows of a batch.

    places : the address of the place of each row among the rows by shard. scratch: (address, bytes) of the partition.
    offsets : where the places of each shard begin. at: {shard: {"keys": the address of its keys, ...}} where they lie.
    """

    first: int
    rows: int
    places: int
    scratch: tuple[int, int]
    offsets: list[int] = field(default_factory=list)
    at: dict[int, dict[str, int]] = field(default_factory=dict)
    staged: _peers.Memory | None = None  # rows on the card of the batch
    grouped: Any = None  # the event after which rows are where they go
    done: list[Any] = field(default_factory=list)  # events after which answers are there

    def many(self, shard: int) -> int:
        """Rows of a shard."""
        return self.offsets[shard + 1] - self.offsets[shard]

    def addresses(self, what: str) -> list[int]:
        """Of an array, for each shard; 0: the shard has none."""
        return [self.at.get(shard, {}).get(what, 0) for shard in range(len(self.offsets) - 1)]


class Batch:
    """One call with keys on a GPU."""

    def __init__(
        self, kinds: Kinds, lanes: Lanes, method: str, keys: Any, values: Any, how: dict[str, Any], shards: int
    ) -> None:
        """how : "op" of accumulate."""
        self.kinds, self.lanes, self.method, self.shards = kinds, lanes, method, shards
        self.op, self.combine = _OPERATIONS[method], self._combine(values, how.get("op"))
        self.answers = method == "find" and kinds.values is not None
        self.keys, self.values = keys, values
        if _arrays.is_arrow_on_device(keys):
            raise Unsupported(
                f"keys are a {type(keys).__name__}, a column of Arrow on a GPU, and a table in shards takes arrays: "
                "pass one of CuPy or PyTorch, as its own library makes it, and text as rows of bytes, or on the host"
            )
        self.device = card_of(keys)
        self.keeper = _streams.stream_keeper(keys, self.device)
        self.stream = _core.stream_handle(self.keeper)
        self.chunks: list[Chunk] = []
        self.memory: _peers.Memory | None = None
        self.left_out: list[int] = []  # shards that have not served
        self.here = _cuda.current(self.device)

    def __enter__(self) -> Batch:
        """Refuse arguments that the batch cannot have."""
        with self.here:
            if _cuda.is_capturing(self.stream):
                raise InvalidArgument(
                    "the stream is being captured into a graph, and a table in shards waits for how many rows each "
                    "shard has: call it outside of the capture"
                )
            self._refuse()
            self.format = _format(self.kinds)
            self.found = self._view(self.keys, self.kinds.keys, self.kinds.key_store, "keys")
            self.shape, self.n = self.found.shape, self.found.size
            self.one, self.amounts = self._amounts(self.values)
            self.on_stream = _cuda.stream_at(self.stream)
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """Give memory back, in the order of the caller's stream; nothing is queued on others after it."""
        # Where a card has failed the caller gets the first error, and not that of giving memory back.
        with contextlib.nullcontext() if kind is None else contextlib.suppress(DeviceError), self.here:
            self.wait()
            for memory in (self.memory, *(chunk.staged for chunk in self.chunks)):
                if memory is not None:
                    memory.free(self.stream)

    def _view(self, array: Any, dtype: Any, store: Any, what: str) -> DeviceView:
        plain = _core.ready(array)
        if plain is not None and plain[2] == store == dtype and plain[3:] == (self.device, self.stream):
            return DeviceView(plain[0], plain[1], store, array)
        return _stored_views.stored_view(array, dtype, store, self.device, self.stream, what)

    def _refuse(self) -> None:
        """Refuse answers that the library of the keys cannot hold, before anything is done."""
        kinds = self.kinds
        if not self.answers or kinds.values is None:
            return
        _device_arrays.check_results(self.keys, kinds.values)
        if self._narrow and not _device_arrays.converts(self.keys):
            raise TypeError(f"{kinds.values} results need CuPy, PyTorch or JAX arrays: pass those, or host arrays")

    @property
    def _narrow(self) -> bool:
        """Are answers wider in a table than for the caller?"""
        values = self.kinds.values
        wide = values is not None and not _records.is_record(values) and values.kind not in "mM"
        return wide and values != self.kinds.value_store

    def _combine(self, values: Any, op: Any) -> int:
        kind = self.kinds.values
        if self.method in ("insert", "insert_or_assign", "accumulate") and values is None and kind is not None:
            raise TypeError(f"this table holds {kind} values: pass values, one per key or a scalar")
        if values is not None and kind is None:
            raise TypeError("values are given, and this table is a set (value_dtype=None): leave them out")
        if self.method != "accumulate":
            return 0
        if not isinstance(op, str) or op not in _COMBINE:
            raise InvalidArgument(f"op={op!r} is none of 'add', 'min', 'max'")
        if kind is not None and _records.is_record(kind):
            raise TypeError(f"{kind} values cannot be accumulated: only single numbers can")
        if kind is not None and kind.kind == "M" and op == "add":
            raise TypeError(f"{kind} values cannot be added: use op='min' or op='max'")
        return _COMBINE[op]

    def _amounts(self, values: Any) -> tuple[Any, DeviceView | None]:
        """(one value for all keys, or None; the values of the keys, or None)."""
        kinds = self.kinds
        if values is None or kinds.values is None or kinds.value_store is None:
            return None, None
        if _arrays.on_device(values):
            found = self._view(values, kinds.values, kinds.value_store, "values")
            if found.shape != self.shape:
                raise ValueError(f"values have shape {found.shape}, keys {self.shape}: pass one per key, or a scalar")
            return None, found
        if self.method == "accumulate" and kinds.values.kind in "mM":
            values = _arrays.operands(values, kinds.values)
        one = _arrays.to_store(values, kinds.values, kinds.value_store, "values")
        if one.ndim:
            raise InvalidArgument("keys are on a CUDA device and values on the host: copy the values to the device")
        return one, None

    # ---- on the caller's card

    def begin(self, seed: int, chunks: int) -> None:
        """Queue the count of all chunks."""
        self.seed = seed
        if not self.n:
            return
        many = max(chunks, -(-self.n // _MOST_ROWS))
        bounds = sorted({self.n * i // many for i in range(many + 1)})
        sizes = [end - first for first, end in itertools.pairwise(bounds)]
        extra = [_core.partition(*self._call(0, rows), offsets=256, asks=True) for rows in sizes]
        own = [8 * (self.shards + 1) * len(sizes)]
        for rows, scratch in zip(sizes, extra, strict=True):
            own += [4 * rows, scratch]
        begins, nbytes = _peers.rooms(*own)
        with self.here, _cuda.translate_errors:
            self.memory = _peers.memory(self.device, nbytes, self.stream)
            ends = [self.memory.ptr + begin for begin in begins]
            for i, rows in enumerate(sizes):
                self.chunks.append(Chunk(bounds[i], rows, ends[1 + 2 * i], (ends[2 + 2 * i], extra[i])))
                self._partition(self.chunks[i], offsets=ends[0] + 8 * (self.shards + 1) * i)

    def _call(self, first: int, rows: int) -> tuple[int, bytes, int, int, int, int]:
        at = self.found.ptr + first * self.kinds.key_store.itemsize
        return self.device, self.format, rows, at, self.shards, self.seed

    def _partition(self, chunk: Chunk, **results: Any) -> None:
        scratch, nbytes = chunk.scratch
        own = self._call(chunk.first, chunk.rows)
        _core.partition(*own, **results, scratch=scratch, nbytes=nbytes, stream=self.stream)

    def read(self) -> None:
        """Wait for where the shards begin in each chunk."""
        if self.memory is None:
            return
        each = self.shards + 1
        with self.here, _cuda.translate_errors:
            found = _cuda.numbers_at(self.memory.ptr, each * len(self.chunks), self.stream)
        for i, chunk in enumerate(self.chunks):
            chunk.offsets = found[i * each : (i + 1) * each]

    def stage(self, chunk: Chunk, shards: list[int], widths: dict[str, int]) -> None:
        """Make room on this card for rows of these shards and their answers, which are 0 until they come."""
        begins, nbytes = _peers.rooms(*(chunk.rows * width for width in widths.values()))
        with self.here, _cuda.translate_errors:
            others = tuple(card for card in self.lanes.cards if card != self.device)
            chunk.staged = _peers.memory(self.device, nbytes, self.stream, others)
            _cuda.call("cuMemsetD8Async", chunk.staged.ptr, 0, nbytes, self.stream)
        for shard in shards:
            chunk.at[shard] = {
                name: chunk.staged.ptr + at + chunk.offsets[shard] * width
                for (name, width), at in zip(widths.items(), begins, strict=True)
                if width
            }

    def move(self, chunk: Chunk) -> None:
        """Queue rows to where they go."""
        results: dict[str, Any] = {"places": chunk.places, "counted": True}
        spread = self.shards <= _core.MOST_SPREAD
        keys, values = chunk.addresses("keys"), chunk.addresses("values")
        results |= {"shard_keys": keys} if spread else {"out_keys": keys[0]}
        if self.amounts is not None:
            width = self.kinds.value_bytes
            results |= {"values": self.amounts.ptr + chunk.first * width, "value_bytes": width}
            results |= {"shard_values": values} if spread else {"out_values": values[0]}
        with self.here, _cuda.translate_errors:
            self._partition(chunk, **results)
            chunk.grouped = self.on_stream.record()

    # ---- a shard on the CPU

    def on_host(self, chunk: Chunk, shard: int, table: Any) -> Exception | None:
        """Carry out the rows of a shard of the CPU: they and their answers are copied."""
        kinds, rows, at = self.kinds, chunk.many(shard), chunk.at[shard]
        aside = self.lanes.of(None, self.device).coming
        handle = int(aside.handle)
        with _cuda.current(self.device), _cuda.translate_errors:
            aside.wait(chunk.grouped)
            keys = np.empty(rows, kinds.key_store)
            _cuda.copy_to_host(keys, at["keys"], self.device, handle)
            given: list[Any] = [_arrays.from_store(keys, kinds.keys)]
            if self.amounts is not None or self.one is not None:
                assert kinds.values is not None
                stored = self.one
                if stored is None:
                    stored = np.empty(rows, kinds.value_store)
                    _cuda.copy_to_host(stored, at["values"], self.device, handle)
                given.append(_arrays.from_store(stored, kinds.values))
            how = {"op": next(name for name, code in _COMBINE.items() if code == self.combine)}
            failure, answers = None, None
            try:
                found = getattr(table, self.method)(*given, **(how if self.method == "accumulate" else {}))
                answers, statuses = found if self.method == "find" else (None, found)
            except TableFull as error:
                failure, statuses = error, error.status
            statuses = np.ascontiguousarray(statuses).view(_STATUS)
            _cuda.copy_from_host(statuses, at["statuses"], self.device, handle)
            if answers is not None and kinds.values is not None and kinds.value_store is not None:
                stored = _arrays.to_store(answers, kinds.values, kinds.value_store, "values")
                _cuda.copy_from_host(stored, at["answers"], self.device, handle)
        return failure

    # ---- home

    def finish(self) -> tuple[Any, Any]:
        """(values or None, mask), in the order of the batch."""
        with self.here:
            self.wait()
            values, mask = self._rooms()
            answers = 0 if values is None else self._address(values)
            self._bring_back(answers, self._address(mask))
            if values is not None:
                values = _device_arrays.give(self.keys, values)
                if self._narrow and self.kinds.values is not None:
                    values = _device_arrays.astype(values, self.kinds.values, self.device, self.stream, "values")
            return values, _device_arrays.give(self.keys, mask)

    def _bring_back(self, answers: int, statuses: int) -> None:
        """Queue answers and statuses to these addresses. Shards that had carried out the batch before answer 0."""
        spread, width = self.shards <= _core.MOST_SPREAD, self.kinds.value_bytes
        for chunk in self.chunks:
            rows, first = chunk.rows, chunk.first

            def sources(what: str, chunk: Chunk = chunk) -> list[int]:
                found = chunk.addresses(what)
                return [at * (s not in self.left_out) for s, at in enumerate(found)] if spread else found[:1]

            arrays = [(sources("answers"), width, answers + first * width)] if answers else []
            arrays.append((sources("statuses"), 1, statuses + first))
            offsets = chunk.offsets if spread else [0, rows]
            _core.collect(self.device, rows, chunk.places, offsets, arrays, self.stream)

    def statuses(self) -> np.ndarray[Any, Any]:
        """The statuses of all rows, on the host, of a batch that some shard has refused."""
        found = np.zeros(self.n, _STATUS)
        with self.here, _cuda.translate_errors:
            self.wait()
            memory = _peers.memory(self.device, self.n, self.stream)
            try:
                self._bring_back(0, memory.ptr)
                _cuda.copy_to_host(found, memory.ptr, self.device, self.stream)
            finally:
                memory.free(self.stream)
        return found.reshape(self.shape)

    def wait(self) -> None:
        """The caller's stream goes on when all shards have answered."""
        for chunk in self.chunks:
            events, chunk.done = chunk.done, []
            with _cuda.translate_errors:
                for event in events:
                    self.on_stream.wait(event)

    def _shown(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return _stored_views.shown(self.kinds.values, self.kinds.value_store)

    def _rooms(self) -> tuple[Any, Any]:
        quick = _tensors.library_of(self.keys) in _QUICK

        def empty(dtype: np.dtype[Any], inner: tuple[int, ...] = ()) -> Any:
            if quick:
                return _device_groups.maker(self.keys, self.device)(self.shape + inner, dtype)
            return _device_arrays.empty_like(self.keys, self.shape + inner, dtype, self.device, self.keeper)

        return empty(*self._shown()) if self.answers else None, empty(np.dtype(bool))

    def _address(self, array: Any) -> int:
        if _tensors.library_of(array) in _QUICK:
            return _core.pointer(array)
        return _device_arrays.view(array, self.device, self.stream, "the results").ptr


def card_of(array: Any) -> int:
    """The number of the GPU that an array lies on."""
    return _table_verbs.ordinal_of(array)


def _format(kinds: Kinds) -> bytes:
    """Arrow's format of stored keys, by which their shard is that of the keys."""
    keys, stored = kinds.keys, kinds.key_store.str[1:]
    if keys.kind in "mM":
        unit = _UNITS.get(np.datetime_data(keys)[0]) if np.datetime_data(keys)[1] == 1 else None
        if unit is not None:
            return b"tD" + unit if keys.kind == "m" else b"ts" + unit + b":"
    elif keys.kind in "iuf" and keys != np.float16 and stored in _FORMATS:
        return _FORMATS[stored]
    elif keys.subdtype is not None:  # rows, whose shard is that of their bytes
        return b"w:%d" % kinds.key_store.itemsize
    raise Unsupported(
        f"keys are on a GPU, and keys of {keys} are divided into shards on the host alone: copy them to the host, or "
        "make the table with another key_dtype, for bytes of a GPU that of their rows, ('u1', 16)"
    )
