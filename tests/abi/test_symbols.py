"""What the library and the modules export, need and state about themselves."""

import re
import tomllib
from pathlib import Path

import pytest

import pygpuhash

from .conftest import ROOT, must, require

HEADERS = ROOT / "libgpuhash" / "include" / "gpuhash"
HEADER = "".join((HEADERS / name).read_text() for name in ("gpuhash.h", "columns.h", "saved.h", "staging.h"))
# System libraries only: in particular no CUDA library, so that everything loads without a driver.
ALLOWED = re.compile(r"lib(stdc\+\+|gcc_s|c|m|dl|rt|pthread|atomic)\.so\.\d+|ld-linux.*|linux-vdso.*")


def exported(path) -> set[str]:
    lines = must("nm", "-D", "--defined-only", path).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    return {name for name in names if name != "GPUHASH_0"}  # the version node itself


def needed(path) -> list[str]:
    return re.findall(r"NEEDED.*\[(.*)\]", must("readelf", "-d", path))


@pytest.fixture(autouse=True, scope="module")
def binutils():
    require("nm")
    require("readelf")


def test_library_exports_exactly_the_header(prefix):
    declared = set(re.findall(r"^GPUHASH_API [^(;]*?\**(gpuhash_\w+)\(", HEADER, re.MULTILINE))
    assert len(declared) > 40
    assert exported(prefix.shared_object) == declared


def test_modules_export_their_entry_point_only(backends):
    for path in backends.values():
        assert exported(path) == {"gpuhash_plugin_init_v1"}, path


def test_only_system_libraries_are_needed(prefix, backends):
    for path in [prefix.shared_object, *backends.values()]:
        assert [name for name in needed(path) if not ALLOWED.fullmatch(name)] == [], path


def test_no_path_of_the_machine_that_built_it_is_searched():
    """Flags of the Python that builds may have such a path, as pyenv's do."""
    modules = [path for path in Path(pygpuhash.__file__).parent.rglob("*.so*") if path.is_file()]
    assert len(modules) > 20
    for path in modules:
        searched = re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", must("readelf", "-d", path))
        assert set(":".join(searched).split(":")) <= {"", "$ORIGIN/.."}, path


def test_soname_and_development_link(prefix):
    assert re.findall(r"SONAME.*\[(.*)\]", must("readelf", "-d", prefix.shared_object)) == ["libgpuhash.so.0"]
    assert (prefix.libdir / "libgpuhash.so").resolve() == prefix.shared_object.resolve()


def test_stack_is_not_executable(prefix, backends):
    for path in [prefix.shared_object, *backends.values()]:
        stack = re.search(r"GNU_STACK(?:\s+0x\w+)+\s+(\w+)", must("readelf", "-lW", path))
        assert stack, path
        assert "E" not in stack.group(1), path


def test_versions_agree(prefix):
    version = ".".join(re.findall(r"#define GPUHASH_VERSION_\w+ (\d+)", HEADER))
    meson = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())
    assert meson
    assert meson.group(1) == version
    assert prefix.flags("--modversion") == [version]
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == version
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


def test_kit_headers_keep_their_layout(prefix):
    include = prefix.path / "include" / "gpuhash"
    assert (include / "plugin.h").exists()
    assert (include / "kit" / "libgpuhash" / "tile" / "tile.hpp").exists()
    assert f"-I{include}/kit" in prefix.flags("--cflags", package="gpuhash-kit")


def test_host_code_calls_no_device_code():
    """A call of device code from host templates compiles, without a word, to exit(1)."""
    require("objdump")
    modules = sorted((Path(pygpuhash.__file__).parent / "gpuhash" / "plugins-v1").glob("*.so"))
    assert modules
    for path in modules:
        function, callers = "", set()
        for line in must("objdump", "-dC", "--no-show-raw-insn", "-j", ".text", path).splitlines():
            if line.endswith(">:"):
                function = line.split("<", 1)[1]
            elif "<exit@plt>" in line and "libcudart_static" not in function:
                callers.add(function)
        assert callers == set(), path
