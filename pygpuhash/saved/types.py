"""Types of Arrow: by the letters of the C data interface, and as the tables of Arrow's metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pygpuhash.saved.flatbuffers import Malformed, Number, Table

__all__ = ["Type", "buffers_of", "layout", "read_fields", "written"]

_UNITS = "smun"
_INTEGERS = {
    letter: (bits, signed)
    for bits, pair in ((8, "Cc"), (16, "Ss"), (32, "Ii"), (64, "Ll"))
    for signed, letter in enumerate(pair)
}
_FLOATS = {"e": 0, "f": 1, "g": 2}
_TEXTS = {"z": 4, "u": 5, "Z": 19, "U": 20}
MOST_FIELDS = 1024  # of a file, as a few bytes can name fields any number of times
DEEPEST = 16


@dataclass(frozen=True)
class Type:
    """A column's type: its format in the C data interface, name, children, and whether it may have nulls."""

    format: str
    name: str
    children: tuple[Type, ...] = ()
    nullable: bool = False

    def __str__(self) -> str:
        inner = f"<{', '.join(map(str, self.children))}>" if self.children else ""
        return f"{self.name}: {self.format}{inner}"


def width(format: str) -> int:
    """Bytes of an element; 0 of types that have no buffer of elements of a fixed whole number of bytes."""
    if format in _INTEGERS:
        return _INTEGERS[format][0] // 8
    if format[0] == "w":
        return int(format[2:])
    if format[0] == "d":
        return int(format.split(",")[2]) // 8 if format.count(",") == 2 else 16
    if format[0] == "t":
        return 4 if format in ("tdD", "tts", "ttm") else 8
    return {"e": 2, "f": 4, "g": 8}.get(format, 0)


def buffers_of(type: Type) -> int:
    """How many buffers a column has by itself."""
    return 1 if type.format[0] == "+" else 3 if type.format in _TEXTS else 2


def layout(types: tuple[Type, ...]) -> list[Type]:
    """The columns in the order in which a record batch has them: each before its children."""
    return [one for type in types for one in (type, *layout(type.children))]


# ---- as tables of Arrow's metadata -----------------------------------------------------------------------------------


def written(type: Type) -> list[Any]:
    """The table Field."""
    kind, table = _kind(type.format)
    children = tuple(written(child) for child in type.children)
    return [type.name, Number("B", type.nullable), Number("B", kind), table, None, children]


def _kind(format: str) -> tuple[int, list[Any]]:
    """(the type's number in the union Type, its table)."""
    if format in _INTEGERS:
        bits, signed = _INTEGERS[format]
        return 2, [Number("i", bits), Number("B", signed)]
    if format in _FLOATS:
        return 3, [Number("h", _FLOATS[format])]
    if format in _TEXTS:
        return _TEXTS[format], []
    if format == "b":
        return 6, []
    if format == "+s":
        return 13, []
    if format[0] == "d":
        precision, scale, bits = map(int, (format[2:] + ",128").split(",")[:3])
        return 7, [Number("i", precision), Number("i", scale), Number("i", bits)]
    if format[:2] in ("w:", "+w"):
        return (15, [Number("i", int(format[2:]))]) if format[0] == "w" else (16, [Number("i", int(format[3:]))])
    if format[:2] == "td":
        return 8, [Number("h", "Dm".index(format[2]))]
    unit = Number("h", _UNITS.index(format[2]))
    if format[:2] == "tt":
        return 9, [unit, Number("i", 8 * width(format))]
    return (10, [unit, format[4:] or None]) if format[:2] == "ts" else (18, [unit])


def read_fields(schema: Table) -> tuple[Type, ...]:
    """The columns of a Schema. Raises Malformed for types that are in no saved file."""
    left = [MOST_FIELDS]
    return tuple(_read(schema.element(1, i), 0, left) for i in _counted(schema.count(1), left))


def _counted(count: int, left: list[int]) -> range:
    left[0] -= count
    if left[0] < 0:
        raise Malformed(f"the schema has more than {MOST_FIELDS} fields")
    return range(count)


def _read(field: Table, depth: int, left: list[int]) -> Type:
    if depth > DEEPEST:
        raise Malformed(f"the schema is nested more than {DEEPEST} levels deep")
    if field.table(4) is not None:
        raise Malformed("a column has a dictionary")
    kind, table = field.number(2, "B"), field.table(3)
    if table is None:
        raise Malformed("a column has no type")
    format = _format(kind, table)
    children = tuple(_read(field.element(5, i), depth + 1, left) for i in _counted(field.count(5), left))
    if (len(children) == 1) != (format[:2] == "+w") and not (format == "+s" and children):
        raise Malformed(f"a column of type {format!r} has {len(children)} children")
    return Type(format, field.text(0), children, bool(field.number(1, "B")))


def _format(kind: int, table: Table) -> str:
    """The letters of a type."""
    texts = {number: letter for letter, number in _TEXTS.items()}
    plain = {**texts, 6: "b", 13: "+s"}
    if kind in plain:
        return plain[kind]
    if kind == 2:
        return _key_of(_INTEGERS, (table.number(0, "i"), table.number(1, "B")))
    if kind == 3:
        return _key_of(_FLOATS, table.number(0, "h"))
    if kind == 7:
        precision, scale, bits = (table.number(i, "i", default) for i, default in enumerate((0, 0, 128)))
        if bits != 128 or not 1 <= precision <= 38 or abs(scale) > 1000:
            raise Malformed(f"a column has decimals of {bits} bits, precision {precision} and scale {scale}")
        return f"d:{precision},{scale}"
    if kind in (15, 16):
        size = table.number(0, "i")
        if size < 1:
            raise Malformed(f"a column has elements of size {size}")
        return f"{'w' if kind == 15 else '+w'}:{size}"
    if kind in (8, 9, 10, 18):
        return _time(kind, table)
    raise Malformed(f"a column has type number {kind} of Arrow, which no saved file has")


def _time(kind: int, table: Table) -> str:
    unit = table.number(0, "h", 0 if kind == 10 else 1)
    if not 0 <= unit < (2 if kind == 8 else 4):
        raise Malformed(f"a column has the unit of time {unit}")
    if kind == 8:
        return "td" + "Dm"[unit]
    if kind == 10:
        zone = table.text(1)
        if not re.fullmatch(r"[\w+:/ -]{0,64}", zone):
            raise Malformed(f"a column has the time zone {zone[:64]!r}")
        return f"ts{_UNITS[unit]}:{zone}"
    if kind == 9 and table.number(1, "i", 32) != (32 if unit < 2 else 64):
        raise Malformed("a column has times of another width than their unit has")
    return ("tt" if kind == 9 else "tD") + _UNITS[unit]


def _key_of(names: dict[str, Any], value: Any) -> str:
    for name, known in names.items():
        if known == value:
            return name
    raise Malformed(f"a column has numbers of the kind {value}")
