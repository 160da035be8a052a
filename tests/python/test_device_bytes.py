"""Verbs on columns of text and bytes, and on columns with nulls, of a GPU that is not here, against plain Python.

The kernels are those of `fake_bytes.py`, in memory of the host. The real ones are tried on warps that the CPU plays
(tests/warp/test_columns.py) and on a card (tests/gpu/test_device_bytes.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _device_bytes, _device_joins

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_bytes
import fake_cuda
import fake_kernels
from fake_bytes import column, elements
from fake_kernels import host


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(fake_bytes.BytesCall, "seeds", [])
    monkeypatch.setattr(fake_bytes.BytesCall, "streams", set())
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    with fake_kernels.installed(monkeypatch) as (put, _):
        yield put


def collide(monkeypatch: pytest.MonkeyPatch, attempts: int) -> list[int]:
    """The first so many seeds give all rows one hash. Gives the seeds that are used."""
    monkeypatch.setattr(fake_bytes.BytesCall, "constant", lambda attempt: attempt < attempts)
    return fake_bytes.BytesCall.seeds


def numbers(array: Any) -> list[Any]:
    return host(array.get() if hasattr(array, "get") else array).tolist()


TEXTS: dict[str, list[Any]] = {
    "none": [],
    "one": ["alone"],
    "empty": ["", "", ""],
    "equal": ["same"] * 20,
    "distinct": [f"number {i}" for i in range(40)],
    "prefixes": ["", "a", "a\0", "a\0\0", "ab", "a", "", "a\0", "b"],
    "long": ["x", "y" * 3000, "x", "y" * 2999 + "z", "y" * 3000, "y" * 2999],
    "words": [f"w{i * i % 23:03}" + "ß" * (i % 3) for i in range(200)],
}
COLUMNS: list[tuple[str, list[Any]]] = [
    *(("u", texts) for texts in TEXTS.values()),
    ("U", TEXTS["words"]),
    *((format, [text.encode() for text in TEXTS["prefixes"]]) for format in "zZ"),
    ("w:5", [b"abcde", b"abcd\0", b"abcde", b"bbcde"]),
    ("l", [5, -1, 5, 2**63 - 1, -(2**63)]),
    ("tss:UTC", [7, 8, 7]),
    ("s", [7, -8, 7]),
]
IDS = [f"{format}-{i}" for i, (format, _) in enumerate(COLUMNS)]


def with_nulls(given: list[Any]) -> list[Any]:
    return [None if i % 3 == 1 else element for i, element in enumerate(given)] + [None]


def keys_of(given: list[Any], nulls: str) -> dict[Any, int]:
    """How often each key is there, in the order of first appearance."""
    counts: dict[Any, int] = {}
    for element in given:
        if element is not None or nulls == "group":
            counts[element] = counts.get(element, 0) + 1
    return counts


# ---- verbs of one column ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("nulls", ["none", "group", "drop"])
@pytest.mark.parametrize(("before", "unaligned", "counted"), [(0, 0, True), (3, 5, False)])
@pytest.mark.parametrize(("format", "given"), COLUMNS, ids=IDS)
def test_groups(
    put: Any, format: str, given: list[Any], before: int, unaligned: int, counted: bool, nulls: Any, order: Any
) -> None:
    given = given if nulls == "none" else with_nulls(given)
    nulls = "group" if nulls == "none" else nulls
    keys = column(format, given, before=before, unaligned=unaligned, counted=counted)
    wanted = keys_of(given, nulls)

    def check(found: Any) -> list[Any]:
        if isinstance(found, gh.DeviceArray):  # the library said that there are no nulls
            assert (format, None in given, counted) == ("l", False, True)
            return numbers(found)
        assert isinstance(found, gh.DeviceColumn)
        assert found.format == format
        distinct = elements(found)
        assert len(distinct) == len(found) == len(wanted)
        assert distinct == list(wanted) if order == "first" else set(distinct) == set(wanted)
        return distinct

    check(gh.unique(keys, order=order, nulls=nulls))
    found, counts = gh.value_counts(keys, order=order, nulls=nulls)
    assert dict(zip(check(found), numbers(counts), strict=True)) == wanted
    codes, found = gh.factorize(keys, order=order, nulls=nulls)
    distinct = check(found)
    decoded = [None if code < 0 else distinct[code] for code in numbers(codes)]
    assert decoded == given
    if nulls == "drop":
        assert [code == -1 for code in numbers(codes)] == [element is None for element in given]
    values = np.arange(len(given), dtype="i8") * 7
    found, (sums, many, high) = gh.group_reduce(keys, put(values), ("sum", "count", "max"), order=order, nulls=nulls)
    distinct = check(found)
    rows = {key: [i for i, element in enumerate(given) if element == key] for key in wanted}
    assert numbers(sums) == [7 * sum(rows[key]) for key in distinct]
    assert numbers(many) == [wanted[key] for key in distinct]
    assert numbers(high) == [7 * max(rows[key]) for key in distinct]


def test_one_aggregate_of_each_kind_of_values(put: Any) -> None:
    given = ["a", "b", None, "a"]
    for values in (put(np.array([1.5, 2.5, 9.0, 3.0])), column("g", [1.5, 2.5, 9.0, 3.0])):
        found, sums = gh.group_reduce(column("u", given), values, order="first")
        assert (elements(found), numbers(sums)) == (["a", "b", None], [4.5, 2.5, 9.0])
        found, sums = gh.group_reduce(column("u", given), values, order="first", nulls="drop")
        assert (elements(found), numbers(sums)) == (["a", "b"], [4.5, 2.5])
    found, counts = gh.group_reduce(column("u", given), 1, "count", nulls="drop", order="first")
    assert numbers(counts) == [2, 1]


def test_values_have_one_for_each_row(put: Any) -> None:
    with pytest.raises(ValueError, match=r"values have shape \(2,\), keys \(3,\)"):
        gh.group_reduce(column("u", ["a", None, "b"]), put(np.arange(2)), nulls="drop")


@pytest.mark.parametrize("format", ["e", "f", "g"])
def test_floats_with_nulls(put: Any, format: str) -> None:
    """Equal numbers are one key, whatever their bits; and with floats="bits" they are not."""
    given = [0.0, -0.0, None, float("nan"), 1.5, -float("nan"), float("inf"), None]
    codes, found = gh.factorize(column(format, given))
    assert numbers(codes) == [0, 0, 1, 2, 3, 2, 4, 1]
    zero, null, nan, *others = elements(found)
    assert (str(zero), null, others) == ("0.0", None, [1.5, float("inf")])
    assert nan != nan
    assert numbers(gh.factorize(column(format, given), floats="bits")[0]) == [0, 1, 2, 3, 4, 5, 6, 2]


def test_results_are_columns_again(put: Any) -> None:
    """Keys that came back are keys of the next call."""
    found = gh.unique(column("u", ["a", None, "", "a"]), order="first")
    again, counts = gh.value_counts(found, order="first")
    assert (elements(again), numbers(counts)) == (["a", None, ""], [1, 1, 1])
    assert repr(found) == "<DeviceColumn cuda:0 format='u' length=3>"
    assert found.device == 0
    none = gh.unique(column("u", []))
    assert (len(none), elements(none), elements(gh.unique(none))) == (0, [], [])


def test_all_is_done_on_the_stream_of_the_call(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    monkeypatch.setattr(_cuda, "synchronize", lambda device, stream: waited.append((device, stream)))
    for nulls in ("group", "drop"):
        found = gh.unique(column("u", ["a", None, "b"]), stream=fake_cuda.stream(77), nulls=nulls)
        gh.group_reduce(column("u", ["a", None]), put(np.arange(2)), stream=fake_cuda.stream(77), nulls=nulls)
        gh.isin(column("u", ["a", None]), ["a"], stream=fake_cuda.stream(77), nulls=nulls)
    assert fake_bytes.BytesCall.streams == {77}
    assert {buffer.stream for buffer in found.buffers} == {77}
    waited.clear()
    found.__arrow_c_device_array__()  # which says that nothing is to be waited for
    assert waited == [(0, 77)]


# ---- collisions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_a_collision_is_noticed_and_another_seed_is_taken(
    put: Any, monkeypatch: pytest.MonkeyPatch, attempts: int, nulls: Any
) -> None:
    given = ["a", "b", None, "a", "", "c"]
    seeds = collide(monkeypatch, attempts)
    found, counts = gh.value_counts(column("u", given), order="first", nulls=nulls)
    assert dict(zip(elements(found), numbers(counts), strict=True)) == keys_of(given, nulls)
    assert len(seeds) == len(set(seeds)) == attempts + 1


def test_columns_of_one_key_do_not_collide(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = collide(monkeypatch, 4)
    assert elements(gh.unique(column("u", ["a"] * 5))) == ["a"]
    assert len(seeds) == 1


def test_collisions_that_do_not_end(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = collide(monkeypatch, 99)
    with pytest.raises(gh.DeviceError, match=r"rows of keys had equal hashes with 4 seeds.*leave it as it is"):
        gh.unique(column("u", ["a", "b"]))
    assert len(set(seeds)) == 4
    with pytest.raises(gh.DeviceError, match="different rows of right or left had equal hashes"):
        gh.join_indexer(column("u", ["a", "b"]), column("u", ["c"]))


def test_collisions_between_columns(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of each column: they are equal by their hashes, and are not."""
    seeds = collide(monkeypatch, 1)
    assert numbers(gh.isin(column("u", ["a"]), column("u", ["b"]))) == [False]
    assert len(seeds) == 2
    seeds.clear()
    left, right = gh.join_indexer(column("u", ["a"]), column("u", ["b"]), "left")
    assert (numbers(left), numbers(right)) == ([0], [-1])
    assert len(seeds) == 2


