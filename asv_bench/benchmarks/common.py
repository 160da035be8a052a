"""What the benchmarks share."""

from harness.devices import Device, Unavailable, device
from harness.sizes import size_name

import pygpuhash as gh

REPEATS = 3
# Of the devices those that are here: asv starts a process for every combination of parameters, usable or not.
DEVICES = sorted({here.name.partition(":")[0] for here in gh.devices()})
BACKENDS = [backend.name for backend in gh.backends() if backend.state == "usable"]
# Benchmarks of a GPU alone say once that there is none.
ON_CUDA = BACKENDS if "cuda" in DEVICES else BACKENDS[:1]
LOADS = [0.8] if size_name() == "small" else [0.5, 0.8, 0.9]
WIDTHS = ["4+4", "8+8"]


def require(name: str) -> Device:
    """The device, or "not applicable" for asv."""
    try:
        return device(name)
    except Unavailable as error:
        raise NotImplementedError(str(error)) from error


def require_backend(backend: str, name: str) -> None:
    """The backend must have been built for the device."""
    built_for = next(b.devices for b in gh.backends() if b.name == backend)
    if name not in built_for:
        raise NotImplementedError(f"{backend} was not built for {name}")


def pair(widths: str) -> tuple[int, int]:
    """ "4+8" -> (4, 8)."""
    key, _, value = widths.partition("+")
    return int(key), int(value)
