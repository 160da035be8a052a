"""Checks of accumulate with equal keys joined each time, of a chunk or of a block.

Otherwise that depends on samples and on which threads meet.
"""

import os
import subprocess
import sys

import pytest

import pygpuhash as gh
from pygpuhash._conformance import CHECKS

USABLE = [row.name for row in gh.backends() if row.state == "usable" and "cpu" in row.devices]
ABOUT_ACCUMULATE = [name for name in CHECKS if "accumulate" in name or "counting" in name]


@pytest.mark.parametrize("join", ["always", "blocks", "never"])
@pytest.mark.parametrize("backend", USABLE)
def test_accumulate_with_and_without_joining(backend: str, join: str) -> None:
    assert len(ABOUT_ACCUMULATE) >= 3
    command = [sys.executable, "-P", "-m", "pygpuhash", "conformance", backend, "--device", "cpu", "--quick"]
    for name in ABOUT_ACCUMULATE:
        command += ["--check", name]
    environment = {**os.environ, "GPUHASH_TEST_JOIN": join}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
