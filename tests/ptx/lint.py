"""Lint of the CUDA kernels' machine-independent code: how they touch table memory, and what ptxas says of them.

    python tests/ptx/lint.py [PLUGIN...] [--arch 90] [--jobs 2]

The rules, for every kernel of every plugin:

1. Table memory is accessed by `ld.relaxed` and stronger, `st.relaxed` and stronger, and atomics. Weak accesses of it
   are for kernels that run while no batch writes: those whose tile says so (cuda_tile<..., true>), and they only load.
2. Whatever is reached through one pointer of a table is accessed in one size. But `red` may add to half of a slot of 16
   bytes, where the other half stays as it is (request::keys_stay).
3. No access is `.nc`, or to memory whose origin is unknown; nothing is called.
   Kernels of CUB, which sort and sum the arrays of a rebuild, are left out.
4. No kernel has a stack frame or spills, but those that allowances.json names, up to the bytes it names.
5. Over a bus a lane releases what the lanes of its warp have written, and they read what it has acquired: votes and
   shuffles order no memory, so a `bar.warp.sync` is between these, in the order of the text. Kernels that collect run
   while no batch writes.

What is table memory follows from where an address comes from. The kernels take their table as a struct by value, and
everything that belongs to a batch by plain pointers: parameters, or fields of `request` and its like, whose offsets the
host compiler tells. A small data flow follows these pointers through the registers. A pointer survives what address
arithmetic is made of (mov, cvta, add, sub, or, selp, shfl, the addend of mad, splitting into halves and joining them)
and ends in anything else: a hash, or an index that is scaled, is no pointer. What is loaded from memory is no pointer
either, so an address that is computed from it alone has no origin, and rule 3 refuses it. All paths through a kernel
count at once, which can only add origins. An access is of the batch when all its origins are; otherwise it is of the
table. What this relies on: no address is the sum of two pointers.

Exit status: 0 when all rules hold, 1 when one is broken, 2 when there is no compiler.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOWANCES = Path(__file__).with_name("allowances.json")
CACHE = ROOT / "build" / "ptx"

# Fields of these structs that are pointers into the memory of a batch.
REQUEST_POINTERS = {
    "request": ("n_there", "keys", "values", "out_values", "status", "ops", "batch_sum", "unless"),
    "ordered_request": ("low", "high", "out_keys", "out_values", "found", "counts", "offsets", "sums"),
    "batch_arrays": ("keys", "element", "fresh", "before", "found", "old_keys"),
}
# All that these point to belongs to a batch.
WORK = {"bulk_work", "range_parts", "new_parts"}
# The pointers of each, by the size of the struct.
Layout = dict[int, frozenset[int]]


class NoCompilerError(Exception):
    """There is no nvcc."""


# ---- compiling -------------------------------------------------------------------------------------------------------


def find_nvcc() -> Path:
    """nvcc of PATH, of /usr/local/cuda, or of the toolkit of the package index, here or in the build folder."""
    on_path = shutil.which("nvcc")
    wheels = [Path(entry) / "nvidia" for entry in sys.path] + [ROOT / "build" / "cuda-toolkit-13.0" / "nvidia"]
    places = [Path("/usr/local/cuda/bin/nvcc"), *(w / "cu13" / "bin" / "nvcc" for w in wheels)]
    found = next((p for p in ([Path(on_path)] if on_path else []) + places if p.exists()), None)
    if found is None:
        raise NoCompilerError("there is no nvcc on PATH, in /usr/local/cuda or in this Python environment")
    return found


def run(*command: object) -> str:
    """Output and diagnostics of a command that has to succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Resources:
    """What ptxas says of one kernel."""

    registers: int
    stack: int
    spills: int


@dataclass(frozen=True)
class Compiled:
    """A plugin's kernels: PTX, and what the machine code made of it uses, by the kernel's mangled name."""

    ptx: str
    resources: dict[str, Resources]


def ptx_of_the_build(source: Path, arch: str, files: list[Path]) -> Path | None:
    """What the package's build has made of a plugin, for this architecture alone and after every change of `files`."""
    recipes = [*ROOT.glob("meson.build"), *ROOT.glob("plugins/meson.build")]
    changed = max(file.stat().st_mtime for file in [*files, *recipes])
    for kept in ROOT.glob(f"build/meson-*-cuda/plugins/gpuhash_{source.parent.name}.so.p/{source.stem}.ptx"):
        settings = kept.parents[2] / "gpuhash-settings"
        if (
            kept.stat().st_mtime > changed
            and kept.with_suffix(".cubin").exists()
            and f"-Dgpu_archs={arch}" in settings.read_text().splitlines()
        ):
            return kept
    return None


