"""Tables on a CUDA device: host arrays, our own device arrays, CuPy and PyTorch."""

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda

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
        fresh = table.insert(keys, keys)
        assert isinstance(fresh, gh.DeviceArray)
        assert fresh.get().all()
        values, _ = table.find(keys)
        back = jax.dlpack.from_dlpack(values)
        assert (np.asarray(back) == np.arange(1000)).all()


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
