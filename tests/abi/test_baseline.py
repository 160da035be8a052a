"""The C ABI and the plugin ABI against those of the baseline: what a program or a module was compiled for still works.

The types and functions of a header are what a compiler makes of it, so each baseline is written by abidw from a library
of stubs: every declared function, without a body. `python tests/abi/test_baseline.py` writes the baselines anew; a
change that abidiff calls incompatible takes a new SONAME and version node (docs/adr/0040-a-promise-for-the-abi.md).
"""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASELINE = Path(__file__).resolve().parent / "baseline"
INCLUDE = ROOT / "libgpuhash" / "include"
HEADERS = {"libgpuhash": ("gpuhash.h", "columns.h", "saved.h", "staging.h"), "plugin": ("plugin.h",)}


def stubs(name: str, include: Path, folder: Path) -> Path:
    """A shared library with every function of the headers, and debugging information."""
    headers = HEADERS[name]
    text = "".join(f'#include "gpuhash/{header}"\n' for header in headers)
    if name == "libgpuhash":
        text += "struct gpuhash_table { int opaque; };\nstruct gpuhash_slab_allocator { int opaque; };\n"
        text += "struct gpuhash_index { int opaque; };\n"
    for header in headers:
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", (include / "gpuhash" / header).read_text(), flags=re.DOTALL)
        for declared in re.findall(r"^GPUHASH_API ([^;]*?\([^;]*\));", code, re.MULTILINE):
            text += f"GPUHASH_API {declared} {{ __builtin_trap(); }}\n"
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text)
    # -fno-eliminate-unused-debug-types: structs that a user fills, and enums.
    flags = ["-std=c11", "-g", "-w", "-shared", "-fPIC", "-fno-eliminate-unused-debug-types", f"-I{include}"]
    command = ["cc", *flags, f"-ffile-prefix-map={folder}=.", source.name, "-o", library.name]
    subprocess.run(command, check=True, cwd=folder)
    return library


def describe(library: Path, to: Path) -> Path:
    options = ["--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed", "--type-id-style", "hash"]
    subprocess.run(["abidw", *options, "--load-all-types", "--out-file", to, library], check=True)
    return to


def compare(name: str, include: Path, folder: Path) -> tuple[int, str]:
    """abidiff's status and report: bit 4 (value 4) a change, bit 8 one that breaks what was compiled before."""
    made = describe(stubs(name, include, folder), folder / f"{name}.abi")
    done = subprocess.run(["abidiff", "--no-show-locs", BASELINE / f"{name}.abi", made], capture_output=True, text=True)
    assert done.returncode & 3 == 0, done.stderr
    return done.returncode, done.stdout


@pytest.fixture(autouse=True)
def tools():
    if platform.machine() != "x86_64":
        pytest.skip("the baseline is of x86-64")
    for tool in ("cc", "abidw", "abidiff"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (abigail-tools)")


@pytest.mark.parametrize("name", HEADERS)
def test_nothing_that_was_there_has_changed(name, tmp_path):
    status, report = compare(name, INCLUDE, tmp_path)
    assert status == 0, f"{report}\nwhere this is meant and only adds: python tests/abi/test_baseline.py"


# Changes of gpuhash.h or plugin.h, and whether they break what was compiled before.
CHANGES = [
    ("libgpuhash", "gpuhash.h", "  uint32_t grow;  ", "  uint64_t grow;  "),
    ("libgpuhash", "gpuhash.h", "gpuhash_table_destroy(gpuhash_table *table)", "gpuhash_table_destroy(int table)"),
    ("libgpuhash", "gpuhash.h", "  uint64_t failed; /*", "  uint32_t failed; /*"),
    ("plugin", "plugin.h", "uint32_t key_widths", "uint64_t key_widths"),
]


@pytest.mark.parametrize(("name", "header", "before", "after"), CHANGES)
def test_a_change_is_noticed(name, header, before, after, tmp_path):
    shutil.copytree(INCLUDE, tmp_path / "include")
    file = tmp_path / "include" / "gpuhash" / header
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))
    status, report = compare(name, tmp_path / "include", tmp_path)
    assert status & 4, report


if __name__ == "__main__":
    import tempfile

    BASELINE.mkdir(exist_ok=True)
    for each in HEADERS:
        with tempfile.TemporaryDirectory() as scratch:
            describe(stubs(each, INCLUDE, Path(scratch)), BASELINE / f"{each}.abi")
            print(BASELINE / f"{each}.abi", file=sys.stderr)
