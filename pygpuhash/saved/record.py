"""The record of a file: what was saved, and how. What a file says of itself is not trusted."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from pygpuhash import _core
from pygpuhash.errors import BackendNotFound
from pygpuhash.saved.flatbuffers import Malformed

__all__ = ["Record", "options_for"]

_WHERE = {"placement", "path", "file", "elements", "repair"}  # options that say where a table is, and not what it is
_NAME = re.compile(r"(?!.*\.so$)[A-Za-z0-9_.:-]{1,128}")  # never a path, whose module would be loaded
_KINDS = ("table", "text", "index", "counter", "groups")
_BY_ID = _KINDS[2:]  # without a backend


@dataclass
class Record:
    """kind: "table", "text", or of those in the order of ids "index", "counter", "groups".

    Of the latter, key and value are None, and options what an index is made with.

    key, value : dtypes as `elements.described` writes them, of text "str" or "bytes".
    order : what the rows are ordered by, "key" or "id"; None for no order.
    aggregates : of groups, [name, op, dtype of its first array] of each aggregate; else None.
    """

    kind: str
    rows: int
    backend: str | None = None
    key: Any = None
    value: Any = None
    seed: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    max_load_factor: float | None = None
    grow: bool = True
    device: str = "cpu"
    order: str | None = None
    aggregates: Any = None

    def given(self) -> dict[str, Any]:
        """As a JSON object, with the version of the library that wrote it."""
        given = {**asdict(self), "gpuhash": _core.version()}
        if self.aggregates is None:
            del given["aggregates"]
        return given

    @classmethod
    def read(cls, given: dict[str, Any]) -> Record:
        """The record of a file. Raises Malformed."""
        known: dict[str, Any] = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        known.setdefault("kind", "")
        known.setdefault("rows", -1)
        record = cls(**known)
        good = (
            record.kind in _KINDS
            and _whole(record.rows)
            and (record.seed is None or _whole(record.seed))
            and isinstance(record.options, dict)
            and all(isinstance(text, str) for pair in record.options.items() for text in pair)
            and isinstance(record.max_load_factor, float | None)
            and (record.kind in _BY_ID or (isinstance(record.backend, str) and _NAME.fullmatch(record.backend)))
            and isinstance(record.device, str)
            and type(record.grow) is bool
        )
        if not good:
            raise Malformed(f"its record describes no table: {str(given)[:200]}")
        return record


def _whole(number: Any) -> bool:
    return type(number) is int and 0 <= number < 2**64


def options_for(record: Record, backend: str, *, whole: bool) -> dict[str, str]:
    """The options of the record for a backend.

    Those that say where the table is are left out. Of another backend than the recorded one, duplicates alone is taken;
    of the same one, unless `whole`, what is a choice among words, since a number may ask for any amount of memory.
    """
    try:
        known = {name: choices for name, choices, _ in _core.backend_load(backend)["options"]}
    except BackendNotFound:  # a class of Python, which gets no options
        return {}
    same = backend == record.backend
    return {
        name: text
        for name, text in record.options.items()
        if name in known and name not in _WHERE and ((same and (whole or "|" in known[name])) or name == "duplicates")
    }
