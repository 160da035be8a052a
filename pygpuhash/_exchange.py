"""Rows of one call at the shards: on their way there, served by the tables, and their answers. See _routes.py."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda, _peers
from pygpuhash._routes import Batch, Chunk, Lane
from pygpuhash.errors import DeviceError, Poisoned

__all__ = ["Step"]


@dataclass
class _Piece:
    """Rows of a chunk that are of one shard."""

    batch: Batch
    chunk: Chunk
    shard: int

    @property
    def rows(self) -> int:
        return self.chunk.many(self.shard)

    def at(self, what: str) -> tuple[int, int]:
        """The card of the batch, and the address of the array `what` of staged rows."""
        return self.batch.device, self.chunk.at[self.shard].get(what, 0)


class Step:
    """One call of a table in shards, whose keys are a batch on one card or a batch on each of several."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches, one = batches, batches[0]
        self.op, self.combine, self.lanes, self.one = one.op, one.combine, one.lanes, one.one
        given = any(batch.amounts is not None for batch in batches)
        self.widths = {
            "keys": one.kinds.key_store.itemsize, "values": one.kinds.value_bytes * given,
            "answers": one.kinds.value_bytes * one.answers, "statuses": 1,
        }  # fmt: skip
        self.shards = one.shards
        self.direct = [self._reaches(card) for card in one.lanes.of_shards]
        self.pieces: list[list[list[_Piece]]] = []  # of each chunk and shard
        self.held: list[tuple[Lane, _peers.Memory]] = []

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """Give memory of the shards' cards back, when the cards of the batches have read the answers."""
        with contextlib.nullcontext() if kind is None else contextlib.suppress(DeviceError), _cuda.translate_errors:
            events = []
            for batch in self.batches:
                with batch.here:
                    batch.wait()
                    events.append(batch.on_stream.record())
            for lane, memory in self.held:
                with _cuda.current(memory.device):
                    for event in events:
                        lane.coming.wait(event)
                    memory.free(int(lane.coming.handle))

    def _reaches(self, card: int | None) -> bool:
        """Do the cards of the batches write to a shard's card, and read there?"""
        if card is None or self.shards > _core.MOST_SPREAD:
            return False
        others = [batch.device for batch in self.batches]
        return all(_peers.reaches(card, other) and _peers.reaches(other, card) for other in others)

    def send(self) -> list[int]:
        """Queue all rows to their shards; the shards that have some."""
        for of_all in itertools.zip_longest(*(batch.chunks for batch in self.batches)):
            chunks = [(batch, chunk) for batch, chunk in zip(self.batches, of_all, strict=True) if chunk is not None]
            self.pieces.append(
                [[_Piece(batch, chunk, s) for batch, chunk in chunks if chunk.many(s)] for s in range(self.shards)]
            )
            for shard, pieces in enumerate(self.pieces[-1]):
                if pieces and self.direct[shard]:
                    try:
                        self._make_room(shard, pieces)
                    except DeviceError:  # which copies meet again, in the turn of the shard
                        self.direct[shard] = False
            staged = [shard for shard, direct in enumerate(self.direct) if not direct]
            for batch, chunk in chunks:
                if any(map(chunk.many, staged)):
                    batch.stage(chunk, staged, self.widths)
                batch.move(chunk)
        return [shard for shard in range(self.shards) if any(of_all[shard] for of_all in self.pieces)]

    def _make_room(self, shard: int, pieces: list[_Piece]) -> None:
        """Memory of the shard's card for rows of all batches, side by side, so that the table has one batch."""
        card = self.lanes.of_shards[shard]
        assert card is not None
        lane = self.lanes.of(shard, card)
        rows = sum(piece.rows for piece in pieces)
        begins, nbytes = _peers.rooms(*(rows * width for width in self.widths.values()))
        with _cuda.current(card), _cuda.translate_errors:
            others = tuple(piece.batch.device for piece in pieces if piece.batch.device != card)
            memory = _peers.memory(card, nbytes, int(lane.coming.handle), others)
            self.held.append((lane, memory))
            there = lane.coming.record()
        first = 0
        for piece in pieces:
            piece.chunk.at[shard] = {
                name: memory.ptr + at + first * width
                for (name, width), at in zip(self.widths.items(), begins, strict=True)
                if width
            }
            first += piece.rows
            with piece.batch.here, _cuda.translate_errors:
                piece.batch.on_stream.wait(there)
            if piece.batch.device != card:
                self.lanes.count(piece.rows * sum(self.widths.values()))

    @property
    def waits(self) -> bool:
        """May a shard keep the host waiting? Then each is served by a thread of its own."""
        return self.op in _core.ADDING

    def __call__(self, shard: Any) -> None:
        """Carry out the part of a shard; raises what its table raises, when all chunks are done."""
        failure: Exception | None = None
        table = shard.table
        table._refuse_forked()
        for of_all in self.pieces:
            pieces = of_all[shard.number]
            if pieces and table._kind == _core.CUDA:
                found = self._on_card(pieces, table, self.lanes.of(shard.number, table._ordinal))
                failure = failure or found
                continue
            for piece in pieces:
                found = piece.batch.on_host(piece.chunk, piece.shard, table)
                failure = failure or found
        if failure is not None:
            raise failure

    def _on_card(self, pieces: list[_Piece], table: Any, lane: Lane) -> Exception | None:
        held: list[_peers.Memory] = []
        try:
            with _cuda.current(table._ordinal), _cuda.translate_errors:
                if self.direct[pieces[0].shard]:
                    return self._there(pieces, table, lane)
                return self._copied(pieces, table, lane, held)
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

    def _there(self, pieces: list[_Piece], table: Any, lane: Lane) -> Exception | None:
        """Rows that their cards have written to the card of the shard."""
        for piece in pieces:
            lane.serving.wait(piece.chunk.grouped)
        places = {name: pieces[0].at(name)[1] for name in self.widths}
        failure = self._run(table, sum(piece.rows for piece in pieces), places, lane.serving)
        self._ended(pieces, lane.serving)
        return failure

    def _copied(self, pieces: list[_Piece], table: Any, lane: Lane, held: list[_peers.Memory]) -> Exception | None:
        """Staged rows: copied to the card of the shard, and their answers to the cards of the batches."""
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
                    ends = (here, places[name] + first * width), piece.at(name)
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
        self._ended(pieces, lane.going)
        for piece in pieces:
            if piece.batch.device != here:
                self.lanes.count(piece.rows * sum(self.widths.values()))
        return failure

    def _ended(self, pieces: list[_Piece], stream: Any) -> None:
        ended = stream.record()
        for piece in pieces:
            piece.chunk.done.append(ended)

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


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Numbers as bits; wider elements as they are."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else dtype
