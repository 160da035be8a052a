"""The GPU as its users drive it: the first things that a program does with a table on a GPU, each with its figure.

    python -m asv_bench.gpu_user                      everything, about a minute
    python -m asv_bench.gpu_user --row calls --row growth
    python -m asv_bench.gpu_user --row short          10^6 streams, some minutes

Every row checks the results of what it times. Rows that need a library or a second GPU that is not there say so. Prints
a table and writes <output>/<machine>/gpu-user.md and .json.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import resource
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh
from pygpuhash import _core, _device_arrays

from .harness.devices import Unavailable, device
from .harness.keys import random_keys
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report
from .skew import DISTRIBUTIONS

BACKENDS = ("linear_probe", "slab_hash")
THAT_GROW_FAST = (*BACKENDS, "hive")
U4 = {"key_dtype": "uint32", "value_dtype": "uint32"}
Figure = tuple[str, str, str, dict[str, Any]]  # what, with what, the figure as text, the figures


def module(name: str) -> Any:
    """A library that may be absent."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"needs {name}: {error}") from error


def host_microseconds(call: Callable[[], object], wait: Callable[[], object], calls: int = 1000) -> float:
    """Time until a call returns: median of ten rounds of calls; the device is waited for between rounds."""
    rounds = []
    for _ in range(10):
        wait()
        start = time.perf_counter()
        for _ in range(calls // 10):
            call()
        rounds.append((time.perf_counter() - start) / (calls // 10))
    wait()
    return statistics.median(rounds) * 1e6


# ---- the rows --------------------------------------------------------------------------------------------------------


STREAMS = """
import gc, sys, threading
import cupy
import pygpuhash as gh
table = gh.Table(sys.argv[1], key_dtype="uint32", value_dtype="uint32", device="cuda:0")
def work(i):
    with cupy.cuda.Stream(non_blocking=True):
        keys = cupy.arange(i << 20, i + 1 << 20, dtype="u4")
        for part in cupy.array_split(keys, 16):
            table.insert(part.copy(), part.copy())
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for t in threads: t.start()
for t in threads: t.join()
gc.collect()
assert len(table) == 6 << 20
table.check()
del table
gc.collect()
"""


def streams_that_end() -> Iterator[Figure]:
    """Threads with a stream each insert into one growing table, end, and the table is dropped later."""
    module("cupy")
    for backend in BACKENDS:
        done = subprocess.run([sys.executable, "-c", STREAMS, backend], capture_output=True, text=True, check=False)
        said = "6 x 2^20 keys, all there" if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-200:]}"
        yield "threads with a stream each, which end", backend, said, {"status": done.returncode}


def short_streams() -> Iterator[Figure]:
    """10^6 streams that live for one insert and one find of 64 keys each: time and memory of each tenth."""
    cupy = module("cupy")
    keys = cupy.arange(64, dtype="u4")
    mask, out = cupy.empty(64, bool), cupy.empty(64, "u4")
    everything, part = 10**6, 10**5
    for backend in BACKENDS:
        with gh.Table(backend, device="cuda:0", **U4) as t:
            us, host, on_device = [], [], []
            for begin in range(0, everything, part):
                start = time.perf_counter()
                for _ in range(begin, begin + part):
                    with cupy.cuda.Stream(non_blocking=True):
                        t.insert(keys, keys, out=mask)
                        t.find(keys, out=out, found=mask)
                cupy.cuda.Device(0).synchronize()
                us.append((time.perf_counter() - start) / part * 1e6)
                host.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20)
                free, of_all = cupy.cuda.runtime.memGetInfo()
                on_device.append((of_all - free) / 2**20)
            assert len(t) == 64
            assert bool(mask.all())
        text = (
            f"us a stream {us[0]:.1f} in the first tenth, {us[-1]:.1f} in the last; host MiB {host[0]:.0f} and "
            f"{host[-1]:.0f}, device MiB {on_device[0]:.0f} and {on_device[-1]:.0f}"
        )
        yield "10^6 streams that live for two calls", backend, text, {"us": us, "host": host, "device": on_device}


def graphs() -> Iterator[Figure]:
    """torch.cuda.graph around find and insert_or_assign."""
    torch = module("torch")
    for backend in BACKENDS:
        with gh.Table(
            backend, key_dtype="int64", value_dtype="int64", capacity=1 << 20, grow=False, device="cuda:0"
        ) as t:
            keys = torch.arange(1 << 10, device="cuda")
            values, out = keys.clone(), torch.empty_like(keys)
            mask, found = (torch.empty(1 << 10, dtype=torch.bool, device="cuda") for _ in range(2))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                t.insert_or_assign(keys, values, out=mask)
                t.find(keys, out=out, found=found)
            for i in range(3):
                values.fill_(i)
                graph.replay()
                assert bool(found.all())
                assert bool((out == i).all())
            us = host_microseconds(graph.replay, torch.cuda.synchronize)
            yield "a graph of insert_or_assign and find, 2^10 keys", backend, f"{us:.1f} us a replay", {"us": us}


