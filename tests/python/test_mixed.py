"""Mixed batches on the CPU: elements are sorted by kind, a chunk at a time, and answered in their own order.
None of it may be seen in what a batch does and answers.
"""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import Op

CHUNK = 16_384
SIZES = [1, 255, 256, 257, 259, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 300, 5 * CHUNK + 3]
ADDING = [Op.INSERT, Op.ASSIGN, Op.ACCUMULATE]
LIMIT = 2**40


def table(backend: str, key: str, value: str | None, capacity: int, **options) -> gh.Table:
    return gh.Table(backend, capacity=capacity, key_dtype=key, value_dtype=value, device="cpu", seed=3, **options)


def kinds_of(t: gh.Table) -> list[Op]:
    kinds = [Op.NOP, Op.FIND, Op.INSERT, Op.ASSIGN, Op.ERASE]
    return kinds if t.value_dtype is None else [*kinds, Op.ACCUMULATE]


def expected(ops: np.ndarray, there: np.ndarray, old: np.ndarray, given: np.ndarray) -> tuple:
    """Masks, values found, and which keys live with what after it, where each key has one element."""
    adds = np.isin(ops, ADDING)
    mask = np.where(adds, ~there, there) & (ops != Op.NOP)
    found = np.where((ops == Op.FIND) & there, old, 0)
    lives = np.where(ops == Op.ERASE, False, there | adds)
    value = np.where(adds & ~there, given, old)
    value = np.where((ops == Op.ASSIGN) & there, given, value)
    value = np.where((ops == Op.ACCUMULATE) & there, old + given, value)
    return mask, found, lives, value


def check_one_each(backend: str, key: str, value: str | None, n: int, ops_of, **options) -> None:
    random = np.random.default_rng(n)
    with table(backend, key, value, 2 * n + 64, **options) as t:
        keys = random.permutation(np.arange(n)).astype(key) * np.array(0x9E3779B1, key)
        keys[keys == 0] = np.iinfo(key).max  # a key of the side slots
        there = random.random(n) < 0.5
        old = random.integers(1, 1 << 30, n)
        given = random.integers(1, 1 << 30, n)
        ops = ops_of(random, t, n).astype(np.uint8)
        mask, found, lives, final = expected(ops, there, old, given)
        if value is None:
            t.insert(keys[there])
            got, got_mask = t.execute(ops, keys)
            assert got is None
        else:
            t.insert(keys[there], old[there].astype(value))
            got, got_mask = t.execute(ops, keys, given.astype(value))
            assert np.array_equal(got, found.astype(value))
        assert np.array_equal(got_mask, mask)
        left, values = t.export()
        order, wanted = np.argsort(left), np.argsort(keys[lives])
        assert np.array_equal(left[order], keys[lives][wanted])
        if value is not None:
            assert np.array_equal(values[order], final[lives][wanted].astype(value))
        assert len(t) == np.count_nonzero(lives)
        t.check()


def any_ops(random, t: gh.Table, n: int) -> np.ndarray:
    return random.choice(kinds_of(t), n)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", SIZES)
def test_one_element_of_each_key(backend: str, n: int, threads: int) -> None:
    check_one_each(backend, "uint32", "uint32", n, any_ops, threads=threads)


@pytest.mark.parametrize("parts", ["always", "never"])
@pytest.mark.parametrize("name", ["hive", "linear_probe", "slab_hash"])
def test_whatever_parts_says(name: str, parts: str) -> None:
    check_one_each(name, "uint64", "int64", CHUNK + 77, any_ops, parts=parts)


@pytest.mark.parametrize(
    "widths",
    [("uint64", "int64"), ("uint32", "int64"), ("uint64", "uint32"), ("uint64", None), ("uint32", None)],
    ids=str,
)
def test_widths(backend: str, widths: tuple) -> None:
    check_one_each(backend, *widths, CHUNK + 301, any_ops)


@pytest.mark.parametrize("rest", [Op.NOP, Op.FIND, Op.INSERT, Op.ASSIGN, Op.ERASE, Op.ACCUMULATE])
@pytest.mark.parametrize("many", [0, 1, 5])
def test_nearly_all_of_one_kind(backend: str, many: int, rest: Op) -> None:
    def ops_of(random, t: gh.Table, n: int) -> np.ndarray:
        ops = np.full(n, rest)
        ops[random.choice(n, many, replace=False)] = random.choice(kinds_of(t), many)
        ops[-1] = rest if many == 0 else random.choice(kinds_of(t))
        return ops

    check_one_each(backend, "uint32", "uint32", CHUNK + 5, ops_of)


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spread", [1, 2, 300, 20_000])
def test_elements_of_the_same_keys(backend: str, spread: int, threads: int, grow: bool) -> None:
    """Sums lose nothing, one element says that it inserted, and what is found is a sum on the way to the last one."""
    n = 3 * CHUNK
    random = np.random.default_rng(spread)
    keys = random.integers(0, spread, n).astype(np.uint64)
    values = random.integers(0, LIMIT, n)
    ops = random.choice([Op.ACCUMULATE, Op.FIND, Op.NOP], n, p=[0.5, 0.4, 0.1]).astype(np.uint8)
    adds = ops == Op.ACCUMULATE
    with table(backend, "uint64", "int64", 100 if grow else 2 * spread + 100, threads=threads, grow=grow) as t:
        found, mask = t.execute(ops, keys, values)
        sums = np.zeros(spread, np.int64)
        np.add.at(sums, keys[adds], values[adds])
        left, totals = t.export()
        order = np.argsort(left)
        assert np.array_equal(left[order], np.unique(keys[adds]))
        assert np.array_equal(totals[order], sums[left[order]])
        assert np.array_equal(np.sort(keys[mask & adds]), np.unique(keys[adds]))
        assert not mask[ops == Op.NOP].any()
        assert not found[(ops != Op.FIND) | ~mask].any()
        assert (found <= sums[keys]).all()
        t.check()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spread", [1, 3, 5_000])
