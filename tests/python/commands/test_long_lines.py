"""Lines, words and rows of any length: an answer, or a sentence with the place, and never twice `--memory`."""

import csv
import io
import json
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pygpuhash.commands import tables, tally

MEMORY = 64 << 20
MEASURED = """
import os, sys
from pygpuhash.commands import programs, tables

def figure(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10

small, without, *command = sys.argv[1:]
if without:
    tables._found = lambda module: None
sys.stdout.flush()
out, err = os.dup(1), os.dup(2)
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
programs.main(command[0], [*command[1:-1], small])  # modules and threads are there
before = figure("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
status = programs.main(command[0], command[1:])
os.dup2(out, 1)
print(status, figure("VmHWM") - before)
"""


def measured(small, path, *command, without=""):
    """(status, bytes of memory beside what the process had before, what it said)."""
    arguments = [*command[:1], "--memory", f"{MEMORY >> 20}M", *command[1:], path]
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEASURED, small, without, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    status, peak = map(int, done.stdout.split())
    return status, peak, done.stderr


def long_line(i, size):
    return (b"%03d" % i) + b"x" * size


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize(
    "command", [["count"], ["count", "--lines"], ["unique"], ["dedup"], ["top", "3"], ["count", "--to", "jsonl"]]
)
@pytest.mark.parametrize("lines", ["all of them are long", "one is too long"])
def test_memory_of_long_lines(written, tmp_path, command, lines, say):
    """Forty of 7.5 MB, an eighth of 64 MiB being 8.4; and one of 300 MB between short ones."""
    path = tmp_path / "some"
    with path.open("wb") as file:
        if lines == "one is too long":
            file.write(b"a\nb\na\n")
            for _ in range(300):
                file.write(b"x" * 1_000_000)
            file.write(b"\nc\n")
        else:
            for i in range(40):
                file.write(long_line(i % 30, 7_500_000) + b"\n")
    status, peak, said = measured(written("small", "a"), path, *command)
    say("long lines", f"{' '.join(command)}, {lines}: {peak / MEMORY:.2f} of --memory {MEMORY >> 20}M")
    if lines == "one is too long":
        assert status == 2
        assert " 4, which begins at byte 6, has more than 8,388,608 bytes, an eighth of --memory" in said
    else:
        assert (status, "temporary files" in said) == (0, True)
    best = 2 * 3 * 7_500_000 if command[0] == "top" else 0  # K keys, twice
    assert peak < 2 * MEMORY + best


