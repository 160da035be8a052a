"""The gates: two builds beside each other, by processor time and by instructions."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
compare_builds = pytest.importorskip("asv_bench.compare_builds", reason="asv_bench is in a checkout only")
from asv_bench import instructions  # noqa: E402
from asv_bench.harness import builds, courses  # noqa: E402

PACKAGE = Path(gh.__file__).parent


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The library of the package, and a copy of it."""
    copy = tmp_path_factory.mktemp("build")
    shutil.copy(PACKAGE / builds.LIBRARY, copy)
    shutil.copytree(PACKAGE / "gpuhash", copy / "gpuhash")
    return [builds.Build(PACKAGE, "A"), builds.Build(copy, "B")]


# ---- two libraries in one process ------------------------------------------------------------------------------------


def test_two_builds_are_two_libraries(two):
    with Path("/proc/self/maps").open() as maps:
        mapped = {line.split()[-1] for line in maps if builds.LIBRARY in line}
    assert {str(build.path) for build in two} <= mapped
    tables = [build.table("hive", (4, 4), 10) for build in two]
    keys, status = np.arange(10, dtype=np.uint32), np.zeros(10, np.uint8)
    two[0].done(tables[0].work("insert", keys, keys, status)())
    assert status.all()
    out = np.zeros(10, np.uint32)
    two[1].done(tables[1].work("find", keys, out, status)())
    assert not status.any()  # what one holds the other one does not
    with Path("/proc/self/maps").open() as maps:
        modules = {line.split()[-1] for line in maps if "gpuhash_hive.so" in line}
    assert {str(build.modules["hive"]) for build in two} <= modules
    for table in tables:
        table.close()


