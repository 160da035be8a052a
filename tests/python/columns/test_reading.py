"""Who gave a column; tuples of columns; what is no column."""

from __future__ import annotations

import array

import numpy as np
import pytest
from oracle import chunks, engine_keys, pa, values

from pygpuhash.columns import read


def back(given):
    column = read(given, "keys")
    return column.give(engine_keys(column))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({1, 2}, r"keys is a set, which has no order: pass list\(keys\)"),
        (frozenset(), "frozenset, which has no order"),
        ({1: 2}, "dict, which has no order"),
        ({}.keys(), r"dict_keys, not a column: pass list\(keys\)"),
        (iter([1]), r"list_iterator, not a column: pass list\(keys\)"),
        ((x for x in [1]), "generator, not a column"),
        ("abc", r"keys is a str, not a column: pass \[keys\]"),
        (b"abc", "bytes, not a column"),
        (5, "int, not a column"),
        (None, "NoneType, not a column"),
        (np.float64(5), "float64, not a column"),
        (object(), "object, not a column: pass an array, a list or a Series"),
        (memoryview(b"abc")[0], "int, not a column"),
    ],
)
def test_what_is_no_column_is_refused(given, words):
    with pytest.raises(TypeError, match=words):
        read(given, "keys")


def test_buffers_are_columns():
    assert values(read(array.array("h", [1, -2]), "keys")) == [1, -2]
    assert values(read(memoryview(b"ab"), "keys")) == [97, 98]
    assert values(read(bytearray(b"ab"), "keys")) == [97, 98]


def test_objects_that_numpy_reads_are_columns():
    class HasArray:
        def __array__(self, dtype=None, copy=None):
            return np.array(["a", "b"])

    class HasDlpack:
        def __dlpack__(self, **arguments):
            return np.arange(3).__dlpack__(**arguments)

        def __dlpack_device__(self):
            return (1, 0)

    assert values(read(HasArray(), "keys")) == ["a", "b"]
    assert values(read(HasDlpack(), "keys")) == [0, 1, 2]


def test_a_tuple_of_columns_is_one_column():
    given = ([1, 1, 1], np.array(["a", "b", "a"]), pa.chunked_array([[None], [True, None]], pa.bool_()))
    assert values(read(given, "keys")) == [(1, "a", None), (1, "b", True), (1, "a", None)]
    first, second, third = back(given)
    assert first.tolist() == [1, 1]
    assert second.dtype == "U1"
    assert third.to_pylist() == [None, True]


def test_chunks_of_a_tuple_are_cut_alike():
    numbers = pa.chunked_array([[0, 1], [2], [3, 4, 5, 6]])
    given = (numbers, pa.chunked_array([[7, 8, 9], [10], [11, 12, 13]]), list("abcdefg"))
    column = read(given, "keys")
    assert [len(chunk) for chunk in chunks(column)] == [2, 1, 1, 3]
    assert values(column) == list(zip(range(7), range(7, 14), "abcdefg", strict=True))


def test_tuples_within_tuples_and_of_several_dimensions():
    given = (([1, 2], ["a", "b"]), [0.5, 0.5])
    assert values(read(given, "keys")) == [((1, "a"), 0.5), ((2, "b"), 0.5)]
    assert back(given)[0][1].tolist() == ["a", "b"]
    two = (np.zeros((2, 3)), np.arange(6).reshape(2, 3))
    assert read(two, "keys").shape == (2, 3)
    assert read(two, "keys").give_numbers(np.arange(6), True).shape == (2, 3)
    assert back(two)[1].tolist() == list(range(6))


def test_a_tuple_of_elements_is_a_list():
    assert values(read((1, 2), "keys")) == [1, 2]
    assert values(read(("a", "bc"), "keys")) == ["a", "bc"]
    assert values(read((), "keys")) == []
    assert values(read(([], []), "keys")) == []


def test_columns_of_two_lengths_are_refused():
    with pytest.raises(ValueError, match=r"keys\[1\] has shape \(3,\), keys\[0\] \(2,\): pass columns of one length"):
        read(([1, 2], [1, 2, 3]), "keys")
    with pytest.raises(TypeError, match=r"keys\[1\]\[0\] is of kind int, keys\[1\]\[1\] of kind str"):
        read(([1, 2], [1, "a"]), "keys")


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_tensors_come_back_as_tensors(library):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    arrays = module if library == "torch" else module.numpy
    make = module.tensor if library == "torch" else arrays.asarray
    for given in (make([[3, 1], [3, 3]]), make([True, False]), make([0.5, 0.5])):
        column = read(given, "keys")
        keys = column.give(engine_keys(column))
        assert type(keys) is type(given)
        assert keys.dtype == given.dtype
        assert column.shape == tuple(given.shape)
        mask = column.give_numbers(np.zeros(column.length, bool), True)
        assert type(mask) is type(given)
        assert tuple(mask.shape) == tuple(given.shape)
    assert values(read(make([[3, 1], [3, 3]]), "keys")) == [3, 1, 3, 3]
    with pytest.raises(TypeError, match="bfloat16"):
        read(arrays.zeros(2, dtype=arrays.bfloat16), "keys")
