"""The tables of rates in docs/performance.md are what the committed results say; a broken result is named."""

from __future__ import annotations

import json

import pytest

rates_table = pytest.importorskip("asv_bench.rates_table", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness.committed import Broken  # noqa: E402
from asv_bench.harness.results import RESULTS  # noqa: E402

TEXT = "before\n<!-- asv_bench/results/here/run.json -->\nstale\n<!-- end of the table -->\nafter\n"


def run(folder, without=""):
    """Results of all structures, all but one, and of another library; a million keys in 2 ms, 1 ms and 4 ms."""
    row = {"n": 1_000_000, "seconds": [2e-3, 1e-3, 4e-3], "options": {}, "ratio": 0.256}
    rows = [
        row | {"backend": of, "load": load, "operation": operation}
        for of, loads in rates_table.SHOWN.items()
        if of != without
        for load in loads
        for operation in rates_table.OPERATIONS
    ]
    rows.append(row | {"backend": "other", "load": None, "operation": "find_hit", "ratio": None})
    record = {"date": "2026-01-02T03:04:05+00:00", "commit": "0123456789abcdef", "devices": {"cpu": "A processor"}}
    (folder / "here").mkdir()
    (folder / "here" / "run.json").write_text(json.dumps(record | {"rows": rows}))
    return folder


def test_the_tables_of_the_tree():
    assert rates_table.main(["--check"]) == 0, "python -m asv_bench.rates_table"
    files = [found[1] for found in rates_table.TABLE.findall(rates_table.PAGE.read_text())]
    devices = [device for file in files for device in json.loads((RESULTS / file).read_text())["devices"]]
    assert sorted(devices) == ["cpu", "cuda"]


@pytest.mark.parametrize(("kind", "others"), [("cpu", ["pandas", "polars"]), ("cuda", ["CuPy", "PyTorch"])])
def test_other_libraries_stand_below_the_structures(kind, others):
    """A report of --no-peers does not have them."""
    tables = rates_table.TABLE.finditer(rates_table.PAGE.read_text())
    [found] = [table for table in tables if f"-{kind}.json" in table[2]]
    names = [line.split("|")[1].strip() for line in found[0].splitlines() if line.startswith("| ")]
    shown = sum(map(len, rates_table.SHOWN.values()))
    assert all(name.startswith("`") for name in names[2 : 2 + shown])
    for other in others:
        assert any(name.startswith(other) for name in names[2 + shown :]), other


def test_a_table(tmp_path):
    text = rates_table.written(TEXT, run(tmp_path))
    assert text.startswith(
        "before\n<!-- asv_bench/results/here/run.json -->\n\n| A processor, 1,000,000 keys; 2026-01-02"
    )
    assert text.endswith("|\n\n<!-- end of the table -->\nafter\n")
    assert "commit 01234567 | insert | find, present | find, absent |" in text
    assert "stale" not in text
    for of in rates_table.SHOWN:
        assert f"| `{of}`, load 0." in text
    assert "| `skiplist`, load 0.5 | 500 (26 %) | 500 (26 %) | 500 (26 %) |" in text
    assert "| other |  | 500 |  |" in text
    assert rates_table.written(text, tmp_path) == text


def test_a_stale_table_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rates_table, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(rates_table, "RESULTS", run(tmp_path))
    rates_table.PAGE.write_text(TEXT)
    assert rates_table.main(["--check"]) == 1
    assert "docs/performance.md is stale: python -m asv_bench.rates_table" in capsys.readouterr().err
    assert rates_table.main([]) == 0
    assert rates_table.main(["--check"]) == 0


def test_results_that_cannot_be_shown(tmp_path):
    with pytest.raises(Broken, match=r"asv_bench/results/here/run.json: it lacks `hive`, load 0.8, `hive`, load 0.9"):
        rates_table.written(TEXT, run(tmp_path, without="hive"))
    (tmp_path / "here" / "run.json").write_text("[")
    with pytest.raises(Broken, match=r"here/run.json: it is no JSON"):
        rates_table.written(TEXT, tmp_path)
    with pytest.raises(Broken, match="no table that names its file"):
        rates_table.written("nothing", tmp_path)
