"""A simulation of group-bys in parts on many workers: what stragglers and losses cost, and that results stay exact.

    python -m asv_bench.schedules                       1 to 1,000 workers, a table
    python -m asv_bench.schedules --seeds 1000          so many schedules of losses, each compared with no loss
    python -m asv_bench.schedules --seeds 1000 --same-rows

Time is simulated, the work is not: every run of a task calls `gh.partial.start`, `split` or `merge` on sampled rows, so
that what comes out is compared with what one process gives. A task runs where most of its inputs are, if that worker is
idle, and what is read is split before more is read. Results lie in the memory of the worker that made them, and are
lost with it; a part is released when it has been split. A task that runs too long is started again elsewhere, and
either of its results is kept.

`python -m asv_bench.workers` draws what the table says.

--same-rows: a hundred schedules are of the same rows, whose tasks are worked out once; of those that run again one in
32 is worked out again, and has to give the same bytes.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pygpuhash as gh

from .harness.arguments import one_sentence, whole
from .harness.results import markdown_table

Task = tuple[str, int]  # ("start" | "split" | "merge", number of the part or shard)

SCHEDULER = 1.5e-3  # seconds of the scheduler and the client for a task and for each of its inputs' moves
NETWORK = 1e9  # bytes per second of a worker
ROWS = 2e7  # per second, aggregated by a worker, or groups merged
GROUP = 24  # bytes: its key, count and sum
AGAIN = 1 / 32  # the share of repeated tasks that are worked out again
SAME_ROWS = 100  # schedules of the same rows
HEADER = ("workers", "losses", "slow", "seconds", "runs of tasks", "MB moved", "MB of a worker")


@dataclass
class Work:
    """What the tasks of one division of some rows give, worked out once and now and then again."""

    parts: list[tuple[np.ndarray, np.ndarray]]
    shards: int
    fan: int = 1
    values: dict[Task, Any] = field(default_factory=dict)
    bytes: dict[Task, bytes] = field(default_factory=dict)
    again: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(0))

    def compute(self, task: Task, given: dict[Task, Any]) -> Any:
        """The result of a task. Raises AssertionError where it is another one than before."""
        if task in self.values and self.random.random() >= AGAIN:
            return self.values[task]
        value = compute(task, self.parts, self.shards, given, self.fan)
        if task not in self.values:
            self.values[task], self.bytes[task] = value, pickle.dumps(value)
            return value
        self.again += 1
        assert pickle.dumps(value) == self.bytes[task], f"{task} gives another result when it runs again"
        return value


@dataclass(eq=False)
class Worker:
    """A worker of some speed, and the bytes of the results that it holds."""

    speed: float
    alive: bool = True
    running: Task | None = None
    held: dict[Task, int] = field(default_factory=dict)

    @property
    def memory(self) -> int:
        """Bytes of results."""
        return sum(self.held.values())


@dataclass
class Simulation:
    """One run. rows: of each part there are scale times as many as are sampled.

    fan : so many neighbouring parts are merged before they are split, in one task, as pygpuhash.dask does.
    """

    parts: list[tuple[np.ndarray, np.ndarray]]
    shards: int
    workers: int
    seed: int
    losses: int = 0
    slow: float = 0.0  # the share of workers that have a tenth of the speed
    scale: float = 1.0
    fan: int = 1
    work: Work | None = None  # what tasks give; None: each run of each is worked out

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.now, self.scheduler = 0.0, 0.0
        self.values: dict[Task, Any] = {}
        self.places: dict[Task, list[Worker]] = {}  # who has, or had, its result
        self.there: dict[Task, int] = {}  # how many of these are alive
        self.finished: dict[int, gh.partial.Partial] = {}
        self.sizes: dict[Task, int] = {}
        self.runs, self.moved, self.peak, self.scheduled = 0, 0.0, 0.0, 0.0
        self.events: list[tuple[float, int, str, Any]] = []
        self.number = 0
        self.all = [self._worker() for _ in range(self.workers)]

    def _worker(self) -> Worker:
        return Worker(0.1 if self.random.random() < self.slow else 1.0)

    def _at(self, time: float, kind: str, what: Any) -> None:
        self.number += 1
        heapq.heappush(self.events, (time, self.number, kind, what))

    def _inputs(self, task: Task) -> list[Task]:
        kind, i = task
        if kind == "start":
            return []
        if kind == "merge":
            return [("split", j) for j in range(self.splits)]
        return [("start", j) for j in neighbours(i, self.fan, len(self.parts))]

    @property
    def splits(self) -> int:
        """How many tasks split."""
        return -(-len(self.parts) // self.fan)

    def _there(self, task: Task) -> bool:
        return self.there.get(task, 0) > 0

    def _has_ended(self, task: Task) -> bool:
        """Is a result of it there, or has what needs it ended?"""
        kind, i = task
        if kind == "merge":
            return i in self.finished
        return self._there(task) or (kind == "start" and self._there(("split", i // self.fan)))

    def _wanted(self) -> list[Task]:
        """Tasks that can run now and whose results are missing, in a fixed order."""
        missing = [("merge", s) for s in range(self.shards) if s not in self.finished]
        splits = [("split", i) for i in range(self.splits) if not self._there(("split", i))] if missing else []
        inputs = {task: self._inputs(task) for task in splits}
        starts = [one for task in splits for one in inputs[task] if not self._there(one)]
        ready = [task for task in splits if all(map(self._there, inputs[task]))]
        return ready + starts + (missing if not splits else [])

    def _dispatch(self) -> None:
        idle = [worker for worker in self.all if worker.running is None]
        if not idle:
            return
        self.random.shuffle(idle)
        running = Counter(worker.running for worker in self.all if worker.running is not None)
        tasks = [task for task in self._wanted() if task not in running]
        if self.slow and not tasks:  # what runs on a slow worker is started again
            slow = {w.running for w in self.all if w.running is not None and w.speed < 1}
            tasks = sorted(task for task in slow if running[task] == 1 and not self._has_ended(task))
            idle = [worker for worker in idle if worker.speed == 1]
        for task in tasks[: len(idle)]:
            self._begin(task, idle)

    def _begin(self, task: Task, idle: list[Worker]) -> None:
        """Have an idle worker run a task: the one that has most of its inputs."""
        inputs = self._inputs(task)
        own: Counter[Worker] = Counter()
        for one in inputs:
            for holder in self.places.get(one, ()):
                own[holder] += holder.held.get(one, 0)
        worker = max(idle, key=lambda worker: own[worker])
        idle.remove(worker)
        worker.running = task
        self.runs += 1
        self.scheduler = max(self.scheduler, self.now) + SCHEDULER * (1 + len(inputs))
        self.scheduled += SCHEDULER * (1 + len(inputs))
        share = self.shards if task[0] == "merge" else 1
        size = sum(self._size(one) for one in inputs if one not in worker.held) / share
        self.moved += size
        self.peak = max(self.peak, worker.memory + size)
        done = sum(self._size(one) for one in inputs) / share / GROUP
        work = len(self.parts[task[1]][0]) * self.scale if task[0] == "start" else done
        self._at(self.scheduler + size / NETWORK + work / ROWS / worker.speed, "done", (worker, task))

    def _size(self, task: Task) -> int:
        held = (worker.held[task] for worker in self.places.get(task, ()) if worker.alive)
        return next(held, 0)

    def _done(self, worker: Worker, task: Task) -> None:
        if not worker.alive:
            return
        worker.running = None
        if any(not self._there(one) for one in self._inputs(task)):
            return  # an input was lost while the task ran
        if self.work is None:
            value = compute(task, self.parts, self.shards, self.values, self.fan)
        else:
            value = self.work.compute(task, self.values)
        if task not in self.values or self.random.random() < 0.5:  # of two results either is kept
            self.values[task] = value
        if task[0] == "merge":
            self.finished.setdefault(task[1], self.values[task])
            return
        if task[0] == "start" and self._there(("split", task[1] // self.fan)):
            return  # no task to come has it as an input
        if task not in self.sizes:
            groups = len(value) if task[0] == "start" else sum(map(len, value))
            self.sizes[task] = int(groups * GROUP * self.scale)
        worker.held[task] = self.sizes[task]
        self.places.setdefault(task, []).append(worker)
        self.there[task] = self.there.get(task, 0) + 1
        self.peak = max(self.peak, worker.memory)
        for one in self._inputs(task):
            for holder in self.places.pop(one):
                holder.held.pop(one, None)
            self.there[one] = 0

    def run(self) -> dict[Any, tuple[int, int, int]]:
        """{key: (count, sum, first)}; afterwards `now`, `runs`, `moved`, `peak` and `scheduled` are the run's."""
        self.simulate()
        return as_dict([self.finished[s] for s in range(self.shards)])

    def simulate(self) -> None:
        """Until all shards are finished."""
        expected = sum(len(keys) for keys, _ in self.parts) * self.scale / ROWS / self.workers
        span = expected + SCHEDULER * len(self.parts) * (2 + self.shards)
        for _ in range(self.losses):
            self._at(self.random.uniform(0, span), "loss", None)
        self._dispatch()
        while len(self.finished) < self.shards:
            self.now, _, kind, what = heapq.heappop(self.events)
            if kind == "done":
                self._done(*what)
            else:  # another worker comes for one that is lost
                alive = [i for i, worker in enumerate(self.all) if worker.alive]
                i = self.random.choice(alive)
                self.all[i].alive = False
                for task in self.all[i].held:
                    self.there[task] -= 1
                self.all[i] = self._worker()
            self._dispatch()


