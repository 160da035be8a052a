"""Verbs over columns of Arrow's device interface, made over CuPy's memory as pylibcudf makes them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

spec = importlib.util.spec_from_file_location(
    "arrow_device_columns", Path(__file__).parents[1] / "python" / "columns" / "test_arrow_devices.py"
)
made = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = made
spec.loader.exec_module(made)


class OnCard(made.Column):
    """A column over an array of CuPy."""

    def __init__(self, array, **more):
        self.array = array
        host = np.empty(array.shape, array.dtype)
        super().__init__(host, made.CUDA, **more)
        self._buffers[1] = array.data.ptr
        self.number = array.device.id


def on_host(array):
    return cupy.asnumpy(cupy.asarray(array))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_verbs(dtype):
    host = np.random.default_rng(1).integers(0, 50, 5000).astype(dtype)
    column = OnCard(cupy.asarray(host))
    assert sorted(on_host(gh.unique(column))) == sorted(set(host))
    codes, distinct = gh.factorize(column)
    assert (on_host(distinct)[on_host(codes)] == host).all()
    assert (on_host(gh.isin(column, cupy.asarray(host[:3]))) == np.isin(host, host[:3])).all()
    keys, sums = gh.group_reduce(column, OnCard(cupy.asarray(np.arange(5000.0))), "sum")
    expected = {key: np.arange(5000.0)[host == key].sum() for key in set(host)}
    assert dict(zip(on_host(keys), on_host(sums), strict=True)) == expected


def test_the_event_comes_first():
    array = cupy.zeros(1 << 22, "int64")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(20):
            array += 1
        event = cupy.cuda.Event()
        event.record()
    assert on_host(gh.unique(OnCard(array, event=event.ptr))).tolist() == [20]
