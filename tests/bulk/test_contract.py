"""A structure whose class for large batches lacks a member gets one line from the compiler, which says what is missing
(libgpuhash/drive/bulk/contract.cuh)."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TYPES = ["F", "table", "index", "rest_op"]
COMMON = ["own_partitions", "combines_directly", "policy", "applies", "slots", "chain_after", "group_of", "group_bits"]
MEMBERS = {  # of the class that a structure has, each left out once
    ("linear_probe", "linear_partitions"): [
        *TYPES,
        *COMMON,
        "op",
        "goes_on",
        "least_bits",
        "local",
        "local_home",
        "left",
    ],
    ("hive", "hive_partitions"): [
        *COMMON,
        "dead_at",
        "partitions",
        "partition_bits",
        "shares",
        "serve_bytes",
        "server",
    ],
    ("slab_hash", "slab_partitions"): ["op", "dead_at", "group_of"],
}


def compiled(structure, lines, tmp_path, *flags):
    """What the compiler says of these lines after the structure's header."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    source = tmp_path / "lacking.cpp"
    text = f'#include "plugins/{structure}/parts.cuh"\nusing namespace gpuhash;\n' + "\n".join(lines) + "\n"
    source.write_text(text)
    includes = [f"-I{path}" for path in (ROOT / "tests" / "warp" / "include", ROOT, ROOT / "libgpuhash" / "include")]
    flags = ["-std=c++20", "-DGPUHASH_EMULATED_WARP=1", "-Wno-unknown-pragmas", "-fsyntax-only", *flags]
    return subprocess.run([*compiler, *flags, *includes, str(source)], capture_output=True, text=True)


def lacking(name, member):
    """A class with all members but this one, which a private type or a name of another sort hides."""
    hidden = f"private: using {member} = void;" if member in TYPES else f"struct {member};"
    return [
        f"struct without_{member} : {name}<pair32> {{ {hidden} }};",
        f"constexpr bool engine_without_{member} = bulk_engine_of<without_{member}>.run;",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "name"), MEMBERS)
def test_one_line_for_each_member(structure, name, tmp_path):
    members = MEMBERS[structure, name]
    lines = [line for member in members for line in lacking(name, member)]
    done = compiled(structure, lines, tmp_path)
    errors = [line for line in done.stderr.splitlines() if " error: " in line]
    missing = [line.partition("large batches: missing `")[2] for line in errors]
    assert [
        len(re.findall(rf"\b{member}\b", text.partition("`")[0])) for member, text in zip(members, missing, strict=True)
    ] == [1] * len(members), done.stderr
    assert all(": " in text.partition("`")[2] for text in missing), "a line says what the member is for"


def test_it_is_short(tmp_path):
    """All that the compiler says of one member."""
    done = compiled("linear_probe", lacking("linear_partitions", "group_of"), tmp_path)
    said = done.stderr.splitlines()
    assert "missing `GH_FN static index group_of(table, key)`: the group of slots where a path begins" in done.stderr
    assert len([line for line in said if " error: " in line]) == 1
    assert len(said) <= 20, done.stderr


@pytest.mark.slow
def test_members_of_another_type_are_missing(tmp_path):
    other = "struct other : linear_partitions<pair32> { static int group_bits(int); };"
    done = compiled("linear_probe", [other, "constexpr bool engine = bulk_engine_of<other>.run;"], tmp_path)
    (error,) = [line for line in done.stderr.splitlines() if " error: " in line]
    assert "missing `static u32 group_bits(table)`" in error


@pytest.mark.slow
def test_a_whole_class_compiles(tmp_path):
    done = compiled(
        "linear_probe", ["static_assert(has_bulk_members<linear_partitions<pair32>>());"], tmp_path, "-Wall"
    )
    assert (done.returncode, done.stderr) == (0, "")
