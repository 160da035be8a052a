"""The tests of readers share the module `oracle`, which is beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
