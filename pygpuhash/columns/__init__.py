"""Columns of any library, read into structs of Arrow's C data interface, and the way back.

`read(given, what)` is a `Column`. Who gives what: `numpy_arrays`, `lists` (Python objects), `arrow` (everything with
Arrow's capsules), `frames` (pandas, polars); each knows `column`, the small type in the middle, and not the others.
"""

from pygpuhash.columns._buffers import View
from pygpuhash.columns.column import Column
from pygpuhash.columns.reading import read

__all__ = ["Column", "View", "read"]
