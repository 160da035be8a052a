"""Many commits on one machine in one campaign: what `cpu_tables` measures, of each commit's C library, for asv.

    python -m asv_bench.campaign fetch FOLDER COMMIT...      their C and C++ sources, each into FOLDER/COMMIT
    python -m asv_bench.campaign build FOLDER                 all that are not built yet, without CUDA, by meson
    python -m asv_bench.campaign measure FOLDER               all that are not measured yet, one after the other
    ... build FOLDER --device cuda; ... measure FOLDER --device cuda     with the kernels: `gpu_tables.Tables` on a card
    python -m asv_bench.campaign installed FOLDER             the installed package is the build of the commit in FOLDER

`fetch` needs the repository, the others the folder alone, so that the machine that measures can be another one.
`measure` writes results/MACHINE/COMMIT-campaign.json (`--output`, and GPUHASH_BENCH_MACHINE names the machine), which
`asv publish` shows. Each commit is measured in a process of its own, by the code of today's benchmarks: one thread's
processor time, on a card the time between events, every result verified. What a commit does not have yet is left out;
what it does wrong is printed and left out. A command that was stopped goes on where it was.

A card's record holds the card, too: its model and memory, the ceilings that the installed package measures beside each
commit, and each figure as a multiple of its ceiling. A record of another card than those of MACHINE is refused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .harness.arguments import one_sentence, whole
from .harness.builds import MODULE_FOLDERS, BadBuild, Build
from .harness.card_courses import CardCourse, card_sizes, median_times
from .harness.courses import OPERATIONS, Course, Distinct, Export, TableCourse, Wrong, least_times, sizes

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("libgpuhash", "plugins", "tests/abi", "meson.build", "meson.options", "LICENSE")
BACKENDS = ("hive", "linear_probe", "skiplist", "slab_hash", "stadium")
TABLES = 3  # of which the least time is taken, as cpu_tables does
VERSION = "1"  # of the benchmarks in benchmarks/cpu_tables.py, and of gpu_tables.Tables
JOBS = 2  # compilers for each commit; several commits are built at a time


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"git {' '.join(arguments[:3])}: {done.stderr.decode().strip()}")
    return done.stdout


def fetch(folder: Path, commits: Sequence[str]) -> None:
    line = git("rev-list", "--first-parent", "HEAD").decode().split()
    for given in commits:
        commit, date = git("show", "-s", "--format=%H %at", f"{given}^{{commit}}").decode().split()
        if commit not in line:
            raise ValueError(f"{given} came with a merge, asv shows first parents only: name the merge")
        into = folder / commit
        if into.exists():
            continue
        partial = folder / f"{commit}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        present = [name for name in SOURCES if git("ls-tree", "--name-only", commit, name)]
        subprocess.run(["tar", "-x", "-C", partial], input=git("archive", commit, *present), check=True)
        (partial / "commit.json").write_text(json.dumps({"commit": commit, "date": int(date) * 1000}))
        partial.rename(into)
        print(commit)


def fetched(folder: Path) -> list[Path]:
    """The folders of commits, the oldest first."""
    found = [path.parent for path in folder.glob("*/commit.json")]
    if not found:
        raise ValueError(f"{folder} has no commits: fetch some first")
    return sorted(found, key=lambda path: (json.loads((path / "commit.json").read_text())["date"], path.name))


def build(folder: Path, at_once: int, device: str) -> int:
    """How many could not be built."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda commit: build_one(commit, device), fetched(folder))).count(False)


def options(commit: Path, device: str) -> list[str]:
    """The options of the build. Kernels are the same beside every instruction set of a CPU: none is built with them."""
    if device == "cpu":
        return ["-Dcuda=disabled"]
    has_isas = "option('isas'" in (commit / "meson.options").read_text()
    return ["-Dcuda=enabled", *["-Disas=[]"] * has_isas]


def build_one(commit: Path, device: str) -> bool:
    if (commit / "built").exists():
        return True
    shutil.rmtree(commit / "build", ignore_errors=True)
    start = time.monotonic()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (commit / "build.log").open("w") as log:
        setup = ["setup", "build", "-Dbuildtype=release", *options(commit, device)]
        for given in (setup, ["compile", "-C", "build", "-j", str(JOBS)]):
            command = [sys.executable, "-m", "mesonbuild.mesonmain", *given]
            if subprocess.run(command, cwd=commit, env=environment, stdout=log, stderr=log, check=False).returncode:
                print(f"{commit.name} cannot be built: see {commit / 'build.log'}", file=sys.stderr)
                return False
    (commit / "built").touch()
    print(f"{commit.name} built in {time.monotonic() - start:.0f} s", flush=True)
    return True


