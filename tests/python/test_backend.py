"""`gh.Backend`: what a backend in Python gets for the few methods that it defines, and classes without it."""

import re

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, cli, conformance

# A dict, as a backend. `room` is an option: how many keys fit; `answers` spoils what `run` answers.
DICT = """
    import numpy as np
    import pygpuhash as gh
    class Backend(gh.Backend):
        name = "shiny"
        version = "3.1"
        summary = "a dict"
        traits = ("insert", "accumulate", "grow")
        options = (("room", "uint", "keys that fit"), ("status", "2|3", "of the others"))
        def start(self):
            self.d = {}
            self.room = int(self.given.get("room", 1 << 60))
        def __len__(self):
            return len(self.d)
        def pairs(self):
            keys = np.array(list(self.d), self.key_store)
            return keys, None if self.value_store is None else np.array(list(self.d.values()), self.value_store)
        def run(self, op, keys, values, combine):
            status = np.zeros(len(keys), np.uint8)
            found = None if self.value_store is None else np.zeros(len(keys), self.value_store)
            for i, key in enumerate(keys.tolist()):
                there = key in self.d
                if op == gh.Op.FIND:
                    status[i] = there
                    if there and found is not None:
                        found[i] = self.d[key]
                elif op == gh.Op.ERASE:
                    status[i] = there
                    self.d.pop(key, None)
                elif not there and len(self.d) >= self.room:
                    status[i] = int(self.given.get("status", 2))
                elif not there:
                    status[i] = 1
                    self.d[key] = None if values is None else values[i]
                elif op == gh.Op.ASSIGN and values is not None:
                    self.d[key] = values[i]
                elif op == gh.Op.ACCUMULATE:
                    how = {"add": np.add, "min": np.minimum, "max": np.maximum}[combine]
                    self.d[key] = how(self.d[key], values[i])
            return self.spoiled(status, found)
        def spoiled(self, status, found):
            return status, found
"""


@pytest.fixture
def shiny(distribution):
    """Tables of the dict; more methods for its class may be passed."""

    def make(more="", **arguments):
        module = distribution("fake-class", "shiny", DICT + more)
        assert module == "fake_class_module"
        return gh.Table("shiny", **arguments)

    return make


@pytest.mark.parametrize("key", ["u8", "i8", "u4", "i4", "f8", "f4", "i2", "M8[s]"])
def test_elements_are_those_of_a_table(shiny, key):
    keys = np.arange(-3, 4).astype(key)
    with shiny(key_dtype=key, value_dtype="i2") as t, gh.Table(key_dtype=key, value_dtype="i2", device="cpu") as real:
        for call in (
            lambda t: t.insert(keys[:4], np.arange(4)).tolist(),
            lambda t: t.insert(keys.tolist(), 7).tolist(),
            lambda t: t.insert_or_assign(keys[::2].reshape(2, 2), 9).tolist(),
            lambda t: t.accumulate(keys, 1).tolist(),
            lambda t: t.accumulate(keys, 3, op="min").tolist(),
            lambda t: [part.tolist() for part in t.find(keys.reshape(1, 7))],
            lambda t: (t.find(keys[0]), keys[0] in t, t[keys[0]].dtype),
            lambda t: t.count(keys).tolist(),
            lambda t: t.execute([1, 4, 5, 0, 2, 3, 4], keys, 5)[1].tolist(),
            lambda t: t.erase(keys[:2]).tolist(),
            lambda t: sorted(t.export()[0].tolist()),
            lambda t: sorted(t.export()[1].tolist()),
            lambda t: (len(t), t.export()[0].dtype, t.export()[1].dtype),
        ):
            assert call(t) == call(real)


def test_answers_go_where_they_are_asked_to(shiny):
    with shiny(key_dtype="u8", value_dtype="f8") as t:
        out, mask = np.empty(3), np.empty(3, bool)
        assert t.insert([1, 2, 3], [1.5, 2.5, 3.5], out=mask) is mask
        assert mask.all()
        assert t.insert([1, 2, 3], 0.0, out=False) is None
        values, found = t.find([1, 2, 9], out=out, found=mask)
        assert values is out
        assert found is mask
        assert out.tolist() == [1.5, 2.5, 0.0]
        assert t.find([1], found=False)[1] is None
        with pytest.raises(ValueError, match=r"out has shape \(3,\), keys \(2,\)"):
            t.contains([1, 2], out=mask)
        t[4] = 4.5
        assert t[4] == 4.5
        del t[4]
        with pytest.raises(KeyError):
            t[4]
        with pytest.raises(KeyError):
            del t[4]


def test_of_equal_keys_the_last_one_wins_if_asked_to(shiny):
    with shiny() as t:
        assert t.insert_or_assign([5, 6, 5, 5], [1, 2, 3, 4], dedup="last").tolist() == [False, True, False, True]
        assert (t[5], t[6]) == (4, 2)
        with pytest.raises(gh.InvalidArgument, match="dedup='first'"):
            t.insert_or_assign([1], [1], dedup="first")


