"""Tests for more CUDA devices than there are are left out, and one line says how many: tests/conftest.py."""

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
INI = "[pytest]\nmarkers =\n  gpu: one\n  gpu2: two\n  xdist_group: together\n"


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
    for source in ("conftest.py", "watchdog.py"):
        shutil.copy(HERE / source, tmp_path)
    (tmp_path / "test_devices.py").write_text(TESTS)
    (tmp_path / "fake_devices.py").write_text(DEVICES.format(count=count))
    (tmp_path / "pytest.ini").write_text(INI)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = str(tmp_path)
    command = [sys.executable, "-P", "-m", "pytest", "-p", "fake_devices", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ran} passed" in done.stdout
    assert [said for said in done.stdout.splitlines() if "left out" in said] == ([line] if line else [])
    assert "skipped" not in done.stdout
