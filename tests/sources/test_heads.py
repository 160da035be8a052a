"""Every source opens with a comment or docstring that says what the file is."""

import re
from pathlib import Path

import pytest
from cpp_sources import SUFFIXES

ROOT = Path(__file__).parents[2]
FOLDERS = ("asv_bench", "examples", "libgpuhash", "plugins", "pygpuhash", "tests")
MADE = ("pygpuhash/include", "tests/abi/baseline")  # by builds and tools
BEFORE = re.compile(r"(?:#!.*\n|# cython:.*\n)*")
COMMENT = re.compile(r"(?://[/!]?|/\*|#(?! *(?:include|pragma|define|if|undef)\b)|\"\"\")(.*)")


def has_head(text: str) -> bool:
    """Does the file begin with a comment or docstring of several words?"""
    head = COMMENT.match(text, BEFORE.match(text).end())
    return head is not None and len(re.findall(r"\w+", head[1])) > 3


def sources() -> list[Path]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT)
            if path.suffix not in SUFFIXES | {".py", ".pyx", ".pxd", ".go", ".rs"} or "build" in inside.parts:
                continue
            cython = path.suffix == ".c" and path.with_suffix(".pyx").exists()
            if not cython and not str(inside).startswith(MADE) and path.stat().st_size:
                found.append(path)
    return found


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("// The index of columns: see index.hpp.\n#include <x>\n", True),
        ('"""Tables, and what is saved of them."""\n', True),
        ("/* A complete backend in plain C. */\n", True),
        ('#include "libgpuhash/columns/index.hpp"\n', False),
        ("#pragma once\n// The index of columns.\n", False),
        ("// ---\n#include <x>\n", False),
        ("import re\n", False),
    ],
)
def test_what_a_head_is(text: str, has: bool) -> None:
    assert has_head(text) is has


def test_every_source_has_a_head() -> None:
    without = [str(path.relative_to(ROOT)) for path in sources() if not has_head(path.read_text(encoding="utf-8"))]
    assert len(sources()) > 500
    assert without == []
