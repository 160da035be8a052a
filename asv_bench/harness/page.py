"""The committed results as one page of HTML, which needs no network: plots, and tables that can be sorted.

Every figure of a table is one of a file of results, or the ratio of two in its row. `data-value` has all its digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from .card import RATIO
from .charts import Bars, Chart
from .committed import Committed, Point, Source, is_number, points, read
from .results import RESULTS
from .runs import OPERATIONS

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 0 12px; max-width: 1180px }
body { color: #222; background: #fff }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #16181b } a { color: #8ab4f8 } }
h2 { margin-top: 2em } h3 { margin-bottom: .2em } h3, p { overflow-wrap: anywhere }
p { margin: .3em 0; max-width: 46em }
nav a { margin-right: 1em; white-space: nowrap }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)) }
.plots { gap: 16px; align-items: start }
figure { margin: 0 } .plots svg { display: block; width: 100%; height: auto }
.wide { overflow-x: auto; margin: .5em 0 }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums }
th, td { padding: 2px 9px; text-align: left; border-bottom: 1px solid #8884; white-space: nowrap }
th { cursor: pointer }
th[aria-sort=ascending]::after { content: " \\2191" }
th[aria-sort=descending]::after { content: " \\2193" }
td[data-value] { text-align: right }
"""
SCRIPT = """
for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const table = head.closest("table"), column = head.cellIndex, up = head.getAttribute("aria-sort") != "ascending";
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const compare = (a, b) => isNaN(a) || isNaN(b) || a === "" || b === "" ? a.localeCompare(b) : a - b;
  const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b)));
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  table.tBodies[0].append(...rows);
});
"""


CALLS = r"_calls\.|\.One(Key|Number)\."  # benchmarks of what a user calls

# ---- parts of the page -----------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def cell(value: Any) -> str:
    """One cell. A ratio is a pair (figure, reference)."""
    if isinstance(value, tuple):
        return f'<td data-value="{value[0] / value[1]!r}" class="ratio">{number(value[0] / value[1])}</td>'
    if is_number(value):
        shown = f"{value:,}" if isinstance(value, int) else number(value)
        return f'<td data-value="{value!r}">{shown}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in a box of its own, which can be scrolled on a phone, behind a line that opens it."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "\n".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>\n{lines}\n</tbody></table>"
    return f'<details><summary>{len(rows)} rows</summary><div class="wide">{inner}</div></details>'


def plots(charts: Iterable[Chart | Bars]) -> str:
    """Plots beside each other where there is room."""
    return '<div class="plots">' + "\n".join(f"<figure>{chart.svg()}</figure>" for chart in charts) + "</div>"


def bars(title: str, unit: str, rows: Sequence[tuple[str, str, float]]) -> Bars:
    """Rows of (group, series, figure)."""
    groups, names = (list(dict.fromkeys(row[i] for row in rows)) for i in (0, 1))
    chart = Bars(title, unit, groups)
    known = {row[:2]: row[2] for row in rows}
    for name in names:
        chart.add(name, [known.get((group, name)) for group in groups])
    return chart


# ---- sections --------------------------------------------------------------------------------------------------------


def _by_load(source: Source) -> Iterator[str]:
    rows = [row for row in source.record["rows"] if row["load"] is not None]
    charts: list[Chart | Bars] = []
    for operation in OPERATIONS:
        chart = Chart(operation, "load", "ns per key", "4+4 bytes; less is better")
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if (row["operation"], row["key_bytes"], row["value_bytes"]) == (operation, 4, 4) and not row["options"]:
                lines.setdefault(row["backend"], []).append((row["load"], row["ns_per_key"]))
        for backend, line in sorted(lines.items()):
            chart.line(backend, line)
        charts += [chart] if chart.lines else []
    yield f"<h3>{escape(source.path)}</h3><p>{escape(source.about)}</p>"
    if source.path.count("/") == 1:  # below are variants: other options, other loads
        yield plots(charts)
    header = (
        "table",
        "operation",
        "load",
        "bytes",
        "keys",
        "ns per key",
        "ceiling, ns",
        "of the ceiling",
        "bytes per key",
    )
    yield table(
        header,
        [
            (
                " ".join([row["backend"], *(f"{key}={value}" for key, value in row["options"].items())]),
                row["operation"],
                row["load"],
                f"{row['key_bytes']}+{row['value_bytes']}",
                row["n"],
                row["ns_per_key"],
                row["ceiling_ns"],
                row["ratio"],
                row["bytes_per_key"],
            )
            for row in source.record["rows"]
        ],
    )


