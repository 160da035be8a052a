"""Memory, streams and copies of CUDA devices, through cuda-python.

`cuda.core` makes and frees memory, streams and events; `cuda.bindings` has what it does not: making a device's primary
context current and putting the old one back, and copies between plain addresses. Both are imported on first use:
importing pygpuhash needs neither them nor a driver. They are optional: the extras `cuda`, `cuda12` and `cuda13` of
the distribution install them. Written for cuda-core 0.5 to 1.2 and cuda-bindings 12.9 to 13.5.

All work is done in the device's primary context, the one that the CUDA runtime and every framework use.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import mmap
import re
import sys
import threading
from typing import Any

import numpy as np

from pygpuhash import _core, _views
from pygpuhash.errors import DeviceError, Forked, GpuHashError, InvalidArgument, NoMemory

__all__ = [
    "DEFAULT_STREAMS",
    "Address",
    "DeviceArray",
    "PinnedMemory",
    "cached_memory",
    "copy",
    "copy_from_host",
    "copy_to_host",
    "core",
    "current",
    "driver",
    "from_host",
    "full",
    "is_capturing",
    "keeper",
    "memory_of",
    "missing",
    "relaxed",
    "require",
    "stream_at",
    "synchronize",
    "working",
]

_DLPACK_CODE = {"i": 0, "u": 1, "f": 2, "b": 6}
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED
_LEGACY_DEFAULT_STREAM = 1  # CU_STREAM_LEGACY; cuda.core may take 0 for no stream
_LEGACY = (0, _LEGACY_DEFAULT_STREAM)
DEFAULT_STREAMS = 2  # handles up to this one are a default stream, of whichever device is current
_HUGE_PAGE = 1 << 21
_FILLED_BY_THE_HOST = (
    1 << 12
)  # elements of an array of one value that are copied from the host; the device copies the rest


# ---- cuda-python -----------------------------------------------------------------------------------------------------


# One thread at a time: these modules take the place of others in sys.modules while they are being imported, and Python
# hands such a one to a second thread before it is complete. Held for an import only: results are cached.
_importing = threading.RLock()


def _imported(name: str) -> Any:
    with _importing:
        return importlib.import_module(name)


PACKAGES = {"cuda.core": "cuda-core", "cuda.bindings.driver": "cuda-bindings"}


@functools.cache
def core() -> Any:
    """The module cuda.core."""
    return _of_cuda_python("cuda.core")


@functools.cache
def driver() -> Any:
    """The driver's functions, of cuda.bindings. Each returns (status, results...), which `call` takes apart."""
    return _of_cuda_python("cuda.bindings.driver")


def require() -> None:
    """Raise DeviceError, which names the way out, unless both packages can be imported."""
    core()
    driver()


def _of_cuda_python(module: str) -> Any:
    try:
        return _imported(module)
    except ImportError as error:
        package = PACKAGES[module]
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise DeviceError(f"a table on a GPU needs {package} ({error}): {install()}{_older_driver()}") from error
        raise DeviceError(
            f"{package} cannot be imported ({error}): versions of cuda-core and cuda-bindings that fit each other "
            f"come with {install(upgrade=True)}"
        ) from error


def _older_driver() -> str:
    """Words that this build needs a newer driver, which a user has to know before installing packages; else ""."""
    built = re.search(r"CUDA: (\d+)\.", _core.build_info())
    with contextlib.suppress(GpuHashError):
        if built and _core.device_count(_core.CUDA)[0]:
            version = _core.device_info(_core.CUDA, 0)["driver_version"]
            if version // 1000 < int(built[1]):
                return (
                    f"; but this build of gpuhash needs a driver for CUDA {built[1]}.0 or newer, and here is one for "
                    f"CUDA {version // 1000}.{version % 1000 // 10}: pygpuhash backends says what to do"
                )
    return ""


def missing() -> str | None:
    """Which of the packages are not installed, and how to install them; None where both are. Imports none of them."""
    import importlib.util  # takes a while, and most programs have no GPU

    absent = []
    for module, package in PACKAGES.items():
        try:
            found = importlib.util.find_spec(module.removesuffix(".driver"))
        except (ImportError, ValueError):  # there is no package `cuda`, or one that is no package
            found = None
        if found is None:
            absent.append(package)
    return (
        f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed: {install()}" if absent else None
    )


