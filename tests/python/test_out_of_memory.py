"""A growing table that gets no memory: what it takes, what it says, how long that takes, and how it goes on."""

import time

import numpy as np
import pytest

import pygpuhash as gh

MANY = 300_000


class Memory:
    """Memory of the host, as long as it is not refused."""

    def __init__(self):
        self.refused, self.asked, self._held = False, 0, {}

    def allocate(self, nbytes, alignment, stream):
        self.asked += 1
        if self.refused:
            return None
        block = np.empty(nbytes + alignment, np.uint8)
        address = -(-block.ctypes.data // alignment) * alignment
        self._held[address] = block
        return address

    def deallocate(self, address, nbytes, alignment, stream):
        del self._held[address]


def spread(first, n):
    """Distinct keys, all over the table."""
    return (np.arange(first, first + n, dtype="u8") + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)


@pytest.fixture
def memory():
    return Memory()


def make(backend, memory, **options):
    return gh.Table(
        backend, key_dtype="u8", value_dtype="u8", device="cpu", memory=memory, seed=1, threads=2, **options
    )


def full(backend, memory, capacity=20_000, **options):
    """A table of as many keys as it takes before it grows, and no memory for more; and the number of its keys."""
    table = make(backend, memory, capacity=capacity, **options)
    here = spread(0, table.capacity)
    table.insert(here, here)
    assert table.capacity == len(here)
    memory.refused = True
    return table, here


def refused(call):
    with pytest.raises(gh.TableFull) as caught:
        call()
    assert isinstance(caught.value, gh.NoMemory)
    return caught.value.status


def test_its_limit_is_not_its_last_slot(backend, memory):
    with make(backend, memory, capacity=20_000) as t:
        memory.refused = True
        keys = spread(0, MANY)
        status = refused(lambda: t.insert(keys, keys))
        assert len(t) == (status == 1).sum() == t.capacity
        assert set(np.unique(status)) == {1, 2}
        assert np.array_equal(np.sort(t.keys()), np.sort(keys[status == 1]))
        assert t.info["rebuilds"] == 0
        t.check()


@pytest.mark.parametrize("status", [True, False], ids=["statuses", "none"])
def test_elements_whose_keys_are_there_are_carried_out(backend, memory, status):
    t, here = full(backend, memory)
    keys = np.concatenate([here, spread(len(here), MANY)])[np.random.default_rng(1).permutation(len(here) + MANY)]
    is_here = np.isin(keys, here)
    with t:
        for call in (
            lambda: t.insert_or_assign(keys, keys + 1),
            lambda: t.accumulate(keys, 7),
            lambda: t.insert(keys, 0),
        ):
            said = refused(call)
            assert (said[is_here] == 0).all()
        added = t.keys()
        assert np.isin(here, added).all()
        values, found = t.find(here)
        assert found.all()
        assert np.array_equal(values, here + np.uint64(8))
        assert t.erase(here).all()
        t.check()


def test_keys_that_repeat_share_the_room_there_is(backend, memory):
    """Elements of a key for which there was room are carried out, wherever they stand in the batch."""
    with make(backend, memory, capacity=2_000) as t:
        room = t.capacity
        t.insert(spread(0, room - 5), 0)
        memory.refused = True
        few = spread(room, 40)
        keys = np.concatenate([np.repeat(few, 300), np.tile(few[::-1], 300)])
        said = refused(lambda: t.accumulate(keys, 1))
        values, found = t.find(few)
        assert found.sum() == 5
        assert (values[found] == 600).all()
        assert np.array_equal(said < 2, np.isin(keys, few[found]))
        assert (said == 1).sum() == 5


def test_a_refusal_costs_what_a_find_costs(backend, memory):
    """Each search of a table of which every slot is taken goes through all of its path: thousands of times as long."""
    t, here = full(backend, memory, 200_000)
    with t:
        new = spread(len(here), MANY)

        def least(call):
            def once():
                start = time.process_time()
                call()
                return time.process_time() - start

            return min(once() for _ in range(3))

        finds = least(lambda: t.find(new))
        assert least(lambda: refused(lambda: t.insert(new, new))) < 20 * finds + 0.02
        one = spread(len(here) + MANY, 1)
        assert least(lambda: refused(lambda: t.insert(one, 1))) < 0.02


@pytest.mark.usual_sizes("many short pieces take longer")
def test_a_table_that_could_never_grow_refuses_as_fast(backend, memory):
    """11 buckets of slab_hash took all units of its heap, a hundred in a chain, each searched for each element."""
    new = spread(0, 1_000_000)
    with make(backend, memory) as t:
        memory.refused = True
        start = time.process_time()
        status = refused(lambda: t.insert(new, new))
        assert time.process_time() - start < 1
        assert len(t) == (status == 1).sum() > 0
        start = time.process_time()
        assert t.contains(new).sum() == len(t)
        assert time.process_time() - start < 1


@pytest.mark.usual_sizes("each piece may grow the table")
def test_a_call_asks_for_memory_a_few_times(backend, memory):
    """However many elements find no room."""
    t, here = full(backend, memory)
    with t:
        before = memory.asked
        refused(lambda: t.insert(spread(len(here), 1_500_000), 1))
        assert 0 < memory.asked - before <= 40


def test_memory_that_is_there_again_is_used_at_once(backend, memory):
    t, here = full(backend, memory)
    with t:
        new = spread(len(here), MANY)
        done = np.zeros(MANY, bool)
        done |= refused(lambda: t.insert(new, new)) == 1
        small = t.capacity
        memory.refused = False
        rest = new[~done]
        assert t.insert(rest[:1], rest[:1]).all()
        assert t.capacity > small
        assert t.insert(rest[1:], rest[1:]).all()
        assert len(t) == len(here) + MANY
        assert (t.find(new)[0] == new).all()
        t.check()


@pytest.mark.parametrize("way", ["reserve", "clear"])
def test_room_that_is_made_is_used(backend, memory, way):
    t, here = full(backend, memory)
    with t:
        new = spread(len(here), len(here))
        refused(lambda: t.insert(new, new))
        memory.refused = False
        t.reserve(2 * len(here)) if way == "reserve" else t.clear()
        memory.refused = True
        assert t.insert(new, new).all()
        assert t.contains(here).all() == (way == "reserve")


@pytest.mark.parametrize("values", ["u8", "f4", None])
def test_batches_of_all_kinds_without_memory(backend, memory, values):
    """Against a dict. Keys repeat only where any order gives the same."""
    rng = np.random.default_rng(7)
    with gh.Table(
        backend, key_dtype="u4", value_dtype=values, device="cpu", capacity=500, memory=memory, seed=3, threads=1
    ) as t:
        room, model = t.capacity, {}
        memory.refused = True
        ops = [gh.Op.INSERT, gh.Op.ASSIGN, gh.Op.FIND, gh.Op.ERASE, gh.Op.NOP] + [gh.Op.ACCUMULATE] * (
            values is not None
        )
        for _ in range(200):
            n = int(rng.integers(1, 2000))
            keys = rng.permutation(4 * room).astype("u4")[:n]
            op = rng.choice(ops, n).astype("u1")
            given = rng.integers(1, 1000, n).astype(values or "u4")
            out, mask = np.full(n, 99, values or "u4"), np.zeros(n, bool)
            into = {} if values is None else {"out": out}
            try:
                t.execute(op, keys, given if values else None, found=mask, **into)
                said = mask.astype("u1")
            except gh.TableFull as error:
                said = error.status
            for k, o, v, s, got in zip(
                keys.tolist(), op.tolist(), given.tolist(), said.tolist(), out.tolist(), strict=True
            ):
                there = k in model
                adds = o in (gh.Op.INSERT, gh.Op.ASSIGN, gh.Op.ACCUMULATE)
                if s >= 2:
                    assert adds
                    assert not there
                    continue
                assert s == (there if o in (gh.Op.FIND, gh.Op.ERASE) else adds and not there)
                if values is not None:
                    assert got == (model.get(k, 0) if o == gh.Op.FIND else 0)
                if o == gh.Op.ERASE:
                    model.pop(k, None)
                elif o == gh.Op.ACCUMULATE:
                    model[k] = model.get(k, 0) + v
                elif o == gh.Op.ASSIGN or (o == gh.Op.INSERT and not there):
                    model[k] = v
            assert len(t) == len(model)
        assert t.info["used"] <= room + 8
        have = dict(zip(*(x.tolist() for x in t.export()), strict=True)) if values else dict.fromkeys(t.keys().tolist())
        assert have == (model if values else dict.fromkeys(model))
        t.check()
