"""Compiles modules of a structure, with changes, for a figure."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .figure import Settings

ROOT = Path(__file__).resolve().parents[2]
OF_SOURCE = {"plugin_host.cpp": ["-DGPUHASH_ISA=baseline"]}  # of no other: functions of one name would be merged


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
