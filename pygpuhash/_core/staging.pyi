from collections.abc import Callable
from typing import Any

from pygpuhash._core import CoreTable

STAGING_NEW_VALUES: int
STAGING_NEW_STATUS: int
STAGING_PAST_CACHES: int

def run_staged(
    table: CoreTable,
    op: int,
    n: int,
    arrays: tuple[Any, Any, Any, Any, Any],
    how: tuple[int, int, int],
    staged: tuple[list[tuple[int, int, int, int]], int, int, int],
    chunks: tuple[int, int],
    device_values: int,
    flags: int,
    tell: Callable[[int, int], object],
    calls: int = 0,
) -> tuple[int, bool, BaseException | None]: ...
