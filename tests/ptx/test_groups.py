"""The kernels behind the groups of a column compile, and keep what they work on in registers."""

import subprocess

import pytest

from . import lint

SOURCE = lint.ROOT / "libgpuhash" / "columns" / "cuda" / "group.cu"
FRAME = 24  # bytes: of the second pass of `divide`, which has as many registers as two blocks on a multiprocessor leave


@pytest.mark.slow
def test_registers(tmp_path):
    try:
        nvcc = lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))
    options = ["-O3", "-std=c++20", "--expt-relaxed-constexpr", "-arch=sm_90", "-Xptxas=-v", "-cubin"]
    paths = [f"-I{lint.ROOT}", f"-I{lint.ROOT / 'libgpuhash' / 'include'}"]
    done = subprocess.run(
        [nvcc, *options, *paths, SOURCE, "-o", tmp_path / "group.cubin"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kernels = lint.resources_of(done.stderr)
    assert len(kernels) > 40
    assert {name for name, used in kernels.items() if used.stack > (FRAME if "divide" in name else 0)} == set()
