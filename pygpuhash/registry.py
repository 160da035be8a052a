"""Which backends there are, and what a backend's name stands for.

Two sources, one list. The C library finds modules on its search path; Python distributions announce theirs in the
entry-point group `pygpuhash.backends`. The target of an entry point is a function without arguments that returns the
path of a module (which the C library then loads, so that there is one registry), a string with such a path, or a
Python class that takes `Table`'s keyword arguments and has its methods.

A plain name stands for the first of

1. the module of this name that came with pygpuhash: no other module takes a built-in's name,
2. the one in the first directory of GPUHASH_PLUGIN_PATH that has it,
3. the one that a distribution announces; if several do, the name is ambiguous,
4. the module of this name that was opened by its path first.

`distribution:name` always stands for what that distribution announces, and a path for the module that lies there.

Entry points are scanned on first use, and again when `sys.path` has changed; their targets are imported when a backend
is asked for. A broken plugin fails only then. Whatever the code of an entry point raises, SystemExit among it, is a
`PluginError` that names the entry point; KeyboardInterrupt alone is not.

A module with a manifest beside it (manifest.py) is listed without being loaded. The command line tools load what has to
be loaded in processes of their own (probe.py), which take `Candidate`s from here.
"""

from __future__ import annotations

import difflib
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pygpuhash import _core, manifest
from pygpuhash.errors import BackendNotFound, GpuHashError, PluginError

__all__ = [
    "BackendInfo",
    "Candidate",
    "Option",
    "backends",
    "candidates",
    "in_order",
    "module_of",
    "of_manifest",
    "open_backend",
    "resolve",
    "search_path_faults",
]

GROUP = "pygpuhash.backends"
DEFAULT = "linear_probe"
_DEVICE_NAMES = {_core.CPU: "cpu", _core.CUDA: "cuda"}


class Option(NamedTuple):
    """An option of a backend: a keyword argument of `Table`, the values that it takes, and what it does."""

    name: str
    choices: str
    help: str


