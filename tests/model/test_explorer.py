"""Every interleaving that matters, on the operations that the kernels run, checked for linearizability.

``docs/explorer.md`` explains what is explored and what a failure looks like.
"""

from __future__ import annotations

import errno
import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import explore
import pytest
from runs import EVERYTHING, QUICK, Explorer, Summary

pytestmark = pytest.mark.xdist_group("explorer")

PLUGINS = explore.plugins()
STRUCTURES = ["gate", "parts", *(name for name, explored in PLUGINS.items() if explored)]
UNEXPLORED = [name for name, explored in PLUGINS.items() if not explored]
EXHAUSTIVE = {"written", "pairs", "asymmetric", "triples"}
BOUNDED = {"skiplist"}  # an update makes too many accesses for every interleaving: preemptions and runs are limited


@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_violation(explorer: Explorer, summary: Summary, structure: str) -> None:
    explore_all(explorer, summary, structure, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_violation_in_any_format(explorer: Explorer, summary: Summary, structure: str) -> None:
    explore_all(explorer, summary, structure, EVERYTHING)


@pytest.mark.parametrize(("number", "starts"), [(errno.EFAULT, 2), (errno.ENOENT, 1)])
def test_a_start_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch, number: int, starts: int) -> None:
    """Tried once more, and only where that error says nothing of the program."""
    calls: list[Any] = []

    def refused(command: list[str], **how: Any) -> None:
        calls.append(command)
        raise OSError(number, "no")

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(OSError, match="no"):
        Explorer(Path("explorer"))("hive")
    assert calls == [["explorer", "hive"]] * starts


def explore_all(explorer: Explorer, summary: Summary, structure: str, how: tuple[str, ...]) -> None:
    sets: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for shard in explorer.shards(structure, how):
        answer = shard.result()
        assert answer.status in (0, 1), answer.errors
        for line in answer.lines:
            sets[line["programs"], line["memory"], line["mode"]].append(line)
    assert {"pairs", "triples", "random"} & {programs for programs, _, _ in sets}
    for (programs, memory, mode), lines in sets.items():
        total = {key: sum(line[key] for line in lines) for key in ("count", "schedules", "violations", "seconds")}
        exhaustive = all(line["exhaustive"] for line in lines)
        bound = "-" if mode != "dfs" else "1, 2" if structure in BOUNDED else "none"
        reach = "exhaustive" if exhaustive else "not exhaustive"
        rate = total["schedules"] / total["seconds"]
        summary.sets.append(
            f"{structure:<14} {programs:<8} {memory:<6} {mode:<11} {total['count']:>8,} programs"
            f" {total['schedules']:>12,} schedules   preemption bound {bound:<4}  {reach:<14}"
            f"  {total['violations']} violations {rate:>12,.0f} schedules/s"
        )
        for line in lines:
            assert line["violations"] == 0, f"{line['why']}\nreplay: {line['replay']}"
        assert total["count"] > 0
        assert exhaustive == (programs in EXHAUSTIVE and structure not in BOUNDED)


@pytest.mark.parametrize("program", ["i1=1,e1+s3=5,f3", "i1=1,e2+s3=5,f3", "i1=1,e1+e3,c3", "i1=1,e1+e3,i3=5"])
def test_skiplist_splits_and_merges_beside_two_operations(explorer: Explorer, program: str) -> None:
    """Looking for a key while its chunk is split and merged again: more runs than other programs get."""
    base = ("skiplist", "--layout", "p4", "--memory", "sc", "--bound", "2", "--json")
    (line,) = explorer(*base, "--programs", f"i2=9,i3=8:{program}").lines
    assert line["violations"] == 0, f"{line['why']}\nreplay: {line['replay']}"
    assert line["schedules"] > 50_000


def test_a_structure_without_simulator_build_is_not_explored(summary: Summary) -> None:
    summary.sets += [f"{name:<14} not explored: it has no plugins/{name}/plugin_sim.cpp" for name in UNEXPLORED]
    bare = Explorer(explore.build_explorer("gpuhash-explore-bare", {"newcomer": False}))
    answer = bare("newcomer")
    assert answer.status == 2
    assert "'newcomer' is not explored: it has no plugins/newcomer/plugin_sim.cpp" in answer.errors
    assert "newcomer: not explored" in bare("--list").output


