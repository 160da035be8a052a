"""Is build B slower than build A? Both are opened in this process and take turns.

    python -m asv_bench.compare_builds A B                 two prefixes, or folders of built libraries
    python -m asv_bench.compare_builds A B --limit 5 --only 'hive *'

Of each operation one thread's processor time is taken; in a block each build has a new table, they take turns, and the
least time but one of each counts. The ratio is the median over blocks, the interval holds it with 95 % probability. A
ratio beyond the limit is looked at again, in more blocks, each of which opens new copies of both builds: if it is
beyond the limit again, all of the interval is beyond half of it, and the least times of all blocks differ by more than
the limit, too, there is a third look, in new processes. If in each of them all of the interval is beyond the limit, B
is slower, and the status is 1. docs/benchmarks.md has the rest, and how a slowdown is accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .harness.builds import BadBuild, Build, common_backends
from .harness.courses import ROUNDS, Course, Wrong, all_courses

Ratios = dict[str, list[float]]
Times = dict[str, list[float]]  # of A and of B
Limits = Mapping[str, tuple[float, str]]  # of each benchmark, with the reason if it is not the usual one
Opened = contextlib.AbstractContextManager[Sequence[Build]]
BLOCKS, MORE_BLOCKS, MOST_BLOCKS = 6, 9, 15  # of the three looks
PROCESSES = 2  # of the third look
MOST_SECONDS = 420  # of a processor: the first look takes some 70, a second one at everything another 100
WORST_COURSES = 3  # courses at most that the third look measures: where more are slower, one is enough to know
ROOT = Path(__file__).resolve().parents[1]


def interval(ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The narrowest pair of order statistics that hold the median with this probability; all ratios if none do."""
    ordered, n = sorted(ratios), len(ratios)
    outside, cut = 0.5**n * 2, 0
    while outside + 2 * math.comb(n, cut + 1) * 0.5**n <= 1 - confidence:
        cut += 1
        outside += 2 * math.comb(n, cut) * 0.5**n
    return ordered[cut], ordered[n - 1 - cut]


def one_block(course: Course, builds: Sequence[Build], block: int) -> Times:
    """The least time but one of A and of B in each operation. The first round does not count.

    The least of all is not taken: Linux subtracts what other guests of its host were given from the processor time of
    whoever runs when it hears of that, so that now and then a time is too short.
    """
    runners: list[Any] = [None, None]
    times: dict[str, list[list[float]]] = {operation: [[], []] for operation in course.operations}
    try:
        for which in (block % 2, 1 - block % 2):
            runners[which] = course.open(builds[which])
        for turn in range(ROUNDS):
            first = (block + turn) % 2
            for operation in course.operations:
                for which in (first, 1 - first):
                    seconds = runners[which].step(operation, turn)
                    if turn:
                        times[operation][which].append(max(seconds, 1e-9))
    finally:
        for runner in runners:
            if runner is not None:
                runner.close()
    return {operation: [sorted(of)[1] for of in both] for operation, both in times.items()}


def look(courses: Iterable[Course], builds: Callable[[], Opened], blocks: int) -> tuple[Ratios, Times]:
    """Ratios of all blocks of each benchmark, and the least times. Blocks of one course are far apart in time."""
    ratios: Ratios = {}
    least: Times = {}
    for block in range(blocks):
        with builds() as two:
            for course in courses:
                for operation, (a, b) in one_block(course, two, block).items():
                    name = course.name(operation)
                    ratios.setdefault(name, []).append(b / a)
                    before = least.get(name, [math.inf, math.inf])
                    least[name] = [min(before[0], a), min(before[1], b)]
                if time.process_time() > MOST_SECONDS:
                    raise BadBuild(f"after {name} this process has taken more than {MOST_SECONDS} s of a processor")
    return ratios, least