def install(*, upgrade: bool = False) -> str:
    """The command that installs the packages which fit the driver of this machine."""
    extra = "cuda"
    with contextlib.suppress(GpuHashError):
        if _core.device_count(_core.CUDA)[0]:
            major = _core.device_info(_core.CUDA, 0)["driver_version"] // 1000
            extra += str(major) if major in (12, 13) else ""
    return f"pip install {'-U ' if upgrade else ''}'gpuhash[{extra}]'"


class _TranslateErrors:
    """Errors of cuda-python leave as this package's."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, (GpuHashError, TypeError)):
            out_of_memory = isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error)
            raise _failure(str(error), out_of_memory, "NOT_INITIALIZED" in str(error)) from error


translate_errors = _TranslateErrors()


def _failure(sentence: str, out_of_memory: bool, not_initialized: bool) -> GpuHashError:
    if not_initialized and _core.forks():
        return Forked("this process was forked after CUDA had been initialised; start it with spawn instead of fork")
    return NoMemory(sentence + cached_memory()) if out_of_memory else DeviceError(sentence)


def cached_memory(device: int | None = None) -> str:
    """Words for what to call where a loaded library keeps memory of the device that it does not use: of the library
    that keeps the most; else none."""
    most, sentence = 0, ""
    for name, unused, give_up in (
        ("torch", _unused_by_torch, "torch.cuda.empty_cache()"),
        ("cupy", _unused_by_cupy, "cupy.get_default_memory_pool().free_all_blocks()"),
    ):
        module, nbytes = sys.modules.get(name), 0
        if module is not None:
            with contextlib.suppress(Exception):  # the sentence is for another error, which it must not hide
                nbytes = unused(module, device)
        if nbytes > most:
            most = nbytes
            sentence = f"; {name} keeps {nbytes:,} bytes that it does not use: call {give_up}, or pass memory={name!r}"
    return sentence


_core.explain_no_memory(cached_memory)


def _unused_by_torch(torch: Any, device: int | None) -> int:
    if not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.memory_reserved(device)) - int(torch.cuda.memory_allocated(device))


def _unused_by_cupy(cupy: Any, device: int | None) -> int:
    with contextlib.nullcontext() if device is None else cupy.cuda.Device(device):
        return int(cupy.get_default_memory_pool().free_bytes())


def call(name: str, *arguments: Any) -> Any:
    """One call of the driver: its result, or an exception with the driver's name for what went wrong."""
    library = driver()
    with translate_errors:
        code, *results = getattr(library, name)(*arguments)
    if int(code) == 0:
        return results[0] if results else None
    raise _failed(name, code)


def _failed(name: str, code: Any) -> GpuHashError:
    library = driver()
    found = library.cuGetErrorString(code)[1]
    sentence = found.decode() if isinstance(found, bytes) else "unknown error"
    out_of_memory = code == library.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    return _failure(f"{name} failed: {sentence} ({int(code)})", out_of_memory, int(code) == _NOT_INITIALIZED)


@functools.cache
def _primary_context(ordinal: int) -> Any:
    with translate_errors:
        core().Device(ordinal)  # initialises the driver
    return call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal))


class current:
    """Makes a device's primary context current in this thread, and puts the old one back."""

    def __init__(self, ordinal: int) -> None:
        self.context = _primary_context(ordinal)

    def __enter__(self) -> None:
        call("cuCtxPushCurrent", self.context)

    def __exit__(self, *exception: object) -> None:
        call("cuCtxPopCurrent")


class working:
    """`relaxed()` and `current(ordinal)` at once, in half the time."""

    def __init__(self, ordinal: int) -> None:
        self.context = _primary_context(ordinal)
        self.exchange, self.push, self.pop, self.mode = _working_calls()

    def __enter__(self) -> None:
        code, self.before = self.exchange(self.mode)
        if code:
            raise _failed("cuThreadExchangeStreamCaptureMode", code)
        code = self.push(self.context)[0]
        if code:
            self.exchange(self.before)
            raise _failed("cuCtxPushCurrent", code)

    def __exit__(self, *exception: object) -> None:
        self.pop()
        self.exchange(self.before)


