"""Batches in the order of the table: divided_test.cpp says what is expected of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from simulator import ROOT, compiler


@pytest.mark.parametrize(
    "more", [(), ("-fsanitize=address,undefined",), ("-fsanitize=thread",)], ids=["", "address", "thread"]
)
def test_batches_are_divided(more: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "divided_test"
    source = Path(__file__).with_name("divided_test.cpp")
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread", *more]
    flags.append('-DGPUHASH_SIZES={"divided_piece", 256}')
    command = [*compiler(), *flags, f"-I{ROOT}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