def use_installed(folder: Path) -> None:
    """Take the installed package for the build of the commit."""
    (commit, *others) = fetched(folder)
    if others:
        raise ValueError(f"{folder} has {len(others) + 1} commits, and the installed package is the build of one")
    import pygpuhash

    package = Path(pygpuhash.__file__).parent
    shutil.rmtree(commit / "build", ignore_errors=True)
    (commit / "build").mkdir()
    (commit / "build" / "libgpuhash").symlink_to(package)
    (commit / "build" / "plugins").symlink_to(package / MODULE_FOLDERS[0])
    (commit / "built").touch()
    print(f"{commit.name} is {package}")


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(folder: Path, output: Path, device: str) -> int:
    """How many commits could not be measured."""
    failed = 0
    for commit in fetched(folder):
        if not (commit / "measured.json").exists():
            if not (commit / "built").exists():
                continue
            environment = os.environ | {"GPUHASH_PLUGIN_PATH": str(commit / "build" / "plugins")}
            module = [*["-P"] * sys.flags.safe_path, "-m", "asv_bench.campaign", "one", str(commit), "--device", device]
            status = subprocess.run([sys.executable, *module], env=environment, check=False).returncode
            if status:
                print(f"{commit.name} cannot be measured: its process ended with status {status}", file=sys.stderr)
                failed += 1
                continue
        write(commit, output)
    return failed


def courses(library: Build, device: str) -> list[tuple[str, tuple[str, ...], Course]]:
    """(benchmark, parameters but the operation, course) of all that this library has."""
    has = [name for name in BACKENDS if name in library.modules]
    if device == "cuda":
        cards = [CardCourse(name, *size) for name in has for size in card_sizes()]
        return [("CardTables", (of.backend, of.label), of) for of in cards]
    tables = [TableCourse(name, *size) for name in has for size in sizes()]
    found: list[tuple[str, tuple[str, ...], Course]] = [("Tables", (of.backend, of.label), of) for of in tables]
    found += [("Exports", (name,), Export(name)) for name in has]
    if hasattr(library.library, "gpuhash_index_add"):
        found += [("Indices", (rows,), Distinct(rows)) for rows in ("numbers", "text")]
    return found


def one(commit: Path, device: str) -> None:
    """Nanoseconds by benchmark and parameters, into measured.json."""
    library = Build(commit / "build", commit.name[:8])
    # By name, which builds of every age take; GPUHASH_PLUGIN_PATH says where.
    library.modules = {name: Path(name) for name in library.modules}
    start, found = time.time(), []
    about = card_facts() if device == "cuda" else {}
    for benchmark, parameters, course in courses(library, device):
        try:
            measure_course = median_times if isinstance(course, CardCourse) else least_times
            times = measure_course(course, library, TABLES)
        except (BadBuild, Wrong) as error:
            print(f"{commit.name[:8]} {benchmark} {', '.join(parameters)}: {error}", flush=True)
            continue
        for operation, seconds in times.items():
            found.append([benchmark, *key_and_ns(benchmark, parameters, operation, course, seconds)])
    found += card_figures(found, about.pop("ceilings", {}))
    (commit / "measured.json").write_text(json.dumps({"started": int(start * 1000), "found": found} | about))
    print(f"{commit.name[:8]} measured in {time.time() - start:.0f} s: {len(found)} figures", flush=True)


def card_facts() -> dict[str, Any]:
    """The card, and its ceilings, which today's package measures."""
    import pygpuhash

    from .harness.card import identity, key_ceilings
    from .harness.devices import Unavailable

    try:
        return {"card": identity(), "ceilings": key_ceilings()}
    except (Unavailable, pygpuhash.GpuHashError) as error:
        raise BadBuild(f"the ceilings of a card cannot be measured: {error}") from error


