"""What `import pygpuhash` says where something is in its way."""

import subprocess
import sys
from pathlib import Path

import pytest

import pygpuhash as gh

PATHS = [str(Path(gh.__file__).parents[1]), *(path for path in sys.path if path.endswith("site-packages"))]


@pytest.mark.parametrize("name", ["enum", "inspect", "dataclasses"])
def test_a_file_that_shadows_a_module_of_python(tmp_path, name):
    """As a program called enum.py does for whatever it imports. An error, not a crash."""
    (tmp_path / f"{name}.py").write_text("import pygpuhash\n")
    start = f"import sys; sys.path[:0] = {[str(tmp_path), *PATHS]}; import pygpuhash"
    done = subprocess.run([sys.executable, "-S", "-c", start], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(("ImportError: ", "AttributeError: "))
    assert name in done.stderr
