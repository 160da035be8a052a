"""Verbs on rows of several host columns, which are packed into integers where there are many."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _host_rows
from pygpuhash.columns import read

Array = np.ndarray[Any, Any]
N = 5000


def draw(kind: str, n: int, few: int, seed: int) -> Any:
    """A column of few distinct elements, those at the ends of its type among them."""
    rng = np.random.default_rng(seed)
    if kind == "text":
        some: Any = np.array(["", "a", "ä", *(f"word{i}" for i in range(few))])
    elif kind == "objects":
        some = np.array([None, "x", "y", *map(str, range(few))], object)
    elif kind[0] in "mM":
        some = np.array([-(10**5), 10**5, *range(few)], "i8").astype(kind)
    elif kind == "?":
        some = np.array([False, True])
    elif kind[0] == "f":
        some = np.array([0.0, -0.0, np.nan, np.inf, *range(few)], kind)
    else:
        some = np.array([np.iinfo(kind).min, np.iinfo(kind).max, *range(few)], kind)
    found = some[rng.integers(0, len(some), n)]
    return found.tolist() if kind == "objects" else found


KINDS = [
    ("i8", "i4"),
    ("u1", "i2", "?"),
    ("u8", "f8"),
    ("f4", "f2", "i1"),
    ("i4", "text"),
    ("text", "objects"),
    ("M8[us]", "m8[s]", "M8[D]"),
    ("i8", "i8"),
    ("i8", "i8", "text"),
    ("u4",),
    ("text",) * 5,
]


@pytest.fixture(params=[True, False], ids=["packed", "as they are"])
def packs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(_host_rows, "SHORT", 10**9)
    return bool(request.param)


def tuples(columns: Any) -> list[tuple[Any, ...]]:
    lists = [np.asarray(column).tolist() for column in columns]
    return [tuple("nan" if x != x else x for x in row) for row in zip(*lists, strict=True)]


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_single_columns(kinds: tuple[str, ...], packs: bool) -> None:
    """All verbs of one column, with rows packed and not: the same rows, in their order of first appearance."""
    keys = tuple(draw(kind, N, 4, i) for i, kind in enumerate(kinds))
    rows = tuples(keys)
    wanted = {row: rows.count(row) for row in dict.fromkeys(rows)}
    assert tuples(gh.unique(keys, order="first")) == list(wanted)
    found, counts = gh.value_counts(keys, order="first")
    assert dict(zip(tuples(found), counts.tolist(), strict=True)) == wanted
    codes, found = gh.factorize(keys)
    assert tuples(found) == list(wanted)
    assert [list(wanted)[code] for code in codes] == rows
    for column, given in zip(found, keys, strict=True):
        assert column.dtype == np.asarray(given).dtype
    values = np.arange(N)
    found, sums = gh.group_reduce(keys, values, order="first")
    by_row: dict[Any, int] = {}
    for row, value in zip(rows, values.tolist(), strict=True):
        by_row[row] = by_row.get(row, 0) + value
    assert dict(zip(tuples(found), sums.tolist(), strict=True)) == by_row


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_two_columns(kinds: tuple[str, ...], packs: bool) -> None:
    """isin and joins of rows, of which each side has some that the other one has not."""
    keys = tuple(draw(kind, N, 6, i) for i, kind in enumerate(kinds))
    others = tuple(draw(kind, 60, 3, 10 + i) for i, kind in enumerate(kinds))
    rows, among = tuples(keys), tuples(others)
    assert gh.isin(keys, others).tolist() == [row in set(among) for row in rows]
    i, j = gh.join_indexer(keys, others)
    places: dict[Any, list[int]] = {}
    for place, row in enumerate(among):
        places.setdefault(row, []).append(place)
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [
        (k, place) for k, row in enumerate(rows) for place in places.get(row, [])
    ]


def packed(*columns: Any, nulls: str = "group", floats: str = "numbers", **table: Any) -> Any:
    """The dtype of the integers that rows of these columns become; None where they stay rows."""
    return _host_rows.as_numbers([read(columns, "keys")], nulls, floats, table)[0].stored


def test_which_rows_are_packed() -> None:
    short, long = np.arange(N) % 7, np.arange(N) * (2**60 // N) + np.arange(N) ** 2 % 97
    floats, words = np.random.default_rng(1).standard_normal(N), draw("text", N, 5, 1)
    assert packed(short, short) == np.int32
    assert packed(short, long) == np.int64
    assert packed(long, floats) is None
    assert packed(long, short, long) is None
    assert packed(short, long * 2) == np.int64  # 3 bits, and 61
    assert packed(short, long * 4) is None
    assert packed(long, words) == np.int64
    assert packed(long * 2, words) == np.int64  # 61 bits, and the ids of 8 words
    assert packed(long * 4, words) is None
    assert packed(*[words] * 9) == np.int32
    days = (np.arange(N) % 2000).astype("M8[D]").astype("M8[ns]")  # 58 bits, and 11 of days
    assert packed(days, np.arange(N)) == np.int32
    assert packed(short, np.array([f"w{i // 4}" for i in range(N)])) == np.int32
    assert packed(short, np.array([f"w{i // 3}" for i in range(N)])) is None
    assert packed(short[:100], short[:100]) is None
    assert packed(short, short, threads=2, seed=5, capacity=9, device="auto") == np.int32
    assert packed(short, short, device="cuda") is None
    assert packed(short, short, backend="hive") is None
    holes = draw("objects", N, 5, 1)
    assert packed(short, holes) == np.int32
    assert packed(short, holes, nulls="drop") is None
    assert packed(short, holes, nulls="refuse") is None
    assert packed(short, words, nulls="drop") == np.int32


@pytest.mark.parametrize("block", [1, 7, 1 << 15])
def test_rows_of_integers_in_chunks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end within chunks, which are empty, too; integers have both ends of their types, and times their ticks."""
    pa = pytest.importorskip("pyarrow", reason="has columns in chunks")
    monkeypatch.setattr(_host_rows, "_BLOCK", block)
    monkeypatch.setattr(_host_rows, "SHORT", 100)
    rng = np.random.default_rng(block)
    columns = {
        kind: np.append(rng.integers(0, 3, 300), [0, 1, 2]).astype(kind) for kind in ("i1", "u2", "i4", "u8", "M8[s]")
    }
    columns["i1"][:2] = -128, 127
    columns["u8"][:2] = 2**64 - 1, 2**64 - 3
    columns["u8"][2:] += 2**64 - 4
    columns["i4"] -= 2**31 - 1
    cuts = [0, 100, 100, 131, 303]
    batches = [pa.record_batch({k: c[a:b] for k, c in columns.items()}) for a, b in itertools.pairwise(cuts)]
    given = pa.Table.from_batches(batches)
    assert _host_rows.as_numbers([read(given, "keys")], "group", "numbers", {})[0].stored == np.int32
    rows = list(zip(*(given[name].to_pylist() for name in columns), strict=True))
    codes, found = gh.factorize(given)
    distinct = list(zip(*(found[name].to_pylist() for name in columns), strict=True))
    assert distinct == list(dict.fromkeys(rows))
    assert [distinct[code] for code in codes.to_pylist()] == rows
    assert found.schema.types == given.schema.types
    mask = gh.isin(given, given.slice(5, 150))
    assert mask.to_pylist() == [row in set(rows[5:155]) for row in rows]


