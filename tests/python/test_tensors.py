"""Columns and tensors of other libraries: PyTorch, JAX, pandas, polars, pyarrow, and anything with DLPack."""

import ctypes
import sys
import types

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import Op, _core, _tensors


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="JAX is not installed")


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


def test_torch_tensors_in_and_out(backend, torch):
    with gh.Table(backend, key_dtype=torch.int64, value_dtype=torch.float32, device="cpu") as table:
        keys = torch.arange(10).reshape(2, 5)
        fresh = table.insert(keys, keys.to(torch.float32) / 4)
        assert isinstance(fresh, torch.Tensor)
        assert fresh.dtype == torch.bool
        assert fresh.all()
        values, found = table.find(keys[:, ::2])
        assert torch.equal(values, keys[:, ::2] / 4)
        assert found.shape == (2, 3)
        assert torch.equal(table[keys], keys / 4)
        assert torch.equal(table.get(torch.tensor([3, 99]), default=7.0), torch.tensor([0.75, 7.0]))
        assert torch.equal(table.count(keys), torch.ones(2, 5, dtype=torch.int64))
        assert keys[0][table.contains(keys[0])].tolist() == [0, 1, 2, 3, 4]
        assert torch.tensor(3) in table
        assert torch.tensor(30) not in table
        table[keys[0]] = 1.0
        assert isinstance(table.insert_or_assign(keys[1], 2.0, dedup="last"), torch.Tensor)
        assert isinstance(table.erase(keys[0, :1]), torch.Tensor)
        codes = torch.full((5,), int(Op.FIND), dtype=torch.uint8)
        values, mask = table.execute(codes, keys[1])
        assert torch.equal(values, torch.full((5,), 2.0))
        assert mask.all()
        exported, values = table.export(like=keys)
        assert sorted(exported.tolist()) == list(range(1, 10))
        assert values.dtype == torch.float32
        assert table.find(torch.tensor(7))[0].shape == ()
        with pytest.raises(KeyError, match="1 of 2 keys are not in the table, the first is 77"):
            table[torch.tensor([7, 77])]


def test_torch_outputs(torch):
    keys = torch.arange(6)
    with gh.Table(device="cpu") as table:
        mask = torch.zeros(6, dtype=torch.bool)
        assert table.insert(keys, keys * 2, out=mask) is mask
        assert mask.all()
        out, found = torch.empty(6, dtype=torch.int64), torch.zeros(6, dtype=torch.bool)
        got = table.find(keys, out=out, found=found)
        assert got[0] is out
        assert got[1] is found
        assert torch.equal(out, keys * 2)
        assert found.all()
        numpy_out = np.zeros(6, np.int64)
        assert table.find(keys, out=numpy_out)[0] is numpy_out
        assert numpy_out.tolist() == (keys * 2).tolist()
        out.zero_()
        values, found = table.find(keys.numpy(), out=out)
        assert values is out
        assert isinstance(found, np.ndarray)
        assert torch.equal(out, keys * 2)
        with pytest.raises(TypeError, match="out has dtype float32, the results int64"):
            table.find(keys, out=torch.empty(6))
        with pytest.raises(ValueError, match="out is strided"):
            table.find(keys, out=torch.empty(12, dtype=torch.int64)[::2])
        with pytest.raises(gh.InvalidArgument, match="out overlaps keys"):
            table.find(keys, out=keys)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda t: t.ones(3, dtype=t.bfloat16), "keys has dtype torch.bfloat16.*keys.to"),
        (lambda t: t.ones(3, requires_grad=True), r"keys requires a gradient.*keys.detach\(\)"),
        (lambda t: t.ones(3, device="meta"), r"keys is on device 'meta'.*keys.cpu\(\)"),
        (lambda t: t.eye(3).to_sparse(), "keys has dtype torch.float32, layout torch.sparse_coo"),
    ],
)
def test_torch_tensors_that_are_refused(torch, make, words):
    with gh.Table(key_dtype="float32", device="cpu") as table:
        with pytest.raises(TypeError, match=words):
            table.find(make(torch))
        with pytest.raises(TypeError, match=words.replace("keys", "values")):
            gh.Table(value_dtype="float32", device="cpu").insert([1, 2, 3], make(torch))
    with pytest.raises(TypeError, match=r"key_dtype=(torch.bfloat16 is not a dtype|bfloat16 is a type of ml_dtypes)"):
        gh.Table(key_dtype=torch.bfloat16, device="cpu")


