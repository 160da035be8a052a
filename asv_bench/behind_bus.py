"""Tables of a GPU in host memory: rates by the size of batches, beside what the bus gives.

    python -m asv_bench.behind_bus --device cuda                      tables of 8 GiB, rows of 16, 64 and 128 bytes
    python -m asv_bench.behind_bus --device cuda --row 16 --gib 1     a first look
    python -m asv_bench.behind_bus --gib 0.01                         on the CPU: that it works, no ceilings

Keys have 8 bytes, values the rest of a row; the load is 0.8. `insert` fills the last quarter of the table, `fill` is
what filled the rest. `hit` and `miss` are finds, with values. Every answer is compared on the device. In-core is a
table of the same shape in the GPU's memory, served the same batches.

`hit, numpy arrays` has its keys and results in arrays of the host.

Ceilings, over as much pinned memory as the slots take, in the same run: `random` reads of rows; reads and writes of
rows in windows of 2 MiB, 2^22 of them; `stream`, all rows in order. Million rows or keys per second. Prints the table,
and writes <output>/<machine>/behind-bus-<device>.md and .json.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, pair, real, whole
from .harness.devices import device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, rate, write_report

LOAD = 0.8
WINDOW = 2 << 20
HEADER = ("row bytes", "what", "batch", "median", "min", "max", "GB/s")
Row = tuple[int, str, int, float, float, float, float]

# A row by as many lanes as it has pieces of 16 bytes. Order 0: at random; 1: in windows, random inside; 2: all of them
CEILING = r"""
extern "C" __global__ void rows_of(uint4* t, unsigned long long rows, unsigned n, int order, unsigned window_rows,
                                   unsigned lanes, int writes, unsigned* out) {
  unsigned long long g = blockIdx.x * 256ull + threadIdx.x, i = g / lanes;
  if (i >= n) return;
  unsigned long long k = i + 1;
  k ^= k >> 33; k *= 0xff51afd7ed558ccdull; k ^= k >> 33; k *= 0xc4ceb9fe1a85ec53ull; k ^= k >> 33;
  unsigned long long r = i;
  if (order == 0) r = __umul64hi(k, rows);
  if (order == 1) {
    r = (unsigned long long)((double)i * rows / n) / window_rows * window_rows + k % window_rows;
    if (r >= rows) r = rows - 1;
  }
  uint4* at = t + r * lanes + g % lanes;
  if (writes) {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0],{%1,%1,%1,%1};" ::"l"(at), "r"((unsigned)i) : "memory");
  } else {
    uint4 v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    if ((v.x ^ v.y) == 0x12345u && v.z == 7) out[0] = v.w;
  }
}
"""


def ceilings(on: Any, row_bytes: int, table_bytes: int, repeats: int) -> Iterator[Row]:
    """What pinned memory of this size gives a kernel that does nothing but reading or writing rows of it."""
    cupy = on.xp
    kernel = cupy.RawKernel(CEILING, "rows_of")
    memory = cupy.cuda.alloc_pinned_memory(table_bytes)
    rows, lanes = table_bytes // row_bytes, row_bytes // 16
    out = cupy.zeros(1, "u4")
    for what, n, order, writes in (
        ("read random", min(rows, 1 << 21), 0, 0),
        ("read in windows", min(rows, 1 << 22), 1, 0),
        ("read stream", min(rows, 1 << 31), 2, 0),
        ("write in windows", min(rows, 1 << 22), 1, 1),
    ):
        arguments = (np.uint64(memory.ptr), np.uint64(rows), np.uint32(n), order, np.uint32(WINDOW // row_bytes))
        arguments += (np.uint32(lanes), writes, out)
        work = functools.partial(kernel, (-(-n * lanes // 256),), (256,), arguments)
        yield row_of(row_bytes, what, n, repeated(on, repeats, work))


def repeated(on: Any, repeats: int, work: Any) -> list[float]:
    """Seconds of each repeat; one more goes before them, which does not count."""
    return [on.time(work) for _ in range(repeats + 1)][1:]


def row_of(row_bytes: int, what: str, n: int, seconds: Sequence[float]) -> Row:
    """Rates of a batch of n."""
    middle = n / statistics.median(seconds)
    return row_bytes, what, n, middle / 1e6, n / max(seconds) / 1e6, n / min(seconds) / 1e6, middle * row_bytes / 1e9


def values_of(xp: Any, index: Any, words: int) -> Any:
    """A value of so many 64-bit words for each index: distinct words, as rows of u4 where there are several."""
    one = index.astype("u8") * np.uint64(0x9E3779B97F4A7C15)
    if words == 1:
        return one
    return (one[:, None] + xp.arange(words, dtype="u8")[None, :]).view("u4")


class Bench:
    """A table, and the batches it is served. Keys 0 .. n-1 are its own; absent ones come after 2^40."""

    def __init__(self, on: Any, placement: str, row_bytes: int, slots: int, options: dict[str, str]) -> None:
        self.on, self.xp, self.row_bytes, self.words = on, on.xp, row_bytes, row_bytes // 8 - 1
        self.n = int(slots * LOAD)
        self.done = 0
        self.table = gh.Table(
            "stadium",
            key_dtype="u8",
            value_dtype="u8" if self.words == 1 else ("u4", 2 * self.words),
            capacity=self.n,
            max_load_factor=LOAD,
            grow=False,
            placement=placement,
            device=on.name,
            seed=1,
            **options,
        )

    def insert(self, size: int) -> float:
        """Seconds that a batch of fresh pairs takes."""
        index = self.xp.arange(self.done, self.done + size, dtype="u8")
        keys, values, mask = (
            random_keys(self.xp, index, 8),
            values_of(self.xp, index, self.words),
            self.xp.zeros(size, bool),
        )
        seconds = self.on.time(lambda: self.table.insert(keys, values, out=mask))
        assert bool(mask.all()), "an insert of a fresh key says no"
        self.done += size
        return float(seconds)

    def find(self, size: int, repeats: int, first: int) -> list[float]:
        """Seconds of finds of `size` keys at random; those of the table where first is 0, else absent ones."""
        return [self._find(size, first) for _ in range(repeats + 1)][1:]

    def _find(self, size: int, first: int) -> float:
        # Other keys each time: translations of the addresses of some thousand rows would be kept.
        index = self.xp.random.randint(0, self.done, size).astype("u8")
        keys = random_keys(self.xp, index + np.uint64(first), 8)
        out = values_of(self.xp, index, self.words)
        out.fill(7)
        found = self.xp.zeros(size, bool)
        seconds = self.on.time(lambda: self.table.find(keys, out=out, found=found))
        if first:
            assert not bool(found.any()), "an absent key was found"
            assert not bool(out.any()), "an absent key has a value"
        else:
            assert bool(found.all()), "a key was not found"
            for at in range(0, size, 1 << 22):
                part = slice(at, at + (1 << 22))
                assert bool((out[part] == values_of(self.xp, index[part], self.words)).all()), "a wrong value was found"
        return float(seconds)


def on_the_host(bench: Bench, size: int, repeats: int) -> Iterator[Row]:
    """Finds of numpy arrays: keys go up and values come down while rows are read."""
    index = np.random.default_rng(1).integers(0, bench.done, size).astype("u8")
    keys, out, found = random_keys(np, index, 8), values_of(np, index, bench.words), np.zeros(size, bool)
    expected = out.copy()
    out.fill(7)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        bench.table.find(keys, out=out, found=found)
        seconds.append(time.perf_counter() - start)
    assert found.all(), "a key was not found"
    assert (out == expected).all(), "a wrong value was found"
    yield row_of(bench.row_bytes, "hit, numpy arrays", size, seconds[1:])


def measure(on: Any, args: argparse.Namespace, row_bytes: int) -> Iterator[Row]:
    """The rows of one width. Raises AssertionError at a wrong answer."""
    slots = int(args.gib * (1 << 30)) // row_bytes
    most = min(args.most, slots // 4, (24 << 30) // row_bytes)
    sizes = [size for size in (1 << p for p in range(10, 30, args.step)) if size < most] + [most]
    if args.device != "cpu" and not args.tables_only:
        yield from ceilings(on, row_bytes, slots * row_bytes, args.repeats)
    for placement, what in (("host", ""), ("device", "in-core ")):
        if what and args.tables_only:
            continue
        bench = Bench(on, placement, row_bytes, slots, args.options if placement == "host" else {})
        part, fills = min(most, 1 << 26), []
        while bench.done + part <= bench.n * 3 // 4:
            fills.append(bench.insert(part))
        yield row_of(row_bytes, what + "fill", part, fills)
        for size in sizes:
            seconds = [bench.insert(size) for _ in range(args.repeats + 1) if bench.done + size <= bench.n][1:]
            if seconds:
                yield row_of(row_bytes, what + "insert", size, seconds)
            yield row_of(row_bytes, what + "hit", size, bench.find(size, args.repeats, 0))
            yield row_of(row_bytes, what + "miss", size, bench.find(size, args.repeats, 1 << 40))
        if not what:
            yield from on_the_host(bench, min(most, (1 << 29) // row_bytes), args.repeats)
        assert len(bench.table) == bench.done
        bench.table.close()


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.behind_bus", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--gib", type=real(0.001, 4096), default=8, help="of slots, 2^30 bytes; default: 8")
    parser.add_argument(
        "--row", type=whole(16, 256), action="append", help="bytes, a multiple of 16; default: 16, 64, 128"
    )
    parser.add_argument("--most", type=whole(1), default=1 << 28, help="the largest batch; default: 2^28, or a quarter")
    parser.add_argument("--step", type=whole(1, 40), default=3, help="batches grow by 2^STEP; default: 3")
    parser.add_argument("--tables-only", action="store_true", help="no ceilings, and nothing in-core")
    parser.add_argument(
        "--option", type=pair, action="append", default=[], help="of the table in host memory, key=value"
    )
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    args.options = dict(args.option)
    for row in args.row or []:
        if row % 16:
            parser.error(f"--row {row}: use a multiple of 16")
    on = device(args.device)
    rows = []
    start = time.perf_counter()
    for width in args.row or [16, 64, 128]:
        for row in measure(on, args, width):
            rows.append(row)
            at = time.perf_counter() - start
            print(
                f"{at:6.1f} s", *(f"{x:.4g}" if isinstance(x, float) else x for x in row), file=sys.stderr, flush=True
            )
    about = circumstances({on.name: on.model})
    cells = [(str(w), what, f"{n:,}", *map(rate, r[:3]), f"{r[3]:.1f}") for w, what, n, *r in rows]
    text = f"# Tables in host memory\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n"
    text += f"\nSlots of {args.gib:g} GiB, load {LOAD}, {args.repeats} repeats. Million rows or keys per second.\n\n"
    text += markdown_table(HEADER, cells)
    stem = args.output / machine_name() / f"behind-bus-{on.name.partition(':')[0]}"
    write_report(stem, text, about | {"options": args.options}, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
