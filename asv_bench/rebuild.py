"""What growth of a table on the CPU takes: a rebuild into twice the size, against inserting the same pairs anew.

    python -m asv_bench.rebuild [--bits 22 24] [--backend NAME ...] [--threads 1 2] [--rounds N] [--widths 4+4]
    python -m asv_bench.rebuild --growth ...      instead: batches of 2^20 keys into a table that starts empty

2^26 keys (`--bits 26`) take 3 GB and minutes. Prints a table, one line for each backend, number of keys and threads:

    rebuild   `reserve(2 * limit)` of a table that is full to its limit: the pause of growth
    anew      the same pairs, in a shuffled order, inserted through the driver into an empty table of that size
    copy      the old storage copied twice, one after the other, into as much new memory as both copies take: what a
              rebuild into twice the size reads and writes at least. "fresh" memory comes from the system in between,
              as a rebuild's does; "touched" memory does not

Before each of these, memory of that size was touched and given back, since a virtual machine's first touch of a page
may be its host's business, and take ten times as long. All in milliseconds, the least of `rounds` that take turns, with
the range of the ratio anew / rebuild over the rounds; `cpu` is the processor time of the process, which other processes
disturb less.

With --growth each line is of a process of its own, and says the rate, the batches that took longest, which is the pause
of growth, the size of the table in the end, and how much memory the process had at most beside what it had before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds of a call."""
    wall, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - used


