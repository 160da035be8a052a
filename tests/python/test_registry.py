"""Backends announced by Python distributions: entry points, their errors, and names that two distributions share."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import cli, config, plugins, registry

CLASS = """
    class Backend:
        version = "3.1"
        traits = ("insert",)
        devices = ("cpu",)
        def __init__(self, **arguments):
            self.arguments = arguments
"""


def row(name):
    found = [r for r in gh.backends() if r.name == name]
    assert len(found) == 1, found
    return found[0]


def test_a_class_is_a_backend(distribution):
    distribution("fake-class", "shiny", CLASS)
    table = gh.Table("shiny", capacity=5, device="cpu")
    assert type(table).__name__ == "Backend"
    assert table.arguments == {"capacity": 5, "device": "cpu"}
    assert gh.Table("fake-class:shiny").arguments == {}
    found = row("shiny")
    assert (found.distribution, found.version, found.abi, found.state) == ("fake-class", "3.1", "python", "usable")
    assert found.path == "fake_class_module.Backend"


def test_targets_are_imported_when_asked_for(distribution):
    module = distribution("fake-lazy", "lazy", CLASS)
    with pytest.raises(gh.BackendNotFound):
        gh.Table("something else")
    assert module not in sys.modules
    gh.Table("lazy")
    assert module in sys.modules


def test_a_function_returns_the_path_of_a_module(distribution):
    path = row("linear_probe").path
    distribution("fake-path", "by_path", f"def target():\n    return {path!r}\n", "target")
    with gh.Table("by_path", device="cpu") as table:
        table[1] = 2
        assert table[1] == 2
        assert table.backend == "linear_probe"
    assert row("by_path").path == path
    assert row("by_path").abi == "v1"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('went wrong')", "could not be imported: RuntimeError: went wrong"),
        ("import no_such_module_at_all", "could not be imported: ModuleNotFoundError"),
        ("other = 1", "could not be imported: AttributeError"),
        ("Backend = 7", "the entry point is 7: it must be a function, a path or a class"),
        ("def Backend(): return 7", "returned 7: it must return a module's path or a class"),
        ("def Backend(): return 'relative.so'", "'relative.so', which is not an absolute path"),
        ("def Backend(): return '/no/such/gpuhash_x.so'", "/no/such/gpuhash_x.so"),
        ("def Backend(): 1 / 0", "could not say where it is: ZeroDivisionError"),
        ("raise SystemExit(3)", "could not be imported: SystemExit: 3"),
        ("def Backend(): raise SystemExit('bye')", "could not say where it is: SystemExit: bye"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "could not be imported: Odd: odd"),
        ("import pygpuhash\nclass Backend(pygpuhash.Table): pass", "is a subclass of pygpuhash.Table"),
        (f"def Backend(): return {__file__!r}", "test_registry.py"),
    ],
)
def test_a_broken_plugin_fails_only_when_asked_for(distribution, source, words):
    distribution("fake-broken", "broken", source)
    with gh.Table("linear_probe", device="cpu") as table:
        assert len(table) == 0
    found = row("broken")
    assert found.state == "broken"
    assert words in found.error
    with pytest.raises(gh.PluginError, match=r"broken|no/such|test_registry") as caught:
        gh.Table("broken")
    assert words in str(caught.value)
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize("source", ["raise KeyboardInterrupt", "def Backend(): raise KeyboardInterrupt"])
def test_ctrl_c_is_no_fault_of_a_plugin(distribution, source):
    distribution("fake-broken", "broken", source)
    for call in (gh.backends, lambda: gh.Table("broken")):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_the_command_line_survives_entry_points(distribution, capsys):
    distribution("fake-exits", "exits", "raise SystemExit(3)")
    distribution("fake-dies", "dies", "import os\nos.abort()")
    assert cli.main(["backends"]) == 0
    said = capsys.readouterr().out
    assert "exits of fake-exits: broken: backend 'exits' of distribution 'fake-exits' could not be imported" in said
    assert "dies of fake-dies: broken: loading it ended the process with SIGABRT" in said
    assert "linear_probe 0.1.0 of gpuhash: usable" in said


def test_a_function_is_asked_for_its_path_once(distribution):
    source = f"asked = []\ndef target():\n    asked.append(1)\n    return {row('linear_probe').path!r}\n"
    module = distribution("fake-once", "once", source, "target")
    for _ in range(3):
        gh.Table("once", device="cpu").close()
        gh.backends()
    assert sys.modules[module].asked == [1]


def test_a_broken_one_of_two_distributions_with_one_name(distribution):
    """Each has a name of its own in the list, which says whose is broken."""
    distribution("fake-sound", "shared", CLASS)
    distribution("fake-bad", "shared", "raise RuntimeError('went wrong')")
    assert (row("fake-sound:shared").state, row("fake-bad:shared").state) == ("ambiguous", "broken")
    assert "went wrong" in row("fake-bad:shared").error
    assert not [r for r in gh.backends() if r.name == "shared"]


def test_two_distributions_with_one_name(distribution):
    distribution("fake-one", "twice", CLASS)
    distribution("fake-two", "twice", CLASS.replace("3.1", "4.0"))
    with pytest.raises(gh.BackendNotFound, match=r"'twice' is provided by fake-one and fake-two: pick one.*:twice"):
        gh.Table("twice")
    assert gh.Table("fake-one:twice").version == "3.1"
    assert gh.Table("fake-two:twice").version == "4.0"
    rows = {r.name: r for r in gh.backends() if "twice" in r.name}
    assert set(rows) == {"fake-one:twice", "fake-two:twice"}
    assert {r.state for r in rows.values()} == {"ambiguous"}


@pytest.fixture
def copies(tmp_path):
    """Two copies of the module of linear_probe: modules of strangers with the name of a built-in."""
    module = Path(row("linear_probe").path)
    paths = [tmp_path / folder / module.name for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        shutil.copy(module, path)
    return paths


def use(backend):
    """Make a table of this backend and use it; returns the path of its module."""
    with gh.Table(backend, device="cpu") as table:
        table[1] = 2
        assert table[1] == 2
    return registry._core.backend_load(registry.resolve("linear_probe" if backend == "auto" else backend))["path"]


@pytest.mark.parametrize("source", ["class", "module", "broken"])
def test_nobody_takes_the_name_of_a_built_in(distribution, copies, source):
    built_in = row("linear_probe")
    target = {"class": CLASS, "module": f"def Backend(): return {str(copies[0])!r}", "broken": "1 / 0"}[source]
    distribution("fake-taker", "linear_probe", target)
    distribution("fake-other", "linear_probe", CLASS)
    assert use("linear_probe") == built_in.path
    assert use("auto") == built_in.path
    assert row("linear_probe") == built_in
    found = row("fake-taker:linear_probe")
    assert found.distribution == "fake-taker"
    if source == "broken":
        assert (found.state, found.error[-16:]) == ("broken", "division by zero")
        return
    assert found.state == "usable"
    assert found.note == f"the name 'linear_probe' stands for {built_in.path}; use 'fake-taker:linear_probe'"
    if source == "module":
        assert use("fake-taker:linear_probe") == found.path == str(copies[0])
    else:
        assert gh.Table("fake-taker:linear_probe", capacity=3).arguments == {"capacity": 3}


def test_two_distributions_whose_modules_have_one_name(distribution, copies):
    for name, path in zip(("fake-one", "fake-two"), copies, strict=True):
        distribution(name, "shared", f"def Backend(): return {str(path)!r}")
    assert use("fake-one:shared") == str(copies[0])
    assert use("fake-two:shared") == str(copies[1])
    assert use("fake-one:shared") == str(copies[0])
    with pytest.raises(gh.BackendNotFound, match="'shared' is provided by fake-one and fake-two"):
        gh.Table("shared")
    assert row("fake-two:shared").path == str(copies[1])


def test_a_module_is_opened_by_its_path(copies, monkeypatch):
    first, second = copies
    assert use(str(first)) == str(first)
    assert use(second) == str(second)  # a pathlib.Path
    found = gh.open_backend(first)
    assert (found.path, found.state, found.abi) == (str(first), "usable", "v1")
    assert use(found.name) == str(first)
    assert row("linear_probe").path not in (str(first), str(second))
    assert row(str(first)).note == "the name 'linear_probe' stands for another module; use the path"
    monkeypatch.chdir(first.parent)
    assert use(f"./{first.name}") == use(first.name) == str(first)
    for bad in ("/no/such/gpuhash_x.so", "gpuhash_x.so", Path("/no/such")):
        with pytest.raises(gh.PluginError, match="cannot be read: No such file or directory"):
            gh.Table(bad)
    with pytest.raises(gh.PluginError, match="cannot be read"):
        gh.open_backend("/no/such/gpuhash_x.so")


def test_a_module_whose_name_a_distribution_announces_is_reached_by_its_path(distribution, copies, capsys):
    """That of a developer, who has another version of it installed."""
    module = copies[0].with_name("gpuhash_linear_prove.so")
    module.write_bytes(copies[0].read_bytes().replace(b"\0linear_probe\0", b"\0linear_prove\0"))
    assert gh.open_backend(module).name == "linear_prove"
    distribution("fake-taker", "linear_prove", "1 / 0")
    assert gh.open_backend(module).name == str(module)
    assert row(str(module)).note == "the name 'linear_prove' stands for another module; use the path"
    assert row("linear_prove").state == "broken"
    assert cli.main(["conformance", str(module), "--device", "cpu", "--quick", "--check", "widths"]) == 0
    assert f"{module} on cpu: 1 passed" in capsys.readouterr().out


def test_the_path_comes_before_distributions(distribution, copies, tmp_path):
    """In a process of its own, since the variable is read once for a name."""
    toy = tmp_path / "path" / "gpuhash_linear_probe.so"
    toy.parent.mkdir()
    shutil.copy(copies[0], toy)
    distribution("fake-taker", "linear_probe", f"def Backend(): return {str(copies[1])!r}")
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path / "fake-taker")!r})
        import pygpuhash as gh
        from pygpuhash import cli
        for r in gh.backends():
            print(r.name, r.path, r.state)
        cli.main(["backends"])
    """
    environment = {**os.environ, "GPUHASH_PLUGIN_PATH": f"{toy.parent}:relative:/no/such/directory"}
    run = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True).stdout
    assert f"linear_probe {row('linear_probe').path} usable" in done
    assert f"fake-taker:linear_probe {copies[1]} usable" in done
    assert f"{toy} {toy} usable" in done
    assert "'relative' in GPUHASH_PLUGIN_PATH is not absolute and is left out" in done
    assert "'/no/such/directory' in GPUHASH_PLUGIN_PATH does not exist" in done


