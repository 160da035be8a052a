"""What protocols of device arrays and the driver leave to us: streams, captures, errors, strides, kinds of memory."""

import contextlib
import gc
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import (
    _batch,
    _core,
    _cuda,
    _device_arrays,
    _device_batch,
    _device_queries,
    _stage,
    _stored_views,
    _streams,
)

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

KEYS = np.arange(3, 103, dtype=np.uint64)


@pytest.fixture
def cuda(monkeypatch):
    with fake_cuda.installed(monkeypatch) as fake:
        yield fake


class Interface:
    """An array with `__cuda_array_interface__` alone."""

    def __init__(self, array, stream=None, **said):
        self.array = array
        data, typestr = (array.ctypes.data, False), array.dtype.str
        interface = {"shape": array.shape, "typestr": typestr, "data": data, "version": 3, "stream": stream}
        self.__cuda_array_interface__ = interface | said


# ---- streams ---------------------------------------------------------------------------------------------------------


class Own(gh.Table):
    """A table of the CPU for one of a GPU."""

    __slots__ = ()

    def _create(self, name, kind, *rest):
        *most, stream, _ = rest
        super()._create(name, _core.CPU, *most, stream, 0)
        self._pretend(_core.CUDA)

    def _raw(self, *args, stream=0, **rest):
        return super()._raw(*args, **rest)


class Slabs(gh.SlabAllocator):
    __slots__ = ()

    def _create(self, name, kind, *rest):
        super()._create(name, _core.CPU, *rest[:-1], 0)


@pytest.fixture
def one_device(cuda, monkeypatch):
    monkeypatch.setattr(_core, "device_count", lambda kind: (1, ""))
    return cuda


@pytest.fixture
def both(cuda, monkeypatch):
    """CuPy and PyTorch, whose current streams are 41 and 51 on cuda:0, 42 and 52 on cuda:1."""
    # A type of its own: what was found out of one stays.
    kind = type("ndarray", (fake_libraries.ndarray,), {"__module__": "cupy"})
    cupy, torch = fake_libraries.cupy(monkeypatch, kind), fake_libraries.torch(monkeypatch)
    streams = {41 + device: fake_libraries.Stream(41 + device) for device in (0, 1)}
    streams |= {51 + device: SimpleNamespace(cuda_stream=51 + device) for device in (0, 1)}
    cupy.cuda.get_current_stream = lambda device=0: streams[41 + device]
    torch.cuda.current_stream = lambda device=0: streams[51 + device]
    return streams


@pytest.mark.parametrize("given", [12345, np.uint64(12345)])
def test_an_address_of_unknown_memory_is_never_read(one_device, both, given):
    """A stream that is closed, or an integer that is none: the driver would read the memory there."""
    one_device.gone = {12345}
    cupy = sys.modules["cupy"]
    keys = cupy.asarray(KEYS)
    with Own("skiplist", value_dtype="uint64", device="cuda") as table:
        calls = [
            lambda: Own("linear_probe", device="cuda", stream=given),
            lambda: Slabs(device="cuda", stream=given),
            lambda: gh.DeviceArray((3,), "u8", 0, given),
            lambda: gh.DeviceArray.from_dlpack(keys, stream=given),
            lambda: table.insert(keys, keys, stream=given),
            lambda: table.insert(KEYS, KEYS, stream=given),
            lambda: table.find(5, stream=given),
            lambda: table.get(keys, 7, stream=given),
            lambda: table.lower_bound(keys, stream=given),
            lambda: table.range(keys, keys, 3, stream=given),
            lambda: table.range(KEYS, KEYS, stream=given),
            lambda: table.find_all(KEYS, stream=given),
            lambda: table.export(stream=given),
            lambda: table.export(like=keys, stream=given),
            lambda: table.clear(stream=given),
            lambda: table.reserve(10, stream=given),
        ]
        for call in calls:
            with pytest.raises(gh.InvalidArgument, match=r"no stream that is known to be open: .*Stream.from_handle"):
                call()
        assert 12345 not in fake_libraries.asked  # nor handed to a producer
        assert len(table) == 0


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_default_streams_are_known_by_their_numbers(cuda, handle):
    assert _streams.usable_stream(handle, 0) == (handle, handle)


