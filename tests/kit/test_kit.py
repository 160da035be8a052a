"""The kit's host code over a fake device, and with simulated threads (kit_sim.cpp says how, workload.hpp what is owed).

Each run is a range of seeds; one seed is one schedule of threads, streams and faults. A violation prints the seed and
the command that repeats it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from simulator import EXTREMES, STRUCTURES, build

pytestmark = pytest.mark.xdist_group("kit")

STEPS = 1_000_000


def simulate(program: Path, *args: str) -> dict[str, int]:
    """The figures of the closing line. Fails with what the program says if there was a violation."""
    done = subprocess.run([str(program), *args], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout
    return {name: int(number) for number, name in re.findall(r"(\d+) (runs|steps|calls|elements|faults)", done.stdout)}


@pytest.fixture(scope="session")
def kit() -> Path:
    return build()


@pytest.fixture(scope="session")
def extreme() -> Path:
    return build(EXTREMES)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_million_steps(kit: Path, structure: str, device: str) -> None:
    figures = simulate(kit, structure, device, "plain", "1", "1000000", "--steps", str(STEPS))
    assert figures["steps"] >= STEPS


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_some_schedules(kit: Path, structure: str, device: str) -> None:
    figures = simulate(kit, structure, device, "plain", "1000001", "1000040")
    assert figures["runs"] == 40


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_allocations_fail(kit: Path, structure: str, device: str) -> None:
    figures = simulate(kit, structure, device, "memory", "1", "250")
    assert figures["faults"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_each_allocation_fails_in_turn(kit: Path, structure: str) -> None:
    for device in ("cuda", "cpu"):
        figures = simulate(kit, structure, device, "memory", "5", "6", "--at", "all")
        assert figures["faults"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_calls_of_the_device_fail(kit: Path, structure: str) -> None:
    figures = simulate(kit, structure, "cuda", "faults", "1", "400")
    assert figures["faults"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_each_call_of_the_device_fails_in_turn(kit: Path, structure: str) -> None:
    figures = simulate(kit, structure, "cuda", "faults", "5", "6", "--at", "all")
    assert figures["faults"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_many_steps_and_many_parts(extreme: Path, structure: str, device: str) -> None:
    for plan in ("plain", "memory"):
        figures = simulate(extreme, structure, device, plan, "1", "120")
        assert figures["runs"] == 120


def test_a_bad_op_code_is_counted_once(kit: Path) -> None:
    """In a table that gets no memory, too, which serves a mixed batch in several rounds."""
    figures = simulate(kit, "stadium", "cuda", "memory", "55", "55")
    assert figures["faults"] > 10


def test_a_run_can_be_repeated(kit: Path) -> None:
    args = ("slab_hash", "cuda", "plain", "7", "9")
    assert simulate(kit, *args) == simulate(kit, *args)
