"""Calls with one key, and a clock for them: shared by cpu_calls, gpu_calls, and `python -m asv_bench.overhead`."""

import statistics
import time

import numpy as np

import pygpuhash as gh

CALLS = 2000

# What is called, of a table `t`, with arrays of one key `k`, its value `v`, an output `o` and a mask `m`.
ARRAYS = {
    "find": lambda t, k, v, o, m: t.find(k),
    "find, out": lambda t, k, v, o, m: t.find(k, out=o, found=m),
    "contains": lambda t, k, v, o, m: t.contains(k),
    "get": lambda t, k, v, o, m: t.get(k),
    "t[k]": lambda t, k, v, o, m: t[k],
    "insert": lambda t, k, v, o, m: t.insert(k, v),
    "insert, one value": lambda t, k, v, o, m: t.insert(k, 42),
    "insert_or_assign": lambda t, k, v, o, m: t.insert_or_assign(k, v),
    "accumulate": lambda t, k, v, o, m: t.accumulate(k, 0),
    "erase and insert": lambda t, k, v, o, m: (t.erase(k), t.insert(k, v)),
    "find, signed keys": lambda t, k, v, o, m: t.find(v),
    "count": lambda t, k, v, o, m: t.count(k),
}
NUMBERS = {
    "find": lambda t: t.find(42),
    "contains": lambda t: t.contains(42),
    "k in t": lambda t: 42 in t,
    "get": lambda t: t.get(42),
    "t[k]": lambda t: t[42],
    "t[k] = v": lambda t: t.__setitem__(42, 42),
    "insert": lambda t: t.insert(42, 42),
    "insert_or_assign": lambda t: t.insert_or_assign(42, 42),
    "accumulate": lambda t: t.accumulate(42, 0),
    "erase": lambda t: t.erase(1042),
    "count": lambda t: t.count(42),
}


def batches(call, wait, clock):
    """Microseconds of a call in each of several batches of 100, the device waited for at the end of each batch."""
    seconds = []
    for _ in range(CALLS // 100):
        wait()
        start = clock()
        for _ in range(100):
            call()
        wait()
        seconds.append((clock() - start) / 100)
    return [1e6 * of for of in seconds]


def microseconds(call, wait):
    """Median by the wall clock."""
    return statistics.median(batches(call, wait, time.perf_counter))


def small_table(xp, backend, device):
    """(table of a hundred keys, arrays of one key and its value, outputs)."""
    table = gh.Table(backend, capacity=1000, device=device)
    table.insert(xp.arange(100, dtype="u8"), xp.arange(100, dtype="i8"))
    arrays = xp.asarray(np.array([42], "u8")), xp.asarray(np.array([42], "i8"))
    return table, arrays, (xp.empty(1, "i8"), xp.empty(1, bool))