@pytest.mark.parametrize(("handle", "device"), [(41, 0), (51, 0), (42, 1), (52, 1)])
def test_an_address_of_a_current_stream_is_that_stream(cuda, both, handle, device):
    """And keeps it."""
    cuda.device_of = lambda stream: device
    assert _streams.usable_stream(handle, device) == (both[handle], handle)
    with pytest.raises(gh.InvalidArgument, match="known to be open"):
        _streams.usable_stream(handle, 1 - device)


def test_a_library_that_has_not_begun_has_no_current_stream(cuda, both):
    """To ask it would make it begin."""
    torch = sys.modules["torch"]
    torch.cuda.is_initialized = lambda: False
    torch.cuda.current_stream = None
    assert _streams.usable_stream(41, 0)[0] is both[41]
    with pytest.raises(gh.InvalidArgument, match="known to be open"):
        _streams.usable_stream(51, 0)


def test_an_address_of_the_streams_of_a_table_and_an_array(one_device, both):
    own, of_keys = fake_cuda.Stream(7), fake_cuda.Stream(8)
    keys = _cuda.from_host(KEYS, 0, of_keys)
    with Own("linear_probe", value_dtype="uint64", device="cuda", stream=own) as table:
        assert table._stream is own
        assert _streams.stream_of_call(table, 7) == (own, 7)
        assert _streams.stream_of_call(table, 8, keys) == (of_keys, 8)
        assert _streams.stream_of_call(table, None, keys) == (own, 7)
    with Own("linear_probe", value_dtype="uint64", device="cuda", stream=41) as table:
        assert table._stream is both[41]  # kept as long as the table
    with Own("linear_probe", value_dtype="uint64", device="cuda") as table:
        assert _streams.stream_of_call(table, None, keys) == (of_keys, 8)
        assert _streams.stream_of_call(table, None) == (None, 0)


def test_results_keep_the_stream_of_their_keys(one_device):
    """On which their memory is given back, in whichever order the keys and the stream are let go of."""
    stream = fake_cuda.Stream(8)
    keys = _cuda.from_host(KEYS, 0, stream)
    with Own("linear_probe", value_dtype="uint64", device="cuda") as table:
        mask = table.insert(keys, keys)
    assert mask._keeps is stream
    assert _streams.stream_keeper(mask, 0) is stream


def test_an_array_whose_stream_was_closed(cuda):
    """Its work is waited for; from then on the array is the default stream's."""
    stream = fake_cuda.Stream(8)
    array = _cuda.from_host(KEYS, 0, stream)
    waited = []
    cuda.driver.cuCtxSynchronize = lambda: waited.append(cuda.contexts[-1]) or (0,)
    stream.handle, stream.is_closed, cuda.gone = 0, True, {8}
    assert array.stream == 0
    assert array.__cuda_array_interface__["stream"] == 1
    assert _streams.current_stream(array, 0) == 0
    assert waited == [0]
    address = array.ptr
    del array
    gc.collect()
    assert cuda.freed == [(address, 1)]


# ---- captures --------------------------------------------------------------------------------------------------------


def test_memory_is_given_back_while_another_stream_is_captured(cuda):
    array = _cuda.DeviceArray((3,), "u8", 0, fake_cuda.Stream(7))
    cuda.capturing = {9}
    address = array.ptr
    del array
    gc.collect()
    assert cuda.freed == [(address, 7)]
    assert cuda.room["device"] == 1 << 40  # and it was
    assert cuda.mode == 0  # which is what it was
    with _cuda.relaxed():
        assert cuda.mode == fake_cuda.RELAXED
    assert cuda.mode == 0


def test_a_captured_stream_is_asked_nothing(cuda):
    """A capture does not survive the question of which device it is."""
    asked = []
    cuda.device_of = lambda stream: asked.append(stream) or 0
    cuda.capturing = {7}
    assert _streams.usable_stream(fake_cuda.Stream(7), 0)[1] == 7
    assert _streams.usable_stream(0, 0) == (0, 0)
    assert asked == []
    assert _streams.usable_stream(fake_cuda.Stream(8), 0)[1] == 8
    assert asked == [8]


def test_the_default_stream_while_another_one_is_captured(cuda):
    """It cannot be asked, and is not what is captured."""
    cuda.driver.cuStreamIsCapturing = lambda stream: (906, None)
    assert not _cuda.is_capturing(0)


# ---- errors ----------------------------------------------------------------------------------------------------------


