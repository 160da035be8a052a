"""The conformance suite on plugins of other authors: a legal plugin passes, whatever optional parts it lacks; a fault
that no single answer shows is found, by a check with a name."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygpuhash", reason="the package pygpuhash is not installed")


def conformance(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pygpuhash", "conformance", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=240)


SHAPES = ["LEAST", "ONLY_SETS", *(pytest.param(s, marks=pytest.mark.slow) for s in ("ONLY_8", "NO_GROWTH", "NO_SUMS"))]


@pytest.mark.parametrize("shape", SHAPES)
def test_backends_that_can_less_pass_what_they_promise(compile_plugin, tmp_path, shape):
    module = compile_plugin(tmp_path, "narrow.c", "narrow", f"-DSHAPE={shape}")
    done = conformance(module, "--quick")
    outcomes = [line.split() for line in done.stdout.splitlines()[2:-1]]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {words[1] for words in outcomes} == {"pass", "skip"}
    passed = {words[0] for words in outcomes if words[1] == "pass"}
    assert {"lifecycle", "widths", "every-pattern", "full", "ageing", "maintenance", "counts", "seeds"} <= passed
    assert ("accumulate" in passed) == (shape in ("ONLY_8", "NO_GROWTH"))
    assert ("growth" in passed) == (shape not in ("NO_GROWTH", "LEAST"))
    assert "multi" not in passed
    assert "flush-frees-room" not in passed


@pytest.fixture(scope="session")
def wrong(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_plugin(tmp_path_factory.mktemp("wrong"), "wrong.c", "wrong")


@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("ignores_seed", "seeds", "the seed does not reach the hash"),
        ("ignores_memory", "memory-is-given-back", "takes nothing from the memory resource"),
        ("leaks", "memory-is-given-back", "a closed table keeps"),
        ("counts_nothing", "counts", "counts.yes is 0, 30000 elements have the status 1"),
        ("tells_no_bytes", "figures", "42 bytes cannot hold"),
        ("exports_more", "widths", "exported keys"),
        ("names_twice", "stats-of-the-c-abi", "occur twice"),
        ("names_badly", "stats-of-the-c-abi", "the name of a figure is 'two words'"),
    ],
)
def test_a_fault_is_found(wrong, fault, check, words):
    assert conformance(wrong, "--quick", "--check", check, WRONG="").returncode == 0
    done = conformance(wrong, "--quick", "--check", check, WRONG=fault)
    assert done.returncode == 1, done.stdout
    line = done.stdout.splitlines()[2]
    assert line.split()[:2] == [check, "fail"]
    assert words in line


def test_a_crash_and_a_hang_have_names(wrong):
    done = conformance(wrong, "--quick", "--check", "stats-of-the-c-abi", "--check", "widths", WRONG="crashes")
    assert done.returncode == -signal.SIGABRT
    assert done.stdout.splitlines()[-1].split() == ["widths"]
    assert "Fatal Python error: Aborted" in done.stderr
    done = conformance(wrong, "--quick", "--check", "lifecycle", "--limit", "3", WRONG="hangs")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].split() == ["lifecycle"]
    assert "Timeout (0:00:03)!" in done.stderr
    assert "in lifecycle" in done.stderr


def test_a_crash_and_a_hang_while_loading_have_names(wrong):
    done = conformance(wrong, "--quick", WRONG="crashes_at_init")
    assert done.returncode == -signal.SIGABRT
    assert done.stdout.splitlines() == [f"loading {wrong}"]
    done = conformance(wrong, "--quick", "--limit", "3", WRONG="hangs_at_init")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"loading {wrong}"]
    assert "Timeout (0:00:03)!" in done.stderr
