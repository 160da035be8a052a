"""Fixtures of the Python tests: every backend that is usable here, and what there is of devices."""

import sys
import textwrap

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import registry

USABLE = [row.name for row in gh.backends() if row.state == "usable" and "cpu" in row.devices]


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", USABLE)


@pytest.fixture
def table(backend):
    """A uint64 -> uint64 table on the CPU."""
    with gh.Table(backend, value_dtype="uint64", device="cpu", seed=7) as t:
        yield t
        if not t.closed:
            t.check()


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """A function that installs a distribution with one backend into a new directory on sys.path."""

    def install(name, backend, source, target="Backend"):
        module = f"{name.replace('-', '_')}_module"
        site = tmp_path / name
        info = site / f"{name.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[pygpuhash.backends]\n{backend} = {module}:{target}\n")
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    yield install
    for module in [m for m in sys.modules if m.endswith("_module") and m.startswith("fake")]:
        del sys.modules[module]
    registry._resolved.clear()
