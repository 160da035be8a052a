"""Devices by name, and their facts: devices of this machine, and fake GPUs."""

from __future__ import annotations

import pytest

import pygpuhash as gh
from pygpuhash import _core, _devices


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the first has failed."""
    info = _core.device_info

    def answer(kind: int, ordinal: int) -> dict[str, object]:
        if kind == _core.CPU:
            return info(kind, ordinal)
        if ordinal == 0:
            raise gh.DeviceError("gone")
        return info(_core.CPU, 0) | {"name": "GPU", "compute_capability": (9, ordinal), "driver_version": 13000}

    monkeypatch.setattr(_core, "device_count", lambda kind: (3, "") if kind == _core.CUDA else (1, ""))
    monkeypatch.setattr(_core, "device_info", answer)
    monkeypatch.setattr(_core, "backend_probe", lambda name, kind, ordinal: None if ordinal > 0 else "gone")


def test_the_cpu() -> None:
    cpu = gh.devices()[0]
    assert (cpu.name, cpu.compute_capability, cpu.driver_version) == ("cpu", None, None)
    assert cpu.units > 0
    assert cpu.memory_bytes > 1 << 28


def test_there_is_a_reason_where_there_are_no_gpus() -> None:
    count, reason = _core.device_count(_core.CUDA)
    assert bool(count) != bool(reason)


def test_a_gpu_that_has_failed_does_not_hide_the_others(three_gpus: None) -> None:
    rows = [(row.name, row.compute_capability, row.driver_version) for row in gh.devices()]
    assert rows == [("cpu", None, None), ("cuda:1", (9, 1), 13000), ("cuda:2", (9, 2), 13000)]
    assert _devices.best_device("linear_probe") == (_core.CUDA, 1)


def test_names(three_gpus: None) -> None:
    for name, device in (("cpu", (_core.CPU, 0)), ("cuda", (_core.CUDA, 0)), ("cuda:2", (_core.CUDA, 2))):
        assert _devices.parse_device(name) == device
        assert _devices.parse_device(_devices.device_name(*device)) == device
    with pytest.raises(gh.DeviceError, match="device='cuda:3' cannot be used: there are 3 of its kind"):
        _devices.parse_device("cuda:3")
    with pytest.raises(gh.InvalidArgument, match="device='cpu:100000' cannot be used: there is 1 of its kind"):
        _devices.parse_device("cpu:100000")


@pytest.mark.parametrize("name", ["table_bytes", "n", "repeats"])
def test_a_ceiling_of_nothing(name: str) -> None:
    with pytest.raises(gh.InvalidArgument, match=f"{name}=0 must be at least 1"):
        gh.measure_ceiling("gather8", **{name: 0})
