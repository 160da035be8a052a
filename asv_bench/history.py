"""asv's results that are committed: the list of benchmarks, facts of machines, and files of earlier benchmarks.

    python -m asv_bench.history list            write results/benchmarks.json, which `asv publish` needs
    python -m asv_bench.history machine NAME    tell asv of this machine: results/NAME/machine.json, or what is found
    python -m asv_bench.history keep            what `asv run --python=same` wrote, as files that can be committed
    python -m asv_bench.history convert         bring files of earlier benchmarks to today's names, in place
    python -m asv_bench.history check FOLDER    is what `asv publish -o FOLDER` wrote complete, without false entries?

What `keep` changes: the file's name and the name of its environment, which have the path of Python, with which each
Python were a series of its own; machine.json is as it was before asv formatted it. A record of a GPU gets the card.

What `convert` changes: facts of a machine are those of its machine.json, so that one machine is one series, and the
date is that of the commit. Results get the names below; rates become nanoseconds, 1e9 divided by the rate; what was
measured nowhere goes. Tables of `asv run` had the small sizes, 2^17 keys on a CPU and 2^20 on a GPU. No figure is
corrected or made up. Those of CPUs are of the wall clock, of as many threads as there were CPUs, and medians of three:
they are kept as `wall_clock`, beside the benchmarks of one thread's processor time, and no regression is looked for in
them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .harness.asv_results import COLUMNS, TABLES, facts, series

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "asv_bench" / "results"
RETIRED = "wall_clock."
OF_A_CARD = "gpu_tables.Tables.track_key_ns"  # searched for regressions as multiples of the card's ceiling
EXISTING = "existing-"  # asv's name of the environment of --python=same begins so
FACTS = ("arch", "cpu", "machine", "num_cpu", "os", "ram")

# Earlier name -> (name on a CPU, name on a GPU), where one of the parameters was the device.
OF_BOTH = {
    "memory.Memory.track_bytes_per_key": (
        "cpu_memory.Memory.track_bytes_per_key",
        "gpu_memory.Memory.track_bytes_per_key",
    ),
    "ceilings.Ceiling.track_ns_per_access": (
        "cpu_machine.Ceiling.track_access_ns",
        "gpu_machine.Ceiling.track_access_ns",
    ),
    "ceilings.Copy.track_ns_per_kib": ("cpu_machine.Copy.track_kib_ns", "gpu_machine.Copy.track_kib_ns"),
    "overhead.OneKey.track_array_us": ("wall_clock.OneKey.track_array_us", "gpu_calls.OneKey.track_array_us"),
    "verbs.Columns.track_key_ns": ("wall_clock.Columns.track_element_ns", "gpu_verbs.Columns.track_element_ns"),
    **{
        f"slab_alloc.SlabAllocator.{of}": (f"wall_clock.SlabAllocator.{of}", f"gpu_slabs.SlabAllocator.{of}")
        for of in ("track_allocate_ns", "track_free_ns")
    },
    **{f"tables.{of}": (f"wall_clock.{of}", f"gpu_tables.{of}") for of in TABLES},
}
RENAMED = {
    "overhead.OneNumber.track_number_us": "wall_clock.OneNumber.track_number_us",
    "ordered.Ordered.track_ns_per_key": "wall_clock.Ordered.track_ns_per_key",
    "ordered.OrderedOnGpu.track_ns_per_key": "gpu_ordered.OrderedOnGpu.track_ns_per_key",
    "gpu.SmallCall.track_host_us": "gpu_calls.SmallCall.track_host_us",
    "gpu.GrowthFromEmpty.track_longest_batch_ms": "gpu_calls.GrowthFromEmpty.track_longest_batch_ms",
}
RATES = {
    "gpu.GrowthFromEmpty.track_rate": "gpu_calls.GrowthFromEmpty.track_key_ns",
    "gpu.HostArrays.track_rate": "gpu_calls.HostArrays.track_key_ns",
}
KEPT_VERSIONS = ("gpu.SmallCall.track_host_us",)  # whose first version measured something else


class BadHistory(RuntimeError):
    """The results, or a site that was made of them, are not as they must be; the message says where."""


# ---- files of results ------------------------------------------------------------------------------------------------


def result_files(results: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """asv's files and what is in them. A broken file is named and left out."""
    for path in sorted(results.glob("*/*.json")):
        try:
            record = json.loads(path.read_text())
        except ValueError as error:
            print(f"history: {path} is left out: it is no JSON ({error})", file=sys.stderr)
            continue
        if isinstance(record, dict) and "result_columns" in record:
            yield path, record


