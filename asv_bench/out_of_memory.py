"""A growing table that runs out of memory: the time until the error, and what calls take afterwards.

    python -m asv_bench.out_of_memory [--device cuda] [--bits 24] [--backend NAME ...] [--every 1] [--limit 20]

A memory resource refuses the i-th allocation of a batch of 2^bits distinct keys into an empty table, and all that
follow; each i in turn, or every so many of them. The refused batch is timed, and then, while there is still no memory,
finds of 2^10 present and of 2^10 absent keys, an insert of 2^20 new keys, and `check`. Then there is memory again: the
insert of one new key, which has to grow the table, and of all keys that are missing. Every answer is compared with what
the statuses of the batch say; a point that takes longer than --limit seconds is stopped.

Prints a line for each structure: how many allocations were refused in turn, and the longest time of each step in
milliseconds, with the number of points that were stopped; with --points a line for each of them, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, real, whole
from .harness.devices import Device, device

BACKENDS = ["linear_probe", "stadium", "hive", "slab_hash", "skiplist"]
FEW, MORE = 1 << 10, 1 << 20
STEPS = ["insert", "present", "absent", "more", "check", "one", "rest"]


class Memory:
    """Memory of a device, of which allocation number `last` and all later ones are refused; 0: none is."""

    def __init__(self, on: Device) -> None:
        self.on, self.last, self.asked = on, 0, 0
        self.held: dict[int, Any] = {}

    def allocate(self, nbytes: int, alignment: int, stream: object) -> int:
        """The address of a block, or 0."""
        self.asked += 1
        if self.last and self.asked >= self.last:
            return 0
        block = self.on.xp.empty(nbytes + alignment, np.uint8)
        start = block.ctypes.data if self.on.name == "cpu" else block.data.ptr
        address = -(-start // alignment) * alignment
        self.held[address] = block
        return address

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: object) -> None:
        """Take a block back, which may be in use on some stream."""
        self.on.wait()
        del self.held[address]


def timed(on: Device, work: Callable[[], Any]) -> tuple[float, Any, gh.TableFull | None]:
    """Seconds that `work` takes, and what it returns or says."""
    result, full = None, None
    on.wait()
    start = time.perf_counter()
    try:
        result = work()
    except gh.TableFull as error:
        full = error
    on.wait()
    return time.perf_counter() - start, result, full


def make(backend: str, memory: Memory) -> gh.Table:
    """An empty table, which grows."""
    return gh.Table(backend, key_dtype="u8", value_dtype="u8", device=memory.on.name, memory=memory, seed=1)


def keys_of(bits: int, on: Device) -> Any:
    """Distinct keys: those of the batch, and MORE others."""
    return on.xp.arange(1, (1 << bits) + MORE + 1, dtype="u8") * on.xp.uint64(0x9E3779B97F4A7C15)


def allocations(backend: str, bits: int, where: str, tell: Any) -> None:
    """How many allocations a batch makes that goes into an empty table."""
    on = device(where)
    memory = Memory(on)
    keys = keys_of(bits, on)[: 1 << bits]
    with make(backend, memory) as table:
        before = memory.asked
        table.insert(keys, keys)
        tell.send(memory.asked - before)


def point(backend: str, bits: int, where: str, tell: Any, refused: int) -> None:
    """Seconds of each step, one after the other."""
    on = device(where)
    keys, n, xp = keys_of(bits, on), 1 << bits, on.xp
    memory = Memory(on)
    with make(backend, memory) as table:
        memory.last = memory.asked + refused

        def step(work: Callable[[], Any]) -> tuple[Any, gh.TableFull | None]:
            seconds, result, full = timed(on, work)
            tell.send(seconds)
            return result, full

        _, full = step(lambda: table.insert(keys[:n], keys[:n]))
        there = xp.ones(n, bool) if full is None else ~xp.asarray(full.failed)
        assert len(table) == there.sum(), "the table has other keys than the statuses say"
        present, absent = keys[:n][there][-FEW:], keys[:n][~there][-FEW:]
        (values, found), _ = step(lambda: table.find(present))
        assert found.all(), "a key that was inserted is missing"
        assert (values == present).all(), "a key has another value"
        (_, found), _ = step(lambda: table.find(absent))
        assert not found.any(), "a key that was refused is there"
        _, full = step(lambda: table.insert(keys[n:], keys[n:]))
        there = xp.concatenate([there, xp.ones(MORE, bool) if full is None else ~xp.asarray(full.failed)])
        step(table.check)
        memory.last = 0
        one = keys[~there][:1] if len(keys[~there]) else keys[:1]
        step(lambda: table.insert(one, one))
        step(lambda: table.insert(keys, keys))
        assert len(table) == len(keys), "a key is missing although there was memory for it"
        assert table.find(keys)[1].all(), "a key is missing although there was memory for it"
        table.check()


def apart(limit: float, work: Callable[..., None], *args: Any) -> list[Any]:
    """What work tells within the limit, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*args[:3], there, *args[3:]))
    process.start()
    there.close()
    process.join(limit)
    if stopped := process.is_alive():
        process.kill()
        process.join()
    told = []
    while here.poll():
        try:
            told.append(here.recv())
        except EOFError:
            break
    if not stopped and process.exitcode:
        raise SystemExit(f"out_of_memory: {work.__name__}{args} ended with an error")
    return told


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.out_of_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda, with CuPy; default: cpu")
    parser.add_argument("--bits", type=whole(8, 32), default=24, help="log2 of the keys; default: 24")
    parser.add_argument("--backend", nargs="+", default=BACKENDS)
    parser.add_argument("--every", type=whole(1), default=1, help="of the allocations, only each n-th, and the last")
    parser.add_argument("--limit", type=real(1, 1e6), default=20.0, help="seconds that a point may take; default: 20")
    parser.add_argument("--points", action="store_true", help="a line for each allocation")
    args = parser.parse_args(arguments)
    print(f"2^{args.bits} keys of 8 + 8 bytes on {device(args.device).model}; the longest of all points, ms")
    print(f"{'':<13}  refused  stopped" + "".join(f"{name:>10}" for name in STEPS))
    for backend in args.backend:
        [n] = apart(1e6, allocations, backend, args.bits, args.device)
        points = sorted({*range(1, n + 1, args.every), n})
        longest, stopped = [0.0] * len(STEPS), 0
        for refused in points:
            seconds = apart(args.limit, point, backend, args.bits, args.device, refused)
            stopped += len(seconds) < len(STEPS)
            longest[: len(seconds)] = [max(a, b) for a, b in zip(longest, seconds, strict=False)]
            if args.points:
                print(f"{refused:>22}         " + "".join(f"{s * 1e3:10.1f}" for s in seconds), flush=True)
        print(
            f"{backend:<13}  {len(points):>7}  {stopped:>7}" + "".join(f"{s * 1e3:10.1f}" for s in longest), flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
