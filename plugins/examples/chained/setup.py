"""Builds gpuhash_chained.so, with the headers of the gpuhash that is installed, and the manifest beside it.

CC names the C compiler.
"""

import os
import shlex
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

from setuptools import __version__ as setuptools_version
from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from setuptools.errors import ExecError, SetupError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # as in the environments of Python 3.11, with --no-build-isolation
    raise SystemExit(
        f"this build needs setuptools 77 or newer, and {setuptools_version} is installed: pip install -U setuptools"
    ) from None

HERE = Path(__file__).resolve().parent
PACKAGE = "gpuhash_chained"
VERSION = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["version"]


def include_folder() -> Path:
    """The headers of gpuhash, which is found without being imported: that needs numpy, and this build does not."""
    spec = find_spec("pygpuhash")
    folder = Path(spec.origin).parent / "include" if spec is not None and spec.origin else None
    if folder is None or not (folder / "gpuhash" / "plugin.h").is_file():
        raise SetupError("the headers of gpuhash are not here: install gpuhash first, or drop --no-build-isolation")
    return folder


class Build(build_py):
    """The package, with the module and its manifest in it."""

    def run(self) -> None:
        super().run()
        package = HERE / "src" / PACKAGE if self.editable_mode else Path(self.build_lib) / PACKAGE
        package.mkdir(parents=True, exist_ok=True)
        flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
        flags += [f"-I{include_folder()}", f'-DPLUGIN_VERSION="{VERSION}"']
        module = package / "gpuhash_chained.so"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        line = [*compiler, *flags, str(HERE / "src" / "chained.c"), "-o", str(module)]
        print(shlex.join(line), flush=True)
        if subprocess.run(line).returncode != 0:
            raise ExecError(f"{line[0]} failed; its output is above")
        text = (HERE / "src" / "manifest.toml").read_text()
        text = text.replace("{version}", VERSION).replace("{devices}", '"cpu"')
        (package / "gpuhash_chained.toml").write_text(text)


class Wheel(bdist_wheel):
    """For any Python 3, and this platform: the module knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    """Has a module for this platform, though no extension of Python."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=Native, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