@pytest.mark.parametrize("of", ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"])
@pytest.mark.parametrize("size", [(10, 10, (4, 4)), (13, 8, (8, 8))], ids=["emptied", "filled once"])
def test_a_course_on_tables(two, of, size):
    """All rounds of every operation, with results that are right; a wrong one is noticed."""
    course = courses.TableCourse(of, *size)
    found = courses.least_times(course, two[1], 1)
    assert set(found) == set(courses.OPERATIONS)
    assert all(0 < seconds < 1 for seconds in found.values())
    runner = course.open(two[0])
    runner.step("insert", 0)
    course.data["hit_values"][7] += 1
    with pytest.raises(courses.Wrong, match=r"A: .* find_hit, .*: 1 of \d+ elements are wrong"):
        runner.step("find_hit", 0)
    course.whole = False  # nothing is cleared: these keys are there
    with pytest.raises(courses.Wrong, match="insert"):
        runner.step("insert", 0)
    runner.close()


def test_exports_and_indices(two, monkeypatch):
    monkeypatch.setattr(courses.Export, "calls", 2)
    for course in (courses.Export("hive"), courses.Distinct("numbers"), courses.Distinct("text")):
        assert list(compare_builds.one_block(course, two, 0)) == list(course.operations)
    course.ids[3] += 1
    with pytest.raises(courses.Wrong, match="B: index of text"):
        compare_builds.one_block(course, two, 1)


# ---- what is slower --------------------------------------------------------------------------------------------------


class Course:
    """A course whose steps take seconds(which build, operation, round, which look: 1, 2, and 3, 4 in new processes)."""

    operations = ("first", "second")

    def __init__(self, seconds, what="fake"):
        self.seconds, self.what, self.looks = seconds, what, 0

    def name(self, operation):
        return f"{self.what} {operation}"

    def open(self, build):
        step = lambda operation, turn: self.seconds(build, operation, turn, self.looks)  # noqa: E731
        return SimpleNamespace(step=step, close=lambda: None)


def slower_of(monkeypatch, *courses):
    """(what compare() finds of builds 0 and 1 at a limit of 10 %, blocks of each look, names of the third)."""
    blocks, asked = [], []
    look = compare_builds.look

    def counted(chosen, builds, many):
        blocks.append(many)
        for course in chosen:
            course.looks = len(blocks)
        return look(chosen, builds, many)

    def in_a_process(builds, names, many):
        asked.append(names)
        return counted(compare_builds.of_courses(courses, names), lambda: contextlib.nullcontext(builds), many)

    monkeypatch.setattr(compare_builds, "copies", contextlib.nullcontext)
    monkeypatch.setattr(compare_builds, "look", counted)
    monkeypatch.setattr(compare_builds, "in_a_process", in_a_process)
    limits = {course.name(of): (0.1, "") for course in courses for of in course.operations}
    return compare_builds.compare([0, 1], list(courses), compare_builds.BLOCKS, limits), blocks, asked


@pytest.mark.parametrize(
    ("of_b", "slower", "looks"),
    [
        (lambda operation, look: 1.0, {}, 1),
        (lambda operation, look: 1.09, {}, 1),
        (lambda operation, look: 1.2 if operation == "second" else 0.5, {"fake second": 1.2}, 4),
        (lambda operation, look: 1.0 if look > 1 else 1.5, {}, 2),  # the second look does not confirm it
        (lambda operation, look: 1.0 if look > 2 else 1.5, {}, 3),  # nor a new process
        (lambda operation, look: 1.0 if look > 3 else 1.5, {}, 4),  # nor another one
    ],
    ids=["equal", "below the limit", "slower", "once", "twice", "in one process of two"],
)
def test_what_is_slower(of_b, slower, looks, capsys, monkeypatch):
    course = Course(lambda which, operation, turn, look: of_b(operation, look) if which else 1.0)
    found, blocks, asked = slower_of(monkeypatch, course)
    assert found == pytest.approx(slower)
    few, more, most = compare_builds.BLOCKS, compare_builds.MORE_BLOCKS, compare_builds.MOST_BLOCKS
    assert blocks == [few, more, most, most][:looks]
    assert asked == [list(slower) or ["fake first", "fake second"]] * max(looks - 2, 0)
    assert ("SLOWER" in capsys.readouterr().out) == (looks == 4)


def test_of_many_the_worst_are_looked_at_a_third_time(monkeypatch, capsys):
    """One that is certain is enough for a failure; the others are named."""

    def of(ratio):
        return Course(
            lambda which, operation, turn, look: ratio if which and operation == "first" else 1.0, f"by {ratio}"
        )

    found, _, asked = slower_of(monkeypatch, *(of(ratio) for ratio in (1.2, 1.9, 1.3, 1.8, 1.7)))
    assert set(found) == {"by 1.9 first", "by 1.8 first", "by 1.7 first"}
    assert [set(names) for names in asked] == [set(found)] * 2
    said = capsys.readouterr().out
    for ratio in (1.2, 1.3):
        assert f"not looked at a third time, since others are slower still: by {ratio} first\n" in said


def test_every_process_has_to_agree(monkeypatch):
    """What the first one does not find slower is not, whatever the second one finds."""

    def seconds(which, operation, turn, look):
        return 1.2 if which and not (operation == "second" and look == 3) else 1.0

    found, _, asked = slower_of(monkeypatch, Course(seconds))
    assert list(found) == ["fake first"]
    assert asked == [["fake first", "fake second"]] * 2


def test_a_third_look_is_sure_of_the_limit_itself(monkeypatch):
    """Four blocks of fifteen within the limit are enough to doubt; the second look asks for half of it."""
    blocks = []

    def seconds(which, operation, turn, look):
        blocks.extend([look] * (which == 1 and turn == 0 and operation == "first"))
        within = look > 2 and blocks.count(look) % 15 < 4
        return 1.0 if not which else 1.09 if within else 1.2

    assert slower_of(monkeypatch, Course(seconds))[0] == {}
    assert 4 not in blocks  # the other process is not asked any more
    assert compare_builds.is_certain([1.2] * 12 + [1.0] * 3, [1, 1.2], 0.1)
    assert not compare_builds.is_certain([1.2] * 11 + [1.09] * 4, [1, 1.2], 0.1)
    assert not compare_builds.is_certain([1.2] * 15, [1, 1.1], 0.1)


def test_the_first_round_and_disturbed_ones_do_not_count(monkeypatch):
    """In the first round a table is new; later ones may be disturbed."""

    def seconds(which, operation, turn, look):
        return 0.1 + which if turn == 0 else 1 + which * (turn in (2, 4))

    assert slower_of(monkeypatch, Course(seconds))[0] == {}


def test_a_process_that_takes_too_much_of_a_processor_ends(two, monkeypatch, capsys):
    """By the processor's time: on a busy machine it may take long by the clock."""
    monkeypatch.setattr(compare_builds, "MOST_SECONDS", 0)
    assert compare_builds.main([str(build.folder) for build in two] + ["--only", "hive export*"]) == 2
    assert "after hive export, 4+4, 1000 keys this process has taken more than 0 s of a proc" in capsys.readouterr().err


def test_a_limit_of_processor_time_is_refused(two, monkeypatch, capsys):
    """Linux counts in steps of its timer where there is one."""
    monkeypatch.setattr(compare_builds.resource, "getrlimit", lambda what: (1000, -1))
    assert compare_builds.main([str(build.folder) for build in two] + ["--only", "hive export*"]) == 2
    assert "compare_builds: with a limit of processor time Linux counts it in steps of 4 ms" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0.5, 0.0])
