"""Calls with arrays of a device, as far as they need none: the table and all memory are the host's.

What is plain and ready goes the short path, where no library is asked for an export; the rest is made to fit or
refused with words.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda, _ordered

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries

KEYS = np.arange(3, 103, dtype=np.uint64)


@pytest.fixture
def cuda(monkeypatch):
    with fake_cuda.installed(monkeypatch) as fake:
        monkeypatch.setattr(Table, "cuda", fake)
        yield fake


@pytest.fixture
def cupy(cuda, monkeypatch):
    return fake_libraries.cupy(monkeypatch)


@pytest.fixture
def torch(cuda, monkeypatch):
    return fake_libraries.torch(monkeypatch)


@pytest.fixture(params=["cupy", "quick cupy", "torch"])
def library(request, cuda, monkeypatch):
    """A function that makes an array of the library."""
    if request.param == "cupy":
        return fake_libraries.cupy(monkeypatch).asarray
    if request.param == "quick cupy":
        return fake_libraries.cupy(monkeypatch, fake_libraries.QuickArray).asarray
    return fake_libraries.torch(monkeypatch).Tensor


@pytest.fixture
def table(backend):
    with make(backend) as t:
        yield t


class Table(gh.Table):
    """A table of the CPU that takes streams: what they hold is done when it begins."""

    __slots__ = ()
    cuda = None

    def _raw(self, *args, stream=0, **rest):
        self.cuda.bring(stream)
        return super()._raw(*args, **rest)


def make(backend, **arguments):
    return Table(backend, device="cpu", seed=7, **{"value_dtype": "uint64"} | arguments)._pretend(_core.CUDA)


def short(call):
    """Run a call that takes the short path: nothing is exported, and no context made current."""
    fake_libraries.asked.clear()
    answer = call()
    assert not fake_libraries.asked, "a library was asked for an export"
    return answer


def test_every_operation_goes_the_short_path(table, library):
    keys, values = library(KEYS), library(~KEYS)
    out, mask = library(np.empty_like(KEYS)), library(np.empty(len(KEYS), bool))
    assert short(lambda: table.insert(keys, values)).array.all()
    assert not short(lambda: table.insert(keys, values, out=mask)).array.any()
    assert not short(lambda: table.insert_or_assign(keys, keys)).array.any()
    assert not short(lambda: table.accumulate(keys, values)).array.any()
    got, found = short(lambda: table.find(keys))
    assert type(got) is type(keys)
    assert got.array.dtype == np.uint64
    assert (got.array == np.uint64(2**64 - 1)).all()
    assert found.array.all()
    answer = short(lambda: table.find(keys, out=out, found=mask))
    assert answer[0] is out
    assert answer[1] is mask
    assert np.array_equal(out.array, got.array)
    assert short(lambda: table.contains(keys)).array.all()
    assert short(lambda: table.count(keys)).array.dtype == np.int64
    assert (short(lambda: table.count(keys)).array == 1).all()
    ops = library(np.full(len(KEYS), int(gh.Op.FIND), np.uint8))
    assert np.array_equal(short(lambda: table.execute(ops, keys, values))[0].array, got.array)
    assert short(lambda: table.erase(keys)).array.all()
    assert len(table) == 0
    got, inserted = short(lambda: table.find_or_insert(keys, values))
    assert np.array_equal(got.array, ~KEYS)
    assert inserted.array.all()
    got, popped = short(lambda: table.pop(keys, out=out, found=mask))
    assert got is out
    assert popped is mask
    assert np.array_equal(out.array, ~KEYS)
    assert mask.array.all()
    assert len(table) == 0


@pytest.mark.parametrize("shape", [(), (1,), (4, 25), (2, 1, 50), (0,), (3, 0)])
def test_shapes_on_the_short_path(table, library, shape):
    keys = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    assert short(lambda: table.insert(library(keys), library(keys))).array.shape == shape
    values, found = short(lambda: table.find(library(keys)))
    assert np.array_equal(values.array, keys)
    assert found.array.shape == shape


def test_one_long_row_that_is_also_a_column(table, library):
    """Where a dimension has one element, its stride says nothing."""
    assert short(lambda: table.insert(library(KEYS.reshape(100, 1).T), 5)).array.all()


def test_more_dimensions_than_the_short_path_knows(table, library):
    keys = library(KEYS.reshape(1, 1, 1, 1, 1, 1, 1, 1, 100))
    assert table.insert(keys, keys).array.all()
    assert np.array_equal(table.find(keys)[0].array, keys.array)
    assert fake_libraries.asked


def test_a_set_on_the_short_path(backend, library):
    with make(backend, value_dtype=None) as table:
        assert short(lambda: table.insert(library(KEYS))).array.all()
        values, found = short(lambda: table.find(library(KEYS)))
        assert values is None
        assert found.array.all()


@pytest.mark.parametrize("value", [5, 2**64 - 1, np.uint64(7)])
def test_one_value_for_all_keys(table, library, value):
    keys = library(KEYS)
    assert short(lambda: table.insert(keys, value)).array.all()
    assert (table.find(keys)[0].array == value).all()
    short(lambda: table.accumulate(keys))
    assert (table.find(keys)[0].array == np.uint64((int(value) + 1) % 2**64)).all()
    with pytest.raises(OverflowError, match="values: -1 does not fit uint64"):
        table.insert(keys, -1)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", -5), ("int32", -(2**31)), ("uint32", 2**32 - 1), ("float32", -0.5), ("float64", 1e300)],
)
def test_the_bits_of_one_value(backend, library, dtype, value):
    with make(backend, value_dtype=dtype) as table:
        short(lambda: table.insert(library(KEYS), value))
        got = short(lambda: table.find(library(KEYS)))[0]
        assert got.array.dtype == dtype
        assert (got.array == np.array(value, dtype)).all()


def test_the_stream_of_the_library_is_the_stream_of_the_call(table, library, monkeypatch):
    keys = library(KEYS)
    table.insert(keys, keys)
    if hasattr(type(keys), "stream"):
        type(keys).stream = 5
    else:
        monkeypatch.setattr(fake_libraries.Stream, "current", 5)
    # The CPU has no streams, so that the library says which one it was given.
    with pytest.raises(gh.InvalidArgument, match="stream is 0x5"):
        table.find(keys)
    with pytest.raises(gh.InvalidArgument, match="stream is 0x5"):
        short(lambda: table.find(keys, stream=5))


def test_another_stream_is_left_to_the_library_to_wait_for(table, cupy):
    keys = cupy.asarray(KEYS)
    table.insert(keys, keys)
    fake_libraries.asked.clear()
    assert table.find(keys, stream=fake_cuda.Stream(9))[1].array.all()
    assert set(fake_libraries.asked) == {9}  # of the keys, and of outputs
    with make(table.backend, stream=fake_cuda.Stream(9)) as other:
        fake_libraries.asked.clear()
        other.insert(keys, keys)
        assert set(fake_libraries.asked) == {9}


def test_streams_that_cannot_be_used(table, cuda, cupy):
    keys = cupy.asarray(KEYS)
    cuda.device_of, cuda.destroyed = lambda stream: 1 if stream in (2, 11) else 0, {12}
    for stream, words in (
        (fake_cuda.Stream(11), "stream=.* is of cuda:1, the table on cuda:0"),
        (fake_cuda.Stream(12), "cannot be used: cuStreamGetDevice"),
    ):
        for call in (
            lambda given: table.insert(keys, keys, stream=given),
            lambda given: table.insert(KEYS, KEYS, stream=given),
            lambda given: table.get(keys, 5, stream=given),
            lambda given: table.lower_bound(keys, stream=given),
            lambda given: table.clear(stream=given),
            lambda given: table.export(stream=given),
        ):
            with pytest.raises(gh.InvalidArgument, match=words):
                call(stream)
    assert len(table) == 0
    assert table.insert(keys, keys, stream=2) is not None  # the thread's default stream on whichever device is current


@pytest.mark.parametrize("capturing", [False, True])
def test_nothing_waits_for_what_is_captured(backend, cuda, cupy, monkeypatch, capturing):
    """Elements without room are found when the graph has run, not by a call that has only been captured."""
    asked, waited = [], []

    class Spy(Table):
        __slots__ = ()

        def _raw(self, *args, wait=False, **rest):
            waited.append(wait)
            return super()._raw(*args, wait=wait, **rest)

    monkeypatch.setattr(_cuda, "is_capturing", lambda stream: asked.append(stream) or capturing)
    keys = cupy.asarray(KEYS)
    for grow in (False, True):
        with Spy(backend, device="cpu", value_dtype="uint64", capacity=1000, grow=grow) as table:
            table._pretend(_core.CUDA)
            table.insert(keys, keys)
            assert asked == ([] if grow else [0])
            table.find(keys)
            assert len(asked) == (0 if grow else 1)
            table.insert(keys, keys, stream=fake_cuda.Stream(9))  # the long path
            table.find(keys, stream=fake_cuda.Stream(9))
        assert waited == [not grow and not capturing, False]
        asked.clear()
        waited.clear()


def test_host_arrays_are_not_captured(table, cuda):
    cuda.capturing = {7}
    for call in (
        lambda: table.insert(KEYS, KEYS, stream=fake_cuda.Stream(7)),
        lambda: table.find(5, stream=fake_cuda.Stream(7)),
    ):
        with pytest.raises(gh.InvalidArgument, match="host arrays are copied now: pass device arrays"):
            call()
    assert table.insert(KEYS, KEYS).all()


def spoil(library, what):
    """Arrays that are not plain: (keys, values, out, mask, error, words)."""
    keys, values, out, mask = KEYS, KEYS, np.empty_like(KEYS), np.empty(len(KEYS), bool)
    if what == "shape of values":
        return keys, values[:5].copy(), None, None, ValueError, "values have shape"
    if what == "shape of as many values":
        return keys, values.reshape(4, 25), None, None, ValueError, r"values have shape \(4, 25\), keys \(100,\)"
    if what == "dtype of out":
        return keys, None, out.astype("i4"), None, TypeError, "out has dtype int32"
    if what == "shape of out":
        return keys, None, out[:5].copy(), None, ValueError, "out has shape"
    if what == "shape of as large an out":
        return keys, None, out.reshape(4, 25), None, ValueError, r"out has shape \(4, 25\), keys \(100,\)"
    if what == "shape of mask":
        return keys, None, out, mask[:5].copy(), ValueError, "the mask has shape"
    if what == "values on the host":
        return keys, values[:1], None, None, gh.InvalidArgument, "values on the host: copy the values to the device"
    if what == "dtype of mask":
        return keys, None, out, mask.view(np.uint8), TypeError, "the mask has dtype uint8"
    return keys.astype("f4"), None, None, None, TypeError, "have dtype float32, the table holds uint64"


@pytest.mark.parametrize(
    "what",
    [
        "shape of values",
        "shape of as many values",
        "dtype of out",
        "shape of out",
        "shape of as large an out",
        "shape of mask",
        "dtype of mask",
        "dtype of keys",
        "values on the host",
    ],
)
def test_what_is_not_plain_is_refused_with_words(table, library, what):
    keys, values, out, mask, error, words = spoil(library, what)
    arrays = [None if a is None else library(a) for a in (keys, values, out, mask)]
    keys, values, out, mask = arrays
    if what == "values on the host":
        values = values.array
    call = (
        (lambda: table.insert(keys, values)) if values is not None else (lambda: table.find(keys, out=out, found=mask))
    )
    with pytest.raises(error, match=words):
        call()
    assert len(table) == 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda ops: ops.view("i1"), TypeError, "ops have dtype int8: pass uint8"),
        (lambda ops: ops.reshape(4, 25), ValueError, r"ops have shape \(4, 25\), keys \(100,\)"),
    ],
)
def test_operation_codes_that_are_refused(table, library, change, error, words):
    ops = np.full(100, gh.Op.INSERT, np.uint8)
    with pytest.raises(error, match=words):
        table.execute(library(change(ops)), library(KEYS), library(KEYS))
    assert len(table) == 0


def test_operation_codes_of_the_host(table, library):
    keys, ops = library(KEYS), np.full(100, gh.Op.INSERT, np.uint8)
    assert table.execute(ops, keys, keys)[1].array.all()
    ops[3] = 9
    with pytest.raises(gh.InvalidArgument, match=r"ops\[3\] is 9, which execute does not have"):
        table.execute(ops, keys, keys)
    with make(table.backend, value_dtype=None) as keys_only:
        ops[3] = gh.Op.ACCUMULATE
        with pytest.raises(gh.InvalidArgument, match=r"ops\[3\] is ACCUMULATE \(3\), but this table is a set"):
            keys_only.execute(ops, keys)


def test_the_last_of_equal_keys_on_a_device_is_refused(table, library):
    """No structure does it itself, and what does it for them works on host arrays."""
    keys = library(KEYS)
    with pytest.raises(gh.Unsupported, match="duplicates"):
        table.insert_or_assign(keys, keys, dedup="last")
    assert len(table) == 0


def test_arrays_of_another_device(table, torch):
    here, there = torch.Tensor(KEYS), torch.Tensor(KEYS, device=1)
    table.insert(here, here)
    for call in (
        lambda: table.find(there),
        lambda: table.find(there, out=torch.Tensor(KEYS, 1), found=torch.Tensor(KEYS.astype(bool), 1)),
        lambda: table.insert(here, there),
        lambda: table.find(here, out=there),
        lambda: table.execute(torch.Tensor(np.zeros(len(KEYS), np.uint8), device=1), here, here),
    ):
        with pytest.raises(gh.InvalidArgument, match=r"on cuda:1, the table on cuda:0: copy them there first"):
            call()


def test_managed_memory_goes_the_long_path(table, torch):
    assert table.insert(torch.Tensor(KEYS, kind=13), torch.Tensor(KEYS)).array.all()
    assert fake_libraries.asked
    with pytest.raises(gh.InvalidArgument, match="copy the values to the device"):
        table.insert(torch.Tensor(KEYS), KEYS)


@pytest.mark.parametrize("stride", [2, -1])
def test_strided_arrays_are_refused(table, library, stride):
    with pytest.raises(BufferError, match="strided"):  # by the library, when it is asked for an export
        table.find(library(KEYS[::stride]))
    with pytest.raises(BufferError, match="strided"):
        table.insert(library(KEYS), library(np.repeat(KEYS, 2)[::2]))
    assert len(table) == 0


def test_an_array_that_its_library_does_not_describe(table, torch):
    keys = torch.Tensor(KEYS)
    torch.Tensor.refuses = True
    assert not table.find(keys)[1].array.any()
    assert len(fake_libraries.asked) == 3  # the long path has asked for each
    torch.Tensor.refuses = False
    assert not short(lambda: table.find(keys))[1].array.any()


def test_a_gradient_is_not_taken_silently(backend, torch):
    with make(backend, value_dtype="float32") as table:
        values = torch.Tensor(np.ones(len(KEYS), "f4"))
        assert short(lambda: table.insert(torch.Tensor(KEYS), values)).array.all()
        values.requires_grad = True
        with pytest.raises(BufferError, match="requires a gradient"):
            table.insert_or_assign(torch.Tensor(KEYS), values)


@pytest.mark.parametrize(("name", "module", "major"), [("Tensor", "other", 2), ("Tensor", "other", 1)])
def test_other_tables_of_functions(backend, cuda, monkeypatch, name, module, major):
    """Of a major version that is not known: not used. Of a library that cannot make arrays: read alone."""
    kind = fake_libraries.exchange_type(name, module, major)
    monkeypatch.setitem(sys.modules, module, object())
    with make(backend) as table:
        keys = kind(KEYS)
        assert isinstance(table.insert(keys, keys), gh.DeviceArray)
        assert isinstance(table.find(keys)[0], gh.DeviceArray)
        if major == 1:
            assert kind.described > 0  # before it was found that it cannot make the outputs
            out = _cuda.DeviceArray((100,), np.uint64, 0)
            assert table.find(keys, out=out)[0] is out
        else:
            assert kind.described == 0


def test_a_full_table(backend, library):
    n = 20_000
    keys, mask = library(np.arange(n, dtype=np.uint64)), library(np.ones(n, bool))
    with make(backend, capacity=4000, grow=False) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, keys, out=mask)
        full = caught.value
        assert set(np.unique(full.status)) <= {1, 2, 3}
        assert np.array_equal(full.status == 1, mask.array)
        assert np.array_equal(gh.Table.contains(table, keys).array, mask.array)
        with pytest.raises(gh.TableFull) as caught:
            table.insert(keys, keys)
        assert caught.value.failed.any()


# ---- what is made to fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bool"])
@pytest.mark.parametrize("stream", [None, 9])
def test_narrow_values_in_out(backend, cupy, dtype, stream):
    values = np.arange(100).astype(dtype)
    with make(backend, key_dtype="uint16", value_dtype=dtype) as table:
        keys = cupy.asarray(np.arange(100, dtype="u2"))
        owner = fake_cuda.stream(stream)
        assert table.insert(keys, cupy.asarray(values), stream=owner).array.all()
        out = cupy.asarray(np.zeros(100, dtype))
        got, found = table.find(keys, out=out, stream=owner)
        assert got is out
        assert found.array.all()
        assert np.array_equal(out.array, values)
        assert out.written_on == (stream or 0)
        assert np.array_equal(table.find(keys)[0].array, values)
        with pytest.raises(TypeError, match="out has dtype uint32"):
            table.find(keys, out=cupy.asarray(np.zeros(100, "u4")))


def test_get_with_a_default(table, cupy):
    keys = cupy.asarray(KEYS)
    table.insert(keys[:50], keys[:50])
    wanted = np.where(np.arange(100) < 50, KEYS, 7)
    assert np.array_equal(table.get(keys, 7).array, wanted)
    assert np.array_equal(table.get(keys).array, np.where(np.arange(100) < 50, KEYS, 0))
    each = cupy.asarray(np.arange(1000, 1100, dtype=np.uint64))
    assert np.array_equal(table.get(keys, each).array, np.where(np.arange(100) < 50, KEYS, each.array))
    with pytest.raises(gh.InvalidArgument, match="copy default to the device"):
        table.get(keys, np.arange(100, dtype=np.uint64))
    with pytest.raises(OverflowError, match="default"):
        table.get(keys, -1)
    own = _cuda.from_host(KEYS, 0)  # no library to ask
    answer = table.get(own, 7)
    assert isinstance(answer, gh.DeviceArray)
    assert np.array_equal(answer.get(), wanted)


def test_a_default_of_another_dtype(cuda, torch):
    """PyTorch's `where` would make values of both dtypes, and those of the table are wanted."""
    torch.where = lambda c, a, b: torch.Tensor(np.where(c.array, a.array, b.array))
    torch.Tensor.to = lambda self, dtype: torch.Tensor(self.array.astype(dtype))
    torch.Tensor.dtype = property(lambda self: str(self.array.dtype))
    torch.Tensor.shape = property(lambda self: self.array.shape)
    torch.Tensor.reshape = lambda self, shape: torch.Tensor(self.array.reshape(shape))
    torch.Tensor.__invert__ = lambda self: torch.Tensor(~self.array)
    torch.Tensor.masked_fill_ = lambda self, mask, value: torch.Tensor(np.where(mask.array, value, self.array))
    with make("linear_probe", value_dtype="int32") as table:
        keys = torch.Tensor(KEYS)
        table.insert(torch.Tensor(KEYS[:50]), 5)
        got = table.get(keys, torch.Tensor(np.full(100, 7, np.int64)))
        assert got.dtype == "int32"
        assert got.array.tolist() == [5] * 50 + [7] * 50
        assert table.get(keys, 7).array.tolist() == [5] * 50 + [7] * 50


