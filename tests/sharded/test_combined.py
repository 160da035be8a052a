"""Equal keys of a batch on a GPU are combined before they travel (pygpuhash/_combined.py), over fake cards.

As in test_device_batches.py everything that is queued waits for its turn. On cards that are there:
tests/gpu/test_combined.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _combined, _device_groups, sharded
from pygpuhash.errors import NoMemory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import fake_cuda
import fake_kernels
import fake_libraries
import fake_shards

CARDS = ["cuda:0", "cuda:1"]


@pytest.fixture
def cuda(monkeypatch):
    with fake_cuda.installed(monkeypatch) as fake:
        fake_shards.partition(monkeypatch, fake, [])
        fake_shards.collect(monkeypatch, fake)
        fake.allocates_late = True
        fake.grouped = []
        fake_kernels.group(monkeypatch, fake, fake.grouped, by_seed=True)
        fake_kernels.isin(monkeypatch, fake, [])
        monkeypatch.setattr(_device_groups, "KERNELS", True)
        monkeypatch.setattr(_combined, "_FEWEST", 64)
        monkeypatch.setattr(_combined, "_SAMPLE", 50)
        yield fake


@pytest.fixture
def cupy(cuda, monkeypatch):
    return fake_shards.cupy(monkeypatch, cuda)


@pytest.fixture
def make(cuda):
    def made(devices=CARDS, **how):
        return sharded.Table(transport=fake_shards.local(cuda)(devices), **how)

    return made


def skewed(rows, keys, dtype="u8", seed=1):
    random = np.random.default_rng(seed)
    return (random.integers(0, keys, rows) ** 2 // keys).astype(dtype)


def whole(cuda, rows):
    """How many calls for groups were of whole batches, which have so many rows. Those in the order of first appearance
    are for answers."""
    return sum(n == rows and not first for n, _, first, *_ in cuda.grouped)


def wanted_mask(keys, there):
    mask = np.zeros(len(keys), bool)
    found, first = np.unique(keys, return_index=True)
    mask[first] = [k not in there for k in found.tolist()]
    return mask


@pytest.mark.parametrize("key", ["u4", "i8", "f8"])
@pytest.mark.parametrize("value", ["u4", "i4", "u8", "i8", "f4", "f8"])
@pytest.mark.parametrize("op", ["add", "min", "max"])
@pytest.mark.parametrize("each", [False, True], ids=["one value", "a value each"])
def test_the_answers_are_those_of_each_row(cuda, cupy, make, key, value, op, each):
    put, n = cupy.asarray, 600
    random = np.random.default_rng(3)
    combined = op == "add" or value[0] != "f"
    low = 0 if value[0] == "u" else -(2**31) + 1
    with make(key_dtype=key, value_dtype=value) as table, gh.Table(key_dtype=key, value_dtype=value) as model:
        for turn in range(3):
            keys = skewed(n, 40 + 30 * turn, key, turn)
            # sums wrap; those of floats are exact
            amounts = random.integers(low, 2**31 - 1, n).astype(value) if value[0] != "f" else (
                random.integers(-9, 9, n).astype(value)
            )  # fmt: skip
            there = set(model.export()[0].tolist())
            given = (put(amounts), amounts) if each else (amounts[0].item(), amounts[0].item())
            mask = table.accumulate(put(keys), given[0], op=op)
            model.accumulate(keys, given[1], op=op)
            if combined:
                assert mask.array.tolist() == wanted_mask(keys, there).tolist()
            assert mask.array.sum() == len(set(keys.tolist()) - there)
        assert whole(cuda, n) == 3 * combined
        for own, amounts in (table.export(), model.export()):
            order = np.argsort(own)
            if own is not None and model is not None:
                keys, amounts = own[order], amounts[order]
                found = model.find(keys)
                assert found[1].all()
                assert amounts.tolist() == found[0].tolist()
        assert len(table) == len(model)


def test_of_several_batches_each_is_combined_on_its_card(cuda, cupy, make):
    def put(array, card):
        own = cupy.asarray(array)
        own.data.device_id = card
        return own

    keys = [skewed(600, 50, seed=card) for card in (0, 1)]
    with make() as table:
        masks = table.accumulate([put(own, card) for card, own in enumerate(keys)], 2)
        assert [type(mask) for mask in masks] == [cupy.ndarray] * 2
        assert sum(int(mask.array.sum()) for mask in masks) == len(table)
        amounts = [np.arange(600) * (card + 1) for card in (0, 1)]
        masks = table.accumulate(
            [put(own, card) for card, own in enumerate(keys)], [put(own, card) for card, own in enumerate(amounts)]
        )
        assert not any(mask.array.any() for mask in masks)
        every, sums = np.concatenate(keys), np.concatenate(amounts) + 2
        for key in set(every.tolist()):
            assert table.find(np.array([key], "u8"))[0][0] == sums[every == key].sum()
    assert whole(cuda, 600) == 4
    assert not cuda.pooled, "memory was not given back"
    assert not cuda.contexts


def test_a_sample_says_whether_it_pays(cuda, cupy, make, monkeypatch):
    put, n = cupy.asarray, 13_000
    monkeypatch.setattr(_combined, "_SAMPLE", 100)
    rows = np.arange(n)
    with make() as table:
        for keys, pays in (
            (np.random.default_rng(1).permutation(n), False),
            (rows // 2, False),  # twice each: the sample has none twice
            (np.random.default_rng(1).integers(0, 1000, n), True),  # a sample of 100 has most of these once
            (np.where(rows % 130 < 26, 7, rows), False),  # one frequent key, all others distinct
            (np.full(n, 3), True),
        ):
            del cuda.grouped[:]
            table.accumulate(put(keys.astype("u8")), 1)
            assert 100 <= cuda.grouped[0][0] <= 115
            assert whole(cuda, n) == pays, keys
        assert table.find(np.array([3], "u8"))[0][0] >= n


@pytest.mark.parametrize(
    ("times", "keys"), [([1] * 80 + [2] * 10, 90 + 320), ([3, 4, 5], 3), ([2, 9], 2), ([1, 3], 10_000), ([1, 2], 2.5)]
)
def test_keys_of_a_batch_from_those_of_a_sample(times, keys):
    batch = SimpleNamespace(n=10_000, on_host=np.asarray)
    assert _combined._Batch.keys_at_least(batch, SimpleNamespace(counts=times)) == keys


def test_shapes_and_tags(cuda, cupy, make):
    keys = skewed(120, 9).reshape(3, 40)
    with make() as table:
        mask = table.accumulate(cupy.asarray(keys), 1, tag="one")
        assert mask.array.shape == (3, 40)
        assert mask.array.reshape(-1).tolist() == wanted_mask(keys.reshape(-1), ()).tolist()
        again = table.accumulate(cupy.asarray(keys), 1, tag="one")
        assert again.array.shape == (3, 40)
        assert not again.array.any()
        assert table.export()[1].sum() == 120


def test_what_is_left_to_each_row(cuda, cupy, make):
    put = cupy.asarray
    keys = np.full(100, 5, "u8")
    with make() as table, make(key_dtype="u2") as narrow, make(value_dtype=None) as a_set:
        table.accumulate(put(keys[:63]), 1)  # too few rows
        table.accumulate(put(keys.astype("u4")), 1)  # of another dtype
        narrow.accumulate(put(keys.astype("u2")), 1)
        with pytest.raises(TypeError, match=r"this table is a set"):
            a_set.accumulate(put(keys), 1)
        with pytest.raises(ValueError, match=r"values have shape \(10, 10\), keys \(100,\)"):
            table.accumulate(put(keys), put(np.ones((10, 10), "i8")))
        with pytest.raises(gh.InvalidArgument, match=r"op='mean' is none of"):
            table.accumulate(put(keys), 1, op="mean")
        with pytest.raises(ValueError, match=r"values of 1 batches, and keys of 2"):
            table.accumulate([put(keys), put(keys)], [put(np.ones(100, "i8"))])
        with pytest.raises(gh.InvalidArgument, match=r"keys are on a CUDA device and values on the host"):
            table.accumulate(put(keys), np.ones(100, "i8"))
        table.accumulate([put(keys), put(keys[:7])], 1)  # one of them has too few rows
        assert not cuda.grouped
        assert table.find(keys[:1])[0][0] == 163 + 107


def test_nothing_is_queued_while_the_stream_is_captured(cuda, cupy, make, monkeypatch):
    keys = cupy.asarray(skewed(120, 9))
    with make() as table, fake_libraries.Stream(7):
        monkeypatch.setattr(cuda, "capturing", {7})
        with pytest.raises(gh.InvalidArgument, match="is being captured into a graph"):
            table.accumulate(keys, 1)
        monkeypatch.setattr(cuda, "capturing", set())
    assert not cuda.grouped


def test_without_memory_each_row_travels(cuda, cupy, make, monkeypatch):
    class OutOfMemoryError(Exception):
        pass

    begin = _device_groups.begin
    keys = skewed(300, 20)
    for error in (OutOfMemoryError("of a library"), NoMemory("of the driver")):

        def fails(where, dtype, first, error=error, **asked):
            if len(where.array) == 300:
                raise error
            return begin(where, dtype, first, **asked)

        monkeypatch.setattr(_combined, "_SAMPLE", 20)
        monkeypatch.setattr(_device_groups, "begin", fails)
        with make() as table:
            assert table.accumulate(cupy.asarray(keys), 1).array.sum() == len(set(keys.tolist()))
            assert table.export()[1].sum() == 300
    monkeypatch.setattr(_device_groups, "begin", lambda *_, **__: 1 / 0)
    with make() as table, pytest.raises(ZeroDivisionError):
        table.accumulate(cupy.asarray(keys), 1)


@pytest.mark.parametrize("several", [False, True])
def test_every_row_of_a_refused_key_is_refused(cuda, cupy, make, several, monkeypatch):
    monkeypatch.setattr(_combined, "_SAMPLE", 500)
    rows = skewed(2000, 700)
    keys = [rows, rows[::-1].copy()] if several else rows
    with make(capacity=64, grow=False) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.accumulate([cupy.asarray(own) for own in keys] if several else cupy.asarray(keys), 1)
        assert whole(cuda, 2000)
        status, every = caught.value.status, np.concatenate(keys) if several else keys
        assert status.shape == every.shape
        there = dict(zip(*(own.tolist() for own in table.export()), strict=True))
        for part in (slice(0, 2000), slice(2000, 4000)) if several else (slice(None),):
            own, of_rows = every[part], status[part]
            for key in set(own.tolist()):
                mine = of_rows[own == key]
                assert set(mine[1:].tolist()) <= {0} or (mine == mine[0]).all()
                assert (mine[0] > 1) == (key not in there) or several
        assert (status > 1).any()
        assert (status == 1).sum() == len(there)