def calls() -> Iterator[Figure]:
    """Host time of small calls, with CuPy arrays and PyTorch tensors."""
    for name in ("cupy", "torch"):
        lib = module(name)
        wait = lib.cuda.synchronize if name == "torch" else lib.cuda.Device(0).synchronize
        launch = statistics.median(gh.measure_ceiling("launch", device="cuda:0", n=100, repeats=10)) * 1e4
        for backend in BACKENDS:
            with gh.Table(backend, key_dtype="int64", value_dtype="int64", capacity=1 << 20, device="cuda:0") as t:
                for n in (1, 1 << 10, 1 << 16):
                    keys = lib.arange(n, device="cuda") if name == "torch" else lib.arange(n)
                    t.insert(keys, keys)
                    values, found = t.find(keys)
                    assert bool(found.all())
                    assert bool((values == keys).all())
                    addresses = [_device_arrays.view(a, 0, 0, "an array").ptr for a in (keys, values, found)]
                    figures = {
                        "find, out=": lambda t=t, k=keys, v=values, f=found: t.find(k, out=v, found=f),
                        "find": lambda t=t, k=keys: t.find(k),
                        "insert, out=": lambda t=t, k=keys, f=found: t.insert(k, k, out=f),
                        "insert": lambda t=t, k=keys: t.insert(k, k),
                        "of these the library": lambda t=t, n=n, a=addresses: t._raw(
                            _core.OP_FIND, n, a[0], out_values=a[1], out_status=a[2]
                        ),
                    }
                    us = {what: host_microseconds(call, wait) for what, call in figures.items()}
                    us["of these the launch of an empty kernel"] = launch
                    text = ", ".join(f"{what} {time:.1f}" for what, time in us.items())
                    yield f"host time of a call, {n:,} keys, {name}", backend, f"us: {text}", us


def growth() -> Iterator[Figure]:
    """2^26 keys in batches of 2^20 into a table that starts empty."""
    cupy = module("cupy")
    n, batch = 1 << 26, 1 << 20
    keys = cupy.arange(n, dtype="u4") * cupy.uint32(2654435761)
    sync = cupy.cuda.Device(0).synchronize
    for backend in BACKENDS:
        for _ in range(2):  # the second time counts: pools have their memory
            with gh.Table(backend, device="cuda:0", **U4) as t:
                mask = cupy.empty(batch, bool)
                seconds = []
                sync()
                begin = time.perf_counter()
                for at in range(0, n, batch):
                    start = time.perf_counter()
                    t.insert(keys[at : at + batch], keys[at : at + batch], out=mask)
                    sync()
                    seconds.append(time.perf_counter() - start)
                total = time.perf_counter() - begin
                assert len(t) == n
        with gh.Table(backend, device="cuda:0", **U4) as t:
            sync()
            begin = time.perf_counter()
            for at in range(0, n, batch):
                t.insert(keys[at : at + batch], keys[at : at + batch], out=mask)
            sync()
            queued = time.perf_counter() - begin
            assert len(t) == n
        longest, median = max(seconds), statistics.median(seconds)
        text = (
            f"{n / queued / 1e9:.2f} G/s; each waited for: {n / total / 1e9:.2f} G/s, longest batch "
            f"{1e3 * longest:.2f} ms, median {1e3 * median:.3f} ms"
        )
        figures = {"keys_per_second": n / queued, "waited": n / total, "longest": longest, "median": median}
        yield "2^26 keys in batches of 2^20, from empty", backend, text, figures


def large_growth() -> Iterator[Figure]:
    """2^27 keys in batches of 2^20 to 2^26 into a table that starts empty, and into one with room for all."""
    cupy = module("cupy")
    n = 1 << 27
    keys = cupy.arange(n, dtype="u4") * cupy.uint32(2654435761)
    mask = cupy.empty(n, bool)
    sync = cupy.cuda.Device(0).synchronize
    for backend in THAT_GROW_FAST:
        for batch in (1 << 20, 1 << 22, 1 << 24, 1 << 26):
            rates = {}
            for name, capacity in (("from empty", 0), ("with room", n)):
                seconds = []
                for _ in range(4):  # the first time does not count: pools have their memory then
                    with gh.Table(backend, device="cuda:0", capacity=capacity, **U4) as t:
                        sync()
                        start = time.perf_counter()
                        for at in range(0, n, batch):
                            part = slice(at, at + batch)
                            t.insert(keys[part], keys[part], out=mask[part])
                        sync()
                        seconds.append(time.perf_counter() - start)
                        assert len(t) == n
                        assert bool(mask.all())
                rates[name] = n / statistics.median(seconds[1:])
            text = ", ".join(f"{name} {rate / 1e9:.2f} G/s" for name, rate in rates.items())
            yield f"2^27 keys in batches of 2^{batch.bit_length() - 1}", backend, text, rates


