"""asv_bench.campaign: commits that are fetched, built and measured by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pygpuhash as gh

sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
campaign = pytest.importorskip("asv_bench.campaign", reason="asv_bench is in a checkout of the repository only")
LISTED = json.loads((Path(campaign.__file__).parent / "results" / "benchmarks.json").read_text())


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """One commit with sources that meson refuses."""
    root = tmp_path / "repository"
    (root / "libgpuhash").mkdir(parents=True)
    (root / "libgpuhash" / "a.cpp").write_text("int a;\n")
    (root / "meson.build").write_text("no project\n")
    (root / "other").write_text("not needed\n")
    who = {f"GIT_{role}_{of}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for of in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *command], cwd=root, check=True, env=os.environ | who)
    monkeypatch.setattr(campaign, "ROOT", root)
    return root


def test_fetch_and_build(repository, tmp_path, capfd):
    folder = tmp_path / "commits"
    assert campaign.main(["fetch", str(folder), "HEAD"]) == 0
    assert campaign.main(["fetch", str(folder), "HEAD"]) == 0  # it is there
    (commit,) = campaign.fetched(folder)
    assert sorted(path.name for path in commit.iterdir()) == ["commit.json", "libgpuhash", "meson.build"]
    about = json.loads((commit / "commit.json").read_text())
    assert about["commit"] == commit.name
    assert about["date"] > 1.7e12
    capfd.readouterr()
    assert campaign.main(["build", str(folder)]) == 1
    assert f"{commit.name} cannot be built: see {commit / 'build.log'}" in capfd.readouterr().err
    assert not (commit / "built").exists()
    assert campaign.main(["measure", str(folder), "--output", str(tmp_path / "results")]) == 0  # nothing was built
    assert not (tmp_path / "results").exists()


def test_options_of_a_build(tmp_path):
    """Sources of before the option `isas` do not know it."""
    (tmp_path / "meson.options").write_text("option('cuda', type: 'feature')\n")
    assert campaign.options(tmp_path, "cpu") == ["-Dcuda=disabled"]
    assert campaign.options(tmp_path, "cuda") == ["-Dcuda=enabled"]
    (tmp_path / "meson.options").write_text("option('cuda', type: 'feature')\noption('isas', type: 'array')\n")
    assert campaign.options(tmp_path, "cuda") == ["-Dcuda=enabled", "-Disas=[]"]


def test_sentences(repository, tmp_path, capsys):
    assert campaign.main(["fetch", str(tmp_path / "c"), "nonsense"]) == 2
    assert "campaign: git show -s" in capsys.readouterr().err
    assert campaign.main(["build", str(tmp_path / "c")]) == 2
    assert f"campaign: {tmp_path / 'c'} has no commits: fetch some first" in capsys.readouterr().err
    for wrong in (["fetch", "c"], ["measure", "c", "HEAD"]):
        with pytest.raises(SystemExit):
            campaign.main(wrong)


def test_a_commit_is_measured_and_written(tmp_path, monkeypatch, capsys):
    """The installed package in place of a commit's build, with small tables."""
    commit = tmp_path / "commits" / ("a" * 40)
    (commit / "build").mkdir(parents=True)
    package = Path(gh.__file__).parent
    modules = next(path.parent for path in package.rglob("gpuhash_linear_probe.so"))
    (commit / "build" / "libgpuhash").symlink_to(package)
    (commit / "build" / "plugins").symlink_to(modules)
    (commit / "commit.json").write_text(json.dumps({"commit": commit.name, "date": 5000}))
    (commit / "built").touch()
    monkeypatch.setattr(campaign, "sizes", lambda: [(10, 10, (4, 4))])
    monkeypatch.setattr(campaign, "TABLES", 1)
    monkeypatch.setenv("GPUHASH_PLUGIN_PATH", str(modules))
    campaign.one(commit, "cpu")
    assert "figures" in capsys.readouterr().out
    label = campaign.TableCourse("", 10, 10, (4, 4)).label
    monkeypatch.setitem(
        campaign.AXES,
        "Tables",
        (campaign.AXES["Tables"][0], [list(campaign.BACKENDS), list(campaign.OPERATIONS), [label]]),
    )
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    assert campaign.measure(tmp_path / "commits", tmp_path / "results", "cpu") == 0
    record = json.loads((tmp_path / "results" / "here" / "aaaaaaaa-campaign.json").read_text())
    assert (record["commit_hash"], record["date"], record["params"]["machine"]) == (commit.name, 5000, "here")
    values, axes, version, started, _ = record["results"]["cpu_tables.Tables.track_key_ns"]
    assert len(values) == 25
    assert all(0 < ns < 1e6 for ns in values)
    assert axes[2] == [repr(label)]
    assert version == LISTED["cpu_tables.Tables.track_key_ns"]["version"]
    assert started > 1e12
    assert len(record["results"]["cpu_tables.Exports.track_pair_ns"][0]) == 5
    assert len(record["results"]["cpu_tables.Indices.track_row_ns"][0]) == 2


def test_a_process_that_ends_early_is_named(tmp_path, monkeypatch, capfd):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "asv_bench").symlink_to(Path(campaign.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    commit = tmp_path / "commits" / ("b" * 40)
    (commit / "build").mkdir(parents=True)
    (commit / "commit.json").write_text(json.dumps({"commit": commit.name, "date": 1}))
    (commit / "built").touch()
    assert campaign.measure(tmp_path / "commits", tmp_path / "results", "cpu") == 1
    said = capfd.readouterr().err
    assert "has no libgpuhash.so.0" in said
    assert f"{commit.name} cannot be measured: its process ended with status 2" in said


def test_figures_have_the_places_of_the_suite():
    for name, axes in campaign.AXES.values():
        assert LISTED[name]["params"] == [[repr(value) for value in axis] for axis in axes]
        assert LISTED[name]["version"] == campaign.VERSION