def test_defaults_of_cupy(cupy):
    with make("linear_probe", value_dtype="int32") as table:
        keys = cupy.asarray(KEYS)
        table.insert(keys[:50], 5)
        got = table.get(keys, cupy.asarray(np.full(100, 7, np.int64)))
        assert got.dtype == "int32"
        assert got.array.tolist() == [5] * 50 + [7] * 50
    with make("linear_probe", value_dtype=("f4", 2)) as table:
        table.insert(keys[:50], cupy.asarray(np.ones((50, 2), "f4")))
        got = table.get(keys, cupy.asarray(np.full((100, 2), 7, "f4")))
        assert got.array.tolist() == [[1, 1]] * 50 + [[7, 7]] * 50


@pytest.mark.parametrize(("own", "given", "used"), [(None, None, 5), (8, None, 8), (8, 9, 9)])
def test_the_stream_of_defaults(table, cupy, monkeypatch, own, given, used):
    from pygpuhash import _device_queries

    where, chosen = cupy.where, []
    cupy.where = lambda *arguments: chosen.append(fake_libraries.Stream.current) or where(*arguments)
    monkeypatch.setattr(fake_libraries.Stream, "current", 5)
    with make("linear_probe", stream=fake_cuda.stream(own)) as t:
        found = cupy.asarray(np.zeros(100, bool))
        assert (_device_queries.with_default(t, cupy.asarray(KEYS), found, 7, fake_cuda.stream(given)).array == 7).all()
    assert chosen == [used]