def compile_plugin(source: Path, arch: str, nvcc: Path) -> Compiled:
    """PTX and report; kept in the build folder for as long as no source changes."""
    digest = hashlib.sha256(f"{arch}{run(nvcc, '--version')}".encode())
    files = sorted([*ROOT.glob("libgpuhash/**/*"), *source.parent.glob("*")])
    files = [file for file in files if file.suffix in {".h", ".hpp", ".cuh", ".cu"}]
    for file in files:
        digest.update(file.read_bytes())
    kept = CACHE / f"{source.parent.name}-{digest.hexdigest()[:16]}"
    ptx, report = kept.with_suffix(".ptx"), kept.with_suffix(".txt")
    if not report.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob(f"{source.parent.name}-*"):
            old.unlink()
        if built := ptx_of_the_build(source, arch, files):
            return Compiled(built.read_text(), resources_of_machine_code(built.with_suffix(".cubin").read_bytes()))
        else:
            flags = ["-std=c++20", "--expt-relaxed-constexpr", "-O3", "-DNDEBUG", "-DGPUHASH_WITH_CUDA=1"]
            flags += [f"-I{ROOT}", f"-I{ROOT / 'libgpuhash' / 'include'}", f"-I{source.parent}"]
            run(nvcc, *flags, f"-gencode=arch=compute_{arch},code=compute_{arch}", "-ptx", source, "-o", ptx)
        ptxas = nvcc.with_name("ptxas")
        report.write_text(run(ptxas, "--verbose", f"--gpu-name=sm_{arch}", ptx, "-o", os.devnull))
    return Compiled(ptx.read_text(), resources_of(report.read_text()))


def request_layout() -> Layout:
    """The offsets of the requests' pointers, as the host compiler lays them out."""
    program = '#include <stdio.h>\n#include "libgpuhash/kit/engine.hpp"\n#include "libgpuhash/kit/ordered.hpp"\n'
    program += "int main() {\n"
    for one, names in REQUEST_POINTERS.items():
        program += f'  printf("%zu", sizeof(gpuhash::{one}));\n'
        program += "".join(f'  printf(" %zu", offsetof(gpuhash::{one}, {name}));\n' for name in names)
        program += '  printf("\\n");\n'
    program += "}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "layout.cpp", Path(folder) / "layout"
        source.write_text(program)
        run(
            "c++",
            "-std=c++20",
            "-Wno-invalid-offsetof",
            f"-I{ROOT}",
            f"-I{ROOT}/libgpuhash/include",
            source,
            "-o",
            binary,
        )
        rows = [list(map(int, line.split())) for line in run(binary).splitlines()]
    layout = {size: frozenset(offsets) for size, *offsets in rows}
    assert len(layout) == len(REQUEST_POINTERS), "two requests of one size cannot be told apart"
    return layout


def demangle(names: list[str]) -> dict[str, str]:
    """Names as C++ spells them."""
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return {name: name for name in names}
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines(), strict=True))


def parameter_types(function: str) -> list[str]:
    """The types of a function's parameters, from its name as C++ spells it; none if it has no parameters."""
    found, depth, end = [], 0, len(function) - 1
    for at in range(end, -1, -1):
        depth += (function[at] in ")>") - (function[at] in "(<")
        if depth == 0 or (depth == 1 and function[at] == ","):
            found.append(function[at + 1 : end].strip())
            end = at
        if depth == 0:
            break
    return found[::-1] if function.endswith(")") else []


# ---- reading PTX -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Origin:
    """Where a pointer comes from: a parameter of the kernel, and for structs the offset of the field.

    `inside`: this is the address of the parameter itself, at that offset, rather than what lies there.
    """

    parameter: int
    offset: int
    inside: bool = False


@dataclass
class Kernel:
    """One kernel: the sizes of its struct parameters (0 for plain ones), all their types, and its instructions."""

    name: str
    sizes: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)  # where they are known
    body: list[str] = field(default_factory=list)


ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)", re.M)
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+[\w$]+?_param_\d+(?:\[(\d+)\])?")
REGISTER = re.compile(r"%[a-z]+\d+")
SYMBOL = re.compile(r"[\w$]+_param_(\d+)")


