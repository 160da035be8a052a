"""What setup.py asks setuptools for: the stable ABI, and none on a Python without a global lock."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import json, sys, sysconfig
of_this_python = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: int(sys.argv[1]) if name == "Py_GIL_DISABLED" else of_this_python(name)
from distutils.core import run_setup
made = run_setup("setup.py", stop_after="init")
wheel = made.get_option_dict("bdist_wheel").get("py_limited_api")
said = [[dict(e.define_macros).get("Py_LIMITED_API"), e.py_limited_api] for e in made.ext_modules]
json.dump([wheel and wheel[1], said], sys.stdout)
"""
if not (ROOT / "setup.py").exists():
    pytest.skip("needs a checkout of the repository", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize(("free_threaded", "tag", "macro"), [(0, "cp311", "0x030B0000"), (1, None, None)])
def test_the_stable_abi_is_for_pythons_that_have_it(free_threaded, tag, macro):
    for package in ("setuptools", "Cython"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    program = f"import setuptools\n{ASK}"
    command = [sys.executable, "-P", "-c", program, str(free_threaded)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    wheel, extensions = json.loads(done.stdout)
    assert wheel == tag
    assert len(extensions) > 15
    assert extensions == [[macro, macro is not None]] * len(extensions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "ends"), [("", "0"), ("cu12", "+cu12"), ("CU 12", "it must be letters and digits, as in cu12\n")]
)
def test_a_wheel_of_another_toolkit_has_a_version_of_its_own(label, ends):
    for package in ("setuptools", "Cython"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    program = 'import setuptools; from distutils.core import run_setup; run_setup("setup.py", ["-q", "--version"])'
    environment = {**os.environ, "GPUHASH_LOCAL_VERSION": label}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip() or done.stderr).endswith(ends), done.stdout + done.stderr


def test_every_extension_leaves_the_global_lock_off():
    """One that does not say so takes it back, for the whole process."""
    heads = {path.name: path.read_text().partition("\n")[0] for path in (ROOT / "pygpuhash").rglob("*.pyx")}
    assert len(heads) > 15
    assert [name for name, head in heads.items() if "freethreading_compatible=True" not in head] == []
