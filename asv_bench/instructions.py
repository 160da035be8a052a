"""Does build B carry out more instructions than build A? Counted by valgrind, so that a busy machine changes nothing.

    python -m asv_bench.instructions A B               two prefixes, or folders of built libraries or packages
    python -m asv_bench.instructions A B --limit 1     percent: of verbs; a third of it of batches, twice of one key

Some fifty small programs: calls with one key, a thousand keys that are in a cache, exports and verbs of a thousand
elements. Each is run once, and then counted. What is beyond the limit is counted again, and the lesser count is
taken; if it is beyond the limit still, copies of both builds are counted twice, each in the other's place once, and B
is slower if its least count of all is beyond A's greatest one by more than the limit. Calls of the Python package are
counted where both folders have one. valgrind knows no AVX-512, so what is counted are the functions for AVX2.
docs/benchmarks.md says what these counts do not show.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .compare_builds import BadList, accepted_slowdowns, ended, how_to_accept, limit_of
from .harness.builds import OK, BadBuild, Build, Call, Column, common_backends
from .harness.keys import random_keys

ROOT = Path(__file__).resolve().parents[1]
N = 1000
# Shares of the limit, by how much equal builds differ: batches by .1 % at most; of the 1,700 instructions of a call
# with one key up to 15 depend on addresses; verbs draw seeds.
OF_BATCHES, OF_CALLS, OF_VERBS = 0.3, 2.0, 1.0
VERY_FULL = {"hive": 0.97, "linear_probe": 0.95}  # where keys seldom find room at home
Counts = dict[str, int]

# Counting, from where it begins to where it ends. cachegrind of valgrind 3.19 counts whole processes; callgrind counts
# the same instructions, and only between these calls. A call of the C ABI is made here, without Python's instructions.
SWITCH = r"""
#include <stdint.h>
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
typedef uintptr_t word;
typedef int (*function)(word, word, word, word, word, word, word, word, word);
int counted(const char *name, function f, int times, const word *a) {
  int status = 0;
  begin();
  for (int i = 0; i < times; ++i) status |= f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
  end(name);
  return status;
}
"""
MOST_ARGUMENTS = 9
ONCE, OFTEN = 1, 100


class Program:
    """A call whose instructions are counted, after it was made once to warm up.

    call : of the C ABI, which is made `times` times and answers a status; or of Python, which is made once
    before : makes what it starts from, and is not counted
    right : whether the results are right
    """

    def __init__(
        self,
        name: str,
        call: Callable[[], Any],
        right: Callable[[], bool] = lambda: True,
        before: Callable[[], object] = lambda: None,
        times: int = ONCE,
    ) -> None:
        self.name, self.call, self.right, self.before, self.times = name, call, right, before, times

    def run(self, switch: Any) -> None:
        """Once to warm up, and counted."""
        self.before()
        self.call()
        self.before()
        if isinstance(self.call, Call):
            given = [*self.call.given, *[0] * MOST_ARGUMENTS][:MOST_ARGUMENTS]
            array = (ctypes.c_size_t * MOST_ARGUMENTS)(*given)
            done = switch.counted(self.name.encode(), self.call.function, self.times, array) == OK
        else:
            switch.begin()
            done = self.call()
            switch.end(self.name.encode())
        if not done or not self.right():
            raise BadBuild(f"{self.name}: the result is wrong")


# ---- programs on the C ABI -------------------------------------------------------------------------------------------


def of_table(build: Build, backend: str) -> Iterator[Program]:
    """A hundred calls with one key on a table of a thousand, and batches of a thousand keys."""
    keys = random_keys(np, np.arange(N + 1), 8)
    values, out, status = np.arange(N + 1, dtype=np.uint64), np.zeros(N + 1, np.uint64), np.zeros(N + 1, np.uint8)
    held, one, absent = keys[:N], keys[:1], keys[N:]
    table = build.table(backend, (8, 8), N + 1)

    def call(name: str, of: Any, array: Any) -> Call:
        return table.work(name, of, array, status[: len(of)])

    insert = call("insert", held, values)

    def filled() -> None:
        table.clear()
        build.done(insert())
        status.fill(7)

    def all_are(what: int) -> Callable[[], bool]:
        return lambda: bool((status[:N] == what).all())

    def found() -> bool:
        return bool((out[:N] == values[:N]).all())

    exported = np.zeros(N, np.uint64), np.zeros(N, np.uint64)
    yield Program(f"{backend} find, 1 key", call("find", one, out), lambda: status[0] == 1, filled, OFTEN)
    yield Program(f"{backend} insert, 1 key", call("insert", one, values), lambda: status[0] == 0, filled, OFTEN)
    yield Program(f"{backend} erase, 1 key", call("erase", absent, None), lambda: status[0] == 0, filled, OFTEN)
    yield Program(f"{backend} insert, {N} keys", insert, all_are(1), table.clear)
    yield Program(f"{backend} find, {N} keys", call("find", held, out), found, filled)
    yield Program(f"{backend} accumulate, {N} keys", call("accumulate", held, values), all_are(0), filled)
    yield Program(f"{backend} export, {N} keys", table.export(*exported), lambda: len(set(exported[0])) == N, filled)
    yield Program(f"{backend} erase, {N} keys", call("erase", held, None), all_are(1), filled)


def of_full_table(build: Build, backend: str) -> Program:
    """The last thousand keys of eight thousand, few of which find room at home."""
    keys = random_keys(np, np.arange(8 * N), 8)
    values, status = np.arange(8 * N, dtype=np.uint64), np.zeros(N, np.uint8)
    table = build.table(backend, (8, 8), 8 * N, VERY_FULL[backend])
    first = table.work("insert", keys[: 7 * N], values, None)

    def filled() -> None:
        table.clear()
        build.done(first())

    last = table.work("insert", keys[7 * N :], values[7 * N :], status)
    return Program(f"{backend} insert, {N} keys, nearly full", last, lambda: bool(status.all()), filled)


def of_index(build: Build, kind: str) -> Program:
    """Ids for a thousand rows that are there, after they were added to warm up."""
    numbers = np.random.default_rng(1).integers(0, N // 2, N)
    column = Column([f"word {number}" for number in numbers] if kind == "text" else numbers)
    index = build.index(column)
    distinct = len(np.unique(numbers))
    return Program(f"index of {kind}, {N} rows", index.add(column), lambda: column.ids.max() + 1 == distinct)


# ---- programs on the package -----------------------------------------------------------------------------------------


def of_package(gh: Any) -> Iterator[Program]:
    """Calls of a table with one key, and verbs of a thousand elements."""
    table = gh.Table("linear_probe", capacity=N, device="cpu", threads=1, seed=1)
    table.insert(np.arange(N, dtype="u8"), np.arange(N, dtype="i8"))
    key = np.array([42], "u8")
    numbers = np.random.default_rng(1).integers(0, N // 2, N)
    values, distinct = np.arange(N), len(np.unique(numbers))
    yield Program("Table.find, a number", lambda: table.find(42) is not None)
    yield Program("Table.find, an array of 1", lambda: int(table.find(key)[0][0]) == 42)
    yield Program("Table[...]", lambda: int(table[42]) == 42)
    yield Program("number in Table", lambda: 42 in table)
    yield Program(f"unique, {N} elements", lambda: len(gh.unique(numbers)) == distinct)
    yield Program(f"value_counts, {N} elements", lambda: len(gh.value_counts(numbers)[1]) == distinct)
    yield Program(f"factorize, {N} elements", lambda: len(gh.factorize(numbers)[1]) == distinct)
    yield Program(f"isin, {N} elements", lambda: bool(gh.isin(numbers, numbers[:100])[:100].all()))
    yield Program(f"group_reduce, {N} elements", lambda: len(gh.group_reduce(numbers, values)[1]) == distinct)
    yield Program(f"join_indexer, {N} elements", lambda: len(gh.join_indexer(numbers, numbers[:100])[0]) >= 100)


def count_here(folder: str, backends: Sequence[str], package: bool, switch: str) -> None:
    """In a process under valgrind: run all programs on a build."""
    counting = ctypes.CDLL(switch)
    build = Build(folder)

    def programs() -> Iterator[Program]:
        for backend in backends:
            yield from of_table(build, backend)
            if backend in VERY_FULL:
                yield of_full_table(build, backend)
        if build.has("index_create"):
            yield of_index(build, "numbers")
            yield of_index(build, "text")
        if package:
            sys.path.insert(0, folder)
            import pygpuhash

            if Path(pygpuhash.__file__).parent.parent != Path(folder):
                raise BadBuild(f"{folder}: its package is hidden by {pygpuhash.__file__}")
            yield from of_package(pygpuhash)

    for program in programs():
        program.run(counting)


# ---- the processes ---------------------------------------------------------------------------------------------------


def compile_switch(folder: Path) -> Path:
    """The two functions that valgrind listens to."""
    for tool, package in (("valgrind", "valgrind"), ("cc", "gcc")):
        if shutil.which(tool) is None:
            raise BadBuild(f"there is no {tool}: apt-get install {package}")
    source, module = folder / "switch.c", folder / "switch.so"
    source.write_text(SWITCH)
    done = subprocess.run(["cc", "-shared", "-fPIC", "-o", module, source], capture_output=True, text=True)
    if done.returncode:
        raise BadBuild(f"valgrind's header cannot be compiled (apt-get install valgrind):\n{done.stderr}")
    return module


def has_package(build: Build) -> bool:
    """Is this folder a source tree with a package that was built in it, or a folder that one was installed into?"""
    return build.path.parent.name == "pygpuhash" and (build.path.parent / "__init__.py").exists()


def start(build: Build, backends: Sequence[str], package: bool, switch: Path, folder: Path) -> subprocess.Popen[str]:
    """A process under valgrind that counts into a folder."""
    folder.mkdir()
    valgrind = [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={folder}/counts",
    ]
    where = str(build.path.parent.parent if package else build.folder)
    child = [
        sys.executable,
        "-m",
        "asv_bench.instructions",
        "--count",
        where,
        str(switch),
        str(int(package)),
        *backends,
    ]
    fixed = {"GPUHASH_ISA": "avx2", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [*valgrind, *child], cwd=ROOT, env={**os.environ, **fixed}, stderr=subprocess.PIPE, text=True
    )


def read_counts(folder: Path) -> Counts:
    """Instructions of each program."""
    counts: Counts = {}
    for path in sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text()
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        if name and total:
            counts[name.group(1)] = int(total.group(1))
    return counts


def count(builds: Sequence[Build], backends: Sequence[str], package: bool, folder: Path) -> list[Counts]:
    """The counts of both builds, which two processes make at the same time."""
    switch = folder / "switch.so" if (folder / "switch.so").exists() else compile_switch(folder)
    targets = [Path(tempfile.mkdtemp(dir=folder)) / build.name for build in builds]
    running = [start(build, backends, package, switch, to) for build, to in zip(builds, targets, strict=True)]
    results = []
    for build, process, target in zip(builds, running, targets, strict=True):
        _, words = process.communicate()
        counts = read_counts(target)
        if process.returncode or not counts:
            raise BadBuild(f"{build.name} could not be counted:\n{words.strip()[-2000:]}")
        results.append(counts)
    return common_counts(results, builds)


def copied(build: Build, folder: Path) -> Build:
    """The build, or its package, in new files, whose paths are as long as those of the other build's copy."""
    if not has_package(build):
        return build.copy(folder)
    package, unused = build.path.parent, shutil.ignore_patterns("__pycache__", "*.c", "*.cpp", "*.pyx")
    shutil.copytree(package, folder / package.name, ignore=unused)
    return Build(folder, build.name)


