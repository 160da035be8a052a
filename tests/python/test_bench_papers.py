"""The table of the papers' figures: what it is made of, what is shown, and that it is not stale."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
paper_table = pytest.importorskip("asv_bench.paper_table", reason="asv_bench is in a checkout of the repository only")
from asv_bench import figures  # noqa: E402
from asv_bench.harness import claims, judges, paper_slab_hash  # noqa: E402
from asv_bench.harness.committed import Broken  # noqa: E402
from asv_bench.harness.devices import Unavailable, device  # noqa: E402
from asv_bench.harness.figure import Settings  # noqa: E402
from asv_bench.harness.results import RESULTS  # noqa: E402

PLACES = {"table": 1000, "aaaaaaaa": 900, "bbbbbbbb": 950, "cccccccc": 699, "dddddddd": 700}
ROWS = [{"warps": 8, "M_per_s": 2.0}, {"warps": 16, "M_per_s": 3.0}]
CLAIM = claims.Claim("skiplist", "II", "16 warps are best", "V", judges.sixteen_warps, "the compiler")


def write(results, machine, commit, rows=ROWS):
    folder = results / machine / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "skiplist-II-cuda.json").write_text(json.dumps({"commit": commit + "0000", "rows": rows}))


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_the_latest_result_counts(tmp_path):
    write(tmp_path, "first", "aaaaaaaa", [{"warps": 8, "M_per_s": 2.0}])
    write(tmp_path, "second", "bbbbbbbb")
    assert paper_table.ours(CLAIM, "cuda", tmp_path, PLACES) == ("16 warps of 8, 16 (second, bbbbbbbb)", True)
    assert paper_table.ours(CLAIM, "cpu", tmp_path, PLACES) == ("not measured", None)


@pytest.mark.parametrize(("commit", "said"), [("cccccccc", "too old: 301 commits"), ("dddddddd", "16 warps of 8, 16")])
def test_a_result_that_is_too_old_is_not_shown(tmp_path, commit, said):
    write(tmp_path, "card", commit)
    assert paper_table.ours(CLAIM, "cuda", tmp_path, PLACES)[0] == f"{said} (card, {commit})"


def test_a_figure_of_a_gpu_only_says_why(tmp_path):
    write(tmp_path, "card", "aaaaaaaa")
    claim = dataclasses.replace(CLAIM, gpu_only="a CPU has no warps")
    assert paper_table.ours(claim, "cuda", tmp_path, PLACES)[1] is True
    assert paper_table.ours(claim, "cpu", tmp_path, PLACES) == ("of a GPU only: a CPU has no warps", None)


def test_rows_of_another_form_are_said(tmp_path):
    write(tmp_path, "card", "aaaaaaaa", [{"warps": 8}])
    assert paper_table.ours(CLAIM, "cuda", tmp_path, PLACES) == ("cannot be judged: 'M_per_s' (card, aaaaaaaa)", None)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"rows": 3, "commit": "a"}', '{"rows": []}', '{"rows": [1], "commit": "a"}']
)
def test_a_broken_result_is_named_and_left_out(tmp_path, text):
    write(tmp_path, "card", "aaaaaaaa")
    write(tmp_path, "other", "aaaaaaaa")
    (tmp_path / "other" / "figures" / "skiplist-II-cuda.json").write_text(text)
    found, [broken] = paper_table.measured(tmp_path, "skiplist", "II", "cuda")
    assert [result.machine for result in found] == ["card"]
    assert broken.startswith("other/figures/skiplist-II-cuda.json: it ")


def test_a_result_of_a_commit_that_is_not_counted(tmp_path):
    write(tmp_path, "card", "eeeeeeee")
    with pytest.raises(Broken, match=r"commits.csv lacks eeeeeeee: python -m asv_bench.paper_table"):
        paper_table.ours(CLAIM, "cuda", tmp_path, PLACES)


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        ((None, None), "-"),
        ((True, None), "yes"),
        ((None, False), "no"),
        ((True, True), "yes"),
        ((True, False), "a GPU: yes, a CPU: no"),
    ],
)
def test_verdicts(judged, words):
    assert paper_table.verdict(judged) == words


def test_why_is_said_of_a_claim_that_does_not_hold(tmp_path):
    write(tmp_path, "card", "aaaaaaaa")
    cells = paper_table.line(CLAIM, tmp_path, PLACES)
    assert cells[5:] == ("yes", "", "`python -m asv_bench.figures skiplist II`")
    write(tmp_path, "card", "aaaaaaaa", ROWS[:1])
    assert paper_table.line(CLAIM, tmp_path, PLACES)[5:7] == ("no", "the compiler")
    unknown = dataclasses.replace(CLAIM, unlike="")
    assert paper_table.line(unknown, tmp_path, PLACES)[5:7] == ("no", "not examined")


# ---- how claims are judged -------------------------------------------------------------------------------------------


def of_slabs(late, static):
    rows = [
        {"table": name, "operation": "build", "asked": u, "utilisation": u, "n": 4, "M_per_s": rate}
        for name, rates in (("slab_hash", (10.0, 10.0, late)), ("linear_probe", (static,) * 3))
        for u, rate in zip((0.3, 0.6, 0.7), rates, strict=True)
    ]
    return rows


@pytest.mark.parametrize(("late", "holds"), [(5.0, True), (9.5, False)])
def test_a_drop(late, holds):
    said, found = judges.drop_beyond_65("build")(of_slabs(late, 1.0))
    assert found is holds
    assert said == f"beyond 65 %: {late / 10:.3g} of the best rate of 19 to 60 %"


@pytest.mark.parametrize(("static", "holds"), [(20.0, True), (5.0, False)])
def test_a_factor(static, holds):
    said, found = judges.static_is_faster("build")(of_slabs(10.0, static))
    assert (said, found) == (f"linear_probe is faster by {static / 10:.2f} (build)", holds)


@pytest.mark.parametrize(
    ("rates", "holds"), [((2.0, 3.0, 4.0), True), ((4.0, 3.0, 2.0), False), ((0.5, 2.0, 3.0), False)]
)
def test_gains_of_smaller_batches(rates, holds):
    rows = []
    for batch, gain in zip(("128k", "64k", "32k"), rates, strict=True):
        for n in (1, 2):
            rows += [{"table": "slab_hash", "batch": batch, "n": n, "ms": 4.0}]
            rows += [{"table": "linear_probe rebuilt", "batch": batch, "n": n, "ms": 4.0 * gain * n / 2}]
    assert judges.incremental(rows)[1] is holds


@pytest.mark.parametrize(("least", "holds"), [(2.0, True), (0.5, False)])
def test_the_mean_factors_beside_lists(least, holds):
    rows = [
        {"table": table, "mixture": mixture, "buckets": buckets, "M_per_s": rate}
        for mixture, factor in (("a", 8.0), ("b", 4.0), ("c", least))
        for buckets, spread in ((1, 2.0), (2, 0.5))
        for table, rate in (("slab_hash", 10.0 * factor * spread), ("chained", 10.0))
    ]
    words = f"8.00, 4.00, {least:.2f} times as fast (100, 40, 20 % updates)"
    assert judges.beside_lists(rows) == (words, holds)


def test_mixtures_beside_another_table(monkeypatch):
    """Both tables answer the same batches; the number of buckets is that of the lists' nodes by their share."""
    settings = Settings(device("cpu"), 2048, None, 2, None, {})
    with pytest.raises(Unavailable, match=r"pip install \./plugins/examples/chained"):
        paper_slab_hash.figure_7b(settings)
    monkeypatch.setattr(paper_slab_hash, "LISTS", "linear_probe")
    monkeypatch.setattr(paper_slab_hash, "NODES_PER_BUCKET", (0.5,))
    rows = paper_slab_hash.figure_7b(settings).rows
    assert [(row["table"], row["buckets"]) for row in rows] == [
        (table, 2 * (2048 + 3 * inserts)) for inserts in (1024, 409, 204) for table in ("slab_hash", "linear_probe")
    ]
    assert all(0 < row["min"] <= row["M_per_s"] <= row["max"] for row in rows)


