"""Keyword arguments of verbs that neither the verb, `Table` nor a backend knows are refused in the verb's own name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from pygpuhash import _choice, _core, registry
from pygpuhash.errors import GpuHashError, OptionNotFound
from pygpuhash.table import Table

__all__ = ["refuse_unknown"]

_TAKEN = frozenset(inspect.signature(Table).parameters) - {"backend_options"}
_DECIDED = ("key_dtype", "value_dtype", "grow", "needs")  # by the verb
_WORDS = {  # of pandas, numpy and polars
    "sort": "sort what comes back",
    "normalize": "divide the counts by their sum",
    "dropna": "pass nulls='drop' or nulls='group'",
    "use_na_sentinel": "pass nulls='drop' or nulls='group'",
    "return_index": "use factorize",
    "return_inverse": "use factorize",
    "return_counts": "use value_counts",
    "maintain_order": "pass order='first'",
    "invert": "pass the mask on as ~mask",
    "agg": "pass op=",
}


def refuse_unknown(verb: Callable[..., Any], given: dict[str, Any]) -> None:
    """Refuse keywords that neither the verb nor a backend has, before anything is done.

    Raises OptionNotFound, which names the keywords of the verb and the one that may have been meant.
    """
    strange = [name for name in given if name not in _TAKEN]
    if not strange:
        return
    options = _options(given.get("backend", "auto"))
    for name in strange:
        if options is not None and name not in options:
            raise OptionNotFound(_sentence(verb, name))


def _options(backend: Any) -> set[str] | None:
    """The options that a backend may have; None where only the backend itself can say."""
    try:
        names = _choice.PREFERENCE if backend == "auto" else [backend]
        targets = [registry.resolve(name) for name in names]
        if any(isinstance(target, type) for target in targets):
            return None
        return {row[0] for target in targets for row in _core.backend_load(str(target))["options"]}
    except (GpuHashError, TypeError):
        return None


def _sentence(verb: Callable[..., Any], name: str) -> str:
    own = [key for key, value in inspect.signature(verb).parameters.items() if value.kind != value.VAR_KEYWORD]
    for_tables = [key for key in inspect.signature(Table).parameters if key in _TAKEN and key not in _DECIDED]
    near = difflib.get_close_matches(name, [*own, *for_tables], 1, 0.6)
    way_out = f"did you mean {near[0]!r}?" if near else f"{_WORDS[name]}." if name in _WORDS else "leave it out."
    return (
        f"{verb.__name__} has no keyword {name!r}: {way_out} It takes {', '.join(own)}, for its table "
        f"{', '.join(for_tables)}, and options of the backend"
    )
