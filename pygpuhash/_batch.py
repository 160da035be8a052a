"""Batches that do not go the short way of `CoreTable`: each is passed to the code for host arrays or for device arrays.

The table's device is made current before the library of an array is asked anything: PyTorch hands out a tensor of the
current device only. What is plain and ready never comes here, see `CoreTable._on_device`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pygpuhash import _arrays, _core, _cuda, _device_batch, _host_batch
from pygpuhash.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Call:
    """One batch as the caller has given it.

    out, mask : arrays for values and for statuses, or None; mask may be False: no statuses.
    out_dtype : of the values that come back, None where none do.
    """

    op: int
    keys: Any
    values: Any
    ops: Any
    out: Any
    mask: Any
    stream: Any
    out_dtype: np.dtype[Any] | None
    flags: int
    combine: int


def batch(table: Any, call: Call) -> tuple[Any, Any]:
    """`CoreTable._batch` for every case but host arrays on a CPU table."""
    keys = call.keys
    if not _arrays.on_device(keys):
        return _host_batch.serve(table, call)
    if table._kind != _core.CUDA:
        raise InvalidArgument(
            f"keys are a {type(keys).__name__} on a CUDA device, the table is on the CPU: copy the keys to the host, "
            "or create the table with device='cuda'"
        )
    with _cuda.current(table._ordinal):
        return _device_batch.serve(table, call)
