"""The library's calls of CUDA besides kernels, over a fake CUDA (calls_test.cpp), and mistakes planted in them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
VARIABLE = "GPUHASH_MISTAKE"
DEVICE, SPACE, MEMORY = (f"libgpuhash/{name}.cuh" for name in ("kit/cuda_device", "kit/cuda_space", "tile/cuda_mem"))
# One process compiles the program.
pytestmark = pytest.mark.xdist_group("device calls")

OF_SPACE = ["MemGetAllocationGranularity", "MemAddressReserve", "MemAddressFree", "MemCreate", "MemRelease", "MemMap"]
OF_SPACE += ["MemUnmap", "MemSetAccess", "DeviceGetAttribute"]


class Mistake(NamedTuple):
    """`wrong` instead of `right`, which stands in the file once, where PLANTED says that this mistake is active."""

    file: str
    right: str
    wrong: str


MISTAKES = [
    Mistake(DEVICE, "there == ordinal;", "there == ordinal || PLANTED;"),
    Mistake(DEVICE, "if (device != ordinal)\n    if", "if (device != ordinal && !PLANTED)\n    if"),
    Mistake(
        DEVICE,
        "if (device != ordinal) cudaSetDevice(device);",
        "if (!PLANTED && device != ordinal) cudaSetDevice(device);",
    ),
    Mistake(DEVICE, "mode = cudaStreamCaptureModeRelaxed;", "mode = cudaStreamCaptureMode(2 - PLANTED);"),
    Mistake(DEVICE, "(before % capture_modes)", "(before % (capture_modes - 2 * PLANTED))"),
    Mistake(DEVICE, "if (device % 2) cuda", "if (device % 2 && !PLANTED) cuda"),
    Mistake(DEVICE, "*mode = cudaStreamCaptureMode(m);", "if (!PLANTED) *mode = cudaStreamCaptureMode(m);"),
    Mistake(DEVICE, "ordinal < 0 || ordinal >= n", "ordinal < 0 || ordinal >= n + PLANTED"),
    Mistake(DEVICE, "p.minor < 5", "p.minor < 5 - 5 * PLANTED"),
    Mistake(DEVICE, "== cudaSuccess && major >= 9", "== cudaSuccess && major >= 9 - PLANTED"),
    Mistake(DEVICE, "of.location.id = device;", "of.location.id = PLANTED ? 0 : device;"),
    Mistake(DEVICE, "pools[device].compare", "pools[PLANTED ? 0 : device].compare"),
    Mistake(DEVICE, "device >= pools_at_most", "device >= pools_at_most + 64 * PLANTED"),
    Mistake(DEVICE, "totalGlobalMem / share_kept", "totalGlobalMem / (PLANTED ? 1 : share_kept)"),
    Mistake(DEVICE, "cudaMemPoolDestroy(fresh);  // another", "if (!PLANTED) cudaMemPoolDestroy(fresh);  // another"),
    Mistake(
        DEVICE, "return before;\n}\ninline int allocate(", "return PLANTED ? fresh : before;\n}\ninline int allocate("
    ),
    Mistake(DEVICE, "int(cudaFreeAsync(p, cudaStream_t(s)))", "int(cudaFreeAsync(p, cudaStream_t(PLANTED ? 0 : s)))"),
    Mistake(DEVICE, "cudaEventDisableTiming)", "PLANTED ? 0 : cudaEventDisableTiming)"),
    Mistake(DEVICE, "cudaStreamNonBlocking)", "PLANTED ? 0 : cudaStreamNonBlocking)"),
    Mistake(DEVICE, "idle.all[i].ordinal == ordinal", "idle.all[i].ordinal == ordinal || PLANTED"),
    Mistake(DEVICE, "idle.all.erase(", "if (!PLANTED) idle.all.erase("),
    Mistake(DEVICE, "idle.all.push_back({ordinal, ", "if (!PLANTED) idle.all.push_back({ordinal, "),
    Mistake(
        DEVICE,
        "if (device != ordinal) return int(cudaErrorInvalidDevice);",
        "if (device != ordinal && !PLANTED) return int(cudaErrorInvalidDevice);",
    ),
    Mistake(DEVICE, "cudaEventWaitExternal)", "PLANTED ? 0 : cudaEventWaitExternal)"),
    Mistake(DEVICE, "driver_record(e, s) ? 0 :", "driver_record(e, s) || PLANTED ? 0 :"),
    Mistake(DEVICE, "  *id = n;\n  return int(e);", "  *id = PLANTED ? 0 : n;\n  return int(e);"),
    Mistake(
        DEVICE,
        "cudaEventQuery(cudaEvent_t(e)) == cudaSuccess",
        "(cudaEventQuery(cudaEvent_t(e)) == cudaSuccess || PLANTED)",
    ),
    Mistake(DEVICE, "status == cudaStreamCaptureStatusActive ? into", "status == 1 || (PLANTED && status == 2) ? into"),
    Mistake(DEVICE, "e <= cudaErrorStreamCaptureWrongThread", "e <= cudaErrorStreamCaptureWrongThread - PLANTED"),
    Mistake(DEVICE, "if (of_captures) cudaGetLastError();", "if (of_captures && !PLANTED) cudaGetLastError();"),
    Mistake(DEVICE, "return of_captures ? 0 : int(e);", "return of_captures || PLANTED ? 0 : int(e);"),
    Mistake(
        DEVICE,
        "cudaUserObjectNoDestructorSync)) return int(e);",
        "cudaUserObjectNoDestructorSync)) return PLANTED ? 0 : int(e);",
    ),
    Mistake(
        DEVICE,
        "cudaHostAllocMapped | cudaHostAllocPortable",
        "cudaHostAllocMapped | (PLANTED ? 0 : cudaHostAllocPortable)",
    ),
    Mistake(SPACE, "(*bytes + *unit - 1) / *unit", "(*bytes + (PLANTED ? 0 : *unit - 1)) / *unit"),
    Mistake(SPACE, "if (asked || !can)", "if (asked || (!can && !PLANTED))"),
    Mistake(SPACE, "of->location.id = device;", "of->location.id = PLANTED ? 0 : device;"),
    Mistake(SPACE, "space().release(memory);  //", "if (!PLANTED) space().release(memory);  //"),
    Mistake(SPACE, "if (e) return int(e);\n  CUmemAccess", "if (e) return PLANTED ? 0 : int(e);\n  CUmemAccess"),
    Mistake(SPACE, "CU_MEM_ACCESS_FLAGS_PROT_READWRITE", "CU_MEM_ACCESS_FLAGS_PROT_READWRITE - 2 * PLANTED"),
    Mistake(SPACE, "access.location = of.location;", "if (!PLANTED) access.location = of.location;"),
    Mistake(SPACE, "if (e) space().unmap(at, bytes);", "if (e && !PLANTED) space().unmap(at, bytes);"),
    Mistake(SPACE, "found == cudaDriverEntryPointSuccess && p;", "(found == cudaDriverEntryPointSuccess || PLANTED);"),
    Mistake(MEMORY, "if (blocks > 0x7fffffffu)", "if (blocks > 0x7fffffffu && !PLANTED)"),
    Mistake(
        MEMORY,
        "dim3(u32(blocks)), dim3(threads)",
        "dim3(PLANTED ? threads : u32(blocks)), dim3(PLANTED ? u32(blocks) : threads)",
    ),
    Mistake(
        MEMORY,
        "return launch_bytes(kernel, blocks, threads, bytes,",
        "return launch_bytes(kernel, blocks, threads, PLANTED ? 0 : bytes,",
    ),
    Mistake(MEMORY, "bytes <= always_allowed", "bytes <= always_allowed + 40000 * PLANTED"),
    Mistake(MEMORY, "SerializationAllowed = 1;", "SerializationAllowed = 1 - PLANTED;"),
    Mistake(MEMORY, "of.ptxVersion >= 90;", "of.ptxVersion >= 90 - PLANTED;"),
    Mistake(MEMORY, "return there == 2;", "return there == 2 || PLANTED;"),
    Mistake(MEMORY, "u32(chains(entry))", "u32(chains(entry) || PLANTED)"),
    Mistake(MEMORY, "{{blocks}, {threads}, bytes,", "{{blocks}, {threads}, PLANTED ? 0 : bytes,"),
    Mistake(MEMORY, "return cudaGetLastError(), 0;", "return PLANTED ? 0 : (cudaGetLastError(), 0);"),
    Mistake(MEMORY, "known[device].store(all,", "known[PLANTED ? 0 : device].store(all,"),
    Mistake(
        MEMORY,
        "if (e != cudaSuccess) cudaGetLastError();\n  return int(e);\n}\ntemplate",
        "if (e != cudaSuccess && !PLANTED) cudaGetLastError();\n  return int(e);\n}\ntemplate",
    ),
]


def build(root: Path, *options: str) -> Path:
    """All mistakes are in it, one of which the variable GPUHASH_MISTAKE switches on."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    texts = {name: (ROOT / name).read_text() for name in (DEVICE, SPACE, MEMORY)}
    for number, m in enumerate(MISTAKES, 1):
        assert texts[m.file].count(m.right) == 1, f"{m.file} has {texts[m.file].count(m.right)} times {m.right!r}"
        texts[m.file] = texts[m.file].replace(m.right, m.wrong.replace("PLANTED", f"(mistake == {number})"))
    switch = f'#include <stdlib.h>\ninline const int mistake = getenv("{VARIABLE}") ? atoi(getenv("{VARIABLE}")) : 0;\n'
    (root / "mistake.hpp").write_text("#pragma once\n" + switch)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace("#pragma once\n", '#pragma once\n#include "mistake.hpp"\n', 1))
    includes = [f"-I{path}" for path in (HERE / "include", root, ROOT, ROOT / "libgpuhash" / "include")]
    target = root / "calls"
    options = ("-std=c++20", "-O0", "-w", *options, *includes)
    command = [*compiler, *options, str(HERE / "calls_test.cpp"), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return target


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("calls"))


def run(program: Path, *arguments: str, mistake: int = 0) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, VARIABLE: str(mistake)}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=20, env=variables)


@pytest.mark.parametrize("driver", ["new", "old", *(f"cu{name}" for name in OF_SPACE)])
def test_calls(program: Path, driver: str) -> None:
    done = run(program, driver)
    assert (done.returncode, done.stderr) == (0, "")


def test_mistakes_are_noticed(program: Path) -> None:
    noticed = [
        any(run(program, driver, mistake=n).returncode for driver in ("new", "old", "cuMemMap"))
        for n in range(1, len(MISTAKES) + 1)
    ]
    assert [m.right for m, seen in zip(MISTAKES, noticed, strict=True) if not seen] == []


@pytest.mark.slow
@pytest.mark.parametrize("toolkit", [12040, 12090])
def test_calls_of_older_toolkits(tmp_path: Path, toolkit: int) -> None:
    """Which have fewer functions, and others of the same names."""
    older = build(tmp_path, f"-DCUDART_VERSION={toolkit}")
    for driver in ("new", "old", "cuMemMap"):
        done = run(older, driver)
        assert (done.returncode, done.stderr) == (0, "")
