"""`pygpuhash new-plugin DIR --kind kit|c|python --name NAME`: the distribution of a backend, to start from.

What it writes builds, is found by name, and passes the conformance suite as it is. Templates are the files of
`pygpuhash/templates`: `all` and, for what has a module, `native`, below those of the kind. In their names and texts
@NAME@ is the backend, @DASHED@ the same with dashes, @VERSION@ this package's version.
"""

from __future__ import annotations

import importlib.metadata
import keyword
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from pygpuhash import __version__, registry
from pygpuhash.config import get_include
from pygpuhash.errors import InvalidArgument

__all__ = ["KINDS", "how_to_install", "write"]

TEMPLATES = Path(__file__).resolve().parent / "templates"
KINDS = {
    "kit": """\
The algorithm is `src/ops.hpp`, the bytes of the table and their invariants are `src/layout.hpp`; `src/structure.hpp`
has sizes and the tests of the invariants, `src/plugin.cpp` names, traits and options; `src/manifest.toml` repeats them.
Everything else, growth, threads, statistics, CUDA, is the kit's. `setup.py` compiles for all instruction sets of this
processor's family, and for CUDA where there is nvcc (`GPUHASH_CUDA=off` leaves it out). The wheel is for every
Python 3.""",
    "c": """\
`src/@NAME@.c` is all of it: a table under a mutex, against `gpuhash/plugin.h`, whose comments say what each entry does.
`src/manifest.toml` repeats name, traits and options. The wheel is for every Python 3.""",
    "python": """\
`src/gpuhash_@NAME@/__init__.py` has the class: methods of `pygpuhash.Table`, which hand their work to a built-in
structure until you replace them.""",
}
_FOLDERS = {"kit": ("all", "native", "kit"), "c": ("all", "native", "c"), "python": ("all", "python")}
_MOST_LETTERS = 48  # of a name; a module's file and C symbols begin with more


def write(folder: str | os.PathLike[str], kind: str, name: str) -> list[Path]:
    """Write the distribution; returns its files, below the folder.

    Nothing is left where anything of it fails. Raises `InvalidArgument` for a name or a folder that cannot be used.
    """
    if kind not in KINDS:
        raise InvalidArgument(f"kind={kind!r} is not known: choose of {', '.join(KINDS)}")
    _check_name(name)
    target = Path(folder).absolute()
    _check_folder(target)
    texts = _texts(kind, name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for file, text in texts.items():
                (partial / file).parent.mkdir(parents=True, exist_ok=True)
                (partial / file).write_text(text, encoding="utf-8")
            partial.chmod(0o755)
            partial.rename(target)  # which replaces an empty folder
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise InvalidArgument(f"'{target}' cannot be written: {error.strerror or error}") from error
    return sorted(texts)


def how_to_install(folder: str | os.PathLike[str], kind: str) -> str:
    """The command that installs what `write` wrote.

    pip builds in an environment of its own, for which it fetches gpuhash from an index. One that was installed from a
    file or a folder may be in no index, so the build then takes what is installed. A word without a slash is a name to
    pip, for which it would ask the index.
    """
    place = os.fspath(folder)
    install = "pip install " + shlex.quote(place if os.sep in place else f"./{place}")
    if kind == "python" or not _installed_from_a_file():
        return install
    return f"pip install 'setuptools>=77' && {install} --no-build-isolation"


def _installed_from_a_file() -> bool:
    """Whether pip was given a file, a folder or an address for this package, which it notes (PEP 610)."""
    try:
        return importlib.metadata.distribution("gpuhash").read_text("direct_url.json") is not None
    except importlib.metadata.PackageNotFoundError:
        return False


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > _MOST_LETTERS or keyword.iskeyword(name):
        raise InvalidArgument(
            f"name={name!r} cannot be used: it must be an identifier of lower-case letters, digits and underscores, "
            f"at most {_MOST_LETTERS} of them, that begins with a letter and is no keyword"
        )
    for candidate in registry.candidates()[0]:
        if name == candidate.key.rpartition(":")[2] or name == Path(candidate.key).stem.removeprefix("gpuhash_"):
            owner = candidate.distribution or candidate.path
            raise InvalidArgument(f"name={name!r} is taken by {owner}: choose another")


def _check_folder(target: Path) -> None:
    if target.is_dir():
        if any(target.iterdir()):
            raise InvalidArgument(f"'{target}' is not empty: name a new folder")
    elif target.exists() or target.is_symlink():
        raise InvalidArgument(f"'{target}' is no folder: name a new one")
    above = next(place for place in target.parents if place.exists() or place.is_symlink())
    if not above.is_dir():
        raise InvalidArgument(f"'{target}' cannot be written: '{above}' is no folder; name another place")


def _texts(kind: str, name: str) -> dict[Path, str]:
    """Every file's text, by its place."""
    words = {
        "@ABOUT@": KINDS[kind],
        "@NAME@": name,
        "@DASHED@": name.replace("_", "-"),
        "@VERSION@": __version__,
        "@KIND@": kind,
    }

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    texts = {}
    for part in _FOLDERS[kind]:
        for template in sorted((TEMPLATES / part).rglob("*.in")):
            place = str(template.relative_to(TEMPLATES / part)).removesuffix(".in")
            place = re.sub(r"^git", ".git", place).replace("src/__init__.py", f"src/gpuhash_{name}/__init__.py")
            texts[Path(filled(place))] = filled(template.read_text(encoding="utf-8"))
    if kind == "c":  # the example that is installed with the headers
        toy = (Path(get_include()) / "gpuhash" / "examples" / "toy.c").read_text(encoding="utf-8")
        toy = re.sub(r"\btoy\b|(?<=gpuhash_)toy", name, toy).replace('.version = "1.0"', ".version = PLUGIN_VERSION")
        texts[Path(f"src/{name}.c")] = toy
    return texts
