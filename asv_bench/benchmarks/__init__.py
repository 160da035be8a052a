"""The asv suite. Every figure is lower-is-better: nanoseconds, bytes or seconds."""

import sys
from pathlib import Path

# asv imports this package alone; `harness` lies beside it. Appended, so that it hides nothing.
sys.path.append(str(Path(__file__).resolve().parent.parent))
