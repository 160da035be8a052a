"""Plugins that crash, hang, exit or lie take nothing with them; manifests say what a module is without loading it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import pygpuhash as gh
from pygpuhash import cli, manifest, probe, registry
from pygpuhash.errors import PluginError

ECHO = Path(__file__).resolve().parents[1] / "abi" / "plugins" / "echo.c"
AT_LOAD = "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void at_load(void) {{ {} }}\n"
CRASH, HANG, LEAVE = "abort();", "for (;;) pause();", "_exit(3);"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(name, what): the module of that name, which does so when it is loaded, in a folder of its own."""
    compiler = shutil.which("cc") or pytest.skip("cc is not installed")
    top, made = tmp_path_factory.mktemp("modules"), {}

    def compile_one(name, what=""):
        if (name, what) not in made:
            folder = Path(tempfile.mkdtemp(dir=top))
            extra, module = folder / "extra.c", folder / f"gpuhash_{name}.so"
            extra.write_text(AT_LOAD.format(what))
            flags = ["-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{gh.get_include()}"]
            subprocess.run([compiler, *flags, f'-DNAME="{name}"', ECHO, extra, "-o", module], check=True)
            made[name, what] = module
        return made[name, what]

    return compile_one


@pytest.fixture
def tool(tmp_path):
    """tool(arguments, *modules): runs the command line with these modules on its path: status, output, errors."""

    def start(arguments, *modules, code=""):
        for i, module in enumerate(modules):
            folder = tmp_path / str(i)
            folder.mkdir(exist_ok=True)
            for file in module.parent.glob("gpuhash_*"):
                shutil.copy(file, folder)
        folders = [str(tmp_path / str(i)) for i in range(len(modules))]
        program = f"import sys\nfrom pygpuhash import cli\n{code}\nsys.exit(cli.main(sys.argv[1:]))"
        environment = {**os.environ, "GPUHASH_PLUGIN_PATH": os.pathsep.join(folders)}
        command = [sys.executable, "-P", "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)

    return start


def test_bad_modules_are_listed_beside_the_others(compiled, tool):
    """One run of the command line, whose children take their time at the same time."""
    says = 'static const char text[] = "out of luck"; if (write(2, text, sizeof text - 1)) abort();'
    modules = [compiled("crashes", CRASH), compiled("leaves", LEAVE), compiled("talks", says)]
    done = tool(["backends", "--json"], *modules, compiled("sound"), compiled("sound"))
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    for name, sentence in (
        ("crashes", "loading it ended the process with SIGABRT"),
        ("leaves", "loading it ended the process with status 3"),
        ("talks", "loading it ended the process with SIGABRT (out of luck)"),
    ):
        assert (rows[name]["state"], rows[name]["error"]) == ("broken", sentence)
        assert rows[name]["path"].endswith(f"gpuhash_{name}.so")
    assert rows["linear_probe"]["state"] == rows["sound"]["state"] == "usable"
    (other,) = (row for name, row in rows.items() if name.endswith("/gpuhash_sound.so"))
    assert (other["state"], other["name"]) == ("usable", other["path"])
    assert other["note"] == "the name 'sound' stands for another module; use the path"


def test_a_module_that_hangs(compiled, monkeypatch):
    monkeypatch.setattr(probe, "LIMIT", 0.5)
    assert probe.failure_of(str(compiled("hangs", HANG))) == "loading it has not ended after 0.5 s"


def test_a_comparison_leaves_a_bad_module_out(compiled, tool):
    done = tool(["compare", "--n", "64", "--device", "cpu"], compiled("crashes", CRASH), code=ONE_RUN)
    assert done.returncode == 0, done.stderr
    assert "pygpuhash: backend crashes is left out: loading it ended the process with SIGABRT" in done.stderr
    assert "linear_probe  cpu" in done.stdout


@pytest.mark.parametrize("command", [["compare", "--n", "64", "--backend"], ["manifest"]])
def test_a_bad_module_that_is_asked_for(compiled, capsys, command):
    path = str(compiled("crashes", CRASH))
    assert cli.main([*command, path]) == 2
    said = capsys.readouterr().err
    assert said == f"pygpuhash: backend {path!r} cannot be used: loading it ended the process with SIGABRT\n"


ONE_RUN = (
    "from pygpuhash import compare\ncompare._MIN_RUNS = compare._MAX_RUNS = 1\ncompare.ceiling_of = lambda *of: 1.0"
)


def test_a_module_is_tried_by_its_path(compiled):
    assert probe.failure_of(str(compiled("crashes", CRASH))).startswith("loading it ended the process with SIGABRT")
    assert probe.failure_of(str(compiled("sound"))) is None
    assert probe.failure_of("/no/such/gpuhash_x.so") is None  # loading it says so
    assert probe.failure_of("linear_probe") is None


# ---- manifests -------------------------------------------------------------------------------------------------------

GOOD = """name = "NAME"
version = "7.1"
abi = "1"
devices = ["cpu"]
traits = ["insert", "grow"]
key_widths = [4, 8]
[[options]]
name = "speed"
choices = "low|high"
help = 'says "how" fast'
"""


def test_a_module_with_a_manifest_is_listed_without_being_loaded(compiled, tool):
    module = compiled("described", CRASH)
    manifest.path_beside(module).write_text(GOOD.replace("NAME", "described"))
    list_them = "import pygpuhash\nfor row in pygpuhash.backends(): print(row)\nsys.exit()"
    done = tool([], module, code=list_them)
    assert done.returncode == 0, done.stderr
    (row,) = (line for line in done.stdout.splitlines() if "described" in line)
    for part in ("state='not loaded'", "version='7.1'", "abi='v1'", "devices=('cpu',)", "name='speed'", "error=None"):
        assert part in row
    done = tool(["backends", "--json"], module)
    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "described")
    assert (row["state"], row["version"]) == ("broken", "7.1")


