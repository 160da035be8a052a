"""Verbs on Dask with a worker for each of two cards, whose parts are CuPy's, and a table in shards there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu2

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("workers", ["dask-cuda", "nannies"])
def test_results_are_numpys(workers, tmp_path, capsys):
    for name in ("distributed", "dask.array", "cupy", *(["dask_cuda"] if workers == "dask-cuda" else [])):
        pytest.importorskip(name, reason=f"{name} is not installed")
    sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
    dask_cards = pytest.importorskip("asv_bench.dask_cards", reason="asv_bench is in a checkout of the repository only")
    how = ["--n", "200000", "--parts", "3", "--repeats", "1", "--distinct", "5000", "--output", str(tmp_path)]
    assert dask_cards.main([*how, *(["--nannies"] if workers == "nannies" else [])]) == 0  # compares every result
    said = capsys.readouterr()
    assert ("LocalCUDACluster" if workers == "dask-cuda" else "SpecCluster") in said.out
    assert len([line for line in said.out.splitlines() if line.split("|")[2:3] == [" cupy  "]]) == 7