def structures(found: Committed) -> Iterator[str]:
    """Structures by load, and in the tables other libraries."""
    yield "<p>Time of each operation beside that of the memory accesses that it cannot do without.</p>"
    for source in found.of("report"):
        yield from _by_load(source)


def _ceilings(found: Committed) -> dict[tuple[str, ...], float]:
    """Nanoseconds of the ceiling, by machine, table, operation, log2 of the keys, load and bytes; the latest."""
    known = {}
    for source in sorted(found.of("report"), key=lambda source: source.record["date"]):
        for row in source.record["rows"]:
            if row["load"] is not None and row["ceiling_ns"] and not row["options"]:
                kind = "gpu_tables" if "cuda" in source.record["devices"] else "wall_clock"
                title = f"{kind}.{row['operation'].title().replace('_', '')}.track_ns_per_key"
                of = (f"2^{row['n'].bit_length() - 1}", str(row["load"]), f"{row['key_bytes']}+{row['value_bytes']}")
                known[source.machine, title, row["backend"], *of] = row["ceiling_ns"]
    return known


OF_THE_RECORD = {"gpu_tables.Tables.track_key_ns": "gpu_machine.TableCeiling.track_key_ns"}  # figure -> its ceiling


def _own_ceilings(source: Source, found: Committed) -> dict[tuple[str, ...], float]:
    """The ceilings that the record itself has, by benchmark and parameters but the structure."""
    own = list(points(source, found.units))
    return {
        (benchmark, *point.params.values()): point.value
        for benchmark, ceiling in OF_THE_RECORD.items()
        for point in own
        if point.benchmark == ceiling
    }


def _is_shown(point: Point) -> bool:
    """Of a structure, at the usual load and widths; calls have a section of their own, shares are made from times."""
    usual = {"load": "0.8", "key+value bytes": "4+4"}
    if "backend" not in point.params or re.search(CALLS, point.benchmark) or point.benchmark.endswith(RATIO):
        return False
    return all(point.params.get(name, value) == value for name, value in usual.items())


Dated = tuple[int, str, str, Point, float | None]  # date, machine, commit, figure, ceiling


def _history(found: Committed) -> dict[tuple[str, ...], list[Dated]]:
    """Figures by machine, benchmark and parameters but the structure, of more than one commit."""
    ceilings, courses = _ceilings(found), {}
    for source in found.of("asv"):
        beside = _own_ceilings(source, found)
        for point in filter(_is_shown, points(source, found.units)):
            if point.version != found.units[point.benchmark]["version"]:
                continue
            others = tuple(value for name, value in point.params.items() if name != "backend")
            ceiling = beside.get((point.benchmark, *others))
            ceiling = ceiling or ceilings.get((source.machine, point.benchmark, point.params["backend"], *others))
            dated = (source.record["date"], source.machine, source.commit, point, ceiling)
            courses.setdefault((source.machine, point.benchmark, *others), []).append(dated)
    return {key: course for key, course in sorted(courses.items()) if len({dated[2] for dated in course}) > 1}


def _charts(key: tuple[str, ...], course: list[Dated], unit: str) -> list[Chart]:
    """Shares of a ceiling, if two commits have one; times, unless all have."""
    shares = [dated for dated in course if dated[4] and dated[3].value]
    charts = [_course(key, shares, unit, True)] if len({dated[2] for dated in shares}) > 1 else []
    return charts if charts and len(shares) == len(course) else [_course(key, course, unit, False), *charts]


