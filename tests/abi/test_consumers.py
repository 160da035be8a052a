"""Programs of others, which find the library by CMake or pkg-config: in a prefix, and in the package of Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, must, require, run

LISTS = """
cmake_minimum_required(VERSION 3.16)
project(consumers C CXX)
find_package(gpuhash {version} REQUIRED)
add_executable(numbers numbers.c)
target_link_libraries(numbers PRIVATE gpuhash::gpuhash)
add_executable(table table.cpp)
target_compile_features(table PRIVATE cxx_std_20)
target_link_libraries(table PRIVATE gpuhash::gpuhash)
add_library(gpuhash_toy MODULE toy.c)
set_target_properties(gpuhash_toy PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
target_link_libraries(gpuhash_toy PRIVATE gpuhash::plugin)
if(NOT EXISTS "${{gpuhash_PLUGIN_MAP}}")
  message(FATAL_ERROR "no plugin.map")
endif()
"""


def places(prefix) -> dict[str, tuple[Path, Path]]:
    """Folders of CMake's and of pkg-config's files: of the prefix, and of the package."""
    found = {"prefix": (prefix.libdir / "cmake" / "gpuhash", prefix.libdir / "pkgconfig")}
    try:
        import pygpuhash
    except ImportError:
        return found
    return found | {"package": (Path(pygpuhash.get_cmake_dir()), Path(pygpuhash.get_pkgconfig_dir()))}


def project(folder: Path, version: str) -> Path:
    folder.mkdir()
    page = (ROOT / "docs" / "c.md").read_text()
    (folder / "numbers.c").write_text(page.partition("```c\n")[2].partition("```")[0])
    (folder / "table.cpp").write_text((ROOT / "tests/abi/programs/table.cpp").read_text())
    (folder / "toy.c").write_text((ROOT / "tests/abi/plugins/toy.c").read_text())
    (folder / "CMakeLists.txt").write_text(LISTS.format(version=version))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("where", ["prefix", "package"])
def test_programs_and_a_plugin_by_cmake(prefix, tmp_path, where):
    require("cmake")
    if where not in places(prefix):
        pytest.skip("the package pygpuhash is not installed")
    source, build = project(tmp_path / "source", "0.1"), tmp_path / "build"
    must("cmake", "-S", source, "-B", build, f"-Dgpuhash_DIR={places(prefix)[where][0]}")
    must("cmake", "--build", build)
    assert must(build / "numbers") == "4: found 40\n5: absent 0\n"
    assert must(build / "table") == "0 failed\n"
    check = [sys.executable, "-P", "-m", "pygpuhash", "conformance", build / "gpuhash_toy.so", "--check", "widths"]
    if where == "package":
        assert "1 passed" in must(*check, "--quick")


@pytest.mark.slow
def test_a_version_that_is_not_there(prefix, tmp_path):
    require("cmake")
    source = project(tmp_path / "source", "99.0")
    done = run("cmake", "-S", source, "-B", tmp_path / "build", f"-Dgpuhash_DIR={places(prefix)['prefix'][0]}")
    assert done.returncode != 0
    assert "99.0" in done.stderr


@pytest.mark.parametrize("where", ["prefix", "package"])
def test_a_program_by_pkg_config(prefix, tmp_path, where):
    if where not in places(prefix):
        pytest.skip("the package pygpuhash is not installed")
    env = {"PKG_CONFIG_PATH": str(places(prefix)[where][1])}
    flags = must("pkg-config", "--cflags", "--libs", "gpuhash", env=env).split()
    libdir = must("pkg-config", "--variable=libdir", "gpuhash", env=env).strip()
    source, binary = project(tmp_path / "source", "0.1") / "numbers.c", tmp_path / "numbers"
    must("cc", "-std=c11", source, "-o", binary, *flags, f"-Wl,-rpath,{libdir}")
    assert must(binary).startswith("4: found 40")
    assert Path(must("pkg-config", "--variable=plugindir", "gpuhash", env=env).strip()).is_dir()
    assert Path(must("pkg-config", "--variable=plugin_map", "gpuhash-kit", env=env).strip()).is_file()
    isas = must("pkg-config", "--variable=isas", "gpuhash-kit", env=env).split()
    assert isas[0] == "baseline"
    for isa in isas[1:]:
        assert f"-m{isa}" in must("pkg-config", f"--variable=cflags_{isa}", "gpuhash-kit", env=env)


def test_what_python_says_of_the_library(tmp_path):
    pygpuhash = pytest.importorskip("pygpuhash", reason="the package pygpuhash is not installed")
    require("cc")
    source = project(tmp_path / "source", "0.1") / "numbers.c"
    (folder,) = pygpuhash.get_library_dirs()
    (name,) = pygpuhash.get_libraries()
    paths = [f"-I{pygpuhash.get_include()}", f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}"]
    must("cc", "-std=c11", source, "-o", tmp_path / "numbers", *paths)
    assert subprocess.run([tmp_path / "numbers"], capture_output=True).returncode == 0


# ---- examples/ -------------------------------------------------------------------------------------------------------

EXAMPLES = ROOT / "examples"
# What every example prints first, whatever its language.
SAID = """5: found 3
7: absent 0
7 distinct
backend 'linear_prob' is not known; did you mean 'linear_probe'?"""


def built(prefix, tmp_path, where: str, language: str) -> tuple[Path, dict[str, str]]:
    """A copy of an example, as no build may write into the sources, and the variables that find the library."""
    if where not in places(prefix):
        pytest.skip("the package pygpuhash is not installed")
    shutil.copytree(EXAMPLES / language, tmp_path / language)
    env = {"PKG_CONFIG_PATH": str(places(prefix)[where][1])}
    folder = must("pkg-config", "--variable=libdir", "gpuhash", env=env).strip()
    return tmp_path / language, env | {"LD_LIBRARY_PATH": folder}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["prefix", "package"])
def test_the_example_in_cpp(prefix, tmp_path, where):
    require("cmake")
    folder, env = built(prefix, tmp_path, where, "cmake")
    must("cmake", "-S", folder, "-B", tmp_path / "build", f"-Dgpuhash_DIR={places(prefix)[where][0]}")
    must("cmake", "--build", tmp_path / "build")
    assert must(tmp_path / "build" / "numbers", env=env).startswith(SAID)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["prefix", "package"])
def test_the_example_in_rust(prefix, tmp_path, where):
    # That on PATH, and the older one that the system installs: 1.63 is Debian 12's. Each has a compiler of its own.
    found = {Path(require("cargo")), *Path("/usr/bin").glob("cargo")}
    folder, env = built(prefix, tmp_path, where, "rust")
    for i, cargo in enumerate(sorted(found)):
        env |= {"CARGO_TARGET_DIR": str(tmp_path / f"target{i}"), "RUSTFLAGS": "-D warnings"}
        env |= {"RUSTC": str(cargo.with_name("rustc"))}
        (folder / "Cargo.lock").unlink(missing_ok=True)  # of another version
        must(cargo, "build", "--offline", "--manifest-path", folder / "Cargo.toml", env=env)
        assert must(tmp_path / f"target{i}" / "debug" / "numbers").startswith(SAID)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["prefix", "package"])
def test_the_example_in_go(prefix, tmp_path, where):
    go = require("go")
    folder, env = built(prefix, tmp_path, where, "go")
    # GODEBUG: pointers that Go hands to C are checked.
    env |= {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOCACHE": str(tmp_path / "cache"), "GODEBUG": "cgocheck=1"}
    command, variables = [go, "build", "-o", tmp_path / "numbers", "."], os.environ | env
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert must(tmp_path / "numbers", env=env).startswith(SAID)