def kernels_of(ptx: str) -> list[Kernel]:
    """All kernels of a PTX file. Raises ValueError at a function that is not a kernel."""
    if re.search(r"^\s*(?:\.visible\s+|\.weak\s+)*\.func\b", ptx, re.M):
        raise ValueError("the PTX has a function that is not inlined; the data flow ends at calls")
    starts = [*(m.start() for m in ENTRY.finditer(ptx)), len(ptx)]
    found = []
    for start, end in itertools.pairwise(starts):
        text = ptx[start:end]
        head, _, body = text.partition("{")
        kernel = Kernel(ENTRY.search(text)[1])  # type: ignore[index]
        kernel.sizes = [int(size or 0) for _, size in PARAMETER.findall(head)]
        body = re.sub(r"//[^\n]*", "", body)
        # Braces of scopes of inline assembly go; braces of vectors have a register before or after them.
        for line in body.split(";"):
            statement = re.sub(r"^(?:\s|[{}]|\$?[\w$]+:)*", "", line).strip()
            if statement and not statement.startswith("."):
                kernel.body.append(re.sub(r"^@!?%?\w+\s+", "", statement))
            elif statement.startswith(".reg") and "}" in statement:
                kernel.body.append(statement.partition("}")[2].strip())
        found.append(kernel)
    return found


def split_operands(text: str) -> list[str]:
    """Operands at the outermost commas."""
    out, depth, at = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[{") - (c in "]}")
        if c == "," and depth == 0:
            out.append(text[at:i].strip())
            at = i + 1
    return [*out, text[at:].strip()]


# Instructions through which a pointer survives, and the operands that may carry it. The first operand is the result.
CARRIERS = {
    "mov": (1,), "cvta": (1,), "add": (1, 2), "sub": (1,), "or": (1, 2), "selp": (1, 2), "shfl": (1,), "mad": (3,),
}  # fmt: skip


class Flow:
    """The origins of every register of a kernel, over all paths at once."""

    def __init__(self, kernel: Kernel, layout: Layout) -> None:
        self.kernel, self.layout = kernel, layout
        self.origins: dict[str, frozenset[Origin]] = defaultdict(frozenset)
        changed = True
        while changed:
            changed = False
            for statement in kernel.body:
                for register, found in self.results(statement):
                    if not found <= self.origins[register]:
                        self.origins[register] |= found
                        changed = True

    def results(self, statement: str) -> list[tuple[str, frozenset[Origin]]]:
        """(register, origins) of what a statement computes."""
        opcode, _, rest = statement.partition(" ")
        base, operands = opcode.split(".")[0], split_operands(rest.strip())
        registers = REGISTER.findall(operands[0]) if operands else []
        if opcode.startswith("ld.param"):
            wide = re.search(r"\.[busf]64$", opcode) is not None
            found = self.loaded(operands[1]) if wide else frozenset()
            return [(register, found) for register in registers]
        if base not in CARRIERS:
            return []
        found = frozenset[Origin]()
        for i in CARRIERS[base]:
            if i < len(operands):
                found |= self.of(operands[i])
        if base == "add" and found and (shift := re.fullmatch(r"-?\d+", operands[2])):
            found = frozenset(Origin(o.parameter, o.offset + int(shift[0]), True) if o.inside else o for o in found)
        return [(register.partition("|")[0], found) for register in registers]

    def of(self, operand: str) -> frozenset[Origin]:
        """Origins of an operand: registers, or the address of a parameter."""
        found = frozenset[Origin]().union(*(self.origins[r] for r in REGISTER.findall(operand)))
        if symbol := SYMBOL.search(operand):
            found |= {Origin(int(symbol[1]), 0, True)}
        return found

    def loaded(self, address: str) -> frozenset[Origin]:
        """Origins of what a load of a parameter yields: itself, where it may be a pointer."""
        shift = re.search(r"\+(-?\d+)\]", address)
        found = set()
        for origin in self.of(address):
            if not origin.inside:
                continue
            at = Origin(origin.parameter, origin.offset + (int(shift[1]) if shift else 0))
            if not self.is_request(at) or at.offset in self.layout[self.kernel.sizes[at.parameter]]:
                found.add(at)
        return frozenset(found)

    def is_request(self, o: Origin) -> bool:
        """Is this a field of the request? Where types are not known their sizes tell."""
        types = self.kernel.types
        named = not types or types[o.parameter].rpartition("::")[2] in REQUEST_POINTERS
        return named and self.kernel.sizes[o.parameter] in self.layout

    def of_batch(self, o: Origin) -> bool:
        """Does the pointer lead into the memory of a batch?"""
        types = self.kernel.types
        work = bool(types) and types[o.parameter].partition("<")[0].rpartition("::")[2] in WORK
        return work or self.is_request(o) or self.kernel.sizes[o.parameter] == 0


