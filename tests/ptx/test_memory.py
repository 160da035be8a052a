"""The accesses of tile/cuda_mem.cuh: which instruction each one is, of which order, scope, width and operands.

Nothing but a GPU runs them, so each is compiled in a kernel of its own, and compared with what its name says.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import pytest

from . import lint

# One process compiles them, for all.
pytestmark = pytest.mark.xdist_group("accesses")

SOURCE = lint.ROOT / "libgpuhash" / "tile" / "cuda_mem.cuh"
TYPES = {"u32": 32, "u64": 64, "u128": 128}
# Of each kind of memory: who sees what is written, and where it lies.
PLACES = {"cuda_mem": ("gpu", "global"), "mapped_mem": ("sys", "global"), "block_mem": ("cta", "shared")}


@dataclass(frozen=True)
class Case:
    """A kernel, and the statement that it has to be: p0, p1 ... are parameters, r0, r1 ... what it writes to `out`."""

    name: str
    parameters: str
    body: str
    expected: str


def atom(operation: str, order: str, memory: str, type_: str) -> str:
    return f"atom.{order}.{'.'.join(PLACES[memory])}.{operation}.{type_}"


def access(operation: str, order: str, memory: str, type_: str) -> str:
    return f"{operation}.{order}.{'.'.join(PLACES[memory])}.{type_}"


def cases() -> list[Case]:
    """All that the sources call."""
    found = []

    def case(name: str, parameters: str, body: str, expected: str) -> None:
        found.append(Case(re.sub(r"\W+", "_", name), parameters, body, expected))

    def load(m: str, order: str, t: str) -> None:
        wide = f"{{.reg .b128 x; {access('ld', order, m, 'b128')} x,[p0]; mov.b128 {{r0,r1}},x;}}"
        plain = f"{access('ld', order, m, t)} r0,[p0];"
        case(
            f"{m} load {order} {t}",
            f"const {t}* p0, {t}* out",
            f"*out = {m}::load<order::{order}>(p0);",
            wide if t == "u128" else plain,
        )

    def store(m: str, order: str, t: str) -> None:
        value = {"u128": "{p1,p1+8}"}.get(t, "p1")
        narrow = f"{access('st', order, m, t)} [p0],{value};"
        wide = f"{{.reg .b128 x; mov.b128 x,{value}; {access('st', order, m, 'b128')} [p0],x;}}"
        if m == "block_mem" and t == "u128":
            wide = f"{access('st', order, m, 'v2.u64')} [p0],{value};"
        case(
            f"{m} store {order} {t}",
            f"{t}* p0, {t} p1",
            f"{m}::store<order::{order}>(p0, p1);",
            wide if t == "u128" else narrow,
        )

    def cas(m: str, order: str, t: str, instruction: str = "") -> None:
        name = instruction or atom("cas", order, m, f"b{TYPES[t]}")
        wide = (
            "{.reg .b128 e,d,r; mov.b128 e,{p1,p1+8}; mov.b128 d,{p2,p2+8}; "
            f"{name} r,[p0],e,d; mov.b128 {{r0,r1}},r;}}"
        )
        case(
            f"{m} cas {order} {t}",
            f"{t}* p0, {t} p1, {t} p2, {t}* out",
            f"*out = {m}::cas<order::{order}>(p0, p1, p2);",
            wide if t == "u128" else f"{name} r0,[p0],p1,p2;",
        )

    def fetch(m: str, what: str, order: str, t: str) -> None:
        type_ = t if what == "add" else f"b{TYPES[t]}"
        case(
            f"{m} fetch {what} {order} {t}",
            f"{t}* p0, {t} p1, {t}* out",
            f"*out = {m}::fetch_{what}<order::{order}>(p0, p1);",
            f"{atom(what, order, m, type_)} r0,[p0],p1;",
        )

    def several(name: str, m: str, t: str, n: int, instruction: str) -> None:
        registers = ",".join(f"r{i}" for i in range(n))
        case(
            f"{m} {name} {t}",
            f"const {t}* p0, {t}* out",
            f"{m}::{name}(p0, out);",
            f"{instruction} {{{registers}}},[p0];",
        )

    def rows(name: str, m: str, t: str, n: int) -> None:
        values = ",".join(f"*p1+{i * TYPES[t] // 8}" if i else "*p1" for i in range(n))
        case(
            f"{m} {name} {t}",
            f"{t}* p0, const {t}* p1",
            f"{m}::{name}(p0, p1);",
            f"{access('st', 'relaxed', m, f'v{n}.{t}')} [p0],{{{values}}};",
        )

    for t in TYPES:
        for order in ("relaxed", "acquire"):
            load("cuda_mem", order, t)
        load("block_mem", "relaxed", t)
        store("cuda_mem", "relaxed", t)
        store("block_mem", "relaxed", t)
        for order in ("relaxed", "acq_rel"):
            cas("cuda_mem", order, t)
        cas("block_mem", "relaxed", t)
    for t in ("u32", "u64"):
        store("cuda_mem", "release", t)
        load("mapped_mem", "relaxed", t)
        store("mapped_mem", "relaxed", t)
        fetch("cuda_mem", "add", "relaxed", t)
        for what, order in itertools.product(("or", "and"), ("relaxed", "acq_rel")):
            fetch("cuda_mem", what, order, t)
    fetch("cuda_mem", "and", "acquire", "u32")
    load("mapped_mem", "acquire", "u64")
    store("mapped_mem", "release", "u32")
    cas("mapped_mem", "acq_rel", "u32")
    cas("mapped_mem", "relaxed", "u64", atom("cas", "relaxed", "cuda_mem", "b64"))  # of tickets, in the device's memory
    fetch("mapped_mem", "or", "release", "u64")

    for m in ("cuda_mem", "block_mem"):
        for weak in ("false", "true") if m == "cuda_mem" else ("false",):
            strong = "ld.global" if weak == "true" else f"ld.relaxed.{'.'.join(PLACES[m])}"
            several(f"load_two<{weak}>", m, "u64", 2, f"{strong}.v2.u64")
            several(f"load_four<{weak}>", m, "u32", 4, f"{strong}.v4.u32")
        rows("store_row", m, "u32", 4)
        rows("store_row", m, "u64", 2)
    several("acquire_two", "cuda_mem", "u64", 2, "ld.acquire.gpu.global.v2.u64")
    several("acquire_four", "cuda_mem", "u32", 4, "ld.acquire.gpu.global.v4.u32")
    several("near_16", "cuda_mem", "u64", 2, "ld.relaxed.cta.global.v2.u64")
    wide = "{.reg .b128 x; ld.relaxed.cta.global.b128 x,[p0]; mov.b128 {r0,r1},x;}"
    case("cuda_mem near_16 u128", "const u128* p0, u128* out", "cuda_mem::near_16(p0, out);", wide)
    case(
        "cuda_mem store_row u128",
        "u128* p0, const u128* p1",
        "cuda_mem::store_row(p0, p1);",
        "{.reg .b128 x; mov.b128 x,{*p1,*p1+8}; st.relaxed.gpu.global.b128 [p0],x;}",
    )
    case(
        "block_mem store_row u128",
        "u128* p0, const u128* p1",
        "block_mem::store_row(p0, p1);",
        "st.relaxed.cta.shared.v2.u64 [p0],{*p1,*p1+8};",
    )
    for t, n in (("u32", 2), ("u64", 2), ("u32", 4)):
        words = "two" if n == 2 else "four"
        several(f"load_{words}", "mapped_mem", t, n, f"ld.relaxed.sys.global.v{n}.{t}")
        rows(f"store_{words}", "mapped_mem", t, n)

    # Values lie above the key. A sum that leaves its half leaves the key alone.
    add = "cuda_mem::add_value"
    case(
        "add pair32", "u64* p0, u32 p1", f"{add}<pair32>(p0, p1, false);", "red.relaxed.gpu.global.add.u64 [p0],p1<<32;"
    )
    case(
        "add pair64", "u128* p0, u64 p1", f"{add}<pair64>(p0, p1, false);", "red.relaxed.gpu.global.add.u64 [p0+8],p1;"
    )
    case("add narrow", "u128* p0, u64 p1", f"{add}<pair64>(p0, p1, true);", "red.relaxed.gpu.global.add.u32 [p0+8],p1;")
    case("add set", "u32* p0, u32 p1", f"{add}<set32>(p0, p1, false);", "")
    add = "block_mem::add_value"
    case(
        "block add pair32",
        "u64* p0, u32 p1",
        f"{add}<pair32>(p0, p1, false);",
        "red.relaxed.cta.shared.add.u32 [p0+4],p1;",
    )
    case(
        "block add narrow",
        "u128* p0, u64 p1",
        f"{add}<pair64>(p0, p1, true);",
        "red.relaxed.cta.shared.add.u32 [p0+8],p1;",
    )
    case("fence", "int p0", "cuda_mem::fence();", "fence.acq_rel.gpu;")
    return found


CASES = cases()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The statements of each case's kernel."""
    try:
        nvcc = lint.find_nvcc()
    except lint.NoCompilerError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("memory")
    head = '#include "libgpuhash/tile/cuda_mem.cuh"\nusing namespace gpuhash;\n'
    head += 'extern "C" __global__ void place_of(const u32* p0, u32* out) { *out = block_mem::place(p0); }\n'
    head += 'extern "C" __global__ void add_8(u128* p0, u64 p1) { block_mem::add_value<pair64>(p0, p1, false); }\n'
    body = "".join(f'extern "C" __global__ void {c.name}({c.parameters}) {{ {c.body} }}\n' for c in CASES)
    (folder / "memory.cu").write_text(head + body)
    flags = ["-std=c++20", "-O3", "--expt-relaxed-constexpr", f"-I{lint.ROOT}", f"-I{lint.ROOT}/libgpuhash/include"]
    flags += ["-gencode=arch=compute_90,code=compute_90", "-ptx", "-o", folder / "memory.ptx"]
    lint.run(nvcc, *flags, folder / "memory.cu")
    ptx = re.sub(r"//[^\n]*", "", (folder / "memory.ptx").read_text())
    texts = re.split(r"\.visible \.entry ", ptx)[1:]
    return {text.partition("(")[0].strip(): lines_of(text.partition("{")[2]) for text in texts}