def test_numbers_that_numpy_alone_does_not_have():
    types = pytest.importorskip("ml_dtypes")
    for dtype in (types.bfloat16, types.float8_e4m3fn, types.int4):
        with pytest.raises(TypeError, match=f"value_dtype={dtype.__name__} is a type of ml_dtypes.*pass a wider one"):
            gh.Table(value_dtype=dtype, device="cpu")
    with pytest.raises(TypeError, match=r"values have dtype bfloat16.*pass values.astype\('float32'\)"):
        gh.Table(value_dtype="float32", device="cpu").insert([1, 2, 3, 4], np.arange(4).astype(types.bfloat16))


# ---- JAX -------------------------------------------------------------------------------------------------------------


def test_jax_arrays_in_and_out(backend, jax):
    with gh.Table(backend, key_dtype=jax.numpy.int32, value_dtype="float32", device="cpu") as table:
        keys = jax.numpy.arange(10, dtype="int32")
        fresh = table.insert(keys, keys / 4)
        assert isinstance(fresh, jax.Array)
        assert fresh.all()
        values, found = table.find(keys)
        assert isinstance(values, jax.Array)
        assert (values == keys / 4).all()
        assert found.all()
        assert table.get(jax.numpy.array([3, 99]), default=7.0).tolist() == [0.75, 7.0]
        assert table[keys].tolist() == values.tolist()
        with pytest.raises(TypeError, match="out is a JAX array, which cannot be written: leave it out"):
            table.find(keys, out=values)
        with pytest.raises(TypeError, match="outside of jit"):
            jax.jit(table.contains)(keys)


def test_jax_would_cut_what_has_8_bytes(jax):
    assert not jax.config.jax_enable_x64
    keys = jax.numpy.arange(3, dtype="int32")
    with gh.Table(device="cpu") as table:
        assert table.insert(keys, 1).all()
        with pytest.raises(TypeError, match=r"dtype int64, which JAX cuts to 32 bits.*jax_enable_x64"):
            table.find(keys)
        with pytest.raises(TypeError, match="bfloat16"):
            table.contains(keys.astype("bfloat16"))
        with jax.enable_x64(True):
            assert table.find(keys)[0].dtype == np.int64


# ---- data frames -----------------------------------------------------------------------------------------------------


def columns():
    """(library, an integer column, one with a missing element, one of floats) of each library that is installed."""
    try:
        import pandas

        yield "pandas", pandas.Series([1, 2, 3]), pandas.Series([1, None, 3], dtype="Int64")
        yield "pandas index", pandas.Index([1, 2, 3]), pandas.array([1, None, 3], dtype="Int64")
    except ImportError:
        pass
    try:
        import polars

        yield "polars", polars.Series([1, 2, 3]), polars.Series([1, None, 3])
    except ImportError:
        pass
    try:
        import pyarrow

        yield "pyarrow", pyarrow.array([1, 2, 3]), pyarrow.array([1, None, 3])
        yield "pyarrow chunks", pyarrow.chunked_array([[1], [2, 3]]), pyarrow.chunked_array([[1], [None, 3]])
    except ImportError:
        pass


