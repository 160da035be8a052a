"""What nvcc compiles has the same bytes from any folder, so that a wheel can be made again elsewhere and compared."""

import os
import shutil
import subprocess
import sys

import pytest

from . import lint

# Their kernels have internal linkage. Those of plugins have not, and lie in folders that --keep names.
OBJECTS = [f"libgpuhash/libgpuhash.so.0.p/{name}.cu.o" for name in ("columns_cuda_isin", "columns_partition")]


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """OBJECTS of two copies of the sources, in folders whose names differ in length."""
    pytest.importorskip("mesonbuild", reason="meson is not installed")
    try:
        nvcc = lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))
    if "--frandom-seed" not in subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"{nvcc} writes its process number into names, and has no option --frandom-seed that prevents it")
    # CCACHE_DISABLE: a cache could answer with the object of the other folder.
    environment = {**os.environ, "PATH": f"{nvcc.parent}:{os.environ['PATH']}", "CCACHE_DISABLE": "1"}
    library = nvcc.parent.parent / "lib"  # where the package index's toolkit has its libraries
    link = f", '-L{library}'" if (library / "libcudart_static.a").exists() else ""
    made = []
    for name in ("one", "another/folder"):
        copy = tmp_path_factory.mktemp("copies") / name
        for part in ("libgpuhash", "plugins", "tests/abi", "tests/model"):
            shutil.copytree(lint.ROOT / part, copy / part)
        for file in ("meson.build", "meson.options", "LICENSE"):
            shutil.copy(lint.ROOT / file, copy)
        build, native = copy / "build", copy / "cuda.ini"
        native.write_text(f"[binaries]\ncuda = ['{nvcc}'{link}]\n")
        meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
        setup = ["setup", "-Dcuda=enabled", "-Dgpu_archs=90", f"--native-file={native}", build, copy]
        for command in (setup, ["compile", "-C", build, f"--ninja-args={OBJECTS}"]):
            done = subprocess.run([*meson, *command], env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        made.append([(build / path).read_bytes() for path in OBJECTS])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(OBJECTS)), ids=OBJECTS)
def test_objects_of_two_folders_are_equal(objects, which):
    one, another = (made[which] for made in objects)
    assert len(one) > 10_000
    assert one == another
