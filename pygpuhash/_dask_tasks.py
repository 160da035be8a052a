"""What tasks of `pygpuhash.dask` do, on a worker. A task has one thread: Dask runs as many as the worker has threads.

All are pure, so that Dask may run them again. Those that read a part refuse a worker of another version.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from pygpuhash import _core, _device_partial, _table_verbs, _verb_inputs, partial, verbs
from pygpuhash import shards as _shards
from pygpuhash.columns import rows
from pygpuhash.columns._engine import HASH_VERSION, pairs, rows_by_id
from pygpuhash.errors import Unsupported
from pygpuhash.index import Index
from pygpuhash.partial import Partial

VERSIONS = (_core.version(), HASH_VERSION)
KEPT = 4  # indexes of a process
Nulls = Literal["group", "drop", "refuse"]


def library(name: str) -> Any:
    return importlib.import_module(name)


def start_keys(part: Any, nulls: Nulls) -> Partial:
    return partial.start(part, {}, nulls=nulls, threads=1)


def start_counts(part: Any, nulls: Nulls) -> Partial:
    return partial.start(part, {"count": "count"}, nulls=nulls, threads=1)


def start_values(part: Any, amounts: Any, op: str, nulls: Nulls) -> Partial:
    return partial.start(part, {op: "count" if op == "count" else (op, amounts)}, nulls=nulls, threads=1)


def start_frame(frame: Any, by: list[Any], aggregates: dict[str, Any], nulls: Nulls) -> Partial:
    keys = frame[by] if len(by) > 1 else frame[by[0]]
    wanted = {n: (a[0], frame[a[1]]) if isinstance(a, tuple) and len(a) == 2 else a for n, a in aggregates.items()}
    return partial.start(keys, wanted, nulls=nulls, threads=1)


def start_rows(frame: Any, names: list[Any]) -> Partial:
    return partial.start(frame[names] if len(names) > 1 else frame[names[0]], {"rows": ("first", frame)}, threads=1)


def start(start: Callable[..., Partial], versions: tuple[str, int], *arguments: Any) -> Partial:
    refuse_other(versions)
    return start(*arguments)


def start_and_split(
    start: Callable[..., Partial], shards: int, versions: tuple[str, int], *arguments: Any
) -> list[Partial]:
    refuse_other(versions)
    return partial.split(start(*arguments), shards)


def merge_and_split(shards: int, versions: tuple[str, int], parts: list[Partial]) -> list[Partial]:
    refuse_other(versions)
    return partial.split(partial.merge(parts, threads=1), shards)


def refuse_other(versions: tuple[str, int]) -> None:
    """A worker with another hash would send keys to other shards; one with another version may aggregate otherwise."""
    if versions != VERSIONS:
        raise Unsupported(
            f"a worker has gpuhash {VERSIONS[0]} with version {VERSIONS[1]} of the hash, the client {versions[0]} "
            f"with {versions[1]}: install one version everywhere"
        )


def merge_and_finish(finish: Callable[[Partial], Any], parts: list[Partial]) -> Any:
    return finish(partial.merge(parts, threads=1))


def item(given: Any, i: int) -> Any:
    return given[i]


def total(numbers: list[int]) -> int:
    return sum(numbers)


def keys(part: Partial) -> Any:
    return part.keys


def results(part: Partial) -> dict[str, Any]:
    return partial.finish(part)[1]


def pair(part: Partial) -> tuple[Any, Any]:
    keys, results = partial.finish(part)
    (result,) = results.values()
    return keys, result


def first_rows(part: Partial) -> Any:
    return results(part)["rows"].reset_index(drop=True)


def grouped_frame(part: Partial) -> Any:
    return frame_of(part, results(part))


def frame_of(part: Partial, results: dict[str, Any]) -> Any:
    """A DataFrame of keys and results; keys of a column without a name are called "key"."""
    pd = library("pandas")
    keys = part.keys
    if not hasattr(keys, "columns"):
        keys = keys.to_frame("key" if keys.name is None else keys.name)
    frame = keys.reset_index(drop=True)
    for name, result in results.items():
        column = result.reset_index(drop=True) if hasattr(result, "iloc") else pd.Series(result)
        frame.insert(len(frame.columns), name, column)
    return frame


# ---- codes of all parts ----------------------------------------------------------------------------------------------


def factorized(part: Any, nulls: Nulls) -> tuple[Any, Any]:
    if _verb_inputs.lies_on_device(part):
        codes, distinct = verbs.factorize(part, nulls=nulls)
        return codes, _device_partial.to_host(distinct)
    codes, distinct = verbs.factorize(part, nulls=nulls, threads=1)
    return np.asarray(codes, np.int64), distinct


def split_keys(local: tuple[Any, Any], shards: int, versions: tuple[str, int]) -> list[Any]:
    """The distinct keys of each shard, and the order in which they were."""
    refuse_other(versions)
    parts = _shards.partition(local[1], shards, threads=1)
    bounds = zip(parts.offsets[:-1].tolist(), parts.offsets[1:].tolist(), strict=True)
    return [*(rows.cut(parts.keys, begin, end) for begin, end in bounds), parts.order]


def numbered(parts: list[Any]) -> list[Any]:
    """The distinct keys of a shard, and the number of each key of each part among them."""
    codes, distinct = verbs.factorize(rows.concat(parts, "keys of parts"), threads=1)
    ends = np.cumsum([0, *map(partial._size, parts)])
    own = np.asarray(codes, np.int64)
    return [Partial(distinct, {}), *(own[a:b] for a, b in pairwise(ends))]


def starts(sizes: list[int]) -> Any:
    return np.cumsum([0, *sizes])


def decoded(part: Any, local: tuple[Any, Any], order: Any, numbers: list[Any], starts: Any) -> Any:
    codes, _ = local
    of_keys = np.empty(len(order) + 1, np.int64)
    of_keys[order] = np.concatenate([own + start for own, start in zip(numbers, starts, strict=False)])
    of_keys[-1] = -1  # code -1: of nulls that are dropped
    if _verb_inputs.lies_on_device(codes):
        return beside(codes, of_keys)[codes]
    return alike(part, of_keys[codes])


def beside(like: Any, array: Any) -> Any:
    """A host array on the GPU of an array there, of its library."""
    array = np.asarray(array)
    if type(like).__module__.partition(".")[0] == "torch":
        return library("torch").from_numpy(array).to(like.device)
    return on_gpu("cupy", array)


def held_by(dtype: np.dtype[Any], among: Any) -> Any:
    """Of a column the integers that this type of integers holds; another type is refused beside it."""
    numbers = np.asarray(_device_partial.to_host(among, "among"))
    if numbers.dtype == dtype or numbers.dtype.kind not in "iu" or dtype.kind not in "iu":
        return numbers
    return numbers[numbers == numbers.astype(dtype)].astype(dtype)


def on_gpu(name: str, array: Any) -> Any:
    """An array of a library on the worker's GPU, where it may be already."""
    return array if _verb_inputs.lies_on_device(array) else library(name).asarray(array)


