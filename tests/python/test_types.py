"""What editors and type checkers see, and what happens to misspelt names."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

ROOT = str(Path(gh.__file__).parents[1])
PROGRAM = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import pygpuhash as gh


def histogram(keys: NDArray[np.int64], weights: list[float]) -> dict[int, float]:
    with gh.Table("linear_probe", key_dtype=np.int64, value_dtype="float64", capacity=len(keys), row=8) as table:
        assert_type(table, gh.Table)
        assert_type(table.accumulate(keys, weights, op="add"), NDArray[np.bool_])
        assert_type(table.insert(1, 2.0), np.bool_)
        assert_type(table.insert_or_assign([1, 2], 2.0, dedup="last"), NDArray[np.bool_])
        values, found = table.find(keys)
        assert_type(found, NDArray[np.bool_])
        assert_type(values, NDArray[Any])
        assert_type(table.find(keys, found=False)[1], None)
        assert_type(table.execute([gh.Op.FIND], [5], found=False)[1], None)
        assert_type(table.count(keys), NDArray[np.int64])
        assert_type(table.contains(5), np.bool_)
        assert_type(table.erase(range(5)), NDArray[np.bool_])
        assert_type(table.get(keys, default=1.5), NDArray[Any])
        assert_type(5 in table, bool)
        table[5] = 1.0
        table[keys] = values
        del table[5]
        assert_type(len(table), int)
        assert_type(table.info["rebuilds"], int)
        assert_type(table.capacity, int)
        offsets, _ = table.find_all(keys)
        assert_type(offsets, NDArray[np.int64])
        table.range(0, 5, out=(np.empty(5, np.int64), np.empty(5)))
        table.range(0, 5, 3, out=(np.empty((1, 3), np.int64), None))
        all_keys, all_values = table.export()
        return dict(zip(all_keys.tolist(), all_values.tolist()))


def of_text(words: list[str]) -> dict[str, int]:
    table = gh.Table("hive", key_dtype=str)
    table.accumulate(words)
    table["the"] = 5
    table.insert("a", 1)
    assert_type("the" in table, bool)
    same: gh.Table = gh.TextTable(key_dtype=bytes)
    del same
    index = gh.Index(str, nulls="drop", capacity=100)
    ids, new = index.add(words, new=True)
    assert_type(index.keys, gh.IndexKeys)
    assert_type(index.merge(gh.Index(words)), NDArray[np.int64])
    assert_type(len(index) + index.nbytes, int)
    assert_type("the" in index, bool)
    counter = gh.Counter(words, floats="bits")
    assert_type(counter["the"] + counter.total, int)
    assert_type(counter.counts, NDArray[np.int64])
    assert_type(counter.most_common(10)[1], NDArray[np.int64])
    groups = gh.GroupBy({"rows": "count", "paid": "sum"}, str, nulls="drop")
    groups.add(words, paid=[1.0])
    assert_type(groups.aggregates, dict[str, str])
    groups.merge(groups)
    return {word: int(i) for word, i in zip(index.keys[ids], index.get_indexer(words)[new])}


class Tensor:
    def __dlpack__(self, *, stream: object = None) -> object:
        return None

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array__(self) -> NDArray[np.int64]:
        return np.arange(3)


def of_a_tensor(table: gh.Table, keys: Tensor, name: str) -> None:
    assert_type(table.insert(keys, 1), Tensor)
    assert_type(table.find(keys), tuple[Tensor, Tensor])
    assert_type(table[keys], Tensor)
    assert_type(table.export(like=keys), tuple[Tensor, Tensor])
    gh.Table(device=name)


try:
    histogram(np.arange(3), [1.0, 2.0, 3.0])
except gh.TableFull as full:
    print(full.failed)
"""

