"""Host arrays on a CUDA table: chunks, their order, and what is true when a batch does not end as it should.

The table is one of the CPU, taken for one of a GPU; the device's memory is the host's, and copies are done as late as
the streams and events allow (see fake_cuda.py).
"""

import ctypes
import gc
import itertools
import mmap
import os
import sys
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _host

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_staging
import staged
from staged import N, Table, fake, make  # noqa: F401 (a fixture of every test)


@pytest.mark.parametrize(
    ("n", "most", "first"), [(1, 10, 4), (64, 64, 16), (1000, 64, 16), (10**6, 1 << 16, 1 << 10), (7, 3, 100)]
)
def test_chunks(n, most, first, monkeypatch):
    monkeypatch.setattr(_host, "CHUNK_BYTES", 17 * most)  # a key, a value and a status
    monkeypatch.setattr(_host, "FIRST_KEYS", first)
    with make("linear_probe", capacity=n) as table:
        keys = np.arange(n, dtype=np.uint64)
        assert table.insert(keys, ~keys).all()
        lengths = table.lengths
        assert sum(lengths) == n == len(table)
        assert 0 < min(lengths) <= max(lengths) <= most
        if n >= 8 * most:
            assert max(lengths) == most
        assert max(lengths[0], lengths[-1]) <= max(first, 1)
        assert all(b <= 2 * a for a, b in itertools.pairwise(lengths))
        assert np.array_equal(table.find(keys)[0], ~keys)


@pytest.mark.parametrize("stream", [None, 7])
def test_every_operation_in_chunks(backend, rng, stream):
    stream = fake_cuda.stream(stream)
    table, model = make(backend), gh.Table(backend, value_dtype="uint64", device="cpu", seed=7)
    keys = rng.integers(0, 2 * N, N, np.uint64)
    with table, model:
        for name, arguments, *more in [
            ("insert", (keys, 3)),
            ("get", (keys, 9)),
            ("insert_or_assign", (np.unique(keys), ~np.unique(keys))),
            ("accumulate", (keys, keys)),
            ("accumulate", (keys, keys * np.uint64(77)), {"op": "max"}),
            ("find", (keys + np.uint64(5),)),
            ("erase", (np.unique(keys)[::3],)),
            ("contains", (keys,)),
            ("count", (keys,)),
            ("get", (keys, 9)),
        ]:
            how = dict(*more)
            got, wanted = (
                getattr(table, name)(*arguments, **how, stream=stream),
                getattr(model, name)(*arguments, **how),
            )
            if name == "insert":  # of equal keys, another one may be the first
                got, wanted = got.sum(), wanted.sum()
            for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, wanted)), strict=True):
                assert np.array_equal(a, b), name
        assert table.launches > 8 * 5
        assert len(table) == len(model)
        distinct = np.unique(keys)
        ops = rng.integers(0, 6, distinct.size, np.uint8)
        outs = np.empty(distinct.size, np.uint64), np.empty(distinct.size, bool)
        values, mask = table.execute(ops, distinct, distinct, out=outs[0], found=outs[1], stream=stream)
        assert values is outs[0]
        assert mask is outs[1]
        for a, b in zip((values, mask), model.execute(ops, distinct, distinct), strict=True):
            assert np.array_equal(a, b)
        table.check()


@pytest.mark.parametrize(
    ("key", "value"),
    [("uint8", "float16"), ("int32", "bool"), ("float64", "datetime64[s]"), ("uint32", "uint64"), ("uint64", "int32")],
)
def test_narrow_dtypes_and_shapes(backend, key, value):
    keys = np.arange(99).astype(key).reshape(9, 11)
    values = np.arange(99).astype(value).reshape(9, 11)
    with make(backend, key_dtype=key, value_dtype=value) as table:
        assert table.insert(keys, values).shape == (9, 11)
        out = np.zeros((9, 11), value)
        assert table.count(keys).shape == (9, 11)
        assert np.array_equal(table.count(keys) == 1, table.contains(keys))
        got, found = table.find(keys, out=out)
        assert got is out
        assert found.all()
        assert np.array_equal(out, values)
        one, there = table.find(keys[2, 3])
        assert one == values[2, 3]
        assert there
        assert (type(one), type(there)) == (values.dtype.type, np.bool_)


