"""README.md's tables of rates are what the committed results say, and a result that is not as it must be is named."""

from __future__ import annotations

import json

import pytest

readme_table = pytest.importorskip("asv_bench.readme_table", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness.committed import Broken  # noqa: E402
from asv_bench.harness.results import RESULTS  # noqa: E402

TEXT = "before\n<!-- asv_bench/results/here/run.json -->\nstale\n<!-- end of the table -->\nafter\n"


def run(folder, without=""):
    """Results of all structures, all but one, and of another library; a million keys in 2 ms, 1 ms and 4 ms."""
    row = {"n": 1_000_000, "seconds": [2e-3, 1e-3, 4e-3], "options": {}, "ratio": 0.256}
    rows = [
        row | {"backend": of, "load": load, "operation": operation}
        for of, loads in readme_table.SHOWN.items()
        if of != without
        for load in loads
        for operation in readme_table.OPERATIONS
    ]
    rows.append(row | {"backend": "other", "load": None, "operation": "find_hit", "ratio": None})
    record = {"date": "2026-01-02T03:04:05+00:00", "commit": "0123456789abcdef", "devices": {"cpu": "A processor"}}
    (folder / "here").mkdir()
    (folder / "here" / "run.json").write_text(json.dumps(record | {"rows": rows}))
    return folder


def test_the_tables_of_the_tree():
    assert readme_table.main(["--check"]) == 0, "python -m asv_bench.readme_table"
    files = [found[1] for found in readme_table.TABLE.findall(readme_table.README.read_text())]
    devices = [device for file in files for device in json.loads((RESULTS / file).read_text())["devices"]]
    assert sorted(devices) == ["cpu", "cuda"]


def test_a_table(tmp_path):
    text = readme_table.written(TEXT, run(tmp_path))
    assert text.startswith(
        "before\n<!-- asv_bench/results/here/run.json -->\n\n| A processor, 1,000,000 keys; 2026-01-02"
    )
    assert text.endswith("|\n\n<!-- end of the table -->\nafter\n")
    assert "commit 01234567 | insert | find, present | find, absent |" in text
    assert "stale" not in text
    for of in readme_table.SHOWN:
        assert f"| `{of}`, load 0." in text
    assert "| `skiplist`, load 0.5 | 500 (26 %) | 500 (26 %) | 500 (26 %) |" in text
    assert "| other |  | 500 |  |" in text
    assert readme_table.written(text, tmp_path) == text


def test_a_stale_table_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(readme_table, "README", tmp_path / "README.md")
    monkeypatch.setattr(readme_table, "RESULTS", run(tmp_path))
    readme_table.README.write_text(TEXT)
    assert readme_table.main(["--check"]) == 1
    assert "README.md is stale: python -m asv_bench.readme_table" in capsys.readouterr().err
    assert readme_table.main([]) == 0
    assert readme_table.main(["--check"]) == 0


def test_results_that_cannot_be_shown(tmp_path):
    with pytest.raises(Broken, match=r"asv_bench/results/here/run.json: it lacks `hive`, load 0.8, `hive`, load 0.9"):
        readme_table.written(TEXT, run(tmp_path, without="hive"))
    (tmp_path / "here" / "run.json").write_text("[")
    with pytest.raises(Broken, match=r"here/run.json: it is no JSON"):
        readme_table.written(TEXT, tmp_path)
    with pytest.raises(Broken, match="no table that names its file"):
        readme_table.written("nothing", tmp_path)
