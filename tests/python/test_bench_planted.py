"""Slowdowns that are planted, each of which a gate has to name; and builds of equal sources, without an alarm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("planted slowdowns")]

# Name -> (file, text, what replaces it, the module that is built, the benchmark that each gate has to find slower).
PLANTED = {
    "twelve more hashes": (
        "plugins/linear_probe/layout.hpp",
        "    const auto h = hash(k, seed);\n",
        "    auto h = hash(k, seed);\n    for (u32 i = 0; i < 12; ++i) h ^= hash(k ^ key(h), seed + i);\n",
        "linear_probe",
        {"processor time": "linear_probe find_hit, 4+4, 2^17 keys", "instructions": "linear_probe find, 1000 keys"},
    ),
    "no prefetch": (
        "libgpuhash/drive/host_sizes.hpp",
        'tunable("blocks_ahead", 2u)',
        'tunable("blocks_ahead", 0u)',
        "slab_hash",
        {"processor time": "slab_hash find_hit, 4+4, 2^23 keys"},
    ),
    "a lock taken twice": (
        "plugins/hive/place.hpp",
        "    return Mem::template fetch_and<order::acquire>(lock, ~1u);\n",
        "    if (u32 first = Mem::template fetch_and<order::acquire>(lock, ~1u); first & 1) unlock(lock, first);\n"
        "    return Mem::template fetch_and<order::acquire>(lock, ~1u);\n",
        "hive",
        {"instructions": "hive insert, 1000 keys, nearly full"},
    ),
    "a quadratic export": (
        "libgpuhash/kit/whole_table.hpp",
        '  if (e) return fault(err, e, "exporting");\n  *n = size_t(found);\n',
        '  if (e) return fault(err, e, "exporting");\n'
        "  for (size_t i = 0; i < found; ++i)\n"
        "    for (size_t j = 0; j < found; ++j)\n"
        '      asm volatile("" ::"r"(static_cast<const char*>(keys)[i * kb + j % kb]));\n'
        "  *n = size_t(found);\n",
        "linear_probe",
        {"processor time": "linear_probe export, 4+4, 1000 keys", "instructions": "linear_probe export, 1000 keys"},
    ),
}
PROCESSES = 2  # of the third look
MODULES = {"instructions": "instructions", "processor time": "compare_builds"}


def build(folder: Path, change: tuple[str, str, str] | None = None, module: str = "") -> Path:
    """The library of these sources, with a change, without wider instruction sets; and this module, or all of them."""
    sources = folder / "sources"
    for name in ("libgpuhash", "plugins", "meson.build", "meson.options", "LICENSE", "tests/abi"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, sources / name)
    if change:
        file, text, other = change
        before = (sources / file).read_text()
        assert before.count(text) == 1, f"{file} has changed: plant it elsewhere"
        (sources / file).write_text(before.replace(text, other))
    meson = [sys.executable, "-P", "-m", "mesonbuild.mesonmain"]
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    targets = ["gpuhash", f"gpuhash_{module}"] if module else []
    for line in (["setup", "build", "-Dcuda=disabled", "-Disas="], ["compile", "-C", "build", *targets]):
        done = subprocess.run([*meson, *line], cwd=sources, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return sources / "build"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return build(tmp_path_factory.mktemp("base"))


def run(gate, *arguments):
    """(status, lines that were printed)."""
    command = [sys.executable, "-m", f"asv_bench.{MODULES[gate]}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_slowdown_is_found(base, name, tmp_path, say):
    file, text, other, module, found_by = PLANTED[name]
    planted = build(tmp_path, (file, text, other), module)
    for gate, benchmark in found_by.items():
        if gate == "instructions" and shutil.which("valgrind") is None:
            continue
        status, lines = run(gate, base, planted)
        assert status == 1, "\n".join(lines)
        found = [line for line in lines if line.startswith(f"{benchmark} ") and line.endswith(("SLOWER", "MORE"))]
        assert len(found) == (1 if gate == "instructions" else PROCESSES), "\n".join(lines)
        assert benchmark in lines[-1].partition("beyond its limit: ")[2]
        assert f'benchmark = "{benchmark}"' in lines
        say("planted slowdowns", f"{name}: {' '.join(found[-1].split())}; {lines[-1].partition(';')[0]}")


@pytest.mark.parametrize("gate", MODULES)
def test_equal_sources_are_equally_fast(base, gate, tmp_path):
    if gate == "instructions" and shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    status, lines = run(gate, base, build(tmp_path))
    assert status == 0, "\n".join(lines)
