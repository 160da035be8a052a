"""Other libraries on the same keys in the same run: what a user would do without gpuhash.

Every peer builds something from all keys and looks all queries up in it; the answers are compared with the expected
ones. A peer that is not installed is reported as such.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .devices import Device
from .results import Row
from .runs import TableRun, Wrong


class Peer:
    """A library: `build` makes its structure of keys and values, `find` returns the values of the queries."""

    name = ""
    module = ""
    device = "cpu"
    builds = True  # False: find builds anew each time, and its time says so

    def __init__(self) -> None:
        self.lib = importlib.import_module(self.module)

    def prepare(self, array: Any) -> Any:
        """A batch in the form that this library likes best; not timed."""
        return array

    def build(self, keys: Any, values: Any) -> Any:
        """Timed as "insert"."""
        raise NotImplementedError

    def find(self, built: Any, queries: Any) -> Any:
        """Timed as "find_hit"."""
        raise NotImplementedError

    def answers(self, found: Any, queries: Any) -> tuple[Any, Any]:
        """(queries, values) as arrays, in any common order; not timed."""
        return queries, found


class PandasIndex(Peer):
    """The values are positions, which is what get_indexer returns."""

    name, module = "pandas.Index.get_indexer", "pandas"

    def build(self, keys: Any, values: Any) -> Any:
        index = self.lib.Index(keys)
        index.get_indexer(keys[:1])  # builds the hash table
        return index

    def find(self, built: Any, queries: Any) -> Any:
        return built.get_indexer(queries)


class PolarsJoin(Peer):
    """A left join, which builds its hash table and probes it in one."""

    name, module, builds = "polars join", "polars", False

    def build(self, keys: Any, values: Any) -> Any:
        return self.lib.DataFrame({"key": keys, "value": values})

    def find(self, built: Any, queries: Any) -> Any:
        return self.lib.DataFrame({"key": queries}).join(built, on="key", how="left")

    def answers(self, found: Any, queries: Any) -> tuple[Any, Any]:
        return found["key"].to_numpy(), found["value"].to_numpy()


class Dict(Peer):
    """Python's own, with keys and values that are Python integers already."""

    name, module = "dict", "builtins"

    def prepare(self, array: Any) -> Any:
        return array.tolist()

    def build(self, keys: Any, values: Any) -> Any:
        return dict(zip(keys, values, strict=True))

    def find(self, built: Any, queries: Any) -> Any:
        return list(map(built.__getitem__, queries))


class SearchSorted(Peer):
    """Sort once, then binary search."""

    name, module = "numpy sort + searchsorted", "numpy"

    def build(self, keys: Any, values: Any) -> Any:
        order = self.lib.argsort(keys)
        return keys[order], values[order]

    def find(self, built: Any, queries: Any) -> Any:
        keys, values = built
        return values[self.lib.searchsorted(keys, queries)]


class CupySearchSorted(SearchSorted):
    name, module, device = "CuPy sort + searchsorted", "cupy", "cuda"


class TorchSearchSorted(Peer):
    """PyTorch sorts signed integers only: the order is another one, the work the same."""

    name, module, device = "PyTorch sort + searchsorted", "torch", "cuda"

    def prepare(self, array: Any) -> Any:
        return self.lib.from_dlpack(array.view(f"i{array.dtype.itemsize}"))

    def build(self, keys: Any, values: Any) -> Any:
        ordered, order = self.lib.sort(keys)
        return ordered, values[order]

    def find(self, built: Any, queries: Any) -> Any:
        keys, values = built
        return values[self.lib.searchsorted(keys, queries)]

    def answers(self, found: Any, queries: Any) -> tuple[Any, Any]:
        import cupy

        return cupy.from_dlpack(queries), cupy.from_dlpack(found)


PEERS: tuple[type[Peer], ...] = (PandasIndex, PolarsJoin, Dict, SearchSorted, CupySearchSorted, TorchSearchSorted)


def measure_peers(device: Device, run: TableRun, repeats: int) -> tuple[list[Row], list[str]]:
    """(rows of all peers of this device on the keys of `run`, names of those that are not installed)."""
    rows, missing = [], []
    for kind in PEERS:
        if kind.device != device.name.partition(":")[0]:
            continue
        try:
            peer = kind()
        except ImportError:
            missing.append(kind.name)
            continue
        rows += _measure(peer, device, run, repeats)
    return rows, missing


def _measure(peer: Peer, device: Device, run: TableRun, repeats: int) -> list[Row]:
    keys, values, queries = (peer.prepare(array) for array in (run.keys, run.values, run.queries))
    built: list[Any] = []
    found: list[Any] = []

    def timed(work: Callable[[], Any], results: list[Any]) -> float:
        results.clear()
        device.wait()
        return device.time(lambda: results.append(work()))

    peer.find(peer.build(keys[:1000], values[:1000]), keys[:1000])  # load what the library loads late
    build = [timed(lambda: peer.build(keys, values), built) for _ in range(repeats)]
    find = [timed(lambda: peer.find(built[0], queries), found) for _ in range(repeats)]
    _verify(peer, device, run, *peer.answers(found[0], queries))
    common = {"device": device.name, "n": run.n, "key_bytes": run.widths[0], "value_bytes": run.widths[1]}
    rows = [Row(peer.name, operation="find_hit", seconds=find, **common)]
    if peer.builds:
        rows.insert(0, Row(peer.name, operation="insert", seconds=build, **common))
    return rows


def _verify(peer: Peer, device: Device, run: TableRun, queries: Any, values: Any) -> None:
    """The value of a key is its index, and run.keys[index] is the key."""
    xp = device.xp
    index = xp.asarray(values).astype(np.int64)
    asked = xp.asarray(queries)
    if asked.dtype.kind == "i" and asked.dtype.itemsize == run.widths[0]:
        asked = asked.view(run.keys.dtype)
    if len(index) != run.n or not bool((run.keys[index] == asked).all()):
        raise Wrong(f"{peer.name} on {device.name} does not return the expected values")
