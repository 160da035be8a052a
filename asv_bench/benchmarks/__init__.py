"""The asv suite. Every figure is lower-is-better: nanoseconds, bytes or milliseconds.

Modules whose names begin with cpu measure one thread's processor time, the least of many repeats; those that begin with
gpu a card, by events or by the host's clock. No list of parameters depends on the machine that reads it: what a machine
cannot run is not applicable there.
"""

import sys
from pathlib import Path

# asv imports this package alone; `harness` lies beside it. Appended, so that it hides nothing.
sys.path.append(str(Path(__file__).resolve().parent.parent))
