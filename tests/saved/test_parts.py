"""Exports in parts, and what is saved by them: one moment, without a second copy of the table."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pygpuhash as gh

KEYS = np.concatenate([np.arange(3000, dtype="u8"), [2**64 - 1, 2**64 - 2]]).astype("u8")


@pytest.mark.parametrize("size", [1, 100, 3001, 3002, 10**6])
@pytest.mark.parametrize("value", ["i4", None], ids=["map", "set"])
def test_all_parts_are_the_table(backend, value, size):
    with gh.Table(backend, value_dtype=value, device="cpu") as table:
        assert list(table.export_parts(size)) == []
        table.insert(KEYS, None if value is None else np.arange(len(KEYS)))
        parts = list(table.export_parts(size))
        assert all(0 < len(keys) <= size or (size == 1 and backend == "slab_hash") for keys, _ in parts)
        keys = np.concatenate([keys for keys, _ in parts])
        order = np.argsort(keys)
        assert np.array_equal(keys[order], KEYS[np.argsort(KEYS)])
        if value is None:
            assert all(values is None for _, values in parts)
        else:
            values = np.concatenate([values for _, values in parts])
            assert np.array_equal(values[order], np.arange(len(KEYS))[np.argsort(KEYS)])
        if "ordered" in table.traits:
            assert (order == np.arange(len(KEYS))).all()


SHAPES = [
    *(("stadium", {"ticket": bits}) for bits in (2, 4, 8, 16)),
    *(("slab_hash", {"slab_bytes": size}) for size in (64, 128, 256)),
    ("linear_probe", {}),
    ("hive", {}),
]
WIDTHS = [("u4", "u4"), ("u4", "u8"), ("u8", "u4"), ("u8", None), ("u4", None), ("u8", "u8"), (("u4", 3), ("f4", 5))]


@pytest.mark.parametrize("as_stored", [False, True], ids=["spread", "as stored"])
@pytest.mark.parametrize(("name", "options"), SHAPES)
def test_every_way_to_read_slots(name, options, as_stored):
    """Slots of all widths, some of which were erased, by one thread and by several."""
    n = 20_000
    for key, value in WIDTHS[: None if name == "stadium" else -1]:
        keys, values = (
            dtype and np.arange(n * (wide := dtype[1] if isinstance(dtype, tuple) else 1)).reshape(n, wide).squeeze()
            for dtype in (key, value)
        )
        with gh.Table(name, key_dtype=key, value_dtype=value, device="cpu", threads=3, **options) as table:
            table.insert(keys, values)
            table.erase(keys[::3])
            for size in (700, n):
                parts = list(table._parts(size, gh._core.ExportCursor(as_stored), 0))
                assert all(len(some) <= size for some, _ in parts)
                found = np.concatenate([some for some, _ in parts])
                order = np.argsort(found.reshape(len(found), -1)[:, 0])
                assert np.array_equal(found[order], keys[np.arange(n) % 3 != 0])
                if value:
                    assert np.array_equal(
                        np.concatenate([some for _, some in parts])[order], values[np.arange(n) % 3 != 0]
                    )


def test_keys_of_a_signed_skiplist_are_in_their_order():
    with gh.Table("skiplist", key_dtype="i8", device="cpu") as table:
        table.insert(np.arange(-500, 500), 1)
        keys = np.concatenate([keys for keys, _ in table.export_parts(37)])
        assert np.array_equal(keys, np.arange(-500, 500))


def test_a_bucket_comes_at_once():
    with gh.Table("slab_hash", duplicates=1, device="cpu") as table:
        table.insert_multi(np.full(1000, 7), np.arange(1000))
        table.insert_multi(np.arange(100), np.arange(100))
        parts = [len(keys) for keys, _ in table.export_parts(50)]
        assert sum(parts) == 1100
        assert max(parts) >= 1000


@pytest.mark.parametrize("change", [lambda t: t.insert(1, 1), lambda t: t.reserve(10**5), lambda t: t.erase([4])])
def test_a_change_is_refused(backend, change):
    with gh.Table(backend, device="cpu") as table:
        table.insert(KEYS, 1)
        parts = table.export_parts(1000)
        next(parts)
        table.find(KEYS)
        assert len(table) == len(KEYS)
        next(parts)
        change(table)
        with pytest.raises(gh.InvalidArgument, match="the table has changed since the export's first part"):
            next(parts)


def test_texts_in_parts():
    with gh.Table("hive", key_dtype=str, value_dtype="i4") as table:
        table.insert([f"word {i}" for i in range(100)], np.arange(100))
        parts = list(table.export_parts(30))
        assert all(len(keys) <= 30 for keys, _ in parts)
        pairs = {key: int(value) for keys, values in parts for key, value in zip(keys, values, strict=True)}
        assert pairs == {f"word {i}": i for i in range(100)}


def test_wrong_arguments():
    with gh.Table("hive", device="cpu") as table:
        with pytest.raises(gh.InvalidArgument, match="size=0 is out of range"):
            next(table.export_parts(0))
        with pytest.raises(TypeError, match="size='x'"):
            next(table.export_parts("x"))


def test_a_table_that_changes_is_saved_as_it_is_at_one_moment(tmp_path, blocks, monkeypatch):
    """The parts are given up for one export, which holds writers back."""
    from pygpuhash.saved import contents

    blocks(100)
    path, given = tmp_path / "table.arrow", contents._of_numbers

    def changing(table, at_once):
        made = given(table, at_once)
        table.accumulate(np.arange(1000), 1)
        return made

    monkeypatch.setattr(contents, "_of_numbers", changing)
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(1000), 0)
        table.save(path)
        assert set(table.values().tolist()) == {2}
    assert [one.name for one in tmp_path.iterdir()] == ["table.arrow"]
    with gh.load(path) as loaded:
        assert len(loaded) == 1000
        assert set(loaded.values().tolist()) == {1}


PEAK = """
import sys
import threading
import numpy as np, pygpuhash as gh

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) // 1024

