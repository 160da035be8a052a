"""The results that are committed: asv has one series for each machine, shows all, and reports no false regression."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end, so that pygpuhash is the installed one
history = pytest.importorskip("asv_bench.history", reason="asv_bench is in a checkout of the repository only")
from asv_bench.harness import card  # noqa: E402
from asv_bench.harness.asv_results import COLUMNS  # noqa: E402

# ---- files of earlier benchmarks -------------------------------------------------------------------------------------

NAN = float("nan")
BOTH = ["'cpu'", "'cuda'"]
EARLIER = {
    "tables.FindHit.track_ns_per_key": [[1.0, 2.0], [["'hive'"], BOTH, ["0.8"], ["'4+4'"]], "1", 5, 0.1],
    "memory.Memory.track_bytes_per_key": [[10.0, NAN], [["'hive'"], BOTH, ["0.8"], ["'4+4'"]], "1", 5],
    "gpu.HostArrays.track_rate": [[4e9, None], [["'hive'", "'stadium'"], ["'find'"]], "1", 5, 0.1],
    "gpu.SmallCall.track_host_us": [[3.0], [["'hive'"]], "2", 5],
    "overhead.OneNumber.track_number_us": [[0.5], [["'hive'"], ["'find'"]], "1", 5],
    "build.CleanBuild.track_seconds": [[NAN], [["'off'"]], "1", 5],
    "ordered.Ordered.track_ns_per_key": [None, [], "1", 5],
}
TODAY = {
    "wall_clock.FindHit.track_ns_per_key": [[1.0], [["'hive'"], ["'2^17'"], ["0.8"], ["'4+4'"]], "1", 5, 0.1],
    "gpu_tables.FindHit.track_ns_per_key": [[2.0], [["'hive'"], ["'2^20'"], ["0.8"], ["'4+4'"]], "1", 5, 0.1],
    "cpu_memory.Memory.track_bytes_per_key": [[10.0], [["'hive'"], ["0.8"], ["'4+4'"]], "1", 5],
    "gpu_calls.HostArrays.track_key_ns": [[0.25, None], [["'hive'", "'stadium'"], ["'find'"]], "1", 5, 0.1],
    "gpu_calls.SmallCall.track_host_us": [[3.0], [["'hive'"]], "2", 5],
    "wall_clock.OneNumber.track_number_us": [[0.5], [["'hive'"], ["'find'"]], "1", 5],
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results with one file of earlier benchmarks."""
    folder = tmp_path / "results"
    (folder / "here").mkdir(parents=True)
    (folder / "here" / "machine.json").write_text('{"machine": "here", "os": "Linux", "version": 1}')
    record = {"commit_hash": "0123456789", "date": 7, "python": "3.11.7", "params": {"os": "Linux 6.1"}, "version": 2}
    record |= {"results": EARLIER, "result_columns": [*COLUMNS, "samples"], "env_name": "e"}
    (folder / "here" / "01234567-e.json").write_text(json.dumps(record))
    monkeypatch.setattr(history, "commit_date", lambda commit: 1000)
    return folder


def test_conversion(results):
    path = results / "here" / "01234567-e.json"
    assert history.convert(results) == 1
    found = json.loads(path.read_text())
    assert found["results"] == TODAY
    assert found["params"] == {"machine": "here", "os": "Linux", "python": "3.11"}
    assert (found["date"], found["python"]) == (1000, "3.11")
    assert history.convert(results) == 0  # once is enough


def test_a_report_says_how_many_keys(results):
    path = results / "here" / "01234567-e.json"
    record = json.loads(path.read_text())
    record["params"]["n"] = str(1 << 27)
    path.write_text(json.dumps(record))
    history.convert(results)
    assert json.loads(path.read_text())["results"]["gpu_tables.FindHit.track_ns_per_key"][1][1] == ["'2^27'"]