def test_speed_of_a_two_by_two_program(explorer: Explorer, summary: Summary) -> None:
    """Reported, not judged: the machine may be busy. Nothing is left out here, so that runs are whole ones."""
    program = ("linear_probe", "--programs", "i2=9:i0=1,e0+i0=2,f0", "--format", "pair32", "--memory", "sc", "--json")
    (line,) = explorer(*program, "--mode", "random", "--schedules", "200000").lines
    assert line["schedules"] == line["complete"] == 200000
    rate = line["schedules"] / line["seconds"]
    summary.notes.append(f"a 2 x 2 program on linear_probe, every run to its end: {rate:,.0f} schedules/s on one core")


@pytest.mark.parametrize("memory", ["sc", "weak"])
@pytest.mark.parametrize(
    ("structure", "layout", "program"),
    [
        ("linear_probe", "g2", "i2=9:i0=1,e0+i0=2"),
        ("linear_probe", "g2", "i2=9,i0=8:i0=1+s0=2+f0"),
        ("linear_probe", "g2", "i0=8,e0:a0=1@4+s0=2"),
        ("gate", "two", "i1=9:i0=1,e1+g"),  # waits
        ("parts", "r2", "i4=9,i5=9:a0=1p+a0=2p"),  # barriers
    ],
)
def test_what_is_left_out_has_no_ending_of_its_own(
    explorer: Explorer, structure: str, layout: str, program: str, memory: str
) -> None:
    """Leaving out known states and quiet accesses loses no ending: answers and table are those of the full search."""
    base = (structure, "--programs", program, "--layout", layout, "--format", "pair32", "--memory", memory, "--json")
    variants = [] if structure == "parts" else [("--no-prune",)]  # which takes for ever there
    variants += [] if structure == "gate" else [("--watch-all",)]  # nothing is left out there: all cells are written
    lines = [explorer(*base, *extra).lines[0] for extra in [(), *variants]]
    assert all(line["exhaustive"] and line["violations"] == 0 for line in lines)
    assert len({line["outcomes"] for line in lines}) == 1
    assert all(lines[0]["schedules"] < line["schedules"] for line in lines[1:])
    walk = explorer(*base, "--mode", "random", "--schedules", "50000").lines[0]
    assert walk["outcomes"] <= lines[0]["outcomes"]
    assert lines[0]["outcomes"] > 1


def test_a_preemption_bound_cuts_the_search(explorer: Explorer) -> None:
    base = (
        "linear_probe",
        "--programs",
        ":i0=1,e0+i0=2,f0",
        "--format",
        "pair32",
        "--memory",
        "sc",
        "--json",
        "--no-prune",
    )
    runs = [explorer(*base, "--bound", bound).lines[0] for bound in ("0", "1", "2")]
    schedules = [line["schedules"] for line in runs] + [explorer(*base).lines[0]["schedules"]]
    assert schedules == sorted(set(schedules))
    assert not any(line["exhaustive"] for line in runs)


def test_the_same_seed_makes_the_same_runs(explorer: Explorer) -> None:
    def figures(seed: str) -> dict[str, Any]:
        answer = explorer("linear_probe", "--programs", "random", "--count", "50", "--seed", seed, "--json")
        return {k: v for k, v in answer.lines[0].items() if k != "seconds"}

    assert figures("7") == figures("7")
    assert figures("7") != figures("8")


def test_checker_agrees_with_a_brute_force(summary: Summary) -> None:
    done = subprocess.run(
        [explore.build("checker_test", ["tests/model/checker_test.cpp"])], capture_output=True, text=True
    )
    counts = json.loads(done.stdout)
    assert done.returncode == 0
    assert counts["histories"] >= 100_000
    assert counts["disagreements"] == 0
    assert 10_000 < counts["linearizable"] < counts["histories"] - 10_000  # both answers were asked for
    summary.notes.append(
        f"checker against brute force: {counts['histories']:,} histories, {counts['linearizable']:,} linearizable,"
        f" {counts['disagreements']} disagreements"
    )


