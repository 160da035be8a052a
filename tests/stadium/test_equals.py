"""Large batches of few keys on the CPU: equal keys are combined before they reach the table, and nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

N, KEYS = 60_000, 300


def table(key, value, **more) -> gh.Table:
    return gh.Table("stadium", key_dtype=key, value_dtype=value, device="cpu", **more)


def skewed(key):
    """Numbers of keys, most of them 0, and the keys."""
    rng = np.random.default_rng(3)
    numbers = np.where(rng.random(N) < 0.8, 0, rng.integers(0, KEYS, N))
    factor = 0x9E3779B97F4A7C15 if key == "u8" else 0x9E3779B1
    return numbers, (numbers.astype("u8") * np.uint64(factor)).astype(key)


@pytest.mark.parametrize("key", ["u4", "u8"])
@pytest.mark.parametrize("value", ["u4", "i8", "f4", "f8", None])
def test_one_of_equal_keys_is_inserted(key, value):
    numbers, keys = skewed(key)
    with table(key, value) as t:
        fresh = t.insert(keys, None if value is None else np.arange(N).astype(value))
        assert fresh.sum() == len(t) == len(np.unique(numbers))
        assert len(np.unique(numbers[fresh])) == fresh.sum()
        if value is not None:
            values, found = t.find(keys)
            assert found.all()
            assert (numbers[values.astype("i8")] == numbers).all()
            t[keys] = (np.arange(N) + N).astype(value)
            values, found = t.find(keys)
            assert found.all()
            assert (numbers[values.astype("i8") - N] == numbers).all()
        assert t.erase(keys).sum() == len(np.unique(numbers))
        t.check()


@pytest.mark.parametrize("key", ["u4", "u8"])
@pytest.mark.parametrize(("value", "op"), [(v, op) for v in ("u4", "i8", "f4", "f8") for op in ("add", "min", "max")])
def test_accumulate(key, value, op):
    numbers, keys = skewed(key)
    amounts = (np.arange(N) % 97 + 1).astype(value)
    with table(key, value) as t:
        for _ in range(2):  # into an empty table, and into one that has the keys
            t.accumulate(keys, amounts, op=op)
        join = {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
        for number in (0, 1, KEYS - 1):
            of = amounts[numbers == number]
            expected = join.reduce(np.concatenate([of, of]).astype("f8"))
            assert t[keys[numbers == number][0].item()] == expected
        assert len(t) == len(np.unique(numbers))
        t.check()


def test_elements_without_room_say_so():
    """The key of most elements finds none: all of them say so, and succeed when there is room."""
    with table("u4", "i8", capacity=64, grow=False) as t:
        filler = np.arange(1000, 1000 + t.info["slots"], dtype="u4")
        assert t.insert(filler, np.zeros(len(filler), "i8")).all()  # every slot is taken
        keys = np.full(N, 7, "u4")
        keys[::1000] = filler[0]
        with pytest.raises(gh.TableFull) as raised:
            t.accumulate(keys, 1)
        assert (raised.value.status[keys == 7] == 2).all()
        assert (raised.value.status[keys != 7] == 0).all()
        assert len(t) == len(filler)
        t.reserve(1000)
        t.accumulate(keys[keys == 7], 1)
        assert t[7] == (keys == 7).sum()
        assert t[int(filler[0])] == (keys != 7).sum()
        t.check()
