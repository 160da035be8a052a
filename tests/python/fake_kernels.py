"""Kernels of verbs on columns that are not here: what they do, in memory of the host, for arrays of a CuPy that is not
here either. A `Table` cannot be made meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import fake_bytes
import fake_cuda
import fake_libraries
import numpy as np
import pytest

from pygpuhash import _core, _cuda, _device_groups, _device_joins, _table_verbs

Array = np.ndarray[Any, Any]


def group(monkeypatch: pytest.MonkeyPatch, cuda: Any, calls: list[tuple[Any, ...]], by_seed: bool = False) -> None:
    """Groups of a column; `calls` gets what each call asks for. by_seed: groups in any order are in one of the seed."""

    def fake(call: _core.Grouping, meanwhile: Any = None) -> None:
        asked = SimpleNamespace(**call.arguments())
        calls.append((asked.n, asked.key_bytes, asked.first, asked.seed, asked.stream))
        assert asked.nbytes == call.temporaries()

        def run() -> None:
            groups = np.frombuffer(
                find(
                    asked.n, asked.keys, asked.key_bytes, asked.first, asked.distinct, asked.counts, asked.codes,
                    asked.size, asked.seed if by_seed else 0,
                ),
                np.int64,
            )  # fmt: skip
            if asked.first_rows:
                assert asked.first, "groups in any order have no first rows"
                where = np.unique(groups, return_index=True)[1]
                at(asked.first_rows, len(where), 8)[:] = where
            if asked.values:
                values = at(asked.values, asked.n, asked.value_bytes, "uif"[asked.value_type])
                reduce(groups, values, asked.aggregates)

        cuda.queue(asked.stream, run)
        if not asked.waits:
            assert meanwhile is None, "the call does not wait"
            return
        if meanwhile:
            meanwhile()
        cuda.bring(asked.stream)
        call.found = int(at(asked.size, 1, 8)[0])

    copy = _cuda.copy

    def copied(to: int, source: int, nbytes: int, stream: int) -> None:
        cuda.bring(stream)  # what it reads, kernels that are queued may still have to write
        copy(to, source, nbytes, stream)
        cuda.bring(stream)  # operations of this CuPy do not queue, so that what they read has to be there

    monkeypatch.setattr(_cuda, "copy", copied)
    monkeypatch.setattr(_core.groups, "group", fake)
    _core.results.expected.clear()


def isin(monkeypatch: pytest.MonkeyPatch, cuda: Any, calls: list[tuple[Any, ...]]) -> None:
    """Which elements are among others; `calls` gets what each call asks for."""

    def fake(
        ordinal: int, n: int, keys: int, others: int, among: int, key_bytes: int, seed: int, out: int,
        scratch: int, nbytes: int, stream: int,
    ) -> None:  # fmt: skip
        calls.append((n, others, key_bytes, seed, stream))
        assert nbytes == _core.isin_scratch(n, others, key_bytes)
        cuda.bring(stream)
        at(out, n, 1)[:] = np.isin(at(keys, n, key_bytes), at(among, others, key_bytes))

    monkeypatch.setattr(_core, "isin", fake)


@contextlib.contextmanager
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, list[tuple[Any, ...]]]]:
    """Gives (a function that makes an array of CuPy, what the kernels are asked for)."""
    with fake_cuda.installed(monkeypatch) as cuda:
        calls: list[tuple[Any, ...]] = []

        group(monkeypatch, cuda, calls)

        isin(monkeypatch, cuda, calls)

        class Join:
            def __init__(
                self, ordinal: int, n_left: int, left: int, n_right: int, right: int, key_bytes: int, keep: bool,
                seed: int, first: int, facts: int, scratch: int, nbytes: int, stream: int,
            ) -> None:  # fmt: skip
                calls.append((n_left, n_right, key_bytes, keep, seed, stream, first != 0))
                assert nbytes == _core.join_scratch(n_left, n_right, key_bytes, first == 0)
                self.given = at(right, n_right, key_bytes), at(left, n_left, key_bytes)
                self.first, self.facts, self.stream, self.keep = first, at(facts, 2, 8), stream, keep

            def start(self, left_rows: int, right_rows: int) -> tuple[int, int]:
                cuda.bring(self.stream)
                _, where, inverse = np.unique(np.concatenate(self.given), return_index=True, return_inverse=True)
                firsts, m = where[inverse], len(self.given[0])
                known = firsts[m:] < m
                rows = np.arange(len(known)) if self.keep else np.flatnonzero(known)
                self.facts[:] = len(rows), (firsts[:m] != np.arange(m)).sum()
                if self.first:
                    at(self.first, len(firsts), 4)[:] = firsts
                elif self.facts[1]:
                    often = np.bincount(firsts[:m]).max() > 10
                    self.facts[:] = (0, 2) if often else (len(self.pairs()), 1)
                if not self.facts[1]:
                    at(left_rows, len(rows), 8)[:] = rows
                    at(right_rows, len(rows), 8)[:] = np.where(known, firsts[m:], -1)[rows]
                return int(self.facts[0]), int(self.facts[1])

            def pairs(self) -> list[tuple[int, int]]:
                rows = [np.flatnonzero(self.given[0] == key).tolist() for key in self.given[1]]
                return [(i, j) for i, met in enumerate(rows) for j in met or [-1] * self.keep]

            def write_pairs(self, pairs: int, left_rows: int, right_rows: int) -> None:
                cuda.bring(self.stream)
                assert (pairs, 1) == tuple(self.facts)
                for column, place in enumerate((left_rows, right_rows)):
                    if pairs:
                        at(place, pairs, 8)[:] = [pair[column] for pair in self.pairs()]

        class BytesCall(fake_bytes.BytesCall):
            bring = staticmethod(cuda.bring)

        monkeypatch.setattr(_core, "BytesCall", BytesCall)
        monkeypatch.setattr(_core, "ungroup", fake_bytes.ungroup(cuda.bring))
        monkeypatch.setattr(_core, "Join", Join)
        monkeypatch.setattr(_device_groups, "KERNELS", True)
        monkeypatch.setattr(_table_verbs, "Table", None)
        yield fake_libraries.cupy(monkeypatch).asarray, calls


def arithmetic(monkeypatch: pytest.MonkeyPatch, array: Any) -> None:
    """Joins whose right rows repeat too often to be listed: numpy does the arithmetic on whole arrays of a GPU."""
    xp, meet = _device_joins.operations(np), _device_joins.meet
    monkeypatch.setattr(_device_joins, "operations", lambda *library: None)
    monkeypatch.setattr(
        _device_joins, "meet", lambda _, first, m, keep: tuple(map(array, meet(xp, host(first), m, keep)))
    )


def at(address: int, n: int, nbytes: int, kind: str = "i") -> Array:
    return np.frombuffer((ctypes.c_char * (n * nbytes)).from_address(address), f"{kind}{nbytes}")


def find(
    n: int, keys: int, key_bytes: int, first: bool, distinct: int, counts: int, codes: int, size: int, seed: int = 0
) -> bytes:
    """What the kernels do: by appearance, or from the largest one down where any order will do, turned by the seed.
    Returns the codes."""
    found, where, inverse, many = np.unique(
        at(keys, n, key_bytes), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(where) if first else np.roll(np.arange(len(found))[::-1], seed % len(found))
    at(distinct, len(found), key_bytes)[:] = found[order]
    if counts:
        at(counts, len(found), 8)[:] = many[order]
    if codes:
        at(codes, n, 8)[:] = np.argsort(order)[inverse]
    at(size, 1, 8)[:] = len(found)
    return np.argsort(order)[inverse].astype(np.int64).tobytes()


def reduce(codes: Array, values: Array, aggregates: tuple[int, ...]) -> None:
    """The aggregates of each group: sums, means, the smallest and the largest value."""
    groups, wide = int(codes.max()) + 1, np.dtype(f"{values.dtype.kind}8")
    sums, low, high = np.zeros(groups, wide), np.full(groups, values.max()), np.full(groups, values.min())
    np.add.at(sums, codes, values.astype(wide))
    with np.errstate(invalid="ignore"):  # by NaNs
        np.minimum.at(low, codes, values)
        np.maximum.at(high, codes, values)
        results = (sums, sums / np.bincount(codes), low, high)
    for place, result in zip(aggregates, results, strict=True):
        if place:
            at(place, groups, result.itemsize, result.dtype.kind)[:] = result


def host(array: Any) -> Array:
    return np.asarray(getattr(array, "array", array))
