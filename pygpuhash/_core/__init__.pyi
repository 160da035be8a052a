from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, overload

import numpy as np
from numpy.typing import NDArray

from pygpuhash._core.copies import COPY_LOOK as COPY_LOOK
from pygpuhash._core.copies import COPY_STREAM as COPY_STREAM
from pygpuhash._core.copies import COPY_TOUCH as COPY_TOUCH
from pygpuhash._core.copies import Copies as Copies
from pygpuhash._core.groups import Grouping as Grouping
from pygpuhash._core.groups import Join as Join
from pygpuhash._core.groups import group as group
from pygpuhash._core.groups import isin as isin
from pygpuhash._core.groups import isin_scratch as isin_scratch
from pygpuhash._core.groups import join_scratch as join_scratch
from pygpuhash._core.groups import plain_groups as plain_groups
from pygpuhash._core.groups import ready as ready
from pygpuhash._core.groups import result_of as result_of
from pygpuhash._core.results import Maker as Maker
from pygpuhash._core.results import maker_like as maker_like
from pygpuhash._core.results import part as part
from pygpuhash._core.results import pointer as pointer
from pygpuhash._core.staging import STAGING_NEW_STATUS as STAGING_NEW_STATUS
from pygpuhash._core.staging import STAGING_NEW_VALUES as STAGING_NEW_VALUES
from pygpuhash._core.staging import STAGING_PAST_CACHES as STAGING_PAST_CACHES
from pygpuhash._core.staging import run_staged as run_staged
from pygpuhash._typing import (
    Codes,
    Column,
    Combine,
    Mask,
    Out,
    Scalar,
    Stream,
    SupportsArray,
    TableInfo,
    Tensor,
    Values,
)

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
VALUE_TYPE: Final[dict[str, int]]
OPERATIONS: Final[dict[str, tuple[int, str, frozenset[str]]]]
ADDING: Final[frozenset[int]]

def piece(keys: int = 0, full: int = 0) -> int: ...
def watched(change: int) -> None: ...
def forks() -> int: ...
def abandoned(made_in: int) -> bool: ...
def keep(thing: object) -> None: ...
def version() -> str: ...
def build_info() -> str: ...
def set_threads(threads: int) -> None: ...
def device_count(kind: int) -> tuple[int, str]: ...
def device_info(kind: int, ordinal: int) -> dict[str, Any]: ...
def pointer_device(p: int) -> tuple[int, int]: ...
def backend_list() -> list[dict[str, Any]]: ...
def backend_load(name: str) -> dict[str, Any]: ...
def backend_open(path: str) -> dict[str, Any]: ...
def explain_no_memory(cached_memory: Callable[[int], str]) -> None: ...
def exception_of(status: int, message: str) -> Exception: ...
def own_arrays(kind: type) -> None: ...
def tell_progress_to(current: Callable[[], Callable[[int, int], object] | None]) -> None: ...
def check_ops(ops: Any, accumulates: bool) -> None: ...
def run_counted(table: CoreTable, op: int, keys: Any, values: Any) -> tuple[Exception | None, int, int, Any]: ...
def stats_raw(table: CoreTable, room: int) -> tuple[int, list[tuple[str, float]]]: ...
def backend_probe(name: str, kind: int, ordinal: int) -> str | None: ...
def stream_handle(stream: object) -> int: ...
def refuse_overlaps(inputs: tuple[Any, Any, Any], outputs: tuple[Any, Any]) -> None: ...
def measure_ceiling(
    kind: int, ordinal: int, what: str, table_bytes: int, n: int, repeats: int, threads: int
) -> NDArray[np.float64]: ...
def partition(
    ordinal: int,
    format: bytes,
    n: int,
    keys: int,
    shards: int,
    seed: int,
    values: int = 0,
    value_bytes: int = 0,
    ids: int = 0,
    offsets: int = 0,
    order: int = 0,
    out_keys: int = 0,
    out_values: int = 0,
    scratch: int = 0,
    nbytes: int = 0,
    stream: int = 0,
    asks: bool = False,
    places: int = 0,
    shard_keys: Sequence[int] | None = None,
    shard_values: Sequence[int] | None = None,
    counted: bool = False,
) -> int: ...
def collect(
    ordinal: int,
    n: int,
    places: int,
    offsets: Sequence[int],
    arrays: Sequence[tuple[Sequence[int], int, int]],
    stream: int = 0,
) -> None: ...
def ungroup(ordinal: int, n: int, order: int, rows: int, row_bytes: int, to: int, stream: int = 0) -> None: ...