def lines_of(body: str) -> list[str]:
    """Statements; what stands in braces on one line is one."""
    lines = [re.sub(r"\s+", " ", line.strip()) for line in body.splitlines()]
    return [line for line in lines if line and line not in ("ret;", "}", "{") and not line.startswith(".reg")]


def named(lines: list[str]) -> tuple[list[str], list[str]]:
    """The accesses of a kernel with parameters in place of registers, and the registers that it stores, in order."""
    name: dict[str, str] = {}
    accesses, stored = [], []

    def rename(text: str) -> str:
        return re.sub(r"%[a-z]+\d*", lambda r: name.get(r[0], r[0]), text)

    for line in lines:
        if m := re.match(r"ld\.param\.\S+ (%\w+), \[\w+_param_(\d+)(\+\d+)?\];", line):
            name[m[1]] = f"p{m[2]}{m[3] or ''}"
        elif m := re.match(r"ld\.param\.v2\.u64 {(%\w+), (%\w+)}, \[\w+_param_(\d+)\];", line):
            name[m[1]], name[m[2]] = f"p{m[3]}", f"p{m[3]}+8"
        elif m := re.match(r"ld\.global\.(?:v(\d)\.)?[ub](\d+) {?([^}\[]*)}?, \[(%\w+)(\+\d+)?\];", line):
            if name.get(m[4], "p0") == "p0":
                accesses.append(rename(line))
                continue
            for i, register in enumerate(m[3].strip(" ,").split(", ")):
                at = int(m[5] or 0) + i * int(m[2]) // 8
                name[register] = f"*{name[m[4]]}" + (f"+{at}" if at else "")
        elif m := re.match(r"st\.global\.\S+ \[%\w+(?:\+\d+)?\], {?([^}]*)}?;", line):
            stored += m[1].split(", ")
        elif m := re.match(r"(?:cvta\.to\.\w+\.u64|mov\.[bu]\d+|cvt\.u32\.u64|cvt\.u64\.u32) (%\w+), (%\w+);", line):
            name[m[1]] = rename(m[2])
        elif m := re.match(r"(?:shr\.u32|and\.b32) (%\w+), (%\w+), \d+;", line):
            name[m[1]] = "permuted"  # what place() adds to an address; see test_rows_of_a_block_are_permuted
        elif m := re.match(r"xor\.b32 (%\w+), (%\w+), (%\w+);", line):
            (name[m[1]],) = {rename(m[2]), rename(m[3])} - {"permuted"}
        elif m := re.match(r"add\.s(?:32|64) (%\w+), (%\w+), (\d+);", line):
            name[m[1]] = f"{rename(m[2])}+{m[3]}"
        elif m := re.match(r"shl\.b64 (%\w+), (%\w+), (\d+);", line):
            name[m[1]] = f"{rename(m[2])}<<{m[3]}"
        elif not line.startswith("{ .reg .b64 %tmp"):
            accesses.append(rename(line))
    return accesses, stored


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_access(kernels, case: Case) -> None:
    accesses, stored = named(kernels[case.name])
    places = {register: f"r{i}" for i, register in enumerate(stored)}
    found = [re.sub(r"%[a-z]+\d+", lambda r: places.get(r[0], r[0]), line) for line in accesses]
    assert found == ([case.expected] if case.expected else [])


