"""Targets, checks and failures of the conformance suite, and the run of all checks on one target."""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from pygpuhash.errors import GpuHashError, OptionNotFound
from pygpuhash.table import Table

__all__ = [
    "CHECKS",
    "Check",
    "Failure",
    "Outcome",
    "Skipped",
    "Target",
    "check",
    "expect",
    "run",
    "same",
    "same_set",
]

Effort = Literal["quick", "normal", "long"]
T = TypeVar("T")

# The widths of keys and values that tables can have; a target has those that its backend announces.
FORMATS = [(k, v) for k in ("uint32", "uint64") for v in (None, "uint32", "uint64")]


class Failure(AssertionError):
    """A backend did not do what it has to do; the message says what differed."""


class Skipped(Exception):
    """A check does not apply here; the message says why."""


def expect(condition: Any, message: str) -> None:
    """Fail with this message unless the condition holds."""
    if not condition:
        raise Failure(message)


def same(what: str, got: Any, expected: Any, keys: Any = None) -> None:
    """Fail unless two arrays are equal bit by bit; the message names the first difference, and its key."""
    a, b = np.atleast_1d(np.asarray(got)), np.atleast_1d(np.asarray(expected))
    expect(a.shape == b.shape, f"{what}: got shape {a.shape}, expected {b.shape}")
    if a.dtype == b.dtype and a.dtype.kind == "f":
        a, b = a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")
    wrong = np.flatnonzero(a.reshape(-1) != b.reshape(-1))
    if wrong.size:
        i = wrong[0]
        key = "" if keys is None else f" (key {_number(np.asarray(keys).reshape(-1)[i])})"
        raise Failure(
            f"{what}: {wrong.size} of {a.size} differ, the first at {i}{key}: "
            f"got {_number(a.reshape(-1)[i])}, expected {_number(b.reshape(-1)[i])}"
        )


def same_set(what: str, got: Iterable[Any], expected: Iterable[Any]) -> None:
    """Fail unless two collections without duplicates hold the same."""
    got, wanted = list(got), set(expected)
    expect(len(got) == len(set(got)), f"{what}: {len(got) - len(set(got))} of {len(got)} occur twice")
    extra, missing = set(got) - wanted, wanted - set(got)
    if extra or missing:
        some = ", ".join([f"{_number(k)} is extra" for k in sorted(extra)[:3]])
        lost = ", ".join([f"{_number(k)} is missing" for k in sorted(missing)[:3]])
        raise Failure(f"{what}: {len(extra)} extra, {len(missing)} missing: {'; '.join(filter(None, [some, lost]))}")


def _number(x: Any) -> str:
    if isinstance(x, (int, np.integer)):
        return f"{int(x)}" if abs(int(x)) < 1 << 20 else f"{int(x):#x}"
    return str(x)


