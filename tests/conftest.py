"""Settings of pytest for all tests: groups, GPUs, time limits, warnings."""

import collections
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest

# Only the backends that come with the library under test.
os.environ.pop("GPUHASH_PLUGIN_PATH", None)
# Each process that uses JAX would take three quarters of a GPU's memory at once, and leave none for the others' tests.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

# A shell that runs pytest in the background has it ignore SIGINT; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Seconds that a test may take, its fixtures included, before the run ends with its name and all stacks. 0: any.
LIMIT = float(os.environ.get("GPUHASH_TEST_LIMIT", "120"))
SLOW_LIMIT = 30 * LIMIT  # of tests that are marked slow, or whose fixtures compile something first
COMPILING = {"prefix", "explorer", "nvcc", "warps", "kit", "crash_test", "engine"}
WATCHDOG = pytest.StashKey[subprocess.Popen]()
LINES: dict[str, list[str]] = {}  # of the summary, by section


# ---- several processes: pytest -n -----------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Tests of one xdist_group share fixtures that take long, and stay in one process."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadgroup"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """A worker reads the command line, which does not say what has become of `dist`."""
    node.workerinput["loadgroup"] = node.config.option.dist == "loadgroup"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """What `-n auto` is: the CPUs of this process; a few do, since tests have threads of their own."""
    from pygpuhash import devices

    return min(devices()[0].units, 8)


