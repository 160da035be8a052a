from collections.abc import Callable
from typing import Any

import numpy as np

Dtype = np.dtype[Any]
Empty = Callable[[tuple[int, ...], Dtype], Any]

expected: dict[int, int]

class Maker:
    def __call__(self, shape: tuple[int, ...], dtype: Dtype) -> Any: ...

def maker_like(array: Any, ordinal: int) -> Maker | None: ...
def pointer(array: Any) -> int: ...
def part(
    array: Any, dtype: Dtype, n: int, rows: int, empty: Empty, stream: int, copy: Callable[[int, int, int, int], object]
) -> Any: ...