def third_count(builds: Sequence[Build], backends: Sequence[str], package: bool, folder: Path) -> list[list[Counts]]:
    """Counts of A and of B, of copies that have changed places in between."""
    found: list[list[Counts]] = [[], []]
    for turn in (0, 1):
        into = Path(tempfile.mkdtemp(dir=folder))
        pair = [copied(build, into / "xy"[which ^ turn]) for which, build in enumerate(builds)]
        for which, counts in enumerate(count(pair, backends, package, folder)):
            found[which].append(counts)
    return found


def common_counts(results: Sequence[Counts], builds: Sequence[Build]) -> list[Counts]:
    """Those of programs that both builds can run; a line for each of the others."""
    names = {name for counts in results for name in counts}
    for build, counts in zip(builds, results, strict=True):
        for name in sorted(names - set(counts)):
            print(f"left out: {name}: {build.name} cannot run it", flush=True)
    both = set(results[0]) & set(results[1])
    return [{name: n for name, n in counts.items() if name in both} for counts in results]


def share_of_limit(name: str) -> float:
    """How much of the limit holds for a program."""
    return OF_CALLS if name.endswith(", 1 key") else OF_BATCHES if f", {N} keys" in name else OF_VERBS


def compare(a: Counts, b: Counts, limits: dict[str, tuple[float, str]]) -> list[str]:
    """The programs of which B carries out more, beyond the limit."""
    return [name for name in a if b[name] > a[name] * (1 + limits[name][0])]


