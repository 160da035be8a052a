"""Tests on emulated processors: x86-64 without AVX-512 and without AVX, and AArch64, under qemu-user.

All of it is marked slow, since it takes minutes: `pytest -m slow tests/emulated`. What it needs are Debian's packages
qemu-user and, for AArch64, g++-aarch64-linux-gnu; without them it is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..abi.conftest import ROOT, STRICT, Prefix, build_prefix, must, native_prefix, require

HERE = Path(__file__).resolve().parent
BACKENDS = sorted(p.parent.name for p in (ROOT / "plugins").glob("*/plugin.cpp"))
PROCESSORS = ["Nehalem", "Haswell"]  # have no AVX, and no AVX-512
PROGRAMS = ["use_table", "faults"]
# What a program there gets of the environment. No more: OPENBLAS_CORETYPE, GLIBC_TUNABLES and their like name what
# the processor of this machine can, and numpy would believe them.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
# Minutes under emulation, and about algorithms more than about instructions.
LEFT_OUT = {"differential", "conservation", "full", "multi", "adversarial-batches", "growth-under-finds"}

pytestmark = pytest.mark.slow


class Machine:
    """A processor that qemu emulates, and programs for it."""

    def __init__(self, *qemu: str, compilers: tuple[str, str] = ("cc", "c++"), prefix: Prefix, folder: Path) -> None:
        self.qemu, self.compilers, self.prefix, self.folder = qemu, compilers, prefix, folder

    def run(self, *command: str | Path, **env: str) -> str:
        """Output of a program that has to succeed."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        done = subprocess.run(
            [*self.qemu, *map(str, command)],
            capture_output=True,
            text=True,
            timeout=600,
            env={**kept, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", **env},
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def program(self, source: Path) -> Path:
        """A program, compiled against the prefix."""
        binary = self.folder / source.stem
        if not binary.exists():
            c, cpp = self.compilers
            compiler = [c, *STRICT] if source.suffix == ".c" else [cpp, "-std=c++20", "-O1", "-pthread"]
            links = [f"-L{self.prefix.libdir}", "-lgpuhash", f"-Wl,-rpath,{self.prefix.libdir}", "-ldl"]
            must(*compiler, source, "-o", binary, f"-I{self.prefix.path}/include", *links)
        return binary

    def c_program(self, name: str, backend: str) -> str:
        """Output of a program of tests/abi on a backend."""
        module = self.prefix.plugin_dir / f"gpuhash_{backend}.so"
        return self.run(self.program(ROOT / "tests" / "abi" / "programs" / f"{name}.c"), backend, module)

    def published_hashes(self) -> str:
        """Output of the program that compares the hashes of rows with their test vectors."""
        program = self.program(ROOT / "tests" / "abi" / "programs" / "hash_vectors.c")
        return self.run(program, ROOT / "tests" / "columns" / "hash_vectors.tsv")


def prefix_at(path: Path) -> Prefix:
    (library,) = path.glob("lib*/**/libgpuhash.so.0")
    return Prefix(path, library.parent)


@pytest.fixture(scope="session")
def native() -> Prefix:
    require("cc")
    return native_prefix()


@pytest.fixture(scope="session")
def x86(native, tmp_path_factory):
    """A function from the name of a processor to a machine."""
    qemu = require("qemu-x86_64")
    folder = tmp_path_factory.mktemp("x86")
    return lambda cpu: Machine(qemu, "-cpu", cpu, prefix=native, folder=folder)


@pytest.fixture(scope="session", params=PROCESSORS)
def x86_with_numpy(x86, request) -> Machine:
    """A machine on which Python and numpy run, without which nothing can be said of the package."""
    machine = x86(request.param)
    try:
        python(machine, "-P", "-c", "import numpy")
    except AssertionError as error:
        pytest.skip(f"numpy itself does not run on {request.param}: {error}")
    return machine


@pytest.fixture(scope="session")
def aarch64(tmp_path_factory) -> Machine:
    qemu = require("qemu-aarch64")
    compilers = (require("aarch64-linux-gnu-gcc"), require("aarch64-linux-gnu-g++"))
    prefix = prefix_at(build_prefix(ROOT / "build" / "tests-aarch64", f"--cross-file={HERE / 'aarch64.ini'}"))
    folder = tmp_path_factory.mktemp("aarch64")
    return Machine(qemu, "-L", "/usr/aarch64-linux-gnu", compilers=compilers, prefix=prefix, folder=folder)


def python(machine: Machine, *arguments: str) -> str:
    # QEMU 7.2 sorts wrongly with numpy's AVX2 argsort; what is under test is not numpy.
    return machine.run(sys.executable, *arguments, NPY_DISABLE_CPU_FEATURES="AVX2 FMA3 X86_V3")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="runs this machine's programs on an older x86-64")
