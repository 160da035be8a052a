"""Beyond --memory, through temporary files, the output is the same, in the same order."""

import json
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pygpuhash.columns import View
from pygpuhash.commands import joining, spill, tables, tally


def some_words(seed, keys=6000, count=15_000):
    rng = random.Random(seed)
    return b" ".join(
        b"%d%s" % (int(rng.triangular(0, keys, 0)), b"-long" * rng.choice([0, 0, 3])) for _ in range(count)
    )


def in_both(run, monkeypatch, *arguments):
    """(what is printed with memory, without)."""
    one = run(*arguments)
    monkeypatch.setattr(tally.Memory, "index", 40_000)
    monkeypatch.setattr(tally.Memory, "part", 200_000)
    monkeypatch.setattr(tally, "_FILES", 3)
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", 7_000)
    other = run(*arguments)
    assert not one.err
    assert re.search(r"fill their share of --memory \d+M: others go through temporary files in /", other.err)
    assert other.err.count("\n") == 1
    return one, other


@pytest.mark.parametrize("command", [["count"], ["unique"], ["top", "40"], ["count", "--to", "csv"]])
def test_words(run, written, monkeypatch, command):
    one, other = in_both(run, monkeypatch, *command, written("some", some_words(1)))
    assert one.out == other.out
    assert (one.status, other.status) == (0, 0)


def test_kmers(run, written, monkeypatch):
    letters = bytes(random.Random(2).choices(b"ACGT", k=20_000))
    one, other = in_both(run, monkeypatch, "count", "--k", "9", written("some", b">s\n" + letters))
    assert one.out == other.out


@pytest.mark.parametrize("counts", [[], ["--counts"]])
@pytest.mark.parametrize("order", [1, -1])
def test_differences(run, written, monkeypatch, counts, order):
    files = [written("one", some_words(3)), written("other", some_words(4, 8000, 400 if order < 0 else 12_000))]
    one, other = in_both(run, monkeypatch, "diff", "--words", *counts, *files[::order])
    assert one.out == other.out
    assert one.status == other.status == 1
    assert len(one.lines) > 100


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_rows(run, written, monkeypatch, tmp_path, format):
    rng = random.Random(5)
    rows = [{"k": rng.randrange(5000), "word": f"w {rng.randrange(9)}"} for _ in range(9000)]
    path = tmp_path / f"some.{format}"
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1000)
    elif format == "csv":
        path.write_text("k,word\n" + "".join(f"{row['k']},{row['word']}\n" for row in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("pygpuhash.commands.tables._ROWS", 500)
    for command in (["dedup", "--column", "k"], ["count", "--column", "k", "--column", "word"]):
        with monkeypatch.context() as patch:
            one, other = in_both(run, patch, *command, path)
        assert one.out == other.out
    first = {}
    for row in rows:
        first.setdefault(row["k"], row["word"])
    assert len(run("dedup", "--column", "k", path).lines) == len(first) + (format != "jsonl")


@pytest.mark.parametrize("library", ["pyarrow", "the standard library", "parquet"])
@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("keys", [20, 400])
def test_joins(run, tmp_path, monkeypatch, library, how, keys):
    """Pieces of the second table, each of which has some of the rows that a row meets, and blocks of a few rows."""
    rng, files = random.Random(keys), []
    for name, count, column in (("one", 300, "a"), ("other", 700, "b")):
        rows = [{"k": str(rng.randrange(2 * keys)) if rng.random() < 0.9 else None, column: i} for i in range(count)]
        files.append(tmp_path / f"{name}.{'parquet' if library == 'parquet' else 'csv'}")
        if library == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), files[-1], row_group_size=50)
        else:
            files[-1].write_text(f"k,{column}\n" + "".join(f"{row['k'] or ''},{row[column]}\n" for row in rows))
    if library == "the standard library":
        monkeypatch.setattr(tables, "_found", lambda module: None)
        monkeypatch.setattr(tables, "_ROWS", 60)
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", 256)
    monkeypatch.setattr(joining, "_ROWS", 40)
    one = run("join", *files, "--on", "k", "--how", how)
    monkeypatch.setattr("pygpuhash.commands.settings._LEAST", 1)
    other = run("join", *files, "--on", "k", "--how", how, "--memory", "16k")
    assert (one.status, one.err, other.status) == (0, "", 0)
    assert re.search(r"other\.\w+ fills its share of --memory \d+M: the join goes through temporary files", other.err)
    assert other.err.count("\n") == 1
    assert other.lines == one.lines
    assert len(one.lines) > 200


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("column", ["", ",b"])
def test_joins_of_few_rows(run, written, monkeypatch, how, column):
    """A second table without a further column, a first one without rows, and keys that nothing meets."""
    monkeypatch.setattr("pygpuhash.commands.settings._LEAST", 1)
    others = [written("other.csv", f"k{column}\n" + f"1{column}\n" * 30), written("none.csv", "k\n9\n" + "8\n" * 30)]
    for one in (written("empty.csv", "k,a\n"), written("some.csv", "k,a\n1,x\n2,y\n")):
        for other in others:
            wanted = run("join", one, other, "--on", "k", "--how", how)
            found = run("join", one, other, "--on", "k", "--how", how, "--memory", "64")
            assert (found.status, found.lines, wanted.err) == (0, wanted.lines, "")
            assert "temporary files" in found.err


def test_what_a_file_keeps_comes_back():
    keep = spill.Keep(pa.array(["a"]).__arrow_c_array__()[0], 2, "/tmp")
    keep.add(pa.array(["x", None, "y" * 50], pa.large_string()), [pa.array([1, 2, 3]).to_numpy()] * 2)
    keep.add(pa.array([], pa.large_string()), [pa.array([], pa.int64()).to_numpy()] * 2)
    blocks = list(keep.blocks())
    assert [(View(keys).objects(), n, [one.tolist() for one in numbers]) for keys, n, numbers in blocks] == [
        (["x", None, "y" * 50], 3, [[1, 2, 3], [1, 2, 3]])
    ]


def test_a_file_of_keys_beyond_memory_takes_several_rounds(run, written, monkeypatch):
    one, other = in_both(run, monkeypatch, "count", written("some", some_words(7, 9000, 30_000)))
    assert one.out == other.out


def test_no_temporary_file_has_a_name(run, written, little_memory, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    names = []
    before = spill.Keep.add
    spill.Keep.add = lambda self, *given: (names.extend(folder.iterdir()), before(self, *given))[1]
    try:
        done = run("count", "--temporary", folder, written("some", some_words(8)))
    finally:
        spill.Keep.add = before
    assert str(folder) in done.err
    assert names == []