def test_a_time_that_is_too_short_does_not_count(monkeypatch, seconds):
    """In one round of each block A had less than it took."""
    course = Course(lambda which, operation, turn, look: seconds if turn == 3 and not which else 1.0)
    assert slower_of(monkeypatch, course)[0] == {}
    block = compare_builds.one_block(course, [0, 1], 0)
    assert block == {"first": [1.0, 1.0], "second": [1.0, 1.0]}
    never = Course(lambda which, operation, turn, look: 0.0)  # a ratio has to be a number all the same
    assert compare_builds.look([never], lambda: contextlib.nullcontext([0, 1]), 1)[0] == {
        "fake first": [1.0],
        "fake second": [1.0],
    }


def test_a_second_look_opens_new_copies(two, monkeypatch):
    """Each block its own, of both builds; what is slow in one copy alone is not slower."""
    opened = []

    class Luck(Course):
        operations = ("first",)

        def open(self, build):
            opened.append(build)
            fast = build.name == "A" or len(opened) == 2 * compare_builds.BLOCKS + 6
            return SimpleNamespace(step=lambda operation, turn: 1.0 if fast else 1.3, close=lambda: None)

    course = Luck(None)
    assert compare_builds.compare(two, [course], compare_builds.BLOCKS, {"fake first": (0.1, "")}) == {}
    again = opened[2 * compare_builds.BLOCKS :]
    assert len({build.path for build in again}) == len(again) == 2 * compare_builds.MORE_BLOCKS
    assert not {build.path for build in again} & {build.path for build in two}
    assert not any(build.path.exists() for build in again)


def test_a_new_process_measures_copies(two, tmp_path):
    """All of a course, of which one benchmark was asked for; what it cannot measure is said."""
    opened = []

    class Seen(Course):
        def open(self, build):
            opened.append(build.path)
            return super().open(build)

    compare_builds.write_seen(two, [Seen(lambda *_: 1.0)], 2, tmp_path / "seen.json")
    assert len(set(opened)) == 4
    assert not set(opened) & {build.path for build in two}
    name = "hive export, 4+4, 1000 keys"
    ratios, least = compare_builds.in_a_process(two, [name], 2)
    assert list(ratios) == list(least) == [name]
    assert len(ratios[name]) == 2
    assert all(0.2 < ratio < 5 for ratio in ratios[name])
    assert all(0 < seconds < 1 for seconds in least[name])
    with pytest.raises(builds.BadBuild, match=r"could not measure again: compare_builds: --only 'nope' names no bench"):
        compare_builds.in_a_process(two, ["nope"], 1)


