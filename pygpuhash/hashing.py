"""`hash_array`: a hash of rows that is the same everywhere, for shards and files.

docs/hash.md specifies it; `HASH_VERSION` is the version of that contract.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pygpuhash import _arguments, _arrays, _tensors
from pygpuhash._verb_inputs import is_element, of_one
from pygpuhash.columns import read
from pygpuhash.columns._engine import HASH_VERSION, hash_rows
from pygpuhash.errors import InvalidArgument, Unsupported

__all__ = ["HASH_VERSION", "hash_array"]

_WORD = np.dtype(np.uint64)


def hash_array(columns: Any, bits: Literal[64, 128] = 64, seed: int = 0, *, threads: int | None = None) -> Any:
    """A hash of each row that is a published contract: equal on every processor, device, process and platform, and in
    every version of the library with this `HASH_VERSION`.

    What is equal to the verbs has equal hashes, whatever its library, width or unit: the int8 7, the uint64 7 and the
    float 7.0; an instant in days or nanoseconds; text in any layout; a categorical and its values. Text and bytes are
    two types, and so are numbers and decimals: their hashes differ. Null has a hash, too.

    columns : a host column as the verbs take it; a tuple of columns or a frame, whose rows are hashed; or one element.
    bits : 64, or 128. The first 64 bits of both are the same.
    seed : from 0 to 2^64 - 1. Hashes of two seeds have nothing to do with each other.
    threads : at most so many; None for one for each CPU that the process may use.

    Returns uint64 of the shape of the column: numpy's, polars', Arrow's or a tensor, as the codes of `factorize`.
    Hashes of 128 bits are numpy's uint64 of that shape and two words, of which the first is the hash of 64 bits. The
    hash of one element is an int, whose lowest 64 bits are the first word.

    It is not for secrets: rows of equal hashes can be made from a known seed.

    Raises Unsupported for arrays of a device, InvalidArgument for other bits, seeds or threads, and TypeError for what
    the verbs refuse.
    """
    number = _arguments.whole("bits", bits, 2**31, least=-(2**31))
    if number not in (64, 128):
        raise InvalidArgument(
            f"bits={number} is neither 64 nor 128: pass 64, and cut its hashes where fewer are wanted"
        )
    key = _arguments.whole("seed", seed, 2**64 - 1)
    limit = None if threads is None else _arguments.whole("threads", threads, 4096, least=1)
    _refuse_device(columns)
    if is_element(columns):
        first, *second = _hashes(of_one(columns), number, key, limit)[1].tolist()
        return first | second[0] << 64 if second else first
    if number == 64:
        _tensors.check_results(_tensors.array_library(_first(columns)), _WORD, "")
    column, words = _hashes(columns, number, key, limit)
    return column.give_numbers(words, True) if number == 64 else words.reshape(*column.shape, 2)


def _hashes(columns: Any, bits: int, seed: int, threads: int | None) -> tuple[Any, np.ndarray[Any, Any]]:
    """The column, and the words of its hashes."""
    column = read(columns, "columns")
    words = np.empty(column.length * (bits // 64), _WORD)
    try:
        hash_rows(column.schema, column.chunks, bits, seed, threads, words)
    except TypeError as error:
        raise TypeError(f"{column.what}: {error}") from None
    return column, words


def _first(columns: Any) -> Any:
    """The column whose library the results have."""
    while isinstance(columns, tuple) and columns:
        columns = columns[0]
    return columns


def _refuse_device(columns: Any) -> None:
    """Refuse arrays of a device, by name, as no kernel computes this hash."""
    parts = enumerate(columns) if isinstance(columns, tuple) else ()
    for what, given in (("columns", columns), *((f"columns[{i}]", part) for i, part in parts)):
        if _arrays.on_device(given):
            raise Unsupported(
                f"{what} is on a GPU, where this hash is not computed: copy it to the host, as with .cpu() of PyTorch "
                "or cupy.asnumpy"
            )
