"""Workers that die under verbs and under sharded tables: results are exact, or the loss is said."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="dask is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")

import pygpuhash as gh  # noqa: E402
import pygpuhash.dask as ghd  # noqa: E402
from pygpuhash import sharded, transports  # noqa: E402

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def cluster(workers=2):
    """A client of processes, each of which has one thread."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 50}),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as own,
        distributed.Client(own) as client,
    ):
        yield client


# ---- verbs -----------------------------------------------------------------------------------------------------------

FRAME = pd.DataFrame({"k": np.random.default_rng(3).zipf(1.4, 3000) % 500, "x": np.arange(3000) % 17})
VERBS = {
    "value_counts": lambda frame: [ghd.value_counts(frame["k"], shards=2)],
    "group_reduce": lambda frame: [ghd.group_reduce(frame["k"], frame["x"], "sum", shards=2)],
    "nunique": lambda frame: [ghd.nunique(frame["k"], shards=2)],
    "factorize": lambda frame: list(ghd.factorize(frame["k"], shards=2)),
    "drop_duplicates": lambda frame: [ghd.drop_duplicates(frame, ["k"], shards=2)],
}


def killed_after(boundary, results, wanted):
    """Compute on three workers, of which one is closed when so many tasks have ended; was one?"""
    distributed_test = pytest.importorskip("distributed.utils_test")
    killed = []

    @distributed_test.gen_cluster(
        client=True, nthreads=[("127.0.0.1", 1)] * 3, timeout=120,
        config={"distributed.scheduler.allowed-failures": 50},
    )  # fmt: skip
    async def schedule(client, scheduler, *workers):
        ended = 0
        loop = distributed_test.asyncio.get_running_loop()

        class Kills(distributed.diagnostics.plugin.SchedulerPlugin):
            def transition(self, key, start, finish, *args, **kwargs):
                nonlocal ended
                if start == "processing" and finish == "memory":
                    ended += 1
                    if ended == boundary:
                        victim = workers[boundary % len(workers)]
                        killed.append(loop.create_task(victim.close(nanny=False, reason="lost")))

        scheduler.add_plugin(Kills())
        found = await client.gather([client.compute(result) for result in results])
        for task in killed:
            await task
        for one, other in zip(found, wanted, strict=True):
            assert one.equals(other) if hasattr(one, "equals") else np.array_equal(one, other)

    schedule()
    return bool(killed)


@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_is_lost_at_every_boundary_of_tasks(verb):
    """A schedule has one kill, after its first task, its second, and so on to its last. All are exact."""
    results = VERBS[verb](dd.from_pandas(FRAME, npartitions=3))
    wanted = [result.compute(scheduler="synchronous") for result in results]
    boundary = 1
    while killed_after(boundary, results, wanted):
        boundary += 1
    print(f"{verb}: {boundary - 1} schedules, all exact")
    assert boundary > 5


# ---- sharded tables --------------------------------------------------------------------------------------------------


def test_a_shard_whose_worker_is_killed_is_named(tmp_path):
    """Every later call says which shard and which snapshot; what was saved loads onto the workers that are left."""
    with cluster(3) as client:
        transport = sharded.Dask(client)
        table = sharded.Table(transport=transport)
        keys = np.arange(20_000)
        table.accumulate(keys, 1, tag="first")
        table.save(tmp_path / "t")
        table.accumulate(keys, 1, tag="second")
        pids = client.run(os.getpid)
        os.kill(pids[transport._workers[1]], signal.SIGKILL)
        time.sleep(0.5)
        for call in (lambda: table.find(keys), lambda: table.insert(keys, 1), lambda: len(table), table.export):
            with pytest.raises(gh.ShardLost, match=r"shard 1 is lost: .*; the last snapshot is .*t \("):
                call()
        client.wait_for_workers(3)
        with sharded.load(tmp_path / "t", transport=sharded.Dask(client)) as again:
            for tag in ("first", "second", "third"):  # the caller repeats all that may be missing
                again.accumulate(keys, 1, tag=tag)
            values, found = again.find(keys)
            assert found.all()
            assert set(values.tolist()) == {3}


@pytest.mark.parametrize("seed", range(6))
def test_batches_with_tags_are_carried_out_once(tmp_path, monkeypatch, seed):
    """A worker is killed in a stream of batches: all are repeated from the snapshot on, and counts are exact."""
    draw = random.Random(seed)
    monkeypatch.setattr(transports, "_PATIENCE", 5)
    batches = [np.random.default_rng(seed * 100 + i).zipf(1.3, 4000) % 1000 for i in range(12)]
    wanted = Counter(np.concatenate(batches).tolist())
    with cluster(2) as client:
        transport = sharded.Dask(client)
        table = sharded.Table(transport=transport)
        victim = client.run(os.getpid)[draw.choice(transport._workers)]
        timer = threading.Timer(draw.uniform(0.05, 0.6), os.kill, (victim, signal.SIGKILL))
        lost = 0
        table.save(tmp_path / "t")
        timer.start()
        done = 0
        while done < len(batches):
            try:
                table.accumulate(batches[done], 1, tag=f"batch {done}")
                table.accumulate(batches[done], 1, tag=f"batch {done}")  # a caller that does not know repeats it
                if done % 3 == 2:
                    table.save(tmp_path / "t", overwrite=True)
                time.sleep(0.05)
                done += 1
            except gh.ShardLost:
                lost += 1
                done = 0  # tags say what the snapshot has
                table = None
                while table is None:  # until Dask knows which worker has gone
                    client.wait_for_workers(2)
                    with contextlib.suppress(gh.ShardLost):
                        table = sharded.load(tmp_path / "t", transport=sharded.Dask(client))
        timer.join()
        if not lost:  # the timer may come when all is done
            time.sleep(0.5)
            with pytest.raises(gh.ShardLost):
                len(table)
            return
        keys, values = table.export()
        assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == wanted
