"""Verbs on columns that lie on a GPU, of CuPy and PyTorch, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu

N = 1 << 20


@pytest.fixture(params=["cupy", "torch"])
def put(request: pytest.FixtureRequest) -> Callable[[np.ndarray[Any, Any]], Any]:
    """A host array on the device, in a library."""
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return lambda array: library.asarray(array)
    return lambda array: library.from_numpy(array).cuda()


def get(array: Any) -> np.ndarray[Any, Any]:
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "float32"])
def test_groups(put: Callable[[np.ndarray[Any, Any]], Any], dtype: str, order: Any) -> None:
    rng = np.random.default_rng(3)
    host = (rng.zipf(1.3, N) % 30_000).astype(dtype)
    values = rng.integers(-1000, 1000, N)
    distinct, first, inverse, counts = np.unique(host, return_index=True, return_inverse=True, return_counts=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, inverse, values)
    keys = put(host)

    def check(found: Any, results: Any = None, wanted: Any = None) -> None:
        assert type(found) is type(keys)
        found = get(found)
        assert found.dtype == dtype
        if order == "first":
            assert np.array_equal(found, host[np.sort(first)])
        at = np.argsort(found)
        assert np.array_equal(found[at], distinct)
        if results is not None:
            assert type(results) is type(keys)
            assert np.array_equal(get(results)[at], wanted)

    check(gh.unique(keys, order=order))
    check(*gh.value_counts(keys, order=order), counts)
    check(*gh.group_reduce(keys, put(values), order=order), sums)
    check(*gh.group_reduce(keys, put(values), "mean", order=order), sums / counts)
    for op, ignoring, start in (("min", np.fmin, np.inf), ("max", np.fmax, -np.inf)):
        floats = np.where(values % 7 == 0, np.nan, values).astype("float32")
        wanted = np.full(len(distinct), start, "float32")
        ignoring.at(wanted, inverse, floats)
        wanted[np.isinf(wanted)] = np.nan
        found, results = gh.group_reduce(keys, put(floats), op, order=order)
        assert np.array_equal(get(results)[np.argsort(get(found))], wanted, equal_nan=True)
    codes, found = gh.factorize(keys, order=order)
    check(found)
    assert get(codes).dtype == np.int64
    assert np.array_equal(get(found)[get(codes)], host)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("begin", [1, 2, 3])
def test_columns_that_begin_anywhere(put: Callable[[np.ndarray[Any, Any]], Any], dtype: str, begin: int) -> None:
    """Not at a multiple of the 16 bytes that a thread reads at once; where they are sorted, neighbours are alike."""
    host = np.sort(np.random.default_rng(begin).integers(0, 5000, 100_003)).astype(dtype)
    keys, host = put(host)[begin:], host[begin:]
    distinct, counts = gh.value_counts(keys)
    wanted = np.unique(host, return_counts=True)
    at = np.argsort(get(distinct))
    assert np.array_equal(get(distinct)[at], wanted[0])
    assert np.array_equal(get(counts)[at], wanted[1])
    codes, distinct = gh.factorize(keys)
    assert np.array_equal(get(distinct)[get(codes)], host)
    left, right = map(get, gh.join_indexer(keys, put(np.append(0, wanted[0]).astype(dtype))[1:]))
    assert np.array_equal(left, np.arange(len(host)))
    assert np.array_equal(wanted[0][right], host)


ROWS = [("int32", "float32"), ("int64", "int16", "uint8"), ("int64", "float64", "int32"), ("int64",) * 6, ("int32",)]


def of_rows(dtypes: tuple[str, ...], n: int, seed: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Columns of few distinct elements, the smallest and the largest of their dtypes among them."""
    rng = np.random.default_rng(seed)
    found = []
    for dtype in map(np.dtype, dtypes):
        ends = [np.nan, -0.0, 0.0, np.inf] if dtype.kind == "f" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
        found.append(np.array([*ends, *range(1, 9)], dtype)[rng.integers(0, len(ends) + 8, n)])
    return tuple(found)


