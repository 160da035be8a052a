"""cuda-python: the real packages where there is no driver, and memory and streams over a fake of them."""

import ctypes
import gc
import importlib.machinery
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _memory

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

NO_DEVICE = _core.device_count(_core.CUDA)[0] == 0


@pytest.fixture
def cuda(monkeypatch):
    with fake_cuda.installed(monkeypatch) as fake:
        yield fake


def run(code):
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.split()


# ---- the real packages -----------------------------------------------------------------------------------------------


def test_importing_needs_nothing_of_cuda():
    code = """
import sys, time
import numpy, inspect, typing, datetime, difflib, dataclasses  # what others have imported anyway
start = time.process_time()
import pygpuhash
took = time.process_time() - start
t = pygpuhash.Table(device="cpu")
t.insert([1], [2]), t.find([1]), t.close()
print(took, *[name for name in sys.modules if name.partition(".")[0] in ("cuda", "ctypes")])
"""
    took, *found = min((run(code) for _ in range(3)), key=lambda line: float(line[0]))
    assert not [name for name in found if name.startswith("cuda")]
    assert float(took) < 0.1  # 0.05 on an idle machine


@pytest.mark.skipif(not NO_DEVICE, reason="there is a driver here")
def test_without_a_driver():
    pytest.importorskip("cuda.core")
    for call in (
        lambda: _cuda.DeviceArray((3,), "u8", 0),
        lambda: _cuda.from_host(np.zeros(3), 0),
        lambda: _cuda.synchronize(0),
        lambda: _cuda.call("cuInit", 0),
    ):
        with pytest.raises(gh.DeviceError, match="driver"):
            call()
    core = _cuda.core()
    assert _core.stream_handle(core.Stream.from_handle(77)) == 77
    assert _memory.adapt(None, _core.CUDA, 0) is None


@pytest.mark.skipif(not NO_DEVICE, reason="there is a driver here")
def test_the_real_classes_have_what_the_fake_has():
    core = pytest.importorskip("cuda.core")
    fake = fake_cuda.Cuda().core
    for name in vars(fake):
        assert hasattr(core, name), name
    for kind, methods in {
        "Stream": ("from_handle", "record", "wait", "sync", "__cuda_stream__"),
        "Buffer": ("from_handle", "close", "handle", "size"),
        "MemoryResource": ("allocate", "deallocate"),
        "Device": ("set_current", "create_stream", "device_id"),
        "Event": ("sync",),
    }.items():
        for method in methods:
            assert hasattr(getattr(core, kind), method), f"{kind}.{method}"
    driver = pytest.importorskip("cuda.bindings.driver")
    for name in vars(fake_cuda.Cuda().driver):
        assert hasattr(driver, name), name


