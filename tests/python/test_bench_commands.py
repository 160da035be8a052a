"""`python -m asv_bench.commands`: programs in turns, verified, and those that are missing by name."""

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

pytestmark = pytest.mark.skipif(not Path("/usr/bin/time").exists(), reason="needs GNU time")
commands = pytest.importorskip("asv_bench.commands", reason="asv_bench is in a checkout of the repository only")
RUNS = ["--only", "words", "--scale", "0.001", "--repeats", "2"]


@pytest.fixture
def few(monkeypatch):
    """few(ways): these ways of counting words, and 2,000 words."""

    def only(**ways):
        make = commands.words
        monkeypatch.setitem(commands.WAYS, "words", (lambda path, n: make(path, 2000), 1, ways))

    return only


COUNTED = "LC_ALL=C tr -s '[:space:]' '\\n' < {file} | LC_ALL=C sort | uniq -c > {out}"


def test_programs_run_in_turns_and_those_that_are_missing_are_named(tmp_path, monkeypatch, few, capsys):
    ran, usage = [], commands.usage
    monkeypatch.setattr(commands, "usage", lambda command: ran.append("sort -s" in command) or usage(command))
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mlr" else "/usr/bin/" + name)
    few(
        one=("sort", COUNTED, commands.counted_first),
        two=("", COUNTED.replace("sort", "sort -s"), commands.counted_first),
        three=("mlr", "mlr", commands.counted_first),
    )
    assert commands.main([*RUNS, "--output", str(tmp_path)]) == 0
    assert ran == [False, True, False, True, False, True]  # once of the small file each, then twice in turns
    assert "three: mlr is not installed" in capsys.readouterr().err
    (path,) = tmp_path.glob("*/commands.json")
    rows = json.loads(path.read_text())["rows"]
    assert [row["who"] for row in rows] == ["one", "two"]
    assert rows[0]["times faster"] == 1.0
    assert all(row["distinct"] > 20 and row["MB of memory"] > 1 for row in rows)


def test_a_wrong_result_ends_it(tmp_path, few):
    few(one=("", COUNTED.replace("uniq -c", "uniq -c | tail -n +2"), commands.counted_first))
    with pytest.raises(AssertionError, match="words, one: a wrong result"):
        commands.main([*RUNS, "--output", str(tmp_path)])