def test_the_seed_of_the_call(put: Any) -> None:
    gh.unique(column("u", ["a"]), seed=7)
    gh.unique(column("u", ["a"]))
    gh.unique(column("u", ["a"]))
    seeds = fake_bytes.BytesCall.seeds
    assert seeds[0] == 7
    assert len(set(seeds)) == 3


# ---- verbs of two columns --------------------------------------------------------------------------------------------

PAIRS = [
    ("u", ["a", "b", None, "", "a", "long " * 9], "u", ["long " * 9, "a", "x"]),
    ("u", ["a", "b", None, "", "a"], "U", ["", None, "b", "b"]),
    ("z", [b"a", b"a\0"], "Z", [b"a\0"]),
    ("l", [1, None, 3], "l", [3, None]),
    ("l", [1, None, 3], "l", [3, 1, 3]),
    ("l", [1, 3], "l", [3, None]),
    ("g", [1.0, None, -0.0], "g", [0.0, 5.5]),
    ("u", [], "u", ["a"]),
    ("u", ["a", None], "u", []),
]


@pytest.mark.parametrize("nulls", ["group", "drop", "refuse"])
@pytest.mark.parametrize(("format", "given", "other", "among"), PAIRS)
def test_of_two_columns(put: Any, format: str, given: list[Any], other: str, among: list[Any], nulls: Any) -> None:
    one, two = column(format, given, before=2), column(other, among, unaligned=3)
    if nulls == "refuse" and None in among:
        for verb, name in ((gh.isin, "among"), (gh.join_indexer, "right")):
            with pytest.raises(TypeError, match=f"{name}: row {among.index(None)} is null; drop nulls, or take them"):
                verb(one, two, nulls=nulls)
        return
    some = [element for element in among if element is not None or nulls == "group"]
    assert numbers(gh.isin(one, two, nulls=nulls)) == [element in some for element in given]
    equal = [(i, j) for i, x in enumerate(given) for j, y in enumerate(among) if x == y and x in some]
    lone = [(i, -1) for i, x in enumerate(given) if x not in some]
    for how in ("inner", "left"):
        left, right = gh.join_indexer(one, two, how, nulls=nulls)
        wanted = sorted(equal + lone * (how == "left"))
        assert list(zip(numbers(left), numbers(right), strict=True)) == wanted


