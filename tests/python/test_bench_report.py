"""The benchmark table goes on where an operation finds no room, and says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_operation_without_room_is_left_out(tmp_path):
    """Slots of keys that were erased from a stadium are free after a flush: a mixture finds none at a load of 0.9."""
    backends = ["--backend", "stadium", "--backend", "linear_probe"]
    size = ["--n", "131072", "--loads", "0.9", "--repeats", "1", "--no-peers", "--operations", "insert,erase,mixed"]
    command = [sys.executable, "-m", "asv_bench.report", *backends, *size, "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "stadium, load 0.9: mixed found no room, and is left out." in done.stdout
    [report] = tmp_path.glob("*/report-cpu.json")
    measured = {(row["backend"], row["operation"]) for row in json.loads(report.read_text())["rows"]}
    assert ("stadium", "erase") in measured
    assert ("stadium", "mixed") not in measured
    assert ("linear_probe", "mixed") in measured
