"""Types of the extension module `_words.pyx`."""

import numpy as np
from numpy.typing import NDArray

LONGEST: int

def words(block: NDArray[np.uint8], size: int, whole: bool) -> tuple[NDArray[np.uint64], int]: ...
def lines(block: NDArray[np.uint8], size: int, whole: bool) -> tuple[NDArray[np.uint64], int]: ...
def rows(block: NDArray[np.uint8], size: int, whole: bool, separator: int) -> tuple[int, int]: ...
