"""k-mers in ascending order with their counts: parts, counts of several widths, files, and memory."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from pygpuhash.columns import View
from pygpuhash.commands import sorted_kmers, tally
from pygpuhash.commands._kmers import merged, parted

WIDTHS = (np.uint8, np.uint32, np.uint64)


def counted(memory, k, *arrays):
    made = sorted_kmers.SortedKmers(memory, k)
    for array in arrays:
        made.add(array)
    found = [(View(keys).values(np.uint64).tolist(), n, counts[:, 0].tolist()) for keys, n, counts in made.results()]
    assert all(len(keys) == n == len(counts) for keys, n, counts in found)
    return [(key, count) for keys, _, counts in found for key, count in zip(keys, counts, strict=True)]


def wanted(*arrays):
    return sorted(Counter(np.concatenate(arrays).tolist()).items())


@pytest.fixture
def memory(tmp_path):
    said = []
    made = tally.Memory(1 << 30, str(tmp_path), 1, said.append)
    made.said = said
    return made


@pytest.mark.parametrize("k", [1, 3, 4, 5, 21, 32])
@pytest.mark.parametrize("index", [1 << 30, 1])
def test_counts(memory, monkeypatch, k, index):
    monkeypatch.setattr(tally.Memory, "index", index)
    rng = np.random.default_rng(k)
    highest = min(4**k, 2**64 - 1)
    arrays = [rng.integers(0, highest, 30_000, dtype="u8", endpoint=4**k > highest) for _ in range(3)]
    arrays += [np.repeat(arrays[0][:50], 300), np.empty(0, np.uint64)]
    assert counted(memory, k, *arrays) == wanted(*arrays)
    assert len(memory.said) == (index == 1)


def test_nothing(memory):
    assert counted(memory, 21) == []
    assert counted(memory, 21, np.empty(0, np.uint64)) == []


def test_the_highest_kmer(memory):
    assert counted(memory, 32, np.array([2**64 - 1, 0, 2**64 - 1], np.uint64)) == [(0, 1), (2**64 - 1, 2)]


def test_parts():
    kmers = np.random.default_rng(1).integers(0, 64, 1000, dtype="u8")
    grouped, ends = parted(kmers, 2, 16)
    assert grouped.tolist() == kmers[np.argsort(kmers >> np.uint64(2), kind="stable")].tolist()
    assert ends.tolist() == np.cumsum(np.bincount((kmers >> np.uint64(2)).astype(int), minlength=16)).tolist()


@pytest.mark.parametrize("one", WIDTHS)
@pytest.mark.parametrize("other", [*WIDTHS, None])
def test_counts_become_as_wide_as_they_need(one, other):
    keys, others = np.array([1, 3, 9], np.uint64), np.array([0, 3, 4], np.uint64)
    counts = np.array([5, np.iinfo(one).max - 2, 1], one)
    their = None if other is None else np.array([2, 2, 2], other)
    many, sums = merged(keys, counts, others, their)
    one_more = 1 if other is None else 2
    assert many.tolist() == [0, 1, 3, 4, 9]
    assert sums.tolist() == [one_more, 5, int(counts[1]) + one_more, one_more, 1]
    assert sums.dtype == (one if other is None else np.promote_types(one, other))
    if one is not np.uint64:
        _, sums = merged(many, sums, others, np.array([0, 3, 0], one))
        assert sums[2] == int(counts[1]) + one_more + 3
        assert sums.dtype == max(
            np.uint32 if one is np.uint8 else np.uint64, sums.dtype.type, key=lambda t: t(0).nbytes
        )


def test_a_kmer_that_comes_often():
    keys, counts = np.empty(0, np.uint64), np.empty(0, np.uint8)
    for repeats in (255, 1, 70_000):
        keys, counts = merged(keys, counts, np.zeros(repeats, np.uint64), None)
    assert (keys.tolist(), counts.tolist(), counts.dtype) == ([0], [70_256], np.uint32)


PEAK = """
import sys
import numpy as np
from pygpuhash.commands import sorted_kmers, tally

def figure(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10

memory, rng = tally.Memory(int(sys.argv[1]), "/tmp", 1, print), np.random.default_rng(1)
made = sorted_kmers.SortedKmers(memory, 21)
made.add(np.arange(10, dtype="u8"))
before, n = figure("VmRSS"), 0
for _ in range(20):
    made.add(rng.integers(0, 1 << 42, 1 << 18, dtype="u8"))
for _, some, _ in made.results():
    n += some
print(n, figure("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("limit", [1 << 34, 1 << 24], ids=["all", "files"])
def test_memory(limit, say):
    """Five million, all of which differ: an index of rows takes 66 bytes for each."""
    done = subprocess.run([sys.executable, "-P", "-c", PEAK, str(limit)], capture_output=True, text=True, check=True)
    n, peak = map(int, done.stdout.splitlines()[-1].split())
    say("k-mers", f"{n} of them with --memory {limit >> 20}M: {peak / n:.1f} bytes for each")
    assert 5_242_000 < n < 5_242_900
    assert peak < (16 * n if limit >> 30 else 2 * limit)
