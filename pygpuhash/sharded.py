"""`Table`: one table in shards, of which each is a table of its own: on another device, or for another thread.

    from pygpuhash import sharded

    table = sharded.Table("linear_probe", key_dtype="uint64", shards=4)
    table.accumulate(keys, 1)
    table.save("counts/")
    table = sharded.load("counts/", shards=8)

Keys go to shards as `gh.partition` has it, so that a key is in one shard only. A batch is grouped by shard, each shard
serves its part, and results come back in the order of the batch.

What is promised of failures:

- A batch is atomic for each shard: the part of a shard is carried out or refused by itself, one part after the other.
- A shard that is lost, as the memory of a device that failed, is lost with its keys. Every call then raises
  `ShardLost`, which names the shard and the last snapshot. Nothing resumes by itself, and nothing answers for a part
  of the keys.
- A batch with a tag is carried out once: a shard that has the tag leaves the part out. So a caller who does not know
  whether a batch was carried out repeats it. Tags are saved with the table.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pygpuhash import _arguments, _arrays, saved
from pygpuhash import table as _table
from pygpuhash.columns._engine import HASH_VERSION, MOST_SHARDS
from pygpuhash.errors import Corrupt, InvalidArgument, Poisoned, ShardLost, TableFull, Unsupported
from pygpuhash.saved import disk
from pygpuhash.shards import Partition, partition

__all__ = ["Local", "Table", "Transport", "load"]

Array = np.ndarray[Any, Any]
Call = tuple[int, str, tuple[Any, ...], dict[str, Any]]  # shard, method of the shard's table, arguments

_FORMAT = 1
_NAME = "shards.json"
_TAIL = 1 << 16  # bytes at the end of a shard's file, with the checksums of all others, that its digest is of


class Transport(Protocol):
    """How shards are reached. A shard is whatever the transport has made; calls name it by its number."""

    def open(self, shards: int, make: Callable[[int, str], Any]) -> None:
        """Make all shards: make(shard, device) is a table."""

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """Have shards carry out calls, side by side; results, or the exception of each, in the order of the calls.

        A shard that cannot be reached any more gives `ShardLost`.
        """

    def close(self) -> None:
        """End; all shards are released."""


class Local:
    """Shards in this process, on one device after the other, each served by a thread of its own.

    devices : "cpu" as often as wanted, and GPUs, "cuda:0", each of them once: two shards on one GPU share its memory
        and gain nothing.
    """

    def __init__(self, devices: Sequence[str] = ("cpu",)) -> None:
        self.devices = [devices] if isinstance(devices, str) else list(devices)
        if not self.devices:
            raise InvalidArgument("devices is empty: pass 'cpu', or GPUs, as in ['cuda:0', 'cuda:1']")
        for device in self.devices:
            if not isinstance(device, str):
                raise TypeError(f"devices has {device!r}, a {type(device).__name__}: pass names, as 'cpu' and 'cuda:1'")
            if device != "cpu" and self.devices.count(device) > 1:
                raise InvalidArgument(f"devices has {device!r} {self.devices.count(device)} times: pass each GPU once")
        self._tables: list[Any] = []
        self._locks: list[threading.Lock] = []
        self._pool: ThreadPoolExecutor | None = None

    def open(self, shards: int, make: Callable[[int, str], Any]) -> None:
        """See `Transport`."""
        if self._tables:
            raise InvalidArgument("this transport has a table already: make one for each table")
        self._tables = [make(i, self.devices[i % len(self.devices)]) for i in range(shards)]
        self._locks = [threading.Lock() for _ in self._tables]
        workers = min(shards, max(len(self.devices), os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(workers, "gpuhash-shard") if workers > 1 else None

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """See `Transport`."""
        if self._pool is None or len(calls) < 2:
            return [self._one(call) for call in calls]
        return list(self._pool.map(self._one, calls))

    def lose(self, shard: int) -> None:
        """Forget a shard, as if its device had failed: for tests of what follows."""
        self._tables[shard] = None

    def close(self) -> None:
        """See `Transport`."""
        if self._pool is not None:
            self._pool.shutdown()
        for table in self._tables:
            if table is not None:
                table.close()
        self._tables = []

    def _one(self, call: Call) -> Any:
        shard, method, given, keywords = call
        with self._locks[shard]:
            table = self._tables[shard]
            if table is None:
                return ShardLost(f"shard {shard} is lost")
            try:
                return _SERVED[method](table, *given, **keywords)
            except Poisoned as error:
                self._tables[shard] = None
                return ShardLost(f"shard {shard} is lost: {error}")
            except Exception as error:
                return error


# What a shard serves.
_SERVED: Mapping[str, Callable[..., Any]] = {
    "insert": lambda table, *given: table.insert(*given),
    "insert_or_assign": lambda table, *given: table.insert_or_assign(*given, dedup="last"),
    "accumulate": lambda table, *given, op: table.accumulate(*given, op=op),
    "find": lambda table, keys: table.find(keys),
    "contains": lambda table, keys: table.contains(keys),
    "erase": lambda table, keys: table.erase(keys),
    "export": lambda table: table.export(),
    "save": lambda table, path, compression: table.save(path, False, compression),
    "info": lambda table: {**table.info, "device": table.device},
    "check": lambda table: table.check(),
}


class Table:
    """A table in shards, with the methods of `gh.Table` for batches of host arrays.

    Parameters
    ----------
    backend : of all shards, as for `gh.Table`.
    shards : how many, 1 to 65,536; None for one on each device of the transport.
    transport : how they are reached; None for `Local()`, one after the other on the CPU.
    seed : of the division into shards, a part of what is saved. Tables have seeds of their own.
    arguments : others of `gh.Table`, for each shard; `capacity` is that of all shards together.

    Any number of threads may call. Results are numpy's arrays.

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
        least = len(getattr(self._transport, "devices", "1"))
        self._shards = least if shards is None else _arguments.whole("shards", shards, MOST_SHARDS, least=1)
        self._seed = _arguments.whole("seed", seed, 2**64 - 1)
        self._keys = _arrays.table_dtype(key_dtype, "key_dtype")
        self._key_store = _arrays.store_dtype(self._keys, keys=True)
        self._values = None if value_dtype is None else _arrays.table_dtype(value_dtype, "value_dtype")
        self._value_store = None if self._values is None else _arrays.store_dtype(self._values, keys=False)
        capacity = _arguments.whole("capacity", arguments.pop("capacity", 0), 2**64 - 1)
        self._made_with = {"backend": backend, **arguments}
        self._snapshot: str | None = None
        self._tags: list[set[str]] = [set() for _ in range(self._shards)]
        self._tagging = threading.Lock()
        self._lost: str | None = None

        def make(shard: int, device: str) -> Any:
            room = -(-capacity // self._shards)
            return _table.Table(
                backend, key_dtype=key_dtype, value_dtype=value_dtype, device=device, capacity=room, **arguments
            )

        self._transport.open(self._shards, make)

    # ---- batches

    def insert(self, keys: Any, values: Any = None, *, tag: str | None = None) -> Array:
        """Add each pair whose key is absent. Returns a bool mask: newly inserted; False where the tag was there."""
        return self._batch("insert", keys, values, tag)

    def insert_or_assign(self, keys: Any, values: Any = None, *, tag: str | None = None) -> Array:
        """Add each pair, or replace the value; of equal keys in a batch the last one wins. Mask as of `insert`."""
        return self._batch("insert_or_assign", keys, values, tag)

    def accumulate(self, keys: Any, values: Any = 1, *, op: str = "add", tag: str | None = None) -> Array:
        """Add each pair, or combine the value with the one that is there. Mask as of `insert`."""
        return self._batch("accumulate", keys, values, tag, op=op)

    def erase(self, keys: Any, *, tag: str | None = None) -> Array:
        """Remove keys. Returns a bool mask: was there; False where the tag was there."""
        return self._batch("erase", keys, None, tag)

    def find(self, keys: Any) -> tuple[Array | None, Array]:
        """(values, found) of each key; values None for a set."""
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
        return values if values is None else values.reshape(*shape, *values.shape[1:]), found.reshape(shape)

    def contains(self, keys: Any) -> Array:
        """Which keys are there."""
        parts, shape = self._grouped(keys, None)
        found = np.zeros(len(parts.order), bool)
        for rows, mask in self._served("contains", parts):
            found[rows] = mask
        return found.reshape(shape)

    def export(self) -> tuple[Array, Array | None]:
        """All pairs: (keys, values), shard by shard; values None for a set."""
        parts = self._every("export")
        keys = np.concatenate([own for own, _ in parts])
        return keys, None if self._values is None else np.concatenate([values for _, values in parts])

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
        """Keys, bytes and devices: of all shards, and {"shards": [...]} of each; "skew": the largest by the mean."""
        each = self._every("info")
        sizes = [int(info["size"]) for info in each]
        size = sum(sizes)
        return {
            "size": size,
            "nbytes": sum(int(info["bytes"]) for info in each),
            "skew": max(sizes) * len(sizes) / size if size else 1.0,
            "snapshot": self._snapshot,
            "shards": [
                {"size": info["size"], "nbytes": info["bytes"], "device": info["device"], "capacity": info["capacity"]}
                for info in each
            ],
        }

    def check(self) -> None:
        """Test every invariant of each shard, and that each key is where it belongs. Raises `Corrupt`."""
        self._every("check")
        for shard, (keys, _) in enumerate(self._every("export")):
            away = np.flatnonzero(np.diff(partition(keys, self._shards, self._seed).offsets))
            if away.size and away.tolist() != [shard]:
                raise Corrupt(f"shard {shard} has keys of the shards {away[away != shard].tolist()[:5]}")

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
        manifest = folder / _NAME
        disk.existing(manifest, replaces)
        old = _files_of(manifest) if manifest.exists() else []
        snapshot = secrets.token_hex(8)
        names = [f"shard-{i:05}-{snapshot}.arrow" for i in range(self._shards)]
        try:
            self._every("save", [(str(folder / name), compression) for name in names])
            record = {
                "format": _FORMAT,
                "snapshot": snapshot,
                "hash": HASH_VERSION,
                "seed": self._seed,
                "key": str(self._keys),
                "value": None if self._values is None else str(self._values),
                "shards": [
                    {"file": name, "bytes": (folder / name).stat().st_size, "digest": _digest(folder / name)}
                    for name in names
                ],
                "tags": [sorted(tags) for tags in self._tags],
            }
            with disk.replaced(manifest, replaces) as write:
                write(json.dumps(record, indent=1).encode())
        except BaseException:
            for name in names:
                (folder / name).unlink(missing_ok=True)
            raise
        self._snapshot = f"{folder} ({snapshot})"
        for name in old:
            (folder / name).unlink(missing_ok=True)

    # ---- one call

    def _grouped(self, keys: Any, values: Any) -> tuple[Partition, tuple[int, ...]]:
        """Keys by shard, in the dtype of the table, and the shape of the batch."""
        for given, what in ((keys, "keys"), (values, "values")):
            if _arrays.on_device(given):
                raise Unsupported(f"{what} are on a GPU: a sharded table takes host arrays, copy them to the host")
        stored = _arrays.to_store(keys, self._keys, self._key_store, "keys")
        own = _arrays.from_store(stored.reshape(-1), self._keys)
        # Rows of numbers are hashed by their bytes.
        hashed = own if own.ndim == 1 else np.ascontiguousarray(stored.reshape(-1)).view(f"V{stored.dtype.itemsize}")
        if values is None:
            parts = partition(hashed, self._shards, self._seed)
            return replace(parts, keys=own[parts.order]), stored.shape
        if self._values is None or self._value_store is None:
            raise TypeError("values are given, and this table is a set (value_dtype=None): leave them out")
        amounts = _arrays.to_store(values, self._values, self._value_store, "values")
        if amounts.shape not in ((), stored.shape):
            raise ValueError(f"values have shape {amounts.shape}, keys {stored.shape}: pass one value per key, or one")
        given = _arrays.from_store(amounts.reshape(-1), self._values)
        if not amounts.shape:  # one for all keys
            parts = partition(hashed, self._shards, self._seed)
            return replace(parts, keys=own[parts.order], values=given[:1]), stored.shape
        parts = partition(hashed, self._shards, self._seed, np.ascontiguousarray(given))
        return (parts if own is hashed else replace(parts, keys=own[parts.order])), stored.shape

    def _batch(self, method: str, keys: Any, values: Any, tag: str | None, **keywords: Any) -> Array:
        if tag is not None and not isinstance(tag, str):
            raise TypeError(f"tag={tag!r} is a {type(tag).__name__}: pass a text")
        parts, shape = self._grouped(keys, values)
        mask = np.zeros(len(parts.order), bool)
        for rows, own in self._served(method, parts, tag, **keywords):
            mask[rows] = own
        return mask.reshape(shape)

    def _served(
        self, method: str, parts: Partition, tag: str | None = None, **keywords: Any
    ) -> list[tuple[Array, Any]]:
        """(rows of the batch, the shard's result) of every shard that has some. All end before an error is raised."""
        begins, ends = parts.offsets[:-1], parts.offsets[1:]
        with self._tagging:
            chosen = [s for s in np.flatnonzero(ends > begins).tolist() if tag is None or tag not in self._tags[s]]
        calls: list[Call] = []
        for s in chosen:
            calls.append((s, method, _of_shard(parts, slice(int(begins[s]), int(ends[s]))), keywords))
        results = self._call(calls)
        rows = [parts.order[begins[s] : ends[s]] for s in chosen]
        if tag is not None:
            with self._tagging:
                for s, result in zip(chosen, results, strict=True):
                    if not isinstance(result, BaseException):
                        self._tags[s].add(tag)
        self._raise(chosen, results, rows, len(parts.order))
        return list(zip(rows, results, strict=True))

    def _every(self, method: str, given: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        calls: list[Call] = [(s, method, () if given is None else given[s], {}) for s in range(self._shards)]
        results = self._call(calls)
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


def _of_shard(parts: Partition, own: slice) -> tuple[Any, ...]:
    """Keys and values of a shard, of which there may be one for all keys, or none."""
    keys, values = parts.keys[own], parts.values
    if values is None:
        return (keys,)
    return keys, values[own] if len(values) == len(parts.order) else np.broadcast_to(
        values, (len(keys), *values.shape[1:])
    )


# ---- snapshots -------------------------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike[str], *, shards: int | None = None, transport: Any = None, backend: str | None = None,
    **arguments: Any,
) -> Table:  # fmt: skip
    """The sharded table that `Table.save` has written to a folder.

    shards : None for as many as were saved; any other number: keys are divided anew, one file after the other.
    transport, backend, arguments : as for `Table`; backend None for the one that was saved, with options given anew.

    Raises InvalidArgument for a folder without a snapshot, Corrupt for a snapshot of which a file is missing, is of
    another snapshot or was changed, Unsupported for one of a newer format or another version of the hash.
    """
    folder = disk.path_of(path)
    record = _read(folder)
    files = [folder / str(entry["file"]) for entry in record["shards"]]
    for i, (file, entry) in enumerate(zip(files, record["shards"], strict=True)):
        if not file.is_file():
            raise Corrupt(
                f"{folder}: the file of shard {i}, {file.name}, is missing: take it from where the others are"
            )
        if file.stat().st_size != entry["bytes"] or _digest(file) != entry["digest"]:
            raise Corrupt(
                f"{folder}: {file.name} is not the file of shard {i} that was saved: it is of another snapshot"
            )
    made: Table | None = None
    try:
        for file in files:
            with saved.load(file, backend, "cpu") as part:
                if made is None:
                    made = Table(
                        part.backend, key_dtype=part.key_dtype, value_dtype=part.value_dtype, seed=record["seed"],
                        shards=len(files) if shards is None else shards, transport=transport, **arguments,
                    )  # fmt: skip
                made.insert(*part.export())
    except BaseException:
        if made is not None:
            made.close()
        raise
    assert made is not None
    if made.shards == len(files):
        made._tags = [set(tags) for tags in record["tags"]]
    elif any(record["tags"]):
        made.close()
        raise Unsupported(f"{folder} has tags of batches, which are of its shards: load it with shards={len(files)}")
    made._snapshot = f"{folder} ({record['snapshot']})"
    return made


def _read(folder: Path) -> dict[str, Any]:
    try:
        record: Any = json.loads((folder / _NAME).read_bytes())
    except FileNotFoundError:
        raise InvalidArgument(f"{folder} has no {_NAME}: pass the folder that a sharded table was saved to") from None
    except ValueError as error:
        raise Corrupt(f"{folder / _NAME} is no JSON: {error}") from None
    shape = {"format": int, "snapshot": str, "hash": int, "seed": int, "shards": list, "tags": list}
    for name, kind in shape.items():
        if not isinstance(record, dict) or type(record.get(name)) is not kind:
            raise Corrupt(f"{folder / _NAME} has no {name} of type {kind.__name__}: take it from where the files are")
    if record["format"] > _FORMAT or record["hash"] != HASH_VERSION:
        raise Unsupported(
            f"{folder} has format {record['format']} and hash {record['hash']}, this gpuhash {_FORMAT} and "
            f"{HASH_VERSION}: update gpuhash, or load its files one by one and insert them"
        )
    if not record["shards"] or len(record["tags"]) != len(record["shards"]):
        raise Corrupt(f"{folder / _NAME} has {len(record['shards'])} shards and tags of {len(record['tags'])}")
    for i, entry in enumerate(record["shards"]):
        own = entry.get("file") if isinstance(entry, dict) else None
        if not isinstance(own, str) or Path(own).name != own or not {"bytes", "digest"} <= entry.keys():
            raise Corrupt(f"{folder / _NAME}: shard {i} has no file of this folder")
    return dict(record)


def _files_of(manifest: Path) -> list[str]:
    """Files of a snapshot that is replaced; of one that is broken, none."""
    try:
        return [str(entry["file"]) for entry in _read(manifest.parent)["shards"]]
    except (Corrupt, InvalidArgument, Unsupported):
        return []


def _digest(file: Path) -> str:
    """Of the end of a file of Arrow with checksums, which names the whole."""
    with file.open("rb") as data:
        data.seek(max(file.stat().st_size - _TAIL, 0))
        return hashlib.sha256(data.read()).hexdigest()