def test_an_empty_batch(backend):
    with make(backend) as table:
        values, found = table.find(np.empty((0, 3), np.uint64))
        assert values.shape == found.shape == (0, 3)
        values, mask = table.execute(np.empty(0, np.uint8), np.empty(0, np.uint64))
        assert values.shape == mask.shape == (0,)
        assert not fake_allocations()
        if backend != "slab_hash":
            with pytest.raises(gh.Unsupported):
                table.insert_multi(np.empty(0, np.uint64), np.empty(0, np.uint64))


def fake_allocations():
    return [kind for kind, _ in staged.cuda.allocated]


def test_a_small_batch_takes_one_chunk_and_keeps_its_memory(backend):
    with make(backend) as table:
        table.insert(np.arange(5), np.arange(5))
        there = len(fake_allocations())
        assert there == 2  # a slot, on both sides
        for _ in range(3):
            assert table.find(np.arange(5))[1].all()
            assert not table.insert(np.arange(5), np.arange(5)).any()
        assert len(fake_allocations()) == there
        table.find(np.arange(130))
        there = len(fake_allocations())
        table.find(np.arange(140))  # as much memory, to three bits
        assert len(fake_allocations()) == there


def test_memory_for_as_many_keys_is_allocated_once(backend):
    """Whatever goes up and whatever comes down: a find has larger results than an insert, and fewer inputs."""
    keys = np.arange(N, dtype=np.uint64)
    ops = np.full(N, gh.Op.FIND, np.uint8)
    with make(backend) as table:
        table.insert(keys, keys)
        there = len(fake_allocations())
        assert there == 2  # of all slots, on each side
        table.find(keys)
        table.insert(keys, keys)
        table.contains(keys)
        table.count(keys)
        assert len(fake_allocations()) == there
        table.execute(ops, keys)  # whose chunks are of fewer keys
        assert fake_allocations().count("pinned") == there // 2


def test_a_slot_has_room_for_both_directions(backend):
    """Whichever operation comes first."""
    keys = np.arange(N, dtype=np.uint64)
    for name in ("find", "contains", "count", "erase", "accumulate"):
        _host._close_all()
        with make(backend, value_dtype="int64") as table:
            getattr(table, name)(keys)
            table.insert(keys, keys)


@pytest.mark.parametrize("keys", [64, 700, N, 9 * N])
def test_a_slot_is_used_by_one_chunk_at_a_time(backend, keys):
    """Both directions of one chunk share it, without overlapping, and the next chunk comes when all is collected."""
    some = np.arange(keys, dtype="uint64")
    up, down, begins, mask = {}, {}, [0], np.empty(keys, bool)

    def watch(batch, name, arguments):
        if name == "run":
            begins.append(begins[-1] + arguments[1][0].n)
        if name != "memcpy_async":
            return
        to, source, nbytes, stream = arguments
        (host, stretches) = (source, up) if stream == batch.arguments[4][2] else (to, down)
        slot = next(i for i, s in enumerate(batch.arguments[4][0]) if s[0] <= host < s[0] + batch.arguments[4][1])
        assert {to, source} == {host, host - batch.arguments[4][0][slot][0] + batch.arguments[4][0][slot][1]}
        stretches.setdefault(slot, []).append((host, host + nbytes))
        if stretches is up and (before := len(up[slot]) - 1):
            chunk = slot + (before - 1) * len(batch.arguments[4][0])
            assert (mask.view(np.uint8)[begins[chunk] : begins[chunk + 1]] < 9).all()

    staged.cuda.watch_staged = watch
    with make(backend, capacity=10 * N) as t:
        for call in (lambda: t.insert(some, some, out=mask), lambda: t.find(some, found=mask)):
            mask.view(np.uint8)[:] = 9
            call()
            assert mask.all()
            assert up.keys() == down.keys()
            for slot, stretches in up.items():
                assert max(end for _, end in stretches) <= min(begin for begin, _ in down[slot])
            up.clear()
            down.clear()
            begins[1:] = []