def some_rows(format, rows):
    """A table of a column of numbers, and one of long cells."""
    if format == "jsonl":
        return b"".join(json.dumps({"a": i, "b": "x" * size}).encode() + b"\n" for i, size in rows)
    return b"a,b\n" + b"".join(b"%d,%s\n" % (i, b"x" * size) for i, size in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("command", [["count", "--column", "a"], ["dedup", "--column", "b"]])
@pytest.mark.parametrize("kind", ["csv", "csv by the standard library", "jsonl"])
def test_memory_of_long_rows(written, command, kind, say):
    format, _, library = kind.partition(" by ")
    small = written(f"small.{format}", some_rows(format, [(1, 1)]))
    for row, words in ((1_500_000, ""), (100_000_000, "row")):
        path = written(f"some.{format}", some_rows(format, [(i % 20, row + i) for i in range(30 if not words else 1)]))
        status, peak, said = measured(small, path, *command, without=library)
        say("long lines", f"{' '.join(command)}, {kind}, {row}: {peak / MEMORY:.2f} of --memory")
        assert status == (2 if words else 0), said
        assert words in said
        assert peak < 2 * MEMORY


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("command", [["count", "--column", "b"], ["dedup", "--column", "b"]])
@pytest.mark.parametrize("cells", ["long", "long and few that repeat", "one too long"])
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_memory_of_long_cells(tmp_path, command, cells, format, say):
    """Rows of 180 MB are fewer than a batch of pyarrow has, which are 65,536 of any size."""
    many, size = (1, 30_000_000) if "too" in cells else (120, 1_500_000)
    distinct = 3 if "few" in cells else many
    texts = pa.array([long_line(i, size) for i in range(distinct)], pa.large_binary())
    column = pa.DictionaryArray.from_arrays(pa.array([i % distinct for i in range(many)], pa.int32()), texts)
    whole = pa.table({"a": pa.array(range(many)), "b": column if distinct < many else texts})
    del texts, column
    path, small = tmp_path / f"some.{format}", tmp_path / f"small.{format}"
    for table, file in ((whole, path), (whole.slice(0, 0), small)):
        if format == "parquet":
            plain = table.cast(pa.schema({"a": pa.int64(), "b": pa.large_binary()}))
            pq.write_table(plain, file, row_group_size=many if distinct < many else 4)
        else:
            with pa.ipc.new_file(file, table.schema) as out:
                out.write_table(table)
    del whole
    status, peak, said = measured(small, path, *command)
    say("long lines", f"{' '.join(command)}, {format}, {cells}: {peak / MEMORY:.2f} of --memory")
    assert status == (2 if "too" in cells else 0), said
    if "too" in cells:
        assert "row 1 has 30,000,003 bytes in column 'b', more than 8,388,608, an eighth of --memory" in said
    mapped = path.stat().st_size if format == "arrow" else 0  # which the system takes back when it likes
    assert peak - mapped < (4 if "too" in cells else 2.5) * MEMORY


def test_rows_that_are_too_long_are_refused_with_their_line(run, written, monkeypatch):
    monkeypatch.setattr(tally.Memory, "longest", 400)
    monkeypatch.setattr(tables, "_found", lambda module: None)
    words = "has more than 100 bytes, a 32nd of --memory, or a quote without its end: pass a larger --memory, or cut it"
    for path, line in (
        (written("a.csv", "a,b\n1,2\n3," + "x" * 200 + "\n"), 3),
        (written("b.csv", 'a,b\n1,2\n3,"' + "x\n" * 200), 51),
        (written("c.jsonl", '{"a": 1, "b": 2}\n\n{"a": "' + "x" * 200 + '"}\n'), 3),
    ):
        for command in (["count", "--column", "a"], ["dedup", "--column", "a"]):
            done = run(*command, path)
            assert done.status == 2
            assert f"{path}: the row in line {line} {words}" in done.err
    assert run("count", "--column", "b", written("d.csv", "a,b\n" + '1,"x\ny"\n' * 60)).status == 0


@pytest.mark.parametrize("end", ["", "\n", "\n1,2\n"])
def test_rows_of_csv_that_are_too_long_are_refused_with_their_place(run, written, monkeypatch, end):
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", 1000)
    monkeypatch.setattr(tally.Memory, "longest", 4000)
    begin = "a,b\n" + "1,2\n" * 2000
    assert run("count", "--column", "a", written("a.csv", begin + "3," + "x" * 4000 + end)).status == 0
    for path in (
        written("b.csv", begin + "3," + "x" * 9000 + end),
        written("c.csv", begin + '3,"' + "x\n" * 4500 + end),
    ):
        done = run("count", "--column", "a", path)
        assert done.status == 2
        words = (
            "row 2,001, which begins at byte 8,004, has more than 4,000 bytes, or a quote without its end, an eighth"
        )
        assert f"{path}: {words}" in done.err


def test_an_error_in_csv_ends_the_process_with_its_status(written):
    """What reads the file has ended when the process does."""
    path = written("a.csv", "a,b\n1,2,3\n" + "1,2\n" * 10_000_000)
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pygpuhash", "count", "--column", "a", path], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (2, "")
        words = "is no CSV of 2 columns, as its first line has: row 2: Expected 2 columns, got 3: 1,2,3\n"
        assert done.stderr == f"pygpuhash: {path}: {words}"


@pytest.mark.parametrize("block", [7, 64, 5000])
def test_rows_of_csv_are_cut_where_they_end(run, written, monkeypatch, block):
    """Quotes, doubled ones, quotes within a cell, and all ends of lines, at any place of a block."""
    cells = ["1", '"x,y"', '"x\ny"', '"x\r\ny"', '"""x"""', 'x"y', '""', "", '"a""\n""b"']
    ends = ["\n", "\r\n", "\r", "\n\n"]
    rows = [f"{cells[i % 9]},{cells[(i + i // 9) % 9]}{ends[i % 4]}" for i in range(99)]
    path = written("a.csv", "a,b\n" + "".join(rows) + "last,1")
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", block)
    found = run("count", "--column", "a", "--column", "b", "--to", "jsonl", path)
    reader = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
    wanted = Counter(tuple(row) for row in list(reader)[1:] if row)
    given = {(row["a"], row["b"]): row["count"] for row in map(json.loads, found.lines)}
    assert given == wanted


def test_a_header_that_is_too_long(run, written, monkeypatch):
    monkeypatch.setattr(tables, "_HEADER", 100)
    for header in ("a," * 100, '"' + "a\n" * 100):
        done = run("count", "--column", "a", written("a.csv", header))
        assert done.status == 2
        assert "its first row, which has to name the columns, has more than 100 bytes" in done.err
