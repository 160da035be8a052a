"""Fixtures of the tests on one GPU."""

from __future__ import annotations

import pytest

import pygpuhash as gh
from pygpuhash import _core


@pytest.fixture(params=[b.name for b in gh.backends() if b.state == "usable"])
def backend(request: pytest.FixtureRequest) -> str:
    reason = _core.backend_probe(request.param, _core.CUDA, 0)
    if reason:
        pytest.skip(f"{request.param} cannot use this device: {reason}")
    return str(request.param)