def test_an_output_of_our_own_remembers_its_stream(table, cuda):
    keys, out = _cuda.from_host(KEYS, 0), _cuda.DeviceArray((100,), np.uint64, 0)
    found = _cuda.DeviceArray((100,), bool, 0)
    owner = SimpleNamespace(ptr=9)
    assert table.find(keys, out=out, found=found, stream=owner)[0] is out
    assert out.stream == found.stream == 9
    assert out._keeps is found._keeps is owner


@pytest.mark.parametrize("limit", [None, 2])
def test_outputs_of_ranges_remember_their_stream(ordered, cuda, limit):
    ends = (_cuda.from_host(np.array(end, np.uint64), 0) for end in ([3, 90], [9, 96]))
    out = tuple(
        _cuda.DeviceArray((4,) if limit is None else (2, limit), np.uint64, 0, fake_cuda.Stream(9)) for _ in range(2)
    )
    owner = SimpleNamespace(ptr=0)
    ordered.range(*ends, limit, out=out, stream=owner)
    assert [array.stream for array in out] == [0, 0]  # where they were written last
    assert all(array._keeps is owner for array in out)


class Interface:
    """An array with `__cuda_array_interface__` alone, written on a stream of its producer."""

    def __init__(self, cuda, array, stream):
        self.memory = cuda.core.DeviceMemoryResource(0).allocate(array.nbytes, stream=cuda.core.Stream.from_handle(0))
        _cuda.copy(self.memory.handle, array.ctypes.data, array.nbytes, stream)
        data, typestr = (self.memory.handle, False), array.dtype.str
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": typestr, "data": data, "version": 3, "stream": stream
        }  # fmt: skip


