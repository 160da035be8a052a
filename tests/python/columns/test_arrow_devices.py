"""Columns of Arrow's device interface: on the host they are read, on a GPU their numbers are seen where they lie.

`Column` makes the structs by hand; its "GPU" is memory of the host, as nothing here reads it. A card runs the verbs
over such columns in tests/gpu/test_arrow_devices.py.
"""

import ctypes

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _arrays, _arrow_devices, _cuda
from pygpuhash.columns import _buffers, read

CPU, CUDA, CUDA_HOST, MANAGED, METAL = 1, 2, 3, 13, 8


class ArrowArray(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")] + [
        (name, ctypes.c_void_p) for name in ("buffers", "children", "dictionary", "release", "private_data")
    ]


class ArrowDeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", ArrowArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


RELEASE = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Column:
    """A column of fixed width on a device, which makes a struct for each asking and counts their releases."""

    def __init__(self, values, device, format=None, first=0, nulls=0, validity=None, event=None, dictionary=None):
        self.values, self.validity, self.released = values, validity, 0
        self.format = format or {"int32": "i", "int64": "l", "float64": "g"}[values.dtype.name]
        self.device, self.number, self.dictionary = device, 5, dictionary
        self.length, self.first, self.nulls = len(values) - first, first, nulls

        def release(array):
            self.released += 1
            array.contents.release = None

        self._release = RELEASE(release)
        self._buffers = (ctypes.c_void_p * 2)(None if validity is None else validity.ctypes.data, values.ctypes.data)
        self._event = ctypes.c_void_p(event)
        self._structs = []

    def __arrow_c_device_array__(self, requested_schema=None):
        array = ArrowArray(
            length=self.length,
            null_count=self.nulls,
            offset=self.first,
            n_buffers=len(self._buffers),
            buffers=ctypes.addressof(self._buffers),
            release=ctypes.cast(self._release, ctypes.c_void_p).value,
        )
        event = ctypes.addressof(self._event) if self._event.value else None
        self._structs.append(ArrowDeviceArray(array, self.number, self.device, event))
        schema = _buffers.schema(self.format, dictionary=self.dictionary)
        return schema, capsule(ctypes.addressof(self._structs[-1]), b"arrow_device_array", None)


@pytest.mark.parametrize("device", [CPU, CUDA_HOST])
def test_memory_of_the_host_is_a_column(device):
    column = Column(np.array([7, 5, 5, -1]), device, first=1)
    assert not _arrays.on_device(column)
    codes, distinct = gh.factorize(column)
    assert np.asarray(codes).tolist() == [0, 0, 1]
    assert _buffers.View(distinct).values("i8").tolist() == [5, -1]
    del distinct, codes
    assert column.released == 1


def test_a_device_of_another_kind_is_named():
    with pytest.raises(TypeError, match="keys lies on device 5 of type 8 of Arrow's: copy it to the host"):
        gh.unique(Column(np.arange(3), METAL))


@pytest.mark.parametrize("device", [CUDA, MANAGED])
@pytest.mark.parametrize("validity", [None, np.array([255], "u1")])
def test_numbers_on_a_gpu_are_seen_where_they_lie(device, validity):
    values = np.array([1.5, 2.5, 3.5])
    column = Column(values, device, first=1, nulls=0 if validity is not None else -1, validity=validity)
    assert _arrays.on_device(column)
    seen = _arrow_devices.numbers(column, "keys")
    interface = seen.__cuda_array_interface__
    assert interface["data"] == (values.ctypes.data + 8, True)
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((2,), "<f8", None)
    assert column.released == 0
    del seen
    assert column.released == 1


def test_no_element_has_no_address():
    seen = _arrow_devices.numbers(Column(np.arange(0), CUDA), "keys")
    assert seen.__cuda_array_interface__["data"][0] == 0


def test_its_event_is_waited_for(monkeypatch):
    calls = []
    monkeypatch.setattr(_cuda, "call", lambda *arguments: calls.append(arguments))
    _arrow_devices.numbers(Column(np.arange(3), CUDA, event=0x1234), "keys")
    assert calls == [("cuEventSynchronize", 0x1234)]
    _arrow_devices.numbers(Column(np.arange(3), CUDA), "keys")
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"format": "vu"}, "keys is a column of type 'vu' of Arrow on a GPU, where columns are numbers, times, text"),
        ({"format": "b"}, "type 'b' of Arrow on a GPU.*convert it, or copy it to the host"),
        ({"dictionary": _buffers.schema("u")}, "keys is a column of a dictionary on a GPU"),
    ],
)
def test_other_columns_on_a_gpu_are_refused_by_name(given, message):
    with pytest.raises(TypeError, match=message):
        _arrow_devices.column(Column(np.arange(3), CUDA, **given), "keys")


