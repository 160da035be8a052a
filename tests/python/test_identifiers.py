"""The reader of identifiers agrees with `tokenize`."""

import io
import keyword
import sys
import tokenize

import pytest

from pygpuhash import identifiers

SNIPPETS = [
    "a = b'c' + rb\"d\" + Rb'''e\nf''' + u'g'; h",
    "x = 'it\\'s' + y  # comment with names\nz",
    "0xdeadBEEF + 1_000j + 1e-5 + .5e3 + 7.e2 + e5 + 0b11 + 0o17 + x0",
    '"""doc \\""" string""" + name',
    "'''a ' b '' c''' + d",
    "def f(self, *args, größe=None): return self.größe",
    "'line \\\n continued' + after",
    "match x:\n  case _: type = 1\n",
    "r'\\' + rest'\nnext_line",
    "\"a'b\" + c + 'd\"e' + f",
    "if x:return 1if y else 2",
    "f'{a!r:>{width}}' + b + rf\"{c}\"",
    "",
]
if sys.version_info >= (3, 12):
    SNIPPETS += ['f"{x["key"]}" + y', "f'{f'{a}'}' + b", "f'''{a['b']} {\n'c'}''' + d"]


def reference(source):
    """Names by `tokenize`, those inside of f-strings (which are tokens from Python 3.12 on) left out."""
    found, depth = [], 0
    for t in tokenize.generate_tokens(io.StringIO(source).readline):
        depth += t.type == getattr(tokenize, "FSTRING_START", -1)
        depth -= t.type == getattr(tokenize, "FSTRING_END", -1)
        if t.type == tokenize.NAME and not depth and t.string not in keyword.kwlist:
            found.append(t.string)
    return found


@pytest.mark.parametrize("source", SNIPPETS)
def test_snippets(source):
    assert identifiers.names(source) == reference(source)


def test_files_of_the_standard_library():
    files = [p for p in identifiers.source_files() if "test" not in p.parts and "lib2to3" not in p.parts][::12]
    compared = 0
    for path in files:
        source = identifiers.read_source(path)
        assert source is not None
        assert identifiers.names(source) == reference(source), path
        compared += 1
    assert compared > 20


def test_a_file_with_a_wrong_encoding_is_skipped(tmp_path):
    (tmp_path / "a.py").write_bytes(b"# coding: no-such-encoding\nx = 1\n")
    (tmp_path / "b.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "c.py").write_bytes(b"# coding: latin-1\nx = '\xff'\n")
    assert identifiers.read_source(tmp_path / "a.py") is None
    assert identifiers.read_source(tmp_path / "b.py") is None
    assert "ÿ" in identifiers.read_source(tmp_path / "c.py")


def test_fingerprints_are_distinct_and_fixed():
    prints = identifiers.fingerprints(["self", "x", "größe"])
    assert len(set(prints.values())) == 3
    assert prints == identifiers.fingerprints(["self", "x", "größe"])
    assert all(0 <= value < 2**64 for value in prints.values())
    assert max(prints.values()) > 2**32


def test_colliding_fingerprints_are_noticed(monkeypatch):
    class Constant:
        def digest(self):
            return bytes(8)

    monkeypatch.setattr(identifiers.hashlib, "blake2b", lambda *a, **k: Constant())
    with pytest.raises(RuntimeError, match="same 64-bit fingerprint"):
        identifiers.fingerprints(["a", "b"])


def test_which_files_are_read(tmp_path, monkeypatch):
    for name in ("a.py", "test/b.py", "site-packages/c.py", "dist-packages/d.py", "__pycache__/e.py", "f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("name = name\n")
    monkeypatch.setattr(identifiers.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    assert identifiers.source_files() == [tmp_path / "a.py", tmp_path / "test/b.py"]
    (tmp_path / "g.py").write_bytes(b"# \xff\n")
    (tmp_path / "h.py").write_bytes(b"# coding: no-such-encoding\n")
    told = []
    found = identifiers.read_standard_library(told.append)
    assert (found.files, found.skipped) == (2, 2)
    assert dict(found.counts) == {"name": 4}
    assert told == [0.25, 0.5, 0.75, 1.0]
