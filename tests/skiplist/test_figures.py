"""The commands for the figures of the skiplist paper, and the one beside sorted arrays, in small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
WHY = "asv_bench is in a checkout of the repository only"
figures, ordered, paper, one_thread_each = (
    pytest.importorskip(f"asv_bench.{name}", reason=WHY)
    for name in ("figures", "ordered", "harness.paper_skiplist", "harness.one_thread_each")
)
from asv_bench.harness.devices import device  # noqa: E402
from asv_bench.harness.figure import Settings  # noqa: E402

# What nvcc says of three kernels, the second of which serves mixtures.
USAGE = """
ptxas info    : Compiling entry function '_Z11serve_batchI11skip_updateI9cuda_tileI6pair32Li8ELi4EELj5E>' for 'sm_90'
ptxas info    : Used 70 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z11serve_batchI11skip_updateI9cuda_tileI6pair32Li8ELi4EELj9E>' for 'sm_90'
ptxas info    : Function properties for _Z11serve_batchI11skip_updateI9cuda_tileI6pair32Li8ELi4EELj9E>
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 96 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z11serve_batchI11skip_updateI9cuda_tileI6pair32Li16ELi8EELj9E>' for 'sm_90'
ptxas info    : Used 104 registers, used 0 barriers
"""


def test_registers_and_blocks() -> None:
    """The paper's column of 16 warps has 64 registers and two blocks."""
    assert paper.registers_of(USAGE, 8) == 96
    with pytest.raises(paper.Unavailable, match="nothing of the kernel of mixtures with 4 warps"):
        paper.registers_of(USAGE.replace("Lj9E", "Lj8E"), 4)
    assert [paper.blocks_of(registers, warps) for registers, warps in ((64, 16), (96, 8), (32, 2), (33, 16))] == [
        2,
        2,
        32,
        3,
    ]


def test_table_ii_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["skiplist", "II"]) != 0
    assert "table II is about the warps of a GPU" in capsys.readouterr().err


@pytest.mark.slow
def test_modules_of_other_warps(tmp_path: Path) -> None:
    """A module that is compiled for another number of warps can be loaded, and its registers are told."""
    try:
        module, registers = paper.module_with(4, tmp_path, "sm_90")
    except paper.Unavailable as error:
        pytest.skip(str(error))
    assert 20 < registers < 200
    with paper.gh.Table(str(module), device="cpu") as table:
        assert table.insert([1, 2, 3], [4, 5, 6]).all()


@pytest.mark.parametrize("kind", ["skiplist", "lists"])
@pytest.mark.parametrize("threads", [1, 4])
def test_sets_with_a_node_per_key(kind: str, threads: int) -> None:
    """What the figures compare with: one thread's answers are those of a set, many threads' add up to what is there."""
    settings = Settings(device("cpu"), None, None, 1, threads, {})
    span, batch, rounds = (400, 3000, 20) if threads == 1 else (8, 300_000, 5)  # many threads at few keys
    rng, most = np.random.default_rng(7), 2 * batch * rounds // 3
    try:
        nodes = (
            one_thread_each.skiplist(settings, span, most)
            if kind == "skiplist"
            else one_thread_each.lists(settings, span // 4, most)
        )
    except paper.Unavailable as error:
        pytest.skip(str(error))
    held: set[int] = set()
    for _ in range(rounds):
        ops = rng.choice(np.array([1, 4, 5], np.uint8), batch)  # insert, find, erase
        keys = rng.integers(0, span, batch, dtype="u4")
        status = nodes.serve(ops, keys)
        changes = np.zeros(span, int)
        np.add.at(changes, keys[(ops == 1) & (status == 1)], 1)
        np.add.at(changes, keys[(ops == 5) & (status == 1)], -1)
        if threads == 1:
            now = set(held)
            for op, key, said in zip(ops.tolist(), keys.tolist(), status.tolist(), strict=True):
                assert said == ((key not in now) if op == 1 else (key in now))
                if op != 4:
                    (now.add if op == 1 else now.discard)(key)
        now = {key for key in range(span) if (key in held) + changes[key]}
        assert set(np.unique(changes)) <= {-1, 0, 1}
        assert set(np.flatnonzero(nodes.holds(np.arange(span, dtype="u4"))).tolist()) == now
        held = now
    if threads == 1:
        assert len(held) > span // 4
        keys = np.arange(span, span + 5 * most, dtype="u4")
        assert int(nodes.serve(np.ones(len(keys), np.uint8), keys).max()) == 3, "no node is left"


def test_beside_sorted_arrays(tmp_path: Path) -> None:
    assert ordered.main(["--keys", "20000", "--repeats", "1", "--threads", "1", "--output", str(tmp_path)]) == 0
    rows: list[dict[str, Any]] = json.loads(next(tmp_path.rglob("ordered-cpu.json")).read_text())["rows"]
    whats = [row["what"] for row in rows]
    for what in ("find", "find, random inserts", "build sorted", "range of 1,000", "numpy.searchsorted", "bisect"):
        assert what in whats
    assert all(row["ratio"] > 0 for row in rows if row["compared with"])
    assert {row["compared with"] for row in rows if row["what"] == "build sorted"} == {"copy"}


def test_ratios(tmp_path: Path) -> None:
    """Figure 8 is drawn from the measurement of 9 and 10."""
    arguments = ["--n", "1000", "--repeats", "1", "--output", str(tmp_path)]
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in ("9", "10", "8"):
        assert figures.main(["skiplist", name, *arguments]) == 0
        rows[name] = json.loads(next(tmp_path.rglob(f"skiplist-{name}-cpu.json")).read_text())["rows"]
    measured = {(row["table"], row["operation"]): row["M_per_s"] for row in rows["9"] + rows["10"]}
    assert len(measured) == 14
    assert len(rows["8"]) == 7
    for row in rows["8"]:
        ours, others = (measured[table, row["operation"]] for table in (paper.OURS, paper.CLASSIC))
        assert row["ratio"] == pytest.approx(ours / others)


def test_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "asv_bench.figures", "skiplist", "memory", "--n", "20000", "--repeats", "1"]
    done = subprocess.run([*command, "--output", str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = json.loads(next(tmp_path.rglob("skiplist-memory-cpu.json")).read_text())["rows"]
    assert rows[-1]["when"] == "flush"
    assert rows[-1]["zombies"] == 0
    assert rows[-1]["bytes_per_key"] < rows[0]["bytes_per_key"]
