"""Tables whose keys are text or bytes: against dict, in every backend, with failures, threads and wrong input."""

import inspect
import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pygpuhash as gh
from pygpuhash import text_table
from pygpuhash.columns import _engine

WORDS = ["b", "a", "longer than twelve bytes", "", "a\0", "é" * 20, "x" * 1000]


@pytest.fixture
def text(backend):
    with gh.Table(backend, key_dtype=str, seed=7) as t:
        yield t
        if not t.closed:
            t.check()


@pytest.fixture
def eager(monkeypatch):
    """Few erased keys are worth a compaction."""
    monkeypatch.setattr(text_table, "_FEW", 3)


def index_size(table):
    return int(table.stats()["index_keys"])


# ---- against dict ----------------------------------------------------------------------------------------------------

KEY = st.sampled_from([*WORDS, *(f"word {i}" for i in range(12))])
STEP = st.tuples(
    st.sampled_from(["insert", "assign", "accumulate", "erase", "del", "find", "set", "clear", "shrink", "flush"]),
    st.lists(KEY, max_size=8),
    st.integers(0, 99),
)


@pytest.mark.parametrize("kind", [str, bytes])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=25))
def test_a_table_is_a_dict(backend, kind, eager, steps):
    model = {}
    with gh.Table(backend, key_dtype=kind, seed=3, threads=1) as table:
        for what, words, number in steps:
            keys = words if kind is str else [word.encode() for word in words]
            carry_out(table, model, what, keys, number)
            assert len(table) == len(model)
            assert index_size(table) <= max(2 * len(model), 3) + 2 * len(keys) + 3
        table.check()
        assert dict(table.items()) == model


def carry_out(table, model, what, keys, number):
    """One operation on a table and a dict."""
    before = dict(model)
    values = [number + i for i in range(len(keys))]
    if what == "insert":
        once = list(dict.fromkeys(keys))
        assert table.insert(once, number).tolist() == [key not in model for key in once]
        model.update((key, number) for key in once if key not in before)
    elif what == "assign":
        table.insert_or_assign(keys, values, dedup="last")
        model.update(zip(keys, values, strict=True))
    elif what == "set":
        table[keys] = values
        model.update(zip(keys, values, strict=True))
    elif what == "accumulate":
        table.accumulate(keys, number)
        for key in keys:
            model[key] = model.get(key, 0) + number
    elif what == "erase":
        once = list(dict.fromkeys(keys))
        assert table.erase(once).tolist() == [model.pop(key, None) is not None for key in once]
    elif what == "del":
        for key in keys:
            if key in model:
                del table[key], model[key]
            else:
                with pytest.raises(KeyError):
                    del table[key]
    elif what == "find":
        found, mask = table.find(keys)
        assert mask.tolist() == [key in model for key in keys]
        assert found.tolist() == [model.get(key, 0) for key in keys]
        assert table.get(keys, -5).tolist() == [model.get(key, -5) for key in keys]
        assert [key in table for key in keys] == mask.tolist() == table.contains(keys).tolist()
    else:
        getattr(table, what)()
        if what == "clear":
            model.clear()


# ---- scalars, columns, shapes ----------------------------------------------------------------------------------------


def test_scalars(text):
    assert text.insert("a", 5) is np.True_
    assert text.insert("a", 6) is np.False_
    assert text["a"] == 5
    assert text.find("a") == (5, True)
    assert text.find("none") == (0, False)
    assert text.get("none") == 0
    assert text.get("none", None) is None
    assert text.accumulate("a", 2) is np.False_
    for word in WORDS:  # alone and in a column it is one key
        text[word] = len(word)
        assert text.get([word])[0] == text[word] == len(word)
        assert word in text
        del text[word]
        assert word not in text
    text["a"] = 7
    text["b"] = 7
    assert text[np.str_("a")] == 7 == text[np.array("a")]
    assert "a" in text
    assert "none" not in text
    assert text.erase("a") is np.True_
    with pytest.raises(KeyError, match="'a' is not in the table"):
        text["a"]
    with pytest.raises(KeyError, match="'a' is not in the table"):
        del text["a"]
    del text["b"]
    assert not text
    assert text.keys().tolist() == []


