"""The hook for messages of commits, which .ci/run uses for all new ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / ".ci" / "message"
pytestmark = pytest.mark.skipif(not HOOK.exists(), reason=".ci is in a checkout of the repository only")


def run(where, *arguments):
    done = subprocess.run([HOOK, *arguments], cwd=where, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("feat: more", 0, ""),
        ("fix(hive)!: less", 0, ""),
        ("Merge branch", 1, "does not begin with a type"),
        ("feature: more", 1, "does not begin with a type"),
        ("feat:more", 1, "does not begin with a type"),
        (f"test: {'x' * 66}", 0, ""),
        (f"test: {'x' * 67}", 0, "is 73 characters long"),
    ],
)
def test_one_message(tmp_path, line, status, words):
    (tmp_path / "message").write_text(f"{line}\n\nMore.\n")
    found, said = run(tmp_path, "message")
    assert found == status
    assert words in said
    assert bool(said) == bool(words)


def test_new_commits(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for line in ("an old one", "feat: first", "second", "fix: third"):
        git("commit", "-q", "--allow-empty", "-m", line)
    status, said = run(tmp_path, "--since", "HEAD~3")
    assert status == 1
    assert said.count("\n") == 1
    assert "does not begin with a type (feat, fix, perf" in said
    assert said.endswith("colon: second\n")
    assert run(tmp_path, "--since", "HEAD~1") == (0, "")
    assert run(tmp_path, "--before", "HEAD")[0] == 2
    assert run(tmp_path, "--since", "nope") == (2, "'nope' is no commit of this clone\n")