def test_the_path_decides_between_itself_and_a_distribution(distribution, copies, tmp_path, monkeypatch):
    distribution("fake-class", "shiny", CLASS)
    monkeypatch.setattr(registry, "_found_by_library", lambda: {"shiny": "/somewhere/gpuhash_shiny.so"})
    with pytest.raises(gh.BackendNotFound, match="backend 'shiny' is not known"):
        gh.Table("shiny")  # the library is asked, not the distribution
    assert row("fake-class:shiny").note == (
        "the name 'shiny' stands for /somewhere/gpuhash_shiny.so; use 'fake-class:shiny'"
    )


def test_a_strange_class_does_not_break_the_list(distribution):
    distribution("fake-strange", "strange", "class Backend:\n    traits = 7\n")
    assert row("strange").state == "broken"
    assert row("linear_probe").state == "usable"


def test_suggestions_know_entry_points(distribution):
    distribution("fake-class", "glitter", CLASS)
    with pytest.raises(gh.BackendNotFound, match="did you mean 'glitter'"):
        gh.Table("gliter")
    with pytest.raises(gh.BackendNotFound, match="did you mean 'fake-class:glitter'"):
        gh.Table("fake-clas:glitter")


def test_a_distribution_installed_twice_on_the_path_counts_once(distribution, tmp_path, monkeypatch):
    distribution("fake-class", "shiny", CLASS)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "fake_class-1.2.dist-info").symlink_to(tmp_path / "fake-class" / "fake_class-1.2.dist-info")
    monkeypatch.syspath_prepend(copy)
    assert gh.Table("shiny").arguments == {}