@functools.cache
def _working_calls() -> tuple[Any, Any, Any, Any]:
    library = driver()
    mode = library.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    return library.cuThreadExchangeStreamCaptureMode, library.cuCtxPushCurrent, library.cuCtxPopCurrent, mode


class _Relaxed:
    """Lets this thread allocate and wait while a stream, which is not used here, is being captured into a graph."""

    def __enter__(self) -> None:
        modes = driver().CUstreamCaptureMode
        self.before = call("cuThreadExchangeStreamCaptureMode", modes.CU_STREAM_CAPTURE_MODE_RELAXED)

    def __exit__(self, *exception: object) -> None:
        call("cuThreadExchangeStreamCaptureMode", self.before)


def relaxed() -> _Relaxed:
    """A context in which captures of other streams forbid nothing."""
    return _Relaxed()


def is_capturing(stream: int) -> bool:
    """Is work of this stream being captured into a graph?"""
    if stream in _LEGACY:  # whose work never is
        return False
    try:
        return int(call("cuStreamIsCapturing", stream)) != 0
    except DeviceError:  # the default stream, while another one is captured that would have to wait for it
        return False


def stream_at(handle: int) -> Any:
    """The `cuda.core.Stream` of a handle, which the caller owns. 0 and 1 are the legacy default stream."""
    return core().Stream.from_handle(handle or _LEGACY_DEFAULT_STREAM)


class Address:
    """A stream's address as an object of the stream protocol."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def keeper(stream: Any, device: int, *known: Any) -> Any:
    """The object that keeps a stream open: the one that was passed, or one for a number."""
    handle = _core.stream_handle(stream)
    if handle <= DEFAULT_STREAMS or not isinstance(stream, (int, np.integer)):
        return stream
    for other in (*known, *_current_streams(device)):
        if other is not None and not isinstance(other, (int, np.integer)) and _core.stream_handle(other) == handle:
            return other
    raise InvalidArgument(
        f"stream={stream!r} is the address of no stream that is known to be open: pass the stream itself, an object "
        "with __cuda_stream__, .cuda_stream or .ptr; for one that you keep open, cuda.core.Stream.from_handle(address)"
    )


def _current_streams(device: int) -> tuple[Any, ...]:
    """The streams on which the libraries that are loaded would launch work now."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    streams = []
    if torch is not None and torch.cuda.is_initialized():
        streams.append(torch.cuda.current_stream(device))
    if cupy is not None:
        streams.append(cupy.cuda.get_current_stream(device))
    return tuple(streams)


@functools.cache
def memory_of(ordinal: int) -> Any:
    """The memory resource over a device's current memory pool, which CuPy's and the runtime's calls use as well."""
    with translate_errors:
        return core().DeviceMemoryResource(ordinal)


