"""What is said of memory orders reaches the processor.

x86 orders loads and stores more than is asked for, and emulated processors run on it, so that no run there shows an
acquire or a release that was lost between the structures and the compiler. AArch64 has instructions of their own for
them, which a cross compiler's output shows.
"""

import re
import shutil
import subprocess

import pytest
from cpp_sources import ROOT

COMPILER = "aarch64-linux-gnu-g++"
PROGRAM = """
#define GPUHASH_ISA orders
#include "libgpuhash/tile/host.hpp"
#include "plugins/skiplist/ops.hpp"
using namespace gpuhash;
using namespace gpuhash::orders;
using chunk = locked_chunk<host_mem, skip_table<pair32>>;
extern "C" {
void unlock(const chunk& c) { c.unlock(); }
void unlock_unchanged(const chunk& c) { c.unlock_unchanged(); }
"""
FUNCTIONS = {
    "load": "u64 load_{order}(u64* p) {{ return host_mem::load<order::{order}>(p); }}",
    "store": "void store_{order}(u64* p, u64 v) {{ host_mem::store<order::{order}>(p, v); }}",
    "cas": "u64 cas_{order}(u64* p, u64 v, u64 w) {{ return host_mem::cas<order::{order}>(p, v, w); }}",
    "exchange": "u64 exchange_{order}(u64* p, u64 v) {{ return host_mem::exchange<order::{order}>(p, v); }}",
    "fetch_add": "u64 fetch_add_{order}(u64* p, u64 v) {{ return host_mem::fetch_add<order::{order}>(p, v); }}",
    "fetch_or": "u64 fetch_or_{order}(u64* p, u64 v) {{ return host_mem::fetch_or<order::{order}>(p, v); }}",
    "fetch_and": "u64 fetch_and_{order}(u64* p, u64 v) {{ return host_mem::fetch_and<order::{order}>(p, v); }}",
}
ORDERS = {"load": ["relaxed", "acquire"], "store": ["relaxed", "release"]}
ALL = ["relaxed", "acquire", "release", "acq_rel"]
CASES = [(name, order) for name in FUNCTIONS for order in ORDERS.get(name, ALL)]


@pytest.fixture(scope="module")
def bodies() -> dict[str, str]:
    """The instructions of each function."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"there is no {COMPILER}: install Debian's g++-aarch64-linux-gnu")
    program = PROGRAM + "\n".join(FUNCTIONS[name].format(order=order) for name, order in CASES) + "\n}\n"
    flags = ["-std=c++20", "-O2", "-march=armv8-a", "-mno-outline-atomics", f"-I{ROOT}", f"-I{ROOT}/libgpuhash/include"]
    command = [COMPILER, *flags, "-x", "c++", "-S", "-o", "-", "-"]
    made = subprocess.run(command, input=program, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^(\w+):\n(.*?)^\t\.size\t\1,", made, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(("name", "order"), CASES, ids=["-".join(case) for case in CASES])
def test_an_access_has_its_order(bodies: dict[str, str], name: str, order: str) -> None:
    """Loads are ldar or ldaxr where they acquire, stores stlr or stlxr where they release, and only there."""
    body = bodies[f"{name}_{order}"]
    acquires, releases = re.search(r"\tlda\w*\t", body), re.search(r"\tstl\w*\t", body)
    assert bool(acquires) == (order in ("acquire", "acq_rel")), body
    assert bool(releases) == (order in ("release", "acq_rel")), body


@pytest.mark.parametrize("name", ["unlock", "unlock_unchanged"])
def test_a_chunk_is_unlocked_behind_a_fence(bodies: dict[str, str], name: str) -> None:
    """Its store is relaxed. The explorer sees stores that pass it, and no loads, which here may do so, too."""
    accesses = re.findall(r"\t(dmb|st\w+)\t", bodies[name])
    assert accesses == ["dmb", "str"], bodies[name]
