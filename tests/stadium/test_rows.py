"""Slots behind a bus (placement=host) without a GPU. Kernels: tests/warp; host code: tests/kit; GPUs: tests/gpu."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Lines of pinned.cpp."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    program = tmp_path_factory.mktemp("pinned") / "pinned"
    flags = ["-std=c++20", "-O0", "-I.", "-Ilibgpuhash/include", "-Wno-missing-field-initializers"]
    subprocess.run([*compiler, *flags, "tests/stadium/pinned.cpp", "-o", program], cwd=ROOT, check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def test_refused_pinned_memory_says_how_much_and_what_limits_it(said):
    assert said[0].startswith("123456789 bytes of pinned host memory for the table's slots were refused (no luck)")
    total = int((ROOT / "/proc/meminfo").read_text().split()[1]) * 1024
    assert f"this host has {total} bytes, of which " in said[0]
    assert said[0].endswith("Ask for a smaller capacity, or use placement=file on the CPU")


def test_no_more_is_asked_for_than_there_is(said):
    no_memory = 3
    assert said[1] == f"0 0 {no_memory} 4096 are left, 2 of 3 were pinned"
    assert said[2] == f"{no_memory} 1 bytes of pinned host memory f"


def test_rows_are_whole_pieces(said):
    assert said[3:] == [
        "4+0: value at 4, row 4, lanes 1",
        "4+4: value at 4, row 8, lanes 1",
        "8+0: value at 8, row 8, lanes 1",
        "4+8: value at 8, row 16, lanes 1",
        "8+4: value at 8, row 16, lanes 1",
        "8+8: value at 8, row 16, lanes 1",
        "12+8: value at 16, row 32, lanes 2",
        "16+64: value at 16, row 80, lanes 8",
        "256+256: value at 256, row 512, lanes 32",
    ]


def test_on_the_cpu_host_memory_is_the_devices():
    with gh.Table("stadium", placement="host", window=256, ordered_from=1, device="cpu") as t:
        keys = np.arange(1000)
        assert t.insert(keys, -keys).all()
        assert (t[keys] == -keys).all()
        t.check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"placement": "host", "window": 3000}, "window=3000: give a whole number, a power of two, from 256"),
        ({"placement": "host", "window": 128}, "window=128: "),
        ({"placement": "host", "ordered_from": -1}, "ordered_from=-1: give a whole number from 0"),
        ({"placement": "host", "path": "x"}, "options path, file, elements and repair need placement=file"),
        ({"window": 4096}, "options ordered_from and window need placement=host"),
        ({"ordered_from": 0}, "options ordered_from and window need placement=host"),
        ({"inserts": "hybrid"}, "inserts=hybrid and hybrid_from need each other"),
        ({"inserts": "clstash", "hybrid_from": 0.8}, "inserts=hybrid and hybrid_from need each other"),
        ({"inserts": "hybrid", "hybrid_from": 1.5}, "hybrid_from=1.5: give a number from 0 to 1"),
        ({"inserts": "clstash", "placement": "host"}, "inserts is for slots in the device's memory"),
        ({"inserts": "all"}, "inserts=all: choose one of stash|clstash|hybrid"),
        ({"placement": "hosts"}, "placement=hosts: choose one of device|file|host"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(gh.InvalidArgument, match=words.replace("|", r"\|")):
        gh.Table("stadium", device="cpu", **options)
