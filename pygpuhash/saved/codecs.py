"""Compression of buffers, by pyarrow, or by Python's own zstd since 3.14."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pygpuhash.errors import InvalidArgument, Unsupported
from pygpuhash.saved.flatbuffers import Malformed

__all__ = ["Codec", "codec_of", "numbered"]

_NUMBERS = {"lz4": 0, "zstd": 1}  # of Arrow's CompressionType


@dataclass(frozen=True)
class Codec:
    """A codec by name, with its number in Arrow's metadata."""

    name: str
    number: int
    compress: Callable[[Any], bytes]
    decompress: Callable[[Any, int], bytes]


def codec_of(name: str | None) -> Codec | None:
    """The codec of `compression=name`."""
    if name is None:
        return None
    if name not in _NUMBERS:
        raise InvalidArgument(f"compression={name!r} is none of 'zstd', 'lz4' and None")
    pyarrow = _module("pyarrow")
    if pyarrow is not None:
        codec = pyarrow.Codec(name)

        def decompress(data: Any, size: int) -> bytes:
            try:
                return bytes(codec.decompress(data, size, asbytes=True))
            except (OSError, ValueError) as error:  # those of pyarrow are these, too
                raise Malformed(f"a buffer is not what {name} makes: {error}") from None

        return Codec(name, _NUMBERS[name], lambda data: bytes(codec.compress(data, asbytes=True)), decompress)
    zstd = _module("compression.zstd") if name == "zstd" else None
    if zstd is None:
        raise Unsupported(f"compression={name!r} needs pyarrow, which is not installed: pip install pyarrow")

    def of_python(data: Any, size: int) -> bytes:
        try:
            return bytes(zstd.ZstdDecompressor().decompress(data, size + 1))
        except zstd.ZstdError as error:
            raise Malformed(f"a buffer is not what {name} makes: {error}") from None

    return Codec(name, _NUMBERS[name], zstd.compress, of_python)


def numbered(number: int) -> Codec | None:
    """The codec with a number of Arrow's metadata."""
    for name, known in _NUMBERS.items():
        if known == number:
            return codec_of(name)
    raise Malformed(f"the codec {number} is neither that of lz4 nor that of zstd")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
