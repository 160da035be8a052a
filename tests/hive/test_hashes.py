"""hive's hash functions by name: against published values, and tables by each pair and some triples of them."""

from __future__ import annotations

import functools
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "asv_bench").is_dir():
    pytest.skip("asv_bench is in a checkout of the repository only", allow_module_level=True)
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
from asv_bench.harness import hashes, hive_hashes  # noqa: E402

NAMES = ("bithash1", "bithash2", "murmur", "city", "crc32", "crc64")
# The values of google/cityhash 1.1.1 (by the package cityhash 0.4.10), of keys as bytes, the lowest one first.
CITY = {0x1: 0xAB286018, 0x12345678: 0x2B4BF1B7, 0xDEADBEEF: 0x7AD2F98C, 0xFFFFFFFF: 0x261CB784}
CITY_WIDE = {0x1: 0x523BE90BB03B5A61, 0x0123456789ABCDEF: 0x5756E4300150A3D1, 1 << 63: 0x692DBAA42BC69D1A}
# fmix32 and fmix64 of MurmurHash3.cpp (Appleby).
MURMUR, MURMUR_WIDE = {0x1: 0x514E28B7, 0xDEADBEEF: 0x0DE5C6A9}, {0x1: 0xB456BCFC34C2CB2C}
KEYS = [0x1, 0x12345678, 0xDEADBEEF, 0xFFFFFFFF, 0x0123456789ABCDEF, 1 << 63]
SEED = 0xA1B2C3D4E5F60718


@dataclass(frozen=True)
class Mistake:
    file: str
    name: str
    right: str
    wrong: str


FUNCTIONS, LAYOUT = "libgpuhash/hash/functions.hpp", "plugins/hive/layout.hpp"
MISTAKES = [
    Mistake(FUNCTIONS, "wang_shift", "k ^= k >> 12", "k ^= k >> 13"),
    Mistake(FUNCTIONS, "jenkins_add", "(k ^ 0xb55a4f09u)", "(k + 0xb55a4f09u)"),
    Mistake(FUNCTIONS, "unsigned_byte", "u32(int8_t(k >> shift))", "u32(u8(k >> shift))"),
    Mistake(FUNCTIONS, "city_order", "rotated(a, 25)", "rotated(a, 26)"),
    Mistake(FUNCTIONS, "crc_bytes_kept", "k >>= 8", "k >>= 7"),
    Mistake(FUNCTIONS, "crc_not_inverted", "~c", "c"),
    Mistake(FUNCTIONS, "halves_apart", "f(u32(k >> 32) ^ low)", "f(u32(k >> 32))"),
    Mistake(FUNCTIONS, "low_half", "u32(named::crc_of<u64>(k) >> 32)", "u32(named::crc_of<u64>(k))"),
    Mistake(FUNCTIONS, "half_a_hash", "u64(named::crc_of<u32>(k)) * 0x100000001ull", "u64(named::crc_of<u32>(k))"),
    Mistake(
        FUNCTIONS,
        "unkeyed_after",
        "hash_by(function, k ^ u32(seed)) ^ u32(seed >> 32)",
        "hash_by(function, k ^ u32(seed))",
    ),
    Mistake(FUNCTIONS, "unkeyed_before", "hash_by(function, k ^ seed)", "hash_by(function, k)"),
    Mistake(LAYOUT, "one_function", "by >> 4 * way", "by"),
    Mistake(
        LAYOUT,
        "third_ignored",
        "by_name() ? named_hash(k, 2) : third_of(g)",
        "third_of(g)",
    ),
    Mistake(LAYOUT, "second_ignored", "by_name() ? named_hash(k, 1) : other_hash(k)", "other_hash(k)"),
    Mistake(LAYOUT, "same_seed", "seeds << 17 * way | (seeds >> 1) >> (63 - 17 * way)", "seeds"),
    Mistake(LAYOUT, "segment_of_another_hash", "segment_of(first_hash(k))", "segment_of(second_hash(k))"),
    Mistake(LAYOUT, "same_bucket", "b = b == own ? following(b) : b", "b = b"),
]


def compiled(target: Path, *includes: Path, define: str = "") -> Path:
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler: install g++, or name one in CXX")
    wide_swaps = ["-mcx16"] if os.uname().machine == "x86_64" else []
    paths = [f"-I{path}" for path in (*includes, ROOT, ROOT / "libgpuhash" / "include", ROOT / "plugins" / "hive")]
    source = Path(__file__).with_name("hashes_test.cpp")
    command = [*compiler, "-std=c++20", "-O0", "-Wall", "-Wextra", *wide_swaps, *paths, str(source), "-o", str(target)]
    command += [f"-D{define}"] if define else []
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return target


