"""Streams, and device arrays as far as they can be judged without a device."""

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _arrays, _core, _device_arrays, _stored_views, _views

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries


class Protocol:
    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


class Attribute:
    def __init__(self, **attributes):
        vars(self).update(attributes)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (0, 0),
        (2**63 + 5, 2**63 + 5),
        (np.uint64(7), 7),
        (Protocol((0, 11)), 11),
        (Attribute(cuda_stream=12), 12),
        (Attribute(ptr=13), 13),
        (Attribute(cuda_stream=12, ptr=13), 12),
        (fake_cuda.Stream(14), 14),
    ],
)
def test_what_a_stream_is(stream, handle):
    assert _core.stream_handle(stream) == handle


@pytest.mark.parametrize(
    ("stream", "error", "words"),
    [
        ("x", TypeError, "stream='x' is not a stream"),
        (1.0, TypeError, "stream=1.0"),
        (True, TypeError, "stream=True"),
        (-1, gh.InvalidArgument, "-1 is not an address"),
        (2**64, gh.InvalidArgument, "is not an address"),
        (Protocol((1, 11)), gh.InvalidArgument, "version 0 is understood"),
        (Protocol((0, 11, 2)), gh.InvalidArgument, "version 0 is understood"),
        (fake_cuda.Stream(0, is_closed=True), gh.InvalidArgument, "is closed"),
        (Attribute(ptr="p"), TypeError, "is not a stream"),
    ],
)
def test_what_is_not_a_stream(stream, error, words):
    with pytest.raises(error, match=words):
        _core.stream_handle(stream)


def test_streams_are_ignored_on_the_cpu(table):
    assert table.insert([1], [2], stream=12345).all()
    assert table.find([1], stream=12345)[1].all()
    table.clear(stream=12345)
    assert len(table) == 0


def test_the_stream_of_a_table_is_that_of_its_initialisation(monkeypatch):
    """The CPU has no streams, so that the library says which one it was given."""
    monkeypatch.setattr(_core, "device_count", lambda kind: (1, ""))

    class Table(gh.Table):
        __slots__ = ()

        def _create(self, name, kind, *rest):
            super()._create(name, _core.CPU, *rest)

    class Allocator(gh.SlabAllocator):
        __slots__ = ()

        def _create(self, name, kind, *rest):
            super()._create(name, _core.CPU, *rest)

    for make in (lambda **given: Table("linear_probe", **given), Allocator):
        with fake_cuda.installed(monkeypatch), pytest.raises(gh.InvalidArgument, match="stream is 0x7"):
            make(device="cuda", stream=Attribute(ptr=7))
        make(device="cpu", stream=Attribute(ptr=7)).close()


class OnDevice:
    """What a CUDA array looks like from the outside."""

    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (4,),
            "typestr": "<u8",
            "data": (4096, False),
            "strides": None,
            "version": 3,
        } | changes


class Dlpack:
    """A numpy array that claims to be on some device."""

    def __init__(self, array, kind):
        self.array, self.kind = array, kind

    def __dlpack_device__(self):
        if self.kind is None:
            raise ValueError("of no device that DLPack knows")
        return self.kind, 0

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__()


def test_which_arrays_are_on_a_device():
    assert _arrays.on_device(OnDevice())
    assert _arrays.on_device(Dlpack(np.arange(3), 2))
    assert _arrays.on_device(Dlpack(np.arange(3), 13))
    assert not _arrays.on_device(Dlpack(np.arange(3), 1))
    assert not _arrays.on_device(Dlpack(np.arange(3), 3))  # pinned host memory
    assert not _arrays.on_device(Dlpack(np.arange(3), None))
    assert not any(_arrays.on_device(x) for x in (3, [1], np.arange(3), np.uint8(1), "x", None))


def test_device_arrays_do_not_go_into_a_cpu_table(table):
    for keys in (OnDevice(), Dlpack(np.arange(3), 2)):
        with pytest.raises(gh.InvalidArgument, match="on a CUDA device, the table is on the CPU"):
            table.find(keys)
    with pytest.raises(gh.InvalidArgument, match="leave it out"):
        table.export(like=OnDevice())
    with pytest.raises(TypeError, match="out is a OnDevice"):
        table.find(np.arange(4, dtype=np.uint64), out=OnDevice())


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"typestr": ">u8"}, TypeError, "not in native byte order"),
        ({"mask": OnDevice}, TypeError, "have a mask"),
        ({}, gh.InvalidArgument, "not on a CUDA device"),  # 4096 is no device address here
    ],
)
def test_what_a_device_array_must_not_be(changes, error, words):
    with pytest.raises(error, match=words):
        _device_arrays.view(OnDevice(**changes), 0, 0, "keys")
    with pytest.raises(TypeError, match="pass a device array as well"):
        _device_arrays.view(np.float64(1), 0, 0, "values")


