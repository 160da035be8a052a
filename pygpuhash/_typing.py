"""Types for the annotations of the public methods. Imported by type checkers alone."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray


class SupportsArray(Protocol):
    """A column of pandas or polars, or anything else that numpy reads."""

    def __array__(self) -> NDArray[Any]: ...


class SupportsDlpack(Protocol):
    """A tensor of PyTorch, JAX or CuPy: results are of the same class."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class SupportsArrow(Protocol):
    """An array of Arrow's C data interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


class SupportsNumpy(Protocol):
    """A frame, series or index of pandas or polars."""

    @property
    def to_numpy(self) -> Callable[..., Any]: ...


class SupportsSeries(SupportsNumpy, Protocol):
    """A series of pandas or polars: it has a name and can be clipped, as neither a frame nor an index can."""

    @property
    def name(self) -> Any: ...
    @property
    def clip(self) -> Callable[..., Any]: ...


class TorchDtype(Protocol):
    """A dtype of PyTorch."""

    @property
    def is_floating_point(self) -> bool: ...


class Memory(Protocol):
    """Where a table's storage comes from; see `Table`."""

    def allocate(self, nbytes: int, alignment: int, stream: int, /) -> int | None: ...
    def deallocate(self, address: int, nbytes: int, alignment: int, stream: int, /) -> None: ...


class TableInfo(TypedDict):
    """`Table.info`."""

    backend: str
    size: int
    used: int
    slots: int
    capacity: int
    bytes: int
    seed: int
    rebuilds: int
    max_load_factor: float
    traits: frozenset[str]


class Options(TypedDict, total=False):
    """What verbs hand to `Table`, and the options of the structures of this package, by name."""

    backend: str
    device: str
    threads: int | None
    stream: object
    memory: Memory | str | None
    seed: int | None
    max_load_factor: float | None
    capacity: int
    allocator: str
    bucket: int
    buckets: int
    build: str
    chunk: int | str
    claim: str
    contract: float
    duplicates: int
    elements: str
    evictions: int
    file: str
    hash: str
    hashes: str
    hybrid_from: float
    indexing: str
    inserts: str
    line: int
    merge: float
    ordered_from: int
    p_chunk: float
    parts: str
    path: str | os.PathLike[str]
    placement: str
    probe_limit: int
    repair: int
    row: int | str
    segment: str
    slab_bytes: int | str
    stash: float
    ticket: int
    tile: int | str
    utilization: float
    ways: int
    window: int


class Plain(Options, total=False):
    """Keyword arguments of verbs whose results have the order of their arguments."""

    nulls: Literal["group", "drop", "refuse"]
    floats: Literal["numbers", "bits"]


class Distinct(Plain, total=False):
    """Keyword arguments of verbs that give distinct keys."""

    order: Literal["any", "first"]


class Reduced(Distinct, total=False):
    """Keyword arguments of `group_reduce`."""

    dtype: Any
    reproducible: bool


Tensor = TypeVar("Tensor", bound=SupportsDlpack)
Series = TypeVar("Series", bound=SupportsSeries)
Frame = TypeVar("Frame", bound=SupportsNumpy)
Element = TypeVar("Element", bound=np.generic)
Columns = TypeVar("Columns", bound="tuple[NDArray[Any] | SupportsDlpack | SupportsNumpy, ...]")  # of one length
Mixed: TypeAlias = "tuple[NDArray[Any] | SupportsDlpack | SupportsNumpy | list[Any] | range, ...]"
Rows: TypeAlias = Sequence[Any] | range | memoryview
Single: TypeAlias = (
    complex | str | bytes | np.generic | datetime.date | datetime.time | datetime.timedelta | Decimal  # one element
)
Scalar: TypeAlias = int | float | np.generic | datetime.date | datetime.timedelta
Column: TypeAlias = NDArray[Any] | Sequence[Any] | range | memoryview
Mask: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = Scalar | Column | SupportsArray | SupportsDlpack
Codes: TypeAlias = int | Column | SupportsArray | SupportsDlpack
Out: TypeAlias = NDArray[Any] | SupportsDlpack
Combine: TypeAlias = Literal["add", "min", "max"]
DeviceName: TypeAlias = Literal["auto", "cpu", "cuda"] | str  # or with a number, "cuda:1"
ElementType: TypeAlias = DTypeLike | TorchDtype
Stream: TypeAlias = object  # with __cuda_stream__, .cuda_stream or .ptr; or an int that is known to be a stream
