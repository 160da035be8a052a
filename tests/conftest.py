"""What holds for all tests, however they were started."""

import os
import signal

# Only the backends that come with the library under test.
os.environ.pop("GPUHASH_PLUGIN_PATH", None)

# A shell that runs pytest in the background has it ignore SIGINT; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