def test_the_stream_of_an_interface_is_waited_for(table, cuda, monkeypatch):
    cuda.contexts.append(0)
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 0))
    assert table.insert(Interface(cuda, KEYS, 7), Interface(cuda, ~KEYS, 8), stream=fake_cuda.Stream(9)).get().all()
    values, found = table.find(Interface(cuda, KEYS, 9), stream=fake_cuda.Stream(9))
    assert found.get().all()
    assert np.array_equal(values.get(), ~KEYS)
    monkeypatch.setattr(_core, "pointer_device", lambda address: (_core.CUDA, 1))
    with pytest.raises(gh.InvalidArgument, match="on cuda:1"):
        table.find(Interface(cuda, KEYS, 9))


def test_a_library_that_cuts_what_it_converts(cuda, monkeypatch):
    """JAX without 8 bytes: an array of half the width must not be read as one of the whole."""
    from pygpuhash import _stored_views

    jax, u8 = fake_libraries.jax(monkeypatch, cuda), np.dtype("u8")
    keys = jax.Array(0, 0, np.arange(3, dtype="u4"))
    with pytest.raises(TypeError, match=r"dtype uint32, the table holds uint64.*'jax_enable_x64', True"):
        _stored_views.stored_view(keys, u8, u8, 0, 0, "keys")
    jax.config.jax_enable_x64 = True
    assert _stored_views.stored_view(keys, u8, u8, 0, 0, "keys").dtype == u8


def test_arrays_of_our_own_on_two_streams(table, cuda):
    """What the short path takes is ready on the stream of the call; the rest is waited for."""
    keys = _cuda.from_host(KEYS, 0)
    values = _cuda.DeviceArray((100,), np.uint64, 0, fake_cuda.Stream(7))
    _cuda.copy(values.ptr, KEYS.ctypes.data, KEYS.nbytes, 7)  # not done yet
    assert table.insert(keys, values).get().all()
    assert np.array_equal(table.find(keys)[0].get(), KEYS)
    _cuda.copy(values.ptr, (~KEYS).ctypes.data, KEYS.nbytes, 7)
    assert not table.insert_or_assign(keys, values, out=_cuda.DeviceArray((100,), bool, 0)).get().any()
    assert np.array_equal(table.find(keys)[0].get(), ~KEYS)


def test_the_arrays_of_a_library_that_must_not_be_written(table, cuda, monkeypatch):
    fake_libraries.jax(monkeypatch, cuda).config.jax_enable_x64 = True
    kind = fake_libraries.exchange_type("ArrayImpl", "jaxlib")
    keys, out, found = kind(KEYS), kind(np.ones_like(KEYS)), kind(np.ones(100, bool))
    for given in ({"out": out}, {"found": found}, {"out": out, "found": found}):
        with pytest.raises(TypeError, match="JAX array, which cannot be written"):
            table.find(keys, **given)
    assert out.array.all()
    assert found.array.all()


def test_narrow_values_of_whole_keys(backend, cupy):
    values = np.arange(-50, 50, dtype="i1")
    with make(backend, value_dtype="int8") as table:
        table.insert(KEYS, values)
        keys, out = cupy.asarray(KEYS), cupy.asarray(np.zeros(100, "i1"))
        assert np.array_equal(table.find(keys)[0].array, values)
        assert np.array_equal(table.find(keys, out=out)[0].array, values)
        assert fake_libraries.asked  # by the long path: the library writes 4 bytes for each


def test_another_current_device_than_that_of_the_results(table, cuda, monkeypatch):
    """CuPy makes arrays on its current device."""
    cupy = fake_libraries.cupy(monkeypatch)
    monkeypatch.setattr(cupy.ndarray, "current_device", 1)
    keys = cupy.asarray(KEYS)
    table.insert(KEYS, KEYS)
    assert np.array_equal(table.find(keys)[0].array, KEYS)
    assert fake_libraries.asked  # the long path, which makes the table's device current
    out, found = cupy.asarray(KEYS * 0), cupy.asarray(np.zeros(100, bool))
    short(lambda: table.find(keys, out=out, found=found))


def test_find_all(backend, cupy):
    if backend != "slab_hash":
        with make(backend) as table, pytest.raises(gh.Unsupported):
            table.find_all(cupy.asarray(KEYS))
        return
    with make(backend, duplicates=True) as table:
        keys = cupy.asarray(np.array([1, 2, 2, 3, 3, 3], np.uint64))
        table.insert_multi(keys, cupy.asarray(np.arange(6, dtype=np.uint64)))
        offsets, values = table.find_all(cupy.asarray(np.array([3, 9, 2], np.uint64)))
        assert offsets.array.tolist() == [0, 3, 3, 5]
        assert sorted(values.array[:3].tolist()) == [3, 4, 5]
        assert sorted(values.array[3:].tolist()) == [1, 2]
        assert type(values) is cupy.ndarray
        own = _cuda.from_host(np.array([9], np.uint64), 0)
        offsets, values = table.find_all(own)
        assert offsets.get().tolist() == [0, 0]
        assert values.get().shape == (0,)


