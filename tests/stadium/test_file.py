"""Tables of stadium in a file: reopened, refused, repaired, killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]

CRASHES = Path(__file__).with_name("crashes.py")
KEYS = np.arange(5000, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
VALUES = np.arange(5000)


def table(path, **more) -> gh.Table:
    return gh.Table("stadium", placement="file", path=path, device="cpu", **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.stadium"


@pytest.fixture
def filled(path):
    with table(path) as t:
        t.insert(KEYS, VALUES)
    return path


def names(folder):
    return [entry.name for entry in folder.iterdir()]


def refuses(error, words, path, **more):
    with pytest.raises(error, match=words) as raised:
        table(path, **more)
    assert str(path) in str(raised.value)


# Where the fields of the header lie (plugins/stadium/table_file.hpp).
VERSION, STATE, BOOT, ELEMENTS, TICKETS = 16, 20, 64, 112, 4096


def patch(path, at, data):
    with path.open("r+b") as f:
        f.seek(at)
        f.write(data)


def crashed_system(path):
    """As if the system had gone down while the table was open."""
    patch(path, STATE, struct.pack("I", 2))
    patch(path, BOOT, b"another boot".ljust(40, b"\0"))


@pytest.mark.usual_sizes("how many slots a file grows by depends on the length of pieces")
@pytest.mark.parametrize("ticket", [16, 8, 4, 2])
@pytest.mark.parametrize("value_dtype", ["i8", ("u4", 16), None])
def test_reopened_by_its_path(path, ticket, value_dtype):
    def again():
        return table(str(path), value_dtype=value_dtype, ticket=ticket)

    values = None if value_dtype is None else np.ones((5000, 16), "u4") if value_dtype != "i8" else VALUES
    with again() as t:
        t.insert(KEYS, values)
        t.erase(KEYS[:100])
        seen = t.info["slots"]
    with again() as t:
        assert len(t) == 4900
        assert t.info["slots"] == seen
        assert t.contains(KEYS).tolist() == [False] * 100 + [True] * 4900
        if values is not None:
            assert (t[KEYS[100:]] == values[100:]).all()
        t.check()
        t.insert(KEYS + np.uint64(1), None if values is None else values)  # which grows it
        assert t.info["slots"] > seen
        t.check()
    with again() as t:
        assert len(t) == 9900
        t.clear()
        t.check()
    with again() as t:
        assert len(t) == 0
    assert names(path.parent) == [path.name]


def test_memory_is_not_what_a_table_in_a_file_takes(path):
    with table(path, capacity=100_000) as t:
        assert t.nbytes >= path.stat().st_size
        assert path.stat().st_blocks * 512 >= path.stat().st_size  # no block is missing, so no write can fail


@pytest.mark.parametrize("ticket", [16, 8, 4, 2])
def test_tickets_take_as_much_as_in_memory(path, ticket):
    with table(path, ticket=ticket) as t, gh.Table("stadium", device="cpu", ticket=ticket) as in_memory:
        for stats in (t.stats(), in_memory.stats()):
            assert stats["ticket_bytes"] * 8 == stats["slots"] * ticket > 0


def test_capacity_is_made_on_reopening(filled):
    with table(filled, capacity=50_000) as t:
        assert t.capacity >= 50_000
        assert (t[KEYS] == VALUES).all()


def test_the_seed_is_that_of_the_file(path):
    """Whatever is asked for later, and through growth: the table says which one it uses."""
    with table(path, seed=5) as t:
        t.insert(KEYS, VALUES)
    for seed, room in ((None, 20_000), (7, 40_000)):
        with table(path, seed=seed) as t:
            assert t.seed == t.info["seed"] == 5
            t.reserve(room)
            assert t.seed == 5
            assert (t[KEYS] == VALUES).all()


def test_paths_are_as_long_as_in_the_table_that_was_closed(path):
    """A shorter limit, asked for later, would hide keys; it holds from the next rebuild on."""
    with table(path, capacity=20_000, max_load_factor=0.99, grow=False, seed=1) as t:
        keys = np.arange(t.capacity, dtype="u8")
        t.insert(keys, 5)
        assert t.stats()["probe_max"] > 16
        groups = t.stats()["groups"]
    with table(path, probe_limit=16) as t:
        assert t.stats()["probe_limit"] == groups
        assert (t[keys] == 5).all()
        t.check()
        t.reserve(50_000)
        assert t.stats()["probe_limit"] == 16
        assert (t[keys] == 5).all()
    with table(path) as t:
        assert t.stats()["probe_limit"] == 16
        t.check()
        t.reserve(90_000)
        assert t.stats()["probe_limit"] > 16


@pytest.mark.parametrize("line", [1, 2, 4, 8])
def test_paths_go_as_in_the_table_that_was_closed(path, line):
    """Another line holds from the next rebuild on. A file of before there were lines says 0 for lines of one group."""
    with table(path, capacity=20_000, max_load_factor=0.95, grow=False, line=line) as t:
        keys = np.arange(t.capacity, dtype="u8")
        t.insert(keys, 5)
    with table(path) as t:
        assert t.stats()["line_groups"] == line
        t.check()
        assert (t[keys] == 5).all()
        assert not t.contains(keys + keys.size).any()
        t.reserve(50_000)
        assert t.stats()["line_groups"] == 8
        assert (t[keys] == 5).all()
        t.check()


def test_growth_takes_the_place_of_the_file(filled, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(filled.parent)
    with table(filled.name) as t:
        monkeypatch.chdir(tmp_path / "elsewhere")
        t.reserve(100_000)
        assert (t[KEYS] == VALUES).all()
    assert filled.stat().st_size > 100_000 * 16
    assert names(tmp_path / "elsewhere") == []


def test_a_link_stays_a_link(filled, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(filled)
    with table(link) as t:
        t.reserve(100_000)
    assert link.is_symlink()
    with table(filled) as t:
        assert t.capacity >= 100_000


def test_missing(path):
    refuses(gh.InvalidArgument, "cannot be opened: No such file", path, file="existing")
    refuses(gh.InvalidArgument, "cannot be created: No such file", path.parent / "no" / "folder")
    assert names(path.parent) == []


@pytest.mark.parametrize("number", [5, np.uint8(5), 5.5, True], ids=repr)
def test_a_number_is_no_name_of_a_file(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"option path=.* is a .*: pass a string or a path"):
        table(number)
    assert names(tmp_path) == []


def test_there_already(filled):
    refuses(gh.InvalidArgument, "exists already", filled, file="new")
    with table(filled, file="existing") as t:
        assert len(t) == 5000


def test_truncated(filled):
    whole = filled.read_bytes()
    filled.write_bytes(whole[:-4096])
    refuses(gh.Corrupt, "cut short", filled)
    filled.write_bytes(whole + b"x")
    refuses(gh.Corrupt, "added to", filled)
    filled.write_bytes(whole[:100])
    refuses(gh.Corrupt, "damaged header", filled)
    filled.write_bytes(whole)
    with table(filled) as t:
        assert (t[KEYS] == VALUES).all()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 10_000, b"\0" * 10_000])
def test_foreign(path, content):
    path.write_bytes(content)
    refuses(gh.InvalidArgument, "is not a table of stadium", path)
    assert path.read_bytes() == content


def test_wrong_version(filled):
    patch(filled, VERSION, struct.pack("I", 7))
    refuses(gh.Unsupported, "version 7 .* reads version 1", filled)
    os.truncate(filled, STATE)  # whose header is shorter
    refuses(gh.Unsupported, "version 7 .* reads version 1", filled)


@pytest.mark.parametrize("at", [24, 28, 32, 34, 40, 48, 56, 104])
def test_damaged_header(filled, at):
    patch(filled, at, bytes([filled.read_bytes()[at] ^ 0x5A]))
    refuses(gh.Corrupt, "damaged header", filled)


def test_other_sizes(filled):
    refuses(gh.InvalidArgument, "keys of 8 bytes and values of 8, and 4 and 8", filled, key_dtype="u4")
    refuses(gh.InvalidArgument, "keys of 8 bytes and values of 8, and 8 and 64", filled, value_dtype=("u4", 16))
    refuses(gh.InvalidArgument, "tickets of 16 bits.*pass ticket=16", filled, ticket=4)


def test_other_dtypes_of_the_same_sizes(path):
    with table(path, value_dtype="f8") as t:
        t.insert(KEYS, VALUES / 2)
    words = "holds keys uint64, values float64, and keys {}, values {} are asked for"
    refuses(gh.InvalidArgument, words.format("uint64", "int64"), path)
    refuses(gh.InvalidArgument, words.format("int64", "float64"), path, key_dtype="i8", value_dtype="f8")
    with table(path, value_dtype="f8", capacity=50_000) as t:  # a new file takes its place
        assert (t[KEYS] == VALUES / 2).all()
    refuses(gh.InvalidArgument, words.format("uint64", "int64"), path)
    with table(path, elements="") as t:  # as a program in C that says nothing
        assert t[KEYS[4]] == np.float64(2).view("i8")
        t.reserve(200_000)
    refuses(gh.InvalidArgument, words.format("uint64", "int64"), path)
    fields = [(f"field number {i} of sixty-four", "u4") for i in range(64)]
    assert len(str(np.dtype(fields))) > 2048  # more than the header has room for
    with table(path.with_suffix(".wide"), key_dtype=fields) as t:
        t.insert(np.ones(1, fields), 5)
    with table(path.with_suffix(".wide"), key_dtype=fields) as t:
        assert t[np.ones(1, fields)] == 5


def test_a_file_that_says_nothing_of_its_dtypes(filled):
    patch(filled, ELEMENTS, bytes(2048))  # as one that was written before files did
    with table(filled, value_dtype="f8") as t:
        assert len(t) == len(KEYS)
    table(filled).close()


def test_no_permission(filled):
    if os.geteuid() == 0:
        filled = filled.parent  # root may do everything but open a folder for writing
        refuses(gh.InvalidArgument, "Is a directory", filled)
    else:
        filled.chmod(0o400)
        refuses(gh.InvalidArgument, "Permission denied", filled)


def test_no_space_left(filled):
    huge = 1 << 48
    refuses(gh.NoMemory, r"no space left for \d+ bytes \(ENOSPC", filled.parent / "huge", capacity=huge)
    with table(filled) as t:
        with pytest.raises(gh.NoMemory, match=r"no space left for \d+ bytes \(ENOSPC.*as it was"):
            t.reserve(huge)
        assert (t[KEYS] == VALUES).all()
        t.check()
    assert names(filled.parent) == [filled.name]


def test_one_table_at_a_time(filled):
    with table(filled) as t:
        refuses(gh.InvalidArgument, "is open in another table", filled)
        program = f"import pygpuhash as gh; gh.Table('stadium', placement='file', path={str(filled)!r}, device='cpu')"
        other = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
        assert other.returncode
        assert "is open in another table, of this process or another one" in other.stderr
        t.reserve(100_000)  # into a new file
        refuses(gh.InvalidArgument, "is open in another table", filled)
    with table(filled) as t:
        assert len(t) == 5000


@pytest.mark.parametrize("has_header", [False, True])
def test_what_a_killed_growth_left_is_taken_away(filled, has_header):
    left = filled.with_name(filled.name + ".new")
    header = filled.read_bytes()[:TICKETS]
    header = header[:STATE] + struct.pack("I", 3) + header[STATE + 4 :]
    tickets = (b"\xff\xff" + bytes(6)) * 12_500  # as if every fourth one were a key's
    left.write_bytes(header + tickets if has_header else bytes(100_000))
    with table(filled) as t:
        t.reserve(50_000)
        assert (t[KEYS] == VALUES).all()
        t.check()
    assert not left.exists()


@pytest.mark.parametrize("content", [b"precious", b"x" * 100_000], ids=["short", "long"])
def test_a_file_of_somebody_else_is_not_written_over(filled, content):
    other = filled.with_name(filled.name + ".new")
    other.write_bytes(content)
    with table(filled) as t:
        with pytest.raises(gh.NoMemory, match="holds something else; move it away"):
            t.reserve(50_000)
        assert (t[KEYS] == VALUES).all()
    assert other.read_bytes() == content
    filled.unlink()
    refuses(gh.InvalidArgument, "holds something else; move it away", filled)
    assert other.read_bytes() == content


def test_a_table_is_not_written_over_for_its_name(filled):
    beside = filled.rename(filled.with_name("a.new"))
    refuses(gh.InvalidArgument, "holds something else", filled.with_name("a"))
    with table(beside) as t:
        assert (t[KEYS] == VALUES).all()


def test_growth_does_not_take_the_place_of_another_table(filled):
    with table(filled) as t:
        moved = filled.rename(filled.with_name("moved"))
        with table(filled) as other:
            other.insert([1], [2])
            with pytest.raises(gh.HeapFull, match="is another file by now") as full:
                t.insert(np.arange(100_000, 200_000, dtype="u8"), 1)
            assert len(t) == len(KEYS) + (~full.value.failed).sum()
            assert (t[KEYS] == VALUES).all()
            assert other[1] == 2
    with table(moved) as t, table(filled) as other:
        assert other.keys().tolist() == [1]
        assert (t[KEYS] == VALUES).all()


def test_growth_brings_back_a_file_that_was_taken_away(filled):
    with table(filled) as t:
        filled.unlink()
        t.reserve(50_000)
        assert (t[KEYS] == VALUES).all()
        assert names(filled.parent) == [filled.name]
    with table(filled, file="existing") as t:
        assert (t[KEYS] == VALUES).all()
        t.check()


def test_growth_where_the_folder_is_gone(path):
    folder = path.parent / "folder"
    folder.mkdir()
    with table(folder / "t") as t:
        shutil.rmtree(folder)
        with pytest.raises(gh.HeapFull, match=r"t.new cannot be created: No such file") as full:
            t.insert(KEYS, VALUES)
        done = ~full.value.failed
        assert len(t) == done.sum()
        assert (t[KEYS[done]] == VALUES[done]).all()


def test_a_file_is_free_when_it_is_closed_whatever_children_do(filled):
    t = table(filled)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        t.close()
        with table(filled) as again:
            assert len(again) == len(KEYS)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_new_file_that_another_table_is_writing_is_left_to_it(filled):
    fresh = filled.with_name(filled.name + ".new")
    with fresh.open("wb") as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        others.write(b"half of a table")
        others.flush()
        with table(filled) as t:
            with pytest.raises(gh.NoMemory, match="is open in another table"):
                t.reserve(50_000)
            assert (t[KEYS] == VALUES).all()
    assert fresh.read_bytes() == b"half of a table"


def test_a_limit_on_the_size_of_files(filled):
    program = f"""
