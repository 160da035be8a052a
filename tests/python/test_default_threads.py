"""The default for threads of the process: `gh.set_threads`, GPUHASH_THREADS, and OMP_NUM_THREADS."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pygpuhash as gh


@pytest.fixture
def default():
    before = gh.devices()[0].units
    yield before
    gh.set_threads(None)
    assert gh.devices()[0].units == before


def test_a_default_is_set_and_taken_back(default):
    for threads in (1, 3, 4096):
        gh.set_threads(threads)
        assert gh.devices()[0].units == threads
        with gh.Table() as table:
            assert table.insert(range(1000), 1).all()
    gh.set_threads(None)
    assert gh.devices()[0].units == default


@pytest.mark.parametrize(
    ("threads", "error", "message"),
    [(0, gh.InvalidArgument, "threads=0"), (4097, gh.InvalidArgument, "threads=4097"), ("2", TypeError, "threads='2'")],
)
def test_what_is_refused(default, threads, error, message):
    with pytest.raises(error, match=message):
        gh.set_threads(threads)
    assert gh.devices()[0].units == default


def test_the_environment_is_read():
    """GPUHASH_THREADS as it says; OMP_NUM_THREADS only for fewer; what is no number from 1 to 4096 counts as unset."""
    cpus = len(os.sched_getaffinity(0))
    cases = [
        ({"GPUHASH_THREADS": "7", "OMP_NUM_THREADS": "1"}, 7),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"GPUHASH_THREADS": "many", "OMP_NUM_THREADS": "1"}, 1),
        ({"GPUHASH_THREADS": "4097", "OMP_NUM_THREADS": "1,2"}, None),
        ({"GPUHASH_THREADS": "0", "OMP_NUM_THREADS": "4000"}, None),
    ]
    code = "import pygpuhash as gh; print(gh.devices()[0].units); gh.set_threads(2); print(gh.devices()[0].units)"
    for variables, wanted in cases:
        clean = {k: v for k, v in os.environ.items() if k not in ("GPUHASH_THREADS", "OMP_NUM_THREADS")}
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], env=clean | variables, capture_output=True, text=True, check=True
        )
        first, second = map(int, done.stdout.split())
        assert first == wanted if wanted else 1 <= first <= cpus, variables
        assert second == 2
