"""Arguments that are single numbers: checked, named in the error, and made what the library takes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pygpuhash.errors import InvalidArgument

__all__ = ["flag", "load_factor", "option", "seed", "whole"]

SEED_OF_ZERO = 0x9E3779B97F4A7C15  # what seed=0 stands for
LEAST_LOAD = 0.01  # a table that must stay emptier than this is a mistake


def whole(name: str, value: Any, most: int, least: int = 0) -> int:
    """An integer of a range, `value.__index__()`, or a float that is one, such as 1e6."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    try:
        number = value.__index__()
    except (AttributeError, TypeError):  # of an array, which has the method
        raise TypeError(f"{name}={value!r} is not an integer") from None
    if not least <= number <= most:
        raise InvalidArgument(f"{name}={number} is out of range: pass {least} to {most}")
    return int(number)


def flag(name: str, value: Any) -> bool:
    """True or False; not whatever is true, such as the text "no"."""
    if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
        raise TypeError(f"{name}={value!r} is neither True nor False")
    return bool(value)


def seed(given: Any) -> int:
    """The library's seed. There, 0 asks for a random one, so that Python's 0 is another fixed number."""
    return 0 if given is None else whole("seed", given, 2**64 - 1) or SEED_OF_ZERO


def load_factor(value: Any) -> float:
    """The library's maximum load factor; 0 asks for the backend's own."""
    if value is None:
        return 0.0
    if not isinstance(value, (int, float, np.integer, np.floating)) or not LEAST_LOAD <= value <= 1:
        raise InvalidArgument(f"max_load_factor={value!r} is out of range: pass a number from {LEAST_LOAD} to 1")
    return float(value)


def option(name: str, value: Any) -> str:
    """The text of an option of a backend."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise TypeError(f"option {name}={value!r} is a {type(value).__name__}: pass a string, a path or a number")
