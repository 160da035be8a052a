"""The sizes that tests replace: each has its value where tests are said to have one, and no other name stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu"}
SOURCES = [p for folder in ("libgpuhash", "plugins") for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES]

# Sizes of the host that `smallest` and `odd` leave: shapes of what is stored or reported, and choices of a build.
OTHERS = {
    "cuckoo.turn_bits": "of an example, whose plugin_sim.cpp replaces it",
    "hive_segment": "bytes of a segment, what a table's figures are computed from",
    "hive_reserve": "address space that is reserved",
    "log_ranks": "the sketch's precision",
    "sketch_margins": "the sketch's precision",
    "memory_checked": "bytes from which memory of the host is compared; tests/memory has its own",
    "memory_step": "bytes of the host that come into being at a time; tests/memory has its own",
}
# Sizes of kernels that tests/sizes/kernels.hpp leaves; a test of its own may replace them.
KERNELS_LEFT = {
    "cuda.block_warps": "table II of the skiplist's paper: asv_bench/harness/paper_skiplist.py",
    "cuda.partition_bytes": "bytes of a partition: those of small tables are smaller anyhow",
    "cuda.listed_share": "tests/hive/test_steps.py",
    "cuda.segment_window_each": "tests/hive/test_parts.py",
    "cuda.slab_partition_bytes": "tests/slab_hash/test_parts.py",
    "cuda.slab_window_each": "tests/slab_hash/test_parts.py",
}


def values_in(text):
    return re.findall(r'\{+"([a-z_.]+)", ([^}]+)\}', text)


def sizes_of(file):
    text = (ROOT / "tests" / "sizes" / file).read_text()
    named = values_in(text)
    assert len(dict(named)) == len(named), "a size has two values"
    return set(dict(named))


def in_sources(pattern, sources):
    found = {}
    for path in sources:
        for name in re.findall(pattern, path.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(path.name)
    return found


@pytest.fixture(scope="module")
def asked():
    """Names of sizes, each of one place."""
    found = in_sources(r'tunable\("([^"]+)"', SOURCES)
    assert [name for name, paths in found.items() if len(paths) > 1] == [], "two sizes have one name"
    return set(found)


@pytest.mark.parametrize("file", ["smallest.hpp", "odd.hpp"])
def test_every_size_of_the_host_has_another_value(file, asked):
    named = sizes_of(file)
    assert named | set(OTHERS) == {name for name in asked if not name.startswith("cuda.")}
    assert not named & set(OTHERS)


def test_no_size_is_a_macro():
    assert in_sources(r"^#ifndef (GPUHASH_(?!ISA|WITH|SIZES)\w+)$", SOURCES) == {}


def test_every_size_of_a_kernel_is_small_on_emulated_warps(asked):
    of_kernels = {name for name in asked if name.startswith("cuda.")}
    assert {name for name in sizes_of("kernels.hpp") if name.startswith("cuda.")} == of_kernels - set(KERNELS_LEFT)


def test_tests_replace_no_size_that_is_not_there(asked):
    files = [*(ROOT / "tests/sizes").glob("*.hpp"), *(ROOT / "tests").rglob("test_*.py")]
    texts = {p: p.read_text() for p in files if p != Path(__file__)}
    given = {(file, name) for file, text in texts.items() if "_SIZES" in text for name, _ in values_in(text)}
    assert [one for one in sorted(given) if one[1] not in asked] == []
    places = {name for _, name in given}
    assert {name for name, where in KERNELS_LEFT.items() if where.startswith("tests/")} <= places


def test_every_macro_that_a_test_defines_is_read():
    tests = [p for p in (ROOT / "tests").rglob("test_*.py") if p != Path(__file__)]
    defined = in_sources(r"-D(GPUHASH_\w+)", tests)
    read = "".join(p.read_text() for p in [*SOURCES, *(p for p in (ROOT / "tests").rglob("*") if p.suffix in SUFFIXES)])
    assert {m: where for m, where in defined.items() if not re.search(rf"\b{m}\b", read)} == {}