@pytest.mark.parametrize("nulls", [1, -1])
def test_numbers_with_nulls_are_rows_of_bytes(nulls):
    values, validity = np.arange(3), np.array([5], "u1")
    column = Column(values, CUDA, nulls=nulls, validity=validity, first=1)
    seen = _arrow_devices.column(column, "keys")
    assert (seen.n, seen.first, seen.width, seen.ordinal, seen.format) == (2, 1, 8, 5, "l")
    assert (seen.data, seen.validity, seen.offsets) == (values.ctypes.data, validity.ctypes.data, 0)
    with pytest.raises(TypeError, match="values has nulls, or its library did not count them: drop or fill them"):
        _arrow_devices.numbers(column, "values")
    del seen
    assert column.released == 2


@pytest.mark.parametrize(
    ("format", "width"),
    [("tdD", 4), ("tts", 4), ("ttn", 8), ("tdm", 8), ("tsu:Europe/Vienna", 8), ("tDm", 8), ("d:20,3", 16), ("w:7", 7)],
)
def test_widths_of_elements(format, width):
    assert _arrow_devices.column(Column(np.arange(3), CUDA, format=format), "keys").width == width


def test_what_says_that_it_is_on_the_host_is_not_asked_for_its_structs():
    class Array:
        is_cpu = True

        def __arrow_c_device_array__(self, requested_schema=None):
            raise AssertionError("asked")

    assert not _arrays.on_device(Array())


def test_arrays_of_numba_and_the_like_stay_as_they_are():
    class Array:
        def __init__(self):
            self.__cuda_array_interface__ = {}

    array = Array()
    assert _arrow_devices.numbers(array, "keys") is array
    assert _arrow_devices.numbers(3, "keys") == 3


def test_a_capsule_is_taken_once():
    column = Column(np.arange(3), CPU)
    _, there = column.__arrow_c_device_array__()
    _buffers.of_device(there)
    with pytest.raises(ValueError, match="moved or released before"):
        _buffers.of_device(there)


def columns_of_text(pa):
    """Columns of text and bytes with what each of their elements is."""
    cells = ["", "a", None, "naïve", "x" * 40, None, "a\0", "日本"]
    long = pa.chunked_array([cells[:3], [], cells[3:]], pa.string())
    yield long, cells
    for type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()):
        yield pa.chunked_array([pa.array(cells, type_)]), cells
        yield pa.chunked_array([pa.array(cells, type_).slice(3, 4)]), cells[3:7]
        yield pa.chunked_array([pa.array([], type_)]), []
    offsets, letters = np.array([0, 2, 5, 6], np.int32), b"abJNKc"  # the null has bytes, too
    validity = pa.py_buffer(np.array([0b101], np.uint8))
    held = pa.Array.from_buffers(pa.string(), 3, [validity, pa.py_buffer(offsets), pa.py_buffer(letters)])
    yield pa.chunked_array([held]), ["ab", None, "c"]


def test_text_of_the_host_goes_to_a_device_as_it_is(monkeypatch):
    """What is copied says the elements. "Copies" are the arrays themselves here, at their own addresses."""
    pa = pytest.importorskip("pyarrow")

    class Copy:
        def __init__(self, array):
            self.array, self.ptr = array, id(self)

    monkeypatch.setattr(_cuda, "from_host", lambda array, ordinal, keeper: Copy(array))
    like = _arrow_devices.Bytes(None, "U", 0, 0, 0)
    for given, cells in columns_of_text(pa):
        there = _arrow_devices.of_host(read(given, "among"), like, None)
        offsets, letters, bits = (copy.array for copy in there.owner)
        assert there.format == ("U" if "string" in str(given.type) else "Z")
        assert there.n == len(cells)
        assert there.offset_bytes == 8
        assert offsets.dtype == np.int64
        assert letters.dtype == np.uint8
        found = [letters[offsets[i] : offsets[i + 1]].tobytes() for i in range(len(cells))]
        there_is = np.unpackbits(bits, count=len(cells), bitorder="little").astype(bool)
        assert there_is.tolist() == [cell is not None for cell in cells]
        assert (there.validity == 0) == (None not in cells)
        wanted = [cell.encode() for cell in cells if cell is not None]
        assert [cell for cell, is_one in zip(found, there_is, strict=True) if is_one] == wanted
