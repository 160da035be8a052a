"""What ends or begins beside a table on a GPU: streams, forked children, the interpreter and its libraries."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

ENVIRONMENT = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
ENVIRONMENT["TF_CPP_MIN_LOG_LEVEL"] = "3"  # of XLA


def run(program: str, said: str) -> None:
    """A program that says this, nothing else, and ends as it should."""
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, said + "\n", ""), done.stdout + done.stderr


@pytest.mark.parametrize("address", ["gone", "12345", "id(keys)", "keys.data.ptr"])
def test_an_integer_that_is_no_stream_is_refused(address: str) -> None:
    """The driver would read the memory there, and the process would end."""
    pytest.importorskip("cupy")
    program = f"""
import cupy, pygpuhash as gh
keys = cupy.arange(5)
table = gh.Table("linear_probe", key_dtype="int64", value_dtype="int64", device="cuda")
stream = cupy.cuda.Stream(non_blocking=True)
gone = stream.ptr
del stream
for call in (
    lambda s: table.insert(keys, keys, stream=s),
    lambda s: table.insert([1], [1], stream=s),
    lambda s: table.export(stream=s),
    lambda s: table.clear(stream=s),
    lambda s: gh.unique(keys, stream=s),
    lambda s: gh.Table("linear_probe", device="cuda", stream=s),
    lambda s: gh.SlabAllocator(device="cuda", stream=s),
    lambda s: gh.DeviceArray((3,), "u8", 0, s),
    lambda s: gh.DeviceArray.from_dlpack(keys, stream=s),
):
    try:
        call({address})
        print("went through")
    except gh.InvalidArgument as error:
        assert "from_handle" in str(error), error
print(len(table), "refused")
"""
    run(program, "0 refused")


def test_integers_of_streams_that_are_known() -> None:
    cupy = pytest.importorskip("cupy")
    import pygpuhash as gh

    keys = cupy.arange(1000)
    stream = cupy.cuda.Stream(non_blocking=True)
    with gh.Table("linear_probe", key_dtype="int64", value_dtype="int64", device="cuda", stream=stream) as table:
        for s in (0, 1, 2, stream.ptr):
            table.insert(keys, keys, stream=s)
        with cupy.cuda.Stream(non_blocking=True) as other:
            assert bool(table.find(keys, stream=other.ptr)[1].all())
        assert len(table) == 1000


def test_an_array_outlives_its_stream() -> None:
    run(
        """
import numpy as np, pygpuhash as gh
from cuda.core import Device
device = Device(0)
device.set_current()
stream = device.create_stream()
table = gh.Table("linear_probe", value_dtype="uint64", device="cuda")
from pygpuhash import _cuda
keys = _cuda.from_host(np.arange(1000, dtype="u8"), 0, stream)
values, found = table.find(keys, stream=stream)
stream.close()
del stream
assert not found.get().any()
assert table.insert(keys, values).get().all()
del keys, values, found
print("done")
""",
        "done",
    )


@pytest.mark.parametrize("backend", ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"])
def test_a_childs_calls_on_its_parents_table(backend: str) -> None:
    run(
        f"""
import os, numpy as np, pygpuhash as gh
keys = np.arange(1000, dtype="u8")
table = gh.Table({backend!r}, device="cuda")
table.insert(keys, 1)
if os.fork() == 0:
    calls = {{
        "len": lambda: len(table), "find": lambda: table.find(keys), "insert": lambda: table.insert(keys, 1),
        "one": lambda: table[5], "export": table.export, "clear": table.clear, "set": lambda: table.__setitem__(5, 5),
        "reserve": lambda: table.reserve(5), "stats": table.stats, "verb": lambda: gh.unique(keys, device="cuda"),
    }}
    for name, call in calls.items():
        try:
            call()
            print(name, "went through", flush=True)
        except (gh.Forked, gh.DeviceError) as error:
            assert "fork" in str(error), (name, error)
            assert name == "verb" or isinstance(error, gh.Forked), (name, error)
    print("refused", flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert table.contains(keys).all()
""",
        "refused",
    )


@pytest.mark.parametrize("what", ["staging", "a table", "an array", "memory of cuda.core"])
def test_a_child_that_ends_normally(what: str) -> None:
    """With the parent's tables and memory in its variables."""
    run(
        f"""
import os, sys, numpy as np, pygpuhash as gh
from pygpuhash import _cuda
keys = np.arange(1 << 20)
what = {what!r}
if what == "staging":
    gh.unique(keys, device="cuda")
elif what == "a table":
    table = gh.Table("hive", key_dtype="int64", device="cuda")
    table.insert(keys, 1)
elif what == "an array":
    array = _cuda.from_host(keys, 0)
else:
    memory = _cuda.core().DeviceMemoryResource(0)
    table = gh.Table("linear_probe", key_dtype="int64", device="cuda", memory=memory)
    table.insert(keys, 1)
if os.fork() == 0:
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
""",
        "0",
    )


@pytest.mark.parametrize("memory", ["torch", "cupy", "a pool", "cuda.core"])
def test_a_table_that_lives_when_the_interpreter_ends(memory: str) -> None:
    library = {"torch": "torch", "cuda.core": "cuda.core"}.get(memory, "cupy")
    pytest.importorskip(library)
    given = {
        "a pool": "cupy.cuda.MemoryPool()",
        "cuda.core": "__import__('pygpuhash._cuda')._cuda.core().DeviceMemoryResource(0)",
    }.get(memory, repr(memory))
    run(
        f"""
import {library}, numpy as np, pygpuhash as gh
table = gh.Table("linear_probe", key_dtype="int64", value_dtype="int64", device="cuda", memory={given})
keys = np.arange(1 << 16)
table.insert(keys, keys)
array = gh.DeviceArray((1000,), "u8", 0)
print("done")
""",
        "done",
    )


def test_results_that_jax_holds_when_the_interpreter_ends() -> None:
    pytest.importorskip("jax")
    run(
        """
import jax.numpy as jnp, pygpuhash as gh
table = gh.Table("linear_probe", key_dtype="int32", value_dtype="int32", device="cuda")
keys = jnp.arange(1000, dtype="int32")
mask = table.insert(keys, keys)
values, found = table.find(keys)
twice = values + values
print(bool(found.all()))
""",
        "True",
    )
