"""What is saved is loaded: every structure into every other one, every dtype, text, indexes."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.arange(3000, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
WORDS = ["", "a", "\0", "é", "a word of some length", "🙂" * 9, *(f"word {i}" for i in range(300))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.arrow"


def record_of(path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pa.ipc.open_file(path) as file:
        return json.loads(file.schema.metadata[b"gpuhash"])


@pytest.mark.parametrize("value", ["f8", None], ids=["map", "set"])
def test_every_structure_into_every_other(backend, other, value, path, pairs, blocks):
    blocks(700)
    with gh.Table(backend, value_dtype=value, device="cpu") as table:
        table.insert(KEYS, None if value is None else np.sqrt(KEYS))
        table.save(path)
        with gh.load(path, other) as loaded:
            assert loaded.backend == other
            assert pairs(loaded) == pairs(table)
            assert (loaded.key_dtype, loaded.value_dtype) == (table.key_dtype, table.value_dtype)
            loaded.check()
            loaded.insert(KEYS + np.uint64(1), None if value is None else 1.0)  # it grows
            assert len(loaded) == 2 * len(KEYS)


@pytest.mark.parametrize("n", [0, 1, 64, 65])
def test_few_pairs(backend, n, path, pairs, blocks):
    blocks(64)
    with gh.Table(backend, key_dtype="i4", value_dtype="u2", device="cpu") as table:
        table.insert(np.arange(n) - 5, np.arange(n))
        table.save(path)
        with gh.load(path) as loaded:
            assert loaded.backend == backend
            assert pairs(loaded) == pairs(table)


DTYPES = {
    "numbers of 1 and 2 bytes": ("u1", "f2"),
    "bool": ("?", "?"),
    "floats": ("f4", "c8"),
    "times": ("M8[us]", "m8[ns]"),
    "times that Arrow lacks": ("M8[D]", "m8[25s]"),
    "rows": (("u4", 3), ("f4", (2, 2))),
    "rows of bool": (("?", 8), ("?", 4)),
    "fields": ([("x", "i4"), ("in", [("t", "M8[s]"), ("y", "f4", 2)]), ("é", "S4"), ("?", "?", 4)], [("a", "u8")]),
    "bytes": ("S16", "S4"),
    "text of fixed width": ([("u", "U3"), ("v", "V4")], "c16"),
}


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name, compression, path, pairs):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: it compresses, and reads what was written")
    with gh.Table("stadium", key_dtype=DTYPES[name][0], value_dtype=DTYPES[name][1], device="cpu") as table:
        rng = np.random.default_rng(3)
        keys, values = (of_bits(rng, dtype, 100) for dtype in (table.key_dtype, table.value_dtype))
        table.insert(keys, values)
        table.save(path, compression=compression)
        with gh.load(path) as loaded:
            assert (loaded.key_dtype, loaded.value_dtype) == (table.key_dtype, table.value_dtype)
            assert pairs(loaded) == pairs(table)
        with pa.ipc.open_file(path) as file:
            read = file.read_all()
        read.validate(full=True)
        assert read.num_rows == len(table)
        assert read.column_names == ["key", "value"]


def of_bits(rng, dtype, n):
    """Elements of random bits; of text and bytes, letters."""
    base, shape = dtype.subdtype or (dtype, ())
    if base.names:
        out = np.empty((n, *shape), base)
        for name in base.names:
            out[name] = of_bits(rng, base[name], n)
        return out
    shape = (n, *shape)
    if base.kind in "SUV":
        width = base.itemsize // (4 if base.kind == "U" else 1)
        letters = rng.integers(97, 123, (*shape, width)).astype("u4" if base.kind == "U" else "u1")
        return letters.view(base).reshape(shape)
    if base.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(1, 120, (*shape, base.itemsize)).astype("u1").view(base).reshape(shape)


@pytest.mark.parametrize("special", [[0.0, -0.0, np.nan, np.inf], [1e-40, 3.5]])
def test_floats_keep_their_bits(special, path):
    keys = np.array(special, "f4")
    with gh.Table("hive", key_dtype="f4", value_dtype="f4", device="cpu") as table:
        table.insert(keys, keys)
        table.save(path)
        with gh.load(path) as loaded:
            values, found = loaded.find(keys)
            assert found.all()
            assert values.tobytes() == keys.tobytes()


def test_several_values_of_a_key(path, blocks):
    blocks(5)
    with gh.Table("slab_hash", duplicates=1, key_dtype="u4", value_dtype="u4", device="cpu") as table:
        table.insert_multi([1, 1, 1, 2, 3, 3, 3, 3], np.arange(8))
        table.save(path)
        for backend in (None, "auto", "slab_hash"):
            with gh.load(path, backend) as loaded:
                assert "multi" in loaded.traits
                assert sorted(loaded.find_all([3])[1].tolist()) == [4, 5, 6, 7]
                assert len(loaded) == 8
        with pytest.raises(
            gh.InvalidArgument, match=r"several values of some keys .* load it with backend='slab_hash'"
        ):
            gh.load(path, "hive")
        table.erase_all([1, 3])
        table.save(path, overwrite=True)
        with gh.load(path, "hive") as loaded:
            assert loaded.export()[0].tolist() == [2]


@pytest.mark.parametrize("kind", [str, bytes])
@pytest.mark.parametrize("value", ["i8", ("f4", 3), None])
def test_text(kind, value, path, pairs, blocks):
    blocks(100)
    words = WORDS if kind is str else [word.encode() + b"\xff" for word in WORDS]
    with gh.Table("stadium", key_dtype=kind, value_dtype=value, device="cpu") as table:
        table.insert(words, None if value is None else of_bits(np.random.default_rng(1), table.value_dtype, len(words)))
        table.erase(words[7:9])
        table.save(path)
        with gh.load(path) as loaded:
            assert isinstance(loaded, gh.TextTable)
            assert (loaded.key_dtype, loaded.backend) == (kind, "stadium")
            assert pairs(loaded) == pairs(table)
            loaded.check()
        if value != ("f4", 3):
            with gh.load(path, "skiplist") as loaded:
                assert loaded.backend == "skiplist"


def test_options_seed_and_load_factor(path):
    arguments = {"key_dtype": "u4", "value_dtype": "u4", "device": "cpu", "seed": 77, "max_load_factor": 0.6}
    with gh.Table("slab_hash", slab_bytes=64, buckets=1000, **arguments | {"max_load_factor": None}) as table:
        table[5] = 6
        table.save(path)
    with gh.load(path) as loaded:
        assert loaded._options == {"slab_bytes": "64"}  # buckets are a number
        assert loaded.seed != 77
    with gh.load(path, buckets=500, seed="saved", threads=1, capacity=10_000) as loaded:
        assert loaded._options == {"slab_bytes": "64", "buckets": "500"}
        assert loaded.seed == 77
    with gh.Table("hive", grow=False, capacity=500, **arguments) as table:
        table.save(path, overwrite=True)
    with gh.load(path) as loaded:
        assert loaded.max_load_factor == pytest.approx(0.6)
        loaded.insert(np.arange(2000), 0)


def test_a_table_in_a_file_is_loaded_into_memory_or_another_file(path, tmp_path, pairs):
    place = tmp_path / "table.stadium"
    with gh.Table("stadium", placement="file", path=place, device="cpu", key_dtype="u4") as table:
        table.insert(np.arange(50), 1)
        table.save(path)
        with gh.load(path) as loaded:
            assert pairs(loaded) == pairs(table)
            assert loaded._options.get("placement") is None
        with gh.load(path, placement="file", path=tmp_path / "other.stadium") as loaded:
            assert pairs(loaded) == pairs(table)
        with gh.Table("stadium", placement="file", path=tmp_path / "other.stadium", key_dtype="u4") as again:
            assert pairs(again) == pairs(table)


INDEXES = {
    "text": ["b", "a", None, "é", "b"],
    "numbers": np.array([5, -1, 5, 2**60]),
    "bool": np.array([True, False]),
    "times": np.array(["2020-01-01", "NaT", "1999-12-31"], "M8[ns]"),
    "columns": ([1, 2, 1, None], ["x", "y", "x", "z"]),
}


@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize("name", INDEXES)
def test_an_index(name, nulls, path, blocks):
    blocks(2)
    index = gh.Index(INDEXES[name], nulls=nulls)
    index.save(path)
    loaded = gh.load(path)
    assert isinstance(loaded, gh.Index)
    assert len(loaded) == len(index)
    assert loaded.get_indexer(INDEXES[name]).tolist() == index.get_indexer(INDEXES[name]).tolist()
    if name != "columns":  # which are lists there, and numpy's arrays here
        assert repr(list(loaded.keys)) == repr(list(index.keys))
    assert loaded.add(INDEXES[name]).tolist() == index.add(INDEXES[name]).tolist()


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("nulls", ["group", "drop"])
@pytest.mark.parametrize("name", INDEXES)
def test_a_counter(name, nulls, compression, path, blocks):
    if compression:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    blocks(2)
    counter = gh.Counter(INDEXES[name], nulls=nulls)
    counter.save(path, compression=compression)
    loaded = gh.load(path, threads=1)
    assert type(loaded) is gh.Counter
    assert loaded.counts.tolist() == counter.counts.tolist()
    assert loaded.get(INDEXES[name]).tolist() == counter.get(INDEXES[name]).tolist()
    for one in (loaded, counter):
        one.add(INDEXES[name])  # it counts on
    loaded.merge(counter)
    assert loaded.counts.tolist() == (2 * counter.counts).tolist()


STATES = {"rows": "count", "paid": "sum", "low": "min", "é": "max", "mean": "mean", "when": "max", "long": "sum"}


@pytest.mark.parametrize("n", [0, 1, 64, 65, 1000])
def test_groups(n, path, blocks):
    blocks(64)
    rng = np.random.default_rng(n)
    keys = (rng.integers(0, 500, n), np.array([f"word {i}" for i in rng.integers(0, 3, n)], "U9"))
    values = {"paid": rng.random(n), "low": rng.integers(0, 99, n).astype("i2"), "é": rng.random(n) < 0.5}
    values |= {"mean": rng.random(n), "when": rng.integers(0, 99, n).astype("M8[D]")}
    values["long"] = rng.integers(0, 99, n).astype("m8[us]")
    groups = gh.GroupBy(STATES, seed=5)
    groups.add(keys, **values)
    groups.save(path)
    loaded = gh.load(path, seed="saved")
    assert loaded._index._settings[5] == 5
    assert (type(loaded), loaded.aggregates, len(loaded)) == (gh.GroupBy, STATES, len(groups))
    with pytest.raises(ValueError, match="have shape"):  # after its key was added
        loaded.add((np.array([-1]), ["new"]), **{name: array[:1] for name, array in values.items()} | {"long": [1, 2]})
    assert len(loaded) == len(groups)
    for one in (loaded, groups):
        one.add(keys, **values)
    found, wanted = loaded.result()[1], groups.result()[1]
    assert [column.dtype for column in found.values()] == [column.dtype for column in wanted.values()]
    assert [column.tobytes() for column in found.values()] == [column.tobytes() for column in wanted.values()]
    if n:
        assert [len(column) for column in loaded.keys[:]] == [len(loaded)] * 2


def test_other_programs_read_counters_and_groups(path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    gh.Counter(["b", "a", None, "b"]).save(path)
    wanted = [("b", 2), ("a", 1), (None, 1)]
    with pa.ipc.open_file(path) as file:
        counted = file.read_all()
    counted.validate(full=True)
    assert counted.to_pydict() == {"key": ["b", "a", None], "count": [2, 1, 1]}
    assert pl.read_ipc(path).rows() == wanted
    assert duckdb.sql("select key, count from counted").fetchall() == wanted
    groups = gh.GroupBy({"paid": "sum", "mean": "mean"})
    groups.add([7, 8, 7], paid=[1, 2, 3], mean=[1, 2, 4])
    groups.save(path, overwrite=True)
    with pa.ipc.open_file(path) as file:
        grouped = file.read_all()
    assert grouped.to_pydict() == {"key": [7, 8], "paid": [4, 2], "mean.sum": [5.0, 2.0], "mean.rows": [2, 1]}
    assert pl.read_ipc(path).rows() == duckdb.sql("select * from grouped").fetchall()
    assert record_of(path)["aggregates"] == [["paid", "sum", "<i8"], ["mean", "mean", "<f8"]]


def test_what_a_loaded_counter_does_not_take(path):
    gh.Counter(["a"]).save(path)
    for arguments in ({"backend": "hive"}, {"device": "cpu"}):
        with pytest.raises(gh.InvalidArgument, match="the file has a counter, without a backend and a device"):
            gh.load(path, **arguments)
    with pytest.raises(TypeError, match="a counter is loaded without grow: pass threads, seed or capacity"):
        gh.load(path, grow=True)
    with pytest.raises(FileExistsError):
        gh.GroupBy({"n": "count"}).save(path)


def test_keys_of_a_type_that_no_file_has(path):
    index = gh.Index(([1, 2], [None, None]))
    for call in (index.save, lambda _: pickle.dumps(index)):
        with pytest.raises(gh.Unsupported, match=r"column '1' of the keys has nulls alone, .* nothing was saved"):
            call(path)
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(gh.Unsupported, match="column 'key' of the keys has elements of no bytes"):
        gh.Index(pa.array([b""], pa.binary(0))).save(path)
    assert not path.exists()


ARROW = ["string", "large_string", "string_view", "binary", "binary(4)", "decimal128(20,2)", "date32", "time32('s')"]
ARROW += ["duration('ns')", "timestamp('us','UTC')", "float16", "nested"]


@pytest.mark.parametrize("kind", ARROW)
def test_an_index_of_arrow_columns(kind, path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    decimal = __import__("decimal").Decimal
    values = {"decimal128": [decimal("1.25"), None, decimal("-3.10")], "binary": [b"abcd", b"\0\0\0\0", None]}
    values["string"] = values["large_string"] = values["string_view"] = ["a", None, "é" * 30]
    if kind == "nested":
        given = pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}, {"a": 1, "b": {"c": None}}])
    else:
        type = eval(f"pa.{kind}" + ("" if "(" in kind else "()"))
        given = pa.array(values.get(kind.partition("(")[0], [1, None, 3]), type)
    index = gh.Index(given.slice(1))
    index.add(given)
    index.save(path)
    loaded = gh.load(path)
    assert loaded.get_indexer(given).tolist() == index.get_indexer(given).tolist()
    with pa.ipc.open_file(path) as file:
        read = file.read_all()
    read.validate(full=True)
    assert len(read["key"]) == len(index)


def test_indexes_without_keys(path):
    gh.Index().save(path)
    loaded = gh.load(path)
    assert len(loaded) == 0
    assert loaded.add(["x"]).tolist() == [0]
    gh.Index("i4").save(path, overwrite=True)
    with pytest.raises(TypeError, match="text"):
        gh.load(path).add(["x"])


def test_the_record_describes_the_table(small, path):
    small.save(path)
    record = record_of(path)
    assert record.pop("gpuhash") == gh.__version__
    assert record == {
        "format": 1,
        "kind": "table",
        "rows": 20,
        "backend": "hive",
        "key": "<u4",
        "value": "<i8",
        "seed": 5,
        "options": {},
        "max_load_factor": small.max_load_factor,
        "grow": True,
        "device": "cpu",
        "order": None,
    }
    with gh.Table("skiplist", key_dtype="i4", device="cpu") as table:
        table.insert([5, -3, 2], 0)
        table.save(path, overwrite=True)
    assert record_of(path)["order"] == "key"


def test_others_read_the_file(small, path, blocks):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    blocks(6)
    expected = dict(small.items())
    for compression in (None, "zstd", "lz4"):
        small.save(path, overwrite=True, compression=compression)
        with pa.ipc.open_file(path) as file:
            assert file.num_record_batches == 4
            read = file.read_all()
        assert dict(zip(*(column.to_pylist() for column in read.columns), strict=True)) == expected
        with pa.memory_map(str(path)) as mapped:
            assert pa.ipc.open_file(mapped).read_all() == read
        assert dict(pl.read_ipc(path).rows()) == expected
        assert pl.scan_ipc(path).select(pl.len()).collect().item() == 20


def test_duckdb_reads_the_file(small, path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    small.save(path)
    with pa.ipc.open_file(path) as file:
        saved = file.read_all()  # noqa: F841
    assert duckdb.sql("select count(*), sum(key), sum(value) from saved").fetchall() == [(20, 190, 130)]


def test_progress(path, blocks):
    blocks(1000)
    heard = []
    with gh.Table("hive", device="cpu") as table:
        table.insert(KEYS, 0)
        with gh.progress(lambda done, n: heard.append((done, n))):
            table.save(path)
            blocks_saved = len(heard)
            assert heard[-1] == (3000, 3000)
            assert all(0 < b - a <= 1000 for (a, _), (b, _) in zip([(0, 3000), *heard], heard, strict=False))
            gh.load(path).close()
    assert heard[blocks_saved:] == heard[:blocks_saved]


def test_threads_write_meanwhile(path, in_threads):
    """The file has the table as it was at one moment."""
    with gh.Table("hive", device="cpu") as table:

        def work(i):
            if i:
                for first in range(0, 3000, 100):
                    table.insert(KEYS[first : first + 100], i)
            else:
                for _ in range(10):
                    table.save(path, overwrite=True)
                    gh.load(path).close()

        in_threads(work, 3)


def test_a_table_is_saved_when_its_process_ends(path):
    program = """