def test_a_batch_has_no_more_slots_than_chunks(backend):
    with make(backend) as table:
        for chunks, n in ((1, 60), (2, 100), (3, 150)):
            table.launches = 0
            table.insert(np.arange(n), 1)
            assert table.launches == chunks
            assert len(_host._idle[0][0].described[0]) == chunks


def test_larger_slots_take_the_place_of_small_ones(backend):
    keys = np.arange(N, dtype=np.uint64)
    with make(backend) as table:
        table.insert(keys[:60], 1)
        small = staged.cuda.allocated[-1][1].nbytes
        events = list(_host._idle[0][0].events)
        table.insert(keys, 1)
        slots, nbytes = _host._idle[0][0].described[:2]
        assert not set(map(id, _host._idle[0][0].events)) & set(map(id, events)), "they follow no allocation"
        assert len(slots) == _host.SLOTS
        assert nbytes > small
        used = {kind: (1 << 40) - room for kind, room in staged.cuda.room.items()}
        assert used == {"device": len(slots) * nbytes, "pinned": len(slots) * nbytes}  # the small one was given back


def test_memory_that_is_enough_is_cut_again(backend):
    """Slots of either size lie apart, in the order of their numbers."""
    keys = np.arange(N, dtype=np.uint64)
    with make(backend, capacity=4 * N) as table:
        table.insert(keys, 1)
        made = len(staged.cuda.allocated)
        for n, many in ((60, 1), (N, _host.SLOTS), (150, 3), (N, _host.SLOTS)):
            assert table.find(keys[:n], found=False)[0].tolist() == [1] * n
            slots, nbytes = _host._idle[0][0].described[:2]
            assert len(slots) == many
            for side in (0, 1):
                starts = [slot[side] for slot in slots]
                assert np.diff(starts).tolist() == [nbytes] * (len(slots) - 1)
                assert all(start % _host._ALIGNMENT == starts[0] % _host._ALIGNMENT for start in starts)
            assert len({event for slot in slots for event in slot[2:]}) == 2 * len(slots)
            assert len(slots) * nbytes <= _host._idle[0][0].nbytes
        assert len(staged.cuda.allocated) == made


@pytest.mark.parametrize("registers", [True, False])
def test_pinned_memory_is_given_back_as_it_was_taken(registers):
    """The system may pin memory of the driver only."""
    staged.cuda.registers = registers
    staged.cuda.contexts.append(0)
    memory = _cuda.PinnedMemory(5000)
    assert (1 << 40) - staged.cuda.room["pinned"] == 5000
    assert bool(staged.cuda.hosted) is not registers
    if registers:
        assert memory.address % (1 << 21) == 0
    ctypes.memset(memory.address, 1, 5000)
    memory.close()
    assert staged.cuda.room["pinned"] == 1 << 40
    assert not staged.cuda.registered


def test_pinned_memory_is_not_unmapped_before_the_driver_lets_go_of_it():
    """It would take what lies at the same addresses later for these pages."""
    staged.cuda.contexts.append(0)
    address = _cuda.PinnedMemory(5000).address
    gc.collect()
    ctypes.memset(address, 1, 5000)
    assert address in staged.cuda.registered


def test_pinned_memory_is_not_a_childs():
    """Pages that two processes have would move away from the device when one of them writes."""
    staged.cuda.contexts.append(0)
    memory = _cuda.PinnedMemory(5000)

    def mapped():
        ranges = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
        return any(int(low, 16) <= memory.address < int(high, 16) for low, high in ranges)

    assert mapped()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: by Python from 3.12 on, and by JAX
        child = os.fork()
    if child == 0:
        os._exit(mapped())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    memory.close()


def test_memory_for_longer_batches_while_another_stream_is_captured(backend):
    with make(backend) as table:
        staged.cuda.capturing = {9}
        for n in (5, 500):
            assert table.insert(np.arange(n), 1).sum() == {5: 5, 500: 495}[n]