def test_what_asv_is_told_of_a_machine(tmp_path, monkeypatch):
    """All facts, as they are in results/ if the machine is there; other machines stay."""
    monkeypatch.setenv("HOME", str(tmp_path))
    results = tmp_path / "results"
    for name, text in (("amd-milan-2", None), ("another", '{"machine": "another", "ram": "1 GB"}')):
        (results / name).mkdir(parents=True)
        text = text or (history.RESULTS / name / "machine.json").read_text()
        (results / name / "machine.json").write_text(text)
    monkeypatch.setattr(history, "RESULTS", results)
    for name in ("amd-milan-2", "another"):
        assert history.main(["machine", name]) == 0
    told = json.loads((tmp_path / ".asv-machine.json").read_text())
    assert set(told) == {"version", "amd-milan-2", "another"}
    known = json.loads((history.RESULTS / "amd-milan-2" / "machine.json").read_text())
    assert told["amd-milan-2"] == {key: known[key] for key in history.FACTS}
    assert set(told["another"]) == set(history.FACTS)
    assert told["another"]["ram"] == "1 GB"
    assert all(told["another"].values())


EXISTING = {
    "commit_hash": "0123456789",
    "env_name": "existing-py_somewhere_bin_python3.12",
    "python": "/somewhere/bin/python3.12",
    "date": 7,
    "params": {"machine": "here", "os": "Linux", "python": "/somewhere/bin/python3.12", "numpy": ""},
    "result_columns": [*COLUMNS, "samples"],
    "version": 2,
}


def test_what_asv_wrote_of_an_installed_package_is_kept(results, monkeypatch, capsys):
    """No path of this machine is left, and figures that the commit has already stay."""
    monkeypatch.setattr(history, "RESULTS", results)
    folder, axes = results / "here", [["'find'"], ["'random'"]]
    about = (folder / "machine.json").read_text()

    def ran(name, value):
        rows = {name: [[value], axes, "1", 5, 0.1, None], "cpu_slabs.Broken.track": [None, [], "1", 5, 0.1]}
        (folder / "01234567-existing-py_somewhere_bin_python3.12.json").write_text(
            json.dumps(EXISTING | {"results": rows})
        )
        (folder / "machine.json").write_text(json.dumps(json.loads(about), indent=4))  # as asv does
        assert history.main(["keep"]) == 0
        assert capsys.readouterr().out == f"{folder / '01234567-cpu-py3.12.json'}\n"
        return json.loads((folder / "01234567-cpu-py3.12.json").read_text())

    ran("cpu_verbs.Columns.track_element_ns", 3.0)
    record = ran("cpu_calls.OneKey.track_array_us", 2.0)
    assert {name: row[0] for name, row in record["results"].items()} == {
        "cpu_verbs.Columns.track_element_ns": [3.0],
        "cpu_calls.OneKey.track_array_us": [2.0],
    }
    assert {len(row) for row in record["results"].values()} == {len(COLUMNS)}
    assert (record["env_name"], record["python"], record["result_columns"]) == ("cpu-py3.12", "3.12", COLUMNS)
    assert record["params"] == {"machine": "here", "os": "Linux", "python": "3.12"}
    assert "somewhere" not in json.dumps(record)
    assert json.loads((folder / "machine.json").read_text()) == json.loads(about)
    assert sorted(path.name for path in folder.iterdir()) == [
        "01234567-cpu-py3.12.json",
        "01234567-e.json",
        "machine.json",
    ]
    assert history.main(["keep"]) == 0
    assert capsys.readouterr().out == "asv has written no file of an installed package\n"


def test_what_asv_wrote_of_a_card_and_of_a_python_without_a_version(results, monkeypatch, capsys):
    folder = results / "here"
    rows = {"gpu_calls.SmallCall.track_host_us": [[3.0], [["'hive'"]], "2", 5, 0.1]}
    (folder / "01234567-existing-x.json").write_text(json.dumps(EXISTING | {"results": rows}))
    monkeypatch.setattr(card.gh, "devices", lambda: [SimpleNamespace(name="cpu", model="x86-64")])
    assert history.keep(results) == [folder / "01234567-cuda-py3.12.json"]
    assert "card" not in json.loads((folder / "01234567-cuda-py3.12.json").read_text())
    assert "history: the package sees no card cuda, so that" in capsys.readouterr().err
    monkeypatch.setattr(card, "identity", lambda: {"model": "Card 7", "memory_clock_mhz": 2619})
    (folder / "01234567-existing-x.json").write_text(json.dumps(EXISTING | {"results": rows}))
    assert history.keep(results) == [folder / "01234567-cuda-py3.12.json"]
    record = json.loads((folder / "01234567-cuda-py3.12.json").read_text())
    assert record["card"] == {"model": "Card 7", "memory_clock_mhz": 2619}
    absent = str(folder / "python3")
    (folder / "01234567-existing-x.json").write_text(json.dumps(EXISTING | {"results": rows, "python": absent}))
    with pytest.raises(history.BadHistory, match=r"'.*here/python3' does not say its version"):
        history.keep(results)


