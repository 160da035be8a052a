"""Build and run the explorer: ``python tests/model/explore.py linear_probe --programs pairs``.

Needs g++ (or the compiler that ``CXX`` names) and nothing else. Programs are built once per state of the sources, into
``tests/model/.build/``.
"""

from __future__ import annotations

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
FLAGS = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-I."]


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


def build(name: str, sources: list[str], definitions: list[str] | None = None) -> Path:
    """Compile ``sources`` into ``.build/<hash>/<name>`` unless it is there; return its path."""
    command = [*compiler(), *FLAGS, *(definitions or [])]
    folder = BUILD / source_hash([*command, *sources])
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Names of this process, and a rename at the end, so that two builds at the same time do no harm.
        objects = [folder / f"{name}.{k}.{os.getpid()}.o" for k in range(len(sources))]
        fresh = target.with_suffix(f".{os.getpid()}")

        def compile_one(source: str, to: Path) -> None:
            subprocess.run([*command, "-c", source, "-o", str(to)], cwd=ROOT, check=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, sources, objects))
        subprocess.run([*command, *map(str, objects), "-o", str(fresh)], cwd=ROOT, check=True)
        for path in objects:
            path.unlink()
        fresh.rename(target)
    return target


def build_explorer() -> Path:
    """The explorer with every structure that has a ``plugin_sim.cpp``."""
    known = plugins()
    missing = ",".join(name for name, explored in known.items() if not explored)
    sources = ["libgpuhash/sched/explore.cpp", "libgpuhash/sched/gate_sim.cpp"]
    sources += [f"plugins/{name}/plugin_sim.cpp" for name, explored in known.items() if explored]
    return build("gpuhash-explore", sources, [f'-DGPUHASH_UNEXPLORED="{missing}"'])


if __name__ == "__main__":
    explorer = build_explorer()
    os.execv(explorer, [str(explorer), *sys.argv[1:]])