def test_a_copy_of_a_build(two, tmp_path):
    copied = two[1].copy(tmp_path / "copy")
    assert copied.name == "B"
    assert sorted(copied.modules) == sorted(two[1].modules)
    for one, other in zip(
        [copied.path, *copied.modules.values()], [two[1].path, *two[1].modules.values()], strict=True
    ):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_ino != other.stat().st_ino
    course = courses.Export("hive")
    assert set(courses.least_times(course, copied, 1)) == set(course.operations)


def test_the_interval():
    assert compare_builds.interval([5.0, 1, 3, 2, 4, 6]) == (1, 6)  # 1 - 2 / 64 is the least that is above 95 %
    assert compare_builds.interval(list(range(15))) == (3, 11)
    assert compare_builds.interval([2.0]) == (2, 2)
    rng = np.random.default_rng(1)
    held = [low < 0 < high for low, high in (compare_builds.interval(rng.normal(size=15)) for _ in range(1000))]
    assert 0.95 <= np.mean(held) < 0.99
    assert compare_builds.is_alarm([1.2, 1.2, 1.0], 0.1)
    assert not compare_builds.is_confirmed([1.2] * 8 + [1.0] * 7, [1, 1.2], 0.1)  # its interval reaches down to 1
    assert not compare_builds.is_confirmed([1.2] * 15, [1, 1.05], 0.1)  # some copy of B is as fast as A
    assert compare_builds.is_confirmed([1.2] * 15, [1, 1.2], 0.1)


# ---- slowdowns that were accepted ------------------------------------------------------------------------------------

ENTRY = '[[slowdown]]\nbenchmark = "hive insert*"\npercent = 30\nreason = "keys are checked"\n'


def test_accepted_slowdowns(tmp_path):
    path = tmp_path / "accepted.toml"
    assert compare_builds.accepted_slowdowns(path) == compare_builds.accepted_slowdowns(None) == []
    path.write_text(ENTRY)
    entries = compare_builds.accepted_slowdowns(path)
    assert compare_builds.limit_of("hive insert, 4+4, 2^17 keys", 0.1, entries) == (0.3, "keys are checked")
    assert compare_builds.limit_of("hive erase, 4+4, 2^17 keys", 0.1, entries) == (0.1, "")
    of_the_tree = compare_builds.accepted_slowdowns(ROOT / "asv_bench" / "accepted.toml")
    assert all(0 < entry["percent"] < 100 for entry in of_the_tree)
    for without in (ENTRY.replace("reason", "because"), ENTRY.replace("keys are checked", "...")):
        path.write_text(without)
        with pytest.raises(compare_builds.BadList, match="slowdown 1 lacks reason"):
            compare_builds.accepted_slowdowns(path)
    path.write_text("[[slowdown")
    with pytest.raises(compare_builds.BadList, match=r"accepted.toml is no TOML"):
        compare_builds.accepted_slowdowns(path)


def test_an_entry_counts_for_one_change(two, tmp_path, monkeypatch, capsys):
    """Entries that A's file has, too, were of earlier changes."""
    path, before = tmp_path / "accepted.toml", tmp_path / "before.toml"
    path.write_text(ENTRY)
    limits = []
    monkeypatch.setattr(compare_builds, "compare", lambda builds, courses, blocks, of: limits.append(of) or {})
    command = [str(build.folder) for build in two] + ["--only", "hive *2^17*", "--accepted", str(path)]
    for earlier in ("", ENTRY):
        before.write_text(earlier)
        assert compare_builds.main([*command, "--accepted-in-a", str(before)]) == 0
    assert [of["hive insert, 4+4, 2^17 keys"][0] for of in limits] == [0.3, 0.1]
    assert "accepted up to 30%: hive insert, 4+4, 2^17 keys: keys are checked" in capsys.readouterr().out


