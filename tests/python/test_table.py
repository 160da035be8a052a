"""Operations of Table against a dict, on every backend."""

import sys

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import Op, _arrays, _core, _dedup


def as_dict(table):
    keys, values = table.export()
    assert len(np.unique(keys)) == len(keys) == len(table)
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


def test_random_operations_agree_with_a_dict(table, rng):
    model = {}
    for _ in range(60):
        keys = rng.integers(0, 2000, 500, np.uint64)
        values = rng.integers(0, 2**64, 500, np.uint64)
        unique = np.unique(keys)
        match rng.integers(4):
            case 0:
                fresh = table.insert(unique, values[: len(unique)])
                assert fresh.tolist() == [k not in model for k in unique.tolist()]
                for k, v in zip(unique.tolist(), values.tolist(), strict=False):
                    model.setdefault(k, v)
            case 1:
                fresh = table.insert_or_assign(keys, values, dedup="last")
                assert fresh.sum() == len(set(keys.tolist()) - set(model))
                model.update(zip(keys.tolist(), values.tolist(), strict=True))
            case 2:
                erased = table.erase(keys)
                assert erased.sum() == len(set(keys.tolist()) & set(model))
                for k in keys.tolist():
                    model.pop(k, None)
            case 3:
                got, found = table.find(keys)
                assert found.tolist() == [k in model for k in keys.tolist()]
                assert got.tolist() == [model.get(k, 0) for k in keys.tolist()]
        table.check()
    assert as_dict(table) == model


def test_duplicates_in_a_batch_are_inserted_once(table):
    keys = np.repeat(np.arange(100, dtype=np.uint64), 50)
    fresh = table.insert(keys, keys)
    assert fresh.sum() == 100
    assert len(table) == 100
    assert table.erase(keys).sum() == 100
    assert len(table) == 0


def test_results_have_the_shape_of_the_keys(table):
    keys = np.arange(24, dtype=np.uint64).reshape(2, 3, 4)
    assert table.insert(keys, keys).shape == (2, 3, 4)
    values, found = table.find(keys.transpose(2, 0, 1))
    assert values.shape == found.shape == (4, 2, 3)
    assert (values == keys.transpose(2, 0, 1)).all()
    scalar, there = table.find(np.array(5, np.uint64))
    assert (scalar, there) == (5, True)
    assert np.ndim(scalar) == 0


def test_scalar_keys(table):
    table[5] = 50
    assert table[5] == 50
    assert table.find(5) == (50, True)
    assert table.find(6) == (0, False)
    assert table.get(6, default=9) == 9
    assert table.get(6, default=None) is None
    assert 5 in table
    assert 6 not in table
    assert table.insert(5, 51) == np.False_
    assert table.erase(5) == np.True_
    assert not table


def test_empty_batches(table):
    empty = np.empty(0, np.uint64)
    assert table.insert(empty, empty).shape == (0,)
    values, found = table.find([])
    assert (values.shape, found.shape, values.dtype) == ((0,), (0,), np.uint64)
    assert table.accumulate(empty).size == table.erase(empty).size == 0
    keys, values = table.export()
    assert keys.size == values.size == 0
    assert table.execute([], [])[1].size == 0


def test_out_arrays_receive_the_results(table):
    keys = np.arange(1000, dtype=np.uint64)
    fresh = np.zeros(1000, bool)
    assert table.insert(keys, keys * 3, out=fresh) is fresh
    assert fresh.all()
    values, found = np.full(1000, 7, np.uint64), np.zeros(1000, bool)
    got = table.find(keys, out=values, found=found)
    assert got[0] is values
    assert got[1] is found
    assert (values == keys * 3).all()
    assert found.all()
    assert table.contains(keys, out=found) is found
    assert table.erase(keys[:10], out=fresh[:10]).all()