def test_what_a_manifest_says_that_is_not_true(compiled, tool):
    """The command line loads modules, and says so of each manifest beside them; a true one needs no note."""
    modules = [compiled(name) for name in ("true", "lying", "garbled")]
    for module, text in zip(modules, ("", "9.9", "not TOML"), strict=True):
        said = printed(module).replace('version = "', f'version = "{text}')
        manifest.path_beside(module).write_text(text if module is modules[2] else said)
    done = tool(["backends", "--json"], *modules)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    notes = [rows[name]["note"] for name in ("true", "lying", "garbled")]
    assert [rows[name]["state"] for name in ("true", "lying", "garbled")] == ["usable"] * 3
    assert notes[0] is None
    version = rows["lying"]["version"]
    assert notes[1].startswith(
        f"the manifest says version '9.9{version}', and the module '{version}': pygpuhash manifest "
    )
    assert notes[1].endswith("gpuhash_lying.so prints a true one")
    assert "gpuhash_garbled.toml' is no TOML" in notes[2]


CHECK = """
import json, sys
from pygpuhash._conformance import CHECKS
from pygpuhash._conformance.harness import Target, run
outcomes = [run(CHECKS["manifest-is-true"], Target(path)) for path in sys.argv[1:]]
print(json.dumps([[o.outcome, o.message] for o in outcomes]))
"""


def check_manifests(*modules):
    """In a process of its own, since a module that was opened stays open."""
    command = [sys.executable, "-P", "-c", CHECK, *map(str, modules)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def printed(module):
    command = [sys.executable, "-P", "-m", "pygpuhash", "manifest", str(module)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


LIES = [
    ('abi = "1"', 'abi = "2"', "abi '2', and the module '1'"),
    ('name = "liar"', 'name = "saint"', "name 'saint', and the module 'liar'"),
    ('"insert"', '"insert", "magic"', "magic"),
    ("key_widths = []", "key_widths = [8]", "key_widths 8, and the module none"),
    ('devices = ["cpu"]', 'devices = ["cpu", "cuda"]', "devices cpu, cuda, and the module cpu"),
    ('summary = "agrees to everything"', '[[options]]\nname = "none"', "options none"),
]


def test_manifests_that_are_true_and_that_lie(compiled, tmp_path):
    module = compiled("liar")
    text = printed(module)
    places = []
    for i, (truth, lie, _) in enumerate([("", "", ""), *LIES]):
        assert truth in text
        (tmp_path / str(i)).mkdir()
        places.append(Path(shutil.copy(module, tmp_path / str(i))))
        manifest.path_beside(places[-1]).write_text(text.replace(truth, lie, 1) if truth else text)
    said = manifest.read(places[0])
    assert (said.name, said.devices, said.abi) == ("liar", ("cpu",), "1")
    assert said.traits == tuple(sorted(registry._core.TRAITS))
    assert manifest.write(said) == text
    passed, *failed, without = check_manifests(*places, compiled("bare"))
    assert passed == ["pass", ""]
    assert without == ["skip", "there is no gpuhash_bare.toml beside the module"]
    for (_, _, sentence), (outcome, message) in zip(LIES, failed, strict=True):
        assert outcome == "fail"
        assert message.startswith("the manifest says ")
        assert sentence in message


def test_awkward_text_in_a_manifest(tmp_path):
    module = tmp_path / "gpuhash_x.so"
    row = ("a", 'quotes " and \\ \x7f\x01', "snow ☃ \U0001f600")
    said = manifest.Manifest("x", "1", "1", ("cpu",), (), (4,), (0,), (row,), "line\nbreak")
    manifest.path_beside(module).write_text(manifest.write(said))
    assert manifest.read(module) == said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "is no TOML"),
        ("name = 'x'\nversion = '1'\n", "has no abi, devices, traits"),
        (GOOD.replace('"7.1"', "7.1"), "version is 7.1: it must be text"),
        (GOOD.replace('["cpu"]', '"cpu"'), "devices is 'cpu': it must be a list"),
        (GOOD.replace("[4, 8]", "[4, true]"), "an entry of key_widths is True: it must be an integer"),
        (GOOD.replace('"low|high"', "3"), "choices of an option is 3: it must be text"),
        ("options = [3]\n" + GOOD.partition("[[")[0], "an entry of options is 3: it must be a table"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path, monkeypatch, text, sentence):
    module = tmp_path / "gpuhash_x.so"
    module.write_bytes(b"not a module")
    manifest.path_beside(module).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PluginError, match=f"manifest '{manifest.path_beside(module)}'.*") as caught:
        manifest.read(module)
    assert sentence in str(caught.value)
    info = {**registry._core.backend_list()[0], "path": str(module), "loaded": False, "origin": "on the path"}
    monkeypatch.setattr(registry._core, "backend_list", lambda: [info])
    (row,) = (row for row in gh.backends() if row.path == str(module))
    assert row.state == "broken"
    assert sentence in row.error


def test_the_command_manifest(capsys):
    assert cli.main(["manifest", "linear_probe"]) == 0
    assert 'name = "linear_probe"' in capsys.readouterr().out
    assert cli.main(["manifest", "linear_prob"]) == 2
    assert "did you mean" in capsys.readouterr().err
