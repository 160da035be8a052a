"""Tables of a GPU are saved and loaded through the host, to the CPU and back."""

import copy
import pickle

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

pytestmark = pytest.mark.gpu


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.arrow"


@pytest.mark.parametrize("places", [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")], ids="-".join)
def test_every_structure_into_every_other(backend, other, places, path, pairs, blocks):
    for name in (backend, other):
        if reason := _core.backend_probe(name, _core.CUDA, 0):
            pytest.skip(f"{name} cannot use this device: {reason}")
    blocks(1000)
    keys = np.arange(3000, dtype="u8") * np.uint64(0x9E3779B97F4A7C15)
    with gh.Table(backend, value_dtype="f8", device=places[0]) as table:
        table.insert(keys, np.sqrt(keys))
        table.save(path)
        with gh.load(path, other, places[1]) as loaded:
            assert loaded.device.startswith(places[1])
            assert pairs(loaded) == pairs(table)
            loaded.check()
        with gh.load(path) as loaded:
            assert loaded.device.startswith(places[0])


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_copies(clone, pairs):
    with gh.Table("linear_probe", key_dtype="u4", device="cuda") as table:
        table.insert(np.arange(1000), 7)
        with clone(table) as other:
            assert other.device == table.device
            assert pairs(other) == pairs(table)