def after(call):
    with open("/proc/self/status") as file:
        before = next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) // 1024
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    made = call()
    return made, peak() - before

path, n, backend, small = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[1] + ".small"
gh.Table("hive", device="cpu").save(small, overwrite=True)
gh.load(small).close()
if n:
    table = gh.Table(backend, device="cpu", capacity=n)
    for first in range(0, n, 1 << 20):
        table.insert(np.arange(first, min(first + (1 << 20), n)), 1)
    _, beside = after(lambda: table.save(path))
    print(table.nbytes >> 20, beside)
else:
    table, there = after(lambda: gh.load(path, backend))
    print(there - (table.nbytes >> 20), len(table))
"""


def beside(path, n, backend, into=""):
    """(MiB of the table, MiB beside it while it is saved, and while another process loads it).

    Another one, since what a process has given back to malloc it does not ask for anew.
    """
    figures = []
    for some, name in ((n, backend), (0, into or backend)):
        ran = subprocess.run([sys.executable, "-P", "-c", PEAK, path, str(some), name], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        figures += map(int, ran.stdout.split())
    assert figures.pop() == n
    return figures


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("source", ["skiplist", "hive"], ids=["in order", "in none"])
def test_memory_beside_a_skiplist(source, tmp_path, say):
    """It is built of batches and of its own pairs, with arrays for both: by blocks of a file these took 200 MiB."""
    _, saving, loading = beside(tmp_path / "table.arrow", 12_000_000, source, "skiplist")
    say("saved files", f"skiplist from a {source}: {loading} MiB beside it while it is loaded")
    assert saving <= 64
    assert loading <= 64


@pytest.mark.parametrize("value", ["i4", None], ids=["map", "set"])
def test_a_skiplist_is_loaded_in_parts(tmp_path, monkeypatch, value):
    monkeypatch.setattr("pygpuhash.saved.made.AT_ONCE", 700)
    with gh.Table("hive", value_dtype=value, device="cpu") as table:
        table.insert(KEYS, None if value is None else np.arange(len(KEYS)))
        table.save(tmp_path / "table.arrow")
    with gh.load(tmp_path / "table.arrow", "skiplist") as loaded:
        assert np.array_equal(loaded.keys(), np.sort(KEYS))
        if value is not None:
            assert np.array_equal(loaded.values(), np.arange(len(KEYS))[np.argsort(KEYS)])


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.slow
@pytest.mark.parametrize("n", [12_000_000, 40_000_000])
def test_memory_beside_a_table(backend, n, tmp_path, say):
    table, saving, loading = beside(tmp_path / "table.arrow", n, backend)
    say("saved files", f"{backend} of {table} MiB: {saving} MiB beside it while it is saved, {loading} while loaded")
    assert table >= 180
    assert saving <= 64
    assert loading <= 64


LARGER = """
import os, resource, sys
import numpy as np, pygpuhash as gh

