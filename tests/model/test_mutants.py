"""Planted mistakes: the explorer has to find every one (tests/model/mutants/*.def says what they are)."""

from __future__ import annotations

import re

import explore
import pytest
from runs import Explorer, Summary

pytestmark = pytest.mark.xdist_group("explorer")

ENTRY = re.compile(r'^M\((\w+),\s*"([^"]*)",\s*"([^"]*)"\)', re.MULTILINE)


def planted() -> list[tuple[str, str, str]]:
    """(structure, mutant, what it deviates) of every table."""
    found = []
    for table in sorted((explore.ROOT / "tests" / "model" / "mutants").glob("*.def")):
        found += [(table.stem, name, deviates) for name, deviates, _ in ENTRY.findall(table.read_text())]
    return found


MUTANTS = planted()


def test_tables_and_explorer_agree(explorer: Explorer) -> None:
    listed = {(line["structure"], line["mutant"]) for line in explorer("--list", "--json").lines if line["mutant"]}
    assert {(structure, name) for structure, name, _ in MUTANTS} == listed


@pytest.mark.parametrize(("structure", "mutant", "deviates"), MUTANTS, ids=[name for _, name, _ in MUTANTS])
def test_mutant_is_killed(explorer: Explorer, summary: Summary, structure: str, mutant: str, deviates: str) -> None:
    for other_structure, other, _ in MUTANTS:
        explorer.hunt(other_structure, other)  # all at once, on every core
    answer = explorer.hunt(structure, mutant).result()
    schedules = sum(line["schedules"] for line in answer.lines)
    killer = answer.lines[-1] if answer.lines else {"why": "", "replay": "", "programs": ""}
    first = killer["why"].splitlines()[0] if killer["why"] else "SURVIVED"
    program = "/".join(killer["replay"].split("/")[1:6:4]) if killer["replay"] else "-"
    summary.mutants.append(f"{structure:<13} {mutant:<20} {schedules:>9,} schedules  {program:<34} {first}")
    assert answer.status == 1, f"{mutant} ({deviates}) survived {schedules} schedules: {answer.errors}"

    again = explorer("--replay", killer["replay"])
    assert again.status == 1
    assert killer["why"] in again.output
    assert explorer("--replay", killer["replay"]).output == again.output
