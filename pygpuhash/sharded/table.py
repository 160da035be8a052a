"""`Table`: batches are grouped by shard, each shard serves its part, and results come back in their order."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pygpuhash import _arguments, _arrays, _combined, _exchange, _peers, _routes
from pygpuhash import table as _table
from pygpuhash.columns._engine import MOST_SHARDS
from pygpuhash.errors import Corrupt, ShardLost, TableFull, Unsupported
from pygpuhash.saved import disk
from pygpuhash.sharded import manifest
from pygpuhash.sharded.replica import Replica
from pygpuhash.shards import Partition, partition, shard_of
from pygpuhash.text_table import kind_of_text
from pygpuhash.transports import Call, Local, Maker, Repeated

Array = np.ndarray[Any, Any]


class Table:
    """A table in shards, with the methods of `gh.Table` for batches.

    Parameters
    ----------
    backend : of all shards, as for `gh.Table`.
    key_dtype, value_dtype : as for `gh.Table`, but for keys of text or bytes of any length.
    shards : how many, 1 to 65,536; None for one on each device of the transport.
    transport : how they are reached; None for `Local()`, one after the other on the CPU.
    seed : of the division into shards, a part of what is saved. Tables have seeds of their own.
    arguments : others of `gh.Table`, for each shard; `capacity` is that of all shards together.

    Any number of threads may call. Results are numpy's arrays; with `Local`, keys on a GPU give arrays of their library
    there, in the order of the stream that is current in it. A list of arrays, of which each lies on some card, is one
    call with a batch on each: values and results are lists, too, and each shard serves what all have for it at once.

    Raises what `gh.Table` raises; every method `ShardLost` once a shard is lost.
    """

    def __init__(
        self,
        backend: str = "auto",
        *,
        key_dtype: Any = "uint64",
        value_dtype: Any = "int64",
        shards: int | None = None,
        transport: Any = None,
        seed: int = 0,
        **arguments: Any,
    ) -> None:
        for name in ("device", "stream", "memory"):
            if name in arguments:
                raise TypeError(f"{name}= is decided by the transport: pass transport=Local(['cuda:0', 'cuda:1'])")
        self._transport: Any = Local() if transport is None else transport
        least = len(self._transport.devices)
        self._shards = least if shards is None else _arguments.whole("shards", shards, MOST_SHARDS, least=1)
        self._seed = _arguments.whole("seed", seed, 2**64 - 1)
        if kind_of_text(key_dtype) is not None:
            raise Unsupported(
                f"key_dtype={key_dtype!r}: keys of a table in shards have one width. Pass how many bytes a key has at "
                "most, as key_dtype='S16', and text as bytes, np.char.encode(text); or use gh.Table, pygpuhash.dask or "
                "gh.partial, which take text of any length"
            )
        self._keys = _arrays.table_dtype(key_dtype, "key_dtype")
        self._key_store = _arrays.store_dtype(self._keys, keys=True)
        self._values = None if value_dtype is None else _arrays.table_dtype(value_dtype, "value_dtype")
        self._value_store = None if self._values is None else _arrays.store_dtype(self._values, keys=False)
        capacity = _arguments.whole("capacity", arguments.pop("capacity", 0), 2**64 - 1)
        self._made_with = {"backend": backend, **arguments}
        self._kinds = _routes.Kinds(self._keys, self._key_store, self._values, self._value_store)
        self._snapshot: str | None = None
        self._lost: str | None = None
        room = -(-capacity // self._shards)
        self._transport.open(self._shards, Maker(backend, self._keys, self._values, room, arguments))

    # ---- batches

    def insert(self, keys: Any, values: Any = None, *, tag: str | None = None) -> Any:
        """Add each pair whose key is absent. Returns a bool mask: newly inserted; False where the tag was there."""
        return self._batch("insert", keys, values, tag)

    def insert_or_assign(self, keys: Any, values: Any = None, *, tag: str | None = None) -> Any:
        """Add each pair, or replace the value; of equal keys in a batch the last one wins. Mask as of `insert`.

        Of equal keys of a batch on a GPU one wins, in no fixed order.
        """
        return self._batch("insert_or_assign", keys, values, tag)

    def accumulate(self, keys: Any, values: Any = 1, *, op: str = "add", tag: str | None = None) -> Any:
        """Add each pair, or combine the value with the one that is there. Mask as of `insert`."""
        if _on_cards(keys):

            def each_row(keys: Any, values: Any) -> Any:
                return self._batch("accumulate", keys, values, tag, op=op)

            found = _combined.accumulate(self._kinds, keys, values, op, each_row)
            return each_row(keys, values) if found is None else found[0]
        if not self._transport.travels or self._values is None:
            return self._batch("accumulate", keys, values, tag, op=op)
        return self._combined(keys, values, op, tag)

    def erase(self, keys: Any, *, tag: str | None = None) -> Any:
        """Remove keys. Returns a bool mask: was there; False where the tag was there."""
        return self._batch("erase", keys, None, tag)

    def find(self, keys: Any) -> tuple[Any, Any]:
        """(values, found) of each key; values None for a set."""
        if _on_cards(keys):
            return self._on_gpu("find", keys, None, None)
        parts, shape = self._grouped(keys, None)
        values: Any = None
        found = np.zeros(len(parts.order), bool)
        for rows, (own, mask) in self._served("find", parts):
            if values is None and own is not None:
                values = np.zeros((len(parts.order), *own.shape[1:]), own.dtype)
            if own is not None:
                values[rows] = own
            found[rows] = mask
        if values is None and self._values is not None:
            values = np.zeros(0, self._values)
        if values is None:
            return None, found.reshape(shape)[()]
        return values.reshape(shape + values.shape[1:])[()], found.reshape(shape)[()]

    def contains(self, keys: Any) -> Any:
        """Which keys are there."""
        if _on_cards(keys):
            return self._on_gpu("contains", keys, None, None)[1]
        parts, shape = self._grouped(keys, None)
        found = np.zeros(len(parts.order), bool)
        for rows, mask in self._served("contains", parts):
            found[rows] = mask
        return found.reshape(shape)[()]

    def export(self) -> tuple[Array, Array | None]:
        """All pairs: (keys, values), shard by shard; values None for a set."""
        parts = self._every("export")
        keys = np.concatenate([own for own, _ in parts])
        return keys, None if self._values is None else np.concatenate([values for _, values in parts])

    def replicate(self) -> Replica:
        """A copy of all keys on each device of the transport, for tables that are mostly read: see `Replica`."""
        return Replica(self)

    # ---- the whole table

    def __len__(self) -> int:
        return sum(info["size"] for info in self._every("info"))

    def __contains__(self, key: object) -> bool:
        return bool(self.contains(key))

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._shards

    @property
    def stats(self) -> dict[str, Any]:
        """Keys, bytes and devices: of all shards, and {"shards": [...]} of each; "skew": the largest by the mean.

        "over host": pairs of cards between which rows go over memory of the host, as they do not reach each other.
        """
        each = self._every("info")
        sizes = [int(info["size"]) for info in each]
        size = sum(sizes)
        return {
            "size": size,
            "nbytes": sum(int(info["bytes"]) for info in each),
            "skew": max(sizes) * len(sizes) / size if size else 1.0,
            "snapshot": self._snapshot,
            "over host": _over_host(self._transport),
            "shards": [
                {"size": info["size"], "nbytes": info["bytes"], "device": info["device"], "capacity": info["capacity"]}
                for info in each
            ],
        }

    def check(self) -> None:
        """Test every invariant of each shard, and that each key is where it belongs. Raises `Corrupt`."""
        self._every("check")
        for shard, (keys, _) in enumerate(self._every("export")):
            if others := shards_of(keys, self._shards, self._seed) - {shard}:
                raise Corrupt(f"shard {shard} has keys of the shards {sorted(others)[:5]}")

    def clear(self) -> None:
        """Remove all keys and forget all tags: the table is as new, and carries out a batch with an old tag.

        The storage stays, and so do snapshots: the last one is still the one that `ShardLost` names. Of batches of
        other threads meanwhile some shards may keep their part: clear when there are none. After `ShardLost` it raises
        `ShardLost`, as all methods: make another table.
        """
        self._every("clear")

    def close(self) -> None:
        """Release all shards."""
        self._transport.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kinds = f"{self._keys}" + ("" if self._values is None else f" -> {self._values}")
        return f"<pygpuhash.sharded.Table {kinds} in {self._shards} shards>"

    # ---- snapshots

    def save(self, path: str | os.PathLike[str], overwrite: bool = False, compression: str | None = None) -> None:
        """Write all shards into a folder that `load` reads, as one snapshot.

        Each shard is a file as `gh.Table.save` writes it, and "shards.json" names them. It is written last and takes
        the place of an older one as a whole: a crash leaves the old snapshot or the new one. Batches of other threads
        meanwhile are in the files of some shards only: save when there are none.

        Raises FileExistsError where the folder has a snapshot and overwrite is False, and OSError with what the system
        says.
        """
        folder = disk.path_of(path)
        replaces = _arguments.flag("overwrite", overwrite)
        folder.mkdir(exist_ok=True)
        if refused := self._transport.agreed(manifest.refusal(folder, replaces)):
            raise FileExistsError(refused)
        old = manifest.files_of(folder)
        snapshot = self._transport.agreed(secrets.token_hex(8))
        names = [f"shard-{i:05}-{snapshot}.arrow" for i in range(self._shards)]
        try:
            tags = self._every("tags")
            leads = self._transport.leads
            calls = (
                [Call(s, "save", (str(folder / name), compression)) for s, name in enumerate(names)] if leads else []
            )
            written = self._call(calls)
            self._raise(list(range(len(calls))), written, [], 0)
            if leads:
                record = {
                    "snapshot": snapshot,
                    "seed": self._seed,
                    "key": str(self._keys),
                    "value": None if self._values is None else str(self._values),
                    "shards": [
                        {"file": name, "bytes": size, "digest": own}
                        for name, (size, own) in zip(names, written, strict=True)
                    ],
                    "tags": tags,
                }
                manifest.write(folder, record, replaces)
        except BaseException:
            for name in names:
                (folder / name).unlink(missing_ok=True)
            raise
        self._snapshot = f"{folder} ({snapshot})"
        for name in old if leads else []:
            (folder / name).unlink(missing_ok=True)
        self._transport.agreed("written")

    # ---- one call

    def _grouped(self, keys: Any, values: Any) -> tuple[Partition, tuple[int, ...]]:
        """Keys by shard, in the dtype of the table, and the shape of the batch."""
        if _arrays.on_device(values):
            raise Unsupported("values are on a GPU and keys on the host: copy one of them to where the other is")
        stored = _arrays.to_store(keys, self._keys, self._key_store, "keys")
        own = _arrays.from_store(stored.reshape(-1), self._keys)
        hashed = _hashed(own)
        if values is None:
            parts = partition(hashed, self._shards, self._seed)
            return replace(parts, keys=own[parts.order]), stored.shape
        given, one_for_all = self._amounts(values, stored.shape)
        if one_for_all:
            parts = partition(hashed, self._shards, self._seed)
            return replace(parts, keys=own[parts.order], values=given), stored.shape
        parts = partition(hashed, self._shards, self._seed, np.ascontiguousarray(given))
        return (parts if own is hashed else replace(parts, keys=own[parts.order])), stored.shape

    def _amounts(self, values: Any, shape: tuple[int, ...]) -> tuple[Array, bool]:
        """Values in the dtype of the table, and whether there is one for all keys."""
        if self._values is None or self._value_store is None:
            raise TypeError("values are given, and this table is a set (value_dtype=None): leave them out")
        amounts = _arrays.to_store(values, self._values, self._value_store, "values")
        if amounts.shape not in ((), shape):
            raise ValueError(f"values have shape {amounts.shape}, keys {shape}: pass one value per key, or one")
        return _arrays.from_store(amounts.reshape(-1), self._values), not amounts.shape

    def _combined(self, keys: Any, values: Any, op: Any, tag: str | None) -> Array:
        """`accumulate`, for which each key travels once: its values in the batch are combined here first."""
        stored = _arrays.to_store(keys, self._keys, self._key_store, "keys")
        own = _arrays.from_store(stored.reshape(-1), self._keys)
        given, one_for_all = self._amounts(values, stored.shape)
        amounts = np.broadcast_to(given, (stored.size, *given.shape[1:])) if one_for_all else given
        kinds: dict[str, Any] = {"key_dtype": self._keys, "device": "cpu"}
        with _table.Table(self._made_with["backend"], value_dtype=self._values, **kinds) as sums:
            first = np.flatnonzero(sums.accumulate(own, amounts, op=op))
            totals = sums.find(own[first])[0]
        mask = np.zeros(stored.size, bool)
        try:
            mask[first] = self._batch("accumulate", own[first], totals, tag, op=op)
        except TableFull as error:
            with _table.Table(self._made_with["backend"], value_dtype=np.int64, **kinds) as numbers:
                numbers.insert(own[first], np.arange(len(first)))
                error.status = error.status[numbers.find(own)[0]].reshape(stored.shape)
            raise
        return mask.reshape(stored.shape)[()]

    def _batch(self, method: str, keys: Any, values: Any, tag: str | None, **keywords: Any) -> Any:
        if tag is not None and not isinstance(tag, str):
            raise TypeError(f"tag={tag!r} is a {type(tag).__name__}: pass a text")
        if _on_cards(keys):
            return self._on_gpu(method, keys, values, tag, **keywords)[1]
        parts, shape = self._grouped(keys, values)
        mask = np.zeros(len(parts.order), bool)
        try:
            for rows, own in self._served(method, parts, tag, **keywords):
                mask[rows] = own
        except TableFull as error:
            error.status = error.status.reshape(shape)
            raise
        return mask.reshape(shape)[()]

    def _served(
        self, method: str, parts: Partition, tag: str | None = None, **keywords: Any
    ) -> list[tuple[Array, Any]]:
        """(rows of the batch, the shard's result) of every shard that has some. All end before an error is raised."""
        begins, ends = parts.offsets[:-1], parts.offsets[1:]
        chosen = np.flatnonzero(ends > begins).tolist()
        calls = [
            Call(s, method, _of_shard(parts, slice(int(begins[s]), int(ends[s]))), dict(keywords), tag) for s in chosen
        ]
        results = self._call(calls)
        rows = [parts.order[begins[s] : ends[s]] for s in chosen]
        self._raise(chosen, results, rows, len(parts.order))
        return [(own, result) for own, result in zip(rows, results, strict=True) if not isinstance(result, Repeated)]

    def _on_gpu(self, method: str, keys: Any, values: Any, tag: str | None, **how: Any) -> tuple[Any, Any]:
        """One batch with keys on a GPU: (values or None, mask), there."""
        if not isinstance(self._transport, Local):
            raise Unsupported(
                f"keys are on a GPU, and {type(self._transport).__name__} takes host arrays: copy them to the host, or "
                "use Local for the GPUs of one host"
            )
        lanes = self._transport.lanes
        several = isinstance(keys, (list, tuple))
        parts = list(keys) if several else [keys]
        each = several and isinstance(values, (list, tuple))
        amounts = list(values) if each else [values] * len(parts)
        if len(amounts) != len(parts):
            raise ValueError(f"there are values of {len(amounts)} batches, and keys of {len(parts)}: pass one of each")
        if each != all(map(_arrays.on_device, amounts)) and several:
            raise TypeError("values of several batches are an array on a GPU for each, or one value for all keys")
        with contextlib.ExitStack() as open_batches:
            batches = [
                open_batches.enter_context(_routes.Batch(self._kinds, lanes, method, own, given, how, self._shards))
                for own, given in zip(parts, amounts, strict=True)
            ]
            for batch in batches:
                batch.begin(self._seed, self._transport.chunks)
            for batch in batches:
                batch.read()
            step = open_batches.enter_context(_exchange.Step(batches))
            chosen = step.send()
            results = self._call([Call(s, "step", (step,), {}, tag) for s in chosen])
            for batch in batches:
                batch.left_out = [s for s, own in zip(chosen, results, strict=True) if isinstance(own, Repeated)]
            try:
                self._raise(chosen, results, [], 0)
            except TableFull as error:
                status = [batch.statuses() for batch in batches]
                error.status = np.concatenate([own.reshape(-1) for own in status]) if several else status[0]
                raise
            found = [batch.finish() for batch in batches]
        if not several:
            return found[0]
        return (None if found[0][0] is None else [own for own, _ in found]), [mask for _, mask in found]

    def _every(self, method: str, given: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        results = self._call([Call(s, method, () if given is None else given[s]) for s in range(self._shards)])
        self._raise(list(range(self._shards)), results, [], 0)
        return results

    def _call(self, calls: list[Call]) -> list[Any]:
        if self._lost is not None:
            raise ShardLost(self._lost)
        return list(self._transport.call(calls))

    def _raise(self, shards: list[int], results: list[Any], rows: list[Array], n: int) -> None:
        """Raise the error of a lost shard, or else of the first that has one."""
        lost = next((result for result in results if isinstance(result, ShardLost)), None)
        if lost is not None:
            last = f"the last snapshot is {self._snapshot}" if self._snapshot else "there is no snapshot"
            self._lost = f"{lost}, with its keys; {last}: load one, and repeat what came after"
            raise ShardLost(self._lost)
        status = np.zeros(n, np.uint8)
        failed: list[tuple[int, Exception]] = []
        for i, (shard, result) in enumerate(zip(shards, results, strict=True)):
            if isinstance(result, Exception):
                failed.append((shard, result))
            of_shard = getattr(result, "status", None) if isinstance(result, Exception) else result
            if rows and isinstance(of_shard, np.ndarray):
                status[rows[i]] = of_shard
        if not failed:
            return
        shard, error = failed[0]
        if isinstance(error, TableFull):
            error.status = status
        error.add_note(
            f"shard {shard} of {self._shards}; the parts of {len(shards) - len(failed)} others were carried out"
        )
        raise error


def shards_of(keys: Array, shards: int, seed: int) -> set[int]:
    """The shards that have some of these keys."""
    return set(np.unique(shard_of(_hashed(keys), shards, seed)).tolist())


def _hashed(keys: Array) -> Array:
    """What the shards of keys are computed from: of rows of numbers, their bytes."""
    if keys.ndim == 1:
        return keys
    numbers = np.prod(keys.shape[1:], dtype=int)
    return np.ascontiguousarray(keys).reshape(-1, numbers).view(f"V{numbers * keys.itemsize}").reshape(-1)


def _on_cards(keys: Any) -> bool:
    """Do keys lie on a GPU, or on each of several?"""
    if isinstance(keys, (list, tuple)):
        return bool(keys) and _arrays.on_device(keys[0])
    return _arrays.on_device(keys)


def _over_host(transport: Any) -> list[tuple[str, str]]:
    """Pairs of cards of a transport that do not reach each other."""
    cards = transport.lanes.cards if isinstance(transport, Local) else ()
    return [
        (f"cuda:{one}", f"cuda:{other}") for one in cards for other in cards if one < other
        and not (_peers.reaches(one, other) and _peers.reaches(other, one))
    ]  # fmt: skip


def _of_shard(parts: Partition, own: slice) -> tuple[Any, ...]:
    """Keys and values of a shard, of which there may be one for all keys, or none."""
    keys, values = parts.keys[own], parts.values
    if values is None:
        return (keys,)
    return keys, values[own] if len(values) == len(parts.order) else np.broadcast_to(
        values, (len(keys), *values.shape[1:])
    )
