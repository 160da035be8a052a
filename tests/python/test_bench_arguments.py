"""Command lines of the benchmarks: what cannot be measured is refused in one sentence, with status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "asv_bench" / "report.py").exists(), reason="asv_bench is in a checkout of the repository only"
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("allocators --n -1", "--n: -1 is out of range"),
        ("figures linear_probe table --slots 0", "--slots: 0 is out of range"),
        ("in_cache --load nan", "--load: nan is out of range: use 0.05 to 0.99"),
        ("in_cache --option row", "'row' is not an option like row=8"),
        ("in_cache --keys 1000 --queries 1000 --backend nope", "in_cache: backend 'nope' is not known"),
        ("skew --repeats 0", "--repeats: 0 is out of range"),
        ("appends --n 0", "--n: 0 is out of range"),
        ("verbs --n 7", "--n: 7 is out of range"),
        ("dask_verbs --keys few", "--keys: invalid choice: 'few'"),
        ("schedules --seeds x", "--seeds: invalid"),
        ("partition --shards 65537", "--shards: 65537 is out of range: use 1 to 65536"),
        ("two_cards --n 7 --chunks 2", "--n: 7 is out of range: use 1024 to"),
        ("skew --n 1000 --option a=b", "skew: option 'a' is unknown"),
        ("behind_bus --row 24", "--row 24: use a multiple of 16"),
        ("larger_than_memory --path nowhere --value-words 0", "--value-words: 0 is out of range: use 1 to 64"),
        ("ordered --option x", "'x' is not an option like row=8"),
        ("rebuild --bits 99", "--bits: 99 is out of range"),
        ("rebuild --widths 3+3", "--widths: invalid choice: '3+3'"),
        ("beside_others --keys 0", "--keys: 0 is out of range"),
        ("report --loads x", "'x' are no numbers: use 0.5"),
        ("sweep --n 1000 --backend hive --option row=3", "sweep: option 'row' is unknown to backend 'hive'"),
        ("overhead --rounds x", "--rounds: invalid integer value: 'x'"),
        ("overhead --backend nope", "overhead: backend 'nope' is not known"),
    ],
)
def test_what_cannot_be_measured(line, words):
    module, *arguments = line.split()
    command = [sys.executable, "-m", f"asv_bench.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
