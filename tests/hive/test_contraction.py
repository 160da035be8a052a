"""hive gives memory back as keys are erased, and neither too soon nor in turn with growth."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpuhash as gh

OPTIONS = {"key_dtype": "uint32", "value_dtype": "uint32", "device": "cpu", "seed": 3, "threads": 1}


def table(n: int, **options: object) -> gh.Table:
    return gh.Table("hive", capacity=n, **(OPTIONS | options))


def draw(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).choice(np.iinfo("uint32").max, n, replace=False).astype("uint32")


def load(t: gh.Table) -> float:
    """Keys by slots; load_factor counts slots of erased keys, too."""
    return len(t) / t.info["slots"]


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
@pytest.mark.parametrize("options", [{}, {"bucket": 32, "stash": 0}, {"segment": "whole"}, {"threads": 2, "ways": 3}])
@pytest.mark.parametrize("by_execute", [False, True])
def test_memory_goes_with_the_keys(options: dict, by_execute: bool) -> None:
    """Down from 300,000 keys, a 100th at a time, and up again."""
    keys = draw(300_000)
    with table(0, **options) as t:
        assert t.insert(keys, keys).all()
        largest = t.nbytes
        sizes = [largest]
        for part in np.array_split(keys[:-100], 100):
            if by_execute:
                t.execute(np.full(len(part), gh.Op.ERASE, np.uint8), part, part)
            else:
                assert t.erase(part).all()
            sizes.append(t.nbytes)
            if len(t) > 20_000:
                assert load(t) > 0.22
        t.check()
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < largest / 50
        assert t.find(keys[-100:])[1].all()
        assert t.insert(keys, keys).sum() == len(keys) - 100
        t.check()
        values, found = t.find(keys)
        assert found.all()
        assert (values == keys).all()


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
def test_a_step_merges_few_segments() -> None:
    """Batch by batch the table gives back what the batch has freed, not half of it at once."""
    keys = draw(600_000)
    with table(0) as t:
        t.insert(keys, keys)
        before, parts = t.stats()["segments"], []
        for part in np.array_split(keys[:-60_000], 100):
            t.erase(part)
            now = t.stats()["segments"]
            parts.append((before - now) / before)
            before = now
        assert max(parts[:-20]) < 0.15
        assert np.count_nonzero(parts) > 10


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
@pytest.mark.parametrize("n", [700, 30_000, 200_000, 500_000])
def test_it_never_flutters(n: int) -> None:
    """Keys that come and go around the load at which it contracts, and around that at which it grows."""
    keys = draw(n)
    with table(0) as t:
        for left in (1.0, 0.6, 0.45, 0.35, 0.3, 0.25, 0.2):
            there = int(left * n)
            t.insert(keys[:there], keys[:there])
            t.erase(keys[there:])
            steady = []
            for _ in range(20):
                gone = keys[there - there // 10 : there]
                assert t.erase(gone).all()
                small = t.info["slots"]
                assert t.insert(gone, gone).all()
                steady.append((small, t.info["slots"]))
            # It may settle in the first rounds; then it stays as it is, whether keys are there or not.
            assert set(steady[-10:]) == {(steady[-1][0], steady[-1][0])}, (left, steady)
        t.check()


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
def test_never_below_what_was_asked_for() -> None:
    keys = draw(400_000)
    with table(400_000) as t:
        size = t.nbytes
        t.insert(keys, keys)
        t.erase(keys)
        assert t.nbytes == size
        t.shrink()  # which says that less will do
        assert t.nbytes < size / 50
        t.reserve(200_000)
        size = t.nbytes
        t.insert(keys, keys)
        assert t.nbytes > 1.5 * size
        for part in np.array_split(keys, 20):
            t.erase(part)
        assert size <= t.nbytes < 1.3 * size
        assert t.capacity >= 200_000
        t.check()


@pytest.mark.parametrize("options", [{"contract": 0}, {"grow": False}])
def test_or_not_at_all(options: dict) -> None:
    keys = draw(300_000)
    with table(300_000 if "grow" in options else 0, **options) as t:
        t.insert(keys, keys)
        size = t.nbytes
        t.erase(keys)
        assert t.nbytes == size


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
def test_a_lower_threshold() -> None:
    keys = draw(300_000)
    with table(0, contract=0.1) as t:
        t.insert(keys, keys)
        size, lowest = t.nbytes, 1.0
        for part in np.array_split(keys, 100):
            t.erase(part)
            if t.nbytes < size:
                break
            lowest = load(t)
        assert t.nbytes < size
        assert 0.09 < lowest < 0.12


@pytest.mark.parametrize("bad", ["0.26", "-0.1", "much"])
def test_a_threshold_that_is_none(bad: str) -> None:
    with pytest.raises(gh.InvalidArgument, match=r"contract=.*0 .*0\.25"):
        table(100, contract=bad)


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
def test_many_threads_erase() -> None:
    keys = draw(400_000)
    wrong: list[str] = []
    with table(0, threads=1) as t:
        t.insert(keys, keys)
        size = t.nbytes

        def erase(mine: np.ndarray) -> None:
            for part in np.array_split(mine, 40):
                if not t.erase(part).all():
                    wrong.append("a key was lost")

        def look() -> None:
            for _ in range(200):
                if not t.find(keys[-1000:])[1].all():
                    wrong.append("a key that no thread erases was not found")

        workers = [threading.Thread(target=erase, args=(mine,)) for mine in np.array_split(keys[:-1000], 4)]
        workers.append(threading.Thread(target=look))
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()
        assert not wrong, wrong[:3]
        t.check()
        assert len(t) == 1000
        assert t.nbytes < size / 10


@pytest.mark.usual_sizes("when a table contracts depends on the length of its pieces")
@pytest.mark.parametrize(("most", "contract"), [(0.5, "0.25"), (0.3, "0.25"), (0.9, "0.1")])
def test_it_contracts_far_below_the_load_that_it_grows_at(most: float, contract: str) -> None:
    """At no more than 0.3 of `max_load_factor`, whatever `contract` says; 0.01 for the keys of a step."""
    keys = draw(300_000)
    below = min(float(contract), 0.3 * most)
    with table(0, max_load_factor=most, contract=contract) as t:
        t.insert(keys, keys)
        steps = []
        for part in np.array_split(keys[:-1000], 200):
            before = t.info["slots"]
            t.erase(part)
            if t.info["slots"] < before:
                steps.append(len(t) / before)
        t.check()
        assert len(steps) > 2
        assert below - 0.02 < max(steps) <= below + 0.001