def is_number(value: Any) -> bool:
    """Was there a result? asv writes null for a failure, and NaN where a benchmark is not applicable."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def of_device(row: list[Any], kind: str) -> list[Any] | None:
    """The part of a result that is of one kind of device, without the parameter that said so."""
    values, axes = row[0], row[1]
    place = next(
        i for i, axis in enumerate(axes) if all(value.strip("'").startswith(("cpu", "cuda")) for value in axis)
    )
    chosen = [
        value
        for value, combination in zip(values, itertools.product(*axes), strict=True)
        if combination[place].strip("'").startswith(kind)
    ]
    return [chosen, axes[:place] + axes[place + 1 :], *row[2:]] if any(map(is_number, chosen)) else None


def converted(name: str, row: list[Any], n: dict[str, int]) -> Iterator[tuple[str, list[Any]]]:
    """A result under today's names; none where nothing was measured."""
    if row[0] is None or not any(map(is_number, row[0])):
        return
    if name in OF_BOTH:
        for kind, to in zip(("cpu", "cuda"), OF_BOTH[name], strict=True):
            part = of_device(row, kind)
            if part and name.startswith("tables."):  # the number of keys was not a parameter
                part[1] = [part[1][0], [repr(f"2^{n[kind].bit_length() - 1}")], *part[1][1:]]
            if part:
                yield to, [*part[:2], "1", *part[3:]]
    elif name in RENAMED:
        yield RENAMED[name], row if name in KEPT_VERSIONS else [*row[:2], "1", *row[3:]]
    elif name in RATES:
        yield RATES[name], [[1e9 / v if is_number(v) else v for v in row[0]], row[1], "1", *row[3:]]
    else:
        yield name, row


