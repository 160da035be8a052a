"""Arguments of command lines: numbers of a range, options of tables, and what is wrong in one sentence."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pygpuhash as gh

from .devices import Unavailable


def whole(least: int, most: int = 1 << 40) -> Callable[[str], int]:
    """The type of an argument: an integer from `least` to `most`."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is out of range: use {least} to {most}")
        return value

    number.__name__ = "integer"  # what argparse calls it where the text is none
    return number


def real(least: float, most: float) -> Callable[[str], float]:
    """The type of an argument: a number from `least` to `most`."""

    def number(text: str) -> float:
        value = float(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is out of range: use {least} to {most}")
        return value

    number.__name__ = "number"
    return number


def pair(text: str) -> tuple[str, str]:
    """ "row=8" -> ("row", "8"): an option of a table."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not an option like row=8")
    return key, value


def one_sentence(main: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """`main`, which ends with a sentence and status 2 where there is no device, or the library refuses something."""
    name = Path(main.__code__.co_filename).stem

    @functools.wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        try:
            return main(arguments)
        except (Unavailable, gh.GpuHashError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2

    return run
