"""Rows by shard of arrays on a GPU: everything is queued on one stream, and nothing comes back to the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash import (
    _arrays,
    _core,
    _cuda,
    _device_arrays,
    _device_groups,
    _streams,
    _table_verbs,
    _tensors,
)
from pygpuhash.errors import Unsupported

__all__ = ["partition", "shard_of"]

_LIBRARIES = ("cupy", "torch")  # that can be asked for arrays
_SHARD, _INDEX, _BYTE = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)
_FORMATS = {  # Arrow's
    "i1": b"c", "i2": b"s", "i4": b"i", "i8": b"l", "u1": b"C", "u2": b"S", "u4": b"I", "u8": b"L",
    "f2": b"e", "f4": b"f", "f8": b"g",
}  # fmt: skip


def shard_of(keys: Any, shards: int, seed: int) -> Any:
    """The shard of each key, of the shape of the keys."""
    found, ordinal, stream = _read(keys)
    with _cuda.current(ordinal), _streams.working_on(keys, ordinal, stream):
        empty = _device_groups.maker(keys, ordinal)
        ids = empty(found.shape, _SHARD)
        if found.size:
            _core.partition(ordinal, _format(found), found.size, found.ptr, shards, seed,
                            ids=_core.pointer(ids), stream=stream)  # fmt: skip
        return ids


def partition(keys: Any, shards: int, seed: int, values: Any) -> tuple[Any, Any, Any, Any]:
    """(keys, values, offsets, order) of `gh.Partition`."""
    found, ordinal, stream = _read(keys)
    if len(found.shape) != 1:
        raise ValueError(f"keys have shape {tuple(found.shape)}: pass a one-dimensional column")
    amounts = None if values is None else _values(values, found.size, ordinal, stream)
    with _cuda.current(ordinal), _streams.working_on(keys, ordinal, stream):
        empty, n, pointer = _device_groups.maker(keys, ordinal), found.size, _core.pointer
        grouped, order, offsets = empty((n,), found.dtype), empty((n,), _INDEX), empty((shards + 1,), _INDEX)
        moved = None if amounts is None else empty(amounts.shape, amounts.dtype)
        arguments: dict[str, Any] = {
            "offsets": pointer(offsets),
            "order": pointer(order),
            "out_keys": pointer(grouped),
            "stream": stream,
        }
        if amounts is not None and amounts.size:
            row = amounts.dtype.itemsize * (amounts.size // n)
            arguments |= {"values": amounts.ptr, "value_bytes": row, "out_values": pointer(moved)}
        call = (ordinal, _format(found), n, found.ptr, shards, seed)
        nbytes = _core.partition(*call, **arguments, asks=True)
        scratch = empty((nbytes,), _BYTE) if nbytes else None
        _core.partition(*call, **arguments, scratch=pointer(scratch), nbytes=nbytes)
        return grouped, moved, offsets, order


def _read(keys: Any) -> tuple[Any, int, int]:
    """The memory of the keys, its device, and the handle of the stream of the call."""
    if _tensors.library_of(keys) not in _LIBRARIES:
        raise Unsupported(
            f"keys are a {type(keys).__name__} on a GPU, where numbers of CuPy and PyTorch alone are partitioned: "
            "convert them, as with cupy.asarray, or copy them, as text, to the host"
        )
    if not _device_groups.KERNELS:
        raise Unsupported(
            "keys are on a GPU, and this build of gpuhash has no CUDA kernels: install one that was built with nvcc, "
            "or copy them to the host"
        )
    ordinal = _table_verbs.ordinal_of(keys)
    stream = _streams.current_stream(keys, ordinal)
    with _cuda.current(ordinal):
        found = _device_arrays.view(keys, ordinal, stream, "keys")
    if found.dtype.str[1:] not in _FORMATS:
        raise Unsupported(f"keys on a GPU are {found.dtype}, not integers or floats: copy them to the host")
    return found, ordinal, stream


def _format(found: Any) -> bytes:
    return _FORMATS[found.dtype.str[1:]]


def _values(values: Any, rows: int, ordinal: int, stream: int) -> Any:
    if not _arrays.on_device(values):
        raise Unsupported(f"values are a {type(values).__name__} on the host, keys on cuda:{ordinal}: copy one of them")
    with _cuda.current(ordinal):
        found = _device_arrays.view(values, ordinal, stream, "values")
    if not found.shape or found.shape[0] != rows:
        own = found.shape[0] if found.shape else "no"
        raise ValueError(f"values have {own} rows, keys {rows}: pass one value for each key")
    return found