def test_two_batches_at_once_and_the_end_of_the_process(backend):
    """Each has a staging area of its own; one is kept, and given back before the driver is gone."""
    with make(backend) as table, make(backend) as other:
        table.before = lambda launch: other.insert(np.arange(launch * 10), 1)
        keys = np.arange(N, dtype=np.uint64)
        assert table.insert(keys, keys).all()
        assert len(other) == 10 * table.launches
        assert len(_host._idle[0]) == 1
    kept = 2  # pieces of memory
    assert len(staged.cuda.allocated) - len(staged.cuda.freed) <= kept + 1
    _host._close_all()
    assert not _host._idle
    assert staged.cuda.room == {"device": 1 << 40, "pinned": 1 << 40}
    assert not staged.cuda.contexts
    on_streams = [stream for _, stream in staged.cuda.freed[-kept:] if stream is not None]
    assert len(on_streams) == 1  # not by the garbage collector


def test_an_output_must_not_overlap_an_input(backend):
    with make(backend) as table:
        keys = np.arange(100, dtype=np.uint64)
        with pytest.raises(gh.InvalidArgument, match="out overlaps keys"):
            table.find(keys, out=keys)
        with pytest.raises(gh.InvalidArgument, match="the mask overlaps keys"):
            table.contains(keys, out=keys.view(bool)[:100])


def test_what_is_refused_before_anything_is_launched(backend):
    keys, ops = np.arange(100, dtype=np.uint64), np.full(100, gh.Op.INSERT, np.uint8)
    wrong = ops.copy()
    wrong[7] = 9
    with make(backend) as table:
        for call, error, words in (
            (
                lambda: table.insert(keys, keys.reshape(4, 25)),
                ValueError,
                r"values have shape \(4, 25\), keys \(100,\)",
            ),
            (
                lambda: table.execute(ops.reshape(4, 25), keys, 1),
                ValueError,
                r"ops have shape \(4, 25\), keys \(100,\)",
            ),
            (lambda: table.execute(wrong, keys, 1), gh.InvalidArgument, r"ops\[7\] is 9"),
        ):
            with pytest.raises(error, match=words):
                call()
        assert not hasattr(table, "launches")


def test_results_that_jax_would_cut(monkeypatch):
    array = type("Array", (), {"__array__": lambda self, dtype=None, copy=None: np.arange(4, dtype=np.uint64)})
    config = types.SimpleNamespace(jax_enable_x64=False)
    jax = types.SimpleNamespace(Array=array, core=types.SimpleNamespace(Tracer=()), config=config)
    monkeypatch.setitem(sys.modules, "jax", jax)
    with make("linear_probe") as table:
        with pytest.raises(TypeError, match="results have dtype uint64, which JAX cuts"):
            table.find(array())
        assert not hasattr(table, "launches")


@pytest.mark.parametrize(("own", "given", "used"), [(None, None, 0), (7, None, 7), (7, 9, 9)])
def test_the_stream_of_a_batch(monkeypatch, own, given, used):
    launched, kernel = [], staged.cuda.kernel
    monkeypatch.setattr(staged.cuda, "kernel", lambda stream, *rest: launched.append(stream) or kernel(stream, *rest))
    with make("linear_probe", stream=fake_cuda.stream(own)) as table:
        assert table.insert(np.arange(5), 1, stream=fake_cuda.stream(given)).all()
    assert launched == [used]


def test_refused_pinned_memory(backend):
    staged.cuda.room["pinned"] = 0
    keys = np.arange(N, dtype=np.uint64)
    with make(backend) as table:
        assert table.insert(keys, ~keys).all()
        values, found = table.find(keys)
        assert found.all()
        assert np.array_equal(values, ~keys)
        assert "pinned" not in fake_allocations()


def test_little_memory_on_the_device_means_smaller_chunks(backend):
    keys = np.arange(N, dtype=np.uint64)
    with make(backend) as table:
        staged.cuda.room["device"] = 20_000  # less than the slots of whole chunks
        assert table.insert(keys, ~keys).all()
        few = table.launches
        assert np.array_equal(table.find(keys)[0], ~keys)
        assert few > 3 * N // (_host.CHUNK_BYTES // 17)
        kept = _host._idle[0][0].nbytes
        assert (1 << 40) - staged.cuda.room["pinned"] == kept  # that of the tries before was given back


