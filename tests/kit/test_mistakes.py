"""Planted mistakes: the simulation has to find every one (mistakes.py says what they are).

A seed that never comes to the place of a mistake runs with it as without it, and cannot find it. So all seeds of the
first runs are recorded once, without a mistake, and a mistake is looked for by those that come to its place: by a few
of each run, by the others, and in the end by many seeds of all runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest
from mistakes import MISTAKES, plant
from simulator import BUILD, EXTREMES, ROOT, STRUCTURES, build

PLANS = (("cuda", "plain"), ("cpu", "plain"), ("cpu", "memory"), ("cuda", "memory"), ("cuda", "faults"))
Run = tuple[str, str, str]
RUNS: list[Run] = [(structure, *plan) for plan in PLANS for structure in STRUCTURES]
RECORDED = ("1", "120")
TRIED = (0, 4, 12, 40, None)  # seeds of each run, from where to where at a time
MANY = (("121", "400"), ("401", "2500"))


class Planted(NamedTuple):
    """The simulator with all mistakes, and which seeds of each run come to their places."""

    program: Path
    came_to: dict[Run, dict[int, frozenset[int]]]


def simulate(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600, check=False)


def record(program: Path, run: Run) -> dict[int, frozenset[int]]:
    """What the seeds of a run come to, without a mistake; kept beside the program."""
    kept = program.parent / "-".join([*run, "record"])
    if not kept.exists():
        done = simulate(program, *run, *RECORDED, "--record")
        assert done.returncode == 0, done.stderr[-4000:]
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(done.stdout)
        fresh.rename(kept)
    found = re.findall(r"^seed (\d+): came to((?: \d+)*)$", kept.read_text(), re.MULTILINE)
    return {int(seed): frozenset(map(int, places.split())) for seed, places in found}


@pytest.fixture(scope="session")
def planted() -> Planted:
    """One process plants, compiles and records; others that want it wait."""
    BUILD.mkdir(exist_ok=True)
    folder = BUILD / "planted"
    with (BUILD / "planted.lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        plant(ROOT, folder)
        program = build(EXTREMES, folder)
        return Planted(program, dict(zip(RUNS, pool.map(lambda run: record(program, run), RUNS), strict=True)))


def attempts(planted: Planted, mistake: int) -> Iterator[tuple[str, ...]]:
    """Runs that may find a mistake, cheap ones first."""
    coming = {run: [seed for seed, places in of.items() if mistake in places] for run, of in planted.came_to.items()}
    for begin, end in pairwise(TRIED):
        for run, seeds in coming.items():
            if some := seeds[begin:end]:
                yield *run, *RECORDED, "--seeds", f",{','.join(map(str, some))},"
    for seeds, run in product(MANY, sorted(RUNS, key=lambda run: -len(coming[run]))):
        yield *run, *seeds


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant(ROOT, tmp_path)
    assert (tmp_path / "libgpuhash/kit/gate.hpp").read_text().count("kit_sim::is_planted") > 10
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MISTAKES) + 1), ids=[mistake.name for mistake in MISTAKES])
def test_mistake_is_found(planted: Planted, number: int) -> None:
    for arguments in attempts(planted, number):
        done = simulate(planted.program, *arguments, "--mistake", str(number))
        if done.returncode:
            assert "violation: " in done.stderr
            print(*arguments, done.stderr[:200])
            return
    pytest.fail("no run found it")


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_without_a_mistake_there_is_no_violation(planted: Planted, run: Run) -> None:
    assert set(planted.came_to[run]) == set(range(int(RECORDED[0]), int(RECORDED[1]) + 1))
