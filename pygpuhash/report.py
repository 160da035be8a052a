"""The table that `pygpuhash compare` prints, and its picture."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from pygpuhash.compare import PHASES, SHORT, Phase, Result
from pygpuhash.keyfile import InputError

if TYPE_CHECKING:
    from pygpuhash.workload import Workload

__all__ = ["check_plot", "plot", "table_text"]

_COLUMNS = ("backend", "device", "distinct", *PHASES, "B/key", "load", "verified")
_CEILINGS = {
    "gather8": "random 8-byte reads",
    "gather16": "random 16-byte reads",
    "cas64": "random 64-bit compare-and-swaps",
}
_MOST_SHARE = 1.05  # of the ceiling, within the spread of its measurement
_BUSY = 0.15  # share of the CPUs that others may take before figures are doubtful
# Colours of the phases: the Okabe-Ito palette, which colour-blind readers can tell apart.
_COLOURS = dict(zip(PHASES, ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7"), strict=True))


def table_text(work: Workload, results: list[Result]) -> str:
    """Title, table, footnotes and the most frequent keys."""
    lines = [work.title, "", *_aligned([list(_COLUMNS), *map(_row, results)]), ""]
    lines += _notes(results)
    lines += [f"{r.backend} on {r.device}: {r.error}" for r in results if r.error]
    if work.counts.max() > 1:
        lines += ["", "most frequent: " + ", ".join(f"{text} {n:,}" for text, n in work.most_frequent())]
    return "\n".join(lines)


def _row(r: Result) -> list[str]:
    cells = [r.backend, r.device, f"{r.distinct:,}"]
    for name in PHASES:
        phase = r.phases.get(name)
        cells.append("-" if phase is None else f"{_millions(phase.rate)} ({_share(phase)})")
    cells.append("-" if r.bytes_per_key is None else f"{r.bytes_per_key:.1f}")
    cells.append("-" if r.load_factor is None else f"{r.load_factor:.2f}")
    return [*cells, "yes" if r.verified else "NO"]


def _share(phase: Phase) -> str:
    """The share of the ceiling as text. A rate well above the ceiling has none; the notes say why."""
    return f"{phase.share:.0%}" if phase.share <= _MOST_SHARE else ">100%"


def _millions(rate: float) -> str:
    return f"{rate / 1e6:,.0f}" if rate >= 1e8 else f"{rate / 1e6:.3g}"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Columns padded to one width: names to the left, figures to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            .rstrip() for row in rows]  # fmt: skip


def _notes(results: list[Result]) -> list[str]:
    """Sentences about what the figures mean, how much was run, and what the machine did at best."""
    lines = ["count to mixed: million keys/s, median; in brackets the share of this machine's ceiling, measured beside"]
    for r in results:
        if not r.phases:
            continue
        sizes = ", ".join(f"{name} {p.n:,} x {p.runs}" for name, p in r.phases.items())
        spread = ", ".join(
            f"{name} {_millions(p.n / p.slowest)} to {_millions(p.n / p.fastest)}" for name, p in r.phases.items()
        )
        ceilings: dict[str, float] = {}
        for p in r.phases.values():
            ceilings[p.ceiling] = max(p.ceiling_rate, ceilings.get(p.ceiling, 0.0))
        best = ", ".join(f"{_CEILINGS[what]} {_millions(rate)} M/s" for what, rate in ceilings.items())
        lines += [
            f"{r.backend} on {r.device}: keys x runs: {sizes}",
            f"  slowest to fastest run: {spread}",
            f"  ceilings over the table's memory: {best}",
            *_repeats(r),
            *_doubts(r),
        ]
    return lines


def _repeats(r: Result) -> list[str]:
    """Sentences about batches that were made longer, and about the time that short ones take."""
    lines = []
    if r.repeats:
        times = ", ".join(f"{name} {n:,} times" for name, n in r.repeats.items())
        lines.append(f"  each batch has the same keys again and again, to be long enough for a GPU: {times}")
    if r.short_call:
        times = ", ".join(f"{name} {1e6 * seconds:.1f} us" for name, seconds in r.short_call.items())
        lines.append(f"  a call of {SHORT:,} keys (or all), until its results are there: {times}")
    return lines


def _doubts(r: Result) -> list[str]:
    """Sentences about why the figures may be too low, or a share too high."""
    lines = []
    if r.others is not None and r.others > _BUSY * r.cpus:
        took = f"other processes took {r.others:.1f} of {r.cpus} CPUs"
        lines.append(f"  the machine was busy: {took}; repeat the run when they are idle")
    else:
        uneven = [f"{name} {p.median / p.fastest:.1f}x" for name, p in r.phases.items() if p.median > 2 * p.fastest]
        if uneven:
            lines.append(f"  the machine was uneven: the fastest run beats the median in {', '.join(uneven)}")
    above = [f"{name} {p.share:.1f}x" for name, p in r.phases.items() if p.share > _MOST_SHARE]
    if above:
        why = "frequent keys stay in cache, or the machine was busier while the ceiling was measured"
        lines.append(f"  above the ceiling: {', '.join(above)}; {why}")
    return lines


# ---- pictures --------------------------------------------------------------------------------------------------------


def check_plot(name: str) -> None:
    """Refuse a picture that could not be written, before the work is done."""
    suffix = Path(name).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise InputError(f"--plot={name!r} is neither .svg nor .png")
    if not Path(name).resolve().parent.is_dir():
        raise InputError(f"--plot={name!r}: there is no directory {str(Path(name).resolve().parent)!r}")
    if suffix == ".png":
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise InputError("--plot with .png needs matplotlib: pip install matplotlib, or write .svg") from None


def plot(name: str, work: Workload, results: list[Result]) -> None:
    """Write bars of the throughput: one group per backend, one bar per phase."""
    done = [r for r in results if r.phases]
    if Path(name).suffix.lower() == ".svg":
        try:
            Path(name).write_text(_svg(work.title, done), encoding="utf-8")
        except OSError as error:
            raise InputError(f"--plot={name!r} cannot be written: {error.strerror or error}") from error
    else:
        _png(name, work.title, done)


def _svg(title: str, results: list[Result]) -> str:
    left, width, bar, gap = 260, 520, 16, 22
    top = max((p.rate for r in results for p in r.phases.values()), default=1.0)
    y, parts = 40, []
    for r in results:
        parts.append(f'<text x="8" y="{y + 14}" font-weight="bold">{escape(r.backend)} ({escape(r.device)})</text>')
        for name, phase in r.phases.items():
            length = max(1.0, width * phase.rate / top)
            parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar}" fill="{_COLOURS[name]}"/>')
            label = f"{_millions(phase.rate)} M/s, {phase.share:.0%} of the ceiling"
            inside = length > width / 2
            x, anchor, fill = (left + length - 6, "end", "#fff") if inside else (left + length + 6, "start", "#222")
            parts.append(f'<text x="{x:.1f}" y="{y + 13}" text-anchor="{anchor}" fill="{fill}">{label}</text>')
            y += bar + 4
        y += gap
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{y}" '
        f'font-family="sans-serif" font-size="12" fill="#222">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<text x="8" y="20">{escape(title)}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _png(name: str, title: str, results: list[Result]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 1.1 * max(1, len(results))), layout="constrained")
    axes = figure.subplots()
    for i, phase in enumerate(PHASES):
        at = [j + (i - 2) * 0.16 for j, r in enumerate(results) if phase in r.phases]
        rates = [r.phases[phase].rate / 1e6 for r in results if phase in r.phases]
        axes.barh(at, rates, 0.15, label=phase, color=_COLOURS[phase])
    axes.set_yticks(range(len(results)), [f"{r.backend} ({r.device})" for r in results])
    axes.invert_yaxis()
    axes.set_xlabel("million keys per second")
    axes.set_title(title, fontsize=9)
    figure.legend(loc="outside right upper", fontsize=8)
    try:
        figure.savefig(name)
    except OSError as error:
        raise InputError(f"--plot={name!r} cannot be written: {error.strerror or error}") from error
