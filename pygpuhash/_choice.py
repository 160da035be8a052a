"""What `Table("auto")` stands for: the first structure of this package that has all that the arguments ask for.

A structure that did not come with the package is never taken. The preference follows the rates in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pygpuhash import _core, _cuda, registry
from pygpuhash.errors import GpuHashError, InvalidArgument, Unsupported

__all__ = ["NEEDS", "choose"]

PREFERENCE = ("linear_probe", "hive", "slab_hash", "skiplist", "stadium")
# The load from which on hive finds faster than linear_probe: present keys, too; absent ones; absent ones on a GPU. The
# last one is linear_probe's default.
HIGH_LOAD, MISSES_LOAD, MISSES_LOAD_CUDA = 0.95, 0.9, 0.8
# What `needs` may name: traits, and "misses": most lookups will be of absent keys.
NEEDS = ("accumulate", "multi", "ordered", "misses")


def choose(
    needs: Iterable[str],
    key: np.dtype[Any],
    value: np.dtype[Any] | None,
    load: float,
    options: Iterable[str],
    kind: int | None,
) -> str:
    """The name of a backend, for the stored dtypes, a load factor (0: none was given), options and a device's kind.

    Raises `Unsupported` that says of each structure what it lacks.
    """
    wanted = list(needs)
    for need in wanted:
        if need not in NEEDS:
            raise InvalidArgument(f"needs={need!r} is nothing that a table can be chosen by: use {', '.join(NEEDS)}")
    order = list(PREFERENCE)
    on_cuda = kind == _core.CUDA or (kind is None and _core.device_count(_core.CUDA)[0] > 0 and _cuda.missing() is None)
    misses_load = MISSES_LOAD_CUDA if on_cuda else MISSES_LOAD
    if (load or MISSES_LOAD_CUDA) >= (misses_load if "misses" in wanted else HIGH_LOAD):
        order.remove("hive")
        order.insert(0, "hive")
    lacking = {}
    for name in order:
        lacking[name] = _lacks(name, set(wanted) - {"misses"}, key, value, set(options), kind)
        if not lacking[name]:
            return name
    if any(all(f"the option {option}" in lacks for lacks in lacking.values()) for option in options):
        return registry.DEFAULT  # which says that the option is unknown, and what its own are
    reasons = "; ".join(f"{name} lacks {' and '.join(lacks)}" for name, lacks in lacking.items())
    raise Unsupported(f"backend='auto': no structure has all that is asked for: {reasons}")


def _lacks(
    name: str,
    traits: set[str],
    key: np.dtype[Any],
    value: np.dtype[Any] | None,
    options: set[str],
    kind: int | None,
) -> list[str]:
    """Words for what is asked for and this structure does not have."""
    try:
        info = _core.backend_load(str(registry.resolve(name)))
    except GpuHashError as error:
        return [f"a module that can be used ({error})"]
    lacks = sorted(traits - info["traits"])
    for what, dtype, widths in (("keys", key, info["key_widths"]), ("values", value, info["value_widths"])):
        size = 0 if dtype is None else dtype.itemsize
        if size not in widths and "wide" not in info["traits"]:
            lacks.append(f"{what} of {size} bytes" if size else "sets")
    lacks += [f"the option {option}" for option in sorted(options - {row[0] for row in info["options"]})]
    if kind is not None and kind not in info["devices"]:
        lacks.append("kernels for CUDA" if kind == _core.CUDA else "kernels for the CPU")
    return lacks
