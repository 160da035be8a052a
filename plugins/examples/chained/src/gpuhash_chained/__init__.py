"""The backend `chained` of gpuhash: a module that pygpuhash finds through this distribution's entry point."""

from pathlib import Path


def module() -> str:
    """Where the module is."""
    return str(Path(__file__).resolve().parent / "gpuhash_chained.so")