def test_keys_of_any_length(text):
    text.insert(WORDS, range(len(WORDS)))
    assert text.get(WORDS).tolist() == list(range(len(WORDS)))
    keys, values = text.export()
    assert dict(zip(keys, values.tolist(), strict=True)) == {word: i for i, word in enumerate(WORDS)}
    assert sorted(text) == sorted(WORDS)
    assert sorted(text.values()) == list(range(len(WORDS)))
    assert dict(text.items()) == {word: i for i, word in enumerate(WORDS)}


def test_columns_of_libraries():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    words = ["b", "a", "b", "a\0"]
    columns = [words, tuple(words), np.array(words, object), np.array(words, np.dtypes.StringDType())]
    columns += [pd.Series(words), pd.Series(words, dtype="category"), pd.Index(words), pd.array(words, "string")]
    columns += [
        pl.Series(words),
        pl.Series(words, dtype=pl.Categorical),
        pa.array(words),
        pa.chunked_array([words[:1], words[1:]]),
    ]
    columns += [
        pa.array(words).dictionary_encode(),
        pa.array(words, pa.string_view()),
        pa.array(words, pa.large_string()),
    ]
    for column in columns:
        table = gh.Table(key_dtype=str, value_dtype="int32")
        assert type(table.accumulate(column)) is np.ndarray
        assert dict(table.items()) == {"b": 2, "a": 1, "a\0": 1}
        assert table[column].tolist() == [2, 1, 2, 1]
        table.erase(column)
        assert len(table) == 0
    table = gh.Table(key_dtype=bytes)
    for column in ([b"x\0", b""], pa.array([b"x\0", b""]), pl.Series([b"x\0", b""]), np.array([b"x\0", b""], object)):
        table.accumulate(column)
    assert dict(table.items()) == {b"x\0": 4, b"": 4}
    table = gh.Table(key_dtype=str)
    table.insert(words, 1)
    for like in (pl.Series([], dtype=pl.String), pd.Series([], dtype="str"), pa.array([], pa.string()), ["a"]):
        keys, values = table.export(like=like)
        assert type(keys) is (np.ndarray if isinstance(like, list) else type(like))
        assert sorted(keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys)) == ["a", "a\0", "b"]
        assert len(values) == 3
    with pytest.raises(TypeError, match="like is a ndarray whose type does not hold all keys"):
        table.export(like=np.array(["a"]))  # U, which has no text that ends in NUL


def test_key_dtypes():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for kind in (
        str,
        np.str_,
        np.dtypes.StringDType(),
        pa.string(),
        pa.string_view(),
        pl.String,
        pl.String(),
        pd.StringDtype(),
    ):
        assert gh.Table(key_dtype=kind).key_dtype is str
    for kind in (bytes, np.bytes_, pa.binary(), pa.large_binary(), pl.Binary):
        assert gh.Table(key_dtype=kind).key_dtype is bytes
    assert gh.Table(key_dtype="S16").key_dtype == "S16"  # of fixed width, in the table itself
    with pytest.raises(TypeError, match="pass 'S16'"):
        gh.Table(key_dtype="U16")
    with pytest.raises(TypeError, match="is neither text nor bytes"):
        gh.TextTable(key_dtype="u8")


def test_shapes_and_out(text):
    keys = np.array([["a", "b"], ["c", "a"]])
    mask = np.zeros((2, 2), bool)
    assert text.insert(keys[:1], [[1, 2]], out=np.zeros((1, 2), bool)).tolist() == [[True, True]]
    assert text.insert(["c"], 3, out=False) is None
    values = np.zeros((2, 2), "i8")
    assert text.find(keys, out=values, found=mask)[0] is values
    assert values.tolist() == [[1, 2], [3, 1]]
    assert mask.all()
    assert text.find(keys, found=False)[1] is None
    assert text.count(["a", "none"]).tolist() == [1, 0]
    assert text.insert([], []).tolist() == []


