"""Types of the extension module `_few.pyx`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def unique(column: NDArray[Any], bits: int, piece: int = 0x400000) -> NDArray[Any] | None: ...
def value_counts(
    column: NDArray[Any], bits: int, piece: int = 0x400000
) -> tuple[NDArray[Any], NDArray[np.int64]] | None: ...
def factorize(
    column: NDArray[Any], bits: int, piece: int = 0x400000
) -> tuple[NDArray[np.int64], NDArray[Any]] | None: ...
