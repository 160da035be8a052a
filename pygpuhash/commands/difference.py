"""`diff A B`: keys that only one of two files has, or that they have in different numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpuhash.commands.columns import kind_of
from pygpuhash.commands.output import Cells
from pygpuhash.commands.running import counted, printing
from pygpuhash.commands.settings import memory_of
from pygpuhash.commands.sources import names_of
from pygpuhash.commands.tally import Tally, chosen

__all__ = ["diff"]


def diff(options: Any) -> int:
    """Returns 0 if there is no difference, else 1."""
    options.files = names_of(options.files)
    options.lines = not (options.words or options.column or options.k)
    memory = memory_of(options)
    kind, tally = kind_of(options, memory.longest), Tally(memory, 2)
    names = ["count_1", "count_2", *kind.names] if options.counts else ["only_in", *kind.names]
    differ = False
    with printing(options, names, marked=not options.counts) as out:
        counted(options.files[:1], kind, tally)
        tally.next_side()
        counted(options.files[1:], kind, tally)
        for keys, _, counts in tally.results():
            one, other = counts[:, 0], counts[:, 1]
            places = np.flatnonzero(one != other if options.counts else (one == 0) | (other == 0))
            if not places.size:
                continue
            differ = True
            cells = kind.cells(chosen(keys, places), out.format == "parquet")
            if options.counts:
                out.rows([*(Cells.numbers(np.ascontiguousarray(side[places])) for side in (one, other)), *cells])
            else:
                out.rows([_marks(one[places] > 0, out.format), *cells])
    return int(differ)


def _marks(first: Any, format: str) -> Cells:
    """Which file has a key: < and > in text, as diff prints them, else 1 and 2."""
    if format != "text":
        return Cells.numbers(np.where(first, 1, 2))
    return Cells((np.arange(len(first) + 1), np.where(first, ord("<"), ord(">")).astype(np.uint8)))
