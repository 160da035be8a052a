"""CUDA graphs: what is captured from PyTorch and CuPy does, each time it is replayed, what a plain call would do."""

import contextlib
import gc

import numpy as np
import pytest

import pygpuhash as gh

pytestmark = pytest.mark.gpu

KEYS, BATCH, REPLAYS = 1 << 14, 256, 100_000
BACKENDS = ["linear_probe", "slab_hash", "hive", "skiplist", "stadium"]
MODES = ["global", "thread_local", "relaxed"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def make(backend, **arguments):
    arguments = {"key_dtype": "int64", "value_dtype": "int64", "capacity": 4 * KEYS, "grow": False} | arguments
    return gh.Table(backend, device="cuda:0", seed=5, **arguments)


class TorchGraph:
    """Arrays, captures and replays of PyTorch."""

    def __init__(self):
        self.torch = pytest.importorskip("torch")

    def array(self, values):
        return self.torch.as_tensor(values, device="cuda")

    def capture(self, work, mode="global"):
        gc.collect()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, capture_error_mode=mode):
            work()
        return graph.replay

    def host(self, array):
        return array.cpu().numpy()

    def fill(self, array, value):
        array.fill_(value)

    def copy(self, to, source):
        to.copy_(source)


class CupyGraph:
    """The same of CuPy."""

    def __init__(self):
        self.cupy = pytest.importorskip("cupy")
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.stream.use()

    def array(self, values):
        return self.cupy.asarray(values)

    def capture(self, work, mode="global"):
        modes = self.cupy.cuda.runtime
        number = {
            "global": modes.streamCaptureModeGlobal,
            "thread_local": modes.streamCaptureModeThreadLocal,
            "relaxed": modes.streamCaptureModeRelaxed,
        }[mode]
        gc.collect()  # a graph of an earlier test that is collected in a capture ends it
        self.stream.begin_capture(number)
        try:
            work()
        finally:
            graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)

    def host(self, array):
        return self.cupy.asnumpy(array)

    def fill(self, array, value):
        array.fill(value)

    def copy(self, to, source):
        to[...] = source


@pytest.fixture(params=[TorchGraph, CupyGraph])
def lib(request):
    lib = request.param()
    yield lib
    if isinstance(lib, CupyGraph):
        lib.cupy.cuda.Stream.null.use()


def arrays(lib, n=BATCH):
    """Keys, values, results and two masks, of which a graph remembers the addresses."""
    return [lib.array(np.zeros(n, dtype)) for dtype in ("i8", "i8", "i8", "?", "?")]


def test_replays_against_a_model(backend, lib):
    """Each replay assigns a batch and looks another one up; a plain array is the model."""
    rng = np.random.default_rng(11)
    order = lib.array(rng.permutation(KEYS).astype("i8"))
    model = lib.array(np.full(KEYS, -1))
    keys, values, out, fresh, found = arrays(lib)
    asked = lib.array(np.zeros(BATCH, "i8"))
    wrong = lib.array(np.zeros(1, "i8"))
    with make(backend) as table:

        def work():
            table.insert_or_assign(keys, values, out=fresh)
            table.find(asked, out=out, found=found)

        work()  # keys 0 with value 0, in both
        model[0] = 0
        replay = lib.capture(work)
        for i in range(REPLAYS):
            start = (i * 7 * BATCH) % (KEYS - BATCH)
            other = (i * 13 * BATCH + 5) % (KEYS - BATCH)
            lib.copy(keys, order[start : start + BATCH])
            lib.copy(asked, order[other : other + BATCH])
            lib.fill(values, i)
            replay()
            if i % 100 == 99 or i < 100:
                model[keys] = values
                known = model[asked]
                wrong += ((found != (known >= 0)) | (found & (out != known))).sum()
            else:
                model[keys] = values
        assert int(lib.host(wrong)[0]) == 0
        there = lib.host(model)
        got, present = table.find(np.arange(KEYS))
        assert np.array_equal(present, there >= 0)
        assert np.array_equal(got[present], there[present])
        table.check()