import resource
import pygpuhash as gh
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
with gh.Table("stadium", placement="file", path={str(filled)!r}, device="cpu", threads=1) as t:
    try:
        t.reserve(1_000_000)
    except gh.NoMemory as error:
        print(error)
    assert len(t) == 5000
    t.check()
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no space left for" in done.stdout
    assert "EFBIG: File too large" in done.stdout
    assert names(filled.parent) == [filled.name]


def test_no_address_space_left(path):
    program = f"""
import resource
import pygpuhash as gh
gh.Table("stadium", device="cpu", threads=1).close()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20),) * 2)
try:
    gh.Table("stadium", placement="file", path={str(path)!r}, device="cpu", threads=1, capacity=2_000_000)
except gh.NoMemory as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert "cannot be mapped" in done.stdout, done.stderr
    assert names(path.parent) == []


def test_a_file_that_was_closed_is_whole_on_every_boot(filled):
    patch(filled, BOOT, b"another boot".ljust(40, b"\0"))
    with table(filled) as t:
        assert (t[KEYS] == VALUES).all()


def test_a_file_says_whether_it_is_open(path):
    """As long as a table has it, whoever made it: so what is killed or cut off is noticed."""

    def says():
        header = path.read_bytes()[:TICKETS]
        return struct.unpack_from("I", header, STATE)[0], header[BOOT : BOOT + 40].rstrip(b"\0")

    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    for _ in range(2):  # made, and opened again
        with table(path) as t:
            assert says() == (2, boot)
            t.reserve(t.capacity + 1)
            assert says() == (2, boot)
        assert says() == (1, boot)
        patch(path, BOOT, b"another boot".ljust(40, b"\0"))


def test_a_system_that_went_down_is_noticed_and_repaired(filled):
    crashed_system(filled)
    refuses(gh.Corrupt, "not closed before the system went down.*repair=1", filled)
    refuses(gh.Corrupt, "not closed before the system went down", filled)  # refusing it changed nothing
    # Pages of tickets and of slots that were never written.
    size = filled.stat().st_size
    patch(filled, 4096 + 1024, b"\0" * 512)
    patch(filled, size - 40_000, b"\0" * 4096)
    with table(filled, repair=1) as t:
        t.check()
        keys, values = t.export()
        there = dict(zip(KEYS.tolist(), VALUES.tolist(), strict=True))
        kept = [k for k in keys.tolist() if k]
        assert len(kept) > 4000
        assert all(there[k] == v for k, v in zip(keys.tolist(), values.tolist(), strict=True) if k)
        lost = sorted(set(KEYS.tolist()) - set(keys.tolist()))
        assert t.insert(np.array(lost, "u8"), 1).all()
    with table(filled) as t:
        t.check()
        assert len(t) >= 5000


def test_groups_of_tickets_that_were_not_written_lose_their_own_keys_only(filled):
    """Not those whose paths lead through their groups, which have open tickets now."""
    crashed_system(filled)
    lost = 0
    for at in range(4096, 4096 + 8192, 32):  # four tickets of 16 bits; their line has other groups
        with filled.open("rb") as f:
            f.seek(at)
            lost += np.count_nonzero(np.frombuffer(f.read(8), "u2"))
        patch(filled, at, b"\0" * 8)
    assert lost > 100
    with table(filled, repair=1) as t:
        assert len(t) == len(KEYS) - lost
        t.check()


def test_a_file_that_the_disk_refused_or_whose_repair_was_cut_off(filled):
    """Whatever the boot: its pages may be of different ages (the state is `torn`)."""
    patch(filled, STATE, struct.pack("I", 4))
    words = "not closed before the disk refused to write it, or its repair was cut off.*repair=1"
    for boot in (filled.read_bytes()[BOOT : BOOT + 40], b"another boot".ljust(40, b"\0")):
        patch(filled, BOOT, boot)
        refuses(gh.Corrupt, words, filled)
    with table(filled, repair=1) as t:
        assert len(t) == len(KEYS)
        assert (t[KEYS] == VALUES).all()
        t.check()
    with table(filled) as t:
        assert (t[KEYS] == VALUES).all()


def test_a_repair_that_fails_is_not_taken_for_one(filled):
    crashed_system(filled)
    left = filled.with_name(filled.name + ".new")
    left.write_bytes(b"precious")  # where the repaired table would be written
    refuses(gh.NoMemory, "holds something else", filled, repair=1)
    refuses(gh.Corrupt, "its repair was cut off.*repair=1", filled)
    left.unlink()
    refuses(gh.NoMemory, "no space left", filled, repair=1, capacity=1 << 48)  # it is repaired, and does not grow
    with table(filled) as t:
        assert (t[KEYS] == VALUES).all()
        t.check()


def test_a_clear_that_was_killed_is_finished(filled):
    with table(filled, capacity=20_000) as t:
        t.insert(KEYS, VALUES)
    tickets = np.fromfile(filled, "u1")[TICKETS:][: 2 * 4000]
    patch(filled, TICKETS, bytes(tickets.size))
    patch(filled, STATE, struct.pack("I", 2 | 8))
    with table(filled) as t:
        assert len(t) == 0
        t.check()
        assert t.insert(KEYS, VALUES).all()
        t.check()


def test_a_key_does_not_come_from_slots_that_were_not_written(path):
    """Tickets of 2 bits agree with any key; but the key 0, which such slots hold, does not belong there."""
    with table(path, ticket=2, probe_limit=16, capacity=5000, seed=2, threads=1) as t:
        t.insert(KEYS[1:], VALUES[1:])
    crashed_system(path)
    patch(path, path.stat().st_size - 40_000, b"\0" * 4096)
    with table(path, ticket=2, repair=1) as t:
        assert 4500 < len(t) < 4999
        assert t.contains(KEYS[1:]).sum() == len(t)
        t.check()


@pytest.mark.parametrize("ticket", [8, 4, 2])
def test_a_key_that_is_repaired_in_several_slots_counts_once(path, ticket):
    """Slots that were not written hold the key 0, and with some of their tickets it agrees."""
    with table(path, ticket=ticket, seed=1) as t:
        t.insert(KEYS, VALUES)
    crashed_system(path)
    patch(path, path.stat().st_size - 40_000, b"\0" * 20_000)
    with table(path, ticket=ticket, repair=1) as t:
        assert len(t) == t.contains(KEYS).sum() < 5000
        t.check()


def test_inserts_that_were_killed_hide_no_other_key(path):
    with table(path, capacity=20_000, max_load_factor=0.99, grow=False, seed=1) as t:
        keys = np.arange(t.capacity, dtype="u8")
        t.insert(keys, 5)
    content = np.fromfile(path, "u1")
    tickets = content[TICKETS : TICKETS + 2 * 1000].view("u2")
    was_live = tickets & 3 == 3
    patch(path, TICKETS, np.where(was_live, tickets ^ 2, tickets).tobytes())  # busy
    patch(path, STATE, struct.pack("I", 2))
    with table(path) as t:
        assert t.contains(keys).sum() == len(t) == len(keys) - was_live.sum()
        t.check()


def test_a_full_table_is_repaired_without_loss(path):
    """Paths are as long as the table there."""
    with table(path, capacity=20_000, max_load_factor=1.0, grow=False, seed=1) as t:
        keys = np.arange(t.info["slots"], dtype="u8")
        assert t.insert(keys, keys.astype("i8")).all()
        assert t.stats()["probe_max"] > 1000
    crashed_system(path)
    with table(path, repair=1) as t:
        assert len(t) == len(keys)
        assert (t[keys] == keys.astype("i8")).all()
        t.check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"placement": "file"}, "needs the name of a file: pass path"),
        ({"placement": "file", "path": ""}, "needs the name of a file: pass path"),
        ({"path": "x"}, "need placement=file"),
        ({"file": "new"}, "need placement=file"),
        ({"file": "auto"}, "need placement=file"),
        ({"elements": "bytes"}, "need placement=file"),
        ({"placement": "device", "repair": 1}, "need placement=file"),
        ({"placement": "disk"}, "choose one of device|file|host"),
        ({"placement": "file", "path": "x", "file": "old"}, "choose one of auto|new|existing"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(gh.InvalidArgument, match=words):
        gh.Table("stadium", device="cpu", **options)


def crash(path, rounds, seed):
    print("seed", seed)
    command = [sys.executable, str(CRASHES), str(path), str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    said, amid, pairs = map(int, done.stdout.split())
    assert said == rounds
    assert pairs
    return amid


def test_killed_in_the_middle_of_inserts(path):
    crash(path, 10, 1)


@pytest.mark.slow
def test_killed_two_hundred_times(path):
    assert crash(path, 200, 2) > 0


def test_what_a_killed_table_left_of_its_new_file_is_nothing(path):
    left = path.with_name(path.name + ".new")
    with table(left) as t:
        t.insert(KEYS, VALUES)
    patch(left, STATE, struct.pack("I", 3))  # it was being made
    os.truncate(left, 1 << 20)  # more than the table needs
    with table(path) as t:
        assert len(t) == 0
        assert not t.contains(KEYS).any()
        t.insert(KEYS[:100], VALUES[:100])
        t.check()
    assert path.stat().st_size < 1 << 20
    with table(path) as t:  # a file of another size than its header says would be refused
        assert (t[KEYS[:100]] == VALUES[:100]).all()
    assert names(path.parent) == [path.name]


# What another table does between this one's open and its flock: it grows, so that its file takes the name.
SWAP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int flock(int fd, int operation) {
  static int done;
  if (!done++) rename(getenv("SWAP_FROM"), getenv("SWAP_TO"));
  return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);
}
"""


