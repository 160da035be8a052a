"""The benchmark of the verbs: its rows, and that a wrong result ends it."""

import itertools
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
verbs = pytest.importorskip("asv_bench.verbs", reason="asv_bench is in a checkout of the repository only")
device = pytest.importorskip("asv_bench.harness.devices", reason="as above").device


@pytest.fixture
def alone(monkeypatch):
    """Nobody to be compared with."""
    monkeypatch.setattr(verbs, "libraries", lambda on: {"numpy": np})


def test_every_verb_of_every_distribution_has_a_row(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    assert verbs.main(["--n", "4096", "--repeats", "2", "--output", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "here" / "verbs-cpu.json").read_text())["rows"]
    ours = [(row["verb"], row["keys"]) for row in rows if row["who"] == f"gh.{row['verb']}"]
    assert ours == [(verb, keys) for keys in verbs.DISTRIBUTIONS for verb in verbs.VERBS]
    assert {row["who"] for row in rows if row["verb"] == "isin"} == {"gh.isin", "numpy.isin"}
    for row in rows:
        assert row["n"] == 4096
        assert 0 < row["min"] <= row["median"] <= row["max"]
        assert row["share"] == pytest.approx(row["median"] / row["ceiling"])
    assert next(row["distinct"] for row in rows if row["keys"] == "distinct") == 4096


def test_keys_of_both_widths(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    kinds = ["--distribution", "distinct", "--key-bytes", "4", "--key-bytes", "8"]
    assert verbs.main(["--n", "1024", "--repeats", "1", *kinds, "--output", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "here" / "verbs-cpu.json").read_text())["rows"]
    ours = [(row["verb"], row["keys"]) for row in rows if row["who"].startswith("gh.")]
    wide = [verb for verb in verbs.VERBS if verb != "value_counts_of_text"]
    assert ours == [(verb, "distinct") for verb in verbs.VERBS] + [(verb, "distinct of 8 bytes") for verb in wide]


def test_several_lengths_and_long_columns(alone, tmp_path, monkeypatch):
    """A long column has fewer verbs and one distribution, unless others are asked for."""
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    monkeypatch.setattr(verbs, "MOST_OF_ALL_VERBS", 1000)

    def measured(*arguments):
        assert verbs.main(["--repeats", "1", "--output", str(tmp_path), *arguments]) == 0
        rows = json.loads((tmp_path / "here" / "verbs-cpu.json").read_text())["rows"]
        return {(row["n"], row["keys"], row["verb"]) for row in rows}

    all_verbs = {(512, keys, verb) for keys in verbs.DISTRIBUTIONS for verb in verbs.VERBS}
    assert measured("--n", "512", "--n", "1024") == all_verbs | {(1024, verbs.OF_LONG, verb) for verb in verbs.LONG}
    asked = ("--verb", "join_indexer", "--distribution", "one key")
    assert measured("--n", "1024", *asked) == {(1024, "one key", "join_indexer")}


def test_uneven_columns_by_another_name(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    asked = ["--verb", "factorize", "--distribution", "sorted", "--distribution", "clustered", "--report", "uneven"]
    assert verbs.main(["--n", "1003", "--repeats", "1", *asked, "--output", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "here" / "uneven.json").read_text())["rows"]
    assert [row["keys"] for row in rows if row["who"].startswith("gh.")] == ["sorted", "clustered"]
    assert rows[-1]["distinct"] == 6
    ordered, clusters = (verbs.Columns(np, name, 1003, 8).keys for name in ("sorted", "clustered"))
    assert np.array_equal(ordered, np.sort(ordered))
    assert [len(run) for run in np.split(clusters, np.flatnonzero(np.diff(clusters)) + 1)] == [200] * 5 + [3]


class FakeGpu:
    """A device whose calls take 10 ms."""

    name = "cuda"

    def __init__(self):
        self.calls = self.freed = 0
        self.xp = types.SimpleNamespace(
            get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: self.free(1))
        )

    def free(self, many):
        self.freed += many

    def wait(self):
        pass

    def time(self, work):
        self.calls += 1
        work()
        return 0.01


def test_calls_on_a_gpu_are_repeated_for_a_while():
    on = FakeGpu()
    seconds = verbs.repeated_long(on, 2, lambda: None)
    assert seconds == [0.01] * 6  # three rounds of two, and in each one more that does not count
    assert on.calls == 9
    assert len(verbs.repeated_long(FakeGpu(), 7, lambda: None)) == 7
    assert len(verbs.repeated_long(device("cpu"), 2, lambda: None)) == 2


def test_memory_of_libraries_is_given_back():
    on = FakeGpu()
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(empty_cache=lambda: on.free(10)))
    verbs.give_back_memory(on, {"torch": torch})
    assert on.freed == 11
    verbs.give_back_memory(on, {})
    assert on.freed == 12
    verbs.give_back_memory(device("cpu"), {"torch": torch})
    assert on.freed == 12


def test_others_of_isin():
    """Half of them are keys of the column, and as many as are asked for."""
    c = verbs.Columns(np, "uniform over n/2", 4096, 4)
    for verb, many in (("isin_1024", 1024), ("isin_2^20", 4096), ("isin_n", 4096)):
        others = c.among(verb)
        assert len(others) == len(np.unique(others)) == many
        assert np.isin(others, c.keys).sum() == min(many // 2, len(c.distinct))
        assert c.among(verb) is others
    assert len(c.among("isin")) == len(c.distinct) // 8 + 1


@pytest.mark.parametrize(
    ("verb", "spoil"),
    [
        ("unique", lambda found: found[1:]),
        ("value_counts", lambda found: (found[0], found[1] + 1)),
        ("factorize", lambda found: (found[0], np.append(found[1], found[1][:1]))),
        ("factorize_any", lambda found: (found[0] * 0, found[1])),
        ("isin", lambda found: ~found),
        ("isin_1024", lambda found: ~found),
        ("group_reduce", lambda found: (found[0], np.roll(found[1], 1))),
        ("group_reduce_reproducible", lambda found: (found[0], np.roll(found[1], 1))),
        ("group_reduce_four", lambda found: (found[0], (*found[1][:2], found[1][1], found[1][3]))),
        ("group_reduce_four", lambda found: (found[0], (*found[1][:3], found[1][3] + 1))),
        ("value_counts_of_two", lambda found: (found[0][::-1], found[1])),
        ("value_counts_of_text", lambda found: (found[0], np.roll(np.asarray(found[1]), 1))),
        ("join_indexer", lambda found: (found[0], np.roll(found[1], 1))),
        ("join_indexer_four", lambda found: (found[0], np.roll(found[1], 1))),
        ("join_indexer_four", lambda found: (found[0][1:], found[1][1:])),
    ],
)
def test_a_wrong_result_ends_it(alone, tmp_path, monkeypatch, verb, spoil):
    right = verbs.OURS[verb]
    monkeypatch.setitem(verbs.OURS, verb, lambda c, on: spoil(right(c, on)))
    with pytest.raises(AssertionError, match=f"{verb} of Zipf 1.05: a wrong result"):
        verbs.main(["--n", "512", "--verb", verb, "--distribution", "Zipf 1.05", "--output", str(tmp_path)])


class _Card:
    """A device whose calls take what they return, in seconds."""

    name = "cuda"
    xp = types.SimpleNamespace(get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None))

    def wait(self):
        pass

    def time(self, call):
        return call()


@pytest.mark.parametrize(
    ("seconds", "turns", "least"), [(0.0005, ["ours", "theirs", "ours"], 200), (0.02, ["ours", "theirs"], 5)]
)
def test_short_calls_on_a_card_are_measured_again_in_the_reverse_order(seconds, turns, least):
    ran = []
    whose = {who: lambda who=who: ran.append(who) or seconds for who in ("ours", "theirs")}
    found = verbs.in_turn(whose, _Card(), {}, 5)
    assert [who for who, _ in itertools.groupby(ran)] == turns
    assert all(len(measured) >= least and set(measured) == {seconds} for measured in found.values())
    assert len(found["ours"]) == len(found["theirs"])
