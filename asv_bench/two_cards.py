"""A table in shards on two GPUs of one host: rates by one card and by two, and more keys than one card holds.

    python -m asv_bench.two_cards                        rates: 2^22 to 2^26 pairs of 4 and 4 bytes a card
    python -m asv_bench.two_cards --n 4194304 --chunks 3
    python -m asv_bench.two_cards --fill 10000000000     a set of so many keys of 8 bytes at a load of .9

Rates: each card has a batch of n pairs of its own, and one call has both; "one card" is a `gh.Table` with the batch of
the first card. Half of all rows are of the other card. linear_probe, half full, `grow=False`. Every answer is verified.
"a thread a card": two calls at once, of one card's batch each. "one batch": that of the first card alone. Bytes are
those that go over the link in each direction, beside what copies of 2^30 bytes both ways reach in the same run.

--fill builds the set in batches that lie on either card in turn, and then looks all of its keys up, and a tenth as many
that are not there: as many answers have to be right.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import pygpuhash as gh
from pygpuhash import _core, _cuda, _peers, sharded

from .harness.arguments import one_sentence, whole
from .harness.devices import Unavailable
from .harness.results import circumstances, markdown_table

HEADER = ("pairs a card", "operation", "one card", "two cards", "", "least", "most", "GB/s a way", "of the link")
CARDS = (0, 1)
ODD = 0x9E3779B97F4A7C15  # times a number: another one, of which there are no two
ZIPF = 1.1


def library() -> Any:
    """CuPy, on two cards."""
    if _core.device_count(_core.CUDA)[0] < 2:
        raise Unavailable("two GPUs are measured, and there are fewer")
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise Unavailable(f"batches are made by CuPy ({error}): install cupy-cuda12x or cupy-cuda13x") from None


class Cards:
    """Two cards, each of which is driven by a thread of its own."""

    def __init__(self) -> None:
        self.cupy = library()
        self.pool = ThreadPoolExecutor(len(CARDS))

    def on(self, card: int, work: Callable[[int], Any]) -> Any:
        """What a function returns, with a card current."""
        with self.cupy.cuda.Device(card):
            return work(card)

    def each(self, work: Callable[[int], Any]) -> list[Any]:
        """The same on both at once."""
        return list(self.pool.map(lambda card: self.on(card, work), CARDS))

    def wait(self) -> None:
        """Until both have ended their work."""
        for card in CARDS:
            with self.cupy.cuda.Device(card) as device:
                device.synchronize()

    def seconds(
        self, run: Callable[[], object], repeats: int, before: Callable[[], object] = lambda: None
    ) -> list[float]:
        """Of each run, in order of length; the first one is not counted."""
        taken = []
        for _ in range(repeats + 1):
            if before is not None:
                before()
            self.wait()
            start = time.perf_counter()
            run()
            self.wait()
            taken.append(time.perf_counter() - start)
        return sorted(taken[1:])


def link(cards: Cards, repeats: int) -> float:
    """Bytes per second of each direction, both at once."""
    nbytes, rooms = 1 << 30, {}
    streams = [cards.on(card, lambda card: cards.cupy.cuda.Stream(non_blocking=True)) for card in CARDS]
    for card in CARDS:
        with _cuda.current(card):
            others = tuple(other for other in CARDS if other != card)
            rooms[card] = [_peers.memory(card, nbytes, streams[card].ptr, others) for _ in range(2)]
    cards.wait()

    def both() -> None:
        for card in CARDS:
            with _cuda.current(card):
                other = 1 - card
                _peers.copy((other, rooms[other][1].ptr), (card, rooms[card][0].ptr), nbytes, streams[card].ptr)

    rate = nbytes / statistics.median(cards.seconds(both, repeats))
    for card in CARDS:
        with _cuda.current(card):
            for room in rooms[card]:
                room.free(streams[card].ptr)
    return rate


class Batches:
    """The batch of each card: distinct keys in random order, their values, and Zipf's keys."""

    def __init__(self, cards: Cards, n: int) -> None:
        self.n = n
        cupy = cards.cupy

        def made(card: int) -> tuple[Any, Any, Any]:
            keys = cupy.arange(card * n, (card + 1) * n, dtype=cupy.uint32) * cupy.uint32(ODD & 0xFFFFFFFF)
            keys = keys[cupy.random.permutation(n)]
            draws = np.random.default_rng(card).zipf(ZIPF, min(n, 1 << 22)) % n
            skewed = cupy.resize(cupy.asarray(draws.astype("u4")), n)
            return keys, keys ^ cupy.uint32(5), skewed * cupy.uint32(ODD & 0xFFFFFFFF)

        self.of = [cards.on(card, made) for card in CARDS]


