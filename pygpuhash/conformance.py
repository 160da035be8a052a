"""`pygpuhash conformance NAME`: does a backend do what every backend has to do?

NAME is a backend's name, or the path of a module. Every check runs on every device that the backend can use here; only
a trait that the backend does not have lets a check be skipped. Its name is printed before a check begins, so that a
crash or a hang has a name. Exit status: 0 when all checks have passed, 1 when one
has failed, 2 when the input cannot be used.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import secrets
import shlex
import sys
from typing import Any, TextIO

import numpy as np

from pygpuhash import _core, _devices, registry
from pygpuhash._conformance.harness import CHECKS, FORMATS, Outcome, Target, run
from pygpuhash.errors import GpuHashError, InvalidArgument, PluginError

__all__ = ["main", "targets"]

# Seconds after which a check counts as hanging: many times what it takes on a slow machine.
LIMITS = {"quick": 300, "normal": 1800, "long": 0}


def main(argv: list[str] | None = None) -> int:
    """Entry point of the subcommand; returns the exit status."""
    options = _parser().parse_args(argv)
    progress = sys.stderr if options.json else sys.stdout
    try:
        print(f"loading {options.name}", file=progress, flush=True)
        limit = _limit(options)
        _watch(limit)
        found = targets(
            options.name, options.device, seed=_seed(options), effort=_effort(options), fields=_fields(options)
        )
        names = _check_names(options.check)
    except GpuHashError as error:
        print(f"pygpuhash: {error}", file=sys.stderr)
        return 2
    finally:
        _stop_watching()
    reports = []
    for target in found:
        if not options.json:
            _print_title(target)
        outcomes = []
        for name in names:
            print(f"  {name:<26} ", end="", file=progress, flush=True)
            _watch(limit)
            try:
                outcomes.append(run(CHECKS[name], target))
            finally:
                _stop_watching()
            _print_outcome(outcomes[-1], target, progress, options.name)
        reports.append({**_describe(target), "checks": [vars(o) for o in outcomes], **_counts(outcomes)})
        if not options.json:
            _print_closing(target, outcomes)
    if options.json:
        print(json.dumps(reports, indent=2))
    return 1 if any(report["failed"] for report in reports) else 0


def _watch(limit: int) -> None:
    """From here on a crash, or `limit` seconds without an end (0: any number), print where every thread is.

    What was printed last names the check. A hang ends the process: nothing else can end a call that does not return.
    """
    file = sys.__stderr__
    try:
        if file is None or file.fileno() < 0:
            return
    except (OSError, ValueError):  # closed, or not a file
        return
    faulthandler.enable(file)
    if limit > 0:
        faulthandler.dump_traceback_later(limit, exit=True, file=file)


def _stop_watching() -> None:
    faulthandler.cancel_dump_traceback_later()


def targets(
    name: str, device: str | None = None, *, seed: int = 1, effort: Any = "normal", fields: dict[str, Any] | None = None
) -> list[Target]:
    """The backend on one device, or on every device that it can use here.

    Raises what `registry.resolve` and `parse_device` raise, and InvalidArgument when there is no usable device.
    """
    resolved = registry.resolve(name)
    ignores: frozenset[str] = frozenset()
    if isinstance(resolved, type):
        traits, kinds = frozenset(getattr(resolved, "traits", ())), tuple(getattr(resolved, "devices", ("cpu",)))
        _refuse_without_methods(name, resolved, traits)
        ignores = frozenset({"memory", "seed"}) - traits
        keys, values = (getattr(resolved, f"{what}_widths", None) for what in ("key", "value"))
        widths = [(k, v) for k, v in FORMATS if keys is None or _bytes(k) in keys]
        widths = [(k, v) for k, v in widths if values is None or _bytes(v) in values]
        usable = [d.name for d in _devices.devices() if d.name.partition(":")[0] in kinds]
    else:
        info = _core.backend_load(resolved)
        if "/" in name or name.endswith(".so"):
            name = registry.name_of(info)
        traits = frozenset(info["traits"])
        widths = [(k, v) for k, v in FORMATS if _bytes(k) in info["key_widths"] and _bytes(v) in info["value_widths"]]
        kinds = tuple({_core.CPU: "cpu", _core.CUDA: "cuda"}[kind] for kind in info["devices"])
        usable = _usable_devices(resolved) if device is None else []
    wanted = usable if device is None else [_devices.device_name(*_devices.parse_device(device))]
    if not wanted:
        raise InvalidArgument(f"backend {name!r} has no device that can be used here: see pygpuhash info")
    found = []
    for d in wanted:
        formats = tuple(_formats(d, widths))
        if not formats:
            raise InvalidArgument(f"backend {name!r} takes no pair of widths that this suite has: 4 and 8 bytes")
        more = {"seed": seed, "effort": effort, "fields": fields or {}, "ignores": ignores}
        found.append(Target(name, d, traits, formats=formats, kinds=kinds, **more))
    return found


# What the checks call, by the trait that they need; "": of every backend.
METHODS = {
    "": "insert insert_or_assign find contains count erase execute export clear reserve shrink check stats histogram "
    "close __len__",
    "accumulate": "accumulate",
    "answers": "pop find_or_insert",
    "flush": "flush",
    "multi": "insert_multi find_all erase_all",
    "ordered": "lower_bound floor successor predecessor range min max __getitem__",
}


def _refuse_without_methods(name: str, backend: type, traits: frozenset[str]) -> None:
    """Refuse a class that lacks methods of `Table`, with all of them in one sentence."""
    wanted = [m for trait in ("", *sorted(traits)) for m in METHODS.get(trait, "").split()]
    missing = [m for m in wanted if not hasattr(backend, m)]
    if missing and not hasattr(backend, "__getattr__"):  # by which it may pass calls on
        raise PluginError(
            f"backend {name!r} is the class {backend.__module__}.{backend.__qualname__}, which has no "
            f"{', '.join(missing)}: give it these methods of pygpuhash.Table"
        )


def _bytes(dtype: str | None) -> int:
    return 0 if dtype is None else np.dtype(dtype).itemsize


def _usable_devices(backend: str) -> list[str]:
    there = [(kind, i) for kind in (_core.CPU, _core.CUDA) for i in range(_core.device_count(kind)[0])]
    return [_devices.device_name(*d) for d in there if _core.backend_probe(backend, *d) is None]


def _formats(device: str, widths: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """These widths; without the pairs of 16 bytes on CUDA devices that have no compare-and-swap of that size."""
    capability = next((d.compute_capability for d in _devices.devices() if d.name == device), None)
    narrow_only = capability is not None and capability < (9, 0)
    return [(k, v) for k, v in widths if not narrow_only or v is None or (k, v) == ("uint32", "uint32")]


# ---- the command line ------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="pygpuhash conformance", description="Test a backend against the contract.")
    p.add_argument("name", metavar="NAME|PATH", help="a backend's name, or the path of a module")
    p.add_argument("--device", metavar="DEVICE", help="cpu or cuda:0; default: every device that can be used")
    effort = p.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="smaller sizes: under a minute")
    effort.add_argument("--long", action="store_true", help="larger sizes, and a seed drawn at random")
    p.add_argument("--seed", type=int, metavar="S", help="of keys, operations and tables; default: 1")
    p.add_argument("--check", action="append", metavar="CHECK", help="only this check; may be repeated")
    p.add_argument("--option", action="append", metavar="KEY=VALUE", help="an option of the backend; may be repeated")
    limits = ", ".join(f"{seconds} ({effort})" for effort, seconds in LIMITS.items())
    p.add_argument(
        "--limit", type=int, metavar="SECONDS", help=f"end a check that takes longer; 0: never; default: {limits}"
    )
    p.add_argument("--json", action="store_true", help="print everything as JSON")
    return p


def _effort(options: argparse.Namespace) -> str:
    return "quick" if options.quick else "long" if options.long else "normal"


def _limit(options: argparse.Namespace) -> int:
    limit: int = LIMITS[_effort(options)] if options.limit is None else options.limit
    if limit < 0:
        raise InvalidArgument(f"--limit={limit} is out of range: pass seconds, or 0 for no limit")
    return limit


def _seed(options: argparse.Namespace) -> int:
    seed = options.seed if options.seed is not None else 1 + secrets.randbelow(1 << 32) if options.long else 1
    if not 1 <= seed < 1 << 64:
        raise InvalidArgument(f"--seed={seed} is out of range: pass 1 to 2^64 - 1")
    return seed


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    pairs = [option.partition("=") for option in options.option or ()]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InvalidArgument(f"--option={key} is not KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _check_names(asked: list[str] | None) -> list[str]:
    for name in asked or ():
        if name not in CHECKS:
            raise InvalidArgument(f"--check={name} is not known: choose of {', '.join(CHECKS)}")
    return asked or list(CHECKS)


def _describe(target: Target) -> dict[str, Any]:
    return {
        "backend": target.backend,
        "device": target.device,
        "seed": target.seed,
        "effort": target.effort,
        "options": target.fields,
        "traits": sorted(target.traits),
    }


def _counts(outcomes: list[Outcome]) -> dict[str, int]:
    said = [o.outcome for o in outcomes]
    return {"passed": said.count("pass"), "failed": said.count("fail"), "skipped": said.count("skip")}


def _print_title(target: Target) -> None:
    options = "".join(f", {k}={v}" for k, v in target.fields.items())
    print(f"{target.backend} on {target.device}, seed {target.seed}, {target.effort}{options}", flush=True)


def _print_outcome(o: Outcome, target: Target, file: TextIO, name: str) -> None:
    """The rest of the line that the check's name began. `name` is how the backend was asked for: maybe by its path."""
    print(f"{o.outcome:<5} {o.seconds:6.1f} s" + (f"  {o.message}" if o.message else ""), file=file, flush=True)
    if o.outcome == "fail":
        again = ["pygpuhash", "conformance", name, "--device", target.device, "--seed", str(target.seed)]
        again += [] if target.effort == "normal" else [f"--{target.effort}"]
        again += [word for k, v in target.fields.items() for word in ("--option", f"{k}={v}")]
        print(f"        again: {shlex.join([*again, '--check', o.name])}", file=file, flush=True)


def _print_closing(target: Target, outcomes: list[Outcome]) -> None:
    n, seconds = _counts(outcomes), sum(o.seconds for o in outcomes)
    said = f"{n['passed']} passed, {n['failed']} failed, {n['skipped']} skipped in {seconds:.1f} s"
    print(f"{target.backend} on {target.device}: {said}")


if __name__ == "__main__":
    sys.exit(main())
