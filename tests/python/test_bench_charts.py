"""Charts of the benchmarks: all that is drawn lies inside, and can be read."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
svg = pytest.importorskip("asv_bench.harness.svg", reason="asv_bench is in a checkout of the repository only")

TEXT = "{http://www.w3.org/2000/svg}text"


def drawn(chart) -> tuple[ET.Element, list[float]]:
    """The parsed file, and the heights of the points of its lines."""
    root = ET.fromstring(chart.svg())
    points = re.findall(r'<polyline points="([^"]*)"', chart.svg())
    return root, [float(point.split(",")[1]) for line in points for point in line.split()]


@pytest.mark.parametrize("values", [[-3.0, 4.0], [-5.0, -1.0], [2.0, 9.0], [7.0]], ids=str)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_points_lie_between_the_first_and_the_last_gridline(values, scale):
    if scale == "log" and min(values) <= 0:
        values = [2.0**value for value in values]
    chart = svg.Chart("Title", "x", "y", "note", y_scale=scale)
    chart.line("one", list(enumerate(values)))
    root, heights = drawn(chart)
    grid = [
        float(line.get("y1")) for line in root.iter("{http://www.w3.org/2000/svg}line") if line.get("class") == "grid"
    ]
    assert len(grid) >= 2
    assert min(grid) - 0.1 <= min(heights) <= max(heights) <= max(grid) + 0.1
    labels = [text.text for text in root.iter(TEXT) if text.get("text-anchor") == "end"]
    assert scale == "log" or "0" in labels, "bars and lines are compared from zero"


def test_larger_values_lie_higher():
    scale = svg.Scale("linear", 0, 10, 300, 100)
    assert [scale(value) for value in (0, 5, 10)] == [300, 200, 100]
    assert [svg._short(value) for value in (999, 1000, 12_000, 2.5e6, 3e9)] == ["999", "1k", "12k", "2.5M", "3G"]
    chart = svg.Bars("Title", "y", ["a", "b"], "note")
    chart.add("one", [10, 5], [None, 10])
    bars = [rect for rect in ET.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}rect") if rect.get("height")]
    tops, heights = ([float(bar.get(name)) for bar in bars if bar.get("rx") == "1.5"] for name in ("y", "height"))
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    assert tops[0] + heights[0] == pytest.approx(tops[1] + heights[1], abs=0.2)
    assert f'y1="{tops[0]:.1f}" y2="{tops[0]:.1f}"' in chart.svg()  # the ceiling of the second group


@pytest.mark.parametrize("words", [0, 5, 60])
def test_a_long_note_has_several_lines(words):
    chart = svg.Chart("Title", "x", "y", " ".join(["measured"] * words))
    chart.line("one", [(1, 1), (2, 2)])
    root, heights = drawn(chart)
    notes = [text for text in root.iter(TEXT) if text.get("class") == "note"]
    assert " ".join(text.text or "" for text in notes).split() == ["measured"] * words
    assert all(len(text.text or "") <= svg.NOTE_WIDTH for text in notes)
    assert max(int(text.get("y")) for text in notes) < min(heights)