def torch_with(monkeypatch, reserved, allocated, initialized=True):
    torch = fake_libraries.torch(monkeypatch)
    torch.cuda.is_initialized = lambda: initialized
    torch.cuda.memory_reserved = lambda device=None: reserved
    torch.cuda.memory_allocated = lambda device=None: allocated
    return torch


def cupy_with(monkeypatch, free):
    """A pool that has so many free bytes on each device."""
    cupy, here = fake_libraries.cupy(monkeypatch), [0]

    @contextlib.contextmanager
    def device(ordinal):
        here.append(ordinal)
        yield
        here.pop()

    cupy.cuda.Device = device
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: free[here[-1]])


def test_the_way_out_where_a_library_keeps_memory(cuda, monkeypatch):
    assert _cuda.cached_memory(0) == ""
    cupy_with(monkeypatch, {0: 0, 1: 3000})
    assert _cuda.cached_memory(0) == ""
    words = "cupy keeps 3,000 bytes that it does not use: call cupy.get_default_memory_pool().free_all_blocks()"
    assert _cuda.cached_memory(1) == f"; {words}, or pass memory='cupy'"
    torch_with(monkeypatch, 1 << 30, 1 << 20, initialized=False)
    assert _cuda.cached_memory(0) == ""
    torch = torch_with(monkeypatch, 1 << 30, 1 << 20)
    words = (
        "torch keeps 1,072,693,248 bytes that it does not use: call torch.cuda.empty_cache(), or pass memory='torch'"
    )
    assert _cuda.cached_memory() == f"; {words}"
    cupy_with(monkeypatch, {0: 1 << 31})
    assert _cuda.cached_memory(0).startswith("; cupy keeps 2,147,483,648 bytes")  # the one that keeps the most
    cupy_with(monkeypatch, {0: 0})
    torch.cuda.memory_reserved = None  # of another version: the error that there is stays
    assert _cuda.cached_memory(0) == ""


def test_errors_of_memory_name_the_way_out(cuda, monkeypatch, memory):
    """Where it is the driver that has refused memory."""
    torch_with(monkeypatch, 5000, 0)
    cuda.room["device"] = 10
    with pytest.raises(
        gh.NoMemory, match=r"OUT_OF_MEMORY.*; torch keeps 5,000 bytes .*empty_cache\(\), or pass memory="
    ):
        _cuda.DeviceArray((3,), "u8", 0)
    cuda.driver.cuMemcpyAsync = lambda *arguments: (2,)
    with pytest.raises(gh.NoMemory, match="torch keeps"):
        _cuda.call("cuMemcpyAsync", 1, 2, 3, 0)
    with pytest.raises(gh.NoMemory, match=r"cuMemcpyAsync failed: .*\(2\); torch keeps"):
        _cuda.copy(1, 2, 3, 0)

    class Short(type(memory)):
        def allocate(self, nbytes, alignment, stream):
            return super().allocate(nbytes, alignment, stream) if nbytes < 1 << 16 else None

    with gh.Table("linear_probe", device="cpu", memory=Short()) as table:
        table._pretend(_core.CUDA)
        with pytest.raises(gh.NoMemory) as caught:
            table.reserve(1 << 20)
        assert "torch" not in str(caught.value)  # it was not the driver


def test_a_table_of_the_drivers_memory_names_the_way_out(cuda, monkeypatch):
    torch_with(monkeypatch, 5000, 0)
    with gh.Table("linear_probe", device="cpu") as table:
        for on_cuda in (False, True):
            if on_cuda:
                table._pretend(_core.CUDA)
            with pytest.raises(gh.NoMemory) as caught:
                table.reserve(1 << 50)
            assert ("torch keeps 5,000 bytes" in str(caught.value)) == on_cuda


@pytest.mark.parametrize(("code", "error"), [(2, gh.NoMemory), (1, gh.DeviceError), (700, gh.DeviceError)])
def test_what_the_driver_says(cuda, code, error):
    cuda.driver.cuSomething = lambda argument: (code, argument)
    with pytest.raises(error, match=rf"cuSomething failed: an error \({code}\)") as caught:
        _cuda.call("cuSomething", 5)
    assert type(caught.value) is error
    cuda.driver.cuSomething = lambda argument: (0, argument)
    assert _cuda.call("cuSomething", 5) == 5


