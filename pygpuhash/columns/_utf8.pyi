"""Types of the extension module `_utf8.pyx`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def from_fixed_text(given: NDArray[Any], what: str) -> tuple[NDArray[Any], NDArray[Any]]: ...
def texts(values: list[Any], nulls: NDArray[np.bool_] | None, what: str) -> tuple[NDArray[Any], NDArray[Any]]: ...
