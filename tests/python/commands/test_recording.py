"""The recording in the documentation is what the commands print."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from pygpuhash.commands import COMMANDS

DOCS = Path(__file__).parents[3] / "docs"
if not (DOCS / "command-line.cast").exists():
    pytest.skip("the documentation is not here", allow_module_level=True)


@pytest.fixture
def record():
    spec = importlib.util.spec_from_file_location("record", DOCS / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded():
    """The header, and the events."""
    header, *events = map(json.loads, (DOCS / "command-line.cast").read_text(encoding="utf-8").splitlines())
    return header, events


def test_it_is_a_recording_of_asciinema_of_every_command():
    header, events = recorded()
    assert header["version"] == 2
    times = [at for at, kind, _ in events if kind == "o"]
    assert len(times) == len(events)
    assert times == sorted(times)
    text = "".join(text for _, _, text in events)
    for name in COMMANDS:
        assert f"pygpuhash {name} " in text
    longest = max(len(line) for line in text.split("\r\n"))
    assert longest <= header["width"] + 14  # which a terminal wraps


def test_the_page_names_every_command_and_every_option():
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"pygpuhash {name} " in page


@pytest.mark.slow
def test_the_text_is_what_the_commands_print(record):
    def text(events):
        whole = "".join(text for _, _, text in events)
        return re.sub(r"[\d,]+ distinct keys fill", "some distinct keys fill", whole)  # which depends on the threads

    assert text(record.events(record.session())) == text(recorded()[1])