def test_memory_that_python_lacks_is_no_memory():
    for error, kind in (
        (MemoryError("none"), gh.NoMemory),
        (ValueError("odd"), gh.DeviceError),
        (TypeError("a mistake of the caller"), TypeError),
    ):
        with pytest.raises(kind) as caught, _cuda.translate_errors:
            raise error
        assert type(caught.value) is kind


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_what_an_array_says_of_itself(cuda):
    array = _cuda.from_host(KEYS, 0)
    assert array.__cuda_array_interface__ == {
        "shape": (100,),
        "typestr": KEYS.dtype.str,
        "data": (array.ptr, False),
        "strides": None,
        "stream": 1,  # 0 would be ambiguous, and is not allowed
        "version": 3,
    }
    assert _cuda.from_host(KEYS, 0, fake_cuda.Stream(9)).__cuda_array_interface__["stream"] == 9
    with pytest.raises(ValueError, match="without a copy"):
        array.__array__(copy=False)
    assert np.array_equal(array.__array__(copy=True), KEYS)
    assert array.__array__(np.dtype("f4")).dtype == np.float32


def test_what_is_done_on_a_device_is_done_in_its_context(cuda, monkeypatch):
    """Whichever is current: the table may be on another one."""
    pushed, push, pools = [], cuda.driver.cuCtxPushCurrent, []
    cuda.driver.cuCtxPushCurrent = lambda context: pushed.append(context) or push(context)
    cuda.core.DeviceMemoryResource = lambda device: pools.append(device) or fake_cuda.Resource(cuda, "device", device)
    array = _cuda.from_host(KEYS, 1)
    assert np.array_equal(array.get(), KEYS)
    assert array.__dlpack_device__() == _core.dlpack_read(array.__dlpack__())[5:7] == (2, 1)
    assert (_cuda.full((3,), np.array(5), 1, 0).get() == 5).all()
    _cuda.synchronize(1)
    del array
    gc.collect()
    torch = fake_libraries.torch(monkeypatch)
    assert np.array_equal(_device_arrays.to_host(torch.Tensor(KEYS, device=1), 1, 0, "keys"), KEYS)
    mask = torch.Tensor(np.array([1, 2, 0], np.uint8).view(bool), device=1)
    with pytest.raises(gh.TableFull) as caught:
        _device_batch.fail(SimpleNamespace(_ordinal=1), gh.TableFull("full"), mask, True, 0)
    cuda.bring(0)
    assert caught.value.status.tolist() == [1, 2, 0]
    assert mask.array.view(np.uint8).tolist() == [1, 0, 0]
    stage = _stage.Stage(_core.CUDA, 1, 0)
    assert stage.upload(KEYS)
    assert stage.room(3, "u8").device == 1
    monkeypatch.setattr(_device_batch, "serve", lambda *arguments: cuda.contexts[-1])
    on_gpu = SimpleNamespace(_kind=_core.CUDA, _ordinal=1)
    assert _batch.batch(on_gpu, _batch.Call(_core.OP_FIND, torch.Tensor(KEYS), *[None] * 6, 0, 0)) == 1
    assert len(pushed) > 6
    assert (set(pushed), set(pools)) == ({1}, {1})
    assert not cuda.contexts


