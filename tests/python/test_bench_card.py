"""The courses of tables on a card: with numpy in CuPy's place on the host, and as they are where there is a GPU."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
pytest.importorskip("asv_bench.compare_builds", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness import builds, card_courses  # noqa: E402
from asv_bench.harness.courses import OPERATIONS, ROUNDS, Wrong  # noqa: E402


class Event:
    """The n-th event of a process is at n * n milliseconds."""

    count = 0

    def record(self):
        Event.count += 1
        self.at = Event.count**2

    def synchronize(self):
        """Nothing is queued on the host."""


@pytest.fixture
def on_the_host(monkeypatch):
    Event.count = 0
    cuda = types.SimpleNamespace(Event=Event, get_elapsed_time=lambda start, stop: stop.at - start.at)
    cupy = types.SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray, cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(card_courses.CardRunner, "device", builds.CPU)


def the_build():
    return builds.Build(Path(gh.__file__).parent, "this build")


def test_the_median_of_the_times_between_events(on_the_host):
    course = card_courses.CardCourse("linear_probe", 8, 8, (4, 4))
    times = card_courses.median_times(course, the_build(), 2)
    assert list(times) == list(OPERATIONS)
    # The k-th of all operations is between the events 2k + 1 and 2k + 2; the first round of each table does not count.
    many = len(OPERATIONS)
    for place, operation in enumerate(OPERATIONS):
        counted = [turn * many + place for turn in range(2 * ROUNDS) if turn % ROUNDS]
        expected = np.median([(2 * k + 2) ** 2 - (2 * k + 1) ** 2 for k in counted]) / 1e3
        assert times[operation] == pytest.approx(expected)


@pytest.mark.parametrize("size", [(8, 8, (4, 4)), (12, 8, (8, 8))])
def test_wrong_results_are_seen(on_the_host, monkeypatch, size):
    course = card_courses.CardCourse("linear_probe", *size)
    here = card_courses.CardRunner.here

    def one_is_wrong(self, array):
        array = here(self, array).copy()
        array[-1] ^= 1
        return array

    monkeypatch.setattr(card_courses.CardRunner, "here", one_is_wrong)
    with pytest.raises(Wrong, match=f"1 of {1 << size[1]} elements are wrong"):
        card_courses.median_times(course, the_build(), 1)


def test_without_a_device_each_benchmark_says_so():
    sys.path.append(str(ROOT / "asv_bench"))
    from benchmarks import gpu_tables

    if any(device.name.startswith("cuda") for device in gh.devices()):
        pytest.skip("there is a CUDA device here")
    benchmark = gpu_tables.Tables()
    measured = benchmark.setup_cache()
    for label in benchmark.params[2]:
        with pytest.raises(NotImplementedError, match="there is no CUDA device here"):
            benchmark.setup(measured, "hive", "insert", label)


@pytest.mark.gpu
@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="the arrays are CuPy's")
@pytest.mark.parametrize("size", [(10, 10, (4, 4)), (16, 10, (8, 8))])
def test_on_a_card(backend, size):
    times = card_courses.median_times(card_courses.CardCourse(backend, *size), the_build(), 1)
    assert all(1e-6 < seconds < 1 for seconds in times.values())
