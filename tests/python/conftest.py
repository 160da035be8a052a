"""Fixtures of the Python tests: every backend that is usable here, and what there is of devices."""

import numpy as np
import pytest

import pygpuhash as gh

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
