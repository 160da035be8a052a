"""The published hash in plain Python, written from docs/hash.md.

A cell is None or (kind, value): ("boolean", bool), ("integer", int), ("float", float), a time and its nanoseconds,
("decimal", (digits, scale)), ("text", bytes), ("bytes", bytes), ("row", [cell, ...]).
"""

from __future__ import annotations

import struct
from typing import Any

MASK = 2**64 - 1
KINDS = ["null", "boolean", "integer", "fraction", "instant", "zoned instant", "time of day", "duration", "decimal"]
KINDS += ["text", "bytes", "row"]


def mix(x: int) -> int:
    x ^= x >> 27
    x = x * 0x3C79AC492BA7B653 & MASK
    x ^= x >> 33
    x = x * 0x1C69B3F74AC4AE35 & MASK
    return x ^ x >> 27


def fold(a: int, b: int) -> int:
    return a * b & MASK ^ a * b >> 64


def derive(key: int, n: int) -> int:
    return mix(key + n * 0x9E3779B97F4A7C15 & MASK)


def of_integer(key: int, v: int) -> int:
    low, high = v & MASK, v >> 64
    beyond = high + (low >> 63)
    return mix((derive(key, beyond) if beyond else key) ^ low)


def of_float(integer_key: int, fraction_key: int, x: float) -> int:
    if -(2.0**63) <= x < 2.0**64 and x == int(x):
        return of_integer(integer_key, int(x))
    bits = 0x7FF8000000000000 if x != x else struct.unpack("<Q", struct.pack("<d", x))[0]
    return mix(fraction_key ^ bits)


def of_decimal(key: int, digits: int, scale: int) -> int:
    if digits == 0:
        scale = 0
    while digits and digits % 10 == 0:
        digits, scale = digits // 10, scale - 1
    return of_integer(derive(key, scale), digits)


def of_bytes(key: int, given: bytes) -> int:
    lanes, factor = [key, derive(key, 1)], derive(key, 2)
    padded = given + bytes(-len(given) % 16)
    for i in range(len(padded) // 16):
        a, b = struct.unpack("<QQ", padded[16 * i : 16 * i + 16])
        lanes[i % 2] = fold(lanes[i % 2] ^ a, factor ^ b)
    return mix(lanes[0] ^ lanes[1] ^ len(given))


def half(root: int, cell: Any) -> int:
    def key(kind: str) -> int:
        return derive(root, KINDS.index(kind))

    if cell is None:
        return key("null")
    kind, value = cell
    if kind == "boolean":
        return mix(key(kind) ^ int(value))
    if kind == "float":
        return of_float(key("integer"), key("fraction"), value)
    if kind == "decimal":
        return of_decimal(key(kind), *value)
    if kind in ("text", "bytes"):
        return of_bytes(key(kind), value)
    if kind == "row":
        r = key(kind)
        for field in value:
            h = half(root, field)
            r = mix(r ^ (derive(h, 1) if field is not None and field[0] == "row" else h))
        return r
    return of_integer(key(kind), value)


def hash_cell(cell: Any, seed: int = 0) -> tuple[int, int]:
    """The two halves of the hash of a cell."""
    return half(mix(seed ^ 0x243F6A8885A308D3), cell), half(mix(seed ^ 0x13198A2E03707344), cell)


# ---- test vectors ----------------------------------------------------------------------------------------------------

# Arrow's formats of fixed width: the cell's format in `struct`, the kind, and nanoseconds of a tick.
_NUMBERS = {f: (f"<{c}", "integer", 1) for f, c in zip("cCsSiIlL", "bBhHiIqQ", strict=True)}
_NUMBERS |= {f: (f"<{c}", "float", 1) for f, c in zip("efg", "efd", strict=True)}
_UNITS = {"s": 10**9, "m": 10**6, "u": 10**3, "n": 1}
_NUMBERS |= {"tdD": ("<i", "instant", 86400 * 10**9), "tdm": ("<q", "instant", 10**6), "b": ("<B", "boolean", 1)}
for _letter, _ns in _UNITS.items():
    _NUMBERS[f"ts{_letter}:"] = ("<q", "instant", _ns)
    _NUMBERS[f"ts{_letter}:UTC"] = ("<q", "zoned instant", _ns)
    _NUMBERS[f"tt{_letter}"] = ("<i" if _letter in "sm" else "<q", "time of day", _ns)
    _NUMBERS[f"tD{_letter}"] = ("<q", "duration", _ns)


def parse_cell(format: str, content: bytes) -> Any:
    """A cell of one of Arrow's formats, of its bytes in Arrow's memory."""
    if format in _NUMBERS:
        code, kind, nanoseconds = _NUMBERS[format]
        return kind, struct.unpack(code, content)[0] * nanoseconds
    if format.startswith("d:"):
        return "decimal", (int.from_bytes(content, "little", signed=True), int(format.split(",")[1]))
    return "text" if format in ("u", "U", "vu") else "bytes", content


def parse_line(line: str) -> tuple[list[str], list[bytes | None], int, tuple[int, int]]:
    """A line of hash_vectors.tsv: formats, the cells' bytes (None: null), seed, and the two halves of the hash.

    "+s" and several formats are a row of as many cells.
    """
    formats, cells, seed, *halves = line.split("\t")
    contents = [None if c == "null" else bytes.fromhex(c.removeprefix("-")) for c in cells.split(" ")]
    return formats.split(" "), contents, int(seed), (int(halves[0], 16), int(halves[1], 16))


def cell_of(formats: list[str], contents: list[bytes | None]) -> Any:
    """The cell of a line."""
    names = formats[1:] if formats[0] == "+s" else formats
    cells = [None if c is None else parse_cell(f, c) for f, c in zip(names, contents, strict=True)]
    return ("row", cells) if formats[0] == "+s" else cells[0]
