"""What the papers claim of their figures beside what is measured here: writes docs/figures.md.

    python -m asv_bench.paper_table             write the table from asv_bench/results, harness/claims.py, docs/figures/
    python -m asv_bench.paper_table --check     is it what these say? status 1 if not

Of each figure and kind of device the result with the latest commit counts. One that is more than 300 commits old is not
shown: the table says so. docs/figures/commits.csv has the place of each commit, so that no history is needed to check.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .harness.claims import CLAIMS, PAPERS, Claim
from .harness.committed import Broken, load
from .harness.results import RESULTS

ROOT = Path(__file__).resolve().parents[1]
TABLE, DATA = ROOT / "docs" / "figures.md", ROOT / "docs" / "figures"
OLD = 300  # commits
KINDS = {"cuda": "a GPU", "cpu": "a CPU"}
HEAD = """# The figures of the papers

`python -m asv_bench.paper_table` writes this page from `asv_bench/results`, `asv_bench/harness/claims.py` and the
values of the papers in `docs/figures/`; change those, not the page. The papers' rates are of other machines than ours,
so that shapes, factors, and the places where curves cross are compared. A result is shown unless it is more than {old}
commits old, counted back from the commit number {here} of the history; then it has to be measured anew. Each command
writes data and plot to `asv_bench/results/<machine>/figures/`, with `--device cuda` those of a GPU.
"""


class Measured(NamedTuple):
    """A result of one figure."""

    machine: str
    commit: str
    rows: list[dict[str, Any]]


def measured(results: Path, structure: str, figure: str, kind: str) -> tuple[list[Measured], list[str]]:
    """All results of a figure, and what is wrong with the others."""
    found, broken = [], []
    for path in sorted(results.glob(f"*/figures/{structure}-{figure}-{kind}.json")):
        try:
            record = load(path)
            rows, commit = record.get("rows"), record.get("commit")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not commit:
                raise Broken("it has no rows, or no commit")
            found.append(Measured(path.parts[-3], str(commit), rows))
        except Broken as error:
            broken.append(f"{path.relative_to(results)}: {error}")
    return found, broken


def places() -> dict[str, int]:
    """How many commits lead to each, of those that are named; "table" is that of the table."""
    with (DATA / "commits.csv").open() as file:
        return {row["commit"]: int(row["place"]) for row in csv.DictReader(file)}


def count_places(results: Path) -> dict[str, int]:
    """The same from the history."""

    def place(commit: str) -> int:
        done = subprocess.run(["git", "rev-list", "--count", commit], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise Broken(f"commit {commit[:8]} is not in this clone: git fetch --unshallow")
        return int(done.stdout)

    known = {"table": place("HEAD")}
    for structure in PAPERS:
        for kind in KINDS:
            for result in measured(results, structure, "*", kind)[0]:
                known[result.commit[:8]] = place(result.commit)
    return known


def ours(claim: Claim, kind: str, results: Path, place: dict[str, int]) -> tuple[str, bool | None]:
    """What the latest result shows, or why none is shown; and whether the claim holds."""
    found, _ = measured(results, claim.structure, claim.figure, kind)
    unknown = [result.commit[:8] for result in found if result.commit[:8] not in place]
    if unknown:
        raise Broken(f"docs/figures/commits.csv lacks {unknown[0]}: python -m asv_bench.paper_table")
    if kind == "cpu" and claim.gpu_only:
        return f"of a GPU only: {claim.gpu_only}", None
    if claim.check is None or not found:
        return "not measured", None
    latest = max(found, key=lambda result: place[result.commit[:8]])
    about = f"{latest.machine}, {latest.commit[:8]}"
    age = place["table"] - place[latest.commit[:8]]
    if age > OLD:
        return f"too old: {age} commits ({about})", None
    try:
        said, holds = claim.check(latest.rows)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        return f"cannot be judged: {error} ({about})", None
    return f"{said} ({about})", holds


def verdict(judged: Sequence[bool | None]) -> str:
    """Of a GPU and of a CPU."""
    words = {True: "yes", False: "no", None: "-"}
    known = {holds for holds in judged if holds is not None}
    if len(known) < 2:
        return words[next(iter(known), None)]
    return ", ".join(f"{kind}: {words[holds]}" for kind, holds in zip(KINDS.values(), judged, strict=True))


def line(claim: Claim, results: Path, place: dict[str, int]) -> tuple[str, ...]:
    """The cells of a claim."""
    shown = [ours(claim, kind, results, place) for kind in KINDS]
    judged = [holds for _, holds in shown]
    why = ""
    if False in judged or claim.check is None:
        why = claim.unlike or "not examined"
    command = f"`python -m asv_bench.figures {claim.structure} {claim.figure}`" if claim.check else "-"
    data = f"[values](figures/{claim.structure}-{claim.figure}.csv)"
    return (
        claim.figure,
        claim.text,
        f"{claim.where}; {data}",
        *(said for said, _ in shown),
        verdict(judged),
        why,
        command,
    )


def table(results: Path, place: dict[str, int]) -> str:
    """The whole file."""
    header = (
        "figure",
        "the paper says",
        "where; data",
        *(f"ours, {kind}" for kind in KINDS.values()),
        "holds",
        "if not, why",
    )
    parts = [HEAD.format(here=place["table"], old=OLD)]
    for structure, (paper, machine) in PAPERS.items():
        rows = [line(claim, results, place) for claim in CLAIMS if claim.structure == structure]
        lines = [(*header, "command"), ("---",) * 8, *rows]
        text = "\n".join(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |" for cells in lines)
        parts.append(f"## `{structure}`\n\n{paper}. Their machine: {machine}.\n\n{text}\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.paper_table", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the table is stale")
    args = parser.parse_args(arguments)
    for structure in PAPERS:
        for kind in KINDS:
            for broken in measured(RESULTS, structure, "*", kind)[1]:
                print(f"paper_table: left out: {broken}", file=sys.stderr)
    try:
        if args.check:
            if TABLE.read_text() == table(RESULTS, places()):
                return 0
            print("docs/figures.md is stale: python -m asv_bench.paper_table", file=sys.stderr)
            return 1
        place = count_places(RESULTS)
    except Broken as error:
        print(f"paper_table: {error}", file=sys.stderr)
        return 2
    lines = "".join(f"{commit},{of}\n" for commit, of in sorted(place.items(), key=lambda item: item[::-1]))
    (DATA / "commits.csv").write_text("commit,place\n" + lines)
    TABLE.write_text(table(RESULTS, place))
    return 0


if __name__ == "__main__":
    sys.exit(main())
