"""Columns and rows of CSV, TSV, JSON lines, parquet and Arrow."""

import datetime
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from pygpuhash.commands import tables

ROWS = [
    {"id": 7, "name": "ann", "x": 0.5, "day": datetime.date(2024, 5, 1)},
    {"id": 8, "name": 'b,"o"', "x": 1.5, "day": None},
    {"id": 7, "name": "ann", "x": None, "day": datetime.date(2024, 5, 1)},
]
CSV = 'id,name,x\n07,ann,0.5\n8,"b,""o""",1.5\n7,ann,\n07,ann,2\n'


@pytest.fixture(params=["pyarrow", "the standard library"])
def library(request, monkeypatch):
    """Which one reads CSV."""
    if request.param != "pyarrow":
        monkeypatch.setattr(tables, "_found", lambda module: None)
    return request.param


def test_a_column_of_csv_is_bytes(run, written, library):
    path = written("some.csv", CSV)
    assert run("count", "--column", "id", path).lines == ["      2 07", "      1 8", "      1 7"]
    assert run("count", "--column", "2", path, "--to", "csv").lines == ["count,2", "3,ann", '1,"b,""o"""']
    assert run("unique", "--column", "x", path).out == b"0.5\n1.5\n\n2\n"
    assert run("count", "--column", "name", "--column", "id", path).lines[0] == "      2 ann\t07"
    assert run("count", "--lines", path).lines[-1] == "      1 07,ann,2"


def test_tsv_a_byte_order_mark_and_quoted_newlines(run, written, library):
    path = written("some.tsv", b'\xef\xbb\xbf"the\nkey"\tb\r\n"1\n2"\t3\r\n\xff\t4')
    assert run("unique", "--column", "1", path).out == b"1\n2\n\xff\n"
    assert run("unique", "--column", "the\nkey", path).status == 0
    assert run("dedup", "--column", "b", path).out == b'"the\nkey"\tb\n"1\n2"\t3\n\xff\t4\n'


def test_rows_without_those_whose_key_was_there(run, written, library):
    path, more = written("some.csv", CSV), written("more.csv", "id,name,x\n9,z,1\n8,q,1\n")
    done = run("dedup", "--column", "id", path, more)
    assert done.out.decode() == 'id,name,x\n07,ann,0.5\n8,"b,""o""",1.5\n7,ann,\n9,z,1\n'
    assert run("dedup", "--column", "id", "--to", "tsv", more).lines == ["id\tname\tx", "9\tz\t1", "8\tq\t1"]
    done = run("dedup", "--column", "id", path, written("other.csv", "id,b\n1,2\n"))
    assert (done.status, "has other columns than" in done.err) == (2, True)


