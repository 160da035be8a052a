"""`pygpuhash new-plugin`: what is written, what is refused, and (slow) that it works where only wheels are."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import pygpuhash as gh
from pygpuhash import cli, manifest, new_plugin, registry

KINDS = list(new_plugin.KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written(tmp_path, capsys, kind):
    folder = tmp_path / "somewhere" / "new"
    assert cli.main(["new-plugin", str(folder), "--kind", kind, "--name", "my_probe"]) == 0
    assert f"pip install {folder}" in capsys.readouterr().out  # with what else: test_the_line_that_installs
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert not [path for path in (tmp_path / "somewhere").iterdir() if path != folder]
    for name, text in files.items():
        assert not re.search(r"@[A-Z]+@", name + text), name
        if name.endswith(".py"):
            ast.parse(text, name)
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["name"] == "gpuhash-my-probe"
    assert project["project"]["dependencies"] == [f"gpuhash>={gh.__version__}"]
    assert "numpy" not in str(project["build-system"]["requires"])
    (target,) = project["project"]["entry-points"]["pygpuhash.backends"].values()
    module, _, attribute = target.partition(":")
    assert f"{'class' if kind == 'python' else 'def'} {attribute}" in files[f"src/{module}/__init__.py"]
    assert {"tests/test_my_probe.py", ".github/workflows/ci.yml", "README.md", ".gitignore"} <= set(files)
    json.loads(files["asv/asv.conf.json"])
    if kind != "python":
        said = tomllib.loads(files["src/manifest.toml"].replace("{devices}", '"cpu"'))
        assert set(said) <= set(manifest.Manifest.__dataclass_fields__)
        assert said["name"] == "my_probe"
        assert set(said["traits"]) <= set(registry._core.TRAITS)
    if kind == "kit":
        assert {"layout.hpp", "ops.hpp", "plugin_host.cpp", "plugin_cuda.cu"} <= {Path(name).name for name in files}
    if kind == "c":
        assert '.name = "my_probe"' in files["src/my_probe.c"]
        assert "toy" not in files["src/my_probe.c"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My", "must be an identifier of lower-case letters"),
        ("3d", "must be an identifier"),
        ("a-b", "must be an identifier"),
        ("", "must be an identifier"),
        ("class", "no keyword"),
        ("a" * 49, "at most 48"),
        ("a\n", "must be an identifier"),
        ("hive", "name='hive' is taken by gpuhash: choose another"),
    ],
)
def test_names_that_are_refused(tmp_path, capsys, name, words):
    assert cli.main(["new-plugin", str(tmp_path / "new"), "--kind", "kit", "--name", name]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert not list(tmp_path.iterdir())


def test_folders_that_are_refused(tmp_path, capsys):
    full, file, link = tmp_path / "full", tmp_path / "file", tmp_path / "link"
    full.mkdir()
    (full / "mine").write_text("mine")
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    for folder, words in (
        (full, f"'{full}' is not empty: name a new folder"),
        (file, f"'{file}' is no folder: name a new one"),
        (link, f"'{link}' is no folder"),
        (file / "below", f"'{file / 'below'}' cannot be written: '{file}' is no folder; name another place"),
        (link / "a/b", f"'{link / 'a/b'}' cannot be written: '{link}' is no folder; name another place"),
    ):
        assert cli.main(["new-plugin", str(folder), "--kind", "c", "--name", "mine"]) == 2
        assert words in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(gh.InvalidArgument, match="kind='rust' is not known: choose of kit, c, python"):
        new_plugin.write(tmp_path / "new", "rust", "mine")


@pytest.mark.parametrize(("kind", "noted"), [("kit", True), ("kit", False), ("c", True), ("python", True)])
def test_the_line_that_installs(monkeypatch, tmp_path, kind, noted):
    """Of a gpuhash that was installed from a file, a build that is isolated finds nothing in an index."""
    (tmp_path / "METADATA").write_text("Name: gpuhash\n")
    if noted:
        (tmp_path / "direct_url.json").write_text('{"url": "file:///tmp/gpuhash.whl"}')
    installed = importlib.metadata.PathDistribution(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: {"gpuhash": installed}[name])
    plain = "pip install './my probe'"  # without the dot: a name, which pip would look for in an index
    alone = noted and kind != "python"
    expected = f"pip install 'setuptools>=77' && {plain} --no-build-isolation" if alone else plain
    assert new_plugin.how_to_install("my probe", kind) == expected
    assert "pip install ../probe" in new_plugin.how_to_install("../probe", kind)


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "new").mkdir()
    files = new_plugin.write(tmp_path / "new", "python", "mine")
    assert all((tmp_path / "new" / file).is_file() for file in files)


def test_nothing_is_left_half_written(tmp_path, monkeypatch):
    written = []
    write = Path.write_text

    def fails(path, text, **how):
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(gh.InvalidArgument, match="cannot be written: No space left on device"):
        new_plugin.write(tmp_path / "new", "kit", "mine")
    assert not list(tmp_path.iterdir())


# ---- built and installed ---------------------------------------------------------------------------------------------


def must(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """An environment to use the wheel of gpuhash in, and one to build plugins in, with that wheel and without numpy."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "setup.py").exists():
        pytest.skip("the sources are not here")
    given = os.environ.get("GPUHASH_WHEEL")
    top = tmp_path_factory.mktemp("released")
    if not given:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        must(*pip, "--wheel-dir", top, root, env={**os.environ, "GPUHASH_CUDA": "off"})
    wheel = given or next(top.glob("gpuhash-*.whl"))
    for name, packages in (("build", ["setuptools>=77"]), ("use", ["numpy", "pytest", "hypothesis"])):
        must(sys.executable, "-m", "venv", top / name)
        pip = [top / name / "bin" / "python", "-m", "pip", "install", "--quiet"]
        must(*pip, *packages)
        must(*pip, "--no-deps", wheel)
    return top


