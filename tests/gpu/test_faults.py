"""A device fault ends the CUDA context: tables then say so, can be closed, and the process ends as it should."""

import subprocess
import sys

import pytest

pytest.importorskip("cupy", reason="a faulty kernel and a capture are CuPy's here")
pytestmark = pytest.mark.gpu

SCRIPT = """
import sys
import cupy
import pygpuhash as gh

stream = cupy.cuda.Stream(non_blocking=True)
stream.use()
table = gh.Table(sys.argv[1], key_dtype="int64", value_dtype="int64", capacity=1 << 16, grow=False, device="cuda:0")
kept = gh.Table(sys.argv[1], device="cuda:0")
keys = cupy.arange(1000)
values, found = table.find(keys)
table.insert(keys, keys)
if sys.argv[2] == "replay":
    stream.begin_capture()
    table.find(keys, out=values, found=found)
    graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    assert (values.get() == range(1000)).all()
fault = cupy.RawKernel('extern "C" __global__ void fault(int *p) { *p = 1; }', "fault")
fault((1,), (1,), (cupy.uint64(8),))
try:
    if sys.argv[2] == "replay":
        graph.launch(stream)
    stream.synchronize()
    print("no fault")
except Exception as error:
    print("fault", type(error).__name__)
for name, call in {
    "insert": lambda: table.insert(keys, keys),
    "host": lambda: table.find([1, 2, 3]),
    "len": lambda: len(table),
    "again": lambda: len(table),
    "other": lambda: len(kept),
    "new": lambda: gh.Table(sys.argv[1], device="cuda:0"),
}.items():
    try:
        call()
        print(name, "fine")
    except gh.GpuHashError as error:
        print(name, type(error).__name__)
table.close()
print("closed")
"""


@pytest.mark.parametrize("when", ["plain", "replay"])
@pytest.mark.parametrize("backend", ["linear_probe", "slab_hash"])
def test_a_fault_of_the_device(backend, when):
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, backend, when], capture_output=True, text=True, timeout=60, check=False
    )
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    told = {"DeviceError", "Poisoned"}
    assert lines["fault"], done.stdout + done.stderr
    assert {lines[name] for name in ("insert", "host", "len", "other", "new")} <= told, done.stdout
    assert lines["again"] == "Poisoned", done.stdout
    assert done.stdout.endswith("closed\n")
    assert done.returncode == 0, done.stderr[-2000:]  # `kept` is dropped when the context is gone
