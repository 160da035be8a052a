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

shards : of all verbs that have it, None for a fourth of the parts, at most 16. Where parts times shards are more than
`FEW_TASKS`, neighbouring partials are merged before they are split: as many as a shard has the rows of, or as many as
bring parts times shards down to `MOST_TASKS`.

Parts may be arrays of CuPy on the GPUs of the workers, as where dask-cuda has made one worker for each: a dask.array of
such, or delayed columns of CuPy or PyTorch. They are aggregated there; what they come to is merged in memory of the
host. Results of a dask.array are arrays of CuPy again; of delayed columns codes and masks are on the GPU of their
part, and distinct keys and aggregates arrays of numpy.

`isin` and `join` send the other column, whole, to each worker, which makes one index of it for all of its tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

try:
    from dask.base import tokenize
    from dask.delayed import Delayed, delayed
except ImportError as error:
    raise ImportError(f"pygpuhash.dask needs dask ({error}): pip install 'gpuhash[dask]'") from None

from pygpuhash import _arguments, partial
from pygpuhash import _dask_tasks as tasks
from pygpuhash._dask_tasks import Nulls
from pygpuhash.columns._engine import MOST_SHARDS
from pygpuhash.errors import InvalidArgument, Unsupported
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

MOST_TASKS = 2000  # of an exchange: parts times shards
FEW_TASKS = 250
_SHARDS = 16