import atexit, sys
import pygpuhash as gh
table = gh.Table("hive", device="cpu")
table[1] = 2
atexit.register(table.save, sys.argv[1])
"""
    ran = subprocess.run([sys.executable, "-P", "-c", program, path], capture_output=True, text=True)
    assert (ran.stderr, ran.returncode) == ("", 0)
    with gh.load(path) as loaded:
        assert loaded[1] == 2


def test_wrong_arguments(small, path):
    for call, error, words in [
        (lambda: small.save(path, compression="gzip"), gh.InvalidArgument, "compression='gzip' is none of"),
        (lambda: small.save(path, overwrite="no"), TypeError, "overwrite='no' is neither"),
        (lambda: small.save(5), TypeError, "path=5 is a int"),
        (lambda: small.save("a\0b"), ValueError, "is no name of a file"),
        (lambda: small.save(""), ValueError, "is no name of a file"),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert not path.exists()
    small.save(path)
    for call, error, words in [
        (lambda: gh.load(path, "hivee"), gh.BackendNotFound, "hivee"),
        (lambda: gh.load(path, key_dtype="u4"), gh.InvalidArgument, "the file says which dtype"),
        (lambda: gh.load(path, value_dtype=None), gh.InvalidArgument, "the file says which dtype"),
        (lambda: gh.load(path, seed="x"), TypeError, "seed='x' is not an integer"),
        (lambda: gh.load(path, colour=1), gh.OptionNotFound, "colour"),
        (lambda: gh.load(path, capacity="x"), TypeError, "capacity='x' is not an integer"),
        (lambda: gh.load(path, grow=False, capacity=1, device="moon"), ValueError, "moon"),
    ]:
        with pytest.raises(error, match=words):
            call()
    gh.Index(["a"]).save(path, overwrite=True)
    for arguments, error in [({"backend": "hive"}, gh.InvalidArgument), ({"grow": False}, TypeError)]:
        with pytest.raises(error, match="an index"):
            gh.load(path, **arguments)
    small.close()
    with pytest.raises(gh.ClosedTable):
        small.save(path, overwrite=True)
    assert len(gh.load(path)) == 1


def test_text_that_is_no_utf8_is_not_saved(path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    broken = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, 1], "i8")), pa.py_buffer(b"\xff")]
    )
    index = gh.Index(broken)
    with pytest.raises(ValueError, match="column 'key' has text that is not UTF-8, at byte 0: nothing was saved"):
        index.save(path)
    assert list(Path(path.parent).iterdir()) == []


def test_without_pyarrow(small, path, pairs, monkeypatch):
    """Nothing but compression needs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    small.save(path)
    with gh.load(path) as loaded:
        assert pairs(loaded) == pairs(small)
    before = path.read_bytes()
    with pytest.raises(gh.Unsupported, match="compression='lz4' needs pyarrow, which is not installed"):
        small.save(path, overwrite=True, compression="lz4")
    assert path.read_bytes() == before
