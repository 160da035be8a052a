"""`gh.partition` and `gh.shard_of`: what a shard is, what is grouped, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

SALT = 0x452821E638D01377
SHARDS = [1, 2, 3, 8, 128, 129, 255, 256, 257, 65536]


def wanted_shards(keys, shards, seed=0):
    hashes = np.asarray(gh.hash_array(keys, seed=seed ^ SALT)).astype(object)
    return [(int(h) >> 32) * shards >> 32 for h in hashes]


def listed(column):
    if isinstance(column, tuple):
        return list(zip(*map(listed, column), strict=True))
    return (
        column.tolist()
        if hasattr(column, "tolist")
        else column.to_pylist()
        if hasattr(column, "to_pylist")
        else list(column)
    )


def check(keys, shards, values=None, seed=0, **how):
    """A partition against one by plain Python; the keys have a list of elements."""
    made = gh.partition(keys, shards, seed, values, **how)
    ids = wanted_shards(keys, shards, seed)
    order = sorted(range(len(ids)), key=ids.__getitem__)  # which is stable
    assert made.order.tolist() == order
    assert made.offsets.tolist() == np.searchsorted(sorted(ids), range(shards + 1)).tolist()
    assert listed(made.keys) == [listed(keys)[i] for i in order]
    if values is None:
        assert made.values is None
    else:
        assert listed(made.values) == [listed(values)[i] for i in order]
    assert np.asarray(gh.shard_of(keys, shards, seed)).tolist() == ids
    return made


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("n", [0, 1, 5, 600])
def test_rows_are_grouped_and_keep_their_order(shards, n):
    keys = np.random.default_rng(7).integers(0, 1000, n)
    made = check(keys, shards, np.arange(n, dtype="u4"))
    assert len(made) == shards
    assert made.keys.dtype == keys.dtype
    assert made.values.dtype == np.uint32


@pytest.mark.parametrize("threads", [1, 2, 4096, None])
def test_threads(threads):
    """More rows than a thread's slice has, so that there are several; shards that get no row of some slices."""
    keys = np.random.default_rng(8).integers(0, 2**60, 300_001)
    keys[:100_000] = 5
    made = gh.partition(keys, 257, values=keys * 3, threads=threads)
    ids = gh.shard_of(keys, 257, threads=threads)
    assert made.order.tolist() == np.argsort(ids, kind="stable").tolist()
    assert made.keys.tolist() == keys[made.order].tolist()
    assert made.values.tolist() == (keys[made.order] * 3).tolist()
    assert made.offsets.tolist() == np.searchsorted(np.sort(ids), np.arange(258)).tolist()


@pytest.mark.parametrize(
    "dtype", ["i1", "u2", "i4", "u8", "f2", "f4", "f8", "M8[s]", "m8[ns]", "M8[D]", "?", "V16", "S5", "U3", ">i4"]
)
def test_keys_of_every_width(dtype):
    numbers = np.arange(100)
    keys = np.array([b"%016d" % i for i in numbers], "V16") if dtype == "V16" else numbers.astype(dtype)
    made = gh.partition(keys, 7)
    assert made.keys.dtype == keys.dtype
    assert made.keys.tolist() == keys[made.order].tolist()
    assert sorted(made.order.tolist()) == numbers.tolist()


@pytest.mark.parametrize("values", [
    np.arange(60, dtype="i1"), np.arange(60, dtype="f2"), np.arange(120.0).reshape(60, 2), np.arange(60).astype("S3"),
    np.arange(60, dtype="c16"), np.arange(120)[::2], np.arange(60).astype(object),
    np.arange(180, dtype="u1").reshape(60, 3),
    np.zeros((60, 0)), np.array([(1, 2.0)] * 60, "i4,f8"),
])  # fmt: skip
def test_values_of_every_width(values):
    made = gh.partition(np.arange(60), 4, values=values)
    assert made.values.dtype == values.dtype
    assert made.values.shape == values.shape
    assert made.values.tolist() == values[made.order].tolist()


def test_columns_of_every_library():
    pd, pl, pa = (
        pytest.importorskip(name, reason=f"{name} is not installed") for name in ("pandas", "polars", "pyarrow")
    )
    words = ["b", None, "a", "ccc" * 9, "b", "", None] * 9
    numbers = [3, 1, 2, 3, 3, 8, 9] * 9
    for column in (
        pd.Series(words, name="w"),
        pl.Series("w", words),
        pa.array(words),
        pa.chunked_array([words[:5], words[5:]]),
    ):
        made = gh.partition(column, 5, values=numbers)
        assert type(made.keys) is type(column)
        assert made.order.tolist() == gh.partition(pa.array(words), 5).order.tolist()
        assert [x if isinstance(x, str) else None for x in listed(made.keys)] == [words[i] for i in made.order]
        assert made.values == [numbers[i] for i in made.order]
    for frame in (
        pd.DataFrame({"n": numbers, "w": numbers}),
        pl.DataFrame({"n": numbers, "w": numbers}),
        pa.table({"n": numbers, "w": numbers}),
    ):
        made = gh.partition(frame, 5, values=frame)
        assert type(made.keys) is type(frame)
        assert made.order.tolist() == gh.partition((np.array(numbers), numbers), 5).order.tolist()
        assert made.keys.equals(made.values)
    assert gh.partition(pa.array([1, None, 3]), 3).keys.type == pa.int64()
    assert (
        gh.partition(pl.Series([1, None, 3]), 3).order.tolist()
        == gh.partition(pa.array([1, None, 3]), 3).order.tolist()
    )
    assert gh.partition(pd.Series(["a", "b"], dtype="category"), 3).keys.dtype == "category"