def test_jax_in_jax_out(backend, cuda, monkeypatch):
    jax = fake_libraries.jax(monkeypatch, cuda)
    small = np.arange(1, 101, dtype="u4")
    keys, more = (fake_libraries.JaxArray(0, 0, a) for a in (small, small + np.uint32(50)))
    with make(backend, key_dtype="uint32", value_dtype="uint32") as table:
        fresh = table.insert(keys, keys)
        assert isinstance(fresh, jax.Array)
        assert fresh.array.all()
        values, found = table.find(more)
        assert isinstance(values, jax.Array)
        assert np.array_equal(found.array, small <= 50)
        assert np.array_equal(values.array, np.where(small <= 50, small + 50, 0))
        assert np.array_equal(table.get(more, 7).array, np.where(small <= 50, small + 50, 7))
        exported, held = table.export(like=keys)
        assert isinstance(exported, jax.Array)
        assert isinstance(held, jax.Array)
        assert set(exported.array.tolist()) == set(small.tolist())
        nothing = fake_libraries.JaxArray(0, 0, small[:0].copy())
        assert table.find(nothing)[0].array.shape == (0,)
        with pytest.raises(TypeError, match="JAX array, which cannot be written: leave it out"):
            table.find(keys, out=more)
        with pytest.raises(TypeError, match="results have dtype int64, which JAX cuts to 32 bits"):
            table.count(keys)
        with pytest.raises(OverflowError, match="element 1 is -5"):
            table.find(fake_libraries.JaxArray(0, 0, np.array([3, -5], "i4")))
        with pytest.raises(KeyError, match="50 of 100 keys are not in the table, the first is 101"):
            table[more]
        jax.config.jax_enable_x64 = True
        assert (table.count(keys).array == 1).all()
    with make(backend, key_dtype="uint16", value_dtype="int8") as table:
        narrow = fake_libraries.JaxArray(0, 0, np.arange(100, dtype="u2"))
        table.insert(narrow, fake_libraries.JaxArray(0, 0, np.arange(100, dtype="i1")))
        assert table.find(narrow)[0].dtype == np.int8
        assert table.find(narrow)[0].array.tolist() == list(range(100))


