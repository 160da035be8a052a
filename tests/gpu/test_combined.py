"""Equal keys of a batch that are combined before they travel, on one card and on two, beside rows that are not."""

from __future__ import annotations

import numpy as np
import on_cards
import pytest

import pygpuhash as gh
from pygpuhash import _combined, _core, sharded

N = 300_007


@pytest.fixture(
    params=[
        pytest.param(["cuda:0"], marks=pytest.mark.gpu),
        pytest.param(["cuda:0", "cuda:1"], marks=pytest.mark.gpu2),
    ],
    ids="+".join,
)
def cards(request):
    return request.param


def make(cards, key, value, **how):
    return sharded.Table(transport=sharded.Local(cards), key_dtype=key, value_dtype=value, **how)


@pytest.mark.parametrize("key", ["u4", "i8", "f4"])
@pytest.mark.parametrize("value", ["u4", "i4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_the_answers_are_those_of_each_row(on_a_card, cards, key, value, op, monkeypatch):
    if type(on_a_card) is on_cards.Torch and "u" in (key[0], value[0]) and not hasattr(on_a_card.module, "uint32"):
        pytest.skip("this PyTorch has no unsigned integers of 4 and 8 bytes")
    rows_of_calls, group = [], _core.group

    def noted(call, meanwhile=None):
        rows_of_calls.append(call.arguments()["n"])
        group(call, meanwhile)

    monkeypatch.setattr(_core.groups, "group", noted)
    rng = np.random.default_rng(5)
    keys = [(rng.zipf(1.3, N) % 5000).astype(key) for _ in cards]
    amounts = [rng.integers(0 if value[0] == "u" else -20, 20, N).astype(value) for _ in cards]  # whose sums are exact
    with make(cards, key, value) as table, make(cards, key, value) as rows:
        for given in (amounts, amounts[0][0].item()):
            for fewest, wanted in ((1000, True), (1 << 40, False)):
                monkeypatch.setattr(_combined, "_FEWEST", fewest)
                own = [on_a_card.put(part, card) for card, part in enumerate(keys)]
                values = [on_a_card.put(part, card) for card, part in enumerate(given)] if given is amounts else given
                del rows_of_calls[:]
                masks = (table if wanted else rows).accumulate(own, values, op=op)
                combined = N in rows_of_calls
                assert combined is (wanted and (op == "add" or value[0] != "f"))
                assert [on_a_card.card(mask) for mask in masks] == list(range(len(cards)))
                new = sum(int(on_a_card.get(mask).sum()) for mask in masks)
                assert new == (len(set(np.concatenate(keys).tolist())) if given is amounts else 0)
                if given is amounts and combined:
                    where = np.unique(keys[0], return_index=True)[1]
                    assert set(np.flatnonzero(on_a_card.get(masks[0]))) <= set(where.tolist())
        for (one, mine), (other, theirs) in [(table.export(), rows.export())]:
            assert np.array_equal(np.sort(one), np.sort(other))
            assert np.array_equal(mine[np.argsort(one)], theirs[np.argsort(other)])


def test_every_row_of_a_refused_key_is_refused(on_a_card, cards, monkeypatch):
    monkeypatch.setattr(_combined, "_FEWEST", 1000)
    keys = np.random.default_rng(6).integers(0, 2000, N).astype("i8")
    with make(cards, "i8", "i8", capacity=500, grow=False) as table:
        with pytest.raises(gh.TableFull) as caught:
            table.accumulate(on_a_card.put(keys), 1)
        status, there = caught.value.status, dict(zip(*(own.tolist() for own in table.export()), strict=True))
        assert status.shape == keys.shape
        assert (status == 1).sum() == len(there) < 2000
        refused = np.unique(keys[status > 1])
        assert sorted(set(range(2000)) - set(there)) == refused.tolist()
        assert (status[np.isin(keys, refused)] > 1).all()
        found, first = np.unique(keys, return_index=True)
        assert np.flatnonzero(status == 1).tolist() == sorted(first[np.isin(found, list(there))].tolist())
        assert there == {k: int((keys == k).sum()) for k in there}
