from collections.abc import Callable
from typing import Any

import numpy as np

Dtype = np.dtype[Any]
Empty = Callable[[tuple[int, ...], Dtype], Any]
Copy = Callable[[int, int, int, int], object]

def ready(array: Any) -> tuple[int, tuple[int, ...], Dtype, int, int] | None: ...

class Grouping:
    codes: Any
    found: int
    def __init__(
        self,
        ordinal: int,
        stream: int,
        seed: int,
        shape: tuple[int, ...],
        dtype: Dtype,
        first: bool,
        counts: bool = False,
        codes: bool = False,
        rows: bool = False,
        waits: bool = True,
    ) -> None: ...
    def reduce(self, values: int, dtype: Dtype, kind: int, wanted: list[tuple[str, Dtype]]) -> None: ...
    def temporaries(self) -> int: ...
    def start(self, keys: int, empty: Empty, copy: Copy) -> None: ...
    def place(self, keys: int, results: list[int], codes: int, scratch: int, nbytes: int, size: int) -> None: ...
    def wait(self, numbers_at: Callable[[int, int, int], list[int]]) -> None: ...
    def give(self) -> dict[str, Any]: ...
    def arguments(self) -> dict[str, Any]: ...

def group(call: Grouping, meanwhile: Callable[[], object] | None = None) -> None: ...
def plain_groups(
    array: Any,
    ordinal: int,
    first: bool,
    seed: int,
    copy: Copy,
    is_capturing: Callable[[int], bool],
    counts: bool = False,
    codes: bool = False,
    values: Any = None,
    op: str | None = None,
) -> tuple[Any, Any, Any] | None: ...
def result_of(op: str, dtype: Dtype) -> Dtype: ...
def isin_scratch(n: int, others: int, key_bytes: int) -> int: ...
def isin(
    ordinal: int,
    n: int,
    keys: int,
    others: int,
    among: int,
    key_bytes: int,
    seed: int,
    out: int,
    scratch: int,
    nbytes: int,
    stream: int,
) -> None: ...
def join_scratch(left: int, right: int, key_bytes: int, lists: bool) -> int: ...

class Join:
    def __init__(
        self,
        ordinal: int,
        n_left: int,
        left: int,
        n_right: int,
        right: int,
        key_bytes: int,
        keep: bool,
        seed: int,
        first: int,
        facts: int,
        scratch: int,
        nbytes: int,
        stream: int,
    ) -> None: ...
    def start(self, left_rows: int, right_rows: int) -> tuple[int, int]: ...
    def write_pairs(self, pairs: int, left_rows: int, right_rows: int) -> None: ...
