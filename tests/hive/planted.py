"""Programs of this folder, and mistakes planted in the sources that they test."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

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


def write(root: Path, name: str, text: str, folder: str = "plugins/hive") -> None:
    target = root / folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def with_switch(text: str) -> str:
    """A source in which `mistake` is the number that the variable GPUHASH_MISTAKE has."""
    switch = f'#include <stdlib.h>\nstatic const int mistake = getenv("{VARIABLE}") ? atoi(getenv("{VARIABLE}")) : 0;\n'
    return text.replace("#pragma once\n", "#pragma once\n" + switch, 1)


class Mistake(NamedTuple):
    """`instead` stands where `there` does, once; PLANTED says that this mistake is active."""

    name: str
    there: str
    instead: str


def left_out(name: str, statement: str) -> Mistake:
    return Mistake(name, statement, f"{{ if (!PLANTED) {{ {statement} }} }}")


def swapped(name: str, right: str, wrong: str) -> Mistake:
    return Mistake(name, right, f"(PLANTED ? ({wrong}) : ({right}))")


def planted(source: Path, mistakes: list[Mistake], after: int = 0) -> str:
    """The source with all mistakes, one of which the variable switches on.

    `after`: so many mistakes are in a file that includes this one.
    """
    text = source.read_text()
    for number, m in enumerate(mistakes, after + 1):
        assert text.count(m.there) == 1, f"{m.name}: {source.name} has {text.count(m.there)} times {m.there!r}"
        text = text.replace(m.there, m.instead.replace("PLANTED", f"(mistake == {number})"))
    return text if after else with_switch(text)


def run(program: Path, *arguments: str, mistake: int = 0) -> subprocess.CompletedProcess[str]:
    """It ends after 300 s of processor time, which other programs do not use up: who waits for ever is a mistake."""
    variables = {**os.environ, VARIABLE: str(mistake)}
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env=variables,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (300, 310)),
    )
