"""The published hash: its test vectors, its reference, and how good it is."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

import pygpuhash as gh
from pygpuhash.columns import _buffers, _engine
from pygpuhash.columns._engine import hash_rows

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hash_reference as reference

VECTORS = [
    reference.parse_line(line)
    for line in (Path(__file__).parent / "hash_vectors.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def bits_of(flags):
    """Arrow's bits."""
    return np.packbits(np.array(flags, bool), bitorder="little")


def column(format, contents):
    """A column of cells of one format, as capsules: the content of each, None for null."""
    valid = bits_of([c is not None for c in contents])
    n, some = len(contents), [c or b"" for c in contents]
    width = max(map(len, some), default=0)
    joined = np.frombuffer(b"".join(some) + b"\0", "u1")
    ends = np.cumsum([0, *map(len, some)])
    if format == "n":
        return _buffers.schema(format), _buffers.array(n, (), null_count=n)
    if format == "b":
        buffers = (valid, bits_of([c == b"\1" for c in contents]))
    elif format in ("u", "z", "U", "Z"):
        buffers = (valid, ends.astype("i4" if format in "uz" else "i8"), joined)
    elif format in ("vu", "vz"):
        views = np.zeros(n, "i4,S12")
        views["f0"] = [len(c) for c in some]
        far = [c[:4] + bytes(4) + int(at).to_bytes(4, "little") for c, at in zip(some, ends[:-1], strict=True)]
        views["f1"] = [c if len(c) <= 12 else f for c, f in zip(some, far, strict=True)]
        buffers = (valid, views, joined, np.array([len(joined)], "i8"))
    else:
        buffers = (valid, np.frombuffer(b"".join(c.ljust(width, b"\xaa") for c in some), "u1"))
    return _buffers.schema(format), _buffers.array(n, buffers)


