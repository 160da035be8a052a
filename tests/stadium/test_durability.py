"""Crashes of the system and refusals of the disk, with tables in files on a simulated disk (crash_test.cpp).

The program is built from copies of the sources with all mistakes below in them; GPUHASH_MISTAKE switches one on.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "plugins" / "stadium"
VARIABLE = "GPUHASH_MISTAKE"
FLAGS = ["-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Wno-unknown-pragmas"]
if os.uname().machine == "x86_64":
    FLAGS.append("-mcx16")
pytestmark = pytest.mark.xdist_group("durability")


class Mistake(NamedTuple):
    """`instead` stands where `there` does, once; PLANTED says that this mistake is active."""

    name: str
    file: str
    there: str
    instead: str


FILE = "table_file.hpp"
TABLE = "structure.hpp"


def left_out(name: str, file: str, statement: str) -> Mistake:
    return Mistake(name, file, statement, f"if (!PLANTED) {{ {statement} }}")


def said(name: str, file: str, right: str, wrong: str) -> Mistake:
    return Mistake(name, file, right, f"(PLANTED ? ({wrong}) : ({right}))")


# Of what the disk has, and when; of kills and crashes.
OF_ORDER = [
    Mistake(
        "closed before its pairs are on the disk",
        FILE,
        "const bool refused = sync_all();",
        "if (PLANTED) header().state = file_header::closed;\n    const bool refused = sync_all();",
    ),
    Mistake(
        "open for writing is not on the disk before its pairs are",
        FILE,
        "if (!disk_.msync(base_, page)) return GPUHASH_OK;",
        "if (PLANTED || !disk_.msync(base_, page)) return GPUHASH_OK;",
    ),
    Mistake("closed with its header alone", FILE, "refused = sync_all()", "refused = PLANTED ? false : sync_all()"),
    Mistake(
        "named before it is written",
        FILE,
        "if (sync_all()) return failed(err",
        "if (!PLANTED && sync_all()) return failed(err",
    ),
    said("its size is not synced", FILE, "disk_.fsync(fd_)", "0"),
    said("the folder is not synced", FILE, "disk_.fsync(folder) ? errno : 0", "0"),
    Mistake(
        "open for writing before the folder is synced",
        FILE,
        "name_error_ = sync_and_close(folder);",
        "if (PLANTED) header().state = file_header::open_for_writing;\n    name_error_ = sync_and_close(folder);",
    ),
    Mistake(
        "the old file is unlinked first",
        FILE,
        "if ((before ? disk_.rename",
        "if (PLANTED) disk_.unlink(path_.c_str());\n    if ((before ? disk_.rename",
    ),
    said("a new file is closed", FILE, "h.state = file_header::being_made", "h.state = file_header::closed"),
    said(
        "an unfinished file is taken for a table",
        FILE,
        "(h.state & ~file_header::being_cleared) == file_header::being_made",
        "false",
    ),
    said("killed while it was cleared", FILE, "before.state & file_header::being_cleared && !lost", "false"),
    said("cleared without a word", FILE, "before | file_header::being_cleared", "before"),
    Mistake(
        "a slot that was never written before a key's own",
        TABLE,
        "t.key_bytes)) return false;",
        "t.key_bytes)) return PLANTED;",
    ),
]
# Of what a refusal of the disk leaves.
OF_REFUSALS = [
    left_out("a table without a name on the disk stays", FILE, "disk_.unlink(path_.c_str());"),
    Mistake(
        "closed in a folder that was not synced",
        FILE,
        "!refused && name_error_ &&",
        "!PLANTED && !refused && name_error_ &&",
    ),
    said("a killed table's folder is not synced", FILE, "was_closed ? 0 : sync_folder()", "0"),
    said(
        "closed although the disk refused it",
        FILE,
        "refused ? file_header::torn : file_header::closed",
        "file_header::closed",
    ),
    Mistake(
        "opened although the disk refused it",
        FILE,
        'return failed(err, "cannot be written", path_.c_str(), e);',
        'return PLANTED ? gpuhash_status(GPUHASH_OK) : failed(err, "cannot be written", path_.c_str(), e);',
    ),
    left_out("the unfinished file stays", FILE, 'if (temporary_) disk_.unlink((path_ + ".new").c_str());'),
    Mistake(
        "the name's refusal is kept secret",
        FILE,
        "if (!name_error_) return GPUHASH_OK;",
        "if (PLANTED || !name_error_) return GPUHASH_OK;",
    ),
    Mistake(
        "no blocks are no matter",
        FILE,
        "if (const int e = disk_.allocate(fd_, bytes)) {",
        "if (const int e = disk_.allocate(fd_, bytes); e && !PLANTED) {",
    ),
    Mistake("a failed growth goes on in its new file", TABLE, "    use(before);\n", "    if (!PLANTED) use(before);\n"),
    Mistake(
        "a file that cannot be looked at is not there",
        TABLE,
        "if (!*there && errno != ENOENT)",
        "if (!PLANTED && !*there && errno != ENOENT)",
    ),
]
OF_REPAIRS = [
    said(
        "cut off in a repair, and whole",
        FILE,
        "lost ? file_header::torn : file_header::open_for_writing",
        "file_header::open_for_writing",
    ),
    Mistake(
        "closed in a repair",
        FILE,
        "|| header().state == file_header::torn) return",
        "|| (!PLANTED && header().state == file_header::torn)) return",
    ),
]
# With what each is found.
MISTAKES = (
    [(m, ("faults", "1")) for m in OF_REFUSALS]
    + [(m, ("small", "16")) for m in OF_ORDER]
    + [(m, ("repairs",)) for m in OF_REPAIRS]
)


def planted(name: str) -> str:
    """A source with all its mistakes."""
    text = (SOURCES / name).read_text()
    for number, (m, _) in enumerate(MISTAKES, 1):
        if m.file == name:
            assert text.count(m.there) == 1, f"{m.name}: {name} has {text.count(m.there)} times {m.there!r}"
            text = text.replace(m.there, m.instead.replace("PLANTED", f"(mistake == {number})"))
    switch = f'#include <stdlib.h>\nstatic const int mistake = getenv("{VARIABLE}") ? atoi(getenv("{VARIABLE}")) : 0;\n'
    return text.replace("#pragma once\n", "#pragma once\n" + switch, 1) if name == FILE else text


@pytest.fixture(scope="session")
def crash_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    root = tmp_path_factory.mktemp("durability")
    folder = root / "plugins" / "stadium"
    folder.mkdir(parents=True)
    for source in SOURCES.glob("*.hpp"):
        (folder / source.name).write_text(planted(source.name) if source.name in (FILE, TABLE) else source.read_text())
    common = [*compiler, *FLAGS, f"-I{root}", f"-I{ROOT}", f"-I{ROOT / 'libgpuhash' / 'include'}"]
    engines = [*common, "-O0", f"-I{SOURCES}", "-DGPUHASH_ISA=sim_stadium", "-c", str(SOURCES / "plugin_host.cpp")]
    crashes = [*common, "-c", str(Path(__file__).with_name("crash_test.cpp"))]
    objects = [str(root / "engines.o"), str(root / "crashes.o")]
    for job in [subprocess.Popen([*command, "-o", o]) for command, o in zip((engines, crashes), objects, strict=True)]:
        assert job.wait() == 0
    subprocess.run([*compiler, *objects, "-o", root / "crash_test"], check=True)
    return root / "crash_test"


def run(program: Path, *arguments: str, mistake: int = 0) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, VARIABLE: str(mistake)}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=1800, env=variables)


@pytest.fixture
def replay(crash_test, say):
    """Counts of a run in which nothing was violated, by their names."""

    def counts(*arguments):
        print(*arguments)  # the seeds, too
        done = run(crash_test, *arguments)
        assert done.returncode == 0, done.stderr
        say("crashes of tables in files", " ".join(arguments) + ": " + done.stdout.strip())
        words = done.stdout.replace("(", "").replace(")", "").replace(",", "").split()
        return {word: int(number) for number, word in zip(words[::2], words[1::2], strict=True)}

    return counts


def test_images_of_small_tables(replay):
    counts = replay("small", "64")
    assert counts["violations"] == 0
    assert counts["images"] > 30_000
    assert counts["opened"] > 400  # as they were closed
    assert counts["killed"] > 2_000


@pytest.mark.slow
def test_all_images_of_small_tables(replay):
    counts = replay("small", "16384")
    assert counts["violations"] == counts["drawn"] == 0
    assert counts["images"] > 100_000


def test_images_of_larger_tables(replay):
    assert replay("random", "1", "20")["images"] > 3_000


@pytest.mark.slow
def test_many_images_of_larger_tables(replay):
    assert replay("random", "1001", "1600")["images"] > 100_000


def test_each_call_of_the_disk_is_refused(replay):
    counts = replay("faults", "1")
    assert counts["faults"] > 1_000
    assert counts["reported"] > 1_000


@pytest.mark.slow
def test_each_call_of_the_disk_is_refused_with_each_error(replay):
    assert replay("faults", "5")["faults"] > 5_000


def test_repairs_that_are_cut_off(replay):
    assert replay("repairs")["faults"] > 2_000


@pytest.mark.parametrize("number", range(1, len(MISTAKES) + 1), ids=[mistake.name for mistake, _ in MISTAKES])
def test_mistake_is_found(crash_test, number):
    done = run(crash_test, *MISTAKES[number - 1][1], mistake=number)
    print(done.stderr)
    assert done.returncode != 0
