"""Batches by segments on emulated warps (parts_test.cpp), and mistakes planted in the kernels that serve them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from planted import ROOT, SOURCES, Mistake, compiled, left_out, planted, run, swapped, write

SOURCE, OWN = SOURCES / "parts.cuh", ROOT / "libgpuhash" / "drive" / "bulk" / "own_kernel.cuh"
FLAGS = ["-DGPUHASH_EMULATED_WARP=1", "-Wno-unknown-pragmas"]
# The driver in small, as tests/warp has it, with few elements of a thread at a time.
OWN_SIZES = '{"cuda.own_threads", 32}, {"cuda.segment_window_each", 4}, {"cuda.partition_slots_wanted", 256},'
FLAGS += [f"-DGPUHASH_OWN_SIZES={OWN_SIZES}", "-include", str(ROOT / "tests" / "sizes" / "kernels.hpp")]

MISTAKES = [
    Mistake("filter not loaded", "filter[i] = cuda", "filter[i] = PLANTED ? ~0u : cuda"),
    left_out("filter not written", "cuda_mem::store<order::relaxed>(table_filter() + i, filter[i]);"),
    swapped("filter of another segment", "u64(blockIdx.x) * (buckets / 4)", "u64(blockIdx.x) * (buckets / 8)"),
    left_out("slots not written", "copy_to_table<F, own_threads>(table_slots(), slots, size);"),
    left_out("holes not noticed", "if (hole) now.holes = 1;"),
    left_out("hole closed by a copy", "block_mem::store<order::relaxed>(bucket + i, empty_word<F>());"),
    swapped("outside not searched", "slot == none && lies_outside(k, own)", "false"),
    Mistake("stash not asked by who adds", "if (outside && noted) {", "if (outside && noted && !PLANTED) {"),
    swapped("stash not asked by who erases", "slot == none && outside && noted", "false"),
    swapped("only the first of the list", "served += overflow_at_most", "served += total"),
    Mistake("slots of before forgotten", "n << had_at | n :", "PLANTED ? n : n << had_at | n :"),
    left_out("next elements on old counters", "count_again(true);"),
    swapped("chains kept", "(counter & had_bits) | n", "counter"),
    swapped("equal keys added twice", "(chains[i - 1] & ~links) == bits", "false"),
    left_out("unclear are dropped", "listed[atomicAdd(&now.unclear, 1u)] = uint16_t(x);"),
    left_out("hard are dropped", "chains[atomicAdd(&now.hard, 1u)] = x;"),
    Mistake("unclear for good", "leave(these, x);\n        else", "{ if (!PLANTED) leave(these, x); }\n        else"),
    swapped("other tombstone first", "F::has_value ? 0 : 1", "1"),
    swapped("own tombstone not looked for", "dead && reuse(own, e)", "false"),
    swapped("evicts unasked", "t.evictions && evict(these.mine[x])", "evict(these.mine[x])"),
    Mistake(
        "added outside and unmarked", "if (way) mark_outside(k, own);", "if (way && !PLANTED) mark_outside(k, own);"
    ),
    Mistake(
        "reused outside and unmarked",
        "      mark_outside(k, own);\n      return added",
        "      if (!PLANTED) mark_outside(k, own);\n      return added",
    ),
    swapped("one slot too many", "place < bucket_slots", "place <= bucket_slots"),
    swapped("reused by a lost swap", "swap(slot, seen, e)", "(swap(slot, seen, e), true)"),
    Mistake("victim dropped", "put(to, v);\n    return true;", "if (!PLANTED) put(to, v);\n    return true;"),
    swapped("victim unmarked", "to >> bulk_slot_bits != own", "false"),
    left_out("lost victim's slot forgotten", "put(to, vacant<F>());"),
    swapped("taken by a lost swap", "!swap(from, v, instead)", "(swap(from, v, instead), false)"),
    Mistake(
        "evictor unmarked", "if (i >> bulk_slot_bits) mark_outside", "if (i >> bulk_slot_bits && !PLANTED) mark_outside"
    ),
    Mistake(
        "evicted and not counted",
        "++done.used;\n      if (to == none",
        "done.used += !PLANTED;\n      if (to == none",
    ),
    Mistake("way made and not counted", "++done.used;\n      if (move", "done.used += !PLANTED;\n      if (move"),
    Mistake("parts of before the round", "return t.segments();", "return PLANTED ? shares(t) : t.segments();"),
    # Not here: bins with room for the keys of a segment that is split, which cost time and no element; and evictors
    # that take slots of no key: the one who has reserved it must be between two steps, and the bucket to which the
    # word of no key hashes must have room. No seed has shown it.
]
OWN_MISTAKES = [  # in what hive and slab_hash share
    left_out("left and forgotten", "append(w.rest, these.mine[x], these.at ? these.at[x] : 0);"),
    swapped("erased by a lost swap", "swap(slot, seen, tombstone<F>(k))", "(swap(slot, seen, tombstone<F>(k)), true)"),
    left_out("erased and there", "done.live -= erased;"),
    Mistake(
        "not assigned", "if constexpr (Kind == assign) put(slot, e);", "if (Kind == assign && !PLANTED) put(slot, e);"
    ),
    swapped("combined by a lost swap", "swap(slot, seen, want)", "(swap(slot, seen, want), true)"),
    swapped("others never follow", "from + many < n", "false"),
    swapped("only the first of a thread", "turn += at_once", "turn += 0"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All mistakes are in it, one of which the variable GPUHASH_MISTAKE switches on."""
    root = tmp_path_factory.mktemp("mutated")
    for path in SOURCES.iterdir():  # what it includes from its own folder, and what includes it
        if path.is_file() and path != SOURCE:
            write(root, path.name, path.read_text())
    write(root, SOURCE.name, planted(SOURCE, MISTAKES))
    write(root, OWN.name, planted(OWN, OWN_MISTAKES, after=len(MISTAKES)), "libgpuhash/drive/bulk")
    return compiled("parts_test.cpp", root / "parts", FLAGS, [ROOT / "tests" / "warp" / "include", root])


def test_batches_of_pairs(tmp_path: Path) -> None:
    flags = [*FLAGS, "-DGPUHASH_ONE_FORMAT"]
    done = run(compiled("parts_test.cpp", tmp_path / "parts", flags, [ROOT / "tests" / "warp" / "include"]), "1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_batches_of_every_format(program: Path) -> None:
    done = run(program, "4")
    assert (done.returncode, done.stderr) == (0, "")


def noticed(program: Path, mistake: int) -> bool:
    try:
        return run(program, "3", mistake=mistake).returncode != 0
    except subprocess.TimeoutExpired:  # it may keep a block from ending
        return True


@pytest.mark.slow
def test_mistakes_are_noticed(program: Path) -> None:
    alive = [m.name for n, m in enumerate([*MISTAKES, *OWN_MISTAKES], 1) if not noticed(program, n)]
    assert alive == []