def commit_date(commit: str) -> int:
    """Milliseconds since 1970, as asv has them."""
    done = subprocess.run(["git", "show", "-s", "--format=%at", commit], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise BadHistory(f"commit {commit[:8]} is not in this clone: git fetch --unshallow")
    return int(done.stdout) * 1000


def convert(results: Path = RESULTS) -> int:
    """Bring all files to today's names; returns how many have changed."""
    changed = 0
    for path, record in list(result_files(results)):
        before = json.dumps(record)
        machine = json.loads(path.with_name("machine.json").read_text())
        keys = int(record["params"].get("n", 0))  # of a report; `asv run` had the small sizes
        n = {"cpu": keys or 1 << 17, "cuda": keys or 1 << 20}
        rows = [item for name, row in record["results"].items() for item in converted(name, row, n)]
        record["results"] = dict(rows)
        record["result_columns"] = COLUMNS
        record["date"] = commit_date(record["commit_hash"])
        record["python"] = ".".join(record["python"].split(".")[:2])
        record["params"] = series(machine, record["python"])
        if json.dumps(record) != before:
            indent = 1 if path.read_text().startswith("{\n") else None  # as it was
            path.write_text(json.dumps(record, indent=indent) + "\n")
            changed += 1
    return changed


def version_of(python: str, path: Path) -> str:
    """The version of a Python that asv names by its path, as "3.11": a virtual environment's often ends in python3."""
    if found := re.search(r"\d+\.\d+$", python):
        return found[0]
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as e:
        raise BadHistory(f"{path}: the Python {python!r} does not say its version: {e}") from None


def card_here() -> dict[str, Any]:
    """The card that asv has measured, as a part of its record."""
    from .harness.card import identity
    from .harness.devices import Unavailable

    try:
        return {"card": identity()}
    except Unavailable as error:
        print(f"history: {error}, so that the record does not say which one it is of", file=sys.stderr)
        return {}


def keep(results: Path = RESULTS) -> list[Path]:
    """The files that `asv run --python=same` wrote become those of a series; returns them. Figures of a commit that has
    a file are added to it."""
    kept = []
    for path, record in list(result_files(results)):
        if not record["env_name"].startswith(EXISTING):
            continue
        version = version_of(record["python"], path)
        about = path.with_name("machine.json")
        machine = json.loads(about.read_text())
        kind = "cuda" if any(name.startswith("gpu_") for name in record["results"]) else "cpu"
        target = path.with_name(f"{record['commit_hash'][:8]}-{kind}-py{version}.json")
        measured = {name: row[: len(COLUMNS)] for name, row in record["results"].items() if row[0] is not None}
        if target.exists():
            measured = json.loads(target.read_text())["results"] | measured
        record |= {"env_name": f"{kind}-py{version}", "python": version, "result_columns": COLUMNS}
        record |= {"params": series(machine, version), "results": measured}
        record |= card_here() if kind == "cuda" else {}
        target.write_text(json.dumps(record) + "\n")
        path.unlink()
        about.write_text(json.dumps(machine, indent=1) + "\n")
        kept.append(target)
    return kept


# ---- the list of benchmarks ------------------------------------------------------------------------------------------

UNITS = {"track_element_ns": "ns", "track_array_us": "us", "track_number_us": "us", "track_ns_per_key": "ns/key"}
NAMES = {
    "OneKey": ["backend", "call"],
    "OneNumber": ["backend", "call"],
    "Ordered": ["keys", "what"],
    "Columns": ["verb", "keys"],
    "SlabAllocator": ["kind"],
}


def retired(results: Path = RESULTS) -> dict[str, Any]:
    """Entries for benchmarks that are not measured any more, with all parameters that some result has."""
    entries: dict[str, Any] = {}
    for _, record in result_files(results):
        for name, row in record["results"].items():
            if not name.startswith(RETIRED):
                continue
            _, kind, track = name.split(".")
            names = NAMES.get(kind, ["backend", "keys", "load", "key+value bytes"])
            entry = entries.setdefault(
                name,
                {
                    "code": "Not measured any more: wall clock, all threads, median of three.",
                    "name": name,
                    "param_names": names,
                    "params": [[] for _ in row[1]],
                    "timeout": 60,
                    "type": "track",
                    "unit": UNITS.get(track, "ns"),
                    "version": "1",
                },
            )
            for axis, values in zip(entry["params"], row[1], strict=True):
                axis.extend(value for value in values if value not in axis)
    for entry in entries.values():
        entry["params"] = [sorted(axis) for axis in entry["params"]]
    return entries


def discovered() -> dict[str, Any]:
    """The suite as asv sees it, which needs asv and the package."""
    sys.path.insert(0, str(ROOT / "asv_bench"))
    try:
        from asv_runner.discovery import disc_benchmarks
    except ImportError as error:
        raise BadHistory(f"{error}: pip install asv") from error
    found = disc_benchmarks(str(ROOT / "asv_bench" / "benchmarks"))
    plain = (str, int, float, list, dict, bool)  # asv's own choice of what it writes
    entries = (
        {key: of for key, of in vars(benchmark).items() if isinstance(of, plain) and not key.startswith("_")}
        for benchmark in found
    )
    return {entry["name"]: entry for entry in entries}


def benchmark_list(results: Path = RESULTS) -> dict[str, Any]:
    """What belongs into benchmarks.json."""
    return dict(sorted({**discovered(), **retired(results)}.items())) | {"version": 2}


# ---- what asv publish wrote ------------------------------------------------------------------------------------------


def published(site: Path, name: str) -> list[tuple[str, list[Any]]]:
    """(path, points) of each graph of a benchmark, without summaries."""
    return [
        (str(path.relative_to(site)), json.loads(path.read_text()))
        for path in sorted(site.glob(f"graphs/**/{name}.json"))
        if "summary" not in path.parts
    ]


def check(site: Path, results: Path = RESULTS) -> list[str]:
    """What is wrong with a published site: committed figures that no graph shows, and regressions that are none."""
    if not (site / "index.json").exists():
        raise BadHistory(f"{site} has no index.json: asv publish -o {site}")
    faults = []
    index = json.loads((site / "index.json").read_text())
    revisions = {commit: int(revision) for revision, commit in index["revision_to_hash"].items()}
    points: dict[str, dict[tuple[int, str], int]] = {}
    for path, record in result_files(results):
        machine = record["params"]["machine"]
        for name, row in record["results"].items():
            if name not in points:
                points[name] = {}
                for where, graph in published(site, name):
                    for revision, values in graph:
                        shown = sum(map(is_number, values if isinstance(values, list) else [values]))
                        of = next(part for part in where.split("/") if part.startswith("machine-"))
                        points[name][revision, of.removeprefix("machine-")] = shown
            here = sum(map(is_number, row[0]))
            shown = points[name].get((revisions.get(record["commit_hash"], -1), machine), 0)
            if shown < here and index["benchmarks"].get(name, {}).get("version", row[2]) == row[2]:
                faults.append(f"{path.name}: {name}: {shown} of {here} figures are shown")
    for entry in json.loads((site / "regressions.json").read_text())["regressions"]:
        if entry[0].startswith((RETIRED, "cpu_machine.", "gpu_machine.", "cpu_threads.", OF_A_CARD)):
            faults.append(f"regressions: {entry[0]} is in the list, but not the library's figure")
        elif any(unit in index["benchmarks"][entry[0].partition("(")[0]]["unit"] for unit in ("/s", "rate")):
            faults.append(f"regressions: {entry[0]}: more is better")
    return faults


# ---- the command -----------------------------------------------------------------------------------------------------


def tell_machine(name: str) -> None:
    """asv's own record of this machine, in the home folder."""
    about = RESULTS / name / "machine.json"
    known = facts(name) | (json.loads(about.read_text()) if about.exists() else {})
    own = Path.home() / ".asv-machine.json"
    machines = json.loads(own.read_text()) if own.exists() else {"version": 1}
    # `asv machine` itself leaves out what is as it would have guessed.
    own.write_text(json.dumps(machines | {name: {key: known[key] for key in FACTS}}, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """One of the five commands."""
    described = argparse.ArgumentParser(prog="history", description=__doc__.splitlines()[0])
    commands = described.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("keep")
    commands.add_parser("convert")
    commands.add_parser("machine").add_argument("name")
    commands.add_parser("check").add_argument("folder", type=Path)
    given = described.parse_args(arguments)
    try:
        if given.command == "list":
            (RESULTS / "benchmarks.json").write_text(json.dumps(benchmark_list(), indent=1) + "\n")
        elif given.command == "machine":
            tell_machine(given.name)
        elif given.command == "keep":
            print("\n".join(str(path) for path in keep(RESULTS)) or "asv has written no file of an installed package")
        elif given.command == "convert":
            print(f"{convert()} files were changed")
        elif faults := check(given.folder):
            print("\n".join(faults), file=sys.stderr)
            return 1
    except (BadHistory, OSError) as error:
        print(f"history: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
