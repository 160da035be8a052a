"""Plots as SVG, drawn by matplotlib: lines and bars that can be read on light and dark pages, and on a phone.

chart = Chart("Search rate", x_label="memory utilisation", y_label="M keys/s")
chart.line("all exist", [(0.1, 900), (0.6, 880)])
chart.save(path)

There are eight colours that differ for every eye. A chart of more series has several plots, one below the other.
"""

from __future__ import annotations

import importlib.util
import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from .devices import Unavailable

# Okabe and Ito's palette: its colours differ for every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#B8A700")
MARKERS = "osD^vPX*"
MOST = len(COLOURS)
WIDTH, HEIGHT, LINE = 5.0, 2.1, 0.19  # inches: of a chart, of the axes of lines, of a line of text
LEFT, AROUND = 0.75, 0.6  # inches: for the labels of the y axis, for those of the x axis
LETTERS = 68  # of a line of the note
INK = "#010203"  # stands for the colour of the text around the plot
STYLE = "svg { color: #222 } @media (prefers-color-scheme: dark) { svg { color: #ddd } }"
RC = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.18,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "grid.color": INK,
}

Series = TypeVar("Series")


def require_matplotlib() -> None:
    """Before anything is measured: no plot can be drawn without it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Unavailable("plots need matplotlib: pip install matplotlib")


def plots(series: Sequence[Series]) -> list[Sequence[Series]]:
    """In as few plots as have a colour for each, all nearly as full."""
    many = -(-len(series) // MOST)
    size = -(-len(series) // many)
    return [series[i : i + size] for i in range(0, len(series), size)]


def _picture(
    title: str, note: str, parts: Sequence[Sequence[Any]], tall: Callable[[Any], float], draw: Callable[..., float]
) -> str:
    """Axes for each part, as high as `tall` says, with a legend below: an SVG element without a size of its own.

    `draw` draws a part into its axes, and returns the inches that its labels at the left take."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    heads, notes = textwrap.wrap(title, LETTERS - 10), textwrap.wrap(note, LETTERS)
    columns = [max(1, min(3, 58 // (max(len(label) for label, *_ in part) + 7))) for part in parts]
    legends = [LINE * -(-(len(part) + 1) // many) for part, many in zip(parts, columns, strict=True)]
    height = LINE * (len(heads) + len(notes) + 1) + sum(legends) + sum(tall(part) + AROUND for part in parts)
    top = height - LINE * (len(heads) + 0.8)
    with rc_context({**RC, "svg.hashsalt": f"{title} {note}"}):
        figure = Figure(figsize=(WIDTH, height))
        left = {"x": 0.1 / WIDTH, "ha": "left", "va": "top"}
        figure.text(y=1 - 0.05 / height, s="\n".join(heads), fontsize=12, fontweight="bold", **left)
        for part, many, legend in zip(parts, columns, legends, strict=True):
            axes = figure.add_axes((0.1, (top - tall(part)) / height, 0.8, tall(part) / height))
            start = draw(axes, part) / WIDTH
            axes.set_position((start, (top - tall(part)) / height, 0.97 - start, tall(part) / height))
            top -= tall(part) + AROUND
            place = {"loc": "upper left", "bbox_to_anchor": (0.1 / WIDTH, (top + 0.08) / height), "borderaxespad": 0}
            figure.legend(*axes.get_legend_handles_labels(), ncols=many, fontsize=9, labelspacing=0.2, **place)
            top -= legend
        figure.text(y=(LINE * (len(notes) + 0.2)) / height, s="\n".join(notes), fontsize=8.5, **left)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Type", "Format")))
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    drawn = re.sub(r"<metadata>.*?</metadata>\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # which would be the same in each plot of a page
    drawn = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", drawn, count=1)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)


def _save(path: Path, drawn: str) -> None:
    """Write a file that can be looked at alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawn.replace(">", f' width="640"><style>{STYLE}</style>', 1))


@dataclass
class Chart:
    """Lines over a numeric axis. Scales are "linear", "log" or "log2"."""

    title: str
    x_label: str
    y_label: str
    note: str = ""
    x_scale: str = "linear"
    y_scale: str = "linear"
    lines: list[tuple[str, list[tuple[float, ...]]]] = field(default_factory=list)
    x_ticks: Sequence[tuple[float, str]] = ()  # instead of numbers

    def line(self, label: str, points: Sequence[tuple[float, ...]]) -> None:
        """One series of (x, y), or (x, y, least, most) where the spread is known."""
        if not points:
            raise ValueError(f"the line {label!r} has no points")
        self.lines.append((label, sorted(points)))

    def _draw(self, axes: Any, lines: Sequence[tuple[str, list[tuple[float, ...]]]]) -> float:
        for (label, points), colour, marker in zip(lines, COLOURS, MARKERS, strict=False):
            x, y, *spread = zip(*points, strict=True)
            axes.plot(x, y, color=colour, marker=marker if len(points) <= 80 else None, markersize=4, label=label)
            if spread:
                axes.fill_between(x, *spread, color=colour, alpha=0.15, linewidth=0)
        for set_scale, kind in ((axes.set_xscale, self.x_scale), (axes.set_yscale, self.y_scale)):
            if kind != "linear":
                set_scale("log", base=2 if kind == "log2" else 10)
        if self.y_scale == "linear" and all(y >= 0 for _, points in lines for _, y, *_ in points):
            axes.set_ylim(bottom=0)
        if self.x_ticks:
            axes.set_xticks(*zip(*self.x_ticks, strict=True))
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.yaxis.set_label_coords(-0.55 / (WIDTH * 0.97 - LEFT), 0.5)
        return LEFT

    def svg(self) -> str:
        """The chart as an SVG element."""
        return _picture(self.title, self.note, plots(self.lines), lambda _: HEIGHT, self._draw)

    def save(self, path: Path) -> None:
        """Write the file."""
        _save(path, self.svg())


@dataclass
class Bars:
    """Groups of bars from zero, each with a mark at its ceiling."""

    title: str
    y_label: str
    groups: Sequence[str]
    note: str = ""
    series: list[tuple[str, Sequence[float | None], Sequence[float | None]]] = field(default_factory=list)

    def add(self, label: str, heights: Sequence[float | None], ceilings: Sequence[float | None] = ()) -> None:
        """One bar per group; None where there is none."""
        ceilings = ceilings or [None] * len(heights)
        if not len(heights) == len(ceilings) == len(self.groups):
            raise ValueError(f"{label!r}: {len(heights)} bars, {len(ceilings)} ceilings, {len(self.groups)} groups")
        self.series.append((label, heights, ceilings))

    def _draw(self, axes: Any, series: Sequence[tuple[str, Sequence[float | None], Sequence[float | None]]]) -> float:
        wide, marked = 0.8 / len(series), False
        for i, ((label, heights, ceilings), colour) in enumerate(zip(series, COLOURS, strict=False)):
            places = [group - 0.4 + wide * (i + 0.5) for group in range(len(self.groups))]
            axes.barh(*_known(places, heights), wide * 0.92, color=colour, label=label)
            for place, ceiling in zip(*_known(places, ceilings), strict=True):
                ends = [place - wide / 2, place + wide / 2]
                axes.plot([ceiling] * 2, ends, color=INK, linewidth=1.5, label=None if marked else "ceiling")
                marked = True
        axes.set_yticks(range(len(self.groups)), self.groups)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(self.y_label)
        return 0.2 + 0.085 * max(map(len, self.groups))

    def svg(self) -> str:
        """The chart as an SVG element."""
        tall = LINE * 0.7 * len(self.groups)
        return _picture(self.title, self.note, plots(self.series), lambda part: 0.3 + tall * len(part), self._draw)

    def save(self, path: Path) -> None:
        """Write the file."""
        _save(path, self.svg())


def _known(places: Sequence[float], values: Sequence[float | None]) -> Iterator[list[float]]:
    """Places and values, of those that are there."""
    there = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
    yield [place for place, _ in there]
    yield [value for _, value in there]
