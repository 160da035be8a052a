"""How the shards of `sharded.Table` are reached: `Local`, `Torch` and `Dask`.

A transport makes each shard where it belongs, carries calls there and results home. A shard serves one call at a time,
and has the tags of the batches that it carried out beside its table: so whether a batch is repeated is decided where
its keys are, and not by a caller who may have been lost in between.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import os
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pygpuhash import _arguments, _core, _peers, _routes
from pygpuhash import table as _table
from pygpuhash.columns._engine import HASH_VERSION
from pygpuhash.errors import DeviceError, InvalidArgument, Poisoned, ShardLost, Unsupported

__all__ = ["Call", "Dask", "Local", "Maker", "Repeated", "Shard", "Torch", "Transport"]

VERSIONS = (_core.version(), HASH_VERSION)
_PATIENCE = 30  # seconds, for a worker of Dask to make a shard
_TAIL = 1 << 16  # bytes at the end of a shard's file, with the checksums of all others, that its digest is of


@dataclass
class Call:
    """A question to a shard: a method of `_SERVED`, its arguments, and the tag of the batch."""

    shard: int
    method: str
    given: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    tag: str | None = None


class Repeated:
    """In the place of a result: the shard has the tag of the batch, and left its part out."""


@dataclass
class Maker:
    """How the table of a shard is made, in whichever process."""

    backend: str
    key_dtype: Any
    value_dtype: Any
    capacity: int
    arguments: dict[str, Any]

    def __call__(self, device: str) -> Any:
        """The table, on a device."""
        return _table.Table(
            self.backend, key_dtype=self.key_dtype, value_dtype=self.value_dtype, device=device, capacity=self.capacity,
            **self.arguments,
        )  # fmt: skip


class Shard:
    """A table, the tags of batches that it carried out, and what was lost with it."""

    def __init__(self, number: int, make: Maker, device: str, versions: tuple[Any, int] = VERSIONS) -> None:
        if versions != VERSIONS:
            raise Unsupported(
                f"shard {number} is of gpuhash {VERSIONS[0]} with hash {VERSIONS[1]}, the table of {versions[0]} with "
                f"hash {versions[1]}: install one version everywhere"
            )
        self.number = number
        self.table = make(device)
        self.tags: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def serve(self, call: Call) -> Any:
        """The result of a call, `Repeated`, or the exception that it has raised."""
        with self._one_at_a_time:
            if self.table is None:
                return ShardLost(f"shard {self.number} is lost")
            if call.tag is not None and call.tag in self.tags:
                return Repeated()
            try:
                result = _SERVED[call.method](self, *call.given, **call.keywords)
            except Poisoned as error:
                self.table = None
                return ShardLost(f"shard {self.number} is lost: {error}")
            except Exception as error:
                return error
            if call.tag is not None:
                self.tags.add(call.tag)
            return result

    def close(self) -> None:
        """Release the table."""
        with self._one_at_a_time:
            if self.table is not None:
                self.table.close()


def _save(shard: Shard, path: str, compression: str | None) -> tuple[int, str]:
    shard.table.save(path, False, compression)
    return Path(path).stat().st_size, digest(Path(path))


def _clear(shard: Shard) -> None:
    shard.table.clear()
    shard.tags.clear()


# What a shard serves.
_SERVED: Mapping[str, Callable[..., Any]] = {
    "insert": lambda shard, *given: shard.table.insert(*given),
    "insert_or_assign": lambda shard, *given: shard.table.insert_or_assign(*given, dedup="last"),
    "accumulate": lambda shard, *given, op: shard.table.accumulate(*given, op=op),
    "find": lambda shard, keys: shard.table.find(keys),
    "contains": lambda shard, keys: shard.table.contains(keys),
    "erase": lambda shard, keys: shard.table.erase(keys),
    "step": lambda shard, step: step(shard),
    "export": lambda shard: shard.table.export(),
    "save": _save,
    "info": lambda shard: {**shard.table.info, "device": shard.table.device, "tags": len(shard.tags)},
    "check": lambda shard: shard.table.check(),
    "clear": _clear,
    "tags": lambda shard: sorted(shard.tags),
    "set_tags": lambda shard, tags: shard.tags.update(tags),
}


def digest(file: Path) -> str:
    """A digest of the end of an Arrow file, whose checksums stand for the whole file."""
    with file.open("rb") as data:
        data.seek(max(file.stat().st_size - _TAIL, 0))
        return hashlib.sha256(data.read()).hexdigest()


class Transport(Protocol):
    """How shards are reached. A call names its shard by the number."""

    devices: Sequence[str]  # a table has a shard for each, unless their number is given
    travels: bool  # do keys leave this process? Then equal ones are combined first
    leads: bool  # of processes that make the same calls together, exactly one does what has to be done once

    def open(self, shards: int, make: Maker) -> None:
        """Make all shards."""

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """Have shards carry out calls, side by side; results, or the exception of each, in the order of the calls.

        A shard that cannot be reached any more gives `ShardLost`.
        """

    def agreed(self, value: str) -> str:
        """The value of the process that leads."""

    def another(self) -> Transport:
        """A transport without shards to the same devices, for copies that each process reads by itself."""

    def close(self) -> None:
        """Release all shards; the transport cannot be used again."""


class Local:
    """Shards in this process, on one device after the other, each served by a thread of its own.

    devices : "cpu" as often as wanted, and GPUs, "cuda:0", each of them once: two shards on one GPU share its memory
        and gain nothing.
    chunks : into how many parts a batch that lies on a GPU is cut, 1 to 64: while a table serves one, the next is
        divided and on its way. It pays where copies between the cards are slow beside the tables; over NVLink they are
        not, so that it is 1 unless it is given.
    """

    travels = False
    leads = True

    def __init__(self, devices: Sequence[str] = ("cpu",), *, chunks: int = 1) -> None:
        self.chunks = _arguments.whole("chunks", chunks, 64, least=1)
        if not isinstance(devices, (str, list, tuple)):
            raise TypeError(
                f"devices={devices!r} is a {type(devices).__name__}: pass a list of names, as ['cpu', 'cpu']"
            )
        self.devices: Sequence[str] = [devices] if isinstance(devices, str) else list(devices)
        if not self.devices:
            raise InvalidArgument("devices is empty: pass 'cpu', or GPUs, as in ['cuda:0', 'cuda:1']")
        for device in self.devices:
            if not isinstance(device, str):
                raise TypeError(f"devices has {device!r}, a {type(device).__name__}: pass names, as 'cpu' and 'cuda:1'")
        numbers = [_with_number(device) for device in self.devices]
        for device in numbers:
            if device != "cpu" and numbers.count(device) > 1:
                raise InvalidArgument(f"devices has {device!r} {numbers.count(device)} times: pass each GPU once")
        self._shards: list[Shard] = []
        self._pool: ThreadPoolExecutor | None = None
        self.lanes = _routes.Lanes([])

    def open(self, shards: int, make: Maker) -> None:
        """See `Transport`."""
        _refuse_second(self._shards)
        self._shards = [Shard(i, make, self.devices[i % len(self.devices)]) for i in range(shards)]
        tables = [shard.table for shard in self._shards]
        self.lanes = _routes.Lanes([table._ordinal if table._kind == _core.CUDA else None for table in tables])
        workers = min(shards, max(len(self.devices), os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(workers, "gpuhash-shard") if workers > 1 else None

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """See `Transport`."""
        if self._pool is None or len(calls) < 2 or not _waits(calls[0]):
            return [self._serve(call) for call in calls]
        others = [self._pool.submit(self._serve, call) for call in calls[1:]]
        try:
            first = self._serve(calls[0])
        finally:  # the others use what the caller gives back after this
            wait(others)
        return [first, *(one.result() for one in others)]

    def agreed(self, value: str) -> str:
        """See `Transport`."""
        return value

    def another(self) -> Local:
        """See `Transport`."""
        return type(self)(self.devices, chunks=self.chunks)

    def lose(self, shard: int) -> None:
        """Forget a shard, as if its device had failed: for tests of what follows."""
        self._shards[shard].table = None

    def close(self) -> None:
        """See `Transport`."""
        if self._pool is not None:
            self._pool.shutdown()
        for shard in self._shards:
            shard.close()
        self._shards = []
        for card in self.lanes.used():
            with contextlib.suppress(DeviceError):  # a card that has failed
                _peers.trim(card)

    def _serve(self, call: Call) -> Any:
        return self._shards[call.shard].serve(call)


class Torch:
    """Shards in the processes of a group of torch.distributed, on one after the other.

    All processes make the same calls in the same order, from one thread at a time, each with a batch of its own, which
    may be empty: keys travel by all_to_all_single, and results come back to where the keys are from. A call that is
    refused in one process, as for keys of a wrong dtype, leaves the others waiting for it until the group's timeout.
    A tag is that of the batch of one process: all may pass the same.

    group : of torch.distributed, None for the default one. device : of the shards of this process.
    """

    travels = True

    def __init__(self, group: Any = None, *, device: str = "cpu") -> None:
        self._torch = _library("torch", "Torch")
        self._distributed = self._torch.distributed
        if not self._distributed.is_available() or not self._distributed.is_initialized():
            raise InvalidArgument("torch.distributed is not initialized: call init_process_group of it first")
        self._group, self._device = group, device
        self._rank, self._size = self._distributed.get_rank(group), self._distributed.get_world_size(group)
        # NCCL moves memory of GPUs alone.
        on_gpu = str(self._distributed.get_backend(group)) == "nccl"
        self._memory = (device if device.startswith("cuda") else "cuda") if on_gpu else "cpu"
        self.devices: Sequence[str] = [device] * self._size
        self.leads = self._rank == 0
        self._shards: dict[int, Shard] = {}

    def open(self, shards: int, make: Maker) -> None:
        """See `Transport`."""
        _refuse_second(self._shards)
        mine = range(self._rank, shards, self._size)
        versions = pickle.loads(self._exchange([pickle.dumps(VERSIONS)] * self._size)[0])
        self._shards = {i: Shard(i, make, self._device, versions) for i in mine}

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """See `Transport`."""
        asked: list[list[tuple[int, Call]]] = [[] for _ in range(self._size)]
        for i, call in enumerate(calls):
            if call.tag is not None:  # each process has a batch of its own under the tag
                call = replace(call, tag=f"{call.tag} (process {self._rank} of {self._size})")
            asked[call.shard % self._size].append((i, call))
        try:
            answers = [
                [(i, self._shards[call.shard].serve(call)) for i, call in pickle.loads(received)]
                for received in self._exchange([pickle.dumps(part, 5) for part in asked])
            ]
            home = self._exchange([pickle.dumps(part, 5) for part in answers])
        except RuntimeError as error:  # of the group: one of its processes has ended
            return [
                ShardLost(f"shard {call.shard}, or another process of the group, is lost: {error}") for call in calls
            ]
        results: list[Any] = [None] * len(calls)
        for part in home:
            for i, result in pickle.loads(part):
                results[i] = result
        return results

    def agreed(self, value: str) -> str:
        """See `Transport`."""
        return self._exchange([value.encode()] * self._size)[0].decode()

    def another(self) -> Local:
        """See `Transport`."""
        return Local([self._device])

    def close(self) -> None:
        """See `Transport`."""
        for shard in self._shards.values():
            shard.close()
        self._shards = {}

    def _exchange(self, parts: Sequence[bytes]) -> list[bytes]:
        """Part i goes to process i; what all have sent to this one, by process."""
        torch, distributed = self._torch, self._distributed
        sizes = torch.tensor([len(part) for part in parts], dtype=torch.int64, device=self._memory)
        coming = torch.empty_like(sizes)
        distributed.all_to_all_single(coming, sizes, group=self._group)
        lengths = [int(n) for n in coming.tolist()]
        # torch.frombuffer takes no empty buffer.
        given = torch.from_numpy(np.array(bytearray(b"".join(parts)), np.uint8)).to(self._memory)
        taken = torch.empty(sum(lengths), dtype=torch.uint8, device=self._memory)
        distributed.all_to_all_single(taken, given, lengths, [len(part) for part in parts], group=self._group)
        whole = memoryview(taken.cpu().numpy()).cast("B")
        ends = np.cumsum(lengths).tolist()
        return [bytes(whole[end - n : end]) for end, n in zip(ends, lengths, strict=True)]


class Dask:
    """Shards in actors of Dask, on one worker after the other.

    client : of distributed, None for the one that is current. device : of each shard on its worker, "cpu", or with a
    worker of dask-cuda for each GPU "cuda:0".
    """

    travels = True
    leads = True

    def __init__(self, client: Any = None, *, device: str = "cpu") -> None:
        distributed = _library("distributed", "Dask")
        try:
            self._client = distributed.get_client() if client is None else client
        except ValueError:
            raise InvalidArgument("there is no Dask client: make one, distributed.Client(), or pass client=") from None
        if not isinstance(self._client, distributed.Client):
            raise TypeError(f"client={client!r} is a {type(client).__name__}: pass a distributed.Client")
        self._device = device
        self._refuse_closed()
        self._workers = sorted(self._client.nthreads())
        if not self._workers:
            raise InvalidArgument("the Dask cluster has no workers: wait for some, with client.wait_for_workers(1)")
        self.devices: Sequence[str] = [device] * len(self._workers)
        self._actors: list[Any] = []

    def open(self, shards: int, make: Maker) -> None:
        """See `Transport`."""
        _refuse_second(self._actors)
        self._refuse_closed()
        made = [
            self._client.submit(
                Shard, i, make, self._device, VERSIONS, actor=True, pure=False, allow_other_workers=False,
                workers=[self._workers[i % len(self._workers)]],
            )
            for i in range(shards)
        ]  # fmt: skip
        remote = [self._made(i, actor) for i, actor in enumerate(made)]
        with self._client.as_current():  # an actor belongs to the client that is current where it is made
            self._actors = [copy.copy(actor) for actor in remote]

    def call(self, calls: Sequence[Call]) -> list[Any]:
        """See `Transport`."""
        if self._client.status == "closed":
            return [ShardLost(f"shard {call.shard} is lost: the Dask client that kept it is closed") for call in calls]
        begun = []
        for call in calls:
            try:
                begun.append(self._actors[call.shard].serve(call))
            except Exception as error:
                begun.append(error)
        return [self._result(call, future) for call, future in zip(calls, begun, strict=True)]

    def agreed(self, value: str) -> str:
        """See `Transport`."""
        return value

    def another(self) -> Dask:
        """See `Transport`."""
        return Dask(self._client, device=self._device)

    def close(self) -> None:
        """See `Transport`."""
        self._actors = []  # Dask releases actors that are not referred to

    def _refuse_closed(self) -> None:
        if self._client.status != "running":
            raise InvalidArgument(f"the Dask client is {self._client.status}: pass one that is connected")

    def _made(self, shard: int, future: Any) -> Any:
        try:
            return future.result(timeout=_PATIENCE)
        except TimeoutError:  # Dask waits for a worker that has gone
            worker = self._workers[shard % len(self._workers)]
            raise ShardLost(
                f"shard {shard} was not made: Dask's worker {worker} did not begin in {_PATIENCE} seconds; make the "
                "transport anew, of the workers that are there"
            ) from None

    def _result(self, call: Call, future: Any) -> Any:
        """The result of a call. A shard returns its exceptions as results, so that a raised one is of the way to it."""
        try:
            if isinstance(future, Exception):
                raise future
            return future.result()
        except Exception as error:
            worker = self._workers[call.shard % len(self._workers)]
            return ShardLost(f"shard {call.shard} is lost: Dask's worker {worker} does not answer ({error})")


def _with_number(device: str) -> str:
    """The name of a device, of which several spellings are the same: cuda, cuda:0 and cuda:00."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return "cpu"
    return f"{kind}:{int(number)}" if number.isdigit() else f"{kind}:0" if device == "cuda" else device


def _waits(call: Call) -> bool:
    """Does a call keep a thread waiting for what the shard does? What is only queued on a GPU does not."""
    return call.method != "step" or bool(call.given[0].waits)


def _library(name: str, transport: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"sharded.{transport} needs {name} ({error}): install it") from None


def _refuse_second(shards: Any) -> None:
    if shards:
        raise InvalidArgument("this transport has a table already: make one for each table")
