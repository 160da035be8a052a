"""The backend sorted: the conformance suite, and what is its own."""

import subprocess
import sys

import numpy as np
import pygpuhash as gh


def test_conformance():
    """What every backend has to do. `pygpuhash conformance sorted` says more while it runs."""
    command = [sys.executable, "-m", "pygpuhash", "conformance", "sorted", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_is_listed():
    (row,) = (row for row in gh.backends() if row.name == "sorted")
    assert row.state in ("usable", "not loaded"), row.error
    assert row.version == "0.1.0"


def test_counts():
    keys = np.random.default_rng(1).integers(0, 1000, 10_000)
    with gh.Table("sorted", key_dtype="int64", value_dtype="int64", device="cpu") as table:
        table.accumulate(keys, 1, op="add")
        unique, counts = np.unique(keys, return_counts=True)
        values, found = table.find(unique)
        assert found.all()
        assert np.array_equal(values, counts)
