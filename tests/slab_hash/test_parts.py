"""Batches of slab_hash by parts on emulated warps (parts_test.cpp), and mistakes planted in their kernels."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "plugins" / "slab_hash"
SOURCE, BULK = SOURCES / "parts.cuh", ROOT / "libgpuhash" / "drive" / "bulk"
OWN = BULK / "own_kernel.cuh"  # what slab_hash and hive share
VARIABLE = "GPUHASH_MISTAKE"
FLAGS = ["-std=c++20", "-O1", "-DGPUHASH_EMULATED_WARP=1", "-Wno-unknown-pragmas"]
# The driver in small, as tests/warp has it, with parts of few buckets and few elements of a thread at a time.
OWN_SIZES = '{"cuda.own_threads", 32}, {"cuda.slab_partition_bytes", 512}, {"cuda.slab_window_each", 4},'
OWN_SIZES += '{"cuda.partition_slots_wanted", 256},'
FLAGS += [f"-DGPUHASH_OWN_SIZES={OWN_SIZES}", "-include", str(ROOT / "tests" / "sizes" / "kernels.hpp")]


class Mistake(NamedTuple):
    """`instead` stands where `there` does, once in the file; PLANTED says that this mistake is active."""

    name: str
    there: str
    instead: str
    file: Path = SOURCE


def left_out(name: str, statement: str, file: Path = SOURCE) -> Mistake:
    return Mistake(name, statement, f"{{ if (!PLANTED) {{ {statement} }} }}", file)


def swapped(name: str, right: str, wrong: str, file: Path = SOURCE) -> Mistake:
    return Mistake(name, right, f"(PLANTED ? ({wrong}) : ({right}))", file)


MISTAKES = [
    Mistake(
        "declined and served by nobody",
        "w.found->divided = w.found->divided_first = 0;",
        "w.found->divided = 0, w.found->divided_first = PLANTED;",
        BULK / "sample_table.cuh",
    ),
    # the image
    swapped("slots in use forgotten", "had << had_at | had", "had"),
    swapped("full slabs not counted", "had += data", "had += 0"),
    left_out("base slabs not written", "copy_to_table<F, own_threads>(base, slots, buckets * slab_slots);"),
    left_out(
        "slabs behind not written",
        "copy_row_to_table<F>(in_table(slab) + in_slab, slots + slab * slab_slots + in_slab);",
    ),
    swapped("given back and written", "units[i / rows] != no_unit", "true"),
    swapped("bucket of the first part", "index(u64(blockIdx.x) * all_buckets)", "index(0)"),
    swapped("part beyond the table", "a_table.buckets - first < all_buckets", "false"),
    Mistake("keys of another part", "{ return t.home(k); }", "{ return PLANTED ? 0 : t.home(k); }"),
    # keys
    Mistake("counters of the first", "counters[b] = count_used(b);", "counters[b] = count_used(PLANTED ? 0 : b);"),
    swapped("further slabs are not copied", "i < to * rows", "i < from * rows"),
    swapped("contents not looked at", "F::key_of(some.w[y]) == k && i + y < here", "false"),
    swapped("contents of the base slab only", "many -= here", "many = 0"),
    swapped("tombstones not looked at", "F::has_value && some.w[y] == tombstone<F>(k) && i + y < here", "false"),
    swapped("usual is assumed", "q.status && answer != default_status", "false"),
    left_out("left and forgotten", "append(w.rest, these.mine[x], these.at ? these.at[x] : 0);", OWN),
    # erasing
    swapped("missing is nowhere", "slot == none && misses_slabs(b)", "false"),
    swapped("missing is elsewhere", "!(at(link_of(last)) == empty_word<F>())", "false"),
    swapped(
        "erased by a lost swap", "swap(slot, seen, tombstone<F>(k))", "(swap(slot, seen, tombstone<F>(k)), true)", OWN
    ),
    left_out("erased and there", "done.live -= erased;", OWN),
    # adding
    swapped("added twice", "had && change_there(these, e, x, b, had)", "false"),
    left_out("taken by nobody", "if (who) who[slot] = uint16_t(x);"),
    swapped("tried once and dropped", "take(these, these.mine[x], x)", "true"),
    left_out("taken and tried again", "left ^= bit;"),
    left_out("in the end forgotten", "leave(these, number_of(bits & (0 - bits)));"),
    swapped(
        "revived by a lost swap",
        "!swap(dead, tombstone<F>(F::key_of(e)), e)",
        "(swap(dead, tombstone<F>(F::key_of(e)), e), false)",
    ),
    Mistake(
        "not assigned",
        "if constexpr (Kind == assign) put(slot, e);",
        "if (Kind == assign && !PLANTED) put(slot, e);",
        OWN,
    ),
    swapped("joined by a lost swap", "swap(slot, seen, want)", "(swap(slot, seen, want), true)", OWN),
    swapped("equal keys stay", "some_equal(b, had, end)", "false"),
    left_out("equal keys of the base slab stay", "for (u32 y = 0; y < i; ++y) same |= keys[y] == keys[i];"),
    left_out("equal keys beyond stay", "for (u32 y = had; y < i; ++y) same |= F::key_of(at(slot_of(b, y))) == k;"),
    swapped("beyond compared with itself", "had < first ? first : had + 1", "had + 1 < first ? first : had + 2"),
    left_out("added and not counted", "done.used += int(end - had);"),
    swapped("counters of before", "counters[b] = end << had_at | end", "counters[b] = had << had_at | end"),
    Mistake(
        "equal operand lost",
        "put(first, wanted<F>(Kind, j, true",
        "if (!PLANTED) put(first, wanted<F>(Kind, j, true",
    ),
    left_out("who took the place", "who[own] = who[emptied];"),
    left_out("equal ones are yes", "report(these, who[own], no);"),
    left_out("place not emptied", "put(emptied, empty_word<F>());"),
    left_out("place not filled", "put(own, at(emptied));"),
    # slabs
    Mistake("one slab too many", "i >= overflow_room) return no_slab", "i >= overflow_room + PLANTED) return no_slab"),
    Mistake("no unit is a unit", "units[i] == no_unit) return", "units[i] == no_unit && !PLANTED) return"),
    left_out("slab of garbage", "for (u32 x = 0; x < slab_slots; ++x) put(slab * slab_slots + x, empty_word<F>());"),
    left_out("not linked", "put(link_of(last), table::link_to(units[i]));"),
    left_out("linked and not known", "next[last] = uint16_t(slab);"),
    Mistake("spare slabs stay", "own_threads) trim(b);", "own_threads) { if (!PLANTED) trim(b); }"),
    Mistake("slabs in use given back", "if (room < end) continue;", "if (room < end && !PLANTED) continue;"),
    left_out("given back and linked", "put(link_of(slab), empty_word<F>());"),
    left_out("unlinked and kept", "t.heap.template release<cuda_mem>(unit);"),
    # what slab_hash alone asks of the driver
    Mistake(
        "slow is dropped",
        "d = op.slow(tile, t, j, true)",
        "d = PLANTED ? verdict::done : op.slow(tile, t, j, true)",
        BULK / "one_lane.cuh",
    ),
]


def compiled(root: Path, *flags: str) -> Path:
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    includes = [f"-I{p}" for p in (ROOT / "tests" / "warp" / "include", root, ROOT, ROOT / "libgpuhash" / "include")]
    target = root / "parts"
    program = str(Path(__file__).with_name("parts_test.cpp"))
    command = [*compiler, *FLAGS, *flags, *includes, program, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return target


def run(program: Path, *arguments: str, mistake: int = 0, seconds: int = 500) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, VARIABLE: str(mistake)}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=seconds, env=variables)


def plant(root: Path) -> None:
    """The sources with all mistakes, one of which the variable switches on. Those that are found first are these."""
    switch = f'#include <stdlib.h>\ninline const int mistake = getenv("{VARIABLE}") ? atoi(getenv("{VARIABLE}")) : 0;\n'
    (root / "mistake.hpp").write_text("#pragma once\n" + switch)
    texts = {m.file: m.file.read_text() for m in MISTAKES}
    for number, m in enumerate(MISTAKES, 1):
        times = texts[m.file].count(m.there)
        assert times == 1, f"{m.name}: {m.file.name} has {times} times {m.there!r}"
        texts[m.file] = texts[m.file].replace(m.there, m.instead.replace("PLANTED", f"(mistake == {number})"))
    for file, text in texts.items():
        target = root / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("#pragma once\n", '#pragma once\n#include "mistake.hpp"\n', 1))
    for path in SOURCES.glob("*.hpp"):  # what it includes from its own folder
        (root / "plugins" / "slab_hash" / path.name).write_text(path.read_text())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mutated")
    plant(root)
    return compiled(root)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant(tmp_path)
    assert (tmp_path / SOURCE.relative_to(ROOT)).read_text().count("(mistake == ") > 40


def test_batches_of_pairs(tmp_path: Path) -> None:
    done = run(compiled(tmp_path, "-DGPUHASH_ONE_FORMAT"), "1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_batches_of_every_format(program: Path) -> None:
    done = run(program, "5")
    assert (done.returncode, done.stderr) == (0, "")


def noticed(program: Path, mistake: int) -> bool:
    try:
        return run(program, "4", mistake=mistake).returncode != 0
    except subprocess.TimeoutExpired:  # it may keep a block from ending
        return True


@pytest.mark.slow
def test_mistakes_are_noticed(program: Path) -> None:
    alive = [m.name for n, m in enumerate(MISTAKES, 1) if not noticed(program, n)]
    assert alive == []