def copy(source: np.ndarray, target: np.ndarray, pool: ThreadPoolExecutor, threads: int) -> None:
    """Fill target with copies of source; each thread does its share."""
    parts = [(i * len(target) // threads, (i + 1) * len(target) // threads) for i in range(threads)]

    def one(begin: int, end: int) -> None:
        while begin < end:
            first = begin % len(source)
            many = min(end - begin, len(source) - first)
            target[begin : begin + many] = source[first : first + many]
            begin += many

    for done in [pool.submit(one, *part) for part in parts]:
        done.result()


def one_round(
    backend: str, keys: np.ndarray, values: np.ndarray, threads: int, limit: int
) -> dict[str, tuple[float, float]]:
    """Times of everything, once."""
    result = {}
    make = {"device": "cpu", "key_dtype": keys.dtype, "value_dtype": values.dtype, "threads": threads, "seed": 1}
    with gh.Table(backend, capacity=limit, **make) as table:
        table.insert(keys, values)
        before = table.info["bytes"]
        np.ones(5 * before // 16, np.int64)  # 2.5 times the storage
        result["rebuild"] = timed(lambda: table.reserve(2 * limit))
        after = table.info["bytes"]
        assert after > 1.5 * before, "nothing was rebuilt"
        assert len(table) == len(keys)
        sample = slice(None, None, max(1, len(keys) // 1000))
        found = table.find(keys[sample])
        assert found[1].all()
        assert np.array_equal(found[0], values[sample])
    with gh.Table(backend, capacity=2 * limit, **make) as table:
        result["anew"] = timed(lambda: table.insert(keys, values))
    source = np.ones(before // 8, np.int64)
    with ThreadPoolExecutor(threads) as pool:
        np.ones(5 * before // 16, np.int64)
        target = np.empty(after // 8, np.int64)
        result["fresh"] = timed(lambda: copy(source, target, pool, threads))
        result["touched"] = timed(lambda: copy(source, target, pool, threads))
    return result


def grow(backend: str, bits: int, threads: int, widths: str) -> str:
    """One line about growth from empty in batches of 2^20; runs in a process of its own."""
    key_type, value_type = (np.dtype(f"u{w}") for w in widths.split("+"))
    n, batch = 1 << bits, min(1 << bits, 1 << 20)
    factor = key_type.type(0x9E3779B1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make = {"device": "cpu", "key_dtype": key_type, "value_dtype": value_type, "threads": threads, "seed": 1}
    with gh.Table(backend, **make) as table:
        seconds = []
        for at in range(0, n, batch):
            keys = np.arange(at, at + batch, dtype=key_type) * factor
            values = keys.astype(value_type)
            seconds.append(timed(lambda k=keys, v=values: table.insert(k, v))[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(table) == n
        sample = np.arange(0, n, max(1, n // 1000), dtype=key_type) * factor
        found = table.find(sample)
        assert found[1].all()
        assert np.array_equal(found[0], sample.astype(value_type))
        mib = table.info["bytes"] >> 20
    total, longest = sum(seconds), sorted(seconds)[-2:]
    return (
        f"{backend:<13} 2^{bits}  {threads:>7}  {n / total / 1e6:8.0f}  {longest[-1] * 1e3:10.1f}"
        f"  {longest[0] * 1e3:10.1f}  {np.median(seconds) * 1e3:8.2f}  {mib:>9,}  {peak >> 10:>9,}"
    )


def print_growth(arguments: argparse.Namespace) -> None:
    """A table of grow()."""
    print("backend        keys  threads       M/s  longest ms     next ms    median  table MiB   peak MiB")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for bits in arguments.bits:
            for backend in arguments.backend:
                for threads in dict.fromkeys(arguments.threads):
                    print(pool.apply(grow, (backend, bits, threads, arguments.widths)), flush=True)


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.rebuild", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bits", type=whole(8, 40), nargs="+", default=[22, 24], help="log2 of the keys; default: 22 24"
    )
    parser.add_argument("--backend", nargs="+", default=["linear_probe", "slab_hash", "stadium"])
    parser.add_argument("--threads", type=whole(1, 4096), nargs="+", default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--rounds", type=whole(1), default=5)
    parser.add_argument(
        "--widths",
        choices=[f"{k}+{v}" for k in (4, 8) for v in (4, 8)],
        default="4+4",
        help="bytes of keys and values; default: 4+4",
    )
    parser.add_argument("--growth", action="store_true", help="growth from empty in batches of 2^20")
    args = parser.parse_args(arguments)
    if args.growth:
        print_growth(args)
        return 0
    key_type, value_type = (np.dtype(f"u{w}") for w in args.widths.split("+"))
    print(f"{args.widths} bytes, least of {args.rounds} rounds; load before: {os.getloadavg()[0]:.1f}\n")
    print("backend        keys  threads   rebuild      (cpu)       anew      (cpu)   copy: fresh   touched", end="")
    print("   anew / rebuild (range)   cpu / cpu   rebuild / fresh")
    for bits in args.bits:
        n = 1 << bits
        keys = np.random.default_rng(0).permutation(n).astype(key_type) * key_type.type(0x9E3779B1)
        values = np.arange(n, dtype=value_type)
        for backend in args.backend:
            for threads in dict.fromkeys(args.threads):
                rounds = [one_round(backend, keys, values, threads, n) for _ in range(args.rounds)]
                wall = {what: min(r[what][0] for r in rounds) for what in rounds[0]}
                used = {what: min(r[what][1] for r in rounds) for what in rounds[0]}
                ratios = sorted(r["anew"][0] / r["rebuild"][0] for r in rounds)

                times = [f"{wall[what] * 1e3:8.1f}  ({used[what] * 1e3:7.1f})" for what in ("rebuild", "anew")]
                copies = f"{wall['fresh'] * 1e3:11.1f}  {wall['touched'] * 1e3:8.1f}"
                better = f"{wall['anew'] / wall['rebuild']:6.1f} ({ratios[0]:4.1f} to {ratios[-1]:4.1f})"
                shares = f"{used['anew'] / used['rebuild']:9.1f}   {wall['rebuild'] / wall['fresh']:15.2f}"
                line = f"{backend:<13} 2^{bits}  {threads:>7}  {'   '.join(times)}   {copies}"
                print(f"{line}   {better}       {shares}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
