"""Saved tables: files of Arrow IPC that other programs read, written as a whole or not at all.

`files` is what a user calls. Below it, each knowing those after it: `copies` (the same for pickle), `contents` (what is
written), `made` (what is read), `record`, `container` (blocks and checksums), `elements` and `columns` (arrays as
Arrow's buffers), `chunk`, `codecs`, `types`, `flatbuffers`. `disk` is by itself.
"""

from pygpuhash.index import Index
from pygpuhash.saved.copies import reduce
from pygpuhash.saved.files import load, save
from pygpuhash.table import Table

__all__ = ["load", "save"]

Table._saving = Index._saving = (save, reduce)