def alike(part: Any, numbers: Any) -> Any:
    """Numbers as a column beside this one."""
    if hasattr(part, "iloc"):
        pd = library("pandas")
        return pd.Series(numbers, index=part.index, name=getattr(part, "name", None))
    return numbers


# ---- columns that every worker has -----------------------------------------------------------------------------------

indexes: OrderedDict[str, Any] = OrderedDict()  # of this process, by the token of what they were made of
_making = threading.Lock()


def once(token: str | None, make: Callable[[], Any]) -> Any:
    """An object that a process makes once, and that all of its tasks use."""
    if token is None:
        return make()
    with _making:
        if token not in indexes:
            indexes[token] = make()
        indexes.move_to_end(token)
        while len(indexes) > KEPT:
            indexes.popitem(last=False)
        return indexes[token]


def isin(part: Any, among: Any, token: str, versions: tuple[str, int]) -> Any:
    refuse_other(versions)
    if _verb_inputs.lies_on_device(part):
        dtype = _table_verbs.seen(part, "keys")[0]
        return verbs.isin(part, once(f"isin-{dtype}-{token}", lambda: beside(part, held_by(dtype, among))))
    index = once("isin-" + token, lambda: Index(_device_partial.to_host(among), threads=1))
    return alike(part, np.asarray(index.get_indexer(part)) >= 0)


def whole(parts: list[Any]) -> Any:
    return rows.concat(parts, "parts of right")


def joined(
    left: Any, right: Any, on: list[Any], how: str, suffixes: tuple[str, str], token: str | None,
    versions: tuple[str, int],
) -> Any:  # fmt: skip
    refuse_other(versions)
    pd = library("pandas")

    def make() -> tuple[Any, Any, Any]:
        index = Index(threads=1)
        codes = np.asarray(index.add(right[on] if len(on) > 1 else right[on[0]]), np.int64)
        return index, *rows_by_id(codes, len(index))

    index, offsets, numbers = once(None if token is None else f"join-{on}-{token}", make)
    at = np.asarray(index.get_indexer(left[on] if len(on) > 1 else left[on[0]]), np.int64)
    one, other = pairs(at, offsets, numbers, how == "left")
    kept = [name for name in right.columns if name not in on]
    theirs = right[kept].reset_index(drop=True)
    # Left: as if one more row had no partner, so that all parts have one type.
    theirs = theirs.reindex(np.append(other, -1)).iloc[:-1] if how == "left" else theirs.iloc[other]
    ours = left.iloc[one].reset_index(drop=True)
    twice = [name for name in kept if name in list(left.columns)]
    ours = ours.rename(columns={name: f"{name}{suffixes[0]}" for name in twice})
    theirs = theirs.rename(columns={name: f"{name}{suffixes[1]}" for name in twice})
    return pd.concat([ours, theirs.reset_index(drop=True)], axis=1)
