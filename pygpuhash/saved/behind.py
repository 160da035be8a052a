"""Writing behind: a thread writes a block while the next one is read from the table and its checksum made."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Behind", "behind"]


class Behind:
    """Takes bytes to write, and raises what the writing thread has met."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        self._write = write
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._before = self._mark = threading.Event()
        self._mark.set()
        self._error: BaseException | None = None
        self._ended = False

    def __call__(self, data: Any) -> None:
        """Write these bytes, which stay as they are until the end of the next block."""
        self._given.put(data)

    def end_block(self) -> None:
        """Wait until the block before this one is written."""
        self._before, self._mark = self._mark, threading.Event()
        self._given.put(self._mark)
        self._before.wait()
        self._check()

    def finish(self) -> None:
        """Wait until everything is written."""
        self.end_block()
        self._mark.wait()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (data := self._given.get()) is not None:
            if isinstance(data, threading.Event):
                data.set()
            elif self._error is None and not self._ended:
                try:
                    self._write(data)
                except BaseException as error:
                    self._error = error


@contextmanager
def behind(write: Callable[[Any], object]) -> Iterator[Behind]:
    """A thread that writes while the block runs, and has ended after it, however that ends."""
    made = Behind(write)
    thread = threading.Thread(target=made._run, daemon=True)
    thread.start()
    try:
        yield made
        made.finish()
    finally:
        made._ended = True
        made._given.put(None)
        thread.join()
