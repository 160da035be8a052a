"""Planted mistakes: the simulation has to find every one (mistakes.py says what they are)."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from mistakes import MISTAKES, plant
from simulator import EXTREMES, ROOT, STRUCTURES, build

PLANS = (("cuda", "plain"), ("cpu", "plain"), ("cpu", "memory"), ("cuda", "memory"), ("cuda", "faults"))
RUNS = [(structure, *plan) for plan in PLANS for structure in STRUCTURES]
SEEDS = (("1", "6"), ("7", "120"), ("121", "2500"))  # the first ones find most, in another run than the first
ALL_RUN = ("1", "120")


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    plant(ROOT, folder)
    return build(EXTREMES, folder)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant(ROOT, tmp_path)
    assert (tmp_path / "libgpuhash/kit/gate.hpp").read_text().count("kit_sim::planted") > 10
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MISTAKES) + 1), ids=[mistake.name for mistake in MISTAKES])
def test_mistake_is_found(planted: Path, number: int) -> None:
    for seeds, run in itertools.product(SEEDS, RUNS):
        command = [str(planted), *run, *seeds, "--mistake", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            assert "violation: " in done.stderr
            return
    pytest.fail(f"no run of seeds {SEEDS} found it")


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_without_a_mistake_there_is_no_violation(planted: Path, run: tuple[str, str, str]) -> None:
    done = subprocess.run([str(planted), *run, *ALL_RUN], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