class Ordered:
    """A table with an order, as far as the calls on addresses go: keys 0, 10, 20, ... with values one higher."""

    key_dtype, _key_store = np.dtype(np.uint16), np.dtype(np.uint32)
    value_dtype = _value_store = np.dtype(np.float64)
    _ordinal, _stream, _kind = 0, None, _core.CUDA

    def _refuse_forked(self):
        pass

    @staticmethod
    def at(address, n, dtype):
        import ctypes

        bytes_ = np.dtype(dtype).itemsize * n
        return np.frombuffer((ctypes.c_char * bytes_).from_address(address), dtype)

    def _neighbors(self, which, n, keys, out_keys, out_values, found, stream):
        up = (self.at(keys, n, "u4") + 9) // 10 * 10
        self.at(out_keys, n, "u4")[:] = up
        self.at(out_values, n, "f8")[:] = up + 1
        self.at(found, n, bool)[:] = up <= 100

    def _range(self, n, low, high, limit, out_keys, out_values, counts, stream):
        for i, (a, b) in enumerate(zip(self.at(low, n, "u4"), self.at(high, n, "u4"), strict=True)):
            keys = np.arange(-(-int(a) // 10) * 10, int(b), 10)[:limit]
            self.at(counts, n, "i8")[i] = len(keys)
            self.at(out_keys, n * limit, "u4").reshape(n, limit)[i, : len(keys)] = keys
            self.at(out_values, n * limit, "f8").reshape(n, limit)[i, : len(keys)] = keys + 1


def test_lower_bound_and_range(cupy):
    from pygpuhash import _device_queries

    keys = cupy.asarray(np.array([[3, 10], [95, 101]], "u2"))
    found_keys, values, found = _device_queries.neighbors(Ordered(), 0, keys, None)
    assert found_keys.array.tolist() == [[10, 10], [100, 110]]
    assert found_keys.dtype == np.uint16
    assert values.array.tolist() == [[11, 11], [101, 111]]
    assert found.array.tolist() == [[True, True], [True, False]]
    low, high = cupy.asarray(np.array([0, 15], "u2")), cupy.asarray(np.array([25, 16], "u2"))
    rows, values, counts = _device_queries.range_of(Ordered(), low, high, 2, None)
    assert rows.array.shape == values.array.shape == (2, 2)
    assert counts.array.tolist() == [2, 0]
    assert rows.array[0].tolist() == [0, 10]
    assert values.array[0].tolist() == [1, 11]
    with pytest.raises(ValueError, match=r"low has shape \(2,\), high \(1,\)"):
        _device_queries.range_of(Ordered(), low, high[:1], 2, None)
    with pytest.raises(gh.InvalidArgument, match="high on the host"):
        _device_queries.range_of(Ordered(), low, np.array([1, 2], "u2"), 2, None)
    with pytest.raises(TypeError, match="uint16 results need CuPy, PyTorch or JAX"):
        _device_queries.neighbors(Ordered(), 0, _cuda.from_host(np.zeros(3, "u4"), 0), None)


HELD = np.arange(0, 3000, 3, dtype=np.uint64)


@pytest.fixture
def ordered(cuda):
    with make("skiplist", chunk=8) as t:
        t.insert(HELD, HELD + 1)
        yield t


def test_the_stream_of_calls_that_ask_a_library(cupy, monkeypatch):
    """It is that of the call, or the table's, or that of the library of the keys, and results are made on it."""
    keys, made = cupy.asarray(KEYS), []
    cupy.empty = lambda shape, dtype: made.append(fake_libraries.Stream.current) or cupy.ndarray(shape, dtype)
    monkeypatch.setattr(fake_libraries.Stream, "current", 5)
    for own, given, used in ((None, None, 5), (8, None, 8), (8, 9, 9)):
        # The CPU has no streams, so that the library says which one it was given.
        with make("skiplist", stream=fake_cuda.stream(own), value_dtype="uint8") as t:
            given = fake_cuda.stream(given)
            with pytest.raises(gh.InvalidArgument, match=f"stream is 0x{used}"):
                t.lower_bound(keys, stream=given)
            assert set(made) == {used}
            made.clear()
            t.find(keys, stream=given)  # the long path
            assert set(made) == {used}
            made.clear()


def test_neighbours_of_keys_on_the_device(ordered, cupy):
    keys = cupy.asarray(np.array([6, 7], np.uint64))
    for find, expected in (
        (ordered.lower_bound, [6, 9]),
        (ordered.floor, [6, 6]),
        (ordered.successor, [9, 9]),
        (ordered.predecessor, [3, 6]),
    ):
        found, values, there = find(keys)
        assert found.array.tolist() == expected
        assert values.array.tolist() == [key + 1 for key in expected]
        assert there.array.all()


def test_outputs_that_a_library_converts_into_are_written_on_the_stream_of_the_call(cupy):
    from pygpuhash import _device_queries

    low, high = (cupy.asarray(np.array([end], "u2")) for end in (0, 25))
    out = cupy.asarray(np.zeros((1, 4), "u2")), cupy.asarray(np.zeros((1, 4), "f8"))
    keys, _, counts = _device_queries.range_of(Ordered(), low, high, 4, fake_cuda.Stream(9), out)
    assert keys.array[0, :3].tolist() == [0, 10, 20]
    assert counts.array.tolist() == [3]
    assert out[0].written_on == 9


def test_times_as_values_of_neighbours(cuda):
    """Their numbers are stored: no library has to convert them."""
    with make("skiplist", value_dtype="M8[s]") as t:
        t.insert(HELD, HELD.astype("M8[s]"))
        keys, values, found = t.lower_bound(_cuda.from_host(np.array([4, 2998], "u8"), 0))
        assert keys.get().tolist() == [6, 0]
        assert values.get().tolist() == [6, 0]
        assert found.get().tolist() == [True, False]


def test_one_wide_value_for_all_keys(cupy):
    with make("stadium", value_dtype=("u4", 3)) as t:
        t.insert(cupy.asarray(KEYS), np.array([1, 2, 3], "u4"))
        assert t.find(cupy.asarray(KEYS))[0].array.tolist() == [[1, 2, 3]] * 100


def ranges_of(held, low, high):
    """(keys, offsets) that ranges of sorted keys have; None: an open end."""
    n = len(low if low is not None else high)
    begin = np.zeros(n, int) if low is None else np.searchsorted(held, low)
    end = np.full(n, len(held)) if high is None else np.searchsorted(held, high)
    parts = [held[a : max(a, b)] for a, b in zip(begin, end, strict=True)]
    return np.concatenate([held[:0], *parts]), np.cumsum([0, *map(len, parts)])


LOW = np.array([0, 5, 2990, 700, 700, 8000, 2**64 - 2], np.uint64)
HIGH = np.array([10, 2**64 - 1, 3000, 700, 600, 9000, 2**64 - 1], np.uint64)


@pytest.mark.parametrize("ends", ["both", "low", "high", "none of them"])
def test_ranges_of_any_length(ordered, cupy, ends):
    low, high = {"both": (LOW, HIGH), "low": (LOW, None), "high": (None, HIGH), "none of them": (LOW[:0], HIGH[:0])}[
        ends
    ]
    expected, offsets = ranges_of(HELD, low, high)
    answer = ordered.range(None if low is None else cupy.asarray(low), None if high is None else cupy.asarray(high))
    keys, values, places = answer
    assert all(type(a) is cupy.ndarray for a in answer)
    assert keys.array.tolist() == expected.tolist()
    assert values.array.tolist() == (expected + 1).tolist()
    assert places.array.tolist() == offsets.tolist()
    assert places.array.dtype == np.int64


class Foreign:
    """An array of a library of which nothing is known but where its memory is."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        a = self.array
        return {"shape": a.shape, "typestr": a.dtype.str, "data": (a.ctypes.data, False), "strides": None, "version": 3}


@pytest.mark.parametrize("ends", ["both", "low", "high", "none of them"])
@pytest.mark.parametrize("side", ["cupy", "DeviceArray", "foreign", "host"])
def test_ranges_go_into_arrays_of_the_caller(ordered, cupy, cuda, monkeypatch, ends, side):
    monkeypatch.setattr(_core, "pointer_device", lambda ptr: (_core.CUDA, 0))
    low, high = {"both": (LOW, HIGH), "low": (LOW, None), "high": (None, HIGH), "none of them": (LOW[:0], HIGH[:0])}[
        ends
    ]
    expected, offsets = ranges_of(HELD, low, high)
    there = cupy.asarray if side != "host" else np.array

    def host(array):
        return array.get() if isinstance(array, gh.DeviceArray) else getattr(array, "array", array)

    def make_room(n):
        array = np.full(n, 77, np.uint64)
        return {
            "cupy": lambda: cupy.asarray(array),
            "DeviceArray": lambda: _cuda.from_host(array, 0),
            "foreign": lambda: Foreign(array),
            "host": lambda: array,
        }[side]()

    asked = [None if end is None else there(end) for end in (low, high)]
    for more in (0, 5):
        out = make_room(len(expected) + more), make_room(len(expected) + 2 * more)
        keys, values, places = ordered.range(*asked, out=out)
        if side in ("cupy", "host"):
            assert type(keys) is type(out[0])
        else:
            assert type(keys) is gh.DeviceArray
        assert host(keys).tolist() == expected.tolist()
        assert host(values).tolist() == (expected + 1).tolist()
        assert host(out[0])[: len(expected)].tolist() == expected.tolist()
        assert host(out[1])[: len(expected)].tolist() == (expected + 1).tolist()
        assert host(places).tolist() == offsets.tolist()
    for short in {0, len(expected) // 2, len(expected) - 1} - {-1, len(expected)}:
        spare = make_room(len(expected) + 1)
        with pytest.raises(gh.InvalidArgument, match=f"{len(expected)} pairs and out has room for {short}"):
            ordered.range(*asked, out=(make_room(short), spare))
        assert (host(spare) == 77).all()


@pytest.mark.parametrize("more", [0, 2])
def test_ranges_with_a_limit_go_into_arrays_of_the_caller(ordered, cupy, more):
    expected = ordered.range(cupy.asarray(LOW), cupy.asarray(HIGH), 5)
    out = [cupy.asarray(np.full((len(LOW) + more, 5), 77, np.uint64)) for _ in range(2)]
    keys, values, counts = ordered.range(cupy.asarray(LOW), cupy.asarray(HIGH), 5, out=tuple(out))
    assert counts.array.tolist() == expected[2].array.tolist()
    for got, right, array in zip((keys, values), expected, out, strict=False):
        assert got.shape == right.shape
        assert np.shares_memory(got.array, array.array)
        for i, n in enumerate(counts.array):
            assert got.array[i, :n].tolist() == right.array[i, :n].tolist()
        assert (array.array[len(LOW) :] == 77).all()


@pytest.mark.parametrize("limit", [None, 4])
def test_narrow_ranges_go_into_arrays_of_the_caller(cuda, cupy, limit):
    """Converted by their library on its way there; other libraries are told that they cannot."""
    with make("skiplist", key_dtype="int16", value_dtype="float16") as t:
        held = np.arange(-50, 50, 5, dtype=np.int16)
        t.insert(held, held)
        low, high = (cupy.asarray(np.array(end, "i2")) for end in ([-12, 40], [0, 44]))
        shape = (9,) if limit is None else (3, limit)
        out = [cupy.asarray(np.full(shape, 77, dtype)) for dtype in ("i2", "f2")]
        expected = t.range(low, high, limit)
        answer = t.range(low, high, limit, out=tuple(out))
        assert answer[2].array.tolist() == expected[2].array.tolist()
        for got, right, array in zip(answer[:2], expected[:2], out, strict=True):
            assert got.array.dtype == right.array.dtype
            assert np.shares_memory(got.array, array.array)
            for i, n in enumerate([2, 1]):
                part = (i, slice(n)) if limit else slice(answer[2].array[i], answer[2].array[i + 1])
                assert got.array[part].tolist() == right.array[part].tolist()
        with pytest.raises(TypeError, match="int16 results need CuPy or PyTorch arrays"):
            t.range(low, high, limit, out=(Foreign(out[0].array), out[1]))


@pytest.mark.parametrize("value", [("u4", 2), ("f4", 1), ("u2", (2, 2))])
def test_ordered_answers_with_rows_as_values(cuda, cupy, value):
    """They are rows of numbers on the device, too, in new arrays and in the caller's."""
    base, inner = np.dtype(value).subdtype
    with make("skiplist", key_dtype="uint32", value_dtype=value) as t:
        held = np.arange(0, 40, 4, dtype="u4")
        rows = np.arange(10 * int(np.prod(inner))).astype(base).reshape(10, *inner)
        t.insert(held, rows)
        keys = cupy.asarray(np.array([3, 9, 40], "u4"))
        _, values, found = t.lower_bound(keys)
        assert values.array.dtype == base
        assert values.array[:2].tolist() == rows[[1, 3]].tolist()
        assert found.array.tolist() == [True, True, False]
        low, high = cupy.asarray(np.array([3, 30], "u4")), cupy.asarray(np.array([12, 40], "u4"))
        for out in (None, (cupy.asarray(np.zeros(8, "u4")), cupy.asarray(np.zeros((8, *inner), base)))):
            _, values, places = t.range(low, high, out=out)
            assert places.array.tolist() == [0, 2, 4]
            assert values.array.tolist() == rows[[1, 2, 8, 9]].tolist()
        _, values, counts = t.range(low, high, 3)
        assert counts.array.tolist() == [2, 2]
        assert values.array[:, :2].tolist() == rows[[[1, 2], [8, 9]]].tolist()


@pytest.mark.parametrize("limit", [None, 3])
def test_ranges_for_the_host_are_written_on_the_device_first(ordered, cuda, limit):
    class Spy(Meanwhile):
        def _range_all(self, n, low, high, offsets, room, *places):
            assert not room or all(map(cuda.pinned, places[:2]))
            return super()._range_all(n, low, high, offsets, room, *places)

        def _range(self, n, low, high, most, *places):
            assert all(map(cuda.pinned, places[:3]))
            self.calls += 1
            return self.table._range(n, low, high, most, *places)

    spy = Spy(ordered)
    low, high = LOW[:4], np.minimum(HIGH[:4], np.uint64(3000))
    expected = ordered.range(low, high, limit)
    out = tuple(np.full((3000,) if limit is None else (4, limit), 77, np.uint64) for _ in range(2))
    answer = _ordered.ranges(spy, low, high, limit, out, None)
    assert spy.calls == 2 if limit is None else 1
    for got, right, array in zip(answer, expected, (*out, None), strict=True):
        assert got.tolist() == right.tolist()
        assert array is None or np.shares_memory(got, array)


@pytest.mark.parametrize("gone", [0, 1, 5])
def test_an_export_has_no_pair_that_was_erased_before_it_was_read(backend, cupy, gone):
    class Spy(Table):
        __slots__ = ("rooms",)

        def _export(self, room, *places):
            if room and room == len(KEYS) and gone:
                self.erase(KEYS[:gone])
            self.rooms.append(room)
            return gh.Table._export(self, room, *places)

    with Spy(backend, device="cpu", value_dtype="uint64")._pretend(_core.CUDA) as table:
        table.rooms = []
        table.insert(KEYS, ~KEYS)
        keys, values = table.export(like=cupy.asarray(KEYS))
        assert sorted(keys.array.tolist()) == KEYS[gone:].tolist()
        assert (values.array == ~keys.array).all()
        assert table.rooms == [0, 100, 100 - gone] if gone else [0, 100]


def test_the_stream_of_an_export(table, cupy, monkeypatch):
    """It is that of the call, or the table's, or that of the library of `like`."""
    like = cupy.asarray(KEYS)
    table.insert(like, like)
    # The CPU has no streams, so that the library says which one it was given.
    with pytest.raises(gh.InvalidArgument, match="stream is 0x9"):
        table.export(like=like, stream=fake_cuda.Stream(9))
    with (
        make(table.backend, stream=fake_cuda.Stream(8)) as other,
        pytest.raises(gh.InvalidArgument, match="stream is 0x8"),
    ):
        other.export(like=like)
    assert len(table.export(like=like)[0]) == 100
    monkeypatch.setattr(fake_libraries.Stream, "current", 5)
    with pytest.raises(gh.InvalidArgument, match="stream is 0x5"):
        table.export(like=like)


def test_an_export_of_what_the_library_would_have_to_convert(cuda, cupy, monkeypatch):
    with make("linear_probe", key_dtype="uint16") as t, pytest.raises(TypeError, match="uint16 is stored as uint32"):
        t.export(like=cupy.asarray(KEYS))
    jax = fake_libraries.jax(monkeypatch, cuda)
    with make("linear_probe") as t, pytest.raises(TypeError, match="results have dtype uint64, which JAX cuts"):
        t.export(like=jax.Array(0, 0, KEYS))


def test_outputs_of_ranges_that_are_refused(ordered, cupy):
    low, high = cupy.asarray(LOW), cupy.asarray(HIGH)
    k, v = (cupy.asarray(np.zeros(3000, np.uint64)) for _ in range(2))
    for out, kind, words in (
        (k, TypeError, "out is a ndarray: pass a tuple of two arrays"),
        ((k, None), TypeError, "out has no array for the values"),
        ((k, v.array), TypeError, r"out\[1\] is a ndarray on the host, the keys are not"),
        ((cupy.asarray(np.zeros(3000, "i8")), v), TypeError, r"out\[0\] has dtype int64, the results uint64"),
        ((k, cupy.asarray(np.zeros((3000, 1), "u8"))), ValueError, r"out\[1\] has shape \(3000, 1\): pass one of"),
    ):
        with pytest.raises(kind, match=words):
            ordered.range(low, high, out=out)
    with pytest.raises(ValueError, match=r"out\[0\] has shape \(6, 2\): pass one of shape \(7, 2\), or of more rows"):
        ordered.range(low, high, 2, out=[cupy.asarray(np.zeros((6, 2), "u8")) for _ in range(2)])


def test_slices_whose_ends_are_on_the_device(ordered, cupy):
    low, high = cupy.asarray(np.array(90, np.uint64)), cupy.asarray(np.array(102, np.uint64))
    assert ordered[low:high][0].array.tolist() == [90, 93, 96, 99]
    assert ordered[:low][0].array.tolist() == list(range(0, 90, 3))
    keys, values = ordered[high:]
    assert keys.array.tolist() == list(range(102, 3000, 3))
    assert values.array.tolist() == list(range(103, 3001, 3))
    with pytest.raises(TypeError, match="different sides"):
        ordered[low:100]
    with pytest.raises(TypeError, match="takes two numbers"):
        ordered[cupy.asarray(LOW) :]


def test_ranges_of_a_set_and_of_narrow_keys(cuda, cupy):
    with make("skiplist", key_dtype="int16", value_dtype=None) as t:
        held = np.arange(-50, 50, 5, dtype=np.int16)
        t.insert(held)
        keys, values, places = t.range(cupy.asarray(np.array([-12, 44], "i2")), None)
    assert values is None
    assert keys.array.dtype == np.int16
    assert keys.array.tolist() == [*range(-10, 50, 5), 45]
    assert places.array.tolist() == [0, 12, 13]


def test_ranges_that_are_refused(ordered, cupy):
    with pytest.raises(ValueError, match=r"low has shape \(7,\), high \(6,\)"):
        ordered.range(cupy.asarray(LOW), cupy.asarray(HIGH[:6]))
    with pytest.raises(ValueError, match=r"low has shape \(6,\), high \(2, 3\)"):
        ordered.range(cupy.asarray(LOW[:6]), cupy.asarray(np.asarray(HIGH[:6]).reshape(2, 3)))
    with pytest.raises(ValueError, match=r"low has shape \(6,\), high \(2, 3\)"):
        ordered.range(cupy.asarray(LOW[:6]), cupy.asarray(np.asarray(HIGH[:6]).reshape(2, 3)), 5)
    with pytest.raises(TypeError, match="different sides"):
        ordered.range(cupy.asarray(LOW), HIGH)
    with gh.Table("skiplist", device="cpu") as t, pytest.raises(gh.InvalidArgument, match="the table is on the CPU"):
        t.range(cupy.asarray(LOW), None)


class Meanwhile:
    """A table to which something happens after each of its calls that look for ranges."""

    def __init__(self, table, *happens):
        self.table, self.happens, self.calls = table, list(happens), 0

    def __getattr__(self, name):
        return getattr(self.table, name)

    def _range_all(self, *arguments):
        self.calls += 1
        failure = self.table._range_all(*arguments)
        if self.happens:
            self.happens.pop(0)()
        return failure


def pairs_of(table, low, high, cupy, ends):
    """Ranges by their ends on the device, or as ends on the host are asked for on a GPU: (keys, values, offsets)."""
    from pygpuhash import _device_queries

    if ends == "device":
        return [a.array for a in _device_queries.pairs(table, cupy.asarray(low), cupy.asarray(high), None)]
    results = _ordered._Pairs(table, None, (0,))
    low_at, high_at = low.ctypes.data, high.ctypes.data
    offsets = _ordered.pairs_at_once(table, len(low), low_at, high_at, table._stage(None), results)
    return None if offsets is None else [*results.got(int(offsets[-1])), offsets]


@pytest.mark.parametrize("ends", ["device", "host"])
@pytest.mark.parametrize("what", ["fewer", "more", "more twice", "none left"])
def test_ranges_of_a_table_that_changes_before_they_are_read(ordered, cupy, what, ends):

    other = HELD[:600] + 1
    happens, calls = {
        "fewer": ([lambda: ordered.erase(HELD[::3])], 2),
        "more": ([lambda: ordered.insert(other, other)], 3),
        "more twice": (
            [lambda: ordered.insert(other[:50], other[:50]), lambda: ordered.insert(other[50:], other[50:])],
            4,
        ),
        "none left": ([ordered.clear], 2),
    }[what]
    spy = Meanwhile(ordered, *happens)
    low, high = np.array([0, 30, 900], np.uint64), np.array([30, 900, 2000], np.uint64)
    keys, values, places = pairs_of(spy, low, high, cupy, ends)
    expected, offsets = ranges_of(np.sort(ordered.keys()), low, high)
    assert spy.calls == calls
    assert keys.tolist() == expected.tolist()
    assert values.tolist() == np.where(expected % 3 == 0, expected + 1, expected).tolist()
    assert places.tolist() == offsets.tolist()


def test_ranges_for_which_there_is_room_are_read_once(ordered, cupy):
    from pygpuhash import _device_queries

    spy, out = Meanwhile(ordered), tuple(cupy.asarray(np.zeros(3000, np.uint64)) for _ in range(2))
    keys, _, _ = _device_queries.pairs(spy, cupy.asarray(LOW), cupy.asarray(HIGH), None, out)
    assert keys.array.tolist() == ranges_of(HELD, LOW, HIGH)[0].tolist()
    assert spy.calls == 1


@pytest.mark.parametrize("refused", [gh.InvalidArgument("no"), gh.DeviceError("no")])
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("ends", ["device", "host"])
def test_ranges_that_fail(ordered, cupy, refused, call, ends):
    """A refusal that more room does not cure ends the call, whichever pass it comes from."""

    class Fails(Meanwhile):
        def _range_all(self, *arguments):
            failure = super()._range_all(*arguments)
            return refused if self.calls >= call else failure

    with pytest.raises(type(refused), match="no"):
        pairs_of(Fails(ordered), np.asarray(LOW), np.asarray(HIGH), cupy, ends)


def test_ranges_at_once_that_a_backend_does_not_have(ordered, cupy):
    class Old(Meanwhile):
        def _range_all(self, *arguments):
            return gh.Unsupported("no")

    assert pairs_of(Old(ordered), np.asarray(LOW), np.asarray(HIGH), cupy, "host") is None


def test_no_mask(library, backend):
    """Neither the short path nor the long one has statuses written, and a full table is told of without."""
    told = []

    class Spy(Table):
        __slots__ = ()

        def _raw(self, *args, out_status=0, **rest):
            told.append(out_status)
            return super()._raw(*args, out_status=out_status, **rest)

    keys = library(KEYS)
    with Spy(backend, device="cpu", value_dtype="uint64", capacity=1000, grow=False) as table:
        table._pretend(_core.CUDA)
        assert short(lambda: table.insert(keys, keys, out=False)) is None
        values, mask = short(lambda: table.find(keys, found=False))
        assert mask is None
        assert np.array_equal(values.array, KEYS)
        assert table.accumulate(keys, keys, out=False, stream=fake_cuda.Stream(9)) is None
        values, mask = table.find(keys, found=False, stream=fake_cuda.Stream(9))
        assert mask is None
        assert told == [0, 0]
        assert np.array_equal(values.array, KEYS * 2)
        many = library(np.arange(20_000, dtype=KEYS.dtype))
        for stream in (None, fake_cuda.Stream(9)):
            with pytest.raises(gh.TableFull) as caught:
                table.insert(many, many, out=False, stream=stream)
            assert caught.value.status is None
        assert table.erase(keys, out=False) is None
        assert not table.contains(keys).array.any()
