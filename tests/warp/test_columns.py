"""Verbs on columns of a CUDA device without a GPU: their kernels on emulated warps, and planted mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .column_mutants import MUTANTS
from .conftest import ROOT, compile_program, plant, planted_once, run
from .noticing import Recorded, notice, record_all

KERNELS = ["group.cu", "reduce.cu", "isin.cu", "join.cu"]
SOURCES = [*(f"libgpuhash/columns/cuda/{name}" for name in KERNELS), "libgpuhash/src/groups.cpp"]
SOURCES += [f"libgpuhash/src/{name}.cpp" for name in ("isin", "join", "error")] + ["tests/warp/columns.cpp"]
INCLUDED = ["libgpuhash/columns/cuda", "libgpuhash/src", "libgpuhash/hash", "libgpuhash/tile", "libgpuhash/sched"]
INCLUDED += ["libgpuhash/include", "tests/sizes", "tests/warp"]
FLAGS = ["-std=c++20", "-Og", "-Wall", "-Wextra", "-DGPUHASH_EMULATED_WARP=1"]
FLAGS += ["-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", "-Wno-missing-field-initializers"]
FLAGS += ["-include", "tests/sizes/kernels.hpp"]
PATHS = ["-Itests/warp/include", "-I.", "-Ilibgpuhash/include"]


def sources(root: Path) -> list[Path]:
    """Everything that the program includes."""
    files = [path for folder in INCLUDED for path in (root / folder).rglob("*")]
    return sorted(path for path in files if path.suffix in {".hpp", ".cuh", ".cu", ".cpp", ".h"})


def build(root: Path) -> Path:
    """The kernels and their checks."""
    parts = [["-x", "c++", source] for source in SOURCES]
    return compile_program(root, "columns", sources(root), [*FLAGS, *PATHS], parts)


@pytest.mark.slow
def test_kernels() -> None:
    """Groups, aggregates, isin and joins of columns of every shape against a map; a failure names the seed."""
    rounds, seed = os.environ.get("GPUHASH_WARP_ROUNDS", "1"), os.environ.get("GPUHASH_WARP_SEED", "1")
    done = run(build(ROOT), rounds, seed)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
    runs, steps = re.search(r"(\d+) runs, (\d+) steps, nothing wrong", done.stdout).groups()
    assert int(runs) >= 300
    assert int(steps) > 1_000_000


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def plant_all(root: Path) -> None:
    plant(root, sources(ROOT), MUTANTS)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant_all(tmp_path)


@pytest.fixture(scope="session")
def mutated() -> list[Recorded]:
    return planted_once("mutated-columns", plant_all, lambda root: record_all([build(root)]))


@pytest.mark.slow
def test_without_a_mistake_switched_on(mutated: list[Recorded]) -> None:
    assert mutated[0].end == 0
    assert len(mutated[0].sections) > 300


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name for m in MUTANTS])
def test_mistake_is_noticed(mutated: list[Recorded], number: int) -> None:
    said = notice(mutated, number)
    print(said)
    assert said, f"{MUTANTS[number - 1].wrong} instead of {MUTANTS[number - 1].right} passed"
