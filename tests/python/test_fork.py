"""Processes made by fork, forkserver and spawn: their own tables work, with threads, whatever the parent did."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

SIZES = [2_000, 1_000_000]  # the storage of the second is above 8 MiB: it is filled by several threads
LIMIT = 60  # seconds, after which a child that hangs is ended


def use(backend: str, n: int, threads: int | None) -> int:
    """Make a table, use it, and say how many of its values are right."""
    keys = np.arange(n, dtype=np.uint64)
    with gh.Table(backend, device="cpu", capacity=n, threads=threads) as table:
        table.insert(keys, keys + 1)
        table.check()
        return int((table[keys] == keys + 1).sum())


def use_with_limit(backend: str, n: int, threads: int | None) -> int:
    signal.alarm(LIMIT)
    return use(backend, n, threads)


def in_fork(backend: str, n: int, threads: int | None) -> None:
    """A child made by fork uses a table of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: other threads may exist
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if use_with_limit(backend, n, threads) == n else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", [None, 1, 4])
@pytest.mark.parametrize("n_child", SIZES)
@pytest.mark.parametrize("n_parent", SIZES)
def test_fork_after_and_before_use(backend: str, n_parent: int, n_child: int, threads: int | None) -> None:
    assert use(backend, n_parent, threads) == n_parent
    in_fork(backend, n_child, threads)
    assert use(backend, n_parent, threads) == n_parent


def test_a_childs_batches_use_its_threads(backend: str) -> None:
    assert use(backend, SIZES[1], 4) == SIZES[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        before = len(list(Path("/proc/self/task").iterdir()))
        right = use(backend, SIZES[1], 4) == SIZES[1]
        after = len(list(Path("/proc/self/task").iterdir()))
        os._exit(0 if right and before == 1 and after == 4 else 10 + after)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fork_while_other_threads_run_batches(backend: str) -> None:
    stop = threading.Event()
    keys = np.arange(200_000, dtype=np.uint64)

    def busy() -> None:
        with gh.Table(backend, device="cpu", threads=3) as table:
            while not stop.is_set():
                table.insert(keys, keys)
                table.find(keys)
                gh.backends()

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for n in [*SIZES, *SIZES]:
            in_fork(backend, n, 3)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# A program of its own: children of forkserver and spawn import what they run, from where the program lies.
POOL = """
import multiprocessing, sys
import numpy as np
import pygpuhash as gh

def use(n):
    keys = np.arange(n, dtype=np.uint64)
    with gh.Table(sys.argv[1], device="cpu", capacity=n, threads=2) as table:
        table.insert(keys, keys + 1)
        table.check()
        return int((table[keys] == keys + 1).sum())

if __name__ == "__main__":
    sizes = [int(n) for n in sys.argv[3:]]
    assert [use(n) for n in sizes] == sizes
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        assert pool.map(use, sizes * 2) == sizes * 2
    assert [use(n) for n in sizes] == sizes
    print("done")
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(backend: str, method: str, tmp_path: Path) -> None:
    program = tmp_path / "pool.py"
    program.write_text(POOL)
    command = [sys.executable, str(program), backend, method, *map(str, SIZES)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "done\n"
