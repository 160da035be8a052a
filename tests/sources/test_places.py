"""CONTRIBUTING's table from sources to tests has every folder of both, and names nothing that is not there."""

import re

import pytest
from cpp_sources import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
if not CONTRIBUTING.exists():
    pytest.skip("needs a checkout of the repository", allow_module_level=True)

ROWS = re.search(r"  \| sources \| tests \|\n  \| --- \| --- \|\n((?:  \|.*\n)+)", CONTRIBUTING.read_text()).group(1)
NAMED = set(re.findall(r"`([\w/.*]+)`", ROWS))


def folders(parent):
    return {
        f"{parent}/{p.name}" for p in (ROOT / parent).iterdir() if any(p.glob("*.[chp]*")) and p.name[0] not in "._"
    }


def test_every_folder_of_sources_has_its_tests():
    assert folders("plugins") | folders("libgpuhash") | {"pygpuhash", "plugins/examples", "asv_bench", "docs"} <= NAMED


def test_every_folder_of_tests_has_its_sources():
    assert folders("tests") <= NAMED


def test_all_that_is_named_is_there():
    missing = [name for name in NAMED if "/" in name and not any(ROOT.glob(name))]
    assert missing == []
