"""Plots of simulated workers: one command draws them, and what is drawn are the simulation's numbers."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "asv_bench" / "workers.py").exists():
    pytest.skip("asv_bench is in a checkout of the repository only", allow_module_level=True)
pytest.importorskip("matplotlib", reason="needs matplotlib")
pytest.importorskip("dask", reason="dask is not installed")
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one

from asv_bench import schedules, workers  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "beyond-one-machine.md"
MOST = 5


def numbers(path):
    """The rows of a file, with numbers as such."""
    with path.open() as file:
        return [{k: v if k in ("rows", "line") else float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def lines(drawn):
    """{colour: vertices} of the lines between axes; a legend's come after these."""
    found = {}
    for path, colour in re.findall(
        r'<path d="([^"]*)"[^>]*style="fill: none; stroke: (#\w{6}); stroke-width: 1.5', drawn
    ):
        found.setdefault(colour.upper(), np.array(re.findall(r"[ML] ([\d.]+) ([\d.]+)", path), float))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    assert workers.main(["--most", str(MOST), "--output", str(folder)]) == 0
    return folder


def points(rows, name):
    """What the plot has to show: (workers, median) of each line, and the scales of its y axis."""
    column, scale = ("seconds", "log") if name == "tasks" else workers.PLOTS[name][2:]
    kind = "growing" if name == "tasks" else "same"
    of = {}
    for row in rows:
        if row["rows"] == kind:
            of.setdefault(row["line"], {}).setdefault(row["workers"], []).append(row[column])
    return [np.array([(n, np.median(own)) for n, own in sorted(line.items())]) for line in of.values()], scale


@pytest.mark.parametrize("name", [*workers.PLOTS, "tasks"])
@pytest.mark.parametrize("where", ["new", "docs"])
def test_lines_are_the_numbers_beside_them(made, name, where):
    folder = made if where == "new" else IMAGES
    wanted, scale = points(numbers(folder / "workers.csv"), name)
    drawn = list(lines((folder / f"workers-{name}.svg").read_text()).values())
    assert len(drawn) == len(wanted) > 2
    assert [len(line) for line in drawn] == [len(line) for line in wanted]
    x, y = np.concatenate(drawn).T
    many, values = np.concatenate(wanted).T
    values = np.log10(values) if scale == "log" else values
    for place, of in ((x, np.log10(many)), (y, values)):
        slope, start = np.polyfit(of, place, 1)
        assert abs(slope) > 1
        assert np.abs(slope * of + start - place).max() < 0.05


def test_the_numbers_are_those_of_the_simulation(made):
    rows = numbers(made / "workers.csv")
    parts = schedules.sampled(workers.PARTS, 200, 1)
    for row in [row for row in rows if row["rows"] == "same"][::7]:
        how = (int(row["losses"]), row["slow"])
        one = schedules.Simulation(
            parts, workers.SHARDS, int(row["workers"]), int(row["seed"]), *how, scale=workers.SCALE
        )
        one.run()
        assert row["seconds"] == pytest.approx(one.now, abs=1e-3)
        assert row["GB moved"] == pytest.approx(one.moved / 1e9, abs=1e-3)
        assert row["GB of a worker"] == pytest.approx(one.peak / 1e9, abs=1e-3)
        assert row["runs of tasks"] == one.runs
    assert len({row["line"] for row in rows}) == 7


def test_the_page_has_these_numbers(made):
    """The documentation's rows are what the command gives now, and its tables and plots are of these rows."""
    new, kept = numbers(made / "workers.csv"), numbers(IMAGES / "workers.csv")
    assert [row for row in kept if row["workers"] <= MOST] == new
    assert {row["workers"] for row in kept} == set(workers.COUNTS)
    said = {re.sub(r"\s+", " ", line) for line in PAGE.read_text().splitlines()}
    for row in kept:
        row["workers"] = int(row["workers"])
    for line in workers.tables(kept).splitlines():
        assert not line.startswith("| 1") or re.sub(r"\s+", " ", line) in said
    for name in (*workers.PLOTS, "tasks"):
        assert f"(images/workers-{name}.svg)" in PAGE.read_text()
