"""Tables on two GPUs of one machine: each on its own, at the same time, and with the other one current."""

import gc
import threading

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _streams

pytestmark = pytest.mark.gpu2

N = 100_000
BACKENDS = ["linear_probe", "slab_hash", "hive", "skiplist", "stadium"]


class Cupy:
    def __init__(self):
        self.module = pytest.importorskip("cupy")

    def put(self, array, device):
        with self.module.cuda.Device(device):
            return self.module.asarray(array)

    def get(self, array):
        return self.module.asnumpy(array)

    def device(self, array):
        return array.device.id

    def current(self):
        return self.module.cuda.runtime.getDevice()

    def use(self, device):
        self.module.cuda.runtime.setDevice(device)


class Torch:
    def __init__(self):
        self.module = pytest.importorskip("torch")

    def put(self, array, device):
        return self.module.from_numpy(array).to(f"cuda:{device}")

    def get(self, array):
        return array.cpu().numpy()

    def device(self, array):
        return array.device.index

    def current(self):
        return self.module.cuda.current_device()

    def use(self, device):
        self.module.cuda.set_device(device)


class Own:
    def put(self, array, device):
        return _cuda.from_host(array, device)

    def get(self, array):
        return array.get()

    def device(self, array):
        return array.device

    def current(self):
        return int(_cuda.call("cuCtxGetDevice"))

    def use(self, device):
        with _cuda.current(device):
            pass
        _cuda.call("cuCtxSetCurrent", _cuda._primary_context(device))


@pytest.fixture(params=[Cupy, Torch, Own])
def library(request):
    library = request.param()
    library.use(0)
    yield library
    library.use(0)


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def keys(rng):
    return np.unique(rng.integers(0, 2**62, N)).astype(np.int64)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def make(backend, device, **arguments):
    arguments = {"key_dtype": "int64", "value_dtype": "int64", "seed": 3} | arguments
    return gh.Table(backend, device=f"cuda:{device}", **arguments)


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_every_operation_with_any_device_current(backend, library, keys, device, current):
    library.use(current)
    with make(backend, device) as table:
        k = library.put(keys, device)
        v = library.put(keys * 3, device)
        answers = [
            (table.insert(k, v), True),
            (table.insert_or_assign(k, 5), False),
            (table.accumulate(k, v), False),
            (table.contains(k), True),
            (table.count(k), 1),
            (table.find(k)[0], keys * 3 + 5),
            (table.get(k, 9), keys * 3 + 5),
            (table[k], keys * 3 + 5),
            (table.erase(library.put(keys[::2].copy(), device)), True),
        ]
        for got, wanted in answers:
            assert library.device(got) == device
            assert type(got) is type(k)
            assert (library.get(got) == wanted).all()
        out, found = library.put(np.zeros_like(keys), device), library.put(np.zeros(len(keys), bool), device)
        assert table.find(k, out=out, found=found)[0] is out
        assert (library.get(out)[1::2] == keys[1::2] * 3 + 5).all()
        exported, _ = table.export(like=k)
        assert library.device(exported) == device
        assert set(library.get(exported).tolist()) == set(keys[1::2].tolist())
        values, found = table.find(keys)  # host arrays
        assert (found == (np.arange(len(keys)) % 2 == 1)).all()
        assert (values[found] == keys[1::2] * 3 + 5).all()
        assert table.find(int(keys[1]))[1]
        table.check()
        assert library.current() == current
    gc.collect()
    assert library.current() == current


@pytest.mark.parametrize("dtype", ["uint16", "int8", "float16"])
def test_narrow_values_with_the_other_device_current(backend, dtype):
    library = Torch()
    library.use(0)
    keys, values = np.arange(100, dtype="int16"), np.arange(100).astype(dtype)
    with make(backend, 1, key_dtype="int16", value_dtype=dtype) as table:
        k = library.put(keys, 1)
        assert bool(table.insert(k, library.put(values, 1)).all())
        out = library.put(np.zeros(100, dtype), 1)
        assert table.find(k, out=out)[0] is out
        assert (library.get(out) == values).all()
    assert library.current() == 0


def test_arrays_of_the_wrong_device_are_refused(backend, library, keys):
    with make(backend, 1) as table:
        here, there = library.put(keys, 1), library.put(keys, 0)
        mask = library.put(np.zeros(len(keys), bool), 0)
        for call in (
            lambda: table.insert(there, there),
            lambda: table.insert(here, there),
            lambda: table.insert(here, here, out=mask),
            lambda: table.find(here, out=there),
            lambda: table.execute(mask, here, here),
        ):
            with pytest.raises((gh.InvalidArgument, TypeError), match=r"cuda:0|dtype bool"):
                call()
        assert len(table) == 0
        assert library.get(table.insert(here, here)).all()