@pytest.mark.parametrize("mode", MODES)
def test_every_operation_is_captured(backend, lib, mode):
    keys, values, out, mask, found = arrays(lib)
    counts, ops = lib.array(np.zeros(BATCH, "i8")), lib.array(np.zeros(BATCH, "u1"))
    lib.copy(keys, lib.array(np.arange(BATCH)))
    lib.fill(values, 3)
    with make(backend) as table:

        def work():
            table.insert(keys, values, out=mask)
            table.insert_or_assign(keys, values, out=mask)
            table.accumulate(keys, values, out=mask)
            table.count(keys, out=counts)
            table.find(keys, out=out, found=found)
            table.contains(keys, out=mask)

        replay = lib.capture(work, mode)
        assert len(table) == 0  # nothing has run
        for _ in range(3):
            replay()
        assert (lib.host(out) == 6).all()
        assert lib.host(found).all()
        assert lib.host(mask).all()
        assert (lib.host(counts) == 1).all()
        assert len(table) == BATCH
        erase = lib.capture(lambda: table.erase(keys, out=mask), mode)
        erase()
        assert lib.host(mask).all()
        assert len(table) == 0
        lib.fill(ops, int(gh.Op.INSERT))
        execute = lib.capture(lambda: table.execute(ops, keys, values, out=out, found=found), mode)
        execute()
        assert lib.host(found).all()
        lib.fill(ops, int(gh.Op.FIND))
        execute()
        assert (lib.host(out) == 3).all()
        table.check()


def test_finds_of_a_growing_table(backend, lib):
    keys, _, out, _, found = arrays(lib)
    lib.copy(keys, lib.array(np.arange(BATCH)))
    with make(backend, grow=True, capacity=1000) as table:
        table.insert(keys, keys)
        replay = lib.capture(lambda: table.find(keys, out=out, found=found))
        replay()
        assert lib.host(found).all()
        assert (lib.host(out) == np.arange(BATCH)).all()


@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_captured_is_refused_and_the_capture_stays_valid(backend, lib, mode):
    keys, values, out, mask, found = arrays(lib)
    lib.copy(keys, lib.array(np.arange(BATCH)))
    stream = lib.stream if isinstance(lib, CupyGraph) else None
    with make(backend) as table, make(backend, grow=True, capacity=8) as growing:
        table.insert(keys, keys)

        def work():
            here = stream if stream is not None else lib.torch.cuda.current_stream()
            for call in (
                lambda: growing.insert(keys, values, out=mask),
                lambda: table.find(np.arange(4), stream=here),
                lambda: table.export(stream=here),
                lambda: table.reserve(10**6, stream=here),
            ):
                with pytest.raises((gh.InvalidArgument, gh.Unsupported)):
                    call()
            table.find(keys, out=out, found=found)

        replay = lib.capture(work, mode)
        replay()
        assert (lib.host(out) == np.arange(BATCH)).all()
        assert lib.host(found).all()
        assert growing.insert(keys, keys) is not None
        assert len(growing) == BATCH
        table.check()
        growing.check()
    with make(backend) as fresh:  # nothing is left behind in the process
        assert lib.host(fresh.insert(keys, keys)).all()


def test_plain_batches_and_replays_are_ordered(backend, lib):
    """A replay sees what a plain batch before it has written, and the other way round; so does the whole table."""
    keys, values, out, mask, found = arrays(lib)
    lib.copy(keys, lib.array(np.arange(BATCH)))
    with make(backend) as table:
        table.insert(keys, values)
        replay = lib.capture(lambda: table.accumulate(keys, values, out=mask))
        lib.fill(values, 1)
        for i in range(200):
            replay()
            table.accumulate(keys, values, out=mask)
            if i % 50 == 0:
                assert len(table) == BATCH
            table.find(keys, out=out, found=found)
            if i % 20 == 0:
                assert (lib.host(out) == 2 * (i + 1)).all()
        exported = dict(zip(*table.export(), strict=True))
        assert set(exported.values()) == {400}


def test_a_full_table_tells_after_the_replay(backend, lib):
    n = 1 << 18  # more than a heap of one memory block for each super block holds
    keys, values, _, mask, _ = arrays(lib, n)
    lib.copy(keys, lib.array(np.arange(n)))
    with make(backend, capacity=64) as table:
        replay = lib.capture(lambda: table.insert(keys, values, out=mask))
        replay()
        codes = lib.host(mask).view(np.uint8)
        assert (codes >= 2).any()
        with pytest.raises(gh.TableFull):
            len(table)
        with contextlib.suppress(gh.TableFull):
            table.check()
        assert len(table) == (codes == 1).sum()
