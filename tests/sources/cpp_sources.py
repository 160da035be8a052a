"""The C++ and CUDA sources of the library and its plugins, as far as tests of their form have to read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}

# A comment, a string or a character; or a line of the preprocessor with those that it goes on in.
BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.S | re.M,
)
# What a block belongs to that is no function.
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum)\b|\bextern\s*$|\bconcept\b|\brequires\s*$")


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return sorted(found)


def without_words(text: str) -> str:
    """The text with blanks for comments, strings and lines of the preprocessor; every line keeps its number."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def name_of(head: str) -> str:
    """The name of the function that this declaration is of."""
    head = re.sub(
        r"\b(?:__launch_bounds__|__attribute__|decltype|alignas)\s*\((?:[^()]|\((?:[^()]|\(\))*\))*\)", "", head
    )
    found = re.search(r"(operator\s*[^\s(]+|[~\w]+)\s*\(", head)
    return found[1] if found else "?"


def kind_of(head: str) -> str:
    """What a block outside of functions is, by what stands before it.

    The name of a function, a container, a member that a constructor initializes, or another block, as of an array.
    """
    if CONTAINER.search(re.sub(r"\btemplate\s*<[^{;]*?>\s*(?=\w)", "", head)):
        return "container"
    if re.search(r"\)\s*:[^:].*[\w>]$", head, re.DOTALL):
        return "member"
    if re.search(r"[=\]]\s*$", head):
        return "block"
    return name_of(head) if "(" in head else "container"


def functions(text: str) -> list[tuple[str, int, int]]:
    """(name, first line, lines) of each function, from the line of the opening brace to that of the closing one.

    A function is a block outside of others whose declaration has parentheses and is no class, namespace, enumeration or
    concept; lambdas and blocks within it are a part of it.
    """
    code = without_words(text)
    found: list[tuple[str, int, int]] = []
    blocks: list[tuple[str, int]] = []  # kind or name of each open one, and its line
    begin, line, inside, parentheses = 0, 1, 0, 0  # inside: open blocks from the outermost function on
    for mark in re.finditer(r"[\n(){};]", code):
        at, c = mark.start(), mark[0]
        if c == "\n":
            line += 1
        elif c in "()":
            parentheses += 1 if c == "(" else -1
        elif c == "{":
            kind = "block" if inside or parentheses else kind_of(code[begin:at])
            blocks.append((kind, line))
            inside += kind != "container"
            if kind == "container":
                begin = at + 1
        elif c == "}" and blocks:
            kind, first = blocks.pop()
            inside -= kind != "container"
            if not inside and kind not in ("container", "block", "member"):
                found.append((kind, first, line - first + 1))
            if not inside and kind != "member":
                begin = at + 1
        elif c == ";" and not inside and not parentheses:
            begin = at + 1
    return found