class TestX86:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize("cpu", PROCESSORS)
    def test_c_program(self, x86, cpu, program, backend):
        assert " 0 failed" in x86(cpu).c_program(program, backend)

    @pytest.mark.parametrize("cpu", PROCESSORS)
    def test_published_hashes(self, x86, cpu):
        assert " 0 failed" in x86(cpu).published_hashes()

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_conformance(self, x86_with_numpy, backend):
        from pygpuhash._conformance import CHECKS

        checks = [part for name in CHECKS if name not in LEFT_OUT for part in ("--check", name)]
        command = ["-P", "-m", "pygpuhash.cli", "conformance", backend, "--device", "cpu", "--quick", *checks]
        out = python(x86_with_numpy, *command)
        assert " 0 failed" in out
        assert out.count("  pass  ") > 15

    def test_compare(self, x86_with_numpy):
        out = python(x86_with_numpy, "-P", "-m", "pygpuhash.cli", "compare", "--n", "2000", "--device", "cpu")
        for backend in BACKENDS:
            (line,) = [
                line for line in out.splitlines() if line.startswith(backend) and "cpu" in line and ":" not in line
            ]
            assert line.endswith("yes"), out

    def test_info(self, x86_with_numpy):
        out = python(x86_with_numpy, "-P", "-m", "pygpuhash.cli", "info")
        assert out.count(": usable") >= len(BACKENDS)

    def test_what_this_machine_says_of_its_processor_is_not_told(self, x86, monkeypatch):
        """numpy's BLAS would run AVX2 code."""
        monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
        told = python(x86("Nehalem"), "-P", "-c", "import os, numpy; print('OPENBLAS_CORETYPE' in os.environ)")
        assert told == "False\n"

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_processor_without_wide_swaps(self, x86, backend):
        """The first x86-64 processors: pairs of 16 bytes are refused where they are swapped, and nothing else."""
        machine = x86("Nehalem,-cx16")
        assert " 0 failed" in machine.run(machine.program(HERE / "without_wide_swaps.c"), backend)


@pytest.mark.xdist_group("AArch64")
class TestAArch64:
    """The path without vector instructions, compiled for another processor whose memory is weakly ordered."""

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("program", PROGRAMS)
    def test_c_program(self, aarch64, program, backend):
        assert " 0 failed" in aarch64.c_program(program, backend)

    def test_published_hashes(self, aarch64):
        assert " 0 failed" in aarch64.published_hashes()

    def test_threads_and_formats(self, aarch64):
        """All operations and formats from several threads; the reports of all batches have to add up."""
        modules = aarch64.prefix.modules()
        assert len(modules) == len(BACKENDS)
        assert "registry and allocators: nothing wrong" in aarch64.run(
            aarch64.program(ROOT / "tests/sanitizers/hammer.cpp"), "1", *modules
        )


def test_qemu_has_the_instructions_under_test():
    """AVX2 came to qemu-user with 7.2: an older one would run every test on the baseline."""
    qemu = shutil.which("qemu-x86_64") or pytest.skip("qemu-x86_64 is not installed")
    version = must(qemu, "--version").split("version ")[1].split(" ")[0]
    assert tuple(map(int, version.split(".")[:2])) >= (7, 2)