@dataclass(frozen=True)
class BackendInfo:
    """One row of `backends()`.

    `name` is what `Table` takes: where a plain name stands for another backend, `distribution:name` or a path; `note`
    then says so, and where the manifest of a module that was loaded is not true. `state` is "usable", "not loaded" (the
    row is what the manifest beside the module says), "broken" or "ambiguous" (more than one distribution uses the
    name); `error` says why a backend is not usable. Widths are in
    bytes.
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
    note: str | None = field(default=None, compare=False)
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class _Announced:
    """An entry point, and the distribution that it is of."""

    name: str
    distribution: str
    load: Callable[[], Any] = field(compare=False)
    own: bool = False  # of this package


@dataclass(frozen=True)
class Candidate:
    """A backend that `backends()` lists.

    `key` is "distribution:name" or the path of a module, and `name` what `Table` takes. `trusted`: it came with this
    package, or is loaded already. `row(load)` makes its row, in this process; `load`: also where a manifest would do.
    """

    key: str
    name: str
    distribution: str | None
    path: str | None
    trusted: bool
    row: Callable[[bool], BackendInfo] = field(compare=False)


_scanned: tuple[tuple[str, ...], list[_Announced]] | None = None
_resolved: dict[tuple[str, str], Any] = {}
_of_the_library: set[str] = set()  # names that the library was found to have and has loaded: it keeps them


def _announced() -> list[_Announced]:
    global _scanned
    path = tuple(sys.path)
    if _scanned is None or _scanned[0] != path:
        from importlib.metadata import entry_points

        found: dict[tuple[str, str], _Announced] = {}
        for point in entry_points(group=GROUP):
            distribution = point.dist.name if point.dist is not None else "unknown"
            own = point.value.startswith("pygpuhash.plugins:")
            found.setdefault((distribution, point.name), _Announced(point.name, distribution, point.load, own))
        _scanned = path, list(found.values())
    return _scanned[1]


def resolve(name: str | os.PathLike[str]) -> str | type:
    """The C library's name or path of a backend, loaded; or the Python class behind the name.

    `name` is a backend's name, "distribution:name", or the path of a module. Raises `BackendNotFound`, `PluginError`,
    or what the C library says of the module.
    """
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    if not isinstance(name, str):
        raise TypeError(f"backend={name!r} is a {type(name).__name__}: pass a name, for example {DEFAULT!r}")
    if "/" in name or name.endswith(".so"):
        return str(_core.backend_open(str(Path(name).absolute()))["path"])
    distribution, colon, short = name.partition(":")
    if colon:
        candidates = [a for a in _announced() if (a.distribution, a.name) == (distribution, short)]
        if not candidates:
            raise BackendNotFound(_unknown(name, [f"{a.distribution}:{a.name}" for a in _announced()]))
        return _opened(_target(candidates[0]))
    candidates = [a for a in _announced() if a.name == name]
    if not candidates or name in _of_the_library:
        return _of_library(name)
    if name in _found_by_library():
        loaded = _of_library(name)
        _of_the_library.add(name)
        return loaded
    if len(candidates) > 1:
        owners = " and ".join(sorted(a.distribution for a in candidates))
        raise BackendNotFound(
            f"backend {name!r} is provided by {owners}: pick one, for example {candidates[0].distribution}:{name}"
        )
    return _opened(_target(candidates[0]))


def _opened(target: str | type) -> str | type:
    return target if isinstance(target, type) else str(_core.backend_open(target)["path"])


def _found_by_library() -> dict[str, str]:
    """The names that modules beside the library and on GPUHASH_PLUGIN_PATH have, and the paths of these modules."""
    return {info["name"]: info["path"] for info in _core.backend_list() if info["origin"] != "opened"}


def _of_library(name: str) -> str:
    try:
        return str(_core.backend_load(name)["name"])
    except BackendNotFound as error:
        near = difflib.get_close_matches(name, [a.name for a in _announced()], 1)
        if near and near[0] not in str(error):
            raise BackendNotFound(_unknown(name, [a.name for a in _announced()])) from None
        raise


def open_backend(path: str | os.PathLike[str]) -> BackendInfo:
    """Load the module at a path. The `name` of what is returned is for `Table`; so is the path itself.

    Raises `PluginError`, which says why the module cannot be used.
    """
    info = _core.backend_open(str(Path(path).absolute()))
    return _from_info(info, name_of(info), None)


def name_of(info: dict[str, Any], announced: list[_Announced] | None = None) -> str:
    """A name that reaches a module: where a distribution announces that of one which was opened, its path."""
    others = {a.name for a in (_announced() if announced is None else announced)}
    return str(info["path"] if info["origin"] == "opened" and info["name"] in others else info["name"])


def search_path_faults() -> list[str]:
    """What is wrong with GPUHASH_PLUGIN_PATH: a sentence for each element that cannot be searched."""
    faults = []
    for element in filter(None, os.environ.get("GPUHASH_PLUGIN_PATH", "").split(":")):
        place = Path(element)
        if not place.is_absolute():
            faults.append(f"{element!r} in GPUHASH_PLUGIN_PATH is not absolute and is left out")
        elif what := _search_fault(place):
            faults.append(f"{element!r} in GPUHASH_PLUGIN_PATH {what}")
    return faults


def _search_fault(place: Path) -> str | None:
    """Why a directory cannot be searched, if so."""
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            return "is not a directory"
    except PermissionError:
        return "cannot be read"
    except OSError:
        return "does not exist"
    return None if os.access(place, os.R_OK | os.X_OK) else "cannot be read"


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "pygpuhash.backends() lists what there is"
    return f"there is no backend {name!r}; {hint}"


def _target(announced: _Announced) -> str | type:
    """The path of the module of an entry point, or its class."""
    key = announced.distribution, announced.name
    if key not in _resolved:
        _resolved[key] = _load(announced)
    found: str | type = _resolved[key]
    return found


def _load(announced: _Announced) -> str | type:
    where = f"backend {announced.name!r} of distribution {announced.distribution!r}"
    try:
        target = announced.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{where} could not be imported: {_said(error)}") from error
    if not isinstance(target, (type, str, os.PathLike)):
        if not callable(target):
            raise PluginError(f"{where}: the entry point is {target!r}: it must be a function, a path or a class")
        try:
            target = target()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(f"{where} could not say where it is: {_said(error)}") from error
    if isinstance(target, type):
        if issubclass(target, _core.CoreTable):
            raise PluginError(f"{where} is a subclass of pygpuhash.Table: let its objects hold a Table instead")
        return target
    if not isinstance(target, (str, os.PathLike)):
        raise PluginError(f"{where}: the entry point returned {target!r}: it must return a module's path or a class")
    path = Path(target)
    if not path.is_absolute():
        raise PluginError(f"{where}: the entry point returned {str(path)!r}, which is not an absolute path")
    return str(path)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def backends() -> list[BackendInfo]:
    """Every backend that is known, usable or not. Never raises.

    Loads what can be loaded, but for modules that have a manifest: their rows are what that says.
    """
    found, rows = candidates()
    rows += [candidate.row(False) for candidate in found]
    return in_order(rows)


def in_order(rows: list[BackendInfo]) -> list[BackendInfo]:
    """Sorted, and without the rows of modules of the search path that an entry point has announced."""
    announced = {row.path for row in rows if row.distribution is not None}
    kept = [row for row in rows if row.distribution is not None or row.path is None or row.path not in announced]
    return sorted(kept, key=lambda row: (row.name, row.distribution or ""))


def candidates() -> tuple[list[Candidate], list[BackendInfo]]:
    """What `backends()` lists, before anything of it is loaded, and rows for what hides some of it. Never raises."""
    rows = []
    try:
        announced = _announced()
    except Exception as error:  # a broken metadata directory of a stranger must not hide the rest
        announced = []
        rows.append(BackendInfo(name="?", state="broken", error=f"entry points could not be read: {error}"))
    try:
        known = _core.backend_list()
    except GpuHashError as error:
        known = []
        rows.append(BackendInfo(name="?", state="broken", error=str(error)))
    found = [_announced_candidate(a, announced) for a in announced]
    return found + [_library_candidate(info, announced) for info in known], rows


def _announced_candidate(a: _Announced, announced: list[_Announced]) -> Candidate:
    rivals = [b for b in announced if b.name == a.name and b is not a]
    key = f"{a.distribution}:{a.name}"

    def holder() -> str | None:
        """The module that the plain name stands for, if the C library found one."""
        return _found_by_library().get(a.name)

    def row(load: bool) -> BackendInfo:
        try:
            return _announced_row(a, holder(), rivals, load)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever third-party code may raise
            said = str(error) if isinstance(error, GpuHashError) else _said(error)
            return BackendInfo(name, a.distribution, state="broken", error=said)

    name = a.name
    try:
        if rivals or holder() is not None:
            name = key
    except GpuHashError:
        pass
    return Candidate(key, name, a.distribution, None, a.own, row)


def _announced_row(a: _Announced, holder: str | None, rivals: list[_Announced], load: bool) -> BackendInfo:
    """The row of an entry point. holder: the module that the plain name stands for, if the C library found one."""
    target = _target(a)
    name, state, note = a.name, "usable", None
    if holder is not None and not _same_file(target, holder):
        name = f"{a.distribution}:{a.name}"
        note = f"the name {a.name!r} stands for {holder}; use {name!r}"
    elif holder is None and rivals:
        name, state = f"{a.distribution}:{a.name}", "ambiguous"
        note = f"more than one distribution provides {a.name!r}; use {name!r}"
    if not isinstance(target, type):
        return _module_row(target, name, a.distribution, state, note, load)
    return BackendInfo(
        name=name,
        distribution=a.distribution,
        version=getattr(target, "version", None),
        path=f"{target.__module__}.{target.__qualname__}",
        abi="python",
        devices=tuple(getattr(target, "devices", ("cpu",))),
        traits=frozenset(getattr(target, "traits", ())),
        key_widths=tuple(getattr(target, "key_widths", ())),
        value_widths=tuple(getattr(target, "value_widths", ())),
        state=state,
        summary=getattr(target, "summary", None) or None,
        options=tuple(Option(*row) for row in getattr(target, "options", ())),
        error=note if state == "ambiguous" else None,
        note=note,
    )


def _same_file(target: str | type, path: str) -> bool:
    if isinstance(target, type):
        return False
    try:
        return Path(target).samefile(path)
    except OSError:
        return target == path


def _library_candidate(info: dict[str, Any], announced: list[_Announced]) -> Candidate:
    """A module of the search path, or one that was opened. Its name is its path if the name stands for another one."""
    name = name_of(info, announced)
    note = None
    if Path(name).is_absolute():
        short = Path(name).stem.removeprefix("gpuhash_")
        note = f"the name {short!r} stands for another module; use the path"

    def row(load: bool) -> BackendInfo:
        try:
            return _module_row(info["path"], name, None, "usable", note, load, info)
        except GpuHashError as error:
            return _from_info({**info, "error": str(error)}, name, None, "broken", note)

    trusted = bool(info["loaded"]) or info["origin"] == "built in"
    return Candidate(info["path"], name, None, info["path"], trusted, row)


def _module_row(
    path: str,
    name: str,
    distribution: str | None,
    state: str,
    note: str | None,
    load: bool,
    info: dict[str, Any] | None = None,
) -> BackendInfo:
    """A module's row: of the module itself where it is loaded, or to be loaded, or has no manifest."""
    if info is None:
        info = next((known for known in _core.backend_list() if _same_file(path, known["path"])), None)
    said = None if load or (info is not None and info["loaded"]) else manifest.read(path)
    if said is not None:
        return of_manifest(said, name, distribution, path, "not loaded" if state == "usable" else state, note)
    info = _core.backend_load(path)
    if not info["error"] and (wrong := manifest.untrue(path, _manifest_of(info))):
        note = f"{note}; {wrong}" if note else wrong
    return _from_info(info, name, distribution, state, note)


