"""A test that hangs has a name: tests/conftest.py and tests/watchdog.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

HANGS = """
import ctypes, threading, time, pytest

def test_that_ends():
    time.sleep(0.01)

@pytest.mark.parametrize("how", ["waits"])
def test_waits(how):
    threading.Event().wait()

def test_holds_the_interpreter():
    ctypes.PyDLL(None).pause()

@pytest.fixture
def never():
    time.sleep(1000)

def test_fixture(never):
    pass

@pytest.mark.slow
def test_slow():
    time.sleep(2)
"""


def run_tests(folder, name, limit="1"):
    for source in ("conftest.py", "watchdog.py"):
        shutil.copy(HERE / source, folder)
    (folder / "test_hangs.py").write_text(HANGS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n gpu\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_hangs.py::{name}"]
    env = {**os.environ, "GPUHASH_TEST_LIMIT": limit}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["test_waits[waits]", "test_holds_the_interpreter", "test_fixture"])
def test_hanging_test_has_a_name_and_stacks(tmp_path, name):
    done = run_tests(tmp_path, name)
    assert done.returncode != 0
    assert f"test_hangs.py::{name}: no end after 1 s" in done.stderr
    assert "Fatal Python error: Aborted" in done.stderr
    line = "never" if name == "test_fixture" else name.partition("[")[0]
    assert f" in {line}\n" in done.stderr


@pytest.mark.parametrize(("name", "limit"), [("test_that_ends", "20"), ("test_slow", "1")])
def test_others_are_left_alone(tmp_path, name, limit):
    done = run_tests(tmp_path, name, limit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_limit_can_be_turned_off(tmp_path):
    assert run_tests(tmp_path, "test_that_ends", limit="0").returncode == 0
