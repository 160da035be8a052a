"""Types of the extension module `_reduce.pyx`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Groups = NDArray[np.int64]

def piece(rows: int = 0) -> int: ...
def counts(groups: Groups, number_of_groups: int) -> Groups: ...
def sums(groups: Groups, number_of_groups: int, values: NDArray[Any], times: bool = False) -> NDArray[Any]: ...
def extremes(
    groups: Groups, number_of_groups: int, values: NDArray[Any], largest: bool, times: bool = False
) -> NDArray[Any]: ...
