""".ci/nightly: its shards have every job once, and its jobs every slow test once. None of them is run here."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NIGHTLY = ROOT / ".ci" / "nightly"
if not NIGHTLY.exists() or not (ROOT / ".git").exists() or shutil.which("git") is None:
    pytest.skip("needs a checkout of the repository, and git", allow_module_level=True)


def run(*arguments):
    env = {**os.environ, "PYTHON": "python"}
    return subprocess.run([NIGHTLY, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60)


def jobs(shard):
    done = run(shard, "--list")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def files(of):
    """Which the jobs run the slow tests of."""
    start = "python -P -m pytest -q -m slow -n auto "
    return [job.removeprefix(start) for job in of if job.startswith(start)]


def has_slow(path):
    """Is something marked slow in the file, by whichever name pytest's marks go?"""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "slow" for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize("count", [1, 2, 4, 7, 1000])
def test_shards_have_every_job_once(count):
    every = jobs("1/1")
    assert len(set(every)) == len(every) > 30
    chosen = range(1, count + 1) if count < 1000 else (1, 500, 1000)
    found = [job for shard in chosen for job in jobs(f"{shard}/{count}")]
    if count < 1000:
        assert found == every
    else:  # more shards than jobs: most are empty
        assert len(found) <= len(chosen)
        assert set(found) <= set(every)


def test_every_file_with_a_slow_test_has_one_job():
    git = ["git", "ls-files", "--", "tests/**/test_*.py", "tests/test_*.py"]
    tracked = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    expected = [name for name in tracked if (ROOT / name).exists() and has_slow(ROOT / name)]
    assert len(expected) > 20
    covered = files(jobs("1/1"))
    assert [name for name in expected if covered.count(name) != 1] == []
    assert len(set(covered)) == len(covered)


@pytest.mark.slow
def test_every_slow_test_has_one_job():
    """As pytest collects them."""
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-m", "slow", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert len(tests) > 100
    covered = files(jobs("1/1"))
    assert {name for name in tests if covered.count(name) != 1} == set()


@pytest.mark.parametrize("given", [(), ("",), ("5/4",), ("0/4",), ("1",), ("1/4", "--lst"), ("1/4", "--list", "x")])
def test_what_is_no_shard(given):
    done = run(*given)
    assert done.returncode == 2
    assert done.stderr == f"usage: .ci/nightly SHARD/COUNT [--list], as in 1/4; '{' '.join(given)}' is none\n"
