"""Verbs on whole columns, beside what pandas, polars and numpy need for the same, and CuPy and PyTorch on a GPU.

    python -m asv_bench.verbs                     2^22 keys, on the CPU; a few minutes
    python -m asv_bench.verbs --device cuda --key-bytes 4 --key-bytes 8 --n 16777216 --n 1048576 --n 134217728

Columns of keys of 4 or 8 bytes by distribution, alone, beside a column of 8 bytes with few distinct elements, or as
text, a column of Arrow with their decimal digits; group_reduce sums 8-byte integers, or floats, also reproducibly, or
gives four aggregates by one call; isin asks for an eighth of the keys, isin_1024, isin_2^20 and isin_n for so many of
which half are keys; join_indexer meets the column with as long a one in which every key is once, and join_indexer_four
with one in which keys are four times. Of more than 2^25 keys there are verbs without rows and text (LONG), unless
others are asked for, of one distribution. Every result is compared with numpy's, on a GPU with CuPy's. What a library
has no function for is put together from its sorts: sums and joins of PyTorch. The ceiling is the time of the accesses
that a verb cannot do without, a compare-and-swap for a key that is counted or added and a random read for one that is
looked up, over the memory of a table of the distinct keys: a sort, which reads in order, and a cache of frequent keys
can be above it. The first call does not count; on a GPU, calls are repeated for 50 ms at least, and short ones once
more, one library after the other in the reverse order, since a host is not as fast at all times. There "device" is the
share of the median call in which kernels and copies run, and "trips" counts the copies to the host in one call;
both are what PyTorch's profiler sees of one more call.

Columns of other shapes are measured where they are asked for: sorted ones, and clustered ones, in which each key is
200 times in a row.

Prints the table, and writes <output>/<machine>/verbs-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh
from pygpuhash.columns import _buffers
from pygpuhash.columns._buffers import View

from .harness.arguments import one_sentence, whole
from .harness.ceilings import Ceilings
from .harness.devices import device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report
from .skew import rates, repeated, zipf

FOUR = ("sum", "min", "max", "count")
LONG = ("unique", "value_counts", "factorize", "factorize_any", "group_reduce", "group_reduce_floats", "isin_n")
OF_LONG, MOST_OF_ALL_VERBS = "uniform over n/2", 1 << 25
SHORT = 0.001  # seconds of a call
SECONDS = 0.05  # calls on a GPU are repeated for so long at least: one takes microseconds to milliseconds
HEADER = ("verb", "keys", "n", "distinct", "who", "median", "min", "max", "ceiling", "share")
ON_GPU = ("device", "trips")
Row = tuple[Any, ...]  # of HEADER, and on a GPU of ON_GPU
FEW = 16
AMONG = {"isin": 0, "isin_1024": 1 << 10, "isin_2^20": 1 << 20, "isin_n": 1 << 40}  # so many at most; 0: an eighth

DISTRIBUTIONS: dict[str, Callable[[Any, int], Any]] = {
    "1,000 keys": lambda xp, n: xp.random.randint(0, 1000, n).astype(np.uint32),
    "Zipf 1.05": lambda xp, n: zipf(xp, n, 1.05),
    "uniform over n/2": lambda xp, n: xp.random.randint(0, n // 2, n).astype(np.uint32),
    "distinct": lambda xp, n: xp.random.permutation(n).astype(np.uint32),
    "one key": lambda xp, n: xp.zeros(n, np.uint32),
}
UNEVEN: dict[str, Callable[[Any, int], Any]] = {  # that have to be asked for
    "sorted": lambda xp, n: xp.sort(xp.random.randint(0, n // 2, n)).astype(np.uint32),
    "clustered": lambda xp, n: xp.arange(n, dtype=np.uint32) // np.uint32(200),
}


class Columns:
    """The input of the verbs, and what the right answers are made of: columns of a distribution, on the device."""

    def __init__(self, xp: Any, name: str, n: int, width: int) -> None:
        self.xp, self.n, self.width = xp, n, width
        self.index = (DISTRIBUTIONS | UNEVEN)[name](xp, n)
        self.keys = random_keys(xp, self.index, width)
        if name == "sorted":
            self.keys.sort()
        self.values = xp.arange(n, dtype=np.int64)
        self._among: dict[str, Any] = {}

    @cached_property
    def distinct(self) -> Any:
        return self.xp.unique(self.keys)

    @cached_property
    def floats(self) -> Any:
        """The same as `values`."""
        return self.values.astype(np.float64)

    @cached_property
    def few(self) -> Any:
        """FEW distinct elements."""
        return self.xp.random.randint(0, FEW, self.n).astype(np.int64)

    @cached_property
    def once(self) -> Any:
        """Every distinct key, and others, in another order."""
        return self.xp.random.permutation(self._with_others(self.distinct, self.n))

    @cached_property
    def four(self) -> Any:
        """Distinct keys, four times each, no more rows than the column has."""
        some = self.xp.random.permutation(self.distinct)[: self.n // 4]
        return self.xp.random.permutation(self.xp.tile(some, 4))

    @cached_property
    def text(self) -> Any:
        """The digits of the keys of 4 bytes."""
        return digits(self.xp, random_keys(self.xp, self.index, 4))

    def among(self, verb: str) -> Any:
        """What `isin` asks for: an eighth of the distinct keys, or so many of which at most half are."""
        if verb not in self._among:
            some, m = self.xp.random.permutation(self.distinct), min(AMONG[verb], self.n)
            some = self._with_others(some[: m // 2], m) if m else some[: len(some) // 8 + 1]
            self._among[verb] = self.xp.random.permutation(some)
        return self._among[verb]

    def _with_others(self, some: Any, n: int) -> Any:
        """These keys, and keys that the column has not: n in all."""
        more = self.xp.arange(1 << 31, (1 << 31) + n - len(some), dtype=np.uint32)
        return self.xp.concatenate([some, random_keys(self.xp, more, self.width)])


@dataclass
class Verb:
    """How each library does it, what has to be right, and what it costs at least."""

    ways: dict[str, Callable[[Any, Columns], Any]]  # "library.what", called with the library
    check: Callable[[Any, Columns], bool]  # of our own result, with everything on the host
    adds: float  # compare-and-swaps per element of the column
    reads: float  # random reads


def module_of(array: Any) -> Any:
    """numpy, or CuPy of its arrays."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def equal(one: Any, other: Any) -> bool:
    return bool(module_of(one).array_equal(one, other))


