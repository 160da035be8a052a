"""asv_bench.campaign: commits that are fetched, built and measured by themselves."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pygpuhash as gh

sys.path.append(str(Path(__file__).resolve().parents[2]))  # at the end, so that pygpuhash is the installed one
campaign = pytest.importorskip("asv_bench.campaign", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness import asv_results, card  # noqa: E402

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


# ---- a card ----------------------------------------------------------------------------------------------------------

LABEL = campaign.TableCourse("", *campaign.card_sizes()[0]).label


@pytest.fixture
def of_a_card(tmp_path, monkeypatch):
    """A commit that is the installed package, on a card whose tables take 3 ns a key, of accesses of 2 ns."""
    folder = tmp_path / "commits"
    commit = folder / ("c" * 40)
    commit.mkdir(parents=True)
    (commit / "commit.json").write_text(json.dumps({"commit": commit.name, "date": 6000}))
    course = campaign.CardCourse("hive", *campaign.card_sizes()[0])
    monkeypatch.setattr(campaign, "courses", lambda library, device: [("CardTables", (course.backend, LABEL), course)])
    monkeypatch.setattr(
        campaign,
        "median_times",
        lambda course, build, tables: {"insert": 3e-9 * course.n, "erase": 3e-9 * course.n / 2},
    )
    monkeypatch.setattr(card, "identity", lambda: dict(CARD))
    monkeypatch.setattr(card, "key_ceilings", lambda: dict.fromkeys((("insert", LABEL), ("erase", LABEL)), 2.0))
    monkeypatch.setattr(asv_results, "facts", lambda name: {"machine": name, "cpu": "x86-64, Card 7", "version": 1})
    monkeypatch.setenv("GPUHASH_BENCH_MACHINE", "here")
    return commit


CARD = {"model": "Card 7", "memory_clock_mhz": 2619, "memory_bus_bits": 5120}


def test_a_record_of_a_card(of_a_card, tmp_path, capsys):
    """The installed package as the build; the card, its ceilings, and figures as multiples of them in one record."""
    folder, output = of_a_card.parent, tmp_path / "results"
    assert campaign.main(["installed", str(folder)]) == 0
    assert f"{of_a_card.name} is {Path(gh.__file__).parent}" in capsys.readouterr().out
    campaign.one(of_a_card, "cuda")
    assert campaign.main(["measure", str(folder), "--device", "cuda", "--output", str(output)]) == 0
    record = json.loads((output / "here" / "cccccccc-campaign.json").read_text())
    assert record["card"] == CARD
    figures = {
        name: dict(zip(itertools.product(*([of.strip("'") for of in axis] for axis in axes)), values, strict=True))
        for name, (values, axes, *_) in record["results"].items()
    }
    assert set(figures) == {
        "gpu_tables.Tables.track_key_ns",
        "gpu_tables.Tables.track_times_ceiling",
        "gpu_machine.TableCeiling.track_key_ns",
    }
    assert figures["gpu_machine.TableCeiling.track_key_ns"]["insert", LABEL] == 2
    assert figures["gpu_tables.Tables.track_key_ns"]["hive", "insert", LABEL] == pytest.approx(3)
    assert figures["gpu_tables.Tables.track_times_ceiling"]["hive", "insert", LABEL] == pytest.approx(1.5)
    assert sum(map(math.isfinite, figures["gpu_tables.Tables.track_times_ceiling"].values())) == 2  # others: NaN
    assert record["date"] == 6000


def test_a_record_of_another_card_is_refused(of_a_card, tmp_path, capsys):
    folder, output = of_a_card.parent, tmp_path / "results"
    campaign.use_installed(folder)
    campaign.one(of_a_card, "cuda")
    (output / "here").mkdir(parents=True)
    (output / "here" / "machine.json").write_text(json.dumps({"machine": "here", "cpu": "Card 7", "version": 1}))
    (output / "here" / "earlier.json").write_text(json.dumps({"card": CARD | {"memory_clock_mhz": 1593}}))
    capsys.readouterr()
    assert campaign.main(["measure", str(folder), "--device", "cuda", "--output", str(output)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("campaign: here has records of Card 7 with memory of 5120 bits at 1593 MHz, and this is ")
    assert "GPUHASH_BENCH_MACHINE has to name another machine" in said
    assert not (output / "here" / "cccccccc-campaign.json").exists()


def test_a_package_that_sees_no_card(of_a_card, monkeypatch):
    campaign.use_installed(of_a_card.parent)

    def no_kernels():
        raise gh.Unsupported("there is no CUDA code")

    monkeypatch.setattr(card, "key_ceilings", no_kernels)
    with pytest.raises(campaign.BadBuild, match=r"of a card cannot be measured: .*there is no CUDA code"):
        campaign.one(of_a_card, "cuda")
    assert not (of_a_card / "measured.json").exists()


def test_the_installed_package_is_one_commit(of_a_card, capsys):
    other = of_a_card.parent / ("d" * 40)
    other.mkdir()
    (other / "commit.json").write_text(json.dumps({"commit": other.name, "date": 7000}))
    assert campaign.main(["installed", str(of_a_card.parent)]) == 2
    assert "has 2 commits, and the installed package is the build of one" in capsys.readouterr().err
    assert not (of_a_card / "built").exists()


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
