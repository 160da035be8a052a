"""New arrays for results of a verb on a GPU; and which of them are copied, so that they do not keep the memory of a
whole column.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, _cuda

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fake_cuda
import fake_libraries


@pytest.mark.parametrize(
    ("n", "rows", "copied"),
    [
        (0, 0, False),
        (0, 1, True),
        (1, 16, False),
        (1, 17, True),
        (2**18, 2**22, False),
        (2**18 - 1, 2**22, True),
        (2**20, 2**22 + 1, True),
        (2**20 + 1, 2**22 + 1, False),
        (2**29, 2**31, False),
    ],
)
def test_rule_for_copies(n: int, rows: int, copied: bool) -> None:
    """Less than a sixteenth of a short column's rows, and a fourth of a long one's."""
    copies = []

    class Array:
        def __init__(self, at: int) -> None:
            self.at = at

        def data_ptr(self) -> int:
            return self.at

        def narrow(self, dimension: int, start: int, length: int) -> tuple[int, int, int]:
            return dimension, start, length

    new, dtype = Array(8), np.dtype("i4")
    found = _core.part(Array(4), dtype, n, rows, lambda shape, dtype: new, 7, lambda *given: copies.append(given))
    assert copies == ([(8, 4, 4 * n, 7)] if copied else [])
    assert found is new if copied else found == (0, 0, n)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_new_arrays_are_like_another_one(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    make = fake_libraries.cupy(monkeypatch).asarray if library == "cupy" else fake_libraries.torch(monkeypatch).Tensor
    like, dtype = make(np.zeros((4, 5), "i4")), np.dtype("u8")
    maker = _core.maker_like(like, 0)
    assert maker is not None
    for shape in ((4,), (5,), (20,), (0,), (4, 5), (2, 3, 4), ()):
        new = maker(shape, dtype)
        assert type(new) is type(like)
        assert (np.asarray(new.array).shape, np.asarray(new.array).dtype) == (shape, dtype)
        assert _core.pointer(new) == new.array.ctypes.data
    column = _core.maker_like(make(np.zeros(4, "i4")), 0)
    assert column is not None
    assert [len(column((n,), dtype).array) for n in (3, 4, 5)] == [3, 4, 5]


def test_new_arrays_are_on_the_device_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = fake_libraries.torch(monkeypatch).Tensor
    elsewhere, on_host = tensor(np.zeros(4, "i4"), 1), tensor(np.zeros(4, "i4"), 0, 1)
    assert _core.maker_like(elsewhere, 0) is None
    assert _core.maker_like(elsewhere, 1) is not None
    assert _core.maker_like(on_host, 0) is None
    for other in (np.zeros(4), [1, 2], 7):
        assert _core.maker_like(other, 0) is None


def test_a_part_of_an_array_of_ours_keeps_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_cuda.installed(monkeypatch):
        whole = gh.DeviceArray((10,), "i8", 0, _cuda.Address(7))
        part = _core.part(whole, whole.dtype, 6, 10, None, 7, None)  # type: ignore[arg-type]
        assert (part.shape, part.dtype, part.ptr, part.stream) == ((6,), whole.dtype, whole.ptr, 7)
        at = part.ptr
        del whole
        assert part.ptr == at == _core.pointer(part)
        assert _core.pointer(None) == 0
