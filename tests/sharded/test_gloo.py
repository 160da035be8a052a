"""`sharded.Torch` in two processes of a real torch.distributed, with gloo; elsewhere its processes are threads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

RANK = """
import os
import sys
from datetime import timedelta

import numpy as np
import torch.distributed as distributed

import pygpuhash as gh
from pygpuhash import sharded

rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
distributed.init_process_group("gloo", f"file://{folder}/store", timedelta(seconds=60), size, rank)
of = [np.random.default_rng(i).zipf(1.3, 2000 * i) % 5000 for i in range(size)]  # the first has none
mine, everything = of[rank], np.concatenate(of)
keys, counts = np.unique(everything, return_counts=True)

table = sharded.Table(shards=5, transport=sharded.Torch())
for _ in range(2):  # the second time all shards have the tags
    table.accumulate(mine, 1, tag="monday")
values, found = table.find(keys)
assert found.all() and (values == counts).all()
assert not table.contains(keys + 10000).any()
assert len(table) == len(keys)
table.check()
table.save(f"{folder}/t")
with table.replicate() as copy:
    assert (copy.find(keys)[0] == counts).all()
assert (table.erase(keys[rank::size])).all()
assert len(table) == 0
table.clear()  # with the tags
table.accumulate(mine, 1, tag="monday")
assert (table.find(keys)[0] == counts).all()
table.close()

again = sharded.load(f"{folder}/t", shards=5, transport=sharded.Torch())
again.accumulate(mine, 1, tag="monday")
values, found = again.find(keys)
assert found.all() and (values == counts).all()

distributed.barrier()
if rank == size - 1:
    os._exit(0)
for _ in range(2):
    try:
        again.find(keys)
    except gh.ShardLost as error:
        assert "or another process of the group, is lost" in str(error), error
        assert "the last snapshot is" in str(error), error
    else:
        raise AssertionError("a process of the group has ended")
print("exact, and the loss is said", flush=True)
os._exit(0)  # what torch does at its end waits for the other process
"""


def test_processes_of_a_group(tmp_path):
    """Batches of each process, tags, a snapshot, a copy; then the last process ends, and every later call says so."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), "2", str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        printed = [process.communicate(timeout=110)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], "\n".join(printed)
    assert "exact, and the loss is said" in printed[0]
