"""`python -m asv_bench.saving`: rows of every way, and what it refuses."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
saving = pytest.importorskip("asv_bench.saving", reason="asv_bench is in a checkout of the repository only")


def test_a_small_run(tmp_path, capsys):
    backends = ["hive", "skiplist"]
    flags = [flag for name in backends for flag in ("--backend", name)]
    assert saving.main(["--pairs", "3000", "--repeats", "1", "--output", str(tmp_path), *flags]) == 0
    assert "of the ceiling" in capsys.readouterr().out
    (path,) = tmp_path.glob("*/saving.json")
    rows = {row["what"]: row for row in json.loads(path.read_text())["rows"]}
    assert {f"{name}: {what}" for name in backends for what in ("save", "export")} < set(rows)
    assert {"a copy in memory", "a file of these bytes", "numpy.save"} < set(rows)
    assert all(row["seconds"] > 0 for row in rows.values())


def test_a_wrong_file_is_noticed(tmp_path, monkeypatch):
    keys, values = saving.pairs_of(100)
    assert sorted(keys.tolist()) == list(range(100))
    with saving.filled("hive", keys, values) as table, gh.Table("hive", device="cpu") as other:
        saving.verified(table, tmp_path / "some")
        other.insert(keys, np.zeros(100, int))
        monkeypatch.setattr(gh, "load", lambda path: other)
        with pytest.raises(AssertionError, match="other values came back"):
            saving.verified(table, tmp_path / "some")


def test_wrong_arguments(capsys):
    with pytest.raises(SystemExit):
        saving.main(["--pairs", "0"])
    assert "0" in capsys.readouterr().err
