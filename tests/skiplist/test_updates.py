"""Updates on the CPU, visit by visit (updates.cpp)."""

import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-O1", "-mcx16", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]


def test_shared_chunks_are_asked_for_to_read(tmp_path: Path) -> None:
    program, seed = tmp_path / "updates", random.randrange(1 << 31)
    print(f"seed {seed}")
    command = ["g++", *FLAGS, "-I.", "-Ilibgpuhash/include", "tests/skiplist/updates.cpp", "-o", str(program)]
    subprocess.run(command, cwd=ROOT, check=True)
    done = subprocess.run([program, str(seed)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout
