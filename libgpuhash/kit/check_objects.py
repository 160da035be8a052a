#!/usr/bin/env python3
"""Can a plugin's objects for wide instruction sets do harm on a processor that does not have those?

    check_objects.py OBJECT_OR_LIBRARY... [--with OBJECT_OR_LIBRARY...]

The first files are built for one instruction set each, in the order of the command line; those after --with are the
rest of the module, built for every processor. Two things make code of the former run where it must not, even if it is
never called:

* an initialiser (.init_array, .ctors, an ifunc): it runs when the module is loaded. Make the object constinit.
* a weak symbol (inline function, template) that two files define: the linker keeps one of them for both. Functions of
  your own belong into a namespace per instruction set (GH_BEGIN of libgpuhash/tile/types.hpp); of the standard library,
  use what is resolved at compile time, or mark what uses it always_inline.

Prints a line for each and returns 1; 0 when there are none. Needs readelf of binutils; reads ELF of any machine.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

INITIALISERS = re.compile(
    r"\] (\.(?:preinit_array|init_array|fini_array|ctors|dtors|init|fini)\S*)\s+\w+\s+\w+ \w+ (\w+)"
)
SYMBOL = re.compile(r"^\s*\d+: [0-9a-f]+\s+\w+ (\w+)\s+(\w+)\s+\w+\s+(?:\[.*\]\s+)?(\w+) (\S+)$", re.MULTILINE)
# A pointer to the C++ runtime's handler, the same in every file that has one.
HARMLESS = re.compile(r"DW\.ref\.__gxx_personality_v0")


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="objects or static libraries, one per instruction set")
    parser.add_argument("--with", dest="others", nargs="*", type=Path, default=[], help="the module's other objects")
    options = parser.parse_args(arguments)
    found = problems(options.files, options.others)
    for line in found:
        print(line)
    return 1 if found else 0


def problems(files: list[Path], others: list[Path]) -> list[str]:
    """A sentence for each initialiser of files, and for each weak symbol of theirs that another file defines, too."""
    found: list[str] = []
    owner: dict[str, Path] = {}
    for path in others:
        for name in weak_symbols(readelf(path)):
            owner.setdefault(name, path)
    for path in files:
        text = readelf(path)
        found += [f"{path}: {what} runs when the module is loaded" for what in initialisers(text)]
        for name in sorted(weak_symbols(text)):
            if name in owner:
                found.append(f"{path}: {name} is defined in {owner[name]}, too; one would be used for both")
            owner.setdefault(name, path)
    return found


def readelf(path: Path) -> str:
    """Sections and symbols of all objects in a file."""
    done = subprocess.run(["readelf", "-SsW", str(path)], capture_output=True, text=True)
    if done.returncode != 0 or not SYMBOL.search(done.stdout):
        raise SystemExit(f"{path} is no object or library with symbols: {done.stderr.strip()}")
    return done.stdout


def initialisers(text: str) -> list[str]:
    """Sections of pointers or code that run at load, and functions that are chosen then."""
    sections = [name for name, size in INITIALISERS.findall(text) if int(size, 16)]
    return sections + [name for kind, _, _, name in SYMBOL.findall(text) if kind in ("IFUNC", "GNU_IFUNC")]


def weak_symbols(text: str) -> set[str]:
    """Names that are defined so that another definition may take their place."""
    return {
        name
        for _, binding, where, name in SYMBOL.findall(text)
        if binding in ("WEAK", "UNIQUE") and where != "UND" and not HARMLESS.fullmatch(name)
    }


if __name__ == "__main__":
    sys.exit(main())
