"""The end of the interpreter: tables and results that are still alive then are silent."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def run(program: str) -> None:
    """The program's own prints are all that it says."""
    command = [sys.executable, "-P", "-c", program, str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "made\n", "")


LENDER = """
import sys, types
import numpy as np

sys.modules["gone"] = types.ModuleType("gone")

class Memory:
    blocks = {}
    def allocate(self, nbytes, alignment, stream):
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.blocks[address] = array
        return address
    def deallocate(self, address, nbytes, alignment, stream):
        sys.modules["gone"]
        del self.blocks[address]
"""


def test_a_table_whose_memory_is_of_a_library_that_is_gone(backend, tmp_path):
    """Modules are cleared before what a table holds: what would give its memory back finds nothing."""
    (tmp_path / "lender.py").write_text(LENDER)
    run(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import lender
import pygpuhash as gh
t = gh.Table({backend!r}, device="cpu", memory=lender.Memory())
t.insert(range(1000), 1)
del sys.modules["gone"]
print("made")
""")


def test_memory_is_given_back_until_the_end():
    """Also by what a program has registered for its end."""
    run("""
import atexit
import numpy as np
import pygpuhash as gh

class Memory:
    blocks = {}
    def allocate(self, nbytes, alignment, stream):
        array = np.empty(nbytes + alignment, np.uint8)
        address = -(-array.ctypes.data // alignment) * alignment
        self.blocks[address] = array
        return address
    def deallocate(self, address, nbytes, alignment, stream):
        del self.blocks[address]

t = gh.Table("linear_probe", device="cpu", memory=Memory())
assert Memory.blocks

@atexit.register
def last():
    t.close()
    if not Memory.blocks:
        print("made")
""")


def test_an_array_that_another_library_holds_until_the_process_ends():
    """As JAX does, whose runtime lets go of it when Python is no longer there."""
    run("""
import ctypes, sys
import numpy as np
from pygpuhash import _core

class Owner:
    def __del__(self):
        print("an owner has ended")

array = np.arange(3)
capsule = _core.dlpack_write(Owner(), array.ctypes.data, (3,), 0, 64, 1, 0)
read = ctypes.pythonapi.PyCapsule_GetPointer
read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
managed = read(capsule, b"dltensor")
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
rename(capsule, b"used_dltensor")
# struct: data, (kind, id), ndim and dtype, shape, strides, byte_offset; context, deleter
deleter = ctypes.cast(managed, ctypes.POINTER(ctypes.c_void_p))[7]
ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(managed), None)
print("made", flush=True)
""")


@pytest.mark.parametrize("what", ["array", "staging"])
def test_what_cuda_core_holds_is_not_given_back_by_an_interpreter_that_ends(what):
    """The streams on which it would be done may be gone."""
    run(f"""
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import pytest, fake_cuda
patch = pytest.MonkeyPatch()
cuda = fake_cuda.install(patch)
from pygpuhash import _core, _cuda, _host

class Freed(list):
    def append(self, what, say=print):
        say("freed", what)

if {what!r} == "array":
    kept = _cuda.from_host(np.arange(3), 0)
else:
    with _cuda.current(0):
        kept = _host._take(0, 2, 1000)
cuda.freed = Freed()
print("made", flush=True)
""")