def test_values_of_all_kinds(backend):
    for dtype, value in (("float32", 1.5), ("M8[s]", np.datetime64(5, "s")), (None, None), ("bool", True), ("i1", -3)):
        table = gh.Table(backend, key_dtype=str, value_dtype=dtype)
        table.insert(["a", "b"], value)
        assert table.value_dtype == (None if dtype is None else np.dtype(dtype))
        if dtype is not None:
            assert table["a"] == value
            continue
        assert table.export()[1] is None
        assert list(table.items()) == [(key, None) for key in table]
        with pytest.raises(TypeError, match="is a set"):
            table["a"]
        table.erase("a")
        table.shrink()
        assert list(table) == ["b"]


def test_several_values_of_a_key(eager):
    table = gh.Table("slab_hash", key_dtype=str, duplicates=1)
    assert "multi" in table.traits
    for i in range(3):
        table.insert_multi(["a", "b"], i)
    table.insert_multi([f"{i}" for i in range(20)], 9)
    table.erase_all([f"{i}" for i in range(20)])
    assert index_size(table) < 20  # it was compacted
    offsets, values = table.find_all(["b", "none", "a"])
    assert offsets.tolist() == [0, 3, 3, 6]
    assert sorted(values[:3]) == sorted(values[3:]) == [0, 1, 2]
    assert table.count(["a", "none"]).tolist() == [3, 0]
    table.check()


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_figures(text, backend):
    assert isinstance(text, gh.Table)
    assert isinstance(text, gh.TextTable)
    empty = text.nbytes
    text.insert([f"{i:050d}" for i in range(1000)], 1)
    assert text.nbytes > empty + 50 * 1000
    assert text.size == len(text) == text.info["size"] == 1000
    assert text.backend == backend
    assert text.device == "cpu"
    assert text.stream is None
    assert text.seed == 7
    assert text.value_dtype == np.int64
    assert text.capacity >= 1000 or backend == "stadium"
    assert 0 < text.load_factor <= 1
    assert "ordered" not in text.traits
    assert f"{backend!r} str -> int64 on cpu, 1000 keys" in repr(text)
    assert text.stats()["index_bytes"] > 50 * 1000
    assert text.histogram(4).size == 4 or backend != "slab_hash"
    text.reserve(5000)
    assert text.capacity >= 5000


def test_every_operation_of_a_table_is_there():
    """What is inherited rests on export, info and contents_of; everything else is of its own."""
    rests = {
        "backend",
        "capacity",
        "items",
        "keys",
        "load_factor",
        "max_load_factor",
        "nbytes",
        "save",
        "seed",
        "size",
        "traits",
    }
    public = {name for name in dir(gh.Table) if not name.startswith("_")}
    own = {name for name in vars(gh.TextTable) if not name.startswith("_")}
    assert public - own == rests
    for name in own & public:
        of_table, mine = getattr(gh.Table, name), getattr(gh.TextTable, name)
        if callable(mine) and inspect.isfunction(of_table) and name not in ("range", "execute"):
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(of_table).parameters), name


# ---- erased keys -----------------------------------------------------------------------------------------------------


