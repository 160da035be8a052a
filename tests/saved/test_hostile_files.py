"""Files that are not what they say: each is refused by a sentence that says which part is broken."""

import json
import os
import random
import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash.saved import container, contents, flatbuffers, made
from pygpuhash.saved.chunk import Chunk
from pygpuhash.saved.types import Type, buffers_of, layout

REFUSALS = (gh.Corrupt, gh.InvalidArgument, gh.Unsupported, gh.BackendNotFound)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.arrow"


def load(data):
    """What these bytes are made of, closed again."""
    whole = np.frombuffer(data, np.uint8)
    reader = container.Reader(lambda offset, size: whole[offset : offset + size], whole.size, "the file")
    loaded = made.made_of(reader, None, None, {})
    if isinstance(loaded, gh.Table):
        loaded.close()
    return loaded


def saved(table, path, **arguments):
    table.save(path, overwrite=True, **arguments)
    return path.read_bytes()


def table_of(kind):
    if kind == "index":
        return gh.Index((["a", None, "bcd"], [1, 2, 3]))
    if kind == "counter":
        return gh.Counter(["a", None, "bcd", "a", "é"])
    if kind == "groups":
        groups = gh.GroupBy({"n": "count", "s": "sum", "low": "min", "day": "max", "mean": "mean"})
        days = np.array([5, 6, 7, 8], "M8[D]")
        groups.add([3, 1, 3, 9], s=[1, 2, 3, 4], low=np.array([1, 2, 3, 4], "f4"), day=days, mean=[1, 2, 3, 4])
        return groups
    if kind == "text":
        table = gh.Table("hive", key_dtype=str, value_dtype="i4")
        table.insert(["a", "é", "", "word"], [1, 2, 3, 4])
        return table
    dtypes = {"numbers": ("u4", "i8"), "rows": (("u4", 3), [("a", "f4"), ("b", "?", 4)])}[kind]
    table = gh.Table("stadium", key_dtype=dtypes[0], value_dtype=dtypes[1], device="cpu")
    keys = np.arange(9, dtype="u4")
    table.insert(
        keys if kind == "numbers" else keys.reshape(3, 3), 5 if kind == "numbers" else np.zeros(3, table.value_dtype)
    )
    return table


KINDS = ["numbers", "rows", "text", "index", "counter", "groups"]


