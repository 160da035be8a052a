"""Group-bys in parts in simulated clusters: every schedule of losses and stragglers gives the exact result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "asv_bench" / "schedules.py").exists():
    pytest.skip("asv_bench is in a checkout of the repository only", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from asv_bench import schedules  # noqa: E402


def simulated(seed):
    parts = schedules.sampled(1 + seed % 6, 12, seed)
    made = schedules.Simulation(parts, 1 + seed % 4, 1 + seed % 3, seed, losses=seed % 7, slow=seed % 3 / 4)
    assert made.run() == schedules.in_one_process(parts), f"seed {seed}"
    return made


def test_every_schedule_is_exact():
    runs = [simulated(seed) for seed in range(40)]
    assert any(made.runs > 2 * len(made.parts) + made.shards for made in runs)  # some tasks ran again
    assert all(made.runs >= 2 * len(made.parts) + made.shards for made in runs)


@pytest.mark.slow
def test_many_schedules_are_exact():
    for seed in range(40, 2000):
        simulated(seed)


@pytest.mark.parametrize("block", range(20))
def test_a_hundred_thousand_schedules(block):
    """5,000 a block; what a task gave before is worked out again now and then, and has to be the same bytes."""
    runs, again = schedules.of_same_rows(5000 * block, 5000)
    assert runs > 60_000
    assert again > 1_000


def test_a_task_that_gives_another_result_when_it_runs_again_is_found(monkeypatch):
    """A planted mistake: what a merge gives depends on how many were before it."""
    merge, calls = schedules.gh.partial.merge, []

    def shuffled(parts):
        calls.append(1)
        return merge(parts[::-1] if len(calls) > 200 else parts)

    monkeypatch.setattr(schedules.gh.partial, "merge", shuffled)
    with pytest.raises(AssertionError, match="another result"):
        schedules.of_same_rows(200, 5000)


def test_a_schedule_is_repeatable():
    one, other = simulated(13), simulated(13)
    assert (one.now, one.runs, one.moved, one.peak) == (other.now, other.runs, other.moved, other.peak)


def test_a_merge_that_depends_on_who_ran_last_is_found(monkeypatch):
    """A planted mistake: the order of what is merged is that in which results came."""
    merge = schedules.gh.partial.merge
    calls = []

    def shuffled(parts):
        calls.append(1)
        return merge(parts[::-1] if len(calls) % 2 else parts)

    monkeypatch.setattr(schedules.gh.partial, "merge", shuffled)
    with pytest.raises(AssertionError, match="seed"):
        test_every_schedule_is_exact()
