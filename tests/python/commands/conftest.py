"""Commands, run in this process: what they print, and how they end."""

import dataclasses
import os

import pytest

from pygpuhash.commands import programs, sources, tally


@dataclasses.dataclass
class Ended:
    status: int
    out: bytes
    err: str

    @property
    def lines(self):
        return self.out.decode().splitlines()


@pytest.fixture
def run(capfdbinary):
    """run("count", "FILE") or run(..., given=bytes of standard input)."""

    def command(name, *arguments, given=None):
        before = None
        if given is not None:
            end, begin = os.pipe()
            os.write(begin, given)
            os.close(begin)
            before = os.dup(0)
            os.dup2(end, 0)
            os.close(end)
        try:
            status = programs.main(name, [str(one) for one in arguments])
        finally:
            if before is not None:
                os.dup2(before, 0)
                os.close(before)
        out, err = capfdbinary.readouterr()
        return Ended(status, out, err.decode())

    return command


@pytest.fixture
def written(tmp_path):
    """written(name, contents): the path of a new file."""

    def write(name, contents):
        path = tmp_path / name
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    return write


@pytest.fixture
def little_memory(monkeypatch):
    """An index is closed after a few hundred keys, a small one goes to the disk after a few more."""
    monkeypatch.setattr(tally.Memory, "index", 40_000)
    monkeypatch.setattr(tally.Memory, "part", 200_000)


@pytest.fixture(params=[64, 1 << 20])
def block(request, monkeypatch):
    """Bytes that are read at a time."""
    monkeypatch.setattr(sources, "BLOCK", request.param)
    return request.param
