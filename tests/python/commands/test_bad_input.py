"""What cannot be read or written ends with status 2 and a sentence; what was there before is there still."""

import contextlib
import errno
import gzip
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pygpuhash import cli
from pygpuhash.commands import columns, programs, spill, tables
from pygpuhash.saved import disk

MANY = b" ".join(b"%d" % i for i in range(40_000))
COMMAND = [sys.executable, "-P", "-m", "pygpuhash"]


def refused(done, words, status=2):
    """The sentence, one line on standard error."""
    assert done.status == status
    assert done.err.startswith("pygpuhash: ")
    assert done.err.count("\n") == 1
    assert words in done.err, done.err


# ---- input -----------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(run, tmp_path, written):
    refused(run("count", tmp_path / "none"), "none: cannot be read: No such file or directory")
    refused(run("count", tmp_path), "is a folder: pass the files in it")
    refused(run("count", "-", "-", given=b""), "named twice")
    refused(run("count", written("some", "a"), tmp_path / "none"), "none: cannot be read")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_rights(run, written):
    path = written("some", "a")
    path.chmod(0)
    refused(run("count", path), "cannot be read: Permission denied")


def test_an_error_of_the_device_while_it_is_read(run, written, monkeypatch):
    def readinto(self, room):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("pygpuhash.commands.sources._Counted.readinto", readinto)
    refused(run("count", written("some", "a")), "some: cannot be read: Input/output error")


def test_empty_files(run, written):
    empty = written("empty", b"")
    for command in (["count"], ["unique"], ["top", "3"], ["dedup"], ["count", "--k", "3"]):
        done = run(*command, empty)
        assert (done.status, done.out, done.err) == (0, b"", "")
    refused(run("count", "--column", "a", written("empty.csv", "")), "is empty: its first line has to name the columns")
    assert run("count", "--column", "a", written("header.csv", "a\n")).out == b""
    assert run("count", "--column", "a", written("empty.jsonl", "")).out == b""


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
def test_compressed_files_that_end_early(run, written, kept):
    data = gzip.compress(MANY)
    refused(run("count", written("a.gz", data[: int(len(data) * kept)])), "a.gz: the compressed data end early")
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as out:
        out.write(MANY)
    data = stream.getvalue().to_pybytes()
    refused(run("count", written("a.zst", data[: int(len(data) * kept)])), "a.zst: the compressed data end early")