def rates(cards: Cards, n: int, repeats: int, chunks: int, bound: float) -> list[tuple[str, ...]]:
    """Rows of the table. Raises AssertionError where an answer is wrong."""
    batches, cupy = Batches(cards, n), cards.cupy
    how = {"key_dtype": "uint32", "value_dtype": "uint32", "grow": False, "max_load_factor": 0.52}
    one = gh.Table("linear_probe", device="cuda:0", capacity=int(n * 1.05), **how)
    transport = sharded.Local([f"cuda:{card}" for card in CARDS], chunks=chunks)
    both = sharded.Table("linear_probe", capacity=int(2 * n * 1.05), transport=transport, **how)
    rows = []

    def clear() -> None:
        one.clear()
        for shard in transport._shards:
            shard.table.clear()

    def add(name: str, alone: list[float], together: list[float], copied: int, batch: int = 2) -> None:
        single, double = n / statistics.median(alone) / 1e9, batch * n / statistics.median(together) / 1e9
        over = copied / 2 / statistics.median(together)
        figures = (f"{single:.1f}", f"{double:.1f}", f"{double / single:.2f}x")
        spread = tuple(f"{batch * n / seconds / 1e9:.1f}" for seconds in (together[-1], together[0]))
        rows.append((f"{n:,}", name, *figures, *spread, f"{over / 1e9:.0f}", f"{over / bound:.2f}"))

    def moved(run: Callable[[], object]) -> int:
        before = transport.lanes.copied
        run()
        cards.wait()
        return transport.lanes.copied - before

    keys, values, skewed = ([own[i] for own in batches.of] for i in range(3))

    def full() -> None:
        clear()
        one.insert(keys[0], values[0])
        both.insert(keys, values)

    def right(answers: list[Any], more: int = 0) -> None:
        for card in CARDS:
            with cupy.cuda.Device(card):
                wanted = values[card] + cupy.uint32(more)
                assert bool((answers[0][card] == wanted).all() & answers[1][card].all()), "a wrong answer"

    alone = cards.seconds(lambda: one.insert(keys[0], values[0]), repeats, clear)
    together = cards.seconds(lambda: both.insert(keys, values), repeats, clear)
    assert len(both) == 2 * n
    add("insert", alone, together, moved(lambda: both.insert(keys, values)))
    threads = cards.seconds(lambda: cards.each(lambda card: both.insert(keys[card], values[card])), repeats, clear)
    add("insert, a thread a card", alone, threads, 0)
    full()
    alone = cards.seconds(lambda: one.find(keys[0]), repeats)
    together = cards.seconds(lambda: both.find(keys), repeats)
    right(both.find(keys))
    add("find, routed", alone, together, moved(lambda: both.find(keys)))
    threads = cards.seconds(lambda: cards.each(lambda card: both.find(keys[card])), repeats)
    add("find, a thread a card", alone, threads, moved(lambda: both.find(keys)))
    single = cards.seconds(lambda: both.find(keys[0]), repeats)
    add("find, one batch", alone, single, moved(lambda: both.find(keys[0])), 1)
    with both.replicate() as copies:
        together = cards.seconds(lambda: [copies.find(own) for own in keys], repeats)
        right(list(zip(*(copies.find(own) for own in keys), strict=True)))
    add("find, a copy on each", alone, together, 0)
    for name, given in (("add to keys that are there", keys), ("add, Zipf's keys", skewed)):
        alone = cards.seconds(lambda own=given: one.accumulate(own[0], 1), repeats, full)
        together = cards.seconds(lambda own=given: both.accumulate(own, 1), repeats, full)
        add(name, alone, together, moved(lambda own=given: both.accumulate(own, 1)))

    def total() -> int:
        answers = both.find(keys)[0]
        return sum(int(cards.on(card, lambda card: answers[card].sum(dtype=cupy.uint64))) for card in CARDS)

    full()
    before = total()
    both.accumulate(skewed, 1)
    assert (total() - before - 2 * n) % 2**32 == 0, "a wrong sum"
    full()
    both.accumulate(keys, 1)
    right(both.find(keys), 1)
    alone = cards.seconds(lambda: one.erase(keys[0]), repeats, full)
    together = cards.seconds(lambda: both.erase(keys), repeats, full)
    assert len(both) == 0
    full()
    add("erase", alone, together, moved(lambda: both.erase(keys)))
    one.close()
    both.close()
    return rows


