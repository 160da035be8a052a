"""Headers that are installed compile alone: those of users and plugin authors, and the kit's. The package pygpuhash
brings the same files."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, must, require, run

PARTS = ["alloc", "drive", "hash", "kit", "sched", "tile"]
HEADERS = sorted(
    str(h.relative_to(ROOT))
    for part in PARTS
    for h in (ROOT / "libgpuhash" / part).rglob("*.[hc]*")
    if h.suffix != ".cpp"
)
# What a plugin includes, and the library's own seams. The others take two minutes: they are left to the nightly run.
FIRST = {"kit/flat_table.hpp", "kit/plugin.hpp", "kit/slab_allocator.hpp", "kit/cuda_device.cuh", "drive/host.hpp"}
FIRST = {f"libgpuhash/{name}" for name in FIRST}
assert set(HEADERS) >= FIRST
PUBLIC = ["columns.h", "gpuhash.h", "plugin.h", "saved.h", "staging.h"]
SOURCES = {"libgpuhash/sched/explore.cpp", "libgpuhash/sched/unexplored.cpp"}


def compiles_alone(header: Path, suffix: str, command: list[str], tmp_path: Path) -> None:
    """One translation unit, with nothing before the header."""
    assert header.is_file(), f"{header} is not installed"
    source = tmp_path / f"alone{suffix}"
    source.write_text(f'#include "{header}"\n')
    done = run(*command, source)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("language", "suffix"), [(["cc", "-std=c11"], ".c"), (["c++", "-std=c++17"], ".cpp")])
@pytest.mark.parametrize("name", PUBLIC)
def test_public_headers_are_c_and_cpp(prefix, tmp_path, name, language, suffix):
    require(language[0])
    include = prefix.path / "include"
    strict = [*language, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{include}"]
    compiles_alone(include / "gpuhash" / name, suffix, strict, tmp_path)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_enum_has_a_name(name):
    """Which a language that reads the header makes a type of."""
    text = (ROOT / "libgpuhash" / "include" / "gpuhash" / name).read_text()
    assert re.findall(r"\benum\s*\{.*", text) == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in HEADERS]
)
def test_kit_headers_compile_alone(prefix, tmp_path, name):
    include = prefix.path / "include"
    kit = include / "gpuhash" / "kit"
    flags = ["-std=c++20", f"-I{include}", f"-I{kit}"]
    if name.endswith(".cuh"):
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            pytest.skip("nvcc is not installed")
        command = [nvcc, "-arch=sm_90", "--expt-relaxed-constexpr", "-cuda", "-o", str(tmp_path / "out.ii"), *flags]
        compiles_alone(kit / name, ".cu", command, tmp_path)
    else:
        compiles_alone(kit / name, ".cpp", [require("c++"), "-fsyntax-only", "-fopenmp", *flags], tmp_path)


def test_no_other_header_is_installed(prefix):
    """A header that no test above compiles alone."""
    include = prefix.path / "include" / "gpuhash"
    names = {str(h.relative_to(include / "kit")) for h in (include / "kit").rglob("*.[hc]*")}
    assert names == set(HEADERS) | SOURCES
    assert {h.name for h in include.glob("*.*")} == set(PUBLIC) | {"gpuhash.hpp"}


def test_the_package_brings_what_a_prefix_has(prefix):
    pygpuhash = pytest.importorskip("pygpuhash", reason="the package pygpuhash is not installed")
    here, there = Path(pygpuhash.get_include()), prefix.path / "include"
    names = [
        {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts}
        for folder in (here, there)
    ]
    assert names[0] == names[1]
    assert all((here / name).read_bytes() == (there / name).read_bytes() for name in names[0])


def test_a_source_distribution_has_all_that_is_installed():
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    taken = {folder: patterns for command, folder, *patterns in lines if command == "recursive-include"}
    whole = [ROOT / folder for command, folder, *_ in lines if command == "graft"]
    for folder in ("docs", "libgpuhash", "plugins"):
        files = [file for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        files = [file for file in files if not any(file.is_relative_to(graft) for graft in whole)]
        assert [file for file in files if not any(map(file.match, taken[folder]))] == []


THROWS = """
#include "libgpuhash/kit/plugin.hpp"
#include <stdio.h>
#include <stdexcept>
using namespace gpuhash;
static gpuhash_status say(gpuhash_error*, gpuhash_status code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf(" (%d)\\n", int(code));
  return code;
}
static gpuhash_status make(const table::setup& s, table**, gpuhash_error*) {
  if (s.config.seed == 1) throw std::bad_alloc();
  if (s.config.seed == 2) throw std::runtime_error("a bad day");
  throw 7;
}
static const engine* engines() { return nullptr; }
static const plugin_parts parts = {engines, nullptr, nullptr, make};
int main() {
  gpuhash_host_api api{};
  api.fail = say;
  host = &api;
  gpuhash_backend_v1 b{};
  vtable<parts>::fill(b);
  gpuhash_config config = GPUHASH_CONFIG_INIT;
  void* t = nullptr;
  for (config.seed = 1; config.seed <= 3; ++config.seed) b.create(&config, &t, nullptr);
  vtable<parts>::guarded(nullptr, []() -> gpuhash_status { throw std::runtime_error("worse"); });
  vtable<parts>::guarded(nullptr, []() -> gpuhash_status { throw "worst"; });
}
"""


def test_the_kit_lets_no_exception_out(prefix, tmp_path):
    require("c++")
    source, binary = tmp_path / "throws.cpp", tmp_path / "throws"
    source.write_text(THROWS.replace("#include <stdio.h>", "#include <stdarg.h>\n#include <stdio.h>"))
    flags = ["-std=c++20", "-fopenmp", *prefix.flags("--cflags", package="gpuhash-kit")]
    must("c++", *flags, source, "-o", binary)
    bug = "internal error of the backend, please report it: "
    assert must(binary).splitlines() == [
        "no host memory was left for the call's own records (3)",
        f"{bug}a bad day (11)",
        f"{bug}an unknown exception (11)",
        f"{bug}worse (11)",
        f"{bug}an unknown exception (11)",
    ]


def test_the_example_in_c_is_built_as_the_document_says(tmp_path):
    pytest.importorskip("pygpuhash", reason="the package pygpuhash is not installed")
    require("cc")
    lines = (ROOT / "docs" / "plugins.md").read_text().partition("```\ninclude=")[2].partition("```")[0]
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    must("bash", "-euc", f"cd {tmp_path}\ninclude={lines}", env={"PATH": paths})
    command = [sys.executable, "-P", "-m", "pygpuhash", "conformance", tmp_path / "gpuhash_toy.so", "--quick"]
    assert must(*command, "--check", "widths").splitlines()[-1].startswith("toy on cpu: 1 passed")


def test_the_examples_lie_beside_the_headers(prefix):
    examples = prefix.path / "include" / "gpuhash" / "examples"
    assert (examples / "toy.c").read_bytes() == (ROOT / "tests" / "abi" / "plugins" / "toy.c").read_bytes()
    for file in (examples / "linear_probe").iterdir():
        assert file.read_bytes() == (ROOT / "plugins" / "linear_probe" / file.name).read_bytes()


@pytest.mark.slow
def test_a_plugin_is_written_elsewhere_as_the_document_says(tmp_path):
    """Nothing but what the package has installed: linear_probe's files under another name, the lines of plugins.md."""
    pygpuhash = pytest.importorskip("pygpuhash", reason="the package pygpuhash is not installed")
    require("g++")
    for name in ("layout.hpp", "ops.hpp", "structure.hpp", "rebuild.hpp", "plugin_host.cpp", "plugin.cpp"):
        text = (Path(pygpuhash.get_include()) / "gpuhash" / "examples" / "linear_probe" / name).read_text()
        (tmp_path / name).write_text(text.replace("linear_probe", "my_probe") if name.endswith(".cpp") else text)
    lines = (ROOT / "docs" / "plugins.md").read_text().partition("```sh\n")[2].partition("```")[0]
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    must("bash", "-euc", f"cd {tmp_path}\n{lines}", env={"PATH": paths}, timeout=600)
    conformance = [sys.executable, "-P", "-m", "pygpuhash", "conformance", tmp_path / "gpuhash_my_probe.so", "--quick"]
    said = must(*conformance, "--check", "widths", "--check", "growth")
    assert said.splitlines()[-1].startswith("my_probe on cpu: 2 passed, 0 failed")


def test_a_cuda_source_has_no_instruction_set(tmp_path):
    """Its functions would have the names of those of the CPU, and the linker would keep one of each."""
    require("c++")
    command = ["c++", "-std=c++20", "-E", "-D__CUDACC__", f"-I{ROOT}", "-x", "c++"]
    for options, said in (([], ""), (["-DGPUHASH_ISA=baseline"], "GPUHASH_ISA is for plugin_host.cpp")):
        done = run(*command, *options, ROOT / "libgpuhash/tile/types.hpp")
        assert (done.returncode == 0) == (not said), done.stderr
        assert said in done.stderr
