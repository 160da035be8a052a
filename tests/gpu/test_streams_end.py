"""Streams that come and go: a table outlives every stream that it was used on."""

import gc
import threading

import numpy as np
import pytest

import pygpuhash as gh

cupy = pytest.importorskip("cupy", reason="streams of Python threads are CuPy's here")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("backend", ["hive", "linear_probe", "slab_hash"])
def test_threads_with_streams_of_their_own_grow_a_table_and_end(backend):
    """A block that was freed on the stream it came from crashed the process when the stream was gone."""
    n, parts, workers = 1 << 20, 16, 6
    table = gh.Table(backend, key_dtype="uint32", value_dtype="uint32", device="cuda:0")
    wrong = []

    def work(seed):
        with cupy.cuda.Stream(non_blocking=True):
            keys = cupy.asarray(np.random.default_rng(seed).permutation(np.arange(n, dtype=np.uint32)))
            for part in cupy.array_split(keys, parts):
                mine = part.copy()
                table.insert(mine, mine)
                values, found = table.find(mine)
                if not (bool(found.all()) and bool((values == mine).all())):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    table.check()
    assert len(table) == n
    table.close()


@pytest.mark.parametrize("backend", ["hive", "linear_probe", "slab_hash"])
def test_ten_thousand_short_streams(backend):
    """Handles are used again for other streams; each call is ordered after those of streams that are gone."""
    keys = cupy.arange(256, dtype=cupy.uint32)
    with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", capacity=4096, device="cuda:0") as table:
        for i in range(10_000):
            with cupy.cuda.Stream(non_blocking=True):
                table.accumulate(keys, 1)
                if i % 100 == 99:
                    values, _ = table.find(keys)
                    seen = cupy.asnumpy(values)
                    assert (seen <= i + 1).all()
                    assert (seen > 0).all()
        cupy.cuda.Device().synchronize()
        assert (cupy.asnumpy(table.find(keys)[0]) == np.uint32(10_000)).all()
        table.check()


@pytest.mark.parametrize("backend", ["hive", "linear_probe", "slab_hash"])
def test_updates_grow_nothing(backend):
    """A table that holds as many keys as it was made for takes any number of updates."""
    n = 1 << 18
    keys = cupy.arange(n, dtype=cupy.uint32)
    with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", capacity=n, device="cuda:0") as table:
        table.insert(keys, keys)
        before = table.info["bytes"], table.info["rebuilds"]
        for _ in range(5):
            table.accumulate(keys, 1)
            table.execute(cupy.full(n, int(gh.Op.FIND), dtype=cupy.uint8), keys)
        assert (table.info["bytes"], table.info["rebuilds"]) == before
        assert (cupy.asnumpy(table.find(keys)[0]) == np.arange(n) + 5).all()
