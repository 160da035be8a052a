"""The commands for the figures of the stadium paper, in small, and the cuckoo table that they compare with."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
WHY = "asv_bench is in a checkout of the repository only"
behind_bus, figures, cuckoo, stadium_lanes = (
    pytest.importorskip(f"asv_bench.{name}", reason=WHY)
    for name in ("behind_bus", "figures", "harness.cuckoo", "harness.stadium_lanes")
)

# What CUDA C++ has and C++ has not, for kernels whose threads do not wait for each other.
SHIM = """
#include <cstdint>
#define __device__
#define __global__
static struct { unsigned x; } blockIdx, blockDim, threadIdx;
template <class T> T atomicExch(T* p, T v) { T was = *p; *p = v; return was; }
template <class T> T atomicAdd(T* p, T v) { T was = *p; *p += v; return was; }
#define FOR_ALL(n) for (blockDim.x = 1, blockIdx.x = 0; blockIdx.x < n; ++blockIdx.x)
"""
CALLS = """
extern "C" void insert(u64* t, u32 slots, const u32* k, const u32* v, u32 n, u32 most, u32* failed) {
  FOR_ALL(n) cuckoo_insert(t, slots, k, v, n, most, failed);
}
extern "C" void find(const u64* t, u32 slots, const u32* k, u32* v, bool* found, u32 n) {
  FOR_ALL(n) cuckoo_find(t, slots, k, v, found, n);
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The cuckoo table's kernels, one thread after the other."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    folder = tmp_path_factory.mktemp("cuckoo")
    (folder / "cuckoo.cpp").write_text(SHIM + cuckoo.SOURCE + CALLS)
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, "cuckoo.cpp", "-o", "cuckoo.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "cuckoo.so"))


def test_cuckoo_table(kernels):
    n = 20_000
    for load, room in ((0.8, True), (0.95, True), (1.05, False)):
        slots = int(n / load)
        rng = np.random.default_rng(1)
        both = rng.choice(2**32 - 1, 2 * n, replace=False).astype("u4")
        keys, absent = both[:n], both[n:]
        values = rng.integers(0, 2**32, n).astype("u4")
        table, failed = np.full(slots, 2**64 - 1, "u8"), np.zeros(1, "u4")
        kernels.insert(table.ctypes, slots, keys.ctypes, values.ctypes, n, 10_000, failed.ctypes)
        assert (int(failed[0]) == 0) is room
        pairs = table[(table & np.uint64(0xFFFFFFFF)) != cuckoo.EMPTY]
        assert len(pairs) == n - failed[0]
        out, found = np.full(2 * n, 7, "u4"), np.full(2 * n, True)
        kernels.find(table.ctypes, slots, both.ctypes, out.ctypes, found.ctypes, 2 * n)
        assert found.sum() == n - failed[0]
        assert not found[n:].any()
        assert (out[:n][found[:n]] == values[found[:n]]).all()
        assert not out[~found].any()
        assert len(absent) == n


@pytest.mark.parametrize(("name", "rows"), [("18", 36), ("17", 54), ("batches", 6)])
def test_figures(tmp_path, name, rows, capsys):
    assert figures.main(["stadium", name, "--n", "20000", "--repeats", "1", "--output", str(tmp_path)]) == 0
    assert "##" in capsys.readouterr().out
    written = next(tmp_path.rglob(f"stadium-{name}-cpu.json"))
    assert "<svg" in written.with_suffix(".svg").read_text()
    found = json.loads(written.read_text())["rows"]
    assert len(found) == rows
    assert all(row["M_per_s"] > 0 for row in found)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("13", "how warps serve inserts"),
        ("14", "compares with a cuckoo table"),
        ("16", "cuckoo"),
        ("I", "the warps of a GPU"),
    ],
)
def test_figures_of_a_gpu(tmp_path, name, words, capsys):
    assert figures.main(["stadium", name, "--output", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_behind_bus_in_small(tmp_path, capsys):
    assert behind_bus.main(["--gib", "0.01", "--repeats", "1", "--row", "16", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| 16        | hit, numpy arrays |" in said
    assert "| 16        | in-core miss" in said
    rows = json.loads(next(tmp_path.rglob("behind-bus-cpu.json")).read_text())["rows"]
    assert {row["batch"] for row in rows if row["what"] == "hit"} >= {1024, 8192}


# ---- the model of lanes ----------------------------------------------------------------------------------------------


def test_lanes_of_a_warp_that_goes_on_are_busy():
    """In a warp whose stack is emptied after 256 elements fewer lanes have a job; every key is booked."""
    found = {run: stadium_lanes.shares(1 << 13, 0.8, run) for run in (32, 256, 2048)}
    jobs = [of["jobs"] for of in found.values()]
    assert jobs == sorted(jobs)
    assert jobs[0] < 0.6 < jobs[1] < 0.85 < 0.95 < jobs[2] < 1
    for of in found.values():
        # 32 lanes with at most 8 tickets of 64 values each
        assert 0.2 < of["comparing"] < 0.9
        assert 1 / 32 <= of["in it"] < 0.15
    fuller = stadium_lanes.shares(1 << 13, 0.95, 256)
    assert fuller["jobs"] < found[256]["jobs"]


def test_a_key_goes_on_where_its_group_is_full_and_again_where_it_lost():
    board = stadium_lanes.Board(64, 0.5)
    board.stride[:4] = 3
    board.info[:4] = 9
    board.tickets[5, :7] = 9
    keys, at = np.arange(4), np.array([5, 5, 2, 2])
    booked, hits, after = board.visit(keys, at)
    assert sorted(booked) == [False, False, True, True]
    assert booked[:2].sum() == booked[2:].sum() == 1
    assert (hits.tolist(), after.tolist()) == ([7, 7, 0, 0], at.tolist())
    booked, hits, after = board.visit(keys[:2], at[:2])
    assert (booked.tolist(), hits.tolist(), after.tolist()) == ([False] * 2, [8, 8], [8 % board.groups] * 2)


def test_primes():
    assert [stadium_lanes.prime_from(n) for n in (2, 4, 8, 24, 97)] == [2, 5, 11, 29, 97]


def test_the_command_prints_the_shares(monkeypatch, capsys):
    monkeypatch.setattr(stadium_lanes, "shares", lambda n, load, run: {"jobs": 0.5, "comparing": 0.25, "in it": 0.125})
    stadium_lanes.main(0.8, 256)
    said = capsys.readouterr().out
    assert said.startswith("load 0.8, 256 elements a warp: 50.0% of lanes have a job in a visit; in\n25.0% of visits ")
    assert said.endswith("by 12.5% of lanes\n")
