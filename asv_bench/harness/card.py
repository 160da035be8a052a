"""A card: what tells its kind from another one, without a number of the very card, and what it can do at best.

Records of a GPU hold both, so that a slower card is not read as a slower library.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pygpuhash as gh

from .card_courses import CardCourse, card_sizes
from .ceilings import Ceilings
from .courses import OPERATIONS
from .devices import Unavailable

ACCESSES, REPEATS = 1 << 24, 15  # of one ceiling
CLOCK, BUS = 36, 37  # cudaDevAttrMemoryClockRate, in kHz, and cudaDevAttrGlobalMemoryBusWidth, in bits
RATIO = "track_times_ceiling"  # the benchmark of a figure that is divided by its ceiling


def identity(name: str = "cuda") -> dict[str, Any]:
    """Model, clock and width of the memory; without CuPy, which asks the driver, the model alone."""
    ordinal = int(name.partition(":")[2] or 0)
    models = [device.model for device in gh.devices() if device.name == f"cuda:{ordinal}"]
    if not models:
        raise Unavailable(f"the package sees no card {name}")
    known: dict[str, Any] = {"model": models[0]}
    try:
        ask = importlib.import_module("cupy").cuda.runtime.deviceGetAttribute
    except ImportError:
        return known
    return known | {"memory_clock_mhz": ask(CLOCK, ordinal) // 1000, "memory_bus_bits": ask(BUS, ordinal)}


def key_ceilings(device: str = "cuda", accesses: int = ACCESSES) -> dict[tuple[str, str], float]:
    """(operation, label of a course) -> nanoseconds that a key needs at least: medians of the accesses at random places
    that it cannot do without, over as much memory as the pairs alone take."""
    known = Ceilings(device, accesses, REPEATS)
    return {
        (operation, course.label): known.per_key(operation, sum(course.widths), course.n * sum(course.widths)) * 1e9
        for course in (CardCourse("", *size) for size in card_sizes())
        for operation in OPERATIONS
    }


def check_series(folder: Path, card: Mapping[str, Any]) -> None:
    """Raise ValueError if this machine's folder has records of another card than this one."""
    about = json.loads((folder / "machine.json").read_text())
    if card["model"] not in about["cpu"]:
        raise other_card(folder.name, about["cpu"], card["model"])
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        known = record.get("card") if isinstance(record, dict) else None
        if known and words(known) != words(card):
            raise other_card(folder.name, words(known), words(card))


def other_card(machine: str, has: str, found: str) -> ValueError:
    """Why a record does not belong to the series of a machine."""
    return ValueError(
        f"{machine} has records of {has}, and this is {found}: GPUHASH_BENCH_MACHINE has to name another machine"
    )


def words(card: Mapping[str, Any]) -> str:
    """A card in a sentence."""
    if "memory_clock_mhz" not in card:
        return str(card["model"])
    return f"{card['model']} with memory of {card['memory_bus_bits']} bits at {card['memory_clock_mhz']} MHz"
