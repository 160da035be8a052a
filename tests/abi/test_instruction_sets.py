"""Modules have code for processors that this one may not be: none of it runs unasked.

libgpuhash/kit/check_objects.py looks at objects; here it looks at ours, and at small ones with each mistake that it is
for. What the modules run when they are loaded is read from the modules themselves.
"""

import os
import re
import sys

import pytest

from .conftest import must, require, run

# What may run when a module is loaded: the compiler's own, and initialisers of files built for every processor.
AT_LOAD = re.compile(
    r"frame_dummy|__cpu_indicator_init|(_GLOBAL__sub_I_)(plugin\.cpp|gpuhash_plugin_init_v1|.*plugin_cuda.*)|.*__sti__.*|.*cuda.*"
    r"|_GLOBAL__sub_I_[\w.-]+\.cc"  # of libstdc++ from GCC 13 on, which is linked statically: this project has no *.cc
)


@pytest.fixture(scope="session", autouse=True)
def binutils():
    require("readelf")


@pytest.fixture(scope="session")
def check_objects(prefix):
    """The script as it is installed, with its exit status and lines."""
    script = prefix.path / "include" / "gpuhash" / "kit" / "libgpuhash" / "kit" / "check_objects.py"

    def check(*arguments):
        done = run(sys.executable, script, *arguments)
        return done.returncode, done.stdout.splitlines() + done.stderr.splitlines()

    return check


def parts_of(prefix, name):
    """(objects of the instruction sets of a built-in module, its other objects)."""
    folder = prefix.path.parent / "plugins"
    if not (folder / f"gpuhash_{name}.so").exists():
        pytest.skip(f"{prefix.path} does not lie in the folder that it was built in")
    return sorted(folder.glob(f"lib{name}_*.a.p/*.o")), sorted((folder / f"gpuhash_{name}.so.p").glob("*.o"))


WIDE = {"avx2", "avx512"} if os.uname().machine == "x86_64" else set()


@pytest.mark.parametrize(
    ("name", "left_out"),
    [("hive", set()), ("linear_probe", set()), ("skiplist", set()), ("slab_hash", {"avx512"}), ("stadium", {"avx512"})],
)
def test_objects_of_built_in_modules(prefix, check_objects, name, left_out):
    objects, others = parts_of(prefix, name)
    assert {o.parent.name for o in objects} == {f"lib{name}_{isa}.a.p" for isa in {"baseline"} | WIDE - left_out}
    assert others
    assert check_objects(*objects, "--with", *others) == (0, [])


def test_initialisers_of_modules(prefix):
    for path in prefix.modules():
        symbols = must("readelf", "-sW", path)
        names = {int(m[1], 16): m[2] for m in re.finditer(r": ([0-9a-f]+) +\d+ FUNC .* (\S+)$", symbols, re.MULTILINE)}
        (start, size) = re.search(r"\.init_array +INIT_ARRAY +(\w+) \w+ (\w+)", must("readelf", "-SW", path)).groups()
        first, last = int(start, 16), int(start, 16) + int(size, 16)
        moved = re.findall(r"^(\w+) +\w+ R_\w+_RELATIVE +(\w+)", must("readelf", "-rW", path), re.MULTILINE)
        run_at_load = [names[int(to, 16)] for at, to in moved if first <= int(at, 16) < last]
        assert len(run_at_load) == (last - first) // 8, path
        assert [name for name in run_at_load if not AT_LOAD.fullmatch(name)] == [], path


# ---- what the script is for ------------------------------------------------------------------------------------------

HARMLESS = """
namespace ISA { template <class T> T twice(T v) { return v + v; } }
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" int JOIN(entry_, ISA)(int v) { return ISA::twice(v); }
"""
MISTAKES = {
    "initialiser": ("int pick(); static const int picked = pick(); int use() { return picked; }", ".init_array"),
    "ifunc": (
        'typedef void f(); static void one() {} extern "C" f* choose() { return one; }'
        ' extern "C" void chosen() __attribute__((ifunc("choose")));',
        "chosen",
    ),
    "shared template": ("template <class T> T half(T v) { return v / 2; } template int half(int);", "_Z4halfIiET_S0_"),
    "inline function": ("[[gnu::noinline]] inline int f() { return 1; } int g() { return f(); }", "_Z1fv"),
}


@pytest.fixture
def objects_of(tmp_path):
    """A function from source code to one object per instruction set."""
    require("c++")

    def compile_all(source):
        (tmp_path / "source.cpp").write_text(source)
        paths = [tmp_path / f"{isa}.o" for isa in ("small", "wide")]
        for path in paths:
            command = ["c++", "-std=c++20", "-O1", "-fPIC", f"-DISA={path.stem}", "-c", tmp_path / "source.cpp"]
            must(*command, "-o", path)
        return paths

    return compile_all


def test_harmless_objects_pass(check_objects, objects_of):
    assert check_objects(*objects_of(HARMLESS)) == (0, [])


@pytest.mark.parametrize(("source", "name"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_found(check_objects, objects_of, source, name):
    small, wide = objects_of(HARMLESS + source)
    status, lines = check_objects(small, wide)
    assert status == 1
    assert any(str(wide) in line and name in line for line in lines), lines


def test_symbol_of_the_rest_of_the_module(check_objects, objects_of):
    """Wide code that the part for every processor would call."""
    source, name = MISTAKES["shared template"]
    small, wide = objects_of(HARMLESS + source)
    status, lines = check_objects(wide, "--with", small)
    assert status == 1
    assert len(lines) == 1
    assert name in lines[0]


def test_static_libraries_are_read(check_objects, objects_of, tmp_path):
    require("ar")
    library = tmp_path / "libwide.a"
    must("ar", "rcs", library, *objects_of(HARMLESS + MISTAKES["initialiser"][0]))
    status, lines = check_objects(library)
    assert status == 1
    assert len(lines) == 2


def test_files_that_cannot_be_read(check_objects, tmp_path):
    (tmp_path / "text.o").write_text("no object")
    status, lines = check_objects(tmp_path / "text.o")
    assert status != 0
    assert "text.o is no object or library with symbols" in lines[-1]
