"""`pygpuhash count | unique | top | dedup | diff | join`: files and pipes in, rows out, in bounded memory.

From the lowest up, each knowing those before it: `_words`, `_kmers`, `_print` (bytes to columns and back, in C),
`progress`, `sources` (files, pipes, what is compressed), `batches` and `tables` (rows of CSV, JSON lines, parquet and
Arrow), `columns` (what is counted), `spill` (temporary files), `tally` (distinct keys and how often each one is there),
`sorted_kmers` (the same of k-mers, in their order),
`output`, `settings` (what all commands are asked), and a module for each command. `programs` is all of them.
"""

__all__ = ["COMMANDS"]

COMMANDS = {
    "count": "count words, lines, k-mers or a column of a table",
    "unique": "print each of them once",
    "top": "print the K most frequent ones",
    "dedup": "leave out lines, or rows of a table, that were there before; keeps the order",
    "diff": "what only one of two files has",
    "join": "rows of a table beside those of another",
}