def numbered(columns: tuple[np.ndarray[Any, Any], ...]) -> np.ndarray[Any, Any]:
    """A number for each row, the same for equal rows; 0.0 is -0.0, and all NaNs are one."""
    rows = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = np.unique(column, return_inverse=True)[1]
        rows = np.unique(rows * (codes.max() + 1) + codes, return_inverse=True)[1]
    return rows


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("dtypes", ROWS)
def test_rows_of_several_columns(
    put: Callable[[np.ndarray[Any, Any]], Any], dtypes: tuple[str, ...], order: Any
) -> None:
    given = of_rows(dtypes, 100_003, 1)
    rows = numbered(given)
    _, first, many = np.unique(rows, return_index=True, return_counts=True)
    keys = tuple(map(put, given))

    def check(found: Any) -> np.ndarray[Any, Any]:
        """The number of each distinct row."""
        distinct = tuple(map(get, found))
        assert [column.dtype for column in distinct] == list(dtypes)
        together = tuple(np.concatenate(pair) for pair in zip(given, distinct, strict=True))
        numbers = numbered(together)
        assert np.array_equal(numbers[: len(rows)], rows)
        assert len(set(numbers[len(rows) :].tolist())) == len(distinct[0]) == len(first)
        if order == "first":
            assert np.array_equal(numbers[len(rows) :], rows[np.sort(first)])
        return numbers[len(rows) :]

    check(gh.unique(keys, order=order))
    found, counts = gh.value_counts(keys, order=order)
    assert np.array_equal(get(counts), many[check(found)])
    codes, found = gh.factorize(keys, order=order)
    assert np.array_equal(check(found)[get(codes)], rows)
    values = np.arange(len(rows))
    found, sums = gh.group_reduce(keys, put(values), order=order)
    assert np.array_equal(get(sums), np.bincount(rows, values)[check(found)])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 700, 300_000])
