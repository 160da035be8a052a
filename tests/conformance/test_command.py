"""`pygpuhash conformance`: names, paths, seeds, output, exit status."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _devices, cli
from pygpuhash import conformance as command
from pygpuhash._conformance import CHECKS
from pygpuhash._conformance.harness import run, same

ROOT = Path(__file__).resolve().parents[2]


def conformance(*arguments):
    return cli.main(["conformance", *arguments])


def test_every_check_has_a_summary():
    assert all(one.summary.endswith(".") for one in CHECKS.values())
    assert all(one.needs <= set(_core.TRAITS) for one in CHECKS.values())


def test_every_check_is_in_the_document():
    table = (ROOT / "docs" / "conformance.md").read_text().partition("| check |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines() if row for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])]
    assert sorted(names) == sorted(CHECKS)


def test_output_and_status(capsys):
    assert conformance("linear_probe", "--device", "cpu", "--quick", "--check", "widths", "--check", "multi") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "loading linear_probe"
    assert lines[1] == "linear_probe on cpu, seed 1, quick"
    assert lines[2].split()[:2] == ["widths", "pass"]
    assert lines[3].split()[:2] == ["multi", "skip"]
    assert "does not have the trait multi" in lines[3]
    assert lines[4].startswith("linear_probe on cpu: 1 passed, 0 failed, 1 skipped in ")


def test_json(capsys):
    arguments = ["--device", "cpu", "--seed", "5", "--option", "slab_bytes=64", "--check", "widths", "--json"]
    arguments += ["--limit", "0"]  # any
    assert conformance("slab_hash", *arguments) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["backend"], report["device"], report["seed"]) == ("slab_hash", "cpu", 5)
    assert report["options"] == {"slab_bytes": "64"}
    assert (report["passed"], report["failed"], report["skipped"]) == (1, 0, 0)
    assert report["checks"][0]["name"] == "widths"


def test_failure_prints_how_to_repeat_it(capsys, monkeypatch):
    def planted(target):
        same("planted", np.array([1, 2, 3]), [1, 7, 3], np.array([4, 1 << 40, 6]))

    monkeypatch.setitem(CHECKS, "widths", replace(CHECKS["widths"], function=planted))
    arguments = ["--device", "cpu", "--seed", "9", "--quick", "--option", "row=16", "--check", "widths"]
    assert conformance("linear_probe", *arguments) == 1
    _, title, line, again, closing = capsys.readouterr().out.splitlines()
    assert title == "linear_probe on cpu, seed 9, quick, row=16"
    assert line.endswith("planted: 1 of 3 differ, the first at 1 (key 0x10000000000): got 2, expected 7")
    command = "pygpuhash conformance linear_probe --device cpu --seed 9 --quick --option row=16 --check widths"
    assert again.strip() == f"again: {command}"
    assert closing.startswith("linear_probe on cpu: 0 passed, 1 failed, 0 skipped")


def test_a_failure_of_a_module_by_its_path_says_how_to_repeat_it(capsys, monkeypatch, tmp_path):
    """Also where the path has a space in it: the line is what a shell takes."""
    path = next(row["path"] for row in _core.backend_list() if row["name"] == "linear_probe")
    folder = tmp_path / "a folder"
    folder.mkdir()
    copy = shutil.copy(path, folder / "gpuhash_linear_probe.so")

    def planted(target):
        raise AssertionError("planted")

    monkeypatch.setitem(CHECKS, "widths", replace(CHECKS["widths"], function=planted))
    assert conformance(str(copy), "--device", "cpu", "--check", "widths") == 1
    (again,) = (line for line in capsys.readouterr().out.splitlines() if "again: " in line)
    command = ["pygpuhash", "conformance", str(copy), "--device", "cpu", "--seed", "1", "--check", "widths"]
    assert shlex.split(again.partition("again: ")[2]) == command


def test_module_by_path(capsys):
    path = next(row["path"] for row in _core.backend_list() if row["name"] == "linear_probe")
    assert conformance(path, "--device", "cpu", "--quick", "--check", "widths") == 0
    assert capsys.readouterr().out.startswith(f"loading {path}\nlinear_probe on cpu")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["linear_prob"], "did you mean"),
        (["/nowhere/gpuhash_x.so"], "/nowhere/gpuhash_x.so"),
        (["linear_probe", "--device", "cpu:1"], "cpu:1"),
        (["linear_probe", "--device", "tpu"], "tpu"),
        (["linear_probe", "--seed", "0"], "--seed=0"),
        (["linear_probe", "--limit", "-1"], "--limit=-1 is out of range"),
        (["linear_probe", "--check", "nothing"], "--check=nothing is not known"),
        (["linear_probe", "--option", "row"], "--option=row is not KEY=VALUE"),
        (["linear_probe", "--option", "=16"], "--option= is not KEY=VALUE"),
    ],
)
def test_unusable_input(capsys, arguments, sentence):
    assert conformance(*arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out in ("", f"loading {arguments[0]}\n")


def test_one_of_two_devices_that_fails(monkeypatch):
    both = command.targets("linear_probe", "cpu", effort="quick") * 2
    outcomes = [command.Outcome("widths", "fail", 0.0, "no"), command.Outcome("widths", "pass", 0.0, "")]
    monkeypatch.setattr(command, "targets", lambda *arguments, **more: both)
    monkeypatch.setattr(command, "run", lambda check, target: outcomes.pop(0))
    assert conformance("linear_probe", "--check", "widths") == 1


def test_a_long_run_draws_its_seed():
    seeds = [command._seed(command._parser().parse_args(["hive", *more])) for more in ([], ["--long"], ["--long"])]
    assert seeds[0] == 1
    assert seeds[1] != seeds[2]


def test_devices_that_a_backend_can_use(monkeypatch):
    monkeypatch.setattr(_core, "device_count", lambda kind: (2 if kind == _core.CUDA else 1, ""))
    monkeypatch.setattr(_core, "backend_probe", lambda name, kind, at: "no" if (kind, at) == (_core.CUDA, 0) else None)
    assert command._usable_devices("linear_probe") == ["cpu", "cuda:1"]


@pytest.mark.parametrize(("capability", "wide"), [((8, 9), False), ((9, 0), True), ((12, 0), True)])
def test_pairs_of_16_bytes_where_a_gpu_has_them(monkeypatch, capability, wide):
    gpu = _devices.Device("cuda:0", "GPU", 1 << 30, 1, capability, 13000)
    monkeypatch.setattr(_devices, "devices", lambda: [gpu])
    widths = [("uint32", "uint32"), ("uint64", None), ("uint32", "uint64"), ("uint64", "uint64")]
    assert command._formats("cuda:0", widths) == (widths if wide else widths[:2])
    assert command._formats("cpu", widths) == widths


def test_whatever_a_backend_raises_is_a_failure():
    def planted(target):
        with target.table("uint32", None) as t:
            tables.append(t)
            raise ZeroDivisionError("odd")

    tables = []
    outcome = run(replace(CHECKS["widths"], function=planted), command.targets("linear_probe", "cpu")[0])
    assert outcome.outcome == "fail"
    assert outcome.message.startswith("ZeroDivisionError: odd")
    assert tables[0].closed


def test_a_class_that_passes_calls_on():
    passes = type("Passes", (), {"__getattr__": lambda self, name: None})
    assert command._refuse_without_methods("mine", passes, frozenset()) is None
    with pytest.raises(gh.PluginError, match="which has no insert, insert_or_assign"):
        command._refuse_without_methods("mine", type("Lacks", (), {}), frozenset())


@pytest.mark.parametrize(("name", "status"), [("linear_prob", 2), ("linear_probe", 0)])
def test_nothing_ends_the_process_later(monkeypatch, name, status):
    said = []
    monkeypatch.setattr(command, "_watch", lambda limit: said.append(True))
    monkeypatch.setattr(command, "_stop_watching", lambda: said.append(False))
    assert conformance(name, "--device", "cpu", "--quick", "--check", "widths") == status
    assert said == [True, False] * (len(said) // 2)


# ---- crashes and hangs have a name -----------------------------------------------------------------------------------

PLANTED = """
    import ctypes, sys, time
    from dataclasses import replace
    from pygpuhash import cli
    from pygpuhash._conformance import CHECKS

    def planted(target):
        {}

    CHECKS["widths"] = replace(CHECKS["widths"], function=planted)
    arguments = ["--device", "cpu", "--quick", *sys.argv[1:], "--check", "widths"]
    sys.exit(cli.main(["conformance", "linear_probe", *arguments]))
"""


def run_planted(body, *arguments):
    code = textwrap.dedent(PLANTED).format(body)
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_crash_has_a_name(as_json):
    done = run_planted("ctypes.string_at(0)", "--check", "lifecycle", *(["--json"] if as_json else []))
    assert done.returncode == -signal.SIGSEGV
    said = done.stderr if as_json else done.stdout
    *_, before, last = (line for line in said.splitlines() if line.startswith("  l") or line.startswith("  w"))
    assert before.split()[:2] == ["lifecycle", "pass"]
    assert last.split()[0] == "widths"
    assert "Segmentation fault" in done.stderr
    assert "in planted" in done.stderr


def test_a_hang_has_a_name():
    done = run_planted("time.sleep(60)", "--limit", "3")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].split() == ["widths"]
    assert "Timeout (0:00:03)!" in done.stderr
    assert "in planted" in done.stderr


def test_without_hypothesis(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert conformance("linear_probe", "--device", "cpu", "--quick", "--check", "differential") == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split()[:2] == ["differential", "skip"]
    assert line.endswith("needs the package hypothesis: pip install hypothesis")
