"""Host arrays on a CUDA table whose batch does not end as it should: Ctrl-C, failures of the device, a full table.

The table is one of the CPU, taken for one of a GPU; see staged.py.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _host

sys.path.insert(0, str(Path(__file__).resolve().parent))
import staged
from staged import N, Table, fake, make  # noqa: F401 (a fixture of every test)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("launch", [1, 2, 5])
def test_ctrl_c_leaves_a_true_mask(backend, where, launch):
    keys, mask = np.arange(N, dtype=np.uint64), np.ones(N, bool)

    def interrupt(now):
        if now == launch:
            raise KeyboardInterrupt

    with make(backend) as table:
        setattr(table, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            table.insert(keys, ~keys, out=mask)
        table.before = table.after = lambda now: None
        assert set(np.unique(mask.view(np.uint8))) <= {0, 1}
        assert np.array_equal(table.contains(keys), mask)
        assert mask.any()
        assert not mask.all()
        assert table.insert(keys, ~keys).sum() == N - mask.sum()  # the staging area is whole
        assert np.array_equal(table.find(keys)[0], ~keys)


@pytest.mark.parametrize("call", [9, 15])
@pytest.mark.parametrize("during", ["memcpy_async", "event_record", "event_query", "stream_wait_event"])
def test_ctrl_c_while_copies_are_under_way(during, call):
    """Each chunk that the library has had is collected, whatever had begun when the signal came, and the memory is
    used again."""
    calls = 0

    def watch(batch, name, arguments):
        nonlocal calls
        calls += name == during
        if name == during and calls == call:
            batch.signals.append(KeyboardInterrupt())

    staged.cuda.watch_staged = watch
    keys, mask = np.arange(N, dtype=np.uint64), np.ones(N, bool)
    with make("linear_probe") as table:
        with pytest.raises(KeyboardInterrupt):
            table.insert(keys, ~keys, out=mask)
        assert calls >= call
        assert set(np.unique(mask.view(np.uint8))) <= {0, 1}
        assert np.array_equal(table.contains(keys), mask)
        assert mask.any()
        assert not mask.all()
        kept = [staging for of_device in _host._idle.values() for staging in of_device]
        assert len(kept) == 1
        assert table.insert(keys, ~keys).sum() == N - mask.sum()
        assert np.array_equal(table.find(keys)[0], ~keys)
        assert [staging for of_device in _host._idle.values() for staging in of_device] == kept


def test_a_full_table_says_so_for_every_element(backend):
    keys, mask = np.arange(20_000, dtype=np.uint64).reshape(4, 5000), np.ones((4, 5000), bool)
    with make(backend, capacity=4000, grow=False) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, ~keys, out=mask)
        full = caught.value
        assert full.status.shape == keys.shape
        assert set(np.unique(full.status)) <= {1, 2, 3}
        assert np.array_equal(full.status == 1, mask)
        assert np.array_equal(table.contains(keys), mask)
        assert 0 < full.failed.sum() < keys.size


def test_a_full_table_for_which_nobody_waited(backend):
    """As on a GPU: the library says nothing of a chunk. That it is reported once only a GPU shows (tests/gpu)."""
    keys, mask = np.arange(20_000, dtype=np.uint64), np.ones(20_000, bool)
    keys[-1000:] = keys[:1000]  # the last chunks need no room

    class Silent(Table):
        __slots__ = ()

        def _raw(self, *args, **rest):
            Table._raw(self, *args, **rest)

    with Silent(backend, capacity=4000, grow=False, device="cpu", value_dtype="uint64") as table:
        table.before = table.after = lambda launch: None
        table._pretend(_core.CUDA)
        with pytest.raises(gh.TableFull, match=r"^\d+ of 20000 elements found no room: reserve more") as caught:
            table.insert(keys, ~keys, out=mask)
        full = caught.value
        assert isinstance(full, gh.HeapFull) == (set(full.status) <= {0, 1, 3})
        assert str(full).startswith(f"{full.failed.sum()} of")
        assert np.array_equal(full.status == 1, mask)
        assert len(table) == mask.sum() > 0
        assert table.erase(keys).sum() == mask.sum()


@pytest.mark.parametrize(
    ("statuses", "kind", "words"),
    [
        ([1, 3, 3], gh.HeapFull, "2 of 3 elements found no room"),
        ([2, 3, 1], gh.TableFull, "2 of 3 elements found no room"),
        ([2, 0, 2], gh.TableFull, "2 of 3 elements found no room"),
    ],
)
def test_why_elements_were_not_carried_out(statuses, kind, words):
    def raw(self, op, n, at, *args, stream=0, **rest):
        Table._raw(self, op, n, at, *args, stream=stream, **rest)
        staged.cuda.queue(stream, lambda: ctypes.memmove(rest["out_status"], bytes(statuses), 3))

    says = type("Says", (Table,), {"_raw": raw, "__slots__": ()})
    with says("linear_probe", device="cpu", value_dtype="uint64") as table:
        table.before = table.after = lambda launch: None
        table._pretend(_core.CUDA)
        with pytest.raises(kind, match=words) as caught:
            table.insert(np.arange(3, dtype=np.uint64), 1)
    assert type(caught.value) is kind
    assert caught.value.status.tolist() == statuses


@pytest.mark.parametrize(
    "name", ["memcpy_async", "memset_async", "event_record", "event_query", "event_synchronize", "stream_wait_event"]
)
@pytest.mark.parametrize("call", [1, 8, 12])
@pytest.mark.parametrize("gone", [None, "up", "down", "batch"])
def test_a_device_that_fails(name, call, gone):
    """What the table has had is known, and memory that copies may still use is not used again (H1)."""
    calls, drained = [0], []

    def watch(batch, now, arguments):
        if now == "stream_synchronize":
            drained.append({batch.arguments[4][2]: "up", batch.arguments[4][3]: "down"}.get(arguments[0], "batch"))
            return 700 if drained[-1] == gone else None
        if name == "event_synchronize" and now == "event_query":
            return 600  # so that the batch has to wait
        calls[0] += now == name
        return 700 if now == name and calls[0] == call else None

    staged.cuda.watch_staged = watch
    keys, mask = np.arange(N, dtype=np.uint64), np.ones(N, bool)
    with make("linear_probe") as table:
        with pytest.raises(gh.DeviceError, match=r"^cu\w+ says: .* \(700\)$"):
            table.insert(keys, ~keys, out=mask)
        assert sorted(drained) == ["batch", "down", "up"]
        kept = [staging for of_device in _host._idle.values() for staging in of_device]
        assert len(kept) == (gone is None)
        staged.cuda.watch_staged = lambda *_: None
        assert np.array_equal(table.contains(keys), mask)
        assert not mask.all()
        assert table.insert(keys, ~keys).sum() == N - mask.sum()
        assert np.array_equal(table.find(keys)[0], ~keys)


def test_the_first_of_several_failures_is_told(backend):
    class Fails(Table):
        __slots__ = ()

        def _raw(self, *args, **rest):
            failure = Table._raw(self, *args, **rest)
            return gh.TableFull(f"chunk {self.launches}") if self.launches in (2, 4) else failure

    with Fails(backend, device="cpu", value_dtype="uint64") as table:
        table.before = table.after = lambda launch: None
        table._pretend(_core.CUDA)
        with pytest.raises(gh.TableFull, match=r"^chunk 2$") as caught:
            table.insert(np.arange(N, dtype=np.uint64), 1)
        assert (caught.value.status == 1).all()
        assert table.launches > 4


@pytest.mark.parametrize("launch", [4, 9])
def test_a_failure_in_the_middle_ends_the_batch(backend, launch):
    """Also where the chunk would have taken the slot of an earlier one, with the results of that."""
    keys, mask = np.arange(N, dtype=np.uint64), np.ones(N, bool)
    with make(backend) as table:

        def raw(self, op, n, at, *args, **rest):
            if self.launches == launch:
                return gh.DeviceError("gone")
            return Table._raw(self, op, n, at, *args, **rest)

        broken = type("Broken", (Table,), {"_raw": raw, "__slots__": ()})
        table.close()
        with broken(backend, device="cpu", value_dtype="uint64") as table:
            table.before = table.after = lambda launch: None
            table.launches = 0
            table._pretend(_core.CUDA)
            with pytest.raises(gh.DeviceError, match="gone") as caught:
                table.insert(keys, ~keys, out=mask)
            assert caught.value.failed.sum() == (~mask).sum() > 0
            assert np.array_equal(np.flatnonzero(mask), np.arange(mask.sum()))
            assert len(table) == mask.sum() > 0


@pytest.mark.parametrize("status", [2, 3, 255])
def test_no_status_of_2_or_above_reads_as_true(backend, status):
    """Whatever a backend says of its batch."""
    keys = np.arange(4, dtype=np.uint64)

    def raw(self, op, n, at, *args, stream=0, **rest):
        failure = Table._raw(self, op, n, at, *args, stream=stream, **rest)
        staged.cuda.queue(stream, lambda: ctypes.memset(rest["out_status"] + 2, status, 1))
        return failure

    liar = type("Liar", (Table,), {"_raw": raw, "__slots__": ()})
    with liar(backend, device="cpu", value_dtype="uint64") as table:
        table.before = table.after = lambda launch: None
        table._pretend(_core.CUDA)
        mask = np.zeros(4, bool)
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, keys, out=mask)
        assert caught.value.status.tolist() == [1, 1, status, 1]
        assert mask.view(np.uint8).tolist() == [1, 1, 0, 1]
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, keys, out=mask)
        assert caught.value.status.tolist() == [0, 0, status, 0]
        assert mask.view(np.uint8).tolist() == [0, 0, 0, 0]
