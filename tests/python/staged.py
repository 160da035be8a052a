"""Tables of the CPU that are taken for ones of a GPU, over a fake driver (fake_cuda.py), for the tests of staging."""

import sys
from pathlib import Path

import pytest

import pygpuhash as gh
from pygpuhash import _core, _host

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda

N = 5000


class Table(gh.Table):
    """Work of the device begins when its stream has come to it."""

    __slots__ = ("after", "before", "launches", "lengths")

    def _raw(self, op, n, keys, *args, stream=0, signals=(), **rest):
        self.launches = getattr(self, "launches", 0) + 1
        self.lengths = [*getattr(self, "lengths", []), n]
        interrupted(self.before, self.launches, signals)
        outputs = [(rest["out_status"], n)] if n else []
        if rest.get("out_values"):
            outputs.append((rest["out_values"], n * (8 if op == _core.OP_COUNT else self._value_store.itemsize)))
        run = super()._raw  # the CPU has no streams
        failure = cuda.kernel(stream, lambda: run(op, n, keys, *args, **rest), outputs)
        interrupted(self.after, self.launches, signals)
        return failure


def interrupted(hook, launch, signals):
    """Call a hook; Ctrl-C is noted, and handled when the library gets there."""
    try:
        hook(launch)
    except KeyboardInterrupt as signal:
        signals.append(signal)


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    global cuda
    with fake_cuda.installed(monkeypatch) as cuda:
        cuda.allocates_late = True
        monkeypatch.setattr(_host, "CHUNK_BYTES", 1 << 13)
        monkeypatch.setattr(_host, "FIRST_KEYS", 64)
        monkeypatch.setattr(_host, "LEAST_KEYS", 16)
        yield cuda


def make(backend, **arguments):
    table = Table(backend, device="cpu", seed=7, **{"value_dtype": "uint64"} | arguments)
    table.before = table.after = lambda launch: None
    return table._pretend(_core.CUDA)