@pytest.mark.parametrize(("column", "gaps"), [pytest.param(c, g, id=name) for name, c, g in columns()])
def test_columns(column, gaps):
    with gh.Table(device="cpu") as table:
        assert table.insert(column, column).all()
        assert table[column].tolist() == [1, 2, 3]
        assert isinstance(table.find(column)[0], np.ndarray)
        for call in (lambda: table.find(gaps), lambda: table.insert([7, 8, 9], gaps)):
            with pytest.raises(TypeError, match=r"(keys|values) has missing elements \(1.*drop") as e:
                call()
            assert "astype" not in str(e.value)
        assert len(table) == 3


def test_a_column_of_floats_with_gaps():
    pandas = pytest.importorskip("pandas")
    with (
        gh.Table(device="cpu") as table,
        pytest.raises(TypeError, match=r"element 1 is nan\. If NaN stands for a missing element"),
    ):
        table.find(pandas.Series([1, None, 3]))


# ---- anything else ---------------------------------------------------------------------------------------------------


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)


class OnlyArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("kind", [OnlyDlpack, OnlyArray, memoryview])
def test_arrays_by_protocol(kind):
    with gh.Table(device="cpu") as table:
        keys = np.arange(5)
        assert table.insert(kind(keys), kind(keys * 2)).all()
        values, found = table.find(kind(keys))
        assert values.tolist() == (keys * 2).tolist()
        assert isinstance(values, np.ndarray)
        assert found.all()


class StandIn:
    """As much of a PyTorch tensor as the package asks for."""

    requires_grad = False
    layout = "strided"
    device = types.SimpleNamespace(type="cpu")

    def __init__(self, array):
        self.array, self.dtype, self.ndim = array, array.dtype, array.ndim

    def numpy(self):
        return self.array

    def all(self):
        return self.array.all()

    def __dlpack_device__(self):
        return 1, 0


def test_the_rules_for_tensors_without_pytorch(monkeypatch):
    """Tensors in, tensors out, where PyTorch is not installed, too."""
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=StandIn, from_numpy=StandIn))
    keys, out, found = StandIn(np.arange(4)), StandIn(np.zeros(4, np.int64)), StandIn(np.zeros(4, bool))
    assert _tensors.array_library(keys) == "torch"
    with gh.Table(device="cpu") as table:
        assert isinstance(table.insert(keys, keys), StandIn)
        values, mask = table.find(keys)
        assert values.array.tolist() == [0, 1, 2, 3]
        assert mask.array.all()
        assert table.find(keys, out=out, found=found) == (out, found)
        assert out.array.tolist() == [0, 1, 2, 3]
        assert found.array.all()
        assert isinstance(table[keys], StandIn)
        assert table.get(StandIn(np.array([2, 9])), default=5).array.tolist() == [2, 5]
        assert table.export(like=keys)[0].array.size == 4
        graded = StandIn(np.arange(4))
        graded.requires_grad = True
        with pytest.raises(TypeError, match=r"keys requires a gradient.*keys.detach\(\)"):
            table.find(graded)
        elsewhere = StandIn(np.arange(4))
        elsewhere.device = types.SimpleNamespace(type="mps")
        with pytest.raises(TypeError, match=r"keys is on device .*, which a table cannot use: pass keys.cpu\(\)"):
            table.find(elsewhere)
        for error in (TypeError, RuntimeError):
            odd = StandIn(np.arange(4))
            odd.numpy = lambda error=error: (_ for _ in ()).throw(error("no"))
            with pytest.raises(TypeError, match="keys has dtype int64, layout strided, which numpy and the table do"):
                table.find(odd)
    with gh.Table(device="cpu", value_dtype="M8[s]") as table:  # which PyTorch does not have
        table.insert(keys, np.arange(4).astype("M8[s]"))
        values, mask = table.find(keys)
        assert values.tolist() == np.arange(4).astype("M8[s]").tolist()
        assert isinstance(mask, StandIn)


def test_dtypes_of_pytorch(monkeypatch):
    dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda self: "torch.float32"})()
    with gh.Table(key_dtype=dtype, device="cpu") as table:
        assert table.key_dtype == np.float32
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))  # not there yet, or another one
    assert _tensors.array_library(np.arange(3)) is None