def test_a_failure_says_how_to_accept_it(two, tmp_path, monkeypatch, capsys):
    """The entries that it prints accept it, once they have a reason."""
    found = {"hive insert, 4+4, 2^17 keys": 1.154, "hive erase, 4+4, 2^17 keys": 2.0}
    monkeypatch.setattr(compare_builds, "compare", lambda builds, courses, blocks, of: found)
    assert compare_builds.main([str(build.folder) for build in two] + ["--only", "hive *2^17*"]) == 1
    said = capsys.readouterr().out
    assert 'asv_bench/accepted.toml, with the reason that it has\n(docs/benchmarks.md, "Accepting a slowdown")' in said
    assert "beyond its limit: hive insert, 4+4, 2^17 keys, hive erase" in said
    heading = (ROOT / "docs" / "benchmarks.md").read_text()
    assert "### Accepting a slowdown\n" in heading
    path = tmp_path / "accepted.toml"
    path.write_text(said[said.index("[[slowdown]]") : said.rindex("\n\n")])
    with pytest.raises(compare_builds.BadList, match="slowdown 1 lacks reason"):
        compare_builds.accepted_slowdowns(path)
    path.write_text(path.read_text().replace('"..."', '"more is asked"'))
    entries = compare_builds.accepted_slowdowns(path)
    for name, ratio in found.items():
        limit, reason = compare_builds.limit_of(name, 0.1, entries)
        assert ratio - 1 <= limit < ratio - 1 + 0.01
        assert reason == "more is asked"


# ---- what cannot be compared -----------------------------------------------------------------------------------------


def test_what_an_older_build_lacks_is_left_out(two, monkeypatch, capsys):
    own = builds.Build.has
    monkeypatch.setattr(
        builds.Build, "has", lambda self, name: (self.name, name) != ("A", "index_create") and own(self, name)
    )
    monkeypatch.setattr(compare_builds, "Build", lambda folder, name: two["AB".index(name)])
    only = ["--only", "index of *", "--only", "hive export*", "--blocks", "1", "--limit", "900"]
    assert compare_builds.main([str(PACKAGE), str(PACKAGE), *only]) == 0
    said = capsys.readouterr().out
    assert "left out: index of numbers" in said
    assert "A has no gpuhash_index_create" in said
    assert "1 benchmarks in" in said
    counts = instructions.common_counts([{"find": 1, "pop": 2}, {"find": 3, "index": 4}], two)
    assert counts == [{"find": 1}, {"find": 3}]
    assert capsys.readouterr().out == "left out: index: A cannot run it\nleft out: pop: B cannot run it\n"


def test_what_cannot_be_compared(two, tmp_path, capsys):
    good, empty = str(two[1].folder), tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken"
    (broken / "gpuhash" / "plugins-v1").mkdir(parents=True)
    (broken / "gpuhash" / "plugins-v1" / "gpuhash_hive.so").touch()
    (broken / builds.LIBRARY).touch()
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(PACKAGE / builds.LIBRARY, alone)
    for main in (compare_builds.main, instructions.main):
        for arguments, words in (
            ([good, str(empty)], "has no libgpuhash.so.0: name an install prefix"),
            ([good, str(broken)], "is no library of gpuhash"),
            ([str(alone), good], "has no modules beside it"),
            ([good, good, "--limit", "0"], "--limit takes percents above 0"),
        ):
            assert main(arguments) == 2
            assert words in capsys.readouterr().err
    assert compare_builds.main([good, good, "--only", "hvie*"]) == 2
    assert "names no benchmark; there are:\n  hive insert, 4+4, 2^17 keys" in capsys.readouterr().err


# ---- instructions ----------------------------------------------------------------------------------------------------


def test_programs_are_right(two):
    """All of them, counted by nothing; every name once."""
    programs = [*instructions.of_table(two[0], "hive"), *instructions.of_package(gh)]
    programs += [instructions.of_index(two[0], kind) for kind in ("numbers", "text")]
    programs += [instructions.of_full_table(two[0], backend) for backend in ("hive", "linear_probe")]
    counted = []

    def of_the_abi(name, function, times, arguments):
        counted.append(name)
        return max(function(*arguments[: len(function.argtypes)]) for _ in range(times))

    switch = SimpleNamespace(begin=lambda: None, end=counted.append, counted=of_the_abi)
    for program in programs:
        program.run(switch)
    assert len(set(counted)) == len(counted) == 22
    for wrong in (instructions.Program("one", lambda: False), instructions.Program("one", lambda: True, lambda: False)):
        with pytest.raises(builds.BadBuild, match="one: the result is wrong"):
            wrong.run(switch)


