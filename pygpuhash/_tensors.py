"""Arrays of PyTorch and JAX on the CPU: read without a copy, and results given back as arrays of the same library.

Neither library is imported here: an array of one can only come from a program that has imported it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

__all__ = ["array_library", "check_results", "cuts", "dtype_name", "give", "library_of", "read"]

_LIBRARIES = {name: name for name in ("cupy", "jax", "numba", "rmm", "torch")} | {
    "jaxlib": "jax",
    "numba_cuda": "numba",
}
_MODULES = {"torch": "Tensor", "jax": "Array"}


def array_library(array: Any) -> str | None:
    """ "torch", "jax", or None: whose array this is."""
    for name, kind in _MODULES.items():
        module = sys.modules.get(name)
        if module is not None and isinstance(array, getattr(module, kind, ())):
            return name
    return None


def library_of(thing: Any) -> str:
    """The module of the library that an object is of, also where a class of another module derives from one of its."""
    return _library_of_class(type(thing).__mro__)


@functools.lru_cache(maxsize=256)
def _library_of_class(bases: tuple[type, ...]) -> str:
    names = [base.__module__.partition(".")[0] for base in bases]
    known = [_LIBRARIES[name] for name in names if name in _LIBRARIES]
    return known[0] if known else names[0]


def dtype_name(given: Any) -> Any:
    """numpy's name of a dtype of PyTorch; anything else as it is."""
    return str(given).removeprefix("torch.") if type(given).__module__ == "torch" else given


def read(array: Any, name: str, what: str) -> np.ndarray[Any, Any]:
    """The elements of a tensor on the host as a numpy array over the same memory, where it has strides."""
    return _read_torch(array, what) if name == "torch" else _read_jax(array, what)


def _read_torch(tensor: Any, what: str) -> np.ndarray[Any, Any]:
    if tensor.requires_grad:
        raise TypeError(f"{what} requires a gradient, and a table has none to give: pass {what}.detach()")
    if tensor.device.type != "cpu":
        raise TypeError(f"{what} is on device {str(tensor.device)!r}, which a table cannot use: pass {what}.cpu()")
    try:
        array: np.ndarray[Any, Any] = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"{what} has dtype {tensor.dtype}, layout {tensor.layout}, which numpy and the table do not have: convert "
            f"it, for example by {what}.to(torch.float32)"
        ) from error
    return array


def _read_jax(array: Any, what: str) -> np.ndarray[Any, Any]:
    if isinstance(array, sys.modules["jax"].core.Tracer):
        raise TypeError(f"{what} is traced by a JAX transformation: call the table outside of jit, grad and vmap")
    return np.asarray(array)


def cuts(name: str | None, dtype: np.dtype[Any] | None) -> bool:
    """Would the library cut numbers of this dtype to 32 bits?"""
    return name == "jax" and dtype is not None and dtype.itemsize == 8 and not sys.modules["jax"].config.jax_enable_x64


def check_results(name: str | None, dtype: np.dtype[Any] | None, narrow: str = "use a dtype of 4 bytes, ") -> None:
    """Refuse results, before the call, that JAX would cut to 32 bits. `narrow`: how to ask for narrower ones."""
    if cuts(name, dtype):
        raise TypeError(
            f"the results have dtype {dtype}, which JAX cuts to 32 bits: call jax.config.update('jax_enable_x64', "
            f"True), {narrow}or pass numpy arrays"
        )


def give(name: str, array: Any) -> Any:
    """An array of the library over the memory of a result; of dtypes that the library lacks the numpy array itself."""
    if array is None or array.dtype.kind in "mMSUV":
        return array
    if name == "torch":
        return sys.modules["torch"].from_numpy(np.asarray(array))
    return sys.modules["jax"].numpy.asarray(array)
