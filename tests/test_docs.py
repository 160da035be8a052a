"""Code in the documentation is that of the files that it says it is from, and what pages name is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"<!-- (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
PAGES = ["docs/structure.md"]
FOLDERS = (".ci", "asv_bench", "docs", "examples", "libgpuhash", "plugins", "pygpuhash", "tests")
CODE = {".build", ".c", ".cpp", ".cu", ".cuh", ".def", ".h", ".hpp", ".map", ".pxd", ".py", ".pyi", ".pyx", ".sh"}
BUILT = {"__pycache__", "build", "node_modules", "results", "target"}
COMPLETE = (ROOT / "asv_bench").is_dir() and (ROOT / "docs").is_dir()  # a checkout, which a source distribution is not
complete = pytest.mark.skipif(not COMPLETE, reason="some of the files that pages name are not here")
# Names on a page that the tree does not have: of other projects, or of files that the page says are gone.
ELSEWHERE = {
    "CONTRIBUTING.md": {"--pdb", "plugin_DEVICE", "snake_case"},
    "docs/adr/0034-layers-of-the-python-package.md": {"_core.pyx"},
    "docs/adr/0037-large-batches-in-a-folder.md": {"drive/cuda_parts.cuh"},
    "docs/adr/0040-a-promise-for-the-abi.md": {"GPUHASH_1"},
    "docs/adr/0050-sizes-by-name.md": {"GPUHASH_X"},
    "docs/adr/0054-without-a-global-lock.md": {"--disable-gil", "Py_TARGET_ABI3T"},
    "docs/adr/0060-exchanges-on-dask.md": {"map_partitions", "set_index", "shuffle_method", "split_out"},
    "docs/explorer.md": {"my_op"},
    "docs/performance.md": {"--bench"},
    "docs/python.md": {"gpuhash_mine"},
}


def found(under):
    """All files of a folder that are sources; build folders are left out."""
    for path in sorted(under.iterdir()):
        if path.is_dir() and path.name not in BUILT and path != ROOT / "pygpuhash" / "include":
            yield from found(path)
        elif path.is_file():
            yield path


@cache
def files():
    here = [path for folder in FOLDERS if (ROOT / folder).is_dir() for path in found(ROOT / folder)]
    return [*here, *(path for path in ROOT.iterdir() if path.is_file())]


def made(path):
    """Is it a file that Cython makes?"""
    return path.suffix == ".c" and path.with_suffix(".pyx").is_file()


@cache
def words():
    """All identifiers of the sources, and options of command lines, such as --words."""
    read = [path for path in files() if path.suffix in CODE and path != Path(__file__) and not made(path)]
    text = (path.read_text(encoding="utf-8", errors="ignore") for path in read)
    found_there = {word for one in text for word in re.findall(r"\w+|(?<![\w-])--[a-z][a-z-]*", one)}
    return found_there | {path.stem for path in files()}


def pages():
    return sorted(str(path.relative_to(ROOT)) for path in files() if path.suffix == ".md")


@pytest.mark.parametrize("page", PAGES)
def test_quoted_code_is_there(page):
    if not (ROOT / page).is_file():
        pytest.skip("the documentation is not here")
    text = (ROOT / page).read_text(encoding="utf-8")
    quotes = QUOTE.findall(text)
    assert len(quotes) == text.count("<!-- ") > 0
    for file, code in quotes:
        assert code in (ROOT / file).read_text(encoding="utf-8"), f"{page} quotes what {file} does not have:\n{code}"


def anchors(page):
    """Of the page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere():
    """Those of all pages; where the results of benchmarks are not here, links to them are not looked at."""
    wrong = []
    for name in pages():
        page = ROOT / name
        for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
            to = page.parent / link if link else page
            if not to.exists():
                wrong += [] if "asv_bench" in link and not COMPLETE else [f"{name} links to {link}, which is not there"]
            elif anchor and anchor not in anchors(to):
                wrong.append(f"{name} links to {link}#{anchor}; {to.name} has no such heading")
    assert wrong == []


def quoted(name):
    """What stands between backquotes in the sentences and tables of a page."""
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [token for token in re.findall(r"`([^`\n]+)`", text) if token not in ELSEWHERE.get(name, ())]


@complete
def test_files_that_pages_name_are_there():
    folders = "|".join(re.escape(folder) for folder in FOLDERS)
    file = re.compile(rf"(?:{folders})/[a-z0-9_./-]+|[a-z0-9_/-]+\.(?:cpp|cuh?|def|hp?p?|pyx?|sh)")
    here = [str(path.relative_to(ROOT)) for path in files()]
    here += {str(folder) for path in here for folder in Path(path).parents}
    ends = {path[at:] for path in here for at in (0, *(slash.end() for slash in re.finditer("/", path)))}
    wrong = [
        f"{page}: {token}"
        for page in pages()
        for token in quoted(page)
        if file.fullmatch(token) and token.rstrip("/") not in ends and not (ROOT / token).exists()
    ]
    assert "tile/kinds.hpp" in ends
    assert wrong == []