VERBS = """
from typing import Any, assert_type

import numpy as np
import polars as pl
from numpy.typing import NDArray

import pygpuhash as gh


class Tensor:
    def __dlpack__(self, *, stream: object = None) -> object:
        return None

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Frame:  # as those of pandas, whose own types are in a package of their own
    def to_numpy(self, dtype: Any = None, copy: bool = False) -> NDArray[Any]:
        return np.arange(3)


class Series(Frame):
    name: str = "x"

    def clip(self, lower: int | None = None, upper: int | None = None) -> "Series":
        return self


def of_numpy(keys: NDArray[np.uint32]) -> None:
    assert_type(gh.unique(keys), NDArray[np.uint32])
    assert_type(gh.value_counts(keys, order="first"), tuple[NDArray[np.uint32], NDArray[np.int64]])
    assert_type(gh.factorize(keys, nulls="drop"), tuple[NDArray[np.int64], NDArray[np.uint32]])
    assert_type(gh.isin(keys, [1, 2]), NDArray[np.bool_])
    assert_type(gh.isin(5, keys), np.bool_)
    assert_type(gh.group_reduce(keys, keys, "mean"), tuple[NDArray[np.uint32], NDArray[Any]])
    assert_type(gh.join_indexer(keys, keys, how="left"), tuple[NDArray[np.int64], NDArray[np.int64]])
    assert_type(gh.unique((keys, Series())), tuple[NDArray[np.uint32], Series])
    assert_type(gh.value_counts((keys, keys))[0], tuple[NDArray[np.uint32], NDArray[np.uint32]])
    gh.unique((keys, ["a", "b"]), threads=2)
    gh.unique(keys, backend="hive", bucket=16, capacity=10, device="cpu")


def of_polars(keys: pl.Series, frame: pl.DataFrame) -> None:
    assert_type(gh.unique(keys), pl.Series)
    assert_type(gh.unique(frame), pl.DataFrame)
    assert_type(gh.value_counts(keys), tuple[pl.Series, pl.Series])
    assert_type(gh.value_counts(frame)[0], pl.DataFrame)
    assert_type(gh.factorize(keys)[1], pl.Series)
    assert_type(gh.isin(keys, ["a"]), pl.Series)
    assert_type(gh.group_reduce(keys, [1.0], "sum", dtype="f8"), tuple[pl.Series, pl.Series])
    assert_type(gh.join_indexer(keys, keys), tuple[pl.Series, pl.Series])


def of_others(tensor: Tensor, series: Series, frame: Frame) -> None:
    assert_type(gh.unique(tensor), Tensor)
    assert_type(gh.value_counts(tensor), tuple[Tensor, Tensor])
    assert_type(gh.isin(tensor, tensor), Tensor)
    assert_type(gh.unique(series), Series)
    assert_type(gh.value_counts(series), tuple[Series, Series])
    assert_type(gh.factorize(series)[1], Series)
    assert_type(gh.unique(frame), Frame)
    assert_type(gh.value_counts(frame)[0], Frame)
    assert_type(gh.unique(["b", "a"]), NDArray[Any])
    assert_type(gh.value_counts(["b", "a"]), tuple[NDArray[Any], NDArray[np.int64]])
    assert_type(gh.isin(["b", "a"], ["a"]), NDArray[np.bool_])
    assert_type(gh.isin("b", ["a"]), np.bool_)
    with gh.Table("hive", bucket=16) as table:
        assert_type(table, gh.Table)
        assert_type(table.contains(tensor), Tensor)
        assert_type(gh.Table(), gh.Table)
"""

MISTAKES = {
    "table.nonsense()": "nonsense",
    "gh.Table().nonsense()": "nonsense",
    'gh.unique([1], ordr="first")': "ordr|unique|overload",
    'gh.unique([1], order="last")': "order|unique|overload",
    "gh.value_counts([1], sort=True)": "sort|value_counts|overload",
    'gh.group_reduce([1], [1], "median")': "median|group_reduce|overload",
    'gh.join_indexer([1], [1], how="outer")': "outer|join_indexer|overload",
    "gh.isin([1])": "isin|overload",
    "gh.unique(5)": "unique|overload",
    "gh.unique([1], threads='two')": "threads|unique|overload",
    "table.find([1], founds=True)": "founds|find|overload",
    'table.accumulate([1], op="mul")': "accumulate",
    'table.insert_or_assign([1], 2, dedup="first")': "insert_or_assign",
    "table.insert({1, 2}, 3)": "insert",
    "table.capcity = 5": "capcity",
    "table.range(0, 5, out=[1, 2])": "range",
    "table.finds([1])": "finds",
    'gh.Table(capacity="5")': "capacity",
    "gh.Table(key_dtype=5)": "key_dtype",
    'table.info["rebuild"]': "rebuild|TypedDict",
    "table.capacity = 5": 'read-only|Cannot assign to attribute "capacity"',
    'gh.Index(nulls="keep")': "nulls",
    "gh.Index(int).ad([1])": "ad",
    "gh.Index().merge([1])": "merge",
    "gh.Counter().merge(gh.Index())": "merge",
    'gh.GroupBy({"paid": "sum"}).add([1], [2])': "add",
}


def mypy_command(folder):
    if subprocess.run([sys.executable, "-c", "import mypy"], capture_output=True).returncode:
        pytest.skip("mypy is not installed")
    return [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]


