"""Saved tables: files of Arrow IPC that other programs read, written as a whole or not at all.

`files` is what a user calls. Below it, each knowing those after it: `copies` (the same for pickle), `contents` (what is
written), `made` and `by_id` (what is read), `record`, `container` (blocks and checksums), `elements` and `columns`
(arrays as Arrow's buffers), `chunk`, `codecs`, `types`, `flatbuffers`. `disk` and `behind` are by themselves.

They are imported on first use: most programs save nothing.
"""

from typing import Any

from pygpuhash.counter import Counter
from pygpuhash.group_by import GroupBy
from pygpuhash.index import Index
from pygpuhash.table import Table

__all__ = ["load"]


def load(path: Any, /, backend: str | None = None, device: Any = None, **arguments: Any) -> Any:
    """The table, table of text, index, counter or group-by that `save` has written to a file.

    Parameters
    ----------
    path : of the file; a text or a path, "~" is the home.
    backend : name of a structure, or "auto"; None for the one that was saved. Every structure loads the tables of every
        other one, if it has their dtypes, and several values per key where there are any.
    device : as for `Table`; None for the CPU if the table was there, else "auto".
    arguments : others of `Table`; of an index, a counter and a group-by threads, seed and capacity. What is loaded
        grows, and has a new seed: `seed="saved"` takes that of the file. Options are those of the file where they are a
        choice among words; numbers, and capacity, are passed anew, so that a file does not ask for memory that its rows
        do not need. A table goes into a file, rather than into memory, by the "stadium" backend, placement="file" and
        the path of the new file.

    One block of the file is in memory at a time. Every byte is checked. `gh.progress` hears of the rows.

    Raises
    ------
    Corrupt : a part of the file is broken; the message says which. InvalidArgument : it is no saved table.
    Unsupported : it was saved by a newer version, or needs what is not installed. OSError : what the system says.
    """
    from pygpuhash.saved import files

    return files.load(path, backend, device, **arguments)


def _save(*given: Any) -> None:
    from pygpuhash.saved import files

    files.save(*given)


def _reduce(*given: Any) -> tuple[Any, ...]:
    from pygpuhash.saved import copies

    return copies.reduce(*given)


Table._saving = Index._saving = Counter._saving = GroupBy._saving = (_save, _reduce)
