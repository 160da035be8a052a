"""Which batches are divided by partitions of the table: policy_test.cpp is a table of situations."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_situations(tmp_path):
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    program = tmp_path / "policy_test"
    source = Path(__file__).with_name("policy_test.cpp")
    flags = ["-std=c++20", "-Wall", "-Wextra", f"-I{ROOT}", f"-I{ROOT / 'libgpuhash' / 'include'}"]
    subprocess.run([*compiler, *flags, str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
