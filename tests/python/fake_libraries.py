"""Fake libraries of arrays on a CUDA device; the memory of the arrays is the host's.

`cupy(monkeypatch)` puts a CuPy into sys.modules, as much of it as pygpuhash asks for. `exchange_type(...)` makes a type
with DLPack's table of C functions, as PyTorch's tensors have.
"""

import contextlib
import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from pygpuhash import DeviceArray, _core


def code_of(dtype):
    return {"i": 0, "u": 1, "f": 2, "b": 6}[dtype.kind]


def bare(given):
    return given.array if isinstance(given, ndarray) else given


class ndarray:
    """CuPy's."""

    def __init__(self, shape, dtype, array=None):
        self.array = np.empty(shape, dtype) if array is None else array
        self.dtype, self.shape, self.flags = self.array.dtype, self.array.shape, self.array.flags
        there = ndarray.device if array is not None else ndarray.where()
        self.data = SimpleNamespace(ptr=self.array.ctypes.data, device_id=there)
        self.size = self.array.size

    device = 0  # where copies of host arrays are,
    where = staticmethod(lambda: ndarray.device)  # and new arrays
    current_device = 0

    def _like(self, array):
        """On the same device."""
        new = type(self)(0, 0, array)
        new.data.device_id = self.data.device_id
        return new

    def __len__(self):
        return len(self.array)

    def reshape(self, shape):
        return self._like(self.array.reshape(shape))

    def copy(self):
        return self._like(self.array.copy())

    def fill(self, value):
        self.array.fill(value)

    def view(self, dtype):
        return self._like(self.array.view(dtype))

    def min(self):
        return self.array.min()

    def max(self):
        return self.array.max()

    def any(self):
        return self.array.any()

    def all(self):
        return self.array.all()

    def clip(self, least, most):
        return self._like(self.array.clip(least, most))

    def __bool__(self):
        return bool(self.array)

    def __getitem__(self, at):
        return self._like(np.asarray(self.array[bare(at)]))

    def _by(name):
        def operator(self, *others):
            with np.errstate(all="ignore"):
                return self._like(getattr(self.array, name)(*map(bare, others)))

        return operator

    for _name in (
        "lt",
        "ge",
        "eq",
        "ne",
        "abs",
        "invert",
        "add",
        "sub",
        "rsub",
        "mul",
        "truediv",
        "lshift",
        "rshift",
        "and",
        "or",
    ):
        locals()[f"__{_name}__"] = _by(f"__{_name}__")
    __hash__ = object.__hash__

    def __setitem__(self, at, value):
        self.written_on = Stream.current
        self.array[bare(at)] = bare(value)

    def astype(self, dtype, copy=True):
        with np.errstate(all="ignore"):  # what was never written is converted, too
            return self._like(self.array.astype(dtype, copy=copy))

    def __dlpack_device__(self):
        return 2, self.data.device_id

    def __dlpack__(self, *, stream=None):
        asked.append(stream)
        if not self.array.flags.c_contiguous:
            raise BufferError("strided")
        dtype = self.array.dtype
        return _core.dlpack_write(
            self, self.data.ptr, self.shape, code_of(dtype), 8 * dtype.itemsize, 2, self.data.device_id
        )


class QuickArray(ndarray):
    """CuPy's with the attribute that answers for `flags`."""

    @property
    def flags(self):
        raise AssertionError("flags were asked for")

    @flags.setter
    def flags(self, value):
        self._c_contiguous = value.c_contiguous

    _c_contiguous: bool = False  # on the class, too, as an attribute of a compiled class is


ndarray.__module__ = QuickArray.__module__ = "cupy"
QuickArray.__name__ = "ndarray"
asked = []  # streams of __dlpack__


class Stream:
    """CuPy's, and a context."""

    current = 0

    def __init__(self, ptr):
        self.ptr = ptr

    @classmethod
    def from_external(cls, other):
        version, address = other.__cuda_stream__()
        assert version == 0
        assert address, "that is Stream.null"
        return cls(address)

    def __enter__(self):
        self.before, Stream.current = Stream.current, self.ptr
        return self

    def __exit__(self, *exception):
        Stream.current = self.before


Stream.null = Stream(0)


def copied(array):
    """A copy of an array of the host; the memory of an array that no library has made."""
    if not isinstance(array, DeviceArray):
        return array.copy() if array.flags.c_contiguous else array
    memory = (ctypes.c_char * array.nbytes).from_address(array.ptr)
    memory.owner = array
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


