"""Figures of the benchmarks: units and shares of ceilings; a run with a wrong answer gives no figure."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh

sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
report = pytest.importorskip("asv_bench.report", reason="asv_bench is in a checkout of the repository only")
from asv_bench import figures  # noqa: E402
from asv_bench.harness import arguments, asv_results, ceilings, devices, figure, keys, results, runs  # noqa: E402

RUN = {
    "devices": {"cpu": "a processor"},
    "date": "today",
    "commit": "0123456789abcdef",
    "modified": True,
    "build": "B",
} | {"commit_date": 1_700_000_000_000}


def row(**changes):
    """A million keys in 10 ms, where the ceiling is 4 ns."""
    figures = {"backend": "hive", "device": "cpu", "operation": "find_hit", "n": 10**6, "seconds": [0.02, 0.01, 0.005]}
    more = {"key_bytes": 4, "value_bytes": 4, "load": 0.5, "ceiling": "gather8", "ceiling_ns": 4.0, "bytes_per_key": 16}
    return results.Row(**(figures | more | changes))


# ---- units -----------------------------------------------------------------------------------------------------------


def test_the_figures_of_a_row():
    one = row(options={"row": "8", "hash": "murmur"})
    assert one.ns == pytest.approx(10)
    assert one.rates == pytest.approx((100, 50, 200))  # million per second: median, slowest, fastest
    assert one.ratio == pytest.approx(0.4)
    assert one.name == "hive row=8 hash=murmur"
    assert row(ceiling_ns=None).ratio is None
    assert list(figure.rates(10**6, [0.02, 0.01, 0.005]).values()) == pytest.approx([100, 50, 200])


def test_times_on_a_gpu():
    """Between two events, of which the second is waited for; CuPy tells milliseconds."""

    class Event:
        done = False

        def record(self):
            order.append(self)

        def synchronize(self):
            self.done = True

    def elapsed(start, stop):
        assert order == [start, "work", stop]
        assert stop.done
        return 1500.0

    order, gpu = [], devices.CudaDevice.__new__(devices.CudaDevice)
    gpu.xp = SimpleNamespace(cuda=SimpleNamespace(Event=Event, get_elapsed_time=elapsed))
    assert gpu.time(lambda: order.append("work")) == 1.5


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads under /proc")
def test_threads_that_spin_are_waited_for():
    """As those of a BLAS do that was just loaded."""
    worker = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 200_000))
    worker.start()  # at work for some 50 ms, without the interpreter's lock
    devices.settle(60)
    assert not worker.is_alive()
    start = time.monotonic()
    devices.settle(60)
    assert time.monotonic() - start < 30


def test_times_by_the_clock(monkeypatch):
    """From when the device is idle until it is again."""
    clock, queued = [0.0], [5.0]

    def wait():
        clock[0] += sum(queued)
        queued.clear()

    monkeypatch.setattr(figure, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    assert figure.wall(SimpleNamespace(wait=wait), lambda: queued.append(2.0)) == 2.0


def test_the_text_of_a_figure():
    chart = SimpleNamespace(title="Title")
    rows = [{"n": 1000, "rate": 1.23456}, {"n": 2000, "way": "other"}]
    text = "## Title\n\n" + results.markdown_table(
        ["n", "rate", "way"], [["1,000", "1.235", ""], ["2,000", "", "other"]]
    )
    assert figure.Figure(rows, chart).text() == text


@pytest.mark.parametrize(
    ("structure", "name", "title", "said"),
    [
        ("slab_hash", "4a", "Figure 4a: build rate", "Slab hash, figure 4a: build rate"),
        ("stadium", "13", "clStash against Stash", "Stadium hashing, figure 13: clStash against Stash"),
        ("stadium", "17", "Table in host memory", "Stadium hashing, figure 17: Table in host memory"),
        ("skiplist", "II", "Table II: warps of a block", "GFSL, table II: warps of a block"),
        ("linear_probe", "table", "Table of inserts", "Farrell 2020, table: Table of inserts"),
    ],
)
def test_titles_name_the_paper_and_its_figure(structure, name, title, said):
    assert figures.titled(structure, name, title) == said
    assert set(figures.NAMES) == set(figures.FIGURES)


def test_labels_say_what_a_number_is():
    drawn = []
    rows = [{"x": 1, "y": 2.0, "ticket": ticket, "how": "stash", "min": 1.0, "max": 3.0} for ticket in (8, 4)]
    figure.series(rows, SimpleNamespace(line=lambda *line: drawn.append(line)), "x", "y", ["how", "ticket"])
    assert drawn == [("stash, ticket 8", [(1, 2.0, 1.0, 3.0)]), ("stash, ticket 4", [(1, 2.0, 1.0, 3.0)])]
    drawn.clear()
    figure.series(rows[:1], SimpleNamespace(line=lambda *line: drawn.append(line)), "x", "ticket", ["how"])
    assert drawn == [("stash", [(1, 8)])], "the spread is that of another column"


def test_what_is_printed_of_a_row():
    assert report.line(row()) == f"{'hive':<24} {'find_hit':<11} load 0.5  100 (50 .. 200) M/s  0.40 of gather8"
    cells = ("hive", "find_hit", "0.5", "1,000,000", "100", "50", "200", "250 (gather8)", "0.40", "16.00")
    assert report.table_lines([row(), row(load=None)]) == [cells]
    wide = report.table_lines([row(key_bytes=8, value_bytes=8, ceiling_ns=None, bytes_per_key=None)])[0]
    assert (wide[0], *wide[7:]) == ("hive 8+8", "", "", "")


def test_other_libraries_are_compared_with_the_same_operation_and_widths():
    rows = [
        row(),
        row(seconds=[0.005] * 3),
        row(operation="insert", seconds=[1.0]),
        row(key_bytes=8, value_bytes=8, seconds=[1.0]),
        row(backend="peer", load=None, seconds=[0.02] * 3),
    ]
    assert report.peer_lines(rows) == [("peer", "find_hit 4+4", "1,000,000", "50", "50", "50", "2 to 4")]


def test_files_of_results(tmp_path):
    results.write_json(tmp_path / "new" / "rows.json", RUN, [row()])
    found = json.loads((tmp_path / "new" / "rows.json").read_text())
    assert found["commit"] == RUN["commit"]
    (one,) = found["rows"]
    assert (one["ns_per_key"], one["ratio"], one["seconds"]) == (pytest.approx(10), pytest.approx(0.4), row().seconds)
    results.write_csv(tmp_path / "rows.csv", [{"a": 1}, {"b": 2, "a": 3}])
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,\n3,2\n"
    table = results.markdown_table(["a", "b", "c"], [["x", "yy", "10"]])
    assert table == "| a | b  |  c |\n| - | -- | -: |\n| x | yy | 10 |\n"
    assert [results.rate(x) for x in (1234.5, 100, 99.94, 0.12345)] == ["1,234", "100", "99.9", "0.123"]


def test_results_for_asv(tmp_path):
    run = RUN | {"machine": "here", "python": "3.11", "numpy": "2.0"}
    rows = [
        row(),
        row(load=0.9, seconds=[0.02]),
        row(options={"row": "8"}, seconds=[9]),
        row(load=None),
        row(operation="insert"),
    ]
    path = asv_results.write(tmp_path, run, rows, 10**6)
    assert path.name == "01234567-report-n1000000.json"
    found = json.loads(path.read_text())
    assert set(found["results"]) == {"wall_clock.FindHit.track_ns_per_key", "wall_clock.Insert.track_ns_per_key"}
    values, axes, version, started, _ = found["results"]["wall_clock.FindHit.track_ns_per_key"]
    assert values == pytest.approx([10, 20])
    assert axes == [["'hive'"], ["'1000000'"], ["0.5", "0.9"], ["'4+4'"]]
    assert version == asv_results.VERSION
    assert started > found["date"] == 1.7e12  # milliseconds: when it was measured, and when the commit was made
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert float(machine["ram"].removesuffix(" GB")) == pytest.approx(gh.devices()[0].memory_bytes / 1e9, rel=0.1)
    assert machine["os"] == "Linux"  # without the kernel's version, or a machine would be many series
    assert machine["cpu"]
    assert found["params"] == {key: of for key, of in machine.items() if key != "version"} | {"python": "3.11"}


def test_results_for_asv_of_a_gpu(tmp_path):
    run = RUN | {"machine": "here", "python": "3.12.3", "numpy": "2.0"}
    run["cards"] = {"cuda": {"model": "Card 7", "memory_clock_mhz": 2619}}
    rows = [row(device="cuda"), row(device="cuda", load=0.9), row(device="cuda", backend="stadium")]
    path = asv_results.write(tmp_path, run, rows, 1 << 20)
    record = json.loads(path.read_text())
    [(name, [values, axes, *_])] = record["results"].items()
    assert name == "gpu_tables.FindHit.track_ns_per_key"
    assert axes == [["'hive'", "'stadium'"], ["'2^20'"], ["0.5", "0.9"], ["'4+4'"]]
    assert values == pytest.approx([10, 10, 10, math.nan], nan_ok=True)  # which was not measured
    assert record["card"] == {"model": "Card 7", "memory_clock_mhz": 2619}


def test_the_whole_report():
    class Measured(ceilings.Ceilings):
        def seconds(self, what, table_bytes):
            return [2e-9, 1e-9, 4e-9]

    known = Measured("cpu", 1000, 1, measured={("cas64", 1 << 20): [], ("gather8", 1 << 21): []})
    lines = report.ceiling_rows(known)
    assert [line[:5] for line in lines[:-1]] == [(what, "2 MiB", "500", "250", "1,000") for what in report.CEILINGS]
    assert lines[-1][:2] == ("copy, GB/s", "2 MiB")
    text = report.markdown(RUN, [row(), row(backend="peer", load=None)], ["A remark."], known)
    assert "a processor; today; commit 0123456789ab, with local changes. B." in text
    assert "## Other libraries, same keys, same run" in text
    assert text.endswith("\n\nA remark.\n")


def test_what_is_drawn():
    """Rates beside those of the ceilings."""
    chart = report.plot(RUN, [row(), row(operation="insert", ceiling_ns=None), row(load=None)], "cpu")
    assert list(chart.groups) == ["insert", "find_hit"]
    assert chart.series == [("hive 4+4, load 0.5", [pytest.approx(100)] * 2, [None, 250.0])]


def test_bytes_of_a_copy_count_twice(monkeypatch):
    """They are read and written."""
    known = ceilings.Ceilings("cpu", 1000, 1, measured={("gather8", 1 << 21): [1e-9]})
    monkeypatch.setattr(known, "seconds", lambda what, size: [1e-9])
    monkeypatch.setattr(gh, "measure_ceiling", lambda what, **more: np.array([more["n"] / 1e9]))
    assert report.ceiling_rows(known)[-1] == ("copy, GB/s", "2 MiB", "2", "2", "2")


# ---- ceilings --------------------------------------------------------------------------------------------------------


def test_accesses_of_operations():
    assert ceilings.accesses("find_hit", 8) == ceilings.accesses("find_miss", 8) == {"gather8": 1.0}
    for operation in ("insert", "assign", "accumulate", "erase"):
        assert ceilings.accesses(operation, 16) == {"cas64": 1.0}
    assert ceilings.accesses("mixed", 16) == {"cas64": pytest.approx(0.4), "gather16": pytest.approx(0.6)}
    assert ceilings.label(ceilings.accesses("mixed", 8)) == "0.4 cas64 + 0.6 gather8"
    assert ceilings.label({"cas64": 1.0}) == "cas64"


def test_ceilings_are_measured_once_for_tables_of_about_one_size(monkeypatch):
    asked = []

    def measure(what, *, device, table_bytes, n, repeats, threads):
        asked.append((what, device, table_bytes, n, repeats, threads))
        return np.array({"cas64": [3.0, 9.0, 1.0], "gather8": [1.0, 2.0, 9.0]}[what]) * n

    monkeypatch.setattr(gh, "measure_ceiling", measure)
    known = ceilings.Ceilings("cpu", 1000, 3, 2)
    assert known.seconds("cas64", 1_000_000) == [3.0, 9.0, 1.0]
    assert known.seconds("cas64", 1_020_000) == [3.0, 9.0, 1.0]
    assert known.per_key("mixed", 8, 1_000_000) == pytest.approx(0.4 * 3 + 0.6 * 2)  # medians
    assert asked == [("cas64", "cpu", 1 << 20, 1000, 3, 2), ("gather8", "cpu", 1 << 20, 1000, 3, 2)]
    known.seconds("cas64", (1 << 20) + 1)
    assert asked[-1][2] == (1 << 20) + (1 << 17)


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [4, 8])
def test_keys_are_distinct_and_the_absent_ones_others(width):
    n = 1 << 18  # of 4 bytes, random ones would not be distinct
    found = keys.random_keys(np, np.arange(n, dtype=np.uint64), width)
    assert found.dtype == f"u{width}"
    assert np.unique(found).size == n
    assert abs(int((found >> found.dtype.type(8 * width - 1)).sum()) - n // 2) < 2000


@pytest.mark.parametrize("n", [1, 2, 999, 1000, 4096])
@pytest.mark.parametrize("salt", [0, 7])
def test_an_order_has_every_index_once(n, salt):
    order = keys.shuffled(np, n, salt)
    assert np.sort(order).tolist() == list(range(n))
    assert n < 999 or (np.diff(order.astype(int)) != 1).mean() > 0.9


# ---- answers are looked at -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(4, 4), (8, 8), (4, 8)])
def test_every_operation_is_measured_and_right(widths):
    run = runs.TableRun(devices.Device(), "linear_probe", 0.5, 2000, widths)
    seconds = run.measure(run.operations, 2)
    assert list(seconds) == list(runs.OPERATIONS)
    assert all(len(times) == 2 and min(times) > 0 for times in seconds.values())
    assert [run.count(operation) for operation in ("insert", "erase", "mixed")] == [2000, 1000, 2000]
    run.bring_to_start("find_hit")
    assert len(run.table) == 2000
    assert run.table.max_load_factor == 0.5
    rows = report.rows_of(run, ["find_hit", "erase"], 1, SimpleNamespace(per_key=lambda *of: 5e-9), {"row": "8"})
    assert [(one.operation, one.n, one.ceiling_ns) for one in rows] == [("find_hit", 2000, 5.0), ("erase", 1000, 5.0)]
    assert rows[0].ceiling == ("gather8" if widths == (4, 4) else "gather16")
    assert rows[0].bytes_per_key == run.table.nbytes / 2000
    run.close()


class Lying(gh.Table):
    """Of one answer of one call, one element is wrong."""

    __slots__ = ()
    lie = ("", 0)

    def spoil(self, name, *answers):
        if self.lie[0] == name and self.lie[1] < len(answers):
            answer = answers[self.lie[1]]
            answer[5] = answer[5] ^ answer.dtype.type(1)

    def insert(self, keys, values, *, out):
        super().insert(keys, values, out=out)
        self.spoil("insert", out)

    def insert_or_assign(self, keys, values, *, out):
        super().insert_or_assign(keys, values, out=out)
        self.spoil("assign", out)
        if self.lie == ("assign", 1):
            super().insert_or_assign(keys[:1], values[:1] + values.dtype.type(1))

    def accumulate(self, keys, values, *, out):
        super().accumulate(keys, values, out=out)
        self.spoil("accumulate", out)
        if self.lie == ("accumulate", 1):
            super().accumulate(keys[:1], values[:1])

    def erase(self, keys, *, out):
        super().erase(keys, out=out)
        self.spoil("erase", out)

    def find(self, keys, *, out, found):
        super().find(keys, out=out, found=found)
        self.spoil("find_hit" if found.any() else "find_miss", out, found)

    def execute(self, ops, keys, values, *, out, found):
        super().execute(ops, keys, values, out=out, found=found)
        self.spoil("mixed", out, found)


@pytest.mark.parametrize(
    ("operation", "answer"),
    [(name, 0) for name in runs.OPERATIONS]
    + [(name, 1) for name in ("find_hit", "find_miss", "assign", "accumulate", "mixed")],
)
def test_a_wrong_answer_ends_the_run(monkeypatch, operation, answer):
    monkeypatch.setattr(gh, "Table", Lying)
    run = runs.TableRun(devices.Device(), "linear_probe", 0.5, 2000)
    monkeypatch.setattr(Lying, "lie", (operation, answer))
    with pytest.raises(runs.Wrong, match=r"linear_probe on cpu, load 0.5: .*: 1 of \d+ elements are wrong"):
        run.measure([operation], 1)


def test_outputs_are_poisoned_before_each_call(monkeypatch):
    """What a table does not write is not what the call before has left there."""
    monkeypatch.setattr(Lying, "find", lambda self, keys, *, out, found: None)
    monkeypatch.setattr(gh, "Table", Lying)
    run = runs.TableRun(devices.Device(), "linear_probe", 0.5, 2000)
    run.insert()
    run.out[:] = run.order
    with pytest.raises(runs.Wrong, match="find: found: 2000 of 2000"):
        run.find_hit()
    monkeypatch.setattr(Lying, "find", lambda self, keys, *, out, found: found.fill(True))
    with pytest.raises(runs.Wrong, match="find: value: 2000 of 2000"):
        run.find_hit()


def test_an_operation_without_room_is_left_out_where_that_is_asked_for(monkeypatch):
    def full(self, keys, *, out):
        raise gh.TableFull("full")

    monkeypatch.setattr(Lying, "erase", full)
    monkeypatch.setattr(gh, "Table", Lying)
    run = runs.TableRun(devices.Device(), "linear_probe", 0.5, 2000)
    with pytest.raises(gh.TableFull):
        run.measure(["erase"], 1)
    assert list(run.measure(["erase", "find_hit"], 1, skip_full=True)) == ["find_hit"]


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_numbers_of_a_range():
    assert [arguments.whole(2, 5)(text) for text in ("2", "5")] == [2, 5]
    assert [arguments.real(0.5, 1)(text) for text in ("0.5", "1")] == [0.5, 1]
    for kind, text in ((arguments.whole(2, 5), "1"), (arguments.whole(2, 5), "6"), (arguments.real(0.5, 1), "nan")):
        with pytest.raises(arguments.argparse.ArgumentTypeError, match=f"{text} is out of range: use"):
            kind(text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--n", "999"], "--n 999: use 1000 to 2147483647"),
        (["--loads", "0.5,1"], "use 0.05 to 0.99"),
        (["--repeats", "0"], "--repeats 0: use at least 1"),
        (["--operations", "find"], "--operations: 'find' is none of insert, find_hit"),
        (["--bytes", "2+4"], "have 4 or 8 bytes"),
    ],
)
def test_what_cannot_be_reported(capsys, line, words):
    with pytest.raises(SystemExit, match="2"):
        report.main(line)
    assert words in capsys.readouterr().err


def test_every_combination_of_options():
    assert list(report.grid([("row", ["4", "8"]), ("hash", ["a", "b"])])) == [
        {"row": "4", "hash": "a"}, {"row": "4", "hash": "b"}, {"row": "8", "hash": "a"}, {"row": "8", "hash": "b"}
    ]  # fmt: skip
    assert list(report.grid([])) == [{}]
    assert report.widths("4+8") == (4, 8)
    assert report.option("row=4,8") == ("row", ["4", "8"])