@pytest.mark.parametrize("format", ["parquet", "arrow", "stream"])
def test_types_of_arrow(run, tmp_path, format):
    path, table = tmp_path / "some.arrow", pa.Table.from_pylist(ROWS)
    if format == "parquet":
        pq.write_table(table, path := tmp_path / "some.parquet")
    elif format == "arrow":
        pyarrow.feather.write_feather(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as out:
            out.write_table(table)
    assert run("count", "--column", "id", path, "--to", "jsonl").lines == [
        '{"count": 2, "id": 7}', '{"count": 1, "id": 8}',
    ]  # fmt: skip
    assert run("unique", "--column", "x", path, "--to", "jsonl").lines == ['{"x": 0.5}', '{"x": 1.5}', '{"x": null}']
    assert run("unique", "--column", "day", path).lines == ["2024-05-01", ""]
    out = tmp_path / "out.parquet"
    assert run("count", "--column", "id", "--column", "day", path, "--output", out).status == 0
    assert pq.read_table(out).to_pylist() == [
        {"count": 2, "id": 7, "day": ROWS[0]["day"]}, {"count": 1, "id": 8, "day": None},
    ]  # fmt: skip
    assert run("dedup", "--column", "name", path, "--output", out, "--overwrite").status == 0
    assert pq.read_table(out).to_pylist() == ROWS[:2]


def test_values_of_json_lines(run, written):
    rows = [{"a": "1"}, {"a": 1}, {"a": [1, {"é": 2}]}, {"a": None}, {"b": 3}, {"a": "é"}]
    path = written("some.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert run("count", "--column", "a", path).lines == [
        "      2 1", '      1 [1,{"é":2}]', "      2 ", "      1 é",
    ]  # fmt: skip
    assert run("count", "--column", "a", path, "--to", "jsonl").lines[2] == '{"count": 2, "a": null}'
    assert run("dedup", "--column", "a", path).lines == [json.dumps(rows[i]) for i in (0, 2, 3, 5)]


def test_a_join(run, written, library):
    one = written("one.csv", "id,a\n1,x\n2,y\n1,z\n3,w\n")
    other = written("other.csv", "b,key,a\np,1,A\nq,2,B\nr,1,C\n")
    renamed = written("renamed.csv", "b,id,a\np,1,A\nq,2,B\nr,1,C\n")
    wanted = ["id,a,b,a_2", "1,x,p,A", "1,x,r,C", "2,y,q,B", "1,z,p,A", "1,z,r,C"]
    assert run("join", one, renamed, "--on", "id").lines == wanted
    assert run("join", one, renamed, "--on", "id", "--how", "left").lines == [*wanted, "3,w,,"]
    assert run("join", one, written("none.csv", "id,b\n"), "--on", "id", "--how", "left").lines == [
        "id,a,b", "1,x,", "2,y,", "1,z,", "3,w,",
    ]  # fmt: skip
    taken = written("taken.csv", "id,a,a_2\n1,x,y\n")
    assert run("join", taken, renamed, "--on", "id").lines[0] == "id,a,a_2,b,a_2_2"
    done = run("join", one, other, "--on", "id")
    assert (done.status, "has no column 'id': there are 'b', 'key', 'a'" in done.err) == (2, True)


def test_a_join_of_types(run, tmp_path):
    pq.write_table(pa.table({"k": pa.array([1, None, 3], pa.int32()), "a": ["x", "y", "z"]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"k": pa.array([3, None, 3], pa.int64()), "b": [0.5, 1.5, 2.5]}), tmp_path / "two.parquet")
    files = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    assert run("join", *files, "--on", "k").lines == ["k,a,b", "3,z,0.5", "3,z,2.5"]
    assert run("join", *files, "--on", "k", "--how", "left", "--output", tmp_path / "out.parquet").status == 0
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"k": 1, "a": "x", "b": None}, {"k": None, "a": "y", "b": None},
        {"k": 3, "a": "z", "b": 0.5}, {"k": 3, "a": "z", "b": 2.5},
    ]  # fmt: skip


def test_differences(run, written):
    one, other = written("one", "a\nb\nb\nc\n"), written("other", "b\nd\nc\n")
    done = run("diff", one, other)
    assert (done.status, done.lines) == (1, ["< a", "> d"])
    assert run("diff", one, one).status == 0
    assert run("diff", one, other, "--counts", "--to", "csv").lines == [
        "count_1,count_2,line", "1,0,a", "2,1,b", "0,1,d",
    ]  # fmt: skip
    assert run("diff", written("empty", ""), other, "--to", "jsonl").lines[0] == '{"only_in": 2, "line": "b"}'


def test_a_struct_as_a_key(run, tmp_path):
    rows = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}]
    pq.write_table(pa.table({"s": rows}), path := tmp_path / "some.parquet")
    assert run("count", "--column", "s", path).lines == [f"      2 {rows[0]}", f"      1 {rows[1]}"]
    assert run("count", "--column", "s", path, "--output", tmp_path / "out.parquet").status == 0
    assert pq.read_table(tmp_path / "out.parquet").column("s").to_pylist() == rows[:2]


def test_batches_without_rows(run, tmp_path):
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    for name, batches in (("some.arrow", [[], ["x", "y", "x"], [], ["z", "x"]]), ("none.arrow", [[]])):
        with pa.ipc.new_file(tmp_path / name, schema) as file:
            for cells in batches:
                file.write(
                    pa.record_batch([pa.array(cells, pa.string()), pa.array(range(len(cells)), pa.int64())], schema)
                )
    assert run("dedup", "--column", "a", tmp_path / "some.arrow").lines == ["a,b", "x,0", "y,1", "z,0"]
    assert run("dedup", "--column", "a", tmp_path / "none.arrow").lines == ["a,b"]
