"""Which lanes of a warp are at work in stadium's inserts, by a model of warps on the CPU: why table I is unlike ours.

    python -m asv_bench.harness.stadium_lanes LOAD RUN      for example .8 256: clStash, a warp for 256 elements

The model has groups of eight tickets with six bits of the key, as tables on CUDA have. Warps take steps together; in a
step a lane with a job compares the keys of tickets like its own, and books a free ticket of its group, or goes on to
another group. One of the lanes that want one group books, the others visit it again (serve_stack.cuh, ops.hpp). It
counts lanes, where a profiler counts instructions.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

SLOTS, INFO = 8, 1 << 6  # tickets of a group; values of the bits of the key in them
LANES = np.arange(32)


def prime_from(least: int) -> int:
    """The first prime that is not less."""
    return next(p for p in range(least, 2 * least + 2) if all(p % d for d in range(2, int(p**0.5) + 1)))


class Board:
    """The tickets of a table, and the keys' paths over them."""

    def __init__(self, n: int, load: float) -> None:
        rng = np.random.default_rng(1)
        self.groups = prime_from(int(n / load / SLOTS))  # so that a path visits every group
        self.tickets = np.zeros((self.groups, SLOTS), np.uint8)  # 0: free
        self.home, self.stride = rng.integers(self.groups, size=n), rng.integers(1, self.groups, n)
        self.info = rng.integers(1, INFO + 1, n).astype(np.uint8)
        self.rng = rng

    def visit(self, keys: Any, at: Any) -> tuple[Any, Any, Any]:
        """(which of the keys are booked now, how many tickets each compares, the groups to visit next)."""
        seen = self.tickets[at]
        free = seen == 0
        open_here = free.any(1)
        wanting = self.rng.permutation(np.nonzero(open_here)[0])
        winners = wanting[np.unique(at[wanting], return_index=True)[1]]
        self.tickets[at[winners], free[winners].argmax(1)] = self.info[keys[winners]]
        booked = np.zeros(len(keys), bool)
        booked[winners] = True
        after = np.where(open_here, at, (at + self.stride[keys]) % self.groups)
        return booked, (seen == self.info[keys][:, None]).sum(1), after


class Warps:
    """Warps with a run of elements each, and a stack of jobs that a visit has left."""

    def __init__(self, first: Any, run: int) -> None:
        self.first, self.run, many = first, run, len(first)
        self.next, self.top = np.zeros(many, int), np.zeros(many, int)
        self.keys, self.at = np.zeros((many, 64), int), np.zeros((many, 64), int)

    def take(self, board: Board) -> tuple[Any, Any, Any]:
        """(lanes with a job, their keys, the groups to visit), all as warps by lanes."""
        from_stack = (self.top >= 32) | (self.next >= self.run)
        takes = np.where(from_stack, np.minimum(self.top, 32), 0)
        fresh = np.where(from_stack, 0, 32)
        place = np.clip((self.top - takes)[:, None] + LANES, 0, 63)
        rows = np.arange(len(self.first))[:, None]
        keys = np.where(from_stack[:, None], self.keys[rows, place], (self.first + self.next)[:, None] + LANES)
        keys = np.where(np.maximum(takes, fresh)[:, None] > LANES, keys, 0)
        at = np.where(from_stack[:, None], self.at[rows, place], board.home[keys])
        self.top -= takes
        self.next += fresh
        return np.maximum(takes, fresh)[:, None] > LANES, keys, at

    def put(self, rest: Any, keys: Any, at: Any) -> None:
        """What is not done goes onto the stack."""
        place = self.top[:, None] + np.cumsum(rest, 1) - rest
        warp, lane = np.nonzero(rest)
        self.keys[warp, place[warp, lane]] = keys[warp, lane]
        self.at[warp, place[warp, lane]] = at[warp, lane]
        self.top += rest.sum(1)


def shares(n: int, load: float, run: int, at_once: int = 1 << 18) -> dict[str, float]:
    """Of visits by warps: lanes that have a job, visits in which a key is compared, and lanes that take part in that.

    at_once: elements of the warps that a card runs at the same time.
    """
    board = Board(n, load)
    visits = jobs = comparing = rounds = compared = 0
    for begin in range(0, n, at_once):
        warps = Warps(np.arange(begin, min(begin + at_once, n), run), run)
        while True:
            busy, keys, at = warps.take(board)
            if not busy.any():
                break
            where = np.nonzero(busy)
            booked, hits, after = board.visit(keys[where], at[where])
            tried, rest, then = np.zeros(busy.shape, int), np.zeros(busy.shape, bool), at.copy()
            tried[where], rest[where], then[where] = hits, ~booked, after
            warps.put(rest, keys, then)
            visits, jobs = visits + int(busy.any(1).sum()), jobs + len(where[0])
            comparing, rounds = comparing + int(tried.any(1).sum()), rounds + int(tried.max(1).sum())
            compared += int(tried.sum())
    assert (board.tickets > 0).sum() == n, "not every key was booked"
    return {"jobs": jobs / visits / 32, "comparing": comparing / visits, "in it": compared / rounds / 32}


def main(load: float, run: int) -> None:
    """Print the shares of inserts into a table of 2^20 keys."""
    found = shares(1 << 20, load, run)
    print(f"load {load}, {run} elements a warp: {found['jobs']:.1%} of lanes have a job in a visit; in")
    print(f"{found['comparing']:.1%} of visits a key is compared, by {found['in it']:.1%} of lanes")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
