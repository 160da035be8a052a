"""The sizes that meson's option `sizes` replaces: every one that bounds a loop on the host is in both files, once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_KERNELS = [
    ROOT / "libgpuhash" / of / "sizes.hpp" for of in ("drive/bulk", "columns/cuda")
]  # tests/warp replaces those
SOURCES = [
    p
    for folder in ("libgpuhash", "plugins")
    for p in (ROOT / folder).rglob("*.[hc]pp")
    if "sim" not in p.name and p not in OF_KERNELS
]

# Macros of the host's headers that are no such sizes: shapes of what is stored or reported, and choices of a build.
OTHERS = {
    "GPUHASH_HIVE_SEGMENT": "bytes of a segment, what a table's figures are computed from",
    "GPUHASH_HIVE_RESERVE": "address space that is reserved",
    "GPUHASH_MEMORY_CHECKED": "bytes from which memory of the host is compared; tests/memory has its own",
    "GPUHASH_MEMORY_STEP": "bytes of the host that come into being at a time; tests/memory has its own",
    "GPUHASH_LOG_RANKS": "the sketch's precision",
    "GPUHASH_SKETCH_MARGIN": "the sketch's precision",
}


def sizes_of(file):
    text = (ROOT / "tests" / "sizes" / file).read_text()
    named = re.findall(r'\{"([a-z_.]+)", ([^}]+)\}', text)
    macros = re.findall(r"^#define (GPUHASH_\w+) (?!\\)(.+)$", text, re.MULTILINE)
    assert len(dict(named)) == len(named), "a size has two values"
    return dict(named), dict(macros)


def in_sources(pattern):
    found = {}
    for path in SOURCES:
        for name in re.findall(pattern, path.read_text(), re.MULTILINE):
            found.setdefault(name, set()).add(path.name)
    return found


@pytest.mark.parametrize("file", ["smallest.hpp", "odd.hpp"])
def test_every_size_has_another_value(file):
    named, macros = sizes_of(file)
    asked = in_sources(r'tunable\("([^"]+)"')
    assert set(named) == set(asked)
    assert all(len(paths) == 1 for paths in asked.values()), "two sizes have one name"
    assert set(macros) | set(OTHERS) == set(in_sources(r"^#ifndef (GPUHASH_(?!ISA|WITH)\w+)$"))
    assert not set(macros) & set(OTHERS)