def _course(key: tuple[str, ...], course: list[Dated], unit: str, relative: bool) -> Chart:
    commits = list(dict.fromkeys(commit for _, _, commit, _, _ in sorted(course, key=lambda dated: dated[:3])))
    title = f"{key[1].partition('.')[2].partition('.')[0]}, {', '.join(key[2:])}".rstrip(", ")
    label = "share of the ceiling" if relative else unit
    chart = Chart(title, "commit", label, f"{key[0]}, {key[1]}; {'more' if relative else 'less'} is better")
    step = -(-len(commits) // 4)
    chart.x_ticks = [(i, commit[:7]) for i, commit in enumerate(commits) if i % step == 0]
    lines: dict[str, list[tuple[float, float]]] = {}
    for _, _, commit, point, ceiling in course:
        height = ceiling / point.value if relative and ceiling else point.value
        lines.setdefault(point.params["backend"], []).append((commits.index(commit), height))
    for backend, line in sorted(lines.items()):
        chart.line(backend, line)
    return chart


def history(found: Committed) -> Iterator[str]:
    """Structures and operations over commits."""
    yield (
        "<p>Load 0.8 and 4+4 bytes, where a benchmark has these. A share is of the ceiling that was measured in the "
        "same run, else of the one that a report of the machine has for such a table; without one, the time is shown. "
        "Commits are in order, at equal distances.</p>"
    )
    courses = _history(found)
    for (machine, module), of in groupby(courses.items(), lambda item: (item[0][0], item[0][1].partition(".")[0])):
        own = list(of)
        yield f"<h3>{escape(machine)}, {escape(module)}</h3>"
        yield plots(chart for key, course in own for chart in _charts(key, course, found.units[key[1]]["unit"]))
        header = ("benchmark", "parameters", "table", "commit", "figure", "unit", "ceiling, ns", "of the ceiling")
        yield table(
            header,
            [
                (
                    key[1],
                    ", ".join(key[2:]),
                    point.params["backend"],
                    commit,
                    point.value,
                    found.units[key[1]]["unit"],
                    ceiling,
                    (ceiling, point.value) if ceiling and point.value else None,
                )
                for key, course in own
                for _, _, commit, point, ceiling in course
            ],
        )


def _host_times(source: Source) -> list[Chart | Bars]:
    """Host time of a call by its keys."""
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in source.record["rows"]:
        if asked := re.fullmatch(r"host time of a call, ([\d,]+) keys, (\w+)", row["what"]):
            for name, value in row["figures"].items():
                if is_number(value):
                    of = lines.setdefault(f"{row['with']}, arrays of {asked[2]}", {}).setdefault(name, [])
                    of.append((int(asked[1].replace(",", "")), value))
    charts: list[Chart | Bars] = []
    for title, of in lines.items():
        charts.append(Chart(title, "keys", "us", "host time of a call", "log2"))
        for name, line in of.items():
            charts[-1].line(name, line)
    return charts


def _figures(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def calls(found: Committed) -> Iterator[str]:
    """What a user calls: on a GPU by gpu_user, else by asv."""
    for source in found.of("gpu-user"):
        yield f"<h3>{escape(source.path)}</h3><p>{escape(source.about)}</p>"
        if charts := _host_times(source):
            yield plots(charts)
        rows = [
            (row["what"], row["with"], name, value)
            for row in source.record["rows"]
            for name, values in row["figures"].items()
            for value in _figures(values)
            if is_number(value)
        ]
        yield table(("what", "with", "figure", "value"), rows)
    for machine, of in groupby(found.of("asv"), lambda source: source.machine):
        latest: dict[tuple[str, ...], tuple[int, str, Point]] = {}
        for source in of:
            for point in points(source, found.units):
                if re.search(CALLS, point.benchmark):
                    key = (point.benchmark, *point.params.values())
                    latest[key] = max(
                        latest.get(key, (0, "", point)),
                        (source.record["date"], source.commit, point),
                        key=lambda item: item[0],
                    )
        if latest:
            yield f"<h3>{escape(machine)}, asv</h3>" + plots(_call_bars(found, machine, list(latest.values())))
            rows = [
                (
                    point.benchmark,
                    ", ".join(point.params.values()),
                    commit,
                    point.value,
                    found.units[point.benchmark]["unit"],
                )
                for _, commit, point in latest.values()
            ]
            yield table(("benchmark", "parameters", "commit", "figure", "unit"), rows)


def _call_bars(found: Committed, machine: str, latest: Sequence[tuple[int, str, Point]]) -> list[Chart | Bars]:
    charts: list[Chart | Bars] = []
    for benchmark, own in groupby(sorted(latest, key=lambda item: item[2].benchmark), lambda item: item[2].benchmark):
        rows = []
        for _, _, point in own:
            backend, *others = point.params.values()
            rows.append((", ".join(others) or "all", backend, point.value))
        charts.append(bars(benchmark, found.units[benchmark]["unit"], rows))
        charts[-1].note = f"{machine}; the latest figure of each; less is better"
    return charts


OF_VERBS = {
    "verbs": ("verb", "keys", "median"),
    "everyday": ("verb", "column", "M/s"),
    "skew": ("", "distribution", "median"),
}  # columns: the verb, what is beside each other, the figure


def verbs(found: Committed) -> Iterator[str]:
    """Verbs and counting beside other libraries."""
    for source in found.of(*OF_VERBS):
        verb, group, figure = OF_VERBS[source.kind]
        rows: dict[str, list[tuple[str, str, float]]] = {}
        for row in source.record["rows"]:
            rows.setdefault(row.get(verb, "counting"), []).append((row[group], row["who"], row[figure]))
        charts = [bars(name, "million elements a second", own) for name, own in rows.items()]
        for chart in charts:
            chart.note = "more is better"
        yield f"<h3>{escape(source.path)}</h3><p>{escape(source.about)}</p>"
        yield plots(charts)
        columns = list(dict.fromkeys(key for row in source.record["rows"] for key in row))
        yield table(columns, [[row.get(column) for column in columns] for row in source.record["rows"]])


def machines(found: Committed) -> Iterator[str]:
    """Facts of each machine, and what there is of it."""
    rows = []
    for name, facts in sorted(found.machines.items()):
        own = [source for source in found.sources if source.path.rpartition("/")[0] == name]
        commits = ", ".join(dict.fromkeys(source.commit for source in own))
        cards = [source.record.get("card", {}).get("memory_clock_mhz") for source in own]
        clock = next((clock for clock in cards if clock), None)
        rows.append((name, *(facts.get(key) for key in ("cpu", "num_cpu", "ram", "arch")), clock, commits))
    header = ("machine", "processor and card", "CPUs", "memory", "architecture", "card's memory, MHz", "commits")
    yield table(header, rows)


SECTIONS = {
    "Structures by load": structures,
    "History": history,
    "Users' calls": calls,
    "Verbs beside other libraries": verbs,
    "Machines": machines,
}


def build(results: Path = RESULTS) -> tuple[str, list[str]]:
    """The page, and which files were left out and why."""
    found = read(results)
    ids = {title: re.sub(r"\W+", "-", title.lower()) for title in SECTIONS}
    links = " ".join(f'<a href="#{of}">{escape(title)}</a>' for title, of in ids.items())
    body = [f"<h1>gpuhash: measured</h1><nav>{links}</nav>"]
    body.append("<p>From the results that are committed in asv_bench/results. A click on a column sorts by it.</p>")
    if found.left_out:
        body.append(f"<p>Left out: {escape('; '.join(found.left_out))}</p>")
    for title, section in SECTIONS.items():
        parts = [part for part in section(found) if part]
        body += [f'<section id="{ids[title]}"><h2>{escape(title)}</h2>', *parts, "</section>"]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>gpuhash: measured</title><style>{STYLE}</style>"
    text = "\n".join(body)
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{text}\n<script>{SCRIPT}</script></body></html>\n'
    )
    return page, found.left_out
