"""Single numbers take a short path of their own: it does what the long one does, for every sort of number."""

import math

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _mapping

DTYPES = ["uint32", "uint64", "int32", "int64", "float32", "float64", "int16", "bool"]

# Numbers at the edges of every dtype, in every guise.
NUMBERS = [
    *(0, 1, -1, True, 2**15, 2**24, 2**24 + 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32),
    *(2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30),
    *(0.0, -0.0, 1.0, 1.5, 1e-45, 3.4e38, 3.5e38, -1e308, math.inf, math.nan),
    *(np.uint64(2**64 - 1), np.int64(-5), np.uint32(7), np.float32(0.5), np.float64(0.1), np.int8(3), np.bool_(True)),
]


def outcome(call):
    """What a call does: its results as bytes with their types, or its error."""
    try:
        results = call()
    except (OverflowError, TypeError) as error:
        return type(error), str(error)
    return [(type(r), r.tobytes()) if isinstance(r, np.generic) else r for r in results]


def unpacked(results):
    return [np.asarray(r).reshape(-1)[0] for r in results]


def calls_of(short, long, number):
    """The same calls by the number itself, and by a list of it, which takes the long path."""
    x = [number]
    return [
        (lambda: [short.insert(number, number)], lambda: unpacked([long.insert(x, x)])),
        (lambda: short.find(number), lambda: unpacked(long.find(x))),
        (lambda: [short.contains(number)], lambda: unpacked([long.contains(x)])),
        (lambda: [short.count(number)], lambda: unpacked([long.count(x)])),
        (lambda: [short.insert_or_assign(number, 1)], lambda: unpacked([long.insert_or_assign(x, 1)])),
        (lambda: [short.get(number)], lambda: unpacked([long.get(x)])),
        (lambda: [short[number]], lambda: unpacked([long[x]])),
        (lambda: [short.accumulate(number, 1)], lambda: unpacked([long.accumulate(x, 1)])),
        (lambda: short.find(number), lambda: unpacked(long.find(x))),
        (lambda: [short.erase(number)], lambda: unpacked([long.erase(x)])),
        (lambda: [len(short)], lambda: [len(long)]),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_is_what_a_list_of_it_is(backend, dtype):
    for number in NUMBERS:
        with (
            gh.Table(backend, key_dtype=dtype, value_dtype=dtype, device="cpu", seed=1) as short,
            gh.Table(backend, key_dtype=dtype, value_dtype=dtype, device="cpu", seed=1) as long,
        ):
            calls = calls_of(short, long, number)
            for i, (a, b) in enumerate(calls):
                one, other = outcome(a), outcome(b)
                if isinstance(one, tuple):  # the words may differ: "element 0 is" where there are elements
                    assert one[0] == other[0], (number, i)
                    assert len(short) == 0
                else:
                    assert one == other, (number, i)


def test_one_value_for_many_keys(backend):
    for dtype in DTYPES:
        for value in (1, 1.0, True, np.dtype(dtype).type(1), np.int8(1)):
            if isinstance(value, float) and np.dtype(dtype).kind not in "f":
                continue
            for n in (0, 1, 2, 1000):
                with gh.Table(backend, value_dtype=dtype, device="cpu") as table:
                    assert table.insert(np.arange(n), value).all()
                    values = table[np.arange(n)]
                    assert values.dtype == dtype
                    assert (values == np.dtype(dtype).type(1)).all()


def test_keys_of_a_set(backend):
    with gh.Table(backend, value_dtype=None, device="cpu") as table:
        assert table.insert(5)
        assert not table.insert(5)
        assert 5 in table
        assert table.find(5) == (None, True)
        table[6] = None
        assert table.contains(6)
        assert table.count(6) == 1
        del table[5]
        assert 5 not in table
        for call in (lambda: table[6], lambda: table.get(6)):
            with pytest.raises(TypeError, match="is a set"):
                call()
        with pytest.raises(TypeError, match="pass no values"):
            table.insert(7, 1)
        with pytest.raises(TypeError, match="pass no values"):
            table.execute([gh.Op.INSERT], [7], 1)
        with pytest.raises(TypeError, match="is a set"):
            table.accumulate(7)
        assert len(table) == 1


def test_absent_keys(table):
    with pytest.raises(KeyError, match="5 is not in the table"):
        table[5]
    with pytest.raises(KeyError, match="5 is not in the table"):
        del table[5]
    assert table.get(5, "nothing") == "nothing"
    assert table.get(5) == 0
    with pytest.raises(TypeError, match="pass values"):
        table.insert(5)


@pytest.mark.slow
def test_more_absent_keys_than_31_bits_count():
    """Without the memory for so many: each is the same number, none was found."""
    many = (1 << 31) + 5
    said = _mapping.absent(np.broadcast_to(np.uint64(77), many), np.broadcast_to(False, many))
    assert said == f"{many} of {many} keys are not in the table, the first is 77"


@pytest.mark.parametrize("at", range(4))
def test_one_absent_key_among_others(table, at):
    keys = np.arange(4, dtype=np.uint64)
    table.insert(keys, keys)
    keys[at] = 77
    with pytest.raises(KeyError, match="1 of 4 keys are not in the table, the first is 77"):
        table[keys]
    with pytest.raises(KeyError, match="1 of 4 keys are not in the table, the first is 77"):
        del table[keys]
    assert len(table) == 1


def test_a_closed_table_refuses_numbers(backend):
    table = gh.Table(backend, device="cpu")
    table.close()
    for call in (
        lambda: table[1],
        lambda: table.__setitem__(1, 1),
        lambda: table.__delitem__(1),
        lambda: 1 in table,
        lambda: table.get(1),
        lambda: table.find(1),
        lambda: table.insert(1, 1),
        lambda: table.accumulate(1),
        lambda: table.erase(1),
        lambda: table.count(1),
    ):
        with pytest.raises(gh.ClosedTable):
            call()


def test_a_number_that_finds_no_room(backend):
    with gh.Table(backend, device="cpu", capacity=100, grow=False) as table:
        with pytest.raises(gh.TableFull):
            table.insert(np.arange(20_000), 1)
        (full,) = np.flatnonzero(~table.contains(np.arange(20_000)))[:1].tolist()
        size = len(table)
        for call in (
            lambda: table.insert(full, 1),
            lambda: table.__setitem__(full, 1),
            lambda: table.accumulate(full),
            lambda: table.insert_or_assign(full, 1, dedup="last"),
        ):
            with pytest.raises(gh.TableFull) as caught:
                call()
            assert caught.value.status.shape == ()
            assert caught.value.status >= 2
            assert caught.value.failed
        assert len(table) == size
        assert full not in table
