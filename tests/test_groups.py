"""Tests of one xdist_group run in one process, the groups in several: tests/conftest.py."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = """
import pytest

@pytest.mark.xdist_group("first")
@pytest.mark.parametrize("i", range(6))
def test_first(i):
    pass

@pytest.mark.xdist_group("second")
class TestSecond:
    @pytest.mark.parametrize("i", range(6))
    def test_second(self, i):
        pass

@pytest.mark.parametrize("i", range(4))
def test_alone(i):
    pass
"""


@pytest.mark.parametrize(
    ("options", "scheduler"),
    [((), "3.8."), ((), "none of these"), (("--dist=load",), "3.8.")],
    ids=["groups", "other xdist", "load"],
)
def test_a_group_stays_in_one_process(tmp_path, options, scheduler):
    """scheduler: how the version of xdist begins that has the scheduler of the settings."""
    for source in ("conftest.py", "watchdog.py"):
        shutil.copy(HERE / source, tmp_path)
    settings = (tmp_path / "conftest.py").read_text()
    assert settings.count('startswith("3.8.")') == 1
    (tmp_path / "conftest.py").write_text(settings.replace('startswith("3.8.")', f'startswith("{scheduler}")'))
    (tmp_path / "test_groups.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-n2", "-v", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    ran = re.findall(r"^\[(gw\d)\].* PASSED test_groups.py::(?:\w+::)?test_(\w+)\S* *$", done.stdout, re.MULTILINE)
    assert len(ran) == 16  # a group has more tests than a process is given at once
    by_group = {name: {worker for worker, of in ran if of == name} for name in ("first", "second")}
    if options:  # whoever asks for something else has it
        assert "@" not in done.stdout
    else:
        assert [len(workers) for workers in by_group.values()] == [1, 1]
        assert by_group["first"] != by_group["second"]