def extremes(of: Sequence[Counts], which: Callable[..., int]) -> Counts:
    """The least or the greatest count of each program, of those that all have."""
    names = [name for name in of[0] if all(name in counts for counts in of)]
    return {name: which(counts[name] for counts in of) for name in names}


def verdict(
    builds: Sequence[Build], backends: Sequence[str], package: bool, limits: Callable[[str], tuple[float, str]]
) -> tuple[Counts, Counts, list[str]]:
    """The counts to show, and the programs of which B carries out more however often it is counted."""
    with tempfile.TemporaryDirectory(prefix="gpuhash-counts-") as folder:
        first = count(builds, backends, package, Path(folder))
        known = {name: limits(name) for name in first[0]}
        slower = compare(first[0], first[1], known)
        if not slower:
            return first[0], first[1], []
        print(f"counted again, since B carries out more: {', '.join(slower)}", flush=True)
        # What depends on addresses is not the same in every process.
        of = [[one, more] for one, more in zip(first, count(builds, backends, package, Path(folder)), strict=True)]
        a, b = (extremes(counts, min) for counts in of)
        slower = compare(a, b, known)
        if slower:
            print(f"counted in copies, since B does so again: {', '.join(slower)}", flush=True)
            more = third_count(builds, backends, package, Path(folder))
            a, b = extremes(of[0] + more[0], max), extremes(of[1] + more[1], min)
            slower = [name for name in compare(a, b, known) if name in slower]
        return a, b, slower


