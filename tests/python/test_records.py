"""Keys and values of several numbers: rows, structured dtypes, bytes, complex numbers; in stadium and others."""

from __future__ import annotations

import numpy as np
import pytest

import pygpuhash as gh

N = 3000
XYZ = np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4")])


def rows(k: int, salt: int = 0, dtype: str = "u4") -> np.ndarray:
    """N distinct rows of k numbers. Neighbours differ in the last number only, or in the first only."""
    out = np.zeros((N, k), np.uint32)
    out[:, 0] = np.arange(N) // 2
    out[:, -1] += np.arange(N, dtype="u4") % 2 * np.uint32(0x80000000)
    return (out + np.uint32(salt)).view(dtype).reshape(N, -1)


def points() -> np.ndarray:
    out = np.zeros(N, XYZ)
    out["x"], out["y"], out["z"] = np.arange(N) % 7, -1, np.arange(N) // 7
    return out


def names(width: int) -> np.ndarray:
    return np.char.encode(np.arange(N).astype(str)).astype(f"S{width}")


def complexes(dtype: str) -> np.ndarray:
    return (np.arange(N) - 1j * (np.arange(N) % 5)).astype(dtype)


CASES = {
    "12+4": (("u4", 3), "u4", rows(3), np.arange(N, dtype="u4")),
    "16+64": (("u4", 4), ("u4", 16), rows(4), rows(16, 5)),
    "64+256": (("u4", 16), ("u4", 64), rows(16), rows(64, 9)),
    "256+0": (("u4", 64), None, rows(64), None),
    "12+8": (("u4", 3), "f8", rows(3), np.arange(N) / 3),
    "8+12": ("u8", ("i4", 3), np.arange(N, dtype="u8") << np.uint64(40), rows(3, 1, "i4")),
    "fields": (XYZ, ("f4", 8), points(), rows(8, 3).astype("f4")),
    "matrices": (("u4", (2, 2)), ("f8", (2, 3)), rows(4).reshape(N, 2, 2), np.arange(6.0 * N).reshape(N, 2, 3)),
    "bytes": ("S16", "complex128", names(16), complexes("c16")),
    "short": ("S8", "complex64", names(8), complexes("c8")),
}


@pytest.fixture(params=CASES, scope="module")
def case(request):
    return CASES[request.param]


def table(case, **options) -> gh.Table:
    return gh.Table("stadium", key_dtype=case[0], value_dtype=case[1], device="cpu", **options)


def same(got, expected) -> None:
    if expected is None:
        assert got is None
        return
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("ticket", [16, 8, 4, 2])
def test_every_operation(case, ticket):
    _, _, keys, values = case
    half = N // 2
    with table(case, ticket=ticket, seed=3) as t:
        assert t.insert(keys[:half], None if values is None else values[:half]).all()
        again = t.insert(keys, None if values is None else values[::-1].copy())
        assert not again[:half].any()
        assert again[half:].all()
        assert again.shape == (N,)
        found, there = t.find(keys)
        assert there.all()
        if values is not None:
            same(found[:half], values[:half])
            same(found[half:], values[: N - half][::-1].copy())
            t[keys] = values
            same(t[keys], values)
        assert t.erase(keys[:100]).all()
        assert not t.erase(keys[:100]).any()
        found, there = t.find(keys[:200])
        assert not there[:100].any()
        assert there[100:].all()
        if values is not None:
            assert not any(found[:100].tobytes())
        assert t.insert(keys[:50], None if values is None else values[:50]).all()
        assert len(t) == N - 50
        t.check()
        t.shrink()
        t.flush()
        t.check()
        assert t.contains(keys).sum() == N - 50


def test_export_holds_what_was_inserted(case):
    _, _, keys, values = case
    with table(case) as t:
        t.insert(keys, values)
        got, got_values = t.export()
        assert got.dtype == keys.dtype
        pairs = zip(got, got_values if values is not None else got, strict=True)
        wanted = zip(keys, values if values is not None else keys, strict=True)
        assert {(k.tobytes(), v.tobytes()) for k, v in pairs} == {(k.tobytes(), v.tobytes()) for k, v in wanted}


