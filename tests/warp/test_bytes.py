"""Columns of bytes of a CUDA device without a GPU: their kernels on emulated warps, and planted mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .byte_mutants import MUTANTS
from .conftest import ROOT, compile_program, plant, planted_once, run
from .noticing import Recorded, notice, record_all
from .test_columns import FLAGS, PATHS, sources

SOURCES = ["libgpuhash/columns/cuda/bytes.cu", "libgpuhash/src/bytes.cpp", "libgpuhash/src/error.cpp"]
SOURCES += ["tests/warp/bytes.cpp"]


def build(root: Path) -> Path:
    """The kernels and their checks."""
    return compile_program(
        root, "bytes", sources(root), [*FLAGS, *PATHS], [["-x", "c++", source] for source in SOURCES]
    )


@pytest.mark.slow
def test_kernels() -> None:
    """Columns of every shape against strings; a failure names the seed."""
    rounds, seed = os.environ.get("GPUHASH_WARP_ROUNDS", "1"), os.environ.get("GPUHASH_WARP_SEED", "1")
    done = run(build(ROOT), rounds, seed)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
    runs = re.search(r"(\d+) runs, (\d+) steps, nothing wrong", done.stdout)
    assert runs is not None
    assert int(runs[1]) >= 50


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def plant_all(root: Path) -> None:
    plant(root, sources(ROOT), MUTANTS)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant_all(tmp_path)


@pytest.fixture(scope="session")
def mutated() -> list[Recorded]:
    return planted_once("mutated-bytes", plant_all, lambda root: record_all([build(root)]))


@pytest.mark.slow
def test_without_a_mistake_switched_on(mutated: list[Recorded]) -> None:
    assert mutated[0].end == 0
    assert len(mutated[0].sections) > 80


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name for m in MUTANTS])
def test_mistake_is_noticed(mutated: list[Recorded], number: int) -> None:
    said = notice(mutated, number)
    print(said)
    assert said, f"{MUTANTS[number - 1].wrong} instead of {MUTANTS[number - 1].right} passed"