def cupy(monkeypatch, ndarray=ndarray):
    module = ModuleType("cupy")
    module.ndarray = ndarray
    module.empty = ndarray
    module.asarray = lambda a: ndarray(0, 0, copied(a))
    module.flatnonzero = lambda a: a._like(np.flatnonzero(a.array))
    module.full = lambda shape, value, dtype: ndarray(0, 0, np.full(shape, value, dtype))
    module.where = lambda c, a, b: ndarray(0, 0, np.where(c.array, bare(a), bare(b)))
    for of in (np.isfinite, np.round, np.zeros_like, np.full_like):
        setattr(module, of.__name__, lambda a, *more, of=of: ndarray(0, 0, of(a.array, *more)))
    module.concatenate = lambda parts: ndarray(0, 0, np.concatenate([part.array for part in parts]))
    module.asnumpy = lambda a: a.array.copy()
    module.cuda = SimpleNamespace(
        get_current_stream=lambda device=-1: Stream(Stream.current),
        runtime=SimpleNamespace(getDevice=lambda: ndarray.current_device),
        Stream=Stream,
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(Stream, "current", 0)
    asked.clear()
    return module


class JaxArray(ndarray):
    """JAX's, whose work is on a stream of its own."""

    stream = 33

    def __setitem__(self, at, value):
        raise TypeError("JAX arrays cannot be written")


JaxArray.__module__ = "jaxlib._jax"


def jax(monkeypatch, cuda):
    """A JAX that takes arrays over from DLPack."""
    module = ModuleType("jax")

    def from_dlpack(array):
        address, shape, _, code, bits, kind, ordinal, owner = _core.dlpack_read(
            array.__dlpack__(stream=JaxArray.stream)
        )
        assert (kind, ordinal) == (2, 0)
        assert address, "JAX takes no array without memory"
        cuda.bring(JaxArray.stream)
        dtype = np.dtype(f"{'iuf   b'[code]}{bits // 8}")
        memory = (ctypes.c_char * (dtype.itemsize * int(np.prod(shape)))).from_address(address)
        taken = JaxArray(0, 0, np.frombuffer(memory, dtype).reshape(shape))
        taken.owner = owner
        return taken

    module.Array = JaxArray
    module.core = SimpleNamespace(Tracer=())
    module.config = SimpleNamespace(jax_enable_x64=False)
    module.dlpack = SimpleNamespace(from_dlpack=from_dlpack)
    module.numpy = SimpleNamespace(
        where=lambda c, a, b: JaxArray(0, 0, np.where(c.array, a.array, b.array if isinstance(b, ndarray) else b)),
        empty=lambda shape, dtype: JaxArray(shape, dtype),
    )
    monkeypatch.setitem(sys.modules, "jax", module)
    asked.clear()
    return module


# ---- DLPack's table of C functions -----------------------------------------------------------------------------------


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", Dtype),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


DESCRIBE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
CURRENT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("unused", ctypes.c_void_p * 3),
        ("describe", DESCRIBE),
        ("current", CURRENT),
    ]


def exchange_type(name="Tensor", module="torch", major=1):
    """A type of arrays like PyTorch's tensors, with the attributes `stream` and `described` for tests."""

    class Array:
        requires_grad = False

        def __init__(self, array, device=0, kind=2):
            self.array, self.device, self.kind = array, device, kind
            self.sizes = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            self.steps = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))

        @property
        def shape(self):
            return self.array.shape

        def __len__(self):
            return len(self.array)

        def data_ptr(self):
            return self.array.ctypes.data

        def new_empty(self, shape, dtype):
            return type(self)(np.empty(shape, dtype), self.device, self.kind)

        def resize_(self, n):
            self.__init__(self.array.reshape(-1)[:n], self.device, self.kind)
            return self

        def to(self, dtype):
            return Array(self.array.astype(dtype), self.device, self.kind)

        def __add__(self, number):
            return type(self)(self.array + self.array.dtype.type(number))

        def __ne__(self, other):
            return type(self)(self.array != other.array)

        __hash__ = None

        def __setitem__(self, at, value):
            self.array[at.array] = value

        def __dlpack_device__(self):
            return self.kind, self.device

        def __dlpack__(self, *, stream=None):
            asked.append(stream)
            if not self.array.flags.c_contiguous:
                raise BufferError("strided")
            if self.requires_grad:
                raise BufferError("requires a gradient")
            dtype = self.array.dtype
            address = self.array.ctypes.data
            return _core.dlpack_write(
                self, address, self.array.shape, code_of(dtype), 8 * dtype.itemsize, self.kind, self.device
            )

    def describe(array, out):
        Array.described += 1
        if Array.refuses:  # PyTorch sets an exception as well, which a function of ctypes cannot
            return -1
        t = out.contents
        t.data, t.byte_offset = array.array.ctypes.data - 16, 16  # as of a slice
        t.kind, t.device, t.ndim = array.kind, array.device, array.array.ndim
        dtype = array.array.dtype
        t.dtype = Dtype(code_of(dtype), 8 * dtype.itemsize, 1)
        t.shape, t.strides = ctypes.addressof(array.sizes), ctypes.addressof(array.steps)
        return 0

    def current(kind, device, out):
        out[0] = Array.stream
        return 0

    Array.stream, Array.described, Array.refuses, Array.current_device = 0, 0, False, 0
    Array.table = Exchange(major, 3, None, (ctypes.c_void_p * 3)(), DESCRIBE(describe), CURRENT(current))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    Array.__dlpack_c_exchange_api__ = new(ctypes.addressof(Array.table), b"dlpack_exchange_api", None)
    Array.__name__, Array.__module__ = name, module
    return Array


def torch(monkeypatch):
    """A PyTorch whose tensors have the table of C functions."""
    module = ModuleType("torch")
    tensor = module.Tensor = exchange_type()
    for dtype in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "bool",
    ):
        setattr(module, dtype, dtype)
    module.empty_like = lambda a, dtype: tensor(np.empty(a.array.shape, dtype), a.device, a.kind)
    module.from_numpy = tensor
    module.full = lambda shape, value, dtype, device: tensor(np.full(shape, value, dtype))
    module.full_like = lambda a, value, dtype: tensor(np.full(a.array.shape, value, dtype))
    module.empty = lambda shape, dtype, device: tensor(np.empty(shape, dtype))
    module.cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: tensor.current_device,
        current_stream=lambda device: SimpleNamespace(cuda_stream=tensor.stream),
        default_stream=lambda device: 0,
        ExternalStream=lambda stream, device: stream,
        stream=contextlib.nullcontext,
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    asked.clear()
    return module
