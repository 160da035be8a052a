"""`Replica`: all keys of a table in shards on each device, for tables that are mostly read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpuhash import _arrays, _routes
from pygpuhash.errors import Unsupported
from pygpuhash.transports import Call, Local, Maker

if TYPE_CHECKING:
    from pygpuhash.sharded.table import Table


class Replica:
    """All keys of a table on each device of its transport: what is asked is divided among them, whatever the keys are.

    It is of the moment at which it was made: later batches of the table are not in it. Each device holds all keys.
    With `Torch` each process has one of its own, and asks it alone. Keys on a GPU are looked up in the copy that is
    there, and nothing travels: two cards answer side by side where each has batches of its own.
    """

    def __init__(self, table: Table) -> None:
        self._keys, self._key_store, self._values = table._keys, table._key_store, table._values
        self._transport = table._transport.another()
        parts = table._every("export")
        size = sum(len(own) for own, _ in parts)
        made = dict(table._made_with)
        self._transport.open(
            len(self._transport.devices), Maker(made.pop("backend"), self._keys, self._values, size, made)
        )
        for own, values in parts:
            self._ask("insert", [(own,) if values is None else (own, values)] * self.copies)

    def find(self, keys: Any) -> tuple[Any, Any]:
        """(values, found) of each key; values None for a set."""
        if _arrays.on_device(keys):
            there: tuple[Any, Any] = self._there("find", keys)
            return there
        found, shape = self._divided("find", keys)
        mask = np.concatenate([own for _, own in found])
        if self._values is None:
            return None, mask.reshape(shape)[()]
        values = np.concatenate([own for own, _ in found])
        return values.reshape(shape + values.shape[1:])[()], mask.reshape(shape)[()]

    def contains(self, keys: Any) -> Any:
        """Which keys are there."""
        if _arrays.on_device(keys):
            return self._there("contains", keys)
        found, shape = self._divided("contains", keys)
        return np.concatenate(found).reshape(shape)[()]

    def __len__(self) -> int:
        return int(self._ask("info", [()])[0]["size"])

    def __contains__(self, key: object) -> bool:
        return bool(self.contains(key))

    @property
    def copies(self) -> int:
        """How many copies there are."""
        return len(self._transport.devices)

    def close(self) -> None:
        """Release all copies."""
        self._transport.close()

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _there(self, method: str, keys: Any) -> Any:
        """The answers of the copy on the card of the keys."""
        card = _routes.card_of(keys)
        cards = self._transport.lanes.of_shards if isinstance(self._transport, Local) else []
        if card not in cards:
            raise Unsupported(
                f"keys are on cuda:{card}, where there is no copy of the table: copy them to a card that has one, "
                "or to the host"
            )
        (found,) = self._asked([Call(cards.index(card), method, (keys,))])
        return found

    def _divided(self, method: str, keys: Any) -> tuple[list[Any], tuple[int, ...]]:
        stored = _arrays.to_store(keys, self._keys, self._key_store, "keys")
        own = _arrays.from_store(stored.reshape(-1), self._keys)
        return self._ask(method, [(part,) for part in np.array_split(own, self.copies)]), stored.shape

    def _ask(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        return self._asked([Call(i, method, own) for i, own in enumerate(given)])

    def _asked(self, calls: list[Call]) -> list[Any]:
        results = self._transport.call(calls)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return list(results)