def test_counts_are_read(tmp_path):
    """Dumps of callgrind; the last one, when the process ends, has no name."""
    for number, trigger in ((1, "Client Request: hive find, 1 key"), (2, "Program termination")):
        (tmp_path / f"counts.{number}").write_text(f"version: 1\ndesc: Trigger: {trigger}\n\nsummary: 12{number}\n")
    assert instructions.read_counts(tmp_path) == {"hive find, 1 key": 121}
    counts = {"one": 1000, "two": 1000}, {"one": 1010, "two": 1011}
    slower = instructions.compare(*counts, {"one": (0.01, ""), "two": (0.01, "")})
    assert slower == ["two"]
    names = ("hive find, 1 key", "hive find, 1000 keys", "hive insert, 1000 keys, nearly full", "unique, 1000 elements")
    assert list(map(instructions.share_of_limit, names)) == [2, 0.3, 0.3, 1]
    assert "1.0110  MORE" in instructions.table(*counts, slower)


@pytest.mark.parametrize(
    ("of_b", "slower", "times"),
    [
        ([1000] * 4, [], 1),
        ([1020, 1000], [], 2),  # not again
        ([1020, 1030, 1000, 1030], [], 4),  # once as few as A's
        ([1020, 1030, 1017, 1030], [], 4),  # within the limit beside A's greatest
        ([1020, 1030, 1018, 1030], ["one"], 4),
    ],
)
def test_instructions_are_counted_until_it_is_certain(two, of_b, slower, times, monkeypatch, capsys):
    """A takes 1000 to 1007 instructions. In copies, whose paths are equally long, both have each place once."""
    seen = []

    def count(pair, backends, package, folder):
        seen.append([str(build.folder) for build in pair])
        turn = len(seen) - 1
        return [{"one": 1000 + 7 * (turn == 3)}, {"one": of_b[turn], "two": 5} if turn < 3 else {"one": of_b[turn]}]

    monkeypatch.setattr(instructions, "count", count)
    a, b, found = instructions.verdict(two, ["hive"], False, lambda name: (0.01, ""))
    assert found == slower
    assert len(seen) == times
    assert (seen[0], seen[1:2]) == ([str(build.folder) for build in two], [seen[0]] * (times > 1))
    for number, (x, y) in enumerate(seen[2:]):
        assert (Path(x).name, Path(y).name) == (("x", "y"), ("y", "x"))[number]
        assert Path(x).parent == Path(y).parent
    if slower:
        assert (a, b["one"]) == ({"one": 1007}, 1018)
    assert ("counted in copies, since B does so again: one" in capsys.readouterr().out) == (times > 2)


def test_a_copy_of_a_package_is_counted_as_one(tmp_path):
    """All that runs, without sources; a folder without a package is copied as a library with its modules."""
    whole = instructions.copied(builds.Build(PACKAGE.parent, "A"), tmp_path / "x")
    assert instructions.has_package(whole)
    assert (whole.name, whole.folder) == ("A", tmp_path / "x")
    names = {path.name for path in whole.path.parent.iterdir()}
    assert {"__init__.py", "_core", builds.LIBRARY} <= names
    assert not list(whole.path.parent.rglob("*.pyx"))
    bare = tmp_path / "bare"
    shutil.copytree(PACKAGE / "gpuhash", bare / "gpuhash")
    shutil.copy(PACKAGE / builds.LIBRARY, bare)
    assert not instructions.has_package(instructions.copied(builds.Build(bare, "B"), tmp_path / "y"))


def test_an_error_that_nobody_expects_is_no_slowdown(capsys):
    assert compare_builds.ended(lambda: 1) == 1
    assert compare_builds.ended(lambda: 1 // 0) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_equal_builds_have_equal_counts(two):
    command = [sys.executable, "-m", "asv_bench.instructions", *(str(build.folder) for build in two)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("beyond its limit: none")
