"""shards.json: which files are a snapshot of a table in shards, and what they have to be.

It is written last, as a whole, and read before any of the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pygpuhash.columns._engine import HASH_VERSION
from pygpuhash.errors import Corrupt, InvalidArgument, Unsupported
from pygpuhash.saved import disk
from pygpuhash.transports import digest

FORMAT = 1
NAME = "shards.json"


def refusal(folder: Path, replaces: bool) -> str:
    """Why no snapshot may be written to a folder; "" where one may."""
    try:
        disk.existing(folder / NAME, replaces)
    except FileExistsError as error:
        return str(error)
    return ""


def write(folder: Path, record: dict[str, Any], replaces: bool) -> None:
    """Make the files that a record names the snapshot of a folder."""
    with disk.replaced(folder / NAME, replaces) as write_bytes:
        write_bytes(json.dumps({"format": FORMAT, "hash": HASH_VERSION, **record}, indent=1).encode())


def read(folder: Path) -> dict[str, Any]:
    """The record of a folder's snapshot. Raises what `sharded.load` raises; the files are not looked at."""
    try:
        record: Any = json.loads((folder / NAME).read_bytes())
    except NotADirectoryError:
        raise InvalidArgument(f"{folder} is a file: pass the folder that a sharded table was saved to") from None
    except FileNotFoundError:
        raise InvalidArgument(f"{folder} has no {NAME}: pass the folder that a sharded table was saved to") from None
    except ValueError as error:
        raise Corrupt(f"{folder / NAME} is no JSON: {error}") from None
    shape = {"format": int, "snapshot": str, "hash": int, "seed": int, "shards": list, "tags": list}
    for name, kind in shape.items():
        if not isinstance(record, dict) or type(record.get(name)) is not kind:
            raise Corrupt(f"{folder / NAME} has no {name} of type {kind.__name__}: take it from where the files are")
    if record["format"] > FORMAT or record["hash"] != HASH_VERSION:
        raise Unsupported(
            f"{folder} has format {record['format']} and hash {record['hash']}, this gpuhash {FORMAT} and "
            f"{HASH_VERSION}: update gpuhash, or load its files one by one and insert them"
        )
    if not record["shards"] or len(record["tags"]) != len(record["shards"]):
        raise Corrupt(f"{folder / NAME} has {len(record['shards'])} shards and tags of {len(record['tags'])}")
    names: list[str] = []
    for i, entry in enumerate(record["shards"]):
        own = entry.get("file") if isinstance(entry, dict) else None
        if not isinstance(own, str) or Path(own).name != own or not {"bytes", "digest"} <= entry.keys():
            raise Corrupt(f"{folder / NAME}: shard {i} has no file of this folder")
        if own in names:
            raise Corrupt(f"{folder / NAME}: {own} is the file of shard {names.index(own)} and of shard {i}")
        if record["snapshot"] not in own:
            raise Corrupt(f"{folder / NAME}: {own}, of shard {i}, is not of the snapshot {record['snapshot']}")
        if not isinstance(record["tags"][i], list) or not all(isinstance(tag, str) for tag in record["tags"][i]):
            raise Corrupt(f"{folder / NAME}: the tags of shard {i} are not a list of texts")
        names.append(own)
    return dict(record)


def checked_files(folder: Path, record: dict[str, Any]) -> list[Path]:
    """The file of each shard. Raises Corrupt for one that is missing, or is not as it was saved."""
    files = [folder / str(entry["file"]) for entry in record["shards"]]
    for i, (file, entry) in enumerate(zip(files, record["shards"], strict=True)):
        if not file.is_file():
            raise Corrupt(
                f"{folder}: the file of shard {i}, {file.name}, is missing: take it from where the others are"
            )
        if file.stat().st_size != entry["bytes"] or digest(file) != entry["digest"]:
            raise Corrupt(
                f"{folder}: {file.name} is not the file of shard {i} that was saved: it is of another snapshot"
            )
    return files


def files_of(folder: Path) -> list[str]:
    """Files of a snapshot that is replaced; of one that is broken, or where there is none, none."""
    try:
        return [str(entry["file"]) for entry in read(folder)["shards"]]
    except (Corrupt, InvalidArgument, Unsupported):
        return []
