"""The library over a fake CUDA driver (plugins/driver.c): devices, reasons, whose memory an array is."""

from pathlib import Path

import pytest

from .conftest import HERE, must, run


@pytest.fixture(scope="module")
def anywhere(compile_plugin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin that agrees to everything, on every device."""
    flags = ['-DNAME="anywhere"', "-DDEVICES=6"]
    return compile_plugin(tmp_path_factory.mktemp("anywhere"), "echo.c", "anywhere", *flags)


def driver(folder: Path, *flags: str) -> Path:
    """Compile it; the folder for LD_LIBRARY_PATH."""
    kind = ["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC"]
    must("cc", *kind, *flags, HERE / "plugins" / "driver.c", "-o", folder / "libcuda.so.1")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return driver(tmp_path_factory.mktemp("driver"))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *(("driver", what) for what in ("described", "pointers", "arrays", "forked")),
        *(("staged", what) for what in ("driven", "refused", "carried_out", "cut_short")),
    ],
)
def test_with_a_driver(program, anywhere: Path, installed: Path, name: str, what: str) -> None:
    done = run(program(name), what, anywhere, env={"LD_LIBRARY_PATH": str(installed)})
    assert " 0 failed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"FAKE_DEVICES": "0"}, "the driver sees no device"),
        ({"FAKE_INIT": "100"}, "cuInit says: the fake refuses (100)"),
        ({"FAKE_INIT": "999"}, "cuInit says: unknown error (999)"),
        ({"FAKE_COUNT": "3"}, "cuDeviceGetCount says: the fake refuses (3)"),
    ],
)
def test_why_there_is_no_device(program, anywhere: Path, installed: Path, answers, sentence: str) -> None:
    env = {"LD_LIBRARY_PATH": str(installed), "FAKE_SENTENCE": sentence, **answers}
    done = run(program("driver"), "useless", anywhere, env=env)
    assert " 0 failed" in done.stdout, done.stdout + done.stderr


def test_an_older_driver(program, anywhere: Path, tmp_path: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(driver(tmp_path, "-DWITHOUT_ATTRIBUTES"))}
    env["FAKE_SENTENCE"] = "libcuda.so.1 has no cuDeviceGetAttribute: the driver is too old"
    done = run(program("driver"), "useless", anywhere, env=env)
    assert " 0 failed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "function", ["cuMemcpyAsync", "cuMemsetD8Async", "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent"]
)
def test_host_arrays_on_a_device_that_fails(program, anywhere: Path, installed: Path, function: str) -> None:
    env = {"LD_LIBRARY_PATH": str(installed), "FAKE_FAILS": function}
    done = run(program("staged"), "failing", anywhere, env=env)
    assert " 0 failed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
