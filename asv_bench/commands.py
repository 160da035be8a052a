"""The command line beside sort | uniq -c, GNU datamash, Miller, duckdb, jellyfish and KMC on the same files.

    python -m asv_bench.commands                 110 MB of words, as much CSV, 20 million bases; some minutes

Every program is a process of its own, with two threads where it has threads, that reads a file and writes all results
as text to a file. First all of them count a small file, and each result is compared with Python's own. Then they run in
turns, and the least of the repeats are taken, since what else runs adds to all of them: seconds on the clock and of all
processors, and the largest memory of any of a pipe's processes, by GNU time. Programs that are not installed are left
out by name. Prints the table, and writes <output>/<machine>/commands.md and .json.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .harness.arguments import one_sentence, whole
from .harness.devices import device
from .harness.results import RESULTS, circumstances, machine_name, markdown_table, write_report

HEADER = ("what", "who", "MB", "distinct", "seconds", "CPU seconds", "MB of memory", "times faster", "less CPU")
K = 21
PYTHON = shlex.quote(sys.executable)
OURS = f"{PYTHON} -P -m pygpuhash"
WORDS = "LC_ALL=C tr -s '[:space:]' '\\n' < {file} |"

Read = Callable[[bytes], "tuple[bytes, int]"]
Way = tuple[str, str, Read]  # what it needs, the command, and how a line of its output reads


# ---- files -----------------------------------------------------------------------------------------------------------


def words(path: Path, n: int) -> Counter[bytes]:
    """Words of 2 to 15 letters by Zipf's law, twelve a line."""
    random = np.random.default_rng(1)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", "u1")
    many = max(n // 30, 16)
    some = [bytes(random.choice(letters, length)) for length in random.integers(2, 16, many)]
    weights = np.cumsum(1 / np.arange(1, many + 1) ** 1.05)
    counts: Counter[bytes] = Counter()
    with path.open("wb") as file:
        for _ in range(0, n, 1_000_000):
            row = [some[i] for i in np.searchsorted(weights / weights[-1], random.random(min(n, 1_000_000)))]
            counts.update(row)
            file.write(b"\n".join(b" ".join(row[i : i + 12]) for i in range(0, len(row), 12)) + b"\n")
    return counts


def cells(path: Path, n: int) -> Counter[bytes]:
    """CSV of a number, a name and a price; the names are what is counted."""
    random = np.random.default_rng(2)
    names = random.integers(0, max(n // 4, 1), n)
    with path.open("w") as file:
        file.write("id,name,price\n")
        file.writelines(f"{i},user{name:08d},{i % 9973}.5\n" for i, name in enumerate(names.tolist()))
    return Counter(b"user%08d" % name for name in names.tolist())


def bases(path: Path, n: int) -> Counter[bytes]:
    """One sequence of FASTA. Counts only of a short one."""
    letters = np.frombuffer(b"ACGT", "u1")[np.random.default_rng(3).integers(0, 4, n)].tobytes()
    path.write_bytes(b">one\n" + b"".join(letters[i : i + 80] + b"\n" for i in range(0, n, 80)))
    turned = bytes.maketrans(b"ACGT", b"TGCA")
    short = [letters[i : i + K] for i in range(n - K + 1)] if n <= 100_000 else []
    return Counter(min(one, one.translate(turned)[::-1]) for one in short)


# ---- programs --------------------------------------------------------------------------------------------------------


def counted_first(line: bytes) -> tuple[bytes, int]:
    n, _, key = line.strip().partition(b" ")
    return key, int(n)


def counted_last(line: bytes) -> tuple[bytes, int]:
    key, n = line.replace(b",", b" ").replace(b"\t", b" ").split()
    return key, int(n)


def duckdb(query: str) -> str:
    """A process that writes what a query answers."""
    code = f"import duckdb; duckdb.connect().execute(\"set threads to 2; copy ({query}) to '{{out}}' (header false)\")"
    return f"{PYTHON} -c {shlex.quote(code)}"


AWK = "'{{n[$0]++}} END {{for (k in n) print n[k], k}}'"
MILLER = "mlr --inidx --ifs tab --ocsv --headerless-csv-output"
LINES = "read_csv('{file}', columns={{'line': 'varchar'}}, delim='', header=false, quote='', escape='')"
MER = "jellyfish count -m {k} -C -s 20M -t 2 -o {out}.jf {file} && jellyfish dump -c {out}.jf > {out}"
KMC = (
    "kmc -k{k} -ci1 -cs1000000000 -t2 -m2 -fm {file} {out}.kmc {folder} > {out}.log && "
    "kmc_tools -t2 transform {out}.kmc dump {out} > {out}.log"
)

WAYS: dict[str, tuple[Callable[[Path, int], Counter[bytes]], int, dict[str, Way]]] = {
    "words": (
        words,
        12_000_000,
        {
            "sort, uniq -c": ("sort", f"{WORDS} LC_ALL=C sort | uniq -c > {{out}}", counted_first),
            "pygpuhash count": ("", f"{OURS} count --threads 2 {{file}} > {{out}}", counted_first),
            "pygpuhash count --memory 16M": ("", f"{OURS} count --memory 16M {{file}} > {{out}}", counted_first),
            "awk": ("awk", f"{WORDS} awk {AWK} > {{out}}", counted_first),
            "datamash": ("datamash", f"{WORDS} LC_ALL=C datamash -s groupby 1 count 1 > {{out}}", counted_last),
            "Miller": ("mlr", f"{WORDS} {MILLER} count -g 1 > {{out}}", counted_last),
            "duckdb": (
                "",
                duckdb(f"select w, count(*) from (select unnest(string_split(line, ' ')) w from {LINES}) group by w"),
                counted_last,
            ),
        },
    ),
    "column of CSV": (
        cells,
        4_000_000,
        {
            "cut, sort, uniq -c": (
                "sort", "tail -n +2 {file} | cut -d, -f2 | LC_ALL=C sort | uniq -c > {out}", counted_first
            ),
            "pygpuhash count": (
                "", f"{OURS} count --threads 2 --format csv --column name {{file}} > {{out}}", counted_first
            ),
            "datamash": (
                "datamash", "LC_ALL=C datamash -s -t, --header-in groupby 2 count 2 < {file} > {out}", counted_last
            ),
            "Miller": ("mlr", "mlr --csv --headerless-csv-output count -g name {file} > {out}", counted_last),
            "duckdb": ("", duckdb("select name, count(*) from read_csv('{file}') group by name"), counted_last),
        },
    ),
    "21-mers of FASTA": (
        bases,
        20_000_000,
        {
            "jellyfish": ("jellyfish", MER, counted_last),
            "KMC": ("kmc", KMC, counted_last),
            "pygpuhash count": (
                "", f"{OURS} count --threads 2 --k {{k}} --canonical {{file}} > {{out}}", counted_first
            ),
            "pygpuhash count --memory 256M": (
                "", f"{OURS} count --memory 256M --k {{k}} --canonical {{file}} > {{out}}", counted_first
            ),
        },
    ),
}  # fmt: skip


def usage(command: str) -> tuple[float, float, float]:
    """Seconds, seconds of all processors, MB of the largest process, of a command of the shell.

    By GNU time: what wait4 says of a child counts the memory of this process, too, which it was before it was another.
    """
    with tempfile.NamedTemporaryFile() as report:
        line = ["/usr/bin/time", "-o", report.name, "-f", "%e %U %S %M", "bash", "-o", "pipefail", "-c", command]
        # Modules are compiled once, as pip does when it installs them.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(line, stderr=subprocess.PIPE, env=env)
        if done.returncode:
            words = done.stderr.decode(errors="replace")[-400:]
            raise RuntimeError(f"{command}: status {done.returncode}: {words}")
        seconds, user, system, kilobytes = map(float, report.read().split())
    return seconds, user + system, kilobytes * 1.024 / 1000


def measure(args: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """Rows of every way. Raises AssertionError at a wrong result."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        small, large, out = (Path(folder) / name for name in ("small", "large", "out"))
        for what in args.only or WAYS:
            make, n, ways = WAYS[what]
            expected = make(small, 50_000)
            make(large, max(int(n * args.scale), 50_000))
            runs: dict[str, list[tuple[float, float, float]]] = {}
            distinct: dict[str, int] = {}
            places = {"out": out, "folder": folder, "k": K}
            for who, (needs, command, read) in ways.items():
                if needs and shutil.which(needs) is None:
                    print(f"{who}: {needs} is not installed", file=sys.stderr)
                    continue
                usage(command.format(file=small, **places))
                assert dict(map(read, out.read_bytes().splitlines())) == expected, f"{what}, {who}: a wrong result"
                runs[who] = []
            for _ in range(args.repeats):  # in turns: what else runs meanwhile slows all of them
                for who, found in runs.items():
                    found.append(usage(ways[who][1].format(file=large, **places)))
                    distinct[who] = out.read_bytes().count(b"\n")
            least = {who: tuple(map(min, zip(*found, strict=True))) for who, found in runs.items()}
            first = next(iter(least.values()), (0.0, 0.0, 0.0))
            for who, (seconds, cpu, memory) in least.items():
                share = (first[0] or 0.01) / (seconds or 0.01), (first[1] or 0.01) / (cpu or 0.01)  # GNU time's step
                yield what, who, large.stat().st_size / 1e6, distinct[who], seconds, cpu, memory, *share


@one_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.commands", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=list(WAYS), help="may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="of the files' sizes; default: 1")
    parser.add_argument("--repeats", type=whole(1), default=3)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the files; default: TMPDIR, or /tmp")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"default: {RESULTS}")
    args = parser.parse_args(arguments)
    rows = []
    for row in measure(args):
        rows.append(row)
        print(f"{row[0]}, {row[1]}: {row[4]:.2f} s, {row[5]:.2f} s of CPU, {row[6]:.0f} MB", file=sys.stderr)
    on = device("cpu")
    about = circumstances({on.name: on.model})
    text = f"# The command line\n\n{on.model}; {about['date']}; commit {about['commit'][:8]}.\n\n"
    text += (
        "Seconds on the clock and of all processors, with two threads; memory of the largest process. The last two\n"
    )
    text += "columns are beside the first program of each file, on the clock and on the processors.\n\n"
    shown = [
        (
            *row[:2],
            f"{row[2]:.0f}",
            f"{row[3]:,}",
            f"{row[4]:.2f}",
            f"{row[5]:.2f}",
            f"{row[6]:.0f}",
            *(f"{share:.1f}" for share in row[7:]),
        )
        for row in rows
    ]
    text += markdown_table(HEADER, shown)
    stem = args.output / machine_name() / "commands"
    write_report(stem, text, about, [dict(zip(HEADER, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
