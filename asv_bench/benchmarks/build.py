"""Time and size of a clean build. Off by default, since it takes minutes: GPUHASH_BENCH_BUILD=1."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CleanBuild:
    """meson setup and compile of the sources that this suite lies in, with two jobs."""

    params = (["off", "sm_90"],)
    param_names = ("CUDA",)
    unit = "s"
    version = "1"
    timeout = 1200

    def setup(self, cuda):
        if os.environ.get("GPUHASH_BENCH_BUILD") != "1":
            raise NotImplementedError("takes minutes: set GPUHASH_BENCH_BUILD=1")
        if shutil.which("meson") is None:
            raise NotImplementedError("meson is not installed")
        if cuda != "off" and shutil.which("nvcc") is None:
            raise NotImplementedError("there is no nvcc on PATH")

    def track_seconds(self, cuda):
        feature = "-Dcuda=disabled" if cuda == "off" else "-Dcuda=enabled"
        with tempfile.TemporaryDirectory(prefix="gpuhash-build-") as folder:
            start = time.perf_counter()
            subprocess.run(["meson", "setup", folder, str(ROOT), feature], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["meson", "compile", "-C", folder, "-j2"], check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - start