def each_byte_changed(kind, path, step, bits):
    data = saved(table_of(kind), path)
    load(data)
    for at in range(0, len(data), step):
        for bit in bits(at):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(REFUSALS, match=r"is broken|is no saved table"):
                load(bytes(changed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_bit_is_noticed(kind, path, blocks):
    blocks(3)
    each_byte_changed(kind, path, 7, lambda at: [at % 8])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_changed_bit_is_noticed(kind, path, blocks):
    blocks(3)
    each_byte_changed(kind, path, 1, lambda at: range(8))


@pytest.mark.parametrize("kind", KINDS)
def test_every_length_is_refused(kind, path):
    data = saved(table_of(kind), path)
    for size in range(0, len(data), 5):
        with pytest.raises(REFUSALS, match=r"the footer is broken|is no saved table"):
            load(data[:size])
    with pytest.raises(gh.Corrupt, match="ends before its end mark"):
        load(data + b"\0")


# ---- with the right checksums: files that were changed on purpose ---------------------------------------------------


def sealed(data):
    """The same bytes with checksums that fit, as far as the footer can still be read."""
    length = struct.unpack("<i", data[-10:-6])[0]
    begin = len(data) - 10 - length
    footer = bytearray(data[begin:-10])
    try:
        root = flatbuffers.Table.root(bytes(footer))
        places = root.structs(3, "qixxxxq")
        at, size = container._entries(root, 4)[container.CHECKSUMS].text_place(1)
    except (flatbuffers.Malformed, KeyError):
        return data
    head = places[0][0] if places else begin - 8
    parts = [data[:head], *(data[b : b + m + n] for b, m, n in places if min(b, m, n) >= 0)]
    sums = " ".join([f"{zlib.crc32(part):08x}" for part in parts] + ["00000000"]).encode()
    if len(sums) != size:
        return data
    footer[at : at + size] = sums
    footer[at + size - 8 : at + size] = f"{zlib.crc32(footer):08x}".encode()
    return data[:begin] + bytes(footer) + data[-10:]


def harmless(data):
    """Loaded or refused; nothing else."""
    try:
        load(data)
    except REFUSALS:
        return False
    except (TypeError, gh.NoMemory):  # of dtypes and sizes that a table does not have
        return False
    return True


def fuzz(kind, path, executions, seed):
    rng = random.Random(seed)
    data = saved(table_of(kind), path)
    assert sealed(data) == data
    loaded = 0
    for _ in range(executions):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(len(data) - 10)
            width = rng.choice([1, 1, 2, 4, 8])
            value = rng.choice([0, 1, 2, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), rng.getrandbits(8 * width)])
            if rng.random() < 0.3:
                value = (int.from_bytes(data[at : at + width], "little") + rng.choice([-8, -1, 1, 8])) % 2 ** (
                    8 * width
                )
            changed[at : at + width] = value.to_bytes(width, "little")
        loaded += harmless(sealed(bytes(changed[: len(data)])))
    return loaded


@pytest.mark.parametrize("kind", KINDS)
def test_sealed_changes(kind, path, blocks):
    blocks(4)
    assert fuzz(kind, path, 150, 5) > 0  # some change nothing but names, values and paddings


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_sealed_changes(kind, path, blocks, say):
    """GPUHASH_FUZZ_FILES executions of each kind, of GPUHASH_FUZZ_SEED: another number, other files."""
    executions, seed = (
        int(os.environ.get(f"GPUHASH_FUZZ_{n}", usual)) for n, usual in (("FILES", 20_000), ("SEED", 6))
    )
    blocks(4)
    say("saved files, fuzzed", f"{kind}, seed {seed}: {fuzz(kind, path, executions, seed)} of {executions} were loaded")


def written(path, types, record, *chunks, codec=None):
    """A file by the writer, of anything."""
    with path.open("wb") as file:
        writer = container.Writer(file.write, types, record, codec)
        for chunk in chunks:
            writer.block(chunk)
        writer.finish()
    return path.read_bytes()


def chunk_of(rows, *arrays):
    chunk = Chunk(rows)
    for array in arrays:
        chunk.add(rows, *(array if isinstance(array, tuple) else (array,)))
    return chunk


RECORD = {"kind": "table", "rows": 4, "backend": "hive", "key": "<u4", "value": None, "seed": 1, "options": {}}
TYPES = (Type("I", "key"),)
ROWS = chunk_of(4, np.arange(4, dtype="u4"))
OFFSETS = np.array([0, 1, 2, 3, 4], "i8")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 5}, "the footer is broken: the blocks have 4 rows"),
        ({"rows": 3}, "the footer is broken: the blocks have 4 rows"),
        ({"rows": -1}, "describes no table"),
        ({"rows": 2.5}, "describes no table"),
        ({"rows": True}, "describes no table"),
        ({"seed": "x"}, "describes no table"),
        ({"options": []}, "describes no table"),
        ({"options": {"a": 1}}, "describes no table"),
        ({"kind": "tree"}, "describes no table"),
        ({"backend": None}, "describes no table"),
        ({"backend": "/tmp/gpuhash_evil.so"}, "describes no table"),
        ({"backend": "gpuhash_evil.so"}, "describes no table"),
        ({"backend": "../evil"}, "describes no table"),
        ({"max_load_factor": "1"}, "describes no table"),
        ({"grow": 1}, "describes no table"),
        ({"device": 5}, "describes no table"),
        ({"key": "<i4"}, r"it has the columns key: I, and its record key: i"),
        ({"key": "O"}, "has the dtype O"),
        ({"key": {"of": "<u4", "shape": [-1]}}, "has the dtype"),
        ({"key": {"of": "<u4", "shape": [2**30, 2**30]}}, "numpy does not have"),
        ({"key": {"fields": [["a", "<u4"], ["a", "<u4"]]}}, "numpy does not have"),
        ({"key": {"fields": 5}}, "numpy does not have"),
        ({"key": [[[[["<u4"]]]]]}, "has the dtype"),
        ({"value": "<u4"}, "it has the columns key: I, and its record key: I; value: I"),
        ({"kind": "text"}, "which is no text"),
        ({"kind": "text", "key": "str"}, "it has the columns key: I, and its record key: U"),
        ({"kind": "index"}, "describes no index"),
        ({"kind": "index", "options": {"nulls": "group", "floats": "round"}}, "describes no index"),
    ],
)
def test_records(change, words, path):
    written(path, TYPES, RECORD | change, ROWS)
    with pytest.raises(gh.Corrupt, match=words):
        gh.load(path)


BY_ID = {"kind": "counter", "options": {"nulls": "group", "floats": "bits"}}
COUNTED = (Type("I", "key", (), True), Type("l", "count"))
OF_ONE = RECORD | BY_ID | {"kind": "groups", "aggregates": [["x", "sum", "<f8"]]}
WITH_MEAN = OF_ONE | {"aggregates": [["x", "mean", "<f8"]]}
KEYS = np.arange(4, dtype="u4")
ONES, FLOATS = np.ones(4, "i8"), np.ones(4)


@pytest.mark.parametrize(
    ("change", "types", "words"),
    [
        ({}, COUNTED[:1], "describes no counter: .*the columns are key: I"),
        ({}, COUNTED[1:], "describes no counter: .*the columns are count: l"),
        ({}, (*COUNTED, COUNTED[1]), "describes no counter: .*key: I; count: l; count: l"),
        ({}, (COUNTED[0], Type("L", "count")), "describes no counter: .*count: L"),
        ({}, (COUNTED[0], Type("l", "counts")), "describes no counter: .*counts: l"),
        ({}, (COUNTED[0], Type("l", "count", (), True)), "describes no counter"),
        ({"options": {"nulls": "some", "floats": "bits"}}, COUNTED, "describes no counter: {'nulls': 'some'"),
        ({"options": {}}, COUNTED, "describes no counter: {}"),
        ({}, (), "it has 4 rows in 0 bytes"),
        ({}, (Type("+w:2", "key", (Type("I", "item"),), True), COUNTED[1]), "the footer is broken"),
        ({"kind": "groups", "aggregates": None}, COUNTED, "has the aggregates None"),
        ({"kind": "groups", "aggregates": {}}, COUNTED, "has the aggregates {}: aggregates={}"),
        ({"kind": "groups", "aggregates": [["n", "count"]]}, COUNTED, "has the aggregates .*not enough values"),
        ({"kind": "groups", "aggregates": [[5, "count", "<i8"]]}, COUNTED, "the aggregate 5 has no name"),
        ({"kind": "groups", "aggregates": [["n", ["sum"], "<i8"]]}, COUNTED, "has the aggregates"),
        ({"kind": "groups", "aggregates": [["n", "first", "<i8"]]}, COUNTED, "'n' is 'first', whose state"),
        ({"kind": "groups", "aggregates": [["key", "count", "<i8"]]}, COUNTED, "'key' would be the column 'key'"),
        ({"kind": "groups", "aggregates": [["n", "count", "<i8"]] * 2}, COUNTED, "of which two have one name"),
        ({"kind": "groups", "aggregates": [["n", "count", "O"]]}, COUNTED, "has the dtype O"),
        ({"kind": "groups", "aggregates": [["n", "count", "<i4"]]}, COUNTED, "the count 'n' of dtype int32, which no"),
        ({"kind": "groups", "aggregates": [["n", "sum", "<f4"]]}, COUNTED, "the sum 'n' of dtype float32, which no"),
        ({"kind": "groups", "aggregates": [["n", "sum", "<M8[s]"]]}, COUNTED, "the sum 'n' of dtype datetime64"),
        ({"kind": "groups", "aggregates": [["n", "mean", "<i8"]]}, COUNTED, "the mean 'n' of dtype int64, which no"),
        ({"kind": "groups", "aggregates": [["n", "min", "|S4"]]}, COUNTED, "the min 'n' of dtype"),
        (
            {"kind": "groups", "aggregates": [["n", "max", {"fields": [["a", "<i8"]]}]]},
            COUNTED,
            "the max 'n' of dtype",
        ),
        ({"kind": "groups", "aggregates": [["n", "count", "<i8"]]}, COUNTED, "describes no groups: .*count: l"),
        (WITH_MEAN, (COUNTED[0], Type("g", "x.sum")), "describes no groups: .*x.sum: g"),
    ],
)
def test_records_of_what_has_ids(change, types, words, path):
    written(path, types, RECORD | BY_ID | change, Chunk(4, *rows_of(types)))
    with pytest.raises(gh.Corrupt, match=words):
        gh.load(path)


