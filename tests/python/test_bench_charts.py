"""Charts of the benchmarks: all marks lie inside, texts can be read, and colours differ."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
charts = pytest.importorskip("asv_bench.harness.charts", reason="asv_bench is in a checkout of the repository only")
pytest.importorskip("matplotlib", reason="needs matplotlib")


def texts(drawn: str) -> str:
    return " ".join(" ".join(element.text.split()) for element in ET.fromstring(drawn).iter() if element.text)


def colours_of_lines(drawn: str) -> list[str]:
    return re.findall(r'style="fill: none; stroke: (#\w{6}); stroke-width: 1.5', drawn)


def lines(many: int, **scales):
    chart = charts.Chart("Search <rate>", "elements", "M keys/s", "the machine; median of 5 repeats " * 6, **scales)
    for i in range(many):
        chart.line(f"table {i}", [(2.0**k, k + i + 1.0, k + i + 0.5, k + i + 2.0) for k in range(4)])
    return chart


@pytest.mark.parametrize(("many", "parts"), [(1, [1]), (8, [8]), (9, [5, 4]), (17, [6, 6, 5])])
def test_eight_series_in_a_plot_and_no_colour_twice(many, parts):
    assert [len(part) for part in charts.plots(range(many))] == parts
    assert [series for part in charts.plots(range(many)) for series in part] == list(range(many))
    assert len(set(charts.COLOURS)) == len(charts.MARKERS) == charts.MOST == 8


@pytest.mark.parametrize("scale", ["linear", "log", "log2"])
def test_lines_as_text_without_a_background(scale):
    drawn = lines(9, x_scale=scale, y_scale=scale).svg()
    assert [f"table {i}" in texts(drawn) for i in range(9)] == [True] * 9
    for words in ("Search <rate>", "elements", "M keys/s", "the machine; median"):
        assert words in texts(drawn)
    used = list(dict.fromkeys(re.findall(r"#[0-9A-F]{6}", drawn, re.IGNORECASE)))
    assert {colour.upper() for colour in used} == {colour.upper() for colour in charts.COLOURS[:5]}
    assert "currentColor" in drawn
    assert not re.search(r'<svg[^>]* (width|height)="', drawn)
    assert not re.search(r'<g id="', drawn)


def test_a_file_is_the_same_each_time_and_is_of_both_colours(tmp_path):
    for name in ("a.svg", "b.svg"):
        lines(2).save(tmp_path / "new folder" / name)
    first, second = ((tmp_path / "new folder" / name).read_text() for name in ("a.svg", "b.svg"))
    assert first == second
    assert "prefers-color-scheme: dark" in first
    assert ET.fromstring(first).get("width") == "640"


def test_bars_and_ceilings():
    chart = charts.Bars("Title", "M keys/s", ["a", "b"], "note")
    chart.add("one", [10, 5], [None, 10])
    chart.add("two", [None, 20])
    bar = re.compile(r'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*" clip-path[^>]*style="fill: (#\w+)')
    widths = {colour: [] for colour in charts.COLOURS[:2]}
    for start, end, colour in bar.findall(chart.svg()):
        widths[colour.upper()].append(float(end) - float(start))
    long, short = widths[charts.COLOURS[0]]
    assert widths[charts.COLOURS[0]] == pytest.approx([2 * short, long / 2], abs=0.1)
    assert widths[charts.COLOURS[1]] == pytest.approx([2 * long], abs=0.1)
    assert "ceiling" in texts(chart.svg())
    with pytest.raises(ValueError, match="1 bars, 1 ceilings, 2 groups"):
        chart.add("three", [1])
    with pytest.raises(ValueError, match="'none' has no points"):
        lines(1).line("none", [])


@pytest.mark.parametrize("many", [1, 3, 8, 12])
@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_nothing_is_cut_off(kind, many, monkeypatch):
    """What matplotlib has drawn lies on its canvas, legends and notes too, and no text on another."""
    from matplotlib.figure import Figure

    saved, seen = Figure.savefig, []

    def look(figure, *rest, **more):
        figure.draw_without_rendering()
        edge = figure.bbox
        boxes = [part.get_tightbbox() for part in figure.axes]
        boxes += [
            part.get_window_extent() for part in (*figure.texts, *figure.legends) if part.get_window_extent().width
        ]
        for i, box in enumerate(boxes):
            assert edge.x0 <= box.x0 <= box.x1 <= edge.x1
            assert edge.y0 <= box.y0 <= box.y1 <= edge.y1
            assert not any(box.overlaps(other) for other in boxes[:i])
        seen.extend(boxes)
        saved(figure, *rest, **more)

    monkeypatch.setattr(Figure, "savefig", look)
    chart = lines(many)
    if kind == "bars":
        chart = charts.Bars("Title", "M keys/s", [f"group {i}" for i in range(many)], "a note " * 20)
        for i in range(4):
            chart.add(f"pandas.Series.value_counts {i}", [1.0] * many)
    chart.svg()
    assert len(seen) >= 3


def test_a_missing_matplotlib_is_said_before_anything_is_measured(monkeypatch, capsys):
    from asv_bench import figures, report

    monkeypatch.setattr(charts.importlib.util, "find_spec", lambda name: None)
    assert figures.main(["slab_hash", "4c"]) == 2
    assert report.main(["--n", "1000"]) == 2
    said = capsys.readouterr()
    assert said.err.count("plots need matplotlib: pip install matplotlib") == 2
    assert said.out == ""