def first_batch() -> Iterator[Figure]:
    """The first batch of a table of default size: 2^24 keys, of which some are frequent."""
    cupy = module("cupy")
    n = 1 << 24
    sync = cupy.cuda.Device(0).synchronize
    for kind, make in DISTRIBUTIONS.items():
        keys = random_keys(cupy, make(cupy, n), 4)
        distinct = int(cupy.unique(keys).size)
        for backend in THAT_GROW_FAST:
            seconds = []
            for _ in range(4):  # as above
                with gh.Table(backend, device="cuda:0", **U4) as t:
                    mask = cupy.empty(n, bool)
                    sync()
                    start = time.perf_counter()
                    t.insert(keys, keys, out=mask)
                    sync()
                    seconds.append(time.perf_counter() - start)
                    assert len(t) == distinct == int(mask.sum())
            ms = [1e3 * s for s in seconds[1:]]
            text = f"{statistics.median(ms):.2f} ms ({min(ms):.2f} .. {max(ms):.2f}), {distinct:,} keys are new"
            yield f"first batch, 2^24 keys, {kind}", backend, text, {"ms": ms, "distinct": distinct}


def bus_seconds(up: int, down: int) -> float:
    """Seconds in which the bus moves so many bytes up and so many down, in both directions at once, each by one copy of
    pinned memory: the least of nine."""
    cuda = module("cupy").cuda
    above, below = (cuda.Stream(non_blocking=True) for _ in range(2))
    pinned, on_device = ([make(n) for n in (up, down)] for make in (cuda.alloc_pinned_memory, cuda.alloc))
    ms = []
    for _ in range(9):
        begin, sent, fetched = (cuda.Event() for _ in range(3))
        begin.record(above)
        below.wait_event(begin)
        on_device[0].copy_from_host_async(pinned[0].ptr, up, above)
        on_device[1].copy_to_host_async(pinned[1].ptr, down, below)
        sent.record(above)
        fetched.record(below)
        for event in (sent, fetched):
            event.synchronize()
        ms.append(max(cuda.get_elapsed_time(begin, event) for event in (sent, fetched)))
    return min(ms) / 1e3


def host_arrays() -> Iterator[Figure]:
    """numpy arrays in and out of a table, beside what the bus alone takes for their bytes, measured now."""
    n = 1 << 24
    into, out_of = (n / bus_seconds(up * n, down * n) for up, down in ((8, 1), (4, 5)))
    bus = {"insert": into, "find": out_of, "find, new arrays": out_of}
    keys = np.random.default_rng(1).permutation(n).astype("u4")
    values, out, mask = keys * np.uint32(3), np.zeros(n, "u4"), np.zeros(n, bool)
    for backend in BACKENDS:
        with gh.Table(backend, capacity=n, device="cuda:0", **U4) as t:
            rates: dict[str, list[float]] = {}
            for _ in range(7):
                t.clear()
                for name, call in (
                    ("insert", lambda: t.insert(keys, values, out=mask)),
                    ("find", lambda: t.find(keys, out=out, found=mask)),
                    ("find, new arrays", lambda: t.find(keys)),
                ):
                    start = time.perf_counter()
                    call()
                    seconds = time.perf_counter() - start
                    assert mask.all()
                    rates.setdefault(name, []).append(n / seconds)
            assert (out == values).all()
        text = "; ".join(
            f"{name} {statistics.median(r) / 1e9:.2f} G/s ({min(r) / 1e9:.2f} .. {max(r) / 1e9:.2f}), "
            f"{statistics.median(r) / bus[name]:.0%} of the {bus[name] / 1e9:.2f} of the bus"
            for name, r in rates.items()
        )
        yield "numpy arrays, 2^24 keys", backend, text, {"rates": rates, "bus": bus}


