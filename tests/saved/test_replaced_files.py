"""A name leads to the old file or to the new one, whatever happens (pygpuhash/saved/disk.py, D1 to D3)."""

import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash.saved import disk

OLD = b"what was there before"


class Recorder(disk.System):
    """Records the calls that change something, fails one, and says what may be on the disk after a crash.

    data, certain : the bytes of each file so far, and those that were synced. names : (name, file or None), in order,
    of which the first `synced` are on the disk for certain.
    """

    def __init__(self, fails=None, error=errno.ENOSPC, names=()):
        self.calls, self.fails, self.error = [], fails, error
        self.data, self.certain, self.open = {}, {}, {}
        self.names, self.synced = list(names), len(names)
        self.moments = []

    def _call(self, name):
        self.moments.append(self.left())
        self.calls.append(name)
        if len(self.calls) - 1 == self.fails:
            if isinstance(self.error, BaseException):
                raise self.error
            raise OSError(self.error, os.strerror(self.error))

    def left(self):
        """(data, certain, names, synced) as they are now."""
        return dict(self.data), dict(self.certain), list(self.names), self.synced

    def create(self, path, mode):
        self._call("create")
        file = super().create(path, mode)
        key = len(self.data)
        self.data[key], self.certain[key], self.open[file] = b"", b"", key
        self.names.append((path, key))
        return file

    def write(self, file, data):
        self._call("write")
        done = super().write(file, data)
        self.data[self.open[file]] += bytes(data[:done])
        return done

    def fsync(self, file):
        self._call("fsync")
        self.certain[self.open[file]] = self.data[self.open[file]]

    def rename(self, old, new):
        self._call("rename")
        super().rename(old, new)
        self.names += [(new, self._now(old)), (old, None)]

    def link(self, old, new):
        self._call("link")
        super().link(old, new)
        self.names.append((new, self._now(old)))

    def unlink(self, path):
        super().unlink(path)
        self._call("unlink")
        self.names.append((path, None))

    def sync_folder(self, path):
        self._call("sync_folder")
        self.synced = len(self.names)

    def _now(self, name):
        return dict(self.names)[name]


def crashes(moment, path):
    """What a crash may leave of a name: None, or bytes. Of what was not synced, any part is there."""
    data, certain, names, synced = moment
    for last in range(synced, len(names) + 1):
        file = dict(names[:last]).get(str(path))
        if file is None:
            yield None
            continue
        for size in {len(certain[file]), (len(certain[file]) + len(data[file])) // 2, len(data[file])}:
            yield data[file][:size]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.arrow"


@pytest.fixture
def record(monkeypatch):
    def record(**arguments):
        recorder = Recorder(**arguments)
        monkeypatch.setattr(disk, "system", recorder)
        return recorder

    return record


def with_old(recorder, path):
    """The old file, as the recorder knows it."""
    path.write_bytes(OLD)
    recorder.data[-1] = recorder.certain[-1] = OLD
    recorder.names.append((str(path), -1))
    recorder.synced = 1
    return recorder


@pytest.mark.parametrize("old", [True, False], ids=["replaced", "new"])
def test_a_crash_at_any_call_leaves_the_old_or_the_new_file(old, small, path, record, blocks):
    blocks(5)
    recorder = record()
    if old:
        with_old(recorder, path)
    small.save(path, overwrite=old)
    assert recorder.calls.count("write") > 5
    assert recorder.calls[-1] == "sync_folder"
    new = path.read_bytes()
    seen = set()
    for moment in recorder.moments:
        for left in crashes(moment, path):
            assert left in (OLD if old else None, new)
            seen.add(left == new)
    assert seen == {True, False}
    assert set(crashes(recorder.left(), path)) == {new}  # when save has returned


@pytest.mark.parametrize("old", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, KeyboardInterrupt(), MemoryError()], ids=repr)
def test_each_call_fails(old, error, small, path, record, blocks):
    blocks(8)
    recorder = with_old(record(), path) if old else record()
    small.save(path, overwrite=old)
    path.unlink()
    names = recorder.calls
    for fails, name in enumerate(names):
        if name == "unlink":
            continue  # of the second name, when the first is there
        recorder = record(fails=fails, error=error)
        if old:
            with_old(recorder, path)
        with pytest.raises(BaseException, match=r"is there still|folder|^$") as raised:
            small.save(path, overwrite=old)
        assert isinstance(raised.value, OSError if isinstance(error, int) else type(error))
        left = sorted(one.name for one in path.parent.iterdir())
        if name == "sync_folder":
            assert left == ["table.arrow"]
            len(gh.load(path))
        else:
            assert left == (["table.arrow"] if old else [])
            assert not old or path.read_bytes() == OLD
        path.unlink(missing_ok=True)