def hashes(schema, array, bits=64, seed=0, threads=1):
    words = np.full(_buffers.length(array) * (bits // 64), 42, np.uint64)
    hash_rows(schema, [array], bits, seed, threads, words)
    return words


def test_the_file_of_vectors_has_every_kind_and_every_branch():
    cells = [reference.cell_of(formats, contents) for formats, contents, _, _ in VECTORS]
    kinds = {cell[0] for cell in cells if cell is not None}
    assert kinds == set(reference.KINDS) - {"null", "fraction"} | {"float"}
    assert {len(cell[1]) for cell in cells if cell and cell[0] == "bytes"} >= set(range(36))
    assert None in cells


@pytest.mark.parametrize("seed", sorted({seed for _, _, seed, _ in VECTORS}))
def test_vectors_are_those_of_the_reference(seed):
    for formats, contents, own, halves in VECTORS:
        if own == seed:
            assert reference.hash_cell(reference.cell_of(formats, contents), seed) == halves, (formats, contents)


def test_vectors_are_those_of_the_library():
    """All cells of a format in one column, so that there is a first one, a last one and one after a null."""
    columns: dict[tuple[str, int], list[tuple[bytes | None, tuple[int, int]]]] = {}
    for formats, contents, seed, halves in VECTORS:
        if formats[0] != "+s":
            columns.setdefault((formats[0], seed), []).append((contents[0], halves))
            columns[formats[0], seed].append((None, reference.hash_cell(None, seed)))
    for (format, seed), cells in columns.items():
        schema, array = column(format, [content for content, _ in cells])
        wanted = np.array([halves for _, halves in cells], np.uint64)
        assert hashes(schema, array, 128, seed).reshape(-1, 2).tolist() == wanted.tolist(), format
        assert hashes(schema, array, 64, seed).tolist() == wanted[:, 0].tolist(), format


# ---- columns and their cells -----------------------------------------------------------------------------------------

FIXED = {format: np.dtype(code).itemsize for format, (code, _, _) in reference._NUMBERS.items() if format != "b"}
FIXED |= {"d:38,3": 16, "d:38,-2": 16, "d:18,2,64": 8, "d:9,9,32": 4, "w:5": 5}
SEEDS = st.integers(0, 2**64 - 1)


@st.composite
def columns(draw, depth=1):
    """(schema, array, the cell of each row), of a few rows."""
    n = draw(st.integers(0, 6))
    return _column(draw, n, depth)


def _column(draw, n, depth):
    if depth and draw(st.integers(0, 3)) == 0:
        fields = [_column(draw, n, depth - 1) for _ in range(draw(st.integers(0, 3)))]
        gone = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
        schema = _buffers.schema("+s", children=[f[0] for f in fields], names=["x"] * len(fields))
        array = _buffers.array(n, (bits_of(~gone),), children=[f[1] for f in fields])
        return schema, array, [None if gone[i] else ("row", [f[2][i] for f in fields]) for i in range(n)]
    format = draw(st.sampled_from(["b", "u", "U", "z", "Z", "vu", "vz", *FIXED]))
    if format == "b":
        content = st.sampled_from([b"\0", b"\1"])
    elif format in FIXED:
        width = FIXED[format]
        content = st.binary(min_size=width, max_size=width) | st.sampled_from([0, 1, -1, 10, 100]).map(
            lambda v: v.to_bytes(width, "little", signed=True)
        )
    else:
        content = st.binary(max_size=70)
    if depth and n and draw(st.integers(0, 3)) == 0:
        values = draw(st.lists(st.none() | content, min_size=1, max_size=2 * n))
        picks = draw(st.lists(st.none() | st.integers(0, len(values) - 1), min_size=n, max_size=n))
        inner = column(format, values)
        valid = bits_of([p is not None for p in picks])
        codes = np.array([99 if p is None else p for p in picks], "i1")
        cells = [None if p is None or values[p] is None else reference.parse_cell(format, values[p]) for p in picks]
        return _buffers.schema("c", dictionary=inner[0]), _buffers.array(n, (valid, codes), dictionary=inner[1]), cells
    contents = draw(st.lists(st.none() | content, min_size=n, max_size=n))
    return (*column(format, contents), [c if c is None else reference.parse_cell(format, c) for c in contents])


@settings(max_examples=100, deadline=None)
@for_all(columns(depth=2), SEEDS)
def test_any_column_has_the_hashes_of_the_reference(made, seed):
    schema, array, cells = made
    wanted = [half for cell in cells for half in reference.hash_cell(cell, seed)]
    assert hashes(schema, array, 128, seed).tolist() == wanted
    assert hashes(schema, array, 64, seed).tolist() == wanted[::2]


@settings(max_examples=40, deadline=None)
@for_all(columns(), st.data())
def test_slices(made, data):
    schema, array, cells = made
    begin = data.draw(st.integers(0, len(cells)))
    part = _buffers.sliced(array, begin, data.draw(st.integers(0, len(cells) - begin)))
    wanted = [reference.hash_cell(cell)[0] for cell in cells[begin : begin + _buffers.length(part)]]
    assert hashes(schema, part).tolist() == wanted


@pytest.mark.parametrize("form", ["plain", "dictionary", "field"])
@pytest.mark.parametrize("format", ["b", "l", "i", "C", "g", "tdD", "tss:", "d:38,3", "u", "Z", "vu", "w:5"])
def test_cells_and_nulls_of_long_columns_from_any_row(format, form):
    """Rows of several blocks, which begin anywhere in their buffers."""
    width = 1 if format == "b" else FIXED.get(format, 3)
    pool = [None, *(i.to_bytes(width, "little") for i in range(2 if format == "b" else 7))]
    picks = np.random.default_rng(3).integers(0, len(pool), 2500)
    cells = [None if c is None else reference.parse_cell(format, c) for c in pool]
    if form == "dictionary":
        values = column(format, pool)
        valid = bits_of(np.arange(2500) % 3 > 0)
        array = _buffers.array(2500, (valid, picks.astype("i2")), dictionary=values[1])
        schema = _buffers.schema("s", dictionary=values[0])
        rows = [cells[pick] if i % 3 else None for i, pick in enumerate(picks)]
    else:
        schema, array = column(format, [pool[pick] for pick in picks])
        rows = [cells[pick] for pick in picks]
    if form == "field":
        valid = bits_of(np.arange(2500) % 5 > 0)
        schema, array = (
            _buffers.schema("+s", children=[schema], names=["x"]),
            _buffers.array(2500, (valid,), children=[array]),
        )
        rows = [("row", [cell]) if i % 5 else None for i, cell in enumerate(rows)]
    known = {repr(cell): reference.hash_cell(cell) for cell in rows}
    wanted = np.array([known[repr(cell)] for cell in rows], np.uint64)
    for begin in (0, 1, 13, 1030):
        part = _buffers.sliced(array, begin, 2500 - begin)
        assert np.array_equal(hashes(schema, part, 128).reshape(-1, 2), wanted[begin:])


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("given", ["numbers", "text", "rows", "dictionary"])
def test_threads_pieces_and_chunks(given, bits, threads):
    """Of columns that several threads divide, the same as of their small parts."""
    n = 70_001
    numbers = np.arange(n) * 7
    number = (_buffers.schema("l"), _buffers.array(n, (None, numbers)))
    if given == "text":
        schema, array = column("u", [b"%d" % i * (i % 5) for i in range(n)])
    elif given == "dictionary":
        values = column("u", [b"%d" % i for i in range(40_000)])
        array = _buffers.array(n, (None, np.arange(n, dtype="i4") * 3 % 40_000), dictionary=values[1])
        schema = _buffers.schema("i", dictionary=values[0])
    else:
        schema, array = number
    if given == "rows":
        schema = _buffers.schema("+s", children=[number[0], number[0]], names=["a", "b"])
        array = _buffers.array(n, (None,), children=[number[1], _buffers.sliced(number[1], 0, n)])
    cuts = [0, 1, 1024, 9_000, 9_000, 33_000, n]
    chunks = [_buffers.sliced(array, a, b - a) for a, b in itertools.pairwise(cuts)]
    parts = [hashes(schema, chunk, bits) for chunk in chunks]
    was = _engine.piece(20_000)
    try:
        together = np.empty(n * bits // 64, np.uint64)
        hash_rows(schema, chunks, bits, 0, threads, together)
        whole = hashes(schema, array, bits, threads=threads)
    finally:
        _engine.piece(was)
    assert whole.tolist() == together.tolist() == np.concatenate(parts).tolist()


def test_outputs_that_are_too_short_are_refused():
    schema, array = column("l", [bytes(8)] * 3)
    for out in (
        np.empty(2, np.uint64),
        np.empty(3, np.int64),
        np.empty(6, np.uint64)[::2],
        np.empty((3, 1), np.uint64),
    ):
        with pytest.raises(ValueError, match="pass uint64 of 3 elements"):
            hash_rows(schema, [array], 64, 0, 1, out)
    with pytest.raises(ValueError, match="pass uint64 of 6 elements"):
        hash_rows(schema, [array], 128, 0, 1, np.empty(5, np.uint64))


def test_a_dictionary_without_indices_is_refused():
    """Also one whose values have no bytes, and need no buffer themselves."""
    for format in ("w:0", "i"):
        values = _buffers.schema(format), _buffers.array(2, (None, np.zeros(8, "u1")))
        array = _buffers.array(3, (None, None), dictionary=values[1])
        with pytest.raises(TypeError, match="has no buffer of cells"):
            hashes(_buffers.schema("l", dictionary=values[0]), array)


@pytest.mark.parametrize("format", [*"cCsSiIlL", "tsn:"])
def test_instruction_sets(format):
    """Loops with vectors have remainders: the same hashes as one by one."""
    width = FIXED[format]
    contents = [bytes([(i * 37 + j * 11) % 256 for j in range(width)]) for i in range(23)]
    wanted = [reference.hash_cell(reference.parse_cell(format, c), 5)[0] for c in contents]
    assert hashes(*column(format, contents), seed=5).tolist() == wanted


# ---- quality ---------------------------------------------------------------------------------------------------------


def words_of(kind, n):
    """Inputs that differ in little."""
    if kind == "sequential":
        return np.arange(n)
    if kind == "multiples of 2^32":
        return np.arange(n) << 32
    if kind == "floats":
        return np.arange(n) + 0.5
    if kind == "two columns":
        return np.arange(n) % 512, np.arange(n) // 512
    length = {"text": 7, "long text": 40}[kind]
    return np.char.zfill(np.arange(n).astype(f"S{length}"), length)


KINDS = pytest.mark.parametrize(
    "kind", ["sequential", "multiples of 2^32", "floats", "two columns", "text", "long text"]
)


@pytest.mark.parametrize(
    "shape",
    [
        lambda x: (x, (x,)),
        lambda x: ((x,), x),
        lambda x: ((x,), (x,)),
        lambda x: (x, (x, (x,))),
        lambda x: ((x, (x,)), (x, (x,))),
        lambda x: ((x, x), x, x),
    ],
)
def test_rows_within_rows_whose_fields_are_equal(shape):
    """A field that is a row is not what came of the same fields in the outer row."""
    n = 1000
    both = gh.hash_array(shape(np.arange(n)), 128)
    assert len(np.unique(both[:, 0])) == len(np.unique(both[:, 1])) == n

    def cell(given):
        return ("row", [cell(part) for part in given]) if isinstance(given, tuple) else ("integer", given)

    assert [tuple(row) for row in both[:3].tolist()] == [reference.hash_cell(cell(shape(i))) for i in range(3)]


@KINDS
def test_rows_spread_evenly_and_do_not_collide(kind):
    """Chi-squared of the lowest bits, of the highest and of hash % 1000, of both halves; and 32 bits of each collide as
    often as chance has it."""
    n = 1 << 15
    both = gh.hash_array(words_of(kind, n), 128)
    assert len(np.unique(both, axis=0)) == n
    for half in both.T:
        assert len(np.unique(half)) == n
        for part, m in ((half & np.uint64(1023), 1024), (half >> np.uint64(54), 1024), (half % np.uint64(1000), 1000)):
            counts = np.bincount(part.astype(int), minlength=m)
            chi = ((counts - n / m) ** 2).sum() / (n / m)
            assert abs(chi - m) < 6 * np.sqrt(2 * m), (kind, m)
        for cut in (half & np.uint64(2**32 - 1), half >> np.uint64(32)):
            assert n - len(np.unique(cut)) <= 5  # .1 by chance


@pytest.mark.parametrize("bit", range(0, 64, 7))
def test_every_bit_changes_every_bit_half_of_the_time(bit):
    rng = np.random.default_rng(bit)
    n = 1 << 12
    numbers = rng.integers(0, 2**16, n).astype(np.uint64)
    text = numbers[:, None] >> np.arange(0, 64, 8, dtype=np.uint64) & np.uint64(255)
    text = np.concatenate([text, text[:, ::-1], np.ones((n, 5), np.uint64)], axis=1).astype(np.uint8)
    other = text.copy()
    other[:, 15 if bit % 2 else bit // 8] ^= np.uint8(1 << bit % 8)
    pairs = [(numbers, numbers ^ np.uint64(1 << bit)), (text.view("V21").ravel(), other.view("V21").ravel())]
    pairs.append(((numbers, numbers), (numbers, pairs[0][1])))
    for one, two in pairs:
        changed = gh.hash_array(one, 128) ^ gh.hash_array(two, 128)
        share = np.unpackbits(changed.view(np.uint8).reshape(n, 16), axis=1).mean(axis=0)
        assert np.abs(share - 0.5).max() < 6 * 0.5 / np.sqrt(n)


def test_halves_and_seeds_have_nothing_to_do_with_each_other():
    n = 1 << 14
    one, two = gh.hash_array(np.arange(n), 128).T
    for other in (two, gh.hash_array(np.arange(n), seed=1), gh.hash_array(np.arange(n), seed=2**63)):
        for shift in (0, 1, 32):
            same = np.unpackbits((one ^ np.roll(other, shift)).view(np.uint8).reshape(n, 8), axis=1).mean(axis=0)
            assert np.abs(same - 0.5).max() < 6 * 0.5 / np.sqrt(n)


@pytest.mark.slow
def test_ten_million_numbers_do_not_collide():
    n = 10**7
    assert len(np.unique(gh.hash_array(np.arange(n)))) == n
    for kind in ("text", "two columns", "long text"):
        assert len(np.unique(gh.hash_array(words_of(kind, n)))) == n


# ---- beside tables ---------------------------------------------------------------------------------------------------


def placed_by_tables(keys):
    """Where tables put keys of 8 bytes whose seed is 0: libgpuhash/hash/hash.hpp."""
    x = keys.astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> np.uint64(33)) * np.uint64(factor)
    return x ^ x >> np.uint64(33)


def placed_by_the_index(keys, seed=0):
    """libgpuhash/columns/keys.hpp."""
    fold = reference.fold
    odd1, odd2, odd3 = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F
    return np.array([fold(fold(int(k) ^ seed ^ 0, odd1) ^ odd3, odd2) for k in keys], np.uint64)


def clusters(slots, of):
    """How much more uneven the counts of the slots are than chance has it, in standard deviations of chi-squared."""
    counts = np.bincount(slots.astype(int), minlength=of)
    return (((counts - len(slots) / of) ** 2).sum() / (len(slots) / of) - of) / np.sqrt(2 * of)


@pytest.mark.parametrize("placed", [placed_by_tables, placed_by_the_index])
def test_keys_of_one_shard_do_not_cluster_in_tables(placed):
    """Of 64 shards, the keys of one fill the slots of a table as any keys do: by its lowest and its highest bits. They
    would not, if the hash were the table's own."""
    keys = np.arange(1 << 16)
    places = placed(keys)
    for hashed, own in ((gh.hash_array(keys), False), (places, True)):
        for shard in (hashed % np.uint64(64), hashed >> np.uint64(58)):
            mine = places[shard == 5]
            uneven = [clusters(mine & np.uint64(255), 256), clusters(mine >> np.uint64(56), 256)]
            assert (max(map(abs, uneven)) > 6) == own


def test_a_table_of_one_shard_probes_no_further_than_another():
    def mean_probes(keys):
        table = gh.Table("linear_probe", key_dtype="u8", value_dtype=None, capacity=len(keys), grow=False, seed=1)
        table.insert(keys)
        return table.stats()["probe_mean"]

    keys = np.arange(1 << 18, dtype=np.uint64)
    hashed = gh.hash_array(keys)
    tables = (placed_by_tables(keys ^ np.uint64(1)) ^ np.uint64(1 << 32)) >> np.uint64(60)
    usual = mean_probes(keys[: 1 << 14])
    assert mean_probes(keys[hashed % np.uint64(16) == 3]) < 1.5 * usual
    assert mean_probes(keys[hashed >> np.uint64(60) == 3]) < 1.5 * usual
    assert mean_probes(keys[tables == 3][: 1 << 13]) > 10 * usual  # or this test would notice nothing
