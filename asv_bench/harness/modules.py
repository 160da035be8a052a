"""Compiles modules of a structure, with changes, for a figure. The sources are those of the repository."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .devices import Unavailable
from .figure import Settings

ROOT = Path(__file__).resolve().parents[2]
OF_SOURCE = {"plugin_host.cpp": ["-DGPUHASH_ISA=baseline"]}  # of no other: functions of one name would be merged
PORTABLE = ["-mcx16"] if platform.machine() == "x86_64" else []


def compile_module(
    structure: str, folder: Path, arch: str | None, flags: Sequence[str], for_host: Sequence[str] = PORTABLE
) -> tuple[Path, str]:
    """A structure compiled into a new folder, for CUDA, too, if there is an architecture: (module, what nvcc said)."""
    name = "nvcc" if arch else "c++"
    compiler = shutil.which(name)
    if compiler is None:
        raise Unavailable(f"this figure is of modules of {structure} that are compiled for it: put {name} on PATH")
    if not (ROOT / "plugins" / structure).is_dir():
        raise Unavailable(f"this figure compiles the sources of {structure}: run it from a checkout of the repository")
    folder.mkdir(parents=True)
    common = ["-std=c++20", "-O3", "-DNDEBUG", "-DGPUHASH_WITHOUT_AVX2=1", "-DGPUHASH_WITHOUT_AVX512=1", *flags]
    common += [f"-I{ROOT / part}" for part in (f"plugins/{structure}", ".", "libgpuhash/include")]
    for_host = ["-fPIC", "-fvisibility=hidden", *for_host]
    if arch:
        common += [*(f"-Xcompiler={flag}" for flag in for_host), "-DGPUHASH_WITH_CUDA=1", f"-arch={arch}"]
        common += ["--expt-relaxed-constexpr"]
    else:
        common += for_host

    def compile_one(source: str) -> tuple[str, str]:
        target = str(folder / f"{source}.o")
        command = [compiler, *common, *OF_SOURCE.get(source, []), "-c", str(ROOT / "plugins" / structure / source)]
        done = subprocess.run([*command, "-o", target], capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise Unavailable(f"{name} does not compile {source} of {structure}: {chr(10).join(errors)[:800]}")
        return target, done.stderr + done.stdout

    with ThreadPoolExecutor() as pool:
        built = list(pool.map(compile_one, ("plugin.cpp", "plugin_host.cpp", *(["plugin_cuda.cu"] if arch else []))))
    module = folder / f"gpuhash_{structure}.so"  # a module is called after its structure
    link(compiler, [target for target, _ in built], module)
    return module, "".join(said for _, said in built)


def compile_source(name: str, target: Path, arch: str | None, flags: Sequence[str], for_host: Sequence[str]) -> None:
    """A source of this folder to a program or a library; for CUDA, if there is an architecture."""
    compiler = shutil.which("nvcc" if arch else "c++")
    if compiler is None:
        what = "nvcc" if arch else "a C++ compiler (c++)"
        raise Unavailable(f"{name} is compiled when it is needed: put {what} on PATH")
    if arch:
        more = ["-x", "cu", f"-arch={arch}", "--expt-relaxed-constexpr", *(f"-Xcompiler={flag}" for flag in for_host)]
    else:
        more = ["-march=native", *for_host]
    command = [compiler, "-std=c++20", "-O3", *more, *flags, str(Path(__file__).with_name(name)), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise Unavailable(f"{compiler} does not compile {name}: {chr(10).join(errors)[:800]}")


def link(compiler: str, objects: list[str], module: Path) -> None:
    """As the build does: a module shows its entry point and nothing else, and CUDA's runtime in it is its own."""
    hidden = [f"--version-script={ROOT / 'libgpuhash/src/plugin.map'}", "--exclude-libs=ALL"]
    with_cuda = Path(compiler).name == "nvcc"
    options = [f"-Xlinker={option}" if with_cuda else f"-Wl,{option}" for option in hidden]
    options += ["-cudart", "static"] if with_cuda else []
    subprocess.run([compiler, "-shared", *options, *objects, "-o", str(module)], check=True, capture_output=True)


def arch_of(settings: Settings) -> str:
    """What nvcc calls the architecture of the device, "sm_90": that of --option arch=, or its own."""
    own = settings.options.get("arch")
    return own or f"sm_{settings.device.xp.cuda.Device().compute_capability}"
