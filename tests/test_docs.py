"""Code in the documentation is that of the files that it says it is from."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"<!-- (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
PAGES = ["docs/structure.md"]
LINKED = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]


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


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name):
    page = ROOT / name
    if not page.is_file() or not (ROOT / "asv_bench").is_dir():
        pytest.skip("the pages, or the results that they link to, are not here")
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        to = page.parent / link if link else page
        assert to.exists(), f"{name} links to {link}, which is not there"
        assert not anchor or anchor in anchors(to), f"{name} links to {link}#{anchor}; {to.name} has no such heading"


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