@dataclass(frozen=True)
class Target:
    """A backend on a device, how long to take, and from which seed.

    `make` builds the tables: `Table`, or in tests of this suite a class with a planted fault. `fields` are merged into
    the arguments of every table: the options of a backend that has several shapes. `formats` are the dtypes of keys and
    values (None: a set) that the backend takes, `kinds` the devices that it was built for. `ignores`: of "memory" and
    "seed" the arguments that a Python class does not claim to honour, by a trait of that name; a module honours both.
    """

    backend: str
    device: str = "cpu"
    traits: frozenset[str] = frozenset()
    seed: int = 1
    effort: Effort = "quick"
    fields: dict[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] = Table
    formats: tuple[tuple[str, str | None], ...] = tuple(FORMATS)
    kinds: tuple[str, ...] = ("cpu", "cuda")
    ignores: frozenset[str] = frozenset()

    def honours(self, argument: str) -> None:
        """Skip the check where the backend ignores the argument that it is about."""
        if argument in self.ignores:
            raise Skipped(f"the class does not have the trait {argument}")

    @property
    def pair(self) -> tuple[str, str | None]:
        """The widest format: what a check uses that needs only one."""
        return max(self.formats, key=lambda f: (f[1] is not None, f[0], f[1] or ""))

    def among(self, *wanted: tuple[str, str | None]) -> list[tuple[str, str | None]]:
        """Those of these formats that the backend takes; its widest one if it takes none of them."""
        return [f for f in wanted if f in self.formats] or [self.pair]

    def rng(self, what: str = "") -> np.random.Generator:
        """Random numbers that depend on the seed and on what they are for."""
        return np.random.default_rng([self.seed, zlib.crc32(what.encode())])

    def pick(self, quick: T, normal: T, long: T) -> T:
        """A size, by effort."""
        return {"quick": quick, "normal": normal, "long": long}[self.effort]

    def build(self, key: str, value: str | None, **arguments: Any) -> Any:
        """A table that the caller closes. One that cannot grow has room for what the checks put into it."""
        arguments = {"seed": self.seed, "grow": "grow" in self.traits, **self.fields, **arguments}
        if "grow" not in self.traits:
            arguments.setdefault("capacity", self.pick(50_000, 500_000, 5_000_000))
        return self.make(self.backend, key_dtype=key, value_dtype=value, device=self.device, **arguments)

    @contextmanager
    def table(self, key: str, value: str | None, **arguments: Any) -> Iterator[Any]:
        """A table. At the end its invariants are tested, its keys counted, and it is closed."""
        t = self.build(key, value, **arguments)
        try:
            yield t
            audit(t)
        finally:
            t.close()

    def tidy(self, t: Any) -> None:
        """Give the room of erased keys back, in a table that cannot grow: those that can do so by themselves."""
        if "grow" not in self.traits and "flush" in self.traits:
            t.flush()

    def multi_table(self, key: str, value: str | None, **arguments: Any) -> Any:
        """A table that may hold a key several times: with the option `duplicates=1` where the backend has it."""
        try:
            self.build(key, value, duplicates=1).close()
        except OptionNotFound:
            return self.table(key, value, **arguments)
        return self.table(key, value, duplicates=1, **arguments)


def audit(t: Any, unique: bool = False) -> None:
    """The invariants of the structure, and that size and export agree."""
    t.check()
    keys, values = t.export()
    expect(len(t) == len(keys), f"the size is {len(t)}, but {len(keys)} pairs are exported")
    expect(values is None or len(values) == len(keys), "export returned fewer values than keys")
    if unique:
        same_set("exported keys", keys.tolist(), set(keys.tolist()))


@dataclass(frozen=True)
class Check:
    """One check: a name for `--check`, the traits it needs, and the function."""

    name: str
    needs: frozenset[str]
    function: Callable[[Target], None]
    summary: str


CHECKS: dict[str, Check] = {}


def check(*needs: str) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
    """Register a check under its function's name. `needs`: traits without which it does not apply."""

    def register(function: Callable[[Target], None]) -> Callable[[Target], None]:
        name = function.__name__.replace("_", "-")
        summary = (function.__doc__ or "").partition("\n")[0]
        CHECKS[name] = Check(name, frozenset(needs), function, summary)
        return function

    return register


@dataclass(frozen=True)
class Outcome:
    """What came of one check: "pass", "skip" or "fail", and why."""

    name: str
    outcome: Literal["pass", "skip", "fail"]
    seconds: float
    message: str = ""


def run(one: Check, target: Target) -> Outcome:
    """Run one check. Whatever the backend raises is a failure."""
    missing = sorted(one.needs - target.traits)
    if missing:
        return Outcome(one.name, "skip", 0.0, f"the backend does not have the trait {' or '.join(missing)}")
    start = time.perf_counter()
    try:
        one.function(target)
    except Skipped as reason:
        return Outcome(one.name, "skip", time.perf_counter() - start, str(reason))
    except Failure as failure:
        return Outcome(one.name, "fail", time.perf_counter() - start, str(failure))
    except (Exception, GpuHashError) as error:
        where = traceback.extract_tb(error.__traceback__)
        mine = [f for f in where if "_conformance" in f.filename]
        line = f" (in {mine[-1].name}, line {mine[-1].lineno})" if mine else ""
        return Outcome(one.name, "fail", time.perf_counter() - start, f"{type(error).__name__}: {error}{line}")
    return Outcome(one.name, "pass", time.perf_counter() - start)
