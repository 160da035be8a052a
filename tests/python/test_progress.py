"""How far a batch has come, on the CPU; of host arrays on a GPU in test_staging.py."""

import threading

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

N = 1050


@pytest.fixture(autouse=True)
def pieces():
    was = _core.piece(100)
    yield
    _core.piece(was)


@pytest.fixture
def table():
    with gh.Table("stadium", device="cpu") as t:
        yield t


KEYS = np.arange(N, dtype=np.uint64)
ALL = [(done, N) for done in (*range(100, N, 100), N)]


def test_every_piece_is_told(table):
    told = []
    with gh.progress(lambda done, n: told.append((done, n))):
        assert table.insert(KEYS, 1).all()
        assert told == ALL
        assert table.find(KEYS)[1].all()
        assert told == ALL * 2
        table.insert(KEYS[:100], 1)  # one piece
        table.insert(1, 1)
        assert told == ALL * 2
    table.find(KEYS)
    assert told == ALL * 2


def test_the_inner_one_is_told_and_other_threads_are_not(table):
    table.insert(KEYS, 1)
    outer, inner = [], []
    with gh.progress(lambda *said: outer.append(said)):
        with gh.progress(lambda *said: inner.append(said)):
            table.contains(KEYS)
        thread = threading.Thread(target=table.contains, args=(KEYS,))
        thread.start()
        thread.join()
        assert (outer, inner) == ([], ALL)
        table.contains(KEYS)
        assert (outer, inner) == (ALL, ALL)


def test_pieces_of_a_table_in_a_file_are_longer(tmp_path):
    """Each goes through the file once. One value for all keys is there for all keys of a piece."""
    told = []
    with gh.Table("stadium", device="cpu", placement="file", path=tmp_path / "table") as t:
        with gh.progress(lambda *said: told.append(said)):
            assert t.insert(KEYS, 7).all()
        assert (t[KEYS] == 7).all()
    assert told == [(400, N), (800, N), (N, N)]


@pytest.mark.parametrize("at", [300, N])
def test_what_it_raises_ends_the_batch(table, at):
    def stop(done, n):
        if done == at:
            raise RuntimeError("enough")

    mask = np.ones(N, bool)
    with pytest.raises(RuntimeError, match="enough"), gh.progress(stop):
        table.insert(KEYS, 1, out=mask)
    assert len(table) == at
    assert mask.view(np.uint8).tolist() == [1] * at + [0] * (N - at)
    table.check()


def test_what_cannot_be_called():
    words = r"report=3 cannot be called: pass a function of \(done, n\)"
    with pytest.raises(gh.InvalidArgument, match=words), gh.progress(3):
        pass
