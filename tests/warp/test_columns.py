"""Verbs on columns of a CUDA device without a GPU: their kernels on warps that a CPU plays, and planted mistakes."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .column_mutants import MUTANTS
from .conftest import BUILD, ROOT, require_compiler

KERNELS = ["group.cu", "reduce.cu", "isin.cu", "join.cu"]
SOURCES = [*(f"libgpuhash/columns/cuda/{name}" for name in KERNELS), "libgpuhash/src/groups.cpp"]
SOURCES += [f"libgpuhash/src/{name}.cpp" for name in ("isin", "join", "error")] + ["tests/warp/columns.cpp"]
INCLUDED = ["libgpuhash/columns/cuda", "libgpuhash/src", "libgpuhash/hash", "libgpuhash/tile", "libgpuhash/sched"]
INCLUDED += ["libgpuhash/include", "tests/warp"]
FLAGS = ["-std=c++20", "-Og", "-Wall", "-Wextra", "-DGPUHASH_EMULATED_WARP=1"]
FLAGS += ["-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", "-Wno-missing-field-initializers"]
# Both passes and the count between them from 2,049 rows on, a sample from 256 on, and chunks and rounds of a few rows.
FLAGS += [
    "-DGPUHASH_GROUP_THREADS=64",
    "-DGPUHASH_GROUP_DIVIDERS=64",
    "-DGPUHASH_GROUP_SERVERS=64",
    "-DGPUHASH_GROUP_SLOTS=512",
    "-DGPUHASH_GROUP_EACH=4",
    "-DGPUHASH_GROUP_PASS_BITS=3",
    "-DGPUHASH_GROUP_COUNTED_BITS=4",
    "-DGPUHASH_GROUP_FREQUENT=64",
    "-DGPUHASH_GROUP_SAMPLE=64",
    "-DGPUHASH_GROUP_LONG_RUN=100",
    "-DGPUHASH_GROUP_OF_WARP=64",
    "-DGPUHASH_GROUP_FEW_ROWS=400",
    "-DGPUHASH_GROUP_LISTED=1024",
    "-DGPUHASH_GROUP_LIST_BITS=27",
]
PATHS = ["-Itests/warp/include", "-I.", "-Ilibgpuhash/include"]


def sources(root: Path) -> list[Path]:
    """Everything that the program includes."""
    files = [path for folder in INCLUDED for path in (root / folder).rglob("*")]
    return sorted(path for path in files if path.suffix in {".hpp", ".cuh", ".cu", ".cpp", ".h"})


def build(root: Path) -> Path:
    """Compile the kernels and their checks, unless they are there for this state of the sources."""
    require_compiler()
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    digest = hashlib.sha256(" ".join([*compiler, *FLAGS]).encode())
    for path in sources(root):
        digest.update(path.read_bytes())
    target = BUILD / digest.hexdigest()[:16] / "columns"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    objects = [target.with_name(f"{Path(source).name}.{os.getpid()}.o") for source in SOURCES]

    def compile_one(source: str, to: Path) -> None:
        command = [*compiler, *FLAGS, *PATHS, "-x", "c++", "-c", source, "-o", str(to)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_one, SOURCES, objects))
    fresh = target.with_suffix(f".{os.getpid()}")
    subprocess.run([*compiler, *map(str, objects), "-o", str(fresh)], check=True)
    for part in objects:
        part.unlink()
    fresh.rename(target)  # in one step, so that two builds at the same time do no harm
    return target


def run(program: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, env={**os.environ, **env})


@pytest.mark.slow
def test_kernels() -> None:
    """Groups, aggregates, isin and joins of columns of every shape against a map; a failure names the seed."""
    rounds, seed = os.environ.get("GPUHASH_WARP_ROUNDS", "1"), os.environ.get("GPUHASH_WARP_SEED", "1")
    done = run(build(ROOT), rounds, seed)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
    runs, steps = re.search(r"(\d+) runs, (\d+) steps, nothing wrong", done.stdout).groups()
    assert int(runs) >= 300
    assert int(steps) > 1_000_000


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def plant(root: Path) -> None:
    """A copy of the sources with every mistake planted, of which the variable GPUHASH_WARP_MUTANT switches one on."""
    for path in sources(ROOT):
        target = root / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for number, m in enumerate(MUTANTS, 1):
        path = root / m.file
        text = path.read_text()
        assert text.count(m.right) == 1, f"{m.name}: {m.file} has {text.count(m.right)} times {m.right!r}"
        active = f"emulated::mutant == {number}"
        if m.right.endswith(";"):
            mutated = f"if ({active}) {{ {m.wrong} }} else {{ {m.right} }}"
        else:
            mutated = f"({active} ? ({m.wrong}) : ({m.right}))"
        path.write_text(text.replace(m.right, mutated))


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant(tmp_path)


@pytest.fixture(scope="session")
def mutated() -> Path:
    root = BUILD / "mutated-columns"
    shutil.rmtree(root, ignore_errors=True)
    plant(root)
    return build(root)


@pytest.mark.slow
@pytest.mark.xdist_group("mutated columns")
def test_without_a_mistake_switched_on(mutated: Path) -> None:
    assert run(mutated).returncode == 0


@pytest.mark.slow
@pytest.mark.xdist_group("mutated columns")
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name for m in MUTANTS])
def test_mistake_is_noticed(mutated: Path, number: int) -> None:
    done = run(mutated, "3", GPUHASH_WARP_MUTANT=str(number))
    print(done.stderr)
    assert done.returncode, f"{MUTANTS[number - 1].wrong} instead of {MUTANTS[number - 1].right} passed"
