"""Processes made by fork, forkserver and spawn: their own tables work, with threads, whatever the parent did."""

import gc
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
from pygpuhash import _core, _cuda, _host

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

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
        warnings.simplefilter("ignore")  # of threads: by Python from 3.12 on, and by JAX
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
        warnings.simplefilter("ignore")  # of threads: by Python from 3.12 on, and by JAX
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


# ---- what the parent has on a GPU ------------------------------------------------------------------------------------


def said_by_child(body) -> str:
    """What a function returns in a child made by fork; the child ends without ending the interpreter."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: by Python from 3.12 on, and by JAX
        child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        try:
            answer = body()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, str(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        answer = said.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return answer


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch):
    with fake_cuda.installed(monkeypatch) as fake:
        yield fake


CALLS = {
    "len": lambda t, keys: len(t),
    "find": lambda t, keys: t.find(keys),
    "find one": lambda t, keys: t.find(5),
    "insert": lambda t, keys: t.insert(keys, keys),
    "insert without a mask": lambda t, keys: t.insert(keys, keys, out=False),
    "t[5]": lambda t, keys: t[5],
    "t[keys]": lambda t, keys: t[keys],
    "t[5] = 5": lambda t, keys: t.__setitem__(5, 5),
    "del t[5]": lambda t, keys: t.__delitem__(5),
    "5 in t": lambda t, keys: 5 in t,
    "get": lambda t, keys: t.get(keys, 7),
    "accumulate": lambda t, keys: t.accumulate(keys, keys),
    "execute": lambda t, keys: t.execute(np.full(100, gh.Op.FIND, np.uint8), keys),
    "count": lambda t, keys: t.count(keys),
    "find_all": lambda t, keys: t.find_all(keys),
    "insert_multi": lambda t, keys: t.insert_multi(keys, keys),
    "lower_bound": lambda t, keys: t.lower_bound(keys),
    "range": lambda t, keys: t.range(keys, keys),
    "min": lambda t, keys: t.min(),
    "t[2:5]": lambda t, keys: t[2:5],
    "export": lambda t, keys: t.export(),
    "keys": lambda t, keys: t.keys(),
    "clear": lambda t, keys: t.clear(),
    "reserve": lambda t, keys: t.reserve(1000),
    "shrink": lambda t, keys: t.shrink(),
    "flush": lambda t, keys: t.flush(),
    "check": lambda t, keys: t.check(),
    "stats": lambda t, keys: t.stats(),
    "info": lambda t, keys: t.info,
}
FORKED = "Forked: this table was created before a fork and belongs to the parent process; create a new one in the child"


@pytest.mark.parametrize("where", ["host", "cupy", "torch"])
def test_a_table_of_the_parent_on_a_gpu(cuda, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Nothing of the driver, and no library, is asked before the fork is noticed: they have words of their own."""
    host = np.arange(100, dtype=np.uint64)
    keys = {
        "host": lambda: host,
        "cupy": lambda: fake_libraries.cupy(monkeypatch).asarray(host),
        "torch": lambda: fake_libraries.torch(monkeypatch).Tensor(host),
    }[where]()
    with gh.Table("skiplist", value_dtype="uint64", device="cpu") as table:
        table.insert(host, host)
        table._pretend(_core.CUDA)

        def ask_all() -> str:
            for name in ("cuCtxPushCurrent", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"):
                setattr(cuda.driver, name, None)
            if where == "cupy":
                sys.modules["cupy"].cuda = None
            if where == "torch":
                sys.modules["torch"].empty_like = sys.modules["torch"].cuda = None
            said = {}
            for name, call in CALLS.items():
                try:
                    said[name] = call(table, keys)
                except Exception as error:
                    said[name] = f"{type(error).__name__}: {error}"
            return "\n".join(f"{name}: {what}" for name, what in said.items() if what != FORKED)

        assert said_by_child(ask_all) == ""


def test_an_allocator_of_the_parent_on_a_gpu(cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with gh.SlabAllocator() as allocator:
        units = allocator.allocate(3)
        allocator._kind = _core.CUDA
        cuda.driver.cuCtxPushCurrent = None
        for call in (lambda: allocator.allocate(3), lambda: allocator.free(units), lambda: allocator.translate(units)):
            assert said_by_child(call).startswith("Forked: this allocator was created before a fork")
        allocator._kind = _core.CPU


def test_a_driver_that_the_parent_has_initialised(cuda) -> None:
    """It only says that it is not: in a child that has a reason."""
    array = _cuda.from_host(np.arange(3), 0)
    cuda.driver.cuCtxPushCurrent = lambda context: (3,)
    with pytest.raises(gh.DeviceError, match=r"cuCtxPushCurrent failed: an error \(3\)"):
        array.get()
    assert said_by_child(array.get).startswith("Forked: this process was forked after CUDA had been initialised; start")

    class NotInitialized(Exception):
        pass

    def fail() -> None:
        with _cuda.translate_errors:
            raise NotInitialized("CUDA_ERROR_NOT_INITIALIZED: ...")

    assert said_by_child(fail).startswith("Forked")
    with pytest.raises(gh.DeviceError):
        fail()


@pytest.mark.usual_sizes("small batches of host arrays take one slot where a piece is long")
def test_memory_of_a_gpu_is_the_parents(cuda) -> None:
    """Whatever ends in a child: the driver of the parent is not called there, and its memory stays."""
    keys = np.arange(1000, dtype=np.uint64)
    arrays = [_cuda.from_host(keys, 0)]
    with gh.Table("linear_probe", value_dtype="uint64", device="cpu") as table:
        table._pretend(_core.CUDA)
        table.insert(keys, keys)
        assert len(_host._idle[0][0].described[0]) == 1
        freed = len(cuda.freed)

        def end() -> int:
            _host._close_all()
            arrays.clear()
            gc.collect()
            return len(cuda.freed) - freed

        assert said_by_child(end) == "0"
        assert len(cuda.freed) == freed
    _host._close_all()
    arrays.clear()
    gc.collect()
    assert len(cuda.freed) == freed + 3


def test_memory_of_others_is_the_parents(memory) -> None:
    """Objects that hold it are not let go of in a child either."""
    gone = []

    class Memory(type(memory)):
        def __del__(self) -> None:
            gone.append(self)

    tables = [gh.Table("linear_probe", device="cpu", memory=Memory())]

    def end() -> str:
        tables[0].close()
        tables.clear()
        gc.collect()
        return str(len(gone))

    assert said_by_child(end) == "0"
    assert end() == "1"


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
