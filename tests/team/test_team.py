"""The team of threads by itself, as it is and under ThreadSanitizer."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("team")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    "tests/team/team_test.cpp",
    *(f"libgpuhash/src/{name}.cpp" for name in ("team", "fork", "cpus", "cgroups", "memory", "error")),
]
FLAGS = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I.", "-Ilibgpuhash/include", "-pthread"]
CASES = [
    "every_piece_runs_once",
    "workers_take_part",
    "no_more_threads_than_asked",
    "caller_waits_for_nobody",
    "callers_share_the_team",
    "calls_of_a_body_run_inline",
    "nobody_spins",
    "caller_has_other_work",
    "several_calls_are_open",
    "a_body_starts_calls",
    "all_are_woken",
    "nobody_waits_for_what_was_said",
    "workers_are_well_behaved",
    "threads_run_out",
    "child_starts_from_nothing",
    "fork_amid_calls",
    "fork_under_a_lock",
    "cgroup_quotas",
    "affinity_counts",
    "many_cpus_of_a_system",
    "a_mask_that_is_set_meanwhile_stays",
]
# Under ThreadSanitizer the child of a process with several threads may start none.
RACES = [
    "every_piece_runs_once",
    "workers_take_part",
    "no_more_threads_than_asked",
    "caller_waits_for_nobody",
    "callers_share_the_team",
    "calls_of_a_body_run_inline",
    "caller_has_other_work",
    "several_calls_are_open",
    "a_body_starts_calls",
    "all_are_woken",
]


def built(folder: Path, *flags: str) -> Path:
    program = folder / "team_test"
    subprocess.run(["g++", *FLAGS, *flags, *SOURCES, "-o", str(program)], cwd=ROOT, check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="module")
def watched_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return built(tmp_path_factory.mktemp("team-tsan"), "-fsanitize=thread")
    except subprocess.CalledProcessError:
        pytest.skip("this g++ has no ThreadSanitizer (libtsan)")


def passes(program: Path, case: str) -> None:
    done = subprocess.run([program, case], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_team(program: Path, case: str) -> None:
    passes(program, case)


@pytest.mark.parametrize("case", RACES)
def test_team_has_no_data_race(watched_program: Path, case: str) -> None:
    passes(watched_program, case)


def test_every_case_is_run(program: Path) -> None:
    listed = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert listed.stdout.split() == CASES


def test_the_library_has_no_lock_that_fork_does_not_take() -> None:
    """A static mutex anywhere else would be held for ever in the child of a fork that another thread made meanwhile."""
    sources = [p for p in (ROOT / "libgpuhash" / "src").iterdir() if p.suffix in {".cpp", ".hpp", ".cu"}]
    assert len(sources) > 20
    found = {p.name for p in sources for word in ("std::mutex", "pthread_mutex", "call_once") if word in p.read_text()}
    assert found == {"fork.hpp"}