def test_short_writes(small, path, monkeypatch, pairs):
    class Short(disk.System):
        def write(self, file, data):
            return super().write(file, data[:7])

    monkeypatch.setattr(disk, "system", Short())
    small.save(path)
    with gh.load(path) as loaded:
        assert pairs(loaded) == pairs(small)


def test_the_disk_begins_while_a_file_is_written(path, monkeypatch):
    begun, size = [], disk._Writer.AT_ONCE

    class Begins(disk.System):
        def begin_sync(self, file, offset, count):
            assert offset + count == os.fstat(file).st_size  # what is there already
            begun.append((offset, count))
            super().begin_sync(file, offset, count)

    monkeypatch.setattr(disk, "system", Begins())
    rng = np.random.default_rng(1)
    parts = [rng.bytes(count) for count in (100, size // 2, 1, size * 5 // 2, 7)]
    with disk.replaced(path, overwrite=False) as write:
        for part in parts:
            write(part)
    assert path.read_bytes() == b"".join(parts)
    assert [offset for offset, _ in begun] == [0, *itertools.accumulate(count for _, count in begun)][:-1]
    assert min(count for _, count in begun) >= size // 2
    assert path.stat().st_size - sum(count for _, count in begun) < size // 2


def test_a_file_system_that_takes_no_advice(small, path, monkeypatch, pairs):
    def refuses(*_):
        raise OSError(errno.EINVAL, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuses)
    monkeypatch.setattr(disk._Writer, "AT_ONCE", 64)
    small.save(path)
    with gh.load(path) as loaded:
        assert pairs(loaded) == pairs(small)


def test_a_file_system_without_links(small, path, monkeypatch):
    class Linkless(disk.System):
        def link(self, old, new):
            raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(disk, "system", Linkless())
    small.save(path)
    assert [one.name for one in path.parent.iterdir()] == ["table.arrow"]
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        small.save(path)


def test_the_full_disk(small):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")

    with pytest.raises(OSError, match="the path is no file but a device"):
        small.save("/dev/full", overwrite=True)


def test_names(small, path, tmp_path, monkeypatch):
    for given, error, words in [
        (tmp_path, IsADirectoryError, "the path is a folder"),
        (tmp_path / "no" / "table", FileNotFoundError, "there is no such folder: make it first"),
        ("/dev/null", OSError, "no file but a device"),
        (tmp_path / ("x" * 300), OSError, "name too long|File name too long"),
    ]:
        with pytest.raises(error, match=words):
            small.save(given, overwrite=True)
    small.save(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="the file exists: pass overwrite=True, or another name"):
        small.save(path)
    assert path.read_bytes() == before
    small.save(str(path), overwrite=True)
    small.save(os.fsencode(path), overwrite=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    small.save("~/home.arrow")
    len(gh.load("~/home.arrow"))
    monkeypatch.chdir(tmp_path)
    small.save("here.arrow")
    len(gh.load(Path("here.arrow")))
    for given, error, words in [
        (tmp_path, IsADirectoryError, "the path is a folder"),
        (tmp_path / "no", FileNotFoundError, "there is no such file"),
        ("/dev/null", OSError, "no file but a device"),
        (7, TypeError, "path=7 is a int"),
    ]:
        with pytest.raises(error, match=words):
            gh.load(given)


def test_rights_and_links(small, path, tmp_path):
    path.write_bytes(OLD)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    small.save(link, overwrite=True)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    len(gh.load(link))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no file but a device, a pipe"):
        gh.load(pipe)
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(PermissionError, match="the folder does not permit new files: nothing was saved"):
            small.save(path, overwrite=True)
        tmp_path.chmod(0o700)


def test_no_rights(small, path, record):
    record(fails=0, error=errno.EACCES)
    with pytest.raises(PermissionError, match="the folder does not permit new files: nothing was saved"):
        small.save(path)


@pytest.mark.parametrize("overwrite", [True, False])
def test_several_save_to_one_name(overwrite, path):
    """Of several writers without overwrite one has the name; with it, each leaves a whole file."""
    results, start = [], threading.Barrier(4)

    def work(i):
        with gh.Table("hive", device="cpu") as table:
            table.insert(np.arange(1000), i)
            start.wait()
            try:
                table.save(path, overwrite=overwrite)
                results.append(i)
            except FileExistsError:
                results.append(None)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    winners = [i for i in results if i is not None]
    assert len(winners) == (4 if overwrite else 1)
    with gh.load(path) as table:
        assert len(table) == 1000
        assert set(table.values().tolist()) <= set(winners)
        assert len(set(table.values().tolist())) == 1
    assert [one.name for one in path.parent.iterdir()] == ["table.arrow"]


PROGRAM = """
import sys
import numpy as np, pygpuhash as gh
from pygpuhash.saved import contents
contents.BLOCK_ROWS = 20_000
with gh.Table("hive", device="cpu", threads=1) as table:
    table.insert(np.arange(200_000), int(sys.argv[2]))
    print("ready", flush=True)
    while True:
        table.save(sys.argv[1], overwrite=True)
"""


def killed(path, value, how, patience):
    """A process that saves again and again, and is ended after some time."""
    process = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM, path, str(value)], stdout=-1, stderr=-1, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(patience)
    process.send_signal(how)
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("run", range(8))
def test_kills(path, say, run):
    """25 in each run, after times that are drawn from those that a save takes."""
    rng = random.Random(run)
    with gh.Table("hive", device="cpu") as table:
        table.insert(np.arange(200_000), 0)
        table.save(path)
    beside = 0
    for value in range(1, 26):
        killed(path, value, signal.SIGKILL, rng.choice([0.002, 0.03, 0.1]) * rng.random())
        with gh.load(path) as table:
            assert len(table) == 200_000
            assert set(table.values().tolist()) <= {*range(value + 1)}
            assert len(set(table.values().tolist())) == 1
        left = [one for one in path.parent.iterdir() if one != path]
        assert all(one.name.startswith(".gpuhash-") for one in left)
        beside = len(left)
    say("saved files", f"run {run}: 25 kills, of which {beside} left a file beside")


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [True, False])
def test_two_processes_save_to_one_name(path, overwrite):
    program = f"""
import sys
import numpy as np, pygpuhash as gh
with gh.Table("hive", device="cpu") as table:
    table.insert(np.arange(300_000), int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(10 if {overwrite} else 1):
        table.save(sys.argv[1], overwrite={overwrite})
"""
    both = [
        subprocess.Popen([sys.executable, "-P", "-c", program, path, str(i)], stdin=-1, stdout=-1, stderr=-1, text=True)
        for i in range(2)
    ]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate()[1] for one in both]
    assert sorted(one.returncode for one in both) == ([0, 0] if overwrite else [0, 1])
    assert sum("FileExistsError" in words for words in said) == (not overwrite)
    with gh.load(path) as table:
        assert len(table) == 300_000
        (value,) = set(table.values().tolist())
    assert overwrite or both[value].returncode == 0
    assert [one.name for one in path.parent.iterdir()] == ["table.arrow"]


@pytest.mark.slow
def test_interrupts_leave_nothing_behind(path):
    for value, patience in zip(range(1, 9), itertools.cycle([0.01, 0.03, 0.07, 0.002]), strict=False):
        killed(path, value, signal.SIGINT, patience)
        assert [one.name for one in path.parent.iterdir()] in ([], ["table.arrow"])
        if path.exists():
            gh.load(path).close()