def test_an_array_of_a_device_that_has_failed_goes_silently(cuda, monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    array = _cuda.DeviceArray((3,), "u8", 0)
    cuda.driver.cuCtxPushCurrent = lambda context: (700,)
    del array
    gc.collect()
    assert heard == []


@pytest.mark.parametrize("n", [1, 4096, 4097, 20_000, 200_000])
def test_an_array_of_one_value_is_written_on_its_stream(cuda, n):
    array = _cuda.full((n,), np.array(5, "u8"), 0, fake_cuda.Stream(9))
    assert cuda.end_of(0) == 0
    assert cuda.end_of(9) <= 7  # copies, of which each has twice as many elements
    assert (array.get() == 5).all()


@pytest.mark.parametrize(("stream", "waits"), [(None, 1), (1, 1), (9, 0), (-1, 0), (8, 1)])
def test_who_takes_an_array_over_waits_for_its_stream(cuda, stream, waits):
    """None is the default stream; -1 asks for no waiting."""
    array = _cuda.DeviceArray((3,), "u8", 0, fake_cuda.Stream(9))
    before = cuda.end_of(stream or 0)
    array.__dlpack__(stream=stream)
    assert cuda.end_of(stream or 0) == before + waits


def test_an_interface_that_must_not_be_written(cuda, monkeypatch):
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    array = Interface(KEYS, data=(KEYS.ctypes.data, True))
    assert _device_arrays.view(array, 0, 0, "keys").ptr == KEYS.ctypes.data
    with pytest.raises(ValueError, match="out is read-only"):
        _device_arrays.output(array, KEYS.dtype, KEYS.shape, 0, 0, "out")


@pytest.mark.parametrize(("stream", "told"), [(0, 1), (1, 1), (2, 2), (9, 9)])
def test_the_number_of_a_stream_for_dlpack(cuda, monkeypatch, stream, told):
    """0 would be ambiguous, and is not allowed."""
    torch = fake_libraries.torch(monkeypatch)
    array = torch.Tensor(KEYS)
    fake_libraries.asked.clear()
    _device_arrays.view(array, 0, stream, "keys")
    assert fake_libraries.asked == [told]


@pytest.mark.parametrize("kind", [2, 13])
def test_memory_that_dlpack_hands_over(cuda, monkeypatch, kind):
    torch = fake_libraries.torch(monkeypatch)
    array = gh.DeviceArray.from_dlpack(torch.Tensor(KEYS, kind=kind))
    assert np.array_equal(array.get(), KEYS)
    with pytest.raises(gh.InvalidArgument, match="kind 3"):
        gh.DeviceArray.from_dlpack(torch.Tensor(KEYS, kind=3))


def test_managed_memory_is_of_every_device(cuda, monkeypatch):
    torch = fake_libraries.torch(monkeypatch)
    assert _device_arrays.view(torch.Tensor(KEYS, device=1, kind=13), 0, 0, "keys").ptr == KEYS.ctypes.data


@pytest.mark.parametrize(("code", "bits"), [(4, 16), (10, 8), (1, 4)], ids=["bfloat16", "float8", "uint4"])
def test_dtypes_that_numpy_does_not_know(cuda, code, bits):
    class Array:
        def __dlpack__(self, *, stream):
            return _core.dlpack_write(self, KEYS.ctypes.data, KEYS.shape, code, bits, 2, 0)

    with pytest.raises(TypeError, match=rf"keys have a DLPack dtype \(code {code}, {bits} bits\) that numpy does not"):
        _device_arrays.view(Array(), 0, 0, "keys")


def test_an_array_of_another_device_is_not_exported(cuda, monkeypatch):
    """PyTorch would refuse, with words about its current device."""
    torch = fake_libraries.torch(monkeypatch)
    there = torch.Tensor(KEYS, device=1)
    fake_libraries.asked.clear()
    with pytest.raises(gh.InvalidArgument, match="on cuda:1, the table on cuda:0"):
        _device_arrays.view(there, 0, 0, "keys")
    assert fake_libraries.asked == []


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [
        ((100,), None, True),
        ((100,), (8,), True),
        ((100,), (1,), False),
        ((50,), (16,), False),
        ((2,), (16,), False),
        ((2,), (-8,), False),
        ((2, 50), (400, 8), True),
        ((2, 50), (8, 16), False),
        ((50, 2), (16, 8), True),
        ((50, 2), (16, 4), False),
        ((1, 100), (5, 8), True),
        ((100, 1), (8, 5), True),
        ((3, 0), (1, 1), True),
        ((), (), True),
    ],
)
def test_strides_of_an_interface(cuda, monkeypatch, shape, strides, fits):
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    array = Interface(KEYS, shape=shape, strides=strides)
    if not fits:
        with pytest.raises(ValueError, match="keys are strided"):
            _device_arrays.view(array, 0, 0, "keys")
        return
    found = _device_arrays.view(array, 0, 0, "keys")
    assert (found.ptr, found.shape, found.dtype) == (KEYS.ctypes.data, shape, KEYS.dtype)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"mask": KEYS}, TypeError, "have a mask"),
        ({"typestr": ">u8"}, TypeError, "native byte order"),
    ],
)
def test_interfaces_that_are_refused(cuda, monkeypatch, said, error, words):
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    with pytest.raises(error, match=words):
        _device_arrays.view(Interface(KEYS, **said), 0, 0, "keys")


def test_an_empty_interface_has_no_address():
    found = _device_arrays.view(
        Interface(KEYS.reshape(4, 25)[:, :0], data=(None, False), strides=(8, 16)), 0, 0, "keys"
    )
    assert (found.ptr, found.shape, found.nbytes) == (0, (4, 0), 0)


