"""The page of the committed results: one file without network, of figures that are committed, readable on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
page = pytest.importorskip("asv_bench.harness.page", reason="asv_bench is in a checkout of the repository only")
pytest.importorskip("matplotlib", reason="needs matplotlib")
import chromium  # noqa: E402

from asv_bench import report  # noqa: E402
from asv_bench.harness import committed  # noqa: E402
from asv_bench.harness.results import RESULTS  # noqa: E402

ABOUT = {"commit": "0123456789ab", "date": "2026-01-02T03:04:05", "devices": {"cuda": "A <card>"}, "modified": True}


class Page(HTMLParser):
    """Tables as lists of rows, each cell (text, data-value, class); plots; what would need a network."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.plots, self.sections, self.fetched, self.open = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(["", of.get("data-value"), of.get("class")])
        elif tag == "section":
            self.sections.append(of["id"])
        elif tag == "svg":
            self.plots.append(of["aria-label"])
        links = [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        self.fetched += [link for link in links if not link.startswith("#")]
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1][0] += data


def figures_of(folder):
    """Every number in the files of results."""
    found = set()

    def walk(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for of in value:
                walk(of)
        elif isinstance(value, (int, float)):
            found.add(float(value))

    for path in folder.rglob("*.json"):
        try:
            walk(json.loads(path.read_text()))
        except ValueError:
            continue
    return found


def check_figures(parsed, folder):
    """Each figure is committed, or the ratio of two of its row; what is shown is that figure rounded."""
    known, seen = figures_of(folder), 0
    for header, *rows in parsed.tables:
        for row in rows:
            assert len(row) == len(header)
            own = [float(value) for _, value, kind in row if value is not None and kind is None]
            for text, value, kind in row:
                if value is None:
                    continue
                seen += 1
                assert float(text.replace(",", "")) == pytest.approx(float(value), rel=0.006, abs=1e-9), row
                if kind == "ratio":
                    assert any(a / b == float(value) for a in own for b in own if b), row
                else:
                    assert float(value) in known, row
    return seen


def row(backend, load, ns, operation="find_hit"):
    widths = {"key_bytes": 4, "value_bytes": 4, "options": {}, "bytes_per_key": 10.5}
    return widths | {
        "backend": backend,
        "operation": operation,
        "n": 1 << 27,
        "ns_per_key": ns,
        "load": load,
        "ceiling_ns": 0.02,
        "ratio": 0.02 / ns,
    }


def asv(commit, date, values):
    axes = [["'hive'", "'stadium'"], ["'2^27'"], ["0.8"], ["'4+4'"]]
    results = {"gpu_tables.FindHit.track_ns_per_key": [values, axes, "1", 0, None]}
    results["gpu_calls.OneKey.track_array_us"] = [[3.25, 7.5], [["'hive'", "'stadium'"], ["'find'"]], "1", 0, None]
    return {"commit_hash": commit, "date": date, "result_columns": ["result"], "results": results}


@pytest.fixture
def results(tmp_path):
    """Results of a card: a report, two commits of asv, calls, verbs, texts, skew."""
    card = tmp_path / "results" / "card"
    card.mkdir(parents=True)
    tables = {"param_names": ["backend", "keys", "load", "key+value bytes"], "unit": "ns/key", "version": "1"}
    calls = {"param_names": ["backend", "call"], "unit": "us", "version": "1"}
    units = {"gpu_tables.FindHit.track_ns_per_key": tables, "gpu_calls.OneKey.track_array_us": calls, "version": 2}
    verbs = {"median": 700.5, "min": 700.25, "max": 701.5, "ceiling": 241.75, "share": 2.5}
    files = {
        "machine.json": {"machine": "card", "cpu": "a card", "num_cpu": "16", "ram": "1 GB", "arch": "x86_64"},
        "../benchmarks.json": units,
        "report-cuda.json": ABOUT
        | {"rows": [row("hive", 0.5, 0.03), row("hive", 0.8, 0.04), row("stadium", 0.8, 0.05)]},
        "aaaaaaaa-e.json": asv("aaaaaaaa", 1, [0.125, None]),
        "bbbbbbbb-e.json": asv("bbbbbbbb", 2, [0.0625, 0.25]),
        "verbs-cuda.json": ABOUT | {"rows": [{"verb": "unique", "keys": "1,000", "who": "gh", **verbs}]},
        "everyday.json": ABOUT
        | {"rows": [{"verb": "isin", "column": "words", "who": "gh", "M/s": 41.5, "ceiling": 60.5, "share": 0.75}]},
        "skew-cuda.json": ABOUT
        | {"rows": [{"distribution": "one", "who": "cupy", "median": 1.5, "min": 1.25, "max": 2.5}]},
        "gpu-user.json": ABOUT
        | {
            "rows": [
                {"what": f"host time of a call, {n} keys, torch", "with": "hive", "figures": {"find": us}}
                for n, us in (("1", 5.5), ("1,024", 6.5))
            ]
        },
    }
    for name, record in files.items():
        (card / name).write_text(json.dumps(record))
    return tmp_path / "results"


def test_a_small_page(results):
    text, left_out = page.build(results)
    assert left_out == []
    parsed = Page(text)
    assert parsed.sections == [
        "structures-by-load",
        "history",
        "users-calls",
        "verbs-beside-other-libraries",
        "machines",
    ]
    assert parsed.fetched == []
    titles = ["find_hit", "FindHit, 2^27, 0.8, 4+4", "hive, arrays of torch", "gpu_calls.OneKey.track_array_us"]
    assert parsed.plots == [*titles, "isin", "counting", "unique"]
    assert check_figures(parsed, results) > 30
    history = parsed.tables[1]
    shown = {(line[2][0], line[3][0]): (line[4][1], line[7][1]) for line in history[1:]}
    assert shown["hive", "aaaaaaaa"] == ("0.125", repr(0.02 / 0.125))
    assert set(shown) == {("hive", "aaaaaaaa"), ("hive", "bbbbbbbb"), ("stadium", "bbbbbbbb")}
    assert "share of the ceiling" in text
    assert "A &lt;card&gt;; commit 01234567, with local changes; 2026-01-02" in text
    assert parsed.tables[-1][1][-1][0] == "aaaaaaaa, bbbbbbbb, 01234567"


def test_history_without_a_ceiling_is_of_times(results):
    (results / "card" / "report-cuda.json").unlink()
    text = "".join(page.history(committed.read(results)))
    assert "share of the ceiling" not in text
    assert "ns/key" in text


def of_tables(commit, date, ns, ceiling=None):
    """A record of a card, with the ceiling of its own run or without one."""
    axes, version = [["'hive'"], ["'insert'"], ["'4+4, 2^20 keys'"]], ["1", 0, None]
    results = {"gpu_tables.Tables.track_key_ns": [[ns], axes, *version]}
    if ceiling:
        results["gpu_machine.TableCeiling.track_key_ns"] = [[ceiling], axes[1:], *version]
        results["gpu_tables.Tables.track_times_ceiling"] = [[ns / ceiling], axes, *version]
    record = asv(commit, date, [0.5, 0.5]) | {"results": results}
    return record | ({"card": {"model": "a card", "memory_clock_mhz": 2619}} if ceiling else {})


@pytest.mark.parametrize("older", [False, True])
def test_a_slower_card_is_no_slower_library(results, older):
    """A figure is the share of the ceiling of its own run; where an older record has none, times are drawn beside."""
    listed = json.loads((RESULTS / "benchmarks.json").read_text())
    units = json.loads((results / "benchmarks.json").read_text())
    units |= {name: of for name, of in listed.items() if ".Table" in name and name.startswith("gpu_")}
    (results / "benchmarks.json").write_text(json.dumps(units))
    records = {"cccccccc": (3, 0.5, 0.25), "dddddddd": (4, 1.0, 0.5)} | ({"eeeeeeee": (2, 0.5)} if older else {})
    for commit, record in records.items():
        (results / "card" / f"{commit}-campaign.json").write_text(json.dumps(of_tables(commit, *record)))
    text, left_out = page.build(results)
    assert left_out == []
    parsed = Page(text)
    check_figures(parsed, results)
    shown = {
        line[3][0]: (line[4][1], line[6][1], line[7][1]) for line in parsed.tables[1][1:] if ".Tables." in line[0][0]
    }
    expected = {"cccccccc": ("0.5", "0.25", "0.5"), "dddddddd": ("1.0", "0.5", "0.5")}
    assert shown == expected | ({"eeeeeeee": ("0.5", None, None)} if older else {})
    assert [title.startswith("Tables, insert") for title in parsed.plots].count(True) == 1 + older
    machine = dict(zip((cell[0] for cell in parsed.tables[-1][0]), parsed.tables[-1][1], strict=True))
    assert machine["card's memory, MHz"][1] == "2619"


BROKEN = {
    "a card": (json.dumps(asv("c", 1, [0.5, 1.5]) | {"card": "no object"}), "its card is no object"),
    "no JSON": ("{", "it is no JSON"),
    "a list": ("[1]", "it is no object"),
    "no commit": (json.dumps({"rows": []}), "it has no 'commit'"),
    "no rows": (json.dumps(ABOUT | {"rows": 3}), "its rows are no list"),
    "a number": (json.dumps(ABOUT | {"rows": [1]}), "row 0 has no 'backend'"),
    "no figure": (json.dumps(ABOUT | {"rows": [row("hive", 0.5, 0.5) | {"ns_per_key": None}]}), "no 'ns_per_key'"),
    "NaN": (
        json.dumps(ABOUT | {"rows": [row("hive", 0.5, 0.5) | {"ns_per_key": float("nan")}]}),
        "'ns_per_key' is nan",
    ),
    "asv": (json.dumps(asv("c", 1, [0.5])), "1 values for 2 parameters"),
    "a year": (json.dumps(ABOUT | {"rows": [], "date": 2026}), "its commit, date or device is no text"),
    "no results": (json.dumps(asv("c", 1, [0.5, 1.5]) | {"results": 1}), "its results are no object"),
    "parameters": (
        json.dumps(asv("c", 1, [0.5]) | {"results": {"a": [[0.5], [[1]], "1"]}}),
        "a has parameters that are no text",
    ),
    "no date": (json.dumps(asv("c", None, [0.5, 1.5])), "it has no commit or date"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_named_and_left_out(results, how):
    text, words = BROKEN[how]
    (results / "card" / "report-cpu.json").write_text(text)
    found = committed.read(results)
    [line] = found.left_out
    assert line.startswith("card/report-cpu.json: ")
    assert words in line
    assert len(found.sources) == 7


def places(value, path=()):
    """Paths to all that is in a record."""
    yield path
    for key, of in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(of, (*path, key))


@pytest.mark.slow
def test_whatever_is_wrong_there_is_a_page(results, monkeypatch):
    """Each value in each file is another one, or is not there."""
    for kind in (page.Chart, page.Bars):
        monkeypatch.setattr(kind, "svg", lambda chart: str(chart))
    for path in results.rglob("*.json"):
        good = path.read_text()
        for *way, last in filter(None, places(json.loads(good))):
            for wrong in (None, 0, "x", [], {}, "gone"):
                record = part = json.loads(good)
                for key in way:
                    part = part[key]
                part[last] = wrong
                if wrong == "gone":
                    del part[last]
                path.write_text(json.dumps(record))
                assert "</html>" in page.build(results)[0]
        path.write_text(good)


def test_a_broken_list_of_benchmarks_is_named(results):
    (results / "benchmarks.json").write_text('{"gpu_tables.FindHit.track_ns_per_key": {"unit": "ns"}}')
    found = committed.read(results)
    line = "benchmarks.json: gpu_tables.FindHit.track_ns_per_key has no names of parameters, no unit or no version"
    assert found.left_out == [line]
    assert "FindHit" not in "".join(page.history(found))


def test_results_of_a_version_with_other_parameters_are_not_shown(results):
    older = asv("aaaaaaaa", 1, [0.125, 0.5])
    older["results"]["gpu_tables.FindHit.track_ns_per_key"][1].pop(1)
    (results / "card" / "aaaaaaaa-e.json").write_text(json.dumps(older))
    found = committed.read(results)
    assert found.left_out == []
    assert "FindHit" not in "".join(page.history(found))  # one commit is no history


def test_broken_files_are_said(results, monkeypatch, capsys, tmp_path):
    """On the page, too."""
    broken = results / "broken"
    (broken / "card").mkdir(parents=True)
    (broken / "card" / "report-cpu.json").write_text("<")
    monkeypatch.setattr(report, "build", lambda: page.build(broken))
    assert report.main(["--html", str(tmp_path / "page.html")]) == 0
    assert "left out: card/report-cpu.json: it is no JSON" in capsys.readouterr().err
    assert "Left out: card/report-cpu.json: it is no JSON" in (tmp_path / "page.html").read_text()
    assert report.main(["--html", str(tmp_path / "no" / "page.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_only_what_is_committed_counts(results):
    """A file that git does not know, or that is changed, is not used."""

    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=results, check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "results")
    shutil.copy(results / "card" / "verbs-cuda.json", results / "card" / "verbs-cpu.json")
    changed = results / "card" / "everyday.json"
    changed.write_text(changed.read_text().replace("41.5", "99.5"))
    kinds = [source.path for source in committed.read(results).sources]
    assert "card/verbs-cuda.json" in kinds
    assert "card/verbs-cpu.json" not in kinds
    assert "card/everyday.json" not in kinds


def test_the_kinds_of_rows_are_those_of_the_committed_files():
    """No committed file of results is broken, and the page has some of each kind that there is."""
    found = committed.read(RESULTS)
    assert found.left_out == []
    assert {"report", "verbs", "skew", "gpu-user", "asv"} <= {source.kind for source in found.sources}


@pytest.mark.slow
def test_the_page_of_the_committed_results_in_chromium(tmp_path):
    """Plots and tables are there and can be sorted, no error at wide and narrow width, nothing is cut off."""
    out = tmp_path / "page.html"
    assert report.main(["--html", str(out)]) == 0
    parsed = Page(out.read_text())
    assert parsed.fetched == []
    assert len(parsed.plots) > 40
    assert check_figures(parsed, RESULTS) > 1000
    with chromium.browser() as browser:
        for width, scheme in ((1200, "light"), (380, "dark")):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said, asked = [], []
            tab.on("console", lambda message, said=said: said.append(message.text))
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(out.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            drawn = tab.evaluate("[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().width)")
            assert len(drawn) == len(parsed.plots)
            assert all(300 < wide <= width for wide in drawn)
            small = "e => e.getBoundingClientRect().height"
            heights = tab.evaluate(f"[...document.querySelectorAll('svg text')].map({small})")
            assert min(heights) > 8, "text that cannot be read"
            tab.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
            column = "[...document.querySelector('table').tBodies[0].rows].map(r => Number(r.cells[5].dataset.value))"
            for order in ("ascending", "descending"):
                tab.evaluate("document.querySelectorAll('table th')[5].click()")
                values = tab.evaluate(column)
                assert len(values) > 20
                assert values == sorted(values, reverse=order == "descending")
            assert said == []
            assert asked == [out.as_uri()]
        pictures(browser, out.as_uri())


OF_HISTORY = """
for (const section of document.querySelectorAll("section")) if (section.id != "history") section.remove();
const own = document.querySelector("#history");
own.querySelector("p").remove();
const first = [...own.querySelectorAll("h3")].findIndex(head => head.textContent == "intel-xeon-16, cpu_tables");
const kept = [...own.children].indexOf(own.querySelectorAll("h3")[first]);
[...own.children].forEach((of, i) => { if (i > 0 && i < kept) of.remove(); });
"""


def pictures(browser, address):
    """What docs/benchmarks.md shows, into build/page: the history of one machine, and the page on a phone."""
    folder = Path(__file__).resolve().parents[2] / "build" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    for name, wide, high, script in (("history", 1280, 1185, OF_HISTORY), ("narrow", 400, 1100, "")):
        tab = browser.new_page(viewport={"width": wide, "height": high}, color_scheme="light")
        tab.goto(address)
        tab.evaluate(f"() => {{{script}}}")
        tab.screenshot(path=folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size > 10_000


def test_figures_are_shown_with_three_digits():
    shown = {
        0.0: "0.00",
        0.01234: "0.0123",
        5.0: "5.00",
        12.345: "12.3",
        99.96: "100.",
        123.4: "123",
        1234567.8: "1,234,568",
    }
    assert {value: page.number(value) for value in shown} == {v: text.rstrip(".") for v, text in shown.items()}
    assert page.cell((1.0, 4.0)) == '<td data-value="0.25" class="ratio">0.250</td>'
    assert page.cell(12345) == '<td data-value="12345">12,345</td>'
    assert page.cell("a<b") == "<td>a&lt;b</td>"
    assert page.cell(None) == "<td></td>"
    assert re.search("data-value", page.cell(float("nan"))) is None
