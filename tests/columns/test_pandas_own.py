"""The own tests of pandas and numpy, with the verbs in the place of their functions, in a process each."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "script", "least"), [("pandas", "pandas_own.py", 1000), ("numpy", "numpy_own.py", 80)]
)
def test_own_tests_pass(library, script, least, say):
    if library == "pandas" and (importlib.util.find_spec("pandas") is None or not _has_tests()):
        pytest.skip("pandas and its tests are not installed")
    run = subprocess.run([sys.executable, str(HERE / script)], capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " failed" not in run.stdout
    counts = re.search(r"^calls of the verbs: .*", run.stdout, re.MULTILINE)
    assert counts is not None, run.stdout[-2000:]
    assert ": 0" not in counts[0]
    passed = int(re.search(r"(\d+) passed", run.stdout)[1])
    assert passed >= least
    say(f"{library}'s own tests", f"{run.stdout.splitlines()[-1]}; {counts[0]}")


def _has_tests():
    return all(importlib.util.find_spec(name) is not None for name in ("pandas.tests.test_algos", "hypothesis"))
