"""What holds for all tests: only the backends that come with the library under test, whatever the shell has set."""

import os

os.environ.pop("GPUHASH_PLUGIN_PATH", None)