def test_nulls_of_one_column_are_refused(put: Any) -> None:
    for verb in (gh.unique, gh.value_counts, gh.factorize):
        with pytest.raises(TypeError, match="keys: row 1 is null; drop nulls, or take them for a group"):
            verb(column("u", ["a", None]), nulls="refuse")
        verb(column("u", ["a", "b"], counted=False), nulls="refuse")


def test_a_column_with_nulls_beside_an_array(put: Any) -> None:
    keys = column("l", [1, None, 3])
    assert numbers(gh.isin(keys, put(np.array([3, 4])))) == [False, False, True]
    assert numbers(gh.isin(put(np.array([3, 4])), keys)) == [True, False]
    left, right = gh.join_indexer(keys, put(np.array([3, 4])))
    assert (numbers(left), numbers(right)) == ([2], [0])


def test_others_of_the_host(put: Any) -> None:
    keys = column("u", ["a", None, "bc", "d"])
    for among in (["bc", "a"], {"a", "bc"}, np.array(["a", "bc"])):
        assert numbers(gh.isin(keys, among)) == [True, False, True, False]
    assert numbers(gh.isin(keys, ["bc", None])) == [False, True, True, False]
    for some in (keys, column("l", [1, None, 3, 4])):
        assert numbers(gh.isin(some, [])) == [False] * 4
        assert numbers(gh.isin(some, [None])) == [False, True, False, False]
    assert numbers(gh.isin(keys, "d")) == [False, False, False, True]
    assert numbers(gh.isin(["x", "bc", None], keys)) == [False, True, True]
    assert numbers(gh.isin(column("l", [1, None, 3]), np.array([3, 7]))) == [False, False, True]


