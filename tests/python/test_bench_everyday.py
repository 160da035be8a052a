"""The benchmark of text and rows: its results, and that a wrong result ends it."""

import json
import sys
from pathlib import Path

import numpy as np
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
    assert ours == {(verb, column) for kind in everyday.KINDS for verb in kind.verbs for column in kind.columns}
    assert len(ours) == 3 * 4 + 7 * 4
    for column, more in (("words", {"pyarrow.is_in"}), ("rows of two integers", set())):
        found = {row["who"] for row in rows if row["verb"] == "isin" and row["column"] == column}
        assert found == {"gh.isin, threads=1", "gh.isin, threads=2"} | more
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


@pytest.mark.parametrize("verb", list(everyday.everyday_rows.VERBS))
def test_a_wrong_result_of_rows_ends_it(tmp_path, monkeypatch, verb):
    """Of each verb and object: the last number is another one."""
    ours = everyday.everyday_rows.OURS
    right, name = ours[verb], "rows of a name and a day"

    def wrong(found):
        numbers = np.asarray(found).copy()
        numbers[-1] = 1 - numbers[-1]
        return numbers

    def spoilt(c, threads):
        found = right(c, threads)
        if verb == "isin":
            return wrong(found)
        first = verb in ("factorize", "Index.add")
        return (wrong(found[0]), found[1]) if first else (found[0], wrong(found[1]))

    monkeypatch.setitem(ours, verb, spoilt)
    with pytest.raises(AssertionError, match=f"{verb} of {name}: a wrong result"):
        everyday.main(["--n", "1500", "--verb", verb, "--column", name, "--output", str(tmp_path)])


def test_every_library_serves_rows(tmp_path, monkeypatch):
    """Each gives as many rows as there are distinct ones."""
    rows = everyday.everyday_rows
    for library in rows.TAKES:
        module = pytest.importorskip(library, reason=f"{library} is not installed")
        for make in rows.ROWS.values():
            frame = make(np.random.default_rng(2), 3000)
            given = rows.TAKES[library](module, frame)
            for ways in (rows.COUNTS, rows.SUMS):
                for who, way in ways.items():
                    if who.partition(".")[0] == library:
                        assert len(way(module, given)) == rows.distinct(frame)