class PinnedMemory:
    """Host memory from and to which copies run beside other work; not in a forked child's.

    It is made of huge pages where the system has them, which are pinned several times as fast as others.
    """

    def __init__(self, nbytes: int) -> None:
        try:
            self._map: mmap.mmap | None = mmap.mmap(-1, nbytes + _HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._map.madvise(mmap.MADV_DONTFORK)  # a page that parent and child have would move when one writes to it
            with contextlib.suppress(OSError):  # a system without them
                self._map.madvise(mmap.MADV_HUGEPAGE)
            start = np.frombuffer(self._map, np.uint8).ctypes.data
            self.address = -(-start // _HUGE_PAGE) * _HUGE_PAGE
            _core.Copies([(self.address, 0, nbytes, _core.COPY_TOUCH)]).end()  # the driver's one thread takes longer
            call("cuMemHostRegister", self.address, nbytes, 0)
            # Unmapped by `close` alone: the driver would go on taking its addresses for these pages.
            _core.keep(self._map)
        except (OSError, GpuHashError):  # a system that pins only what the driver has allocated
            self._map = None
            self.address = int(call("cuMemAllocHost", nbytes))

    def close(self) -> None:
        """Give the memory back; the context is current."""
        if self._map is None:
            call("cuMemFreeHost", self.address)
        else:
            call("cuMemHostUnregister", self.address)
            self._map.close()


# ---- arrays ----------------------------------------------------------------------------------------------------------


class DeviceArray:
    """A C-contiguous array over a `cuda.core.Buffer`, for results whose producer's library cannot be asked to make one.

    It offers `__cuda_array_interface__` and `__dlpack__`, so that any library can take it over without a copy:
    `cupy.asarray(a)`, `torch.from_dlpack(a)`. `get()` (and `numpy.asarray`) copies it to the host. `from_dlpack(a)` is
    the way back: a view of an array of any library.

    Attributes: `shape`, `dtype` (numpy), `ptr` (address), `device` (ordinal), `stream` (handle of the stream that last
    wrote it), `buffer` (None of an empty array). The array keeps the object that was passed as its stream, in whose
    order its memory is given back.
    """

    __array_priority__ = 100

    buffer: Any
    nbytes: int

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: int, stream: Any = None) -> None:
        self._adopt(shape, dtype, device, stream)
        if self.nbytes:
            with current(device), translate_errors:
                self.buffer = memory_of(device).allocate(self.nbytes, stream=stream_at(self.stream))
            self.ptr = int(self.buffer.handle)
            self._owned = True

    def _adopt(self, shape: tuple[int, ...], dtype: Any, device: int, stream: Any) -> None:
        self.buffer = None
        self._owned = False  # by this array, which then gives it back
        self._forks = _core.forks()
        self.ptr = 0
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.device = device
        self._write_on(keeper(stream, device))
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.dtype.itemsize

    def _write_on(self, keeper: Any) -> None:
        """From now on the array is ready when the stream of this object has come to what was queued."""
        self._keeps = keeper
        self._stream = _core.stream_handle(keeper)

    @property
    def stream(self) -> int:
        """Handle of the stream that last wrote the array."""
        return _core.stream_handle(self._stream_keeper())

    def _stream_keeper(self) -> Any:
        """The object that keeps that stream open. Where it is closed, waits for its work; then the default stream."""
        if getattr(self._keeps, "is_closed", False):
            with relaxed(), current(self.device):
                call("cuCtxSynchronize")
            self._write_on(None)
        return self._keeps

    @classmethod
    def from_dlpack(cls, array: Any, *, stream: Any = None) -> DeviceArray:
        """A view of a C-contiguous CUDA array of any library, made ready for `stream` by that library."""
        kind, ordinal = array.__dlpack_device__()
        if kind not in (2, 13):
            raise InvalidArgument(f"the array is on a device of DLPack's kind {kind}: pass one on a CUDA device")
        stream = keeper(stream, ordinal)
        with current(ordinal):
            found = _views.checked(
                *_views.from_dlpack(array, _core.stream_handle(stream), "the array"), ordinal, "the array"
            )
        return cls._over(found, found.shape, ordinal, stream)

    @classmethod
    def _over(cls, found: Any, shape: tuple[int, ...], device: int, stream: Any) -> DeviceArray:
        """A view of the first elements of a `DeviceView`."""
        self = cls.__new__(cls)
        self._adopt(shape, found.dtype, device, stream)
        if self.nbytes:
            self.buffer = core().Buffer.from_handle(found.ptr, self.nbytes, owner=found.owner)
            self.ptr = found.ptr
        return self

    def _first(self, n: int) -> DeviceArray:
        """The first n elements, over the same memory."""
        found = _views.DeviceView(self.ptr, self.shape, self.dtype, self)
        return DeviceArray._over(found, (n,), self.device, self._stream_keeper())

    # Names of modules are gone when the interpreter ends: what this needs comes with it.
    def __del__(self, abandoned: Any = _core.abandoned, keep: Any = _core.keep) -> None:
        if not getattr(self, "_owned", False):
            return
        if abandoned(self._forks):
            keep(self.buffer)
            return
        # The device may have failed.
        with contextlib.suppress(DeviceError), relaxed(), current(self.device), translate_errors:
            self.buffer.close(stream_at(self.stream))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray cuda:{self.device} shape={self.shape} dtype={self.dtype}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr, False),
            "strides": None,
            "stream": self.stream or 1,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(
        self, *, stream: int | None = None, dl_device: tuple[int, int] | None = None, copy: Any = None, **_: Any
    ) -> Any:
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError(
                f"an array on cuda:{self.device} is handed out as it is, without a copy: copy it yourself"
            )
        written = self.stream
        if stream != -1 and (stream or 1) != (written or 1):
            with current(self.device), translate_errors:
                stream_at(stream or 1).wait(stream_at(written))
        code = _DLPACK_CODE[self.dtype.kind]
        return _core.dlpack_write(self, self.ptr, self.shape, code, 8 * self.dtype.itemsize, 2, self.device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a device cannot become a numpy array without a copy")
        return self.get() if dtype is None else self.get().astype(dtype)

    def get(self) -> np.ndarray[Any, Any]:
        """A copy on the host; waits for the stream that wrote the array."""
        host = np.empty(self.shape, self.dtype)
        copy_to_host(host, self.ptr, self.device, self.stream)
        return host


_core.own_arrays(DeviceArray)


# ---- copies ----------------------------------------------------------------------------------------------------------


def copy(to: int, source: int, nbytes: int, stream: int) -> None:
    """Queue a copy between any two addresses, of the current device and of the host."""
    if not nbytes:
        return
    code = driver().cuMemcpyAsync(to, source, nbytes, stream)[
        0
    ]  # not by `call`, which takes as long as the copy of a word
    if code:
        raise _failed("cuMemcpyAsync", code)


def synchronize(device: int, stream: int = 0) -> None:
    """Wait for all work of a stream."""
    with current(device), translate_errors:
        stream_at(stream).sync()


def copy_to_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    """Fill a C-contiguous host array from device memory; returns when it is there."""
    if host.nbytes:
        with current(device), translate_errors:
            copy(host.ctypes.data, address, host.nbytes, stream)
            stream_at(stream).sync()


def numbers_at(address: int, many: int, stream: int) -> list[int]:
    """Neighbouring int64 of the current device, when the stream has come to them."""
    found = np.empty(many, np.int64)
    if stream in _LEGACY:  # on which this one call works, and for which it waits
        call("cuMemcpyDtoH", found.ctypes.data, address, found.nbytes)
        return found.tolist()
    call("cuMemcpyAsync", found.ctypes.data, address, found.nbytes, stream)
    call("cuStreamSynchronize", stream)
    return found.tolist()


def copy_from_host(host: np.ndarray[Any, Any], address: int, device: int, stream: int) -> None:
    """Fill device memory from a C-contiguous host array; returns when it is there."""
    if host.nbytes:
        with current(device), translate_errors:
            copy(address, host.ctypes.data, host.nbytes, stream)
            stream_at(stream).sync()


def from_host(host: np.ndarray[Any, Any], device: int, stream: Any = None) -> DeviceArray:
    """A copy of a C-contiguous host array on the device; the host array may be changed when this returns."""
    array = DeviceArray(host.shape, host.dtype, device, stream)
    copy_from_host(host, array.ptr, device, array.stream)
    return array


def full(shape: tuple[int, ...], value: np.ndarray[Any, Any], device: int, stream: Any) -> DeviceArray:
    """An array of one value: the first elements come from the host, the device copies what is there until it is full.

    Nothing waits: the driver has taken the few elements from pageable memory when its first call returns.
    """
    if value.size != 1:
        raise InvalidArgument(f"{value.size} values were passed to fill an array: pass one")
    array = DeviceArray(shape, value.dtype, device, stream)
    if not array.nbytes:
        return array
    first = np.full(min(array.size, _FILLED_BY_THE_HOST), value.reshape(()))
    with current(device):
        copy(array.ptr, first.ctypes.data, first.nbytes, array.stream)
        done = first.nbytes
        while done < array.nbytes:
            step = min(done, array.nbytes - done)
            copy(array.ptr + done, array.ptr, step, array.stream)
            done += step
    return array