# ---- rows of several columns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize("places", [("text", "array"), ("array", "text"), ("text", "other"), ("text", "numbers")])
def test_rows(put: Any, places: tuple[str, ...], nulls: Any) -> None:
    texts, others = ["a", None, "b", "a", "b", "a", None], ["x", "y", None, "x", "y", "x", "y"]
    integers = [1, 2, 3, 1, 3, 2, 2]
    made = {
        "text": (column("u", texts, before=1), texts),
        "other": (column("Z", [x and x.encode() for x in others]), [x and x.encode() for x in others]),
        "array": (put(np.array(integers)), integers),
        "numbers": (column("l", integers), integers),
    }
    keys = tuple(made[place][0] for place in places)
    rows: list[Any] = [
        row if nulls == "group" or None not in row else None
        for row in zip(*(made[place][1] for place in places), strict=True)
    ]
    wanted = keys_of(rows, "drop")

    def back(found: Any) -> list[Any]:
        assert len(found) == len(places)
        for part, place in zip(found, places, strict=True):
            kind = {"array": type(keys[places.index("array")]) if "array" in places else None}.get(place)
            assert type(part) is (kind or {"numbers": gh.DeviceArray}.get(place, gh.DeviceColumn))
        columns = [numbers(part) if place in ("array", "numbers") else elements(part)
                   for part, place in zip(found, places, strict=True)]  # fmt: skip
        return list(zip(*columns, strict=True))

    found, counts = gh.value_counts(keys, order="first", nulls=nulls)
    assert dict(zip(back(found), numbers(counts), strict=True)) == wanted
    codes, found = gh.factorize(keys, nulls=nulls)
    distinct = back(found)
    assert [None if code < 0 else distinct[code] for code in numbers(codes)] == rows
    values = put(np.arange(7)) if "array" in places else column("l", list(range(7)))
    found, sums = gh.group_reduce(keys, values, order="first", nulls=nulls)
    assert numbers(sums) == [sum(i for i, row in enumerate(rows) if row == key) for key in back(found)]


