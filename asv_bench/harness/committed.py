"""Reads the committed results, sorted by the benchmark. A file that is broken is named, and left out."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .results import RESULTS

Number = (int, float)
# What each row of a file must have: the file's name up to the device -> columns and their types.
ROWS: dict[str, dict[str, tuple[type, ...]]] = {
    "report": {
        **dict.fromkeys(("backend", "operation"), (str,)),
        "ns_per_key": Number,
        **dict.fromkeys(("load", "ceiling_ns", "ratio", "bytes_per_key"), (*Number, type(None))),
        **dict.fromkeys(("n", "key_bytes", "value_bytes"), (int,)),
        "options": (dict,),
    },
    "verbs": {
        **dict.fromkeys(("verb", "keys", "who"), (str,)),
        **dict.fromkeys(("median", "min", "max", "ceiling", "share"), Number),
    },
    "everyday": {
        **dict.fromkeys(("verb", "column", "who"), (str,)),
        **dict.fromkeys(("M/s", "ceiling", "share"), Number),
    },
    "skew": {
        **dict.fromkeys(("distribution", "who"), (str,)),
        **dict.fromkeys(("median", "min", "max"), Number),
    },
    "gpu-user": {"what": (str,), "with": (str,), "figures": (dict,)},
}
ABOUT = ("commit", "date", "devices")


class Broken(ValueError):
    """A file that is not as its program writes it; the message says where."""


def is_number(value: Any) -> bool:
    """Was there a result? asv writes null for a failure, and NaN where a benchmark is not applicable."""
    return isinstance(value, Number) and not isinstance(value, bool) and math.isfinite(value)


@dataclass
class Source:
    """One file: what it is ("report", ..., "asv"), the machine, and all that is in it."""

    path: str  # from the folder of results
    kind: str
    record: dict[str, Any]

    @property
    def machine(self) -> str:
        """The folder."""
        return self.path.partition("/")[0]

    @property
    def commit(self) -> str:
        """The first digits of the commit, as far as it is known."""
        return str(self.record.get("commit") or self.record.get("commit_hash") or "unknown")[:8]

    @property
    def about(self) -> str:
        """Where its figures come from."""
        changed = ", with local changes" if self.record.get("modified") else ""
        devices = ", ".join(self.record["devices"].values())
        return f"{self.machine}: {devices}; commit {self.commit}{changed}; {self.record['date'][:10]}"


@dataclass
class Committed:
    """All files that can be used, the facts of machines, and what is wrong with the other files."""

    sources: list[Source] = field(default_factory=list)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    units: dict[str, dict[str, Any]] = field(default_factory=dict)  # asv's list of benchmarks
    left_out: list[str] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Source]:
        """The files of these kinds, by machine."""
        return [source for source in self.sources if source.kind in kinds]


@dataclass
class Point:
    """A figure of a benchmark of asv."""

    benchmark: str
    params: dict[str, str]  # by name, without quotes
    value: float
    version: str


def points(source: Source, units: Mapping[str, Any]) -> Iterator[Point]:
    """The figures of a file of asv, of benchmarks that are listed."""
    for name, (values, axes, version, *_) in source.record["results"].items():
        if name not in units:
            continue
        names = units[name]["param_names"]
        if len(names) != len(axes):  # of a version with other parameters
            continue
        for value, of in zip(values, itertools.product(*axes), strict=True):
            if is_number(value):
                yield Point(name, {n: v.strip("'") for n, v in zip(names, of, strict=True)}, value, version)


def _files(results: Path) -> list[Path]:
    """Those that are committed as they are here; without git, all."""

    def git(*arguments: str) -> set[str] | None:
        command = ["git", *arguments, "--", "."]
        done = subprocess.run(command, cwd=results, capture_output=True, text=True, check=False)
        return set(done.stdout.splitlines()) if done.returncode == 0 else None

    known = git("ls-tree", "-r", "--name-only", "HEAD")
    changed = git("diff", "--relative", "--name-only", "HEAD")
    if known is None or changed is None or not known:
        return sorted(results.rglob("*.json"))
    return sorted(results / name for name in known - changed if name.endswith(".json"))


def _check_rows(record: Any, columns: Mapping[str, tuple[type, ...]]) -> None:
    missing = [name for name in (*ABOUT, "rows") if name not in record]
    if missing:
        raise Broken(f"it has no {missing[0]!r}")
    if not isinstance(record["rows"], list) or not isinstance(record["devices"], dict):
        raise Broken("its rows are no list, or its devices no object")
    if not all(isinstance(of, str) for of in (record["commit"], record["date"], *record["devices"].values())):
        raise Broken("its commit, date or device is no text")
    for i, row in enumerate(record["rows"]):
        for column, types in columns.items():
            value = row.get(column, ...) if isinstance(row, dict) else ...
            if not isinstance(value, types) or isinstance(value, bool):
                raise Broken(f"row {i} has no {column!r} as it should be")
            if isinstance(value, float) and not math.isfinite(value):
                raise Broken(f"row {i}: {column!r} is {value}")


def _check_asv(record: Any) -> None:
    if not isinstance(record.get("commit_hash"), str) or not isinstance(record.get("date"), int):
        raise Broken("it has no commit or date")
    if not isinstance(record.get("results"), dict):
        raise Broken("its results are no object")
    if not isinstance(record.get("card", {}), dict):
        raise Broken("its card is no object")
    for name, row in record["results"].items():
        if not isinstance(row, list) or len(row) < 3 or not all(isinstance(part, list) for part in row[:2]):
            raise Broken(f"{name} is no result")
        if not all(isinstance(axis, list) and all(isinstance(of, str) for of in axis) for axis in row[1]):
            raise Broken(f"{name} has parameters that are no text")
        if len(row[0]) != math.prod(map(len, row[1])):
            raise Broken(f"{name} has {len(row[0])} values for {math.prod(map(len, row[1]))} parameters")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]


def load(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Broken(f"it is no JSON ({error})") from None
    if not isinstance(record, dict):
        raise Broken("it is no object")
    return record


def read(results: Path = RESULTS) -> Committed:
    """Everything in the folder that is committed and of a kind that is known."""
    found = Committed()
    for path in _files(results):
        name = str(path.relative_to(results))
        try:
            record = load(path)
            kind = path.stem.removesuffix("-cpu").removesuffix("-cuda").removesuffix("-short")
            if path.name == "machine.json":
                found.machines[name.removesuffix("/machine.json")] = record
            elif path.name == "benchmarks.json":
                found.units = {key: of for key, of in record.items() if isinstance(of, dict)}
                for key, of in found.units.items():
                    texts = [*_list(of.get("param_names")), of.get("unit"), of.get("version")]
                    if not all(isinstance(text, str) for text in texts):
                        found.units = {}
                        raise Broken(f"{key} has no names of parameters, no unit or no version")
            elif "result_columns" in record:
                _check_asv(record)
                found.sources.append(Source(name, "asv", record))
            elif kind in ROWS:
                _check_rows(record, ROWS[kind])
                found.sources.append(Source(name, kind, record))
        except Broken as error:
            found.left_out.append(f"{name}: {error}")
    return found
