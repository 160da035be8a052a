"""The backends, third-party ones loaded in processes of their own: one that crashes or hangs takes nothing with it.

A module is code, and so is the target of an entry point: what comes of loading it is seen by loading it. The command
line tools do so here, in a child process with a time limit, which also asks the module about every device (a probe may
hang, too). What came with this package, and what is loaded already, is asked in this process.

    python -m pygpuhash.probe DESCRIPTOR

is the child: it reads {"path": sys.path, "key": a candidate's} from standard input, and writes the candidate's row as
JSON to that file descriptor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pygpuhash import _core, manifest, registry
from pygpuhash.errors import GpuHashError
from pygpuhash.registry import BackendInfo, Candidate, Option

__all__ = ["LIMIT", "backends", "failure_of"]

LIMIT = 20.0  # seconds that a child may take: loading takes a fraction of one
_AT_ONCE = 4


def backends() -> list[BackendInfo]:
    """As `registry.backends()`, with everything loaded, and no third-party code run in this process. Never raises."""
    found, rows = registry.candidates()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        children = {c.key: pool.submit(_row_by_child, c) for c in found if not c.trusted}
        rows += [children[c.key].result() if c.key in children else c.row(True) for c in found]
    return registry.in_order(rows)


def failure_of(name: str) -> str | None:
    """Why the backend of this name cannot be loaded; None where it can be, or where loading it says why."""
    for candidate in registry.candidates()[0]:
        names = (candidate.key, candidate.name, candidate.key.partition(":")[2])
        if name in names and not candidate.trusted:
            return None if (row := _row_by_child(candidate)).state != "broken" else row.error
    if ("/" in name or name.endswith(".so")) and Path(name).exists():
        path = str(Path(name).absolute())
        return _row_by_child(Candidate(path, path, None, path, False, lambda load: BackendInfo(path))).error
    return None


def _row_by_child(candidate: Candidate) -> BackendInfo:
    said, why = _ask(candidate.key)
    if said is not None:
        fields = {field: tuple(said[field]) for field in ("devices", "key_widths", "value_widths")}
        options = tuple(Option(*row) for row in said["options"])
        return BackendInfo(**{**said, **fields, "traits": frozenset(said["traits"]), "options": options})
    about = None
    if candidate.path is not None:
        try:
            about = manifest.read(candidate.path)
        except GpuHashError as error:
            why = f"{why}; {error}"
    if about is not None and candidate.path is not None:
        return registry.of_manifest(about, candidate.name, None, candidate.path, "broken", error=why)
    return BackendInfo(candidate.name, candidate.distribution, path=candidate.path, state="broken", error=why)


def _ask(key: str) -> tuple[dict[str, Any] | None, str]:
    """The answer of a child process about a candidate; or None, and what became of the child.

    It gets files, not pipes: whatever it may start keeps those open.
    """
    with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as stderr:
        question.write(json.dumps({"path": sys.path, "key": key}).encode())
        question.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "pygpuhash.probe", str(answer.fileno())],
            stdin=question,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(answer.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths())},
        )
        try:
            status = child.wait(LIMIT)
        except subprocess.TimeoutExpired:
            return None, f"loading it has not ended after {LIMIT:g} s"
        finally:
            child.kill()
            child.wait()
        answer.seek(0)
        with contextlib.suppress(ValueError):
            return json.loads(answer.read()), ""
        stderr.seek(0)
        lines = stderr.read().decode(errors="replace").strip().splitlines()
    last = f" ({lines[-1][:200]})" if lines else ""
    return (
        None,
        f"loading it ended the process with {_signal_name(-status) if status < 0 else f'status {status}'}{last}",
    )


def _paths() -> list[str]:
    """sys.path for a child that is to import this package, and not one of its name in a folder that was added since."""
    here = Path(__file__).resolve().parents[1]
    return [p for p in sys.path if p and (Path(p).resolve() == here or not (Path(p) / "pygpuhash").is_dir())]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def main() -> None:
    """The program of the child process."""
    write = int(sys.argv[1])
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    key = asked["key"]
    row = next((c.row(True) for c in registry.candidates()[0] if c.key == key), None)
    if row is None:  # a module that is on no path
        try:
            row = registry.open_backend(key)
        except GpuHashError as error:
            row = BackendInfo(key, path=key, state="broken", error=str(error))
    if row.abi == "v1" and row.state != "broken" and row.path is not None:
        for kind in (_core.CPU, _core.CUDA):
            for ordinal in range(_core.device_count(kind)[0]):
                _core.backend_probe(row.path, kind, ordinal)
    said = {**dataclasses.asdict(row), "traits": sorted(row.traits), "options": [list(o) for o in row.options]}
    with open(write, "w") as pipe:
        json.dump(said, pipe)
    os._exit(0)  # third-party code may do anything at the end of a process


if __name__ == "__main__":
    main()