@contextlib.contextmanager
def copies(builds: Sequence[Build]) -> Iterator[Sequence[Build]]:
    """Both builds from new files.

    Code can take 30 % longer in one copy of a file than in another one of the same bytes, each time that copy is run.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield [build.copy(Path(folder) / build.name) for build in builds]


def is_alarm(ratios: Sequence[float], limit: float) -> bool:
    """Is the first look at a benchmark beyond the limit (.1: ten percent)?"""
    return statistics.median(ratios) > 1 + limit


def is_confirmed(ratios: Sequence[float], least: Sequence[float], limit: float) -> bool:
    """Is a second look beyond the limit, all of its interval beyond half of it, and the best of B slower, too?"""
    return is_alarm(ratios, limit) and interval(ratios)[0] > 1 + limit / 2 and least[1] > least[0] * (1 + limit)


def is_certain(ratios: Sequence[float], least: Sequence[float], limit: float) -> bool:
    """Is all of the interval beyond the limit, and the best of B slower, too?"""
    return interval(ratios)[0] > 1 + limit and least[1] > least[0] * (1 + limit)


# ---- slowdowns that were accepted ------------------------------------------------------------------------------------


class BadList(ValueError):
    """The file of accepted slowdowns is not as it must be."""


def accepted_slowdowns(path: Path | None) -> list[dict[str, Any]]:
    """The entries of a file like accepted.toml: benchmark, percent, reason."""
    if path is None or not path.exists():
        return []
    try:
        entries = tomllib.loads(path.read_text()).get("slowdown", [])
    except tomllib.TOMLDecodeError as error:
        raise BadList(f"{path} is no TOML: {error}") from error
    for number, entry in enumerate(entries, 1):
        missing = {"benchmark": str, "percent": (int, float), "reason": str}
        wrong = [
            key for key, of in missing.items() if not isinstance(entry.get(key), of) or entry[key] in ("", 0, "...")
        ]
        if wrong:
            raise BadList(f"{path}: slowdown {number} lacks {', '.join(wrong)}: see docs/benchmarks.md")
    return entries


def limit_of(name: str, limit: float, accepted: Iterable[Mapping[str, Any]]) -> tuple[float, str]:
    """(limit of a benchmark, why it is not the usual one)."""
    for entry in accepted:
        if fnmatch.fnmatchcase(name, entry["benchmark"]) and entry["percent"] / 100 > limit:
            return entry["percent"] / 100, entry["reason"]
    return limit, ""


def how_to_accept(slower: Mapping[str, float]) -> str:
    """The entries that accept these slowdowns: benchmark -> at most so many percent."""
    entries = [
        f'[[slowdown]]\nbenchmark = "{name}"\npercent = {percent:g}\nreason = "..."\n'
        for name, percent in slower.items()
    ]
    return (
        "\nIs it the price of something? Then add this to asv_bench/accepted.toml, with the reason that it has\n"
        '(docs/benchmarks.md, "Accepting a slowdown"):\n\n' + "\n".join(entries)
    )


# ---- the command -----------------------------------------------------------------------------------------------------


def table(ratios: Ratios, least: Mapping[str, Sequence[float]], marks: Mapping[str, str]) -> str:
    """A line for each benchmark: the least time of both, the ratio, its interval."""
    width = max(map(len, ratios))
    lines = [f"{'benchmark':{width}}  {'A, us':>10}  {'B, us':>10}  {'B/A':>6}  95 % interval"]
    for name, of in ratios.items():
        low, high = interval(of)
        times = "  ".join(f"{seconds * 1e6:10.1f}" for seconds in least[name])
        line = f"{name:{width}}  {times}  {statistics.median(of):6.3f}  {low:.3f} to {high:.3f}"
        lines.append(f"{line}  {marks.get(name, '')}".rstrip())
    return "\n".join(lines)


def chosen_courses(backends: list[str], patterns: Sequence[str]) -> list[Course]:
    """The courses with an operation that a pattern names; all of a course are measured."""
    courses = all_courses(backends)
    names = [course.name(operation) for course in courses for operation in course.operations]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise BadList(f"--only {pattern!r} names no benchmark; there are:\n  " + "\n  ".join(names))

    def is_chosen(course: Course) -> bool:
        of = [course.name(operation) for operation in course.operations]
        return not patterns or any(fnmatch.filter(of, pattern) for pattern in patterns)

    return [course for course in courses if is_chosen(course)]


def common_courses(courses: Sequence[Course], builds: Sequence[Build]) -> list[Course]:
    """Those of which both builds have the functions; a line for each of the others."""
    for course in courses:
        for build in builds:
            if not build.has(course.function):
                names = ", ".join(course.name(operation) for operation in course.operations)
                print(f"left out: {names}: {build.name} has no gpuhash_{course.function}", flush=True)
    return [course for course in courses if all(build.has(course.function) for build in builds)]


def of_courses(courses: Sequence[Course], names: Iterable[str]) -> list[Course]:
    """The courses that measure one of these benchmarks, in the order of the names."""
    return list(
        dict.fromkeys(course for name in names for course in courses if name in map(course.name, course.operations))
    )


def in_a_process(builds: Sequence[Build], names: Sequence[str], blocks: int) -> tuple[Ratios, Times]:
    """What a new process sees of these benchmarks, in new copies of both builds."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "seen.json"
        command = [sys.executable, "-m", "asv_bench.compare_builds", *(str(build.folder) for build in builds)]
        command += ["--blocks", str(blocks), "--into", str(into), *(f"--only={name}" for name in names)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BadBuild(f"a new process could not measure again: {done.stderr.strip() or done.returncode}")
        seen = json.loads(into.read_text())
    return seen["ratios"], seen["least"]


def third_look(
    builds: Sequence[Build], courses: Sequence[Course], slower: Mapping[str, float], blocks: int, limits: Limits
) -> list[str]:
    """Those of the benchmarks that each new process finds slower; of many, those with the greatest ratios."""
    worst = of_courses(courses, sorted(slower, key=lambda name: -slower[name]))[:WORST_COURSES]
    names = [name for name in slower if of_courses(worst, [name])]
    certain = names
    for number in range(PROCESSES):
        ratios, least = in_a_process(builds, names, MOST_BLOCKS * blocks // BLOCKS)
        ratios = {name: ratios[name] for name in names}
        here = [name for name in names if is_certain(ratios[name], least[name], limits[name][0])]
        certain = [name for name in certain if name in here]
        marks = {name: "SLOWER" if name in here else "not confirmed" for name in names}
        print(f"\nA third look, new process {number + 1} of {PROCESSES}:\n{table(ratios, least, marks)}", flush=True)
        if not certain:
            break
    for name in slower:
        if name not in names:
            print(f"not looked at a third time, since others are slower still: {name}")
    return certain


def compare(builds: Sequence[Build], courses: Sequence[Course], blocks: int, limits: Limits) -> dict[str, float]:
    """Look once, and again at what is beyond its limit. Returns the benchmarks of which B is slower, and the upper ends
    of their ratios."""
    ratios, least = look(courses, lambda: contextlib.nullcontext(builds), blocks)
    alarms = [name for name, of in ratios.items() if is_alarm(of, limits[name][0])]
    print(table(ratios, least, dict.fromkeys(alarms, "look again")), flush=True)
    if not alarms:
        return {}
    suspects = of_courses(courses, alarms)
    again, least = look(suspects, lambda: copies(builds), MORE_BLOCKS * blocks // BLOCKS)
    again = {name: of for name, of in again.items() if name in alarms}
    slower = {name: of for name, of in again.items() if is_confirmed(of, least[name], limits[name][0])}
    marks = {name: "slower again" if name in slower else "not confirmed" for name in again}
    print(f"\nA second look:\n{table(again, least, marks)}", flush=True)
    if not slower:
        return {}
    medians = {name: statistics.median(of) for name, of in slower.items()}
    return {name: interval(slower[name])[1] for name in third_look(builds, courses, medians, blocks, limits)}


def write_seen(builds: Sequence[Build], courses: Sequence[Course], blocks: int, into: Path) -> None:
    """Measure for another process."""
    ratios, least = look(courses, lambda: copies(builds), blocks)
    into.write_text(json.dumps({"ratios": ratios, "least": least}))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    described = argparse.ArgumentParser(prog="compare_builds", description=__doc__.splitlines()[0])
    described.add_argument("a", metavar="A", help="folder of the build to compare with")
    described.add_argument("b", metavar="B", help="folder of the build in question")
    described.add_argument("--limit", type=float, default=10, metavar="PERCENT", help="default: 10")
    described.add_argument("--only", action="append", default=[], metavar="PATTERN", help="benchmarks by name, with *")
    described.add_argument("--blocks", type=int, default=BLOCKS, help=f"of the first look (default: {BLOCKS})")
    described.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # of the processes of the third look
    described.add_argument("--accepted", type=Path, metavar="FILE", help="slowdowns that are accepted")
    described.add_argument(
        "--accepted-in-a", type=Path, metavar="FILE", help="the same file of A: its entries were of earlier changes"
    )
    return described


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and return 1 if B is slower, 2 if there is nothing to compare."""
    given, start = parser().parse_args(arguments), time.monotonic()
    try:
        if not 0 < given.limit < 1000 or given.blocks < 1:
            raise BadList("--limit takes percents above 0, --blocks a number above 0")
        if resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY:
            raise BadBuild("with a limit of processor time Linux counts it in steps of 4 ms: ulimit -t unlimited")
        builds = [Build(given.a, "A"), Build(given.b, "B")]
        courses = chosen_courses(common_backends(*builds), given.only)
        before = accepted_slowdowns(given.accepted_in_a)
        accepted = [entry for entry in accepted_slowdowns(given.accepted) if entry not in before]
        print(f"A: {builds[0].path}\nB: {builds[1].path}\n", flush=True)
        courses = common_courses(courses, builds)
        names = [course.name(operation) for course in courses for operation in course.operations]
        if given.into:
            write_seen(builds, courses, given.blocks, given.into)
            return 0
        limits = {name: limit_of(name, given.limit / 100, accepted) for name in names}
        slower = compare(builds, courses, given.blocks, limits)
    except (BadBuild, BadList, Wrong) as error:
        print(f"compare_builds: {error}", file=sys.stderr)
        return 2
    for name, (most, reason) in limits.items():
        if reason:
            print(f"accepted up to {most:.0%}: {name}: {reason}")
    found, seconds = ", ".join(slower) or "none", time.monotonic() - start
    if slower:
        print(how_to_accept({name: math.ceil((ratio - 1) * 100) for name, ratio in slower.items()}))
    print(f"\n{len(names)} benchmarks in {seconds:.0f} s; beyond its limit: {found}")
    return 1 if slower else 0


def ended(program: Callable[[], int]) -> int:
    """The exit status of a gate's program: what the program returns, 1 if something is slower; 2 if it raises."""
    try:
        return program()
    except Exception:
        traceback.print_exc()
        return 2


if __name__ == "__main__":
    sys.exit(ended(main))