# ---- the rules -------------------------------------------------------------------------------------------------------

ACCESS = re.compile(r"^(ld|st|atom|red)\.(\S+)\s+(.*)$", re.S)
STRONG = {"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"}
SPACES = {"param", "shared", "const", "global", "local"}


def element_bytes(words: list[str]) -> int:
    """Bytes of one element of an access; a vector access is one access per element."""
    return int(re.sub(r"\D", "", words[-1])) // 8


def reads_alone(name: str) -> bool:
    """May this kernel load slots by weak accesses, since no other one writes meanwhile?"""
    return re.search(r"cuda_tile<[^<>]*, true(, [^<>]*)?>", name) is not None


def broken_rules(kernel: Kernel, name: str, flow: Flow) -> list[str]:
    """Sentences about the accesses of a kernel that break rules 1 to 3."""
    problems: list[str] = []
    alone = reads_alone(name)
    sizes: dict[Origin, set[int]] = defaultdict(set)
    for statement in kernel.body:
        if statement.startswith("call"):
            problems.append(f"calls a function: {statement}")
        match = ACCESS.match(statement)
        if match is None:
            continue
        operation, words = match[1], match[2].split(".")
        space = next((w.partition("::")[0] for w in words if w.partition("::")[0] in SPACES), "generic")
        if space in {"param", "shared", "const"}:
            continue
        if space == "local":
            problems.append(f"has variables in memory, where the data flow ends: {statement}")
            continue
        address = re.search(r"\[(.*?)\]", match[3])
        origins = frozenset(o for o in flow.of(address[1] if address else "") if not o.inside)
        if "nc" in words:
            problems.append(f".nc access: {statement}")
        elif not origins:
            problems.append(f"access to memory of unknown origin: {statement}")
        elif not all(flow.of_batch(o) for o in origins):
            strong = operation in {"atom", "red"} or STRONG & set(words)
            if not strong and not (alone and operation == "ld"):
                problems.append(f"weak access to table memory: {statement}")
            for origin in origins if operation != "red" else ():
                sizes[origin].add(element_bytes(words))
    for origin, widths in sorted(sizes.items(), key=lambda item: (item[0].parameter, item[0].offset)):
        if len(widths) > 1 and not flow.of_batch(origin):
            where = f"the pointer at byte {origin.offset} of parameter {origin.parameter}"
            problems.append(f"mixed sizes, {' and '.join(map(str, sorted(widths)))} bytes, through {where}")
    return problems


def unordered_lanes(kernel: Kernel, name: str) -> list[str]:
    """Sentences about accesses of system scope that break rule 5."""
    problems: list[str] = []
    written = acquired = ""
    for statement in kernel.body:
        if statement.startswith(("bar.warp.sync", "bar.sync", "barrier.")):
            written = acquired = ""
        elif re.match(r"(atom|red)\.release\.sys\.", statement) and written:
            problems.append(f"no bar.warp.sync between {written} and {statement}")
        elif re.match(r"ld\.relaxed\.sys\.global\.v\d", statement) and acquired and "collect" not in name:
            problems.append(f"no bar.warp.sync between {acquired} and {statement}")
        elif statement.startswith("st.relaxed.sys."):
            written = statement
        elif statement.startswith("ld.acquire.sys."):
            acquired = statement
    return problems


def resources_of(report: str) -> dict[str, Resources]:
    """By mangled name."""
    found = {}
    for part in report.split("Compiling entry function '")[1:]:
        name = part.partition("'")[0]
        frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if frame is None or registers is None:
            raise ValueError(f"ptxas does not say what {name} uses")
        found[name] = Resources(int(registers[1]), int(frame[1]), int(frame[2]) + int(frame[3]))
    return found