def test_a_block_without_columns(path):
    written(path, (), RECORD | BY_ID | {"rows": 0}, Chunk(0))
    with pytest.raises(gh.Corrupt, match="block 1 of 1 is broken: it has 0 rows, and the file no columns"):
        gh.load(path)
    written(path, (), RECORD | BY_ID | {"rows": 0})
    assert len(gh.load(path)) == 0


def rows_of(types):
    """(nodes, buffers) of four rows of any of these types, which are never read."""
    chunk = Chunk(4)
    for type in layout(types):
        chunk.add(4, *(ONES for _ in range(buffers_of(type) - 1)))
    return chunk.nodes, chunk.buffers


@pytest.mark.parametrize(
    ("record", "types", "arrays", "words"),
    [
        ({}, COUNTED, (KEYS, ONES * 0), "column 'count' has the count 0, and each key has one row at least"),
        ({}, COUNTED, (KEYS, np.array([1, 2, -3, 1])), "column 'count' has the count -3"),
        ({}, COUNTED, (np.array([1, 2, 1, 3], "u4"), ONES), "it repeats keys"),
        ({}, COUNTED, (KEYS, ONES[:3]), "column 'count' has 24 bytes instead of 32"),
        (
            WITH_MEAN,
            (COUNTED[0], Type("g", "x.sum"), Type("l", "x.rows")),
            (KEYS, FLOATS, ONES * 0),
            "'x.rows' has the",
        ),
        (OF_ONE, (COUNTED[0], Type("g", "x")), (np.array([1, 2, 1, 3], "u4"), FLOATS), "it repeats keys"),
    ],
)
def test_blocks_of_what_has_ids(record, types, arrays, words, path):
    written(path, types, RECORD | BY_ID | record, chunk_of(4, *arrays))
    with pytest.raises(gh.Corrupt, match=f"block 1 of 1 is broken: {words}|block 1 of 1 is broken: .*{words}"):
        gh.load(path)


def test_keys_that_are_null_where_none_may_be(path):
    nulls = {"options": {"nulls": "refuse", "floats": "bits"}}
    chunk = Chunk(4, [(4, 1), (4, 0)], [np.array([7], "u1"), KEYS.view("u1"), np.empty(0, "u1"), ONES.view("u1")])
    written(path, COUNTED, RECORD | BY_ID | nulls, chunk)
    with pytest.raises(gh.Corrupt, match=r"block 1 of 1 is broken: .*null"):
        gh.load(path)
    written(path, COUNTED, RECORD | BY_ID | {"options": {"nulls": "drop", "floats": "bits"}}, chunk)
    with pytest.raises(gh.Corrupt, match="it repeats keys"):
        gh.load(path)


def test_what_has_ids_as_it_should_be(path):
    """The files above are refused for what is wrong with them alone."""
    written(path, COUNTED, RECORD | BY_ID, chunk_of(4, KEYS, np.array([1, 2, 3, 2**62])))
    assert gh.load(path).counts.tolist() == [1, 2, 3, 2**62]
    written(path, (COUNTED[0], Type("g", "x")), OF_ONE, chunk_of(4, KEYS, FLOATS))
    assert gh.load(path).result()[1]["x"].tolist() == [1.0] * 4
    written(path, (COUNTED[0], Type("g", "x.sum"), Type("l", "x.rows")), WITH_MEAN, chunk_of(4, KEYS, FLOATS, ONES * 2))
    assert gh.load(path).result()[1]["x"].tolist() == [0.5] * 4


