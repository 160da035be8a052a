"""The explorer as a fixture, and its figures in pytest's summary."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import explore
from runs import Explorer, Summary

SUMMARY = pytest.StashKey[Summary]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SUMMARY] = Summary()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    summary = terminalreporter.config.stash[SUMMARY]
    for title, lines in (("explorer", summary.sets), ("mutants", summary.mutants), ("explorer notes", summary.notes)):
        if lines:
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> Summary:
    return pytestconfig.stash[SUMMARY]


@pytest.fixture(scope="session")
def explorer() -> Iterator[Explorer]:
    runner = Explorer(explore.build_explorer())
    yield runner
    runner.pool.shutdown(cancel_futures=True)
