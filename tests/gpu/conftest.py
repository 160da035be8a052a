"""Fixtures of the tests on one GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import pygpuhash as gh
from pygpuhash import _core

sys.path.insert(0, str(Path(__file__).resolve().parent))
import on_cards


@pytest.fixture(params=[b.name for b in gh.backends() if b.state == "usable"])
def backend(request: pytest.FixtureRequest) -> str:
    reason = _core.backend_probe(request.param, _core.CUDA, 0)
    if reason:
        pytest.skip(f"{request.param} cannot use this device: {reason}")
    return str(request.param)


@pytest.fixture(params=[on_cards.Cupy, on_cards.Torch])
def on_a_card(request: pytest.FixtureRequest) -> Any:
    """A library, of which arrays are put on a card by its number."""
    return request.param()
