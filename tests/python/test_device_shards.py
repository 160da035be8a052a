"""`gh.partition` and `gh.shard_of` of arrays on a GPU, over a fake library of arrays, and what is refused by name.

`fake_shards.partition` stands for the kernels: it does what they do, in memory of the host. The kernels themselves are
tried on warps that the CPU plays (tests/warp/test_partition.py) and on a card (tests/gpu/test_partition.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _device_groups

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_bytes
import fake_cuda
import fake_libraries
import fake_shards


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Any:
    """(a function that makes an array of CuPy, the streams of the calls)."""
    with fake_cuda.installed(monkeypatch) as cuda:
        streams: list[int] = []
        fake_shards.partition(monkeypatch, Now(cuda), streams)
        yield fake_libraries.cupy(monkeypatch).asarray, streams


class Now:
    """A driver whose kernels have ended when they are called."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def kernel(self, stream: int, run: Any, outputs: Any) -> Any:
        """Their answer."""
        self.cuda.bring(stream)
        return run()


@pytest.mark.parametrize("dtype", fake_shards.FORMATS.values())
@pytest.mark.parametrize("shards", [1, 7, 300])
def test_rows_are_those_of_the_host(put: Any, dtype: str, shards: int) -> None:
    array, _ = put
    keys = np.random.default_rng(shards).integers(0, 100, 500).astype(dtype)
    values = np.arange(1500, dtype="f4").reshape(500, 3)
    wanted = gh.partition(keys, shards, 9, values)
    made = gh.partition(array(keys), shards, 9, array(values))
    for found, there in zip((made.keys, made.values, made.offsets, made.order),
                            (wanted.keys, wanted.values, wanted.offsets, wanted.order), strict=True):  # fmt: skip
        assert type(found) is type(array(keys))
        assert found.array.dtype == there.dtype
        assert np.array_equal(found.array, there)
    assert len(made) == shards
    ids = gh.shard_of(array(keys.reshape(50, 10)), shards, 9)
    assert np.array_equal(ids.array, gh.shard_of(keys.reshape(50, 10), shards, 9))
    assert ids.array.dtype == np.int32


def test_without_values_and_without_rows(put: Any) -> None:
    array, streams = put
    made = gh.partition(array(np.arange(9)), 4)
    assert made.values is None
    streams.clear()
    made = gh.partition(array(np.empty(0, "i8")), 4, values=array(np.empty((0, 2), "i4")))
    assert made.offsets.array.tolist() == [0] * 5
    assert made.values.shape == (0, 2)
    assert gh.shard_of(array(np.empty((0, 3), "i8")), 4).shape == (0, 3)


def test_what_is_refused(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array, streams = put
    keys = array(np.arange(10))
    for call, error, message in [
        (lambda: gh.partition(array(np.zeros((2, 2))), 3), ValueError, r"keys have shape \(2, 2\): pass a one-dim"),
        (lambda: gh.partition(keys, 3, values=np.arange(10)), gh.Unsupported, "values are a ndarray on the host"),
        (lambda: gh.partition(np.arange(10), 3, values=keys), gh.Unsupported, "values are on a GPU, but not all"),
        (lambda: gh.partition((keys, keys), 3), gh.Unsupported, "keys are on a GPU, but not all"),
        (lambda: gh.partition(keys, 3, values=array(np.arange(9))), ValueError, "values have 9 rows, keys 10"),
        (lambda: gh.partition(array(np.zeros(3, bool)), 3), gh.Unsupported, "are bool, not integers or floats: copy"),
        (lambda: gh.partition(keys, 0), gh.InvalidArgument, "shards=0 is out of range"),
        (lambda: gh.shard_of(keys, 65537), gh.InvalidArgument, "shards=65537 is out of range"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    monkeypatch.setattr(_device_groups, "KERNELS", False)
    with pytest.raises(gh.Unsupported, match="no CUDA kernels: install one that was built with nvcc"):
        gh.partition(keys, 3)
    assert streams == []


@pytest.mark.usefixtures("put")
def test_other_libraries_are_refused_by_name() -> None:
    class Array:
        shape, dtype = (3,), np.dtype("i8")
        __cuda_array_interface__: ClassVar[Any] = {"shape": (3,), "typestr": "<i8", "data": (4096, True), "version": 3}

    with pytest.raises(
        gh.Unsupported, match="keys are a Array on a GPU, where numbers of CuPy and PyTorch alone are part"
    ):
        gh.partition(Array(), 3)
    for call in (gh.partition, gh.shard_of):
        with pytest.raises(gh.Unsupported, match=r"keys are a Column on a GPU, .*, or copy them, as text, to the host"):
            call(fake_bytes.column("u", ["a", "bb", None]), 3)


def test_scratch_of_the_c_library() -> None:
    def asked(n: int, shards: int, **results: int) -> int:
        return _core.partition(0, b"l", n, 4096, shards, 0, asks=True, **results)

    assert asked(10**6, 8) == asked(10**6, 8, ids=1) == asked(0, 8, order=1) == 0
    assert asked(10**9, 256, order=1) <= 2**21 + 2**12
    for n in (1000, 10**7):
        assert 20 * n <= asked(n, 257, offsets=1) <= 20 * n + 2**21 + 2**12
    with pytest.raises(gh.InvalidArgument, match=r"request[.]shards is 65537"):
        asked(10, 65537)
    with pytest.raises(gh.Unsupported, match=r"keys on a CUDA device are decimal.*; they are one column of integers"):
        _core.partition(0, b"d:10,2", 10, 4096, 3, 0, ids=4096)
