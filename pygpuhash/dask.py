"""Verbs on collections of Dask: `value_counts`, `unique`, `nunique`, `group_by`, `group_reduce`, `factorize`, `isin`,
`join`, `drop_duplicates`.

    import dask.dataframe as dd, pygpuhash.dask as ghd

    trips = dd.read_parquet("trips/")
    ghd.group_by(trips, "zone", {"rides": "count", "paid": ("sum", "price")}).compute()

A collection is a Series or a DataFrame of dask.dataframe, a one-dimensional dask.array, or a list of `dask.delayed`
columns of pandas, polars, Arrow or numpy. Results are of the same kind: of arrays their chunks are unknown. Nothing is
computed before the result is, and the tasks are Dask's: its scheduler, dashboard, spilling and retries.

Each part is aggregated by itself; what it comes to is split by the published hash of its distinct keys
(`gh.partition`), and each shard is merged by one task. All tasks are pure, and give equal results when they are run
again, so that results are exact when workers are lost. A result has one part for each shard.

shards : of all verbs that have it, None for a fourth of the parts, at most 16. Where parts times shards were more than
`MOST_TASKS`, partials of neighbours are merged first; where they are more than `FEW_TASKS`, as many as a shard is of.

`isin` and `join` send the other column, whole, to each worker, which makes one index of it for all of its tasks.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

try:
    from dask.base import tokenize
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError(f"pygpuhash.dask needs dask ({error}): pip install 'gpuhash[dask]'") from None

from pygpuhash import _arguments, _core, partial, verbs
from pygpuhash import shards as _shards
from pygpuhash.columns import rows
from pygpuhash.columns._engine import HASH_VERSION, MOST_SHARDS, pairs, rows_by_id
from pygpuhash.errors import InvalidArgument, Unsupported
from pygpuhash.index import Index
from pygpuhash.partial import Partial

__all__ = [
    "drop_duplicates",
    "factorize",
    "group_by",
    "group_reduce",
    "isin",
    "join",
    "nunique",
    "unique",
    "value_counts",
]

_VERSIONS = (_core.version(), HASH_VERSION)
MOST_TASKS = 2000  # of an exchange: parts times shards
FEW_TASKS = 250
_SHARDS = 16
_KEPT = 4  # indexes of a process
Nulls = Literal["group", "drop", "refuse"]


def unique(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """The distinct keys, as a collection of the same kind and type. A DataFrame has its distinct rows."""
    given = _Given(keys, "keys")
    return given.collection(given.merged(functools.partial(_start_keys, nulls=nulls), shards, _keys), given.meta)


def nunique(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """How many distinct keys there are: a `Delayed` int. Null is a key, unless nulls is "drop"."""
    return _call(_total, _Given(keys, "keys").merged(functools.partial(_start_keys, nulls=nulls), shards, len))


def value_counts(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """How often each key occurs.

    Of a Series or DataFrame a DataFrame, whose columns are the keys' and "count"; of an array a pair of arrays; of
    delayed columns, delayed pairs of columns.
    """
    given = _Given(keys, "keys")
    return given.beside(functools.partial(_start_counts, nulls=nulls), shards, {"count": np.dtype(np.int64)})


def group_reduce(
    keys: Any,
    values: Any,
    op: str = "sum",
    *,
    shards: int | None = None,
    nulls: Nulls = "group",
) -> Any:
    """What the values of each key come to: "sum", "min", "max", "mean", "count", "first" or "nunique".

    keys, values : two collections of equal parts, as two columns of one DataFrame are. Results are as of
    `value_counts`, with the name of the op for "count".
    """
    if op not in partial.AGGREGATES:
        raise InvalidArgument(f"op={op!r} is none of {', '.join(partial.AGGREGATES)}")
    given, others = _Given(keys, "keys"), _Given(values, "values")
    if given.number != others.number:
        raise ValueError(f"values have {others.number} parts, keys {given.number}: pass columns of one frame")
    dtype: Any = np.dtype(object)
    if given.kind != "delayed":
        result = _results(_start_values(given.empty(), others.empty(), op, nulls))[op]
        dtype = getattr(result, "dtype", dtype)
    return given.beside(functools.partial(_start_values, op=op, nulls=nulls), shards, {op: dtype}, others)


def group_by(
    frame: Any,
    by: Any,
    aggregates: Mapping[str, Any],
    *,
    shards: int | None = None,
    nulls: Nulls = "group",
) -> Any:
    """A group-by with several aggregates at once: a DataFrame of the columns `by` and of one for each aggregate.

    by : the name of a column of the DataFrame, or a list of names.
    aggregates : {name: "count"} or {name: (op, column)}; ops as of `gh.partial.start`.
    """
    given = _Given(frame, "frame")
    if given.kind != "frame":
        raise TypeError(f"frame is a {type(frame).__name__}: pass a DataFrame of dask.dataframe")
    names = list(by) if isinstance(by, (list, tuple)) else [by]
    read = [*names, *(a[1] for a in aggregates.values() if isinstance(a, tuple) and len(a) == 2)]
    _refuse_absent(given, read)
    given = _Given(frame[list(dict.fromkeys(read))], "frame")
    start = functools.partial(_start_frame, by=names, aggregates=dict(aggregates), nulls=nulls)
    return given.collection(given.merged(start, shards, _grouped_frame), _grouped_frame(start(given.empty())))


def drop_duplicates(frame: Any, subset: Any = None, *, shards: int | None = None) -> Any:
    """The first row of each key, with all of its columns. subset : the columns that are the key, None for all.

    Rows come in another order than they had, and with a new index.
    """
    given = _Given(frame, "frame")
    if given.kind != "frame":
        return unique(frame, shards=shards)
    names = list(given.meta.columns) if subset is None else list(subset) if isinstance(subset, list) else [subset]
    _refuse_absent(given, names)
    return given.collection(given.merged(functools.partial(_start_rows, names=names), shards, _first_rows), given.meta)


def factorize(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> tuple[Any, Any]:
    """(codes, distinct keys): int64, of which each stands for one key in all parts, and the keys in their order.

    The codes have the parts of `keys`; the key of code i is row i of the distinct keys, over all of their parts.
    With nulls="drop" rows with a null have code -1.
    """
    given = _Given(keys, "keys")
    number = _number_of_shards(shards, given.tasks, MOST_TASKS // max(given.tasks, 1))
    local = [_call(_factorized, part, nulls) for part in given.parts]
    cut = [_call(_split_keys, part, number, _VERSIONS) for part in local]
    numbered = [_call(_numbered, [_call(_item, part, s) for part in cut]) for s in range(number)]
    merged = [_call(_item, shard, 0) for shard in numbered]
    starts = _call(_starts, [_call(len, part) for part in merged])
    codes = [
        _call(_decoded, given.parts[i], local[i], _call(_item, cut[i], number),
              [_call(_item, shard, i + 1) for shard in numbered], starts)
        for i in range(len(given.parts))
    ]  # fmt: skip
    return given.alike(codes, np.dtype(np.int64)), given.collection([_call(_keys, p) for p in merged], given.meta)


def isin(keys: Any, among: Any) -> Any:
    """Which keys are among others: bool, of the parts of `keys`.

    among : a host column, or a collection, of which the distinct keys are sent to each worker.
    """
    given = _Given(keys, "keys")
    others, token = _broadcast(among, "among")
    return given.alike([_call(_isin, part, others, token, _VERSIONS) for part in given.parts], np.dtype(bool))


def join(
    left: Any, right: Any, on: Any, how: Literal["inner", "left"] = "inner", *, suffixes: tuple[str, str] = ("_x", "_y")
) -> Any:
    """Rows of two DataFrames with equal keys, as pandas' `merge`; `right`, whole, is sent to each worker.

    left : a DataFrame of dask.dataframe, whose parts the result has. right : pandas' or dask's, the smaller one.
    on : the name of a column that both have, or a list of names. how : "inner", or "left", where numbers of `right` are
    floats, which hold what is absent. Null is a key like others.

    For two large frames dask's own `merge` is as good.
    """
    if how not in ("inner", "left"):
        raise InvalidArgument(f"how={how!r} is neither 'inner' nor 'left'")
    given = _Given(left, "left")
    if given.kind != "frame":
        raise TypeError(f"left is a {type(left).__name__}: pass a DataFrame of dask.dataframe")
    names = list(on) if isinstance(on, (list, tuple)) else [on]
    _refuse_absent(given, names)
    if hasattr(right, "to_delayed"):
        other = _Given(right, "right")
        _refuse_absent(other, names)
        empty, whole, token = other.empty(), _call(_whole, other.parts), tokenize(right)
    else:
        for name in names:
            if name not in list(right.columns):
                raise InvalidArgument(f"right has no column {name!r}: it has {list(right.columns)}")
        empty, whole, token = right.iloc[:0], delayed(right, pure=True), tokenize(right)
    meta = _joined(given.empty(), empty, names, how, suffixes, None, _VERSIONS)
    parts = [_call(_joined, part, whole, names, how, suffixes, token, _VERSIONS) for part in given.parts]
    return given.collection(parts, meta)


# ---- collections -----------------------------------------------------------------------------------------------------


class _Given:
    """A collection that was passed: its parts, and how another collection of its kind is made.

    kind : "frame", "series", "array" or "delayed". number : how many parts were passed. read : the collection as Dask
    reads it, which may make one part of several small files; of arrays and delayed parts None. meta : pandas' or
    numpy's of no rows; of delayed parts None.
    """

    def __init__(self, given: Any, what: str) -> None:
        self.given = given
        self.read: Any = None
        self.meta: Any = None
        self.divisions: Any = None
        self.chunks: Any = None
        module = type(given).__module__
        if isinstance(given, (list, tuple)) and given and all(isinstance(part, Delayed) for part in given):
            self.kind, self.number = "delayed", len(given)
        elif module.startswith("dask") and hasattr(given, "chunks") and hasattr(given, "dtype"):
            if given.ndim != 1:
                raise ValueError(f"{what} has {given.ndim} dimensions: pass a one-dimensional array")
            self.kind, self.number = "array", given.npartitions
            self.meta, self.chunks = np.empty(0, given.dtype), given.chunks
        elif module.startswith("dask") and hasattr(given, "npartitions") and hasattr(given, "to_delayed"):
            self.kind = "frame" if hasattr(given, "dtypes") and given.ndim == 2 else "series"
            self.number, self.read = given.npartitions, given.optimize()
            self.divisions, self.meta = self.read.divisions, _empty_of(given, self.kind)
        else:
            raise TypeError(
                f"{what} is a {type(given).__name__}: pass a collection of dask.dataframe or dask.array, or a list of "
                "dask.delayed columns; for columns of this process there are the verbs of gpuhash itself"
            )

    @functools.cached_property
    def parts(self) -> list[Any]:
        """Each part by itself, for tasks that need it beside other things."""
        if self.kind == "delayed":
            return list(self.given)
        return list(self.given.to_delayed().ravel() if self.read is None else self.read.to_delayed())

    @property
    def tasks(self) -> int:
        """How many tasks read the parts."""
        return self.number if self.read is None else int(self.read.npartitions)

    def empty(self) -> Any:
        """A part without rows."""
        return self.meta

    def each(self, function: Callable[..., Any], *beside: _Given) -> list[Any]:
        """function(part, parts beside it) of each part; of frames in the task that reads the part."""
        every = [self, *beside]
        if any(one.read is None for one in every):
            return [_call(function, *own) for own in zip(*(one.parts for one in every), strict=True)]
        if len({one.tasks for one in every}) > 1:  # each collection reads other files as one part
            parts = [one.given.to_delayed(optimize_graph=False) for one in every]
            return [_call(function, *own) for own in zip(*parts, strict=True)]
        # What the function gives is no frame, so that its type is not compared with meta.
        how = {"meta": self.meta, "enforce_metadata": False, "align_dataframes": False}
        started = _library("dask.dataframe").map_partitions(function, *(one.given for one in every), **how)
        return list(started.to_delayed())

    def started(self, start: Callable[..., Partial], *beside: _Given) -> list[Any]:
        """start(part, parts beside it) of each part."""
        return self.each(functools.partial(_start, start, _VERSIONS), *beside)

    def merged(
        self, start: Callable[..., Partial], shards: int | None, finish: Callable[[Partial], Any], *beside: _Given
    ) -> list[Any]:
        """finish(partial) of each shard, of start(part, parts beside it) of all parts."""
        number = _number_of_shards(shards, self.tasks, MOST_TASKS)
        if number == 1:
            return [_call(finish, _tree(self.started(start, *beside)))]
        fan = _fan(self.tasks, number)
        if fan > 1:
            started = self.started(start, *beside)
            cut = [
                _call(_merge_and_split, number, _VERSIONS, started[i : i + fan]) for i in range(0, len(started), fan)
            ]
        else:
            cut = self.each(functools.partial(_start_and_split, start, number, _VERSIONS), *beside)
        return [_call(_merge_and_finish, finish, [_call(_item, part, s) for part in cut]) for s in range(number)]

    def collection(self, parts: list[Any], meta: Any) -> Any:
        """A collection of parts of unknown lengths."""
        if self.kind == "delayed":
            return parts
        if self.kind == "array":
            return _array(parts, meta.dtype, [np.nan] * len(parts))
        dd = _library("dask.dataframe")
        return dd.from_delayed(parts, meta=meta, verify_meta=False)

    def alike(self, parts: list[Any], dtype: np.dtype[Any]) -> Any:
        """A column with one element for each row of this one."""
        if self.kind == "delayed":
            return parts
        if self.kind == "array":
            return _array(parts, dtype, self.chunks[0])
        dd, pd = _library("dask.dataframe"), _library("pandas")
        name = self.meta.name if self.kind == "series" else None
        meta = pd.Series([], dtype=dtype, name=name, index=self.meta.index)
        return dd.from_delayed(parts, meta=meta, divisions=self.divisions, verify_meta=False)

    def beside(
        self,
        start: Callable[..., Partial],
        shards: int | None,
        results: dict[str, Any],
        *others: _Given,
    ) -> Any:
        """Keys beside their one result, of start(part, parts of others)."""
        if self.kind in ("frame", "series"):
            pd = _library("pandas")
            empty = Partial(self.meta, {})
            meta = _frame_of(empty, {name: pd.Series([], dtype=dtype) for name, dtype in results.items()})
            return self.collection(self.merged(start, shards, _grouped_frame, *others), meta)
        both = self.merged(start, shards, _pair, *others)
        if self.kind == "delayed":
            return both
        ((_, dtype),) = results.items()
        lengths = [np.nan] * len(both)
        return tuple(
            _array([_call(_item, pair, i) for pair in both], kind, lengths)
            for i, kind in ((0, self.meta.dtype), (1, dtype))
        )


def _library(name: str) -> Any:
    return importlib.import_module(name)


def _empty_of(given: Any, kind: str) -> Any:
    pd = _library("pandas")
    if kind == "series":
        return pd.Series([], dtype=given.dtype, name=given.name)
    frame = pd.DataFrame({i: pd.Series([], dtype=dtype) for i, dtype in enumerate(given.dtypes)})
    frame.columns = given.columns
    return frame


def _array(parts: list[Any], dtype: np.dtype[Any], lengths: Sequence[float]) -> Any:
    da = _library("dask.array")
    return da.concatenate(
        [da.from_delayed(part, shape=(n,), dtype=dtype) for part, n in zip(parts, lengths, strict=True)],
        allow_unknown_chunksizes=True,
    )


def _number_of_shards(shards: int | None, parts: int, most: int) -> int:
    if shards is None:
        return max(1, min(parts // 4, _SHARDS, most))
    return _arguments.whole("shards", shards, MOST_SHARDS, least=1)


def _fan(parts: int, shards: int) -> int:
    """How many neighbours are merged before they are split.

    At least so many that the scheduler can take the exchange. Beyond FEW_TASKS a task costs more than to merge its rows
    once more; but then no more parts than a shard has the rows of, since a worker that merges a shard needs that memory
    anyway.
    """
    return max(-(-parts * shards // MOST_TASKS), min(-(-parts * shards // FEW_TASKS), -(-parts // shards)))


def _refuse_absent(given: _Given, names: Sequence[Any]) -> None:
    known = list(given.meta.columns)
    for name in names:
        if name not in known:
            raise InvalidArgument(f"the frame has no column {name!r}: it has {known}")


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return delayed(function, pure=True)(*arguments)


def _tree(partials: list[Any]) -> Any:
    """One partial of all, by merges of eight neighbours."""
    while len(partials) > 1:
        partials = [_call(partial.merge, partials[i : i + 8]) for i in range(0, len(partials), 8)]
    return partials[0]


# ---- what tasks do ---------------------------------------------------------------------------------------------------
# A task has one thread: Dask runs as many tasks as the worker has threads.


def _start_keys(part: Any, nulls: Nulls) -> Partial:
    return partial.start(part, {}, nulls=nulls, threads=1)


def _start_counts(part: Any, nulls: Nulls) -> Partial:
    return partial.start(part, {"count": "count"}, nulls=nulls, threads=1)


def _start_values(part: Any, amounts: Any, op: str, nulls: Nulls) -> Partial:
    return partial.start(part, {op: "count" if op == "count" else (op, amounts)}, nulls=nulls, threads=1)


def _start_frame(frame: Any, by: list[Any], aggregates: dict[str, Any], nulls: Nulls) -> Partial:
    keys = frame[by] if len(by) > 1 else frame[by[0]]
    wanted = {n: (a[0], frame[a[1]]) if isinstance(a, tuple) and len(a) == 2 else a for n, a in aggregates.items()}
    return partial.start(keys, wanted, nulls=nulls, threads=1)


def _start_rows(frame: Any, names: list[Any]) -> Partial:
    return partial.start(frame[names] if len(names) > 1 else frame[names[0]], {"rows": ("first", frame)}, threads=1)


def _start(start: Callable[..., Partial], versions: tuple[str, int], *arguments: Any) -> Partial:
    _refuse_other(versions)
    return start(*arguments)


def _start_and_split(
    start: Callable[..., Partial], shards: int, versions: tuple[str, int], *arguments: Any
) -> list[Partial]:
    _refuse_other(versions)
    return partial.split(start(*arguments), shards)


def _merge_and_split(shards: int, versions: tuple[str, int], parts: list[Partial]) -> list[Partial]:
    _refuse_other(versions)
    return partial.split(partial.merge(parts, threads=1), shards)


def _refuse_other(versions: tuple[str, int]) -> None:
    """A worker with another hash would send keys to other shards; one with another version may aggregate otherwise."""
    if versions != _VERSIONS:
        raise Unsupported(
            f"a worker has gpuhash {_VERSIONS[0]} with version {_VERSIONS[1]} of the hash, the client {versions[0]} "
            f"with {versions[1]}: install one version everywhere"
        )


def _merge_and_finish(finish: Callable[[Partial], Any], parts: list[Partial]) -> Any:
    return finish(partial.merge(parts, threads=1))


def _item(given: Any, i: int) -> Any:
    return given[i]


def _total(numbers: list[int]) -> int:
    return sum(numbers)


def _keys(part: Partial) -> Any:
    return part.keys


def _results(part: Partial) -> dict[str, Any]:
    return partial.finish(part)[1]


def _pair(part: Partial) -> tuple[Any, Any]:
    keys, results = partial.finish(part)
    (result,) = results.values()
    return keys, result


def _first_rows(part: Partial) -> Any:
    return _results(part)["rows"].reset_index(drop=True)


def _grouped_frame(part: Partial) -> Any:
    return _frame_of(part, _results(part))


def _frame_of(part: Partial, results: dict[str, Any]) -> Any:
    """A DataFrame of keys and results; keys of a column without a name are called "key"."""
    pd = _library("pandas")
    keys = part.keys
    if not hasattr(keys, "columns"):
        keys = keys.to_frame("key" if keys.name is None else keys.name)
    frame = keys.reset_index(drop=True)
    for name, result in results.items():
        column = result.reset_index(drop=True) if hasattr(result, "iloc") else pd.Series(result)
        frame.insert(len(frame.columns), name, column)
    return frame


# ---- codes of all parts ----------------------------------------------------------------------------------------------


def _factorized(part: Any, nulls: Nulls) -> tuple[Any, Any]:
    codes, distinct = verbs.factorize(part, nulls=nulls, threads=1)
    return np.asarray(codes, np.int64), distinct


def _split_keys(local: tuple[Any, Any], shards: int, versions: tuple[str, int]) -> list[Any]:
    """The distinct keys of each shard, and the order in which they were."""
    _refuse_other(versions)
    parts = _shards.partition(local[1], shards, threads=1)
    bounds = zip(parts.offsets[:-1].tolist(), parts.offsets[1:].tolist(), strict=True)
    return [*(rows.cut(parts.keys, begin, end) for begin, end in bounds), parts.order]


def _numbered(parts: list[Any]) -> list[Any]:
    """The distinct keys of a shard, and the number of each key of each part among them."""
    codes, distinct = verbs.factorize(rows.concat(parts, "keys of parts"), threads=1)
    ends = np.cumsum([0, *map(partial._size, parts)])
    own = np.asarray(codes, np.int64)
    return [Partial(distinct, {}), *(own[a:b] for a, b in pairwise(ends))]


def _starts(sizes: list[int]) -> Any:
    return np.cumsum([0, *sizes])


def _decoded(part: Any, local: tuple[Any, Any], order: Any, numbers: list[Any], starts: Any) -> Any:
    codes, _ = local
    of_keys = np.empty(len(order) + 1, np.int64)
    of_keys[order] = np.concatenate([own + start for own, start in zip(numbers, starts, strict=False)])
    of_keys[-1] = -1  # code -1: of nulls that are dropped
    return _alike(part, of_keys[codes])


def _alike(part: Any, numbers: Any) -> Any:
    """Numbers as a column beside this one."""
    if hasattr(part, "iloc"):
        pd = _library("pandas")
        return pd.Series(numbers, index=part.index, name=getattr(part, "name", None))
    return numbers


# ---- columns that every worker has -----------------------------------------------------------------------------------

_indexes: OrderedDict[str, Any] = OrderedDict()  # of this process, by the token of what they were made of
_making = threading.Lock()


def _once(token: str | None, make: Callable[[], Any]) -> Any:
    """An object that a process makes once, and that all of its tasks use."""
    if token is None:
        return make()
    with _making:
        if token not in _indexes:
            _indexes[token] = make()
        _indexes.move_to_end(token)
        while len(_indexes) > _KEPT:
            _indexes.popitem(last=False)
        return _indexes[token]


def _broadcast(among: Any, what: str) -> tuple[Any, str]:
    if hasattr(among, "to_delayed") or (isinstance(among, list) and among and isinstance(among[0], Delayed)):
        given = _Given(among, what)
        return _call(_keys, _tree(given.started(functools.partial(_start_keys, nulls="group")))), tokenize(among)
    return delayed(among, pure=True, traverse=False), tokenize(among)


def _isin(part: Any, among: Any, token: str, versions: tuple[str, int]) -> Any:
    _refuse_other(versions)
    index = _once("isin-" + token, lambda: Index(among, threads=1))
    return _alike(part, np.asarray(index.get_indexer(part)) >= 0)


def _whole(parts: list[Any]) -> Any:
    return rows.concat(parts, "parts of right")


def _joined(
    left: Any, right: Any, on: list[Any], how: str, suffixes: tuple[str, str], token: str | None,
    versions: tuple[str, int],
) -> Any:  # fmt: skip
    _refuse_other(versions)
    pd = _library("pandas")

    def make() -> tuple[Any, Any, Any]:
        index = Index(threads=1)
        codes = np.asarray(index.add(right[on] if len(on) > 1 else right[on[0]]), np.int64)
        return index, *rows_by_id(codes, len(index))

    index, offsets, numbers = _once(None if token is None else f"join-{on}-{token}", make)
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
