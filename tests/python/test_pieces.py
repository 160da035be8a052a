"""Host batches are passed on in pieces: with tiny ones, every operation does what it does with one."""

import _thread
import threading

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import Op, _core

N = 200
DTYPES = [("uint64", "int64"), ("uint32", "float32"), ("int16", "uint8"), ("int32", None)]


@pytest.fixture(params=[1, 7, 64, N, N - 1])
def piece(request):
    """Keys per piece."""
    was = _core.piece(request.param)
    assert _core.piece() == request.param
    yield request.param
    _core.piece(was)


@pytest.fixture(params=DTYPES, ids=lambda d: f"{d[0]}-{d[1]}")
def dtypes(request):
    return request.param


def make(backend, dtypes, **options):
    return gh.Table(backend, key_dtype=dtypes[0], value_dtype=dtypes[1], device="cpu", **options)


def make_multi(backend, dtypes, **options):
    """A table that keeps several pairs per key; slab_hash has to be asked for it."""
    try:
        return make(backend, dtypes, duplicates=1, **options)
    except gh.OptionNotFound:
        table = make(backend, dtypes, **options)
    if "multi" not in table.traits:
        pytest.skip("the backend keeps one value per key")
    return table


def after(first, call, *arguments):
    first()
    call(*arguments)


def forever(call, *arguments):
    while True:
        call(*arguments)


def batch(rng, dtypes):
    """N distinct keys, and a value for each, or None."""
    keys = rng.permutation(1000)[:N].astype(dtypes[0])
    return keys, None if dtypes[1] is None else rng.integers(1, 100, N).astype(dtypes[1])


def contents(table):
    keys, values = table.export()
    return dict(zip(keys.tolist(), [None] * len(keys) if values is None else values.tolist(), strict=True))


