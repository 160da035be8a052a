"""Keywords that a verb does not have are refused in its name, whatever the column; those of backends pass."""

import numpy as np
import pytest

import pygpuhash as gh

COLUMNS = [[1, 2, 1], ["a", "b"], np.arange(20_000), (np.arange(3), ["a", "b", "c"])]
VERBS = {
    gh.unique: "order, nulls, floats",
    gh.value_counts: "order, nulls, floats",
    gh.factorize: "order, nulls, floats",
    gh.isin: "among, nulls, floats",
    gh.group_reduce: "values, op, dtype, reproducible, order, nulls, floats",
    gh.join_indexer: "left, right, how, nulls, floats",
}


def call(verb, column, **keywords):
    if verb in (gh.isin, gh.join_indexer):
        return verb(column, column, **keywords)
    return verb(column, 1, **keywords) if verb is gh.group_reduce else verb(column, **keywords)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
@pytest.mark.parametrize("column", COLUMNS, ids=["few", "text", "many", "several"])
@pytest.mark.parametrize("named", [{}, {"backend": "hive"}], ids=["auto", "hive"])
def test_unknown_keywords(verb, column, named):
    for name, words in {
        "nuls": "did you mean 'nulls'",
        "thread": "did you mean 'threads'",
        "colour": "leave it out",
        "dropna": "pass nulls=",
    }.items():
        with pytest.raises(gh.OptionNotFound, match=words) as caught:
            call(verb, column, **{name: 1}, **named)
        message = str(caught.value)
        assert message.startswith(f"{verb.__name__} has no keyword {name!r}")
        assert VERBS[verb] in message
        assert "max_load_factor" in message  # what its table takes
        assert "key_dtype" not in message  # but for what the verb decides
        assert "unknown to backend" not in message


def test_a_keyword_of_another_verb():
    with pytest.raises(gh.OptionNotFound, match=r"^unique has no keyword 'how'"):
        gh.unique([1], how="left")
    with pytest.raises(gh.OptionNotFound, match=r"^value_counts has no keyword 'op': leave it out"):
        gh.value_counts([1], op="sum")


def test_what_a_backend_has_passes():
    keys = np.array([1, 2, 1])
    assert sorted(gh.unique(keys, bucket=16)) == [1, 2]  # hive has it
    assert sorted(gh.unique(keys, backend="hive", bucket=16)) == [1, 2]
    assert sorted(gh.unique(keys, threads=1, seed=3, capacity=10, device="cpu", max_load_factor=0.5)) == [1, 2]
    with pytest.raises(gh.OptionNotFound, match=r"^unique has no keyword 'bucket'"):
        gh.unique(keys, backend="linear_probe", bucket=16)
    with pytest.raises(TypeError, match="key_dtype= is decided by the verb"):
        gh.unique(keys, key_dtype="u8")
    with pytest.raises(gh.BackendNotFound, match="nosuch"):
        gh.unique(keys, backend="nosuch", colour=1)
    with pytest.raises(TypeError, match="backend=5"):
        gh.unique(keys, backend=5, colour=1)


def test_an_option_that_only_tables_have_names_the_column():
    with pytest.raises(gh.Unsupported, match="bucket=16 is for keys that are single numbers"):
        gh.unique(["a"], bucket=16)