def lines_of(program: Path, mistake: int = 0) -> list[list[str]]:
    """What the program says of every key, without a seed and with one."""
    said = "".join(f"{key:x} {seed:x}\n" for key in KEYS for seed in (0, SEED))
    environment = {**os.environ, "GPUHASH_MISTAKE": str(mistake)}
    done = subprocess.run([program], input=said, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0
    return [line.split() for line in done.stdout.splitlines()]


@functools.cache
def expected(name: str, key: int, seed: int) -> tuple[int, int]:
    """The hashes of the key's low 4 bytes and of its 8, by what is written down here and in harness/hashes.py."""
    low = key & 0xFFFFFFFF
    s_low, s_high = seed & 0xFFFFFFFF, seed >> 32

    def narrow(k: int) -> int:
        return int(hashes.FUNCTIONS[name](np.array([k], np.uint32))[0])

    wide = key ^ seed
    if name.startswith("bithash"):
        first = narrow((wide & 0xFFFFFFFF) ^ narrow(wide >> 32))
        whole = narrow((wide >> 32) ^ first) << 32 | first
    elif name == "murmur":
        k = wide ^ wide >> 33
        k = k * 0xFF51AFD7ED558CCD % 2**64
        k ^= k >> 33
        k = k * 0xC4CEB9FE1A85EC53 % 2**64
        whole = k ^ k >> 33
    elif name == "city":
        m = 0x9AE16A3B2F90404F + 16
        a = (wide + m - 16) % 2**64
        c = (_turned(wide, 37) * m + a) % 2**64
        d = (_turned(a, 25) + wide) * m % 2**64
        x = (c ^ d) * m % 2**64
        x = (d ^ x ^ x >> 47) * m % 2**64
        whole = (x ^ x >> 47) * m % 2**64
    elif name == "crc32":
        whole = zlib.crc32(wide.to_bytes(8, "little")) * (2**32 + 1)
    else:
        whole = int(hashes.crc64(np.array([wide], np.uint64))[0])
    return narrow(low ^ s_low) ^ s_high, whole ^ (s_high | s_low << 32)


def _turned(x: int, n: int) -> int:
    return (x >> n | x << (64 - n)) % 2**64


def expected_lines() -> list[list[str]]:
    lines = []
    for key in KEYS:
        for seed in (0, SEED):
            for name in NAMES:
                narrow, wide = expected(name, key, seed)
                lines.append([name, f"{narrow:x}", f"{wide:x}"])
            seeds = [(seed << 17 * way | seed >> (64 - 17 * way)) % 2**64 for way in range(3)]
            for a, b, c in itertools.product(NAMES, NAMES, ("", *NAMES)):
                if a == b or c in (a, b):
                    continue
                at = [expected(f, key, s)[0] * 64 >> 32 for f, s in zip((a, b, c), seeds, strict=True) if f]
                at[1] = (at[1] + (at[1] == at[0])) % 64
                if c:
                    for _ in range(2):
                        at[2] = (at[2] + (at[2] in at[:2])) % 64
                lines.append([f"{a}+{b}+{c}", *map(str, at if c else [*at, 64])])
    return lines


def test_second_statement_has_the_published_values() -> None:
    """What the other tests compare with."""
    digits = b"123456789"
    assert zlib.crc32(digits) == 0xCBF43926  # the check values of the catalogue of parametrised CRC algorithms
    c = 2**64 - 1
    for byte in digits:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0xC96C5795D7870F42 if c & 1 else 0)
    assert c ^ (2**64 - 1) == 0x995DC9BBDF1939FA
    for key in KEYS:
        of = np.array([key], np.uint64)
        data = key.to_bytes(8, "little")
        assert int(hashes.crc32(of)[0]) == zlib.crc32(data)
        rest = 2**64 - 1
        for byte in data:
            rest ^= byte
            for _ in range(8):
                rest = rest >> 1 ^ (0xC96C5795D7870F42 if rest & 1 else 0)
        assert int(hashes.crc64(of)[0]) == rest ^ (2**64 - 1)
    for name, values, wide in (("city", CITY, CITY_WIDE), ("murmur", MURMUR, MURMUR_WIDE)):
        assert {key: expected(name, key, 0)[0] for key in values} == values
        assert {key: expected(name, key, 0)[1] for key in wide} == wide