def data():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmData")) << 10

folder, n, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) << 20
place = dict(placement="file", device="cpu")
gh.Table("hive", device="cpu").save(folder + "/small.arrow")  # opens the package
gh.load(folder + "/small.arrow").close()
resource.setrlimit(resource.RLIMIT_DATA, (data() + room, data() + room))
with gh.Table("stadium", path=folder + "/one", capacity=n, **place) as table:
    for first in range(0, n, 1 << 18):
        table.insert(np.arange(first, min(first + (1 << 18), n)), np.arange(first, min(first + (1 << 18), n)) % 1000)
    table.save(folder + "/table.arrow")
try:
    gh.load(folder + "/table.arrow").close()
    print("it fits in memory")
except (MemoryError, gh.NoMemory):
    pass
with gh.load(folder + "/table.arrow", path=folder + "/other", **place) as table:
    some = np.arange(0, n, 1009)
    print(len(table), (table.find(some)[0] == some % 1000).all(), os.path.getsize(folder + "/other") >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is of Linux")
@pytest.mark.slow
def test_a_table_larger_than_memory(tmp_path, say):
    """A stadium in a file is saved, and loaded into another file, by a process that may not hold it."""
    n, room = 16_000_000, 128
    command = [sys.executable, "-P", "-c", LARGER, tmp_path, str(n), str(room)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rows, equal, size = ran.stdout.split()
    assert (int(rows), equal) == (n, "True")
    say("saved files", f"{n} pairs, in a file of {size} MiB: saved and loaded with {room} MiB of memory")
    assert int(size) > 2 * room


@pytest.mark.parametrize("kind", ["table", "text", "index"])
def test_blocks_are_made_while_others_are_written(tmp_path, blocks, monkeypatch, kind):
    """Blocks share their memory, and the disk is slow: none is made where another one is yet to be written."""
    from pygpuhash.saved import disk, files

    written = disk.system.write

    def write_slowly(file, data):
        time.sleep(0.002)
        return written(file, data)

    monkeypatch.setattr(disk.system, "write", write_slowly)
    monkeypatch.setattr(files, "MANY", 100)
    blocks(100)
    words = [f"word {i}" for i in range(1050)]
    if kind == "index":
        made = gh.Index(words)
    else:
        made = gh.Table("hive", key_dtype="u8" if kind == "table" else str, device="cpu")
        made.insert(KEYS[:1050] if kind == "table" else words, np.arange(1050))
    seen = []
    with gh.progress(lambda done, all: seen.append(done)):
        made.save(tmp_path / "some")
    assert seen[-1] == 1050
    assert len(seen) >= 11
    loaded = gh.load(tmp_path / "some")
    assert len(loaded) == 1050
    assert kind == "index" or sorted(loaded.values().tolist()) == list(range(1050))


def failing_after(calls, function, error):
    """The function, which raises the error after so many calls."""
    left = [calls]

    def called(*given):
        left[0] -= 1
        if left[0] < 0:
            raise error
        return function(*given)

    return called


def test_an_error_while_a_block_is_made(tmp_path, blocks, monkeypatch):
    """It is the caller's, nothing is saved, and no thread reads the table any more."""
    from pygpuhash.saved import contents, files

    monkeypatch.setattr(files, "MANY", 100)
    blocks(100)
    add = failing_after(5, contents.elements.add, OSError(5, "Input/output error"))
    monkeypatch.setattr(contents.elements, "add", add)
    before = set(threading.enumerate())
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(1000), 0)
        with pytest.raises(OSError, match="Input/output error"):
            table.save(tmp_path / "some")
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) <= before


def test_an_error_while_a_block_is_written(tmp_path, blocks, monkeypatch):
    from pygpuhash.saved import disk, files

    monkeypatch.setattr(files, "MANY", 100)
    blocks(100)
    monkeypatch.setattr(disk.system, "write", failing_after(12, disk.system.write, KeyboardInterrupt()))
    before = set(threading.enumerate())
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(1000), 0)
        with pytest.raises(KeyboardInterrupt):
            table.save(tmp_path / "some")
        assert set(threading.enumerate()) <= before
    assert list(tmp_path.iterdir()) == []
