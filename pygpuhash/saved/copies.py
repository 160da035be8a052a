"""pickle, copy.copy and copy.deepcopy: by the same container, in memory, with all that the original was made with."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from pygpuhash.saved.container import Reader, Writer
from pygpuhash.saved.contents import Contents, written
from pygpuhash.saved.made import made_of

__all__ = ["reduce"]


def reduce(given: Any, arguments: dict[str, Any], protocol: int) -> tuple[Any, ...]:
    """What `__reduce_ex__` returns: from protocol 5 on, the container is a buffer that a pickle may leave outside."""
    whole = bytearray()

    def to_memory(contents: Contents) -> None:
        whole.clear()
        writer = Writer(whole.extend, contents.types, contents.record.given(), None)
        for chunk in contents.chunks():
            writer.block(chunk)
        writer.finish()

    written(given, to_memory)
    data = pickle.PickleBuffer(memoryview(whole).toreadonly()) if protocol >= 5 else bytes(whole)
    return _rebuilt, (type(given), arguments, data), getattr(given, "__dict__", None) or None


def _rebuilt(cls: type, arguments: dict[str, Any], data: Any) -> Any:
    whole = np.frombuffer(data, np.uint8)
    reader = Reader(lambda offset, size: whole[offset : offset + size], whole.size, "the pickled table")
    return made_of(reader, None, None, arguments, cls)