@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_two_tuples(put: Any, nulls: Any) -> None:
    left = [("a", 1), (None, 1), ("b", 2), ("a", 2)]
    right = [("a", 2), (None, 1), ("zz", 1), ("b", 2)]

    def columns(rows: list[Any]) -> tuple[Any, ...]:
        return column("u", [row[0] for row in rows]), put(np.array([row[1] for row in rows]))

    known = [row for row in right if nulls == "group" or row[0] is not None]
    assert numbers(gh.isin(columns(left), columns(right), nulls=nulls)) == [row in known for row in left]
    pairs = [(i, right.index(row)) for i, row in enumerate(left) if row in known]
    one, other = gh.join_indexer(columns(left), columns(right), nulls=nulls)
    assert list(zip(numbers(one), numbers(other), strict=True)) == pairs


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (("u", ["a"]), ("z", [b"a"]), "keys is a column of text, among of bytes: convert one of them"),
        (("u", ["a"]), ("l", [1, None]), "keys is a column of text, among of int64: convert one of them"),
        (("l", [1, None]), ("i", [1, None]), "keys is a column of int64, among of int32: convert one of them"),
        (("tss:", [1]), ("tsm:", [1]), "keys is a column of tss, among of tsm"),
        (("w:2", [b"ab"]), ("w:3", [b"abc"]), "keys is a column of w:2, among of w:3"),
    ],
)
def test_columns_of_two_kinds(put: Any, one: Any, other: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        gh.isin(column(*one), column(*other))
    with pytest.raises(TypeError, match=message.replace("keys", "left").replace("among", "right")):
        gh.join_indexer(column(*one), column(*other))


def test_text_beside_numbers(put: Any) -> None:
    with pytest.raises(TypeError, match="among is a ndarray of numbers, keys a column of text: convert one of them"):
        gh.isin(column("u", ["a"]), put(np.arange(3)))
    with pytest.raises(TypeError, match="keys is a column of text, among of int64"):
        gh.isin(column("u", ["a"]), np.arange(3))
    with pytest.raises(TypeError, match="right is on the host and left on a GPU"):
        gh.join_indexer(column("u", ["a"]), ["a"])


def test_two_devices(put: Any) -> None:
    with pytest.raises(TypeError, match="keys is on cuda:0, among on cuda:1: copy one of them"):
        gh.isin(column("u", ["a"]), column("u", ["a"], ordinal=1))


def test_values_are_numbers(put: Any) -> None:
    keys = column("u", ["a", "b"])
    with pytest.raises(TypeError, match="values is a column of type 'u' of Arrow on a GPU, where values are numbers"):
        gh.group_reduce(keys, column("u", ["a", "b"]))
    with pytest.raises(TypeError, match="values has nulls, or its library did not count them: drop or fill them"):
        gh.group_reduce(keys, column("l", [1, None]))


def test_right_rows_that_repeat_too_often(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """These take the arithmetic of a library that is imported."""
    meet, by_numpy = _device_joins.meet, _device_joins.operations(np)
    monkeypatch.setattr(_device_joins, "operations", lambda library, device: by_numpy)
    monkeypatch.setattr(_device_joins, "meet", lambda xp, first, *more: tuple(map(put, meet(xp, first.array, *more))))
    left, right = column("u", ["b", "a", "a"]), column("u", ["a"] * 11)
    pairs = gh.join_indexer(left, right, "left")
    assert all(isinstance(rows, gh.DeviceArray) for rows in pairs)
    wanted = [(0, -1), *((i, j) for i in (1, 2) for j in range(11))]
    assert list(zip(*map(numbers, pairs), strict=True)) == wanted
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(gh.Unsupported, match=r"2\^18 right rows of one key.*import one of them"):
        gh.join_indexer(left, right)
    with pytest.raises(gh.Unsupported, match=r"rows of several columns of Arrow on a GPU take.*import one of them"):
        gh.unique((left, left))


@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_reproducible_sums(put: Any, monkeypatch: pytest.MonkeyPatch, op: Any, nulls: Any) -> None:
    given, amounts = ["a", None, "b", "a", "b", "a"], [1e17, 2.5, 3.0, -1e17, 0.125, 7.0]
    wanted = {"a": 7.0, None: 2.5, "b": 3.125} if op == "sum" else {"a": 7.0 / 3, None: 2.5, "b": 3.125 / 2}
    if nulls == "drop":
        del wanted[None]
    for values in (put(np.array(amounts)), column("g", amounts)):
        text = column("u", given)
        found, sums = gh.group_reduce(text, values, op, reproducible=True, nulls=nulls, order="first")
        assert isinstance(sums, gh.DeviceArray)
        assert dict(zip(elements(found), numbers(sums), strict=True)) == wanted
        rows = text, put(np.zeros(6, "i4"))
        (found, _), sums = gh.group_reduce(rows, values, op, reproducible=True, nulls=nulls, order="first")
        assert dict(zip(elements(found), numbers(sums), strict=True)) == wanted
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(gh.Unsupported, match="reproducible=True takes arrays of CuPy or PyTorch on a GPU"):
        gh.group_reduce(column("u", given), column("g", amounts), reproducible=True)


def test_temporaries() -> None:
    assert _core.bytes_scratch(1000) == _core.bytes_scratch(0) + 4000
    assert _device_bytes._NEXT_SEED % 2 == 1
