"""Tables in shards on two cards: batches that lie on either, of CuPy and PyTorch, against what has to be there."""

from __future__ import annotations

import threading

import numpy as np
import on_cards
import pytest

import pygpuhash as gh
from pygpuhash import _peers, sharded

pytestmark = pytest.mark.gpu2

CARDS = ["cuda:0", "cuda:1"]
N = 300_007


@pytest.fixture(params=[1, 3])
def chunks(request):
    return request.param


def make(chunks=1, devices=CARDS, **how):
    return sharded.Table(transport=sharded.Local(devices, chunks=chunks), **({"key_dtype": "int64"} | how))


def distinct(seed, n=N):
    return np.random.default_rng(seed).permutation(np.unique(np.random.default_rng(seed).integers(0, 2**62, n)))


@pytest.mark.parametrize("backend", ["linear_probe", "slab_hash", "hive", "skiplist", "stadium"])
@pytest.mark.parametrize("card", [0, 1])
def test_operations_are_those_of_a_dict(on_a_card, chunks, backend, card):
    keys = distinct(3)
    values = keys // 3
    half = len(keys) // 2
    with make(chunks, backend=backend) as table:
        put, get = (lambda array: on_a_card.put(array, card)), on_a_card.get
        assert get(table.insert(put(keys[:half]), put(values[:half]))).all()
        mask = table.insert_or_assign(put(keys), put(values + 1))
        assert on_a_card.card(mask) == card
        assert np.array_equal(get(mask), np.arange(len(keys)) >= half)
        assert not get(table.accumulate(put(keys), put(values))).any()
        assert not get(table.accumulate(put(keys), 1)).any()
        found_values, found = table.find(put(np.concatenate([keys, ~keys])))
        assert on_a_card.card(found_values) == on_a_card.card(found) == card
        assert np.array_equal(get(found), np.arange(2 * len(keys)) < len(keys))
        assert np.array_equal(get(found_values)[: len(keys)], 2 * values + 2)
        assert get(table.erase(put(keys[::2]))).all()
        assert np.array_equal(get(table.contains(put(keys))), np.arange(len(keys)) % 2 == 1)
        assert np.array_equal(table.contains(keys), np.arange(len(keys)) % 2 == 1)  # of the host
        assert len(table) == len(keys) // 2
        assert _peers.reaches(0, 1) == (table.stats["over host"] == [])
        table.check()


@pytest.mark.parametrize(
    ("key", "value"), [("int32", "float32"), ("uint32", None), ("int16", "int16"), ("float64", "i8")]
)
def test_dtypes(on_a_card, chunks, key, value):
    keys = np.unique(np.random.default_rng(1).integers(0, 2**14, 20_000)).astype(key)
    with make(chunks, key_dtype=key, value_dtype=value, shards=5) as table:
        given = [] if value is None else [on_a_card.put(np.arange(len(keys)).astype(value))]
        put = on_a_card.put(keys.view("int32")) if key == "uint32" else on_a_card.put(keys)
        assert on_a_card.get(table.insert(put, *given)).all()
        values, found = table.find(put)
        assert on_a_card.get(found).all()
        if value is not None:
            assert np.array_equal(on_a_card.get(values), np.arange(len(keys)).astype(value))
        assert table.contains(keys).all()
        table.check()


@pytest.mark.parametrize("kind", [("uint8", (16,)), ("int32", (3,)), ("float32", (1,))], ids=str)
@pytest.mark.parametrize("shards", [2, 300])
def test_rows_of_numbers_are_keys(on_a_card, chunks, kind, shards):
    base, (width,) = np.dtype(kind[0]), kind[1]
    numbers = np.arange(30_000)
    keys = np.random.default_rng(2).integers(0, 2, (len(numbers), width)).astype(base)
    keys[:, 0], keys[:, -1] = (numbers % 251, numbers // 251) if width > 1 else (numbers, numbers)
    with make(chunks, key_dtype=kind, shards=shards) as table:
        assert on_a_card.get(table.insert(on_a_card.put(keys[:20_000]), on_a_card.put(numbers[:20_000]))).all()
        assert table.insert(keys[20_000:], numbers[20_000:]).all()  # of the host: the same shards
        for card in (0, 1):
            values, found = table.find(on_a_card.put(keys, card))
            assert on_a_card.get(found).all()
            assert np.array_equal(on_a_card.get(values), numbers)
        assert np.array_equal(table.find(keys)[0], numbers)
        table.check()


def test_threads_of_both_cards(on_a_card, chunks):
    """Each card has batches of its own, at the same time."""
    with make(chunks) as table:
        failures = []

        def work(card):
            try:
                for turn in range(6):
                    keys = distinct(100 + card * 10 + turn, 200_000)
                    put = on_a_card.put(keys, card)
                    assert on_a_card.get(table.insert(put, put)).all()
                    values, found = table.find(put)
                    assert on_a_card.get(found).all()
                    assert np.array_equal(on_a_card.get(values), keys)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(card,)) for card in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        table.check()


