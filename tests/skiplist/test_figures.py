"""The commands for the figures of the skiplist paper, and the one beside sorted arrays, in small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
WHY = "asv_bench is in a checkout of the repository only"
figures, ordered, paper = (
    pytest.importorskip(f"asv_bench.{name}", reason=WHY) for name in ("figures", "ordered", "harness.paper_skiplist")
)

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


def test_beside_sorted_arrays(tmp_path: Path) -> None:
    assert ordered.main(["--keys", "20000", "--repeats", "1", "--threads", "1", "--output", str(tmp_path)]) == 0
    rows: list[dict[str, Any]] = json.loads(next(tmp_path.rglob("ordered-cpu.json")).read_text())["rows"]
    whats = [row["what"] for row in rows]
    for what in ("find", "find, random inserts", "build sorted", "range of 1,000", "numpy.searchsorted", "bisect"):
        assert what in whats
    assert all(row["ratio"] > 0 for row in rows if row["compared with"])
    assert {row["compared with"] for row in rows if row["what"] == "build sorted"} == {"copy"}


def test_mixtures(tmp_path: Path) -> None:
    """Figure 9 by the command, with a skiplist alone where there is no compiler for the classic one."""
    command = [sys.executable, "-m", "asv_bench.figures", "skiplist", "memory", "--n", "20000", "--repeats", "1"]
    done = subprocess.run([*command, "--output", str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = json.loads(next(tmp_path.rglob("skiplist-memory-cpu.json")).read_text())["rows"]
    assert rows[-1]["when"] == "flush"
    assert rows[-1]["zombies"] == 0
    assert rows[-1]["bytes_per_key"] < rows[0]["bytes_per_key"]