def sum_in_block(lines: list[str], before: int, value: int) -> int:
    """What a kernel that adds `value` to the upper half of a slot makes of `before` there, by its own instructions."""
    slot = 1 << 10  # place() leaves it there
    memory = {slot + 8: before % 2**32, slot + 12: before >> 32}
    register: dict[str, int] = {"%tmp": slot}
    does = {
        "shr": lambda x, by: x >> by,
        "and": lambda x, y: x & y,
        "xor": lambda x, y: x ^ y,
        "add": lambda x, y: (x + y) % 2**32,
        "setp.lt.u32": lambda x, y: x < y,
        "setp.eq.s32": lambda x, y: x == y,
        "selp": lambda x, y, which: x if which else y,
        "cvt.u32.u64": lambda x: x % 2**32,
        "atom.relaxed.cta.shared.add.u32": lambda at, _: memory[at],
    }
    skips = False
    for line in lines:
        operation, _, rest = line.partition(" ")
        if skips or not operation.startswith(("$", "{", "cvta", "@", "ld.param", "red", *does)):
            assert skips, f"an instruction that is not known here: {line}"
            skips = not line.endswith(":")
            continue
        names = re.findall(r"%\w+|\b\d+\b", rest)
        operands = [int(x) if x.isdigit() else register.get(x, 0) for x in names]
        if operation.startswith("ld.param"):
            register[names[0]] = value if "_param_1]" in rest else slot
        elif operation.startswith("@"):
            skips = bool(register[operation[1:]])
        elif operation.startswith(tuple(does)):
            register[names[0]] = next(f for name, f in does.items() if operation.startswith(name))(*operands[1:])
        if ".shared.add." in operation:
            at, more = operands[-2:]
            memory[at] = (memory[at] + more) % 2**32
    return memory[slot + 12] << 32 | memory[slot + 8]


