"""Snapshots of tables in shards: saved, loaded onto any number of shards, refused where a file is another one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import sharded
from pygpuhash.saved import disk

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tables import contents, filled


@pytest.mark.parametrize("shards", [None, 1, 3, 5, 129])
def test_a_snapshot_is_loaded_onto_any_number_of_shards(transport, tmp_path, shards):
    with filled(shards=2, transport=transport(), key_dtype="i4", seed=9) as table:
        table.save(tmp_path / "t")
        before = contents(table)
    with sharded.load(tmp_path / "t", shards=shards, transport=transport()) as table:
        assert table.shards == (shards or 2)
        assert contents(table) == before
        assert table.export()[0].dtype == np.int32
        table.check()
        assert str(tmp_path / "t") in table.stats["snapshot"]


def test_a_snapshot_takes_the_place_of_another_as_a_whole(tmp_path, monkeypatch):
    with filled(100) as table:
        table.save(tmp_path / "t")
        with pytest.raises(FileExistsError, match="pass overwrite=True"):
            table.save(tmp_path / "t")
        first = {p.name for p in (tmp_path / "t").iterdir()}
        table.insert([12345], 1)
        with monkeypatch.context() as failing:
            failing.setattr(disk, "replaced", lambda *given: (_ for _ in ()).throw(OSError("full")))
            with pytest.raises(OSError, match="full"):
                table.save(tmp_path / "t", overwrite=True)
        assert {p.name for p in (tmp_path / "t").iterdir()} == first
        table.save(tmp_path / "t", overwrite=True)
        assert len(list((tmp_path / "t").iterdir())) == 4
    with sharded.load(tmp_path / "t") as table:
        assert len(table) == 101


def test_files_that_are_missing_or_mixed_are_named(tmp_path):
    for name in ("a", "b"):
        with filled(100 if name == "a" else 101) as table:
            table.save(tmp_path / name)
    one, other = (sorted((tmp_path / name).glob("*.arrow")) for name in ("a", "b"))
    whole = one[1].read_bytes()
    one[1].write_bytes(other[1].read_bytes())
    with pytest.raises(gh.Corrupt, match=r"is not the file of shard 1 that was saved: it is of another snapshot"):
        sharded.load(tmp_path / "a")
    one[1].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(gh.Corrupt, match="of shard 1"):
        sharded.load(tmp_path / "a")
    one[1].write_bytes(whole)
    one[2].unlink()
    with pytest.raises(gh.Corrupt, match=r"the file of shard 2, shard-00002-.*, is missing"):
        sharded.load(tmp_path / "a")
    with pytest.raises(gh.InvalidArgument, match=r"has no shards.json: pass the folder"):
        sharded.load(tmp_path)


def test_records_that_are_of_other_files(tmp_path):
    """What shards.json says in good form, and what is not so: no key may be lost in silence."""
    for name in ("a", "b"):
        with filled(300 if name == "a" else 301) as table:
            table.save(tmp_path / name)
    path = tmp_path / "a" / "shards.json"
    record, other = (json.loads((tmp_path / name / "shards.json").read_text()) for name in ("a", "b"))
    one, two, three = record["shards"]
    (tmp_path / "a" / other["shards"][1]["file"]).write_bytes(
        (tmp_path / "b" / other["shards"][1]["file"]).read_bytes()
    )
    with_tags = {"tags": [["x"]] * 3}
    for change, message in [
        (
            {"shards": [two, one, three]},
            r"shard-00001-.*, of shard 0, has keys of shard 1 of 3: shards.json is not the",
        ),
        (
            {"shards": [one, two], "tags": [[], []]},
            r", of shard [01], has keys of shard [01] of 2: shards.json is not",
        ),
        ({"seed": 4}, r"of shard 0, has keys of shard [12] of 3: shards.json is not the one that was saved with the"),
        ({"seed": 4} | with_tags, r"of shard 0, has keys of shard [12] of 3"),
        ({"shards": [one, two, one]}, r"shard-00000-.* is the file of shard 0 and of shard 2"),
        ({"shards": [one, other["shards"][1], three]}, f", of shard 1, is not of the snapshot {record['snapshot']}"),
        ({"tags": [[], [1], []]}, "the tags of shard 1 are not a list of texts"),
        ({"tags": [[], [], "abc"]}, "the tags of shard 2 are not a list of texts"),
    ]:
        path.write_text(json.dumps(record | change))
        with pytest.raises(gh.Corrupt, match=message):
            sharded.load(tmp_path / "a")
    path.write_text(json.dumps(record | with_tags))
    with sharded.load(tmp_path / "a") as table:
        assert len(table) == 300


def test_what_load_refuses(tmp_path):
    with filled(10) as table:
        table.save(tmp_path / "t")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(gh.InvalidArgument, match="file is a file: pass the folder that a sharded table was saved to"):
        sharded.load(tmp_path / "file")
    for name in ("key_dtype", "value_dtype", "seed"):
        with pytest.raises(TypeError, match=f"{name}= is that of the saved table: leave it out"):
            sharded.load(tmp_path / "t", **{name: 1})
    with pytest.raises(gh.InvalidArgument, match="shards=0 is out of range"):
        sharded.load(tmp_path / "t", shards=0)
    for shards in (129, 257):
        with sharded.load(tmp_path / "t", shards=shards) as table:
            table.check()
            assert len(table) == 10


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"format": 2}, gh.Unsupported, "has format 2 and hash 1"),
        ({"hash": 7}, gh.Unsupported, "hash 7, this gpuhash 1 and 1: update"),
        ({"seed": "x"}, gh.Corrupt, "has no seed of type int"),
        ({"shards": []}, gh.Corrupt, "has 0 shards"),
        ({"tags": []}, gh.Corrupt, "tags of 0"),
        (
            {"shards": [{"file": "../x", "bytes": 1, "digest": ""}] * 3},
            gh.Corrupt,
            "shard 0 has no file of this folder",
        ),
        ({"shards": [7, 7, 7]}, gh.Corrupt, "shard 0 has no file"),
    ],
)
def test_records_that_are_wrong(tmp_path, change, error, message):
    with filled(10) as table:
        table.save(tmp_path / "t")
    path = tmp_path / "t" / "shards.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(error, match=message):
        sharded.load(tmp_path / "t")
    path.write_text("{")
    with pytest.raises(gh.Corrupt, match="is no JSON"):
        sharded.load(tmp_path / "t")
