"""A table larger than the memory that it is given: built, found, erased, verified.

    python -m asv_bench.larger_than_memory --device cuda                 10^8 pairs in pinned memory of the host
    python -m asv_bench.larger_than_memory --path points.stadium --group 10^8 pairs in a file, a quarter of it in memory
    python -m asv_bench.larger_than_memory --path points.stadium --pairs 200000 --value-words 62

On a GPU, the table gets its memory from a resource that refuses more than --allowed bytes: with placement=device that
is an error, with placement=host the tickets fit. On the CPU, --group puts this process into a control group of the
system that may have --allowed bytes besides its arrays and tickets; this needs the right to make one. Without it, pages
of the file are taken out of memory (msync, madvise, posix_fadvise) after each batch that leaves more than half of that,
so that batches have to be small, and nearly every operation on a present key waits for a page. In either case mincore
counts how much of the slots is in memory.

Keys have 8 bytes, values so many words of 4. Every answer is compared with a numpy model: values with what was
inserted; half of the keys are erased, and everything is looked up again; absent keys are not found. Prints a line for
each step, with the time that the table took, and how many pages at random threads read from the same file.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import whole
from .harness.devices import Unavailable, device
from .harness.keys import random_keys

PAGE = 4096
MS_SYNC, DONTNEED = 4, 4  # of Linux


class Pages:
    """The pages of a file that this process has mapped, of which no more than `allowed` bytes stay in memory."""

    def __init__(self, path: Path, allowed: int) -> None:
        self.path, self.allowed, self.most, self.resident = path.resolve(), allowed, 0, 0
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.file = os.open(path, os.O_RDONLY)

    def mappings(self) -> Iterator[tuple[int, int]]:
        """Address and bytes of each part that may be taken out; tickets are locked."""
        locked, where = False, None
        for line in Path("/proc/self/smaps").read_text().splitlines():
            fields = line.split()
            if line.endswith(str(self.path)):
                begin, end = (int(x, 16) for x in fields[0].split("-"))
                where = begin, end - begin
            elif fields[0] == "VmFlags:":
                locked = "lo" in fields
                if where and not locked:
                    yield where
                where = None

    def count(self) -> list[tuple[int, int]]:
        """Count what is in memory: to `most`, and to `resident`. The parts that were counted."""
        self.resident = 0
        there = list(self.mappings())
        for begin, size in there:
            states = np.zeros(-(-size // PAGE), np.uint8)
            if self.libc.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(size), ctypes.c_void_p(states.ctypes.data)):
                raise OSError(ctypes.get_errno(), "mincore")
            self.resident += int((states & 1).sum()) * PAGE
        self.most = max(self.most, self.resident)
        return there

    def trim(self) -> None:
        """Count what is in memory, and take all of it out if that is more than half of what is allowed."""
        there = self.count()
        if 2 * self.resident > self.allowed:
            self.drop(there)

    def drop(self, there: Sequence[tuple[int, int]]) -> None:
        """Take all of it out."""
        for begin, size in there:
            where = ctypes.c_void_p(begin), ctypes.c_size_t(size)
            if self.libc.msync(*where, MS_SYNC) or self.libc.madvise(*where, DONTNEED):  # nothing is lost
                raise OSError(ctypes.get_errno(), "msync, madvise")
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def random_reads(self, pages: int, threads: int) -> float:
        """Pages at random per second, each read by one call when none of the file is in memory."""
        self.drop(self.count())
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)
        parts = np.array_split(
            np.random.default_rng(1).integers(0, os.fstat(self.file).st_size // PAGE, pages), threads
        )

        def read(part: Any) -> None:
            for page in part.tolist():
                os.pread(self.file, PAGE, page * PAGE)

        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(read, parts))
        return pages / (time.perf_counter() - start)


class Group:
    """A control group of the system with a limit of its memory, which this process is in until close().

    A thread counts the slots that are in memory, and moves the limit so that the process's arrays come on top of it.
    """

    def __init__(self, pages: Pages) -> None:
        root = Path("/sys/fs/cgroup")
        old = root / "memory" / "memory.limit_in_bytes"
        self.parent, name = (old.parent, old.name) if old.exists() else (root, "memory.max")
        self.path = self.parent / f"larger_than_memory-{os.getpid()}"
        self.pages, self.limit, self.end = pages, self.path / name, threading.Event()
        try:
            self.path.mkdir()
            self.limit.write_text(str(pages.allowed))
            (self.path / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            self._leave()
            raise Unavailable(f"a control group with a limit of memory cannot be made: {error}") from None
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.end.wait(0.1):
            with suppress(OSError):  # the table is closed meanwhile; or the limit cannot be lowered so far just now
                self.pages.count()
                stat = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
                arrays = int(stat.get("rss", stat.get("anon", 0)))
                self.limit.write_text(str(self.pages.allowed + arrays))

    def _leave(self) -> None:
        if self.path.exists():
            (self.parent / "cgroup.procs").write_text(str(os.getpid()))
            self.path.rmdir()

    def close(self) -> None:
        """Leave it."""
        self.end.set()
        self.thread.join()
        self._leave()


class Allowance:
    """A memory resource that hands out so many bytes of a pool, and no more."""

    def __init__(self, allowed: int, pool: Any, wait: Callable[[], Any]) -> None:
        self.left, self.pool, self.wait = allowed, pool, wait
        self.kept: dict[int, Any] = {}

    def allocate(self, nbytes: int, alignment: int, stream: Any) -> int:
        """An address. Raises MemoryError where that is more than what is left."""
        if nbytes > self.left:
            raise MemoryError(f"{nbytes} bytes are more than the {self.left} that are left")
        block = self.pool.malloc(nbytes)
        self.left -= nbytes
        self.kept[int(block.ptr)] = block
        return int(block.ptr)

    def deallocate(self, address: int, nbytes: int, alignment: int, stream: Any) -> None:
        """Give the memory back, which no batch uses any more."""
        self.wait()
        del self.kept[address]
        self.left += nbytes


def make(args: argparse.Namespace, close: ExitStack) -> tuple[gh.Table, Callable[[], None], Pages | None]:
    """The table, what to do after each batch, and the pages of its file. What else there is, `close` closes."""
    slots = int(args.pairs / 0.8) * (8 + 4 * args.value_words)
    allowed = args.allowed or slots // 4
    print(f"slots take {slots:,} bytes or more, {allowed:,} are allowed", flush=True)
    dtypes = {"key_dtype": "u8", "value_dtype": {1: "u4", 2: "u8"}.get(args.value_words, ("u4", args.value_words))}
    common = {**dtypes, "capacity": args.pairs, "grow": False, "device": args.device}
    if args.device == "cpu":
        # Without a group, each key of a batch may bring in a page.
        # With a group, its arrays take no more than is allowed at a time, so that the limit can follow them.
        args.batch = args.batch or (
            allowed // (64 + 8 * args.value_words) if args.group else max(allowed // 4 // PAGE, 1)
        )
        with suppress(
            ValueError, OSError
        ):  # the tickets, two bytes for a slot, stay in memory as far as it may be locked
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        table = gh.Table("stadium", placement="file", path=str(args.path), file="new", **common)
        pages = Pages(args.path, allowed)
        pages.drop(pages.count())
        pages.most = 0  # what making the file has left
        if not args.group:
            return table, pages.trim, pages
        close.callback(Group(pages).close)
        return table, lambda: None, pages
    cupy = device(args.device).xp

    def allowance() -> Allowance:
        return Allowance(allowed, cupy.cuda.MemoryPool(), cupy.cuda.Device().synchronize)

    try:
        gh.Table("stadium", memory=allowance(), **common).close()
        raise AssertionError("a table in the memory that is allowed was not refused")
    except gh.NoMemory as error:
        print(f"placement=device: {error}", flush=True)
    args.batch = args.batch or 1 << 24
    return gh.Table("stadium", placement="host", memory=allowance(), **common), lambda: None, None


def values_of(index: Any, words: int) -> Any:
    """The value of each index, as the table stores it."""
    one = index.astype("u8") * np.uint64(0x9E3779B97F4A7C15)
    if words <= 2:
        return (one >> np.uint64(32)).astype("u4") if words == 1 else one
    return (one[:, None].astype("u4") + np.arange(words, dtype="u4")[None, :]).astype("u4")


def show(args: argparse.Namespace) -> int:
    """All steps. Raises AssertionError at a wrong answer. Returns the most bytes of slots that were in memory, or 0."""
    with ExitStack() as close:
        table, after, pages = make(args, close)
        close.enter_context(table)
        steps(args, table, after)
        if not pages:
            return 0
        threads = os.cpu_count() or 1
        rate = pages.random_reads(20_000, threads)
        print(f"pages at random, by {threads} threads {rate / 1e6:.4f} M/s")
        print(f"at most {pages.most:,} bytes of slots were in memory")
        return pages.most


def steps(args: argparse.Namespace, table: gh.Table, after: Callable[[], None]) -> None:
    """Build, find, erase, verify."""
    n, words = args.pairs, args.value_words
    taken = [0.0]  # seconds in calls of the table

    def timed(call: Callable[..., Any], *arrays: Any) -> Any:
        start = time.perf_counter()
        answer = call(*arrays)
        taken[0] += time.perf_counter() - start
        return answer

    def step(name: str, first: int, count: int, work: Callable[[Any, Any], None]) -> None:
        taken[0] = 0.0
        for at in range(first, first + count, args.batch):
            index = np.arange(at, min(at + args.batch, first + count), dtype="u8")
            work(random_keys(np, index, 8), index)
            after()
        print(f"{name:28} {count:>12,} keys {taken[0]:8.1f} s {count / taken[0] / 1e6:8.3f} M/s", flush=True)

    def insert(keys: Any, index: Any) -> None:
        assert timed(table.insert, keys, values_of(index, words)).all(), "an insert of a fresh key says no"

    def find(keys: Any, index: Any) -> None:
        values, found = timed(table.find, keys)
        assert found.all(), "a key was not found"
        assert (values == values_of(index, words)).all(), "a wrong value was found"

    def find_none(keys: Any, _: Any) -> None:
        values, found = timed(table.find, keys)
        assert not found.any(), "an absent key was found"
        assert not values.any(), "an absent key has a value"

    def erase(keys: Any, _: Any) -> None:
        assert timed(table.erase, keys).all(), "an erase of a present key says no"

    step("inserted", 0, n, insert)
    assert len(table) == n
    step("found", 0, n, find)
    step("absent", 1 << 40, n, find_none)
    step("erased, the first half", 0, n // 2, erase)
    assert len(table) == n - n // 2
    step("absent, the first half", 0, n // 2, find_none)
    step("found, the second half", n // 2, n - n // 2, find)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.larger_than_memory", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--path", type=Path, help="of the file; it must not exist, and stays. For the CPU")
    parser.add_argument("--pairs", type=whole(1), default=10**8)
    parser.add_argument("--value-words", type=whole(1, 64), default=2, help="of 4 bytes; default: 2")
    parser.add_argument("--allowed", type=whole(1), help="bytes; default: a quarter of the slots")
    parser.add_argument("--group", action="store_true", help="a control group limits the memory; on the CPU")
    parser.add_argument(
        "--batch", type=whole(1), help="keys; default: what arrays or pages of --allowed bytes hold; on a GPU 2^24"
    )
    args = parser.parse_args(arguments)
    if args.device == "cpu" and args.path is None:
        parser.error("the CPU needs --path, where to put the file")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Do it."""
    try:
        show(parsed(arguments))
    except (Unavailable, gh.GpuHashError) as error:
        print(f"larger_than_memory: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