@pytest.mark.parametrize(
    "claim",
    [claim for claim in claims.CLAIMS if claim.check],
    ids=lambda claim: f"{claim.structure} {claim.figure} {claim.text[:20]}",
)
def test_claims_can_be_judged_by_the_committed_rows(claim):
    """Whatever their age: each check finds the columns that it reads in some committed result."""
    said = [
        claim.check(result.rows)
        for kind in paper_table.KINDS
        for result in paper_table.measured(RESULTS, claim.structure, claim.figure, kind)[0]
        if (kind, claim.figure) != ("cpu", "9") or claim.structure != "skiplist"  # ranges up to 3 * 10^6
    ]
    assert said
    assert all(words and holds in (True, False, None) for words, holds in said)
    assert any(holds is not None for _, holds in said)


# ---- the data and the table ------------------------------------------------------------------------------------------


def test_values_of_the_papers():
    """Each figure has a file; each row a number, and where it stands."""
    seen = 0
    named = {f"{claim.structure}-{claim.figure}.csv" for claim in claims.CLAIMS} | {"commits.csv"}
    assert {path.name for path in paper_table.DATA.iterdir()} == named
    for name in named - {"commits.csv"}:
        with (paper_table.DATA / name).open() as file:
            rows = list(csv.DictReader(file))
        assert rows, name
        for row in rows:
            assert list(row) == ["what", "x", "value", "unit", "where"], name
            assert float(row["value"]) > 0, name
            assert row["what"], name
            assert row["where"], name
            seen += 1
    assert seen > 150


