"""Tests that need more CUDA devices than there are, or compile programs first, are left out: tests/conftest.py.

One line of each kind says how many.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = """
import pytest

def test_of_the_cpu():
    pass

@pytest.mark.gpu
def test_of_one():
    pass

@pytest.mark.gpu2
@pytest.mark.parametrize("i", range(3))
def test_of_two(i):
    pass
"""
DEVICES = """
from pygpuhash import _core

_core.device_count = lambda kind: {count}
"""
INI = """
[pytest]
addopts = -m "not slow"
markers =
  gpu: one
  gpu2: two
  programs: compiled
  slow: long
  xdist_group: together
"""


@pytest.mark.parametrize(
    ("count", "ran", "line", "options"),
    [
        ((2, ""), 5, "", ()),
        ((1, ""), 2, "3 tests that need more CUDA devices were left out: there is 1", ()),
        ((0, "no driver"), 1, "4 tests that need more CUDA devices were left out: no driver", ("-n2",)),
    ],
    ids=["two devices", "one device", "none, two processes"],
)
def test_what_is_left_out(tmp_path, count, ran, line, options):
    (tmp_path / "test_devices.py").write_text(TESTS)
    (tmp_path / "fake_devices.py").write_text(DEVICES.format(count=count))
    said = run(tmp_path, "-p", "fake_devices", *options)
    assert f"{ran} passed" in said
    assert [of for of in said.splitlines() if "left out" in of] == ([line] if line else [])
    assert "skipped" not in said


PROGRAMS = """
import pytest

def test_a_program():
    pass

@pytest.mark.slow
def test_a_slow_program():
    pass
"""


@pytest.mark.parametrize(
    ("arguments", "ran", "left_out"),
    [
        ((), 1, True),
        (("tests",), 1, True),
        (("-n2", "tests"), 1, True),
        (("tests/test_others.py",), 1, False),
        (("tests/warp",), 1, False),
        (("tests/warp/test_it.py::test_a_program",), 1, False),
        (("tests/test_others.py", "tests/hive"), 2, False),
        (("-m", "programs and not slow", "tests"), 2, False),
        (("-m", "slow", "tests"), 2, False),
        (("-m", "", "tests"), 5, False),
    ],
    ids=lambda of: " ".join(of) if isinstance(of, tuple) else "",
)
def test_programs_are_left_out_unless_asked_for(tmp_path, arguments, ran, left_out):
    for path in ("warp/test_it.py", "hive/test_parts.py"):
        (tmp_path / "tests" / path).parent.mkdir(parents=True)
        (tmp_path / "tests" / path).write_text(PROGRAMS)
    (tmp_path / "tests" / "test_others.py").write_text("def test_it():\n    pass\n")
    said = run(tmp_path, *arguments, tests=tmp_path / "tests")
    assert f"{ran} passed" in said
    lines = [of for of in said.splitlines() if "left out" in of]
    assert len(lines) == left_out
    assert not lines or lines[0].startswith("2 tests of programs that are compiled first were left out: -m 'programs")


def run(folder, *arguments, tests=None):
    """What pytest says of the tests of a folder, with the conftest.py under test."""
    for source in ("conftest.py", "watchdog.py"):
        shutil.copy(HERE / source, tests or folder)
    (folder / "pytest.ini").write_text(INI)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
