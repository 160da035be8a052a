"""Tables to save, and comparisons of a table that was loaded with the one that was saved."""

import numpy as np
import pytest

import pygpuhash as gh

USABLE = [row.name for row in gh.backends() if row.state == "usable" and "cpu" in row.devices]


def pytest_generate_tests(metafunc):
    for name in {"backend", "other"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, USABLE)


@pytest.fixture
def pairs():
    """pairs(table): what it has, in an order of its own."""
    return pairs_of


def pairs_of(table):
    rows = [elements(part) for part in table.export() if part is not None]
    return sorted(zip(*rows, strict=True))


def elements(array):
    """Texts, or the bits of each element."""
    if array.dtype == object:
        return array.tolist()
    return [array[i].tobytes() for i in range(len(array))]


@pytest.fixture
def small():
    """A table of a few pairs."""
    with gh.Table("hive", key_dtype="u4", value_dtype="i8", device="cpu", seed=5) as table:
        table.insert(np.arange(20), np.arange(20) - 3)
        yield table


@pytest.fixture
def blocks(monkeypatch):
    """blocks(rows): so many rows in a block, from now on."""
    from pygpuhash.saved import contents

    return lambda rows: monkeypatch.setattr(contents, "BLOCK_ROWS", rows)
