"""Planted mistakes: the explorer has to find every one (tests/model/mutants/*.def says what they are)."""

from __future__ import annotations

import re

import explore
import pytest
from runs import Explorer, Summary

pytestmark = pytest.mark.xdist_group("explorer")

ENTRY = re.compile(r'^M\((\w+),\s*"([^"]*)",\s*"([^"]*)"\)', re.MULTILINE)

# Programs that show a mistake soon, where others of the quick run would be explored in vain before: their set, and the
# memory if not both. All are part of the runs of test_explorer.py.
RANDOM, WRITTEN, WEAK = "--programs random", "--programs written --memory sc", "--programs written --memory weak"
ASYMMETRIC = "--programs asymmetric"
SPLIT_AND_MERGE = "--programs i2=9,i3=8:i1=1,e1+s3=5,f3 --memory sc --bound 2"
SHOWN_BY = {
    "gate": {
        WEAK: "relaxed_publish relaxed_enter relaxed_wait relaxed_leave",
    },
    "hive": {
        WRITTEN: "unlocked_reuse early_second dropped_key one_glance unlocked_destination unchecked_miss early_filter"
        " stored_claim open_victim",
        WEAK: "relaxed_swap relaxed_row relaxed_unlock_of_home",
        RANDOM: "other_tombstone stored_stash",
    },
    "skiplist": {
        RANDOM: "zombie_read unchecked_enclosing split_next early_link kept_version unfenced_look unfenced_lock"
        " plain_unlock first_entry_removed uncompared_look unchecked_name unchecked_key unchecked_low unchecked_level",
        WEAK: "step_to_none",
        SPLIT_AND_MERGE: "late_clear",
    },
    "slab_hash": {
        WRITTEN: "flush_beside_batches unwiped_slab",
        ASYMMETRIC: "four_byte_lanes early_tail freed_by_erase",
        RANDOM: "kept_tail one_look revived_duplicate endless_allocation first_pair_only no_sweep",
    },
    "stadium": {
        RANDOM: "relaxed_ticket relaxed_look",
    },
}


def programs_that_show(structure: str, mutant: str) -> tuple[str, ...]:
    """Arguments for the explorer; none: all programs."""
    found = [programs for programs, names in SHOWN_BY.get(structure, {}).items() if mutant in names.split()]
    return tuple(found[0].split()) if found else ()


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
    shown = {(structure, name) for structure, sets in SHOWN_BY.items() for s in sets.values() for name in s.split()}
    assert shown <= listed


@pytest.mark.parametrize(("structure", "mutant", "deviates"), MUTANTS, ids=[name for _, name, _ in MUTANTS])
def test_mutant_is_killed(explorer: Explorer, summary: Summary, structure: str, mutant: str, deviates: str) -> None:
    for other_structure, other, _ in MUTANTS:
        explorer.hunt(other_structure, other, programs_that_show(other_structure, other))  # all at once, on every core
    answer = explorer.hunt(structure, mutant, programs_that_show(structure, mutant)).result()
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