def unique(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """The distinct keys, as a collection of the same kind and type. A DataFrame has its distinct rows."""
    given = _Given(keys, "keys")
    start = functools.partial(tasks.start_keys, nulls=nulls)
    return given.collection(given.merged(start, shards, tasks.keys), given.meta)


def nunique(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """How many distinct keys there are: a `Delayed` int. Null is a key, unless nulls is "drop"."""
    start = functools.partial(tasks.start_keys, nulls=nulls)
    return _call(tasks.total, _Given(keys, "keys").merged(start, shards, len))


def value_counts(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> Any:
    """How often each key occurs.

    Of a Series or DataFrame a DataFrame, whose columns are the keys' and "count"; of an array a pair of arrays; of
    delayed columns, delayed pairs of columns.
    """
    given = _Given(keys, "keys")
    return given.beside(functools.partial(tasks.start_counts, nulls=nulls), shards, {"count": np.dtype(np.int64)})


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
        result = tasks.results(tasks.start_values(given.empty(), others.empty(), op, nulls))[op]
        dtype = getattr(result, "dtype", dtype)
    return given.beside(functools.partial(tasks.start_values, op=op, nulls=nulls), shards, {op: dtype}, others)


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
    names = _names(by, "by")
    if twice := [name for name in aggregates if name in names]:
        raise InvalidArgument(f"aggregate {twice[0]!r} has the name of a column of by: give it another one")
    read = [*names, *(a[1] for a in aggregates.values() if isinstance(a, tuple) and len(a) == 2)]
    _refuse_absent(given, read)
    given = _Given(frame[list(dict.fromkeys(read))], "frame")
    start = functools.partial(tasks.start_frame, by=names, aggregates=dict(aggregates), nulls=nulls)
    return given.collection(given.merged(start, shards, tasks.grouped_frame), tasks.grouped_frame(start(given.empty())))


def drop_duplicates(frame: Any, subset: Any = None, *, shards: int | None = None) -> Any:
    """The first row of each key, with all of its columns. subset : the columns that are the key, None for all.

    Rows come in another order than they had, and with a new index.
    """
    given = _Given(frame, "frame")
    if given.kind != "frame":
        return unique(frame, shards=shards)
    names = list(given.meta.columns) if subset is None else _names(subset, "subset")
    _refuse_absent(given, names)
    start = functools.partial(tasks.start_rows, names=names)
    return given.collection(given.merged(start, shards, tasks.first_rows), given.meta)


def factorize(keys: Any, *, shards: int | None = None, nulls: Nulls = "group") -> tuple[Any, Any]:
    """(codes, distinct keys): int64, of which each stands for one key in all parts, and the keys in their order.

    The codes have the parts of `keys`; the key of code i is row i of the distinct keys, over all of their parts.
    With nulls="drop" rows with a null have code -1.
    """
    given = _Given(keys, "keys")
    number = _number_of_shards(shards, given.reads, MOST_TASKS // max(given.reads, 1))
    local = [_call(tasks.factorized, part, nulls) for part in given.parts]
    cut = [_call(tasks.split_keys, part, number, tasks.VERSIONS) for part in local]
    numbered = [_call(tasks.numbered, [_call(tasks.item, part, s) for part in cut]) for s in range(number)]
    merged = [_call(tasks.item, shard, 0) for shard in numbered]
    starts = _call(tasks.starts, [_call(len, part) for part in merged])
    codes = [
        _call(tasks.decoded, given.parts[i], local[i], _call(tasks.item, cut[i], number),
              [_call(tasks.item, shard, i + 1) for shard in numbered], starts)
        for i in range(len(given.parts))
    ]  # fmt: skip
    return given.alike(codes, np.dtype(np.int64)), given.collection([_call(tasks.keys, p) for p in merged], given.meta)


def isin(keys: Any, among: Any) -> Any:
    """Which keys are among others: bool, of the parts of `keys`.

    among : a host column, or a collection, of which the distinct keys are sent to each worker.
    """
    given = _Given(keys, "keys")
    others, token = _broadcast(among, "among")
    return given.alike([_call(tasks.isin, part, others, token, tasks.VERSIONS) for part in given.parts], np.dtype(bool))


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
    names = _names(on, "on")
    _refuse_absent(given, names)
    if hasattr(right, "to_delayed"):
        other = _Given(right, "right")
        _refuse_absent(other, names)
        empty, whole, token = other.empty(), _call(tasks.whole, other.parts), tokenize(right)
    else:
        for name in names:
            if name not in list(right.columns):
                raise InvalidArgument(f"right has no column {name!r}: it has {list(right.columns)}")
        empty, whole, token = right.iloc[:0], delayed(right, pure=True), tokenize(right)
    meta = tasks.joined(given.empty(), empty, names, how, suffixes, None, tasks.VERSIONS)
    parts = [_call(tasks.joined, part, whole, names, how, suffixes, token, tasks.VERSIONS) for part in given.parts]
    return given.collection(parts, meta)


# ---- collections -----------------------------------------------------------------------------------------------------


class _Given:
    """A collection that was passed: its parts, and how another collection of its kind is made.

    kind : "frame", "series", "array" or "delayed". number : how many parts were passed. read : the collection as Dask
    reads it, which may make one part of several small files; of arrays and delayed parts None. meta : pandas' or
    numpy's of no rows; of delayed parts None. like : no rows of the library of an array's parts, if they are on GPUs.
    """

    def __init__(self, given: Any, what: str) -> None:
        self.given = given
        self.read: Any = None
        self.meta: Any = None
        self.divisions: Any = None
        self.chunks: Any = None
        self.like: Any = None
        module = type(given).__module__
        if isinstance(given, (list, tuple)) and given and all(isinstance(part, Delayed) for part in given):
            self.kind, self.number = "delayed", len(given)
        elif module.startswith("dask") and hasattr(given, "chunks") and hasattr(given, "dtype"):
            if given.ndim != 1:
                raise ValueError(f"{what} has {given.ndim} dimensions: pass a one-dimensional array")
            self.kind, self.number = "array", given.npartitions
            self.meta, self.chunks = np.empty(0, given.dtype), given.chunks
            if type(given._meta).__module__.partition(".")[0] == "cupy":
                self.like = given._meta
        elif module.startswith("dask") and hasattr(given, "npartitions") and hasattr(given, "to_delayed"):
            if type(given._meta).__module__.partition(".")[0] == "cudf":
                raise Unsupported(
                    f"{what} has parts of cuDF: pass a dask.array of their columns in CuPy, {what}[name].values, or "
                    f'{what}.to_backend("pandas")'
                )
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
    def reads(self) -> int:
        """How many tasks read the parts."""
        return self.number if self.read is None else int(self.read.npartitions)

    def empty(self) -> Any:
        """A part without rows."""
        return self.meta

    def each(self, function: Callable[..., Any], *beside: _Given) -> list[Any]:
        """function(part, parts beside it) of each part; of frames in the task that reads the part."""
        every = [self, *beside]
        if any(one.read is None for one in every) or len({one.reads for one in every}) > 1:
            # Dask may read several files as one part, and not those of the other column: the parts that were passed.
            parts = [one.parts if one.read is None else one.given.to_delayed(optimize_graph=False) for one in every]
            return [_call(function, *own) for own in zip(*parts, strict=True)]
        # What the function gives is no frame, so that its type is not compared with meta.
        how = {"meta": self.meta, "enforce_metadata": False, "align_dataframes": False}
        started = tasks.library("dask.dataframe").map_partitions(function, *(one.given for one in every), **how)
        return list(started.to_delayed())

    def started(self, start: Callable[..., Partial], *beside: _Given) -> list[Any]:
        """start(part, parts beside it) of each part."""
        return self.each(functools.partial(tasks.start, start, tasks.VERSIONS), *beside)

    def merged(
        self, start: Callable[..., Partial], shards: int | None, finish: Callable[[Partial], Any], *beside: _Given
    ) -> list[Any]:
        """finish(partial) of each shard, of start(part, parts beside it) of all parts."""
        number = _number_of_shards(shards, self.reads, MOST_TASKS)
        if number == 1:
            return [_call(finish, _tree(self.started(start, *beside)))]
        fan = _fan(self.reads, number)
        if fan > 1:
            started = self.started(start, *beside)
            neighbours = [started[i : i + fan] for i in range(0, len(started), fan)]
            cut = [_call(tasks.merge_and_split, number, tasks.VERSIONS, some) for some in neighbours]
        else:
            cut = self.each(functools.partial(tasks.start_and_split, start, number, tasks.VERSIONS), *beside)
        pieces = [[_call(tasks.item, part, s) for part in cut] for s in range(number)]
        return [_call(tasks.merge_and_finish, finish, own) for own in pieces]

    def collection(self, parts: list[Any], meta: Any) -> Any:
        """A collection of parts of unknown lengths."""
        if self.kind == "delayed":
            return parts
        if self.kind == "array":
            return _array(parts, meta.dtype, [np.nan] * len(parts), self.like)
        dd = tasks.library("dask.dataframe")
        return dd.from_delayed(parts, meta=meta, verify_meta=False)

    def alike(self, parts: list[Any], dtype: np.dtype[Any]) -> Any:
        """A column with one element for each row of this one."""
        if self.kind == "delayed":
            return parts
        if self.kind == "array":
            return _array(parts, dtype, self.chunks[0], self.like)
        dd, pd = tasks.library("dask.dataframe"), tasks.library("pandas")
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
            pd = tasks.library("pandas")
            empty = Partial(self.meta, {})
            meta = tasks.frame_of(empty, {name: pd.Series([], dtype=dtype) for name, dtype in results.items()})
            return self.collection(self.merged(start, shards, tasks.grouped_frame, *others), meta)
        both = self.merged(start, shards, tasks.pair, *others)
        if self.kind == "delayed":
            return both
        ((_, dtype),) = results.items()
        lengths = [np.nan] * len(both)
        return tuple(
            _array([_call(tasks.item, pair, i) for pair in both], kind, lengths, self.like)
            for i, kind in ((0, self.meta.dtype), (1, dtype))
        )


def _empty_of(given: Any, kind: str) -> Any:
    pd = tasks.library("pandas")
    if kind == "series":
        return pd.Series([], dtype=given.dtype, name=given.name)
    frame = pd.DataFrame({i: pd.Series([], dtype=dtype) for i, dtype in enumerate(given.dtypes)})
    frame.columns = given.columns
    return frame


def _array(parts: list[Any], dtype: np.dtype[Any], lengths: Sequence[float], like: Any = None) -> Any:
    """A dask.array of these parts; like : of what library, if not numpy's."""
    da, meta = tasks.library("dask.array"), None
    if like is not None:
        meta = like.astype(dtype)
        parts = [_call(tasks.on_gpu, type(like).__module__.partition(".")[0], part) for part in parts]
    return da.concatenate(
        [da.from_delayed(part, shape=(n,), dtype=dtype, meta=meta) for part, n in zip(parts, lengths, strict=True)],
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


def _names(given: Any, what: str) -> list[Any]:
    """Names of columns, of one name or several."""
    names = list(given) if isinstance(given, (list, tuple)) else [given]
    if not names:
        raise InvalidArgument(f"{what} is empty: pass the name of a column, or several")
    return names


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


def _broadcast(among: Any, what: str) -> tuple[Any, str]:
    if hasattr(among, "to_delayed") or (isinstance(among, list) and among and isinstance(among[0], Delayed)):
        given = _Given(among, what)
        started = given.started(functools.partial(tasks.start_keys, nulls="group"))
        return _call(tasks.keys, _tree(started)), tokenize(among)
    return delayed(among, pure=True, traverse=False), tokenize(among)