def test_compressed_files_that_are_broken(run, written):
    data = bytearray(gzip.compress(MANY))
    data[len(data) // 2] ^= 0xFF
    refused(run("count", written("a.gz", bytes(data))), "a.gz: is no whole file of gzip")
    data = bytearray(gzip.compress(MANY))
    data[-6] ^= 1  # the checksum
    refused(run("count", written("a.gz", bytes(data))), "a.gz: is no whole file of gzip: CRC check failed")
    refused(run("count", written("a.zst", b"\x28\xb5\x2f\xfd" + MANY)), "a.zst: the compressed data are broken")


def test_zstd_without_a_library(run, written, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    refused(run("count", written("a", b"\x28\xb5\x2f\xfd")), "is compressed by zstd: pip install 'gpuhash[files]'")


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("command", [["count"], ["dedup"]])
def test_a_column_that_is_not_there(run, tmp_path, written, format, command):
    if format == "parquet":
        pq.write_table(pa.table({"one": [1], "two": [2]}), path := tmp_path / "some.parquet")
    else:
        path = written(f"some.{format}", "one,two\n1,2\n" if format == "csv" else '{"one": 1, "two": 2}\n')
    done = run(*command, "--column", "three", path)
    refused(done, f"{path}: has no column 'three': there are 'one', 'two'")
    if format != "jsonl":
        for number in ("0", "3"):  # they count from 1
            refused(run(*command, "--column", number, path), f"{path}: has no column '{number}': there are 'one'")


def test_what_a_column_was_named_by_mistake(run, written):
    path = written("some.csv", "one,two\n1,2\n")
    done = run("count", "--column", "one,two", path)
    refused(done, "has no column 'one,two': there are 'one', 'two': pass --column one --column two")
    for mark, way in ((";", "--separator ';'"), ("|", "--separator '|'"), ("\t", "--format tsv")):
        path = written("other.csv", f"one{mark}two\n1{mark}2\n")
        refused(run("dedup", "--column", "two", path), f"if {mark!r} is what separates its cells, pass {way}")
        flags = way.replace("'", "").split()
        assert run("count", "--column", "two", *flags, path).out == b"      1 2\n"


def test_separators(run, written):
    path, other = written("some.csv", 'a;b\n1;"x;y"\n2;"x;y"\n'), written("other.csv", "a;c\n2;z\n")
    assert run("count", "--column", "b", "--separator", ";", path).out == b"      2 x;y\n"
    assert run("dedup", "--column", "b", "--separator", ";", path).out == b"a,b\n1,x;y\n"
    assert run("join", path, other, "--on", "a", "--separator", ";").out == b"a,b,c\n2,x;y,z\n"
    refused(run("count", "--separator", ";", written("text", "a")), "--separator is for columns of CSV: pass --column")
    refused(run("count", "--column", "a", "--separator", ";", written("a.tsv", "a\n")), "is read as tsv: --separator")


@pytest.mark.parametrize("code", ["utf-16", "utf-16-be"])
def test_tables_in_utf_16(run, written, code):
    path = written("some.csv", "\ufeffname\nJosé\n".encode("utf-16-be") if code != "utf-16" else "name\n".encode(code))
    refused(run("count", "--column", "name", path), "some.csv: is UTF-16: pipe it through iconv -f UTF-16 -t UTF-8")


@pytest.mark.parametrize("library", ["pyarrow", "the standard library"])
def test_rows_of_csv_that_do_not_fit(run, written, monkeypatch, library):
    if library != "pyarrow":
        monkeypatch.setattr(tables, "_found", lambda module: None)
    done = run("count", "--column", "a", written("some.csv", "a,b\n1,2\n1,2,3\n"))
    refused(done, "some.csv: is no CSV of 2 columns, as its first line has: ")
    refused(run("count", "--column", "a", written("some.csv", "a,a\n1,2\n")), "has two columns 'a'")


def test_lines_that_are_no_json(run, written):
    refused(run("count", "--column", "a", written("x.jsonl", '{"a": 1}\n{"a": \n')), "x.jsonl: line 2 is no JSON")
    refused(run("count", "--column", "a", written("x.jsonl", "[1]\n")), "line 1 is no object of JSON")
    refused(run("count", "--column", "a", written("x.jsonl", b'{"a": "\xff"}\n')), "line 1 is no JSON")


def test_files_that_are_not_what_their_names_say(run, written, tmp_path):
    refused(run("count", "--column", "a", written("x.parquet", "a,b\n")), "x.parquet: is no whole file of parquet")
    refused(run("count", "--column", "a", written("x.arrow", "a,b\n")), "x.arrow: is no whole file of arrow")
    refused(run("count", "--column", "a", "-", "--format", "parquet", given=b""), "parquet is read from its end on")
    refused(run("count", "--column", "a", written("x", "a,b\n")), "is read as text, which has no columns")
    refused(run("count", written("x.csv", "a,b\n")), "is a table: choose a column with --column, or its lines")
    pq.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "lists.parquet")
    refused(run("count", "--column", "a", tmp_path / "lists.parquet"), "has no equality here")


def test_columns_of_two_types(run, tmp_path):
    for name, values in (("one", [1]), ("two", ["x"])):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{name}.parquet")
    refused(run("count", "--column", "a", tmp_path / "one.parquet", tmp_path / "two.parquet"), "two.parquet: ")
    done = run("join", tmp_path / "one.parquet", tmp_path / "two.parquet", "--on", "a")
    refused(done, "one.parquet: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["count", "--memory", "lots"], "'lots' is no size of at least 16M"),
        (["count", "--memory", "3M"], "'3M' is no size of at least 16M"),
        (["top", "0"], "'0' is no whole number from 1 on"),
        (["count", "--separator", "ab"], "'ab' is no separator: pass one character"),
        (["count", "--separator", '"'], "is no separator"),
        (["count", "--k", "-1"], "--k"),
        (["diff", "a"], "required: FILE"),
        (["join", "a", "b"], "required: --on"),
        (["count", "--lin"], "--lin"),
    ],
)
def test_arguments_that_argparse_refuses(capfd, arguments, words):
    with pytest.raises(SystemExit) as ended:
        programs.main(arguments[0], arguments[1:])
    assert ended.value.code == 2
    assert words in capfd.readouterr().err