def test_a_block_adds_8_bytes_by_halves(kernels) -> None:
    """Shared memory adds 4 bytes by one instruction, and 8 bytes by a loop."""
    lines = kernels["add_8"]
    assert not re.search(r"shared\S*64", "\n".join(lines).replace("cvta.to.shared.u64", ""))
    some = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1, 0x89ABCDEF_01234567, 0x76543210_FEDCBA99]
    for before in some:
        for value in some:
            assert sum_in_block(lines, before, value) == (before + value) % 2**64, (before, value)


def permuted(lines: list[str], address: int) -> int:
    """What place() makes of an address, by its own instructions."""
    register: dict[str, int] = {"%tmp": address}
    for line in lines:
        operation, _, rest = line.partition(" ")
        operands = rest.strip("; }").split(", ")
        values = [register.get(o, int(o) if o.isdigit() else 0) for o in operands[1:]]
        if operation == "cvt.u32.u64":
            register[operands[0]] = values[0]
        elif operation == "shr.u32":
            register[operands[0]] = values[0] >> values[1]
        elif operation == "and.b32":
            register[operands[0]] = values[0] & values[1]
        elif operation == "xor.b32":
            register[operands[0]] = values[0] ^ values[1]
        elif operation == "st.global.u32":
            return register[operands[1]]
    raise AssertionError("it stores nothing")


def test_rows_of_a_block_are_permuted(kernels) -> None:
    """Each in itself, by 16 bytes at a time; and those that begin eight successive rows lie in different banks."""
    lines = kernels["place_of"]
    at = [permuted(lines, address) for address in range(1 << 13)]
    assert sorted(at) == list(range(1 << 13))
    assert all(to >> 7 == i >> 7 and to % 16 == i % 16 for i, to in enumerate(at))
    for row in range(0, 1 << 13, 1024):
        for first in range(0, 128, 16):
            assert len({at[row + first + 128 * i] % 128 for i in range(8)}) == 8


def test_no_access_is_left_out_moved_or_merged() -> None:
    """The compiler may do so with what is neither volatile nor said to change memory."""
    source = SOURCE.read_text()
    statements = re.findall(r"\basm\b.*?\);", source, re.S)
    assert len(statements) > 60
    assert [s for s in statements if not re.match(r"asm volatile\(", s) or not re.search(r':\s*"memory"\);$', s)] == []
