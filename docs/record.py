"""Makes docs/command-line.cast, a recording of the command line in asciinema's format, by running its commands.

    python docs/record.py            writes the recording
    asciinema play docs/command-line.cast

The text is what the commands print; a command is typed at a steady speed.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORDING = Path(__file__).with_name("command-line.cast")
WIDTH, HEIGHT = 96, 30
TYPING, PAUSE = 0.04, 1.0  # seconds for a letter, after a command

POEM = """the owl and the cat went to sea
in a beautiful pea green boat
they took some honey and plenty of money
wrapped up in a five pound note
"""
ORDERS = "id,customer,amount\n1,ann,5\n2,bob,7\n3,ann,2\n4,zoe,9\n"
CUSTOMERS = "customer,city\nann,Oslo\nbob,Rome\n"
READS = "@one\nACGTACGTTGCA\n+\nIIIIIIIIIIII\n@two\nTGCAACGTACGT\n+\nIIIIIIIIIIII\n"
COMMANDS = [
    "pygpuhash top 3 poem.txt",
    "pygpuhash count poem.txt | sort -k2 | head -4",
    "seq 1 1000000 | pygpuhash count --memory 16M --output numbers.csv && tail -2 numbers.csv",
    "pygpuhash unique --column customer orders.csv",
    "pygpuhash dedup --column customer orders.csv",
    "pygpuhash join orders.csv customers.csv --on customer --how left",
    "pygpuhash diff orders.csv customers.csv --column customer; echo $?",
    "pygpuhash count --k 6 --canonical reads.fq.gz --to jsonl | head -3",
    "pygpuhash count --column price orders.csv",
]


def files(folder: Path) -> None:
    """What the commands read."""
    for name, text in (("poem.txt", POEM), ("orders.csv", ORDERS), ("customers.csv", CUSTOMERS)):
        (folder / name).write_text(text)
    (folder / "reads.fq.gz").write_bytes(gzip.compress(READS.encode()))


def run(command: str, folder: Path) -> tuple[str, float]:
    """(what a command prints, seconds)."""
    call = f'pygpuhash() {{ "{sys.executable}" -P -m pygpuhash "$@"; }}; exec 2>&1; {command}'
    start = time.perf_counter()
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp"}
    done = subprocess.run(["bash", "-c", call], cwd=folder, stdout=subprocess.PIPE, env=env, check=False)
    return done.stdout.decode(), time.perf_counter() - start


def session() -> list[tuple[str, str, float]]:
    """(command, what it prints, seconds) of all commands."""
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder))
        return [(command, *run(command, Path(folder))) for command in COMMANDS]


def events(commands: list[tuple[str, str, float]]) -> list[tuple[float, str, str]]:
    """(seconds, "o", text) of a terminal."""
    found, now = [], 0.5
    for command, printed, seconds in commands:
        found.append((now, "o", "$ "))
        for letter in command:
            now += TYPING
            found.append((now, "o", letter))
        found.append((now + TYPING, "o", "\r\n"))
        now += TYPING + seconds
        found.append((now, "o", printed.replace("\n", "\r\n")))
        now += PAUSE
    return [(round(at, 3), kind, text) for at, kind, text in found]


def main() -> None:
    """Write the recording."""
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "pygpuhash on files and pipes"}
    lines = [header, *events(session())]
    RECORDING.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
