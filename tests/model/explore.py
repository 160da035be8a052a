"""Build and run the explorer: ``python tests/model/explore.py linear_probe --programs pairs``.

Needs g++ (or the compiler that ``CXX`` names) and nothing else. Programs are built once per state of the sources, into
``tests/model/.build/``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "tests" / "model" / ".build"
# -O1: explores as fast as -O2 does, and compiles in two thirds of its time.
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
FLAGS += ["-I.", "-Ilibgpuhash/include"]


def plugins() -> dict[str, bool]:
    """Name of every structure in ``plugins/`` -> does it have a simulator build (``plugin_sim.cpp``)?"""
    folders = sorted(p for p in (ROOT / "plugins").iterdir() if any(p.glob("*.[ch]*")))
    return {p.name: (p / "plugin_sim.cpp").exists() for p in folders}


def compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        raise SystemExit(f"explore.py: no C++ compiler '{command[0]}'; install g++ or name one in CXX")
    return command


def source_hash(command: list[str]) -> str:
    """Hash of the command and of every C++ source that an explorer can include."""
    digest = hashlib.sha256(" ".join(command).encode())
    for folder in ("libgpuhash", "plugins", "tests/model"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".hpp", ".cpp", ".def"}:
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build(name: str, sources: list[str]) -> Path:
    """Compile ``sources`` into ``.build/<hash>/<name>`` unless it is there; return its path."""
    command = [*compiler(), *FLAGS]
    folder = BUILD / source_hash([*command])

    def made(target: Path, *arguments: str) -> Path:
        """A file by the compiler, once; by a rename, so that two builds at the same time do no harm."""
        if not target.exists():
            fresh = target.with_suffix(f".{os.getpid()}")
            subprocess.run([*command, *arguments, "-o", str(fresh)], cwd=ROOT, check=True)
            fresh.rename(target)
        return target

    def compiled(source: str) -> str:
        path, _, definition = source.partition(" ")
        target = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.o"
        return str(made(target, *([definition] if definition else []), "-c", path))

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock, ThreadPoolExecutor(os.cpu_count()) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process compiles, on all cores
        objects = list(pool.map(compiled, sources))
        return made(folder / name, *objects)


def build_explorer(name: str = "gpuhash-explore", known: dict[str, bool] | None = None) -> Path:
    """The explorer with every structure of ``known`` that has a ``plugin_sim.cpp``; by default of ``plugins()``."""
    known = plugins() if known is None else known
    missing = ",".join(name for name, explored in known.items() if not explored)
    # The longest first, so that no core is left with one at the end.
    sources = [f"plugins/{name}/plugin_sim.cpp" for name, explored in known.items() if explored]
    sources += [
        "libgpuhash/sched/explore.cpp",
        "plugins/linear_probe/gate_sim.cpp",
        "plugins/linear_probe/bulk_sim.cpp",
    ]
    sources += [f'libgpuhash/sched/unexplored.cpp -DGPUHASH_UNEXPLORED="{missing}"']
    return build(name, sources)


if __name__ == "__main__":
    explorer = build_explorer()
    os.execv(explorer, [str(explorer), *sys.argv[1:]])
