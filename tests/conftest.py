"""What holds for all tests, however they were started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Only the backends that come with the library under test.
os.environ.pop("GPUHASH_PLUGIN_PATH", None)

# A shell that runs pytest in the background has it ignore SIGINT; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Seconds that a test may take, its fixtures included, before the run ends with its name and all stacks. 0: any.
LIMIT = float(os.environ.get("GPUHASH_TEST_LIMIT", "120"))
SLOW_LIMIT = 30 * LIMIT  # of tests that are marked slow, or whose fixtures compile something first
COMPILING = {"prefix", "explorer", "nvcc", "warps"}
WATCHDOG = pytest.StashKey[subprocess.Popen]()


def pytest_configure(config):
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


def pytest_runtest_setup(item):
    need = 2 if item.get_closest_marker("gpu2") else 1 if item.get_closest_marker("gpu") else 0
    if need:
        from pygpuhash import _core  # not for the tests that need no installed package

        count, reason = _core.device_count(_core.CUDA)
        if not count:
            pytest.skip(f"needs a CUDA device: {reason}")
        if count < need:
            pytest.skip(f"needs {need} CUDA devices: there is {count}")
