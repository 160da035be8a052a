"""isin of text that is long beside a few others: rows are looked up by their length and their first and last bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pygpuhash as gh

pa = pytest.importorskip("pyarrow")

TYPES = {"text": "string", "long text": "large_string", "views": "string_view"}
KINDS: dict[str, Callable[[np.random.Generator], str]] = {
    # lengths around 8, 12, 16 and 20, where texts are kept and compared in another way
    "few letters": lambda random: "".join(random.choice(["a", "b", "\0"], random.integers(0, 4))),
    "any length": lambda random: "".join(random.choice(["a", "b", "é", "\0"], random.integers(0, 24))),
    "of 7 to 9": lambda random: "".join(random.choice(["a", "b"], random.integers(7, 10))),
    "of 16 and more": lambda random: (
        "aaaabbbb" + "".join(random.choice(["a", "b"], random.integers(0, 6))) + "bbbbaaaa"
    ),
    "addresses": lambda random: f"https://example.org/{random.integers(0, 9)}/{random.integers(0, 400)}",
}


def column(texts: Sequence[str | None], kind: str) -> Any:
    """Not from the first row of its buffers, whose bytes end with its last text."""
    array = pa.array(["before", *texts], pa.string()).cast(getattr(pa, TYPES[kind])())
    return array.slice(1)


def is_among(keys: Any, among: Any, **arguments: Any) -> list[bool]:
    mask = gh.isin(keys, among, **arguments)
    assert mask.null_count == 0
    found: list[bool] = mask.to_pylist()
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("texts", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_random_texts(kind: str, texts: str, threads: int) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    random = np.random.default_rng(seed)
    for many, few in itertools.product((300, 5000), (1, 3, 40, 200)):
        rows = [KINDS[texts](random) for _ in range(many)]
        others = [KINDS[texts](random) for _ in range(few)]
        expected = [text in set(others) for text in rows]
        assert is_among(column(rows, kind), column(others, kind), threads=threads) == expected


@pytest.mark.parametrize("kind", TYPES)
def test_nulls(kind: str) -> None:
    rows: list[str | None] = ["a", None, "", "a longer text than views hold", None, "b"] * 300
    texts: list[str | None] = ["a", "a longer text than views hold"]
    for others in (texts, [*texts, None], [*texts, ""], [None]):
        assert is_among(column(rows, kind), column(others, kind)) == [text in others for text in rows]
        mask = is_among(column(rows, kind), column(others, kind), nulls="drop")
        assert mask == [text is not None and text in others for text in rows]


def test_bytes_of_a_null_are_not_read() -> None:
    """A null of a column of views may point anywhere."""
    views = np.zeros((2000, 4), np.int32)
    views[:] = [1 << 30, 0x61616161, 7, 1 << 30]
    views[::2] = [2, 0x6161, 0, 0]
    valid = np.packbits(np.arange(2000) % 2 == 0, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(views)]
    rows = pa.Array.from_buffers(pa.string_view(), 2000, buffers)
    assert is_among(rows, pa.array(["aa"])) == [True, False] * 1000
    assert is_among(rows, pa.array(["aa", None])) == [True] * 2000


@pytest.mark.parametrize("kind", TYPES)
def test_texts_whose_ends_are_equal(kind: str) -> None:
    """Texts of one length with equal ends are compared in the middle, rows and members alike."""
    texts = [f"https://example.org/{i:03d}/index.html" for i in range(1000)]
    one, two = texts[:1], texts[:2]
    assert is_among(column(texts, kind), column(one, kind)) == [True] + [False] * 999
    assert is_among(column(texts, kind), column(two, kind)) == [True, True] + [False] * 998


@pytest.mark.parametrize("kind", TYPES)
def test_texts_that_end_in_nuls(kind: str) -> None:
    lengths = [*range(40), *range(40)]
    texts = ["\0" * length for length in lengths] * 10
    for some in ([0], [3, 7], [8, 9, 20], list(range(0, 40, 3))):
        others = column(["\0" * length for length in some], kind)
        assert is_among(column(texts, kind), others) == [length in some for length in lengths] * 10


@pytest.mark.parametrize(
    ("few", "many"), [(3, 30_000), (1000, 30_000), (4096, 30_000), (4097, 30_000), (66_000, 300_000)]
)
def test_many_members(few: int, many: int) -> None:
    texts = [f"{i * 7919 % 1_000_003:x}" for i in range(many)]
    assert is_among(column(texts, "text"), column(texts[:few], "text")) == [True] * few + [False] * (many - few)


def test_values_of_a_dictionary() -> None:
    values = [f"value number {i}" for i in range(2000)]
    indices = pa.array([i * 31 % 2000 if i % 5 else None for i in range(9000)], pa.int32())
    rows = pa.DictionaryArray.from_arrays(indices, pa.array(values))
    some = {values[31], values[62], None}
    assert is_among(rows, pa.array([*some])) == [text in some for text in rows.to_pylist()]
