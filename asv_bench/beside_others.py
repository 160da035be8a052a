"""Small batches on a CPU, alone and beside busy processes, by number of threads.

    python -m asv_bench.beside_others [--keys N] [--batches N] [--rounds N] [--busy N]

Prints a table: seconds of wall-clock and processor time for inserting and finding `batches` batches of `keys` keys, the
median and the range of `rounds` rounds. The settings take turns, so that what else the machine does meets all of them.
What it shows is whether threads cost more than they bring where other processes want the cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections import defaultdict

import numpy as np

import pygpuhash as gh


def burn() -> None:
    """Keep one core busy."""
    while True:
        pass


def one_run(backend: str, keys: np.ndarray, size: int, threads: int | None) -> tuple[float, float]:
    """Wall-clock and processor seconds of all batches."""
    with gh.Table(backend, device="cpu", threads=threads, capacity=len(keys), seed=1) as table:
        wall, used = time.perf_counter(), time.process_time()
        for first in range(0, len(keys), size):
            part = keys[first : first + size]
            table.insert(part, 1)
            table.find(part)
        return time.perf_counter() - wall, time.process_time() - used


def measure(arguments: argparse.Namespace, busy: int) -> dict[int | None, list[tuple[float, float]]]:
    """Rounds of every setting, with so many busy processes beside."""
    random = np.random.default_rng(0)
    keys = random.permutation(np.arange(arguments.keys * arguments.batches, dtype=np.uint64))
    others = [multiprocessing.get_context("spawn").Process(target=burn, daemon=True) for _ in range(busy)]
    for process in others:
        process.start()
    time.sleep(1.0 if busy else 0.0)
    results: dict[int | None, list[tuple[float, float]]] = defaultdict(list)
    settings = [None, *range(1, len(os.sched_getaffinity(0)) + 1)]
    try:
        for _ in range(arguments.rounds):
            for threads in settings:
                results[threads].append(one_run(arguments.backend, keys, arguments.keys, threads))
    finally:
        for process in others:
            process.terminate()
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="linear_probe")
    parser.add_argument("--keys", type=int, default=20_000, help="keys per batch; default: 20000")
    parser.add_argument("--batches", type=int, default=100, help="batches per run; default: 100")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each setting; default: 7")
    parser.add_argument("--busy", type=int, default=2, help="busy processes of the second part; default: 2")
    arguments = parser.parse_args()
    print(f"{arguments.backend}, {arguments.batches} batches of {arguments.keys:,} keys, inserted and found;")
    print(f"{arguments.rounds} rounds; load of the machine before: {os.getloadavg()[0]:.1f}\n")
    print("busy beside  threads   wall, s (range)            cpu, s   wall / best")
    for busy in (0, arguments.busy):
        results = measure(arguments, busy)
        walls = {threads: [wall for wall, _ in runs] for threads, runs in results.items()}
        best = min(statistics.median(w) for w in walls.values())
        for threads, runs in results.items():
            wall, used = statistics.median(walls[threads]), statistics.median(used for _, used in runs)
            spread = f"({min(walls[threads]):.3f} to {max(walls[threads]):.3f})"
            name = "default" if threads is None else threads
            print(f"{busy:>11}  {name:>7}   {wall:.3f} {spread:<20} {used:.3f}   {wall / best:.2f}")


if __name__ == "__main__":
    main()
