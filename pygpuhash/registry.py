"""Which backends there are, and what a backend's name stands for.

Two sources, one list. The C library finds modules on its search path; Python distributions announce theirs in the
entry-point group `pygpuhash.backends`. The target of an entry point is a function without arguments that returns the
path of a module (which the C library then loads, so that there is one registry), a string with such a path, or a
Python class that takes `Table`'s keyword arguments and has its methods.

Entry points are scanned on first use, and again when `sys.path` has changed; their targets are imported when a backend
is asked for. A broken plugin fails only then.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pygpuhash import _core
from pygpuhash.errors import BackendNotFound, GpuHashError, PluginError

__all__ = ["Backend", "Option", "backends", "resolve"]

GROUP = "pygpuhash.backends"
DEFAULT = "linear_probe"
_DEVICE_NAMES = {_core.CPU: "cpu", _core.CUDA: "cuda"}


class Option(NamedTuple):
    """An option of a backend: a keyword argument of `Table`, the values that it takes, and what it does."""

    name: str
    choices: str
    help: str


@dataclass(frozen=True)
class Backend:
    """One row of `backends()`.

    `state` is "usable", "not loaded" (a module known by its file name alone), "broken" or "ambiguous" (more than one
    distribution uses the name); `error` says why a backend is not usable. Widths are in bytes.
    """

    name: str
    distribution: str | None = None
    version: str | None = None
    path: str | None = None
    abi: str | None = None
    devices: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    key_widths: tuple[int, ...] = ()
    value_widths: tuple[int, ...] = ()
    state: str = "usable"
    error: str | None = None
    summary: str | None = field(default=None, compare=False)
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class _Announced:
    """An entry point, and the distribution that it is of."""

    name: str
    distribution: str
    load: Callable[[], Any] = field(compare=False)


_scanned: tuple[tuple[str, ...], list[_Announced]] | None = None
_resolved: dict[tuple[str, str], Any] = {}


def _announced() -> list[_Announced]:
    global _scanned
    path = tuple(sys.path)
    if _scanned is None or _scanned[0] != path:
        from importlib.metadata import entry_points

        found: dict[tuple[str, str], _Announced] = {}
        for point in entry_points(group=GROUP):
            distribution = point.dist.name if point.dist is not None else "unknown"
            found.setdefault((distribution, point.name), _Announced(point.name, distribution, point.load))
        _scanned = path, list(found.values())
    return _scanned[1]


def resolve(name: str) -> str | type:
    """The C library's name of a backend, loaded; or the Python class behind the name.

    `name` is a backend's name, or "distribution:name". Raises `BackendNotFound`, `PluginError`, or what the C library
    says of the module.
    """
    if not isinstance(name, str):
        raise TypeError(f"backend={name!r} is a {type(name).__name__}: pass a name, for example {DEFAULT!r}")
    distribution, colon, short = name.partition(":")
    if not colon:
        distribution, short = "", name
    candidates = [a for a in _announced() if a.name == short and distribution in ("", a.distribution)]
    if len(candidates) > 1:
        owners = " and ".join(sorted(a.distribution for a in candidates))
        raise BackendNotFound(
            f"backend {short!r} is provided by {owners}: pick one, for example {candidates[0].distribution}:{short}"
        )
    if candidates:
        return _target(candidates[0])
    if colon:
        raise BackendNotFound(_unknown(name, [f"{a.distribution}:{a.name}" for a in _announced()]))
    try:
        return str(_core.backend_load(short)["name"])
    except BackendNotFound as error:
        near = difflib.get_close_matches(short, [a.name for a in _announced()], 1)
        if near and near[0] not in str(error):
            raise BackendNotFound(_unknown(short, [a.name for a in _announced()])) from None
        raise


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "pygpuhash.backends() lists what there is"
    return f"there is no backend {name!r}; {hint}"


def _target(announced: _Announced) -> str | type:
    """What an entry point stands for: the C name of its module, or its class."""
    key = announced.distribution, announced.name
    if key not in _resolved:
        _resolved[key] = _load(announced)
    found: str | type = _resolved[key]
    return found


def _load(announced: _Announced) -> str | type:
    where = f"backend {announced.name!r} of distribution {announced.distribution!r}"
    try:
        target = announced.load()
        if not isinstance(target, (type, str, os.PathLike)):
            target = target()
    except Exception as error:
        raise PluginError(f"{where} could not be imported: {type(error).__name__}: {error}") from error
    if isinstance(target, type):
        if issubclass(target, _core.CoreTable):
            raise PluginError(f"{where} is a subclass of pygpuhash.Table: let its objects hold a Table instead")
        return target
    if not isinstance(target, (str, os.PathLike)):
        raise PluginError(f"{where}: the entry point returned {target!r}: it must return a module's path or a class")
    path = Path(target)
    if not path.is_absolute():
        raise PluginError(f"{where}: the entry point returned {str(path)!r}, which is not an absolute path")
    return str(_core.backend_open(str(path))["name"])


def backends() -> list[Backend]:
    """Every backend that is known, usable or not. Never raises, and loads what can be loaded."""
    try:
        announced = _announced()
    except Exception as error:  # a broken metadata directory of a stranger must not hide the rest
        announced = []
        rows = [Backend(name="?", state="broken", error=f"entry points could not be read: {error}")]
    else:
        rows = []
    counts: dict[str, int] = {}
    for a in announced:
        counts[a.name] = counts.get(a.name, 0) + 1
    shown: set[str] = set()
    for a in announced:
        try:
            row, library_name = _announced_row(a, counts[a.name] > 1)
        except Exception as error:  # whatever a stranger's code may raise
            row, library_name = Backend(a.name, a.distribution, state="broken", error=str(error)), None
        rows.append(row)
        if library_name is not None:
            shown.add(library_name)
    try:
        known = [info["name"] for info in _core.backend_list()]
    except GpuHashError as error:
        return [*rows, Backend(name="?", state="broken", error=str(error))]
    announced_names = {a.name for a in announced}
    rows += [_library_row(name) for name in known if name not in shown and name not in announced_names]
    return sorted(rows, key=lambda row: (row.name, row.distribution or ""))


def _announced_row(a: _Announced, ambiguous: bool) -> tuple[Backend, str | None]:
    target = _target(a)
    name = f"{a.distribution}:{a.name}" if ambiguous else a.name
    state = "ambiguous" if ambiguous else "usable"
    note = f"more than one distribution provides {a.name!r}; use {name!r}" if ambiguous else None
    if isinstance(target, type):
        version = getattr(target, "version", None)
        traits = frozenset(getattr(target, "traits", ()))
        devices = tuple(getattr(target, "devices", ("cpu",)))
        path = f"{target.__module__}.{target.__qualname__}"
        return Backend(name, a.distribution, version, path, "python", devices, traits, state=state, error=note), None
    return _from_info(_core.backend_load(target), name, a.distribution, state, note), target


def _library_row(name: str) -> Backend:
    try:
        return _from_info(_core.backend_load(name), name, None, "usable", None)
    except GpuHashError as error:
        for info in _core.backend_list():
            if info["name"] == name:
                return _from_info(info, name, None, "broken", str(error))
        return Backend(name, state="broken", error=str(error))


def _from_info(info: dict[str, Any], name: str, distribution: str | None, state: str, error: str | None) -> Backend:
    broken = info["error"] is not None
    return Backend(
        name=name,
        distribution=distribution,
        version=info["version"],
        path=info["path"],
        abi="v1",
        devices=tuple(_DEVICE_NAMES[kind] for kind in info["devices"]),
        traits=info["traits"],
        key_widths=info["key_widths"],
        value_widths=info["value_widths"],
        state="broken" if broken else state,
        error=info["error"] or error,
        summary=info["summary"],
        options=tuple(Option(*row) for row in info["options"]),
    )