def test_the_operations(backend, piece, dtypes, rng):
    keys, values = batch(rng, dtypes)
    half, others = slice(0, N, 2), slice(1, N, 2)
    model = dict(zip(keys.tolist(), [None] * N if values is None else values.tolist(), strict=True))
    few = lambda part: None if values is None else values[part]  # noqa: E731
    with make(backend, dtypes) as table:
        out = np.zeros(N // 2, bool)
        assert table.insert(keys[half], few(half), out=out) is out
        assert out.all()
        assert table.insert(keys, values).tolist() == [i % 2 == 1 for i in range(N)]
        assert contents(table) == model
        got, found = table.find(keys)
        assert found.all()
        if values is not None:
            assert got.tolist() == values.tolist()
            into, mask = np.zeros(N, dtypes[1]), np.zeros(N, bool)
            assert table.find(keys, out=into, found=mask)[0] is into
            assert into.tolist() == values.tolist()
            assert mask.all()
            assert table.get(keys, default=3).tolist() == values.tolist()
        assert table.contains(keys).all()
        assert table.count(keys).tolist() == [1] * N
        assert table.erase(keys[half]).all()
        assert table.contains(keys).tolist() == [i % 2 == 1 for i in range(N)]
        assert table.insert_or_assign(keys, few(slice(None, None, -1))).tolist() == [i % 2 == 0 for i in range(N)]
        if values is not None:
            assert table[keys].tolist() == values[::-1].tolist()
            table[keys] = 9
            assert table[keys].tolist() == [9] * N
        del table[keys[others]]
        assert sorted(contents(table)) == sorted(keys[half].tolist())


@pytest.mark.parametrize("op", ["add", "min", "max"])
@pytest.mark.parametrize("one", [False, True], ids=["values", "one value"])
def test_accumulate(backend, piece, rng, op, one):
    keys = rng.integers(0, 20, N).astype(np.uint32)
    values = np.full(N, 4) if one else rng.integers(0, 1000, N)
    with make(backend, ("uint32", "int64")) as table:
        fresh = table.accumulate(keys, 4 if one else values, op=op)
        assert fresh.sum() == len(np.unique(keys)) == len(table)
        reduce = {"add": np.add, "min": np.minimum, "max": np.maximum}[op].reduce
        for key in np.unique(keys):
            assert table[int(key)] == reduce(values[keys == key])


def test_execute(backend, piece, dtypes, rng):
    keys, values = batch(rng, dtypes)
    present = keys[: N // 2]
    old = None if values is None else values[: N // 2]
    codes = np.array([Op.INSERT, Op.ASSIGN, Op.FIND, Op.ERASE, Op.NOP], np.uint8)
    ops = codes[rng.integers(0, 5, N)]
    new = None if values is None else values[::-1].copy()
    with make(backend, dtypes) as table:
        table.insert(present, old)
        model = contents(table)
        out = None if values is None else np.zeros(N, dtypes[1])
        mask = np.zeros(N, bool)
        got, told = table.execute(ops, keys, new, out=out, found=mask)
        assert told is mask
        assert got is out
        for i, (op, key) in enumerate(zip(ops.tolist(), keys.tolist(), strict=True)):
            there = key in model
            wanted = {Op.INSERT: not there, Op.ASSIGN: not there, Op.FIND: there, Op.ERASE: there, Op.NOP: False}[op]
            assert mask[i] == wanted, (i, Op(op))
            if out is not None:
                assert out[i] == (model.get(key, 0) if op == Op.FIND else 0)
            value = None if new is None else new.tolist()[i]
            if op == Op.ASSIGN or (op == Op.INSERT and not there):
                model[key] = value
            elif op == Op.ERASE:
                model.pop(key, None)
        assert contents(table) == model


def test_dedup_last(backend, piece, rng):
    keys = rng.integers(0, 40, N).astype(np.uint64)
    values = np.arange(N)
    with make(backend, ("uint64", "int64")) as table:
        fresh = table.insert_or_assign(keys, values, dedup="last")
        assert contents(table) == dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert fresh.sum() == len(table)


def test_several_values_per_key(backend, piece, rng):
    keys = rng.integers(0, 40, N).astype(np.uint64)
    values = np.arange(N)
    asked = np.arange(60, dtype=np.uint64)
    with make_multi(backend, ("uint64", "int64")) as table:
        assert table.insert_multi(keys, values).all()
        assert table.count(asked).tolist() == np.bincount(keys.astype(int), minlength=60).tolist()
        offsets, found = table.find_all(asked)
        assert offsets.tolist() == [0, *np.cumsum(table.count(asked)).tolist()]
        for key, low, high in zip(asked, offsets[:-1], offsets[1:], strict=True):
            assert sorted(found[low:high].tolist()) == values[keys == key].tolist()
        assert table.find_all([])[0].tolist() == [0]
        assert table.erase_all(asked).tolist() == [key in keys for key in asked]
        assert len(table) == 0


@pytest.mark.parametrize("op", ["insert", "insert_or_assign", "accumulate", "execute", "insert_multi"])
def test_statuses_of_all_pieces_are_told(backend, piece, rng, op):
    """A full table: elements of every piece are in `status`, those that fit and those that do not."""
    n = 12_000
    keys = rng.permutation(np.arange(20_000, dtype=np.uint64))[:n]
    values = np.arange(n)
    create = make_multi if op == "insert_multi" else make
    with create(backend, ("uint64", "int64"), capacity=100, grow=False) as table:
        mask = np.zeros(n, bool)
        call = {
            "insert": lambda: table.insert(keys, values, out=mask),
            "insert_or_assign": lambda: table.insert_or_assign(keys, values, out=mask),
            "accumulate": lambda: table.accumulate(keys, values, out=mask),
            "insert_multi": lambda: table.insert_multi(keys, values, out=mask),
            "execute": lambda: table.execute(np.full(n, Op.INSERT), keys, values, found=mask),
        }[op]
        with pytest.raises(gh.TableFull) as caught:
            call()
        error = caught.value
        assert str(error).startswith(f"{error.failed.sum()} of {n} elements ")  # of the batch, not of a piece
        assert error.status.dtype == np.uint8
        assert error.status.shape == keys.shape
        assert error.failed.tolist() == (error.status >= 2).tolist()
        assert mask.view(np.uint8).tolist() == (error.status == 1).tolist()
        assert table.contains(keys).tolist() == mask.tolist()
        assert table[keys[mask]].tolist() == values[mask].tolist()
        assert 100 <= mask.sum() == len(table) < n


def test_ctrl_c_between_pieces(backend, piece, rng):
    """What was carried out stays, is in the mask, and is all that is in the table."""
    keys = np.arange(3_000_000 // 64 * min(piece, 64), dtype=np.uint64)
    with make(backend, ("uint64", "int64")) as table:
        for call in (lambda mask: table.insert(keys, 1, out=mask), lambda mask: table.contains(keys, out=mask)):
            mask = np.ones(len(keys), bool)
            stopper = threading.Timer(0.02, _thread.interrupt_main)
            with pytest.raises(KeyboardInterrupt):
                after(stopper.start, forever, call, mask)
            stopper.join()
            assert mask.view(np.uint8).max() <= 1
        table.check()
        assert table.contains(keys[: len(table)]).all()  # a prefix, of whole pieces
        assert len(table) % piece == 0 or len(table) == len(keys)


def test_a_full_table_takes_short_pieces(usual_pieces):
    """What finds no room may take microseconds each, and Ctrl-C is heard between pieces."""
    keys = np.arange(1 << 19, dtype=np.uint64)
    with gh.Table("linear_probe", capacity=1 << 18, grow=False, device="cpu", probe_limit=128) as table:
        done = [0]
        with gh.progress(lambda so_far, n: done.append(so_far)):
            with pytest.raises(gh.TableFull):
                table.insert(keys, 1)
            steps = np.diff(done)
            assert steps[0] == 1 << 18  # as many as there is room for
            assert steps[1] == 1 << 17
            assert done[-1] == len(keys)
            done[:] = [0]
            table.find(keys)
            assert done[1] == 1 << 17
            assert done[-1] == len(keys)
            table.clear()
            done[:] = [0]
            table.find(keys)
            assert len(done) <= 2  # in one


def test_ctrl_c_stops_find_all(backend, rng):
    keys = np.arange(2_000_000, dtype=np.uint64)
    with make_multi(backend, ("uint64", "int64")) as table:
        table.insert_multi(keys[:1000], 1)
        was = _core.piece(1000)
        stopper = threading.Timer(0.02, _thread.interrupt_main)
        try:
            with pytest.raises(KeyboardInterrupt):
                after(stopper.start, forever, table.find_all, keys)
        finally:
            _core.piece(was)
        stopper.join()
        table.check()
        assert len(table) == 1000