def test_a_python_whose_path_has_no_version_is_asked(results):
    folder = results / "here"
    (folder / "python3").symlink_to(sys.executable)
    rows = {"cpu_slabs.SlabAllocator.track_free_ns": [[3.0], [["'hive'"]], "2", 5, 0.1]}
    record = EXISTING | {"results": rows, "python": str(folder / "python3")}
    (folder / "01234567-existing-x.json").write_text(json.dumps(record))
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert history.keep(results) == [folder / f"01234567-cpu-py{here}.json"]
    assert json.loads((folder / f"01234567-cpu-py{here}.json").read_text())["python"] == here


def test_a_broken_file_is_named_and_left_out(results, capsys):
    (results / "here" / "broken.json").write_text("{")
    (results / "here" / "other.json").write_text("[1]")
    assert [path.name for path, _ in history.result_files(results)] == ["01234567-e.json"]
    assert "broken.json is left out: it is no JSON" in capsys.readouterr().err


def test_what_is_not_measured_any_more_is_listed(results):
    history.convert(results)
    entries = history.retired(results)
    assert set(entries) == {name for name in TODAY if name.startswith("wall_clock.")}
    entry = entries["wall_clock.FindHit.track_ns_per_key"]
    assert entry["params"] == [["'hive'"], ["'2^17'"], ["0.8"], ["'4+4'"]]
    assert len(entry["param_names"]) == 4
    assert (entry["unit"], entry["type"], entry["version"]) == ("ns/key", "track", "1")


# ---- what is committed -----------------------------------------------------------------------------------------------


def test_committed_results_are_of_today():
    """Facts of their machine, no kernel, names that are listed, figures that the list has a place for."""
    listed = json.loads((history.RESULTS / "benchmarks.json").read_text())
    seen = 0
    for path, record in history.result_files(history.RESULTS):
        machine = json.loads(path.with_name("machine.json").read_text())
        assert record["params"] == history.series(machine, record["python"]), path
        assert all(machine[key] for key in history.FACTS), path
        assert machine["os"] == "Linux", path
        for name, row in record["results"].items():
            assert name in listed, (path, name)
            assert None not in row[0], (path, name)  # a failure, beside which asv-spyglass compares nothing
            if row[2] == listed[name]["version"]:
                for axis, known in zip(row[1], listed[name]["params"], strict=True):
                    assert set(axis) <= set(known), (path, name)
            seen += 1
    assert seen > 200


def test_asv_finds_no_other_series():
    """It reads the folders of a machine's folder, too; a record without results would name another machine there."""
    seen = 0
    for path in history.RESULTS.rglob("*.json"):
        record = json.loads(path.read_text())
        if path.name == "machine.json" or (isinstance(record, dict) and "result_columns" in record):
            seen += 1
            assert path.parents[1] == history.RESULTS, path
            assert path.name == "machine.json" or record["results"], path
    assert seen > 50


def test_lists_of_parameters_are_the_same_everywhere():
    """The suite reads nothing of the machine for them; rates are gone."""
    pytest.importorskip("asv_runner", reason="needs asv")
    code = "import json, sys; from asv_bench import history; import pygpuhash as gh\n"
    code += "gh.devices = lambda: []; gh.backends = lambda: []; json.dump(history.benchmark_list(), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    listed = json.loads((history.RESULTS / "benchmarks.json").read_text())
    assert json.loads(done.stdout) == listed, "python -m asv_bench.history list"
    units = {entry["unit"] for entry in listed.values() if isinstance(entry, dict)}
    assert units <= {"ns", "us", "ms", "ns/key", "bytes", "times the ceiling"}


OTHERS = ("pandas", "polars", "numpy", "cupy.unique", "torch.unique", "searchsorted", "bisect", "sortedcontainers")


