"""`gh.partition` and `gh.shard_of` of arrays on a GPU, of CuPy and PyTorch, against the CPU: equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]


@pytest.fixture(params=["cupy", "torch"])
def put(request: pytest.FixtureRequest) -> Callable[[Array], Any]:
    """A host array on the device, in a library."""
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return lambda array: library.asarray(array)
    return lambda array: library.from_numpy(array).cuda()


def get(array: Any) -> Array:
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


def keys_of(dtype: str, n: int) -> Array:
    draws = np.random.default_rng(n)
    if np.dtype(dtype).kind == "f":
        keys = draws.integers(0, 2 ** (8 * np.dtype(dtype).itemsize - 1), n).astype(f"u{np.dtype(dtype).itemsize}")
        keys[::3] = (draws.integers(-99, 99, len(keys[::3])) / 4).astype(dtype).view(keys.dtype)
        return keys.view(dtype)
    return draws.integers(0, 2**63, n).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shards", [1, 2, 8, 256, 257, 65536])
def test_rows_are_those_of_the_cpu(put: Callable[[Array], Any], dtype: str, shards: int) -> None:
    for n in (0, 1, 4097, 1_300_001):
        keys, values = keys_of(dtype, n), np.arange(n * 3, dtype="i4").reshape(n, 3)
        wanted = gh.partition(keys, shards, 5, values)
        made = gh.partition(put(keys), shards, 5, put(values))
        assert type(made.order) is type(made.offsets) is type(made.keys)
        assert np.array_equal(get(made.offsets), wanted.offsets)
        assert np.array_equal(get(made.order), wanted.order)
        assert get(made.keys).tobytes() == wanted.keys.tobytes()
        assert np.array_equal(get(made.values), wanted.values)
        assert np.array_equal(get(gh.shard_of(put(keys), shards, 5)), gh.shard_of(keys, shards, 5))


def test_a_call_is_captured() -> None:
    """Into a graph, whose replays partition what lies there then."""
    cupy = pytest.importorskip("cupy")
    n, shards = 1 << 20, 13
    keys, order = cupy.zeros(n, cupy.int64), cupy.zeros(n, cupy.int64)
    offsets, out = cupy.zeros(shards + 1, cupy.int64), cupy.zeros(n, cupy.int64)
    asked = {"offsets": offsets.data.ptr, "order": order.data.ptr, "out_keys": out.data.ptr}
    nbytes = _core.partition(0, b"l", n, keys.data.ptr, shards, 3, **asked, asks=True)
    scratch = cupy.empty(nbytes, cupy.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)

    def call() -> None:
        _core.partition(0, b"l", n, keys.data.ptr, shards, 3, **asked, scratch=scratch.data.ptr, nbytes=nbytes,
                        stream=stream.ptr)  # fmt: skip

    call()
    stream.synchronize()
    with stream:
        stream.begin_capture()
        call()
        graph = stream.end_capture()
    for seed in range(3):
        given = np.random.default_rng(seed).integers(-(2**62), 2**62, n)
        keys.set(given)
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        wanted = gh.partition(given, shards, 3)
        assert np.array_equal(order.get(), wanted.order)
        assert np.array_equal(out.get(), wanted.keys)
        assert np.array_equal(offsets.get(), wanted.offsets)
