"""Keys for `pygpuhash compare` from a file or from standard input. Whatever is wrong with one is an `InputError`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["InputError", "read_keys"]


class InputError(Exception):
    """The user's input cannot be used; the message is one sentence that says what to change."""


def read_keys(name: str, column: str | None) -> np.ndarray[Any, Any]:
    """The numbers in a .npy, .txt or .csv file, or, for "-", the lines of standard input; one-dimensional.

    Text files have one number per line. Integers become int64 or uint64, anything with a fraction float64.
    """
    suffix = Path(name).suffix.lower()
    if column is not None and suffix != ".csv":
        raise InputError(f"--column={column} needs a .csv file, not {name!r}")
    if name == "-":
        keys = _numbers(enumerate(sys.stdin, 1), "standard input")
    elif suffix == ".npy":
        keys = _npy(name)
    elif suffix == ".txt":
        keys = _numbers(enumerate(io.StringIO(_text(name)), 1), name)
    elif suffix == ".csv":
        keys = _csv(name, column)
    else:
        raise InputError(f"{name!r} is none of .npy, .txt, .csv: convert it, or pass - to read numbers from a pipe")
    if keys.size == 0:
        raise InputError(f"{name!r} has no keys: pass at least one number")
    return keys


def _text(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{name!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name!r} is not a text file in UTF-8 (byte {error.start}): pass numbers as text") from error


def _npy(name: str) -> np.ndarray[Any, Any]:
    try:
        with Path(name).open("rb") as file:
            keys = np.load(file, allow_pickle=False)
    except OSError as error:
        raise InputError(f"{name!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        if "allow_pickle" in reason:  # numpy's advice, which is for others
            reason = "it holds Python objects, or something else"
        raise InputError(f"{name!r} is not a .npy file of numbers: {reason}") from error
    if not isinstance(keys, np.ndarray):
        raise InputError(f"{name!r} is an archive of arrays: save the keys alone, with numpy.save")
    if keys.dtype.kind not in "biuf" or keys.dtype.itemsize > 8:
        raise InputError(f"{name!r} has dtype {keys.dtype}: keys are integers or floats of 1, 2, 4 or 8 bytes")
    keys = keys.reshape(-1)
    if keys.dtype.kind == "b":
        keys = keys.view(np.uint8)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        at = int(np.flatnonzero(np.isnan(keys))[0])
        raise InputError(f"{name!r} has NaN at index {at}: remove it, a NaN is no key to count")
    return np.ascontiguousarray(keys, keys.dtype.newbyteorder("="))


def _csv(name: str, column: str | None) -> np.ndarray[Any, Any]:
    rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(_text(name))), 1) if row]
    if not rows:
        raise InputError(f"{name!r} has no rows: pass at least one number")
    header = rows[0][1]
    has_header = not any(_is_number(cell) for cell in header)
    at = _column(name, header, has_header, column)
    return _numbers(_cells(name, rows[has_header:], at), name)


def _column(name: str, header: list[str], has_header: bool, column: str | None) -> int:
    if column is None:
        if len(header) == 1:
            return 0
        shown = ", ".join(repr(cell) for cell in header[:8]) if has_header else f"1 to {len(header)}"
        raise InputError(f"{name!r} has {len(header)} columns: choose one with --column ({shown})")
    if has_header and column in header:
        return header.index(column)
    if column.isascii() and column.isdigit() and 1 <= int(column) <= len(header):
        return int(column) - 1
    shown = ", ".join(repr(cell) for cell in header[:8]) if has_header else f"1 to {len(header)}"
    raise InputError(f"{name!r} has no column {column!r}: there are {shown}")


def _cells(name: str, rows: list[tuple[int, list[str]]], at: int) -> Iterator[tuple[int, str]]:
    for number, row in rows:
        if at >= len(row):
            raise InputError(f"{name!r}, row {number}: there are {len(row)} columns, column {at + 1} is wanted")
        yield number, row[at]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(lines: Iterable[tuple[int, str]], name: str) -> np.ndarray[Any, Any]:
    values: list[int | float] = []
    floats = False
    try:
        for number, line in lines:
            text = line.strip()
            if text:
                value = _number(text, name, number)
                floats = floats or isinstance(value, float)
                values.append(value)
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text in UTF-8 (byte {error.start}): pass numbers as text") from error
    if not values:
        return np.empty(0, np.uint64)
    if floats:
        return np.array(values, np.float64)
    low, high = min(values), max(values)
    if high >= 2**64 or low < -(2**63) or (low < 0 and high >= 2**63):
        raise InputError(f"{name} has integers from {low} to {high}, which fit neither int64 nor uint64")
    return np.array(values, np.int64 if low < 0 else np.uint64)


def _number(text: str, name: str, number: int) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise InputError(f"{name}, line {number}: {shown!r} is not a number") from None
    if value != value:
        raise InputError(f"{name}, line {number}: NaN is no key to count, remove it")
    return value