def test_each_command_is_one():
    measured = {(structure, figure) for structure, of in figures.FIGURES.items() for figure in of}
    for claim in claims.CLAIMS:
        assert claim.structure in claims.PAPERS
        assert (claim.structure, claim.figure) in measured


def test_the_table_is_not_stale(capsys):
    assert paper_table.main(["--check"]) == 0, capsys.readouterr().err
    text = paper_table.TABLE.read_text()
    links = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(links) == len(claims.CLAIMS)
    assert all((paper_table.TABLE.parent / link).is_file() for link in links)


def test_each_row_has_its_command_its_data_and_its_plot():
    """Of each result that a row shows: figures and plot, of that commit, are in the tree."""
    structure, rows, shown = "", 0, 0
    for text in paper_table.TABLE.read_text().splitlines():
        structure = heading[1] if (heading := re.fullmatch(r"## `(\w+)`", text)) else structure
        cells = [cell.strip() for cell in text.strip("|").split(" | ")]
        if len(cells) != 8 or cells[0] in ("figure", "---"):
            continue
        rows += 1
        assert cells[7] in ("-", f"`python -m asv_bench.figures {structure} {cells[0]}`")
        for kind, said in zip(paper_table.KINDS, cells[3:5], strict=True):
            if not (result := re.search(r"\(([\w-]+), ([0-9a-f]{8})\)$", said)):
                assert said.startswith(("not measured", "of a GPU only")), said
                continue
            shown += 1
            stem = RESULTS / result[1] / "figures" / f"{structure}-{cells[0]}-{kind}"
            assert json.loads(stem.with_suffix(".json").read_text())["commit"].startswith(result[2])
            with stem.with_suffix(".csv").open() as file:
                assert len(list(csv.DictReader(file))) > 1, stem
            assert "<svg" in stem.with_suffix(".svg").read_text(), stem
    assert rows == len(claims.CLAIMS)
    assert shown > rows


def test_a_stale_table_is_found(tmp_path, monkeypatch, capsys):
    stale = tmp_path / "figures.md"
    stale.write_text(paper_table.TABLE.read_text().replace("Farrell", "Ferrell"))
    monkeypatch.setattr(paper_table, "TABLE", stale)
    assert paper_table.main(["--check"]) == 1
    assert "docs/figures.md is stale: python -m asv_bench.paper_table" in capsys.readouterr().err


def test_places_of_commits_are_those_of_the_history():
    ran = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode or int(ran.stdout) < 900:
        pytest.skip("this clone does not have the commits of the results")
    counted = paper_table.count_places(RESULTS)
    known = paper_table.places()
    assert counted.pop("table") >= known.pop("table") > 0
    assert counted == known