def card_figures(found: Sequence[Sequence[Any]], ceilings: dict[tuple[str, str], float]) -> list[list[Any]]:
    """Ceilings by operation and label; figures of tables as multiples of them."""
    tables = [(key, ns) for benchmark, key, ns in found if benchmark == "CardTables" and ceilings]
    return [
        *(["CardCeilings", list(key), ns] for key, ns in ceilings.items()),
        *(["CardRatios", key, ns / ceilings[key[1], key[2]]] for key, ns in tables),
    ]


def key_and_ns(
    benchmark: str, parameters: tuple[str, ...], operation: str, course: Any, seconds: float
) -> tuple[list[str], float]:
    """The values of the benchmark's parameters, and its figure."""
    if benchmark in ("Tables", "CardTables"):
        backend, label = parameters
        return [backend, operation, label], seconds / course.count(operation) * 1e9
    if benchmark == "Exports":
        return list(parameters), seconds / course.calls / course.n * 1e9
    return list(parameters), seconds / course.column.n * 1e9


ON_A_CARD = [list(OPERATIONS), [TableCourse("", *size).label for size in card_sizes()]]
AXES: dict[str, tuple[str, list[list[str]]]] = {
    "Tables": (
        "cpu_tables.Tables.track_key_ns",
        [list(BACKENDS), list(OPERATIONS), [TableCourse("", *size).label for size in sizes()]],
    ),
    "CardTables": ("gpu_tables.Tables.track_key_ns", [list(BACKENDS), *ON_A_CARD]),
    "CardRatios": ("gpu_tables.Tables.track_times_ceiling", [list(BACKENDS), *ON_A_CARD]),
    "CardCeilings": ("gpu_machine.TableCeiling.track_key_ns", ON_A_CARD),
    "Exports": ("cpu_tables.Exports.track_pair_ns", [list(BACKENDS)]),
    "Indices": ("cpu_tables.Indices.track_row_ns", [["numbers", "text"]]),
}


def write(commit: Path, output: Path) -> None:
    """asv's file of results for one commit."""
    from .harness.asv_results import COLUMNS, facts, series
    from .harness.card import check_series
    from .harness.results import machine_name

    machine = output / machine_name() / "machine.json"
    machine.parent.mkdir(parents=True, exist_ok=True)
    if not machine.exists():
        machine.write_text(json.dumps(facts(machine.parent.name), indent=1) + "\n")
    about = json.loads((commit / "commit.json").read_text())
    measured = json.loads((commit / "measured.json").read_text())
    if "card" in measured:
        check_series(machine.parent, measured["card"])
    known = {(benchmark, *key): ns for benchmark, key, ns in measured["found"]}
    results = {}
    for benchmark, (name, axes) in AXES.items():
        values = [known.get((benchmark, *key), math.nan) for key in itertools.product(*axes)]  # NaN: not applicable
        if not all(map(math.isnan, values)):
            results[name] = [
                values,
                [[repr(value) for value in axis] for axis in axes],
                VERSION,
                measured["started"],
                None,
            ]
    python = ".".join(platform.python_version_tuple()[:2])
    record = {
        "version": 2,
        "commit_hash": about["commit"],
        "env_name": "campaign",
        "date": about["date"],
        "params": series(json.loads(machine.read_text()), python),
        "python": python,
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": results,
        "durations": {},
    } | {name: measured[name] for name in ("card",) if name in measured}
    (machine.parent / f"{about['commit'][:8]}-campaign.json").write_text(json.dumps(record, indent=1) + "\n")


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("fetch", "build", "installed", "measure", "one"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="of fetch")
    parser.add_argument(
        "--at-once", type=whole(1), default=max((os.cpu_count() or 1) // JOBS, 1), help="commits that build"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of build and measure")
    parser.add_argument("--output", type=Path, default=ROOT / "asv_bench" / "results")
    given = parser.parse_args(arguments)
    folder = given.folder.absolute()
    if (given.step == "fetch") != bool(given.commits):
        parser.error("fetch takes commits, and no other step does")
    try:
        if given.step == "fetch":
            fetch(folder, given.commits)
        elif given.step == "one":
            one(folder, given.device)
        elif given.step == "installed":
            use_installed(folder)
        else:
            if given.step == "build":
                failed = build(folder, given.at_once, given.device)
            else:
                failed = measure(folder, given.output, given.device)
            return 1 if failed else 0
    except (BadBuild, ValueError) as error:
        print(f"campaign: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
