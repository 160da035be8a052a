"""Rows by shard on a CUDA device without a GPU: the kernels on emulated warps, and planted mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .conftest import ROOT, compile_program, plant, planted_once, run
from .mutants import Mutant

SOURCES = [
    "libgpuhash/columns/" + name for name in ("partition.cu", "collect.cu", "partition.cpp", "row_hash.cpp", "rows.cpp")
]
SOURCES += ["libgpuhash/columns/type.cpp"]
SOURCES += ["libgpuhash/src/partition.cpp", "libgpuhash/src/error.cpp", "tests/warp/partition.cpp"]
FLAGS = ["-std=c++20", "-Og", "-Wall", "-Wextra", "-DGPUHASH_EMULATED_WARP=1"]
FLAGS += ["-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", "-Wno-missing-field-initializers"]
FLAGS += ["-include", "tests/sizes/kernels.hpp"]
PATHS = ["-Itests/warp/include", "-I.", "-Ilibgpuhash/include"]
KERNELS, BACK, PLAN, CALL = (
    "libgpuhash/columns/partition.cu",
    "libgpuhash/columns/collect.cu",
    "libgpuhash/columns/partition_cuda.hpp",
    "libgpuhash/src/partition.cpp",
)

MUTANTS = [
    # the hash
    Mutant("seed-of-shards", CALL, "contract::root(seed_of_shards(seed), 0)", "contract::root(seed, 0)"),
    Mutant("narrow-signs", KERNELS, "i64(std::make_signed_t<Word>(cell))", "i64(u64(cell))"),
    Mutant(
        "upper-half-of-words", KERNELS, "contract::of_integer(key, u64(cell), 0)", "contract::of_word(key, u64(cell))"
    ),
    Mutant(
        "ticks-are-numbers",
        KERNELS,
        "contract::of_ticks(key, number, nanoseconds)",
        "contract::of_word(key, u64(number))",
    ),
    Mutant("infinite-halves", KERNELS, "(h >> 10 & 31) != 31", "true"),
    Mutant("sign-of-halves", KERNELS, "h >> 15 ? -size : size", "size"),
    Mutant(
        "lower-half-of-a-hash",
        KERNELS,
        "u32((hash >> 32) * shards >> 32)",
        "u32((hash & 0xffffffffu) * shards >> 32)",
    ),
    Mutant("bytes-of-the-row-before", KERNELS, "(row + i * step) * w.width", "(row + i * step - (row > 0)) * w.width"),
    Mutant(
        "one-byte-less",
        KERNELS,
        "contract::of_bytes(w.of_bytes, at, w.width)",
        "contract::of_bytes(w.of_bytes, at, w.width - 1)",
    ),
    Mutant(
        "bytes-are-integers",
        CALL,
        "contract::keys_of_bytes(root, kind_of(t.kind))",
        "contract::keys_of_bytes(root, contract::integer)",
    ),
    # counting
    Mutant("rows-past-the-strip", KERNELS, "min(n, begin() + strip)", "n"),
    Mutant("dead-lanes-count", KERNELS, "__ballot_sync(whole_warp, live)", "whole_warp"),
    Mutant(
        "one-bit-less", KERNELS, "lanes &= set ? others : ~others;", "lanes &= set || b + 1 == bits ? others : ~others;"
    ),
    Mutant(
        "count-of-one-lane", KERNELS, "atomicAdd(counted + digit, u32(__popc(lanes)))", "atomicAdd(counted + digit, 1u)"
    ),
    Mutant(
        "ids-of-dead-lanes",
        KERNELS,
        "if (live && w.ids) w.ids[row] = int32_t(shard[i]);",
        "if (w.ids) w.ids[row] = int32_t(shard[i]);",
    ),
    Mutant(
        "sum-without-carry", KERNELS, "if (i < n) words[i] = carry + up_to - own;", "if (i < n) words[i] = up_to - own;"
    ),
    Mutant("sum-of-all-but-one", KERNELS, "__shfl_sync(whole_warp, up_to, 31)", "__shfl_sync(whole_warp, up_to, 30)"),
    Mutant("no-last-offset", KERNELS, "if (threadIdx.x == 0) offsets[digits] = int64_t(n);", ";"),
    Mutant("offset-behind-its-shard", KERNELS, "u32(sorted[middle]) < shard", "u32(sorted[middle]) <= shard"),
    # moving
    Mutant("not-stable", KERNELS, "me / 32 * 32 * partition_each + i * 32 + me % 32", "i * partition_threads + me"),
    Mutant(
        "rank-of-the-first",
        KERNELS,
        "u32(__popc(lanes & ((1u << me % 32) - 1)))",
        "u32(__popc(lanes & (1u << me % 32)) - 1)",
    ),
    Mutant("warps-are-not-added", KERNELS, "at += of_one;", ";"),
    Mutant("every-tile-from-the-begin", KERNELS, "next[me] += own;", ";"),
    Mutant("counts-of-the-tile-before", KERNELS, "counts[i] = 0;", "counts[i] = from == w.begin() ? 0 : counts[i];"),
    Mutant("through-is-forgotten", KERNELS, "w.through ? u64(w.through[row]) : row", "row"),
    Mutant("elements-of-one-unit", KERNELS, "y % words", "u64(0)"),
    Mutant(
        "units-beside-their-place",
        KERNELS,
        "u64(uintptr_t(array.from)) | array.bytes | (spread ? 0 : u64(uintptr_t(array.to)))",
        "u64(array.bytes + 1) & ~u64(1)",
    ),
    Mutant(
        "higher-digit",
        KERNELS,
        "set_digit(digit_bits, (r.shards - 1) / most_digits + 1);",
        "set_digit(digit_bits, r.shards / most_digits);",
    ),
    # the way back
    Mutant("back-to-where-it-is", BACK, "to[order[i]] = from[i];", "to[i] = from[i];"),
    Mutant("first-unit-of-a-row", BACK, "u64(order[i / units]) * units + i % units", "u64(order[i / units]) * units"),
    Mutant("collected-where-it-is", BACK, "s.places[row + i * partition_threads]", "u32(row + i * partition_threads)"),
    Mutant("first-word-of-a-row", BACK, "i % a.words", "u64(0)"),
    Mutant("places-in-the-shard", KERNELS, "u32(base[digit] + x)", "u32(base[digit] + x - w.totals[digit])"),
    Mutant("places-of-all-in-a-shard", KERNELS, "(place - w.totals[digit])", "place"),
    Mutant("shard-before-the-first-row", BACK, "found += place >= begins[s]", "found += place > begins[s]"),
    Mutant("nowhere-is-one", BACK, "rows ? rows[index] : Word(0)", "rows ? rows[index] : Word(1)"),
    Mutant("second-array-is-left-out", BACK, "r.arrays == 2 && !two", "r.arrays == 3"),
    Mutant("bytes-beside-wide-rows", BACK, "if (bytes) bring(*bytes, nullptr);", ";"),
    Mutant("seconds-are-bytes", BACK, "r.arrays == 2 && r.collected[1].bytes == 1", "r.arrays == 2"),
    Mutant("room-of-a-pass", PLAN, "passed = take(two ? 4 * n : 0);", "passed = at;"),
    Mutant(
        "first-row-of-the-array",
        CALL,
        "static_cast<const char*>(c.data) + size_t(c.first) * type.columns[0].width",
        "static_cast<const char*>(c.data)",
    ),
]


def sources(root: Path) -> list[Path]:
    """Everything that the program includes."""
    folders = ("columns", "src", "hash", "tile", "sched", "include")
    files = [path for folder in folders for path in (root / "libgpuhash" / folder).rglob("*")]
    files += [path for folder in ("sizes", "warp") for path in (root / "tests" / folder).rglob("*")]
    return sorted(path for path in files if path.suffix in {".hpp", ".cuh", ".cu", ".cpp", ".h"})


def build(root: Path) -> Path:
    """The kernels and their checks."""
    parts = [["-x", "c++", source] for source in SOURCES]
    return compile_program(root, "partition", sources(root), [*FLAGS, *PATHS], parts)


@pytest.mark.slow
def test_kernels_do_what_the_cpu_does() -> None:
    """Keys of every width and kind, shards of one digit and of two, any result NULL; a failure names the seed."""
    rounds, seed = os.environ.get("GPUHASH_WARP_ROUNDS", "2"), os.environ.get("GPUHASH_WARP_SEED", "1")
    done = run(build(ROOT), rounds, seed)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
    runs, steps = re.search(r"(\d+) runs, (\d+) steps, nothing wrong", done.stdout).groups()
    assert int(runs) >= 100
    assert int(steps) > 1_000_000


def plant_all(root: Path) -> None:
    plant(root, sources(ROOT), MUTANTS)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    plant_all(tmp_path)


@pytest.fixture(scope="session")
def mutated() -> Path:
    return planted_once("mutated-partition", plant_all, build)


@pytest.mark.slow
def test_without_a_mistake_switched_on(mutated: Path) -> None:
    done = run(mutated)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name for m in MUTANTS])
def test_mistake_is_noticed(mutated: Path, number: int) -> None:
    done = run(mutated, "3", GPUHASH_WARP_MUTANT=str(number))
    print(done.stderr)
    assert done.returncode, f"{MUTANTS[number - 1].wrong} instead of {MUTANTS[number - 1].right} passed"
