"""Benchmarks of gpuhash: an asv suite, tables with the ceilings of the same run, and the papers' figures.

    asv run --quick --python=same          the suite (benchmarks/), from this directory
    python -m asv_bench.report             operations beside this machine's ceilings and other libraries
    python -m asv_bench.sweep              the same over a grid of backend options
    python -m asv_bench.figures            the figures of the papers, as data and plots

The modules run from the repository's root. docs/performance.md says which command makes which published number.
"""

import sys
from pathlib import Path

# `python -m` puts the working directory, which is the repository's root, first on the path. There, the sources of
# pygpuhash would hide an installed package; last on the path they do not.
_ROOT = str(Path(__file__).resolve().parent.parent)
sys.path[:] = [entry for entry in sys.path if entry not in ("", _ROOT)] + [_ROOT]