def resources_of_machine_code(cubin: bytes) -> dict[str, Resources]:
    """By mangled name, from the notes in an ELF of machine code: there is no need to run ptxas for them again.

    A section .nv.info is a row of attributes, each of a format, a number and a size or value; in format 4 so many bytes
    follow. 0x2f is a kernel's number of registers, 0x11 its frame, in which spilled registers lie as well.
    """
    (table,) = struct.unpack_from("<Q", cubin, 40)
    of_one, n, of_names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * of_one) for i in range(n)]
    bodies = [cubin[h[4] : h[4] + h[5]] for h in headers]

    def text(strings: bytes, at: int) -> str:
        return strings[at : strings.index(b"\0", at)].decode()

    sections = {text(bodies[of_names], h[0]): body for h, body in zip(headers, bodies, strict=True)}
    info, at = sections[".nv.info"], 0
    found: dict[int, dict[int, int]] = {0x2F: {}, 0x11: {}}
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute in found:
            symbol, value = struct.unpack_from("<II", info, at + 4)
            found[attribute][symbol] = value
        at += 4 + (size if form == 4 else 0)

    def name(symbol: int) -> str:
        return text(sections[".strtab"], struct.unpack_from("<I", sections[".symtab"], symbol * 24)[0])

    return {name(symbol): Resources(used, found[0x11][symbol], 0) for symbol, used in found[0x2F].items()}


@dataclass
class Result:
    """What the lint found in one plugin."""

    plugin: str
    kernels: int = 0
    accesses: int = 0
    most_registers: int = 0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        said = f"{len(self.problems)} problems" if self.problems else "no problem"
        what = f"{self.kernels} kernels, {self.accesses} accesses, at most {self.most_registers} registers"
        return f"{self.plugin}: {what}, {said}"


def named_kernels_of(ptx: str) -> dict[str, Kernel]:
    """The kernels by their names as C++ spells them, with the types of their parameters."""
    kernels = kernels_of(ptx)
    names = demangle([k.name for k in kernels])
    for kernel in kernels:
        name = names[kernel.name]
        kernel.types = parameter_types(name) if name != kernel.name else []
    return {names[kernel.name]: kernel for kernel in kernels}


def lint_ptx(plugin: str, ptx: str, resources: dict[str, Resources], layout: Layout, allowed: dict[str, int]) -> Result:
    """Apply all rules. `allowed`: bytes of stack and spills, by the kernel's name."""
    result = Result(plugin)
    kernels = named_kernels_of(ptx)
    for name, kernel in kernels.items():
        if name.startswith("void cub::"):  # sorts and sums the arrays of a rebuild; no table is among them
            continue
        flow = Flow(kernel, layout)
        result.kernels += 1
        result.accesses += sum(1 for s in kernel.body if ACCESS.match(s) and not s.startswith("ld.param"))
        broken = broken_rules(kernel, name, flow) + unordered_lanes(kernel, name)
        result.problems += [f"{name}: {problem}" for problem in broken]
        used = resources[kernel.name]
        result.most_registers = max(result.most_registers, used.registers)
        if used.stack + used.spills > allowed.get(name, 0):
            what = f"{used.stack} bytes of stack and {used.spills} bytes of spills, {allowed.get(name, 0)} are allowed"
            result.problems.append(f"{name}: {what}")
    if not kernels:
        result.problems.append("there is no kernel in it")
    return result


def plugins() -> list[str]:
    """The plugins that have CUDA kernels."""
    return sorted(p.parent.name for p in ROOT.glob("plugins/*/plugin_cuda.cu"))


def lint(plugin: str, arch: str = "90", nvcc: Path | None = None) -> Result:
    """Compile a plugin and apply all rules."""
    compiled = compile_plugin(ROOT / "plugins" / plugin / "plugin_cuda.cu", arch, nvcc or find_nvcc())
    allowed = json.loads(ALLOWANCES.read_text()).get(plugin, {})
    return lint_ptx(plugin, compiled.ptx, compiled.resources, request_layout(), allowed)


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description="Lint the PTX of the CUDA kernels.")
    parser.add_argument("plugin", nargs="*", default=plugins(), help="default: all")
    parser.add_argument("--arch", default="90", help="default: 90")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    try:
        nvcc = find_nvcc()
    except NoCompilerError as error:
        print(f"lint.py: {error}", file=sys.stderr)
        return 2
    unknown = sorted({*options.plugin} - {*plugins()})
    if unknown:
        print(f"lint.py: there is no plugin {unknown[0]}; there are {', '.join(plugins())}", file=sys.stderr)
        return 2
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda p: lint(p, options.arch, nvcc), options.plugin))
    for result in results:
        for problem in result.problems:
            print(problem)
        print(result.line())
    return 1 if any(result.problems for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
