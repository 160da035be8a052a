"""The index of <gpuhash/columns.h> through its binding: against dict, with every type and several threads."""

import itertools
import math
import random
import threading

import numpy as np
import pytest

from pygpuhash.columns import _engine
from pygpuhash.columns._engine import CoreIndex, rows_by_id

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: it makes the columns of these tests")

RANDOM = random.Random(3)
WORDS = ["", "a", "b", "a\0", "\0", "abcdefghijkl", "abcdefghijklm", "abcdefghijklmnop", "é" * 9, "x" * 1000]
WORDS += ["".join(RANDOM.choices("ab", k=RANDOM.randint(0, 24))) for _ in range(200)]
NUMBERS = [0, 1, 2, 100, *(RANDOM.randint(0, 120) for _ in range(30))]

TYPES = {
    "string": (pa.string(), WORDS),
    "large_string": (pa.large_string(), WORDS),
    "string_view": (pa.string_view(), WORDS),
    "binary": (pa.binary(), [w.encode() for w in WORDS]),
    "binary_view": (pa.binary_view(), [w.encode() for w in WORDS]),
    "fixed_size_binary": (pa.binary(4), [b"\1\2\3\0", b"\1\2\3\1", b"abcd", b"\0\0\0\0"]),
    "bool": (pa.bool_(), [True, False]),
    **{str(t): (t, NUMBERS) for t in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32())},
    "int64": (pa.int64(), [*NUMBERS, -1, -(2**63), 2**63 - 1]),
    "uint64": (pa.uint64(), [*NUMBERS, 2**64 - 1, 2**63]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 3.0]),
    "double": (pa.float64(), [0.0, -0.0, 0.1, 1e300, math.inf, math.nan, -math.nan]),
    "halffloat": (pa.float16(), [0.0, -0.0, 1.5, 6e-8, 65504.0, math.inf, math.nan]),
    "date": (pa.date32(), NUMBERS),
    "timestamp": (pa.timestamp("ms"), NUMBERS),
    "zoned": (pa.timestamp("us", "UTC"), NUMBERS),
    "time": (pa.time32("s"), NUMBERS),
    "duration": (pa.duration("ns"), NUMBERS),
    "decimal": (pa.decimal128(20, 2), [__import__("decimal").Decimal(n) for n in ("0.00", "1.25", "-3.10", "99.99")]),
    "null": (pa.null(), [None]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": a, "b": b} for a, b in itertools.product([0, 1, None], ["", "a", "ab", "long enough for a heap", None])],
    ),
    "nested": (
        pa.struct([("a", pa.struct([("x", pa.float32()), ("y", pa.string())])), ("b", pa.bool_())]),
        [{"a": a, "b": b} for a in (None, {"x": None, "y": "p"}, {"x": 1.5, "y": "q"}) for b in (True, None)],
    ),
}
EVERY = pytest.mark.parametrize("name", TYPES)
THREADS = pytest.mark.parametrize("threads", [1, 2, 5])


@pytest.fixture(autouse=True)
def small_pieces():
    """Rows per call into the library, so that a column takes several."""
    was = _engine.piece(70_001)
    yield
    _engine.piece(was)


