"""The backend sorted: the conformance suite, and what is its own."""

import subprocess
import sys

import numpy as np
import pygpuhash as gh
import pytest


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


PATTERNS = np.array([0, 1, 2**63, 2**64 - 2, 2**64 - 1], "u8")


def test_no_key_is_reserved():
    with gh.Table("sorted", key_dtype="u8", value_dtype="u8", device="cpu") as table:
        assert table.insert(PATTERNS, PATTERNS).all()
        assert table.erase(PATTERNS[::2]).all()
        assert table.contains(PATTERNS).tolist() == [False, True, False, True, False]
        assert table.export()[0].tolist() == PATTERNS[1::2].tolist()
        table.check()


def test_a_full_table_says_which_keys_it_has_not():
    keys = np.random.default_rng(1).permutation(1000).astype("u8")
    with gh.Table("sorted", key_dtype="u8", value_dtype="u8", capacity=100, grow=False, device="cpu") as table:
        with pytest.raises(gh.TableFull) as error:
            table.insert(np.concatenate([keys, keys]), 7)
        status = error.value.status
        assert (status == 1).sum() == 100 == len(table)
        there = table.contains(keys)
        assert ((status[:1000] == 2) == ~there).all()
        assert ((status[1000:] == 2) == ~there).all()


def test_integers_wrap_and_nans_stay():
    with gh.Table("sorted", key_dtype="i4", value_dtype="i4", device="cpu") as table:
        table.accumulate(np.zeros(3, "i4"), np.array([2**31 - 1, 1, 1], "i4"))
        assert table[0] == -(2**31) + 1
    with gh.Table("sorted", key_dtype="i4", value_dtype="f4", device="cpu") as table:
        table.insert([0, 1], np.array([np.nan, 5.0], "f4"))
        table.accumulate([0, 1, 1], np.array([3.0, np.nan, 4.0], "f4"), op="min")
        assert np.isnan(table[0])
        assert table[1] == 4.0
