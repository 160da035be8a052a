"""How far a long batch has come: for progress bars."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from pygpuhash import _core
from pygpuhash.errors import InvalidArgument

__all__ = ["current", "progress", "quiet"]

Report = Callable[[int, int], object]

_report: contextvars.ContextVar[Report | None] = contextvars.ContextVar("pygpuhash.progress", default=None)

current = _report.get
_core.tell_progress_to(current)


@contextlib.contextmanager
def progress(report: Report) -> Iterator[None]:
    """Inside of it, long batches of host arrays tell how far they have come.

    Parameters
    ----------
    report : called as `report(done, n)` after each piece of a batch of n keys that is passed on in several pieces, by
        the thread that made the call; the last time with `done == n`. What it raises ends the batch as Ctrl-C does: the
        pieces that were carried out stay.

    Batches of device arrays report nothing, since no call waits for them, nor do other threads and contexts.

        with tqdm.tqdm(total=len(keys)) as bar, gh.progress(lambda done, n: bar.update(done - bar.n)):
            table.insert(keys, values)

    Raises
    ------
    InvalidArgument : `report` cannot be called.
    """
    if not callable(report):
        raise InvalidArgument(f"report={report!r} cannot be called: pass a function of (done, n)")
    before = _report.set(report)
    _core.watched(1)
    try:
        yield
    finally:
        _core.watched(-1)
        _report.reset(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside of it, batches tell nothing: a call that is made of several tells of itself."""
    before = _report.set(None)
    try:
        yield
    finally:
        _report.reset(before)
