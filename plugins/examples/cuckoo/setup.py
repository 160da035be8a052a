"""Builds gpuhash_cuckoo.so, with the headers of the gpuhash that is installed, and the manifest beside it.

CXX names the C++ compiler. GPUHASH_CUDA=auto (default) compiles plugin_cuda.cu where nvcc is on PATH, system requires
that, off leaves it out; GPUHASH_GPU_ARCHS names the architectures, as in "80 90 100 120+ptx" (default: 90).
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
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
PACKAGE = "gpuhash_cuckoo"
VERSION = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["version"]

# One object for each instruction set; the module chooses when it is loaded. libgpuhash/kit/check_objects.py, below,
# finds code that would run on a processor without the set that it was compiled for.
ISAS = {"baseline": []}
if platform.machine() in ("x86_64", "AMD64"):
    avx2 = ["-mcx16", "-mavx2", "-mbmi", "-mbmi2", "-mlzcnt"]
    avx512 = [*avx2, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq"]
    ISAS = {"baseline": ["-mcx16"], "avx2": avx2, "avx512": avx512}


def include_folder() -> Path:
    """The headers of gpuhash, which is found without being imported: that needs numpy, and this build does not."""
    spec = find_spec("pygpuhash")
    folder = Path(spec.origin).parent / "include" if spec is not None and spec.origin else None
    if folder is None or not (folder / "gpuhash" / "kit").is_dir():
        raise SetupError("the headers of gpuhash are not here: install gpuhash first, or drop --no-build-isolation")
    return folder


def find_nvcc() -> str | None:
    mode = os.environ.get("GPUHASH_CUDA", "auto")
    if mode not in ("auto", "system", "off"):
        raise SetupError(f"GPUHASH_CUDA is {mode!r}; it must be auto, system or off")
    nvcc = None if mode == "off" else shutil.which("nvcc")
    if mode == "system" and nvcc is None:
        raise SetupError("GPUHASH_CUDA=system, but there is no nvcc on PATH")
    return nvcc


def run(*command: object) -> None:
    line = [str(part) for part in command]
    print(shlex.join(line), flush=True)
    if subprocess.run(line).returncode != 0:
        raise ExecError(f"{line[0]} failed; its output is above")


class Build(build_py):
    """The package, with the module and its manifest in it."""

    def run(self) -> None:
        super().run()
        package = HERE / "src" / PACKAGE if self.editable_mode else Path(self.build_lib) / PACKAGE
        package.mkdir(parents=True, exist_ok=True)
        objects = HERE / "build" / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        nvcc = find_nvcc()
        self.compile_native(objects, package / "gpuhash_cuckoo.so", nvcc)
        devices = '"cpu", "cuda"' if nvcc else '"cpu"'
        text = (HERE / "src" / "manifest.toml").read_text()
        text = text.replace("{version}", VERSION).replace("{devices}", devices)
        (package / "gpuhash_cuckoo.toml").write_text(text)

    def compile_native(self, objects: Path, module: Path, nvcc: str | None) -> None:
        include = include_folder()
        kit = include / "gpuhash" / "kit"
        compiler = shlex.split(os.environ.get("CXX", "g++"))
        flags = ["-std=c++20", f"-I{include}", f"-I{kit}", f'-DPLUGIN_VERSION="{VERSION}"']
        host = ["-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", *flags]
        without = [] if "avx2" in ISAS else ["-DGPUHASH_WITHOUT_AVX2", "-DGPUHASH_WITHOUT_AVX512"]
        cuda = ["-DGPUHASH_WITH_CUDA=1"] if nvcc else []
        source = HERE / "src"
        jobs = [
            [
                *compiler,
                *host,
                *more,
                f"-DGPUHASH_ISA={isa}",
                "-c",
                source / "plugin_host.cpp",
                "-o",
                objects / f"{isa}.o",
            ]
            for isa, more in ISAS.items()
        ]
        jobs.append([*compiler, *host, *without, *cuda, "-c", source / "plugin.cpp", "-o", objects / "plugin.o"])
        link = [*compiler, "-shared"]
        linker = [f"--version-script={kit / 'libgpuhash/kit/plugin.map'}", "--exclude-libs=ALL", "-z,defs"]
        if nvcc:
            archs = cuda_architectures()
            device = ["-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-Xcompiler=-fPIC,-fvisibility=hidden", *archs]
            device.append("--objdir-as-tempdir")  # else a temporary file's name makes the bytes differ each time
            jobs.append([nvcc, *flags, *device, *cuda, "-c", source / "plugin_cuda.cu", "-o", objects / "cuda.o"])
            link = [nvcc, "-shared", "-cudart=static", *archs]
            linker = [f"-Xlinker={option}" for option in linker]
        else:
            linker = [f"-Wl,{option}" for option in linker]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda job: run(*job), jobs))
        made = [objects / f"{isa}.o" for isa in ISAS]
        run(sys.executable, kit / "libgpuhash/kit/check_objects.py", *made, "--with", objects / "plugin.o")
        more = [objects / "cuda.o"] if nvcc else []
        run(*link, *made, objects / "plugin.o", *more, *linker, "-o", module)


def cuda_architectures() -> list[str]:
    """The flags of nvcc for GPUHASH_GPU_ARCHS."""
    flags = []
    for arch in re.split(r"[\s,]+", os.environ.get("GPUHASH_GPU_ARCHS", "90").strip()):
        number = arch.removesuffix("+ptx")
        flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
        if arch.endswith("+ptx"):
            flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
    return flags


class Wheel(bdist_wheel):
    """For any Python 3, and this platform: the module knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    """Has a module for this platform, though no extension of Python."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=Native, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
