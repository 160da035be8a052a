"""Which results of a verb on a GPU are copied, so that they do not keep the memory of a whole column."""

from __future__ import annotations

import pytest

from pygpuhash import _device_results


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
    assert _device_results._leaves_too_much(n, rows) is copied
