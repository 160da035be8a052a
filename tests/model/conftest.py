"""The explorer as a fixture, and its figures in pytest's summary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import explore
from runs import Explorer, Summary


@pytest.fixture
def summary(say: Callable[[str, str], None]) -> Iterator[Summary]:
    lines = Summary()
    yield lines
    for section, said in (("explorer", lines.sets), ("mutants", lines.mutants), ("explorer notes", lines.notes)):
        for line in said:
            say(section, line)


@pytest.fixture(scope="session")
def explorer() -> Iterator[Explorer]:
    runner = Explorer(explore.build_explorer())
    yield runner
    runner.pool.shutdown(cancel_futures=True)
