"""The figures of the papers, measured here: data and a plot from one command each.

    python -m asv_bench.figures hive load               load at the first element without room, by steps of an insert
    python -m asv_bench.figures hive price              time by that of the protocol with the mistakes of the paper
    python -m asv_bench.figures hive resizing           batches while the table grows; expansion, contraction, rebuilds
    python -m asv_bench.figures hive 3                  expected by observed collisions of the hash functions (CSR)
    python -m asv_bench.figures hive 5                  inserts by pairs and triples of hash functions
    python -m asv_bench.figures hive 6                  inserts against n at load 0.95; 7: finds; 8: a mixture
    python -m asv_bench.figures hive 9                  time of each step of an insert; locks, evictions
    python -m asv_bench.figures linear_probe table      time of each batch of inserts against the load factor
    python -m asv_bench.figures linear_probe probe      probe lengths at load 0.50 and 0.97
    python -m asv_bench.figures skiplist 8              ratio to a skiplist with a node per key
    python -m asv_bench.figures skiplist 9              mixtures against the range of keys; 10: single ones; memory
    python -m asv_bench.figures skiplist II             mixtures by the warps of a block (CUDA, the compiler nvcc)
    python -m asv_bench.figures slab_hash 4a            build rate against memory utilisation
    python -m asv_bench.figures slab_hash all           4a, 4b, 4c, 5, 6, 7; 7b beside lock-free lists
    python -m asv_bench.figures stadium 13              clStash against Stash by the load, and hybrid_from (CUDA)
    python -m asv_bench.figures stadium 14              ratio to a cuckoo table (CUDA); 16: in host memory
    python -m asv_bench.figures stadium 15              inserts and finds apart, and in one batch
    python -m asv_bench.figures stadium 17              a table in host memory, by pairs, tickets and order
    python -m asv_bench.figures stadium 18              what tickets and collaborative lanes give
    python -m asv_bench.figures stadium 19              rates by sizes of keys, values, tickets; 19b: on the host
    python -m asv_bench.figures stadium I               lanes that are active in inserts (CUDA, the profiler ncu)
    python -m asv_bench.figures stadium batches         a table in host memory, by the size of batches

hive reproduces figures 3 and 5 to 9 of M. S. H. Polak, D. Troendle, B. Jang, "Hive Hash Table"; linear_probe reproduces
D. Farrell, "A Simple GPU Hash Table" (2020); skiplist reproduces figures 8 to 10 and table II of N. Moscovici,
N. Cohen, E. Petrank, "A GPU-Friendly Skiplist Algorithm" (2017); slab_hash reproduces section VI of S. Ashkiani,
M. Farach-Colton, J. D. Owens, "A Dynamic Hash Table for the GPU" (2018), with linear_probe at the same utilisation
where the paper compares with another static table; stadium reproduces figures 13 to 19 and table I of F. Khorasani and
others, "Stadium Hashing" (2015), parts (b) and (d) of figure 19 as 19b.

On CUDA, hive 5 and 9, skiplist 8 to 10 and II, and slab_hash 7b are of code that is compiled when it is needed: nvcc
has to be on PATH, and for hive and II the sources have to be there, as in a checkout of the repository. --option
arch=sm_90 says for which GPU, if not for its own; --option modules=DIR keeps the modules of hive 5. Writes
<output>/<machine>/figures/<backend>-<figure>-<device>.csv, .json and .svg. Every result is verified.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pygpuhash as gh

from .harness import paper_hive, paper_linear_probe, paper_skiplist, paper_slab_hash, paper_stadium
from .harness.arguments import whole
from .harness.charts import require_matplotlib
from .harness.devices import Unavailable, available, device
from .harness.figure import Figure, Settings
from .harness.results import RESULTS, circumstances, machine_name, write_csv
from .report import option

FIGURES: dict[str, dict[str, Callable[[Settings], Figure]]] = {
    "hive": paper_hive.FIGURES,
    "linear_probe": paper_linear_probe.FIGURES,
    "skiplist": paper_skiplist.FIGURES,
    "slab_hash": paper_slab_hash.FIGURES,
    "stadium": paper_stadium.FIGURES,
}

PAPER_OPTIONS = {"slab_hash": paper_slab_hash.OPTIONS}


NAMES = {
    "hive": "Hive",
    "linear_probe": "Farrell 2020",
    "skiplist": "GFSL",
    "slab_hash": "Slab hash",
    "stadium": "Stadium hashing",
}


def titled(backend: str, name: str, title: str) -> str:
    """The title of a plot, which names the paper and its figure or table."""
    kind = "figure " if name[0].isdigit() else "table " if name.isupper() else ""
    own = title.partition(": ")[2] if title.startswith(("Figure ", "Table I")) else title
    return f"{NAMES[backend]}, {kind}{name}: {own}"


def write(figure: Figure, settings: Settings, backend: str, name: str, output: Path) -> Path:
    """The three files of one figure; the path without suffix."""
    figure.chart.title = titled(backend, name, figure.chart.title)
    stem = output / machine_name() / "figures" / f"{backend}-{name}-{settings.device.name.replace(':', '-')}"
    about = circumstances({settings.device.name: settings.device.model})
    write_csv(stem.with_suffix(".csv"), figure.rows)
    record = about | {"figure": name, "title": figure.chart.title, "settings": settings.record()}
    record |= {"summary": figure.summary, "rows": figure.rows}
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    used = f", {settings.threads} used" if settings.threads and not settings.on_cuda else ""
    figure.chart.note = f"{settings.device.model}{used}; {figure.chart.note}"
    figure.chart.save(stem.with_suffix(".svg"))
    return stem


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.figures", description=__doc__.split("\n", 1)[0])
    parser.add_argument("backend", choices=FIGURES)
    parser.add_argument(
        "figure", help="; ".join(f"{backend}: {', '.join(of)}" for backend, of in FIGURES.items()) + "; all"
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, or all")
    parser.add_argument("--n", type=whole(1), help="elements; default: the paper's, or fewer on a CPU")
    parser.add_argument(
        "--slots", type=whole(1), help="linear_probe: slots, a power of two; default 2^27 on CUDA, 2^24 on a CPU"
    )
    parser.add_argument("--repeats", type=whole(1), default=5, help="independent trials; default 5")
    parser.add_argument("--threads", type=whole(1), help="CPU threads; default: one for each CPU")
    parser.add_argument("--option", type=option, action="append", default=[], help="backend option key=value")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    names = list(FIGURES[args.backend]) if args.figure == "all" else [args.figure]
    for name in names:
        if name not in FIGURES[args.backend]:
            parser.error(f"{args.backend} has no figure {name!r}; it has {', '.join(FIGURES[args.backend])}, all")
    options = PAPER_OPTIONS.get(args.backend, {}) | {key: values[0] for key, values in args.option}
    try:
        require_matplotlib()
        for device_name in available(args.device):
            settings = Settings(device(device_name), args.n, args.slots, args.repeats, args.threads, options)
            for name in names:
                try:
                    figure = FIGURES[args.backend][name](settings)
                except Unavailable as error:
                    if args.figure != "all":
                        raise
                    print(f"figures: {name} is left out: {error}", file=sys.stderr)
                    continue
                print(figure.text())
                print(
                    f"written: {write(figure, settings, args.backend, name, args.output)}.csv, .json, .svg",
                    file=sys.stderr,
                )
    except (Unavailable, gh.GpuHashError) as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
