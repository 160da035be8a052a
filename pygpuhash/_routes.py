"""Batches that lie on a GPU, of a table in shards: rows go from the caller's card to those of the shards, and home.

    partition   the caller's card groups the rows by shard                         `Batch._grouped`
    exchange    each shard's card takes its rows over                              `Step`
    serve       its table carries out the batch
    exchange    what it answers goes to the caller's card
    ungroup     the caller's card brings the answers into the order of the batch   `Batch.finish`

One call may have a batch on each of several cards, of which each shard serves all its rows at once. A batch may be cut
into chunks, whose steps then run beside each other: each shard has a stream for what comes, one for its table and one
for what goes. Of all this the host waits for where the shards begin in a chunk, 8 bytes each, and for tables that may
not grow. The rows themselves touch the host only where a shard is on the CPU, or where two cards do not reach each
other.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
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
from pygpuhash.errors import DeviceError, InvalidArgument, Poisoned, TableFull, Unsupported

__all__ = ["Batch", "Kinds", "Lanes", "Step", "card_of"]

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
_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}
_QUICK = ("cupy", "torch")  # which make an array on their current stream, and say where it lies
_INDEX = np.dtype(np.int64)
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


class _Lane:
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
        self._of: dict[Any, _Lane] = {}
        self._lock = threading.Lock()
        self.copied = 0

    def of(self, shard: int | None, device: int) -> _Lane:
        """The streams of a shard on a device; of None, the streams of batches that lie on the device."""
        with self._lock:
            found = self._of.get((shard, device))
            if found is None or found.forks != _core.forks():
                found = self._of[shard, device] = _Lane(device)
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
class _Chunk:
    """Neighbouring rows of a batch: grouped by shard, with room for what the shards answer.

    begins : where each array begins in `memory`: keys, values, order, offsets, answers, statuses; -1: there is none.
    """

    first: int
    rows: int
    memory: _peers.Memory
    begins: dict[str, int]
    grouped: Any  # the event after which rows are there
    done: list[Any] = field(default_factory=list)  # events after which answers are there
    offsets: list[int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, what: str, row: int = 0, row_bytes: int = 0) -> int:
        return self.memory.ptr + self.begins[what] + row * row_bytes

    def of_shard(self, shard: int, shards: int, device: int, aside: Any) -> tuple[int, int]:
        """The first row of a shard and the one after its last, when the partition has come to it."""
        with self._lock:
            if self.offsets is None:
                with _cuda.current(device), _cuda.translate_errors:
                    aside.wait(self.grouped)
                    self.offsets = _cuda.numbers_at(self.at("offsets"), shards + 1, int(aside.handle))
        return self.offsets[shard], self.offsets[shard + 1]


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
        self.device = card_of(keys)
        self.keeper = _streams.stream_keeper(keys, self.device)
        self.stream = _core.stream_handle(self.keeper)
        self.chunks: list[_Chunk] = []
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
            self.aside: Any = self.lanes.of(None, self.device).coming if self.n else None
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """Give memory back, in the order of the caller's stream; nothing is queued on others after it."""
        # Where a card has failed the caller gets the first error, and not that of giving memory back.
        with contextlib.nullcontext() if kind is None else contextlib.suppress(DeviceError), self.here:
            self._wait()
            for chunk in self.chunks:
                chunk.memory.free(self.stream)

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
        """Queue the partition of all chunks."""
        bounds = [self.n * i // chunks for i in range(chunks + 1)]
        with self.here, _cuda.translate_errors:
            for first, end in itertools.pairwise(bounds):
                if first < end:
                    self.chunks.append(self._grouped(first, end - first, seed))

    def _grouped(self, first: int, rows: int, seed: int) -> _Chunk:
        width, value_width = self.kinds.key_store.itemsize, self.kinds.value_bytes
        given = self.amounts is not None
        sizes = {
            "keys": rows * width, "values": rows * value_width * given, "order": rows * 8,
            "offsets": (self.shards + 1) * 8, "answers": rows * value_width * self.answers, "statuses": rows,
        }  # fmt: skip
        own = (self.device, self.format, rows, self.found.ptr + first * width, self.shards, seed)
        results: dict[str, Any] = {"offsets": 256, "order": 256, "out_keys": 256}  # any address, to ask for scratch
        extra = _core.partition(*own, **results, asks=True)
        begins, nbytes = _peers.rooms(*sizes.values(), extra)
        memory = _peers.memory(self.device, nbytes, self.stream, self._others())
        chunk = _Chunk(first, rows, memory, dict(zip(sizes, begins, strict=False)), None)
        results = {name: chunk.at(name.removeprefix("out_")) for name in results}
        if self.amounts is not None:
            at = self.amounts.ptr + first * value_width
            results |= {"values": at, "value_bytes": value_width, "out_values": chunk.at("values")}
        _core.partition(*own, **results, scratch=memory.ptr + begins[-1], nbytes=extra, stream=self.stream)
        chunk.grouped = self.on_stream.record()
        return chunk

    def _others(self) -> tuple[int, ...]:
        return tuple(card for card in self.lanes.cards if card != self.device)

    def met(self) -> list[int]:
        """The shards that have rows; of several chunks all, as the host has not waited for where they begin."""
        if len(self.chunks) != 1:
            return list(range(self.shards)) if self.chunks else []
        (only,) = self.chunks
        with self.here:
            only.offsets = _cuda.numbers_at(only.at("offsets"), self.shards + 1, self.stream)
        ends = [self.rows_of(self.chunks[0], shard) for shard in range(self.shards)]
        return [shard for shard, (begin, end) in enumerate(ends) if begin < end]

    def rows_of(self, chunk: _Chunk, shard: int) -> tuple[int, int]:
        """The first row of a shard and the one after its last."""
        return chunk.of_shard(shard, self.shards, self.device, self.aside)

    # ---- a shard on the CPU

    def on_host(self, chunk: _Chunk, begin: int, rows: int, table: Any) -> Exception | None:
        """Carry out a part on a shard of the CPU: its rows and its answers are copied."""
        kinds = self.kinds
        handle = int(self.aside.handle)
        with _cuda.current(self.device), _cuda.translate_errors:
            self.aside.wait(chunk.grouped)
            keys = np.empty(rows, kinds.key_store)
            _cuda.copy_to_host(keys, chunk.at("keys", begin, keys.itemsize), self.device, handle)
            given: list[Any] = [_arrays.from_store(keys, kinds.keys)]
            if self.amounts is not None or self.one is not None:
                assert kinds.values is not None
                stored = self.one
                if stored is None:
                    stored = np.empty(rows, kinds.value_store)
                    _cuda.copy_to_host(stored, chunk.at("values", begin, stored.itemsize), self.device, handle)
                given.append(_arrays.from_store(stored, kinds.values))
            how = {"op": next(name for name, code in _COMBINE.items() if code == self.combine)}
            failure, answers = None, None
            try:
                found = getattr(table, self.method)(*given, **(how if self.method == "accumulate" else {}))
                answers, statuses = found if self.method == "find" else (None, found)
            except TableFull as error:
                failure, statuses = error, error.status
            statuses = np.ascontiguousarray(statuses).view(_STATUS)
            _cuda.copy_from_host(statuses, chunk.at("statuses", begin, 1), self.device, handle)
            if answers is not None and kinds.values is not None and kinds.value_store is not None:
                stored = _arrays.to_store(answers, kinds.values, kinds.value_store, "values")
                _cuda.copy_from_host(stored, chunk.at("answers", begin, stored.itemsize), self.device, handle)
        return failure

    # ---- home

    def finish(self) -> tuple[Any, Any]:
        """(values or None, mask), in the order of the batch."""
        with self.here:
            self._wait()
            values, mask = self._rooms()
            statuses = self._address(mask)
            answers = 0 if values is None else self._address(values)
            for chunk in self.chunks:
                self._ungroup(chunk, "statuses", 1, statuses)
                if answers:
                    self._ungroup(chunk, "answers", self.kinds.value_bytes, answers)
            if values is not None:
                values = _device_arrays.give(self.keys, values)
                if self._narrow and self.kinds.values is not None:
                    values = _device_arrays.astype(values, self.kinds.values, self.device, self.stream, "values")
            return values, _device_arrays.give(self.keys, mask)

    def statuses(self) -> np.ndarray[Any, Any]:
        """The statuses of all rows, on the host, of a batch that some shard has refused."""
        found = np.zeros(self.n, _STATUS)
        with self.here:
            self._wait()
            for chunk in self.chunks:
                own, order = np.empty(chunk.rows, _STATUS), np.empty(chunk.rows, _INDEX)
                _cuda.copy_to_host(own, chunk.at("statuses"), self.device, self.stream)
                _cuda.copy_to_host(order, chunk.at("order"), self.device, self.stream)
                found[chunk.first + order] = own
        return found.reshape(self.shape)

    def _wait(self) -> None:
        """The caller's stream goes on when all shards have answered."""
        for chunk in self.chunks:
            events, chunk.done = chunk.done, []
            with _cuda.translate_errors:
                for event in events:
                    self.on_stream.wait(event)
        while self.left_out:
            self._clear(self.left_out.pop())

    def _clear(self, shard: int) -> None:
        """A shard that had carried out the batch before answers with zeros."""
        for chunk in self.chunks:
            begin, end = self.rows_of(chunk, shard)
            for name, width in (("answers", self.kinds.value_bytes * self.answers), ("statuses", 1)):
                if width and begin < end:
                    at = chunk.at(name, begin, width)
                    _cuda.call("cuMemsetD8Async", at, 0, (end - begin) * width, self.stream)

    def _shown(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return _stored_views.shown(self.kinds.values, self.kinds.value_store)

    def _rooms(self) -> tuple[Any, Any]:
        quick = _tensors.library_of(self.keys) in _QUICK

        def empty(dtype: np.dtype[Any], inner: tuple[int, ...] = ()) -> Any:
            if quick:
                return _device_groups.maker(self.keys, self.device)(self.shape + inner, dtype)
            return _device_arrays.empty_like(self.keys, self.shape + inner, dtype, self.device, self.keeper)

        return empty(*self._shown()) if self.answers else None, empty(np.dtype(bool))

    def _ungroup(self, chunk: _Chunk, what: str, width: int, to: int) -> None:
        """Row order[i] of `to` becomes row i of what the shards have answered."""
        to += chunk.first * width
        _core.ungroup(self.device, chunk.rows, chunk.at("order"), chunk.at(what), width, to, self.stream)

    def _address(self, array: Any) -> int:
        if _tensors.library_of(array) in _QUICK:
            return _device_groups._pointer(array)
        return _device_arrays.view(array, self.device, self.stream, "the results").ptr


@dataclass
class _Piece:
    """Rows of a chunk that are of one shard."""

    batch: Batch
    chunk: _Chunk
    begin: int
    rows: int

    def at(self, what: str, width: int) -> tuple[int, int]:
        """The card of these rows, and the address of their part of the array `what`."""
        return self.batch.device, self.chunk.at(what, self.begin, width)


class Step:
    """The part of one shard in a call, whose keys are a batch on one card or a batch on each of several."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches, one = batches, batches[0]
        self.op, self.combine, self.lanes, self.one = one.op, one.combine, one.lanes, one.one
        given = any(batch.amounts is not None for batch in batches)
        self.widths = {
            "keys": one.kinds.key_store.itemsize, "values": one.kinds.value_bytes * given,
            "answers": one.kinds.value_bytes * one.answers, "statuses": 1,
        }  # fmt: skip

    @property
    def waits(self) -> bool:
        """May a shard keep the host waiting? Then each is served by a thread of its own."""
        return self.op in _core.ADDING

    def __call__(self, shard: Any) -> None:
        """Carry out the part of a shard; raises what its table raises, when all chunks are done."""
        failure: Exception | None = None
        table = shard.table
        table._refuse_forked()
        for of_all in itertools.zip_longest(*(batch.chunks for batch in self.batches)):
            pieces = list(self._pieces(of_all, shard.number))
            if pieces and table._kind == _core.CUDA:
                found = self._on_card(pieces, table, self.lanes.of(shard.number, table._ordinal))
                failure = failure or found
                continue
            for piece in pieces:
                found = piece.batch.on_host(piece.chunk, piece.begin, piece.rows, table)
                failure = failure or found
        if failure is not None:
            raise failure

    def _pieces(self, chunks: tuple[_Chunk | None, ...], shard: int) -> Iterator[_Piece]:
        for batch, chunk in zip(self.batches, chunks, strict=True):
            if chunk is not None:
                begin, end = batch.rows_of(chunk, shard)
                if begin < end:
                    yield _Piece(batch, chunk, begin, end - begin)

    def _on_card(self, pieces: list[_Piece], table: Any, lane: _Lane) -> Exception | None:
        held: list[_peers.Memory] = []
        try:
            with _cuda.current(table._ordinal), _cuda.translate_errors:
                if len(pieces) == 1 and pieces[0].batch.device == table._ordinal:
                    return self._in_place(pieces[0], table, lane)
                return self._gathered(pieces, table, lane, held)
        except BaseException as error:  # what was queued uses memory that is given back after this
            try:
                for stream in (lane.coming, lane.serving, lane.going):
                    _cuda.synchronize(table._ordinal, int(stream.handle))
                with _cuda.current(table._ordinal):
                    for memory in held:
                        memory.free(int(lane.going.handle))
            except DeviceError as failed:  # and what the table holds is lost
                if not isinstance(error, Poisoned):
                    raise Poisoned(f"cuda:{table._ordinal} has failed: {failed}") from error
            raise

    def _in_place(self, piece: _Piece, table: Any, lane: _Lane) -> Exception | None:
        """Rows that lie on the card of the shard."""
        lane.serving.wait(piece.chunk.grouped)
        places = {name: piece.at(name, width)[1] if width else 0 for name, width in self.widths.items()}
        failure = self._run(table, piece.rows, places, lane.serving)
        piece.chunk.done.append(lane.serving.record())
        return failure

    def _gathered(self, pieces: list[_Piece], table: Any, lane: _Lane, held: list[_peers.Memory]) -> Exception | None:
        """Rows of other cards, or of several: side by side, so that the table has one batch."""
        here, coming, going = table._ordinal, int(lane.coming.handle), int(lane.going.handle)
        rows = sum(piece.rows for piece in pieces)
        begins, nbytes = _peers.rooms(*(rows * width for width in self.widths.values()))
        memory = _peers.memory(here, nbytes, coming, tuple(piece.batch.device for piece in pieces))
        held.append(memory)
        places = {
            name: memory.ptr + at if width else 0 for (name, width), at in zip(self.widths.items(), begins, strict=True)
        }  # fmt: skip

        def copies(names: tuple[str, str], home: bool, stream: int) -> None:
            first = 0
            for piece in pieces:
                for name in names:
                    width = self.widths[name]
                    ends = (here, places[name] + first * width), piece.at(name, width) if width else (here, 0)
                    to, source = reversed(ends) if home else ends
                    _peers.copy(to, source, piece.rows * width, stream)
                first += piece.rows

        for piece in pieces:
            lane.coming.wait(piece.chunk.grouped)
        copies(("keys", "values"), False, coming)
        lane.serving.wait(lane.coming.record())
        failure = self._run(table, rows, places, lane.serving)
        lane.going.wait(lane.serving.record())
        copies(("answers", "statuses"), True, going)
        memory.free(going)
        ended = lane.going.record()
        for piece in pieces:
            piece.chunk.done.append(ended)
            if piece.batch.device != here:
                self.lanes.count(piece.rows * sum(self.widths.values()))
        return failure

    def _run(self, table: Any, rows: int, places: dict[str, int], stream: Any) -> Exception | None:
        handle, values, filled = int(stream.handle), places["values"], None
        if self.one is not None:
            filled = _cuda.full((rows,), self.one.reshape(1).view(_plain(self.one.dtype)), table._ordinal, stream)
            values = filled.ptr
        failure: Exception | None = table._raw(
            self.op, rows, places["keys"], values=values, out_values=places["answers"], out_status=places["statuses"],
            combine=self.combine, stream=handle, wait=not table._grow and self.op in _core.ADDING,
        )  # fmt: skip
        if isinstance(failure, Poisoned):
            raise failure
        return failure


def card_of(array: Any) -> int:
    """The number of the GPU that an array lies on."""
    return _table_verbs._ordinal(array)


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Numbers as bits; wider elements as they are."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else dtype


def _format(kinds: Kinds) -> bytes:
    """Arrow's format of stored keys, by which their shard is that of the keys."""
    keys, stored = kinds.keys, kinds.key_store.str[1:]
    if keys.kind in "mM":
        unit = _UNITS.get(np.datetime_data(keys)[0]) if np.datetime_data(keys)[1] == 1 else None
        if unit is not None:
            return b"tD" + unit if keys.kind == "m" else b"ts" + unit + b":"
    elif keys.kind in "iuf" and keys != np.float16 and stored in _FORMATS:
        return _FORMATS[stored]
    raise Unsupported(
        f"keys are on a GPU, and keys of {keys} are divided into shards on the host alone: copy them to the host"
    )