TOGETHER = 4  # tests of a file that a process is given at once


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """xdist's own, but for what takes it longer the more tests there are: with 16,000 it was busy for 20 s, and the
    processes waited for it. Tests without a group go to a process a few at a time, and what is done is forgotten.
    It names attributes of xdist 3.8 that are not documented, so that other versions do without it."""
    if config.option.dist != "loadgroup" or not version("pytest-xdist").startswith("3.8."):
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Names(list):
        def index(self, name):
            if not hasattr(self, "places"):
                self.places = {of: place for place, of in enumerate(self)}
            return self.places[name]

    class Scheduler(LoadGroupScheduling):
        def add_node_collection(self, node, collection):
            super().add_node_collection(node, Names(collection))

        def schedule(self):
            if self.collection is None:
                names, before = next(iter(self.registered_collections.values())), collections.Counter()
                self.units = {}
                for name in names:
                    file = name.partition("::")[0]
                    self.units[name] = f"{file} {before[file] // TOGETHER}"
                    before[file] += 1
            super().schedule()

        def _split_scope(self, nodeid):
            group = super()._split_scope(nodeid)
            return self.units[nodeid] if group == nodeid else group

        def mark_test_complete(self, node, item_index, duration=0):
            super().mark_test_complete(node, item_index, duration)
            unit = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][unit].values()):
                del self.assigned_work[node][unit]

    return Scheduler(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if SIZES and (usual := item.get_closest_marker("usual_sizes")):
            item.add_marker(pytest.mark.skip(f"of the usual sizes only: {usual.args[0]}"))
        if needed_devices(item):
            item.add_marker(pytest.mark.xdist_group("gpu"))  # one process at a time has a device's memory
        if is_program(item):
            item.add_marker(pytest.mark.programs)
    config.stash[LEFT_OUT] = []
    leave_out_programs(config, items)
    leave_out_devices(config, items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """The tests themselves and what they import stay: no collection of garbage needs to look through them again."""
    gc.collect()
    gc.freeze()


# ---- tests of programs that are compiled first -----------------------------------------------------------------------

TESTS = Path(__file__).resolve().parent
# They compile the sources into programs of their own: the explorer, the simulation, warps and devices that a CPU plays.
# They say nothing of the package that is installed, and take longer than all others together.
PROGRAMS = [
    TESTS / path
    for path in (
        "bulk",
        "columns/test_engine.py",
        "device",
        "gate",
        "hive/test_hashes.py",
        "hive/test_parts.py",
        "hive/test_segments.py",
        "hive/test_steps.py",
        "kit",
        "memory",
        "model",
        "skiplist/test_one_write.py",
        "slab_hash/test_parts.py",
        "stadium/test_durability.py",
        "team",
        "warp",
    )
]


@functools.cache
def has_programs(file):
    return any(file.is_relative_to(path) for path in PROGRAMS)


def is_program(item):
    return has_programs(item.path)


def pytest_ignore_collect(collection_path, config):
    """Where programs alone are asked for, files without them need not be read."""
    wanted = config.option.markexpr
    alone = wanted == "programs" or (wanted.startswith("programs and ") and " or " not in wanted)
    return True if alone and collection_path.suffix == ".py" and not has_programs(collection_path) else None


def leave_out_programs(config, items):
    """Unless -m, or an argument that is a part of tests, asks for them."""
    if config.option.markexpr != "not slow":
        return
    given = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    parts = [path for path in given if path != TESTS and path.is_relative_to(TESTS)]
    candidates = [item for item in items if is_program(item) and not item.get_closest_marker("slow")]
    left_out = [item for item in candidates if not any(map(item.path.is_relative_to, parts))]
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)
        config.stash[LEFT_OUT].append(
            f"{len(left_out)} tests of programs that are compiled first were left out: "
            "-m 'programs and not slow' runs them, and so do their folders as arguments"
        )


# ---- tests that need a GPU -------------------------------------------------------------------------------------------

LEFT_OUT = pytest.StashKey[list[str]]()


def needed_devices(item):
    return 2 if item.get_closest_marker("gpu2") else 1 if item.get_closest_marker("gpu") else 0


def leave_out_devices(config, items):
    """Tests for more devices than there are would be so many skips that no other one is seen: a line says how many."""
    if not any(map(needed_devices, items)):
        return
    from pygpuhash import _core  # not for the tests that need no installed package

    count, reason = _core.device_count(_core.CUDA)
    left_out = [item for item in items if needed_devices(item) > count]
    if left_out:
        items[:] = [item for item in items if needed_devices(item) <= count]
        config.hook.pytest_deselected(items=left_out)
        why = reason or f"there is {count}"
        config.stash[LEFT_OUT].append(f"{len(left_out)} tests that need more CUDA devices were left out: {why}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    if lines := getattr(node, "workeroutput", {}).get("left out"):  # all workers collect the same
        node.config.stash[LEFT_OUT] = lines


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, [])


# ---- warnings --------------------------------------------------------------------------------------------------------

# Warnings are errors while tests are collected and run. What plugins say before and after that, of themselves, is not.


# But for numpy 2.5's of times without a unit, NaT, too: a test that passes one makes one; and JAX's of each fork, in
# whichever process some test has imported it.
IGNORED = [
    "ignore:The 'generic' unit for NumPy:DeprecationWarning",
    "ignore:os.fork.. was called. os.fork.. is incompatible with multithreaded code, and JAX:RuntimeWarning",
]


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    for line in ["error", *IGNORED]:
        session.config.addinivalue_line("filterwarnings", line)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    try:
        return (yield)
    finally:
        for line in ["error", *IGNORED]:
            session.config.getini("filterwarnings").remove(line)


# ---- sections of the summary ----------------------------------------------------------------------------------------


@pytest.fixture
def say(request):
    """say(section, line): a line for pytest's summary, whichever process the test runs in."""
    return lambda section, line: request.node.user_properties.append((f"summary: {section}", line))


def pytest_runtest_logreport(report):
    if report.when == "teardown":  # it has what all phases have said
        for name, line in report.user_properties:
            if name.startswith("summary: "):
                LINES.setdefault(name.removeprefix("summary: "), []).append(line)


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(line)
    for section, lines in sorted(LINES.items()):
        terminalreporter.section(section)
        for line in lines:
            terminalreporter.write_line(line)


# ---- sizes -----------------------------------------------------------------------------------------------------------

# Of pieces and chunks in Python, beside a library that is built with meson's option `sizes` (.ci/sizes). Pieces of host
# batches are longer than those of the library, which would else never see its second one.
SIZES = {"usual": None, "smallest": (100, 1), "odd": (997, 3)}[os.environ.get("GPUHASH_TEST_SIZES", "usual")]


def use_sizes(piece, few):
    from pygpuhash import _core, _host

    _core.piece(piece, few)
    _host.CHUNK_BYTES, _host.FAR_BYTES = 4096 * few, 8192 * few
    _host.LEAST_KEYS, _host.FIRST_KEYS, _host.FAR_KEYS = few, few, piece


@pytest.fixture
def usual_pieces():
    """Host batches go in pieces of the usual length."""
    from pygpuhash import _core

    _core.piece(1 << 21, 1 << 17)
    yield
    if SIZES:
        use_sizes(*SIZES)


# ---- time limits -----------------------------------------------------------------------------------------------------


def pytest_configure(config):
    if getattr(config, "workerinput", {}).get("loadgroup"):
        config.option.loadgroup = True  # a worker appends the groups to the names of the tests
    if SIZES:
        use_sizes(*SIZES)
    if LIMIT and not config.option.usepdb:
        command = [sys.executable, str(Path(__file__).with_name("watchdog.py")), str(os.getpid())]
        config.stash[WATCHDOG] = subprocess.Popen(command, stdin=subprocess.PIPE)


def pytest_unconfigure(config):
    if watchdog := config.stash.get(WATCHDOG, None):
        watchdog.stdin.close()
        watchdog.wait()


def tell_watchdog(item, line):
    if watchdog := item.config.stash.get(WATCHDOG, None):
        watchdog.stdin.write(f"{line}\n".encode())
        watchdog.stdin.flush()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    slow = item.get_closest_marker("slow") or COMPILING & set(item.fixturenames)
    tell_watchdog(item, f"{SLOW_LIMIT if slow else LIMIT:g} {item.nodeid}")
    try:
        return (yield)
    finally:
        tell_watchdog(item, "")


class VisibleMemory:
    """A memory resource of which a test sees every block, as bytes by their address."""

    def __init__(self):
        self.blocks = {}

    def allocate(self, nbytes, alignment, stream):
        import numpy as np  # not for the tests that need no installed package

        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.blocks[address] = array[address - array.ctypes.data :][:nbytes]
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self.blocks[address]


@pytest.fixture
def memory():
    return VisibleMemory()


@pytest.fixture
def in_threads():
    """in_threads(work, n): work(0) .. work(n - 1), each in a thread of its own."""

    def run_all(work, n):
        errors = []

        def run(i):
            try:
                work(i)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert not errors, errors

    return run_all
