"""What only slab_hash needs of the explorer: keys with several pairs, allocations that fail, exclusive FLUSH."""

from __future__ import annotations

import json
import subprocess

import explore
import pytest
from runs import Explorer, Summary

pytestmark = pytest.mark.xdist_group("explorer")

FULL = "i2=9,i4=9,i5=9"


def test_checker_of_several_pairs_agrees_with_a_brute_force(summary: Summary) -> None:
    program = explore.build("multi_history_test", ["tests/model/multi_history_test.cpp"])
    done = subprocess.run([program], capture_output=True, text=True)
    counts = json.loads(done.stdout)
    assert done.returncode == 0
    assert counts["histories"] >= 100_000
    assert counts["disagreements"] == 0
    assert 10_000 < counts["linearizable"] < counts["histories"] - 10_000  # both answers were asked for
    assert counts["counted"] >= 10_000
    assert counts["refused"] == counts["missed"] == 0
    summary.notes.append(
        f"checker of several pairs against brute force: {counts['histories']:,} histories,"
        f" {counts['linearizable']:,} linearizable, {counts['disagreements']} disagreements"
    )


def outcomes(explorer: Explorer, program: str, layout: str) -> int:
    (line,) = explorer(
        "slab_hash", "--programs", program, "--layout", layout, "--format", "pair32", "--memory", "sc", "--json"
    ).lines
    assert line["violations"] == 0, line["why"]
    assert line["exhaustive"]
    return int(line["outcomes"])


def test_each_allocation_fails_in_some_run(explorer: Explorer) -> None:
    """One tile: where an insert appends, it fails in one run and not in the other; a retry then gets its slab."""
    assert outcomes(explorer, f"{FULL}:i0=1", "u3") == 2
    assert outcomes(explorer, f"{FULL}:i0=1,i0=2", "u3") == 2  # no memory and inserted; inserted and present
    assert outcomes(explorer, "i2=9:i0=1", "u3") == 1  # there is room: no allocation


def test_flush_makes_room_in_a_full_heap(explorer: Explorer) -> None:
    """After FLUSH the base slab has a slot: key 1 takes it, and only key 7 needs the heap, where one may fail."""
    assert outcomes(explorer, f"{FULL},i0=8,e2,e4:g,i1=1", "u3g") == 1
    assert outcomes(explorer, f"{FULL},i0=8,e2,e4:g,i1=1,i7=2", "u3g") == 2


@pytest.mark.parametrize("memory", ["sc", "weak"])
@pytest.mark.parametrize(
    ("layout", "program"),
    [("u3", f"{FULL}:i0=1+i0=2"), ("u1", f"{FULL}:i0=1+f0+e0"), ("u3d", "m0=8:m0=1+d0"), ("s2", f"{FULL}:i0=1,e0+f0")],
)
def test_what_is_left_out_has_no_ending_of_its_own(explorer: Explorer, layout: str, program: str, memory: str) -> None:
    base = ("slab_hash", "--programs", program, "--layout", layout, "--format", "pair32", "--memory", memory, "--json")
    lines = [explorer(*base, *extra).lines[0] for extra in [(), ("--no-prune",), ("--watch-all",)]]
    assert all(line["exhaustive"] and line["violations"] == 0 for line in lines)
    assert len({line["outcomes"] for line in lines}) == 1
    assert lines[0]["schedules"] < lines[1]["schedules"]
    assert lines[0]["outcomes"] > 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--programs", ":m0=1", "--layout", "u3"), "has no operation 'm0=1' in layout u3"),
        (("--programs", "pairs", "--letters", "iq"), "--letters 'iq': 'q' is none of"),
    ],
)
def test_bad_input_gets_one_sentence(explorer: Explorer, arguments: tuple[str, ...], sentence: str) -> None:
    answer = explorer("slab_hash", *arguments)
    assert answer.status == 2
    assert sentence in answer.errors
    assert len(answer.errors.splitlines()) == 1
