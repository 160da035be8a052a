"""Every identifier in the sources of Python's standard library: a real, skewed stream of keys that every machine has.

What counts: NAME tokens, in the sense of `tokenize`, less the keywords of `keyword.kwlist` (soft keywords such as
`match` are identifiers). Names inside of comments and strings do not count; f-strings are strings. Read are all `.py`
files of the interpreter's standard library, the test package included where it is installed, site-packages excluded.
Files that `tokenize` would refuse because of their encoding are skipped and counted.

`tokenize` takes three times as long as one regular expression that steps over comments, strings and numbers and
yields names; the tests compare the two on the library's own files. From Python 3.12 on an f-string may contain its own
quote character in a replacement field, which no regular expression can follow: files with f-strings then go through
`tokenize` after all.
"""

from __future__ import annotations

import hashlib
import io
import keyword
import re
import sys
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from token import tok_name as token_names
from typing import Any

import numpy as np

__all__ = ["Identifiers", "fingerprints", "names", "read_standard_library", "source_files"]

_STRING_PREFIX = r"(?:[rR][bBfF]?|[bBfFtT][rR]?|[uU])?"
# One alternative per kind of token that may contain what looks like a name. Group 1 is a name; the others match
# without a group. Where a string does not end, its quote is skipped, as the tokenizer does with an error.
_TOKEN = re.compile(
    r"\#[^\n]*"
    rf"|{_STRING_PREFIX}'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rf'|{_STRING_PREFIX}"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rf"|{_STRING_PREFIX}'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    rf'|{_STRING_PREFIX}"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+"
    r"|(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][-+]?[0-9](?:_?[0-9])*)?[jJ]?"
    r"|([^\W\d]\w*)",
    re.DOTALL,
)
_F_STRING = re.compile(r"(?i)\b(?:[ft]r?|r[ft])['\"]")
_KEYWORDS = frozenset(keyword.kwlist)


@dataclass(frozen=True)
class Identifiers:
    """A stream of keys, and what they stand for.

    `keys` has one 64-bit fingerprint per token, in source order; `text` gives each fingerprint's identifier; `counts`
    is the `collections.Counter` of the identifiers.
    """

    keys: np.ndarray[Any, np.dtype[np.uint64]]
    text: dict[int, str]
    counts: Counter[str]
    files: int
    skipped: int


def source_files() -> list[Path]:
    """The standard library's `.py` files, sorted by path."""
    root = Path(sysconfig.get_paths()["stdlib"])
    outside = {"site-packages", "dist-packages", "__pycache__"}
    return sorted(path for path in root.rglob("*.py") if not outside.intersection(path.relative_to(root).parts))


def names(source: str) -> list[str]:
    """The identifiers of one source text, in order, keywords left out."""
    if sys.version_info >= (3, 12) and _F_STRING.search(source):
        try:
            return list(_tokenized(source))
        except (tokenize.TokenError, SyntaxError):
            pass  # a file that is wrong on purpose, as test data: read what there is
    return [name for name in _TOKEN.findall(source) if name and name not in _KEYWORDS]


def _tokenized(source: str) -> Iterator[str]:
    depth = 0  # of f-strings in f-strings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = token_names[token.type]
        if kind in ("FSTRING_START", "TSTRING_START"):
            depth += 1
        elif kind in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
        elif kind == "NAME" and not depth and token.string not in _KEYWORDS:
            yield token.string


def read_source(path: Path) -> str | None:
    """A source file as text, or None when its declared encoding does not fit."""
    data = path.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return None


def fingerprints(texts: list[str]) -> dict[str, int]:
    """A 64-bit fingerprint for each of some distinct strings. Raises if two of them collide."""
    result = {
        text: int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        for text in texts
    }
    if len(set(result.values())) != len(result):
        raise RuntimeError("two identifiers have the same 64-bit fingerprint: use a longer digest")
    return result


def read_standard_library(progress: Callable[[float], None] = lambda done: None) -> Identifiers:
    """All identifiers of the running interpreter's standard library; takes a few seconds."""
    files = source_files()
    streams: list[list[str]] = []
    skipped = 0
    for i, path in enumerate(files):
        source = read_source(path)
        if source is None:
            skipped += 1
        else:
            streams.append(names(source))
        progress((i + 1) / len(files))
    counts = Counter(chain.from_iterable(streams))
    fingerprint = fingerprints(list(counts))
    total = sum(map(len, streams))
    keys = np.fromiter(map(fingerprint.__getitem__, chain.from_iterable(streams)), np.uint64, total)
    text = {number: name for name, number in fingerprint.items()}
    return Identifiers(keys, text, counts, len(files) - skipped, skipped)
