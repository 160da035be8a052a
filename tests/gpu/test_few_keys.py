"""Verbs on long columns on a GPU: of few keys, of keys that only seem to be few, and of rows for many bins."""

from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core

cupy = pytest.importorskip("cupy", reason="needs CuPy for arrays on the device")
pytestmark = pytest.mark.gpu
N = (1 << 21) + 12345  # rows from which on few keys are looked for, and a last piece that ends before the others


def few(rng: np.random.Generator, keys: int) -> Any:
    return rng.integers(0, keys, N)


def rare(rng: np.random.Generator) -> Any:
    """1,000 keys, and others that are each met once."""
    column = few(rng, 1000)
    column[::500] = 10_000 + np.arange(len(column[::500]))
    return column


def at_first(rng: np.random.Generator) -> Any:
    """1,000 keys, and many in the last rows."""
    column = few(rng, 1000)
    column[-9000:] = 10_000 + np.arange(9000)
    return column


COLUMNS = {
    "one key": lambda rng: few(rng, 1),
    "16 keys": lambda rng: few(rng, 16),
    "sorted": lambda rng: np.sort(few(rng, 300)),
    "1,000 keys": lambda rng: few(rng, 1000),
    "1,700 keys": lambda rng: few(rng, 1700),
    "2,300 keys": lambda rng: few(rng, 2300),
    "rare": rare,
    "at first": at_first,
}


def column(name: str, dtype: str) -> Any:
    """A column of such numbers, as keys all over the range of the dtype."""
    numbers = COLUMNS[name](np.random.default_rng(len(name)))
    bits = np.dtype(dtype).itemsize * 8
    odd = 0x9E3779B1 if bits == 32 else 0x9E3779B97F4A7C15
    return (numbers.astype(f"u{bits // 8}") * np.array(odd, f"u{bits // 8}") - np.array(1, f"u{bits // 8}")).view(dtype)


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
@pytest.mark.parametrize("name", COLUMNS)
def test_groups(name: str, dtype: str) -> None:
    host = column(name, dtype)
    keys = cupy.asarray(host)
    wanted, first, inverse, counts = np.unique(host, return_index=True, return_inverse=True, return_counts=True)

    assert (cupy.sort(gh.unique(keys)).get() == wanted).all()
    distinct, many = gh.value_counts(keys)
    order = cupy.argsort(distinct)
    assert (distinct[order].get() == wanted).all()
    assert (many[order].get() == counts).all()

    codes, distinct = gh.factorize(keys, order="any")
    assert len(distinct) == len(wanted)
    assert (distinct[codes].get() == host).all()
    codes, distinct = gh.factorize(keys)
    appear = np.argsort(first)
    assert (distinct.get() == wanted[appear]).all()
    assert (codes.get() == np.argsort(appear)[inverse]).all()


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("values", ["int64", "float32"])
def test_aggregates(name: str, dtype: str, values: str) -> None:
    host = column(name, dtype)
    amounts = np.random.default_rng(1).integers(-1000, 1000, N).astype(values)
    wanted, inverse, counts = np.unique(host, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, amounts.astype("f8")).astype("i8")  # exact: these are whole numbers
    lowest = np.full(len(wanted), 1000, values)
    np.minimum.at(lowest, inverse, amounts)

    distinct, (all_of, least, many) = gh.group_reduce(
        cupy.asarray(host), cupy.asarray(amounts), ["sum", "min", "count"]
    )
    order = cupy.argsort(distinct)
    assert (distinct[order].get() == wanted).all()
    assert (all_of[order].get() == sums).all()
    assert (least[order].get() == lowest).all()
    assert (many[order].get() == counts).all()


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("name", ["one key", "1,700 keys", "rare"])
def test_codes_that_are_not_aligned_to_two(name: str, dtype: str) -> None:
    """Two codes are written at a time where they may be; and keys may begin anywhere, too."""
    host = column(name, dtype)[1:]
    room = cupy.empty(N, dtype)
    keys, codes, distinct = room[1:], cupy.empty(N, "int64")[1:], cupy.empty(N, dtype)
    keys[:] = cupy.asarray(host)
    n = len(host)
    call = _core.Grouping(0, cupy.cuda.get_current_stream().ptr, 99, (n,), host.dtype, False, codes=True)
    nbytes = call.temporaries()
    scratch = cupy.empty(nbytes + 8, "u1")
    at = scratch.data.ptr
    call.place(keys.data.ptr, [distinct.data.ptr], codes.data.ptr, at, nbytes, at + nbytes)
    _core.group(call)
    assert call.found == len(np.unique(host))
    assert (distinct[codes].get() == host).all()


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_short_columns_of_few_and_of_many_keys_in_turn(library: str) -> None:
    """Results are copied while kernels run where few groups are expected, which may be wrong."""
    rng = np.random.default_rng(5)
    torch = pytest.importorskip("torch") if library == "torch" else None
    n = 1 << 18
    for keys in (3, 1000, n, 2000, 2100, n // 8, 1, 2048, 2049, 5):
        host = rng.integers(0, keys, n).astype(np.int32)
        given = cupy.asarray(host) if torch is None else torch.from_numpy(host).cuda()
        wanted, counts = np.unique(host, return_counts=True)
        distinct, many = gh.value_counts(given)
        at = cupy.argsort(cupy.asarray(distinct))
        assert (cupy.asarray(distinct)[at].get() == wanted).all()
        assert (cupy.asarray(many)[at].get() == counts).all()
        distinct, sums = gh.group_reduce(given, given, "sum")
        at = cupy.argsort(cupy.asarray(distinct))
        assert (cupy.asarray(sums)[at].get() == wanted.astype(np.int64) * counts).all()
        codes, distinct = gh.factorize(given)
        assert (cupy.asarray(distinct)[cupy.asarray(codes)].get() == host).all()


def test_what_is_raised_while_kernels_run() -> None:
    keys, distinct = cupy.zeros(1000, "int32"), cupy.empty(1000, "int32")

    def call(waits: bool) -> _core.Grouping:
        one = _core.Grouping(0, cupy.cuda.get_current_stream().ptr, 9, (1000,), np.dtype("i4"), False, waits=waits)
        nbytes = one.temporaries()
        kept.append(cupy.empty(nbytes + 8, "u1"))
        at = kept[-1].data.ptr
        one.place(keys.data.ptr, [distinct.data.ptr], 0, at, nbytes, at + nbytes)
        return one

    kept: list[cupy.ndarray] = []

    def meanwhile() -> None:
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        _core.group(call(True), meanwhile)
    again = call(True)
    _core.group(again)
    assert again.found == 1
    with pytest.raises(gh.InvalidArgument, match="meanwhile is given, and the call does not wait"):
        _core.group(call(False), meanwhile)


# Rows whose bins are counted by halves of words, and such whose bins are counted in two goes.
@pytest.mark.parametrize("rows", [(1 << 25) + 12345, (1 << 27) + 7])
@pytest.mark.parametrize("shape", ["at random", "half of one key", "sorted"])
def test_many_bins(rows: int, shape: str) -> None:
    keys = cupy.random.randint(0, rows // 2, rows, dtype="i4")
    if shape == "half of one key":
        keys[::2] = 7
    if shape == "sorted":
        keys.sort()
    wanted = cupy.bincount(keys, minlength=rows // 2)
    found, counts = gh.value_counts(keys)
    assert len(found) == int((wanted > 0).sum())
    assert (wanted[found] == counts).all()
    codes, distinct = gh.factorize(keys, order="any")
    assert len(distinct) == len(found)
    assert (distinct[codes] == keys).all()
