"""A bar on standard error, when that is a terminal."""

from __future__ import annotations

import sys
import time

__all__ = ["Bar"]

_STEP = 0.1  # seconds between two pictures of one thing


class Bar:
    """A bar on the terminal: the share of the input that was read.

    beside_rows : rows are printed meanwhile, so that there is no bar where they go to a terminal, too.
    """

    def __init__(self, beside_rows: bool = False) -> None:
        self.shown = sys.stderr.isatty() and not (beside_rows and sys.stdout.isatty())
        self._what, self._next = "", 0.0

    def __call__(self, what: str, done: float) -> None:
        """Show a share of 1."""
        now = time.monotonic()
        if self.shown and (what != self._what or now >= self._next or done >= 1):
            self._what, self._next = what, now + _STEP
            filled = round(24 * done)
            sys.stderr.write(f"\r[{'#' * filled}{'.' * (24 - filled)}] {what[:50]:<50}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the bar from its line."""
        if self.shown:
            sys.stderr.write("\r" + " " * 80 + "\r")
            sys.stderr.flush()
