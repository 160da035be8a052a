"""The arguments of `Table`: which backend and device they mean, and what contradicts what."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from pygpuhash import (
    _arguments,
    _arrays,
    _choice,
    _core,
    _cuda,
    _devices,
    _memory,
    _ordered,
    _records,
    _streams,
    registry,
)
from pygpuhash._arguments import whole
from pygpuhash.errors import InvalidArgument, Unsupported


def of_core(
    backend: str,
    key_dtype: Any,
    value_dtype: Any,
    capacity: Any,
    device: Any,
    grow: Any,
    max_load_factor: Any,
    seed: Any,
    stream: Any,
    memory: Any,
    threads: Any,
    needs: Any,
    backend_options: dict[str, Any],
) -> tuple[Any, ...]:
    """What `CoreTable._create` takes for the arguments of a table. Raises what `Table` raises."""
    keys = _arrays.table_dtype(key_dtype, "key_dtype")
    values = None if value_dtype is None else _arrays.table_dtype(value_dtype, "value_dtype")
    dtypes = (
        keys,
        _arrays.store_dtype(keys, keys=True),
        values,
        None if values is None else _arrays.store_dtype(values, keys=False),
    )
    load = _arguments.load_factor(max_load_factor)
    place = None if isinstance(device, str) and device == "auto" else _devices.parse_device(device)
    if place is not None and place[0] == _core.CUDA:
        _cuda.require()
    needs = words(needs)
    if backend == "auto":
        _refuse_contradictions(needs, keys, values, backend_options)
        name = _choice.choose(needs, dtypes[1], dtypes[3], load, backend_options, place and place[0])
        if "multi" in needs:
            backend_options.setdefault("duplicates", 1)  # without which slab_hash has one value per key
    elif needs:
        raise InvalidArgument(f"needs={needs!r} is for backend='auto': leave it out with backend={backend!r}")
    else:
        name = str(registry.resolve(backend))
    kind, ordinal = place or _devices.best_device(name)
    options = {key: _option(key, value, name) for key, value in backend_options.items()}
    _refuse_numbered_files(name, backend_options)
    if keys.kind in "imMf" and "order" not in options:
        order = _ordered.key_order(keys, tuple(row[0] for row in _core.backend_load(name)["options"]))
        if order is not None:
            options["order"] = order
    if options.get("placement") == "file":
        _say_elements(name, options, keys, values)
    return (
        name,
        kind,
        ordinal,
        dtypes,
        whole("capacity", capacity, 2**64 - 1),
        load,
        _arguments.seed(seed),
        _arguments.flag("grow", grow),
        0 if threads is None else whole("threads", threads, 4096, least=1),
        _memory.adapt(memory, kind, ordinal),
        options,
        *(_streams.usable_stream(stream, ordinal) if kind == _core.CUDA else (stream, 0)),
    )


def words(needs: Any) -> list[str]:
    if not isinstance(needs, Iterable | None):
        raise TypeError(f"needs={needs!r} is a {type(needs).__name__}: pass words, as in needs=['ordered']")
    return [needs] if isinstance(needs, str) else list(() if needs is None else needs)


def refuse_unmet(backend: type, name: str, needs: Any) -> None:
    """Needs of which the traits of a Python class say nothing."""
    traits = getattr(backend, "traits", ())
    lacks = [need for need in words(needs) if need not in traits and need != "misses"]
    if lacks:
        raise Unsupported(
            f"needs={needs!r}: backend {name!r} does not have the trait {' and '.join(lacks)}; "
            f"it has {', '.join(sorted(traits)) or 'none'}"
        )


def _refuse_contradictions(
    needs: list[str], keys: np.dtype[Any], values: np.dtype[Any] | None, options: dict[str, Any]
) -> None:
    """Needs that no table with such elements and options has, whatever its backend can do with others."""
    if "ordered" in needs:
        _ordered.refuse_unordered(keys)
    if "accumulate" in needs and (values is None or _records.is_record(values)):
        what = "a set (value_dtype=None) has none" if values is None else f"{values} values are several"
        raise Unsupported(f"needs={needs!r}: only single numbers are accumulated, and {what}")
    several = options.get("duplicates", 1)
    if "multi" in needs and _arguments.option("duplicates", several) == "0":
        raise InvalidArgument(f"needs={needs!r} and duplicates={several!r} contradict each other: leave one out")


def _say_elements(backend: str, options: dict[str, str], keys: np.dtype[Any], values: np.dtype[Any] | None) -> None:
    """The dtypes for a table in a file, which is then opened again with the same only."""
    if any(row[0] == "elements" for row in _core.backend_load(backend)["options"]):
        options.setdefault("elements", f"keys {keys}, values {values}")


def _refuse_numbered_files(backend: str, options: dict[str, Any]) -> None:
    """A number is no file's name, though its digits would be one."""
    numbers = [name for name, value in options.items() if not isinstance(value, (str, os.PathLike))]
    for name, choices, _ in _core.backend_load(backend)["options"] if numbers else ():
        if name in numbers and choices == "a file name":
            value = options[name]
            raise TypeError(f"option {name}={value!r} is a {type(value).__name__}: pass a string or a path")


def _option(name: str, value: Any, backend: str) -> str:
    try:
        return _arguments.option(name, value)
    except TypeError as error:
        known = any(row[0] == name for row in _core.backend_load(backend)["options"])
        raise TypeError(str(error) if known else f"{error}{hint([name])}") from None


def hint(options: Iterable[str]) -> str:
    """An argument of `Table` that an unknown option may have meant."""
    for name in options:
        for parameter in inspect.signature(of_core).parameters:  # those of `Table`
            inside = f"_{name}_" in f"_{parameter}_" or f"_{parameter}_" in f"_{name}_"
            if inside or difflib.get_close_matches(name, [parameter], 1, 0.7):
                return f"; {name} looks like the argument {parameter}"
    return ""
