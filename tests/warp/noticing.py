"""Which section of which program notices a planted mistake, at the least cost.

A section (emulator.hpp) that never comes to the place of a mistake does the same with it as without it, and cannot
notice it. So a run without a mistake is recorded once for each program: the sections, their steps, and where they come
to. A mistake is looked for in the sections that come to its place, short ones first. One that none of them notices is
looked for in whole programs, and in more rounds than were recorded: what the sections save is time alone.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from .conftest import run

TRIED = (0, 3, 12, 40, None)  # sections of each program, from where to where at a time
ROUNDS = 3  # of whole programs
SECONDS = 5  # that any run may take
STEPS_A_SECOND = 1_000_000  # at least: on busy cores of a Zen 4 they are 5,000,000


class Attempt(NamedTuple):
    """A run that may notice a mistake: its sections (none: all), and its steps without the mistake."""

    program: Path
    rounds: int
    sections: list[int]
    steps: int

    def notice(self, mistake: int) -> str:
        """What was wrong; nothing if nothing was."""
        seconds = SECONDS + self.steps // STEPS_A_SECOND
        some = {"GPUHASH_WARP_SECTIONS": f",{','.join(map(str, self.sections))},"} if self.sections else {}
        done = run(self.program, str(self.rounds), seconds=seconds, GPUHASH_WARP_MUTANT=str(mistake), **some)
        if not done.returncode:
            return ""
        if done.returncode == -signal.SIGXCPU:
            return f"no end in sight after {seconds} s of the processor, {self.steps} steps without the mistake"
        return done.stderr.strip() or f"ended with {done.returncode}"


class Section(NamedTuple):
    """A section of a program, as it ran without a mistake."""

    number: int
    steps: int
    came_to: frozenset[int]


class Recorded(NamedTuple):
    """A program, how a run of it without a mistake ended, and what its sections were."""

    program: Path
    end: int
    sections: list[Section]

    def coming_to(self, mistake: int) -> list[Section]:
        """The sections that come to the place of a mistake, the shortest first."""
        return sorted((s for s in self.sections if mistake in s.came_to), key=lambda s: s.steps)


def record(program: Path) -> Recorded:
    """A program's record, which lies beside it: it is run once."""
    kept = program.with_suffix(".record")
    if not kept.exists():
        done = run(program, "1", GPUHASH_WARP_RECORD="1")
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(f"{done.returncode}\n{done.stdout}")
        fresh.rename(kept)
    end, _, said = kept.read_text().partition("\n")
    found = re.findall(r"^section (\d+): (\d+) steps, came to((?: \d+)*)$", said, re.MULTILINE)
    return Recorded(
        program, int(end), [Section(int(n), int(steps), frozenset(map(int, to.split()))) for n, steps, to in found]
    )


def record_all(programs: Iterable[Path]) -> list[Recorded]:
    """The records of some programs, two at a time or as many as there are cores for."""
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 1) // 2)) as pool:
        return list(pool.map(record, programs))


def attempts(programs: Sequence[Recorded], mistake: int) -> Iterator[Attempt]:
    """Runs that may notice a mistake, cheap ones first."""
    coming = [(one, sections) for one in programs if (sections := one.coming_to(mistake))]
    for begin, end in pairwise(TRIED):
        tried = [
            Attempt(one.program, 1, [s.number for s in some], sum(s.steps for s in some))
            for one, sections in coming
            if (some := sections[begin:end])
        ]
        yield from sorted(tried, key=lambda attempt: attempt.steps)
    first = [one for one, _ in coming]
    for one in first + [one for one in programs if one not in first]:
        yield Attempt(one.program, ROUNDS, [], ROUNDS * sum(s.steps for s in one.sections))


def notice(programs: Sequence[Recorded], mistake: int) -> str:
    """What a program said that noticed the mistake; nothing if all passed."""
    for attempt in attempts(programs, mistake):
        if said := attempt.notice(mistake):
            return f"{attempt.program.name}, sections {attempt.sections or 'all'}: {said}"
    return ""
