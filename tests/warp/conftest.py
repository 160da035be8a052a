"""Programs that run CUDA kernels on emulated warps (emulator.hpp), as they are and with planted mistakes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import resource
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from .mutants import Mutant

Built = TypeVar("Built")

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "tests-warp"
STRUCTURES = ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"]
FLAGS = ["-std=c++20", "-Og", "-Wall", "-Wextra", "-DGPUHASH_EMULATED_WARP=1"]
# Pragmas are nvcc's; lanes beyond a row carry words that nobody reads.
FLAGS += ["-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", "-Wno-missing-field-initializers"]
FLAGS += ["-include", str(ROOT / "tests" / "sizes" / "kernels.hpp")]
# As many parts in a pass as two warps have lanes, where the other structures take two passes (tests/sizes/kernels.hpp).
OWN_SIZES = {"hive": '{"cuda.most_bins", 64},'}
SUFFIXES = {".hpp", ".cuh", ".cu", ".cpp", ".h"}


def sources(root: Path) -> list[Path]:
    """Everything that a program can include."""
    folders = [root / "libgpuhash", root / "plugins", root / "tests" / "warp", ROOT / "tests" / "sizes"]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES)


def compiler() -> list[str]:
    """g++, or what CXX names."""
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    return command


def compile_program(
    root: Path, name: str, files: Iterable[Path], flags: Sequence[str], parts: Sequence[Sequence[str]]
) -> Path:
    """The program of `parts`, each of which is what one compilation is given, over the sources below `root`.

    It is compiled once for these flags and for what is in `files`, which it may include.
    """
    command = [*compiler(), *flags]
    digest = hashlib.sha256(" ".join(command).encode())
    for path in files:
        digest.update(path.read_bytes())
    target = BUILD / digest.hexdigest()[:16] / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    objects = [target.with_suffix(f".{number}.{os.getpid()}.o") for number in range(len(parts))]

    def compile_one(part: Sequence[str], to: Path) -> None:
        done = subprocess.run([*command, *part, "-c", "-o", str(to)], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, parts, objects))
    fresh = target.with_suffix(f".{os.getpid()}")
    subprocess.run([*compiler(), *map(str, objects), "-o", str(fresh)], check=True)
    for path in objects:
        path.unlink()
    fresh.rename(target)  # in one step, so that two builds at the same time do no harm
    return target


def build(root: Path, structure: str) -> Path:
    """A structure's kernels and its checks."""
    flags = [*FLAGS, "-Itests/warp/include", "-I.", "-Ilibgpuhash/include", f"-Iplugins/{structure}"]
    if structure in OWN_SIZES:
        flags.append(f"-DGPUHASH_OWN_SIZES={OWN_SIZES[structure]}")
    parts = [["-x", "c++", f"plugins/{structure}/plugin_cuda.cu"], [f"tests/warp/{structure}.cpp"]]
    return compile_program(root, structure, sources(root), flags, parts)


def build_all(root: Path) -> dict[str, Path]:
    """The programs of all structures, two at a time or as many as there are cores for."""
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 1) // 2)) as pool:
        return dict(zip(STRUCTURES, pool.map(lambda s: build(root, s), STRUCTURES), strict=True))


def run(program: Path, *arguments: str, seconds: int = 900, **env: str) -> subprocess.CompletedProcess[str]:
    """A program that was built, which is ended by SIGXCPU after so many seconds of processor time."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, env={**os.environ, **env}, preexec_fn=limit
    )


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def plant(root: Path, files: Iterable[Path], mutants: Sequence[Mutant]) -> None:
    """A copy of `files` with every mistake planted, of which the variable GPUHASH_WARP_MUTANT switches one on."""
    for path in files:
        target = root / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for path in {root / m.file for m in mutants}:  # each has to know the variable
        begin, pragma, rest = path.read_text().rpartition("#pragma once\n")
        path.write_text(f'{begin}{pragma}#include "tests/warp/emulator.hpp"\n{rest}')
    for number, m in enumerate(mutants, 1):
        path = root / m.file
        text = path.read_text()
        assert text.count(m.right) == 1, f"{m.name}: {m.file} has {text.count(m.right)} times {m.right!r}"
        active = f"emulated::planted({number})"
        if m.right.endswith(";"):
            mutated = f"if ({active}) {{ {m.wrong} }} else {{ {m.right} }}"
        else:
            mutated = f"({active} ? ({m.wrong}) : ({m.right}))"
        before, after = text.split(m.right)
        # A compiler may evaluate what initializes a constant while it compiles, where no mistake is switched on.
        before = re.sub(r"\bconst (\w+ \w+ = [^;{}]*)$", r"\1", before)
        path.write_text(before + mutated + after)


def planted_once(name: str, plant_into: Callable[[Path], None], build_at: Callable[[Path], Built]) -> Built:
    """What is built of sources with planted mistakes: one process plants and compiles, others that want it wait."""
    BUILD.mkdir(parents=True, exist_ok=True)
    root = BUILD / name
    with (BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = BUILD / f"{name}.fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        plant_into(fresh)
        shutil.rmtree(root, ignore_errors=True)
        fresh.rename(root)
        return build_at(root)


@pytest.fixture
def warps(structure: str) -> Path:
    """The program of a test's structure: of no other one, since each takes long to compile."""
    return build(ROOT, structure)
