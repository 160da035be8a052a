"""Finding and loading plugins: each way to fail has its own sentence, and a broken plugin fails only when asked for."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from .conftest import must

BROKEN = {
    "REFUSES": "refuses this host (plugin ABI 1.6): needs ABI 2.7",
    "REFUSES_SILENTLY": "refuses this host (plugin ABI 1.6): it gives no reason",
    "UNDEFINED_SYMBOL": "needs the symbol 'gpuhash_symbol_that_nobody_defines', which no library that it links defines",
    "NO_ENTRY": "is not a gpuhash plugin: it exports no 'gpuhash_plugin_init_v1'",
    "WRONG_NAME": "contains the backend 'other'; its file must be named gpuhash_other.so",
    "ILLEGAL_NAME": "calls its backend 'Two Words'; a name is 1 to 63 lower-case letters",
    "NO_NAME": "calls its backend '(NULL)'",
    "NO_RUN": "leaves the entry 'run' NULL",
    "NO_RANGE": "leaves the entry 'range' NULL, though its traits promise it",
    "TOO_SHORT": "bytes of gpuhash_backend_v1 are needed",
    "TOO_LONG": "bytes of gpuhash_backend_v1 are needed",
    "NO_WIDTHS": "announces no key or no value width",
    "NO_DEVICE": "announces no device",
    "LATER_ABI": "is made for plugin ABI 2, and this library has plugin ABI 1; install versions that match",
    "NO_OPTIONS": "announces 2 options, but options is NULL",
    "NO_OPTION_KEY": "the key of option 0 is '(NULL)'",
}


@pytest.fixture
def load(program, tmp_path):
    """Run commands of programs/load.c with a search path; returns one list of fields per line."""

    def commands(*words: str | Path, path: str | Path = "", cwd: Path = tmp_path) -> list[list[str]]:
        env = {"GPUHASH_PLUGIN_PATH": str(path), "HERE": str(cwd)}
        lines = must("sh", "-c", 'cd "$HERE" && exec "$@"', "sh", program("load"), *words, env=env)
        return [line.split("\t") for line in lines.splitlines()]

    return commands


def build_broken(compile_plugin, folder: Path, case: str, name: str = "bad", flags: Sequence[str] = ()) -> Path:
    return compile_plugin(folder, "broken.c", name, f'-DNAME="{name}"', f"-DCASE={case}", *flags)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_plugin_says_why(load, compile_plugin, tmp_path, case):
    module = build_broken(compile_plugin, tmp_path, case)
    for command in (["open", module], ["load", "bad"]):
        status, message = load(*command, path=tmp_path)[0]
        assert status == "PLUGIN_ERROR"
        assert message.startswith(f"module '{module}'")
        assert BROKEN[case] in message


def test_broken_plugin_fails_only_when_asked_for(load, compile_plugin, toy, tmp_path):
    build_broken(compile_plugin, tmp_path, "NO_RUN")
    shutil.copy(toy, tmp_path)
    before, bad, good, after = (
        load("list", path=tmp_path),
        load("load", "bad", path=tmp_path),
        load("load", "toy", path=tmp_path),
        load("load", "bad", "load", "toy", "list", path=tmp_path)[2:],
    )
    assert [row[:2] for row in before if row[0] in ("bad", "toy")] == [["bad", "found"], ["toy", "found"]]
    assert bad[0][0] == "PLUGIN_ERROR"
    assert good[0][0] == "OK"
    states = {row[0]: row for row in after}
    assert "leaves the entry 'run' NULL" in states["bad"][3]
    assert states["toy"][1] == "loaded"


def test_older_plugin_is_taken(load, program, compile_plugin, tmp_path):
    module = build_broken(compile_plugin, tmp_path, "OLDER", name="elder")
    assert load("load", "elder", path=tmp_path) == [["OK", str(module)]]


def test_plugin_built_against_the_first_header_is_taken(program, compile_plugin, tmp_path):
    old = Path(__file__).parent / "plugins" / "abi_1_0"
    module = compile_plugin(tmp_path, "toy.c", "toy", f"-I{old}")
    assert "PLUGIN_ABI_MINOR 0u" in (old / "gpuhash" / "plugin.h").read_text()
    assert " 0 failed" in must(program("use_table"), "toy", module)


def test_missing_file(load, tmp_path):
    status, message = load("open", tmp_path / "gpuhash_none.so")[0]
    assert status == "NOT_FOUND"
    assert message == f"module '{tmp_path}/gpuhash_none.so' cannot be read: No such file or directory"


@pytest.mark.parametrize("content", [b"\x7fE", b"hello, I am a text file", b"\x7fELF" + bytes(100)])
def test_file_that_is_no_shared_object(load, tmp_path, content):
    module = tmp_path / "gpuhash_text.so"
    module.write_bytes(content)
    assert load("load", "text", path=tmp_path) == [["PLUGIN_ERROR", f"module '{module}' is not a shared object"]]


@pytest.mark.parametrize("size", [100, 1000, 5000, 15000])
def test_module_that_is_cut_short(load, toy, tmp_path, size):
    module = tmp_path / "gpuhash_toy.so"
    assert toy.stat().st_size > size
    module.write_bytes(toy.read_bytes()[:size])
    message = f"module '{module}' is cut short: it ends after {size} bytes"
    assert load("load", "toy", path=tmp_path) == [["PLUGIN_ERROR", message]]


def test_dependency_that_is_missing(load, compile_plugin, tmp_path):
    (tmp_path / "empty.c").write_text("int gpuhash_symbol_that_nobody_defines(void) { return 0; }")
    dependency = tmp_path / "libgone.so"
    must("cc", "-shared", "-fPIC", tmp_path / "empty.c", "-o", dependency)
    link = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lgone"]
    module = build_broken(compile_plugin, tmp_path, "UNDEFINED_SYMBOL", flags=link)
    dependency.unlink()
    status, message = load("load", "bad", path=tmp_path)[0]
    assert status == "PLUGIN_ERROR"
    assert message.startswith(f"module '{module}' cannot be loaded: libgone.so: cannot open shared object file")


def test_a_module_that_is_mended_has_no_error_any_more(load, compile_plugin, tmp_path):
    (tmp_path / "whole.c").write_text("int gpuhash_symbol_that_nobody_defines(void) { return 0; }")
    dependency, away = tmp_path / "libgone.so", tmp_path / "away.so"
    must("cc", "-shared", "-fPIC", "-Wl,-soname,libgone.so", tmp_path / "whole.c", "-o", dependency)
    link = [f"-Wl,--no-as-needed,-rpath,{tmp_path}", f"-L{tmp_path}", "-lgone"]
    module = build_broken(compile_plugin, tmp_path, "UNDEFINED_SYMBOL", flags=link)
    dependency.rename(away)
    said = load("load", "bad", "list", "link", str(away), str(dependency), "load", "bad", "list", path=tmp_path)
    states = [row for row in said if row[0] == "bad"]
    assert "libgone.so: cannot open shared object file" in states[0][3]
    assert [row[1:] for row in states[1:]] == [["loaded", str(module), ""]]


def test_directory_is_no_module(load, tmp_path):
    (tmp_path / "gpuhash_dir.so").mkdir()
    assert load("load", "dir", path=tmp_path)[0][1].endswith("is not a file")


def copies(toy: Path, *folders: Path) -> list[Path]:
    """A copy of toy in each folder: modules of one name."""
    for folder in folders:
        folder.mkdir()
        shutil.copy(toy, folder)
    return [folder / toy.name for folder in folders]


def test_a_name_stands_for_the_first_directory(load, toy, tmp_path):
    first, second = copies(toy, tmp_path / "a", tmp_path / "b")
    for one, two in ((first, second), (second, first)):
        path = f"{one.parent}:{two.parent}"
        # Whatever was opened before, and whichever was loaded: the order decides.
        for before in ([], ["open", two], ["open", one], ["open", two, "open", one]):
            assert load(*before, "load", "toy", path=path)[-1] == ["OK", str(one)]
        rows = {row[2]: row for row in load("load", "toy", "load", two, "list", path=path)[2:]}
        assert rows[str(one)] == ["toy", "loaded", str(one), ""]
        assert rows[str(two)] == [str(two), "loaded", str(two), ""]


def test_a_name_keeps_its_meaning_once_it_was_used(load, toy, tmp_path):
    first, second, opened = copies(toy, tmp_path / "a", tmp_path / "b", tmp_path / "c")
    late = tmp_path / "late"
    # "late" comes before "b" in the order, but toy is in use when its module appears.
    outcome = load("load", "toy", "link", first, late / toy.name, "load", "toy", path=f"{late}:{second.parent}")
    assert outcome[0] == outcome[-1] == ["OK", str(second)]
    assert load("open", opened, "load", "toy")[-1] == ["OK", str(opened)]


def test_both_modules_of_a_name_make_tables(load, toy, tmp_path):
    first, second = copies(toy, tmp_path / "a", tmp_path / "b")
    for commands in (["open", first, "open", second], ["load", first, "load", second]):
        assert load(*commands, "table", first, "table", second, "table", "toy")[2:] == [["OK", "toy", "1"]] * 3


def test_nobody_takes_the_name_of_a_built_in(load, compile_plugin, prefix, tmp_path):
    built_in = prefix.modules()[0]
    name = built_in.stem.removeprefix("gpuhash_")
    stranger = compile_plugin(tmp_path, "echo.c", name, f'-DNAME="{name}"')
    for before in ([], ["open", stranger], ["load", stranger]):
        assert load(*before, "load", name, path=tmp_path)[-1] == ["OK", str(built_in.resolve())]
    rows = {row[2]: row for row in load("open", stranger, "list", path=tmp_path)[1:]}
    assert rows[str(stranger)][:2] == [str(stranger), "loaded"]
    assert rows[str(built_in.resolve())][0] == name


def test_a_module_that_was_replaced_after_it_was_loaded(load, toy, tmp_path):
    module = tmp_path / toy.name
    shutil.copy(toy, module)
    *_, last = load("open", module, "link", toy, module, "open", module)
    assert last == [
        "PLUGIN_ERROR",
        f"module '{module}' was replaced on disk after it had been loaded; restart the process",
    ]


def patched(toy: Path, to: Path, offset: int, value: bytes) -> Path:
    """A copy of a module with some bytes of its header changed."""
    content = bytearray(toy.read_bytes())
    content[offset : offset + len(value)] = value
    to.write_bytes(content)
    return to


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (18, (40).to_bytes(2, "little"), "is built for another machine (32-bit Arm); this one is "),
        (18, (9999).to_bytes(2, "little"), "is built for another machine (ELF machine 9999); this one is "),
        (4, b"\x01", "is built for another machine"),
        (5, b"\x02", "is built for another machine"),
        (16, (2).to_bytes(2, "little"), "is not a shared object"),
    ],
)
def test_a_module_of_another_machine(load, toy, tmp_path, offset, value, words):
    module = patched(toy, tmp_path / toy.name, offset, value)
    (status, message), *_ = load("load", "toy", path=tmp_path)
    assert status == "PLUGIN_ERROR"
    assert message.startswith(f"module '{module}' {words}")


def test_an_empty_file(load, tmp_path):
    module = tmp_path / "gpuhash_void.so"
    module.touch()
    assert load("load", "void", path=tmp_path) == [["PLUGIN_ERROR", f"module '{module}' is empty"]]


def test_a_link_that_leads_nowhere(load, tmp_path):
    module = tmp_path / "gpuhash_gone.so"
    module.symlink_to("/no/such/target.so")
    message = f"module '{module}' is a link to '/no/such/target.so', which does not exist"
    assert load("load", "gone", path=tmp_path) == [["PLUGIN_ERROR", message]]
    assert load("open", module) == [["PLUGIN_ERROR", message]]
    assert "gone" in [row[0] for row in load("list", path=tmp_path)]


@pytest.mark.parametrize(
    ("element", "words"),
    [
        ("plugins", "'plugins' in GPUHASH_PLUGIN_PATH is not absolute and is left out; "),
        ("/no/such/place", "'/no/such/place' in GPUHASH_PLUGIN_PATH does not exist; "),
        (__file__, f"'{__file__}' in GPUHASH_PLUGIN_PATH is not a directory; "),
    ],
)
def test_elements_of_the_path_that_cannot_be_searched(load, toy, element, words):
    path = f"{toy.parent}:{element}"
    (status, message), *_ = load("load", "nobody", path=path)
    assert status == "NOT_FOUND"
    assert words in message
    assert load("load", "toy", path=path)[0][0] == "OK"
    assert "GPUHASH_PLUGIN_PATH" not in load("load", "nobody", path=toy.parent)[0][1]


def test_two_paths_to_one_file_are_one_module(load, toy, tmp_path):
    link = tmp_path / toy.name
    link.symlink_to(toy)
    outcome = load("load", "toy", "open", toy, "list", path=f"{tmp_path}:{toy.parent}")
    assert outcome[:2] == [["OK", str(link)]] * 2
    assert [row[0] for row in outcome[2:]].count("toy") == 1


def test_explicit_file_may_have_any_name(load, toy, tmp_path):
    module = tmp_path / "anything.module"
    shutil.copy(toy, module)
    assert load("open", module, "load", "toy") == [["OK", str(module)]] * 2


def test_working_directory_is_never_searched(load, toy, tmp_path):
    shutil.copy(toy, tmp_path)
    for path in ("", ".", ":", "./", f":.:{tmp_path.name}"):
        status, message = load("load", "toy", path=path, cwd=tmp_path)[0]
        assert status == "NOT_FOUND", path
        assert "backend 'toy' is not known" in message


def test_plugins_beside_the_library_are_found(load, prefix):
    listed = {row[0]: row[2] for row in load("list")}
    assert listed == {m.stem.removeprefix("gpuhash_"): str(m.resolve()) for m in prefix.modules()}


def test_unknown_name_suggests_the_nearest(load, toy):
    status, message = load("load", "toyy", path=toy.parent)[0]
    assert status == "NOT_FOUND"
    assert "backend 'toyy' is not known; did you mean 'toy'?" in message
    assert f"looked for gpuhash_toyy.so in {toy.parent}, " in message


def test_of_names_as_near_the_first_is_suggested(load, program, toy, tmp_path):
    """The listed order is that of the directories and of the names in them."""
    for name in ("toyb", "toyc", "toya"):
        shutil.copy(toy, tmp_path / f"gpuhash_{name}.so")
    message = load("load", "toyx", path=tmp_path)[0][1]
    assert "did you mean 'toya'? (known: " in message


@pytest.mark.parametrize(("name", "near"), [("linear_pqqqq", True), ("linear_qqqqq", False), ("zzzzzz", False)])
def test_a_name_is_suggested_of_which_at_most_a_third_differs(load, toy, name, near):
    message = load("load", name, path=toy.parent)[0][1]
    assert ("did you mean 'linear_probe'?" in message) == near
    assert near or f"backend '{name}' is not known; known: " in message


# What the system answers is injected, since root may read everything.
DENIED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#define DENY(call) if (path && strstr(path, "/denied-" call)) return errno = EACCES, -1
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))
int stat(const char *path, struct stat *out) {
  DENY("stat");
  return REAL(int (*)(const char *, struct stat *), "stat")(path, out);
}
int stat64(const char *path, struct stat64 *out) { return stat(path, (struct stat *)out); } /* the same, on 64 bits */
int access(const char *path, int how) {
  DENY("access");
  return REAL(int (*)(const char *, int), "access")(path, how);
}
int open(const char *path, int flags, ...) { /* a mode belongs to O_CREAT, and is not read without it */
  DENY("open");
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  return REAL(int (*)(const char *, int, ...), "open")(path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
"""