@pytest.fixture
def opened_late(tmp_path):
    """opened_late(path, there): what a process prints that opens a table, while the file `there` takes that name."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install cc")
    source, library = tmp_path / "swap.c", tmp_path / "swap.so"
    source.write_text(SWAP)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    program = (
        "import sys, pygpuhash as gh\n"
        "try:\n"
        "    gh.Table('stadium', placement='file', path=sys.argv[1], device='cpu')\n"
        "except gh.InvalidArgument as error:\n"
        "    print(error)\n"
    )

    def run(path, there):
        swap = {"LD_PRELOAD": str(library), "SWAP_FROM": str(there), "SWAP_TO": str(path)}
        command = [sys.executable, "-P", "-c", program, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **swap})
        assert done.returncode == 0, done.stderr
        assert not there.exists()
        return done.stdout

    return run


def test_a_file_that_another_table_has_grown_out_of_meanwhile(filled, opened_late):
    larger = filled.with_name("larger")
    shutil.copy(filled, larger)
    assert f"{filled} is open in another table" in opened_late(filled, larger)
    with table(filled) as t:
        assert (t[KEYS] == VALUES).all()


def test_a_new_table_does_not_take_the_place_of_one_that_came_meanwhile(filled, opened_late):
    fresh = filled.with_name("fresh")
    assert f"{fresh} cannot be given its name: File exists" in opened_late(fresh, filled)
    assert not fresh.with_name("fresh.new").exists()
    with table(fresh) as t:
        assert (t[KEYS] == VALUES).all()


# The calls by which a file reaches the disk, refused from the moment on at which the variable REFUSED names one.
REFUSE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
static int refused(const char* call) {
  const char* const name = getenv("REFUSED");
  if (!name || strcmp(name, call)) return 0;
  errno = EIO;
  return 1;
}
int msync(void* p, size_t n, int how) {
  return refused("msync") ? -1 : ((int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "msync"))(p, n, how);
}
int fsync(int fd) { return refused("fsync") ? -1 : ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
"""


