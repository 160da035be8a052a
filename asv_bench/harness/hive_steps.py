"""What each step of hive's inserts costs, and how often it happens: hive_steps.cpp, compiled when it is needed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .devices import Unavailable
from .modules import ROOT, compile_source
from .runs import Wrong

STEPS = ("home", "other buckets", "lock and claim", "evict", "stash")
CHAINS = ("chains of 1", "of 2", "of 3", "longer")  # inserts by the keys that they moved
COUNTS = ("locks", "moves", "evicting", "longest", "stashed", "full", *CHAINS)
PER_INSERT = ("locks", "moves", "evicting")
NOTE = "each step with the time that it takes to read the clock"


def run(
    slots: int, bucket: int, ways: int, loads: Sequence[float], repeats: int, arch: str | None
) -> dict[float, list[dict[str, int]]]:
    """For each load and repeat: inserts into an empty table, cycles of each of STEPS, and COUNTS.

    `arch`: of a GPU, whose warps have an element each at a time; None: one thread of the CPU.
    """
    if not (ROOT / "plugins" / "hive").is_dir():
        raise Unavailable("the steps of inserts are timed in hive's sources: run it from a checkout of the repository")
    with tempfile.TemporaryDirectory(prefix="gpuhash-steps-") as folder:
        target = Path(folder) / "hive_steps"
        flags = [f"-DHIVE_BUCKET_BITS={bucket.bit_length() - 1}"]
        flags += [f"-I{ROOT / part}" for part in (".", "libgpuhash/include", "plugins/hive")]
        compile_source("hive_steps.cpp", target, arch, flags, [])
        seen: dict[float, list[dict[str, int]]] = {load: [] for load in loads}
        for _ in range(repeats):
            command = [str(target), str(slots), str(ways), *map(str, loads)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                raise Wrong(f"hive_steps ended with status {done.returncode}: {done.stderr[-500:]}")
            for load, line in zip(loads, done.stdout.splitlines(), strict=True):
                names = ("inserts", *STEPS, *COUNTS)
                row = dict(zip(names, map(int, line.split()[1:]), strict=True))
                if row["inserts"] == 0:
                    raise Wrong(f"no insert found room at a load of {load}")
                seen[load].append(row)
    return seen