class JaxStandIn:
    """As much of a JAX array as the package asks for."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_the_rules_for_jax_without_it(monkeypatch):
    """JAX arrays in, JAX arrays out; what it would cut to 4 bytes is refused before anything is done."""
    jax = types.SimpleNamespace(
        Array=JaxStandIn,
        core=types.SimpleNamespace(Tracer=()),
        config=types.SimpleNamespace(jax_enable_x64=False),
        numpy=types.SimpleNamespace(asarray=JaxStandIn),
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    keys = JaxStandIn(np.arange(4, dtype="u4"))
    with gh.Table(key_dtype="u4", value_dtype="f4", device="cpu") as table:
        assert table.insert(keys, np.ones(4, "f4")).array.all()
        assert table.find(keys)[0].array.tolist() == [1.0] * 4
        with pytest.raises(TypeError, match="results have dtype int64, which JAX cuts"):
            table.count(keys)
        with pytest.raises(TypeError, match="out is a JAX array, which cannot be written: leave it out"):
            table.find(keys, out=JaxStandIn(np.ones(4, "f4")))
    with gh.Table(key_dtype="u4", value_dtype="i8", device="cpu") as table:
        table.insert(keys, 5)
        for call in (table.find, table.get, lambda keys: table.export(like=keys)):
            with pytest.raises(TypeError, match="results have dtype int64, which JAX cuts"):
                call(keys)
        jax.config.jax_enable_x64 = True
        assert table.get(keys).array.tolist() == [5] * 4
        jax.core.Tracer = JaxStandIn
        with pytest.raises(TypeError, match="keys is traced by a JAX transformation"):
            table.find(keys)


def test_ordered_answers_are_of_the_library_that_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=StandIn, from_numpy=StandIn))
    ask = [StandIn(np.array([4, 11])), StandIn(np.array([9, 50]))]
    with gh.Table("skiplist", key_dtype="i8", value_dtype="f4", device="cpu") as table:
        table.insert(np.arange(0, 20, 2), np.arange(10))
        answers = [
            table.lower_bound(ask[0]),
            table.predecessor(ask[0]),
            table.range(*ask),
            table.range(*ask, limit=2),
            table.range(None, ask[1], limit=2),
            table.range(ask[0], None),
        ]
        assert all(isinstance(part, StandIn) for answer in answers for part in answer)
        assert [a[0].array.reshape(-1).tolist() for a in answers] == [
            [4, 12],
            [2, 10],
            [4, 6, 8, 12, 14, 16, 18],
            [4, 6, 12, 14],
            [0, 2, 0, 2],
            [4, 6, 8, 10, 12, 14, 16, 18, 12, 14, 16, 18],
        ]
        assert [a[2].array.tolist() for a in answers[:4]] == [[True, True], [True, True], [0, 3, 7], [2, 2]]
        assert isinstance(table.range(np.array([4]), np.array([9]))[0], np.ndarray)


def test_a_tensor_that_begins_behind_its_address():
    """DLPack's byte_offset, which some libraries use for slices."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    array = np.arange(8, dtype="u4")
    for offset in (0, 8):
        capsule = array.__dlpack__()
        # of a DLTensor: data 8 bytes, device 8, ndim 4, dtype 4, shape 8, strides 8, and then it
        ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + 40).value = offset
        address, shape, *_ = _core.dlpack_read(capsule)
        assert address == array.ctypes.data + offset
        assert shape == (8,)


def test_elements_of_several_lanes():
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = np.arange(8, dtype="u4").__dlpack__()
    ctypes.c_uint16.from_address(pointer(capsule, b"dltensor") + 22).value = 4  # behind ndim, code and bits
    with pytest.raises(TypeError, match="DLPack elements of 4 lanes are not supported"):
        _core.dlpack_read(capsule)
