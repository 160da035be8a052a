from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

OP_INSERT: Final[int]
OP_ASSIGN: Final[int]
OP_ACCUMULATE: Final[int]
OP_FIND: Final[int]
OP_ERASE: Final[int]
OP_INSERT_MULTI: Final[int]
OP_COUNT: Final[int]
OP_ERASE_ALL: Final[int]
OP_EXECUTE: Final[int]
DEDUP_LAST: Final[int]
CPU: Final[int]
CUDA: Final[int]
TRAITS: Final[dict[str, int]]

def version() -> str: ...
def build_info() -> str: ...
def device_count(kind: int) -> tuple[int, str]: ...
def device_info(kind: int, ordinal: int) -> dict[str, Any]: ...
def pointer_device(p: int) -> tuple[int, int]: ...
def backend_list() -> list[dict[str, Any]]: ...
def backend_load(name: str) -> dict[str, Any]: ...
def backend_open(path: str) -> dict[str, Any]: ...
def check_ops(ops: Any, accumulates: bool) -> None: ...
def run_counted(table: CoreTable, op: int, keys: Any, values: Any) -> tuple[Exception | None, int, int, Any]: ...
def stats_raw(table: CoreTable, room: int) -> tuple[int, list[tuple[str, float]]]: ...
def backend_probe(name: str, kind: int, ordinal: int) -> str | None: ...
def measure_ceiling(
    kind: int, ordinal: int, what: str, table_bytes: int, n: int, repeats: int, threads: int
) -> NDArray[np.float64]: ...
def dlpack_read(
    capsule: object,
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, int, int, int, int, object]: ...
def dlpack_write(
    owner: object, data: int, shape: tuple[int, ...], code: int, bits: int, kind: int, ordinal: int
) -> Any: ...

class CoreTable:
    closed: bool
    key_dtype: np.dtype[Any]
    value_dtype: Any  # a dtype, or None for a set
    _key_store: np.dtype[Any]
    _value_store: Any
    _stream: Any
    _kind: int
    _ordinal: int
    _grow: bool
    _plain_keys: bool
    _plain_values: bool

    def _create(
        self,
        name: str,
        kind: int,
        ordinal: int,
        dtypes: tuple[Any, Any, Any, Any],
        capacity: int,
        max_load_factor: float,
        seed: int,
        grow: bool,
        threads: int,
        memory: Any,
        options: dict[str, str],
        stream: Any,
        stream_handle: int,
    ) -> None: ...
    def close(self) -> None: ...
    def find(self, keys: Any, *, out: Any = None, found: Any = None, stream: Any = None) -> tuple[Any, Any]: ...
    def contains(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any: ...
    def insert(self, keys: Any, values: Any = None, *, out: Any = None, stream: Any = None) -> Any: ...
    def _assign(self, keys: Any, values: Any, flags: int, out: Any, stream: Any) -> Any: ...
    def accumulate(
        self, keys: Any, values: Any = 1, *, op: str = "add", out: Any = None, stream: Any = None
    ) -> Any: ...
    def erase(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any: ...
    def execute(
        self,
        ops: Any,
        keys: Any,
        values: Any = None,
        *,
        op: str = "add",
        out: Any = None,
        found: Any = None,
        stream: Any = None,
    ) -> tuple[Any, Any]: ...
    def count(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any: ...
    def insert_multi(self, keys: Any, values: Any = None, *, out: Any = None, stream: Any = None) -> Any: ...
    def erase_all(self, keys: Any, *, out: Any = None, stream: Any = None) -> Any: ...
    def _raw(
        self,
        op: int,
        n: int,
        keys: int,
        values: int = 0,
        out_values: int = 0,
        out_status: int = 0,
        ops: int = 0,
        flags: int = 0,
        combine: int = 0,
        stream: int = 0,
        wait: bool = False,
    ) -> Exception | None: ...
    def _find_all(
        self, n: int, keys: int, offsets: int, values: int, room: int, stream: int = 0
    ) -> Exception | None: ...
    def _lower_bound(self, n: int, keys: int, out_keys: int, out_values: int, found: int, stream: int = 0) -> None: ...
    def _range(
        self, n: int, low: int, high: int, limit: int, out_keys: int, out_values: int, counts: int, stream: int = 0
    ) -> None: ...
    def _export(self, room: int, keys: int, values: int, stream: int = 0) -> tuple[int, Exception | None]: ...
    def _maintain(self, what: str, keys: int = 0, stream: int = 0, count: int = 0) -> None: ...
    def _info(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def stats(self) -> dict[str, float]: ...
    def histogram(self, n: int = 32) -> NDArray[np.uint64]: ...

class CoreSlabAllocator:
    closed: bool

    def _create(
        self,
        kind: str,
        device_kind: int,
        ordinal: int,
        unit_bytes: int,
        super_blocks: int,
        max_super_blocks: int,
        memory_blocks: int,
        seed: int,
        threads: int,
        wipe: bool,
        memory: Any,
        stream: int,
    ) -> None: ...
    def close(self) -> None: ...
    def _call(self, what: str, n: int, units: int, out: int = 0, stream: int = 0) -> Any: ...
    def stats(self) -> dict[str, int]: ...
