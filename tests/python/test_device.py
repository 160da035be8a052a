"""Tables on a CUDA device: host arrays, our own device arrays, CuPy and PyTorch."""

import signal
import threading
import time

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _batch, _core, _cuda

pytestmark = pytest.mark.gpu


@pytest.fixture
def table(backend):
    reason = _core.backend_probe(backend, _core.CUDA, 0)
    if reason:
        pytest.skip(f"{backend} cannot use this device: {reason}")
    with gh.Table(backend, value_dtype="uint64", device="cuda:0", seed=7) as t:
        yield t
        if not t.closed:
            t.check()


@pytest.fixture(params=["own", "cupy", "torch", "numba"])
def library(request):
    """(to the device, to the host) of each library that is installed."""
    if request.param == "own":
        return (lambda a: _cuda.from_host(a, 0)), (lambda a: a.get())
    module = pytest.importorskip(request.param)
    if request.param == "cupy":
        return module.asarray, module.asnumpy
    if request.param == "numba":
        cuda = pytest.importorskip("numba.cuda")
        return cuda.to_device, (lambda a: a.copy_to_host())
    return (lambda a: module.from_numpy(a).cuda()), (lambda a: a.cpu().numpy())


def test_host_arrays(table, rng):
    keys = np.unique(rng.integers(0, 2**64, 100_000, np.uint64))
    assert table.insert(keys, ~keys).all()
    values, found = table.find(keys)
    assert isinstance(values, np.ndarray)
    assert found.all()
    assert (values == ~keys).all()
    assert table.erase(keys[::2]).all()
    assert len(table) == len(keys) - len(keys[::2])
    assert table.get(keys[:4], default=5).tolist() == [5, ~keys[1], 5, ~keys[3]]
    exported, _ = table.export()
    assert set(exported.tolist()) == set(keys[1::2].tolist())
    assert table.find(7)[1] == np.False_


def test_device_arrays(backend, library, rng):
    put, get = library
    if _core.backend_probe(backend, _core.CUDA, 0):
        pytest.skip(f"{backend} cannot use this device")
    keys = np.unique(rng.integers(0, 2**62, 50_000)).astype(np.int64)
    with gh.Table(backend, key_dtype="int64", value_dtype="int64", device="cuda") as table:
        device_keys, device_values = put(keys), put(keys * 2)
        fresh = table.insert(device_keys, device_values)
        assert type(fresh) is type(device_keys)
        assert get(fresh).all()
        values, found = table.find(device_keys)
        assert type(values) is type(device_keys)
        assert get(found).all()
        assert (get(values) == keys * 2).all()
        table.accumulate(device_keys, 1)
        assert (get(table.find(device_keys)[0]) == keys * 2 + 1).all()
        exported, _ = table.export(like=device_keys)
        assert type(exported) is type(device_keys)
        assert set(get(exported).tolist()) == set(keys.tolist())
        out = table.find(device_keys, out=values, found=found)
        assert out[0] is values
        assert out[1] is found
        assert (get(table[device_keys]) == keys * 2 + 1).all()
        assert get(table.erase(put(keys[:100]))).all()
        with pytest.raises(KeyError, match=f"100 of {len(keys)} keys are not in the table, the first is {keys[0]}'"):
            table[device_keys]
        assert len(table) == len(keys) - 100


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_calls_follow_the_current_stream(backend, name, rng):
    """Keys are written on a busy stream of their own right before the call, which must come after them."""
    module = pytest.importorskip(name)
    n = 1 << 22
    keys = rng.permutation(np.arange(1, n + 1, dtype=np.int64))
    with gh.Table(backend, key_dtype="int64", value_dtype="int64", capacity=n, device="cuda") as table:
        if name == "cupy":
            stream = module.cuda.Stream(non_blocking=True)
            with stream:
                ready = module.asarray(keys)
                late = module.zeros(n, module.int64)
                for _ in range(50):
                    late += ready
                late //= 50
                fresh = table.insert(late, late)
                values, found = table.find(late)
                assert bool(fresh.all())
                assert bool(found.all())
                assert bool((values == ready).all())
        else:
            with module.cuda.stream(module.cuda.Stream()):
                ready = module.from_numpy(keys).cuda()
                late = module.zeros(n, dtype=module.int64, device="cuda")
                for _ in range(50):
                    late += ready
                late //= 50
                fresh = table.insert(late, late)
                values, found = table.find(late)
                assert bool(fresh.all())
                assert bool(found.all())
                assert bool((values == ready).all())
        assert len(table) == n