def same_groups(keys: Any, results: Any, column: Any, weights: Any) -> bool:
    """Are these the distinct keys of a column and the sums of their weights, which a double holds?"""
    xp = module_of(column)
    distinct, inverse = xp.unique(column, return_inverse=True)
    order = xp.argsort(keys)
    wanted = xp.bincount(inverse, xp.broadcast_to(xp.asarray(weights, np.float64), inverse.shape)).astype(np.int64)
    return equal(keys[order], distinct) and equal(results[order], wanted)


def row_numbers(keys: Any, few: Any) -> Any:
    """A number for each row of two columns, the same for equal rows."""
    return keys.astype(np.int64) * FEW + few


class Text:
    """A column of text on the host."""

    def __init__(self, offsets: Any, letters: Any) -> None:
        self.buffers = None, offsets, letters

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        return _buffers.schema("u"), _buffers.array(len(self.buffers[1]) - 1, self.buffers)


def digits(xp: Any, keys: Any) -> Any:
    """The decimal digits of keys, as a column of text where these are."""
    letters = (keys[:, None] // xp.asarray(10 ** np.arange(9, -1, -1), np.uint32) % 10 + 48).astype(np.uint8)
    sizes = 1 + sum((keys >= 10**i).astype(np.int32) for i in range(1, 10))
    offsets = xp.concatenate([xp.zeros(1, np.int32), xp.cumsum(sizes, dtype=np.int32)])
    letters = letters[xp.arange(10) >= 10 - sizes[:, None]]
    if xp is np:
        return Text(offsets, letters)
    buffers = None, gh.DeviceArray.from_dlpack(offsets), gh.DeviceArray.from_dlpack(letters)
    return gh.DeviceColumn("u", len(keys), buffers, keys.device.id)


def from_digits(text: Any) -> Any:
    """The keys of text on the host."""
    offsets, letters = View(text).text()
    place = np.repeat(offsets[1:], np.diff(offsets)) - 1 - np.arange(len(letters))
    return np.add.reduceat((letters - 48) * 10**place, offsets[:-1]).astype(np.uint32)


def right_codes(found: Any, c: Columns) -> bool:
    codes, distinct = found
    return equal(distinct[codes], c.keys) and len(distinct) == len(module_of(c.keys).unique(c.keys))


def right_pairs(found: Any, c: Columns) -> bool:
    left, right = found
    return equal(left, module_of(left).arange(len(c.keys))) and equal(c.keys, c.once[right])


def right_pairs_of_four(found: Any, c: Columns) -> bool:
    """Are these pairs of equal keys, each there once, in order, and as many as there have to be?"""
    left, right = found
    ascending = (left[1:] > left[:-1]) | ((left[1:] == left[:-1]) & (right[1:] > right[:-1]))
    wanted = 4 * int(module_of(left).isin(c.keys, c.four).sum())
    return len(left) == wanted and bool(ascending.all()) and equal(c.keys[left], c.four[right])


def right_aggregates(found: Any, c: Columns) -> bool:
    """Values ascend, so that the smallest one of a key is in its first row."""
    keys, (sums, low, high, many) = found
    xp, n, order = module_of(keys), len(c.keys), module_of(keys).argsort(keys)
    first = xp.unique(c.keys, return_index=True)[1]
    last = n - 1 - xp.unique(c.keys[::-1], return_index=True)[1]
    extremes = equal(low[order], c.values[first]) and equal(high[order], c.values[last])
    return extremes and same_groups(keys, sums, c.keys, c.values) and same_groups(keys, many, c.keys, 1)


def tensor(torch: Any, array: Any) -> Any:
    """The same memory; unsigned integers as signed ones, which PyTorch sorts."""
    return torch.as_tensor(array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array, device="cuda")


def torch_sums(torch: Any, keys: Any, values: Any) -> Any:
    distinct, codes = torch.unique(tensor(torch, keys), return_inverse=True)
    given = tensor(torch, values)
    return (
        distinct,
        codes,
        given,
        torch.zeros(len(distinct), dtype=given.dtype, device="cuda").index_add_(0, codes, given),
    )


def torch_four(torch: Any, keys: Any, values: Any) -> Any:
    distinct, codes, given, sums = torch_sums(torch, keys, values)
    extremes = (
        torch.empty_like(sums).scatter_reduce_(0, codes, given, op, include_self=False) for op in ("amin", "amax")
    )
    return distinct, sums, *extremes, torch.bincount(codes, minlength=len(distinct))


def torch_join(torch: Any, left: Any, right: Any) -> Any:
    """Where no right key repeats."""
    keys = tensor(torch, left)
    ordered, rows = torch.sort(tensor(torch, right))
    at = torch.searchsorted(ordered, keys).clamp_(max=len(ordered) - 1)
    found = (ordered[at] == keys).nonzero()[:, 0]
    return found, rows[at[found]]


def frame(polars: Any, **columns: Any) -> Any:
    return polars.DataFrame(columns)


def joins_with(right: str) -> dict[str, Callable[[Any, Columns], Any]]:
    """How engines join the column with another one of that name."""

    def rows(c: Columns) -> dict[str, Any]:
        keys = getattr(c, right)
        return {"k": keys, "j": np.arange(len(keys))}

    return {
        "pandas.merge": lambda pd, c: pd.DataFrame({"k": c.keys, "i": c.values}).merge(pd.DataFrame(rows(c)), on="k"),
        "polars.join": lambda pl, c: frame(pl, k=c.keys, i=c.values).join(frame(pl, **rows(c)), on="k"),
    }


def isin_of(verb: str) -> Verb:
    """Whether keys are among others."""
    return Verb(
        {
            "pandas.Series.isin": lambda pd, c: pd.Series(c.keys).isin(c.among(verb)),
            "polars.Series.is_in": lambda pl, c: pl.Series(c.keys).is_in(pl.Series(c.among(verb)).implode()),
            "numpy.isin": lambda np, c: np.isin(c.keys, c.among(verb)),
            "cupy.isin": lambda cp, c: cp.isin(c.keys, c.among(verb)),
        },
        lambda found, c: equal(found, module_of(found).isin(c.keys, c.among(verb))),
        0,
        1,
    )


FACTORIZE: dict[str, Callable[[Any, Columns], Any]] = {
    "pandas.factorize": lambda pd, c: pd.factorize(c.keys),
    "numpy.unique": lambda np, c: np.unique(c.keys, return_inverse=True),
    "cupy.unique": lambda cp, c: cp.unique(c.keys, return_inverse=True),
    "torch.unique": lambda torch, c: torch.unique(tensor(torch, c.keys), return_inverse=True),
}

VERBS = {
    "unique": Verb(
        {
            "pandas.unique": lambda pd, c: pd.unique(c.keys),
            "polars.Series.unique": lambda pl, c: pl.Series(c.keys).unique(),
            "numpy.unique": lambda np, c: np.unique(c.keys),
            "cupy.unique": lambda cp, c: cp.unique(c.keys),
            "torch.unique": lambda torch, c: torch.unique(tensor(torch, c.keys)),
        },
        lambda found, c: equal(module_of(found).sort(found), module_of(found).unique(c.keys)),
        1,
        0,
    ),
    "value_counts": Verb(
        {
            "pandas.Series.value_counts": lambda pd, c: pd.Series(c.keys).value_counts(sort=False),
            "polars.Series.value_counts": lambda pl, c: pl.Series(c.keys).value_counts(),
            "numpy.unique": lambda np, c: np.unique(c.keys, return_counts=True),
            "cupy.unique": lambda cp, c: cp.unique(c.keys, return_counts=True),
            "torch.unique": lambda torch, c: torch.unique(tensor(torch, c.keys), return_counts=True),
        },
        lambda found, c: same_groups(*found, c.keys, 1),
        1,
        0,
    ),
    "factorize": Verb(FACTORIZE, right_codes, 1, 1),
    "factorize_any": Verb(FACTORIZE, right_codes, 1, 1),
    **{verb: isin_of(verb) for verb in AMONG},
    "group_reduce": Verb(
        {
            "pandas.groupby": lambda pd, c: pd.Series(c.values).groupby(c.keys, sort=False).sum(),
            "polars.group_by": lambda pl, c: frame(pl, k=c.keys, v=c.values).group_by("k").agg(pl.col("v").sum()),
            "torch.unique, index_add_": lambda torch, c: torch_sums(torch, c.keys, c.values),
        },
        lambda found, c: same_groups(*found, c.keys, c.values),
        1,
        0,
    ),
    "group_reduce_floats": Verb(
        {
            "pandas.groupby": lambda pd, c: pd.Series(c.floats).groupby(c.keys, sort=False).sum(),
            "polars.group_by": lambda pl, c: frame(pl, k=c.keys, v=c.floats).group_by("k").agg(pl.col("v").sum()),
            "torch.unique, index_add_": lambda torch, c: torch_sums(torch, c.keys, c.floats),
        },
        lambda found, c: same_groups(found[0], found[1].astype(np.int64), c.keys, c.values),
        1,
        0,
    ),
    "group_reduce_reproducible": Verb(
        {},
        lambda found, c: same_groups(found[0], found[1].astype(np.int64), c.keys, c.values),
        1,
        0,
    ),
    "value_counts_of_two": Verb(
        {
            "pandas.DataFrame.value_counts": lambda pd, c: pd.DataFrame({"k": c.keys, "f": c.few}).value_counts(
                sort=False
            ),
            "polars.group_by": lambda pl, c: frame(pl, k=c.keys, f=c.few).group_by("k", "f").len(),
        },
        lambda found, c: same_groups(row_numbers(*found[0]), found[1], row_numbers(c.keys, c.few), 1),
        1,
        0,
    ),
    "value_counts_of_text": Verb(
        {},
        lambda found, c: same_groups(from_digits(on_host(found[0])), on_host(found[1]), on_host(c.keys), 1),
        1,
        0,
    ),
    "group_reduce_four": Verb(
        {
            "pandas.groupby": lambda pd, c: (
                pd.Series(c.values).groupby(c.keys, sort=False).agg(["sum", "min", "max", "count"])
            ),
            "polars.group_by": lambda pl, c: (
                frame(pl, k=c.keys, v=c.values)
                .group_by("k")
                .agg(
                    pl.col("v").sum(),
                    pl.col("v").min().alias("low"),
                    pl.col("v").max().alias("high"),
                    pl.len().alias("many"),
                )
            ),
            "torch.unique, scatter_reduce_": lambda torch, c: torch_four(torch, c.keys, c.values),
        },
        lambda found, c: right_aggregates(found, c),
        1,
        0,
    ),
    "join_indexer": Verb(
        joins_with("once") | {"torch.sort, searchsorted": lambda torch, c: torch_join(torch, c.keys, c.once)},
        right_pairs,
        1,
        1,
    ),
    "join_indexer_four": Verb(
        joins_with("four"),
        right_pairs_of_four,
        1,
        1,
    ),
}

OURS: dict[str, Callable[[Columns, str], Any]] = {
    "unique": lambda c, on: gh.unique(c.keys, device=on),
    "value_counts": lambda c, on: gh.value_counts(c.keys, device=on),
    "factorize": lambda c, on: gh.factorize(c.keys, device=on),
    "factorize_any": lambda c, on: gh.factorize(c.keys, order="any", device=on),
    **{verb: lambda c, on, verb=verb: gh.isin(c.keys, c.among(verb), device=on) for verb in AMONG},
    "group_reduce": lambda c, on: gh.group_reduce(c.keys, c.values, device=on),
    "group_reduce_floats": lambda c, on: gh.group_reduce(c.keys, c.floats, device=on),
    "group_reduce_reproducible": lambda c, on: gh.group_reduce(c.keys, c.floats, reproducible=True, device=on),
    "value_counts_of_two": lambda c, on: gh.value_counts((c.keys, c.few), **({} if on == "cpu" else {"device": on})),
    "value_counts_of_text": lambda c, on: gh.value_counts(c.text, device=on),
    "group_reduce_four": lambda c, on: gh.group_reduce(c.keys, c.values, FOUR, device=on),
    "join_indexer": lambda c, on: gh.join_indexer(c.keys, c.once, device=on),
    "join_indexer_four": lambda c, on: gh.join_indexer(c.keys, c.four, device=on),
}


def libraries(on: Any) -> dict[str, Any]:
    """Those that are installed and work on the device."""
    found = {}
    for name in ("pandas", "polars", "numpy") if on.name == "cpu" else ("cupy", "torch"):
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    return found


def repeated_long(on: Any, repeats: int, call: Callable[[], Any]) -> list[float]:
    """Seconds of each repeat; on a GPU, of as many as take SECONDS together."""
    seconds = repeated(on, repeats, lambda: None, call)
    while on.name != "cpu" and sum(seconds) < SECONDS:
        seconds += repeated(on, repeats, lambda: None, call)
    return seconds


def in_turn(
    whose: dict[str, Callable[[], Any]], on: Any, known: dict[str, Any], repeats: int
) -> dict[str, list[float]]:
    """Seconds of each repeat of the same verb by several libraries."""
    seconds: dict[str, list[float]] = {}
    for who in (*whose, *reversed(whose)):
        if who in seconds and (on.name == "cpu" or np.median(seconds[who]) > SHORT):
            continue
        give_back_memory(on, known)
        seconds[who] = seconds.get(who, []) + repeated_long(on, repeats, whose[who])
    return seconds


def give_back_memory(on: Any, known: dict[str, Any]) -> None:
    """What libraries keep for their next arrays on a GPU. In pieces, it would make some calls wait for more memory."""
    if on.name == "cpu":
        return
    on.xp.get_default_memory_pool().free_all_blocks()
    if "torch" in known:
        known["torch"].cuda.empty_cache()


def on_host(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(on_host(part) for part in found)
    if hasattr(found, "__arrow_c_array__"):
        return found
    return found.get() if hasattr(found, "get") and not isinstance(found, np.ndarray) else np.asarray(found)


def calls(verb: str, c: Columns, on: Any, known: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """The verb on these columns, by all that can do it."""
    ways = {f"gh.{verb}": lambda: OURS[verb](c, on.name)}
    for who, way in VERBS[verb].ways.items():
        library = known.get(who.partition(".")[0])
        if library is not None:
            ways[who] = lambda way=way, library=library: way(library, c)  # type: ignore[misc]
    return ways


def measure(on: Any, args: argparse.Namespace) -> Iterator[Row]:
    """Rows of every length, width, distribution and verb. Raises AssertionError at a wrong result."""
    for n in args.n:
        ceilings, long = Ceilings(on.name, n, args.repeats), n > MOST_OF_ALL_VERBS
        names = args.distribution or ([OF_LONG] if long else DISTRIBUTIONS)
        for width, name in itertools.product(args.key_bytes or [4], names):
            yield from measure_verbs(on, args.verb or (LONG if long else VERBS), name, n, width, args.repeats, ceilings)


def measure_verbs(
    on: Any, verbs: Iterable[str], name: str, n: int, width: int, repeats: int, ceilings: Ceilings
) -> Iterator[Row]:
    """Rows of one column."""
    known, c = libraries(on), Columns(on.xp, name, n, width)
    m = len(c.distinct)
    with gh.Table(key_dtype=f"u{width}", value_dtype="u4", capacity=m, device=on.name) as table:
        memory = table.nbytes
    for verb in verbs:
        if width > 4 and verb == "value_counts_of_text":  # which is the same column
            continue
        rule = VERBS[verb]
        least = sum(
            share * np.median(ceilings.seconds(what, memory))
            for what, share in (("cas64", rule.adds), ("gather8", rule.reads))
            if share
        )
        ceiling = 1 / least / 1e6
        assert rule.check(OURS[verb](c, on.name), c), f"{verb} of {name}: a wrong result"
        of_width = f" of {width} bytes" if width != 4 else ""
        for who, seconds in in_turn(calls(verb, c, on, known), on, known, repeats).items():
            found = rates(n, seconds)
            yield verb, name + of_width, n, m, who, *found, ceiling, found[0] / ceiling


def on_gpu(on: Any, rows: Sequence[Row]) -> Iterator[tuple[float, int]]:
    """(the share of the median call in which the GPU works, the copies to the host) of each row.

    Calls take longer from the first profile on, so that all are measured before. Raises ImportError where PyTorch is
    not installed.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    known = libraries(on)
    for (name, n), of_column in itertools.groupby(rows, lambda row: row[1:3]):
        kind, of, width = name.partition(" of ")
        c = Columns(on.xp, kind, n, int(width.split()[0]) if of else 4)
        for row in of_column:
            call = calls(row[0], c, on, known)[row[4]]
            call()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as seen:
                call()
                torch.cuda.synchronize()
            events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
            busy = sum(event.device_time for event in events) / 1e6
            yield busy * row[5] * 1e6 / n, sum("DtoH" in event.name for event in events)
        del c, call  # their memory is free before the next column is made


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.verbs", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument(
        "--n", type=whole(8), action="append", help="keys of a column; default: 2^22, on a GPU 2^24; may be repeated"
    )
    parser.add_argument("--key-bytes", type=int, action="append", choices=[4, 8], help="default: 4; may be repeated")
    parser.add_argument("--verb", action="append", choices=list(VERBS), help="may be repeated")
    parser.add_argument("--distribution", action="append", choices=list(DISTRIBUTIONS | UNEVEN), help="may be repeated")
    parser.add_argument("--report", help="name of the files; default: verbs-<device>")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    on = device(args.device)
    args.n = args.n or [1 << (22 if on.name == "cpu" else 24)]
    rows: list[Row] = []
    for row in measure(on, args):
        rows.append(row)
        print(f"{row[0]}, {row[1]}, {row[4]}: {row[5]:.1f} ({row[6]:.1f} .. {row[7]:.1f}) M/s", file=sys.stderr)
    if on.name != "cpu":
        rows = [(*row, *work) for row, work in zip(rows, on_gpu(on, rows), strict=True)]
    about = circumstances({on.name: on.model})
    text = f"# Verbs on whole columns\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    text += "Million keys per second; share: of the ceiling of the accesses that the verb needs.\n\n"
    if on.name != "cpu":
        text += "device: the share of a call in which the GPU works; trips: copies to the host.\n\n"
    header = HEADER if on.name == "cpu" else HEADER + ON_GPU
    cells = [
        (
            *row[:2], f"{row[2]:,}", f"{row[3]:,}", row[4], *(f"{rate:.1f}" for rate in row[5:9]), f"{row[9]:.0%}",
            *(f"{share:.0%}" for share in row[10:11]), *map(str, row[11:]),
        )
        for row in rows
    ]  # fmt: skip
    text += markdown_table(header, cells)
    stem = args.output / machine_name() / (args.report or f"verbs-{on.name.partition(':')[0]}")
    write_report(stem, text, about, [dict(zip(header, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
