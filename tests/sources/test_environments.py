"""Which interpreter .ci/environments takes for a row."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / ".ci" / "environments"
if not FILE.exists():
    pytest.skip("needs a checkout of the repository", allow_module_level=True)


@pytest.fixture(scope="module")
def environments():
    loader = SourceFileLoader("environments", str(FILE))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("environments", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("wanted", "says", "taken"),
    [
        ("9.8", "9 8 ", True),
        ("9.8", "9 8 t", False),  # as python3.13 of a build without a global lock
        ("9.8t", "9 8 t", True),
        ("9.8t", "9 8 ", False),
        ("9.8", "9 7 ", False),
    ],
)
def test_a_program_of_the_name_has_to_be_that_python(environments, monkeypatch, tmp_path, wanted, says, taken):
    program = tmp_path / f"python{wanted}"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    if taken:
        assert environments.interpreter(wanted) == str(program)
    else:
        with pytest.raises(environments.Skip, match=f"no Python {wanted} is here"):
            environments.interpreter(wanted)


def test_this_python(environments):
    version = "{}.{}".format(*sys.version_info)
    if not hasattr(sys, "_is_gil_enabled"):
        assert environments.interpreter(version) == sys.executable
