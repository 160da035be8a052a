"""Verbs over columns of text and bytes, and over columns with nulls, on a card: against plain Python."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import fake_bytes
from fake_bytes import elements

pytestmark = pytest.mark.gpu


def by_cupy(array: np.ndarray[Any, Any]) -> tuple[int, Any]:
    cupy = pytest.importorskip("cupy")
    there = cupy.asarray(array)
    return there.data.ptr, there


def by_torch(array: np.ndarray[Any, Any]) -> tuple[int, Any]:
    torch = pytest.importorskip("torch")
    there = torch.from_numpy(array.copy()).cuda()
    return there.data_ptr(), there


@pytest.fixture(params=[by_cupy, by_torch], ids=["cupy", "torch"])
def column(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return lambda format, given, **more: fake_bytes.column(format, given, put=request.param, **more)


def numbers(array: Any) -> list[Any]:
    return array.get().tolist()


def keys_of(given: list[Any]) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for element in given:
        counts[element] = counts.get(element, 0) + 1
    return counts


def words(n: int, distinct: int, longest: int, seed: int = 1) -> list[bytes]:
    rng = np.random.default_rng(seed)
    letters = rng.integers(0, 3, 2 * longest + distinct, dtype="u1").tobytes()
    ends = rng.integers(0, longest + 1, distinct)
    some = [letters[i : i + end] for i, end in enumerate(ends)]
    return [some[i] for i in rng.integers(0, distinct, n)]


SIZES = [
    (0, 1, 1),
    (1, 1, 9),
    (1000, 300, 7),
    (5000, 5000, 40),
    (30_000, 200, 300),
    (2000, 500, 5000),
    (60, 40, 200_000),
]


@pytest.mark.parametrize("nulls", ["none", "group", "drop"])
@pytest.mark.parametrize("format", ["z", "Z"])
@pytest.mark.parametrize(("n", "distinct", "longest"), SIZES)
def test_groups(column: Any, format: str, n: int, distinct: int, longest: int, nulls: Any) -> None:
    given: list[Any] = list(words(n, distinct, longest))
    if nulls != "none":
        given = [None if i % 7 == 3 else element for i, element in enumerate(given)]
    wanted = keys_of([element for element in given if nulls != "drop" or element is not None])
    nulls = "group" if nulls == "none" else nulls
    keys = column(format, given, before=n % 13, unaligned=n % 7)
    for order in ("any", "first"):
        found, counts = gh.value_counts(keys, order=order, nulls=nulls)
        assert dict(zip(elements(found), numbers(counts), strict=True)) == wanted
        codes, found = gh.factorize(keys, order=order, nulls=nulls)
        distinct_keys = elements(found)
        assert [None if code < 0 else distinct_keys[code] for code in numbers(codes)] == given
        assert order == "any" or distinct_keys == list(wanted)
        assert sorted(elements(gh.unique(keys, order=order, nulls=nulls)), key=repr) == sorted(wanted, key=repr)
    values = np.arange(n) * 3
    place, alive = by_cupy(values)
    found, (sums, many) = gh.group_reduce(keys, alive, ("sum", "count"), nulls=nulls)
    sums_wanted: dict[Any, int] = {}
    for element, value in zip(given, values.tolist(), strict=True):
        sums_wanted[element] = sums_wanted.get(element, 0) + value
    for key, total, rows in zip(elements(found), numbers(sums), numbers(many), strict=True):
        assert (total, rows) == (sums_wanted[key], wanted[key])
    assert place == alive.data.ptr


@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (3000, 400), (400, 3000), (40_000, 20_000)])
def test_two_columns(column: Any, n: int, m: int, nulls: Any) -> None:
    given: list[Any] = [None if i % 50 == 3 else x for i, x in enumerate(words(n, 2 * n + 1, 90))]
    among: list[Any] = [None if i % 200 == 3 else x for i, x in enumerate(words(m, 2 * m + 1, 90))]
    one, two = column("z", given, before=5), column("Z", among, unaligned=3)
    rows: dict[Any, list[int]] = {}
    for j, y in enumerate(among):
        if y is not None or nulls == "group":
            rows.setdefault(y, []).append(j)
    assert numbers(gh.isin(one, two, nulls=nulls)) == [x in rows for x in given]
    for how in ("inner", "left"):
        left, right = gh.join_indexer(one, two, how, nulls=nulls)
        lone = [-1] if how == "left" else []
        wanted = [(i, j) for i, x in enumerate(given) for j in rows.get(x, lone)]
        assert list(zip(numbers(left), numbers(right), strict=True)) == wanted


@pytest.mark.parametrize("format", ["u", "U"])
def test_one_long_row_beside_many_short_ones(column: Any, format: str) -> None:
    long = "x" * 100_000_000
    short = [f"{i % 1000}" for i in range(200_000)]
    given = [*short, long, *short[:10], long[:-1] + "y", long]
    found, counts = gh.value_counts(column(format, given), order="first")
    assert len(found) == 1002
    assert numbers(counts)[-2:] == [2, 1]
    last = elements(found)[-2:]
    assert [len(x) for x in last] == [len(long)] * 2
    assert last == [long, long[:-1] + "y"]


def test_more_than_4_gib_of_bytes() -> None:
    cupy = pytest.importorskip("cupy")
    size = 1_700_000_001
    data = cupy.zeros(3 * size + 4, "u1")
    data[2 * size - 1] = 1
    offsets = cupy.asarray(np.array([0, 1, 2]) * size, "i8")
    offsets = cupy.concatenate([offsets, cupy.asarray([3 * size, 3 * size + 4])])
    keys = fake_bytes.Column("Z", 4, [0, offsets.data.ptr, data.data.ptr], (offsets, data))
    codes, found = gh.factorize(keys)
    assert numbers(codes) == [0, 1, 0, 2]
    offsets_found = found.buffers[1].get()
    assert offsets_found.tolist() == [0, size, 2 * size, 2 * size + 4]
    there = cupy.asarray(found.buffers[2])
    assert int(there.sum()) == 1
    assert int(there[2 * size - 1]) == 1


@pytest.mark.parametrize("format", ["e", "f", "g", "l", "i", "s", "c", "tss:", "w:3", "d:20,2"])
def test_one_width_with_nulls(column: Any, format: str) -> None:
    rng = np.random.default_rng(2)
    given: list[Any] = rng.integers(-50, 50, 3000).tolist()
    if format in "efg":
        given = [float("nan") if x == 7 else -0.0 if x == 3 else x / 4 for x in given]
    if format == "w:3":
        given = [b"%03d" % abs(x) for x in given]
    if format.startswith("d"):
        given = [x.to_bytes(16, "little", signed=True) for x in given]
    given = [None if i % 9 == 5 else x for i, x in enumerate(given)]
    codes, found = gh.factorize(column(format, given, before=3))
    if format.startswith("d"):
        distinct = [bytes(cell) for cell in found.get().values("V16")]
        nulls = found.get().nulls()
        distinct = [None if null else cell for cell, null in zip(distinct, nulls, strict=True)]
    else:
        distinct = elements(found)
    known = [repr(0.0 if x == 0.0 else x) for x in distinct]
    assert len(set(known)) == len(known)
    assert [known[code] for code in numbers(codes)] == [repr(0.0 if x == 0.0 else x) for x in given]


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_collision(column: Any, monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
    seeds: list[int] = []

    class Colliding(_core.BytesCall):
        def hash(self, seed: int, hashes: int, nulls: bool) -> int | None:
            null = super().hash(seed, hashes, nulls)
            seeds.append(seed)
            if len(seeds) <= attempts:
                _cuda.call("cuMemsetD8Async", hashes, 0, 8 * n, 0)
            return null

    monkeypatch.setattr(_core, "BytesCall", Colliding)
    given = words(3000, 100, 30)
    n = len(given)
    found, counts = gh.value_counts(column("z", given))
    assert dict(zip(elements(found), numbers(counts), strict=True)) == keys_of(given)
    assert len(set(seeds)) == attempts + 1


def test_rows(column: Any) -> None:
    cupy = pytest.importorskip("cupy")
    texts: list[Any] = [None if i % 11 == 3 else x.hex() for i, x in enumerate(words(4000, 30, 6))]
    integers = np.random.default_rng(3).integers(0, 9, 4000)
    for nulls in ("group", "drop"):
        keys = column("u", texts), cupy.asarray(integers)
        (some, others), counts = gh.value_counts(keys, nulls=nulls)
        rows = zip(elements(some), cupy.asnumpy(others).tolist(), strict=True)
        both = [row for row in zip(texts, integers.tolist(), strict=True) if nulls == "group" or row[0] is not None]
        assert dict(zip(rows, cupy.asnumpy(counts).tolist(), strict=True)) == keys_of(both)


def test_rows_of_torch() -> None:
    torch = pytest.importorskip("torch")
    texts = [x.hex() for x in words(4000, 30, 6)]
    integers = np.random.default_rng(3).integers(0, 9, 4000)
    keys = fake_bytes.column("u", texts, put=by_torch), torch.from_numpy(integers).cuda()
    (some, others), counts = gh.value_counts(keys)
    rows = zip(elements(some), others.tolist(), strict=True)
    assert dict(zip(rows, counts.tolist(), strict=True)) == keys_of(list(zip(texts, integers.tolist(), strict=True)))


def test_others_of_the_host(column: Any) -> None:
    given = [x.hex() for x in words(5000, 400, 20)]
    among = set(given[:100])
    assert numbers(gh.isin(column("u", given), among)) == [x in among for x in given]


def test_the_event_comes_first() -> None:
    cupy = pytest.importorskip("cupy")
    data = cupy.zeros(1 << 22, "u1")
    offsets = cupy.arange((1 << 22) + 1, dtype="i4")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(30):
            data += 1
        event = cupy.cuda.Event()
        event.record()
    given = [0, offsets.data.ptr, data.data.ptr]
    found = gh.unique(fake_bytes.Column("z", 1 << 22, given, (offsets, data), event=event.ptr))
    assert elements(found) == [b"\x1e"]


def test_a_stream_of_the_call(column: Any) -> None:
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    given: list[Any] = [None if i % 11 == 3 else x for i, x in enumerate(words(5000, 50, 200))]
    for nulls in ("group", "drop"):
        found, counts = gh.value_counts(column("z", given), stream=stream, nulls=nulls)
        wanted = keys_of([x for x in given if nulls == "group" or x is not None])
        assert dict(zip(elements(found), numbers(counts), strict=True)) == wanted


def test_keys_are_columns_again(column: Any) -> None:
    given = [x.hex() for x in words(5000, 400, 20)]
    found = gh.unique(column("u", given))
    again, counts = gh.value_counts(found)
    assert set(elements(again)) == set(given)
    assert set(numbers(counts)) == {1}


def test_numbers_of_no_library_are_joined() -> None:
    left, right = (fake_bytes.column("l", given, put=by_cupy) for given in ([1, 5, 7, 5], [5, 9, 1]))
    rows = gh.join_indexer(left, right)
    assert [numbers(array) for array in rows] == [[0, 1, 3], [2, 0, 0]]


def test_a_right_key_with_very_many_rows(column: Any) -> None:
    right = ["often"] * 300_000 + ["once"]
    left, right_rows = gh.join_indexer(column("u", ["once", "often", "none"]), column("u", right), "left")
    assert numbers(left) == [0, *[1] * 300_000, 2]
    assert numbers(right_rows) == [300_000, *range(300_000), -1]


@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_a_table_that_is_asked_for(column: Any, nulls: Any) -> None:
    given: list[Any] = [None if i % 7 == 3 else x for i, x in enumerate(words(3000, 200, 30))]
    wanted = keys_of([x for x in given if nulls == "group" or x is not None])
    keys = column("z", given)
    for order in ("any", "first"):
        found, counts = gh.value_counts(keys, backend="linear_probe", order=order, nulls=nulls)
        assert dict(zip(elements(found), numbers(counts), strict=True)) == wanted
        codes, found = gh.factorize(keys, backend="linear_probe", order=order, nulls=nulls)
        distinct = elements(found)
        assert [None if code < 0 else distinct[code] for code in numbers(codes)] == given


def test_narrow_numbers_and_values_of_arrow(column: Any) -> None:
    keys, values = column("s", [3, -1, 3]), column("s", [1, 2, 4])
    found, sums = gh.group_reduce(keys, column("i", [1, 2, 4]), order="first")
    assert (elements(found), numbers(sums)) == ([3, -1], [5, 2])
    assert elements(gh.unique(values, order="first")) == [1, 2, 4]
    rows = (column("u", ["a", None, "a"]), keys)
    (texts, _), sums = gh.group_reduce(rows, column("l", [1, 2, 4]), order="first", nulls="drop")
    assert (elements(texts), sums.tolist()) == (["a"], [5])


@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_reproducible_sums(column: Any, nulls: Any) -> None:
    given: list[Any] = [None if i % 7 == 3 else x for i, x in enumerate(words(20_000, 50, 30))]
    amounts = np.random.default_rng(5).normal(size=20_000) * 1e9
    for keys in (column("z", given), (column("z", given), column("i", [1] * 20_000))):
        found, sums = gh.group_reduce(keys, column("g", amounts.tolist()), reproducible=True, nulls=nulls)
        found = found[0] if isinstance(keys, tuple) else found
        total: dict[Any, list[float]] = {}
        for key, amount in zip(given, amounts.tolist(), strict=True):
            if key is not None or nulls == "group":
                total.setdefault(key, []).append(amount)
        sums = sums.get() if hasattr(sums, "get") else sums.cpu().numpy()
        assert dict(zip(elements(found), sums.tolist(), strict=True)) == pytest.approx(
            {key: math.fsum(parts) for key, parts in total.items()}, rel=1e-9, abs=1e-3
        )
