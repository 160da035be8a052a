"""Estimates of how many distinct keys a batch has: estimates_test.cpp says what is expected of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from simulator import ROOT, compiler


def test_estimates(tmp_path: Path) -> None:
    program = tmp_path / "estimates_test"
    source = Path(__file__).with_name("estimates_test.cpp")
    subprocess.run([*compiler(), "-std=c++20", "-O1", f"-I{ROOT}", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