def test_reproducible_sums(put: Callable[[np.ndarray[Any, Any]], Any], kind: str, groups: int) -> None:
    """The bits are those of the CPU, whatever the order of the rows."""
    rng = np.random.default_rng(groups)
    keys = rng.integers(0, groups, 400_000)
    values = (rng.standard_normal(len(keys)) * np.ldexp(1.0, rng.integers(-60, 60, len(keys)))).astype(kind)
    values[: groups // 10] *= np.inf
    for op in ("sum", "mean"):
        wanted, results = gh.group_reduce(keys, values, op, order="first", reproducible=True)
        found, there = gh.group_reduce(put(keys), put(values), op, order="first", reproducible=True)
        assert np.array_equal(get(found), wanted)
        assert get(there).tobytes() == results.tobytes()
        rows = rng.permutation(len(keys))
        found, there = gh.group_reduce(put(keys[rows]), put(values[rows]), op, reproducible=True)
        assert get(there)[np.argsort(get(found))].tobytes() == results[np.argsort(wanted)].tobytes()


@pytest.mark.parametrize("dtypes", ROWS)
def test_two_tuples(put: Callable[[np.ndarray[Any, Any]], Any], dtypes: tuple[str, ...]) -> None:
    left, right = of_rows(dtypes, 20_000, 2), of_rows(dtypes, 300, 3)
    rows = numbered(tuple(np.concatenate(pair) for pair in zip(left, right, strict=True)))
    one, other = rows[:20_000], rows[20_000:]
    keys, among = tuple(map(put, left)), tuple(map(put, right))
    assert np.array_equal(get(gh.isin(keys, among)), np.isin(one, other))
    i, j = map(get, gh.join_indexer(keys, among))
    wanted = np.array([(a, b) for a, row in enumerate(one.tolist()) for b in np.flatnonzero(other == row)])
    assert np.array_equal(np.stack([i, j], axis=1), wanted.reshape(-1, 2))


def columns(n: int, dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    """What a partition by hashes could get wrong."""
    rng = np.random.default_rng(n)
    numbers = np.arange(n)
    found = {
        "one key": np.full(n, 7),
        "distinct": rng.permutation(n),
        "sorted": numbers,
        "clustered": numbers // 5000,
        "few": rng.integers(-500, 500, n) if dtype[0] == "i" else rng.integers(0, 1000, n),
        "half of them one key": np.where(numbers % 2, 3, rng.integers(0, 2**31, n)),
        "skewed": rng.zipf(1.2, n) % 2**31,
        "all bits set": np.where(numbers % 3, rng.integers(0, 2**31, n), -1),
    }
    return {name: column.astype(dtype) for name, column in found.items()}


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("n", [1, 2, 2049, 65_535, 65_536, 1_000_003])
def test_columns_of_every_shape(put: Callable[[np.ndarray[Any, Any]], Any], n: int, dtype: str) -> None:
    for name, host in columns(n, dtype).items():
        wanted, first, many = np.unique(host, return_index=True, return_counts=True)
        keys = put(host)
        for order in ("any", "first"):
            found, counts = (get(array) for array in gh.value_counts(keys, order=order))
            at = np.argsort(found)
            assert np.array_equal(found[at], wanted), (name, order)
            assert np.array_equal(counts[at], many), (name, order)
            codes, of_codes = (get(array) for array in gh.factorize(keys, order=order))
            assert np.array_equal(of_codes[codes], host), (name, order)
            alone = get(gh.unique(keys, order=order))
            assert np.array_equal(np.sort(alone), wanted), (name, order)
            if order == "first":
                for some in (found, of_codes, alone):
                    assert np.array_equal(some, host[np.sort(first)]), name


def keys_of(hashes: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """The keys of 8 bytes that have these hashes (libgpuhash/columns/cuda/work.cuh)."""
    h = hashes ^ hashes >> np.uint64(33)
    h = h * np.uint64(0x9CB4B2F8129337DB)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0x4F74430C22A54005)
    return (h ^ h >> np.uint64(33)) ^ np.uint64(seed)


def test_keys_chosen_against_the_hash(put: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """All keys but one are in one bin, of many times a table's keys; the hash of the other one has all bits set."""
    n, seed = 50_000, 77
    chosen = np.uint64(0x3FF << 52) | np.arange(n, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
    chosen[n // 2] = np.uint64(2**64 - 1)
    rng = np.random.default_rng(1)
    for repeats in (1, 3):
        host = keys_of(np.tile(chosen, repeats), seed)
        rng.shuffle(host)
        wanted, first = np.unique(host, return_index=True)
        assert len(wanted) == n
        keys = put(host)
        found, counts = (get(array) for array in gh.value_counts(keys, order="any", seed=seed))
        assert np.array_equal(np.sort(found), wanted)
        assert (counts == repeats).all()
        for order in ("any", "first"):
            codes, distinct = (get(array) for array in gh.factorize(keys, order=order, seed=seed))
            assert np.array_equal(distinct[codes], host), order
            assert len(distinct) == n, order
        assert np.array_equal(distinct, host[np.sort(first)])


KINDS = ["float32", "float64", "int32", "int64", "uint32"]


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize(
    ("dtype", "given"), [*(("int32", kind) for kind in KINDS), ("int64", "float32"), ("int64", "int64")]
)
@pytest.mark.parametrize("n", [1, 2049, 300_007])
def test_aggregates(put: Callable[[np.ndarray[Any, Any]], Any], n: int, dtype: str, given: str, order: Any) -> None:
    """All five by one call, of columns of every shape."""
    rng = np.random.default_rng(n)
    values = rng.integers(-1000, 1000, n).astype(given)
    if given[0] == "f":
        values[rng.integers(0, n, n // 20)] = np.nan
    wide = values.astype(f"{values.dtype.kind}8")
    for name, host in columns(n, dtype).items():
        distinct, first, inverse, counts = np.unique(host, return_index=True, return_inverse=True, return_counts=True)
        sums = np.zeros(len(distinct), wide.dtype)
        np.add.at(sums, inverse, wide)
        means = np.bincount(inverse, values.astype("f8"), len(distinct)) / counts
        missing = np.nan if given[0] == "f" else 0
        low, high = np.full(len(distinct), missing, given), np.full(len(distinct), missing, given)
        low[inverse] = high[inverse] = values
        order_of = np.argsort(np.isnan(values) if given[0] == "f" else np.zeros(n), kind="stable")[::-1]
        low[inverse[order_of]] = high[inverse[order_of]] = values[order_of]  # a number where there is one
        np.fmin.at(low, inverse, values)
        np.fmax.at(high, inverse, values)
        found, results = gh.group_reduce(put(host), put(values), ("sum", "mean", "min", "max", "count"), order=order)
        keys, results = get(found), [get(result) for result in results]
        at = np.argsort(keys)
        assert np.array_equal(keys[at], distinct), name
        if order == "first":
            assert np.array_equal(keys, host[np.sort(first)]), name
        for result, wanted in zip(results, (sums, means, low, high, counts), strict=True):
            assert result.dtype == wanted.dtype, name
            assert np.allclose(result[at], wanted, rtol=1e-12, equal_nan=True), name


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("others", [1, 1024, 2048, 2049, 300_000, 4_200_000, 6_000_001])
def test_isin_of_many_sizes(put: Callable[[np.ndarray[Any, Any]], Any], others: int, dtype: str) -> None:
    rng = np.random.default_rng(others)
    among = rng.integers(0, 4 * others, others).astype(dtype)
    among[0] = -1
    keys = rng.integers(-1, 4 * others, 100_003).astype(dtype)
    for part in (slice(None), slice(1, None), slice(0, 0)):
        assert np.array_equal(get(gh.isin(put(keys)[part], put(among))), np.isin(keys[part], among))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", ["one key", "half one key", "clustered", "few", "sorted"])
def test_isin_of_very_many_others(put: Callable[[np.ndarray[Any, Any]], Any], shape: str, dtype: str) -> None:
    """Both columns are divided; of keys that are in both, in the keys alone, and in the others alone."""
    n, others = 3_000_001, 5_000_003
    rng = np.random.default_rng(others)

    def column(rows: int, salt: int) -> np.ndarray[Any, Any]:
        some = rng.integers(0, 10**9, rows)
        made = {
            "one key": np.full(rows, 7),
            "half one key": np.where(some % 2, 7 + salt, some),
            "clustered": np.arange(rows) // 200 * 2,
            "few": some % 1000,
            "sorted": np.arange(rows) * 3,
        }[shape]
        made[: rows // 10] = rng.integers(0, 10**9, rows // 10)
        return made.astype(dtype)

    for salt in (0, 1):
        keys, among = column(n, 0), column(others, salt)
        keys[5] = among[9] = -1
        assert np.array_equal(get(gh.isin(put(keys), put(among))), np.isin(keys, among))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32"])
def test_joins(put: Callable[[np.ndarray[Any, Any]], Any], dtype: str, how: Any) -> None:
    """As on the host: with rows that repeat or do not, empty sides, and many partners for one key."""
    rng = np.random.default_rng(6)
    left = rng.integers(0, 60_000, 50_000).astype(dtype)
    heavy = np.where(np.arange(3000) % 2, 7, rng.integers(0, 60_000, 3000)).astype(dtype)
    rights = {
        "unique": rng.permutation(60_000)[:40_000].astype(dtype),
        "four of each": rng.permutation(np.repeat(np.arange(10_000), 4)).astype(dtype),
        "empty": left[:0],
        "one": left[:1],
        "heavy": heavy,
        "four of each, and none meets": np.repeat(np.arange(70_000, 70_010), 4).astype(dtype),
    }
    cases = [(left, right) for right in rights.values()] + [(left[:0], left), (heavy, heavy)]
    for one, other in cases:
        found = gh.join_indexer(put(one), put(other), how)
        for result, wanted in zip(found, gh.join_indexer(one, other, how), strict=True):
            assert type(result) is type(put(one))
            assert np.array_equal(get(result), wanted), (len(one), len(other))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_joins_of_many_rows(put: Callable[[np.ndarray[Any, Any]], Any], dtype: str, how: Any) -> None:
    """Which are partitioned in two passes, and left rows of a frequent key."""
    rng = np.random.default_rng(7)
    right = rng.permutation(2 * N)[: N + 5000].astype(dtype)
    left = np.where(rng.random(N + 777) < 0.2, right[3], rng.integers(0, 3 * N, N + 777)).astype(dtype)
    place = np.full(3 * N, -1)
    place[right] = np.arange(len(right))
    i, j = map(get, gh.join_indexer(put(left), put(right), how))
    rows = np.arange(len(left)) if how == "left" else np.flatnonzero(place[left] >= 0)
    assert np.array_equal(i, rows)
    assert np.array_equal(j, place[left][rows])


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("repeats", [2, 4, 8, 9, 33, 1500, 20_000, 1 << 18, (1 << 18) + 1])  # of each right key
def test_joins_whose_right_rows_repeat(
    put: Callable[[np.ndarray[Any, Any]], Any], dtype: str, how: Any, repeats: int
) -> None:
    """Lists that a thread, a warp and a block sort, and more than are listed; many left rows are of one key."""
    rng = np.random.default_rng(repeats)
    keys = rng.permutation(2 * N)[: N // repeats + 2]
    right = rng.permutation(np.repeat(keys, repeats)).astype(dtype)
    many = max(N // repeats, 4)
    left = np.where(rng.random(many) < 0.4, keys[0], rng.integers(0, 2 * N, many)).astype(dtype)
    left[many // 4 : many // 2] = -1  # a stretch of rows without pairs
    i, j = map(get, gh.join_indexer(put(left), put(right), how))
    met = np.isin(left, keys)
    each = np.where(met, repeats, how == "left")
    assert np.array_equal(i, np.repeat(np.arange(many), each))
    order = np.argsort(right, kind="stable")
    begin = np.searchsorted(right, left, sorter=order)
    within = np.arange(len(i)) - np.repeat(np.cumsum(each) - each, each)
    places = np.minimum(np.repeat(begin, each) + within, len(right) - 1)
    assert np.array_equal(j, np.where(np.repeat(met, each), order[places], -1))


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("rows", [1, 1000, N])
def test_all_nan(put: Callable[[np.ndarray[Any, Any]], Any], rows: int, order: Any) -> None:
    """A column of nulls, as floats have them, is one group; an aggregate of nothing else is null, too."""
    nulls, whole = np.full(rows, np.nan, "f4"), np.arange(rows)
    codes, distinct = gh.factorize(put(nulls), order=order)
    assert np.array_equal(get(distinct), [np.nan], equal_nan=True)
    assert not get(codes).any()
    found, counts = gh.value_counts(put(nulls), order=order)
    assert (len(found), get(counts).tolist()) == (1, [rows])
    _, lows = gh.group_reduce(put(whole // 2), put(nulls), "min", order=order)
    assert len(lows) == (rows + 1) // 2
    assert np.isnan(get(lows)).all()
    left, right = min(rows, 50), min(rows, 3)
    pairs = [get(found) for found in gh.join_indexer(put(nulls[:50]), put(nulls[:3]))]
    assert np.array_equal(pairs, [np.repeat(np.arange(left), right), np.tile(np.arange(right), left)])


def test_two_streams() -> None:
    """Calls of two threads, each on a stream of its own, whose results are read on another one."""
    torch = pytest.importorskip("torch")
    reader = torch.cuda.Stream()

    def work(number: int) -> list[bool]:
        rng, held = np.random.default_rng(number), []
        with torch.cuda.stream(torch.cuda.Stream()):
            for n in rng.integers(1, 300_000, 12):
                host = rng.integers(0, n // 2 + 1, n) * (number + 1)
                keys = torch.from_numpy(host).cuda()
                codes, distinct = gh.factorize(keys, order=("any", "first")[n % 2])
                found, counts = gh.value_counts(keys, order="first")
                reader.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(reader):
                    wanted, first, many = np.unique(host, return_index=True, return_counts=True)
                    held.append(np.array_equal(distinct.cpu()[codes.cpu()].numpy(), host))
                    held.append(np.array_equal(found.cpu().numpy(), wanted[np.argsort(first)]))
                    held.append(np.array_equal(counts.cpu().numpy(), many[np.argsort(first)]))
        return held

    with ThreadPoolExecutor(2) as pool:
        assert all(all(held) for held in pool.map(work, range(2)))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2**31, 2**31 + 12345])  # the most that one call of the kernels takes, and more
def test_very_many_rows(rows: int) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.mem_get_info()[1] < 70 << 30:
        pytest.skip("the GPU has less than 70 GiB of memory")
    period = 1_000_003  # a prime number, so that the products run through all remainders before one comes again
    keys = torch.empty(rows, dtype=torch.int32, device="cuda")
    for begin in range(0, rows, 1 << 28):
        part = torch.arange(begin, min(begin + (1 << 28), rows), device="cuda")
        keys[begin : begin + len(part)] = part.mul_(2654435761).remainder_(period)
    distinct = gh.unique(keys, order="first")
    assert torch.equal(distinct, keys[:period])
    found, counts = gh.value_counts(keys)
    wanted = torch.full((period,), rows // period, device="cuda")
    wanted[keys[: rows % period].long()] += 1
    assert len(found) == period
    assert torch.equal(counts, wanted[found.long()])
    few = keys[:period:1000].contiguous()
    mask = gh.isin(keys, few)
    assert int(mask.sum()) == int(wanted[few.long()].sum())
    assert bool(mask[-period:][gh.isin(keys[-period:].contiguous(), few)].all())


def test_of_no_rows(put: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    keys = put(np.empty(0, np.int64))
    assert get(gh.unique(keys)).shape == (0,)
    assert [get(array).shape for array in (*gh.value_counts(keys), *gh.factorize(keys))] == [(0,)] * 4


def test_isin(put: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    host = np.random.default_rng(4).integers(0, 1000, N)
    keys, few = put(host), np.arange(0, 1000, 7)
    for among in (put(few), few, few.tolist()):
        mask = gh.isin(keys, among)
        assert type(mask) is type(keys)
        assert np.array_equal(get(mask), host % 7 == 0)
    assert np.array_equal(gh.isin(host, put(few)), host % 7 == 0)


def test_columns_of_the_host_on_a_gpu() -> None:
    numbers = np.random.default_rng(5).integers(-1, 2, N)
    found, counts = gh.value_counts(numbers, order="first", device="cuda")
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == {n: int((numbers == n).sum()) for n in (-1, 0, 1)}
    with pytest.raises(gh.Unsupported, match="device='cuda' is for keys that are single numbers"):
        gh.value_counts(["a", "bb"], device="cuda")
    left, right = np.arange(N) % 1000, np.arange(0, 2000, 2)
    i, j = gh.join_indexer(left, right, device="cuda")
    assert np.array_equal(i, np.flatnonzero(left % 2 == 0))
    assert np.array_equal(right[j], left[i])
