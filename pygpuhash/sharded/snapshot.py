"""A table in shards from the files that `Table.save` has written, in as many shards as are wanted."""

from __future__ import annotations

import os
from typing import Any

from pygpuhash import saved
from pygpuhash.errors import Corrupt, Unsupported
from pygpuhash.saved import disk
from pygpuhash.sharded import manifest
from pygpuhash.sharded.table import Table, shards_of


def load(
    path: str | os.PathLike[str], *, shards: int | None = None, transport: Any = None, backend: str | None = None,
    **arguments: Any,
) -> Table:  # fmt: skip
    """The sharded table that `Table.save` has written to a folder.

    shards : None for as many as were saved; any other number: keys are divided anew, one file after the other.
    transport, backend, arguments : as for `Table`; backend None for the one that was saved, with options given anew.

    Raises InvalidArgument for a folder without a snapshot, Corrupt for a snapshot of which a file is missing, is of
    another snapshot or shard, or was changed, Unsupported for one of a newer format or another version of the hash.
    """
    for name in ("key_dtype", "value_dtype", "seed"):
        if name in arguments:
            raise TypeError(f"{name}= is that of the saved table: leave it out")
    folder = disk.path_of(path)
    record = manifest.read(folder)
    files = manifest.checked_files(folder, record)
    made: Table | None = None
    try:
        for i, file in enumerate(files):
            with saved.load(file, backend, "cpu") as part:
                if made is None:
                    made = Table(
                        part.backend, key_dtype=part.key_dtype, value_dtype=part.value_dtype, seed=record["seed"],
                        shards=len(files) if shards is None else shards, transport=transport, **arguments,
                    )  # fmt: skip
                all_pairs = part.export()
                if others := shards_of(all_pairs[0], len(files), record["seed"]) - {i}:
                    raise Corrupt(
                        f"{folder}: {file.name}, of shard {i}, has keys of shard {min(others)} of {len(files)}: "
                        f"{manifest.NAME} is not the one that was saved with the files"
                    )
                leads = made._transport.leads  # of processes that load together, one inserts
                made.insert(*(all_pairs if leads else [None if own is None else own[:0] for own in all_pairs]))
    except BaseException:
        if made is not None:
            made.close()
        raise
    assert made is not None
    if made.shards == len(files):
        made._every("set_tags", [(tags,) for tags in record["tags"]])
    elif any(record["tags"]):
        made.close()
        raise Unsupported(f"{folder} has tags of batches, which are of its shards: load it with shards={len(files)}")
    made._snapshot = f"{folder} ({record['snapshot']})"
    return made