@pytest.mark.parametrize("keys", [3, [1, 2, 3], range(10)])
def test_no_mask(table, keys):
    """With False there is no mask, and the batch does what it does otherwise."""
    keys = np.array(keys, table.key_dtype)
    assert table.insert(keys, keys, out=False) is None
    assert table.accumulate(keys, 1, out=False) is None
    assert np.array_equal(table[keys], keys + 1)
    assert table.insert_or_assign(keys, keys * 2, out=False) is None
    assert table.insert_or_assign(keys, keys * 2, dedup="last", out=False) is None
    values, mask = table.find(keys, found=False)
    assert np.array_equal(values, keys * 2)
    assert mask is None
    ops = np.full(keys.shape, gh.Op.FIND, np.uint8)
    values, mask = table.execute(ops, keys, keys, found=False)
    assert np.array_equal(values, keys * 2)
    assert mask is None
    with pytest.raises(TypeError, match="out=False: contains has no other answer"):
        table.contains(keys, out=False)
    assert table.erase(keys, out=False) is None
    assert len(table) == 0


def test_the_keys_are_not_copied_when_they_fit(table, rng):
    keys = rng.integers(0, 2**64, 1000, np.uint64)
    keys.flags.writeable = False  # read-only input is input
    table.insert(keys, keys)
    assert table.contains(keys).all()


def test_strided_and_misaligned_keys_are_copied(table):
    keys = np.arange(100, dtype=np.uint64)
    table.insert(keys[::3], keys[::-3][:34])
    assert table.contains(keys).tolist() == [k % 3 == 0 for k in range(100)]
    raw = np.zeros(81, np.uint8)
    misaligned = raw[1:].view(np.uint64)
    misaligned[:] = np.arange(10) * 3
    assert not misaligned.flags.aligned
    assert table.contains(misaligned).all()
    assert _arrays.to_store(misaligned, keys.dtype, keys.dtype, "keys").flags.aligned


def test_values_are_broadcast(table):
    table.insert([1, 2, 3], 9)
    assert table[[1, 2, 3]].tolist() == [9, 9, 9]
    table[[1, 2]] = 4
    assert table[[1, 2, 3]].tolist() == [4, 4, 9]


def test_mapping_errors_name_how_many_and_the_first(table):
    table[[1, 2]] = [10, 20]
    with pytest.raises(KeyError, match="2 of 4 keys are not in the table, the first is 8"):
        table[np.array([1, 8, 2, 9], np.uint64)]
    for keys in ([8, 1, 2], [1, 2, 8]):
        with pytest.raises(KeyError, match="1 of 3 keys are not in the table, the first is 8"):
            table[keys]
    with pytest.raises(KeyError, match="77 is not in the table"):
        table[77]
    with pytest.raises(KeyError, match="1 of 2 keys"):
        del table[[1, 5]]
    assert 1 not in table  # what was there is gone
    with pytest.raises(TypeError, match="'in' takes one key, 2 were given"):
        [1, 2] in table  # noqa: B015


def test_setitem_keeps_the_last_of_equal_keys(table):
    table[[1, 2, 1, 1, 2]] = [10, 20, 11, 12, 21]
    assert table[[1, 2]].tolist() == [12, 21]