def test_the_last_try_is_for_the_fewest_keys(backend, monkeypatch):
    asked = []

    def none(device, slots, nbytes):
        asked.append(nbytes)
        raise gh.NoMemory("there is none")

    keys = np.arange(N, dtype=np.uint64)
    with make(backend) as table:
        monkeypatch.setattr(_host, "_take", none)
        monkeypatch.setattr(_host, "LEAST_KEYS", 100)  # no fourth of what was tried before
        with pytest.raises(gh.NoMemory, match="there is none"):
            table.insert(keys, keys)
    assert asked == sorted(asked, reverse=True)
    assert len(asked) > 2
    assert asked[-1] == _host._room(17 * _host.LEAST_KEYS) + 5 * _host._ALIGNMENT  # keys, values and statuses


def test_no_memory_on_the_device(backend):
    keys, mask = np.arange(N, dtype=np.uint64), np.ones(N, bool)
    with make(backend) as table:
        staged.cuda.room["device"] = 100
        with pytest.raises(gh.NoMemory, match="OUT_OF_MEMORY") as caught:
            table.insert(keys, ~keys, out=mask)
        assert caught.value.status is None
        assert not getattr(table, "launches", 0)
        assert len(table) == 0
        assert not mask.any()
        staged.cuda.room["device"] = 1 << 30
        assert table.insert(keys, ~keys).all()


def test_chunks_are_under_way_beside_each_other():
    """As many as there are slots are launched while no results come."""
    launched, at_waits = [0], []

    def watch(batch, name, arguments):
        launched[0] += name == "run"
        if name == "event_synchronize":
            at_waits.append(launched[0])
        return fake_staging.NOT_READY if name == "event_query" and not at_waits else None

    staged.cuda.watch_staged = watch
    with make("linear_probe") as table:
        keys = np.arange(N, dtype=np.uint64)
        assert table.insert(keys, keys).all()
        assert len(table.lengths) == launched[0] > 2 * _host.SLOTS
    assert at_waits[0] == _host.SLOTS


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("op", ["find", "insert"])
def test_pages_of_new_results_are_brought_in_and_given_ones_are_not(monkeypatch, op, given, long):
    monkeypatch.setattr(_host, "LONG_KEYS", N if long else N + 1)
    keys, mask, out = np.arange(N, dtype=np.uint64), np.empty(N, bool), np.empty(N, np.uint64)
    with make("linear_probe") as table:
        if op == "insert":
            table.insert(keys, keys, out=mask if given else None)
        else:
            table.find(keys, out=out if given else None, found=mask if given else None)
    flags = staged.cuda.staged[-1].arguments[7]
    new = _core.STAGING_NEW_STATUS | (_core.STAGING_NEW_VALUES if op == "find" else 0)
    wanted = _core.STAGING_PAST_CACHES | (0 if given else new) if long else 0
    # Without values no pages of theirs are brought in, whatever the flag says.
    assert flags & ~(_core.STAGING_NEW_VALUES if op == "insert" else 0) == wanted