def table(a: Counts, b: Counts, slower: Sequence[str]) -> str:
    """A line for each program."""
    width = max(map(len, a))
    lines = [f"{'program':{width}}  {'A':>10}  {'B':>10}  {'B/A':>7}"]
    for name in a:
        mark = "  MORE" if name in slower else ""
        lines.append(f"{name:{width}}  {a[name]:10d}  {b[name]:10d}  {b[name] / a[name]:7.4f}{mark}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    described = argparse.ArgumentParser(prog="instructions", description=__doc__.splitlines()[0])
    described.add_argument("a", metavar="A", help="folder of the build to compare with")
    described.add_argument("b", metavar="B", help="folder of the build in question")
    described.add_argument("--limit", type=float, default=1, metavar="PERCENT", help="default: 1")
    described.add_argument("--accepted", type=Path, metavar="FILE", help="slowdowns that are accepted")
    described.add_argument(
        "--accepted-in-a", type=Path, metavar="FILE", help="the same file of A: its entries were of earlier changes"
    )
    return described


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and return 1 if B carries out more, 2 if there is nothing to compare."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--count"]:
        count_here(words[1], words[4:], words[3] == "1", words[2])
        return 0
    given, begin = parser().parse_args(words), time.monotonic()
    try:
        if not 0 < given.limit < 1000:
            raise BadList("--limit takes percents above 0")
        builds = [Build(given.a, "A"), Build(given.b, "B")]
        backends, package = common_backends(*builds), all(map(has_package, builds))
        before = accepted_slowdowns(given.accepted_in_a)
        accepted = [entry for entry in accepted_slowdowns(given.accepted) if entry not in before]

        def limit(name: str) -> tuple[float, str]:
            return limit_of(name, given.limit / 100 * share_of_limit(name), accepted)

        a, b, slower = verdict(builds, backends, package, limit)
    except (BadBuild, BadList) as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    print(f"A: {builds[0].path}\nB: {builds[1].path}\n\n{table(a, b, slower)}")
    for name in a:
        most, reason = limit(name)
        if reason:
            print(f"accepted up to {most:.1%}: {name}: {reason}")
    if slower:
        print(how_to_accept({name: math.ceil((b[name] / a[name] - 1) * 1000 + 1) / 10 for name in slower}))
    print(f"\n{len(a)} programs in {time.monotonic() - begin:.0f} s; beyond its limit: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(ended(main))
