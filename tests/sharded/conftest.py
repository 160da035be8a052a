"""The transports, of which every test that asks for one is run with each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pygpuhash import sharded

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_torch
from tables import Together


@pytest.fixture(scope="session")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(params=["local", "torch", "dask"])  # one suite for all
def transport(request, monkeypatch):
    if request.param == "local":
        return lambda: sharded.Local(["cpu", "cpu"])
    if request.param == "torch":
        monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
        return Together
    client = request.getfixturevalue("client")
    return lambda: sharded.Dask(client)
