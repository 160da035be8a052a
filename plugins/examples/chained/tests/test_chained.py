"""The backend chained: the conformance suite, and what is its own."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pygpuhash as gh
import pytest


def test_conformance():
    """What every backend has to do. `pygpuhash conformance chained` says more while it runs."""
    command = [sys.executable, "-m", "pygpuhash", "conformance", "chained", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_is_listed():
    (row,) = (row for row in gh.backends() if row.name == "chained")
    assert row.state in ("usable", "not loaded"), row.error
    assert row.version == "0.1.0"


def test_counts():
    keys = np.random.default_rng(1).integers(0, 1000, 10_000)
    with gh.Table("chained", key_dtype="int64", value_dtype="int64", device="cpu") as table:
        table.accumulate(keys, 1, op="add")
        unique, counts = np.unique(keys, return_counts=True)
        values, found = table.find(unique)
        assert found.all()
        assert np.array_equal(values, counts)


PATTERNS = np.array([0, 1, 2**63, 2**64 - 2, 2**64 - 1], "u8")


def test_no_key_is_reserved():
    with gh.Table("chained", key_dtype="u8", value_dtype="u8", device="cpu") as table:
        assert table.insert(PATTERNS, PATTERNS).all()
        assert table.erase(PATTERNS[::2]).all()
        assert table.contains(PATTERNS).tolist() == [False, True, False, True, False]
        assert table.insert(PATTERNS, PATTERNS).tolist() == [True, False, True, False, True]
        table.check()


def test_nodes_of_erased_keys_are_used_again():
    """A table that may not grow takes its capacity again and again: it is compacted where it lies."""
    n = 1000
    with gh.Table("chained", key_dtype="u8", value_dtype="u8", capacity=n, grow=False, device="cpu") as table:
        held = table.nbytes
        for turn in range(10):
            keys = np.arange(turn * n, (turn + 1) * n, dtype="u8")
            assert table.insert(keys, keys).all()
            table.check()
            with pytest.raises(gh.TableFull) as error:
                table.insert(keys + n, keys)
            assert (error.value.status == 2).all()
            assert table.erase(keys).all()
        assert table.nbytes == held
        assert table.stats()["erased"] == n


def test_threads_agree_on_one_list():
    """Few buckets, one key that all want, and growth and compaction under them: each key is inserted once."""
    threads, n = 8, 20_000
    keys = np.arange(n, dtype="u8")
    with gh.Table("chained", key_dtype="u8", value_dtype="u8", max_load_factor=1.0, device="cpu") as table:
        with ThreadPoolExecutor(threads) as pool:
            masks = list(pool.map(lambda _: table.insert(keys, keys), range(threads)))
            assert (np.sum(masks, axis=0) == 1).all()
            list(pool.map(lambda _: table.accumulate(keys % 7, 1), range(threads)))
            erased = list(pool.map(lambda _: table.erase(keys[7:]), range(threads)))
            assert (np.sum(erased, axis=0) == 1).all()
        assert len(table) == 7
        assert table.find(keys[:7])[0].sum() == 21 + threads * n
        table.check()


def test_of_equal_keys_the_last_one_wins_if_asked_to():
    keys = np.zeros(5000, "u8")
    values = np.arange(5000, dtype="u8")
    with gh.Table("chained", key_dtype="u8", value_dtype="u8", device="cpu") as table:
        table.insert_or_assign(keys, values, dedup="last")
        assert table[0] == 4999