def test_dlpack_capsules_are_read_and_released():
    import sys

    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    before = sys.getrefcount(array)
    ptr, shape, strides, code, bits, kind, ordinal, owner = _core.dlpack_read(array.__dlpack__())
    assert (ptr, shape, code, bits, kind, ordinal) == (array.ctypes.data, (2, 3, 4), 0, 16, 1, 0)
    assert strides in (None, (12, 4, 1))
    assert sys.getrefcount(array) > before
    del owner
    assert sys.getrefcount(array) == before
    with pytest.raises(TypeError, match="fresh DLPack capsule"):
        _core.dlpack_read(None)
    with pytest.raises(gh.InvalidArgument, match="not on a CUDA device"):
        _device_arrays.view(Dlpack(array, 2), 0, 0, "keys")


def test_dlpack_capsules_are_written_and_released():
    import sys

    class Owner:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **arguments):
            return _core.dlpack_write(self, self.array.ctypes.data, self.array.shape, 2, 32, 1, 0)

    owner = Owner(np.arange(6, dtype=np.float32).reshape(2, 3))
    before = sys.getrefcount(owner)
    shared = np.from_dlpack(owner)
    assert (shared == owner.array).all()
    assert np.shares_memory(shared, owner.array)
    del shared
    unused = owner.__dlpack__()
    del unused
    assert sys.getrefcount(owner) == before


@pytest.mark.parametrize(
    ("shape", "strides", "contiguous"),
    [
        ((4,), (1,), True),
        ((4,), (2,), False),
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((1, 3), (77, 1), True),
        ((), (), True),
        ((3, 0), (1, 1), True),
    ],
)
def test_contiguity(shape, strides, contiguous):
    assert _views._contiguous(shape, strides, 1) is contiguous


@pytest.fixture
def cupy(monkeypatch):
    with fake_cuda.installed(monkeypatch):
        yield fake_libraries.cupy(monkeypatch)


@pytest.mark.parametrize(("given", "stored"), [("i8", "u8"), ("i4", "u4"), ("i4", "u8"), ("i2", "u4")])
def test_signed_device_arrays_go_into_unsigned_tables(cupy, given, stored):
    dtype = np.dtype(stored)

    def stored_view(array):
        return _stored_views.stored_view(cupy.asarray(array), dtype, dtype, 0, 0, "keys")

    keys = np.array([0, 5, np.iinfo(given).max], given)
    array = cupy.asarray(keys)
    found = _stored_views.stored_view(array, dtype, dtype, 0, 0, "keys")
    assert found.dtype == dtype
    there = np.ctypeslib.as_array((ctypes.c_uint8 * found.nbytes).from_address(found.ptr)).view(dtype)
    assert there.tolist() == keys.tolist()
    assert (found.ptr == array.data.ptr) == (np.dtype(given).itemsize == dtype.itemsize)  # no copy
    with pytest.raises(OverflowError, match=rf"keys: element 1 is -5, which does not fit {dtype}"):
        stored_view(np.array([5, -5, -6], given))
    assert stored_view(np.empty(0, given)).size == 0


def test_negative_numbers_are_looked_for_on_the_stream_of_the_call(cupy, monkeypatch):
    looked, less = [], fake_libraries.ndarray.__lt__
    monkeypatch.setattr(
        fake_libraries.ndarray, "__lt__", lambda a, b: looked.append(fake_libraries.Stream.current) or less(a, b)
    )
    u8 = np.dtype("u8")
    _stored_views.stored_view(cupy.asarray(np.arange(3)), u8, u8, 0, 9, "keys")
    assert looked == [9]


@pytest.mark.parametrize(
    ("given", "dtype", "stored", "words"),
    [
        ("f4", "u8", "u8", "have dtype float32, the table holds uint64: convert them to uint64"),
        ("i8", "u4", "u4", "have dtype int64, the table holds uint32: convert them to uint32"),
        ("u4", "u2", "u4", "have dtype uint32, the table holds uint16: convert them to uint16"),
        ("f2", "f2", "u4", "float16 keys are not supported on a device"),
        ("f4", ("u4", 3), "V12", "have dtype float32, the table holds .*: convert them to uint32"),
    ],
)
def test_other_device_arrays_are_converted_by_the_caller(cupy, given, dtype, stored, words):
    with pytest.raises(TypeError, match=words):
        _stored_views.stored_view(
            cupy.asarray(np.zeros((2, 3), given)), np.dtype(dtype), np.dtype(stored), 0, 0, "keys"
        )
