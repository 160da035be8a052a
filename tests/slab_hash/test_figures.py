"""Statistics: the paper's average slab count and memory utilisation, and whether what was asked for is reached."""

import math

import numpy as np
import pytest


def poisson(mean, most):
    return [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most)]


def slabs_of(k, M):
    return max(1, -(-k // M))


def utilization(n, B, M, slabs):
    """The paper's formula (section III-C): x n / ((M x + y) sum of slabs), in units of one slot: x = y = 1."""
    return n / ((M + 1) * slabs)


@pytest.mark.parametrize("slab_bytes", [64, 128, 256])
@pytest.mark.parametrize("buckets", [200, 1000])
def test_beta_and_utilization_follow_from_the_histogram(make, widths, slab_bytes, buckets):
    table = make(**widths, slab_bytes=slab_bytes, buckets=buckets)
    n = 12_000
    keys = np.arange(1, n + 1).astype(table.key_dtype)
    table.insert(keys, None if table.value_dtype is None else keys)
    stats, counts = table.stats(), table.histogram(500)
    slot = 4 if table.key_dtype.itemsize == 4 else 8
    slot *= 1 if table.value_dtype is None else 16 // slot if table.value_dtype.itemsize == 8 else 2
    M = slab_bytes // slot - 1
    slabs = sum(i * c for i, c in enumerate(counts.tolist()))
    assert counts[0] == 0
    assert counts.sum() == stats["buckets"] == buckets
    assert stats["slab_slots"] == M
    assert stats["slabs"] == slabs == buckets + stats["heap_taken"]
    assert stats["beta"] == pytest.approx(n / (M * buckets))
    assert stats["utilization"] == pytest.approx(utilization(n, buckets, M, slabs))
    assert stats["utilization"] <= M / (M + 1)
    assert stats["chain_max"] == np.flatnonzero(counts)[-1]


@pytest.mark.parametrize("hash_", ["murmur", "paper"])
def test_the_histogram_is_the_poisson_model(make, rng, hash_):
    """Buckets by slabs, against the expected number of each: a chi-square test at a level of about one in 10^6."""
    table = make(key_dtype="uint32", value_dtype="uint32", buckets=20_000, hash=hash_)
    n = 300_000
    keys = np.unique(rng.integers(0, 2**32 - 2, 2 * n, np.uint32))
    keys = rng.permutation(keys)[:n]
    table.insert(keys, keys)
    counts = table.histogram(4)
    expected = np.zeros(4)
    for k, p in enumerate(poisson(n / 20_000, 200)):
        expected[min(slabs_of(k, 15), 3)] += 20_000 * p
    classes = expected > 5
    chi2 = ((counts[classes] - expected[classes]) ** 2 / expected[classes]).sum()
    assert counts[~classes].sum() <= 20
    assert chi2 < 30


@pytest.mark.parametrize("wanted", [0.1, 0.3, 0.6, 0.65, 0.75, 0.9])
@pytest.mark.parametrize(
    ("dtypes", "M"), [(("uint32", "uint32"), 15), (("uint32", None), 31), (("uint64", "uint64"), 7)]
)
def test_the_utilization_asked_for_is_reached(make, rng, wanted, dtypes, M):
    """Within five standard deviations of the number of slabs that Poisson distributed buckets have."""
    n = 200_000
    table = make(key_dtype=dtypes[0], value_dtype=dtypes[1], capacity=n, utilization=wanted)
    keys = rng.permutation(2**22)[:n].astype(dtypes[0])
    table.insert(keys, None if dtypes[1] is None else keys)
    stats = table.stats()
    if wanted > M / (M + 1):
        assert stats["utilization"] > 0.98 * M / (M + 1) - 1 / (2 * 64)
        return
    B = stats["buckets"]
    p = poisson(n / B, int(n / B + 20 * math.sqrt(n / B) + 20))
    mean = sum(q * slabs_of(k, M) for k, q in enumerate(p))
    deviation = math.sqrt(sum(q * (slabs_of(k, M) - mean) ** 2 for k, q in enumerate(p)) * B)
    expected = utilization(n, B, M, mean * B)
    tolerance = expected * 5 * deviation / (mean * B) + 1e-9
    assert expected == pytest.approx(wanted, rel=0.01)
    assert abs(stats["utilization"] - expected) <= tolerance


@pytest.mark.parametrize("slab_bytes", [64, 128, 256])
@pytest.mark.parametrize("dtypes", [("uint32", None), ("uint32", "uint32"), ("uint64", "uint64")])
def test_no_fewer_chains_reach_the_same_utilization(make, slab_bytes, dtypes):
    """Utilisation dips where most buckets come to need one slab more: chains beyond a dip are longer for nothing."""
    wanted, n = 0.66, 200_000
    stats = make(
        key_dtype=dtypes[0], value_dtype=dtypes[1], capacity=n, utilization=wanted, slab_bytes=slab_bytes
    ).stats()
    M = int(stats["slab_slots"])
    chosen = n / (stats["buckets"] * M)
    for beta in np.arange(0.02, chosen - 0.02, 0.02):
        mean = beta * M
        slabs = sum(q * slabs_of(k, M) for k, q in enumerate(poisson(mean, int(mean + 20 * math.sqrt(mean) + 20))))
        assert utilization(mean, 1, M, slabs) < wanted


def test_occupancy_of_the_heap(make):
    table = make(buckets=1, grow=False)
    assert table.stats()["heap_full_blocks"] == 0
    table.insert(np.arange(7 * 1025, dtype=np.uint64), 1)
    stats = table.stats()
    assert (stats["heap_units"], stats["heap_taken"], stats["heap_full_blocks"]) == (1024, 1024, 1)


def test_the_last_entry_of_a_short_histogram_takes_the_rest(make):
    table = make(buckets=3)
    table.insert(np.arange(1000, dtype=np.uint64), 1)
    assert table.histogram(2).tolist() == [0, 3]
    assert table.histogram(1).tolist() == [3]


def test_a_list_of_any_length_is_made_at_once(make):
    """The expected number of slabs of one bucket of very many keys is not summed term by term."""
    table = make(key_dtype="uint32", value_dtype=None, buckets=1, capacity=50_000_000, slab_bytes=64)
    assert table.stats()["heap_units"] >= 50_000_000 / 15
