"""The commands of the command line, and the exit status of each.

Exit status: 0; 1 of `diff`, where there is a difference; 2, with a sentence, where something cannot be read or written;
130 after Ctrl-C; 141 where the reader of the output has gone, as of a process that SIGPIPE ended.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pygpuhash.commands import counting, difference, joining, rows, settings
from pygpuhash.errors import GpuHashError
from pygpuhash.keyfile import InputError

__all__ = ["main"]


def main(name: str, arguments: list[str]) -> int:
    """Run a command."""
    options = _parser(name).parse_intermixed_args(arguments)
    try:
        return int(options.run(options))
    except (InputError, GpuHashError) as error:
        settings.say(str(error))
        return 2
    except MemoryError:
        settings.say("there is no memory for more: pass a smaller --memory")
        return 2
    except KeyboardInterrupt:
        settings.say("interrupted")
        return 130
    except BrokenPipeError:
        return 141


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"pygpuhash {name}",
        description=_DESCRIPTIONS[name],
        epilog="Compressed input (gzip, zstd) is recognized by its first bytes. Exit status: 0; "
        + ("1: there is a difference; " if name == "diff" else "")
        + "2: something cannot be read or written; 130: Ctrl-C; 141: the reader of the output has gone.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _ARGUMENTS[name](parser)
    settings.add_common(parser)
    return parser


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="- is standard input, the default")


def _count(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    settings.add_counted(parser, words=True)
    parser.set_defaults(run=counting.count)


def _unique(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    settings.add_counted(parser, words=True)
    parser.set_defaults(run=counting.unique)


def _top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("number", type=settings.whole, metavar="K", help="how many")
    _files(parser)
    settings.add_counted(parser, words=True)
    parser.set_defaults(run=counting.top)


def _dedup(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    settings.add_counted(parser, words=False)
    parser.set_defaults(run=rows.dedup)


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs=2, metavar="FILE", help="two of them; - is standard input")
    settings.add_counted(parser, words=False)
    parser.add_argument("--counts", action="store_true", help="keys whose numbers differ, with both numbers")
    parser.set_defaults(run=difference.diff)


def _join(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs=2, metavar="FILE", help="two tables; the second has to fit into half of --memory"
    )
    parser.add_argument(
        "--on", action="append", required=True, metavar="NAME", help="the key's column; may be repeated"
    )
    parser.add_argument("--how", choices=("inner", "left"), default="inner", help="left: also rows that meet none")
    parser.set_defaults(run=joining.join)


_ARGUMENTS: dict[str, Callable[[argparse.ArgumentParser], Any]] = {
    "count": _count,
    "unique": _unique,
    "top": _top,
    "dedup": _dedup,
    "diff": _diff,
    "join": _join,
}
_DESCRIPTIONS = {
    "count": f"Count words: each one with its number, as uniq -c prints them, in the order of first appearance.\n\n"
    f"{settings.WORDS}",
    "unique": f"Print each word once, as soon as it is met, in the order of first appearance.\n\n{settings.WORDS}",
    "top": f"Print the K most frequent words with their numbers; of equal ones those that appear first.\n\n"
    f"{settings.WORDS}",
    "dedup": "Print the lines that were not there before, in their order; with --column, the rows of a table, each\n"
    "the first one that has its value in the column.",
    "diff": "Print the lines that only one of two files has, after < or >, wherever they are in it.",
    "join": "Print the rows of the first table, each beside the rows of the second whose key is equal. Empty cells of\n"
    "parquet and Arrow (null) are equal to nothing.",
}
