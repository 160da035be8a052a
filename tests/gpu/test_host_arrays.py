"""Host arrays on a CUDA table whose batch is not waited for until its results are there."""

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
