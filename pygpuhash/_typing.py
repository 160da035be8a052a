"""What the annotations of the public methods are made of. Imported by type checkers alone."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
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


Tensor = TypeVar("Tensor", bound=SupportsDlpack)
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
