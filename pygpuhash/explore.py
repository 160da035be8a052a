"""`pygpuhash explore SOURCE [ARGUMENTS]`: the explorer on a structure that is written with the kit.

SOURCE is its plugin_sim.cpp, which includes its ops.hpp and registers a model of it. It is compiled with the explorer,
whose sources are installed beside the kit, and run with the arguments: `STRUCTURE --quick`, or none to see what there
is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from pygpuhash.config import get_include
from pygpuhash.errors import InvalidArgument

__all__ = ["run"]

# -O1: explores as fast as -O2 does, and compiles in two thirds of its time.
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]


def run(source: str, arguments: list[str]) -> int:
    """The explorer's exit status: 0 no violation, 1 a violation, 2 bad input. CXX names the compiler.

    Raises `InvalidArgument` where there is no such source, or it does not compile; the compiler has said why.
    """
    place = Path(source)
    if not place.is_file():
        raise InvalidArgument(f"'{source}' is no file: pass the plugin_sim.cpp of a structure")
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if not compiler or shutil.which(compiler[0]) is None:
        raise InvalidArgument(f"there is no C++ compiler {' '.join(compiler)!r}: install g++, or name one in CXX")
    include = Path(get_include())
    kit = include / "gpuhash" / "kit"
    sched = kit / "libgpuhash" / "sched"
    folders = [f"-I{place.parent}", f"-I{include}", f"-I{kit}"]
    with tempfile.TemporaryDirectory(prefix="gpuhash-explore-") as folder:
        program = Path(folder) / "explore"
        sources = [place, sched / "explore.cpp", sched / "unexplored.cpp"]
        command = [*compiler, *FLAGS, *folders, '-DGPUHASH_UNEXPLORED=""', *map(str, sources), "-o", str(program)]
        if subprocess.run(command).returncode != 0:
            raise InvalidArgument(f"'{source}' does not compile: the compiler's words are above")
        return subprocess.run([str(program), *arguments]).returncode
