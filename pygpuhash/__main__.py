"""`pygpuhash` and `python -m pygpuhash`: the command line.

The commands on files are imported without the others, whose modules take as long to import as a small file to count.
"""

import importlib
import sys

from pygpuhash.commands import COMMANDS

__all__ = ["main"]


def main() -> int:
    """Entry point of the console script."""
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        return int(importlib.import_module("pygpuhash.commands.programs").main(sys.argv[1], sys.argv[2:]))
    return int(importlib.import_module("pygpuhash.cli").main())


if __name__ == "__main__":
    raise SystemExit(main())