def test_the_bytes_of_erased_keys_are_given_back(backend, monkeypatch):
    """A table of 500 keys at a time, through which 20,000 pass: no more than so many bytes, and few compactions."""
    monkeypatch.setattr(text_table, "_FEW", 100)
    moved = []
    compacted = gh.TextTable._compacted

    def counted(self, state, capacity):
        moved.append(len(state.table))
        return compacted(self, state, capacity)

    monkeypatch.setattr(gh.TextTable, "_compacted", counted)
    with gh.Table(backend, key_dtype=str, threads=1) as table:
        for i in range(0, 20_000, 100):
            table.insert([f"{j:0100d}" for j in range(i, i + 100)], range(i, i + 100))
            if i >= 500:
                table.erase([f"{j:0100d}" for j in range(i - 500, i - 400)])
                assert len(table) == 500
            assert index_size(table) <= 2 * 500 + 200
            assert table.nbytes < 2_000_000
        assert len(moved) > 10
        assert sum(moved) <= 20_000 + 500  # each key that was erased moves one at most
        assert table[f"{19_999:0100d}"] == 19_999
        assert f"{5:0100d}" not in table
        table.check()


def test_keys_that_come_back_are_not_erased(text, eager, monkeypatch):
    """Erasing and inserting the same keys leaves the index as it is."""
    monkeypatch.setattr(gh.TextTable, "_compacted", lambda *arguments: pytest.fail("nothing is to be dropped"))
    words = [f"word {i}" for i in range(50)]
    for i in range(20):
        text.insert(words, i)
        assert index_size(text) == 50
        text.erase(words[:20])
        assert text[words[20:]].tolist() == [0] * 30


@pytest.mark.parametrize("what", ["clear", "shrink", "flush"])
def test_calls_that_drop_erased_keys(text, what):
    text.insert(["a", "b", "c"], [1, 2, 3])
    text.erase(["a", "none"])
    assert index_size(text) == 3
    getattr(text, what)()
    assert index_size(text) == len(text) == (0 if what == "clear" else 2)
    assert text.get(["a", "b", "c"]).tolist() == ([0, 0, 0] if what == "clear" else [0, 2, 3])


def test_room_that_was_asked_for_outlasts_a_compaction(eager):
    words = [f"word {i}" for i in range(1700)]
    table = gh.Table("linear_probe", key_dtype=str, capacity=64, grow=False, threads=1)
    table.reserve(1000)
    table.insert(words[:900], 1)
    table.erase(words[:800])
    assert index_size(table) == 100
    assert table.insert(words[900:], 2).all()
    table = gh.Table("linear_probe", key_dtype=str, capacity=10_000, threads=1)
    table.insert(words[:10], 1)
    table.shrink()
    table.erase(words[:8])
    assert index_size(table) == 2
    assert table.capacity < 1000


def test_a_state_is_replaced_as_a_whole(text):
    """A call that reads has an index and a table that belong together, whatever comes in between."""
    text["a"] = 1
    state = text._state
    number = state.one("a", False)
    text.clear()
    text["b"] = 2  # with the id that "a" had
    assert state.table[number] == 1
    state = text._state
    text.insert(["c", "d"], 3)
    text.erase("b")
    number = state.one("d", False)
    text.shrink()
    text["e"] = 5
    assert state.table[number] == 3


@pytest.mark.parametrize("call", ["insert", "erase", "clear", "shrink", "flush", "reserve", "check"])
def test_calls_that_write_wait_for_each_other(text, call):
    text["a"] = 1
    arguments = {"insert": ("b", 1), "erase": ("a",), "reserve": (9,)}.get(call, ())
    with text._lock:
        other = threading.Thread(target=getattr(text, call), args=arguments)
        other.start()
        other.join(0.02)
        assert other.is_alive()
        assert text["a"] == 1  # calls that read do not wait
    other.join(30)
    assert not other.is_alive()


def test_a_compaction_without_memory_changes_nothing(text, eager):
    words = [f"word {i}" for i in range(20)]
    text.insert(words, range(20))
    make = text._make

    def refuse(*sizes):
        raise gh.NoMemory("there is none")

    text._make = refuse
    assert text.erase(words[:15]).all()
    assert index_size(text) == 20
    assert text[words[15:]].tolist() == list(range(15, 20))
    with pytest.raises(gh.NoMemory):
        text.clear()
    assert len(text) == 5
    text._make = make
    text.erase(words[15:19])  # too few for another attempt
    assert index_size(text) == 20
    text.erase(words)
    assert index_size(text) == 0


