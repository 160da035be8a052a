"""Includes of the C++ and CUDA sources go one way: down through the layers that CONTRIBUTING.md names.

Installed headers include no tests, generic code no structure, and no structure another one.
"""

import re

import pytest
from cpp_sources import ROOT, SUFFIXES, sources

# What a layer may include besides itself. The folder of a file is its layer's; but the files whose name says that they
# are of the explorer (sim.hpp, plugin_sim.cpp, ...) are of the layer `explorer`, wherever they lie.
LAYERS = {
    "public": ([], "libgpuhash/include"),
    "tile": (["public"], "libgpuhash/tile"),
    "hash": (["public", "tile"], "libgpuhash/hash"),
    "kit": (["public", "tile", "hash"], "libgpuhash/kit libgpuhash/alloc"),
    "drive": (["public", "tile", "hash", "kit"], "libgpuhash/drive"),
    "core": (["public", "tile", "hash"], "libgpuhash/src libgpuhash/columns libgpuhash/saved"),
    "explorer": (["public", "tile", "hash", "kit", "drive", "plugins"], "libgpuhash/sched"),
    "plugins": (["public", "tile", "hash", "kit", "drive"], "plugins"),
}
OF_THE_EXPLORER = re.compile(r"(^|_)sim(_\w+)?\.\w+$")

# Includes that go up, each for one build of a test alone. The list only shrinks.
UPWARD = {
    ("libgpuhash/kit/sync.hpp", "tests/kit/sim_sync.hpp"),
    ("libgpuhash/tile/mutant.hpp", "tests/model/mutants/all.def"),
}


def layer_of(name):
    if OF_THE_EXPLORER.search(name.rpartition("/")[2]) and not name.startswith("tests/"):
        return "explorer"
    for layer, (_, folders) in LAYERS.items():
        if any(name.startswith(folder + "/") for folder in folders.split()):
            return layer
    return "tests"


def included(name, text):
    """Names of the project's files that this one includes, from its root on."""
    own = name.rpartition("/")[0]
    for path in re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', text, re.MULTILINE):
        for whole in (f"{own}/{path}", path, f"libgpuhash/include/{path}"):
            if (ROOT / whole).is_file():
                yield whole
                break
        else:
            yield path


def goes_up(name, other):
    layer, above = layer_of(name), layer_of(other)
    if layer == above == "plugins":
        return name.split("/")[1] != other.split("/")[1]
    return above != layer and above not in LAYERS[layer][0]


@pytest.fixture(scope="module")
def found():
    if not (ROOT / "libgpuhash" / "src").is_dir():
        pytest.skip("the sources of the library are not here")
    return {
        (path.relative_to(ROOT).as_posix(), other)
        for path in sources("libgpuhash", "plugins")
        for other in included(path.relative_to(ROOT).as_posix(), path.read_text())
    }


def test_no_file_includes_one_of_a_higher_layer(found):
    assert {pair for pair in found if goes_up(*pair)} == UPWARD


def test_generic_code_names_no_structure(found):
    structures = {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir()}
    assert len(structures) >= 5
    assert [
        pair
        for pair in found
        if pair[0].startswith("libgpuhash/") and pair[1].split("/")[1:2] and pair[1].startswith("plugins/")
    ] == []


def test_includes_of_every_form_are_seen(found):
    text = '#include <stdio.h>\n#include "ops.hpp"\n#if A\n#  include "libgpuhash/kit/table.hpp"  // why\n#endif\n'
    text += '// #include "x"\n#include "gpuhash/gpuhash.h"\n#include "nowhere.hpp"\n'
    assert list(included("plugins/hive/plugin.cpp", text)) == [
        "plugins/hive/ops.hpp",
        "libgpuhash/kit/table.hpp",
        "libgpuhash/include/gpuhash/gpuhash.h",
        "nowhere.hpp",
    ]
    assert goes_up("libgpuhash/drive/x.hpp", "plugins/hive/ops.hpp")
    assert goes_up("libgpuhash/tile/x.hpp", "libgpuhash/kit/table.hpp")
    assert goes_up("plugins/hive/x.hpp", "plugins/stadium/ops.hpp")
    assert goes_up("plugins/hive/x.hpp", "tests/hive/x.hpp")
    assert not goes_up("plugins/hive/plugin_sim.cpp", "libgpuhash/sched/batch_gate.hpp")
    assert {path.rpartition(".")[2] for path, _ in found} <= {suffix[1:] for suffix in SUFFIXES}
    assert len(found) > 300


def test_contributing_names_the_layers():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^ *\| (\w+) \| (.+?) \| (.+?) \|", text[text.index("| C++ layer |") :], re.MULTILINE)
    told = {name: (folders.replace("`", ""), may.replace("`", "")) for name, folders, may in rows}
    assert told == {name: (folders, " ".join(may) or "nothing") for name, (may, folders) in LAYERS.items()}


def test_every_folder_of_tests_is_in_the_table_of_contributing():
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("- **Where the tests of a source are.**"))
    end = next(i for i, line in enumerate(lines) if i > start and line.startswith("- **"))
    named = {path for line in lines[start:end] for path in re.findall(r"`([\w/.]+)`", line) if "/" in path}
    assert all((ROOT / path).exists() or path == "ops.hpp" for path in named), named
    folders = {f"tests/{p.name}" for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name[0] not in "._"}
    assert folders <= named, f"CONTRIBUTING.md does not say what {sorted(folders - named)} test"
