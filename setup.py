"""Build of the Python package: meson builds libgpuhash and the plugins, setuptools and Cython the extension.

The metadata is in pyproject.toml. Three environment variables steer the build:

GPUHASH_CUDA
    auto (default): a CUDA compiler of the system, else the one of the package index, else none, with a message.
    system: nvcc on PATH or in /usr/local/cuda. wheel: the compiler of the package index. off: none.
GPUHASH_GPU_ARCHS
    CUDA architectures, for example "80 90 100 120+ptx". Default: 90.
GPUHASH_LOCAL_VERSION
    What follows the version and a "+", as in 0.1.0+cu12. Default: nothing. .ci/release says it for
    a toolkit of CUDA 12.

The meson build folder, build/meson-*, is kept: after a change, `pip install` and editable installs recompile what
depends on it and nothing else.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import ExecError, SetupError

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
HEADER = ROOT / "libgpuhash" / "include" / "gpuhash" / "gpuhash.h"
# One requirement brings matching parts of the toolkit; asking for nvcc alone does not.
CUDA_TOOLKIT = "cuda-toolkit[nvcc,cudart,cccl]==13.0.*"
CUDA_MODES = ("auto", "wheel", "system", "off")
ABI3 = "0x030B0000"  # Python 3.11
# Such a Python (3.13t, 3.14t) has no stable ABI before 3.15: the extensions are for its version alone.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def read_version() -> str:
    """The version, as gpuhash.h states it."""
    found = re.findall(r"#define GPUHASH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.read_text())
    return ".".join(found)


def distribution_version() -> str:
    """The version, and what GPUHASH_LOCAL_VERSION says, which tells wheels of several toolkits apart."""
    label = os.environ.get("GPUHASH_LOCAL_VERSION", "")
    if label and not re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)*", label):
        raise SetupError(f"GPUHASH_LOCAL_VERSION is {label!r}; it must be letters and digits, as in cu12")
    return read_version() + (f"+{label}" if label else "")


# ---- the CUDA compiler -----------------------------------------------------------------------------------------------


def cuda_mode() -> str:
    """GPUHASH_CUDA, checked."""
    mode = os.environ.get("GPUHASH_CUDA", "auto")
    if mode not in CUDA_MODES:
        raise SetupError(f"GPUHASH_CUDA is {mode!r}; it must be one of {', '.join(CUDA_MODES)}")
    return mode


def system_nvcc() -> Path | None:
    """The nvcc on PATH, or the one of /usr/local/cuda."""
    on_path = shutil.which("nvcc")
    usual = Path("/usr/local/cuda/bin/nvcc")
    return Path(on_path) if on_path else usual if usual.exists() else None


def wheel_nvcc(site: Path) -> Path | None:
    """The nvcc that CUDA_TOOLKIT has put into this directory."""
    nvcc = site / "nvidia" / "cu13" / "bin" / "nvcc"
    return nvcc if nvcc.exists() else None


def installed_wheel_nvcc() -> Path | None:
    """The nvcc of CUDA_TOOLKIT in this Python environment."""
    return next((nvcc for entry in sys.path if (nvcc := wheel_nvcc(Path(entry)))), None)


def fetched_wheel_nvcc() -> Path | None:
    """The nvcc of CUDA_TOOLKIT in the build folder, fetched if need be; None when it cannot be had."""
    site = BUILD / "cuda-toolkit-13.0"
    if (nvcc := wheel_nvcc(site)) is None and importlib.util.find_spec("pip"):
        print(f"gpuhash: no CUDA compiler here; fetching {CUDA_TOOLKIT} into {site}", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"]
        fresh = site.with_suffix(".partial")
        shutil.rmtree(fresh, ignore_errors=True)
        if subprocess.run([*pip, "--target", str(fresh), CUDA_TOOLKIT]).returncode == 0:
            fresh.rename(site)
        nvcc = wheel_nvcc(site)
    return nvcc


def find_nvcc() -> Path | None:
    """The CUDA compiler that GPUHASH_CUDA asks for; None: build without CUDA."""
    mode = cuda_mode()
    nvcc = None
    if mode in ("auto", "system"):
        nvcc = system_nvcc()
    if nvcc is None and mode in ("auto", "wheel"):
        nvcc = installed_wheel_nvcc()
    if nvcc is None and mode == "auto":
        nvcc = fetched_wheel_nvcc()
        if nvcc is None:
            print(
                "gpuhash: building WITHOUT CUDA: there is no nvcc on PATH or in /usr/local/cuda, and "
                f"{CUDA_TOOLKIT} cannot be fetched. GPUHASH_CUDA=off silences this message.",
                file=sys.stderr,
                flush=True,
            )
    if nvcc is None and mode == "system":
        raise SetupError("GPUHASH_CUDA=system, but there is no nvcc on PATH or in /usr/local/cuda/bin")
    if nvcc is None and mode == "wheel":
        raise SetupError(f"GPUHASH_CUDA=wheel, but this environment has no nvcc: pip install '{CUDA_TOOLKIT}'")
    return nvcc


# ---- meson -----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(path: Path):
    """One build at a time in one folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class MesonBuild:
    """libgpuhash and the plugins, built in a folder that is kept, installed into a prefix beside it."""

    def __init__(self, nvcc: Path | None):
        self.nvcc = nvcc
        kind = "cpu" if nvcc is None else "cuda"
        self.folder = BUILD / f"meson-{sysconfig.get_platform()}-{kind}"
        self.prefix = self.folder / "prefix"

    def run(self) -> None:
        """Configure if something changed, compile, install."""
        with locked(self.folder.with_suffix(".lock")):
            self.configure()
            self.meson("compile")
            shutil.rmtree(self.prefix, ignore_errors=True)
            self.meson("install", "--no-rebuild", "--quiet")

    def configure(self) -> None:
        """Set the folder up, or bring it up to date where ninja would not notice by itself."""
        native = self.folder.with_suffix(".ini")
        arguments = [f"--prefix={self.prefix}", "--libdir=lib", *self.cuda_arguments(native)]
        settings = "\n".join([*arguments, native.read_text() if native.exists() else ""])
        # The meson that made the folder (build environments come and go), and files that meson.build asks for.
        surroundings = "\n".join([sys.executable, *sorted(map(str, ROOT.glob("plugins/*/plugin*")))])
        made_with, made_in = self.folder / "gpuhash-settings", self.folder / "gpuhash-surroundings"
        if not made_with.exists() or made_with.read_text() != settings:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.meson("setup", *arguments, str(self.folder), str(ROOT), in_folder=False)
        elif made_in.read_text() != surroundings:
            self.meson("setup", "--reconfigure", str(self.folder), str(ROOT), in_folder=False)
        made_in.write_text(surroundings)
        made_with.write_text(settings)

    def cuda_arguments(self, native: Path) -> list[str]:
        """What meson has to know about CUDA; writes the native file that names the compiler."""
        native.unlink(missing_ok=True)
        if self.nvcc is None:
            return ["-Dcuda=disabled"]
        library = self.nvcc.parent.parent / "lib"  # where the package index's toolkit has its libraries
        link = f", '-L{library}'" if (library / "libcudart_static.a").exists() else ""
        native.write_text(f"[binaries]\ncuda = ['{self.nvcc}'{link}]\n")
        archs = ",".join(re.split(r"[\s,]+", os.environ.get("GPUHASH_GPU_ARCHS", "90").strip()))
        return ["-Dcuda=enabled", f"-Dgpu_archs={archs}", f"--native-file={native}"]

    def meson(self, command: str, *arguments: str, in_folder: bool = True) -> None:
        """Run a meson command."""
        where = ["-C", str(self.folder)] if in_folder else []
        line = [sys.executable, "-m", "mesonbuild.mesonmain", command, *where, *arguments]
        try:
            subprocess.run(line, check=True, env=self.environment())
        except subprocess.CalledProcessError as error:
            raise ExecError(f"meson {command} failed with status {error.returncode}; its output is above") from None

    def environment(self) -> dict[str, str]:
        """With the `ninja` of this Python environment (pip may be run without activating it) and nvcc's tools first."""
        first = []
        if importlib.util.find_spec("ninja"):
            import ninja

            first.append(ninja.BIN_DIR)
        if self.nvcc is not None:
            first.append(str(self.nvcc.parent))
        return {**os.environ, "PATH": os.pathsep.join([*first, os.environ.get("PATH", os.defpath)])}