def test_what_a_record_asks_for_is_not_given(path):
    written(
        path, TYPES, RECORD | {"max_load_factor": 0.01, "options": {"stash": "0.25", "path": "/", "bucket": "16"}}, ROWS
    )
    with gh.load(path) as table:
        assert table._options == {"bucket": "16"}
        assert table.max_load_factor > 0.25
    options = {"placement": "file", "path": str(path.parent / "made"), "file": "new"}
    written(path, TYPES, RECORD | {"backend": "stadium", "options": options}, ROWS)
    gh.load(path).close()
    assert [one.name for one in path.parent.iterdir()] == ["table.arrow"]
    written(path, TYPES, RECORD | {"rows": 2**63}, ROWS)
    with pytest.raises(gh.Corrupt, match="the blocks have 4 rows"):
        gh.load(path)


def test_a_backend_that_is_not_here(path):
    written(path, TYPES, RECORD | {"backend": "of_another_package"}, ROWS)
    with pytest.raises(gh.BackendNotFound, match="of_another_package"):
        gh.load(path)
    gh.load(path, "hive").close()


@pytest.mark.parametrize(
    ("record", "types", "chunk", "words"),
    [
        ({}, TYPES, chunk_of(4, np.array([1, 2, 1, 1], "u4")), "block 1 of 1 is broken: it repeats 2 keys"),
        ({}, TYPES, chunk_of(4, np.arange(5, dtype="u4")), "column 'key' has 20 bytes instead of 16"),
        ({}, TYPES, Chunk(4, [(5, 0)], ROWS.buffers), "column 'key' has 5 elements instead of 4"),
        ({}, TYPES, Chunk(4, [(4, 1)], ROWS.buffers), "column 'key' has 0 bytes instead of 1"),
        ({}, TYPES, Chunk(4, [(4, 0)], ROWS.buffers[:1]), "has 1 columns and 1 buffers, not 1 and 2"),
        ({}, TYPES, Chunk(2**40, [(2**40, 0)], ROWS.buffers), "has 1099511627776 rows in 64 bytes"),
        ({}, TYPES, Chunk(-4, [(-4, 0)], ROWS.buffers), "has -4 rows"),
        (
            {"kind": "text", "key": "str"},
            (Type("U", "key"),),
            chunk_of(4, (OFFSETS, np.array([97, 98, 0xC3, 0xA9], "u1"))),
            "begins in the middle of a character",
        ),
        (
            {"kind": "text", "key": "str"},
            (Type("U", "key"),),
            chunk_of(4, (OFFSETS, np.array([97, 98, 99, 0xFF], "u1"))),
            "not UTF-8, at byte 3",
        ),
        (
            {"kind": "text", "key": "bytes"},
            (Type("Z", "key"),),
            Chunk(4, [(4, 1)], [np.array([7], "u1"), OFFSETS.view("u1"), np.arange(4, dtype="u1")]),
            "column 'key' says that it has 1 nulls",
        ),
        (
            {"kind": "text", "key": "bytes"},
            (Type("Z", "key"),),
            chunk_of(4, (OFFSETS[::-1], np.arange(4, dtype="u1"))),
            "offsets that do not ascend",
        ),
        (
            {"kind": "text", "key": "bytes"},
            (Type("Z", "key"),),
            chunk_of(4, (OFFSETS, np.arange(3, dtype="u1"))),
            "offsets that do not ascend from 0 to its 3 bytes",
        ),
        (
            {"kind": "text", "key": "bytes"},
            (Type("Z", "key"),),
            chunk_of(4, (OFFSETS[[0, 3, 1, 2, 4]], np.arange(4, dtype="u1"))),
            "offsets that do not ascend",
        ),
        (
            {"kind": "text", "key": "bytes"},
            (Type("Z", "key"),),
            chunk_of(4, (OFFSETS[[1, 1, 2, 3, 4]], np.arange(4, dtype="u1"))),
            "offsets that do not ascend",
        ),
        (
            {"kind": "index", "options": {"nulls": "refuse", "floats": "bits"}},
            (Type("I", "key", (), True),),
            Chunk(4, [(4, 1)], [np.array([7], "u1"), ROWS.buffers[1]]),
            "null",
        ),
        (
            {"kind": "index", "options": {"nulls": "group", "floats": "bits"}},
            (Type("+w:2", "key", (Type("I", "item"),), True),),
            chunk_of(4, (), np.arange(8, dtype="u4")),
            "the footer is broken|block 1 of 1 is broken",
        ),
        (
            {"kind": "index", "options": {"nulls": "group", "floats": "bits"}},
            TYPES,
            chunk_of(4, np.array([1, 2, 1, 3], "u4")),
            "it repeats keys",
        ),
    ],
)
def test_blocks(record, types, chunk, words, path):
    written(path, types, RECORD | record, chunk)
    with pytest.raises(gh.Corrupt, match=words):
        gh.load(path)