def test_the_configuration_of_asv():
    """Commits are linked, the branch is the project's, each rule of regressions is of some benchmark."""
    lines = (ROOT / "asv_bench" / "asv.conf.json").read_text().splitlines()
    given = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
    assert given["project_url"].startswith("https://")
    assert given["show_commit_url"] == given["project_url"] + "/commit/"
    assert given["branches"] == ["main"]
    for folder in ("benchmark_dir", "results_dir"):
        assert (ROOT / "asv_bench" / given[folder]).is_dir()
    listed = [name for name in json.loads((history.RESULTS / "benchmarks.json").read_text()) if name != "version"]
    left_out = given["regressions_first_commits"]
    assert set(left_out.values()) == {None}
    for pattern in (*left_out, *given["regressions_thresholds"]):
        assert [name for name in listed if re.search(pattern, name)], pattern
    searched = {name for name in listed if not any(re.search(pattern, name) for pattern in left_out)}
    modules = {name.partition(".")[0] for name in searched}
    assert {"cpu_tables", "cpu_calls", "gpu_tables"} <= modules
    assert not modules & {"wall_clock", "cpu_machine", "gpu_machine", "cpu_threads", "build"}
    of_a_card = {name for name in searched if name.startswith("gpu_tables.Tables.")}
    assert of_a_card == {f"gpu_tables.Tables.{card.RATIO}"}  # a slower card is no regression


def test_no_other_library_is_searched_for_regressions():
    listed = json.loads((history.RESULTS / "benchmarks.json").read_text())
    for name, entry in listed.items():
        if name != "version" and not name.startswith("wall_clock."):
            values = [value for axis in entry["params"] for value in axis]
            assert not [value for value in values if any(other in value for other in OTHERS)], name


# ---- what asv publish shows ------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path, results):
    """What asv would publish of a converted file, with one graph left out."""
    history.convert(results)
    folder = tmp_path / "site"
    (folder / "graphs" / "machine-here").mkdir(parents=True)
    benchmarks = {name: {"version": row[2], "unit": "ns"} for name, row in TODAY.items()}
    index = {"revision_to_hash": {"40": "0123456789"}, "benchmarks": benchmarks}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "regressions.json").write_text('{"regressions": []}')
    for name, row in TODAY.items():
        values = row[0] if "HostArrays" not in name else [None, None]
        (folder / "graphs" / "machine-here" / f"{name}.json").write_text(json.dumps([[40, values]]))
    return folder


def test_figures_that_no_graph_shows(site, results):
    assert history.check(site, results) == [
        "01234567-e.json: gpu_calls.HostArrays.track_key_ns: 0 of 1 figures are shown"
    ]
    assert history.main(["check", str(site.parent)]) == 2


def test_regressions_that_are_none(site, results):
    false = ["wall_clock.FindHit.track_ns_per_key(a)", "gpu_tables.Tables.track_key_ns(a)"]
    entries = [*([name] for name in false), ["cpu_memory.Memory.track_bytes_per_key"]]
    (site / "regressions.json").write_text(json.dumps({"regressions": entries}))
    faults = history.check(site, results)[1:]
    assert faults == [f"regressions: {name} is in the list, but not the library's figure" for name in false]


@pytest.mark.slow
def test_asv_publishes_the_committed_results(tmp_path):
    """In a clone with the history: every committed figure is in a graph, and no regression is a false one."""
    pytest.importorskip("asv", reason="needs asv")
    ran = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode or int(ran.stdout) < 500:
        pytest.skip("this clone does not have the commits of the results")
    clone, site = tmp_path / "clone", tmp_path / "site"
    subprocess.run(["git", "clone", "-q", "--no-checkout", f"file://{ROOT}", clone], check=True)
    subprocess.run(["git", "branch", "-f", "main", "HEAD"], cwd=clone, check=False)  # refused on main itself
    subprocess.run(["git", "tag", "v0.1.0", "HEAD~1"], cwd=clone, check=True)  # as a release is tagged
    shutil.copytree(
        ROOT / "asv_bench", clone / "asv_bench", ignore=shutil.ignore_patterns("env", "html", "ci", "__pycache__")
    )
    command = [sys.executable, "-m", "asv", "publish", "--no-pull", "-o", str(site)]
    done = subprocess.run(command, cwd=clone / "asv_bench", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Couldn't find" not in done.stdout
    index = json.loads((site / "index.json").read_text())
    tagged = subprocess.run(["git", "rev-parse", "HEAD~1"], cwd=clone, capture_output=True, text=True).stdout.strip()
    assert index["revision_to_hash"][str(index["tags"]["v0.1.0"])] == tagged
    assert history.check(site, clone / "asv_bench" / "results") == []
    graphs = history.published(site, "gpu_tables.FindHit.track_ns_per_key")
    assert max(len(points) for path, points in graphs if "machine-nvidia-h200" in path) >= 9