def test_searches_try_what_they_have_to() -> None:
    """Bounded depth-first search and PCT, on choices of a few states."""
    done = subprocess.run(
        [explore.build("search_test", ["tests/model/search_test.cpp"])], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("programs", "n"), [("pairs", (3, 10)), ("triples", (12, 84))])
def test_every_pair_and_triple_is_explored(explorer: Explorer, programs: str, n: tuple[int, int]) -> None:
    """Of one kind there are 2 operations, since a scene has two keys, and of two kinds 4. Some scenes erase nothing."""

    def count(letters: str) -> int:
        base = ("linear_probe", "--format", "pair32", "--memory", "sc", "--json", "--bound", "0")
        return int(explorer(*base, "--programs", programs, "--letters", letters).lines[0]["count"])

    of_one, of_two = n
    assert count("i") % of_one == 0
    assert (count("ie") - count("i")) * of_one == (of_two - of_one) * count("e") > 0


def test_machine_ends_litmus_programs_as_known() -> None:
    done = subprocess.run(
        [explore.build("machine_test", ["tests/model/machine_test.cpp"])], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("as expected") == 2 * 26


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("linear_prob",), "no structure 'linear_prob' to explore"),
        (("linear_probe", "--seed", "x"), "--seed needs a number, not 'x'"),
        (("linear_probe", "--seed"), "--seed needs a value"),
        (("linear_probe", "--mode", "bfs"), "--mode 'bfs' is none of dfs, random, pct"),
        (("linear_probe", "--memory", "tso"), "--memory 'tso' is none of sc, weak, both"),
        (("linear_probe", "--format", "pair16"), "--format 'pair16' is none of"),
        (("linear_probe", "--programs", "quadruples"), "--programs 'quadruples' is neither"),
        (("linear_probe", "--programs", ":q0"), "'q0' is not an operation"),
        (("linear_probe", "--programs", ":i0@3"), "no lines of 3 slots"),
        (("linear_probe", "--programs", ":iw"), "has no key 'w'"),
        (("linear_probe", "--programs", ":g"), "has no operation 'g'"),
        (("linear_probe", "--programs", ":i0=1p+i0=2p"), "has no batches by parts, as 'i0=1p' wants"),
        (("parts", "--programs", "i0=1p:f0"), "'i0=1p' is in the setup, where nothing goes by parts"),
        (("parts", "--programs", ":f0p+f0"), "'f0p' does not go by parts: only i, s, a and e do"),
        (("parts", "--programs", ":i0=1p+e0p"), "'e0p' is in a batch of another kind"),
        (("linear_probe", "--programs", ":i0=1", "--layout", "g3"), "has no layout 'g3'"),
        (("linear_probe", "--mutant", "nonsense"), "no mutant 'nonsense'"),
        (("linear_probe", "--mutant", "no_gate"), "'no_gate' is no mutant of linear_probe"),
        (("linear_probe", "--shard", "2/2"), "K below N"),
        (("linear_probe", "--verbose"), "unknown argument '--verbose'"),
        (("--replay", "linear_probe/pair32"), "is not a replay string"),
        (("--replay", "linear_prob/pair32/g2/sc/1/:i0=1/0"), "no structure 'linear_prob'"),
        (("--replay", "linear_probe/pair16/g2/sc/1/:i0=1/0"), "has no format 'pair16'"),
        (("--replay", "linear_probe/pair32/g2/tso/1/:i0=1/0"), "the memory is sc or weak, not 'tso'"),
        (("--replay", "linear_probe/pair32/g2/sc/-1/:i0=1/0"), "the seed needs a number, not '-1'"),
        (("--replay", "linear_probe/pair32/g2/sc/1/:i0=1+f0/0?1"), "'?' is none of 0-9 a-z"),
        (("--replay", "linear_probe/pair32/g2/sc/1/:i0=1+f0/9"), "its answer 1 names no alternative"),
        (
            ("--replay", "linear_probe/pair32/g2/sc/1/:i0=1+f0/00000000000000000000000001"),
            "before its answers were used up",
        ),
    ],
)
def test_bad_input_gets_one_sentence(explorer: Explorer, arguments: tuple[str, ...], sentence: str) -> None:
    answer = explorer(*arguments)
    assert answer.status == 2
    assert sentence in answer.errors
    assert len(answer.errors.splitlines()) == 1
