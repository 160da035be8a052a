"""The gate of batches on CUDA against an account of what runs at the same time, and mistakes in it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GATE = Path("libgpuhash/kit/gate.hpp")
MISTAKES = {
    "erasers-do-not-wait": ("if (t->erases && l.keys_stay)", "if (false)"),
    "keys-stay-beside-erasers": ("if (l.erases) t->keys_stay = false;", ""),
    "erasers-are-forgotten": ("l.erases |= t.erases;", ""),
    "promise-is-forgotten": ("l.keys_stay |= t.keys_stay;", ""),
    "graphs-beside-a-promise": ("if (writes && l.keys_stay)", "if (false)"),
    "nobody-is-promised": ("if (l.writes && !api_.finished(l.event)) {", "{ t->keys_stay = false;"),
}


def run(folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Compile against the gate below ``root``, and run."""
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    program = folder / "gate_test"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]
    flags += [f"-I{place}" for place in (root, ROOT, ROOT / "libgpuhash/include")]
    source = Path(__file__).with_name("gate_test.cpp")
    subprocess.run([*command, *flags, str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=60)


def test_nobody_clashes(tmp_path: Path) -> None:
    done = run(tmp_path, ROOT)
    print(done.stdout)
    assert done.returncode == 0, done.stderr or done.stdout


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_noticed(tmp_path: Path, name: str) -> None:
    right, wrong = MISTAKES[name]
    text = (ROOT / GATE).read_text()
    assert text.count(right) == 1
    (tmp_path / GATE).parent.mkdir(parents=True)
    (tmp_path / GATE).write_text(text.replace(right, wrong))
    done = run(tmp_path, tmp_path)
    assert done.returncode, done.stdout
