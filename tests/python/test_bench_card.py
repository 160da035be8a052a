"""The courses of tables on a card: with numpy in CuPy's place on the host, and as they are where there is a GPU."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
pytest.importorskip("asv_bench.compare_builds", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness import builds, card, card_courses, devices  # noqa: E402
from asv_bench.harness.asv_results import facts  # noqa: E402
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


# ---- which card it is, and what it can do ----------------------------------------------------------------------------

A_CARD = {"model": "Card 7", "memory_clock_mhz": 2619, "memory_bus_bits": 5120}


@pytest.fixture
def two_cards(monkeypatch):
    """Two in the machine, the second of which has slower memory; the driver is asked through CuPy."""
    models = {"cpu": "x86-64", "cuda:0": "Card 7", "cuda:1": "Card 8"}
    devices = [types.SimpleNamespace(name=name, model=model) for name, model in models.items()]
    monkeypatch.setattr(card.gh, "devices", lambda: devices)
    known = {(36, 0): 2619000, (37, 0): 5120, (36, 1): 1593000, (37, 1): 5120}
    runtime = types.SimpleNamespace(deviceGetAttribute=lambda what, ordinal: known[what, ordinal])
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime)))


def test_a_card_without_a_number_of_its_own(two_cards, monkeypatch):
    assert card.identity() == card.identity("cuda:0") == A_CARD
    assert card.identity("cuda:1") == {"model": "Card 8", "memory_clock_mhz": 1593, "memory_bus_bits": 5120}
    assert card.words(A_CARD) == "Card 7 with memory of 5120 bits at 2619 MHz"
    with pytest.raises(devices.Unavailable, match="the package sees no card cuda:2"):
        card.identity("cuda:2")
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it fails
    assert card.identity() == {"model": "Card 7"}
    assert card.words(card.identity()) == "Card 7"


def test_what_a_run_says_of_its_cards(two_cards):
    from asv_bench.harness.results import cards

    assert cards(["cpu"]) == {}
    assert cards(["cpu", "cuda"]) == {"cards": {"cuda": A_CARD}}


def test_ceilings_of_batches(monkeypatch):
    """Each operation's accesses, over as much memory as the pairs take."""
    asked = []

    def measure(what, *, device, table_bytes, n, repeats, threads):
        asked.append((what, device, table_bytes, n, repeats))
        return np.arange(1, repeats + 1) * n * {"cas64": 1e-9, "gather8": 1e-10, "gather16": 2e-10}[what]

    monkeypatch.setattr(gh, "measure_ceiling", measure)
    found = card.key_ceilings()
    labels = [card_courses.CardCourse("", *size).label for size in card_courses.card_sizes()]
    assert set(found) == {(operation, label) for operation in OPERATIONS for label in labels}
    middle = (card.REPEATS + 1) / 2  # the median of 1, 2, ...
    assert found["insert", labels[0]] == found["erase", labels[2]] == pytest.approx(middle)
    assert found["find_hit", labels[0]] == pytest.approx(middle / 10)
    assert found["find_miss", labels[1]] == pytest.approx(middle / 5)  # 8+8 bytes
    bytes_of = [bits * width for bits, width in ((1 << 20, 8), (1 << 24, 16), (1 << 26, 8))]
    assert sorted({size for _, _, size, _, _ in asked}) == bytes_of
    assert {(device, n, repeats) for _, device, _, n, repeats in asked} == {("cuda", card.ACCESSES, card.REPEATS)}
    assert len(asked) == 6  # none is measured twice


def test_ceilings_of_this_processor(monkeypatch):
    """The library's, not a fake's: what is measured of a card."""
    monkeypatch.setattr(card, "card_sizes", lambda: [(8, 8, (4, 4)), (12, 8, (8, 8))])
    found = card.key_ceilings("cpu", 1 << 10)
    assert len(found) == 2 * len(OPERATIONS)
    assert all(0 < ns < 1e6 for ns in found.values())


def test_a_series_is_of_one_card(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "machine.json").write_text(json.dumps(facts("here") | {"cpu": "x86-64, Card 7"}))
    (folder / "list.json").write_text("[1]")
    (folder / "old.json").write_text(json.dumps({"results": {}}))  # of before records had a card
    card.check_series(folder, A_CARD)
    (folder / "a.json").write_text(json.dumps({"card": A_CARD}))
    card.check_series(folder, A_CARD)
    wrong = (
        r"here has records of Card 7 with memory of 5120 bits at 2619 MHz, and this is Card 7 .* at 1593 MHz: GPUHASH"
    )
    with pytest.raises(ValueError, match=wrong):
        card.check_series(folder, A_CARD | {"memory_clock_mhz": 1593})
    with pytest.raises(
        ValueError, match="here has records of x86-64, Card 7, and this is Card 9: GPUHASH_BENCH_MACHINE"
    ):
        card.check_series(folder, {"model": "Card 9"})


def test_a_figure_of_the_suite_by_its_ceiling(monkeypatch):
    sys.path.append(str(ROOT / "asv_bench"))
    from benchmarks import gpu_machine, gpu_tables

    size = (8, 8, (4, 4))
    label = card_courses.CardCourse("", *size).label
    for module in (gpu_tables, gpu_machine):
        monkeypatch.setattr(module, "require", lambda name: None)
        monkeypatch.setattr(module, "key_ceilings", lambda: {("insert", label): 0.5, ("erase", label): 4.0})
    monkeypatch.setattr(gpu_tables, "card_sizes", lambda: [size])
    seconds = {"insert": 512e-9, "erase": 256e-9}  # of 256 keys, and of 128
    monkeypatch.setattr(gpu_tables, "median_times", lambda course, build, tables: seconds)
    benchmark = gpu_tables.Tables()
    measured = benchmark.setup_cache()
    benchmark.setup(measured, "hive", "insert", label)
    assert benchmark.track_key_ns(measured, "hive", "insert", label) == pytest.approx(2)
    assert benchmark.track_times_ceiling(measured, "hive", "insert", label) == pytest.approx(4)
    assert benchmark.track_times_ceiling(measured, "stadium", "erase", label) == pytest.approx(0.5)
    ceiling = gpu_machine.TableCeiling()
    assert ceiling.track_key_ns(ceiling.setup_cache(), "erase", label) == 4


def test_without_a_device_each_benchmark_says_so():
    sys.path.append(str(ROOT / "asv_bench"))
    from benchmarks import gpu_machine, gpu_tables

    if any(device.name.startswith("cuda") for device in gh.devices()):
        pytest.skip("there is a CUDA device here")
    ceiling = gpu_machine.TableCeiling()
    with pytest.raises(NotImplementedError, match="there is no CUDA device here"):
        ceiling.track_key_ns(ceiling.setup_cache(), "insert", ceiling.params[1][0])
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


@pytest.mark.gpu
@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="the driver is asked through CuPy")
def test_the_card_itself():
    known = card.identity()
    assert known["model"]
    assert 100 < known["memory_clock_mhz"] < 50_000
    assert 32 <= known["memory_bus_bits"] <= 1 << 14
    assert all(1e-3 < ns < 100 for ns in card.key_ceilings(accesses=1 << 20).values())