def test_an_explicit_stream(backend, rng):
    torch = pytest.importorskip("torch")
    keys = torch.arange(100_000, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with gh.Table(backend, key_dtype="int64", value_dtype="int64", device="cuda", stream=stream) as table:
        table.insert(keys, keys, stream=stream)
        values, found = table.find(keys)
        stream.synchronize()
        assert bool(found.all())
        assert bool((values == keys).all())


def test_jax_arrays(backend):
    jax = pytest.importorskip("jax")
    keys = jax.numpy.arange(1000, dtype="uint32")
    with gh.Table(backend, key_dtype="uint32", value_dtype="uint32", device="cuda") as table:
        fresh = table.insert(keys, keys + 1)
        assert isinstance(fresh, jax.Array)
        assert fresh.dtype == bool
        assert fresh.all()
        values, found = table.find(keys * 2)
        assert isinstance(values, jax.Array)
        assert (np.asarray(found) == (np.arange(1000) < 500)).all()
        assert (np.asarray(values)[:500] == np.arange(1000)[::2] + 1).all()
        assert (np.asarray(table.get(keys * 2, 7))[500:] == 7).all()
        assert int(table.accumulate(keys, 1).sum()) == 0
        assert (np.asarray(table[keys]) == np.arange(1000) + 2).all()
        exported, _ = table.export(like=keys)
        assert set(np.asarray(exported).tolist()) == set(range(1000))
        with pytest.raises(TypeError, match="JAX array, which cannot be written"):
            table.find(keys, out=values)
        with pytest.raises(TypeError, match="jax_enable_x64"):
            table.count(keys)
        with pytest.raises(OverflowError, match="element 1 is -5"):
            table.find(jax.numpy.array([3, -5], dtype="int32"))
        for i in range(100):  # results are made on our stream, and used on JAX's
            assert bool((table.find(keys)[0] == keys + 2).all()), i


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16"])
def test_small_dtypes(backend, dtype):
    cupy = pytest.importorskip("cupy")
    keys = np.arange(100, dtype=dtype)
    with gh.Table(backend, key_dtype="uint16", value_dtype=dtype, device="cuda") as table:
        assert bool(table.insert(cupy.arange(100, dtype="uint16"), cupy.asarray(keys)).all())
        values, found = table.find(cupy.arange(100, dtype="uint16"))
        assert bool(found.all())
        assert values.dtype == dtype
        assert (values.get() == keys).all()
        out = cupy.zeros(100, dtype)
        assert table.find(cupy.arange(100, dtype="uint16"), out=out)[0] is out
        assert (out.get() == keys).all()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            out[...] = 0
            table.find(cupy.arange(100, dtype="uint16"), out=out, stream=stream)
            assert (out.get() == keys).all()


def test_a_full_table_on_a_device(table):
    keys = np.arange(100_000, dtype=np.uint64)
    with (
        gh.Table(table.backend, device="cuda", capacity=100, grow=False) as small,
        pytest.raises((gh.TableFull, gh.NoMemory)) as caught,
    ):
        small.insert(_cuda.from_host(keys, 0), 1)
    assert caught.value.failed.sum() > 0


def test_arrays_of_two_places(table):
    keys = np.arange(4, dtype=np.uint64)
    on_device = _cuda.from_host(keys, 0)
    with pytest.raises(gh.InvalidArgument, match="copy the values to the device"):
        table.insert(on_device, keys)
    with pytest.raises(TypeError, match="pass a device array"):
        table.find(on_device, out=keys.copy())
    with pytest.raises(TypeError, match="have dtype float32, the table holds uint64"):
        table.find(_cuda.from_host(keys.astype(np.float32), 0))
    with pytest.raises(TypeError, match="DeviceArray, which cannot be asked to convert to uint64"):
        table.find(_cuda.from_host(keys.astype(np.uint32), 0))
    assert len(table) == 0


def test_own_arrays(rng):
    host = rng.integers(0, 100, (3, 5), np.int32)
    array = _cuda.from_host(host, 0)
    assert (np.asarray(array) == host).all()
    assert array.__dlpack_device__() == (2, 0)
    assert len(array) == 3
    assert (_cuda.full((7,), np.array(2.5), 0, 0).get() == 2.5).all()
    assert _cuda.DeviceArray((0,), np.int32, 0).get().shape == (0,)


def test_a_default_and_every_value(backend, library, rng):
    put, get = library
    if _core.backend_probe(backend, _core.CUDA, 0):
        pytest.skip(f"{backend} cannot use this device")
    keys = np.arange(1000, dtype=np.int64)
    with gh.Table(backend, key_dtype="int64", value_dtype="int64", device="cuda") as table:
        table.insert(put(keys), put(keys * 2))
        asked = put(keys + 500)
        assert (get(table.get(asked, -7)) == np.where(keys < 500, 2 * (keys + 500), -7)).all()
        assert (get(table.get(asked, put(keys))) == np.where(keys < 500, 2 * (keys + 500), keys)).all()
        with pytest.raises(gh.InvalidArgument, match="copy default to the device"):
            table.get(asked, keys)
    if backend != "slab_hash":
        return
    with gh.Table(backend, key_dtype="int64", value_dtype="int64", device="cuda", duplicates=True) as table:
        table.insert_multi(put(keys // 10), put(keys))
        offsets, values = table.find_all(put(np.array([3, 200, 5])))
        assert type(offsets) is type(values) is type(put(keys))
        assert get(offsets).tolist() == [0, 10, 10, 20]
        assert sorted(get(values)[:10].tolist()) == list(range(30, 40))
        assert sorted(get(values)[10:].tolist()) == list(range(50, 60))
        assert get(table.find_all(put(np.array([200])))[1]).size == 0


@pytest.mark.parametrize("n", [1, 1000, 3_000_000])
def test_host_arrays_of_all_lengths(table, rng, n):
    keys = np.unique(rng.integers(0, 2**64, n, np.uint64))
    values, out, found = ~keys, np.zeros_like(keys), np.zeros(len(keys), bool)
    assert table.insert(keys, values, out=found).all()
    found[:] = False
    assert table.find(keys, out=out, found=found)[0] is out
    assert found.all()
    assert (out == values).all()
    assert not table.insert(keys, 5).any()
    assert (table.accumulate(keys, 1) == 0).all()
    assert (table[keys] == values + np.uint64(1)).all()
    assert table.erase(keys[::2]).all()
    assert (table.contains(keys) == (np.arange(len(keys)) % 2 == 1)).all()


def test_ctrl_c_during_a_long_batch(table):
    n = 1 << 26
    keys, mask, inside = np.arange(n, dtype=np.uint64), np.zeros(n, bool), []

    def insert_again_and_again():
        for _ in range(100):
            inside.clear()
            table.clear()
            mask[:] = False
            inside.append(True)
            table.insert(keys, keys, out=mask)

    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        insert_again_and_again()
    assert time.perf_counter() - start < 5
    timer.join()
    assert set(np.unique(mask.view(np.uint8))) <= {0, 1}
    table.check()
    if inside:  # not between two batches
        assert (table.contains(keys) == mask).all()
    assert table.insert(keys[:1000], keys[:1000]) is not None
    assert table.contains(keys[:1000]).all()


def test_streams_of_cuda_core(backend, rng):
    device = _cuda.core().Device(0)
    device.set_current()
    stream = device.create_stream()
    keys = rng.permutation(np.arange(10_000, dtype=np.uint64))
    with gh.Table(backend, value_dtype="uint64", device="cuda", stream=stream) as table:
        assert table.stream is stream
        assert table.insert(keys, keys).all()
        array = _cuda.from_host(keys, 0, stream)
        values, found = table.find(array)
        assert isinstance(values, gh.DeviceArray)
        assert (values.get() == keys).all()
        assert found.get().all()
        assert gh.DeviceArray.from_dlpack(values).ptr == values.ptr
    stream.close()
    with gh.Table(backend, device="cuda") as table:
        with pytest.raises((gh.InvalidArgument, RuntimeError)):
            table.insert(keys, keys, stream=stream)
        assert len(table) == 0


@pytest.mark.parametrize("name", ["core", "cupy", "pool", "torch"])
def test_memory_of_other_libraries(backend, name, rng):
    module = pytest.importorskip("torch" if name == "torch" else "cupy")
    memory = name
    if name == "core":
        memory = _cuda.core().DeviceMemoryResource(0)
    elif name == "pool":
        memory = module.cuda.MemoryPool()
    keys = np.unique(rng.integers(0, 2**62, 300_000, np.uint64))
    with gh.Table(backend, value_dtype="uint64", device="cuda", memory=memory) as table:  # which grows
        for part in np.array_split(keys, 10):
            assert table.insert(part, ~part).all()
        assert (table.find(keys)[0] == ~keys).all()
        table.check()
        if name == "pool":
            assert memory.used_bytes() >= table.nbytes
    if name == "pool":
        assert memory.used_bytes() == 0


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_small_call_takes_the_short_path(table, name, monkeypatch):
    module = pytest.importorskip(name)
    keys = np.arange(1000, dtype=np.uint64)
    k = module.asarray(keys) if name == "cupy" else module.from_numpy(keys).cuda()

    def long_path(*arguments):
        raise AssertionError("the long path was taken")

    monkeypatch.setattr(_batch, "batch", long_path)
    assert bool(table.insert(k, k).all())
    values, found = table.find(k)
    assert bool(found.all())
    assert table.find(k, out=values, found=found)[0] is values
    assert int(table.accumulate(k, 2).sum()) == 0
    assert int(table.count(k).sum()) == 1000
    assert bool(table.erase(k).all())
