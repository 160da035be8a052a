"""The kernels behind verbs on a column compile, and keep what they work on in registers."""

import re
import subprocess

import pytest

from . import lint

FOLDER = lint.ROOT / "libgpuhash" / "columns" / "cuda"


# frame: bytes of a pass of `divide`, which has as many registers as two blocks on a multiprocessor leave. With values
# the first pass has a tile's keys, values and ranks, and what a lane has added up, at the same time. Forms with smaller
# frames were measured, and were slower: ranks in pairs, more and smaller blocks, rows that are read later.
# `survey` of keys of 8 bytes has eight of them, their places and the next eight on their way; four were slower.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "frame"),
    [
        ("group.cu", 40, 32),
        ("reduce.cu", 38, 152),
        ("isin.cu", 22, 32),
        ("join.cu", 21, 32),
        ("bytes.cu", 11, 0),
        ("../partition.cu", 13, 0),
        ("../collect.cu", 16, 0),
    ],
)
def test_registers(tmp_path, name, least, frame):
    try:
        nvcc = lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))
    options = ["-O3", "-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_90", "-Xptxas=-v", "-cubin"]
    paths = [f"-I{lint.ROOT}", f"-I{lint.ROOT / 'libgpuhash' / 'include'}"]
    done = subprocess.run(
        [nvcc, *options, *paths, FOLDER / name, "-o", tmp_path / "kernels.cubin"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kernels = lint.resources_of(done.stderr)
    assert len(kernels) >= least
    most = {"divide": frame, "survey": 48}
    assert [
        kernel
        for kernel, used in kernels.items()
        if used.stack > max((bytes_of for name, bytes_of in most.items() if name in kernel), default=0)
    ] == []


def test_kernels_of_a_chain_wait_first():
    """What `launch.next` starts is set up before the kernel ahead of it has ended, and may read nothing until then."""
    texts = {path.name: path.read_text() for path in FOLDER.glob("*.cu*")}
    chained = {name for text in texts.values() for name in re.findall(r"launch\.next\((\w+)", text)} - {"kernel"}
    assert len(chained) >= 15
    bodies = [
        kernel
        for text in texts.values()
        for kernel in re.findall(r"__global__ void .*?\n?.*?(\w+)\((?:[^()]|\([^()]*\))*\) \{\n(.*)\n", text)
    ]
    waits = {name for name, first in bodies if first == "  wait_for_the_one_before();"}
    assert chained <= waits
    assert {
        "give_few_codes",
        "add_few_values",
        "set_temporaries",
    } <= waits  # those behind `look_up_few`, and the first one