def test_a_batch_on_each_card(on_a_card, chunks):
    parts = [distinct(20), distinct(21, 100_000)]
    keys = [on_a_card.put(own, card) for card, own in enumerate(parts)]
    with make(chunks) as table:
        for mask in table.insert(keys, [on_a_card.put(own // 3, card) for card, own in enumerate(parts)]):
            assert on_a_card.get(mask).all()
        values, found = table.find(keys)
        for card in (0, 1):
            assert on_a_card.card(values[card]) == on_a_card.card(found[card]) == card
            assert on_a_card.get(found[card]).all()
            assert np.array_equal(on_a_card.get(values[card]), parts[card] // 3)
        assert all(on_a_card.get(mask).all() for mask in table.erase(keys))
        assert len(table) == 0


def test_streams_of_the_caller(chunks):
    """Keys that are still being made, and answers that are used at once, on a stream of the caller's."""
    cupy = pytest.importorskip("cupy")
    with make(chunks) as table, cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True):
        for turn in range(20):
            keys = (cupy.arange(N, dtype=cupy.int64) + turn * N) * 7919
            assert int(table.insert(keys, keys + 1).sum()) == N
            values, found = table.find(keys)
            values -= 1
            assert bool((values == keys).all() & found.all())
            del keys, values, found  # and their memory is used again
        assert len(table) == 20 * N


def test_a_shard_that_is_full(on_a_card, chunks):
    with make(chunks, backend="linear_probe", capacity=1 << 16, grow=False) as table:
        keys = distinct(5)
        with pytest.raises(gh.TableFull) as refused:
            table.insert(on_a_card.put(keys), on_a_card.put(keys))
        failed = refused.value.failed
        assert 0 < failed.sum() < len(keys)
        assert np.array_equal(np.sort(table.export()[0]), np.sort(keys[~failed]))


def test_shards_on_a_card_and_on_the_cpu(on_a_card, chunks):
    keys = distinct(6)
    with make(chunks, ["cuda:1", "cpu"]) as table:
        assert on_a_card.get(table.insert(on_a_card.put(keys), on_a_card.put(keys))).all()
        values, found = table.find(on_a_card.put(keys, 1))
        assert on_a_card.get(found).all()
        assert np.array_equal(on_a_card.get(values), keys)
        table.check()


def test_arrays_of_no_library():
    keys = distinct(9)
    with make() as table:
        there = gh.DeviceArray.from_dlpack(on_cards.Cupy().put(keys, 1))
        assert table.insert(there, there).get().all()
        values, found = table.find(there)
        assert type(values) is type(found) is gh.DeviceArray
        assert found.get().all()
        assert np.array_equal(values.get(), keys)


def test_copies_of_a_table(on_a_card):
    keys = distinct(7)
    with make() as table:
        table.insert(on_a_card.put(keys), on_a_card.put(keys))
        with table.replicate() as copy:
            for card in (0, 1):
                values, found = copy.find(on_a_card.put(keys, card))
                assert on_a_card.card(values) == card
                assert on_a_card.get(found).all()
                assert np.array_equal(on_a_card.get(values), keys)


def test_rows_travel_between_the_cards_alone():
    """Of a batch on one card half of the rows go to the other one, 16 bytes each, and a byte each comes back."""
    on_a_card = on_cards.Cupy()
    keys = distinct(8)
    with make() as table:
        table.insert(on_a_card.put(keys), on_a_card.put(keys))
        away = int((gh.shard_of(keys, 2) == 1).sum())
        assert table._transport.lanes.copied == away * (8 + 8 + 1)
