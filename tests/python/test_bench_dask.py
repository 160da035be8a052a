"""Benchmarks of verbs on Dask: they run where there is no GPU, compare results, and write what they measured."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "asv_bench" / "dask_verbs.py").exists():
    pytest.skip("asv_bench is in a checkout of the repository only", allow_module_level=True)
for name in ("distributed", "dask.array", "dask.dataframe", "pyarrow"):
    pytest.importorskip(name, reason=f"{name} is not installed")
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one

from asv_bench import dask_cards, dask_verbs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of dask and pandas, which are not ours
RESULTS = ROOT / "asv_bench" / "results" / "amd-turin-2"
PAGE = ROOT / "docs" / "beyond-one-machine.md"


@pytest.fixture(autouse=True)
def installed_first(monkeypatch):
    """Worker processes get this path, which other tests put the checkout in front of: there, pygpuhash is not built."""
    monkeypatch.setattr(sys, "path", [*(entry for entry in sys.path if entry not in ("", str(ROOT))), str(ROOT)])


def written(folder, name):
    (file,) = folder.glob(f"*/{name}.json")
    return json.loads(file.read_text()), file.with_suffix(".md").read_text()


def test_verbs_beside_dask_are_compared_and_written(tmp_path, capsys, monkeypatch):
    with dask_verbs.cluster(1) as client:
        monkeypatch.setattr(dask_verbs, "cluster", lambda workers: contextlib.nullcontext(client))  # one for all
        run_all(tmp_path, capsys)


def run_all(tmp_path, capsys):
    how = ["--n", "20000", "--parts", "2", "--keys", "zipf", "--output", str(tmp_path)]
    assert dask_verbs.main(how) == 0
    run, text = written(tmp_path, "dask-verbs-20000")
    assert [row["side"] for row in run["rows"]] == list(dask_verbs.SIDES) * 3
    assert all(row["processor s"] > 0 and row["MiB of a worker"] > 50 for row in run["rows"])
    assert text == capsys.readouterr().out.removesuffix("\n")
    assert dask_verbs.table(run["rows"]) in text


def test_a_side_that_gives_another_result_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_verbs, "on_dask", lambda workers, work: (0, 1.0, 1.0, 1.0))
    with pytest.raises(AssertionError, match="value_counts of zipf"):
        dask_verbs.main(["--n", "20000", "--parts", "2", "--keys", "zipf", "--output", str(tmp_path)])


def test_a_side_without_memory_is_said(monkeypatch):
    def fails():
        raise MemoryError("no memory")

    result, *numbers = dask_verbs.on_dask(1, fails)
    assert result is None
    assert np.isnan(numbers).all()
    sides = [("one process", 1.0), ("pygpuhash.dask", 2.0), ("dask", float("nan"))]
    rows = [
        dict(zip(dask_verbs.HEADER, ("nunique", "zipf", side, seconds, 1.0, 100.0), strict=True))
        for side, seconds in sides
    ]
    line = dask_verbs.table(rows).splitlines()[-1]
    assert [cell.strip() for cell in line.strip("|").split("|")][2:] == [
        "1.0 s, 100",
        "2.0 s, 100",
        "out of memory",
        "",
    ]


@pytest.mark.parametrize("n", [2 * 10**7, 10**8])
def test_the_page_has_what_was_measured(n):
    rows = json.loads((RESULTS / f"dask-verbs-{n}.json").read_text())["rows"]
    table = dask_verbs.table(rows)
    assert table in (RESULTS / f"dask-verbs-{n}.md").read_text()
    said = {re.sub(r"\s+", " ", line) for line in PAGE.read_text().splitlines()}
    lines = [re.sub(r"\s+", " ", line) for line in table.splitlines()[2:]]
    assert len(lines) == 9
    assert [line for line in lines if line not in said] == []


def test_workers_of_cards_on_the_cpu(tmp_path, capsys):
    how = ["--device", "cpu", "--n", "20000", "--parts", "2", "--repeats", "1", "--distinct", "500"]
    assert dask_cards.main([*how, "--output", str(tmp_path)]) == 0
    run, text = written(tmp_path, "dask-cards")
    assert len({row["what"] for row in run["rows"]}) == 11
    assert run["cluster"] == "LocalCluster"
    assert text == capsys.readouterr().out.removesuffix("\n")


def test_a_wrong_result_of_workers_is_found(tmp_path, monkeypatch):
    numbers = dask_cards.numbers
    monkeypatch.setattr(
        dask_cards.Parts, "wanted", lambda self: (np.ones(500, np.int64), numbers("numpy", 0, 500, 1)[1])
    )
    how = ["--device", "cpu", "--n", "2000", "--parts", "2", "--repeats", "1", "--distinct", "500"]
    with pytest.raises(AssertionError, match="value_counts of numpy's parts is wrong"):
        dask_cards.main([*how, "--output", str(tmp_path)])
