"""What it costs to read a column of each library and type: by verbs as structs of Arrow, and by a table as numbers.

    python -m asv_bench.intake [--n N] [--repeats N] [--library NAME ...] [--type NAME ...]

Prints a table: milliseconds of the processor per 10^6 elements, the least of `repeats`, and whether the column's own
memory is read (0) or a copy is made (copy). A dash stands for what the library lacks, "refused" for what tables of
numbers do not take. What was read is compared with the elements. Libraries that are not installed are left out; pyarrow
is needed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pygpuhash import _arrays
from pygpuhash.columns import _buffers, read

from .harness.arguments import one_sentence, whole

TABLES = {"int64": "i8", "float64": "f8", "bool": "?", "times": "M8[us]", "int64, nulls": "i8", "categories": "i8"}


def elements(name: str, n: int) -> Any:
    """The elements of a type as pyarrow has them."""
    import pyarrow as pa

    numbers = np.random.default_rng(7).integers(0, 1 << 20, n)
    if name == "int64, nulls":
        return pa.array(numbers, mask=numbers % 10 == 0)
    return {
        "int64": lambda: pa.array(numbers),
        "float64": lambda: pa.array(numbers / 8),
        "bool": lambda: pa.array(numbers % 2 == 0),
        "times": lambda: pa.array(numbers.astype("M8[us]")),
        "text": lambda: pa.array([f"word {x % 5000}" for x in numbers.tolist()]),
        "bytes": lambda: pa.array([b"%d" % x for x in numbers.tolist()]),
        "categories": lambda: pa.array(numbers % 100).dictionary_encode(),
        "rows": lambda: pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers % 7)], ["a", "b"]),
    }[name]()


TYPES = ("int64", "float64", "bool", "times", "text", "bytes", "int64, nulls", "categories", "rows")


def of_list(array: Any, name: str) -> Any:
    if name in ("categories", "rows"):
        return None
    return array.to_pylist()


def of_numpy(array: Any, name: str) -> Any:
    if name in ("int64", "float64", "bool", "times"):
        return array.to_numpy(zero_copy_only=False)
    if name == "text":
        return np.array(array.to_pylist(), "U")
    return np.array(array.to_pylist(), "S") if name == "bytes" else None


def of_pandas(array: Any, name: str) -> Any:
    import pandas as pd

    if name == "rows":
        return pd.DataFrame({"a": array.field(0).to_numpy(), "b": array.field(1).to_numpy()})
    if name == "int64, nulls":
        return pd.Series(array.to_pandas(integer_object_nulls=True), dtype="Int64")
    return pd.Series(array.to_pylist(), dtype=object) if name == "bytes" else pd.Series(array.to_pandas())


def of_pandas_over_arrow(array: Any, name: str) -> Any:
    import pandas as pd
    import pyarrow as pa

    if name == "categories":
        return None
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))


def of_polars(array: Any, name: str) -> Any:
    import polars as pl

    return None if name == "categories" else pl.Series(array)


def of_nanoarrow(array: Any, name: str) -> Any:
    import nanoarrow

    return nanoarrow.Array(array)


LIBRARIES: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "list": ("numpy", of_list),
    "numpy": ("numpy", of_numpy),
    "pandas": ("pandas", of_pandas),
    "pandas over Arrow": ("pandas", of_pandas_over_arrow),
    "polars": ("polars", of_polars),
    "pyarrow": ("pyarrow", lambda array, name: array),
    "nanoarrow": ("nanoarrow", of_nanoarrow),
}


class Chunk:
    """A chunk of a column, which pyarrow reads."""

    def __init__(self, column: Any, chunk: object) -> None:
        schema = _buffers.schema("+s", children=[column.schema], names=["x"])
        length = _buffers.length(chunk)
        children = [_buffers.sliced(chunk, 0, length)]
        self.pair = schema, _buffers.array(length, (None,), children=children)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.pair


def chunks(column: Any) -> list[Any]:
    """The chunks of a column as pyarrow's arrays."""
    import pyarrow as pa

    return [pa.array(Chunk(column, chunk)).field(0) for chunk in column.chunks]


def address(column: Any) -> int:
    """Of the cells of a column's first chunk: of text, of its views or offsets."""
    array = chunks(column)[0]
    array = array.field(0) if array.type.num_fields else getattr(array, "indices", array)
    return int(array.buffers()[1].address)


def plain(array: Any) -> list[Any]:
    """Elements to compare."""
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    return [tuple(x.values()) if isinstance(x, dict) else x for x in array.to_pylist()]


def least(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of the processor."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def by_verbs(given: Any, want: list[Any], repeats: int) -> str:
    """Of `columns.read`: two columns of the same memory, which both live, have been copied if they lie apart."""
    one, other = read(given, "keys"), read(given, "keys")
    found = [x for array in chunks(one) for x in plain(array)]
    assert found == want, "a wrong result"
    shared = address(one) == address(other)
    return cell(least(lambda: read(given, "keys"), repeats), len(want), shared)


def by_table(given: Any, name: str, want: list[Any], repeats: int) -> str:
    """Of what a table does with its keys."""
    dtype = np.dtype(TABLES.get(name, "i8"))
    try:
        one, other = (_arrays.to_base(given, dtype, "keys") for _ in range(2))
    except (TypeError, OverflowError):
        return "refused"
    assert one.tolist() == want, "a wrong result"
    shared = np.may_share_memory(one, other)
    return cell(least(lambda: _arrays.to_base(given, dtype, "keys"), repeats), len(want), shared)


def cell(seconds: float, n: int, shared: bool) -> str:
    return f"{seconds * 1e9 / n:.3f} {'0' if shared else 'copy'}"


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m asv_bench.intake", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=whole(1), default=1_000_000)
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--library", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--type", nargs="+", choices=TYPES, default=list(TYPES))
    args = parser.parse_args(arguments)
    importlib.import_module("pyarrow")
    there = [name for name in args.library if importlib.util.find_spec(LIBRARIES[name][0])]
    print(f"milliseconds of the processor per 10^6 elements, {args.n} of them: by a verb | by a table\n")
    print(f"| type | {' | '.join(there)} |\n|{' --- |' * (len(there) + 1)}")
    for name in args.type:
        array = elements(name, args.n)
        want, row = plain(array), []
        for library in there:
            given = LIBRARIES[library][1](array, name)
            if given is None:
                row.append("-")
            else:
                row.append(f"{by_verbs(given, want, args.repeats)}, {by_table(given, name, want, args.repeats)}")
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
