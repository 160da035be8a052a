"""A grid of backend options: every operation for every combination, as CSV, and the best of each.

    python -m asv_bench.sweep --backend linear_probe                              the backend's own grid
    python -m asv_bench.sweep --backend linear_probe --option row=4,8 --loads 0.8
    python -m asv_bench.sweep --device cuda --backend linear_probe

Writes <output>/<machine>/sweep-<backend>-<device>.csv. Combinations that the backend refuses are reported and left out.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from typing import Any

import pygpuhash as gh

from .harness.ceilings import Ceilings
from .harness.devices import Unavailable, available, device
from .harness.results import Row, circumstances, machine_name, markdown_table, rate, write_csv
from .harness.runs import TableRun
from .harness.sizes import SIZES
from .report import add_arguments, backends_for, check_arguments, grid, line, rows_of

# What is worth trying, by backend and kind of device; --option replaces it.
GRIDS: dict[tuple[str, str], list[tuple[str, list[str]]]] = {
    ("linear_probe", "cpu"): [("row", ["1", "4", "8", "16"])],
    ("linear_probe", "cuda"): [("row", ["1", "4", "8", "16"])],
    ("slab_hash", "cpu"): [("slab_bytes", ["64", "128", "256"])],
    ("slab_hash", "cuda"): [("slab_bytes", ["64", "128", "256"]), ("tile", ["auto", "32"])],
}


def record(row: Row, about: dict[str, Any]) -> dict[str, Any]:
    """One line of the CSV."""
    median, least, most = row.rates
    return {
        "commit": about["commit"][:12],
        "device": about["devices"][row.device],
        "backend": row.backend,
        **row.options,
        "load": row.load,
        "key_bytes": row.key_bytes,
        "value_bytes": row.value_bytes,
        "operation": row.operation,
        "n": row.n,
        "ns_per_key": f"{row.ns:.4g}",
        "M_keys_s": f"{median:.5g}",
        "min": f"{least:.5g}",
        "max": f"{most:.5g}",
        "ceiling": row.ceiling,
        "ceiling_M_s": f"{1e3 / row.ceiling_ns:.5g}" if row.ceiling_ns else "",
        "ratio": f"{row.ratio:.3f}" if row.ratio else "",
    }


def measure(args: argparse.Namespace, name: str, backend: str, options: Sequence[tuple[str, list[str]]]) -> list[Row]:
    """All rows of one backend."""
    on, n = device(name), args.n or SIZES[name.partition(":")[0]]
    ceilings = Ceilings(name, n, args.repeats, args.threads or 0)
    rows: list[Row] = []
    for pair, load, chosen in itertools.product(args.bytes or [(4, 4)], args.loads, list(grid(options))):
        try:
            run = TableRun(on, backend, load, n, pair, args.threads, **chosen)
        except (gh.InvalidArgument, gh.Unsupported) as error:
            print(f"left out: {backend} {chosen}: {error}", file=sys.stderr)
            continue
        rows += rows_of(run, args.operations, args.repeats, ceilings, chosen)
        run.close()
        for row in rows[-len(args.operations) :]:
            print(line(row), file=sys.stderr, flush=True)
    return rows


def best(rows: Sequence[Row]) -> str:
    """The fastest combination for every operation, load and width, beside the slowest."""
    lines = []
    for key in dict.fromkeys((row.operation, row.load, row.key_bytes, row.value_bytes) for row in rows):
        same = sorted((r for r in rows if (r.operation, r.load, r.key_bytes, r.value_bytes) == key), key=lambda r: r.ns)
        share = "" if same[0].ratio is None else f"{same[0].ratio:.2f}"
        name = " ".join(f"{option}={value}" for option, value in same[0].options.items())
        where = (f"{key[1]:g}", f"{key[2]}+{key[3]}")
        lines.append((key[0], name, *where, rate(same[0].rates[0]), share, rate(same[-1].rates[0])))
    header = ("operation", "fastest", "load", "bytes", "M keys/s", "ratio", "slowest, M keys/s")
    return markdown_table(header, lines)


def sweep(args: argparse.Namespace, name: str) -> None:
    """All backends of one device: measure, print, write."""
    kind = name.partition(":")[0]
    for backend in backends_for(kind, args.backend):
        options = args.option or GRIDS.get((backend, kind), [])
        if not options:
            print(f"sweep: no grid is known for {backend} on {kind}; pass --option key=value,value", file=sys.stderr)
            continue
        rows = measure(args, name, backend, options)
        about = circumstances({name: device(name).model})
        path = args.output / machine_name() / f"sweep-{backend}-{name.replace(':', '-')}.csv"
        write_csv(path, [record(row, about) for row in rows])
        print(best(rows))
        print(f"written: {path}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.sweep", description=__doc__.split("\n", 1)[0])
    add_arguments(parser)
    args = parser.parse_args(arguments)
    check_arguments(parser, args)
    try:
        for name in available(args.device):
            sweep(args, name)
    except (Unavailable, gh.GpuHashError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