def compute(
    task: Task, parts: list[tuple[np.ndarray, np.ndarray]], shards: int, given: dict[Task, Any], fan: int = 1
) -> Any:
    """What a task gives; given : what those before it have given."""
    kind, i = task
    if kind == "start":
        keys, values = parts[i]
        return gh.partial.start(keys, {"n": "count", "s": ("sum", values), "f": ("first", values)}, threads=1)
    if kind == "split":
        some = [given["start", j] for j in neighbours(i, fan, len(parts))]
        return gh.partial.split(some[0] if fan == 1 else gh.partial.merge(some), shards)
    return gh.partial.merge([given["split", j][i] for j in range(-(-len(parts) // fan))])


def neighbours(i: int, fan: int, parts: int) -> range:
    """The parts of task i that splits."""
    return range(i * fan, min(i * fan + fan, parts))


def as_dict(partials: Sequence[gh.partial.Partial]) -> dict[Any, tuple[int, int, int]]:
    """Finished groups as one dict. Raises AssertionError for a key in two shards."""
    found: dict[Any, tuple[int, int, int]] = {}
    for part in partials:
        keys, results = gh.partial.finish(part)
        rows = zip(*(results[name].tolist() for name in ("n", "s", "f")), strict=True)
        for key, row in zip(keys.tolist(), rows, strict=True):
            assert key not in found, f"{key} is in two shards"
            found[key] = row
    return found


def sampled(parts: int, rows: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of Zipf keys, in parts of uneven sizes, of which some are empty."""
    draws = np.random.default_rng(seed)
    sizes = draws.integers(0, 2 * rows, parts)
    return [(np.minimum(draws.zipf(1.3, n), 10**6), draws.integers(-9, 9, n)) for n in sizes.tolist()]


def in_one_process(parts: list[tuple[np.ndarray, np.ndarray]]) -> dict[Any, tuple[int, int, int]]:
    """What every schedule has to give."""
    keys, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return as_dict([gh.partial.start(keys, {"n": "count", "s": ("sum", values), "f": ("first", values)})])


def of_same_rows(first: int, seeds: int) -> tuple[int, int]:
    """Run schedules `first` to `first + seeds - 1`; (runs of tasks, how many repeated ones were worked out again).

    Raises AssertionError where a schedule gives another result than one process.
    """
    runs = again = 0
    work = None
    for seed in range(first, first + seeds):
        if work is None or seed % SAME_ROWS == 0:
            block = seed // SAME_ROWS
            work = Work(sampled(1 + block % 7, 20, block), 1 + block % 5)
            Simulation(work.parts, work.shards, 1, 0, work=work).simulate()
            merged = [work.values["merge", s] for s in range(work.shards)]
            assert as_dict(merged) == in_one_process(work.parts), f"seed {seed}: another result"
            work.random.seed(block)
        how = {"losses": seed % 9, "slow": seed % 3 / 4}
        made = Simulation(work.parts, work.shards, 1 + seed % 4, seed, work=work, **how)
        before = work.again
        made.simulate()
        for shard, value in made.finished.items():
            if value is not work.values["merge", shard]:
                assert pickle.dumps(value) == work.bytes["merge", shard], f"seed {seed}: another result"
        assert len(made.finished) == work.shards, f"seed {seed}: a shard is missing"
        runs, again = runs + made.runs, again + work.again - before
    return runs, again


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.schedules", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=whole(0), default=0, help="schedules of losses to run; default: the table")
    parser.add_argument("--same-rows", action="store_true", help="of which a hundred each are of the same rows")
    args = parser.parse_args(arguments)
    if args.same_rows:
        runs, again = of_same_rows(0, args.seeds)
        print(f"{args.seeds} schedules, all exact; {runs:,} runs of tasks, {again:,} repeated ones worked out again")
        return 0
    for seed in range(args.seeds):
        parts = sampled(1 + seed % 7, 20, seed)
        how = {"losses": seed % 9, "slow": seed % 3 / 4}
        found = Simulation(parts, 1 + seed % 5, 1 + seed % 4, seed, **how).run()
        assert found == in_one_process(parts), f"seed {seed}: another result"
    if args.seeds:
        print(f"{args.seeds} schedules, all exact")
        return 0
    rows, parts = [], sampled(64, 200, 1)
    wanted = in_one_process(parts)
    for workers in (1, 10, 100, 1000):
        for losses, slow in ((0, 0.0), (workers // 10 + 1, 0.0), (0, 0.1)):
            one = Simulation(parts, 16, workers, 1, losses, slow, scale=1e5)
            assert one.run() == wanted, f"{workers} workers: another result"
            figures = (f"{one.now:,.1f}", f"{one.runs:,}", f"{one.moved / 1e6:,.0f}", f"{one.peak / 1e6:,.0f}")
            rows.append((str(workers), str(losses), f"{slow:.0%}", *figures))
    total = sum(len(keys) for keys, _ in parts) * 1e5
    print(f"{total:.2g} rows of Zipf keys in 64 parts, 16 shards, seed 1\n\n{markdown_table(HEADER, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
