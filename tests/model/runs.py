"""Runs of the explorer, and the lines about them in pytest's summary."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANDOM_PROGRAMS = os.environ.get("GPUHASH_EXPLORE_COUNT", "2000")
QUICK = ("--quick", "--count", RANDOM_PROGRAMS)
EVERYTHING = ("--count", "10000")


@dataclass
class Answer:
    """What one run of the explorer printed."""

    status: int
    lines: list[dict[str, Any]]
    output: str
    errors: str


@dataclass
class Summary:
    """Lines for pytest's terminal summary."""

    sets: list[str] = field(default_factory=list)
    mutants: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Explorer:
    """Runs the explorer; ``start`` in the background, on as many cores as there are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cores = os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.cores)
        self.started: dict[tuple[str, ...], Future[Answer]] = {}

    def __call__(self, *arguments: str) -> Answer:
        command = [str(self.path), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        except OSError as e:
            # One of some thousand starts from several threads failed so, once; nothing has run then.
            if e.errno != errno.EFAULT:
                raise
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return Answer(done.returncode, lines, done.stdout, done.stderr)

    def start(self, *arguments: str) -> Future[Answer]:
        if arguments not in self.started:
            self.started[arguments] = self.pool.submit(self, *arguments)
        return self.started[arguments]

    def shards(self, structure: str, how: tuple[str, ...] = QUICK) -> list[Future[Answer]]:
        """All programs of one structure, cut into a piece per core."""
        return [self.start(structure, "--json", *how, "--shard", f"{k}/{self.cores}") for k in range(self.cores)]

    def hunt(self, structure: str, mutant: str, programs: tuple[str, ...] = ()) -> Future[Answer]:
        return self.start(structure, "--mutant", mutant, "--json", *QUICK, *programs)
