"""Arguments of the commands, as read from the command line."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from typing import Any

from pygpuhash.commands import output, tables
from pygpuhash.commands.tally import Memory
from pygpuhash.keyfile import InputError

__all__ = ["add_counted", "add_output", "memory_of"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LEAST = 16 << 20  # what a block of input may need

WORDS = """Words are what `tr -s '[:space:]' '\\n'` makes of a file: runs of bytes other than white space (blank, \\t,
\\n, \\v, \\f, \\r), compared byte by byte, so that keys and counts are those of `| LC_ALL=C sort | uniq -c`. The empty
line that tr makes of white space at the start is no word. Of several files, a word ends where its file ends."""


def bytes_of(text: str) -> int:
    """The number of bytes of a text such as 500M, 2G or 1.5g."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < _LEAST:
        raise argparse.ArgumentTypeError(f"{text!r} is no size of at least 16M: pass one like 500M or 2G")
    return size


def whole(text: str) -> int:
    """A number from 1 on."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 63):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def separator(text: str) -> str:
    """A character between cells."""
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is no separator: pass one character, such as ';'")
    return text


def add_counted(parser: argparse.ArgumentParser, words: bool) -> None:
    """Add the options that say what is counted."""
    what = "words" if words else "lines"
    parser.add_argument("--lines", action="store_true", help=f"lines{'' if words else ', the default'}")
    if not words:
        parser.add_argument("--words", action="store_true", help="words")
    parser.add_argument(
        "--column",
        action="append",
        metavar="NAME",
        help=f"instead of {what} a column of a table, by name, or number from 1; repeated: several as one key",
    )
    parser.add_argument("--k", type=whole, metavar="K", help="k-mers of FASTA or FASTQ, of 1 to 32 bases")
    parser.add_argument("--canonical", action="store_true", help="a k-mer and its reverse complement are one")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that all commands have."""
    parser.add_argument("--format", choices=tables.FORMATS, help="of the input; default: what a file's suffix says")
    parser.add_argument("--separator", type=separator, metavar="C", help="of the cells of CSV, as in ';'; default: ,")
    parser.add_argument(
        "--memory",
        type=bytes_of,
        metavar="SIZE",
        help="for keys, as in 2G; beyond it, temporary files. Default: half of the machine's",
    )
    parser.add_argument("--temporary", metavar="DIR", help="folder for temporary files; default: TMPDIR, or /tmp")
    parser.add_argument("--threads", type=whole, metavar="N", help="default: one for each CPU that may be used")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of the output."""
    group = parser.add_argument_group("output")
    group.add_argument("--to", choices=output.FORMATS, help="default: what the suffix of --output says, else text")
    group.add_argument("--output", metavar="FILE", help="instead of standard output; written as a whole, or not at all")
    group.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    group.add_argument(
        "--errors",
        choices=output.ERRORS,
        default="strict",
        help="what becomes of bytes that are not UTF-8 in JSON lines and parquet; text and CSV have any bytes",
    )


def memory_of(options: Any) -> Memory:
    """The memory, the folder and the threads that were asked for."""
    limit = options.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    folder = options.temporary or tempfile.gettempdir()
    if options.temporary and not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(f"--temporary {folder}: is no folder")
    if options.threads is not None and options.threads > 4096:
        raise InputError(f"--threads {options.threads}: there are 4096 at most")
    return Memory(limit, folder, options.threads, say)


def say(words: str) -> None:
    """A line for the user."""
    over = "\r" + " " * 80 + "\r" if sys.stderr.isatty() else ""  # a bar
    sys.stderr.write(f"{over}pygpuhash: {words}\n")
    sys.stderr.flush()