def test_a_sample_is_of_the_longest_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not show is seen in the whole column."""
    pa = pytest.importorskip("pyarrow", reason="has columns in chunks")
    monkeypatch.setattr(_host_rows, "_SAMPLE", 100)
    short, words = np.arange(N) % 7, draw("text", N, 5, 1)
    chunks = pa.chunked_array([[f"one{i}" for i in range(30)], words[:4000], words[4000:]])
    assert packed(np.arange(N + 30) % 7, chunks) == np.int32
    assert packed(short, np.where(np.arange(N) < 200, 0, np.arange(N) * (2**63 // N) + np.arange(N) % 2)) is None
    assert packed(short, np.array(["w", *(f"w{i}" for i in range(1, N))])) is None
    later = np.array(["w"] * 200 + [f"w{i}" for i in range(N - 200)])
    assert packed(short, later) == np.int32  # which is right, too
    assert len(gh.unique((short, later))[0]) == len(set(zip(short.tolist(), later.tolist(), strict=True)))


def test_rows_of_columns_of_steps() -> None:
    """Three numbers of 13 bits are one of 39, and one of 13 bits before one of 40 is one of 53."""
    rng = np.random.default_rng(3)
    wide = rng.integers(0, 2**40, N)
    keys = tuple(rng.integers(0, 5000, N) * step for step in (10**6, 3, 86_400))
    steps = np.append(keys[0][: N // 2], keys[0][: N // 2] + 10**6)
    assert len(gh.unique((steps, np.tile(wide[: N // 2], 2)))[0]) == N
    keys = tuple(np.append(column, column[:9]) for column in keys)
    assert packed(*keys) == np.int64
    rows = tuples(keys)
    codes, found = gh.factorize(keys)
    assert tuples(found) == list(dict.fromkeys(rows))
    assert [tuples(found)[i] for i in codes[-9:]] == rows[-9:]


def test_what_lies_under_a_null_takes_no_bits() -> None:
    pa = pytest.importorskip("pyarrow", reason="makes columns with nulls")
    values, nulls = np.arange(N) % 100, np.arange(N) % 7 == 3
    values[nulls] = 2**62 + np.arange(nulls.sum())
    bits = np.packbits(~nulls, bitorder="little")
    column = pa.Array.from_buffers(pa.int64(), N, [pa.py_buffer(bits), pa.py_buffer(values)])
    assert _host_rows.as_numbers([read(column, "keys")], "group", "numbers", {})[0].stored == np.int32
    assert gh.unique(column, order="first").to_pylist()[:5] == [0, 1, 2, None, 4]


@pytest.mark.parametrize("bits", [62, 63, 64, 65, 66])
def test_keys_of_about_64_bits(bits: int, packs: bool) -> None:
    """One bit more than a key has, and rows would be equal that are not."""
    rng = np.random.default_rng(bits)

    def of_bits(wide: int) -> Array:
        """Elements that differ in the highest bit alone."""
        return np.array([0, 2 ** (wide - 1), 2 ** (wide - 1) - 1, 2**wide - 1])[rng.integers(0, 4, N)]

    column, other = of_bits(bits - 32), of_bits(32)
    assert len(gh.unique((column, other))[0]) == 16
    assert len(gh.unique((other, column))[0]) == 16


@pytest.mark.parametrize("least", [0, -1, -(2**63)])
@pytest.mark.parametrize("most", [2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1])
def test_numbers_with_nulls_from_end_to_end(least: int, most: int, packs: bool) -> None:
    pa = pytest.importorskip("pyarrow", reason="makes columns with nulls")
    column = pa.array([None, least, most, least + 1, most - 1] * (N // 5))
    assert gh.unique(column, order="first").to_pylist() == [None, least, most, least + 1, most - 1]


@pytest.mark.parametrize("nulls", ["group", "drop", "refuse"])
def test_nulls(nulls: Any, packs: bool) -> None:
    keys = (np.arange(N) % 3, draw("objects", N, 2, 1))
    if nulls == "refuse":
        with pytest.raises(TypeError, match="keys: row 4 is null; drop nulls"):
            gh.factorize(keys, nulls=nulls)
        return
    codes, found = gh.factorize(keys, nulls=nulls)
    distinct = list(zip(*(np.asarray(part).tolist() for part in found), strict=True))
    rows = list(zip(keys[0].tolist(), keys[1], strict=True))
    kept = [row for row in rows if nulls == "group" or row[1] is not None]
    assert distinct == list(dict.fromkeys(kept))
    assert codes.tolist() == [distinct.index(row) if row in distinct else -1 for row in rows]


@pytest.mark.parametrize("kind", ["i8", "u1", "f4", "?", "M8[s]", "M8[D]", "i8 from end to end"])
def test_numbers_with_nulls(kind: str, packs: bool) -> None:
    """Null is a key like others; also 0 and the least number are."""
    pa = pytest.importorskip("pyarrow", reason="makes columns with nulls")
    ends = kind == "i8 from end to end"
    values = draw("i8" if ends else kind, N, 5, 1)
    if not ends and kind != "f4":
        values = np.where(np.abs(values.astype("i8")) < 2**40, values, values[-1])
    nulls = np.random.default_rng(2).random(N) < 0.2
    column = pa.array(values, mask=nulls)

    def plain(found: Any) -> list[Any]:
        assert found.type == column.type
        return ["nan" if x != x else x for x in found.to_pylist()]

    rows = plain(column)
    wanted = {row: rows.count(row) for row in dict.fromkeys(rows)}
    found, counts = gh.value_counts(column, order="first")
    assert plain(found) == list(wanted)
    assert counts.to_pylist() == list(wanted.values())
    codes, found = gh.factorize(column)
    assert [list(wanted)[code] for code in codes.to_pylist()] == rows
    others = column.slice(0, 300).filter(pa.array(np.arange(300) % 7 < 3))
    among = {rows[i] for i in range(300) if i % 7 < 3}
    assert gh.isin(column, others).to_pylist() == [row in among for row in rows]
    assert gh.isin(column.slice(0, 4500), column.slice(4990)).to_pylist() == [row in rows[4990:] for row in rows[:4500]]


@pytest.mark.parametrize("ops", [("sum", "min", "max", "mean", "count"), ("count", "sum")])
@pytest.mark.parametrize("order", ["any", "first"])
@pytest.mark.parametrize("keys", ["numbers", "rows", "text"])
def test_several_aggregates(keys: str, order: Any, ops: Any, packs: bool) -> None:
    """Those of one call are those of a call each."""
    numbers = draw("i4", N, 300, 1)
    column = {"numbers": numbers, "rows": (numbers, draw("i8", N, 3, 2)), "text": draw("text", N, 90, 3)}[keys]
    for values in (draw("f8", N, 40, 4), draw("i2", N, 40, 5), 3):
        distinct, results = gh.group_reduce(column, values, ops, order=order)
        for op, together in zip(ops, results, strict=True):
            found, alone = gh.group_reduce(column, values, op, order="first")
            if keys == "rows":
                found, distinct_rows = tuples(found), tuples(distinct)
            else:
                found, distinct_rows = found.tolist(), distinct.tolist()
            assert order != "first" or found == distinct_rows
            assert together.dtype == alone.dtype
            by_key = dict(zip(found, alone.tolist(), strict=True))
            wanted = np.array([by_key[key] for key in distinct_rows])
            assert np.allclose(together.astype("f8"), wanted.astype("f8"), equal_nan=True)


def arrow_columns(pa: Any) -> dict[str, Any]:
    """A column of N elements of each type of Arrow that rows may have, with nulls but for "whole"."""
    rng = np.random.default_rng(5)
    nulls, some = rng.random(N) < 0.1, rng.integers(0, 4, N)
    whole, holes = pa.array(some), pa.array(some, mask=nulls)
    inner = pa.StructArray.from_arrays([pa.array(some, mask=rng.random(N) < 0.1), whole], ["p", "q"])
    text = pa.array([None if null else f"v{i}" for null, i in zip(nulls, some, strict=True)])
    found = {
        "whole": whole,
        "struct with null rows": pa.StructArray.from_arrays([whole, whole], ["a", "b"], mask=pa.array(nulls)),
        "struct": pa.StructArray.from_arrays([inner, whole], ["inner", "c"]),
        "dictionary": text.dictionary_encode(),
        "two codes of a value": pa.DictionaryArray.from_arrays(holes, pa.array(["x", "y", "x", None])),
        "null": pa.nulls(N),
        "decimal": holes.cast(pa.decimal128(24, 2)),
        "fixed": pa.array([None if null else b"a%d" % i for null, i in zip(nulls, some, strict=True)], pa.binary(2)),
        "date64": pa.array(some * 86_400_000, mask=nulls).cast(pa.date64()),
        "float16": pa.array(some.astype("f2"), mask=nulls),
        "text": text,
        "views of text": text.cast(pa.string_view()),
    }
    for kind in (pa.time32("s"), pa.time32("ms"), pa.date32()):
        found[str(kind)] = holes.cast(pa.int32()).cast(kind)
    for kind in (pa.time64("us"), pa.duration("ns"), pa.timestamp("ms", "UTC"), pa.bool_(), pa.uint64()):
        found[str(kind)] = holes.cast(kind)
    return found


@pytest.mark.parametrize("nulls", ["group", "drop"])
def test_every_type_of_arrow(nulls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, and beside a column of numbers: as an index has them."""
    pa = pytest.importorskip("pyarrow", reason="has columns of these types")
    numbers = np.arange(N) % 3
    for name, column in arrow_columns(pa).items():
        for keys in (column, (numbers, column), (column, column)):
            with monkeypatch.context() as alone:
                alone.setattr(_host_rows, "SHORT", 10**9)
                wanted, of_wanted = gh.factorize(keys, nulls=nulls)
            codes, found = gh.factorize(keys, nulls=nulls)
            assert np.array_equal(np.asarray(codes), np.asarray(wanted)), name
            for one, other in zip(
                *[part if isinstance(part, tuple) else (part,) for part in (found, of_wanted)], strict=True
            ):
                same = one.equals(other) if hasattr(one, "equals") else np.array_equal(one, other)
                assert same, name