@pytest.fixture
def denied(tmp_path):
    """A library to preload: files whose path has /denied-stat, /denied-access or /denied-open may not be read."""
    source, library = tmp_path / "denied.c", tmp_path / "denied.so"
    source.write_text(DENIED)
    must("cc", "-shared", "-fPIC", source, "-o", library, "-ldl")
    return library


@pytest.mark.parametrize("call", ["stat", "access"])
def test_a_directory_that_may_not_be_searched(program, denied, tmp_path, call):
    folder = tmp_path / f"denied-{call}"
    folder.mkdir()
    env = {"GPUHASH_PLUGIN_PATH": str(folder), "LD_PRELOAD": str(denied)}
    status, message = must(program("load"), "load", "nobody", env=env).splitlines()[0].split("\t")
    assert status == "NOT_FOUND"
    assert f"'{folder}' in GPUHASH_PLUGIN_PATH cannot be read; " in message


def test_a_module_that_may_not_be_read(program, denied, toy, tmp_path):
    module = tmp_path / "denied-open" / toy.name
    module.parent.mkdir()
    shutil.copy(toy, module)
    env = {"GPUHASH_PLUGIN_PATH": str(module.parent), "LD_PRELOAD": str(denied)}
    status, message = must(program("load"), "open", module, env=env).splitlines()[0].split("\t")
    assert (status, message) == ("PLUGIN_ERROR", f"module '{module}' cannot be read: Permission denied")