@pytest.mark.parametrize("call", ["msync", "fsync"])
def test_what_the_disk_refuses_is_reported(filled, tmp_path_factory, call):
    """By flush; by close it cannot be, but by whatever opens the file next."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install cc")
    folder = tmp_path_factory.mktemp("refuse")
    source, library = folder / "refuse.c", folder / "refuse.so"
    source.write_text(REFUSE)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    program = f"""
import ctypes
import pygpuhash as gh
with gh.Table("stadium", placement="file", path={str(filled)!r}, device="cpu") as t:
    ctypes.CDLL(None).setenv(b"REFUSED", {call.encode()!r}, 1)
    try:
        t.flush()
    except gh.NoMemory as error:
        print(error)
    assert len(t) == 5000
    t.check()
"""
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(library)})
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{filled}.new cannot be written: Input/output error\n"
    assert names(filled.parent) == [filled.name]
    refuses(gh.Corrupt, "not closed before the disk refused to write it", filled)
    with table(filled, repair=1) as t:
        assert (t[KEYS] == VALUES).all()


@pytest.fixture
def larger_than_memory():
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
    yield pytest.importorskip(
        "asv_bench.larger_than_memory", reason="asv_bench is in a checkout of the repository only"
    )
    sys.path.pop()


@pytest.mark.slow
def test_a_table_of_which_a_quarter_is_in_memory(larger_than_memory, path):
    """The same with 10^8 pairs: python -m asv_bench.larger_than_memory."""
    more = ["--pairs", "40000", "--value-words", "62", "--allowed", str(40000 * 320 // 4)]
    most = larger_than_memory.show(larger_than_memory.parsed(["--path", str(path), *more]))
    assert 0 < most <= 40000 * 320 // 4
    assert path.stat().st_size > 40000 * 320  # at the load that it may have


def test_more_than_is_allowed_is_refused(larger_than_memory):
    """What keeps a table of a GPU from its memory, with numpy's in its place."""

    class Pool:
        def malloc(self, nbytes):
            block = np.empty(nbytes + 128, "u1")
            return types.SimpleNamespace(ptr=block.ctypes.data + -block.ctypes.data % 128, block=block)

    waited = []
    memory = larger_than_memory.Allowance(200_000, Pool(), lambda: waited.append(1))
    with pytest.raises(gh.NoMemory):
        gh.Table("stadium", capacity=20_000, device="cpu", memory=memory)
    assert memory.left == 200_000
    with gh.Table("stadium", capacity=5_000, grow=False, device="cpu", memory=memory) as t:
        assert t.insert(KEYS, VALUES).all()
        assert memory.left < 200_000 - 5_000 * 16
    assert memory.left == 200_000
    assert waited


def test_there_is_no_gpu_here(larger_than_memory, capsys):
    if any(d.name.startswith("cuda") for d in gh.devices()):
        pytest.skip("there is a GPU here: tests/gpu has what it does")
    assert larger_than_memory.main(["--device", "cuda"]) == 2
    assert "there is no CUDA device here" in capsys.readouterr().err