@pytest.mark.parametrize("n", [7, 5000])
def test_dedup_last(table, rng, n):
    keys = rng.integers(0, n // 3, n, np.uint64)
    values = np.arange(n, dtype=np.uint64)
    fresh = np.zeros(n, bool)
    assert table.insert_or_assign(keys, values, dedup="last", out=fresh) is fresh
    model = dict(zip(keys.tolist(), values.tolist(), strict=True))
    assert as_dict(table) == model
    assert fresh.sum() == len(model)
    again = table.insert_or_assign(keys.reshape(1, n), values[::-1].reshape(1, n), dedup="last")
    assert again.shape == (1, n)
    assert not again.any()
    assert as_dict(table) == dict(zip(keys.tolist(), values[::-1].tolist(), strict=True))
    table.clear()
    full = np.ones(n, bool)  # what was in the mask is written over, also for keys that come again
    table.insert_or_assign(keys, values, dedup="last", out=full)
    assert full.tolist() == fresh.tolist()
    for shape in ((n - 1,), (n + 1,), (n, 1)):
        with pytest.raises(ValueError, match="values"):
            table.insert_or_assign(keys, np.zeros(shape, "u8"), dedup="last")
    one = table.insert_or_assign(n, 3, dedup="last")
    assert isinstance(one, np.bool_)
    assert one


def test_of_equal_keys_the_last_is_assigned(backend):
    """By the way that says so, since small batches are served in order in any case."""
    asked = []

    class Spy(gh.Table):
        __slots__ = ()

        def insert_or_assign(self, *args, dedup=None, **rest):
            asked.append(dedup)
            return super().insert_or_assign(*args, dedup=dedup, **rest)

    with Spy(backend, device="cpu", key_dtype="u2", value_dtype="u2") as table:  # which have no short path
        table[[1, 1]] = [2, 3]
        table[np.array([[1, 4], [4, 1]], "u2")] = 5
        table[7] = 1
        table[[]] = []
        assert asked == ["last", "last", None, "last"]
        assert as_dict(table) == {1: 5, 4: 5, 7: 1}


def test_load_factor_counts_keys_that_are_there(table):
    """Not slots that erased keys have left behind."""
    keys = np.arange(1000, dtype=np.uint64)
    table.insert(keys, keys)
    table.erase(keys[:600])
    assert table.load_factor == 400 / table.info["slots"]
    assert table.size == 400


def test_dedup_last_in_a_full_table(backend):
    keys = np.arange(20_000, dtype=np.uint64).reshape(2, -1) // 2
    mask = np.ones(keys.shape, bool)
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as table:
        with pytest.raises((gh.TableFull, gh.NoMemory)) as caught:
            table.insert_or_assign(keys, keys, dedup="last", out=mask)
        status = caught.value.status
        assert status.shape == keys.shape
        assert (status == 1).sum() == len(table)
        assert np.array_equal(mask, status == 1)
        assert table.contains(keys[status == 1]).all()
        assert not table.contains(keys[status >= 2]).any()


def test_get_with_default(table):
    table[[1, 2]] = [10, 20]
    assert table.get([1, 5, 2]).tolist() == [10, 0, 20]
    assert table.get([1, 5, 2], default=7).tolist() == [10, 7, 20]
    with pytest.raises(OverflowError, match="-1 does not fit uint64"):
        table.get([5], default=-1)
    with pytest.raises(TypeError, match="default=None"):
        table.get([5], default=None)


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64", "int64", "float32", "float64", "int8", "uint16"])
@pytest.mark.parametrize(("op", "reduce"), [("add", np.add), ("min", np.minimum), ("max", np.maximum)])
def test_accumulate(backend, rng, dtype, op, reduce):
    keys = rng.integers(0, 50, 2000, np.uint32)
    low = 0 if np.dtype(dtype).kind == "u" else -3
    values = rng.integers(low, 4, 2000).astype(dtype)
    with gh.Table(backend, key_dtype="uint32", value_dtype=dtype, device="cpu") as table:
        fresh = table.accumulate(keys, values, op=op)
        assert fresh.sum() == len(np.unique(keys))
        got = dict(table.items())
    for key in np.unique(keys):
        with np.errstate(over="ignore"):
            assert got[key] == reduce.reduce(values[keys == key], dtype=dtype)
    assert got[key].dtype == dtype


def test_accumulate_counts_by_default(table):
    table.accumulate(np.array([3, 3, 4, 3], np.uint64))
    assert as_dict(table) == {3: 3, 4: 1}


def test_execute_runs_a_mixed_batch(table):
    table.insert([1, 2, 3], [10, 20, 30])
    ops = [Op.FIND, Op.ERASE, Op.ASSIGN, Op.INSERT, Op.ACCUMULATE, Op.NOP, Op.FIND, Op.ERASE]
    values, mask = table.execute(ops, [1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 33, 44, 55, 66, 0, 0])
    assert values.tolist() == [10, 0, 0, 0, 0, 0, 0, 0]
    assert mask.tolist() == [True, True, False, True, True, False, False, False]
    assert as_dict(table) == {1: 10, 3: 33, 4: 44, 5: 55}
    values, mask = table.execute([Op.FIND, Op.ERASE], [3, 4])
    assert values.tolist() == [33, 0]
    assert mask.all()


def test_pop(table):
    keys = np.array([5, 9, 5, 7, 9, 5], np.uint64)
    table.insert(keys[:2], np.array([50, 90]))
    values, popped = table.pop(keys)
    assert popped.dtype == bool
    assert popped.sum() == 2
    assert sorted(values[popped].tolist()) == [50, 90]
    assert not values[~popped].any()
    assert len(table) == 0
    table[5] = 51
    assert table.pop(5) == (51, True)
    assert table.pop(5) == (0, False)
    out, found = np.full(2, 3, table.value_dtype), np.ones(2, bool)
    table.insert(7, 70)
    assert table.pop(np.array([8, 7], np.uint64), out=out, found=found)[0] is out
    assert out.tolist() == [0, 70]
    assert found.tolist() == [False, True]


def test_pop_of_a_set(backend):
    with gh.Table(backend, value_dtype=None, device="cpu") as t:
        t.insert([1, 2])
        values, popped = t.pop([2, 3, 2])
        assert values is None
        assert popped.sum() == 1
        assert t.keys().tolist() == [1]


def test_find_or_insert(table):
    keys = np.array([5, 9, 5, 7], np.uint64)
    table.insert(keys[1:2], np.array([90]))
    values, inserted = table.find_or_insert(keys, np.array([1, 2, 3, 4]))
    assert inserted.dtype == bool
    assert inserted[[1, 3]].tolist() == [False, True]
    assert inserted[[0, 2]].sum() == 1
    assert values.tolist() == [table[5], 90, table[5], 4]
    assert table[5] == (1 if inserted[0] else 3)
    assert table.find_or_insert(5, 8) == (table[5], False)
    assert table.find_or_insert(6, 8) == (8, True)
    out, fresh = np.full(2, 3, table.value_dtype), np.ones(2, bool)
    assert table.find_or_insert(np.array([6, 11], np.uint64), 12, out=out, inserted=fresh)[1] is fresh
    assert out.tolist() == [8, 12]
    assert fresh.tolist() == [False, True]
    with pytest.raises(TypeError, match="pass values"):
        table.find_or_insert(keys)


def test_find_or_insert_into_a_set(backend):
    with gh.Table(backend, value_dtype=None, device="cpu") as t:
        t.insert([1, 2])
        values, inserted = t.find_or_insert([2, 3, 3])
        assert values is None
        assert not inserted[0]
        assert inserted[1:].sum() == 1


def test_find_or_insert_into_a_growing_table(backend):
    with gh.Table(backend, device="cpu") as t:
        keys = np.arange(50_000, dtype=np.uint64) % 30_000
        values, inserted = t.find_or_insert(keys, keys.astype(np.int64) + np.arange(50_000) // 30_000)
        assert inserted.sum() == 30_000 == len(t)
        assert np.array_equal(values, t.find(keys)[0])


def test_find_or_insert_into_a_full_table(backend):
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as t:
        with pytest.raises(gh.TableFull) as full:
            t.find_or_insert(np.arange(100_000, dtype=np.uint64), 7)
        assert (full.value.status == 1).sum() == len(t)
        assert (t.find(t.keys())[0] == 7).all()


def test_count(table):
    table.insert([1, 2], 0)
    counts = table.count([1, 2, 3, 1])
    assert counts.dtype == np.int64
    assert counts.tolist() == [1, 1, 0, 1]


def test_sets(backend):
    with gh.Table(backend, key_dtype="int32", value_dtype=None, device="cpu") as table:
        assert table.insert([-1, 2, 3]).all()
        assert table.insert_or_assign([-1, 4], dedup="last").tolist() == [False, True]
        values, found = table.find([-1, 9])
        assert values is None
        assert found.tolist() == [True, False]
        assert table.keys().tolist() == sorted(table.keys().tolist()) or len(table) == 4
        assert sorted(k for k, _ in table.items()) == [-1, 2, 3, 4]
        assert table.values() is None
        assert table.execute([Op.INSERT, Op.FIND], [8, 2])[1].all()
        with pytest.raises(TypeError, match="is a set"):
            table.insert([1], [1])
        with pytest.raises(TypeError, match="use contains"):
            table[1]
        with pytest.raises(TypeError, match="is a set"):
            table.accumulate([1])


def test_growth_loses_nothing(backend, rng):
    keys = np.unique(rng.integers(0, 2**64, 100_000, np.uint64))
    with gh.Table(backend, value_dtype="uint64", device="cpu", capacity=10) as table:
        for part in np.array_split(keys, 37):
            assert table.insert(part, ~part).all()
        assert len(table) == len(keys)
        assert (table[keys] == ~keys).all()
        assert table.capacity >= len(keys)
        assert 0 < table.load_factor <= 1
        table.check()


def test_maintenance(table, rng):
    keys = np.unique(rng.integers(0, 2**64, 5000, np.uint64))
    table.reserve(20_000)
    assert table.capacity >= 20_000
    big = table.nbytes
    table.insert(keys, keys)
    table.erase(keys[::2])
    table.flush()
    table.shrink()
    assert table.nbytes <= big
    assert table.contains(keys).tolist() == [i % 2 == 1 for i in range(len(keys))]
    table.clear()
    assert len(table) == 0
    assert not table.contains(keys).any()


def test_figures(table):
    table.insert(np.arange(1000, dtype=np.uint64), 0)
    stats = table.stats()
    assert stats
    assert all(isinstance(name, str) and isinstance(value, float) for name, value in stats.items())
    histogram = table.histogram(8)
    assert histogram.shape == (8,)
    assert histogram.sum() > 0
    assert table.size == 1000 == table.info["size"]
    assert table.nbytes > 0
    assert table.seed == 7
    assert table.device == "cpu"
    assert "insert" in table.traits
    assert 0 < table.max_load_factor <= 1
    assert "1000 of" in repr(table)
    assert table.backend in repr(table)


def test_a_random_seed_is_drawn_and_told(backend):
    with gh.Table(backend, device="cpu") as a, gh.Table(backend, device="cpu") as b:
        assert a.seed != b.seed
        assert a.seed > 0


def test_a_full_table_says_which_elements_failed(backend, rng):
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as table:
        keys = rng.permutation(np.arange(10_000, dtype=np.uint64))
        with pytest.raises((gh.TableFull, gh.NoMemory)) as caught:
            table.insert(keys, keys)
        error = caught.value
        assert error.status.dtype == np.uint8
        assert set(np.unique(error.status)) <= {1, 2, 3}
        assert error.failed.any()
        done = ~error.failed
        assert done.sum() == len(table) >= 100
        assert (table[keys[done]] == keys[done]).all()
        assert not table.contains(keys[error.failed]).any()
        table.reserve(10_000)
        assert table.insert(keys[error.failed], keys[error.failed]).all()
        assert (table[keys] == keys).all()


def test_a_mask_passed_in_holds_booleans_after_a_failure(backend):
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as table:
        mask = np.zeros(10_000, bool)
        with pytest.raises((gh.TableFull, gh.NoMemory)) as caught:
            table.insert(np.arange(10_000, dtype=np.uint64), 0, out=mask)
        assert set(np.unique(mask.view(np.uint8))) <= {0, 1}
        assert mask.sum() == len(table)
        assert (mask == (caught.value.status == 1)).all()


def test_batches_longer_than_a_piece(backend):
    n = _core.piece() + 1000
    keys = np.arange(n, dtype=np.uint32)
    with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", device="cpu", capacity=n) as table:
        assert table.insert(keys, keys).all()
        table.accumulate(keys, 1)
        values, found = table.find(keys)
        assert found.all()
        assert (values == keys + 1).all()


def test_closing(backend):
    table = gh.Table(backend, device="cpu")
    with table as same:
        assert same is table
        assert not table.closed
    assert table.closed
    table.close()
    assert repr(table) == "<pygpuhash.Table, closed>"


def test_a_table_that_was_never_made():
    class Forgetful(gh.Table):
        def __init__(self) -> None:
            pass

    table = Forgetful()
    for call in (
        lambda: table.insert([1], [2]),
        lambda: table.find([1]),
        lambda: table[1],
        lambda: table.get(1),
        lambda: table.__setitem__(1, 2),
        lambda: len(table),
    ):
        with pytest.raises(gh.ClosedTable, match=r"never made: .* super\(\).__init__"):
            call()


@pytest.mark.parametrize("error", [gh.InvalidArgument("no"), gh.DeviceError("no")])
def test_an_export_that_is_refused(backend, error):
    """What more room does not cure ends the call."""

    class Refuses(gh.Table):
        __slots__ = ("calls",)

        def _export(self, room, *places):
            self.calls += 1
            assert self.calls < 3
            return (room, error) if room else super()._export(room, *places)

    with Refuses(backend, device="cpu") as table:
        table.calls = 0
        table.insert(1, 2)
        with pytest.raises(type(error), match="no"):
            table.export()


@pytest.mark.parametrize("error", [gh.InvalidArgument("no"), gh.DeviceError("no")])
def test_a_second_pass_over_several_values_that_is_refused(error):
    class Refuses(gh.Table):
        __slots__ = ("calls",)

        def _find_all(self, *arguments):
            self.calls += 1
            assert self.calls < 3
            failure = super()._find_all(*arguments)
            return error if self.calls == 2 else failure

    with Refuses("slab_hash", duplicates=True, device="cpu") as table:
        table.calls = 0
        table.insert_multi([1, 1], [2, 3])
        with pytest.raises(type(error), match="no"):
            table.find_all([1])


def test_find_all_goes_in_pieces():
    """Between which Ctrl-C is heard."""

    class Spy(gh.Table):
        __slots__ = ("asked",)

        def _find_all(self, n, *rest):
            self.asked.append(n)
            return super()._find_all(n, *rest)

    was = _core.piece(100)
    try:
        with Spy("slab_hash", duplicates=True, device="cpu") as table:
            table.asked = []
            table.insert_multi(np.repeat(np.arange(250), 2), np.arange(500))
            offsets, values = table.find_all(np.arange(250))
    finally:
        _core.piece(was)
    assert table.asked == [100, 100, 100, 100, 50, 50]  # each twice
    assert offsets.tolist() == list(range(0, 501, 2))
    assert np.sort(values.reshape(-1, 2)).tolist() == np.arange(500).reshape(-1, 2).tolist()


@pytest.mark.parametrize("given", [True, False])
def test_the_mask_of_the_last_of_equal_keys(table, given):
    out = np.ones(4, bool)
    mask = table.insert_or_assign([1, 1, 2, 1], [5, 6, 7, 8], dedup="last", out=out if given else None)
    assert mask.tolist() == [False, False, True, True]
    assert (mask is out) == given
    assert table[[1, 2]].tolist() == [8, 7]


def test_a_mask_is_written_in_every_place(table):
    """Also where earlier ones of equal keys are left out, whatever was written before that was found to be needed."""
    out = np.ones(4, bool)
    assert _dedup.assign_last(table, [1, 1, 2, 1], [5, 6, 7, 8], out, None) is out
    assert out.tolist() == [False, False, True, True]


def test_a_table_is_made_once(table):
    table.insert(1, 2)
    with pytest.raises(gh.InvalidArgument, match="this table was created already: make a new Table"):
        table.__init__(table.backend, device="cpu")
    assert table[1] == 2


def test_the_memory_resource_gets_everything_back(backend):
    held = {}

    class Resource:
        def allocate(self, nbytes, alignment, stream):
            array = np.empty(nbytes + alignment, np.uint8)
            address = -(-array.ctypes.data // alignment) * alignment
            held[address] = array
            return address

        def deallocate(self, address, nbytes, alignment, stream):
            assert held.pop(address).size == nbytes + alignment

    resource = Resource()
    before = sys.getrefcount(resource)
    table = gh.Table(backend, device="cpu", memory=resource)
    table.insert(np.arange(10_000, dtype=np.uint64), 1)
    assert held
    assert sys.getrefcount(resource) > before
    table.close()
    assert not held
    assert sys.getrefcount(resource) == before


def test_a_memory_resource_without_memory(backend):
    class Empty:
        def allocate(self, nbytes, alignment, stream):
            return None

        def deallocate(self, address, nbytes, alignment, stream):
            raise AssertionError("nothing was allocated")

    empty = Empty()
    before = sys.getrefcount(empty)
    with pytest.raises(gh.NoMemory):
        gh.Table(backend, device="cpu", memory=empty)
    assert sys.getrefcount(empty) == before
    with pytest.raises(TypeError, match="has no method allocate"):
        gh.Table(backend, device="cpu", memory=object())


def test_a_memory_resource_that_says_it_has_none(backend):
    class Empty:
        def allocate(self, nbytes, alignment, stream):
            raise MemoryError

        def deallocate(self, address, nbytes, alignment, stream):
            raise AssertionError("nothing was allocated")

    with pytest.raises(gh.NoMemory):  # and no warning of an exception that was not raised
        gh.Table(backend, device="cpu", memory=Empty())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("address", [4096.5, "4096", -4096, 1 << 70])
def test_what_is_no_address_is_no_memory(backend, address):
    class Wrong:
        def allocate(self, nbytes, alignment, stream):
            return address

        def deallocate(self, address, nbytes, alignment, stream):
            raise AssertionError("nothing was allocated")

    with pytest.raises(gh.NoMemory):
        gh.Table(backend, device="cpu", memory=Wrong())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_memory_that_is_not_aligned_is_given_back(backend):
    class Odd:
        def __init__(self):
            self.given = {}

        def allocate(self, nbytes, alignment, stream):
            array = np.empty(nbytes + 2 * alignment, np.uint8)
            address = array.ctypes.data // alignment * alignment + alignment + 8
            self.given[address] = array
            return address

        def deallocate(self, address, nbytes, alignment, stream):
            del self.given[address]

    memory = Odd()
    with pytest.raises(gh.NoMemory):
        gh.Table(backend, device="cpu", memory=memory)
    assert not memory.given


@pytest.fixture
def multimap(backend):
    """A table that keeps several values per key; slab_hash has to be asked for it."""
    try:
        table = gh.Table(backend, device="cpu", seed=7, duplicates=1)
    except gh.OptionNotFound:
        table = gh.Table(backend, device="cpu", seed=7)
    with table:
        if "multi" not in table.traits:
            pytest.skip("the backend has one value per key")
        yield table
        table.check()


def test_several_values_per_key(multimap, rng):
    table = multimap
    keys = rng.integers(0, 300, 2000, np.uint64)
    values = np.arange(2000, dtype=np.uint64)
    assert table.insert_multi(keys, values).all()
    assert len(table) == 2000
    asked = np.arange(310, dtype=np.uint64)
    assert table.count(asked).tolist() == np.bincount(keys.astype(int), minlength=310).tolist()
    offsets, found = table.find_all(asked)
    assert offsets.dtype == np.int64
    assert offsets[-1] == len(found) == 2000
    for key, start, stop in zip(asked, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        assert sorted(found[start:stop].tolist()) == values[keys == key].tolist()
    offsets, found = table.find_all([1000, 2000])
    assert offsets.tolist() == [0, 0, 0]
    assert found.size == 0
    erased = table.erase_all(asked[:100])
    assert erased.tolist() == np.isin(asked[:100], keys).tolist()
    assert len(table) == (keys >= 100).sum()
    assert not table.contains(asked[:100]).any()


def test_insert_multi_keeps_every_pair_or_is_refused(table):
    keys = np.repeat(np.arange(300, dtype=np.uint64), 20)
    try:
        table.insert_multi(keys, keys)
    except gh.Unsupported:
        assert len(table) == 0
    else:
        assert len(table) == len(keys)
        assert (table.count(keys) == 20).all()


def test_order(table, rng):
    if "ordered" not in table.traits:
        pytest.skip("the backend keeps no order")
    keys = np.unique(rng.integers(0, 10_000, 500, np.uint64))
    table.insert(keys, keys + 1)
    asked = np.arange(0, 11_000, 37, dtype=np.uint64)
    at, values, found = table.lower_bound(asked)
    place = np.searchsorted(keys, asked)
    assert found.tolist() == (place < len(keys)).tolist()
    assert (at[found] == keys[place[found]]).all()
    assert (values[found] == at[found] + 1).all()
    out_keys, out_values, counts = table.range(asked, asked + np.uint64(500), 16)
    for i, low in enumerate(asked):
        wanted = keys[(keys >= low) & (keys < low + 500)][:16]
        assert counts[i] == len(wanted)
        assert out_keys[i, : counts[i]].tolist() == wanted.tolist()
        assert out_values[i, : counts[i]].tolist() == (wanted + 1).tolist()


def test_one_default_for_each_key(table):
    table.insert([1, 3], [10, 30])
    assert table.get([1, 2, 3, 4], [5, 6, 7, 8]).tolist() == [10, 6, 30, 8]
    assert table.get([[1, 2], [3, 4]], [[5, 6], [7, 8]]).tolist() == [[10, 6], [30, 8]]
    assert table.get([1, 2], 9).tolist() == [10, 9]
    with pytest.raises(ValueError, match=r"."):
        table.get([1, 2, 4], [5, 6, 7, 8, 9])


def test_seed_0_is_one_seed_like_any_other():
    with gh.Table(seed=0, device="cpu") as a, gh.Table(seed=0, device="cpu") as b, gh.Table(seed=1, device="cpu") as c:
        assert a.info["seed"] == b.info["seed"] != c.info["seed"]
    with gh.Table(device="cpu") as a, gh.Table(device="cpu") as b:
        assert a.info["seed"] != b.info["seed"]  # drawn, with 64 bits


@pytest.mark.parametrize("structure", ["linear_probe", "slab_hash", "hive", "stadium"])
def test_where_keys_lie_far_from_home(structure):
    """At a load at which many visits of a batch have to go on, and some keys of hive are in its stash."""
    keys = np.arange(1, 200_001, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    here, away = np.split(keys, 2)
    with gh.Table(structure, capacity=len(here), max_load_factor=0.98, grow=False, device="cpu", seed=3) as t:
        here = here[t.insert(here, 1)]
        assert len(here) > 90_000
        assert (t.count(here) == 1).all()
        assert (t.count(away) == 0).all()
        assert t.contains(here).all()
        assert not t.contains(away).any()
        t.accumulate(here, 2)
        assert (t.find(here)[0] == 3).all()
        assert not t.insert_or_assign(here, 7).any()
        assert (t.find(here)[0] == 7).all()
        assert not t.erase(away).any()
        assert t.erase(here).all()
        assert len(t) == 0


def test_an_export_of_any_size_has_every_key_once(backend):
    """Lines are taken with a stride, which must not share a factor with their number."""
    for capacity in range(64, 500, 8):
        with gh.Table(backend, device="cpu", threads=1, capacity=capacity) as t:
            t.insert(np.arange(capacity), 1)
            assert np.array_equal(np.sort(t.keys()), np.arange(capacity))