def column(name, n, nulls=0.1):
    kind, some = TYPES[name]
    values = [None if RANDOM.random() < nulls else RANDOM.choice(some) for _ in range(min(n, 3_000))]
    return pa.array((values * (n // max(len(values), 1) + 1))[:n], kind)


def same(value):
    """What stands for a value and all that are equal to it."""
    if isinstance(value, dict):
        return tuple(map(same, value.values()))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return repr(value)


def model(values):
    numbers: dict[object, int] = {}
    return [numbers.setdefault(same(v), len(numbers)) for v in values], list(numbers)


def added(array, ids=True, **how):
    schema, chunk = array.__arrow_c_array__()
    index = CoreIndex(schema, counts=True, seed=5, **how)
    out = np.full(len(array), -9, np.int64) if ids else None
    index.add(schema, [chunk], out)
    return index, out


def looked_up(index, array):
    schema, chunk = array.__arrow_c_array__()
    out = np.full(len(array), -9, np.int64)
    index.find(schema, [chunk], out)
    return out


@EVERY
@THREADS
@pytest.mark.parametrize("n", [0, 1, 9, 2_000, 150_000])
def test_ids_keys_and_counts_are_those_of_a_dict(name, threads, n):
    if n == 150_000 and name not in ("string", "int32", "struct"):
        n = 36_000  # all threads, but one slice
    array = column(name, n)
    wanted, distinct = model(array.to_pylist())
    index, ids = added(array, threads=threads)
    assert ids.tolist() == wanted
    assert index.size == len(distinct)
    assert index.counts().tolist() == np.bincount(wanted, minlength=len(distinct)).tolist()
    keys = pa.array(index.keys(0, index.size))
    keys.validate(full=True)
    assert [same(k) for k in keys.to_pylist()] == distinct
    assert looked_up(index, array).tolist() == wanted
    if index.size > 2:
        middle = pa.array(index.keys(1, index.size - 2))
        assert [same(k) for k in middle.to_pylist()] == distinct[1:-1]


@pytest.mark.parametrize("name", ["string", "large_string", "string_view", "binary"])
@pytest.mark.parametrize("first", ["short", "x" * 40], ids=["short", "long"])
def test_texts_as_long_as_a_key_holds(name, first):
    """Texts of all lengths about the 12 and the 20 bytes of a key, among rows that begin with a short or a long one."""
    kind, _ = TYPES[name]
    # Without nulls, rows are served 64 at a time, by what the first of them is.
    some = [letter * n for n in (*range(11, 14), *range(19, 23)) for letter in "ab"]
    values = [first, *some, *some, *(["a"] * (63 - 2 * len(some)))]
    values += ["short" if first != "short" else "x" * 40, *some, *(["a"] * (63 - len(some)))]
    values = [v.encode() for v in values] if name == "binary" else values
    array = pa.array(values, kind)
    wanted, distinct = model(array.to_pylist())
    index, ids = added(array, threads=1)
    assert ids.tolist() == wanted
    assert looked_up(index, array).tolist() == wanted
    assert [same(k) for k in pa.array(index.keys(0, index.size)).to_pylist()] == distinct


@EVERY
def test_slices_and_chunks(name):
    """Arrays that begin anywhere, and batches one after the other: ids stay."""
    array = column(name, 5_000)
    wanted, _ = model(array.to_pylist())
    schema, chunk = array.slice(0, 0).__arrow_c_array__()
    index = CoreIndex(schema, threads=2)
    index.add(schema, [chunk])
    for start, stop in ((0, 1), (1, 13), (13, 4_000), (4_000, 5_000)):
        schema, chunk = array.slice(start, stop - start).__arrow_c_array__()
        ids = np.empty(stop - start, np.int64)
        index.add(schema, [chunk], ids)
        assert ids.tolist() == wanted[start:stop]
    schema = pa.chunked_array([array[:9], array[9:9], array[9:]]).type
    chunks = [part.__arrow_c_array__() for part in (array[:9], array[9:9], array[9:])]
    ids = np.empty(len(array), np.int64)
    index.find(chunks[0][0], [part[1] for part in chunks], ids)
    assert ids.tolist() == wanted


@pytest.mark.parametrize("name", ["string", "int32", "struct", "double", "decimal"])
@THREADS
def test_without_ids(name, threads):
    array = column(name, 100_000)
    index, _ = added(array, ids=False, threads=threads)
    assert [same(k) for k in pa.array(index.keys(0, index.size)).to_pylist()] == model(array.to_pylist())[1]


@pytest.mark.parametrize("values", ["string", "int64", "binary", "double", "decimal"])
@pytest.mark.parametrize("width", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
@THREADS
def test_dictionaries_are_their_values(values, width, threads):
    """Two of which may be equal, or null."""
    kind, some = TYPES[values]
    dictionary = pa.array([*some[:90], some[0], None], kind)
    picks = [None if RANDOM.random() < 0.1 else RANDOM.randrange(len(dictionary)) for _ in range(36_000)]
    array = pa.DictionaryArray.from_arrays(pa.array(picks, width), dictionary)
    words = [None if p is None else dictionary[p].as_py() for p in picks]
    wanted, distinct = model(words)
    index, ids = added(array, threads=threads)
    assert ids.tolist() == wanted
    assert index.counts().tolist() == np.bincount(wanted).tolist()
    assert [same(k) for k in pa.array(index.keys(0, index.size)).to_pylist()] == distinct
    assert looked_up(index, array).tolist() == wanted
    assert looked_up(index, pa.array(words, kind)).tolist() == wanted
    rows = pa.StructArray.from_arrays([array, pa.array(np.arange(len(picks)) % 3)], ["d", "n"])
    index, ids = added(rows, threads=threads)
    assert ids.tolist() == model(rows.to_pylist())[0]


@pytest.mark.parametrize("name", ["string", "int64", "struct", "decimal", "bool"])
@THREADS
def test_nulls_that_are_dropped(name, threads):
    array = column(name, 60_000, nulls=0.3)
    rows = array.to_pylist()
    is_null = [r is None or (isinstance(r, dict) and None in r.values()) for r in rows]
    kept, distinct = model([r for r, null in zip(rows, is_null, strict=True) if not null])
    index, ids = added(array, threads=threads, nulls="drop")
    assert ids[np.array(is_null)].tolist() == [-1] * sum(is_null)
    assert ids[~np.array(is_null)].tolist() == kept
    assert index.size == len(distinct)
    assert index.null == -1
    assert looked_up(index, array).tolist() == ids.tolist()


def test_nulls_that_are_refused():
    schema, chunk = pa.array(["a", "b", None]).__arrow_c_array__()
    index = CoreIndex(schema, nulls="refuse")
    with pytest.raises(TypeError, match="row 2 is null; drop nulls, or take them for a group"):
        index.add(schema, [chunk])
    assert index.size == 0
    index.add(schema, [pa.array(["a"]).__arrow_c_array__()[1]])
    assert index.size == 1


def test_rows_that_are_refused_are_counted_from_the_first_chunk():
    for n in (3, 70_000, 70_001, 150_000):
        chunks = [pa.array(range(n)), pa.array([1, None, 3])]
        index = CoreIndex(pa.int64().__arrow_c_schema__(), nulls="refuse")
        with pytest.raises(TypeError, match=f"row {n + 1} is null"):
            index.add(pa.int64().__arrow_c_schema__(), [c.__arrow_c_array__()[1] for c in chunks])


# ---- two types -------------------------------------------------------------------------------------------------------

INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
SPECIAL = [0, 1, 127, 128, 255, 256, 2**15, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
SPECIAL = sorted({*SPECIAL, *(-x for x in SPECIAL if x <= 2**63)})


def held(kind, values):
    """Those of the values that the type holds exactly."""
    out = []
    for value in values:
        try:
            if pa.types.is_floating(kind):
                exact = float(np.dtype(kind.to_pandas_dtype()).type(value))
                if exact == value:
                    out.append(exact)
            else:
                out.append(pa.scalar(value, kind).as_py())
        except (OverflowError, pa.ArrowInvalid):
            pass
    return out


@pytest.mark.parametrize("a", [*INTEGERS, pa.float32(), pa.float64(), pa.float16()])
@pytest.mark.parametrize("b", [*INTEGERS, pa.float32(), pa.float64(), pa.float16()])
def test_numbers_of_two_types_are_equal_if_they_are_one_number(a, b):
    with np.errstate(over="ignore"):
        mine, theirs = held(a, SPECIAL), held(b, SPECIAL)
    index, _ = added(pa.array([np.float16(x) for x in mine] if a == pa.float16() else mine, a))
    found = looked_up(index, pa.array([np.float16(x) for x in theirs] if b == pa.float16() else theirs, b))
    assert found.tolist() == [mine.index(x) if x in mine else -1 for x in theirs]


def test_times_of_two_units_are_equal_if_they_are_one_instant():
    days, seconds = (
        pa.array([0, 1, 18262], pa.date32()),
        pa.array([0, 86400, 86401, -1, 18262 * 86400], pa.timestamp("s")),
    )
    assert looked_up(added(days)[0], seconds).tolist() == [0, 1, -1, -1, 2]
    assert looked_up(added(seconds)[0], days).tolist() == [0, 1, 4]
    nanoseconds = pa.array([0, 10**9, 10**9 + 1], pa.duration("ns"))
    assert looked_up(added(pa.array([0, 1, 2**62], pa.duration("s")))[0], nanoseconds).tolist() == [0, 1, -1]
    assert looked_up(added(nanoseconds)[0], pa.array([1, 2**62, -(2**62)], pa.duration("s"))).tolist() == [1, -1, -1]
    decimals = pa.array([__import__("decimal").Decimal("1.50")], pa.decimal128(9, 2))
    other = pa.array([__import__("decimal").Decimal(x) for x in ("1.5000", "1.5001")], pa.decimal128(12, 4))
    assert looked_up(added(decimals)[0], other).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (pa.string(), pa.int64(), "int64 here and text there"),
        (pa.string(), pa.binary(), "bytes here and text there"),
        (pa.bool_(), pa.int8(), "int8 here and bool there"),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), "timestamp with a time zone here and timestamp there"),
        (pa.date32(), pa.int32(), "int32 here and date there"),
        (pa.duration("s"), pa.time32("s"), "time of day here and duration there"),
        (pa.struct([("x", pa.int8())]), pa.int8(), "int8 here and a struct of 1 fields there"),
        (pa.struct([("x", pa.int8())]), pa.struct([("x", pa.string())]), "column 'x' is text here and int8 there"),
    ],
)
def test_types_that_are_never_equal_are_refused_whatever_is_in_them(a, b, said):
    for n in (0, 2):
        index, _ = added(pa.array([None] * n, a))
        for call in (index.find, index.add):
            schema, chunk = pa.array([None] * n, b).__arrow_c_array__()
            with pytest.raises(TypeError, match=said):
                call(schema, [chunk], np.empty(n, np.int64))
    everything = pa.array([None, None])
    assert looked_up(added(everything)[0], pa.array([], a)).tolist() == []
    assert looked_up(added(pa.array([], a))[0], everything).tolist() == [-1, -1]
    assert looked_up(added(everything)[0], pa.array([None], a)).tolist() == [0]
    assert looked_up(added(pa.array([None], a))[0], everything).tolist() == [0, 0]


def test_what_the_index_cannot_hold_is_not_added():
    index, _ = added(pa.array([1, 2], pa.int8()))
    for array, row in ((pa.array([3, 300]), 1), (pa.array([3.0, 2.5]), 1), (pa.array([5, 6, 2**63], pa.uint64()), 2)):
        schema, chunk = array.__arrow_c_array__()
        with pytest.raises(TypeError, match=f"row {row} is nothing that an index of int8 can hold"):
            index.add(schema, [chunk])
        assert index.size == 2
    schema, chunk = pa.array([3, 2]).__arrow_c_array__()
    ids = np.empty(2, np.int64)
    index.add(schema, [chunk], ids)
    assert ids.tolist() == [2, 1]
    assert pa.array(index.keys(0, 3)).to_pylist() == [1, 2, 3]


def test_floats_by_their_bits():
    array = pa.array([0.0, -0.0, math.nan, 1.0])
    assert added(array)[0].size == 3
    index, ids = added(array, floats="bits")
    assert ids.tolist() == [0, 1, 2, 3]
    assert np.signbit(pa.array(index.keys(1, 1)).to_numpy()).all()
    with pytest.raises(TypeError, match="int64 here and float64 there"):
        looked_up(index, pa.array([1]))
    with pytest.raises(TypeError, match="float32 here and float64 there"):
        looked_up(index, pa.array([1.0], pa.float32()))


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (pa.array([[1]]), r"the column is a list \(Arrow's format '\+l'\), which cannot be a key"),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "a list of fixed size"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "a map"),
        (pa.array([{"x": 1, "y": [1]}]), "column 'y' is a list"),
        (pa.array([None], pa.month_day_nano_interval()), "an interval"),
        (pa.array([None], pa.decimal256(50, 2)), "a decimal of more than 128 bits"),
        (pa.RunEndEncodedArray.from_arrays([2], [1]), "run-end encoded"),
    ],
)
def test_types_without_an_equality_are_refused_by_name(array, said):
    with pytest.raises(TypeError, match=said):
        CoreIndex(array.__arrow_c_array__()[0])


