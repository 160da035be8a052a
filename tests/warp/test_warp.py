"""The CUDA kernels without a GPU: all structures and the allocator, on emulated warps."""

from __future__ import annotations

import os
import re

import pytest

from .conftest import ROOT, STRUCTURES, build_all, plant, planted_once, run, sources
from .mutants import MUTANTS
from .noticing import notice, record_all

ROUNDS, SEED = os.environ.get("GPUHASH_WARP_ROUNDS", "1"), os.environ.get("GPUHASH_WARP_SEED", "1")


# hive's evictions take most of a minute here: a lane at a time, each access a choice of the scheduler.
@pytest.mark.parametrize(
    "structure", [pytest.param(s, marks=pytest.mark.slow if s == "hive" else ()) for s in STRUCTURES]
)
def test_kernels(warps, structure):
    """Batches of all kinds, formats and shapes against a model; a failure names the seed."""
    done = run(warps, ROUNDS, SEED)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
    said = re.search(r"(\d+) shapes, (\d+) steps, (\d+) collectives, nothing wrong", done.stdout)
    shapes, steps, collectives = said.groups()
    assert int(shapes) == {"hive": 14, "skiplist": 5, "stadium": 24}.get(structure, 12)
    assert int(steps) > 1_000_000
    assert int(collectives) > 10_000


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def plant_all(root):
    plant(root, sources(ROOT), MUTANTS)


def test_every_mistake_has_its_place(tmp_path):
    plant_all(tmp_path)
    assert (tmp_path / "libgpuhash/drive/cuda.cuh").read_text().count("emulated::planted") > 20
    # What initializes a constant may be evaluated by the compiler: such a mistake can never be switched on.
    in_constants = [
        said
        for path in {m.file for m in MUTANTS}
        for said in re.findall(r"\bconst \w+ \w+ = [^;{}]*emulated::planted\(\d+\)", (tmp_path / path).read_text())
    ]
    assert in_constants == []


@pytest.fixture(scope="session")
def mutated_warps():
    return planted_once("mutated", plant_all, lambda root: record_all(build_all(root).values()))


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_without_a_mistake_switched_on(mutated_warps, structure):
    recorded = next(one for one in mutated_warps if one.program.name == structure)
    assert recorded.end == 0
    assert len(recorded.sections) > 20


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name for m in MUTANTS])
def test_mistake_is_noticed(mutated_warps, number):
    said = notice(mutated_warps, number)
    print(said)
    assert said, f"{MUTANTS[number - 1].wrong} instead of {MUTANTS[number - 1].right} passed"
