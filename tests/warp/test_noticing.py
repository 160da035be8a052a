"""How a planted mistake is looked for: which sections are run, and what counts as noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .noticing import ROUNDS, Attempt, Recorded, Section, attempts, notice, record

LONG, SHORT, ELSEWHERE = Path("long"), Path("short"), Path("elsewhere")
PROGRAMS = [
    Recorded(LONG, 0, [Section(n, 1000 - n, frozenset({5, 6})) for n in range(1, 20)]),
    Recorded(ELSEWHERE, 0, [Section(1, 10, frozenset({7}))]),
    Recorded(SHORT, 0, [Section(1, 30, frozenset({5})), Section(2, 20, frozenset({5})), Section(3, 5, frozenset())]),
]

# A program that records two sections, of which the second comes to the place of mistake 1: that is wrong, and 2, which
# never ends.
PROGRAM = f"""#!{sys.executable}
import os
if "GPUHASH_WARP_RECORD" in os.environ:
    print("section 1: 40 steps, came to")
    print("section 2: 70 steps, came to 1 2")
wanted, mistake = os.environ.get("GPUHASH_WARP_SECTIONS", ",1,2,"), os.environ.get("GPUHASH_WARP_MUTANT")
if ",2," in wanted and mistake == "1":
    raise SystemExit("wrong: two")
while ",2," in wanted and mistake == "2":
    pass
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def test_short_sections_of_all_programs_are_tried_first() -> None:
    tried = list(attempts(PROGRAMS, 5))
    assert tried[0] == Attempt(SHORT, 1, [2, 1], 50)
    assert tried[1] == Attempt(LONG, 1, [19, 18, 17], 981 + 982 + 983)
    sections = [s for attempt in tried if attempt.program == LONG for s in attempt.sections]
    assert sections == list(range(19, 0, -1))


def test_whole_programs_are_tried_in_the_end() -> None:
    for mistake in (5, 6, 7, 8):
        whole = [attempt for attempt in attempts(PROGRAMS, mistake) if not attempt.sections]
        assert list(attempts(PROGRAMS, mistake))[-len(PROGRAMS) :] == whole
        assert {attempt.program for attempt in whole} == {LONG, SHORT, ELSEWHERE}
        assert all(attempt.rounds == ROUNDS for attempt in whole)
    assert [attempt.program for attempt in attempts(PROGRAMS, 7)][:2] == [ELSEWHERE, ELSEWHERE]


def test_a_section_that_comes_to_a_mistake_notices_it(program: Path) -> None:
    recorded = record(program)
    assert recorded == Recorded(program, 0, [Section(1, 40, frozenset()), Section(2, 70, frozenset({1, 2}))])
    assert notice([recorded], 1) == "program, sections [2]: wrong: two"
    assert notice([recorded], 3) == ""


def test_a_run_without_an_end_is_noticed(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.warp.noticing.SECONDS", 1)
    assert "no end in sight after 1 s of the processor, 70 steps" in notice([record(program)], 2)