# ---- the rest --------------------------------------------------------------------------------------------------------


def test_rows_by_id():
    ids = np.array([2, -1, 0, 2, 2, -1])
    offsets, rows = rows_by_id(ids, 4)
    assert offsets.tolist() == [0, 1, 1, 4, 4]
    assert rows.tolist() == [2, 0, 3, 4]
    assert rows_by_id(np.zeros(0, np.int64), 0)[0].tolist() == [0]
    with pytest.raises(TypeError, match=r"ids\[0\] is 2, and there are 2 ids"):
        rows_by_id(ids, 2)


def test_keys_outlive_the_index():
    index, _ = added(column("string", 1000))
    keys = index.keys(0, index.size)
    before = pa.array(index.keys(0, index.size)).to_pylist()
    del index
    assert pa.array(keys).to_pylist() == before


def test_bad_arguments():
    index, _ = added(pa.array([1, 2]))
    with pytest.raises(TypeError, match="keys 1 to 3 are asked for, and the index has 2"):
        index.keys(1, 2)
    with pytest.raises(KeyError):
        CoreIndex(pa.int8().__arrow_c_schema__(), nulls="keep")
    schema, chunk = pa.array([1, 2]).__arrow_c_array__()
    for ids in (np.empty(1, np.int64), np.empty(2, np.int32), np.empty((1, 2), np.int64), np.empty(4, np.int64)[::2]):
        with pytest.raises(ValueError, match="pass int64 of 2 elements"):
            index.find(schema, [chunk], ids)
    with pytest.raises(TypeError, match="does not count"):
        CoreIndex(schema).counts()


@THREADS
def test_many_threads_add_and_find_at_once(threads):
    """Each key has one id, whichever thread added it."""
    index = CoreIndex(pa.string().__arrow_c_schema__(), threads=threads)
    words = [f"word {i * i}" for i in range(40_000)]
    seen: dict[int, np.ndarray] = {}

    def run(i):
        array = pa.array(words[i * 1000 :] + words[: i * 1000])
        schema, chunk = array.__arrow_c_array__()
        ids = np.empty(len(words), np.int64)
        index.add(schema, [chunk], ids)
        assert (looked_up(index, array) == ids).all()
        seen[i] = np.roll(ids, i * 1000)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert index.size == len(words)
    assert all((ids == seen[0]).all() for ids in seen.values())
    assert len(seen) == 6


def test_memory_is_said():
    index, _ = added(pa.array([f"{i:020d}" for i in range(50_000)]))
    assert 50_000 * (20 + 32 + 16) < index.nbytes < 50_000 * 250
