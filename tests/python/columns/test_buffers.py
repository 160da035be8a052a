"""Structs of Arrow's C data interface: who owns what, moved and released structs, views."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from oracle import Given, pa

from pygpuhash.columns import View, _buffers


class Owner(np.ndarray):
    """An array of which one can see whether it is alive."""


def owned(values, dtype="i8"):
    array = np.array(values, dtype).view(Owner)
    return array, weakref.ref(array)


def test_an_array_that_nobody_takes_is_released():
    array, alive = owned([1, 2])
    capsule = _buffers.array(2, (None, array))
    del array
    gc.collect()
    assert alive() is not None
    del capsule
    gc.collect()
    assert alive() is None


def test_an_array_that_is_taken_is_released_by_its_consumer_from_any_thread():
    array, alive = owned([1, 2])
    taken = [pa.array(Given(_buffers.schema("l"), _buffers.array(2, (None, array))))]
    del array
    assert taken[0].to_pylist() == [1, 2]
    thread = threading.Thread(target=taken.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert alive() is None


def test_slices_and_children_keep_memory_alive():
    array, alive = owned([1, 2, 3, 4])
    capsule = _buffers.array(4, (None, array))
    parts = [_buffers.sliced(capsule, 1, 2), _buffers.sliced(_buffers.sliced(capsule, 0, 3), 2, 1)]
    del array, capsule
    gc.collect()
    assert alive() is not None
    struct = _buffers.array(2, (None,), children=[parts[0]])
    schema = _buffers.schema("+s", children=[_buffers.schema("l")], names=["x"])
    view = View(Given(schema, struct)).child(0)
    del struct, schema
    assert view.values("i8").tolist() == [2, 3]
    numbers = view.values("i8")
    assert pa.array(Given(_buffers.schema("l"), parts[1])).to_pylist() == [3]
    del view, parts
    gc.collect()
    assert numbers.tolist() == [2, 3]
    del numbers
    gc.collect()
    assert alive() is None


def test_what_was_moved_cannot_be_moved_again():
    child = _buffers.array(1, (None, np.zeros(1)))
    _buffers.array(1, (None,), children=[child])
    with pytest.raises(ValueError, match="was moved or released before"):
        _buffers.array(1, (None,), children=[child])
    with pytest.raises(ValueError, match="was moved or released before"):
        _buffers.length(child)


def test_slices_within_the_array_only():
    capsule = _buffers.array(3, (None, np.zeros(3)))
    for start, length in ((-1, 1), (0, 4), (3, 1), (0, -1)):
        with pytest.raises(IndexError):
            _buffers.sliced(capsule, start, length)
    assert _buffers.length(_buffers.sliced(capsule, 3, 0)) == 0


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "x" * 30, "a\0", "ü"]),
        pa.array(["a", None, "x" * 30, "a\0", "ü"], pa.large_string()),
        pa.array(["a", None, "x" * 30, "a\0", "ü"], pa.string_view()),
        pa.array([b"a", None, b"x" * 30, b"a\0"], pa.binary_view()),
        pa.array([b"a", None, b"x" * 30, b"a\0"]),
        pa.array([b"abc", None, b"ab\0"], pa.binary(3)),
    ],
    ids=str,
)
def test_views_of_text_and_bytes(array):
    for part in (array, array[1:], array[2:], array[:0], array[1:2]):
        view = View(part)
        want = part.to_pylist()
        assert view.length == len(part)
        assert view.objects() == want
        assert pa.array(view).equals(part)
        present = [x for x in want if x is not None]
        longest, trailing, total = view.widest()
        assert longest == max(map(len, present), default=0)
        assert trailing == any(x.endswith("\0" if isinstance(x, str) else b"\0") for x in present)
        assert total == sum(len(x.encode() if isinstance(x, str) else x) for x in present)
        dtype = f"{'U' if array.type in (pa.string(), pa.large_string(), pa.string_view()) else 'S'}{max(longest, 1)}"
        padded = view.padded(dtype)
        assert padded.dtype == dtype
        assert (
            padded.tolist() == np.array([x or present[0][:0] for x in want] or [], dtype).tolist() if present else True
        )
        if longest > 1:
            with pytest.raises(ValueError, match=r"key \d has"):
                view.padded(f"{dtype[0]}{longest - 1}")


def test_views_of_numbers_share_memory_and_know_nulls():
    array = pa.array([1, None, 3, 4], pa.int16())[1:]
    view = View(array)
    assert view.values("i2").tolist()[1:] == [3, 4]
    assert view.values("i2").ctypes.data == array.buffers()[1].address + 2
    assert view.nulls().tolist() == [True, False, False]
    assert View(array[1:]).nulls() is None
    assert View(pa.array([True, False, None, True] * 5)[3:]).values(bool).tolist()[:2] == [True, True]
    assert View(pa.nulls(2)).nulls().tolist() == [True, True]
    with pytest.raises(TypeError, match="neither text nor bytes"):
        view.objects()
    struct = View(pa.array([{"a": 1}, {"a": 2}, {"a": 3}])[1:])
    assert struct.columns == 1
    assert struct.child(0).values("i8").tolist() == [2, 3]
    assert pa.array(struct.child(0)).to_pylist() == [2, 3]
    with pytest.raises(IndexError):
        struct.child(1)


def test_reading_leaks_nothing():
    from pygpuhash.columns import read

    given = (np.arange(1000), [str(i) for i in range(1000)], pa.chunked_array([["a"] * 500, ["b"] * 500]))
    for _ in range(3):
        read(given, "keys")
    gc.collect()
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    for _ in range(50):
        read(given, "keys")
    gc.collect()
    of_reading = [tracemalloc.Filter(True, __file__), tracemalloc.Filter(True, "*/pygpuhash/*")]  # not of other threads
    traces = tracemalloc.take_snapshot().filter_traces(of_reading)
    tracemalloc.stop()
    assert sum(trace.size for trace in traces.traces) < 50_000
    assert pa.total_allocated_bytes() == before


def test_a_view_that_was_never_made_has_no_element():
    """As a debugger sees one whose maker was refused."""
    view = View.__new__(View)
    assert (view.length, view.columns, view.format, view.nulls()) == (0, 0, "n", None)
    assert view.values("i8").tolist() == view.objects() == []
    assert View(view).length == 0
    with pytest.raises(IndexError):
        view.child(0)