def second_gpu() -> Iterator[Figure]:
    """PyTorch tensors on cuda:1, a table on cuda:1, current device 0."""
    torch = module("torch")
    if torch.cuda.device_count() < 2:
        raise Unavailable("needs two GPUs")
    torch.cuda.set_device(0)
    keys = torch.arange(1 << 20, device="cuda:1")
    for backend in BACKENDS:
        with gh.Table(backend, key_dtype="int64", value_dtype="int64", device="cuda:1") as t:
            fresh = t.insert(keys, keys)
            values, found = t.find(keys)
            assert bool(fresh.all())
            assert bool(found.all())
            assert bool((values == keys).all())
            assert values.device == keys.device
            yield "tensors and table on cuda:1, cuda:0 current", backend, "tensors on cuda:1", {}


def jax_arrays() -> Iterator[Figure]:
    """JAX arrays in; a default of get; every value of every key."""
    jax = module("jax")
    jax.config.update("jax_enable_x64", True)  # or it has no int64, which counts and offsets are
    keys = jax.numpy.arange(1000, dtype="uint32")
    with gh.Table("linear_probe", device="cuda:0", **U4) as t:
        fresh = t.insert(keys, keys)
        got = t.get(keys + 500, 7)
        assert bool(fresh.all())
        assert (np.asarray(got) == np.where(np.arange(1000) < 500, np.arange(1000) + 500, 7)).all()
        yield "JAX arrays in", "linear_probe", f"{type(got).__module__.partition('.')[0]} arrays out", {}
    with gh.Table("slab_hash", device="cuda:0", duplicates=True, **U4) as t:
        t.insert_multi(keys // 2, keys)
        offsets, values = t.find_all(keys[:500])
        assert (np.diff(np.asarray(offsets)) == 2).all()
        assert (np.sort(np.asarray(values)) == np.arange(1000)).all()
        yield "find_all of JAX arrays", "slab_hash", f"{values.size} values of 500 keys", {}


def packages() -> Iterator[Figure]:
    """The libraries that took part."""
    for name in ("cuda-core", "cuda-bindings", "cupy-cuda13x", "torch", "jax", "numpy"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "absent"
        yield "version", name, version, {}


def compared() -> Iterator[Figure]:
    """`pygpuhash compare`, of random keys."""
    from pygpuhash import compare, workload

    work = workload.make("random keys", np.random.default_rng(1).integers(0, 1 << 20, 1 << 20, np.uint64))
    for backend in BACKENDS:
        result = compare.run_backend(work, backend, "cuda:0")
        assert result.verified, result.error
        text = ", ".join(f"{name} {p.rate / 1e9:.2f}" for name, p in result.phases.items())
        short = ", ".join(f"{name} {1e6 * s:.1f} us" for name, s in result.short_call.items())
        figures = {name: p.rate for name, p in result.phases.items()} | result.short_call
        yield "compare, 2^20 keys repeated to 2^24", backend, f"G/s: {text}; a short call: {short}", figures


ROWS = {
    "packages": packages,
    "streams": streams_that_end,
    "graphs": graphs,
    "calls": calls,
    "growth": growth,
    "large": large_growth,
    "first": first_batch,
    "host": host_arrays,
    "second": second_gpu,
    "jax": jax_arrays,
    "compare": compared,
    "short": short_streams,
}
LONG = ("short",)  # rows that take minutes, measured where they are named


def measure(names: Sequence[str]) -> list[Figure]:
    """All figures of some rows; a row that fails says with what, and the others are measured all the same."""
    figures: list[Figure] = []
    for name in names:
        try:
            for figure in ROWS[name]():
                figures.append(figure)
                print(f"{figure[0]}; {figure[1]}: {figure[2]}", file=sys.stderr, flush=True)
        except Unavailable as error:
            figures.append((str(ROWS[name].__doc__), "", f"not measured: {error}", {}))
        except Exception as error:
            traceback.print_exc()
            figures.append((str(ROWS[name].__doc__), "", f"FAILED: {type(error).__name__}: {error}", {"failed": True}))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Status 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.gpu_user", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--row", action="append", choices=list(ROWS), help="only this one; may be repeated")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    try:
        on = device("cuda")
    except Unavailable as error:
        print(f"gpu_user: {error}", file=sys.stderr)
        return 2
    figures = measure(args.row or [name for name in ROWS if name not in LONG])
    about = circumstances({"cuda": on.model})
    rows = [(what, of, text) for what, of, text, _ in figures]
    text = f"# What a user does on a GPU\n\n{on.model}; {about['date']}.\n\n"
    text += markdown_table(("what a user does", "with", "what happens"), rows)
    records = [{"what": w, "with": o, "text": t, "figures": f} for w, o, t, f in figures]
    write_report(args.output / machine_name() / "gpu-user", text, about, records)
    return 1 if any(f.get("failed") for *_, f in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
