"""The backend cuckoo: the conformance suite, and what is its own."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pygpuhash as gh
import pytest


def test_conformance():
    """What every backend has to do. `pygpuhash conformance cuckoo` says more while it runs."""
    command = [sys.executable, "-m", "pygpuhash", "conformance", "cuckoo", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_is_listed():
    (row,) = (row for row in gh.backends() if row.name == "cuckoo")
    assert row.state in ("usable", "not loaded"), row.error
    assert row.version == "0.1.0"


def test_counts():
    keys = np.random.default_rng(1).integers(0, 1000, 10_000)
    with gh.Table("cuckoo", key_dtype="int64", value_dtype="int64", device="cpu") as table:
        table.accumulate(keys, 1, op="add")
        unique, counts = np.unique(keys, return_counts=True)
        values, found = table.find(unique)
        assert found.all()
        assert np.array_equal(values, counts)


PATTERNS = np.array([0, 1, 2**63, 2**64 - 3, 2**64 - 2, 2**64 - 1], "u8")  # among them those that mark slots


def test_no_key_is_reserved():
    with gh.Table("cuckoo", key_dtype="u8", value_dtype="u8", device="cpu") as table:
        assert table.insert(PATTERNS, PATTERNS).all()
        assert table.erase(PATTERNS[::2]).all()
        assert table.contains(PATTERNS).tolist() == [False, True] * 3
        assert table.insert(PATTERNS, PATTERNS[::-1]).tolist() == [True, False] * 3
        assert table.find(PATTERNS)[0][::2].tolist() == PATTERNS[::-1][::2].tolist()
        table.check()


@pytest.mark.parametrize("choices", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_it_takes_its_capacity_by_moving_keys(dtype, choices):
    """At the load that it promises, first places do not do; each key is in one of its rows, or, rarely, the stash."""
    n = 50_000
    keys = np.random.default_rng(1).permutation(2 * n)[:n].astype(dtype)
    options = {"key_dtype": dtype, "value_dtype": dtype, "device": "cpu", "choices": choices}
    with gh.Table("cuckoo", capacity=n, grow=False, **options) as table:
        assert table.insert(keys, keys).all()
        assert (table.find(keys)[0] == keys).all()
        table.check()
        assert sum(table.histogram(8)[1:]) > n // 200
        assert table.stats()["stashed"] < n // 500


def test_a_full_table_says_which_keys_it_has_not():
    keys = np.arange(10_000, dtype="u8")
    with gh.Table("cuckoo", key_dtype="u8", value_dtype="u8", capacity=100, grow=False, device="cpu") as table:
        with pytest.raises(gh.TableFull) as error:
            table.insert(keys, keys)
        status = error.value.status
        assert set(status) == {1, 2}
        assert (table.contains(keys) == (status == 1)).all()
        table.check()


def test_keys_move_under_other_operations():
    """Threads that insert, and others that look for keys that are there, and change them, while these move on."""
    n, threads = 20_000, 4
    there, new = np.arange(n, dtype="u8"), np.arange(n, 3 * n, dtype="u8")
    with gh.Table("cuckoo", key_dtype="u8", value_dtype="u8", capacity=3 * n, grow=False, device="cpu") as table:
        table.insert(there, there)
        with ThreadPoolExecutor(2 * threads) as pool:
            jobs = [pool.submit(table.insert, new[i::threads], new[i::threads]) for i in range(threads)]
            finds = [pool.submit(table.contains, there) for _ in range(threads)]
            adds = [pool.submit(table.accumulate, there, 1) for _ in range(threads)]
            assert all(job.result().all() for job in jobs)
            assert all(job.result().all() for job in finds)
            assert not any(job.result().any() for job in adds)
        assert (table.find(there)[0] == there + threads).all()
        assert table.contains(new).all()
        table.check()


def test_there_are_no_sets():
    with pytest.raises(gh.Unsupported):
        gh.Table("cuckoo", key_dtype="u8", value_dtype=None, device="cpu")


@pytest.mark.parametrize("choices", [1, 5, "two"])
def test_an_option_that_is_refused(choices):
    with pytest.raises(gh.InvalidArgument, match=f"choices={choices}: give a whole number from 2 to 4"):
        gh.Table("cuckoo", key_dtype="u8", value_dtype="u8", device="cpu", choices=choices)


@pytest.mark.parametrize("choices", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_functions_that_agree(dtype, choices):
    """In a small table several functions give a key one row; what moves on still leaves no gap behind it."""
    keys = np.arange(400, dtype=dtype)
    for seed in range(1, 400):
        options = {"key_dtype": dtype, "value_dtype": dtype, "device": "cpu", "choices": choices, "seed": seed}
        with gh.Table("cuckoo", capacity=400, grow=False, **options) as table:
            assert table.insert(keys, keys).all()
            table.check()
            assert table.contains(keys).all()
