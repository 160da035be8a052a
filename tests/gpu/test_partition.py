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


@pytest.mark.parametrize("width", [1, 4, 12, 16, 75])
@pytest.mark.parametrize("shards", [3, 300])
def test_keys_that_are_bytes_of_one_width(width: int, shards: int) -> None:
    """Of the C function, which tables in shards call for rows of numbers."""
    cupy, n = pytest.importorskip("cupy"), 100_003
    keys = np.random.default_rng(width).integers(0, 256, (n, width)).astype("u1")
    ids, order, offsets = cupy.empty(n, "i4"), cupy.empty(n, "i8"), cupy.empty(shards + 1, "i8")
    for first in (0, 1):  # bytes may lie anywhere
        room = cupy.empty(n * width + first, "u1")
        room[first:] = cupy.asarray(keys.reshape(-1))
        call = (0, b"w:%d" % width, n, room.data.ptr + first, shards, 9)
        results = {"ids": ids.data.ptr, "order": order.data.ptr, "offsets": offsets.data.ptr}
        scratch = cupy.empty(_core.partition(*call, **results, asks=True), "u1")
        stream = cupy.cuda.get_current_stream().ptr
        _core.partition(*call, **results, scratch=scratch.data.ptr, nbytes=scratch.size, stream=stream)
        wanted = gh.partition(keys.view(f"V{width}").reshape(-1), shards, 9)
        assert np.array_equal(ids.get(), gh.shard_of(keys.view(f"V{width}").reshape(-1), shards, 9))
        assert np.array_equal(order.get(), wanted.order)
        assert np.array_equal(offsets.get(), wanted.offsets)
