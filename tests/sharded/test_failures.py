"""Workers that die under verbs and under sharded tables: results are exact, or the loss is said."""

from __future__ import annotations

import asyncio
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
from pygpuhash import _dask_tasks, sharded, transports  # noqa: E402

# Of a worker in this process, where the machine is busy.
BUSY = pytest.mark.filterwarnings("ignore:Creating scratch directories is taking:UserWarning")


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

DRAWN = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "k": DRAWN.zipf(1.4, 3000) % 500,
        "x": np.arange(3000) % 17,
        "f": DRAWN.random(3000),
        "w": pd.Series(DRAWN.integers(0, 40, 3000)).map(lambda i: None if i == 7 else f"word-{i}").astype("str"),
    }
)
OTHERS = pd.DataFrame({"k": np.arange(0, 400, 2) % 300, "name": [f"name-{i}" for i in range(200)]})
AGGREGATES = {"rows": "count", "mean": ("mean", "f"), "kinds": ("nunique", "x"), "first": ("first", "w")}
VERBS = {
    "value_counts": lambda frame: [ghd.value_counts(frame["k"], shards=2)],
    "unique": lambda frame: [ghd.unique(frame["w"], shards=2)],
    "nunique": lambda frame: [ghd.nunique(frame["k"], shards=2)],
    "group_reduce": lambda frame: [ghd.group_reduce(frame["k"], frame["x"], "sum", shards=2)],
    "group_by": lambda frame: [ghd.group_by(frame, ["k", "w"], AGGREGATES, shards=2)],
    "group_by in one part": lambda frame: [ghd.group_by(frame, "k", AGGREGATES, shards=1)],
    "factorize": lambda frame: list(ghd.factorize(frame["k"], shards=2)),
    "isin": lambda frame: [ghd.isin(frame["k"], dd.from_pandas(OTHERS["k"], npartitions=2))],
    "join": lambda frame: [ghd.join(frame, dd.from_pandas(OTHERS, npartitions=2), "k", "left")],
    "drop_duplicates": lambda frame: [ghd.drop_duplicates(frame, ["k"], shards=2)],
    "neighbours merged first": lambda frame: [ghd.value_counts(frame["k"], shards=2)],
}


@pytest.fixture(params=VERBS)
def verb(request, monkeypatch):
    """(collections that a verb gives, what they come to)."""
    parts = 3
    if request.param == "neighbours merged first":
        parts = 6
        monkeypatch.setattr(ghd, "MOST_TASKS", parts)
    results = VERBS[request.param](dd.from_pandas(FRAME, npartitions=parts))
    return results, [result.compute(scheduler="synchronous") for result in results]


class Kills(distributed.diagnostics.plugin.SchedulerPlugin):
    """Closes a worker when so many tasks have ended.

    its_own : the worker that ended the last of these tasks, whose result is lost then; or else one after the other.
    """

    def __init__(self, workers, boundary, its_own):
        self.workers, self.boundary, self.its_own = workers, boundary, its_own
        self.ended, self.closing = 0, None

    def transition(self, key, start, finish, *args, worker=None, **kwargs):
        """Of any task."""
        if start == "processing" and finish == "memory":
            self.ended += 1
            if self.ended == self.boundary:
                own = [one for one in self.workers if one.address == worker]
                (victim,) = own if self.its_own else [self.workers[self.boundary % len(self.workers)]]
                self.closing = asyncio.create_task(victim.close(nanny=False, reason="lost"))


def killed_after(boundary, verb, its_own):
    """Compute on three workers, of which one is closed when so many tasks have ended; was one?

    As distributed's gen_cluster, which also closes the workers of other tests of the process.
    """
    results, wanted = verb
    _dask_tasks.indexes.clear()  # the workers are of one process, and a new worker has none

    async def schedule():
        async with contextlib.AsyncExitStack() as stack:
            begin = stack.enter_async_context
            how = {"dashboard_address": ":0", "validate": True}
            scheduler = await begin(distributed.Scheduler(host="127.0.0.1", **how))
            workers = [await begin(distributed.Worker(scheduler.address, nthreads=1, **how)) for _ in range(3)]
            client = await begin(distributed.Client(scheduler.address, asynchronous=True, set_as_default=False))
            kills = Kills(workers, boundary, its_own)
            scheduler.add_plugin(kills)
            found = await client.gather([client.compute(result) for result in results])
            if kills.closing is not None:
                await kills.closing
        return found, kills.closing is not None

    # A worker that asks the lost one for a result waits so long.
    patience = {"distributed.comm.timeouts.connect": "2s"}
    with dask.config.set({"distributed.scheduler.allowed-failures": 50} | patience):
        found, killed = asyncio.run(asyncio.wait_for(schedule(), 100))
    for one, other in zip(found, wanted, strict=True):
        assert one.equals(other) if hasattr(one, "equals") else np.array_equal(one, other)
    return killed


@BUSY
@pytest.mark.parametrize("boundary", [1, 5])
def test_a_worker_is_lost_with_what_it_has_just_made(verb, boundary):
    """Two of the schedules of the next test: the first part is aggregated, and some parts are merged."""
    assert killed_after(boundary, verb, its_own=True)


@BUSY
@pytest.mark.slow
@pytest.mark.parametrize("its_own", [False, True])
def test_a_worker_is_lost_at_every_boundary_of_tasks(verb, its_own, request):
    """A schedule has one kill, after its first task, its second, and so on to its last. All are exact."""
    boundary = 1
    while killed_after(boundary, verb, its_own):
        boundary += 1
    print(f"{request.node.name}: {boundary - 1} schedules, all exact")
    assert boundary > 5


@pytest.mark.slow
def test_worker_processes_of_another_version_are_refused(monkeypatch):
    """The client is of another version; the workers are processes of their own."""
    other = ("9.9.9", transports.VERSIONS[1])
    monkeypatch.setattr(transports, "VERSIONS", other)
    monkeypatch.setattr(_dask_tasks, "VERSIONS", other)
    with cluster(1) as client:
        with pytest.raises(
            gh.Unsupported, match=r"shard 0 is of gpuhash .*, the table of 9.9.9 .*: install one version"
        ):
            sharded.Table(transport=sharded.Dask(client))
        frame = dd.from_pandas(FRAME, npartitions=3)
        for lazy in (ghd.nunique(frame["k"]), ghd.join(frame, OTHERS, "k"), ghd.factorize(frame["k"])[0]):
            with pytest.raises(
                gh.Unsupported, match=r"a worker has gpuhash .*, the client 9.9.9 with .*: install one v"
            ):
                client.compute(lazy).result()


# ---- sharded tables --------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
        for call in (
            lambda: table.find(keys),
            lambda: table.insert(keys, 1),
            lambda: len(table),
            table.export,
            table.clear,
        ):
            with pytest.raises(gh.ShardLost, match=r"shard 1 is lost: .*; the last snapshot is .*t \("):
                call()
        client.wait_for_workers(3)
        with sharded.load(tmp_path / "t", transport=sharded.Dask(client)) as again:
            for tag in ("first", "second", "third"):  # the caller repeats all that may be missing
                again.accumulate(keys, 1, tag=tag)
            values, found = again.find(keys)
            assert found.all()
            assert set(values.tolist()) == {3}


@pytest.mark.slow
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