@pytest.fixture
def no_packages(monkeypatch):
    """Neither of the packages is installed."""
    for name in ("cuda.core", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    for function in (_cuda.core, _cuda.driver):
        function.cache_clear()
    yield
    for function in (_cuda.core, _cuda.driver):
        function.cache_clear()


def pretend_gpu(monkeypatch, driver_version=12090):
    """A GPU that every backend can use, with this version of the driver."""
    count, info = _core.device_count, _core.device_info
    monkeypatch.setattr(_core, "device_count", lambda kind: (1, None) if kind == _core.CUDA else count(kind))
    monkeypatch.setattr(
        _core, "device_info", lambda *of: {"driver_version": driver_version} if of == (_core.CUDA, 0) else info(*of)
    )
    monkeypatch.setattr(_core, "backend_probe", lambda name, kind, ordinal: None)


@pytest.mark.parametrize(
    ("driver_version", "extra"), [(12090, "cuda12"), (13000, "cuda13"), (11080, "cuda"), (14010, "cuda")]
)
def test_a_table_on_a_gpu_without_the_packages_names_the_extra(no_packages, monkeypatch, driver_version, extra):
    pretend_gpu(monkeypatch, driver_version)
    monkeypatch.setattr(_core, "build_info", lambda: "CUDA: off")  # any driver is new enough
    say = rf"a table on a GPU needs cuda-core \(.*\): pip install 'gpuhash\[{extra}\]'$"
    for make in (lambda: gh.Table(device="cuda"), lambda: gh.SlabAllocator(device="cuda"), _cuda.core):
        with pytest.raises(gh.DeviceError, match=say):
            make()
    with pytest.raises(gh.DeviceError, match="needs cuda-bindings"):
        _cuda.driver()


@pytest.mark.parametrize(
    ("built", "driver_version", "newer"),
    [
        ("CUDA: 13.0.88", 12040, True),
        ("CUDA: 13.0.88", 13000, False),
        ("CUDA: 12.5.40", 12020, False),
        ("off", 0, False),
    ],
)
def test_an_older_driver_is_named_before_packages_are_installed(no_packages, monkeypatch, built, driver_version, newer):
    pretend_gpu(monkeypatch, driver_version)
    monkeypatch.setattr(_core, "build_info", lambda: built)
    with pytest.raises(gh.DeviceError, match="pip install 'gpuhash") as refused:
        gh.Table(device="cuda")
    more = str(refused.value).partition("]'")[2]
    assert more.startswith(
        "; but this build of gpuhash needs a driver for CUDA 13.0 or newer, and here is one for CUDA 12.4: "
        if newer
        else ""
    )
    assert bool(more) == newer


def test_the_device_auto_is_the_cpu_without_the_packages(no_packages, monkeypatch):
    pretend_gpu(monkeypatch)
    say = r"cuda:0 is left out.*: cuda-core and cuda-bindings are not installed: pip install 'gpuhash\[cuda12\]'"
    with pytest.warns(RuntimeWarning, match=say), gh.Table("linear_probe") as table:
        assert table.device == "cpu"


def test_one_package_without_the_other(monkeypatch):
    pretend_gpu(monkeypatch)
    for name in ("cuda.core", "cuda.bindings"):
        module = ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    assert _cuda.missing() is None
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert _cuda.missing() == "cuda-bindings is not installed: pip install 'gpuhash[cuda12]'"


def test_packages_that_do_not_fit_each_other(monkeypatch, tmp_path):
    """As cuda-core 1.0.0 says beside cuda-bindings 13.0.0."""
    _cuda.core.cache_clear()
    says = "cuda.bindings.cydriver does not export expected C function cuDevSmResourceSplit"
    monkeypatch.setattr(_cuda, "_imported", lambda name: (_ for _ in ()).throw(ImportError(says)))
    with pytest.raises(gh.DeviceError, match=rf"cannot be imported \({says}\).*pip install -U 'gpuhash\[cuda\]'"):
        _cuda.core()
    lacks = ModuleNotFoundError("No module named 'cuda.bindings.cynvvm'", name="cuda.bindings.cynvvm")
    monkeypatch.setattr(_cuda, "_imported", lambda name: (_ for _ in ()).throw(lacks))
    with pytest.raises(gh.DeviceError, match="cuda-core cannot be imported"):
        _cuda.core()
    _cuda.core.cache_clear()


def test_what_is_installed_without_being_asked_for():
    """numpy alone, so that every version of other packages fits beside."""
    file = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if not file.exists():
        pytest.skip("the sources are not here")
    project = tomllib.loads(file.read_text())["project"]
    assert [requirement.partition(">")[0] for requirement in project["dependencies"]] == ["numpy"]
    requirement_of = pytest.importorskip("packaging.requirements").Requirement
    taken = {
        "cuda": {"12.8.0": False, "12.9.0": True, "12.9.4": True, "13.0.0": True, "13.5.0": True},
        "cuda12": {"12.9.4": True, "13.0.0": False},
        "cuda13": {"12.9.10": False, "13.0.0": True, "14.0.0": False},
    }
    for extra, answers in taken.items():
        found = {r.name: r.specifier for r in map(requirement_of, project["optional-dependencies"][extra])}
        assert set(found) == {"cuda-core", "cuda-bindings"}
        assert {v: found["cuda-bindings"].contains(v) for v in answers} == answers
    assert set(project["optional-dependencies"]["cuda"]) <= set(project["optional-dependencies"]["test"])


# As the real ones, cuda.core puts another module in its place before that one is complete.
REPLACES_ITSELF = """
import sys, time
from types import ModuleType
fresh = sys.modules[__name__] = ModuleType("another")
time.sleep(0.3)
fresh.Device = fresh.CUresult = int
"""
TWO_THREADS = """
import threading
from pygpuhash import _cuda
found = {}
def ask(who):
    found[who] = hasattr(_cuda.core(), "Device") and hasattr(_cuda.driver(), "CUresult")
threads = [threading.Thread(target=ask, args=(who,)) for who in range(4)]
for thread in threads:
    thread.start()
    thread.join(0.1)  # the first is in the middle of its import
for thread in threads:
    thread.join()
print(*found.values())
"""


def test_threads_wait_for_the_import_of_another(tmp_path):
    for name in ("cuda", "cuda/core", "cuda/bindings"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "cuda/core/__init__.py").write_text(REPLACES_ITSELF)
    (tmp_path / "cuda/bindings/driver.py").write_text(REPLACES_ITSELF)
    assert run(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{TWO_THREADS}") == ["True"] * 4


def test_the_versions_are_told(monkeypatch):
    assert re.fullmatch(
        r"(cuda-core [\d.]+|no cuda-core), (cuda-bindings [\d.]+|no cuda-bindings)",
        gh.show_config("dict")["cuda-python"],
    )
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(_core, "device_count", lambda kind: (0, None))
    assert gh.show_config("dict")["cuda-python"] == "no cuda-core, no cuda-bindings"
    pretend_gpu(monkeypatch)
    assert gh.show_config("dict")["cuda-python"] == "no cuda-core, no cuda-bindings: pip install 'gpuhash[cuda12]'"


def test_no_driver_is_called_by_hand():
    sources = sorted(Path(gh.__file__).parent.glob("**/*.py"))
    assert len(sources) > 20
    for source in sources:
        text = source.read_text()
        assert "libcuda" not in text, source
        assert "import ctypes" not in text, source


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_arrays(cuda, rng):
    host = rng.integers(0, 100, (3, 5), np.int32)
    array = _cuda.from_host(host, 0)
    assert np.array_equal(np.asarray(array), host)
    assert array.__dlpack_device__() == (2, 0)
    assert (len(array), array.ndim, array.nbytes) == (3, 2, 60)
    assert array.buffer.size == 60
    assert array.ptr == array.buffer.handle
    for n in (1, 7, 4096, 4097, 30_000):
        assert (_cuda.full((n,), np.array(2.5), 0, 0).get() == 2.5).all()
    assert _cuda.DeviceArray((0, 3), np.int32, 0).get().shape == (0, 3)
    with pytest.raises(TypeError, match="no length"):
        len(_cuda.full((), np.array(1), 0, 0))
    with pytest.raises(gh.InvalidArgument, match="2 values"):
        _cuda.full((4,), np.arange(2), 0, 0)
    cuda.room["device"] = 10
    with pytest.raises(gh.NoMemory, match="OUT_OF_MEMORY"):
        _cuda.DeviceArray((3,), "u8", 0)
    assert not cuda.contexts


def test_memory_is_given_back_in_the_order_of_its_stream(cuda):
    class Stream:
        gone = False
        ptr = 55

        def __del__(self):
            Stream.gone = True
            assert cuda.freed, "the stream was gone before the memory that is given back on it"

    array = _cuda.DeviceArray((3,), "u8", 0, Stream())
    address = array.ptr
    gc.collect()
    assert not Stream.gone
    del array
    gc.collect()
    assert Stream.gone
    assert cuda.freed == [(address, 55)]


def test_arrays_are_handed_over_in_order(cuda):
    array = _cuda.DeviceArray((4,), "u8", 0, fake_cuda.Stream(7))
    _cuda.copy(array.ptr, np.arange(4, dtype="u8").ctypes.data, 32, 7)
    kept = array.__dlpack__(stream=9)  # the consumer's stream follows
    assert ctypes.string_at(array.ptr, 32) != bytes(np.arange(4, dtype="u8"))
    cuda.bring(9)
    assert ctypes.string_at(array.ptr, 32) == bytes(np.arange(4, dtype="u8"))
    address, shape, strides, code, bits, kind, ordinal, owner = _core.dlpack_read(kept)
    assert (address, shape, code, bits, kind, ordinal) == (array.ptr, (4,), 1, 64, 2, 0)
    assert strides is None
    assert np.array_equal(array.get(), np.arange(4))
    del array, kept
    assert not cuda.freed
    del owner
    gc.collect()
    assert len(cuda.freed) == 1
    small = _cuda.DeviceArray((1,), "u1", 0)
    for arguments in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="as it is"):
            small.__dlpack__(**arguments)
    assert small.__dlpack__(stream=1, max_version=(1, 0), dl_device=(2, 0), copy=False)


def test_arrays_from_dlpack(cuda, monkeypatch):
    cupy = fake_libraries.cupy(monkeypatch)
    given = cupy.asarray(np.arange(6, dtype="f4").reshape(2, 3))
    before = sys.getrefcount(given)
    array = gh.DeviceArray.from_dlpack(given, stream=fake_cuda.Stream(5))
    assert fake_libraries.asked == [5]
    assert (array.ptr, array.shape, array.dtype, array.stream) == (given.data.ptr, (2, 3), np.float32, 5)
    assert np.array_equal(array.get(), given.array)
    assert sys.getrefcount(given) > before
    del array
    gc.collect()
    assert sys.getrefcount(given) == before
    with pytest.raises(gh.InvalidArgument, match="kind 1"):
        gh.DeviceArray.from_dlpack(np.arange(3))


def test_the_stream_of_a_table(cuda, backend):
    with gh.Table(backend, device="cpu") as table:
        assert table.stream is None
    for given, handle in ((None, 1), (7, 7), (SimpleNamespace(cuda_stream=8), 8)):
        with gh.Table(backend, device="cpu", stream=given) as table:
            table._pretend(_core.CUDA)
            assert isinstance(table.stream, cuda.core.Stream)
            assert table.stream.__cuda_stream__() == (0, handle)
    own = cuda.core.Stream.from_handle(9)
    with gh.Table(backend, device="cpu", stream=own) as table:
        assert table._pretend(_core.CUDA).stream is own


# ---- memory ----------------------------------------------------------------------------------------------------------


def use(memory, cuda=None, stream=7):
    """Allocate two blocks, give them back; where the library does not do it, after work of the stream."""
    addresses = [memory.allocate(n, 256, stream) for n in (100, 200)]
    done = []
    if cuda is not None:
        cuda.queue(stream, lambda: done.append(1))
    assert len(set(addresses)) == 2
    assert all(isinstance(a, int) for a in addresses)
    for address, n in zip(reversed(addresses), (200, 100), strict=True):
        memory.deallocate(address, n, 256, stream)
        assert done == [1] * (cuda is not None)
    assert not memory.held
    return addresses


def test_a_memory_resource_of_cuda_core(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", cuda.core)
    resource, pushed, streams = fake_cuda.Resource(cuda, "device"), [], []
    push, allocate = cuda.driver.cuCtxPushCurrent, resource.allocate
    cuda.driver.cuCtxPushCurrent = lambda context: pushed.append(context) or push(context)
    resource.allocate = lambda size, *, stream: streams.append(stream.handle) or allocate(size, stream=stream)
    memory = _memory.adapt(resource, _core.CUDA, 1)
    addresses = use(memory)
    assert cuda.freed == [(a, 7) for a in reversed(addresses)]
    assert streams == [7, 7]
    assert pushed == [1] * 4
    cuda.room["device"] = 10
    with pytest.raises(MemoryError):
        memory.allocate(100, 256, 7)
    with pytest.raises(gh.InvalidArgument, match="the table is on the CPU: leave it out"):
        gh.Table(device="cpu", memory=resource)


class Pool:
    """CuPy's, which hands out memory for its current stream, and takes it back on that."""

    def __init__(self):
        self.streams, self.back = [], []

    def malloc(self, nbytes):
        self.streams.append(fake_libraries.Stream.current)
        if nbytes > 1000:
            raise Full
        return Block(nbytes, self.back)


class Block:
    def __init__(self, nbytes, back):
        self.array, self.back = np.empty(nbytes, np.uint8), back
        self.ptr = self.array.ctypes.data

    def __del__(self):
        self.back.append(fake_libraries.Stream.current)


Pool.__module__ = "cupy.cuda.memory"


class Full(MemoryError):
    pass


@pytest.mark.parametrize("given", ["a pool", "a pool of a class of one's own", "cupy"])
def test_memory_of_cupy(cuda, monkeypatch, given):
    module = fake_libraries.cupy(monkeypatch)
    pool = Pool() if given != "a pool of a class of one's own" else type("Mine", (Pool,), {"__module__": "mine"})()
    module.cuda.alloc = pool.malloc
    module.cuda.memory = SimpleNamespace(OutOfMemoryError=Full)
    memory = _memory.adapt(given if given == "cupy" else pool, _core.CUDA, 0)
    use(memory, cuda)
    assert pool.streams == pool.back == [7, 7]
    assert memory.allocate(1001, 256, 0) is None


def test_memory_of_torch(cuda, monkeypatch):
    torch = ModuleType("torch")
    held, log = {}, []

    def alloc(nbytes, device, stream):
        if nbytes > 1000:
            raise Full
        array = np.empty(nbytes, np.uint8)
        held[array.ctypes.data] = array
        log.append((device, stream))
        return array.ctypes.data

    torch.cuda = SimpleNamespace(
        caching_allocator_alloc=alloc, caching_allocator_delete=held.pop, OutOfMemoryError=Full
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    memory = _memory.adapt("torch", _core.CUDA, 1)
    use(memory, cuda)
    assert log == [(1, 7), (1, 7)]
    assert not held
    assert memory.allocate(1001, 256, 0) is None


@pytest.mark.parametrize("given", ["a resource", "rmm"])
def test_memory_of_rmm(cuda, monkeypatch, given):
    rmm = ModuleType("rmm")
    log = []

    class Resource:
        def allocate(self, nbytes, stream):
            log.append(stream.of)
            return 4096 + len(log)

        def deallocate(self, address, nbytes, stream):
            log.append((address, nbytes, stream.of))

    class Stream:
        def __init__(self, given):
            version, self.of = given.__cuda_stream__()
            assert version == 0

    Resource.__module__ = "rmm.pylibrmm.memory_resource"
    resource = Resource()
    current = iter([resource])  # asked for once: memory goes back to where it came from
    rmm.mr = SimpleNamespace(get_per_device_resource=lambda device: {1: current}[device].__next__())
    rmm.pylibrmm = SimpleNamespace(stream=SimpleNamespace(Stream=Stream))
    monkeypatch.setitem(sys.modules, "rmm", rmm)
    use(_memory.adapt(resource if given == "a resource" else given, _core.CUDA, 1))
    assert log == [7, 7, (4098, 200, 7), (4097, 100, 7)]


def test_memory_that_cannot_be(monkeypatch):
    monkeypatch.delitem(sys.modules, "rmm", raising=False)
    with pytest.raises(gh.InvalidArgument, match="'jemalloc' is none of 'cupy', 'torch', 'rmm'"):
        gh.Table(device="cpu", memory="jemalloc")
    with pytest.raises(gh.InvalidArgument, match="rmm is not imported"):
        _memory.adapt("rmm", _core.CUDA, 0)
    with pytest.raises(TypeError, match="has no method allocate"):
        gh.Table(device="cpu", memory=object())
    with pytest.raises(TypeError, match="has no method allocate"):  # something else of CuPy's than a pool
        gh.Table(device="cpu", memory=type("MemoryPointer", (), {"__module__": "cupy.cuda.memory"})())
