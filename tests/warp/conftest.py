"""Programs that run the CUDA kernels of a structure on emulated warps (emulator.hpp)."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "tests-warp"
STRUCTURES = ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"]
FLAGS = ["-std=c++20", "-Og", "-Wall", "-Wextra", "-DGPUHASH_EMULATED_WARP=1"]
# Pragmas are nvcc's; lanes beyond a row carry words that nobody reads.
FLAGS += ["-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", "-Wno-missing-field-initializers"]
FLAGS += ["-include", str(ROOT / "tests" / "sizes" / "kernels.hpp")]
SUFFIXES = {".hpp", ".cuh", ".cu", ".cpp", ".h"}


def sources(root: Path) -> list[Path]:
    """Everything that a program can include."""
    folders = [root / "libgpuhash", root / "plugins", root / "tests" / "warp", ROOT / "tests" / "sizes"]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES)


def build(root: Path, structure: str) -> Path:
    """Compile a structure's kernels and its checks, unless they are there for this state of the sources."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    digest = hashlib.sha256(" ".join([*compiler, *FLAGS]).encode())
    for path in sources(root):
        digest.update(path.read_bytes())
    target = BUILD / digest.hexdigest()[:16] / structure
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        includes = ["-Itests/warp/include", "-I.", "-Ilibgpuhash/include", f"-Iplugins/{structure}"]
        parts = {
            "kernels": ["-x", "c++", f"plugins/{structure}/plugin_cuda.cu"],
            "checks": [f"tests/warp/{structure}.cpp"],
        }
        objects = []
        for part, source in parts.items():
            objects.append(target.with_suffix(f".{part}.{os.getpid()}.o"))
            compile_one = [*compiler, *FLAGS, *includes, *source, "-c", "-o", str(objects[-1])]
            done = subprocess.run(compile_one, cwd=root, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
        fresh = target.with_suffix(f".{os.getpid()}")
        subprocess.run([*compiler, *map(str, objects), "-o", str(fresh)], check=True)
        for part in objects:
            part.unlink()
        fresh.rename(target)  # in one step, so that two builds at the same time do no harm
    return target


def require_compiler() -> None:
    if shutil.which(shlex.split(os.environ.get("CXX", "g++"))[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")


def build_all(root: Path) -> dict[str, Path]:
    """The programs of all structures, two at a time."""
    require_compiler()
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(STRUCTURES, pool.map(lambda s: build(root, s), STRUCTURES), strict=True))


@pytest.fixture
def warps(structure: str) -> Path:
    """The program of a test's structure: of no other one, since each takes long to compile."""
    require_compiler()
    return build(ROOT, structure)