def test_this_distributions_backend():
    found = row("linear_probe")
    assert found.state == "usable"
    assert found.error is None
    assert "cpu" in found.devices
    assert {4, 8} <= set(found.key_widths)
    assert {0, 4, 8} <= set(found.value_widths)
    assert {"insert", "accumulate", "grow"} <= found.traits


def test_every_built_in_is_an_entry_point():
    modules = {path.stem.removeprefix("gpuhash_"): str(path) for path in Path(plugins._PLUGINS).glob("gpuhash_*.so")}
    points = importlib.metadata.distribution("gpuhash").entry_points.select(group="pygpuhash.backends")
    assert modules
    assert {point.name: point.load()() for point in points} == modules
    assert {point.name: point.load().__name__ for point in points} == {name: name for name in plugins.__all__}


def test_a_module_that_is_no_plugin_is_listed_as_broken(tmp_path):
    (tmp_path / "gpuhash_nonsense.so").write_bytes(b"not a module")
    code = """
        import pygpuhash as gh
        row, = [r for r in gh.backends() if r.name == "nonsense"]
        assert row.state == "broken" and row.error, row
        try:
            gh.Table("nonsense")
        except gh.PluginError as error:
            print(error)
        gh.Table("linear_probe", device="cpu")
    """
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("GPUHASH_PLUGIN_PATH")]))
    environment = {**os.environ, "GPUHASH_PLUGIN_PATH": path}
    run = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, env=environment, check=True)
    assert "gpuhash_nonsense.so" in done.stdout