def test_arguments_that_do_not_belong_together(run, written):
    path, table = written("some.fa", ">a\nACGT\n"), written("some.csv", "a\n1\n")
    refused(run("count", path), "choose the length of k-mers with --k")
    refused(run("count", "--k", 33, path), "a k-mer has 1 to 32 bases")
    refused(run("count", "--canonical", written("some", "a")), "--canonical is for k-mers")
    refused(run("count", "--k", 3, "--lines", path), "leave out --column and --lines")
    refused(run("count", "--lines", "--column", "a", table), "choose one of them")
    refused(run("join", path, table, "--on", "a"), "a join takes csv, tsv, parquet and arrow")
    refused(run("count", "--temporary", path, table, "--lines"), "is no folder")
    refused(run("count", "--threads", 5000, table, "--lines"), "there are 4096 at most")
    refused(run("dedup", "--column", "a", table, written("some.jsonl", "")), "pass files of one format")


# ---- output ----------------------------------------------------------------------------------------------------------


def test_a_file_that_exists_and_one_in_no_folder(run, written, tmp_path):
    path, out = written("some", "a"), written("out", "old")
    refused(run("count", path, "--output", out), "out: exists: pass --overwrite, or another name")
    assert out.read_text() == "old"
    assert run("count", path, "--output", out, "--overwrite").status == 0
    assert out.read_text() == "      1 a\n"
    refused(run("count", path, "--output", tmp_path / "none" / "out"), "there is no such folder")
    refused(run("count", path, "--output", tmp_path), "the path is a folder")


def test_input_that_ends_early_leaves_the_old_output(run, written, tmp_path):
    out = written("out", "old")
    path = written("some.gz", gzip.compress(MANY)[:-40])
    for command in ("count", "unique"):
        refused(run(command, path, "--output", out, "--overwrite"), "end early")
    assert out.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "some.gz"]


def test_a_full_disk(run, written, tmp_path, monkeypatch):
    out = written("out", "old")

    class Full(disk.System):
        def write(self, file, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "system", Full())
    refused(run("count", written("some", "a"), "--output", out, "--overwrite"), "the disk is full: nothing was saved")
    assert out.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "some"]


def test_a_full_disk_behind_standard_output(written):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "count", written("some", "a")], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "pygpuhash: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_behind_temporary_files(run, written, little_memory, monkeypatch, number):
    class Full:
        def write(self, data):
            raise OSError(number, os.strerror(number))

        def close(self):
            pass

    monkeypatch.setattr(spill.tempfile, "TemporaryFile", lambda **given: Full())
    done = run("count", written("some", MANY))
    assert done.status == 2
    assert "the disk is full: pass a larger --memory, or --temporary with another folder" in done.err.splitlines()[-1]


# ---- how a process ends ----------------------------------------------------------------------------------------------


def test_a_reader_that_has_gone(written):
    path = written("some", MANY)
    with subprocess.Popen([*COMMAND, "unique", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        done.stdout.close()
        assert done.stderr.read() == b""
        assert done.wait() == 141


@pytest.mark.parametrize("output", [True, False])
def test_ctrl_c(written, tmp_path, output):
    out = written("out", "old")
    flags = ["--output", out, "--overwrite"] if output else []
    process = subprocess.Popen(
        [*COMMAND, "unique", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(MANY * 12)
    process.stdin.flush()
    if output:  # its temporary file is there
        while not list(tmp_path.glob(".gpuhash-*")):
            time.sleep(0.01)
    else:
        assert process.stdout.read(2) == b"0\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr.read().splitlines()[-1] == b"pygpuhash: interrupted"
    assert out.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def test_reading_ahead_ends_with_its_reader():
    ended = []

    def chunks():
        try:
            for i in range(10**9):
                yield columns.Chunk(None, [i], 0)
        finally:
            ended.append(True)

    reader = columns.ahead(chunks())
    assert [next(reader)[1], next(reader)[1]] == [[0], [1]]
    reader.close()
    for _ in range(500):
        if ended:
            break
        time.sleep(0.01)
    assert ended


def test_the_command_line_knows_the_commands(capfdbinary, written):
    assert cli.main(["count", str(written("some", "a a"))]) == 0
    assert capfdbinary.readouterr().out == b"      2 a\n"
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert b"join" in capfdbinary.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["count", "--help"])
    assert b"LC_ALL=C sort | uniq -c" in capfdbinary.readouterr().out


def test_a_bar_is_for_terminals_and_gives_way(run, written, monkeypatch, little_memory):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    path = written("some", MANY)
    for command, shown in ((["count"], True), (["unique"], False)):
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        monkeypatch.setattr(sys, "stdout", Terminal())
        assert run(*command, path).status == 0
        assert ("reading " in terminal.getvalue()) == shown
        assert "\r" + " " * 80 + "\rpygpuhash: " in terminal.getvalue()
        assert terminal.getvalue().endswith("\r" if shown else "\n")