def test_what_comes_and_goes(backend: str, spread: int, threads: int) -> None:
    """Of each key as many come as go, but for the one that is there in the end."""
    n = 3 * CHUNK
    random = np.random.default_rng(spread)
    keys = random.integers(0, spread, n).astype(np.uint32)
    ops = random.choice([Op.INSERT, Op.ASSIGN, Op.ERASE, Op.FIND], n).astype(np.uint8)
    with table(backend, "uint32", "uint32", 2 * spread + 100, threads=threads) as t:
        found, mask = t.execute(ops, keys, keys + 1)
        came = np.bincount(keys[mask & np.isin(ops, ADDING)], minlength=spread)
        went = np.bincount(keys[mask & (ops == Op.ERASE)], minlength=spread)
        left, values = t.export()
        assert np.array_equal(came - went, np.bincount(left, minlength=spread))
        assert np.array_equal(values, left + 1)
        reads = (ops == Op.FIND) & mask
        assert np.array_equal(found[reads], keys[reads] + 1)
        assert not found[~reads].any()
        t.check()


@pytest.mark.parametrize("name", ["hive", "linear_probe", "slab_hash", "stadium"])
def test_where_there_is_no_room(name: str) -> None:
    """Elements that found no room say so, those of other kinds in the same batch are served."""
    n = 4 * CHUNK
    keys = np.arange(1, n + 1, dtype=np.uint32)
    ops = np.where(np.arange(n) % 2 == 0, Op.INSERT, Op.FIND).astype(np.uint8)
    with table(name, "uint32", "uint32", 1000, grow=False) as t:
        t.insert(keys[1:401:2], keys[1:401:2])
        found = np.empty(n, np.uint32)
        mask = np.empty(n, bool)
        with pytest.raises(gh.TableFull):
            t.execute(ops, keys, keys, out=found, found=mask)
        there = np.zeros(n, bool)
        there[1:401:2] = True
        assert np.array_equal(mask[ops == Op.FIND], there[ops == Op.FIND])
        assert np.array_equal(found, np.where(there, keys, 0))
        left = np.sort(t.export()[0])
        assert np.array_equal(left, np.sort(keys[mask | there]))
        assert mask[ops == Op.INSERT].any()
        t.check()


@pytest.mark.parametrize("at", [0, 65_535, 65_536, 262_143, 300_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_library_refuses_one_unknown_code_of_many(at: int, threads: int) -> None:
    """That element is left out, and has status 4; the others are carried out."""
    n = 300_001
    keys = np.arange(n, dtype=np.uint32)
    ops = np.full(n, Op.INSERT, np.uint8)
    ops[at] = 6
    status = np.full(n, 0xEE, np.uint8)
    with table("linear_probe", "uint32", "uint32", 2 * n, threads=threads) as t:
        failure = t._raw(9, n, keys.ctypes.data, keys.ctypes.data, 0, status.ctypes.data, ops.ctypes.data)
        assert isinstance(failure, gh.InvalidArgument)
        assert f"ops[{at}] is 6, which execute does not have" in str(failure)
        assert status[at] == 4
        assert np.count_nonzero(status == 1) == n - 1
        assert len(t) == n - 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", ["float32", "float64"])
@pytest.mark.parametrize("n", [200, 3 * CHUNK + 5])
def test_floats_that_are_summed_in_a_mixed_batch(backend: str, n: int, value: str, threads: int) -> None:
    """Keys that many elements name. Numbers are such that every order gives the same sum, as long as none is lost."""
    random = np.random.default_rng(n)
    few = 64
    with table(backend, "uint32", value, 4 * few, threads=threads) as t:
        old = random.integers(-(2**9), 2**9, few // 2).astype(value) / 4
        t.insert(np.arange(few // 2), old)
        sums = dict(enumerate(old.tolist()))
        ops = random.choice([Op.ACCUMULATE, Op.ACCUMULATE, Op.FIND, Op.NOP], n).astype(np.uint8)
        keys = random.integers(0, few, n).astype("uint32")
        given = random.integers(-(2**9), 2**9, n).astype(value) / 4
        _, mask = t.execute(ops, keys, given)
        added = ops == Op.ACCUMULATE
        for k, x in zip(keys[added].tolist(), given[added].tolist(), strict=True):
            sums[k] = sums.get(k, 0) + x
        left, values = t.export()
        assert dict(zip(left.tolist(), values.tolist(), strict=True)) == sums
        assert np.count_nonzero(mask[added]) == len(sums) - few // 2
        for combine, join in (("min", min), ("max", max)):
            t.execute(np.full(n, Op.ACCUMULATE, np.uint8), keys, given * 64, op=combine)
            for k, x in zip(keys.tolist(), (given * 64).tolist(), strict=True):
                sums[k] = join(sums.get(k, x), x)
            left, values = t.export()
            assert dict(zip(left.tolist(), values.tolist(), strict=True)) == sums
        t.check()
