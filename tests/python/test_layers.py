"""Imports of the package go one way: downwards, through the layers that CONTRIBUTING.md names, and in no circle.

All imports count, those inside of functions and the cimports of Cython, too. Left out are those under `TYPE_CHECKING`,
which no program runs.
"""

import ast
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2]
PACKAGE = SOURCES / "pygpuhash"

# From the lowest one up. A module imports modules of lower layers, and of its own those that do not import it in turn.
# A name that ends in a dot stands for all modules of a folder.
LAYERS = {
    "words": "gpuhash errors _arguments _typing _tensors identifiers manifest plugins",
    "columns": "columns columns._buffers columns._direct columns._few columns._objects columns._reduce columns._utf8"
    " columns.arrow columns.column columns.flat columns.frames columns.list_item columns.lists columns.numpy_arrays"
    " columns.plain columns.reading columns.rows columns.structs",
    "elements": "_numbers _records _arrays",
    "library": "_core.",
    "devices": "_views _cuda _peers _arrow_devices _progress _devices _stage _streams _device_arrays _stored_views"
    " _host _host_batch _device_batch _batch _device_queries _memory registry _choice config",
    "engine": "columns._engine",
    "tables": "_ordered _table_arguments _dedup _value_lists _exports _mapping table backend slab",
    "verbs": "_device_groups _device_joins _device_pieces _packed _host_rows _device_bytes _device_rows"
    " _device_shards _key_columns _table_verbs _number_verbs"
    " _reproducible _verb_inputs _keywords verbs hashing index text_table shards _device_partial partial"
    " group_by counter",
    "files": "saved.",
    "parts": "_combined _dask_tasks _exchange _routes dask transports sharded.",
    "package": "__init__",
    "programs": "keyfile workload compare report _conformance. conformance probe new_plugin explore commands. cli"
    " __main__",
}

BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def modules(package=PACKAGE):
    """{name: its sources}: foo.py, or foo.pyx and foo.pxd. A folder has the name of its __init__."""
    found = {}
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).with_suffix("").parts
        if path.suffix in (".py", ".pyx", ".pxd") and parts[0] != "include":  # headers, put there by a build
            if len(parts) > 1 and parts[-1] == "__init__":
                parts = parts[:-1]
            found.setdefault(".".join(parts), []).append(path)
    return found


def spelled(module, name, known):
    """The module of the package that `from module import name` needs; `import module` where the name is ""."""
    module = module.removeprefix("pygpuhash").removeprefix(".")
    whole = ".".join(part for part in (module, name) if part)
    return whole if whole in known else module or "__init__"


def statements(body):
    """All statements, those inside of others, too, but for the ones under TYPE_CHECKING."""
    for statement in body:
        yield statement
        parts = ["orelse"] if getattr(getattr(statement, "test", None), "id", "") == "TYPE_CHECKING" else BODIES
        for part in parts:
            yield from statements(getattr(statement, part, ()))


def of_python(text, known):
    for node in statements(ast.parse(text).body):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pygpuhash":
            for alias in node.names:
                yield spelled(node.module, alias.name, known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, ast.unparse(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "pygpuhash":
                    yield spelled(alias.name, "", known)
    for name in re.findall(r"import_module\(f?[\"'](pygpuhash[\w.]*)", text):
        yield spelled(name, "", known)


def of_cython(text, known):
    text = re.sub(r'"""[\s\S]*?"""', "", text)
    pattern = r"^[ \t]*from[ \t]+(pygpuhash[\w.]*)[ \t]+c?import[ \t]+(\([^)]*\)|.+)$"
    for module, names in re.findall(pattern, text, re.MULTILINE):
        for name in re.sub(r"#.*", "", names).strip("()\n ").split(","):
            if name.strip():
                yield spelled(module, name.split()[0], known)
    for module in re.findall(r"^[ \t]*c?import[ \t]+(pygpuhash[\w.]*)", text, re.MULTILINE):
        yield spelled(module, "", known)


def imports(found):
    """{module: the modules that it imports}. What a folder offers is its own: who asks it imports the folder."""
    graph = {}
    for name, paths in found.items():
        graph[name] = set()
        for path in paths:
            read = of_python if path.suffix == ".py" else of_cython
            graph[name] |= set(read(path.read_text(), found))
        graph[name].discard(name)
    return graph


def circles(graph):
    """Sets of modules that import each other (Tarjan)."""
    order, low, stack, rows = {}, {}, [], []

    def visit(name):
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            row = []
            while not row or row[-1] != name:
                row.append(stack.pop())
            if len(row) > 1:
                rows.append(sorted(row))

    for name in graph:
        if name not in order:
            visit(name)
    return rows


def layer_of(name):
    rows = list(LAYERS.values())
    for i, row in enumerate(rows):
        if name in row.split() or any(entry.endswith(".") and (name + ".").startswith(entry) for entry in row.split()):
            return i
    return None


def upward(graph):
    return sorted(
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if layer_of(other) > layer_of(name)
    )


@pytest.fixture(scope="module")
def graph():
    if not (PACKAGE / "_core" / "table.pyx").exists():
        pytest.skip("the sources of the package are not here")
    return imports(modules())


def test_every_module_has_a_layer(graph):
    assert [name for name in graph if layer_of(name) is None] == []
    known = set(graph)
    for entry in " ".join(LAYERS.values()).split():
        assert entry.rstrip(".") in known, f"{entry} is no module any more"


def test_no_module_imports_one_of_a_higher_layer(graph):
    assert upward(graph) == []


def test_no_modules_import_each_other(graph):
    assert circles(graph) == []


def test_contributing_names_the_layers():
    text = (SOURCES / "CONTRIBUTING.md").read_text()
    table = text[text.index("| layer |") :].partition("\n\n")[0]
    rows = re.findall(r"^ *\| (\w+) \| (.+?) \|", table, re.MULTILINE)
    told = {name: rest.replace("`", "") for name, rest in rows if name != "layer"}
    assert told == LAYERS


def test_imports_of_every_form_are_seen(tmp_path):
    """The other tests see nothing if these forms are not read."""
    texts = {
        "__init__.py": "from pygpuhash.a import x\n",
        "a.py": "def f():\n    from pygpuhash import b\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pygpuhash import a\n",
        "c.pyx": '"""\nfrom pygpuhash import a\n"""\nfrom pygpuhash.d cimport (\n    one, two\n)\n'
        "from pygpuhash import b, e\n",
        "d.pxd": "from pygpuhash.f.g cimport *\n",
        "e.py": "import importlib\nimportlib.import_module('pygpuhash.f')\nimport pygpuhash.c\n",
        "f/__init__.py": "",
        "f/g.pyx": "def f():\n    from pygpuhash.e import x\n",
    }
    (tmp_path / "f").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    seen = imports(modules(tmp_path))
    assert seen == {
        "__init__": {"a"},
        "a": {"b"},
        "b": set(),
        "c": {"d", "b", "e"},
        "d": {"f.g"},
        "e": {"f", "c"},
        "f": set(),
        "f.g": {"e"},
    }
    assert circles(seen) == [["c", "d", "e", "f.g"]]
