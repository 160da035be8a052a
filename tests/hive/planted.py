"""Programs of this folder, and mistakes planted in the sources that they test."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "plugins" / "hive"
VARIABLE = "GPUHASH_MISTAKE"


def compiled(source: str, target: Path, flags: list[str], includes: list[Path]) -> Path:
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    paths = [f"-I{path}" for path in (*includes, ROOT, ROOT / "libgpuhash" / "include")]
    program = str(Path(__file__).with_name(source))
    command = [*compiler, "-std=c++20", "-O1", *flags, *paths, program, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return target


def write(root: Path, name: str, text: str) -> None:
    folder = root / "plugins" / "hive"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def with_switch(text: str) -> str:
    """A source in which `mistake` is the number that the variable GPUHASH_MISTAKE has."""
    switch = f'#include <stdlib.h>\nstatic const int mistake = getenv("{VARIABLE}") ? atoi(getenv("{VARIABLE}")) : 0;\n'
    return text.replace("#pragma once\n", "#pragma once\n" + switch, 1)


def run(program: Path, *arguments: str, mistake: int = 0) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, VARIABLE: str(mistake)}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=100, env=variables)