def test_blocks_that_share_bytes(small, path, blocks):
    """The second block is where the third is, which ends where the footer begins."""
    blocks(7)
    small.save(path)
    data = path.read_bytes()
    begin = len(data) - 10 - struct.unpack("<i", data[-10:-6])[0]
    places = flatbuffers.Table.root(data[begin:-10]).structs(3, "qixxxxq")
    second, third = (struct.pack("<qixxxxq", *place) for place in places[1:])
    changed = data[:begin] + data[begin:].replace(second, third, 1)
    with pytest.raises(gh.Corrupt, match="block 2 would be at byte"):
        load(sealed(changed))


@pytest.mark.parametrize("place", [(0, 4096), (64, 16), (0, -16)])
def test_buffers_that_are_not_in_their_block(place, path, monkeypatch):
    encoded = container.Writer._encoded

    def lying(writer, chunk):
        parts, places, codec = encoded(writer, chunk)
        return parts, [*places[:-1], place], codec

    monkeypatch.setattr(container.Writer, "_encoded", lying)
    written(path, TYPES, RECORD, ROWS)
    with pytest.raises(gh.Corrupt, match=f"a buffer would be at byte {place[0]} of the body, of {place[1]} bytes"):
        gh.load(path)


def test_schemas(path):
    deep = Type("I", "x")
    for _ in range(20):
        deep = Type("+s", "x", (deep,))
    written(path, (deep,), RECORD)
    with pytest.raises(gh.Corrupt, match="nested more than 16 levels"):
        gh.load(path)
    many = Type("+s", "x", (Type("I", "x"),) * 2000)
    with pytest.raises(gh.InvalidArgument, match="2001 fields"):
        written(path, (many,), RECORD)


def test_a_schema_of_shared_fields(path, monkeypatch):
    """Sixteen levels of fields, each of which names the level below many times."""
    data = bytearray(written(path, (Type("+s", "a", (Type("+s", "b", (Type("I", "c"),) * 64),) * 8),), RECORD))
    monkeypatch.setattr("pygpuhash.saved.types.MOST_FIELDS", 100)
    path.write_bytes(data)
    with pytest.raises(gh.Corrupt, match="more than 100 fields"):
        gh.load(path)


