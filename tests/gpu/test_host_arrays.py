"""Host arrays on a CUDA table whose batch is not waited for until its results are there."""

import signal

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("n", [20_000, 3_000_000])
@pytest.mark.parametrize("backend", ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"])
def test_a_full_table_is_reported_once(backend, n):
    keys, mask = np.arange(n, dtype=np.uint64), np.ones(n, bool)
    with gh.Table(backend, value_dtype="uint64", capacity=n // 5, grow=False, device="cuda:0") as table:
        with pytest.raises(gh.TableFull, match=f"of {n} elements found no room") as caught:
            table.insert(keys, ~keys, out=mask)
        assert np.array_equal(caught.value.status == 1, mask)
        assert len(table) == mask.sum() > 0
        assert np.array_equal(table.contains(keys), mask)
        assert table.erase(keys).sum() == mask.sum()


def test_a_signal_ends_a_batch_between_two_chunks():
    class EnoughError(Exception):
        pass

    def enough(number, frame):
        raise EnoughError

    n = 1 << 26  # a gigabyte, for which the bus takes 20 ms
    keys, mask = np.arange(n, dtype=np.uint64), np.zeros(n, bool)
    values = ~keys
    with gh.Table("linear_probe", value_dtype="uint64", capacity=n, device="cuda:0") as table:
        table.insert(keys[: 1 << 22] + np.uint64(n), 1)  # so that all memory is there
        before, had = len(table), signal.signal(signal.SIGALRM, enough)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.008)
            with pytest.raises(EnoughError):
                table.insert(keys, values, out=mask)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, had)
        assert 0 < mask.sum() == len(table) - before < n
        assert np.array_equal(table.contains(keys), mask)
        assert table.insert(keys, values).sum() == n - mask.sum()
        assert np.array_equal(table.find(keys)[0], values)
