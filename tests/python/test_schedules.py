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
    how = {"losses": seed % 7, "slow": seed % 3 / 4, "fan": 1 + seed // 2 % 3}
    made = schedules.Simulation(parts, 1 + seed % 4, 1 + seed % 3, seed, **how)
    assert made.run() == schedules.in_one_process(parts), f"seed {seed}"
    return made


def test_every_schedule_is_exact():
    runs = [simulated(seed) for seed in range(40)]
    assert any(made.runs > tasks(made) for made in runs)  # some tasks ran again
    assert all(made.runs >= tasks(made) for made in runs)
    assert any(made.splits < len(made.parts) for made in runs)  # some parts were merged before they were split


def tasks(made):
    """How many tasks there are to run."""
    return len(made.parts) + made.splits + made.shards


def test_a_quiet_run_has_each_task_once_and_moves_what_is_elsewhere():
    parts = schedules.sampled(6, 50, 3)
    alone, six = (schedules.Simulation(parts, 3, workers, 1, scale=1e6) for workers in (1, 6))
    assert alone.run() == six.run()
    assert alone.runs == six.runs == tasks(alone) == 15
    assert alone.moved == 0
    sizes = [six.sizes["split", i] for i in range(6)]
    assert 0 < six.moved < sum(sizes)  # splits are where their parts are, and a merge is where one of its splits is
    assert max(sizes) <= six.peak < alone.peak
    assert [alone.scheduled, six.scheduled] == [pytest.approx(schedules.SCHEDULER * (15 + 6 + 3 * 6))] * 2
    read = sum(len(keys) for keys, _ in parts) * 1e6 / schedules.ROWS
    assert alone.now > read > six.now > max(len(keys) for keys, _ in parts) * 1e6 / schedules.ROWS


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