def test_a_newer_file_and_foreign_ones(path, small, monkeypatch):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr(container, "VERSION", 2)
    small.save(path)
    monkeypatch.undo()
    with pytest.raises(gh.Unsupported, match=r"has format 2 of saved tables, .* update gpuhash"):
        gh.load(path)
    monkeypatch.setattr(container, "_LITTLE", 1)
    small.save(path, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(gh.Unsupported, match="another byte order"):
        gh.load(path)
    rows = pa.table({"key": [1, 2]})
    with pa.ipc.new_file(path, rows.schema) as file:
        file.write(rows)
    with pytest.raises(gh.InvalidArgument, match="without a record of gpuhash"):
        gh.load(path)
    with pa.ipc.new_file(path, rows.schema.with_metadata({"gpuhash": json.dumps(RECORD | {"format": 1})})) as file:
        file.write(rows)
    with pytest.raises(gh.Corrupt, match="it has no checksums"):
        gh.load(path)
    for data in (b"", b"ARROW1", b"PAR1" + bytes(100), b"\x93NUMPY" + bytes(100), bytes(10_000)):
        path.write_bytes(data)
        with pytest.raises(gh.InvalidArgument, match="is no saved table"):
            gh.load(path)


def test_compressed_blocks(path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pygpuhash.saved.codecs import codec_of

    codec = codec_of("zstd")

    zeros = chunk_of(1 << 20, np.zeros(1 << 20, "u4"))
    written(path, TYPES, RECORD | {"rows": 1 << 20}, zeros, codec=codec)
    assert path.stat().st_size > 1 << 22  # it would be smaller than MOST_RATIO permits: so it is not compressed
    for data, words in [
        (lambda part: b"nothing", "is not what zstd makes"),
        (lambda part: codec.compress(bytes(3999)), r"is not what zstd makes|has 3999 bytes, and says 4000"),
        (lambda part: codec.compress(bytes(1 << 20)), r"is not what zstd makes|bytes, and says 4000"),
    ]:
        lying = replace(codec, compress=data)
        written(path, TYPES, RECORD, chunk_of(1000, np.arange(1000, dtype="u4")), codec=lying)
        with pytest.raises(gh.Corrupt, match=words):
            gh.load(path)


def test_a_compressed_block_that_would_be_huge(path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pygpuhash.saved.codecs import codec_of

    monkeypatch.setattr(container, "MOST_RATIO", 1 << 40)
    written(path, TYPES, RECORD, chunk_of(1 << 20, np.zeros(1 << 20, "u4")), codec=codec_of("zstd"))
    monkeypatch.undo()
    assert path.stat().st_size < 4096
    with pytest.raises(gh.Corrupt, match="would become 4194304, more than 1024 times"):
        gh.load(path)


def test_blocks_are_small(small, path, monkeypatch):
    """A reader holds one block: its size is what the writer has bounded."""
    monkeypatch.setattr(contents, "BLOCK_BYTES", 64)
    small.save(path)
    data = path.read_bytes()
    root = flatbuffers.Table.root(data[len(data) - 10 - struct.unpack("<i", data[-10:-6])[0] : -10])
    assert len(root.structs(3, "qixxxxq")) == 4
    gh.load(path).close()


def test_blocks_of_groups_are_small(path, monkeypatch):
    monkeypatch.setattr(contents, "BLOCK_BYTES", 1000)
    groups = gh.GroupBy({f"s{i}": "sum" for i in range(40)})
    groups.add(np.arange(400), **dict.fromkeys(groups.aggregates, 1))
    whole = np.frombuffer(saved(groups, path), np.uint8)
    reader = container.Reader(lambda offset, size: whole[offset : offset + size], whole.size, "the file")
    sizes = [sum(buffer.size for buffer in chunk.buffers) for _, chunk in reader.chunks()]
    assert sum(sizes) == 400 * 41 * 8
    assert max(sizes) <= 1000


def test_memory_is_bounded_by_the_size_of_the_file(path):
    """A key is a bit at least: here is a file of bits that are all the same key."""
    rows = 1 << 20
    record = RECORD | {"kind": "index", "rows": rows, "options": {"nulls": "group", "floats": "bits"}}
    written(path, (Type("b", "key"),), record, chunk_of(rows, np.zeros(rows // 8, "u1")))
    tracemalloc.start()
    try:
        with pytest.raises(gh.Corrupt, match="block 1 of 1 is broken: it repeats keys"):
            gh.load(path)
        assert tracemalloc.get_traced_memory()[1] < 256 * path.stat().st_size
    finally:
        tracemalloc.stop()
