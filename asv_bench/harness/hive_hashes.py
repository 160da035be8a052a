"""hive with other hash functions: by name on the CPU, on CUDA as modules that are compiled for them alone."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .figure import Settings
from .modules import arch_of, compile_module

# As libgpuhash/hash/functions.hpp numbers them.
NUMBERS = {"bithash1": 1, "bithash2": 2, "murmur": 3, "city": 4, "crc32": 5, "crc64": 6}


def code_of(names: str) -> int:
    """ "bithash1+city" to what HIVE_HASHES is in the sources: 4 bits for each bucket of a key."""
    return sum(NUMBERS[name] << 4 * way for way, name in enumerate(names.split("+")))


def module_with(names: str, folder: Path, arch: str) -> Path:
    """hive with these functions, which is compiled unless an earlier run has left it in this folder."""
    target = folder / names / "gpuhash_hive.so"
    if not target.exists():
        compile_module("hive", target.parent, arch, [f"-DHIVE_HASHES={code_of(names)}", "-DGPUHASH_PAIR32_ONLY"])
    return target


def tables_of(settings: Settings, all_names: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The backend and the options of the default and of each pair or triple of functions.

    Modules for CUDA stay in the folder that --option modules= names; without it they are compiled into a temporary one.
    """
    options: dict[str, Any] = {key: value for key, value in settings.options.items() if key not in ("arch", "modules")}
    tables: dict[str, tuple[str, dict[str, Any]]] = {"default": ("hive", options)}
    if not settings.on_cuda:
        return tables | {names: ("hive", options | {"hashes": names}) for names in all_names}
    folder = Path(settings.options.get("modules") or tempfile.mkdtemp(prefix="gpuhash-hashes-"))
    arch = arch_of(settings)
    with ThreadPoolExecutor() as pool:
        modules = list(pool.map(lambda names: module_with(names, folder, arch), all_names))
    return tables | {
        names: (str(module), options | {"ways": names.count("+") + 1})
        for names, module in zip(all_names, modules, strict=True)
    }
