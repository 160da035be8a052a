"""Small plots as SVG: lines and grouped bars, readable on light and dark pages, with no dependency.

chart = Chart("Search rate", x_label="memory utilisation", y_label="M keys/s")
chart.line("all exist", [(0.1, 900), (0.6, 880)])
chart.save(path)
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

# Okabe and Ito's palette: its colours can be told apart with every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#B8A700")
MARKERS = ("circle", "square", "diamond", "triangle")
WIDTH, PLOT_HEIGHT = 760, 300
MARGIN, LEFT, RIGHT = 22, 82, 736  # of the text, of the plot
NOTE_WIDTH = 110  # characters of a line

STYLE = """
text { font-family: system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 13px; fill: #333 }
.title { font-size: 17px; font-weight: 600; fill: #111 }
.note { fill: #666; font-size: 12px }
.grid { stroke: #000; stroke-opacity: .1 }
.axis { stroke: #555 }
.ceiling { stroke: #111; stroke-width: 2; stroke-dasharray: 4 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc } .title { fill: #eee } .note { fill: #999 }
  .grid { stroke: #fff; stroke-opacity: .14 } .axis { stroke: #aaa } .ceiling { stroke: #eee }
}
"""


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _short(value: float) -> str:
    """A tick's label: 12,000 -> 12k."""
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{suffix}"
    return f"{value:g}"


def _power_of_two(value: float) -> str:
    return f"2^{round(math.log2(value))}"


def linear_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that span low .. high."""
    if high <= low:
        high = low + 1
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass
class Scale:
    """Maps values to pixels. `kind`: "linear", "log" (ticks at powers of ten) or "log2" (at powers of two)."""

    kind: str
    low: float
    high: float
    start: float
    end: float
    ticks: list[float] = field(init=False)

    def __post_init__(self) -> None:
        if self.kind == "linear":
            self.ticks = linear_ticks(self.low, self.high)
            self.low, self.high = self.ticks[0], self.ticks[-1]
            return
        base = 2.0 if self.kind == "log2" else 10.0
        first, last = math.floor(math.log(self.low, base) + 1e-9), math.ceil(math.log(self.high, base) - 1e-9)
        last = max(last, first + 1)
        every = max(1, (last - first) // 8)
        self.ticks = [base**i for i in range(first, last + 1, every)]
        self.low, self.high = base**first, base**last

    def __call__(self, value: float) -> float:
        if self.kind == "linear":
            share = (value - self.low) / (self.high - self.low)
        else:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    @property
    def label(self) -> Callable[[float], str]:
        return _power_of_two if self.kind == "log2" else _short


def _marker(shape: str, x: float, y: float, colour: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{colour}"/>'
    if shape == "square":
        return f'<rect x="{x - 3.3:.1f}" y="{y - 3.3:.1f}" width="6.6" height="6.6" fill="{colour}"/>'
    if shape == "diamond":
        corners = f"{x:.1f},{y - 4.6:.1f} {x + 4.6:.1f},{y:.1f} {x:.1f},{y + 4.6:.1f} {x - 4.6:.1f},{y:.1f}"
    else:
        corners = f"{x:.1f},{y - 4.4:.1f} {x + 4.4:.1f},{y + 3.6:.1f} {x - 4.4:.1f},{y + 3.6:.1f}"
    return f'<polygon points="{corners}" fill="{colour}"/>'


def _look(i: int) -> tuple[str, str]:
    """Colour and marker of line i: different ones for the first 32."""
    return COLOURS[i % len(COLOURS)], MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]


class Canvas:
    """The parts that every chart has: title, note, legend (label, SVG of a 22-pixel sample at the origin), axes."""

    def __init__(self, title: str, note: str, legend: Sequence[tuple[str, str]]) -> None:
        self.parts = [f'<text x="{MARGIN}" y="26" class="title">{escape(title)}</text>']
        y = 46
        for line in textwrap.wrap(note, NOTE_WIDTH) or [""]:
            self.parts.append(f'<text x="{MARGIN}" y="{y}" class="note">{escape(line)}</text>')
            y += 16
        x, y = float(MARGIN), y + 4
        for label, sample in legend:
            room = 28 + 7.0 * len(label) + 18
            if x > MARGIN and x + room > WIDTH:
                x, y = float(MARGIN), y + 20
            self.parts.append(f'<g transform="translate({x:.0f} {y})">{sample}</g>')
            self.parts.append(f'<text x="{x + 28:.0f}" y="{y + 4}">{escape(label)}</text>')
            x += room
        self.top = y + 22
        self.base = self.top + PLOT_HEIGHT
        self.height = self.base + 58

    def y_axis(self, scale: Scale, label: str) -> None:
        """Gridlines, their values, and what they measure."""
        for tick in scale.ticks:
            y = scale(tick)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{scale.label(tick)}</text>')
        middle = (self.top + self.base) / 2
        turned = f'transform="translate(16 {middle:.0f}) rotate(-90)"'
        self.parts.append(f'<text {turned} text-anchor="middle">{escape(label)}</text>')

    def x_axis(self, label: str, ticks: Sequence[tuple[float, str]]) -> None:
        """The base line, (pixel, label) of each tick, and what they are."""
        base = self.base
        self.parts.append(f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{base}" y2="{base}"/>')
        for x, text in ticks:
            self.parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}"/>')
            self.parts.append(f'<text x="{x:.1f}" y="{base + 20}" text-anchor="middle">{escape(text)}</text>')
        middle = (LEFT + RIGHT) / 2
        self.parts.append(f'<text x="{middle:.0f}" y="{self.height - 12}" text-anchor="middle">{escape(label)}</text>')

    def text(self) -> str:
        """The whole file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" role="img">\n<style>{STYLE}</style>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


@dataclass
class Chart:
    """Lines over a numeric axis. Scales are "linear", "log" or "log2"."""

    title: str
    x_label: str
    y_label: str
    note: str = ""
    x_scale: str = "linear"
    y_scale: str = "linear"
    lines: list[tuple[str, list[tuple[float, float]]]] = field(default_factory=list)

    def line(self, label: str, points: Sequence[tuple[float, float]]) -> None:
        """One series of (x, y)."""
        if not points:
            raise ValueError(f"the line {label!r} has no points")
        self.lines.append((label, sorted(points)))

    def svg(self) -> str:
        """The chart as text."""
        looks = [_look(i) for i in range(len(self.lines))]
        canvas = Canvas(
            self.title,
            self.note,
            [
                (label, f'<line x2="22" stroke="{colour}" stroke-width="2"/>' + _marker(shape, 11, 0, colour))
                for (label, _), (colour, shape) in zip(self.lines, looks, strict=True)
            ],
        )
        xs, ys = zip(*(point for _, points in self.lines for point in points), strict=True)
        x = Scale(self.x_scale, min(xs), max(xs), LEFT, RIGHT)
        zero = [0.0] if self.y_scale == "linear" else []
        y = Scale(self.y_scale, min([*zero, *ys]), max([*zero, *ys]), canvas.base, canvas.top)
        canvas.y_axis(y, self.y_label)
        canvas.x_axis(self.x_label, [(x(tick), x.label(tick)) for tick in x.ticks])
        for (_, points), (colour, shape) in zip(self.lines, looks, strict=True):
            path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
            canvas.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            if len(points) <= 80:
                canvas.parts += [_marker(shape, x(a), y(b), colour) for a, b in points]
        return canvas.text()

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg())


@dataclass
class Bars:
    """Groups of bars from zero, each with a dashed mark at its ceiling."""

    title: str
    y_label: str
    groups: Sequence[str]
    note: str = ""
    series: list[tuple[str, Sequence[float | None], Sequence[float | None]]] = field(default_factory=list)

    def add(self, label: str, heights: Sequence[float | None], ceilings: Sequence[float | None]) -> None:
        """One bar per group; None where there is none."""
        if not len(heights) == len(ceilings) == len(self.groups):
            raise ValueError(f"{label!r}: {len(heights)} bars, {len(ceilings)} ceilings, {len(self.groups)} groups")
        self.series.append((label, heights, ceilings))

    def svg(self) -> str:
        """The chart as text."""
        legend = [
            (label, f'<rect x="4" y="-7" width="14" height="14" rx="2" fill="{COLOURS[i % len(COLOURS)]}"/>')
            for i, (label, _, _) in enumerate(self.series)
        ]
        if any(ceiling is not None for _, _, ceilings in self.series for ceiling in ceilings):
            legend.append(("ceiling", '<line class="ceiling" x2="22"/>'))
        canvas = Canvas(self.title, self.note, legend)
        highest = max(v for _, heights, ceilings in self.series for v in (*heights, *ceilings) if v is not None)
        y = Scale("linear", 0, highest, canvas.base, canvas.top)
        canvas.y_axis(y, self.y_label)
        room = (RIGHT - LEFT) / len(self.groups)
        wide = room * 0.8 / len(self.series)
        for i, (label, heights, ceilings) in enumerate(self.series):
            for g, (height, ceiling) in enumerate(zip(heights, ceilings, strict=True)):
                left = LEFT + g * room + room * 0.1 + i * wide
                canvas.parts += self._bar(label, COLOURS[i % len(COLOURS)], left, wide * 0.92, y, height, ceiling)
        canvas.x_axis("", [(LEFT + (g + 0.5) * room, name) for g, name in enumerate(self.groups)])
        return canvas.text()

    def _bar(
        self, label: str, colour: str, left: float, wide: float, y: Scale, height: float | None, ceiling: float | None
    ) -> list[str]:
        parts = []
        if height is not None:
            place = f'x="{left:.1f}" width="{wide:.1f}" y="{y(height):.1f}" height="{y(0) - y(height):.1f}"'
            tip = f"<title>{escape(label)}: {_number(height)}</title>"
            parts.append(f'<rect {place} rx="1.5" fill="{colour}">{tip}</rect>')
        if ceiling is not None:
            place = f'x1="{left:.1f}" x2="{left + wide:.1f}" y1="{y(ceiling):.1f}" y2="{y(ceiling):.1f}"'
            parts.append(f'<line class="ceiling" {place}/>')
        return parts

    def save(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg())