def test_importing_is_light():
    code = """
        import sys, numpy
        import pygpuhash
        heavy = {"cuda", "cupy", "torch", "numba", "pandas", "matplotlib", "importlib.metadata", "ctypes.util"}
        print(sorted(heavy.intersection(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_configuration(capsys):
    settings = gh.show_config(mode="dict")
    assert settings["pygpuhash"] == gh.__version__
    assert settings["numpy"] == np.__version__
    gh.show_config()
    assert settings["build"] in capsys.readouterr().out
    with pytest.raises(ValueError, match="mode='xml'"):
        gh.show_config(mode="xml")


@pytest.mark.parametrize(
    ("found", "text"),
    [((0, "no driver"), "no driver"), ((0, None), "no device"), ((1, None), "1 device"), ((2, None), "2 devices")],
)
def test_configuration_of_devices(monkeypatch, found, text):
    monkeypatch.setattr(config._core, "device_count", lambda kind: found)
    assert gh.show_config(mode="dict")["cuda"] == text


def test_headers_are_installed():
    include = Path(gh.get_include()) / "gpuhash"
    assert (include / "gpuhash.h").is_file()
    assert (include / "plugin.h").is_file()


def test_devices():
    names = [d.name for d in gh.devices()]
    assert names[0] == "cpu"
    assert gh.devices()[0].units >= 1
    assert gh.devices()[0].memory_bytes > 0


def test_every_element_of_the_path_that_cannot_be_searched_is_named(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    elements = ["relative", str(tmp_path), str(file), str(tmp_path / "missing"), ""]
    monkeypatch.setenv("GPUHASH_PLUGIN_PATH", ":".join(elements))
    assert registry.search_path_faults() == [
        "'relative' in GPUHASH_PLUGIN_PATH is not absolute and is left out",
        f"'{file}' in GPUHASH_PLUGIN_PATH is not a directory",
        f"'{tmp_path / 'missing'}' in GPUHASH_PLUGIN_PATH does not exist",
    ]


def test_a_directory_of_the_path_that_may_not_be_read(tmp_path, monkeypatch):
    """The answers of the system are injected, since root may read everything."""
    locked, hidden = tmp_path / "locked", tmp_path / "hidden"
    locked.mkdir()
    hidden.mkdir()
    stat, access = Path.stat, os.access

    def deny(path, **how):
        if path == hidden:
            raise PermissionError(13, "Permission denied")
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", deny)
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != locked and access(path, how))
    monkeypatch.setenv("GPUHASH_PLUGIN_PATH", f"{locked}:{hidden}:{tmp_path}")
    assert registry.search_path_faults() == [
        f"'{locked}' in GPUHASH_PLUGIN_PATH cannot be read",
        f"'{hidden}' in GPUHASH_PLUGIN_PATH cannot be read",
    ]


def test_a_class_without_methods_is_told_all_of_them(distribution, capsys):
    """Once, instead of one after the other by failing checks."""
    distribution("fake-class", "shiny", CLASS + "        def find(self, keys): pass\n        traits = ('ordered',)\n")
    assert cli.main(["conformance", "shiny", "--quick"]) == 2
    said = capsys.readouterr().err
    assert "'shiny' is the class fake_class_module.Backend, which has no insert, insert_or_assign, contains" in said
    assert ", close, __len__, lower_bound, " in said
    assert "find," not in said
    assert "accumulate" not in said


def test_a_class_may_pass_calls_on(distribution, capsys):
    source = """
        import pygpuhash
        class Backend:
            traits = ("insert", "grow", "accumulate", "flush")
            def __init__(self, **arguments):
                self.table = pygpuhash.Table("linear_probe", **arguments)
            def __getattr__(self, name):
                return getattr(self.table, name)
            def __len__(self):
                return len(self.table)
            def __getitem__(self, keys):
                return self.table[keys]
            def __contains__(self, key):
                return key in self.table
    """
    distribution("fake-class", "shiny", source)
    assert cli.main(["conformance", "shiny", "--quick", "--check", "widths", "--check", "execute-distinct"]) == 0
    assert "2 passed" in capsys.readouterr().out


@pytest.mark.parametrize("honours", [(), ("memory",), ("memory", "seed")])
def test_a_class_says_which_arguments_it_honours(distribution, capsys, honours):
    source = f"""
        import pygpuhash
        class Backend:
            traits = ("insert", "grow", "accumulate", "flush", *{honours})
            def __init__(self, *, memory=None, seed=None, **arguments):
                kept = {{"memory": memory, "seed": seed}}
                self.table = pygpuhash.Table(
                    "linear_probe", **arguments, **{{name: kept[name] for name in {honours}}}
                )
            def __getattr__(self, name):
                return getattr(self.table, name)
            def __len__(self):
                return len(self.table)
            def __contains__(self, key):
                return key in self.table
    """
    distribution("fake-class", "shiny", source)
    checks = ["memory-is-given-back", "growth-without-memory", "seeds"]
    assert cli.main(["conformance", "shiny", "--quick", *(f"--check={name}" for name in checks)]) == 0
    said = capsys.readouterr().out
    for name, argument in zip(checks, ("memory", "memory", "seed"), strict=True):
        line = next(line for line in said.splitlines() if line.strip().startswith(name))
        assert ("pass" in line) == (argument in honours), line
        assert (f"the class does not have the trait {argument}" in line) == (argument not in honours)


def test_a_class_that_raises_does_not_end_a_comparison(distribution, capsys):
    distribution("fake-class", "shiny", CLASS + "            1 / 0\n")
    arguments = ["compare", "--n", "1000", "--device", "cpu", "--backend", "shiny", "--backend", "linear_probe"]
    assert cli.main(arguments) == 1
    said = capsys.readouterr().out
    assert "ZeroDivisionError: division by zero" in said
    assert "linear_probe  cpu" in said


def test_a_report_is_of_no_class(distribution, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])
    report = pytest.importorskip("asv_bench.report", reason="asv_bench is in a checkout of the repository only")
    distribution("fake-class", "shiny", CLASS)
    assert "linear_probe" in report.backends_for("cpu", None)
    assert "shiny" not in report.backends_for("cpu", None)
    assert report.backends_for("cpu", ["shiny"]) == ["shiny"]


@pytest.mark.parametrize("name", plugins.__all__)
def test_every_structure_is_announced(name):
    assert registry.resolve(f"gpuhash:{name}").endswith(f"/gpuhash_{name}.so")


def test_entry_points_that_cannot_be_read_hide_nothing(monkeypatch):
    def broken():
        raise ValueError("metadata")

    monkeypatch.setattr(registry, "_announced", broken)
    rows = {row.name: row for row in gh.backends()}
    assert rows["?"].state == "broken"
    assert rows["?"].error == "entry points could not be read: metadata"
    assert rows["linear_probe"].state == "usable"


BUILT = "gcc 12.2.0; instruction sets: baseline; CUDA: 13.2.51 for sm_80 sm_90"


@pytest.mark.parametrize(
    ("build", "present", "says"),
    [
        ("gcc 12.2.0; instruction sets: baseline; CUDA: off", None, "none is needed: this build is without CUDA"),
        (BUILT, None, "for CUDA 13.0 or newer (built with 13.2); no driver is installed"),
        (BUILT, 13000, "for CUDA 13.0 or newer (built with 13.2); here is one for CUDA 13.0"),
        (BUILT, 14010, "for CUDA 13.0 or newer (built with 13.2); here is one for CUDA 14.1"),
        (
            BUILT,
            12040,
            "for CUDA 13.0 or newer (built with 13.2); here is one for CUDA 12.4, which is older: update it, "
            f"or take gpuhash {gh.__version__}+cu12, which a toolkit of CUDA 12 has built",
        ),
        (
            BUILT,
            11080,
            "for CUDA 13.0 or newer (built with 13.2); here is one for CUDA 11.8, which is older: update it",
        ),
        (
            BUILT.replace("13.2.51", "12.5.40"),
            12020,
            "for CUDA 12.0 or newer (built with 12.5); here is one for CUDA 12.2",
        ),
    ],
)
def test_the_driver_that_a_build_needs(monkeypatch, capsys, build, present, says):
    monkeypatch.setattr(config._core, "build_info", lambda: build)
    monkeypatch.setattr(
        config._core, "device_count", lambda kind: (1, "") if present else (0, "no driver is installed")
    )
    monkeypatch.setattr(config._core, "device_info", lambda kind, ordinal: {"driver_version": present})
    assert gh.show_config(mode="dict")["cuda driver"].startswith(says)
    monkeypatch.setattr(cli.probe, "backends", list)
    assert cli.main(["backends"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(f"CUDA driver: {says}")
    assert present is None or said.endswith(says)
