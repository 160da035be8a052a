"""Finds, neighbours and ranges on the CPU beside one write, wherever the two can meet (one_write.cpp)."""

import platform
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-O1", "-mcx16", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="waits are noticed by an instruction of x86")
def test_one_write(tmp_path):
    program = tmp_path / "one_write"
    command = ["g++", *FLAGS, "-I.", "-Ilibgpuhash/include", "tests/skiplist/one_write.cpp", "-o", str(program)]
    subprocess.run(command, cwd=ROOT, check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[0]) > 3_000_000
