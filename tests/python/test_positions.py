"""Positions that answers name, in batches that the library passes on in pieces: they are counted from the beginning."""

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import Op, _core

N = 300_000  # beyond the pieces of everything that looks at a batch on the CPU
PLACES = [0, 8_191, 8_192, 65_535, 65_536, 131_073, 262_144, 299_999]


@pytest.fixture
def whole():
    """The library gets each batch at once."""
    was = _core.piece(1 << 21)
    yield
    _core.piece(was)


@pytest.fixture(params=[1, 4])
def threads(request):
    return request.param


@pytest.mark.parametrize("at", PLACES)
def test_an_operation_that_execute_does_not_have(threads, at):
    with gh.Table("linear_probe", value_dtype="uint64", device="cpu", threads=threads, capacity=N) as t:
        keys = np.arange(N, dtype="uint64")
        ops = np.full(N, Op.INSERT, np.uint8)
        ops[at] = 77
        status = np.full(N, 9, np.uint8)
        failure = t._raw(
            _core.OP_EXECUTE, N, keys.ctypes.data, keys.ctypes.data, 0, status.ctypes.data, ops.ctypes.data
        )
        assert isinstance(failure, gh.InvalidArgument)
        assert f"ops[{at}] is 77" in str(failure)
        assert f"; 1 of {N} elements have status 4" in str(failure)
        assert np.flatnonzero(status != 1).tolist() == [at]
        assert status[at] == 4
        assert np.flatnonzero(~t.contains(keys)).tolist() == [at]
        t.check()


def test_elements_without_room(backend, threads, whole):
    """Some of a batch fit into a table that does not grow: its statuses say which, wherever they lie."""
    with gh.Table(backend, value_dtype="uint64", device="cpu", threads=threads, capacity=15_000, grow=False) as t:
        n = 26_000  # each without room is a long search
        keys = np.random.default_rng(3).permutation(np.arange(n, dtype="uint64"))
        with pytest.raises((gh.TableFull, gh.NoMemory)) as caught:
            t.insert(keys, keys)
        status = caught.value.status
        there = t.contains(keys)
        assert np.array_equal(status == 1, there)
        assert (status[~there] > 1).all()
        assert f"{np.count_nonzero(~there)} of {n} elements" in str(caught.value)
        assert len(t) == np.count_nonzero(there)
        values, found = t.find(keys)
        assert np.array_equal(found, there)
        assert np.array_equal(values[there], keys[there])
        t.check()


@pytest.mark.parametrize("at", PLACES)
def test_the_first_absent_key(backend, whole, at):
    with gh.Table(backend, value_dtype="uint64", device="cpu", threads=4) as t:
        keys = np.arange(N, dtype="uint64")
        t.insert(keys, keys)
        t.erase(keys[[at, N - 1]])
        absent = len({at, N - 1})
        with pytest.raises(KeyError, match=f"{absent} of {N} keys are not in the table, the first is {at}'"):
            t[keys]
