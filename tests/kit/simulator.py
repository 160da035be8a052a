"""Build the simulated kit: ``python tests/kit/simulator.py slab_hash cuda plain 1 100`` builds and runs it.

Needs g++ (or the compiler that ``CXX`` names) and nothing else. Programs are built once per state of the sources, into
``tests/kit/.build/``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "tests" / "kit" / ".build"
FLAGS = ["-std=c++20", "-Og", "-g1", "-Wno-missing-field-initializers", "-Wno-unknown-pragmas"]
if os.uname().machine == "x86_64":
    FLAGS.append("-mcx16")
STRUCTURES = ("hive", "linear_probe", "skiplist", "slab_hash", "stadium")

# Constants at their extremes (tests/sizes/kit.hpp).
EXTREMES = ("-DGPUHASH_AT_EXTREMES",)


def compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(command[0]) is None:
        raise SystemExit(f"simulator.py: no C++ compiler '{command[0]}'; install g++ or name one in CXX")
    return command


def digest_of(command: list[str], root: Path) -> str:
    """Hash of a compiler's command and of all that it reads."""
    rule = subprocess.run([*command, "-MM"], cwd=root, check=True, capture_output=True, text=True).stdout
    digest = hashlib.sha256(" ".join(command).encode())
    for name in rule.partition(":")[2].replace("\\\n", " ").split():
        digest.update((root / name).read_bytes())
    return digest.hexdigest()[:16]


def compile_once(command: list[str], name: str, digest: str, root: Path) -> Path:
    """Run ``command`` with ``-o`` a file that is made once for ``digest``."""
    target = BUILD / digest / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(fresh)], cwd=root, check=True)
        fresh.rename(target)  # in one step, so that two builds at the same time do no harm
    return target


def build(definitions: tuple[str, ...] = (), root: Path = ROOT) -> Path:
    """The simulator over the sources below ``root``, with these constants."""
    includes = ["-I.", "-Ilibgpuhash/include", f"-I{ROOT}"]
    common = [*compiler(), *FLAGS, *includes]

    def engines(name: str) -> Path:
        command = [*common, f"-DGPUHASH_ISA=sim_{name}", f"-Iplugins/{name}", "-c", f"plugins/{name}/plugin_host.cpp"]
        return compile_once(command, f"{name}.o", digest_of(command, root), root)

    def harness() -> Path:
        own = ["-DGPUHASH_SIM_KIT", "-include", str(ROOT / "tests/sizes/kit.hpp"), "-Wall", "-Wextra", *definitions]
        command = [*common, *own, "-c", str(ROOT / "tests/kit/kit_sim.cpp")]
        return compile_once(command, "kit_sim.o", digest_of(command, root), root)

    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process compiles, on all cores
        jobs = [pool.submit(engines, name) for name in STRUCTURES] + [pool.submit(harness)]
        objects = [str(job.result()) for job in jobs]
        digest = hashlib.sha256(" ".join(objects).encode()).hexdigest()[:16]
        return compile_once([*compiler(), *objects], "kit_sim", digest, root)


if __name__ == "__main__":
    simulator = build()
    os.execv(simulator, [str(simulator), *sys.argv[1:]])