@pytest.mark.parametrize("producer", [1, 2, 7])
@pytest.mark.parametrize("stream", [0, 9])
def test_the_producer_is_waited_for_whichever_stream_it_is(cuda, monkeypatch, producer, stream):
    """Default streams, too: of the two handles 0 and 1 both mean the one that is meant without a stream."""
    cuda.contexts.append(0)
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    done = []
    cuda.queue(producer, lambda: done.append(True))
    _device_arrays.view(Interface(KEYS, producer), 0, stream, "keys")
    cuda.bring(stream)
    assert done


def test_memory_of_a_call(cuda):
    """Results are waited for on the stream of the call. There may be less memory than addresses."""
    room = _stage.Stage(_core.CUDA, 0, 9).room((2, 3), "u4")
    assert (room.stream, room.shape, room.dtype) == (9, (2, 3), np.uint32)
    for n in (1 << 55, 1 << 62):
        with pytest.raises(gh.NoMemory, match=rf"no memory for results of shape \({n},\), .* bytes: ask for fewer"):
            _stage.Stage(_core.CPU, 0, 0).room(n, "u8")
    array, stage = np.arange(3), _stage.Stage(_core.CPU, 0, 0)
    before = sys.getrefcount(array)
    assert stage.upload(array) == array.ctypes.data
    assert sys.getrefcount(array) > before  # it is there until the stage is not


# ---- libraries -------------------------------------------------------------------------------------------------------


def test_the_current_stream_of_a_library_is_that_on_the_device_of_the_table(cuda, monkeypatch):
    cupy, torch = fake_libraries.cupy(monkeypatch), fake_libraries.torch(monkeypatch)
    cupy.cuda.get_current_stream = lambda device=0: fake_libraries.Stream(40 + device)
    torch.cuda.current_stream = lambda device=0: SimpleNamespace(cuda_stream=50 + device)
    arrays = (
        cupy.asarray(KEYS),
        torch.Tensor(KEYS),
        _cuda.DeviceArray((3,), "u8", 0, fake_cuda.Stream(7)),
        Interface(KEYS),
    )
    assert [_streams.current_stream(array, 1) for array in arrays] == [41, 51, 7, 0]
    of_others = (type("Other", (type(array),), {"__module__": "other"}) for array in arrays[:2])
    assert [_streams.current_stream(kind.__new__(kind), 1) for kind in of_others] == [41, 51]


def test_results_of_torch_are_made_on_the_device_and_the_stream_of_the_call(cuda, monkeypatch):
    torch, streams, made = fake_libraries.torch(monkeypatch), [], []
    torch.cuda.ExternalStream = lambda stream, device: (stream, device)
    torch.cuda.default_stream = lambda device: (0, device)
    torch.cuda.current_stream = lambda device: SimpleNamespace(cuda_stream=5)  # which need not be entered
    torch.cuda.stream = lambda stream: streams.append(stream) or contextlib.nullcontext()
    torch.empty = lambda shape, dtype, device: made.append((shape, dtype, device))
    for stream in (9, 0, 5):
        _device_arrays.empty_like(torch.Tensor(KEYS), (3,), np.dtype("u4"), 1, stream)
    assert streams == [(9, 1), (0, 1)]
    assert made == [((3,), "uint32", "cuda:1")] * 3


@pytest.mark.parametrize("module", ["numba.cuda.cudadrv.devicearray", "numba_cuda.numba.cuda.devicearray"])
def test_results_of_numba_are_made_on_the_stream_of_the_call(monkeypatch, module):
    numba = ModuleType("numba")
    numba.cuda = SimpleNamespace(device_array=lambda *a, stream: (*a, stream), external_stream=lambda handle: [handle])
    monkeypatch.setitem(sys.modules, "numba", numba)
    array = type("DeviceNDArray", (), {"__module__": module})()
    assert _device_arrays.empty_like(array, (3,), np.dtype("u4"), 0, 9) == ((3,), np.dtype("u4"), [9])
    assert _device_arrays.empty_like(array, (3,), np.dtype("u4"), 0, 0) == ((3,), np.dtype("u4"), 0)


def test_results_of_our_own_keep_their_stream(cuda):
    """In whose order their memory is given back."""
    owner = SimpleNamespace(ptr=9)
    array = _device_arrays.empty_like(_cuda.from_host(KEYS, 0), (3,), np.dtype("u4"), 0, owner)
    assert array._keeps is owner
    assert (array.stream, array.shape, array.dtype) == (9, (3,), np.uint32)


