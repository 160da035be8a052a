"""Beside any plugins of pytest: warnings are errors in tests, and not in a plugin; tests/conftest.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PLUGIN = """
import warnings

def say(when):
    warnings.warn(f"said by a plugin in {when}")

def pytest_configure(config):
    say("configure")

def pytest_sessionstart(session):
    say("sessionstart")

def pytest_sessionfinish(session):
    say("sessionfinish")

def pytest_terminal_summary(terminalreporter):
    say("summary")

def pytest_unconfigure(config):
    say("unconfigure")
"""
TESTS = """
import warnings

def test_quiet():
    pass

def test_loud():
    warnings.warn("said by a test")
"""


@pytest.fixture
def run(tmp_path):
    """run(tests, *options): pytest beside a plugin that warns, with the settings and the conftest.py of all tests."""
    for source in ("conftest.py", "watchdog.py", "../pyproject.toml"):
        shutil.copy(HERE / source, tmp_path)
    (tmp_path / "loud_plugin.py").write_text(PLUGIN)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = str(tmp_path)

    def run(tests, *options):
        (tmp_path / "test_warnings.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "-p", "loud_plugin", "-p", "no:cacheprovider", "-rA", *options, "."]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["one process", "two"])
def test_warnings_are_errors_in_tests_only(run, options):
    done = run(TESTS, *options)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "PASSED test_warnings.py::test_quiet" in done.stdout
    assert "FAILED test_warnings.py::test_loud - UserWarning: said by a test" in done.stdout
    assert run(TESTS, "-Wdefault", *options).returncode == pytest.ExitCode.OK


def test_warnings_are_errors_in_a_module_of_tests(run):
    done = run("import warnings\nwarnings.warn('said by a module')\n" + TESTS)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout + done.stderr
    assert "UserWarning: said by a module" in done.stdout
