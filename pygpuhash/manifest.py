"""What a plugin says of itself without being loaded: `gpuhash_NAME.toml` beside `gpuhash_NAME.so`.

    name = "linear_probe"
    version = "0.1.0"
    abi = "1"                              # major version of the plugin ABI
    summary = "open addressing"            # may be left out
    devices = ["cpu", "cuda"]
    traits = ["insert", "accumulate", "grow"]
    key_widths = [4, 8]
    value_widths = [0, 4, 8]

    [[options]]
    name = "row"
    choices = "auto|1|4|8|16"
    help = "slots per group"

`pygpuhash manifest MODULE` prints that of a module. A manifest is a claim: `pygpuhash conformance` compares it with the
module.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pygpuhash.errors import PluginError

__all__ = ["Manifest", "path_beside", "read", "untrue", "write"]

_REQUIRED = ("name", "version", "abi", "devices", "traits")
_LISTS = {"devices": str, "traits": str, "key_widths": int, "value_widths": int}


@dataclass(frozen=True)
class Manifest:
    """The fields of a manifest; lists as tuples, options as (name, choices, help)."""

    name: str
    version: str
    abi: str
    devices: tuple[str, ...]
    traits: tuple[str, ...]
    key_widths: tuple[int, ...] = ()
    value_widths: tuple[int, ...] = ()
    options: tuple[tuple[str, str, str], ...] = ()
    summary: str = ""

    def differences(self, other: Manifest) -> list[str]:
        """What this manifest says that another one, of the module itself, does not; one phrase for each field."""
        found = []
        for field in ("name", "version", "abi", "devices", "traits", "key_widths", "value_widths"):
            mine, its = getattr(self, field), getattr(other, field)
            if (sorted(mine) != sorted(its)) if isinstance(mine, tuple) else mine != its:
                found.append(f"{field} {_shown(mine)}, and the module {_shown(its)}")
        if (mine := [row[0] for row in self.options]) != (its := [row[0] for row in other.options]):
            found.append(f"options {_shown(mine)}, and the module {_shown(its)}")
        return found


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else ", ".join(map(str, value)) or "none"


def path_beside(module: str | Path) -> Path:
    """Where the manifest of a module is, if it has one."""
    return Path(module).with_suffix(".toml")


def read(module: str | Path) -> Manifest | None:
    """The manifest beside a module; None where there is none. Raises `PluginError` that says what is wrong with it."""
    import tomllib  # takes a while, and most modules have no manifest

    path = path_beside(module)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"manifest '{path}' cannot be read: {error}") from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PluginError(f"manifest '{path}' is no TOML: {error}") from error
    missing = [field for field in _REQUIRED if field not in found]
    if missing:
        raise PluginError(f"manifest '{path}' has no {', '.join(missing)}")
    fields: dict[str, Any] = {}
    for field in ("name", "version", "abi", "summary"):
        fields[field] = _of_type(path, field, found.get(field, ""), str)
    for field, kind in _LISTS.items():
        entries = _of_type(path, field, found.get(field, []), list)
        fields[field] = tuple(_of_type(path, f"an entry of {field}", entry, kind) for entry in entries)
    fields["options"] = tuple(
        _option(path, entry) for entry in _of_type(path, "options", found.get("options", []), list)
    )
    return Manifest(**fields)


def untrue(module: str | Path, true: Manifest) -> str | None:
    """The sentence that says where the manifest beside a module, if there is one, differs from what the module says."""
    try:
        said = read(module)
    except PluginError as error:
        return str(error)
    wrong = said.differences(true) if said is not None else []
    return f"the manifest says {'; '.join(wrong)}: pygpuhash manifest {module} prints a true one" if wrong else None


def _of_type(path: Path, what: str, value: Any, kind: type) -> Any:
    if type(value) is not kind:
        name = {str: "text", int: "an integer", list: "a list", dict: "a table"}[kind]
        raise PluginError(f"manifest '{path}': {what} is {value!r}: it must be {name}")
    return value


def _option(path: Path, entry: Any) -> tuple[str, str, str]:
    _of_type(path, "an entry of options", entry, dict)
    texts = [_of_type(path, f"{key} of an option", entry.get(key, ""), str) for key in ("name", "choices", "help")]
    return texts[0], texts[1], texts[2]


def write(manifest: Manifest) -> str:
    """The text of a manifest."""
    import json

    def quoted(value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(quoted, value))}]"
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    fields = asdict(manifest)
    options = fields.pop("options")
    lines = [f"{field} = {quoted(value)}" for field, value in fields.items()]
    for row in options:
        lines += ["", "[[options]]"]
        lines += [f"{key} = {quoted(value)}" for key, value in zip(("name", "choices", "help"), row, strict=True)]
    return "\n".join(lines) + "\n"
