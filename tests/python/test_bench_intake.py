"""The benchmark of reading columns: its rows, and that a wrong result ends it."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
intake = pytest.importorskip("asv_bench.intake", reason="asv_bench is in a checkout of the repository only")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: it has what is expected")


def cells_of(text: str) -> dict:
    """(type, library) -> what a verb and a table have."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {(row[0], name): cell for row in rows[2:] for name, cell in zip(rows[0][1:], row[1:], strict=True)}


def test_every_type_of_every_library_has_a_cell(capsys):
    assert intake.main(["--n", "500", "--repeats", "1"]) == 0
    cells = cells_of(capsys.readouterr().out)
    assert {name for name, _ in cells} == set(intake.TYPES)
    assert {"list", "numpy", "pyarrow"} <= {library for _, library in cells}
    for at, cell in cells.items():
        for said in [] if cell == "-" else cell.split(", "):
            assert said == "refused" or float(said.split()[0]) >= 0, at
    by_verb = {at: cell.split(",")[0].split()[-1] for at, cell in cells.items()}
    assert by_verb["int64", "numpy"] == by_verb["text", "pyarrow"] == by_verb["categories", "pyarrow"] == "0"
    assert by_verb["int64", "list"] == by_verb["text", "numpy"] == by_verb["bool", "numpy"] == "copy"
    assert cells["int64", "pyarrow"].endswith(" 0")
    assert cells["text", "pyarrow"].endswith("refused")
    assert cells["rows", "numpy"] == "-"


def test_a_wrong_result_ends_it(monkeypatch):
    right = intake.read
    monkeypatch.setattr(intake, "read", lambda given, what: right(given[::-1], what))
    with pytest.raises(AssertionError, match="a wrong result"):
        intake.main(["--n", "50", "--repeats", "1", "--library", "numpy", "--type", "int64"])
    monkeypatch.undo()
    monkeypatch.setattr(intake._arrays, "to_base", lambda given, dtype, what: np.zeros(len(given), dtype))
    with pytest.raises(AssertionError, match="a wrong result"):
        intake.main(["--n", "50", "--repeats", "1", "--library", "numpy", "--type", "int64"])
