"""Fixtures of the Python tests: every backend that is usable here, and what there is of devices."""

import threading

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


@pytest.fixture
def in_threads():
    """in_threads(work, n): work(0) .. work(n - 1), each in a thread of its own."""

    def run_all(work, n):
        errors = []

        def run(i):
            try:
                work(i)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert not errors, errors

    return run_all
