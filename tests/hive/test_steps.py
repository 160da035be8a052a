"""The kernels of hive's linear hashing on emulated warps (steps_test.cpp), and mistakes planted in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import ROOT, SOURCES, Mistake, compiled, left_out, planted, run, swapped, write

SOURCE = SOURCES / "steps.cuh"
# Packing gives up soon, so that tests see that.
FLAGS = ["-DGPUHASH_EMULATED_WARP=1", '-DGPUHASH_SIZES={"hive_walk", 12}, {"cuda.listed_share", 8}']


MISTAKES = [
    left_out("counters not cleared", "taken[i] = 0;"),
    left_out("filter not cleared", "filter[i] = ~0u;"),
    left_out("never marked", "atomicAnd(filter + side * (buckets / 4) + (u32(own) >> 2), ~t.filter_bit(k, own));"),
    swapped("marked on the other side", "filter + side * (buckets / 4) + (u32(own) >> 2)", "filter + (u32(own) >> 2)"),
    swapped("one slot more", "place >= bucket_slots()", "place > bucket_slots()"),
    swapped("counters of one side", "taken + side * buckets + u32(b)", "taken + u32(b)"),
    left_out("dropped where the list is full", "now.failed = 1;"),
    Mistake(
        "dead slots taken in",
        "if (!is_live<F>(w)) continue;\n      const index h",
        "if (PLANTED ? is_empty<F>(w) : !is_live<F>(w)) continue;\n      const index h",
    ),
    Mistake("used are the live", "used += !is_empty<F>(w);", "used += PLANTED ? is_live<F>(w) : !is_empty<F>(w);"),
    left_out("not listed", "put_on(list, &now.listed, w);"),
    swapped("half a merge", "q.what == segment_step::merge", "false"),
    swapped("counters not capped", "taken[i] < bucket_slots() ? taken[i] : bucket_slots()", "taken[i]"),
    Mistake(
        "placed and not marked",
        "if (placed)\n        note",
        "if (placed && PLANTED)\n        ;\n      else if (placed)\n        note",
    ),
    left_out("not listed again", "put_on(list_again, &now.listed_again, w);"),
    swapped(
        "lost where nothing is found",
        "!push(load(list_again + i))",
        "!push(load(list_again + i)) && false",
    ),
    Mistake(
        "pushed in and not marked",
        "if (way) note_outside(k, own, side);\n        return",
        "if (way && !PLANTED) note_outside(k, own, side);\n        return",
    ),
    Mistake(
        "pushing and not marked",
        "if (way) note_outside(k, own, side);\n      word*",
        "if (way && !PLANTED) note_outside(k, own, side);\n      word*",
    ),
    Mistake("victim dropped", "store(slot, w);", "store(slot, w); if (PLANTED) return true;"),
    left_out("free slot twice", "++n;"),
    left_out("old slots stay", "store(segment(s) + i, empty_word<F>());"),
    left_out("image not written", "store(segment(s) + i, load(image + i));"),
    left_out(
        "filter not written",
        "mem::store<order::relaxed>(filter_words(s) + i, filter[side * (buckets / 4) + i]);",
    ),
    Mistake(
        "written although it failed", "const bool packed = !now.failed;", "const bool packed = !now.failed || PLANTED;"
    ),
    Mistake("not split in place", "split_in_place();\n    __sync", "if (!PLANTED) split_in_place();\n    __sync"),
    swapped("hole in the new segment", "goes || is_empty<F>(w) ? w : vacant<F>()", "goes ? w : empty_word<F>()"),
    Mistake("pair in both", "if (goes) store(", "if (goes && !PLANTED) store("),
    Mistake(
        "hole in the old segment",
        "store(segment(at) + i, vacant<F>());",
        "store(segment(at) + i, PLANTED ? empty_word<F>() : vacant<F>());",
    ),
    left_out(
        "filter not split",
        "mem::store<order::relaxed>(filter_words(at + q.apart) + i, mem::load<order::relaxed>(filter_words(at) + i));",
    ),
    swapped("split in place not counted", "2 * now.used_before", "now.used_before"),
    Mistake("refused is done", "done = packed ||", "done = packed || PLANTED ||"),
    swapped("another segment", "step.first + blockIdx.x", "step.first"),
    swapped("one image for all", "work + blockIdx.x * work_words(a_table)", "work"),
    Mistake("drained over the live", "if (is_live<F>(seen) ||", "if ((is_live<F>(seen) && !PLANTED) ||"),
    Mistake(
        "drained by a lost swap",
        "!(cuda_mem::cas<order::relaxed>(bucket + s, seen, w) == seen)",
        "(!(cuda_mem::cas<order::relaxed>(bucket + s, seen, w) == seen) && !PLANTED)",
    ),
    swapped("drained and miscounted", "is_empty<F>(seen)", "1"),
    Mistake(
        "left and not marked",
        "if (left) {\n      cuda_mem::fetch_and",
        "if (left && PLANTED) {\n    } else if (left) {\n      cuda_mem::fetch_and",
    ),
    left_out("drained pair stays", "cuda_mem::store<order::relaxed>(t.stash + i, vacant<F>());"),
    left_out("drained is not dead", "dead = 1;"),
    left_out("refilled and not said", "cuda_mem::store<order::relaxed>(t.note, 0u);"),
    swapped("refilled far away", "s < t.stash_path && left", "s < t.stash_slots && left"),
    Mistake("refilled and not there", "change = !left;", "change = !left || PLANTED;"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All mistakes are in it, one of which the variable GPUHASH_MISTAKE switches on."""
    root = tmp_path_factory.mktemp("mutated")
    for name in ("layout.hpp", "sizes.hpp", "steps.hpp"):  # what it includes from its own folder
        write(root, name, (SOURCES / name).read_text())
    write(root, SOURCE.name, planted(SOURCE, MISTAKES))
    return compiled("steps_test.cpp", root / "steps", FLAGS, [ROOT / "tests" / "warp" / "include", root])


def test_split_merged_and_packed(program: Path) -> None:
    done = run(program, "15")
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes_are_noticed(program: Path) -> None:
    alive = [m.name for n, m in enumerate(MISTAKES, 1) if run(program, "8", mistake=n).returncode == 0]
    assert alive == []