# ---- setuptools ------------------------------------------------------------------------------------------------------


class BuildExt(build_ext):
    """Runs meson beside the compiler of the extension, which links what meson built, and puts both into the package."""

    def run(self) -> None:
        """Build everything."""
        meson = MesonBuild(find_nvcc())
        for extension in self.extensions:
            if extension.libraries:
                extension.library_dirs.append(str(meson.prefix / "lib"))
        with ThreadPoolExecutor(1) as pool:
            self.meson_run = pool.submit(meson.run)
            super().run()
            self.meson_run.result()
        self.stage(meson.prefix)

    def build_extensions(self) -> None:
        """Link without the run-time paths of Python's own flags, which lead to a libpython of this machine alone."""
        for name in ("linker_so", "linker_so_cxx"):
            if line := getattr(self.compiler, name, None):
                setattr(self.compiler, name, [word for word in line if not word.startswith("-Wl,-rpath")])
        super().build_extensions()

    def get_libraries(self, ext: Extension) -> list[str]:
        """What the extension is linked with; asked for when it is compiled, and answered when meson has built it."""
        self.meson_run.result()
        return super().get_libraries(ext)

    def stage(self, prefix: Path) -> None:
        """Copy library, plugins and headers into the package, of the source tree when that is what runs."""
        in_place = self.inplace or getattr(self, "editable_mode", False)
        package = (ROOT if in_place else Path(self.build_lib)) / "pygpuhash"
        package.mkdir(parents=True, exist_ok=True)
        # A new file rather than new contents: a running process may have the old one mapped.
        fresh = package / "libgpuhash.so.0.new"
        shutil.copy2(prefix / "lib" / "libgpuhash.so.0", fresh)
        fresh.rename(package / "libgpuhash.so.0")
        for source, target in (("lib/gpuhash", "gpuhash"), ("include", "include")):
            shutil.rmtree(package / target, ignore_errors=True)
            if (prefix / source).exists():
                shutil.copytree(prefix / source, package / target)
        self.stage_build_files(prefix, package)

    def stage_build_files(self, prefix: Path, package: Path) -> None:
        """CMake's and pkg-config's files, for headers and a library that lie in the package."""
        cmake, pkgconfig = package / "cmake", package / "pkgconfig"
        for folder in (cmake, pkgconfig):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        words = {"@INCLUDE_DIR@": "../include", "@LIBRARY@": "../libgpuhash.so.0", "@VERSION@": read_version()}
        for template in (ROOT / "libgpuhash").glob("*.cmake.in"):
            text = template.read_text()
            for word, value in words.items():
                text = text.replace(word, value)
            (cmake / template.stem).write_text(text)
        for file in (prefix / "lib" / "pkgconfig").glob("gpuhash*.pc"):
            text = file.read_text()
            places = {"prefix": "${pcfiledir}/..", "libdir": "${prefix}", "includedir": "${prefix}/include"}
            for key, value in places.items():
                text = re.sub(rf"^{key}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
            (pkgconfig / file.name).write_text(text.replace("-lgpuhash", "-l:libgpuhash.so.0"))


def extension(name: str, *, linked: bool = True) -> Extension:
    """An extension module by the name of its .pyx file in a folder of pygpuhash, for all Pythons from 3.11 on.

    linked : with libgpuhash, which is in the package's folder. All read its headers.
    """
    limited = [] if FREE_THREADED else [("Py_LIMITED_API", ABI3)]
    link = {"libraries": ["gpuhash"], "library_dirs": [], "runtime_library_dirs": ["$ORIGIN/.."]}
    return Extension(
        f"pygpuhash.{name}",
        [f"pygpuhash/{name.replace('.', '/')}.pyx"],
        include_dirs=[str(HEADER.parent.parent), numpy.get_include()],
        depends=[str(path) for path in (*HEADER.parent.glob("*.h"), *ROOT.glob("pygpuhash/**/*.pxd"))],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"), *limited],
        # -O3: tables read every status and op code, with vectors. -g0: Python's flags ask for -g, which takes long.
        extra_compile_args=["-O3", "-g0"],
        extra_link_args=["-s"],  # a tenth of the size is names of static functions
        py_limited_api=not FREE_THREADED,
        **(link if linked else {}),
    )


extensions = [
    *(
        extension(f"_core.{name}")
        for name in (
            "bytes_on_device",
            "copies",
            "groups",
            "handle",
            "library",
            "shards",
            "slab",
            "staging",
            "status",
            "table",
        )
    ),
    *(
        extension(f"_core.{name}", linked=False)
        for name in ("device_arrays", "dlpack", "host_arrays", "memory", "process", "results")
    ),
    extension("columns._engine"),
    *(
        extension(f"columns.{name}", linked=False)
        for name in ("_buffers", "_direct", "_few", "_objects", "_reduce", "_utf8")
    ),
    *(extension(f"commands.{name}", linked=False) for name in ("_kmers", "_print", "_words")),
]

setup(
    version=distribution_version(),
    ext_modules=extensions,
    cmdclass={"build_ext": BuildExt},
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for all later Pythons
    setup_requires=[CUDA_TOOLKIT] if cuda_mode() == "wheel" and installed_wheel_nvcc() is None else [],
)
