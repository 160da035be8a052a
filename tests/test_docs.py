"""Code in the documentation is that of the files that it says it is from."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
QUOTE = re.compile(r"<!-- (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
PAGES = ["docs/structure.md"]


@pytest.mark.parametrize("page", PAGES)
def test_quoted_code_is_there(page):
    if not (ROOT / page).is_file():
        pytest.skip("the documentation is not here")
    text = (ROOT / page).read_text(encoding="utf-8")
    quotes = QUOTE.findall(text)
    assert len(quotes) == text.count("<!-- ") > 0
    for file, code in quotes:
        assert code in (ROOT / file).read_text(encoding="utf-8"), f"{page} quotes what {file} does not have:\n{code}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    if not (ROOT / page).is_file():
        pytest.skip("the documentation is not here")
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / link).exists(), link


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