def test_streams_of_the_other_device_are_refused(backend, keys):
    torch = pytest.importorskip("torch")
    with make(backend, 1) as table, torch.cuda.device(0):
        stream = torch.cuda.Stream(0)
        k = torch.from_numpy(keys).to("cuda:1")
        with pytest.raises((gh.GpuHashError, RuntimeError)):
            table.insert(k, k, stream=stream)
        assert len(table) == 0
        assert bool(table.insert(k, k).all())


def test_threads_on_both_devices_at_once(backend, library):
    """Each thread has keys and a stream of its own; four to a table, and the tables grow."""
    tables = [make(backend, device) for device in (0, 1)]
    wrong = []

    def work(device, part):
        try:
            library.use(device)
            mine = np.arange(part * N, (part + 1) * N, dtype=np.int64)
            for piece in np.array_split(mine, 8):
                k = library.put(piece, device)
                fresh = table_of[device].insert(k, k)
                values, found = table_of[device].find(k)
                ok = library.get(fresh).all() and library.get(found).all() and (library.get(values) == piece).all()
                if not ok:
                    wrong.append((device, part))
        except Exception as error:
            wrong.append(error)

    table_of = dict(enumerate(tables))
    threads = [threading.Thread(target=work, args=(device, part)) for device in (0, 1) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for table in tables:
        table.check()
        assert len(table) == 4 * N
        table.close()


def test_copies_between_the_devices_are_followed(backend, keys):
    """Keys of one table go into the next one over a peer copy, without a wait on the host."""
    torch = pytest.importorskip("torch")
    with make(backend, 0) as first, make(backend, 1) as second:
        k = torch.from_numpy(keys).to("cuda:0")
        first.insert(k, k * 2)
        for _ in range(5):
            values, found = first.find(k)
            there = values.to("cuda:1", non_blocking=True)
            second.insert_or_assign(k.to("cuda:1", non_blocking=True), there)
            assert bool(found.all())
        back, found = second.find(k.to("cuda:1"))
        assert bool(found.all())
        assert bool((back.to("cuda:0") == k * 2).all())


def test_tables_end_with_the_other_device_current(backend, keys):
    torch = pytest.importorskip("torch")
    k = torch.from_numpy(keys).to("cuda:1")
    for _ in range(3):
        table = make(backend, 1)
        table.insert(k, k)
        with torch.cuda.device(0):
            del table
            gc.collect()
            assert torch.cuda.current_device() == 0
        torch.cuda.synchronize(1)


@pytest.mark.parametrize("name", ["cupy", "torch", "core"])
def test_memory_of_the_second_device(backend, name, keys):
    pytest.importorskip("cupy" if name == "core" else name)
    memory = _cuda.core().DeviceMemoryResource(1) if name == "core" else name
    with make(backend, 1, memory=memory) as table:
        table.insert(keys, keys)
        assert (table.find(keys)[0] == keys).all()
        table.check()


def test_current_streams_are_those_of_the_tables_device(keys):
    torch = pytest.importorskip("torch")
    k = torch.from_numpy(keys).to("cuda:1")
    stream = torch.cuda.Stream(1)
    with torch.cuda.stream(stream):
        torch.cuda.set_device(0)
        assert _streams.current_stream(k, 1) == stream.cuda_stream
        assert _core.stream_handle(stream) == stream.cuda_stream
    torch.cuda.set_device(0)


@pytest.mark.parametrize("order", ["any", "first"])
def test_verbs_with_the_other_device_current_and_busy(order):
    """Nothing of a call waits for that one, and nothing goes to its streams."""
    torch = pytest.importorskip("torch")
    host = (np.arange(1 << 18) % 3).astype(np.int32)
    k = torch.from_numpy(host).to("cuda:1")
    values = k.to(torch.float64)
    wanted = np.unique(host, return_counts=True)[1]
    for _ in range(3):
        torch.cuda.synchronize(0)
        torch.cuda._sleep(100_000_000)
        end = torch.cuda.Event()
        end.record()
        distinct, counts = gh.value_counts(k, order=order)
        of_sums, sums = gh.group_reduce(k, values, order=order)
        codes, of_codes = gh.factorize(k, order=order)
        assert distinct.device == counts.device == sums.device == codes.device == k.device
        for found in (distinct, of_sums, of_codes):
            assert sorted(found.tolist()) == [0, 1, 2]
        assert counts.tolist() == wanted[distinct.tolist()].tolist()
        assert sums.tolist() == [float(key * wanted[key]) for key in of_sums.tolist()]
        assert torch.equal(of_codes[codes], k)
        assert not end.query()
        assert torch.cuda.current_device() == 0