def test_functions_and_buckets(tmp_path: Path) -> None:
    assert lines_of(compiled(tmp_path / "test")) == expected_lines()


@pytest.mark.parametrize("names", ["crc32+city+bithash2", "bithash1+crc64+murmur"])
def test_a_module_of_some_functions(tmp_path: Path, names: str) -> None:
    """As the figure by hash functions compiles hive for CUDA: whatever the table says, its buckets are by these."""
    code = hive_hashes.code_of(names)
    said = [line for line in lines_of(compiled(tmp_path / "test", define=f"HIVE_HASHES={code}")) if "+" in line[0]]
    right = iter([line[1:] for line in expected_lines() if line[0] == names])
    triples = [line[1:] for line in said if not line[0].endswith("+")]
    each = len(triples) // (2 * len(KEYS))
    assert each == 120
    for first in range(0, len(triples), each):
        expected_here = next(right)
        assert triples[first : first + each] == [expected_here] * each
    assert next(right, None) is None


def test_mistakes_are_noticed(tmp_path: Path) -> None:
    texts = {file: (ROOT / file).read_text() for file in (FUNCTIONS, LAYOUT)}
    for number, m in enumerate(MISTAKES, 1):
        assert texts[m.file].count(m.right) == 1, f"{m.name}: adapt the mistake to {m.file}"
        texts[m.file] = texts[m.file].replace(m.right, f"(mistake == {number} ? ({m.wrong}) : ({m.right}))")
    variable = 'getenv("GPUHASH_MISTAKE")'
    switch = f"#include <stdlib.h>\nstatic const int mistake = {variable} ? atoi({variable}) : 0;\n"
    texts[FUNCTIONS] = texts[FUNCTIONS].replace("#pragma once\n", "#pragma once\n" + switch)
    texts[FUNCTIONS] = texts[FUNCTIONS].replace('"hash.hpp"', '"libgpuhash/hash/hash.hpp"')
    for file, text in texts.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    program, right = compiled(tmp_path / "test", tmp_path), expected_lines()
    assert lines_of(program) == right, "with none switched on"
    alive = [m.name for n, m in enumerate(MISTAKES, 1) if lines_of(program, n) == right]
    assert not alive


def table(names: str, **options: object) -> gh.Table:
    known = {"key_dtype": "uint32", "value_dtype": "uint32", "capacity": 20_000, "device": "cpu", "seed": 7}
    return gh.Table("hive", hashes=names, **(known | options))


PAIRS = ["+".join(pair) for pair in itertools.combinations(NAMES, 2)]


@pytest.mark.parametrize("names", [*PAIRS, "bithash1+bithash2+city", "crc64+crc32+murmur"])
def test_tables_by_name(names: str) -> None:
    """At a high load, with keys 0 .. n-1."""
    n = 20_000
    keys = np.arange(n, dtype=np.uint32)
    with table(names, grow=False, max_load_factor=0.9) as t:
        assert t.insert(keys, keys).all()
        assert 0.01 < t.stats()["outside"] < 0.6
        values, found = t.find(keys)
        assert found.all()
        assert (values == keys).all()
        assert not t.contains(keys + n).any()
        assert t.erase(keys[::2]).all()
        assert t.insert(keys[::2], keys[::2]).all()
        t.check()


@pytest.mark.parametrize("names", ["bithash1+crc64", "city+crc32"])
def test_segments_by_name(names: str) -> None:
    """A table that grows and shrinks where it is."""
    with table(names, key_dtype="uint64", capacity=130_000) as t:
        many = np.arange(400_000, dtype=np.uint64) * np.uint64(0x100000001)
        assert t.insert(many, many.astype(np.uint32)).all()
        assert t.contains(many).all()
        assert t.stats()["segments"] > 16
        t.shrink()
        t.check()


@pytest.mark.parametrize(
    "names",
    ["", "murmur", "murmur+", "+murmur", "murmur+murmur", "murmur+md5", "city+crc32+crc64+murmur", "Murmur+city"],
)
def test_bad_names_are_refused_with_the_list(names: str) -> None:
    with pytest.raises(gh.InvalidArgument, match="bithash1, bithash2, murmur, city, crc32, crc64") as e:
        table(names)
    assert f"hashes={names}" in str(e.value)


def test_ways_follow_from_the_names() -> None:
    with table("murmur+city", ways=2) as two, table("murmur+city+crc32") as three:
        assert len(two) == len(three) == 0
    with pytest.raises(gh.InvalidArgument, match="names 2 functions, and ways=3 asks for 3"):
        table("murmur+city", ways=3)
