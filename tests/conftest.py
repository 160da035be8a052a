"""What holds for all tests, however they were started."""

import os
import signal

import pytest

# Only the backends that come with the library under test.
os.environ.pop("GPUHASH_PLUGIN_PATH", None)

# A shell that runs pytest in the background has it ignore SIGINT; the tests of Ctrl-C need Python's own handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        from pygpuhash import _core  # not for the tests that need no installed package

        count, reason = _core.device_count(_core.CUDA)
        if not count:
            pytest.skip(f"needs a CUDA device: {reason}")