@pytest.mark.parametrize(("status", "error"), [(2, gh.TableFull), (3, gh.HeapFull)])
@pytest.mark.parametrize("call", ["insert", "insert_or_assign", "accumulate", "execute"])
def test_statuses_of_keys_that_found_no_room(shiny, call, status, error):
    with shiny(room=3, status=status) as t:
        batch = (np.ones(4, "u1"),) if call == "execute" else ()
        with pytest.raises(error, match="backend 'shiny': 1 of 4 keys found no room; reserve more") as raised:
            getattr(t, call)(*batch, np.array([[1, 2], [3, 4]]).reshape(4), 7)
        assert type(raised.value) is error
        assert raised.value.status.tolist() == [1, 1, 1, status]
        assert raised.value.failed.tolist() == [False, False, False, True]
        assert len(t) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("status[:-1], found", "answered 2 of uint8 for statuses: it has to answer an array of 3 of uint8"),
        ("status.astype('i8'), found", "answered 3 of int64 for statuses"),
        ("None, found", "answered a NoneType for statuses"),
        ("status, found[:-1]", "answered 2 of int64 for values: it has to answer an array of 3 of int64"),
        ("status, None", "answered a NoneType for values"),
        ("status, found.astype('f8')", "answered 3 of float64 for values"),
    ],
)
def test_answers_of_a_wrong_length_or_type_are_named(shiny, answer, words):
    with shiny(f"        def spoiled(self, status, found):\n            return {answer}\n") as t:
        with pytest.raises(gh.PluginError) as raised:
            t.find([1, 2, 3])
        assert str(raised.value).startswith("backend 'shiny': run(Op.FIND) of 3 keys " + words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [("status", "a ndarray"), ("[status, found]", "a list"), ("None", "a NoneType"), ("(status,)", "a tuple of 1")],
)
@pytest.mark.parametrize(
    ("method", "call", "expected"),
    [
        ("spoiled(self, status, found)", "run(Op.FIND)", "(statuses, values)"),
        ("pairs(self)", "pairs()", "(keys, values)"),
    ],
)
def test_what_is_no_tuple_of_two_is_named(shiny, method, call, expected, answer, words):
    two = "np.zeros(2, 'u1')"  # an array of two could be unpacked
    more = f"        def {method}:\n            status = found = {two}\n            return {answer}\n"
    sentence = f"backend 'shiny': {call} answered {words}: it has to answer the tuple {expected}"
    with shiny(more) as t, pytest.raises(gh.PluginError, match=re.escape(sentence)):
        t.export() if method == "pairs(self)" else t.find([1, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"size": 3}, gh.OptionNotFound, "backend 'shiny' has no option 'size'; it has room, status"),
        ({"device": "cuda:0"}, gh.Unsupported, "backend 'shiny' is for cpu: device='cuda:0' cannot be used"),
        ({"key_dtype": ("u4", 3)}, gh.Unsupported, "backend 'shiny' has no keys of the type"),
        (
            {"value_dtype": ("f8", 4)},
            gh.Unsupported,
            "takes numbers of 4 or 8 bytes; keep rows in an array, and their numbers as values",
        ),
        ({"needs": ["ordered", "insert"]}, gh.Unsupported, "does not have the trait ordered; it has accumulate, grow"),
        ({"needs": 5}, TypeError, "needs=5 is a int"),
        ({"stream": 7}, gh.Unsupported, "stream=7: backend 'shiny' works on the current stream"),
        ({"capacity": -1}, ValueError, "capacity"),
    ],
)
def test_arguments_that_are_refused(shiny, arguments, error, words):
    with pytest.raises(error, match=re.escape(words)):
        shiny(**arguments)


def test_needs_that_the_traits_meet(shiny):
    assert len(shiny(needs=["accumulate", "misses"])) == 0
    assert len(gh.Table("shiny", needs="accumulate")) == 0


def test_widths_are_those_of_the_class(shiny):
    widths = "        key_widths = (4,)\n        value_widths = (4, 8)\n"
    shiny(widths, key_dtype="u4", value_dtype="i4")
    with pytest.raises(gh.Unsupported, match="has no keys of the type uint64: it takes numbers of 4 bytes"):
        gh.Table("shiny", key_dtype="u8")
    with pytest.raises(gh.Unsupported, match="has no sets"):
        gh.Table("shiny", key_dtype="u4", value_dtype=None)
    (target,) = conformance.targets("shiny")
    assert set(target.formats) == {(k, v) for k, v in conformance.FORMATS if k.endswith("32") and v is not None}


def test_a_set(shiny):
    with shiny(value_dtype=None) as t:
        assert t.insert([1, 2]).all()
        assert t.find([1, 3])[0] is None
        assert t.export()[1] is None
        with pytest.raises(TypeError, match="is a set"):
            t.insert([1], [1])
        with pytest.raises(TypeError, match="is a set"):
            t.accumulate([1])


