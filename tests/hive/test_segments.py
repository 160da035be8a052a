"""The segments of hive by themselves (segments_test.cpp), and mistakes planted in what splits and merges them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from planted import SOURCES, compiled, run, with_switch, write

SOURCE = SOURCES / "segments.hpp"
# As it is, and with a packing that gives up soon.
WALKS = ("500", "0")


@dataclass(frozen=True)
class Mistake:
    name: str
    right: str
    wrong: str


MISTAKES = [
    Mistake("stash_not_drained", "if (!free) {", "if (true) {"),
    Mistake(
        "stashed_key_unmarked",
        "*t_.filter_of(home) &= ~t_.filter_bit(k, home);\n        ++left;",
        "++left;",
    ),
    Mistake("unsaid_stash", "*t_.note = 0;", ""),
    Mistake("drained_key_stays", "t_.stash[i] = vacant<F>();", ""),
    Mistake("stash_cleared_too_soon", "if (left) return change;", ""),
    Mistake("taken_slot_uncounted", "change += is_empty<F>(*free);", "change += 1;"),
    Mistake("cleared_stash_uncounted", "return change - int64_t(dead);", "return change;"),
    Mistake(
        "hole_in_the_new_segment",
        "fresh[i] = goes ? w : is_empty<F>(w) ? w : vacant<F>();",
        "fresh[i] = goes ? w : empty_word<F>();",
    ),
    Mistake("hole_in_the_old_segment", "old[i] = goes ? vacant<F>() : w;", "old[i] = goes ? empty_word<F>() : w;"),
    Mistake("pair_in_both", "old[i] = goes ? vacant<F>() : w;", "old[i] = w;"),
    Mistake("filter_not_split", "memcpy(filter_of(to), filter_of(from), t_.segment_buckets);", ""),
    Mistake("pushed_key_unmarked", "if (way) filter[own >> 2] &= ~t_.filter_bit(k, own);", ""),
    Mistake(
        "pair_without_a_place",
        "if (!push(pairs[i], image, filter, taken)) return false;",
        "push(pairs[i], image, filter, taken);",
    ),
    Mistake("victim_dropped", "slot = w, w = out, left = b;", "slot = w; return true;"),
    Mistake("half_a_merge", "!gather(from, b.pairs, n)", "false"),
    Mistake("old_segment_not_written", "write(from, b);", ""),
    Mistake(
        "written_too_soon",
        "if (!pack(b.pairs, uint32_t(stay), b.image, b.filter, b.taken)) return false;",
        "return pack(b.pairs, uint32_t(stay), slots_of(from), filter_of(from), b.taken);",
    ),
    Mistake("moved_pair_stays", "go -= goes, stay += !goes;", "go -= goes, ++stay;"),
    Mistake("dead_slots_kept", "if (!is_live<F>(at[i])) continue;", "if (is_empty<F>(at[i])) continue;"),
    Mistake("merge_not_written", "write(to, b);", ""),
]


def program(target: Path, walk: str, *includes: Path) -> Path:
    wide_swaps = ["-mcx16"] if os.uname().machine == "x86_64" else []
    flags = ["-Wall", "-Wextra", f'-DGPUHASH_SIZES={{"hive_walk", {walk}}}', *wide_swaps]
    return compiled("segments_test.cpp", target, flags, [*includes, SOURCES])


@pytest.fixture(scope="module")
def mutated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Programs with all mistakes, one of which the variable GPUHASH_MISTAKE switches on."""
    root = tmp_path_factory.mktemp("mutated")
    text = SOURCE.read_text()
    for number, m in enumerate(MISTAKES, 1):
        # The same place may have several: the first one leaves it in the text once more.
        assert text.count(m.right) >= 1, f"{m.name}: {SOURCE.name} has no {m.right!r}"
        on = f"mistake == {number}"
        both = f"if ({on}) {{ {m.wrong} }} else {{ {m.right} }}" if m.right.endswith(";") else None
        if both is None and m.right.startswith("if"):
            both = f"if ({on} || !free) {{"
        elif both is None:
            both = f"({on} ? ({m.wrong}) : ({m.right}))"
        text = text.replace(m.right, both, 1)
    write(root, SOURCE.name, with_switch(text))
    return [program(root / f"test{walk}", walk, root) for walk in WALKS]


@pytest.mark.parametrize("walk", WALKS)
def test_split_merged_and_packed(tmp_path: Path, walk: str) -> None:
    done = run(program(tmp_path / "test", walk))
    assert (done.returncode, done.stdout) == (0, "")


def test_mistakes_are_noticed(mutated: list[Path]) -> None:
    assert [run(p).returncode for p in mutated] == [0, 0], "with none switched on"
    alive = [m.name for n, m in enumerate(MISTAKES, 1) if all(run(p, mistake=n).returncode == 0 for p in mutated)]
    assert not alive
