"""Objects with Arrow's capsules: pyarrow, nanoarrow, and others."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
from oracle import Given, chunks, engine_keys, kind, pa, values

from pygpuhash.columns import View, read


def back(given):
    column = read(given, "keys")
    return column.give(engine_keys(column))


def test_chunks_stay_chunks_and_memory_is_shared():
    given = pa.chunked_array([["a", "b"], [], ["c"]])
    column = read(given, "keys")
    got = chunks(column)
    assert [len(chunk) for chunk in got] == [2, 1]
    assert got[0].buffers()[2].address == given.chunk(0).buffers()[2].address


@pytest.mark.parametrize(
    "type", ["decimal128(10, 2)", "time32[s]", "date64", "binary(3)", "dictionary", "struct", "text"]
)
def test_keys_have_the_type_of_the_column(type):
    given = {
        "decimal128(10, 2)": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(10, 2)),
        "time32[s]": pa.array([1, 2, 1], pa.time32("s")),
        "date64": pa.array([86400000, None], pa.date64()),
        "binary(3)": pa.array([b"ab\0", b"ab\x01", b"ab\0"], pa.binary(3)),
        "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "struct": pa.array([{"a": "x", "b": {"c": b"y"}}, None, {"a": None, "b": None}]),
        "text": pa.array(["a", None, "a"]),
    }[type]
    got = back(given)
    assert got.type == given.type
    assert isinstance(got, pa.Array)
    assert got.to_pylist() == list({repr(x): x for x in given.to_pylist()}.values())
    assert back(pa.chunked_array([given, given])).equals(got)


def test_tables_and_batches_are_rows():
    table = pa.table(
        {"a": [2**53, 2**53 + 1, 2**53], "b": [0.5, 1.0, 0.5], "c": pa.array(["x", None, "x"]).dictionary_encode()}
    )
    assert values(read(table, "keys")) == [(2**53, 0.5, "x"), (2**53 + 1, 1.0, None), (2**53, 0.5, "x")]
    assert back(table).equals(table.slice(0, 2))
    batch = table.to_batches()[0]
    assert isinstance(back(batch), pa.RecordBatch)
    assert back(batch).schema == batch.schema
    repeated = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert values(read(repeated, "keys")) == [(1, 2)]
    assert back(repeated).column_names == ["a", "a"]


def test_extensions_are_their_storage():
    given = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"b" * 16, b"a" * 16], pa.binary(16)))
    assert values(read(given, "keys")) == [b"a" * 16, b"b" * 16, b"a" * 16]
    assert back(given).type == pa.uuid()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pa.array([[1]]), "keys is a column of list, .*pass a struct"),
        (pa.array([[1]], pa.large_list(pa.int8())), "of list,"),
        (pa.array([[1]], pa.list_view(pa.int8())), "of list,"),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), "of list of fixed size,"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), "of map,"),
        (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]), "of union,"),
        (pa.RunEndEncodedArray.from_arrays([2], ["a"]), "of run-end encoded,"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "of interval,"),
        (pa.array([decimal.Decimal(1)], pa.decimal256(40, 0)), "cast it to decimal128"),
        (pa.array([{"a": {"b": [1]}}]), r"keys\.a\.b is a column of list"),
        (pa.array([{}], pa.struct([])), "struct without fields"),
        (pa.table({"a": [1], "b": [[1]]}), r"keys\.b is a column of list"),
    ],
)
def test_types_without_an_equality_are_refused_by_name(given, words):
    with pytest.raises(TypeError, match=words):
        read(given, "keys")


def test_another_library_gets_views():
    column = read(Given(*pa.array([1, 2]).__arrow_c_array__()), "keys")
    keys = column.give(engine_keys(column))
    assert pa.array(View(keys)).to_pylist() == [1, 2]
    assert column.give_numbers(np.array([1]), False).tolist() == [1]


def test_a_stream_that_fails_says_why():
    def batches():
        yield pa.record_batch({"a": [1]})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(ValueError, match=r"keys: its library failed to give the column: .*the disk is gone"):
        read(reader, "keys")


def test_a_stream_is_read_once():
    class Once:
        capsule = pa.chunked_array([[1]]).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    assert values(read(Once(), "keys")) == [1]
    with pytest.raises(ValueError, match="keys: the stream was read before"):
        read(Once(), "keys")


def test_numbers_are_arrays_of_the_library():
    numbers = read(pa.array(["a"]), "keys").give_numbers(np.array([True]), True)
    assert numbers.equals(pa.array([True]))
    nanoarrow = pytest.importorskip("nanoarrow", reason="nanoarrow is not installed")
    column = read(nanoarrow.Array(["a"], nanoarrow.string()), "keys")
    for given in (np.array([True, False]), np.array([1, 2]), np.array([0.5])):
        assert column.give_numbers(given, True).to_pylist() == given.tolist()


def test_several_chunks_of_nanoarrow():
    nanoarrow = pytest.importorskip("nanoarrow", reason="nanoarrow is not installed")
    given = nanoarrow.Array.from_chunks([[1, 2], [3]], nanoarrow.int64())
    assert values(read(given, "keys")) == [1, 2, 3]
    assert isinstance(back(given), nanoarrow.Array)
    assert str(kind(read(given, "keys"))) == "int64"
