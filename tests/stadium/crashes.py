"""Kills at random moments during inserts into a table in a file: ``python crashes.py PATH ROUNDS SEED``.

Every round, a child opens the table and inserts batches of keys that nobody has inserted before, telling its parent of
each that has finished; the parent kills it, opens the table, and looks. Tables begin small, so that kills fall into
growth too. At the end it prints how many rounds there were, how many kills came when a batch had been inserted in part,
and how many pairs were found.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np

import pygpuhash as gh

BATCH = 8_000


def open_table(path: str) -> gh.Table:
    return gh.Table(
        "stadium", key_dtype="u8", value_dtype=("u4", 5), placement="file", path=path, device="cpu", threads=2
    )


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    keys = np.arange(number * BATCH, (number + 1) * BATCH, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    return keys, values_of(keys)


def values_of(keys: np.ndarray) -> np.ndarray:
    return np.repeat((keys >> np.uint64(32)).astype("u4")[:, None], 5, axis=1)


def child(path: str, first: int, told: int) -> None:
    table = open_table(path)
    os.write(told, struct.pack("q", first - 1))
    for number in range(first, first + 200):
        table.insert(*batch(number))
        os.write(told, struct.pack("q", number))
    os._exit(0)


def round_of(path: str, first: int, patience: float, waits: bool) -> tuple[int, bool]:
    """The number of the next batch to insert, and whether the child was killed in the middle of one."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        child(path, first, write)
    os.close(write)
    os.read(read, 8)  # the table is open
    finished = first - 1
    if waits:  # for a batch, so that a slow machine gets on, too
        finished = struct.unpack("q", os.read(read, 8))[0]
    time.sleep(patience)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while data := os.read(read, 8):
        finished = struct.unpack("q", data)[0]
    os.close(read)
    with open_table(path) as table:
        table.check()
        keys, values = table.export()
        assert (values == values_of(keys)).all(), "a pair has another value"
        everything = np.concatenate([batch(i)[0] for i in range(finished + 1)]) if finished >= 0 else keys[:0]
        assert table.contains(everything).all(), "a finished batch is not there"
        begun = finished + 1
        more = len(keys) - (finished + 1) * BATCH
        assert 0 <= more <= BATCH, f"{more} pairs more than the finished batches"
        assert more == table.contains(batch(begun)[0]).sum(), "there are keys that nobody has inserted"
        table.erase(batch(begun)[0])
    return finished + 1, 0 < more < BATCH


def main(path: str, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    amid = following = pairs = 0
    for number in range(rounds):
        if following > 150:  # begin again, so that a round takes no longer than the one before
            pairs += following * BATCH
            following = 0
            Path(path).unlink()
        before = following
        following, cut = round_of(path, following, rng.uniform(0, 0.3 if number % 2 else 0.06), number % 4 == 3)
        assert following >= before
        amid += cut
    print(rounds, amid, pairs + following * BATCH)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
