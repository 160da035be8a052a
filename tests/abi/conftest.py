"""An installed prefix to compile C programs against, and the plugins and programs of this directory.

The prefix is the one that the package was built with, if no source has changed since, or else one that is built with
meson, without CUDA, in build/tests-abi. GPUHASH_PREFIX names another one, for example that of a `meson install`.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"]


def run(
    *command: str | Path, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command and return it with its output as text."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=None if env is None else {**os.environ, **env},
    )


def must(*command: str | Path, env: dict[str, str] | None = None, timeout: float = 300) -> str:
    """Run a command that has to succeed, and return its standard output."""
    done = run(*command, env=env, timeout=timeout)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Prefix:
    """Where gpuhash is installed."""

    path: Path
    libdir: Path

    @property
    def shared_object(self) -> Path:
        """The library, by its SONAME."""
        return self.libdir / "libgpuhash.so.0"

    @property
    def plugin_dir(self) -> Path:
        """The directory of plugin modules."""
        return self.libdir / "gpuhash" / "plugins-v1"

    def modules(self) -> list[Path]:
        """The installed plugin modules."""
        return sorted(self.plugin_dir.glob("gpuhash_*.so"))

    def flags(self, *asked: str, package: str = "gpuhash") -> list[str]:
        """What pkg-config says."""
        env = {"PKG_CONFIG_PATH": str(self.libdir / "pkgconfig")}
        return must("pkg-config", *asked, package, env=env).split()


def require(tool: str) -> str:
    """A tool's path; skips the test where it is missing."""
    return shutil.which(tool) or pytest.skip(f"{tool} is not installed")


def build_prefix(folder: Path, *options: str) -> Path:
    """Build and install with meson, without CUDA. The folder is kept, so that the next session compiles little."""
    pytest.importorskip("mesonbuild", reason="meson is not installed")
    ninja = pytest.importorskip("ninja", reason="ninja is not installed")
    env = {"PATH": f"{ninja.BIN_DIR}:{os.environ['PATH']}"}
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    prefix = folder / "prefix"
    setup = [*meson, "setup", folder, ROOT, f"--prefix={prefix}", "-Dcuda=disabled", *options]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one session at a time
        if not (folder / "build.ninja").exists() or run(*setup, "--reconfigure", env=env).returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            must(*setup, env=env)
        must(*meson, "install", "--only-changed", "-C", folder, env=env, timeout=3000)
        remove_old_headers(prefix / "include", json.loads(must(*meson, "introspect", "--installed", folder, env=env)))
    return prefix


def remove_old_headers(include: Path, installed: dict[str, str]) -> None:
    """Those that no source is there for any more, one by one: another process may be using the others."""
    sources = {Path(to): Path(source) for source, to in installed.items()}  # of files, and of whole directories
    for header in include.rglob("*"):
        above = next((to for to in [header, *header.parents] if to in sources), None)
        if header.is_file() and (above is None or not (sources[above] / header.relative_to(above)).exists()):
            header.unlink()


def package_prefix() -> Path | None:
    """The prefix that setup.py has installed into last, if that was after every change of a source."""
    sources = [ROOT / "meson.build", ROOT / "meson.options"]
    for folder in ("libgpuhash", "plugins"):
        sources += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    changed = max(path.stat().st_mtime for path in sources)
    prefixes = [path for path in ROOT.glob("build/meson-*/prefix") if path.stat().st_mtime > changed]
    return max(prefixes, key=lambda path: path.stat().st_mtime, default=None)


def native_prefix() -> Prefix:
    """The installed library under test."""
    given = os.environ.get("GPUHASH_PREFIX")
    path = Path(given) if given else package_prefix() or build_prefix(ROOT / "build" / "tests-abi")
    libraries = list(path.glob("lib*/**/libgpuhash.so.0"))
    assert len(libraries) == 1, f"{path} has {len(libraries)} libgpuhash.so.0; is it a prefix of meson install?"
    return Prefix(path, libraries[0].parent)


@pytest.fixture(scope="session")
def prefix() -> Prefix:
    """The installed library under test, and what is needed to compile against it."""
    require("cc")
    require("pkg-config")
    return native_prefix()


@pytest.fixture(scope="session")
def compile_plugin(prefix: Prefix):
    """A function that compiles a source of plugins/ against the installed headers alone."""

    def compile_one(folder: Path, source: str, name: str, *flags: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        module = folder / f"gpuhash_{name}.so"
        kind = ["-shared", "-fPIC", "-fvisibility=hidden"]
        must("cc", *STRICT, *kind, *flags, *prefix.flags("--cflags"), HERE / "plugins" / source, "-o", module)
        return module

    return compile_one


@pytest.fixture(scope="session")
def toy(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin that is written by hand in C."""
    return compile_plugin(tmp_path_factory.mktemp("toy"), "toy.c", "toy")


@pytest.fixture(scope="session")
def echo(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin that agrees to everything."""
    return compile_plugin(tmp_path_factory.mktemp("echo"), "echo.c", "echo", '-DNAME="echo"')


@pytest.fixture(scope="session")
def slab_echo(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same under the name that provides the stand-alone allocator."""
    return compile_plugin(tmp_path_factory.mktemp("slab_echo"), "echo.c", "slab_hash", '-DNAME="slab_hash"')


@pytest.fixture(scope="session")
def program(prefix: Prefix, tmp_path_factory: pytest.TempPathFactory):
    """A function that compiles and links a program of programs/ through pkg-config."""
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> Path:
        binary = folder / name
        if not binary.exists():
            source = HERE / "programs" / f"{name}.c"
            flags = [*prefix.flags("--cflags", "--libs"), f"-Wl,-rpath,{prefix.libdir}"]
            must("cc", *STRICT, source, "-o", binary, *flags)
        return binary

    return build


@pytest.fixture(scope="session")
def backends(prefix: Prefix, toy: Path) -> dict[str, Path]:
    """Modules by backend name: those that are installed, and toy."""
    return {m.stem.removeprefix("gpuhash_"): m for m in prefix.modules()} | {"toy": toy}