def install_and_use(released, tmp_path, folder, kind, name):
    """Build a distribution where gpuhash's wheel is and numpy is not, then install it, run its tests, and compare."""
    if kind != "python" and not shutil.which("g++" if kind == "kit" else "cc"):
        pytest.skip("no compiler is installed")
    build, use = released / "build" / "bin" / "python", released / "use" / "bin" / "python"
    environment = {**os.environ, "GPUHASH_CUDA": "off"}
    assert subprocess.run([build, "-c", "import numpy"], capture_output=True).returncode != 0
    pip = [build, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    must(*pip, folder, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    tag = "any" if kind == "python" else "linux_.*"
    assert re.fullmatch(rf"gpuhash_{name}-0\.1\.0-py3-none-{tag}\.whl", wheel.name)
    inside = zipfile.ZipFile(wheel).namelist()
    modules = [file for file in inside if file.endswith(".so")]
    assert modules == ([] if kind == "python" else [f"gpuhash_{name}/gpuhash_{name}.so"])
    must(use, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    must(use, "-P", "-m", "pytest", "-q", folder / "tests", cwd=tmp_path)
    compared = must(use, "-P", "-m", "pygpuhash", "compare", "--n", "20000", "--backend", name, cwd=tmp_path)
    assert re.search(rf"{name} +cpu .*yes", compared)
    listed = json.loads(must(use, "-P", "-m", "pygpuhash", "backends", "--json", cwd=tmp_path))
    (row,) = (row for row in listed if row["name"] == name)
    distribution = f"gpuhash-{name.replace('_', '-')}"
    assert (row["state"], row["version"], row["distribution"]) == ("usable", "0.1.0", distribution)
    must(use, "-m", "pip", "uninstall", "--quiet", "-y", distribution)


@pytest.mark.parametrize("kind", ["kit", "c"])
def test_an_older_setuptools_is_named(tmp_path, kind):
    """As with --no-build-isolation in an environment that Python 3.11 has made, whose setuptools is 65.5."""
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    new_plugin.write(tmp_path / "new", kind, "made")
    older = "import sys; sys.modules['setuptools.command.bdist_wheel'] = None; sys.argv = ['setup.py', '--version']"
    program = f"{older}; exec(open('setup.py').read(), {{'__file__': 'setup.py'}})"
    done = subprocess.run([sys.executable, "-P", "-c", program], cwd=tmp_path / "new", capture_output=True, text=True)
    assert done.returncode == 1
    said = r"this build needs setuptools 77 or newer, and [\d.]+ is installed: pip install -U setuptools\n"
    assert re.fullmatch(said, done.stderr)


@pytest.mark.slow
@pytest.mark.xdist_group("released")  # the checkout builds one wheel at a time
@pytest.mark.parametrize("kind", KINDS)
def test_it_builds_and_works_from_the_wheel_alone(released, tmp_path, kind):
    use, name, folder = released / "use" / "bin" / "python", f"made_{kind}", tmp_path / "new"
    must(use, "-P", "-m", "pygpuhash", "new-plugin", folder, "--kind", kind, "--name", name, cwd=tmp_path)
    install_and_use(released, tmp_path, folder, kind, name)


# ---- the examples ----------------------------------------------------------------------------------------------------

EXAMPLES = {"cuckoo": "kit", "chained": "c", "sorted": "python"}
# What an example has of its own; everything else is as it was generated.
OWN = ("README.md", "src/*.[ch]*", "src/manifest.toml", "src/plugin_cuda.cu", "tests/*", "src/gpuhash_sorted/*")


def example(name):
    folder = Path(__file__).resolve().parents[2] / "plugins" / "examples" / name
    if not folder.is_dir():
        pytest.skip("the sources are not here")
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_what_the_command_writes(tmp_path, monkeypatch, name):
    monkeypatch.setattr(registry, "candidates", lambda: ([], []))  # it may be installed
    generated = {str(file) for file in new_plugin.write(tmp_path / "new", EXAMPLES[name], name)}
    folder = example(name)
    for file in sorted(generated):
        assert (folder / file).is_file(), f"{file} is missing"
        if not any(Path(file).match(own) for own in OWN):
            expected = (tmp_path / "new" / file).read_text().replace(f"gpuhash>={gh.__version__}", "gpuhash>=0.1.0")
            assert (folder / file).read_text() == expected, file


@pytest.mark.slow
@pytest.mark.xdist_group("released")  # the checkout builds one wheel at a time
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_builds_and_works_from_the_wheel_alone(released, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(example(name), folder)
    install_and_use(released, tmp_path, folder, EXAMPLES[name], name)


# ---- explored --------------------------------------------------------------------------------------------------------

# What a generated ops.hpp says, what a mistake makes of it, and what the explorer says then.
MISTAKES = [
    ("const bool retry = writing && !won,", "const bool retry = false && !won,", "not linearizable"),
    ("spot = tile.choose(revives, dead, spot);", "revives = false;", "I3: "),
    ("ended = ends || kd == nop,", "ended = ends || kd == nop || kd == find,", "not linearizable"),
]


@pytest.mark.slow
def test_the_explorer_finds_a_mistake_in_a_generated_plugin(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    new_plugin.write(tmp_path / "new", "kit", "made")
    source = tmp_path / "new" / "src" / "ops.hpp"
    text = source.read_text()
    explore = [sys.executable, "-P", "-m", "pygpuhash", "explore", source.with_name("plugin_sim.cpp"), "made"]
    explore += ["--programs", "pairs", "--format", "pair32", "--memory", "sc"]
    assert " 0 violations" in must(*explore)
    for right, wrong, sentence in MISTAKES:
        assert text.count(right) == 1
        source.write_text(text.replace(right, wrong))
        done = subprocess.run([str(part) for part in explore], capture_output=True, text=True)
        assert done.returncode == 1, done.stdout + done.stderr
        assert sentence in done.stdout
        assert "replay: made/pair32/r2/sc/" in done.stdout


# Of the example cuckoo: the rules that its head explains, each left out, and what then goes wrong while key 4 moves.
CUCKOO_MISTAKES = [
    ("        Mem::fence();  // a walker that sees the pair in the old slot sees the copy\n", "", "weak", "i0=1+f4"),
    ("    if (go && moves) Mem::fence();", "    if (false) Mem::fence();", "weak", "i0=1+f4"),
    ("        Mem::template store<order::relaxed>(line + i, w);\n", "", "sc", "i0=1+s4=7"),
    ("      if (cuckoo_is_of<F>(w, k)) return cuckoo_put::retry;\n", "", "sc", "i0=1+i0=2"),
    ("!alive && tile.any(dead);", "!alive && tile.any(dead) && Kind != find;", "sc", "i0=1+e4,f4"),
]


@pytest.mark.slow
def test_the_explorer_finds_mistakes_in_cuckoo(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    shutil.copytree(example("cuckoo") / "src", tmp_path / "src")
    source = tmp_path / "src" / "ops.hpp"
    text = source.read_text()
    explore = [sys.executable, "-P", "-m", "pygpuhash", "explore", source.with_name("plugin_sim.cpp"), "cuckoo"]
    for right, wrong, memory, program in CUCKOO_MISTAKES:
        more = [
            "--programs",
            f"i2=9,i3=9,i4=9,i5=9:{program}",
            "--layout",
            "r2",
            "--format",
            "pair32",
            "--memory",
            memory,
        ]
        assert text.count(right) == 1, right
        source.write_text(text.replace(right, wrong))
        done = subprocess.run([str(part) for part in [*explore, *more]], capture_output=True, text=True)
        assert done.returncode == 1, wrong + done.stdout + done.stderr
        assert "not linearizable" in done.stdout, wrong
        assert "replay: cuckoo/pair32/r2/" in done.stdout
        source.write_text(text)
    assert " 0 violations" in must(*explore, *more)


@pytest.mark.slow
def test_the_explorer_ends_in_cuckoo(tmp_path):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    shutil.copytree(example("cuckoo") / "src", tmp_path / "src")
    source = tmp_path / "src" / "ops.hpp"
    explore = [sys.executable, "-P", "-m", "pygpuhash", "explore", source.with_name("plugin_sim.cpp"), "cuckoo"]
    explore += ["--programs", "pairs"]
    lines = [json.loads(line) for line in must(*explore, "--json").splitlines()]
    ends = [(line["memory"], line["violations"], line["exhaustive"]) for line in lines]
    assert ends == [("sc", 0, True), ("weak", 0, True)]
    right, wrong, _, _ = CUCKOO_MISTAKES[0]
    source.write_text(source.read_text().replace(right, wrong))
    done = subprocess.run([str(part) for part in [*explore, "--memory", "weak"]], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "replay: cuckoo/pair32/r2/weak/" in done.stdout


def test_sources_that_cannot_be_explored(tmp_path, capfd, monkeypatch):
    assert cli.main(["explore", str(tmp_path / "none.cpp")]) == 2
    assert "none.cpp' is no file: pass the plugin_sim.cpp of a structure" in capfd.readouterr().err
    source = tmp_path / "plugin_sim.cpp"
    source.write_text("#error not yet\n")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert cli.main(["explore", str(source), "made", "--quick"]) == 2
    assert "there is no C++ compiler 'no-such-compiler': install g++, or name one in CXX" in capfd.readouterr().err
    monkeypatch.setenv("CXX", "false")
    assert cli.main(["explore", str(source), "made", "--quick"]) == 2
    assert f"'{source}' does not compile" in capfd.readouterr().err