MOST_SPREAD: int

def bytes_scratch(rows: int) -> int: ...

_Bytes = tuple[int, int, int, int, int, int, int, bool]

class BytesCall:
    def __init__(self, ordinal: int, one: _Bytes, other: _Bytes, scratch: int, nbytes: int, stream: int) -> None: ...
    def hash(self, seed: int, hashes: int, nulls: bool) -> int | None: ...
    def check(self, codes: int, groups: int, first: int) -> bool: ...
    def keep(self, rows: int) -> int: ...
    def place(self, rows: int, n: int, offsets: int) -> int: ...
    def take(self, rows: int, n: int, offsets: int, data: int, validity: int) -> None: ...

def dlpack_read(
    capsule: object,
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, int, int, int, int, object]: ...
def dlpack_write(
    owner: object, data: int, shape: tuple[int, ...], code: int, bits: int, kind: int, ordinal: int
) -> Any: ...

class ExportCursor:
    def __init__(self, as_stored: bool = False) -> None: ...
    done: bool
    changed: bool
    pairs: int

class CoreTable:
    @property
    def closed(self) -> bool: ...
    @property
    def key_dtype(self) -> np.dtype[Any]: ...
    @property
    def value_dtype(self) -> Any: ...  # a dtype, or None for a set
    @property
    def _key_store(self) -> np.dtype[Any]: ...
    @property
    def _value_store(self) -> Any: ...
    @property
    def _stream(self) -> Any: ...
    @property
    def _kind(self) -> int: ...
    @property
    def _ordinal(self) -> int: ...
    @property
    def _grow(self) -> bool: ...
    @property
    def _options(self) -> dict[str, str]: ...
    @property
    def _threads(self) -> int: ...
    @property
    def _behind_bus(self) -> bool: ...
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
    def _refuse_forked(self) -> None: ...
    def _pretend(self, kind: int) -> Any: ...
    def close(self) -> None: ...
    @overload
    def find(
        self, keys: Any, *, out: Out | None = None, found: Literal[False], stream: Stream = None
    ) -> tuple[Any, None]: ...
    @overload
    def find(
        self, keys: Scalar, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[Any, np.bool_]: ...
    @overload
    def find(
        self, keys: Column, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def find(
        self, keys: Tensor, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def find(
        self, keys: SupportsArray, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def contains(self, keys: Scalar, *, out: Out | None = None, stream: Stream = None) -> np.bool_: ...
    @overload
    def contains(self, keys: Column, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def contains(self, keys: Tensor, *, out: Out | None = None, stream: Stream = None) -> Tensor: ...
    @overload
    def contains(self, keys: SupportsArray, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def get(self, keys: Scalar, default: Any = 0, *, stream: Stream = None) -> Any: ...
    @overload
    def get(self, keys: Column, default: Any = 0, *, stream: Stream = None) -> NDArray[Any]: ...
    @overload
    def get(self, keys: Tensor, default: Any = 0, *, stream: Stream = None) -> Tensor: ...
    @overload
    def get(self, keys: SupportsArray, default: Any = 0, *, stream: Stream = None) -> NDArray[Any]: ...
    @overload
    def insert(
        self, keys: Any, values: Values | None = None, *, out: Literal[False], stream: Stream = None
    ) -> None: ...
    @overload
    def insert(
        self, keys: Scalar, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> np.bool_: ...
    @overload
    def insert(
        self, keys: Column, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Mask: ...
    @overload
    def insert(
        self, keys: Tensor, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Tensor: ...
    @overload
    def insert(
        self, keys: SupportsArray, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Mask: ...
    @overload
    def insert_multi(
        self, keys: Scalar, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> np.bool_: ...
    @overload
    def insert_multi(
        self, keys: Column, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Mask: ...
    @overload
    def insert_multi(
        self, keys: Tensor, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Tensor: ...
    @overload
    def insert_multi(
        self, keys: SupportsArray, values: Values | None = None, *, out: Out | None = None, stream: Stream = None
    ) -> Mask: ...
    def _assign(self, keys: Any, values: Any, flags: int, out: Any, stream: Any) -> Any: ...
    @overload
    def accumulate(
        self, keys: Any, values: Values = 1, *, op: Combine = "add", out: Literal[False], stream: Stream = None
    ) -> None: ...
    @overload
    def accumulate(
        self, keys: Scalar, values: Values = 1, *, op: Combine = "add", out: Out | None = None, stream: Stream = None
    ) -> np.bool_: ...
    @overload
    def accumulate(
        self, keys: Column, values: Values = 1, *, op: Combine = "add", out: Out | None = None, stream: Stream = None
    ) -> Mask: ...
    @overload
    def accumulate(
        self, keys: Tensor, values: Values = 1, *, op: Combine = "add", out: Out | None = None, stream: Stream = None
    ) -> Tensor: ...
    @overload
    def accumulate(
        self,
        keys: SupportsArray,
        values: Values = 1,
        *,
        op: Combine = "add",
        out: Out | None = None,
        stream: Stream = None,
    ) -> Mask: ...
    @overload
    def erase(self, keys: Any, *, out: Literal[False], stream: Stream = None) -> None: ...
    @overload
    def erase(self, keys: Scalar, *, out: Out | None = None, stream: Stream = None) -> np.bool_: ...
    @overload
    def erase(self, keys: Column, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def erase(self, keys: Tensor, *, out: Out | None = None, stream: Stream = None) -> Tensor: ...
    @overload
    def erase(self, keys: SupportsArray, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def erase_all(self, keys: Scalar, *, out: Out | None = None, stream: Stream = None) -> np.bool_: ...
    @overload
    def erase_all(self, keys: Column, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def erase_all(self, keys: Tensor, *, out: Out | None = None, stream: Stream = None) -> Tensor: ...
    @overload
    def erase_all(self, keys: SupportsArray, *, out: Out | None = None, stream: Stream = None) -> Mask: ...
    @overload
    def pop(
        self, keys: Any, *, out: Out | None = None, found: Literal[False], stream: Stream = None
    ) -> tuple[Any, None]: ...
    @overload
    def pop(
        self, keys: Scalar, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[Any, np.bool_]: ...
    @overload
    def pop(
        self, keys: Column, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def pop(
        self, keys: Tensor, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def pop(
        self, keys: SupportsArray, *, out: Out | None = None, found: Out | None = None, stream: Stream = None
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def find_or_insert(
        self,
        keys: Any,
        values: Values | None = None,
        *,
        out: Out | None = None,
        inserted: Literal[False],
        stream: Stream = None,
    ) -> tuple[Any, None]: ...
    @overload
    def find_or_insert(
        self,
        keys: Scalar,
        values: Values | None = None,
        *,
        out: Out | None = None,
        inserted: Out | None = None,
        stream: Stream = None,
    ) -> tuple[Any, np.bool_]: ...
    @overload
    def find_or_insert(
        self,
        keys: Column,
        values: Values | None = None,
        *,
        out: Out | None = None,
        inserted: Out | None = None,
        stream: Stream = None,
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def find_or_insert(
        self,
        keys: Tensor,
        values: Values | None = None,
        *,
        out: Out | None = None,
        inserted: Out | None = None,
        stream: Stream = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def find_or_insert(
        self,
        keys: SupportsArray,
        values: Values | None = None,
        *,
        out: Out | None = None,
        inserted: Out | None = None,
        stream: Stream = None,
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def execute(
        self,
        ops: Codes,
        keys: Any,
        values: Values | None = None,
        *,
        op: Combine = "add",
        out: Out | None = None,
        found: Literal[False],
        stream: Stream = None,
    ) -> tuple[Any, None]: ...
    @overload
    def execute(
        self,
        ops: Codes,
        keys: Scalar,
        values: Values | None = None,
        *,
        op: Combine = "add",
        out: Out | None = None,
        found: Out | None = None,
        stream: Stream = None,
    ) -> tuple[Any, np.bool_]: ...
    @overload
    def execute(
        self,
        ops: Codes,
        keys: Column,
        values: Values | None = None,
        *,
        op: Combine = "add",
        out: Out | None = None,
        found: Out | None = None,
        stream: Stream = None,
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def execute(
        self,
        ops: Codes,
        keys: Tensor,
        values: Values | None = None,
        *,
        op: Combine = "add",
        out: Out | None = None,
        found: Out | None = None,
        stream: Stream = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def execute(
        self,
        ops: Codes,
        keys: SupportsArray,
        values: Values | None = None,
        *,
        op: Combine = "add",
        out: Out | None = None,
        found: Out | None = None,
        stream: Stream = None,
    ) -> tuple[NDArray[Any], Mask]: ...
    @overload
    def count(self, keys: Scalar, *, out: Out | None = None, stream: Stream = None) -> np.int64: ...
    @overload
    def count(self, keys: Column, *, out: Out | None = None, stream: Stream = None) -> NDArray[np.int64]: ...
    @overload
    def count(self, keys: Tensor, *, out: Out | None = None, stream: Stream = None) -> Tensor: ...
    @overload
    def count(self, keys: SupportsArray, *, out: Out | None = None, stream: Stream = None) -> NDArray[np.int64]: ...
    @overload
    def __getitem__(self, keys: slice, /) -> tuple[NDArray[Any], NDArray[Any] | None]: ...
    @overload
    def __getitem__(self, keys: Scalar, /) -> Any: ...
    @overload
    def __getitem__(self, keys: Column, /) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, keys: Tensor, /) -> Tensor: ...
    @overload
    def __getitem__(self, keys: SupportsArray, /) -> NDArray[Any]: ...
    def __setitem__(self, keys: Values, values: Values | None, /) -> None: ...
    def __delitem__(self, keys: Values, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def _accumulates(self) -> bool: ...
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
    def _neighbors(
        self, which: int, n: int, keys: int, out_keys: int, out_values: int, found: int, stream: int = 0
    ) -> None: ...
    def _range_all(
        self, n: int, low: int, high: int, offsets: int, room: int, out_keys: int, out_values: int, stream: int = 0
    ) -> Exception | None: ...
    def _range_pairs(
        self,
        n: int,
        low: int,
        high: int,
        offsets: int,
        room: int,
        out_keys: int,
        out_values: int,
        counts: int,
        stream: int = 0,
    ) -> None: ...
    def _range(
        self, n: int, low: int, high: int, limit: int, out_keys: int, out_values: int, counts: int, stream: int = 0
    ) -> None: ...
    def _export(self, room: int, keys: int, values: int, stream: int = 0) -> tuple[int, Exception | None]: ...
    def _export_part(
        self, cursor: ExportCursor, room: int, keys: int, values: int, stream: int = 0
    ) -> tuple[int, Exception | None]: ...
    def _maintain(self, what: str, keys: int = 0, stream: int = 0, count: int = 0) -> None: ...
    def _info(self) -> TableInfo: ...
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
    def _refuse_forked(self) -> None: ...
    def _call(self, what: str, n: int, units: int, out: int = 0, stream: int = 0) -> Any: ...
    def stats(self) -> dict[str, int]: ...
