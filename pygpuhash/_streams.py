"""Which CUDA stream a call works on, and contexts in which an array's library works on a stream.

The `stream=` of the call, else that of the table, else the current stream of the keys' library, else the default
stream.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from pygpuhash import _cuda, _tensors
from pygpuhash._core import stream_handle
from pygpuhash.errors import DeviceError, InvalidArgument


def usable_stream(stream: Any, device: int, *known: Any) -> tuple[Any, int]:
    """(what keeps a stream that was named, its handle); refused if it is of another device, or may not be a stream.

    The driver reads the memory at a handle: that of a stream that is gone ends the process. So a number alone is taken
    where something that lives has it: a stream that is current, or is `known` to the call.
    """
    handle = stream_handle(stream)
    if handle <= _cuda.DEFAULT_STREAMS:
        return stream, handle
    stream = _cuda.keeper(stream, device, *known)
    if not _cuda.is_capturing(handle):  # a capture would not survive the question
        try:
            found = int(_cuda.call("cuStreamGetDevice", handle))
        except DeviceError as error:
            raise InvalidArgument(f"stream={stream!r} cannot be used: {error}") from error
        if found != device:
            raise InvalidArgument(
                f"stream={stream!r} is of cuda:{found}, the table on cuda:{device}: pass a stream of that device"
            )
    return stream, handle


def stream_of_call(table: Any, stream: Any, array: Any = None) -> tuple[Any, int]:
    """(what keeps the stream of a call, its handle): the one that was named, that of the table, or that of an array."""
    if stream is not None:
        return usable_stream(stream, table._ordinal, table._stream, getattr(array, "_keeps", None))
    if table._stream is not None or array is None:
        return usable_stream(table._stream, table._ordinal)
    owner = stream_keeper(array, table._ordinal)
    return owner, stream_handle(owner)


def stream_keeper(array: Any, device: int) -> Any:
    """What keeps the stream on which the array's library would launch work now; 0 for the default stream."""
    name = _tensors.library_of(array)
    if name == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream(device)
    if name == "torch":
        return sys.modules["torch"].cuda.current_stream(device)
    return array._stream_keeper() if isinstance(array, _cuda.DeviceArray) else 0


def current_stream(array: Any, device: int) -> int:
    """The handle of the stream on which the array's library would launch work now."""
    return stream_handle(stream_keeper(array, device))


def working_on(array: Any, device: int, stream: int) -> Any:
    """A context in which the array's library allocates and works on a stream."""
    name = _tensors.library_of(array)
    if name == "cupy":
        return cupy_stream(sys.modules["cupy"], stream, device)
    if name == "torch":
        torch = sys.modules["torch"]
        if stream == torch.cuda.current_stream(device).cuda_stream:
            return contextlib.nullcontext()  # entering a stream's context takes longer than an allocation
        here = torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
        return torch.cuda.stream(here)
    return contextlib.nullcontext()


def cupy_stream(cupy: Any, stream: int, device: int) -> Any:
    """A context in which CuPy's pool allocates for a stream."""
    if stream == cupy.cuda.get_current_stream(device).ptr:
        return contextlib.nullcontext()
    if not stream:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14
        return cupy.cuda.Stream.from_external(_cuda.Address(stream))
    return cupy.cuda.ExternalStream(stream, device)
