"""Arrays of PyTorch and JAX on the CPU: read without a copy, and results given back as arrays of the same library.

Neither library is imported here: an array of one can only come from a program that has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["array_library", "check_results", "dtype_name", "give", "read"]

_MODULES = {"torch": "Tensor", "jax": "Array"}


def array_library(array: Any) -> str | None:
    """ "torch", "jax", or None: whose array this is."""
    for name, kind in _MODULES.items():
        module = sys.modules.get(name)
        if module is not None and isinstance(array, getattr(module, kind, ())):
            return name
    return None


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


def check_results(name: str | None, dtype: np.dtype[Any] | None) -> None:
    """Refuse results, before the call, that JAX would cut to 32 bits."""
    if name == "jax" and dtype is not None and dtype.itemsize == 8 and not sys.modules["jax"].config.jax_enable_x64:
        raise TypeError(
            f"the results have dtype {dtype}, which JAX cuts to 32 bits: call jax.config.update('jax_enable_x64', "
            "True), use a dtype of 4 bytes, or pass numpy arrays"
        )


def give(name: str, array: Any) -> Any:
    """An array of the library over the memory of a result; of dtypes that the library lacks the numpy array itself."""
    if array is None or array.dtype.kind in "mM":
        return array
    if name == "torch":
        return sys.modules["torch"].from_numpy(np.asarray(array))
    return sys.modules["jax"].numpy.asarray(array)
