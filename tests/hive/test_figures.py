"""The commands for the figures of the hive paper, in small: what they count has to agree with what is known."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "asv_bench").is_dir():
    pytest.skip("asv_bench is in a checkout of the repository only", allow_module_level=True)
# pygpuhash comes first, so that it is the installed one.
PROGRAM = f"""
import sys, pygpuhash
sys.path.append({str(ROOT)!r})
from asv_bench.figures import main
sys.exit(main(sys.argv[1:]))
"""


def figure(name: str, folder: Path, *more: str) -> dict[str, Any]:
    """What `python -m asv_bench.figures hive NAME` writes."""
    command = [sys.executable, "-P", "-c", PROGRAM, "hive", name, "--repeats", "2", "--threads", "1"]
    command += ["--output", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
    if "needs a C++ compiler" in done.stderr:
        pytest.skip("there is no C++ compiler on PATH")
    assert done.returncode == 0, done.stderr
    written = next(folder.rglob(f"hive-{name}-cpu.json"))
    assert written.with_suffix(".csv").stat().st_size
    assert "<svg" in written.with_suffix(".svg").read_text()
    record: dict[str, Any] = json.loads(written.read_text())
    return record


def test_collision_speedup(tmp_path: Path) -> None:
    rows = figure("3", tmp_path, "--n", "200000")["rows"]
    assert len(rows) == 12
    loads = np.bincount(np.random.default_rng(3).integers(0, 512**2, 200_000), minlength=512**2)
    drawn = np.maximum(loads - 1, 0).sum()  # the paper's Y of a uniform hash
    for row in rows:
        assert row["expected"] == pytest.approx(drawn, rel=0.01)
        assert row["csr"] == pytest.approx(row["expected"] / max(row["collisions"], 1), rel=0.01)
        if row["keys"] == "random":
            assert 0.98 < row["csr"] < 1.02
        elif row["function"].startswith("crc"):
            assert row["collisions"] == 0


def test_insertion_steps(tmp_path: Path) -> None:
    record = figure("9", tmp_path, "--n", "65536")
    lines = record["summary"]
    assert [line["load"] for line in lines] == [0.55, 0.65, 0.75, 0.85, 0.9, 0.95, 0.97]
    for line in lines:
        steps = [row["share"] for row in record["rows"] if row["load"] == line["load"] and "step" in row]
        assert sum(steps) == pytest.approx(1, abs=0.05)  # medians
        assert line["inserts"] + line["full"] == int(line["load"] * 65536)
        assert line["full"] == 0
        # Who moves a key holds the lock of its own home, at least.
        assert line["evicting/insert"] <= line["moves/insert"] <= line["locks/insert"]
        assert line["moves/insert"] <= line["longest"] * line["evicting/insert"]
        chains = [line[name] for name in ("chains of 1", "of 2", "of 3", "longer")]
        assert sum(chains) == round(line["evicting/insert"] * line["inserts"])
        assert chains[0] + 2 * chains[1] + 3 * chains[2] + 4 * chains[3] <= round(
            line["moves/insert"] * line["inserts"]
        )
        assert (chains[3] > 0) == (line["longest"] > 3)
    first, last = lines[0], lines[-1]
    assert first["evicting/insert"] < 0.005 < 0.05 < last["evicting/insert"] < 0.2
    assert 0.005 < first["locks/insert"] < 0.03 < last["locks/insert"] < 1
    assert first["home"] > last["home"]
    assert first["evict"] < last["evict"]
    assert last["longest"] >= 1


@pytest.mark.slow
def test_insertion_steps_of_warps(tmp_path: Path) -> None:
    """The program for a GPU, on emulated warps, which looks for all keys in the end."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler on PATH")
    program = tmp_path / "hive_steps"
    command = [compiler, "-std=c++20", "-O1", "-DGPUHASH_EMULATED_WARP=1", "-DHIVE_BUCKET_BITS=3", "-w"]
    command += ["-include", "tests/sizes/kernels.hpp", "-Itests/warp/include", "-I.", "-Ilibgpuhash/include"]
    command += ["-Iplugins/hive", "asv_bench/harness/hive_steps.cpp", "-o", str(program)]
    subprocess.run(command, check=True, cwd=ROOT)
    loads = ("0.5", "0.9", "0.97")
    done = subprocess.run([program, "2048", "2", *loads], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last: list[int] = []
    for load, line in zip(loads, done.stdout.splitlines(), strict=True):
        said = line.split()
        numbers = [int(word) for word in said[1:]]
        inserts, cycles, counts, chains = numbers[0], numbers[1:6], numbers[6:12], numbers[12:]
        locks, moves, evicting, longest, stashed, full = counts
        assert said[0] == load
        assert inserts + full == int(float(load) * 2048)
        assert cycles[0] > 0
        assert stashed <= 32
        assert evicting <= moves <= longest * evicting
        assert moves <= locks
        assert sum(chains) == evicting
        assert all(before <= now for before, now in zip(last, cycles, strict=False))
        last = cycles
    assert evicting > 50
    assert min(cycles[:4]) > 0


def test_achieved_load(tmp_path: Path) -> None:
    rows = figure("load", tmp_path, "--n", "60000")["rows"]
    loads = {(r["bucket"], r["ways"], r["evictions"], r["stash"] > 0): r["load_factor"] for r in rows}
    assert len(loads) == len(rows) == 3 * 2 * 3 * 2
    for (bucket, ways, evictions, stash), load in loads.items():
        if evictions:
            assert load >= loads[bucket, ways, 0, stash]
        if stash:
            assert load > loads[bucket, ways, evictions, False]
        assert 0.2 < load < 1 + stash / 64


@pytest.mark.slow
def test_price_of_the_protocol(tmp_path: Path) -> None:
    mutants = (ROOT / "tests" / "model" / "mutants" / "hive.def").read_text()
    source = (ROOT / "asv_bench" / "harness" / "hive_price.py").read_text()
    mistakes = re.findall(r'^    "(\w+)",$', source[source.index("MISTAKES") : source.index("LOADS")], re.MULTILINE)
    assert len(mistakes) > 5
    assert all(f"M({name}," in mutants for name in mistakes)
    rows = figure("price", tmp_path, "--n", "20000")["rows"]
    assert [row["operation"] for row in rows].count("find_miss") == 2
    for row in rows:
        if row["operation"] == "all":
            assert row["wrong_mistaken"] == 0, "one thread makes no mistakes"
        else:
            assert row["min"] <= row["price"] <= row["max"]
            assert row["M_per_s"] > 0


@pytest.mark.usual_sizes("the figure expects the memory that usual pieces give back")
def test_resizing(tmp_path: Path) -> None:
    record = figure("resizing", tmp_path, "--n", "1000000")
    for segment, line in zip(("auto", "whole"), record["summary"], strict=True):
        rows = [row for row in record["rows"] if row["segment"] == segment]
        times = [row["ms"] for row in rows if row["phase"] == "batch"]
        assert line["segment"] == segment
        assert line["batches"] == len(times) == 16
        assert line["median_ms"] == pytest.approx(np.median(times))
        assert line["median_ms"] <= line["p99_ms"] <= line["longest_ms"] == max(times)
        assert line["longest_but_first_ms"] == max(times[1:])
        rates = {row["phase"]: row["M_per_s"] for row in rows if "M_per_s" in row}
        assert rates == {way: line[f"{way}_M_per_s"] for way in ("expansion", "contraction")}
        assert min(rates.values()) > 0


@pytest.mark.parametrize("name", ["5", "6", "7", "8"])
def test_rates_and_ceilings(name: str, tmp_path: Path) -> None:
    rows = figure(name, tmp_path, "--n", "20000")["rows"]
    by = "hashes" if name == "5" else "backend"
    assert len({row[by] for row in rows}) == len(rows) == (7 if name == "5" else 2)
    for row in rows:
        assert 0 < row["min"] <= row["M_per_s"] <= row["max"]
        assert row["ratio"] == pytest.approx(row["M_per_s"] / row["ceiling"])
        if name == "5":
            assert 0.1 < row["outside"] < 0.3
