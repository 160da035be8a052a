"""The benchmark of text: its rows, and that a wrong result ends it."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
everyday = pytest.importorskip("asv_bench.everyday", reason="asv_bench is in a checkout of the repository only")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: its columns are what is measured")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(everyday, "libraries", lambda: {"pyarrow": pa})


def test_every_verb_of_every_column_has_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    assert everyday.main(["--n", "2000", "--repeats", "2", "--output", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "here" / "everyday.json").read_text())["rows"]
    ours = {(row["verb"], row["column"]) for row in rows if row["who"] == f"gh.{row['verb']}, threads=2"}
    assert ours == {(verb, column) for verb in everyday.VERBS for column in everyday.COLUMNS}
    assert {row["who"] for row in rows if row["verb"] == "isin"} == {
        "gh.isin, threads=1",
        "gh.isin, threads=2",
        "pyarrow.is_in",
    }
    for row in rows:
        assert row["n"] == 2000
        assert 0 < row["least"] <= row["largest"]
        assert row["share"] == pytest.approx(row["M/s"] / row["ceiling"])
    assert next(row["distinct"] for row in rows if row["column"] == "identifiers") == 2000


@pytest.mark.parametrize(
    ("verb", "spoil"),
    [
        ("value_counts", lambda found: (found[0], pa.compute.add(found[1], 1))),
        ("factorize", lambda found: (pa.array(found[0].to_pylist()[::-1]), found[1])),
        ("isin", lambda found: pa.compute.invert(found)),
    ],
)
def test_a_wrong_result_ends_it(tmp_path, monkeypatch, verb, spoil):
    import pyarrow.compute  # noqa: F401  pa.compute

    right = everyday.OURS[verb]
    monkeypatch.setitem(everyday.OURS, verb, lambda c, threads: spoil(right(c, threads)))
    with pytest.raises(AssertionError, match=f"{verb} of words: a wrong result"):
        everyday.main(["--n", "1500", "--verb", verb, "--column", "words", "--output", str(tmp_path)])
