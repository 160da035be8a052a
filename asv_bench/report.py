"""The benchmark table: every operation of every backend beside the ceilings of the same run.

    python -m asv_bench.report                                     the CPU, 2^24 keys, load 0.5, 0.8, 0.9
    python -m asv_bench.report --device cuda                       2^27 keys
    python -m asv_bench.report --n 1048576 --repeats 3             a first look
    python -m asv_bench.report --backend slab_hash --loads 0.6 --option slab_bytes=128,256
    python -m asv_bench.report --html page.html                    all results that are committed, as a page

Prints the table, and writes <output>/<machine>/report-<device>.json (everything measured), .md, .svg, and a result
file of asv. A find is compared with a random gather of one slot, a change with a random 64-bit compare-and-swap, over
as much memory as the table holds. Every result is verified.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pygpuhash as gh

from .harness import asv_results
from .harness.ceilings import Ceilings, accesses, label
from .harness.charts import Bars, require_matplotlib
from .harness.devices import Unavailable, available, device
from .harness.page import build
from .harness.peers import measure_peers
from .harness.results import RESULTS, Row, circumstances, machine_name, markdown_table, rate, write_json
from .harness.runs import OPERATIONS, TableRun
from .harness.sizes import SIZES

HEADER = ("table", "operation", "load", "n", "median", "min", "max", "ceiling", "ratio", "bytes/key")
CEILINGS = ("gather8", "gather16", "gather32", "gather64", "gather128", "cas64")


def widths(text: str) -> tuple[int, int]:
    """ "4+8" -> (4, 8)."""
    try:
        key, value = (int(part) for part in text.split("+"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not two widths like 4+4 or 8+8") from None
    if key not in (4, 8) or value not in (4, 8):
        raise argparse.ArgumentTypeError(f"{text!r}: the table's keys and values have 4 or 8 bytes")
    return key, value


def option(text: str) -> tuple[str, list[str]]:
    """ "row=4,8" -> ("row", ["4", "8"])."""
    key, equals, values = text.partition("=")
    if not key or not equals or not all(values.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an option like row=8, or row=4,8 to try both")
    return key, values.split(",")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that the report and the sweep share."""
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, or all")
    parser.add_argument("--backend", action="append", help="may be repeated; default: all that are usable")
    parser.add_argument("--n", type=int, help="keys; default 2^24 on a CPU, 2^27 on CUDA")
    parser.add_argument("--loads", type=loads, default=[0.5, 0.8, 0.9])
    parser.add_argument(
        "--bytes", type=widths, action="append", help="key+value, 4+4 (default) or 8+8; may be repeated"
    )
    parser.add_argument(
        "--option", type=option, action="append", default=[], help="backend option: key=value[,value...]"
    )
    parser.add_argument("--operations", type=lambda text: text.split(","), default=list(OPERATIONS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, help="CPU threads; default: one for each CPU")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is measured."""
    for operation in args.operations:
        if operation not in OPERATIONS:
            parser.error(f"--operations: {operation!r} is none of {', '.join(OPERATIONS)}")
    if args.n is not None and not 1000 <= args.n < 1 << 31:
        parser.error(f"--n {args.n}: use 1000 to {(1 << 31) - 1}")
    if args.repeats < 1:
        parser.error(f"--repeats {args.repeats}: use at least 1")
    if any(not 0.05 <= load <= 0.99 for load in args.loads):
        parser.error(f"--loads {args.loads}: use 0.05 to 0.99")


def loads(text: str) -> list[float]:
    """Numbers, with commas between them."""
    try:
        return [float(x) for x in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers: use 0.5, or 0.5,0.8 to try both") from None


def backends_for(kind: str, asked: Sequence[str] | None) -> list[str]:
    """The backends that this kind of device ("cpu", "cuda") can use; classes in Python only if they are asked for."""
    if asked:
        return list(asked)
    return [b.name for b in gh.backends() if b.state == "usable" and kind in b.devices and b.abi != "python"]


def grid(options: Sequence[tuple[str, list[str]]]) -> Iterator[dict[str, str]]:
    """Every combination of the options' values."""
    keys = [key for key, _ in options]
    for values in itertools.product(*(values for _, values in options)):
        yield dict(zip(keys, values, strict=True))


def rows_of(
    run: TableRun, operations: Sequence[str], repeats: int, ceilings: Ceilings, options: dict[str, str]
) -> list[Row]:
    """Measure the operations of one table, and the ceilings that they need."""
    seconds = run.measure([o for o in operations if o in run.operations], repeats, skip_full=True)
    run.bring_to_start("find_hit")
    nbytes, slot = run.table.nbytes, 16 if 8 in run.widths else 8
    return [
        Row(
            run.backend,
            run.device.name,
            operation,
            run.count(operation),
            times,
            *run.widths,
            load=run.load,
            options=options,
            ceiling=label(accesses(operation, slot)),
            ceiling_ns=ceilings.per_key(operation, slot, nbytes) * 1e9,
            bytes_per_key=nbytes / run.n,
        )
        for operation, times in seconds.items()
    ]


def measure(args: argparse.Namespace, name: str) -> tuple[list[Row], list[str], Ceilings]:
    """(rows, remarks, ceilings) of one device."""
    on = device(name)
    n = args.n or SIZES[name.partition(":")[0]]
    ceilings = Ceilings(name, n, args.repeats, args.threads or 0)
    rows: list[Row] = []
    remarks: list[str] = []
    peers_done: set[tuple[int, int]] = set()
    for pair in args.bytes or [(4, 4)]:
        for backend, load, options in itertools.product(
            backends_for(name.partition(":")[0], args.backend), args.loads, list(grid(args.option))
        ):
            run = TableRun(on, backend, load, n, pair, args.threads, **options)
            new = rows_of(run, args.operations, args.repeats, ceilings, options)
            if args.peers and pair not in peers_done:
                peers_done.add(pair)
                peer_rows, missing = measure_peers(on, run, min(args.repeats, 3))
                rows += peer_rows
                remarks += [f"{peer}: not installed, not compared." for peer in missing]
            full = set(args.operations) & set(run.operations) - {row.operation for row in new}
            remarks += [f"{backend}, load {load:g}: {operation} found no room, and is left out." for operation in full]
            run.close()
            rows += new
            for row in new:
                print(line(row), file=sys.stderr, flush=True)
    remarks.append(f"All results of all {sum(r.load is not None for r in rows)} table rows were verified.")
    return rows, remarks, ceilings


def line(row: Row) -> str:
    """One row for the terminal, while the run goes on."""
    median, least, most = (rate(r) for r in row.rates)
    share = "" if row.ratio is None else f"  {row.ratio:.2f} of {row.ceiling}"
    return f"{row.name:<24} {row.operation:<11} load {row.load}  {median} ({least} .. {most}) M/s{share}"


def ceiling_rows(ceilings: Ceilings) -> list[tuple[str, ...]]:
    """The accesses over the largest table of the run."""
    size = max(size for _, size in ceilings.measured)
    lines = []
    for what in CEILINGS:
        times = ceilings.seconds(what, size)
        ordered = (statistics.median(times), max(times), min(times))
        lines.append((what, f"{size / 2**20:.0f} MiB", *(rate(1e-6 / t) for t in ordered)))
    half = size // 2
    copy = gh.measure_ceiling("copy", device=ceilings.device, table_bytes=size, n=half, repeats=ceilings.repeats)
    ordered = (statistics.median(copy), max(copy), min(copy))
    lines.append(("copy, GB/s", f"{size / 2**20:.0f} MiB", *(rate(2e-9 * half / t) for t in ordered)))
    return lines


def table_lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The cells of the main table."""
    lines = []
    for row in (row for row in rows if row.load is not None):
        pair = (row.key_bytes, row.value_bytes)
        name = row.name if pair == (4, 4) else f"{row.name} {pair[0]}+{pair[1]}"
        against = "" if row.ceiling_ns is None else f"{rate(1e3 / row.ceiling_ns)} ({row.ceiling})"
        share = "" if row.ratio is None else f"{row.ratio:.2f}"
        bytes_per_key = "" if row.bytes_per_key is None else f"{row.bytes_per_key:.2f}"
        numbers = (f"{row.load:g}", f"{row.n:,}", *(rate(r) for r in row.rates), against, share, bytes_per_key)
        lines.append((name, row.operation, *numbers))
    return lines


def peer_lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Other libraries, each beside the slowest and the fastest table of the same operation and widths."""
    lines = []
    for peer in (row for row in rows if row.load is None):
        same = [
            row.rates[0] / peer.rates[0]
            for row in rows
            if row.load is not None
            and (row.operation, row.key_bytes, row.value_bytes) == (peer.operation, peer.key_bytes, peer.value_bytes)
        ]
        faster = f"{min(same):.3g} to {max(same):.3g}" if same else ""
        kind = f"{peer.operation} {peer.key_bytes}+{peer.value_bytes}"
        lines.append((peer.backend, kind, f"{peer.n:,}", *(rate(r) for r in peer.rates), faster))
    return lines


def markdown(run: dict[str, Any], rows: Sequence[Row], remarks: Sequence[str], ceilings: Ceilings) -> str:
    """The whole report."""
    about = f"{run['devices'][ceilings.device]}; {run['date']}; commit {run['commit'][:12] or 'unknown'}"
    parts = [
        f"# Benchmark of {ceilings.device}",
        f"{about}{', with local changes' if run['modified'] else ''}. {run['build']}.",
        "Rates in million keys per second: median, minimum and maximum of the repeats. The ratio is the median's share "
        "of the ceiling of the same run.",
        markdown_table(HEADER, table_lines(rows)).rstrip(),
        "## Ceilings",
        markdown_table(("access", "memory", "median", "min", "max"), ceiling_rows(ceilings)).rstrip(),
    ]
    if peers := peer_lines(rows):
        header = ("library", "operation", "n", "median", "min", "max", "gpuhash is faster by")
        parts += ["## Other libraries, same keys, same run", markdown_table(header, peers).rstrip()]
    return "\n\n".join([*parts, *remarks]) + "\n"


def plot(run: dict[str, Any], rows: Sequence[Row], name: str) -> Bars:
    """Rates of all tables by operation, with their ceilings."""
    ours = [row for row in rows if row.load is not None]
    operations = [o for o in OPERATIONS if any(row.operation == o for row in ours)]
    note = f"{run['devices'][name]}; n = {max(r.n for r in ours):,}"
    chart = Bars(f"Operations on {name}", "M keys/s", operations, note)
    for key in dict.fromkeys((row.name, row.load, row.key_bytes, row.value_bytes) for row in ours):
        of = {r.operation: r for r in ours if (r.name, r.load, r.key_bytes, r.value_bytes) == key}
        found = [of.get(operation) for operation in operations]
        heights = [row.rates[0] if row else None for row in found]
        tops = [1e3 / row.ceiling_ns if row and row.ceiling_ns else None for row in found]
        chart.add(f"{key[0]} {key[2]}+{key[3]}, load {key[1]:g}", heights, tops)
    return chart


def ceiling_records(ceilings: Ceilings) -> list[dict[str, Any]]:
    """All ceilings of the run, for JSON."""
    return [
        {"access": what, "table_bytes": size, "n": ceilings.n, "seconds_per_access": times}
        for (what, size), times in ceilings.measured.items()
    ]


def report(args: argparse.Namespace, name: str) -> None:
    """Measure one device, print, write."""
    rows, remarks, ceilings = measure(args, name)
    run = circumstances({name: device(name).model})
    text = markdown(run, rows, remarks, ceilings)
    print(text)
    stem = args.output / machine_name() / f"report-{name.replace(':', '-')}"
    write_json(stem.with_suffix(".json"), run | {"ceilings": ceiling_records(ceilings)}, rows)
    stem.with_suffix(".md").write_text(text)
    plot(run, rows, name).save(stem.with_suffix(".svg"))
    if run["commit"]:
        asv_results.write(stem.parent, run, rows, ceilings.n)
    print(f"written: {stem}.json, .md, .svg", file=sys.stderr)


def write_page(path: Path) -> int:
    """The page of the committed results."""
    page, left_out = build()
    try:
        path.write_text(page)
    except OSError as error:
        print(f"report: --html {path} cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    for line in left_out:
        print(f"report: left out: {line}", file=sys.stderr)
    print(f"written: {path}", file=sys.stderr)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Report on every device that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.report", description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="do not measure other libraries")
    parser.add_argument("--html", type=Path, help="measure nothing; write a page of the results that are committed")
    args = parser.parse_args(arguments)
    check_arguments(parser, args)
    try:
        require_matplotlib()
        if args.html:
            return write_page(args.html)
        for name in available(args.device):
            report(args, name)
    except (Unavailable, gh.GpuHashError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