def of_manifest(
    said: manifest.Manifest,
    name: str,
    distribution: str | None,
    path: str,
    state: str,
    note: str | None = None,
    error: str | None = None,
) -> BackendInfo:
    """The row that a manifest makes."""
    return BackendInfo(
        name=name,
        distribution=distribution,
        version=said.version,
        path=path,
        abi=f"v{said.abi}",
        devices=said.devices,
        traits=frozenset(said.traits),
        key_widths=said.key_widths,
        value_widths=said.value_widths,
        state=state,
        error=error or (note if state == "ambiguous" else None),
        summary=said.summary or None,
        note=note,
        options=tuple(Option(*row) for row in said.options),
    )


def module_of(backend: str | os.PathLike[str]) -> manifest.Manifest:
    """What the module of a backend says of itself, in the words of a manifest; loads it. Raises as `resolve` does."""
    target = resolve(backend)
    if isinstance(target, type):
        raise PluginError(
            f"backend {backend!r} is the class {target.__module__}.{target.__qualname__}: it has no manifest"
        )
    return _manifest_of(_core.backend_load(target))


def _manifest_of(info: dict[str, Any]) -> manifest.Manifest:
    """The manifest that is true of a module."""
    name = info["name"]
    if Path(name).is_absolute():  # which stands for another module; a module's file has the name of its backend
        name = Path(name).stem.removeprefix("gpuhash_")
    return manifest.Manifest(
        name=name,
        version=info["version"] or "",
        abi="1",
        devices=tuple(_DEVICE_NAMES[kind] for kind in info["devices"]),
        traits=tuple(sorted(info["traits"])),
        key_widths=info["key_widths"],
        value_widths=info["value_widths"],
        options=info["options"],
        summary=info["summary"] or "",
    )


def _from_info(
    info: dict[str, Any], name: str, distribution: str | None, state: str = "usable", note: str | None = None
) -> BackendInfo:
    broken = info["error"] is not None
    return BackendInfo(
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
        error=info["error"] or (note if state == "ambiguous" else None),
        summary=info["summary"],
        note=note,
        options=tuple(Option(*row) for row in info["options"]),
    )
