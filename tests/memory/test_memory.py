"""Memory of the host is compared with what there is: with small blocks, and files that say how much there is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("memory")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["tests/memory/memory_test.cpp", *(f"libgpuhash/src/{name}.cpp" for name in ("memory", "cgroups", "error"))]
FLAGS = [
    *("-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I.", "-Ilibgpuhash/include"),
    '-DGPUHASH_SIZES={"memory_checked", 256 << 10}, {"memory_step", 1 << 20}',
]
CASES = [
    "the_system",
    "groups_of_version_2",
    "groups_of_version_1",
    "small_ones_are_counted",
    "large_ones_come_into_being",
    "others_take_memory_meanwhile",
    "what_is_granted_is_not_granted_twice",
    "the_system_refuses",
    "the_default_resource",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("memory") / "memory_test"
    subprocess.run(["g++", *FLAGS, *SOURCES, "-o", str(program)], cwd=ROOT, check=True)
    return program


@pytest.mark.parametrize("case", CASES)
def test_memory(program: Path, tmp_path: Path, case: str) -> None:
    env = {**os.environ, "GPUHASH_TEST_MEMORY": str(tmp_path)}
    done = subprocess.run([program, case], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_case_is_run(program: Path) -> None:
    env = {**os.environ, "GPUHASH_TEST_MEMORY": "/nowhere"}
    listed = subprocess.run([program], capture_output=True, text=True, timeout=60, env=env)
    assert listed.stdout.split() == CASES


@pytest.mark.parametrize("what", ["hive", "linear_probe", "skiplist", "slab_hash", "stadium", "slabs"])
def test_tables_refuse_what_is_not_there(tmp_path: Path, what: str) -> None:
    env = {**os.environ, "GPUHASH_TEST_MEMORY": str(tmp_path)}
    command = [sys.executable, Path(__file__).with_name("tables.py"), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env)
    assert done.returncode == 0, done.stderr