@complete
def test_names_that_pages_quote_are_in_the_sources():
    name_of = re.compile(r"(?<![\w<-])[a-zA-Z]\w*_\w+(?![\w>*])|(?<=::)\w+|\w+(?=::)|(?<![\w-])--[a-z][a-z-]*")
    assert "gpuhash_table_create" in words()
    assert "--temporary" in words()
    assert "is_not_there" not in words()
    wrong = [
        f"{page}: {word} in {token}"
        for page in pages()
        for token in quoted(page)
        for word in name_of.findall(token)
        if word not in words() and word not in ELSEWHERE.get(page, ())
    ]
    assert wrong == []


@complete
def test_names_are_in_the_file_that_a_page_says():
    """`layout.hpp`: `first`, `second`, as the tables of the READMEs of structures have it."""
    names_of = re.compile(r"`([\w./]+\.(?:hpp|cuh|cu|cpp|c|py))`: ((?:`[\w:]+`(?:, | and )?)+)")
    wrong, looked_at = [], 0
    for page in (page for page in pages() if page.startswith("plugins/")):
        folder = (ROOT / page).parent
        for file, names in names_of.findall((ROOT / page).read_text(encoding="utf-8")):
            path = folder / file if (folder / file).is_file() else ROOT / file
            has = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
            looked_at += 1
            wrong += [f"{page}: {word} in {file}" for word in re.findall(r"\w+", names) if word not in has]
    assert looked_at > 20
    assert wrong == []


@complete
def test_modules_that_pages_run_are_there():
    wrong = []
    for name in pages():
        for module in re.findall(
            r"python -m\s+((?:asv_bench|pygpuhash)[\w.]*\w)", (ROOT / name).read_text(encoding="utf-8")
        ):
            path = ROOT / module.replace(".", "/")
            wrong += [] if path.with_suffix(".py").is_file() or path.is_dir() else [f"{name}: {module}"]
    assert wrong == []


def test_names_of_the_package_are_there():
    package, wrong = ROOT / "pygpuhash", []
    known = set(re.findall(r"\w+", (package / "__init__.py").read_text(encoding="utf-8")))
    known |= {path.stem for path in package.iterdir()}
    for name in pages():
        for word in re.findall(r"\bgh\.([A-Za-z_]+)", (ROOT / name).read_text(encoding="utf-8")):
            wrong += [] if word in known else [f"{name}: gh.{word}"]
    assert wrong == []


@complete
def test_records_that_are_cited_are_there():
    there = {path.name.split("-")[0] for path in (ROOT / "docs/adr").glob("*.md")}
    wrong = []
    for path in files():
        if path.suffix in CODE | {".md"} and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="ignore")
            cited = {number.zfill(4) for number in re.findall(r"\bADR\s+(\d{1,2})\b", text)}
            cited |= set(re.findall(r"\badr/(\d{4}[a-z]?)\b", text))
            wrong += [f"{path.relative_to(ROOT)}: {number}" for number in sorted(cited - there)]
    assert wrong == []


@pytest.mark.parametrize("structure", ["hive", "linear_probe", "skiplist", "slab_hash", "stadium"])
def test_options_are_those_of_the_structure(structure):
    """The table under "Options" of a structure's README has each option that plugin.cpp announces, and no other."""
    folder = ROOT / "plugins" / structure
    if not folder.is_dir():
        pytest.skip("the plugins are not here")
    announced = re.search(r"gpuhash_option_info \w+\[\] = \{(.*?)\n\};", (folder / "plugin.cpp").read_text(), re.DOTALL)
    options = re.findall(r"\{\"(\w+)\",", announced[1])
    section = (folder / "README.md").read_text().partition("\n## Options\n")[2].partition("\n##")[0]
    assert len(options) > 3
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(options)


def test_checks_are_those_of_the_suite():
    """docs/conformance.md has each check that a backend goes through, and no other."""
    page, suite = ROOT / "docs/conformance.md", ROOT / "pygpuhash/_conformance"
    if not page.is_file():
        pytest.skip("the documentation is not here")
    checks = set()
    for path in suite.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(d).startswith("check(") for d in node.decorator_list
            ):
                checks.add(node.name.replace("_", "-"))
    table = page.read_text(encoding="utf-8").partition("| check | what has to hold |\n")[2].partition("\n\n")[0]
    named = [
        name for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`([\w-]+)`", row)
    ]
    assert len(checks) > 30
    assert sorted(named) == sorted(checks)


def test_members_that_the_page_names_are_those_that_are_asked_for():
    """docs/structure.md lists what drive/contract.hpp asks of a layout and of an operation."""
    if not (ROOT / "docs/structure.md").is_file():
        pytest.skip("the documentation is not here")
    page = (ROOT / "docs/structure.md").read_text(encoding="utf-8")
    contract = (ROOT / "libgpuhash/drive/contract.hpp").read_text(encoding="utf-8")
    concepts = set(re.findall(r"concept (\w+) =", contract)) - {"layout", "operation", "op_types"}
    assert len(concepts) > 8
    for name in concepts:
        assert re.search(rf"^\| .*`{name}[`(]", page, re.MULTILINE), name
    message = re.search(r"^error: static assertion failed: (.*)$", page, re.MULTILINE)[1]
    assert message in re.sub(r'"\s+"', "", contract)
