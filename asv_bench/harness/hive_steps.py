"""What each step of hive's inserts costs, and how often it happens: hive_steps.cpp, compiled when it is needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .devices import Unavailable
from .runs import Wrong

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("home", "other buckets", "lock and claim", "evict", "stash")
CHAINS = ("chains of 1", "of 2", "of 3", "longer")  # inserts by the keys that they moved
COUNTS = ("locks", "moves", "evicting", "longest", "stashed", "full", *CHAINS)
PER_INSERT = ("locks", "moves", "evicting")
NOTE = "each step with the time that it takes to read the clock"


def run(slots: int, bucket: int, ways: int, loads: Sequence[float], repeats: int) -> dict[float, list[dict[str, int]]]:
    """For each load and repeat: inserts into an empty table, cycles of each of STEPS, and COUNTS."""
    compiler = shutil.which("c++")
    if compiler is None:
        raise Unavailable("the steps of inserts are timed by a program that needs a C++ compiler on PATH (c++)")
    with tempfile.TemporaryDirectory(prefix="gpuhash-steps-") as folder:
        target = Path(folder) / "hive_steps"
        command = [compiler, "-std=c++20", "-O3", "-march=native", f"-DHIVE_BUCKET_BITS={bucket.bit_length() - 1}"]
        command += [
            f"-I{ROOT}",
            f"-I{ROOT / 'libgpuhash' / 'include'}",
            str(Path(__file__).with_name("hive_steps.cpp")),
        ]
        subprocess.run([*command, "-o", str(target)], check=True)
        seen: dict[float, list[dict[str, int]]] = {load: [] for load in loads}
        for _ in range(repeats):
            done = subprocess.run(
                [str(target), str(slots), str(ways), *map(str, loads)], check=True, capture_output=True, text=True
            )
            for load, line in zip(loads, done.stdout.splitlines(), strict=True):
                names = ("inserts", *STEPS, *COUNTS)
                row = dict(zip(names, map(int, line.split()[1:]), strict=True))
                if row["inserts"] == 0:
                    raise Wrong(f"no insert found room at a load of {load}")
                seen[load].append(row)
    return seen