def pyright_command(folder):
    command = shutil.which("pyright") or pytest.skip("pyright is not installed")
    settings = {"include": ["."], "typeCheckingMode": "strict", "reportUnknownMemberType": False, "extraPaths": [ROOT]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return [command, "--pythonpath", sys.executable]


@pytest.fixture(
    scope="module",
    params=[mypy_command, pytest.param(pyright_command, marks=pytest.mark.slow)],
    ids=["mypy", "pyright"],
)
def checker(request, tmp_path_factory):
    """Checks a program as a user would: gives the numbers of lines with errors, and what the checker prints."""
    folder = tmp_path_factory.mktemp("types")
    command = request.param(folder)
    environment = dict(os.environ)
    if Path(ROOT).name != "site-packages":  # an editable installation, which mypy does not find by itself
        environment["MYPYPATH"] = ROOT

    def check(program):
        (folder / "program.py").write_text(program)
        done = subprocess.run([*command, "program.py"], cwd=folder, env=environment, capture_output=True, text=True)
        output = done.stdout + done.stderr
        assert re.search(r"Success|Found|[0-9] errors?", output), output
        return dict(re.findall(r"program\.py:(\d+):.*?\berror: (.*(?:\n    .*)*)", output)), output

    return check


@pytest.mark.parametrize("program", ["PROGRAM", "VERBS"])
def test_a_program_passes_strict(checker, program):
    if program == "VERBS":
        pytest.importorskip("polars")
    errors, output = checker(globals()[program])
    assert errors == {}, output


def test_mistakes_are_found(checker):
    lines = ["import pygpuhash as gh", "table = gh.Table()", *MISTAKES]
    errors, output = checker("\n".join(lines))
    for number, (line, words) in enumerate(MISTAKES.items(), 3):
        told = errors.get(str(number))
        assert told, (line, output)
        assert any(word in told for word in (*words.split("|"), "No overload")), (line, told)


def test_the_signature_of_table():
    parameters = inspect.signature(gh.Table).parameters
    assert list(parameters) == [
        *("backend", "key_dtype", "value_dtype", "capacity", "device", "grow", "max_load_factor", "seed", "stream"),
        *("memory", "threads", "needs", "backend_options"),
    ]
    assert parameters["value_dtype"].default == "int64"
    assert list(inspect.signature(gh.Table.insert).parameters) == ["self", "keys", "values", "out", "stream"]


def test_misspelt_attributes_are_refused(table):
    for name in ("capcity", "max_load", "anything"):
        with pytest.raises(AttributeError, match=name):
            setattr(table, name, 5)
    for name in ("capacity", "seed", "closed", "key_dtype", "nbytes"):
        with pytest.raises(AttributeError):
            setattr(table, name, 5)
    with gh.SlabAllocator() as allocator, pytest.raises(AttributeError):
        allocator.unitbytes = 64


def test_a_table_can_be_weakly_referenced_and_derived_from(backend):
    import weakref

    class Mine(gh.Table):
        def __init__(self, name):
            super().__init__(name, device="cpu")
            self.name = name

    table = Mine(backend)
    assert weakref.ref(table)() is table
    assert table.name == backend
    assert table.insert([1], 2).all()
    assert table[1] == 2


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("load_factor", "looks like the argument max_load_factor"),
        ("key_type", "looks like the argument key_dtype"),
        ("num_threads", "looks like the argument threads"),
        ("dtype", "looks like the argument key_dtype"),
        ("ow", "'ow' is unknown"),  # inside of grow
        ("a", "'a' is unknown"),
        ("colour", "known: "),
    ],
)
def test_misspelt_arguments(backend, option, words):
    with pytest.raises(gh.OptionNotFound, match=words) as caught:
        gh.Table(backend, device="cpu", **{option: 1})
    assert option in str(caught.value)
    assert ("looks like" in str(caught.value)) is ("looks like" in words)


def test_options_are_listed_with_their_help(backend, capsys):
    from pygpuhash import cli

    (row,) = (r for r in gh.backends() if r.name == backend)
    assert row.options
    assert cli.main(["backends"]) == 0
    shown = capsys.readouterr().out
    for option in row.options:
        assert option.choices
        assert option.help
        assert f"{option.name}={option.choices}: {option.help}" in shown
        # The list is the backend's own: none of the names is unknown to it.
        with pytest.raises(gh.InvalidArgument, match=option.name):
            gh.Table(backend, device="cpu", **{option.name: "no such value"})


def test_seeds(backend):
    keys = np.arange(1000)
    tables = [gh.Table(backend, device="cpu", seed=seed, threads=1) for seed in (0, 0, 1, None)]
    for table in tables:
        table.insert(keys, 1)
    zero, again, one, drawn = (table.seed for table in tables)
    assert zero == again != 0
    assert one == 1
    assert drawn not in (0, zero)
    assert gh.Table(backend, device="cpu", seed=zero).seed == zero
    assert tables[0].keys().tolist() == tables[1].keys().tolist()  # one seed, one order
    with pytest.raises(gh.InvalidArgument, match="seed=-1"):
        gh.Table(backend, seed=-1)
