"""Which results of a verb on a GPU are copied, so that they do not keep the memory of a whole column."""

from __future__ import annotations

import numpy as np
import pytest

from pygpuhash import _core


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