def fill(cards: Cards, keys: int, batch: int, load: float) -> list[tuple[str, ...]]:
    """Build a set, and look all keys up. Raises AssertionError where an answer is wrong."""
    cupy = cards.cupy
    transport = sharded.Local([f"cuda:{card}" for card in CARDS])
    # Shards differ by some square roots of their size.
    table = sharded.Table(
        "linear_probe", value_dtype=None, grow=False, capacity=keys + int(8 * keys**0.5) + 64, max_load_factor=load,
        transport=transport,
    )  # fmt: skip

    def batch_of(card: int, first: int, end: int) -> Any:
        return cupy.arange(first, end, dtype=cupy.uint64) * cupy.uint64(ODD)

    def share(call: Callable[[Any], Any], begin: int, stop: int) -> int:
        """Of the batches of both cards: for how many keys the answer is True."""

        def own(card: int) -> int:
            total = 0
            for first in range(begin + card * batch, stop, 2 * batch):
                total += int(call(batch_of(card, first, min(first + batch, stop))).sum(dtype=cupy.int64))
            return total

        return sum(cards.each(own))

    cards.each(lambda card: int(table.contains(batch_of(card, 0, 1 << 10)).sum(dtype=cupy.int64)))  # compiled for each
    rows = []
    for name, call, begin, stop, wanted in (
        ("insert", table.insert, 0, keys, keys),
        ("find all", table.contains, 0, keys, keys),
        ("find others", table.contains, keys, keys + keys // 10, 0),
    ):
        start = time.perf_counter()
        answered = share(call, begin, stop)
        cards.wait()
        seconds = time.perf_counter() - start
        assert answered == wanted, (
            f"{name}: {answered:,} of {stop - begin:,} answers are True, and {wanted:,} had to be"
        )
        rows.append(
            (name, f"{stop - begin:,}", f"{answered:,}", f"{seconds:.2f}", f"{(stop - begin) / seconds / 1e9:.2f}")
        )
    stats = table.stats
    assert len(table) == keys
    loads = ", ".join(f"{own['size'] * 8 / own['nbytes']:.3f}" for own in stats["shards"])
    print(
        f"{len(table):,} keys in {stats['nbytes'] / 1e9:.1f} GB of both cards ({stats['nbytes'] / 2**30:.1f} GiB), "
        f"loads {loads}; {transport.lanes.copied / 1e9:.0f} GB went over the link\n"
    )
    table.close()
    return rows


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.two_cards", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--n", type=whole(1 << 10), action="append", help="pairs a card; may be repeated")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--chunks", type=whole(1, 64), default=1, help="of each batch")
    parser.add_argument("--fill", type=whole(1), help="build and verify a set of so many keys; nothing else")
    parser.add_argument("--batch", type=whole(1 << 10), default=1 << 27, help="keys of a batch of --fill")
    args = parser.parse_args(arguments)
    cards = Cards()
    about = circumstances({})
    name = cards.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"two cards, {name}; {about['date']}, {about['commit'][:8]}")
    if args.fill:
        rows = fill(cards, args.fill, args.batch, 0.9)
        print(markdown_table(("operation", "keys", "True", "seconds", "G/s"), rows))
        return 0
    bound = link(cards, args.repeats)
    print(f"copies between the cards, both ways at once: {bound / 1e9:.0f} GB/s each way; G/s of pairs below\n")
    rows = [
        row for n in args.n or (1 << 22, 1 << 24, 1 << 26) for row in rates(cards, n, args.repeats, args.chunks, bound)
    ]
    print(markdown_table(HEADER, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