# ---- failures --------------------------------------------------------------------------------------------------------


def test_a_full_table_says_which_keys_found_no_room(backend, eager):
    table = gh.Table(backend, key_dtype=str, capacity=64, grow=False, seed=3, threads=1)
    n = 20_000 if backend == "slab_hash" else 3000  # its heap has room for more than its capacity
    words = np.array([f"word {i}" for i in range(n)]).reshape(2, -1)
    with pytest.raises(gh.TableFull) as caught:
        table.insert(words, 5)
    failed = caught.value.failed
    assert failed.shape == words.shape
    assert failed.any()
    assert (table.contains(words) == ~failed).all()
    assert len(table) == np.count_nonzero(~failed)
    assert index_size(table) <= 2 * len(table) + 3  # what found no room does not stay
    table.check()


def test_no_memory_after_the_index_took_the_keys(eager):
    class Memory:
        def __init__(self):
            self.held, self.refused = {}, False

        def allocate(self, nbytes, alignment, stream):
            if self.refused:
                return 0
            array = np.empty(nbytes + alignment, np.uint8)
            at = -(-array.ctypes.data // alignment) * alignment
            self.held[at] = array
            return at

        def deallocate(self, address, nbytes, alignment, stream):
            del self.held[address]

    memory = Memory()
    table = gh.Table("linear_probe", key_dtype=str, memory=memory, threads=1)
    words = [f"word {i}" for i in range(2000)]
    table.insert(words[:10], 1)
    memory.refused = True
    for _ in range(3):
        with pytest.raises(gh.NoMemory) as caught:
            table.insert(words, 2)
    assert caught.value.failed.any()
    assert table[words[:10]].tolist() == [1] * 10
    assert index_size(table) == 2000  # a compaction has no memory, either
    memory.refused = False
    table.insert(words, 2)
    assert len(table) == 2000
    table.check()


def test_no_memory_in_the_index(text, monkeypatch):
    text.insert(["a"], 1)

    class Short:
        size = 1

        def add(self, schema, chunks, ids):
            ids[:] = -2
            raise gh.NoMemory("no memory for more keys")

    state = text._state
    monkeypatch.setattr(state, "index", Short())
    with pytest.raises(gh.NoMemory, match="no memory for more keys"):
        text.insert(["b", "c"], 2)
    monkeypatch.undo()
    assert len(text) == 1
    assert text["a"] == 1


@pytest.mark.parametrize("values", [[1, 2, 3], "x", [2**70, 1], None])
def test_wrong_values_add_no_key(text, values):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        text.insert(["a", "b"], values)
    assert len(text) == 0
    assert "a" not in text
    text.insert(["a", "b"], [1, 2])
    assert text[["a", "b"]].tolist() == [1, 2]


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_closed(text):
    text.insert("a", 1)
    text.close()
    text.close()
    assert text.closed
    assert repr(text) == "<pygpuhash.Table, closed>"
    assert text.value_dtype == np.int64
    for call in (lambda: text["a"], lambda: text.insert("b", 1), lambda: "a" in text, lambda: len(text), text.clear):
        with pytest.raises(gh.ClosedTable, match="this table is closed"):
            call()
    for call in (
        text.check,
        text.shrink,
        text.flush,
        text.export,
        text.keys,
        text.stats,
        text.values,
        lambda: text.nbytes,
    ):
        with pytest.raises(gh.ClosedTable, match="this table is closed"):
            call()


def test_a_table_that_was_closed_in_a_compaction_stays_closed(text, eager, monkeypatch):
    words = [f"word {i}" for i in range(20)]
    text.insert(words, 1)
    compacted = text._compacted

    def closing(state, capacity):
        made = compacted(state, capacity)
        text.close()
        return made

    monkeypatch.setattr(gh.TextTable, "_compacted", lambda self, state, capacity: closing(state, capacity))
    text.erase(words[:15])
    assert text.closed
    assert text._state is None


def test_children_are_refused(text):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            text.insert("a", 1)
        except gh.Forked:
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0

    class Sub(gh.TextTable):
        def __init__(self):
            pass

    with pytest.raises(gh.ClosedTable, match="never made"):
        Sub().insert("a", 1)


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_threads_that_insert_count_each_word(text, in_threads):
    words = [f"word {i % 97}" for i in range(2000)]
    in_threads(lambda i: [text.accumulate(words[j::7]) for j in range(7)], 4)
    assert len(text) == 97
    assert text.get(words[:97]).sum() == 4 * 2000


def test_no_call_sees_another_keys_value(text, eager, in_threads):
    """Beside erases, compactions and clear, a key has its own value or none."""
    words = [f"word {i}" for i in range(60)]
    values = np.arange(100, 160)
    stay = [f"stays {i}" for i in range(5)]
    done = threading.Event()

    def read(i):
        while not done.is_set():
            found, mask = text.find(words)
            assert ((found == values) | ~mask).all()
            keys, kept = text.export()
            assert all(value == 100 + int(key.split()[1]) for key, value in zip(keys, kept.tolist(), strict=True))

    def write(i):
        try:
            for step in range(25):
                some = slice(step % 7, None, 2)
                text.insert(words[some], values[some])
                text.insert(stay, values[:5])
                assert text.contains(stay).all()
                text.erase(words[step % 5 :])
                if i == 1 and step % 10 == 9:
                    text.shrink()
        finally:
            if i == 1:
                done.set()

    in_threads(lambda i: read(i) if i > 1 else write(i), 4)
    text.clear()
    assert len(text) == 0


def test_clear_beside_readers(text, in_threads):
    done = threading.Event()

    def work(i):
        if i:
            while not done.is_set():
                found = text.find(["a", "b"])[0]
                assert found[0] in (0, 1)
                assert found[1] in (0, 2)
            return
        for step in range(60):
            text.insert(["a", "b"][:: 1 if step % 2 else -1], [1, 2][:: 1 if step % 2 else -1])
            text.clear()
        done.set()

    in_threads(work, 3)


def test_ctrl_c_in_the_index_leaves_a_table_that_works(text):
    import _thread

    was = _engine.piece(100)
    stopper = threading.Timer(0.01, _thread.interrupt_main)
    words = [f"word {i}" for i in range(200_000)]

    def interrupted():
        stopper.start()
        while True:
            text.insert(words, 1)

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        stopper.join()
    finally:
        _engine.piece(was)
    assert not text._lock.locked()
    text["word 1"] = 5
    assert text["word 1"] == 5


# ---- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.insert(["a", None], 1), TypeError, r"keys\[1\] is null, and null is no key of a table"),
        (lambda t: t.find([None]), TypeError, r"keys\[0\] is null"),
        (lambda t: None in t, TypeError, r"keys\[0\] is null"),
        (
            lambda t: t.insert(5, 1),
            TypeError,
            "keys: the column is int64 here and text there.*keys of this table are text",
        ),
        (lambda t: t.insert([b"a"], 1), TypeError, "keys: the column is bytes here.*keys of this table are text"),
        (lambda t: t.find(np.arange(3)), TypeError, "keys: the column is int64 here"),
        (lambda t: b"a" in t, TypeError, "keys: the column is bytes here"),
        (lambda t: t.insert(["a", 1], 1), TypeError, r"keys\[1\]"),
        (lambda t: t.insert({"a"}, 1), TypeError, "keys is a set"),
        (lambda t: t.insert("\ud800", 1), TypeError, r"keys\[0\] has a lone surrogate.*pass bytes"),
        (lambda t: t["\ud800"], TypeError, r"keys\[0\] has a lone surrogate"),
        (lambda t: ["a"] in t, TypeError, "'in' takes one key, 1 were given"),
        (lambda t: t["a":"b"], gh.Unsupported, r"t\[low:high\]: a table of text keeps no order; sort its keys"),
        (lambda t: t.min(), gh.Unsupported, "min: a table of text keeps no order"),
        (lambda t: t.max(), gh.Unsupported, "max: a table of text keeps no order"),
        (lambda t: t.range("a", "b"), gh.Unsupported, "range: a table of text keeps no order"),
        (lambda t: t.floor(["a"]), gh.Unsupported, "floor: a table of text keeps no order"),
        (lambda t: t.lower_bound(["a"]), gh.Unsupported, "lower_bound: a table of text keeps no order"),
        (lambda t: t.successor(["a"]), gh.Unsupported, "successor: a table of text keeps no order"),
        (lambda t: t.predecessor(["a"]), gh.Unsupported, "predecessor: a table of text keeps no order"),
        (lambda t: t.execute([1], ["a"], [1]), gh.Unsupported, "has no mixed batches: call insert"),
        (lambda t: t.insert("a", 1, stream=7), gh.Unsupported, "stream=7: a table of text is on the CPU.*leave it out"),
        (lambda t: t.clear(stream=7), gh.Unsupported, "stream=7"),
        (lambda t: t.export(like=[1]), TypeError, "like is no column of text"),
        (lambda t: t.insert_multi("a", 1), gh.Unsupported, "insert_multi"),
        (lambda t: t[["a", "here", "b"]], KeyError, "2 of 3 keys are not in the table, the first is a"),
        (lambda t: t.__delitem__(["here", "b"]), KeyError, "1 of 2 keys are not in the table, the first is b"),
        (lambda t: t.nonsense(), AttributeError, "nonsense"),
        (
            lambda t: gh.Table(key_dtype=str, device="cuda"),
            gh.Unsupported,
            "device='cuda': .* give the keys ids by gh.Index",
        ),
        (lambda t: gh.Table(key_dtype=str, device="tpu"), gh.InvalidArgument, "tpu"),
        (lambda t: gh.Table(key_dtype=str, stream=5), gh.Unsupported, "stream=5"),
        (lambda t: gh.Table(key_dtype=str, needs="ordered"), gh.Unsupported, "keeps no order"),
        (lambda t: gh.Table(key_dtype=str, needs=["ordered"]), gh.Unsupported, "keeps no order"),
        (lambda t: gh.Table("stadium", key_dtype=str, placement="file", file="x"), gh.Unsupported, r"save\(path\)"),
        (lambda t: gh.Table("none", key_dtype=str), gh.BackendNotFound, "none"),
        (lambda t: gh.Table(key_dtype=str, bogus=1), gh.OptionNotFound, "bogus"),
        (lambda t: gh.Table(key_dtype=str, capacity=2**33), gh.InvalidArgument, "capacity=8589934592 is out of range"),
        (lambda t: gh.Table(key_dtype=str, value_dtype=str), TypeError, "value_dtype"),
    ],
)
def test_wrong_input(call, error, words):
    table = gh.Table(key_dtype=str)
    table["here"] = 5
    with pytest.raises(error, match=words):
        call(table)
    assert table.keys().tolist() in (["here"], [])
    table.check()


def test_arrays_on_a_gpu_are_refused(text):
    class There:
        def __init__(self):
            self.__cuda_array_interface__ = {"shape": (1,), "typestr": "<i4", "data": (0, False), "version": 3}

    for call in (text.find, text.erase, text.insert):
        with pytest.raises(gh.Unsupported, match="keys are on a GPU, and a table of text is on the CPU"):
            call(There())


def test_a_corrupt_table_is_found(text):
    text.insert(["a", "b"], 1)
    text._state.table.insert(np.uint32(9), 1)
    with pytest.raises(gh.Corrupt, match="the table has the id 9, and the index 2 keys"):
        text.check()
    text._state.table.erase(np.uint32(9))
