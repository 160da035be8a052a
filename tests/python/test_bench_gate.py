""".ci/compare and the end of .ci/run: which commit is compared with, and what the gates say is the status."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / ".ci").exists():
    pytest.skip(".ci is in a checkout of the repository only", allow_module_level=True)


def git(where, *arguments):
    name = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=where, env=os.environ | name, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def clone(tmp_path):
    """A repository with .ci/compare and two commits, the last of which cannot be built, since it has no setup.py."""
    where = tmp_path / "clone"
    (where / ".ci").mkdir(parents=True)
    for name in ("base", "compare"):
        shutil.copy(ROOT / ".ci" / name, where / ".ci")
    git(where, "init", "-q")
    git(where, "add", ".")
    git(where, "commit", "-qm", "first")
    return where


def compare_in(where, *arguments):
    command = [".ci/compare", *arguments]
    done = subprocess.run(command, cwd=where, stdout=PIPE, stderr=STDOUT, text=True, timeout=60)
    return done.returncode, done.stdout


PYTHON = """#!/bin/sh
case "$*" in
  *setup.py*) exit 0 ;;
  *asv_bench.instructions*) echo "$*" >>gates; sleep ${FIRST_SLEEPS:-0}; exit ${FIRST:-0} ;;
  *asv_bench.compare_builds*) echo "$*" >>gates; exit ${SECOND:-0} ;;
esac
exit 9
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        ({}, 0, []),
        (
            {"FIRST": "1"},
            1,
            ["slower than FIRST by: instructions. Make it as fast again, or accept it, with a reason, in "],
        ),
        ({"SECOND": "1"}, 1, ["slower than FIRST by: processor time. Make"]),
        ({"FIRST": "1", "SECOND": "1"}, 1, ["slower than FIRST by: instructions, processor time. Make"]),
        (
            {"FIRST": "2", "SECOND": "1"},
            1,
            ["not compared with FIRST by: instructions; the reason is above", "slower than"],
        ),
        ({"SECOND": "139"}, 1, ["not compared with FIRST by: processor time"]),
        ({"FIRST_SLEEPS": "5"}, 0, ["Nothing is concluded of instructions: it took more than 1 s"]),
    ],
)
def test_what_the_gates_say_is_the_status(clone, answers, status, words):
    """Both are asked in each case. What takes too long fails nothing."""
    python = clone.parent / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    first = git(clone, "rev-parse", "HEAD").strip()
    git(clone, "commit", "-qm", "second", "--allow-empty")
    env = os.environ | {"PYTHON": str(python), "GPUHASH_COMPARE_LIMIT": "1"} | answers
    done = subprocess.run(
        [".ci/compare", "HEAD^"], cwd=clone, env=env, stdout=PIPE, stderr=STDOUT, text=True, timeout=60
    )
    assert done.returncode == status, done.stdout
    for line in words:
        assert line.replace("FIRST", first[:8]) in done.stdout
    assert ("asv_bench/accepted.toml: the entries for it are above." in done.stdout) == ("1" in answers.values())
    gates = (clone / "gates").read_text().splitlines()
    assert [line.split()[1] for line in gates] == ["asv_bench.instructions", "asv_bench.compare_builds"]
    folders = f"{clone}/build/compare/{first} {clone}/build/compare/here"
    accepted = (
        f"--accepted asv_bench/accepted.toml --accepted-in-a {clone}/build/compare/{first}/asv_bench/accepted.toml"
    )
    assert all(line.split(maxsplit=2)[2] == f"{folders} {accepted}" for line in gates)


@pytest.mark.parametrize("status", [0, 1])
def test_ci_fails_for_what_is_slower(tmp_path, status):
    """At the end of .ci/run, after the durations and pytest's closing line; the last line says what to do."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "compare").write_text(f"#!/bin/sh\necho compared by $PYTHON\nexit {status}\n")
    (tmp_path / ".ci" / "compare").chmod(0o755)
    (tmp_path / "pytest.log").write_text("..\n7 passed in 1 s\n")
    run = (ROOT / ".ci" / "run").read_text()
    functions = [
        run[run.index(f"\n{name}() {{") :].partition("\n}\n")[0] + "\n}"
        for name in ("compare_with_base", "closing_lines")
    ]
    end = run[run.index('\nslower=""\n') :].replace("phase ", "in_turn ")
    before = 'set -euo pipefail\nvenv=v ci=. timings=("    12 s  tools")\nin_turn() { shift; "$@"; }\n'
    script = before + "\n".join(functions) + end
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, stdout=PIPE, stderr=STDOUT, text=True, timeout=60)
    assert done.returncode == status, done.stdout
    lines = done.stdout.splitlines()
    assert lines[:3] == ["compared by v/bin/python", "", "    12 s  tools"]
    assert lines[3].endswith(" s  in all")
    assert lines[4] == "7 passed in 1 s"
    assert len(lines) == 5 + status
    if status:
        assert lines[5].startswith("FAILED: slower than its base, or not compared. The last phase says by what")
        assert "asv_bench/accepted.toml accept a slowdown that has a reason (docs/benchmarks.md)." in lines[5]


def test_no_commit_to_compare_with(clone, tmp_path):
    """A sentence, and no failure: the first commit, a shallow clone. Another commit than there is fails."""
    status, words = compare_in(clone)
    assert status == 0
    assert words.startswith("There is no origin/main here: HEAD is compared with its parent.\n")
    assert "HEAD has no parent in this clone\nNothing is compared: there is no commit to compare with." in words
    status, words = compare_in(clone, "nope")
    assert (status, words) == (2, "'nope' is no commit of this clone\n")
    git(clone, "commit", "-qm", "second", "--allow-empty")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{clone}", "shallow")
    status, words = compare_in(tmp_path / "shallow")
    assert status == 0
    assert "HEAD has no parent in this clone, which is shallow (git fetch --unshallow)" in words


def test_the_commit_to_compare_with(clone, tmp_path):
    """Where HEAD has left origin/main; else the parent. No sources can be built, which says what was taken."""
    first = git(clone, "rev-parse", "HEAD").strip()
    git(clone, "commit", "-qm", "second", "--allow-empty")
    git(tmp_path, "clone", "-q", str(clone), "other")
    other = tmp_path / "other"
    second = git(clone, "rev-parse", "HEAD").strip()

    def taken(*arguments):
        status, words = compare_in(other, *arguments)
        assert status == 1
        return words.strip().rpartition("/")[2].removesuffix(" cannot be built")

    assert taken() == first  # HEAD is origin/main
    with (other / ".ci" / "compare").open("a") as file:
        file.write("\n")
    assert taken() == second  # HEAD is origin/main, and there are changes
    for _ in range(2):
        git(other, "commit", "-qam", "more", "--allow-empty")
    assert taken() == second  # the branch of HEAD has two more
    assert taken("HEAD~3") == first