def test_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    keys = torch.arange(20, dtype=torch.int32)
    made = gh.partition(keys, 3, values=torch.ones(20, 2))
    assert made.keys.dtype == torch.int32
    assert made.keys.tolist() == made.order.tolist()
    assert made.values.shape == (20, 2)
    assert gh.shard_of(keys.reshape(4, 5), 3).shape == (4, 5)


# ---- the contract ----------------------------------------------------------------------------------------------------


def test_a_shard_is_what_it_was_and_always_will_be():
    """Numbers of the contract, which no version changes."""
    assert gh.shard_of(np.arange(16), 1000).tolist() == FROZEN["numbers"]
    assert np.asarray(gh.shard_of(["", "a", "gpuhash", "x" * 40], 1000)).tolist() == FROZEN["text"]
    assert gh.shard_of(np.arange(4), 65536, seed=2**64 - 1).tolist() == FROZEN["seed"]


def test_equal_keys_are_of_one_shard_in_any_type():
    for same in (
        [np.array([7], d) for d in ("i1", "u8", "i4", "f4", "f8", ">i4")],
        [np.array([b"a"], f"S{w}") for w in (1, 16, 24)],
    ):
        assert len({int(gh.shard_of(one, 65536)[0]) for one in same}) == 1
    assert gh.shard_of(np.array([0.0, -0.0]), 65536).tolist() == [gh.shard_of(np.array([0]), 65536)[0]] * 2


def test_shards_are_independent_of_hashes_for_the_same_seed():
    """A file or a table that hashes by hash_array with the caller's seed finds the keys of one shard spread over all of
    its own: were the seeds one, they would be in one eighth of them."""
    keys = np.arange(80_000)
    for seed in (0, 1, 12345):
        mine = keys[gh.shard_of(keys, 8, seed) == 3]
        spread = np.bincount(gh.hash_array(mine, seed=seed) >> np.uint64(61), minlength=8)
        assert abs(spread - len(mine) / 8).max() < 5 * (len(mine) / 8) ** 0.5


def test_shards_are_even():
    for keys in (np.arange(65_536), np.arange(65_536) << 32, np.arange(65_536) * 0.1):
        for shards in (2, 129, 257):
            counts = np.bincount(gh.shard_of(keys, shards), minlength=shards)
            assert abs(counts - 65_536 / shards).max() < 6 * (65_536 / shards) ** 0.5


@pytest.mark.parametrize("structure", ["linear_probe", "hive", "slab_hash"])
def test_keys_of_one_shard_do_not_cluster_in_a_table_of_the_same_seed(structure):
    """Tables of the caller's seed, of the keys of one shard, have no more used slots than those of any keys."""
    keys = np.arange(400_000, dtype=np.uint64)
    mine = keys[gh.shard_of(keys, 8, seed=5) == 0]
    with gh.Table(structure, key_dtype="u8", seed=5) as one, gh.Table(structure, key_dtype="u8", seed=5) as other:
        one.insert(mine, 0)
        other.insert(keys[: len(mine)], 0)
        assert one.info["slots"] <= 2 * other.info["slots"]
        assert one.contains(mine).all()
        one.check()


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"shards": 0}, gh.InvalidArgument, "shards=0 is out of range: pass 1 to 65536"),
        ({"shards": 65537}, gh.InvalidArgument, "shards=65537 is out of range"),
        ({"shards": 2.5}, TypeError, "shards=2.5 is not an integer"),
        ({"seed": -1}, gh.InvalidArgument, "seed=-1 is out of range"),
        ({"threads": 0}, gh.InvalidArgument, "threads=0 is out of range"),
        ({"values": [1]}, ValueError, "values has 1 rows, keys 3: pass one value for each key"),
        ({"values": ([1, 2, 3], [1])}, ValueError, r"values\[1\] has 1 rows"),
        ({"values": 7}, TypeError, "values is a int, not a column"),
        ({"keys": np.zeros((2, 2))}, ValueError, r"keys have shape \(2, 2\): pass a one-dimensional column"),
        ({"keys": 7}, TypeError, "keys is a int, not a column"),
        ({"keys": np.zeros(3, "g")}, TypeError, "keys has dtype"),
    ],
)
def test_what_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        gh.partition(**({"keys": [1, 2, 3], "shards": 4} | arguments))


def test_arrays_of_a_device_are_refused(monkeypatch):
    from pygpuhash import _arrays

    monkeypatch.setattr(_arrays, "on_device", lambda given: given is not None)
    with pytest.raises(gh.Unsupported, match="keys are a ndarray on a GPU, where numbers of CuPy and PyTorch alone"):
        gh.partition(np.arange(3), 2)
    with pytest.raises(gh.Unsupported, match="keys are a ndarray on a GPU, where numbers of CuPy"):
        gh.shard_of(np.arange(3), 2)


FROZEN = {
    "numbers": [699, 295, 926, 878, 942, 318, 169, 623, 618, 280, 923, 384, 508, 519, 588, 360],
    "text": [501, 263, 373, 499],
    "seed": [32967, 25361, 55110, 53698],
}
