"""Backends announced by Python distributions: entry points, their errors, and names that two distributions share."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import registry

CLASS = """
    class Backend:
        version = "3.1"
        traits = ("insert",)
        devices = ("cpu",)
        def __init__(self, **arguments):
            self.arguments = arguments
"""


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """A function that installs a distribution with one backend into a new directory on sys.path."""

    def install(name, backend, source, target="Backend"):
        module = f"{name.replace('-', '_')}_module"
        site = tmp_path / name
        info = site / f"{name.replace('-', '_')}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[pygpuhash.backends]\n{backend} = {module}:{target}\n")
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    yield install
    for module in [m for m in sys.modules if m.endswith("_module") and m.startswith("fake")]:
        del sys.modules[module]
    registry._resolved.clear()


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
        ("def Backend(): return 7", "returned 7: it must return a module's path or a class"),
        ("def Backend(): return 'relative.so'", "'relative.so', which is not an absolute path"),
        ("def Backend(): return '/no/such/gpuhash_x.so'", "/no/such/gpuhash_x.so"),
        ("def Backend(): 1 / 0", "ZeroDivisionError"),
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
    import os

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


def test_headers_are_installed():
    from pathlib import Path

    include = Path(gh.get_include()) / "gpuhash"
    assert (include / "gpuhash.h").is_file()
    assert (include / "plugin.h").is_file()


def test_devices():
    names = [d.name for d in gh.devices()]
    assert names[0] == "cpu"
    assert gh.devices()[0].units >= 1
    assert gh.devices()[0].memory_bytes > 0