def test_a_closed_table_says_so(shiny):
    t = shiny()
    t.insert([1], 1)
    t.close()
    t.close()
    for call in (
        lambda: t.find([1]),
        lambda: t.insert([1], 1),
        lambda: t.execute([], []),
        t.clear,
        t.export,
        lambda: t.info,
    ):
        with pytest.raises(gh.ClosedTable):
            call()


def test_a_row_says_what_the_class_does(shiny):
    shiny()
    (row,) = [row for row in gh.backends() if row.name == "shiny"]
    assert (row.summary, row.version, row.key_widths, row.value_widths) == ("a dict", "3.1", (4, 8), (0, 4, 8))
    assert [option.name for option in row.options] == ["room", "status"]


@pytest.mark.parametrize("missing", ["start", "run", "pairs", "__len__"])
def test_a_method_that_is_missing_is_named(missing):
    calls = {
        "run": lambda t: t.find([1]),
        "pairs": lambda t: t.export(),
        "start": lambda t: gh.Backend(),
        "__len__": lambda t: len(t),
    }
    begun = type("Begun", (gh.Backend,), {"start": lambda self: None})()
    with pytest.raises(NotImplementedError, match=f"(Backend|Begun) does not define {missing}"):
        calls[missing](begun)


def test_what_was_exported_stays_what_it_was(shiny):
    more = "        def pairs(self):\n            return self.k, self.v\n"
    with shiny(more, key_dtype="u8", value_dtype="i8") as t:
        t.k, t.v = np.arange(3, dtype="u8"), np.arange(3)
        keys, values = t.export()
        t.k[:], t.v[:] = 7, 7
        assert keys.tolist() == values.tolist() == [0, 1, 2]


def test_codes_that_a_table_does_not_have_are_left_out(shiny):
    with shiny(value_dtype=None) as t:
        with pytest.raises(gh.InvalidArgument, match="ops has the code 3, which is no operation"):
            t.execute([1, 3, 1], [5, 6, 7])
        assert sorted(t.export()[0].tolist()) == [5, 7]
        with pytest.raises(gh.InvalidArgument, match="ops has 2 elements, keys 3"):
            t.execute([1, 1], [5, 6, 7])
        t.clear()
        assert len(t) == 0


def test_the_suite_takes_it(shiny, capsys):
    shiny()
    checks = ["patterns-alone", "floats-by-bits", "seeds"]
    assert cli.main(["conformance", "shiny", "--quick", *(f"--check={name}" for name in checks)]) == 0
    assert "2 passed, 0 failed, 1 skipped" in capsys.readouterr().out


# A class that has the methods of docs/plugins.md, and nothing else.
DOCUMENTED = """
    import pygpuhash
    from pygpuhash.conformance import METHODS
    class Backend:
        traits = ("insert", "accumulate", "grow", "memory", "seed")
        def __init__(self, **arguments):
            self._table = pygpuhash.Table("linear_probe", **{**arguments, "device": "cpu"})
        def __enter__(self):
            return self
        def __exit__(self, *exception):
            self.close()
    for name in (METHODS[""] + " accumulate").split():
        def method(self, *given, _name=name, **how):
            return getattr(self._table, _name)(*given, **how)
        setattr(Backend, name, method)
"""


@pytest.mark.parametrize("source", [DICT, DOCUMENTED])
@pytest.mark.parametrize("keys", [np.array([3, 1, 3, 2, 1], "u8"), np.array([0.5, np.nan, 0.5])])
def test_verbs_work_with_it(distribution, source, keys):
    distribution("fake-class", "shiny", source)
    for order in ("first", "any"):
        mine, theirs = (gh.unique(keys, order=order, **more) for more in ({"backend": "shiny"}, {}))
        assert np.array_equal(np.sort(mine), np.sort(theirs), equal_nan=keys.dtype.kind == "f")
    first = gh.unique(keys, order="first", backend="shiny")
    assert np.array_equal(first, gh.unique(keys), equal_nan=keys.dtype.kind == "f")
    for mine, theirs in zip(gh.factorize(keys, backend="shiny"), gh.factorize(keys), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
    for mine, theirs in zip(gh.value_counts(keys, backend="shiny"), gh.value_counts(keys), strict=True):
        assert np.array_equal(np.sort(mine), np.sort(theirs), equal_nan=mine.dtype.kind == "f")
    assert np.array_equal(gh.isin(keys, keys[:2], backend="shiny"), gh.isin(keys, keys[:2]))
    left, right = gh.join_indexer(keys, keys[1:], backend="shiny"), gh.join_indexer(keys, keys[1:])
    assert sorted(zip(*(part.tolist() for part in left), strict=True)) == sorted(
        zip(*(part.tolist() for part in right), strict=True)
    )
    mine, theirs = (gh.group_reduce(keys, np.arange(len(keys)), **more) for more in ({"backend": "shiny"}, {}))
    assert sorted(mine[1].tolist()) == sorted(theirs[1].tolist())


def test_a_trait_of_a_newer_library_has_a_name():
    assert _core.library._operation(77, 1 << 40, 0)[:2] == (77, "trait 0x10000000000")
    assert _core.library._operation(1, 1, 1)[1:] == ("insert", frozenset({"adds"}))
