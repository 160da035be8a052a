"""A structure whose layout or operation lacks a member gets one line from the compiler, which says what is missing
(libgpuhash/drive/contract.hpp, libgpuhash/kit/flat_contract.hpp)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from simulator import ROOT, compiler

LAYOUT = {
    "format": "private: using format = void;",
    "kinds": "struct kinds;",
    "side_slots": "struct side_slots;",
    "home": "struct home;",
}
OPERATION = {
    "fixed_kind": "struct fixed_kind;",
    "has_slow": "struct has_slow;",
    "start": "struct start;",
    "line": "struct line;",
    "step": "struct step;",
    "res": "struct res;",
    "slow": "static constexpr bool has_slow = true; struct slow;",
}
# What hides a member of a structure for flat_table.hpp, and what the compiler then says is missing.
STRUCTURE = {
    "layout": ("private: using layout = void;", "using layout`"),
    "parts": ("struct options { const char* parts; };", "uint32_t parts"),
    "line_cells": ("struct line_cells;", "uint32_t line_cells"),
    **{name: (f"struct {name};", f"{name}(") for name in ("slots_for", "bind", "finds_room", "memory", "broken")},
    **{name: (f"struct {name};", f"{name}(") for name in ("distances", "figures")},
}


def program(layouts: dict[str, str], operations: dict[str, str]) -> str:
    """Engines of structures that are linear_probe but for one member, which another thing of its name hides."""
    lines = [
        '#include "libgpuhash/drive/host.hpp"',
        '#include "plugins/linear_probe/ops.hpp"',
        "using namespace gpuhash;",
    ]
    lines += ["template <class Tile, u32 Kind> using whole_op = linear_op<Tile, Kind, true>;"]
    for member, hidden in layouts.items():
        lines += [
            f"template <class F> struct layout_{member} : linear_table<F> {{ {hidden} }};",
            f"auto without_{member}() {{ return host_engines<layout_{member}, whole_op>::run<pair32>; }}",
        ]
    for member, hidden in operations.items():
        lines += [
            f"template <class T, u32 K> struct op_{member} : linear_op<T, K, true> {{ {hidden} }};",
            f"auto op_without_{member}() {{ return host_engines<linear_table, op_{member}>::run<pair32>; }}",
        ]
    return "\n".join(lines) + "\n"


def errors(tmp_path: Path, text: str) -> tuple[list[str], str]:
    """Lines with errors, without their places; and all that the compiler says."""
    source = tmp_path / "lacking.cpp"
    source.write_text(text)
    flags = ["-std=c++20", "-O0", "-w", "-c", "-o", str(tmp_path / "lacking.o"), f"-I{ROOT}"]
    done = subprocess.run(
        [*compiler(), *flags, f"-I{ROOT / 'libgpuhash' / 'include'}", str(source)], capture_output=True, text=True
    )
    lines = done.stderr.splitlines()
    return [line.partition(" error: ")[2] for line in lines if " error: " in line], done.stderr


@pytest.mark.slow
def test_one_line_for_each_member(tmp_path: Path) -> None:
    found, said = errors(tmp_path, program(LAYOUT, OPERATION))
    missing = [line.partition("missing ")[2] for line in found]
    named = [
        member
        for member in [*LAYOUT, *OPERATION]
        if any(re.search(rf"\b{member}\b", line.partition("`: ")[0]) for line in missing)
    ]
    assert len(found) == len(LAYOUT) + len(OPERATION), said
    assert named == [*LAYOUT, *OPERATION], said


def test_it_is_short(tmp_path: Path) -> None:
    """All that the compiler says of one member."""
    found, said = errors(tmp_path, program({"kinds": LAYOUT["kinds"]}, {}))
    (error,) = found
    assert "missing `static constexpr u32 kinds`: a bit for each operation it has" in error
    assert len(said.splitlines()) <= 20, said


@pytest.mark.slow
def test_one_line_for_each_member_of_a_structure(tmp_path: Path) -> None:
    head = '#include "plugins/linear_probe/structure.hpp"\nusing namespace gpuhash;\n'
    text = head
    for member, (hidden, _) in STRUCTURE.items():
        text += f"template <class F> struct without_{member} : linear_structure<F> {{ {hidden} }};\n"
        text += f"int size_without_{member}() {{ return sizeof(flat_table<without_{member}, pair32>); }}\n"
    found, said = errors(tmp_path, text)
    for member, (_, words) in STRUCTURE.items():
        assert any(words in line.partition("missing `")[2] for line in found), (member, said)
    assert errors(tmp_path, head + "int size() { return sizeof(flat_table<linear_structure, pair32>); }\n")[0] == []
