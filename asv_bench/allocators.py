"""SlabAlloc against the allocators of this machine: a million slabs of 128 bytes, one per element of a batch.

    python -m asv_bench.allocators                     the CPU: malloc, jemalloc, mimalloc
    python -m asv_bench.allocators --device cuda       CUDA: malloc in device code

Prints a table, and writes <output>/<machine>/allocators-<device>.json and .md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import pygpuhash as gh

from .harness import allocators
from .harness.arguments import whole
from .harness.devices import Device, Unavailable, available, device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, rate


def peers(on: Device, n: int, unit: int, repeats: int) -> tuple[dict[str, allocators.Seconds], list[str]]:
    """(seconds of the allocators that this machine has, remarks on those that it has not)."""
    if on.name != "cpu":
        return {"malloc of device code": allocators.measure_cuda_malloc(on, n, unit, repeats)}, []
    measured, remarks = {}, []
    for name, functions in allocators.host_allocators().items():
        if isinstance(functions, str):
            remarks.append(f"{name}: not compared: {functions}.")
        else:
            measured[name] = allocators.measure_host_allocator(functions, n, unit, repeats)
    return measured, remarks


def table(measured: dict[str, allocators.Seconds], n: int) -> str:
    """Rates of all, and how much faster the fastest SlabAlloc is than each peer."""
    ours = [statistics.median(s["allocate"]) for name, s in measured.items() if name.startswith("slab_alloc")]
    lines = []
    for name, seconds in measured.items():
        for step, times in seconds.items():
            rates = (n / t / 1e6 for t in (statistics.median(times), max(times), min(times)))
            against = statistics.median(times) / min(ours) if ours and step == "allocate" else None
            shown = "" if against is None or name.startswith("slab_alloc") else f"{against:.3g}"
            lines.append((name, step, f"{n:,}", *(rate(r) for r in rates), shown))
    header = ("allocator", "step", "n", "median", "min", "max", "slab_alloc is faster by")
    return markdown_table(header, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.allocators", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, or all")
    parser.add_argument("--n", type=whole(1), default=1 << 20, help="slabs; default 2^20")
    parser.add_argument("--unit", type=int, choices=(64, 128, 256), default=128, help="bytes of a slab; default 128")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    try:
        for name in available(args.device):
            on = device(name)
            measured = {
                kind: allocators.measure_slab_allocator(on, kind, args.n, args.unit, args.repeats)
                for kind in ("slab_alloc", "slab_alloc_light")
            }
            others, remarks = peers(on, args.n, args.unit, args.repeats)
            measured |= others
            about = circumstances({name: on.model})
            title = f"# Allocation of {args.unit}-byte slabs on {name}"
            under = f"{on.model}; {about['date']}. Million slabs per second."
            text = "\n\n".join([title, under, table(measured, args.n).rstrip(), *remarks]) + "\n"
            print(text)
            stem = args.output / machine_name() / f"allocators-{name.replace(':', '-')}"
            stem.parent.mkdir(parents=True, exist_ok=True)
            record = about | {"n": args.n, "unit_bytes": args.unit, "seconds": measured}
            stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
            stem.with_suffix(".md").write_text(text)
    except (Unavailable, gh.GpuHashError) as error:
        print(f"allocators: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
