"""The index in C++, compiled with blocks of few rows: index_test.cpp says what is expected of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*sorted((ROOT / "libgpuhash" / "columns").glob("*.cpp"))]
SOURCES += [
    ROOT / "libgpuhash" / "src" / f"{name}.cpp"
    for name in ("cgroups", "columns", "cpus", "error", "fork", "memory", "team")
]
SIZES = ("index_block", "index_group", "index_piece", "index_slice", "index_alone", "large_array", "large_page")
SIZES += ("encoded_rows",)


BUILDS = {
    "address": ((3, 2, 5, 13, 6, 1 << 30, 1 << 21, 5), ("-fsanitize=address,undefined",)),
    "smallest": ((3, 1, 1, 1, 6, 64, 4096, 1), ()),
    "thread": ((7, 3, 4, 40, 1, 9000, 4096, 64), ("-fsanitize=thread",)),
}


@pytest.fixture(params=[pytest.param(b, marks=() if b == "smallest" else pytest.mark.slow) for b in BUILDS])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The program, with these sizes."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    sizes, more = BUILDS[request.param]
    small = "".join(f'{{"{name}", {n}}}, ' for name, n in zip(SIZES, sizes, strict=True))
    flags = ["-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread"]
    flags += [f'-DGPUHASH_SIZES={small}{{"few_keys_of_index", 2}}']
    paths = [f"-I{ROOT}", f"-I{ROOT / 'libgpuhash' / 'include'}"]
    sources = [Path(__file__).with_name("index_test.cpp"), *SOURCES]
    objects = [tmp_path / f"{i}.o" for i in range(len(sources))]
    for source, target in zip(sources, objects, strict=True):
        subprocess.run([*compiler, *flags, *more, *paths, "-c", str(source), "-o", str(target)], check=True)
    program = tmp_path / "index_test"
    wrap = "-Wl,--wrap=calloc,--wrap=realloc,--wrap=mmap,--wrap=mremap"  # memory that runs out
    subprocess.run([*compiler, *more, "-pthread", wrap, *map(str, objects), "-o", str(program)], check=True)
    return program


def test_rows_get_the_ids_of_a_map_and_wrong_structs_are_refused(engine: Path) -> None:
    done = subprocess.run([str(engine)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
