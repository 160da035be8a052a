"""gpuhash_table_save and gpuhash_table_load: files of C and of Python are the same, and none of them does harm."""

import os

import numpy as np
import pytest

import pygpuhash as gh

from .conftest import must, run
from .test_c_programs import PLUGINS

N = 4000


def loaded(program, path, *backend):
    """The fields of the line that the program prints."""
    return must(program("saved"), "load", path, *backend).rstrip("\n").split("\t")


@pytest.mark.parametrize("backend", PLUGINS)
def test_files_of_c_are_read_by_c_and_python(program, backend, tmp_path):
    path = tmp_path / "table.arrow"
    assert " 0 failed" in must(program("saved"), "save", path, backend, str(N))
    for other in PLUGINS:
        assert loaded(program, path, other) == ["OK", other, str(N), "8", "8"]
    with gh.load(path, device="cpu") as table:
        assert (table.backend, table.key_dtype, table.value_dtype) == (backend, np.uint64, np.int64)
        keys, values = table.export()
        assert np.array_equal(keys, values.astype("u8") * np.uint64(0x9E3779B97F4A7C15))
        assert len(keys) == N


def test_other_readers_read_files_of_c(program, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "table.arrow"
    must(program("saved"), "save", path, "hive", str(N))
    with pa.ipc.open_file(path) as file:
        assert file.num_record_batches > 3
        table = file.read_all()
    table.validate(full=True)
    assert table.schema.names == ["key", "value"]
    assert sorted(table["value"].to_pylist()) == list(range(N))


DTYPES = [("u4", None), ("i8", "f4"), ("f8", "M8[us]"), (("u4", 4), ("f4", (2, 2))), ("S16", "c16")]


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
def test_files_of_python_are_read_by_c(program, dtypes, tmp_path):
    path = tmp_path / "table.arrow"
    wide = not isinstance(dtypes[0], str) or dtypes[0][0] == "S"
    with gh.Table("stadium" if wide else "hive", key_dtype=dtypes[0], value_dtype=dtypes[1], device="cpu") as table:
        raw = np.arange(50 * table.key_dtype.itemsize, dtype="u8").astype("u1")
        keys = np.arange(1, 51).astype(dtypes[0]) if not wide else raw.view(table.key_dtype.base)
        values = None if dtypes[1] is None else np.zeros((50, *table.value_dtype.shape), table.value_dtype.base)
        table.insert(keys.reshape(50, *table.key_dtype.shape), values)
        table.save(path)
        wanted = [str(table.key_dtype.itemsize), str(0 if dtypes[1] is None else table.value_dtype.itemsize)]
        assert loaded(program, path) == ["OK", table.backend, str(len(table)), *wanted]


def test_several_values_of_a_key(program, tmp_path):
    path = tmp_path / "table.arrow"
    must(program("saved"), "save", path, "slab_hash", str(N), "duplicates")
    assert loaded(program, path) == ["OK", "slab_hash", str(N), "8", "8"]
    with gh.load(path, device="cpu") as table:
        assert len(table) == N
    status, message = loaded(program, path, "hive")
    assert (status, "several values of some keys" in message) == ("INVALID_ARGUMENT", True)


CUT = "the footer is broken: the file ends before its end mark"
REFUSALS = {  # what is saved, how its bytes are changed, the status, words of the message
    "whole": ("numbers", lambda data: data, "OK", "hive"),
    "empty": ("numbers", lambda data: b"", "INVALID_ARGUMENT", "does not begin as files of Arrow IPC do"),
    "foreign": ("numbers", lambda data: b"PK\3\4" + data, "INVALID_ARGUMENT", "does not begin as files of Arrow"),
    "cut": ("numbers", lambda data: data[:-1], "CORRUPT", CUT),
    "only begun": ("numbers", lambda data: data[:8], "CORRUPT", CUT),
    "longer": ("numbers", lambda data: data + b"\0", "CORRUPT", CUT),
    "head": ("numbers", lambda data: changed(data, 40), "CORRUPT", "the head is broken: its bytes do not have"),
    "block": ("numbers", lambda data: changed(data, data.index(b"\x13\0\0\0")), "CORRUPT", "block 1 of 1 is broken"),
    "footer": ("numbers", lambda data: changed(data, len(data) - 40), "CORRUPT", "the footer is broken"),
    "text": ("text", lambda data: data, "UNSUPPORTED", "a table of text: load it with pygpuhash"),
    "index": ("index", lambda data: data, "UNSUPPORTED", "an index: load it with pygpuhash"),
    "counter": ("counter", lambda data: data, "UNSUPPORTED", "a counter: load it with pygpuhash"),
    "groups": ("groups", lambda data: data, "UNSUPPORTED", "a group-by: load it with pygpuhash"),
    "structs": ("structs", lambda data: data, "UNSUPPORTED", 'column "key" has elements of 0 bytes or of another kind'),
}


def what_is_saved(kind):
    if kind == "text":
        return gh.Table("hive", key_dtype=str, value_dtype=None)
    if kind == "index":
        return gh.Index(["a"])
    if kind == "counter":
        return gh.Counter(["a"])
    if kind == "groups":
        return gh.GroupBy({"rows": "count"})
    if kind == "structs":
        return gh.Table("stadium", key_dtype=[("a", "?", 4)], device="cpu")
    table = gh.Table("hive", key_dtype="u4", value_dtype="u4", device="cpu")
    table.insert(np.arange(20), 5)
    return table


def changed(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(program, name, tmp_path):
    path = tmp_path / "table.arrow"
    kind, change, status, words = REFUSALS[name]
    what_is_saved(kind).save(path)
    path.write_bytes(change(path.read_bytes()))
    said = loaded(program, path)
    assert said[0] == status
    assert words in said[1]


def test_compressed_and_newer_files(program, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed, which compresses")
    from pygpuhash.saved import container

    path = tmp_path / "table.arrow"
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(2000), 1)
        table.save(path, compression="zstd")
        assert loaded(program, path) == ["UNSUPPORTED", "the file is compressed: load it with pygpuhash"]
        monkeypatch.setattr(container, "VERSION", 2)
        table.save(path, overwrite=True)
    status, message = loaded(program, path)
    assert status == "UNSUPPORTED"
    assert message.startswith("the file has format 2 of saved tables, and this gpuhash reads up to 1: update")


def test_arguments_and_callbacks(program):
    assert " 0 failed" in must(program("saved"), "check")


def fuzzed(program, path, executions, seed):
    done = run(program("saved"), "fuzz", path, str(executions), str(seed))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
    return done.stdout


def test_changed_files_do_no_harm(program, tmp_path):
    path = tmp_path / "table.arrow"
    must(program("saved"), "save", path, "linear_probe", "40")
    assert "OK " in fuzzed(program, path, 300, 1)


@pytest.mark.slow
@pytest.mark.parametrize("backend", PLUGINS)
def test_many_changed_files_do_no_harm(program, backend, tmp_path):
    path = tmp_path / "table.arrow"
    must(program("saved"), "save", path, backend, "40")
    print(fuzzed(program, path, int(os.environ.get("GPUHASH_FUZZ_FILES", "20000")), 2))
