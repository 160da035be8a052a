"""`partial.start` of rows on a GPU: they are aggregated there, and what they come to is copied to the host."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from pygpuhash import _arrays, _cuda, _device_arrays, _streams, _table_verbs, _tensors, verbs
from pygpuhash.columns import rows
from pygpuhash.errors import Unsupported

__all__ = ["start", "to_host"]

_LIBRARIES = ("cupy", "torch")
_FLOAT = np.dtype(np.float64)
Array = np.ndarray[Any, Any]


def to_host(given: Any, what: str = "keys") -> Any:
    """A copy of an array, or of a tuple of them, in memory of the host; what lies there already as it is."""
    if isinstance(given, tuple):
        return tuple(to_host(part, f"{what}[{i}]") for i, part in enumerate(given))
    if not _arrays.on_device(given):
        return given
    if _tensors.library_of(given) not in _LIBRARIES:
        raise Unsupported(
            f"{what} are a {type(given).__name__} on a GPU: pass arrays of CuPy or PyTorch, or copy them to the host"
        )
    ordinal = _table_verbs.ordinal_of(given)
    return _device_arrays.to_host(given, ordinal, _streams.current_stream(given, ordinal), what)


def start(keys: Any, wanted: Mapping[str, tuple[str, Any]], nulls: Any) -> tuple[Any, dict[str, tuple[Any, ...]]]:
    """(distinct keys, the columns of each aggregate), arrays of the host; wanted : {name: (op, values)}.

    Sums of floats are those that `group_reduce` gives with reproducible=True: equal in each call.
    """
    for i, part in enumerate(keys if isinstance(keys, tuple) else (keys,)):
        if not _arrays.on_device(part) or _tensors.library_of(part) not in _LIBRARIES:
            what = f"keys[{i}]" if isinstance(keys, tuple) else "keys"
            raise Unsupported(
                f"{what} are a {type(part).__name__}, and keys of a part on a GPU are columns of numbers of CuPy or "
                "PyTorch: pass such, or copy all of them to the host"
            )
    how: dict[str, Any] = {"order": "first", "nulls": nulls}
    if not wanted:
        return to_host(verbs.unique(keys, **how)), {}
    distinct, counts = verbs.value_counts(keys, **how)
    many = to_host(counts)
    return to_host(distinct), {
        name: (many,) if op == "count" else _started(op, keys, values, many, how, f"values of {name!r}")
        for name, (op, values) in wanted.items()
    }


def _started(op: str, keys: Any, values: Any, many: Array, how: dict[str, Any], what: str) -> tuple[Any, ...]:
    like = keys[0] if isinstance(keys, tuple) else keys
    ordinal = _table_verbs.ordinal_of(like)
    if op == "first":
        if len(values) != len(like):
            raise ValueError(f"{what} have {len(values)} rows, keys {len(like)}: pass one for each key")
        found = verbs.group_reduce(keys, _numbers(like, ordinal), "min", **how)[1]
        if not _arrays.on_device(values):
            return (rows.take(values, to_host(found)),)
        with _cuda.current(ordinal):
            return (to_host(values[found], what),)
    if not _arrays.on_device(values):
        raise Unsupported(f"{what} are on the host, and keys on cuda:{ordinal}: copy one of them to where the other is")
    if op == "nunique":
        pairs: Any = (verbs.factorize(keys, **how)[0], values)
        groups, own = to_host(verbs.unique(pairs, order="first"), what)
        kept = groups >= 0
        return (groups, own) if kept.all() else (groups[kept], own[kept])
    if op == "mean":
        return _reduced(keys, _as_float(values, ordinal, what), "sum", how, what), many
    return (_reduced(keys, values, op, how, what),)


def _reduced(keys: Any, values: Any, op: Any, how: dict[str, Any], what: str) -> Array:
    found = verbs.group_reduce(keys, values, op, reproducible=True, **how)[1]
    return np.asarray(to_host(found, what))


def _numbers(like: Any, ordinal: int) -> Any:
    """0, 1, ... in an array of the same library and device."""
    name = _tensors.library_of(like)
    where = {"device": f"cuda:{ordinal}"} if name == "torch" else {}
    with _cuda.current(ordinal):
        return sys.modules[name].arange(len(like), **where)


def _as_float(values: Any, ordinal: int, what: str) -> Any:
    with _cuda.current(ordinal):
        return _device_arrays.astype(values, _FLOAT, ordinal, _streams.current_stream(values, ordinal), what)