def test_floats_by_their_bits(packs: bool) -> None:
    keys = (np.tile([0.0, -0.0], N), np.zeros(2 * N, "i4"))
    assert [len(gh.unique(keys, floats=floats)[0]) for floats in ("bits", "numbers")] == [2, 1]


def test_frames_and_other_libraries(packs: bool) -> None:
    """Results have the caller's library, types and names, whether there are chunks, categories, time zones or nulls."""
    pd = pytest.importorskip("pandas", reason="frames are pandas' and polars'")
    pl, pa = pytest.importorskip("polars", reason="as above"), pytest.importorskip("pyarrow", reason="as above")
    rng = np.random.default_rng(1)
    year, city = rng.integers(1990, 2000, N), np.array(["Oslo", "Rom", "Ürümqi"])[rng.integers(0, 3, N)]
    day = pd.Series(pd.to_datetime(rng.integers(0, 5, N), unit="D", utc=True))
    frame = pd.DataFrame({"year": year, "city": pd.Categorical(city), "day": day, "wet": rng.integers(0, 2, N) == 1})
    found, counts = gh.value_counts(frame, order="first")
    assert list(found.dtypes) == list(frame.dtypes)
    wanted = frame.groupby(list(frame), sort=False, observed=True).size()
    assert list(map(tuple, found.itertuples(index=False))) == [tuple(row) for row in wanted.index]
    assert np.asarray(counts).tolist() == wanted.tolist()
    with_holes = pl.DataFrame({"year": year, "city": city}).with_columns(
        pl.when(pl.col("year") > 1995).then(None).otherwise(pl.col("year")).alias("year")
    )
    chunked = pl.concat([with_holes[: N // 3], with_holes[N // 3 :]], rechunk=False)
    found = gh.unique(chunked, order="first")
    assert found.equals(with_holes.unique(maintain_order=True))
    table, rows = pa.table({"year": year, "city": city}), list(zip(year.tolist(), city.tolist(), strict=True))
    found = gh.unique(table, order="first")
    assert [tuple(row.values()) for row in found.to_pylist()] == list(dict.fromkeys(rows))
    days = [datetime.date(2000, 1, 1 + i % 9) for i in range(N)]
    found = gh.unique((days, city), order="first")
    assert list(zip(*found, strict=True)) == list(dict.fromkeys(zip(days, city, strict=True)))


def test_refused_by_name(packs: bool) -> None:
    with pytest.raises(TypeError, match=r"keys"):
        gh.unique((np.arange(N), [[1]] * N))
    with pytest.raises(TypeError, match="keys beside among"):
        gh.isin((np.arange(N), np.arange(N)), (np.arange(N), ["a"] * N))