def test_streams_of_a_cupy_that_takes_numbers(cuda, monkeypatch):
    """Before version 14."""
    cupy = fake_libraries.cupy(monkeypatch)
    cupy.cuda.Stream = SimpleNamespace(null="null")
    cupy.cuda.ExternalStream = lambda stream, device: (stream, device)
    monkeypatch.setattr(fake_libraries.Stream, "current", 5)
    assert _streams.cupy_stream(cupy, 9, 1) == (9, 1)
    assert _streams.cupy_stream(cupy, 0, 1) == "null"


def test_one_value_is_an_array_of_the_library_of_the_keys(cuda, monkeypatch):
    """Whose memory is captured with the rest, and is not given to another allocation before the call."""
    cupy = fake_libraries.cupy(monkeypatch)
    found = _stored_views.filled(cupy.asarray(KEYS), (3,), np.array(0.5, "f4"), 0, 9)
    assert not cuda.allocated
    assert found.owner.data.ptr == found.ptr
    assert (found.shape, found.dtype) == ((3,), np.float32)
    assert found.owner.array.view("f4").tolist() == [0.5] * 3


# ---- a table that changes between the two passes of find_all ---------------------------------------------------------


class Meanwhile:
    """A table to which something happens after a pass, or that refuses one."""

    def __init__(self, table, happens=None, refuses=(0, None)):
        self.table, self.happens, self.refuses, self.calls = table, happens, refuses, 0

    def __getattr__(self, name):
        return getattr(self.table, name)

    def _find_all(self, *arguments):
        self.calls += 1
        failure = self.table._find_all(*arguments)
        if self.happens and self.calls == 1:
            self.happens(self.table._pretend(_core.CPU))
            self.table._pretend(_core.CUDA)
        return self.refuses[1] if self.calls >= self.refuses[0] > 0 else failure


@pytest.fixture
def duplicates():
    with gh.Table("slab_hash", device="cpu", value_dtype="uint64", seed=7, duplicates=True) as table:
        table.insert_multi(np.repeat(KEYS, 3), np.arange(300, dtype=np.uint64))
        yield table._pretend(_core.CUDA)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("happens", "calls", "each"),
    [
        (None, 2, 3),
        (lambda t: t.insert_multi(KEYS, KEYS), 3, 4),
        (lambda t: t.erase_all(KEYS[::2]), 2, None),
        (lambda t: t.clear(), 2, 0),
    ],
    ids=["nothing", "more", "fewer", "none"],
)
def test_pairs_that_come_and_go_between_the_passes(cuda, monkeypatch, duplicates, own, happens, calls, each):
    cupy = fake_libraries.cupy(monkeypatch)
    spy = Meanwhile(duplicates, happens)
    offsets, values = _device_queries.find_all(spy, _cuda.from_host(KEYS, 0) if own else cupy.asarray(KEYS), None)
    offsets, values = (a.get() if own else a.array for a in (offsets, values))
    many = np.full(100, each) if each is not None else np.where(np.arange(100) % 2, 3, 0)
    assert spy.calls == calls
    assert offsets.tolist() == [0, *np.cumsum(many)]
    assert values.shape == (offsets[-1],)
    for i, key in enumerate(KEYS):
        expected = [3 * i, 3 * i + 1, 3 * i + 2, key][: many[i]]
        assert sorted(values[offsets[i] : offsets[i + 1]]) == sorted(expected)


def test_the_first_rows_are_copied_on_the_stream_of_the_call(cuda):
    rows = _cuda.from_host(np.arange(12, dtype="u4").reshape(4, 3), 0, fake_cuda.Stream(9))
    head = _device_queries._head(rows, 2, SimpleNamespace(device=0, stream=9, owner=fake_cuda.Stream(9)))
    assert cuda.end_of(0) == 0
    assert head.get().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("refused", [gh.InvalidArgument("no"), gh.DeviceError("no")])
@pytest.mark.parametrize("call", [1, 2])
def test_a_pass_that_is_refused(cuda, monkeypatch, duplicates, refused, call):
    """What more room does not cure ends the call."""
    cupy = fake_libraries.cupy(monkeypatch)
    spy = Meanwhile(duplicates, refuses=(call, refused))
    with pytest.raises(type(refused), match="no"):
        _device_queries.find_all(spy, cupy.asarray(KEYS), None)
    assert spy.calls <= 2
