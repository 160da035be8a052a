"""The table of operations (libgpuhash/tile/kinds.hpp): nothing that it is asked for can be left out."""

import re

from pygpuhash import _core

from .conftest import ROOT, require, run

KINDS = ROOT / "libgpuhash" / "tile" / "kinds.hpp"
HEADER = (ROOT / "libgpuhash" / "include" / "gpuhash" / "gpuhash.h").read_text()


def compiles(tmp_path, text):
    source = tmp_path / "kinds.cpp"
    source.write_text(text)
    include = [f"-I{ROOT}", f"-I{ROOT / 'libgpuhash' / 'include'}"]
    return run("c++", "-std=c++20", "-fsyntax-only", *include, source)


def test_a_kind_without_its_row_does_not_compile(tmp_path):
    require("c++")
    text = KINDS.read_text().replace("#pragma once\n", "")
    done = compiles(tmp_path, text)
    assert done.returncode == 0, done.stderr
    for before, after in (("  kinds_end\n", "  fresh,\n  kinds_end\n"), ("{.code = find,", "{.code = erase,")):
        assert text.count(before) == 1
        done = compiles(tmp_path, text.replace(before, after))
        assert done.returncode != 0
        assert "a kind of operation has no row in kind_rows" in done.stderr


def test_header_and_table_name_the_same_operations():
    codes = {name.lower(): int(code) for name, code in re.findall(r"GPUHASH_OP_(\w+) = (\d+)", HEADER)}
    assert codes.pop("nop") == 0
    assert sorted(codes.values()) == sorted(op for op, _, _ in _core.OPERATIONS.values())
    for name in _core.OPERATIONS:
        assert f"gpuhash_{name}(gpuhash_table *table, size_t n," in HEADER
        assert hasattr(_core.CoreTable, name) or name == "insert_or_assign"


def test_facts_of_operations():
    facts = {name: (trait, *sorted(facts)) for name, (_, trait, facts) in _core.OPERATIONS.items()}
    assert facts["insert"] == ("insert", "adds", "in_execute", "takes_values")
    assert facts["accumulate"] == ("accumulate", "adds", "changes", "in_execute", "takes_values")
    assert facts["find"] == ("insert", "answers_values", "in_execute")
    assert facts["erase"] == ("insert", "erases", "in_execute")
    assert facts["count"] == ("insert", "answers_counts")
    assert facts["erase_all"] == ("multi", "erases")
    assert facts["pop"] == ("answers", "answers_values", "erases")
    assert facts["find_or_insert"] == ("answers", "adds", "answers_values", "takes_values")
    assert facts["execute"] == ("insert", "adds", "answers_values", "changes", "erases", "takes_values")
    assert {_core.OP_INSERT, _core.OP_ASSIGN, _core.OP_EXECUTE} <= _core.ADDING
    assert not {_core.OP_FIND, _core.OP_ERASE, _core.OP_COUNT, _core.OP_ERASE_ALL} & _core.ADDING
