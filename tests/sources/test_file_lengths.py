"""No source of the library, a plugin or the Python package is longer than 600 lines, so that it can be read at once."""

import pytest
from cpp_sources import ROOT, SUFFIXES

FOLDERS = ("libgpuhash", "plugins", "pygpuhash")
SOURCES = SUFFIXES | {".py", ".pyx", ".pxd", ".pyi", ".in"}
# All files but the exceptions below keep to it. Those that did not were found to have two ideas or more.
LONGEST = 600

# File -> (its lines when it was accepted, why it is not split). The list only shrinks.
LONGER = {
    "libgpuhash/sched/machine.hpp": (681, "the steps of the machine, and the memory that they are defined by"),
    "plugins/slab_hash/plugin_sim.cpp": (674, "the planted mistakes of one structure, and the model that shows them"),
    "pygpuhash/_core/table.pyx": (669, "one extension type: Cython takes all methods of a class from one file"),
}


def too_long(lines):
    """What is above the limit and is no exception, and exceptions that have grown or are none any more."""
    above = {name: n for name, n in lines.items() if n > LONGEST}
    return {name: n for name, n in above.items() if n > LONGER.get(name, (0, ""))[0]} | {
        name: lines.get(name, 0) for name in LONGER.keys() - above.keys()
    }


@pytest.fixture(scope="module")
def lines():
    if not (ROOT / "libgpuhash" / "src").is_dir():
        pytest.skip("the sources of the library are not here")
    found = {}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        if path.suffix in SOURCES and path.is_file() and not generated(path):
            found[path.relative_to(ROOT).as_posix()] = len(path.read_text().splitlines())
    return found


def generated(path):
    """Is it C that Cython wrote beside its source, or a copy of a header that the build made?"""
    copied = ROOT / "pygpuhash" / "include" in path.parents
    return copied or (path.suffix in (".c", ".cpp") and path.with_suffix(".pyx").exists())


def test_files_have_one_idea(lines):
    assert too_long(lines) == {}, f"a file has at most {LONGEST} lines: give its second idea a file of its own"


def test_files_of_every_kind_are_seen(lines):
    assert {"." + name.rpartition(".")[2] for name in lines} == SOURCES
    assert len(lines) > 300
    assert all(reason for _, reason in LONGER.values())


def test_a_longer_file_and_a_stale_exception_are_named():
    lines = {name: n for name, (n, _) in LONGER.items()}
    assert too_long(lines) == {}
    assert too_long(lines | {"a.hpp": LONGEST}) == {}
    assert too_long(lines | {"a.hpp": LONGEST + 1}) == {"a.hpp": LONGEST + 1}
    name, (n, _) = next(iter(LONGER.items()))
    assert too_long(lines | {name: n + 1}) == {name: n + 1}
    assert too_long(lines | {name: LONGEST}) == {name: LONGEST}
