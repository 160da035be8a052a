"""The command line: `pygpuhash count | unique | top | dedup | diff | join` (pygpuhash.commands), `compare | info |
backends | manifest | new-plugin | explore | conformance`.

Exit status: 0, 1 when a backend failed or gave a wrong answer, 2 when the input cannot be used.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from typing import Any

from pygpuhash import (
    __version__,
    _devices,
    config,
    explore,
    identifiers,
    manifest,
    new_plugin,
    probe,
    registry,
    report,
    workload,
)
from pygpuhash.commands import COMMANDS
from pygpuhash.commands.progress import Bar
from pygpuhash.compare import Result, compare
from pygpuhash.errors import GpuHashError, PluginError
from pygpuhash.keyfile import InputError, read_keys

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Entry point of the console script."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["conformance"]:  # has a parser of its own, and needs pytest
        return int(importlib.import_module("pygpuhash.conformance").main(arguments[1:]) or 0)
    if arguments[:1] and arguments[0] in COMMANDS:
        programs = importlib.import_module("pygpuhash.commands.programs")
        return int(programs.main(arguments[0], arguments[1:]))
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except (InputError, GpuHashError) as error:
        print(f"pygpuhash: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("pygpuhash: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pygpuhash", description="Concurrent hash tables on GPUs and CPUs.")
    parser.add_argument("--version", action="version", version=f"pygpuhash {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, words in COMMANDS.items():
        commands.add_parser(name, help=words, add_help=False)

    c = commands.add_parser("compare", help="run, check and time every backend on the same real keys")
    c.set_defaults(run=_compare)
    keys = c.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="FILE", help="numbers in a .npy, .txt or .csv file; - for standard input")
    keys.add_argument("--n", type=int, metavar="N", help="N uniform random 64-bit keys")
    c.add_argument("--column", metavar="NAME", help="column of a .csv file, by name or number from 1")
    c.add_argument("--backend", action="append", metavar="NAME", help="only this backend; may be repeated")
    c.add_argument("--device", default="auto", metavar="DEVICE", help="cpu, cuda or cuda:1; default: the best there is")
    c.add_argument("--json", action="store_true", help="print everything as JSON")
    c.add_argument("--plot", metavar="FILE", help="write a picture of the throughput, .svg or .png")

    i = commands.add_parser("info", help="versions, devices, driver, plugins and their state")
    i.set_defaults(run=_info)
    i.add_argument("--json", action="store_true", help="print everything as JSON")
    b = commands.add_parser("backends", help="list the backends")
    b.set_defaults(run=_backends)
    b.add_argument("--json", action="store_true", help="print everything as JSON")
    m = commands.add_parser("manifest", help="print what a module says of itself, for the file beside it")
    m.set_defaults(run=_manifest)
    m.add_argument("name", metavar="NAME|PATH", help="a backend's name, or the path of a module")
    p = commands.add_parser("new-plugin", help="write the distribution of a backend, to start from")
    p.set_defaults(run=_new_plugin)
    p.add_argument("folder", metavar="DIR", help="a folder that does not exist yet, or is empty")
    p.add_argument("--kind", required=True, choices=list(new_plugin.KINDS), help="C++ with the kit, plain C, or Python")
    p.add_argument("--name", required=True, metavar="NAME", help="of the backend")
    e = commands.add_parser("explore", help="run a kit structure through the interleavings of small programs")
    e.set_defaults(run=lambda options: explore.run(options.source, options.arguments))
    e.add_argument("source", metavar="SOURCE", help="the structure's plugin_sim.cpp")
    e.add_argument("arguments", nargs=argparse.REMAINDER, help="of the explorer; none: it prints what there is")
    commands.add_parser("conformance", help="test a backend: pygpuhash conformance NAME", add_help=False)
    return parser


# ---- compare ---------------------------------------------------------------------------------------------------------


def _compare(options: argparse.Namespace) -> int:
    if options.plot:
        report.check_plot(options.plot)
    if options.column is not None and options.keys is None:
        raise InputError(f"--column={options.column} needs --keys with a .csv file")
    if options.device != "auto":
        _devices.parse_device(options.device)
    names = _backend_names(options.backend)
    progress = Bar()
    try:
        work = _work(options, progress)
        results = compare(work, names, options.device, progress)
    finally:
        progress.clear()
    if options.plot:
        report.plot(options.plot, work, results)
    if options.json:
        print(json.dumps(_as_json(work, results), indent=2))
    else:
        print(report.table_text(work, results))
    return 0 if all(result.verified for result in results) else 1


def _backend_names(asked: list[str] | None) -> list[str]:
    """The backends to run: those asked for, or all that are usable."""
    if asked:
        for name in asked:
            _refuse_unloadable(name)
            registry.resolve(name)
        return asked
    rows = probe.backends()
    for row in rows:
        if row.state == "broken":
            print(f"pygpuhash: backend {row.name} is left out: {row.error}", file=sys.stderr)
    names = [row.name for row in rows if row.state != "broken"]
    if not names:
        raise InputError("there is no usable backend: see pygpuhash backends")
    return names


def _work(options: argparse.Namespace, progress: Bar) -> workload.Workload:
    if options.n is not None:
        return workload.make(f"{options.n:,} uniform random 64-bit keys", workload.synthetic(options.n))
    if options.keys is not None:
        keys = read_keys(options.keys, options.column)
        source = "standard input" if options.keys == "-" else options.keys
        return workload.make(f"{len(keys):,} {keys.dtype} keys of {source}", keys)
    found = identifiers.read_standard_library(lambda done: progress("reading the standard library", done))
    title = (
        f"{len(found.keys):,} identifiers, {len(found.text):,} distinct: the standard library's sources of "
        f"Python {platform.python_version()} ({found.files:,} files)"
    )
    return workload.make(title, found.keys, found.text, found.counts)


def _as_json(work: workload.Workload, results: list[Result]) -> dict[str, Any]:
    return {
        "title": work.title,
        "keys": len(work.keys),
        "distinct": len(work.unique),
        "key_dtype": str(work.key_dtype),
        "value_dtype": str(work.value_dtype),
        "most_frequent": [{"key": key, "count": n} for key, n in work.most_frequent()],
        "results": [result.as_json() for result in results],
        "devices": [vars(device) for device in _devices.devices()],
        "version": __version__,
    }


# ---- info, backends --------------------------------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> int:
    settings = config.show_config(mode="dict") or {}
    found = _devices.devices()
    rows = probe.backends()
    if options.json:
        everything = {"config": settings, "devices": [vars(d) for d in found], "backends": [_row(r) for r in rows]}
        print(json.dumps(everything, indent=2))
        return 0
    config.show_config()
    print("\ndevices")
    for d in found:
        line = f"  {d.name:<8} {d.model}, {d.memory_bytes / 2**30:.1f} GiB, "
        line += f"{d.units} threads" if d.compute_capability is None else f"{d.units} multiprocessors"
        if d.compute_capability is not None and d.driver_version is not None:
            major, minor = d.compute_capability
            driver = f"{d.driver_version // 1000}.{d.driver_version % 1000 // 10}"
            line += f", compute capability {major}.{minor}, driver for CUDA {driver}"
        print(line)
    print("\nbackends")
    _print_backends(rows)
    return 0


def _backends(options: argparse.Namespace) -> int:
    rows = probe.backends()
    if options.json:
        print(json.dumps([_row(r) for r in rows], indent=2))
    else:
        _print_backends(rows)
        print(f"CUDA driver: {config.driver_needed()}")
    return 0


def _manifest(options: argparse.Namespace) -> int:
    _refuse_unloadable(options.name)
    print(manifest.write(registry.module_of(options.name)), end="")
    return 0


def _new_plugin(options: argparse.Namespace) -> int:
    files = new_plugin.write(options.folder, options.kind, options.name)
    print(f"{options.folder}: {len(files)} files")
    for file in files:
        print(f"  {file}")
    install = new_plugin.how_to_install(options.folder, options.kind)
    print(f"next: {install} && pygpuhash conformance {options.name} --quick")
    return 0


def _refuse_unloadable(name: str) -> None:
    """Raise PluginError where loading a backend would end this process, or not end."""
    if (why := probe.failure_of(name)) is not None:
        raise PluginError(f"backend {name!r} cannot be used: {why}")


def _row(row: registry.BackendInfo) -> dict[str, Any]:
    return {**vars(row), "traits": sorted(row.traits), "options": [option._asdict() for option in row.options]}


def _print_backends(rows: list[registry.BackendInfo]) -> None:
    if not rows:
        print("  none; GPUHASH_PLUGIN_PATH names directories to look in")
    for r in rows:
        source = " of " + r.distribution if r.distribution else ""
        version = f" {r.version}" if r.version else ""
        print(f"  {r.name}{version}{source}: {r.state}" + (f": {r.error}" if r.error else ""))
        if r.summary:
            print(f"    {r.summary}")
        if r.devices:
            widths = f", keys of {_or(r.key_widths)} bytes, values of {_or(r.value_widths)}" if r.key_widths else ""
            print(f"    on {', '.join(r.devices)}{widths}; {', '.join(sorted(r.traits))}")
        for option in r.options:
            print(f"    {option.name}={option.choices}: {option.help}")
        if r.path:
            print(f"    {r.path}")
        if r.note and r.note != r.error:
            print(f"    {r.note}")
    for fault in registry.search_path_faults():
        print(f"  {fault}")


def _or(widths: tuple[int, ...]) -> str:
    return " or ".join(map(str, widths))


if __name__ == "__main__":
    sys.exit(main())
