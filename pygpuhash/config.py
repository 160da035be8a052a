"""How this installation was built, and where its headers are."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda
from pygpuhash.errors import GpuHashError

__all__ = [
    "driver_needed",
    "get_cmake_dir",
    "get_include",
    "get_libraries",
    "get_library_dirs",
    "get_pkgconfig_dir",
    "show_config",
]

_OLDEST_TOOLKIT = 12  # its major version, of those that the CUDA sources are for
_PACKAGE = Path(__file__).resolve().parent


def get_include() -> str:
    """Directory with gpuhash/gpuhash.h and gpuhash/plugin.h, for programs and plugins in C."""
    return str(_PACKAGE / "include")


def get_libraries() -> list[str]:
    """What a program links: names for the linker's -l, of files in `get_library_dirs()`."""
    return [":libgpuhash.so.0"]


def get_library_dirs() -> list[str]:
    """Directories with the library: for the linker's -L, and for -rpath, or where a program runs."""
    return [str(_PACKAGE)]


def get_cmake_dir() -> str:
    """Directory for CMake: cmake -Dgpuhash_DIR=... finds the package `gpuhash` there."""
    return str(_PACKAGE / "cmake")


def get_pkgconfig_dir() -> str:
    """Directory with gpuhash.pc and gpuhash-kit.pc, for PKG_CONFIG_PATH."""
    return str(_PACKAGE / "pkgconfig")


def _cuda_python() -> str:
    """Versions of the packages, which are not imported for it; where there is a GPU, how to install what is missing."""
    import importlib.metadata  # takes a while

    found = []
    for name in ("cuda-core", "cuda-bindings"):
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    wanted = any(name.startswith("no ") for name in found) and _core.device_count(_core.CUDA)[0] > 0
    return ", ".join(found) + (f": {_cuda.install()}" if wanted else "")


def driver_needed() -> str:
    """Which CUDA driver this build needs, and which one is there.

    Machine code that a toolkit has made runs with drivers from the first one of the toolkit's major version on.
    """
    built = re.search(r"CUDA: (\d+)\.(\d+)", _core.build_info())
    if built is None:
        return "none is needed: this build is without CUDA (GPUHASH_CUDA in setup.py says how to build with it)"
    major = int(built[1])
    needed = f"for CUDA {major}.0 or newer (built with {built[1]}.{built[2]})"
    count, reason = _core.device_count(_core.CUDA)
    if not count:
        return f"{needed}; {reason or 'no device is here'}"
    try:
        version = _core.device_info(_core.CUDA, 0)["driver_version"]
    except GpuHashError as error:
        return f"{needed}; {error}"
    present = f"here is one for CUDA {version // 1000}.{version % 1000 // 10}"
    if version // 1000 >= major:
        return f"{needed}; {present}"
    older, its_major = f"{needed}; {present}, which is older: update it", version // 1000
    if its_major < _OLDEST_TOOLKIT:
        return older
    return f"{older}, or take gpuhash {_core.version()}+cu{its_major}, which a toolkit of CUDA {its_major} has built"


def show_config(mode: str = "print") -> dict[str, Any] | None:
    """Print versions, build, paths and devices; with mode="dict", return them instead."""
    if mode not in ("print", "dict"):
        raise ValueError(f"mode={mode!r} is not known: pass 'print' or 'dict'")
    cuda_devices, reason = _core.device_count(_core.CUDA)
    config: dict[str, Any] = {
        "pygpuhash": _core.version(),
        "build": _core.build_info(),
        "extension": _core.__file__,
        "headers": get_include(),
        "plugin path": os.environ.get("GPUHASH_PLUGIN_PATH", ""),
        "cuda": f"{cuda_devices} device{'s' * (cuda_devices != 1)}" if cuda_devices else reason or "no device",
        "cuda driver": driver_needed(),
        "cuda-python": _cuda_python(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
    }
    if mode == "dict":
        return config
    width = max(map(len, config))
    for key, value in config.items():
        print(f"{key:<{width}}  {value}")
    return None