def test_one_key_and_outputs(case):
    _, _, keys, values = case
    with table(case) as t:
        t.insert(keys[:10], None if values is None else values[:10])
        assert keys[3] in t
        assert keys[11] not in t
        assert t.contains(keys[3])[()]
        if values is not None:
            assert np.asarray(t[keys[3]]).tobytes() == values[3].tobytes()
            out = np.ones_like(values[:20])
            mask = np.empty(20, bool)
            got, _ = t.find(keys[:20], out=out, found=mask)
            assert got is out
            assert out[:10].tobytes() == values[:10].tobytes()
            assert not any(out[10:].tobytes())
            t.insert_or_assign(keys[:20], values[0])  # one value for all
            assert np.asarray(t[keys[19]]).tobytes() == values[0].tobytes()
            t.insert_or_assign(keys[[5, 5, 5]], values[[7, 8, 9]], dedup="last")
            assert np.asarray(t[keys[5]]).tobytes() == values[9].tobytes()
        assert t.erase(keys[3])[()]
        with pytest.raises(KeyError, match="not in the table"):
            del t[keys[:20]]


def test_mixed_batches(case):
    _, _, keys, values = case
    with table(case) as t:
        t.insert(keys[: N // 2], None if values is None else values[: N // 2])
        ops = np.where(np.arange(N) % 2, gh.Op.FIND, gh.Op.ERASE).astype("u1")
        found, done = t.execute(ops, keys, values)
        assert (done == (np.arange(N) < N // 2)).all()
        if values is not None:
            odd = np.arange(N) % 2 == 1
            expected = values.copy()
            expected[~odd] = np.zeros((), expected.dtype)
            expected[N // 2 :] = np.zeros((), expected.dtype)
            same(found, expected)


def test_wide_keys_hash_every_word():
    for k in (2, 3, 16, 64):
        for word in range(k):
            keys = np.zeros((512, k), "u4")
            keys[:, word] = np.arange(512)
            with gh.Table("stadium", key_dtype=("u4", k), value_dtype=None, device="cpu", seed=1) as t:
                assert t.insert(keys).all()
                assert t.stats()["probe_max"] < 16


def test_an_element_is_read_where_it_lies():
    keys, values = rows(3), rows(5)
    strided = np.repeat(keys, 2, axis=0)[::2]
    shifted = np.frombuffer(b"x" + keys.tobytes(), "u1")[1:].view("u4").reshape(N, 3)
    with gh.Table("stadium", key_dtype=("u4", 3), value_dtype=("u4", 5), device="cpu") as t:
        t.insert(strided, values)
        same(t[shifted], values)
        same(t[keys.astype("i8")], values)
        assert t.find(keys.reshape(2, -1, 3))[1].shape == (2, N // 2)
        assert t.find(keys[:0])[0].shape == (0, 5)


def test_small_records_work_on_every_backend():
    for backend in ("linear_probe", "slab_hash", "stadium"):
        with gh.Table(backend, key_dtype=("u4", 2), value_dtype="S4", device="cpu") as t:
            t.insert(rows(2), names(4))
            same(t[rows(2)], names(4))


def test_accumulate_takes_single_numbers():
    with gh.Table("stadium", key_dtype=("i4", 3), value_dtype="i8", device="cpu") as t:
        assert t.accumulate([[1, 2, 3], [1, 2, 3], [4, 5, 6]], 5).sum() == 2
        assert t[[1, 2, 3]] == 10
    for dtype in ("S16", "complex64", ("f4", 2), ("f4", 8)):
        with gh.Table("stadium", value_dtype=dtype, device="cpu") as t:
            with pytest.raises(TypeError, match="cannot be accumulated"):
                t.accumulate([1], np.zeros((), dtype))
            with pytest.raises(gh.InvalidArgument, match=r"ops\[0\] is ACCUMULATE"):
                t.execute([gh.Op.ACCUMULATE], [1])


def test_the_library_refuses_to_accumulate_wide_values():
    keys, values = np.arange(4, dtype="u8"), np.ones((4, 4), "u4")
    with gh.Table("stadium", value_dtype=("u4", 4), device="cpu") as t:
        failure = t._raw(3, 4, keys.ctypes.data, values.ctypes.data)
        assert isinstance(failure, gh.Unsupported)
        assert "values of 4 or 8 bytes, and this table's have 16" in str(failure)
        assert len(t) == 0


@pytest.mark.parametrize(("width", "accumulates"), [(1, True), (2, True), (3, False), (4, False)])
def test_the_library_refuses_to_accumulate_wide_values_within_execute(width, accumulates):
    """Values of 4 and 8 bytes are accumulated; of wider ones that element alone is left out, and has status 4."""
    keys, values = np.arange(4, dtype="u8"), np.full((4, width), 7, "u4")
    ops = np.array([gh.Op.INSERT, gh.Op.INSERT, gh.Op.ACCUMULATE, gh.Op.ASSIGN], "u1")
    keys[2] = 1
    status = np.full(4, 0xEE, "u1")
    with gh.Table("stadium", value_dtype=("u4", width) if width > 1 else "u4", device="cpu") as t:
        run = t._raw(9, 4, keys.ctypes.data, values.ctypes.data, 0, status.ctypes.data, ops.ctypes.data)
        if accumulates:
            assert not isinstance(run, Exception)
            assert status.tolist() == [1, 1, 0, 1]
            assert np.frombuffer(t[keys[1]].tobytes(), "u4").tolist()[0] == 14
        else:
            assert isinstance(run, gh.InvalidArgument)
            assert "ops[2] is 3, which needs values of 4 or 8 bytes" in str(run)
            assert status.tolist() == [1, 1, 4, 1]
            assert t[keys[1]].tolist() == [7] * width
        assert len(t) == 3


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("S6", "has 6 bytes.*8 bytes wide"),
        (np.dtype([("a", "u1"), ("b", "u4")], align=True), "3 bytes of padding"),
        ([("a", "O")], "Python objects"),
        ([("a", ">u4")], "byte order"),
        ("V12", "no fields"),
        (("u2", 3), "6 bytes, elements have a multiple of 4: make it 8 bytes wide"),
        (("u4", 0), "0 bytes, elements have a multiple of 4: make it 4 bytes wide"),
        ("U4", "is text, and tables hold bytes"),
    ],
)
def test_dtypes_that_are_refused(dtype, words):
    with pytest.raises(TypeError, match=f"key_dtype=.*{words}"):
        gh.Table("stadium", key_dtype=dtype)


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant != 63, reason="this processor's long double is not the one of x87 with its padding"
)
@pytest.mark.parametrize("dtype", ["clongdouble", [("a", "longdouble")], [("a", "u4"), ("b", "longdouble", 2)]])
def test_long_doubles_have_padding(dtype):
    with pytest.raises(TypeError, match=r"bytes of padding.*: pass float64 or complex128"):
        gh.Table("stadium", key_dtype=dtype)


def test_sizes_that_are_refused():
    for arguments in ({"key_dtype": ("u4", 65)}, {"value_dtype": ("u4", 65)}):
        with pytest.raises(gh.Unsupported, match="is 260; stadium takes multiples of 4 up to 256"):
            gh.Table("stadium", device="cpu", **arguments)
    with pytest.raises(gh.Unsupported, match="backend 'linear_probe' takes 4 or 8"):
        gh.Table("linear_probe", key_dtype=("u4", 3), device="cpu")


@pytest.mark.parametrize("dtype", ["S8", "complex128", [("x", "i4"), ("y", "i4")], ("u4", 2)])
def test_masked_arrays_are_refused(dtype):
    masked = np.ma.masked_all(2, dtype)
    with gh.Table("stadium", key_dtype=dtype, device="cpu") as table:
        with pytest.raises(TypeError, match=r"keys is a masked array.*compressed"):
            table.insert(masked, 1)
        assert len(table) == 0


@pytest.mark.parametrize("dtype", ["S8", "u8", "u2"])
def test_a_matrix_is_an_array(dtype):
    keys = np.array([[1, 2], [2, 3]]).astype(dtype).view(np.matrix)
    with gh.Table(key_dtype=dtype, value_dtype="u4", device="cpu") as table:
        assert table.insert_or_assign(keys, [[5, 6], [7, 8]], dedup="last").tolist() == [[True, False], [True, True]]
        assert table[keys].tolist() == [[5, 7], [7, 8]]
        table[keys] = np.array([[1, 2], [3, 4]]).view(np.matrix)
        assert table[keys].tolist() == [[1, 3], [3, 4]]


def test_arrays_that_are_refused():
    with gh.Table("stadium", key_dtype=("u4", 3), value_dtype=None, device="cpu") as t:
        with pytest.raises(ValueError, match=r"shape \(3000, 4\).*pass shape \(n, 3\)"):
            t.insert(rows(4))
        with pytest.raises(TypeError, match="float64"):
            t.insert(rows(3).astype("f8"))
        with pytest.raises(OverflowError, match="does not fit"):
            t.insert([[1, 2, -3]])
        assert len(t) == 0
    with gh.Table("stadium", key_dtype="S4", value_dtype=None, device="cpu") as t:
        with pytest.raises(TypeError, match=r"np\.char\.encode"):
            t.insert(["abc"])
        with pytest.raises(TypeError, match=r"np\.char\.encode\(np\.asarray\(keys, str\)\)"):
            t.insert(np.array(["abc"], object))
        with pytest.raises(TypeError, match="keys are NoneType and bytes"):
            t.insert(np.array([b"abc", None], object))
        for given in ([b"abcde"], np.array([b"abcde"], object)):
            with pytest.raises(OverflowError, match=r"has 5 bytes.*at most 4"):
                t.insert(given)
        assert t.insert([]).size == 0
        t.insert(np.array([b"ab", b"abcd"], object))
        assert b"ab" in t
        assert b"abc" not in t
    with gh.Table("stadium", key_dtype=XYZ, value_dtype=None, device="cpu") as t:
        t.insert([(1, 2, 3), (4, 5, 6)])
        assert (4, 5, 6) in t
        with pytest.raises(TypeError, match=r"pass np.rec.fromarrays\(columns, dtype="):
            t.insert(np.zeros(2, [("x", "i4"), ("y", "i4")]))


def test_values_wider_than_a_word_are_whole_beside_inserts_and_finds():
    """Inserting and finding wide values at the same time shows no value in pieces."""
    import threading

    keys, values = rows(3), np.repeat(np.arange(N, dtype="u4")[:, None], 16, axis=1)
    with gh.Table("stadium", key_dtype=("u4", 3), value_dtype=("u4", 16), device="cpu", threads=1) as t:
        torn = []

        def look() -> None:
            for _ in range(40):
                got, found = t.find(keys)
                torn.append(bool((got[found] != values[found]).any()))

        reader = threading.Thread(target=look)
        reader.start()
        for start in range(0, N, 50):
            t.insert(keys[start : start + 50], values[start : start + 50])
        reader.join()
        assert not any(torn)
        assert len(t) == N


def test_elements_of_8_bytes_at_addresses_of_4():
    """Rows of two 4-byte numbers are stored as one word of 8 bytes, and may lie where none may."""
    memory = np.arange(2 * N + 1, dtype="u4")
    for shift in range(2):
        given = memory[shift : shift + 2 * N].reshape(N, 2)
        with gh.Table("linear_probe", key_dtype=("u4", 2), value_dtype=("i4", 2), device="cpu") as t:
            assert t.insert(given, given.view("i4")).all()
            assert (t[given] == given.view("i4")).all()
            assert t.contains(given.copy()).all()


def test_bytes_as_long_as_the_tables_from_a_wider_array():
    given = np.array([b"12345678", b"1", b"12345678901"], "S12")
    with gh.Table("linear_probe", key_dtype="S8", device="cpu") as t:
        assert t.insert(given[:2], 1).all()
        assert t.contains(np.array([b"12345678", b"1"], "S8")).all()
        with pytest.raises(OverflowError, match="an element has 11 bytes, the table's have at most 8"):
            t.insert(given, 1)


@pytest.mark.parametrize("given", [7, 1.5, [1, 2], [[1, 2], [3, 4]], [(1, 2), 3], [[(1, 2)], [5]]])
def test_numbers_are_no_elements_of_fields(given):
    """numpy writes a number into every field, so that [1, 2] would be the keys (1, 1) and (2, 2)."""
    with gh.Table("hive", key_dtype=[("a", "i4"), ("b", "i4")], device="cpu") as t:
        t.insert([(1, 1), (1, 2)], [3, 4])
        for call in (t.find, t.contains, t.erase, lambda keys: t.insert(keys, 5), lambda keys: t[keys]):
            with pytest.raises(TypeError, match=r"is no element of .*: pass a tuple of 2 for each"):
                call(given)
        assert len(t) == 2
        assert t[(1, 2)] == 4
        assert t[[[(1, 1)], [(1, 2)]]].tolist() == [[3], [4]]
        assert t[[np.array((1, 2), t.key_dtype)[()]]].tolist() == [4]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ((1.5, 2), TypeError, "field 'a': 1.5 is not an integer"),
        (("7", 2), TypeError, "field 'a'.*'7'"),
        ((7, "2"), TypeError, "field 'b'.*'2'"),
        ((None, 2), TypeError, "field 'a': None"),
        ((-1, 2), OverflowError, "field 'a': -1 does not fit uint32"),
        ((2**40, 2), OverflowError, "field 'a': 1099511627776 does not fit uint32"),
        ((1,), TypeError, "pass a tuple of 2"),
        ((1, 2, 3), TypeError, "pass a tuple of 2"),
    ],
)
def test_numbers_that_a_field_does_not_hold(given, error, words):
    """They are neither rounded nor parsed, alone and among others."""
    with gh.Table("hive", key_dtype=[("a", "u4"), ("b", "f4")], device="cpu") as t:
        t.insert([(1, 2), (7, 2), (3, 0.1)], 5)
        for call in (t.find, t.erase, lambda keys: t.insert(keys, 1)):
            for keys in (given, [(1, 2), given], [[(1, 2)], [given]]):
                with pytest.raises(error, match=words):
                    call(keys)
        assert len(t) == 3
        assert t[[(1, 2), (3, 0.1)]].tolist() == [5, 5]
        if error is OverflowError:
            assert given not in t
    nested = [("a", [("x", "i2"), ("y", "i2")]), ("b", "i4", (2,))]
    with gh.Table("stadium", key_dtype=nested, device="cpu") as t:
        assert t.insert([((1, 2), [3, 4])], 5).all()
        assert t[((1, 2), [3, 4])] == 5
        with pytest.raises(TypeError, match=r"field 'a', field 'x': 1.5 is not an integer"):
            t.find([((1.5, 2), [3, 4])])


@pytest.mark.parametrize(
    ("field", "given", "error", "words"),
    [
        ("i1", 128, OverflowError, "128 does not fit int8"),
        ("u1", -1, OverflowError, "-1 does not fit uint8"),
        ("?", 2, OverflowError, "2 does not fit bool"),
        ("f4", 2**24 + 1, TypeError, "the integer 16777217 has no exact float32"),
        ("f2", 1e6, OverflowError, "1000000.0 does not fit float16"),
        ("f2", 65520.0, OverflowError, "65520.0 does not fit float16"),
        ("f2", -65520.0, OverflowError, "-65520.0 does not fit float16"),
        ("f2", 2049, TypeError, "the integer 2049 has no exact float16"),
        ("f4", 1e300, OverflowError, r"1e\+300 does not fit float32"),
        ("M8[s]", 5, TypeError, r"5 is not of the table's datetime64"),
    ],
)
def test_what_a_field_of_each_sort_does_not_hold(field, given, error, words):
    dtype = [("a", field), ("b", "S4"), ("c", f"S{4 - np.dtype(field).itemsize % 4}")]
    with gh.Table("stadium", key_dtype=dtype, device="cpu") as t:
        for keys in ((given, b"", b""), [(given, b"", b""), (given, b"x", b"")]):
            with pytest.raises(error, match=f"field 'a': {words}"):
                t.find(keys)


def test_records_as_keys_of_a_mapping():
    with gh.Table("hive", key_dtype=[("a", "i4"), ("b", "f4")], device="cpu") as t:
        t.insert([(1, 1)], [3])
        assert t.get((1, 2), 7) == 7
        assert t.get((1, 2), None) is None
        assert t.get((1, 1), 7) == 3
        assert (1, 2**24 + 1) not in t
        with pytest.raises(TypeError, match="'in' takes one key, 2 were given"):
            [(1, 1), (1, 2)] in t  # noqa: B015


def test_slices_of_keys_without_an_order():
    with (
        gh.Table("skiplist", key_dtype=[("a", "u4"), ("b", "u4")], device="cpu") as t,
        pytest.raises(gh.Unsupported, match="keys are not kept in the order of their values"),
    ):
        t[(1, 0) : (2, 0)]


def test_bytes_of_no_width():
    with pytest.raises(TypeError, match=r"has no width: pass how many bytes .* 'S16'"):
        gh.Table("stadium", key_dtype="S", device="cpu")
    with pytest.raises(TypeError, match=r"has no width: pass how many bytes .* 'S16'"):
        gh.Table("stadium", value_dtype=bytes, device="cpu")


def test_the_way_from_other_fields_is_told():
    """What the message says to pass is taken, and finds the same pair."""
    asked = np.dtype([("x", "i4"), ("y", "i4")])
    with gh.Table(key_dtype=asked, device="cpu") as table:
        table.insert([(1, 2)], 7)
        keys = np.array([(2, 1)], [("y", "i8"), ("x", "i8")])
        with pytest.raises(TypeError, match=r"pass keys\[\['x', 'y'\]\].astype\("):
            table.find(keys)
        assert table.find(keys[["x", "y"]].astype(asked))[0].tolist() == [7]
        columns = np.array([[1], [2]])
        with pytest.raises(TypeError, match=r"pass np.rec.fromarrays\(columns, dtype="):
            table.find(columns.T)
        assert table.find(np.rec.fromarrays(columns, dtype=asked))[0].tolist() == [7]


def test_the_way_from_a_frame_is_told():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    asked = np.dtype([("x", "i4"), ("y", "i4")])
    keys = pandas.DataFrame({"y": [2], "x": [1]})
    with gh.Table(key_dtype=asked, device="cpu") as table:
        table.insert([(1, 2)], 7)
        with pytest.raises(TypeError, match=r"pass keys\[\['x', 'y'\]\].to_records\(index=False\).astype\("):
            table.find(keys)
        assert table.find(keys[["x", "y"]].to_records(index=False).astype(asked))[0].tolist() == [7]


@pytest.mark.parametrize("value_dtype", ["datetime64[s]", "timedelta64[ns]", "S8", ("u4", 3), "complex64"])
def test_get_without_a_default(value_dtype):
    """What find has for a key that is absent, whatever the values are: for an array of keys, and for one."""
    with gh.Table("stadium", value_dtype=value_dtype, device="cpu") as table:
        found = table.find([5])[0]
        assert not found.view(np.uint8).any()
        assert table.get([5]).dtype == found.dtype
        assert table.get([5]).tolist() == found.tolist()
        assert np.asarray(table.get(5)).dtype.kind == found.dtype.kind
        assert np.asarray(table.get(5)).tolist() == found[0].tolist()
        assert table.get(5, None) is None
