"""How this installation was built, and where its headers are."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda

__all__ = ["get_cmake_dir", "get_include", "get_libraries", "get_library_dirs", "get_pkgconfig_dir", "show_config"]

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