@pytest.mark.parametrize("flags", [0, 1, 2, 3, 4, 7])
def test_pages_are_brought_in_before_results_come(monkeypatch, flags):
    """Those of the chunks that have been sent; by other threads, which may take a while. The few pages of one array are
    left to the thread of the call, which does it when it ends the chunk."""
    assert (_core.STAGING_NEW_VALUES, _core.STAGING_NEW_STATUS, _core.STAGING_PAST_CACHES) == (1, 2, 4)
    n, page = 1 << 15, mmap.PAGESIZE
    whole = [mmap.mmap(-1, size * n) for size in (8, 1)]
    values, mask = (np.frombuffer(m, t) for m, t in zip(whole, (np.uint64, bool), strict=True))
    libc, answer = ctypes.CDLL(None, use_errno=True), np.empty(8 * n // page, np.uint8)

    def there(array):
        assert libc.mincore(*(ctypes.c_void_p(x) for x in (array.ctypes.data, array.nbytes, answer.ctypes.data))) == 0
        return bool(answer[0] & 1)

    if there(values):
        pytest.skip("mincore of this system says of pages that nobody has written to that they are there")
    seen = []

    def watch(batch, name, arguments):
        if name == "event_query" and not seen:
            for array in (values, mask):
                end = time.monotonic() + (20 if flags & 3 == 3 else 0)
                while not there(array) and time.monotonic() < end:
                    time.sleep(0.001)
                seen.append(there(array))

    run = _core.run_staged
    monkeypatch.setattr(_core, "run_staged", lambda *rest: run(*rest[:8], rest[8] | flags, rest[9]))
    with make("linear_probe", capacity=n) as table:
        keys = np.arange(n, dtype=np.uint64)
        table.insert(keys, ~keys)
        staged.cuda.watch_staged = watch
        table.find(keys, out=values, found=mask)
    assert seen == [flags & 3 == 3] * 2
    assert mask.all()
    assert np.array_equal(values, ~keys)


def test_progress_is_told():
    told = []
    with make("linear_probe") as table, gh.progress(lambda done, n: told.append((done, n))):
        keys = np.arange(N, dtype=np.uint64)
        assert table.insert(keys, keys).all()
        assert told[-1] == (N, N)
        assert [done for done, _ in told] == sorted({done for done, _ in told})
        assert len(told) > 3
        before = len(told)
        table.find(keys[:10])  # one chunk
        assert len(told) == before


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_progress_that_raises(chunk):
    calls = []

    def stop(done, n):
        calls.append(done)
        if len(calls) == chunk:
            raise RuntimeError("enough")

    mask = np.ones(N, bool)
    with make("linear_probe") as table:
        keys = np.arange(N, dtype=np.uint64)
        with pytest.raises(RuntimeError, match="enough"), gh.progress(stop):
            table.insert(keys, keys, out=mask)
        assert len(calls) == chunk  # not told any more
        there = table.contains(keys)
        assert (there == mask).all()  # what was launched is known
        assert calls[-1] <= there.sum() < N


@pytest.mark.parametrize(("keys", "nbytes", "most"), [(500, 1 << 20, 500), (600, 17 * 508, 508), (600, 1 << 20, 600)])
def test_chunks_of_a_table_behind_the_bus_are_longer(monkeypatch, keys, nbytes, most):
    monkeypatch.setattr(_host, "FAR_KEYS", keys)
    monkeypatch.setattr(_host, "FAR_BYTES", nbytes)
    lengths = []
    keys = np.arange(N, dtype=np.uint64)
    for options in ({}, {"placement": "host"}):
        with make("stadium", **options) as table:
            assert table.insert(keys, keys + 1).all()
            values, found = table.find(keys[::-1])
            assert found.all()
            assert (values == keys[::-1] + 1).all()
            lengths.append(table.lengths[: len(table.lengths) // 2])
    near, far = lengths
    assert max(near) == _host.CHUNK_BYTES // 17 < max(far) == most
    assert near[0] == 64
    assert far[0] == most // 4 >= far[-1]


def test_chunks_behind_the_bus_without_memory(monkeypatch):
    """As any others: fewer keys in a chunk."""
    monkeypatch.setattr(_host, "FAR_KEYS", 500)
    monkeypatch.setattr(_host, "FAR_BYTES", 2000)
    with make("stadium", placement="host") as table:
        keys = np.arange(N, dtype=np.uint64)
        assert table.insert(keys, keys).all()
        assert table.contains(keys).all()


def test_a_staging_area_that_another_thread_takes_first(monkeypatch):
    class Emptied(list):
        def pop(self):
            raise IndexError("pop from empty list")

    made = types.SimpleNamespace(provide=lambda slots, nbytes: None)
    monkeypatch.setattr(_host, "_idle", {0: Emptied(["the other's"])})
    monkeypatch.setattr(_host, "_Staging", lambda device: made)
    assert _host._take(0, 2, 4096) is made
