"""A run of a command: input that is counted, with a bar, and output."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pygpuhash.commands import output
from pygpuhash.commands.columns import Chunk, Kind, ahead
from pygpuhash.commands.output import Cells, Output
from pygpuhash.commands.progress import Bar
from pygpuhash.commands.sorted_kmers import SortedKmers
from pygpuhash.commands.sources import named
from pygpuhash.commands.tally import Tally

__all__ = ["chunks_of", "counted", "printing"]


def chunks_of(files: list[str], kind: Kind, bar: Bar) -> Iterator[tuple[str, Chunk]]:
    """(file, chunk) of all files."""
    for i, file in enumerate(files):

        def report(share: float, i: int = i, file: str = file) -> None:
            bar(f"reading {file}", (i + share) / len(files))

        for chunk in ahead(kind.read(file, report)):
            yield file, chunk


def counted(files: list[str], kind: Kind, tally: Tally | SortedKmers) -> None:
    """Count all keys of all files."""
    bar = Bar()
    try:
        for file, chunk in chunks_of(files, kind, bar):
            if isinstance(tally, SortedKmers):
                assert chunk.kmers is not None
                tally.add(chunk.kmers)
                continue
            with named(file):
                tally.add(chunk.schema, chunk.arrays)
    finally:
        bar.clear()


@contextlib.contextmanager
def printing(
    options: Any, names: list[str], empty: Callable[[], list[Cells]] | None = None, marked: bool = False
) -> Iterator[Output]:
    """The output of a command, open while the block runs."""
    format = output.format_of(options.output, options.to)
    with output.opened(options.output, options.overwrite) as write:
        out = Output(write, format, names, options.errors, marked)
        yield out
        out.finish(empty)
