"""Ends a process whose test takes too long, and says which test: `watchdog.py PID`, started by conftest.py.

A process of its own, so that it works whatever the test does: nothing has to run in the process that hangs, whose
threads' stacks are printed by faulthandler when it gets SIGABRT. On standard input comes a line for each test, its
limit in seconds and its name, and an empty line when it has ended.
"""

import os
import select
import signal
import sys


def main(pid):
    while line := sys.stdin.buffer.readline().decode():
        if not line.strip():
            continue
        limit, _, name = line.strip().partition(" ")
        if select.select([sys.stdin.buffer], [], [], float(limit))[0]:
            continue
        print(f"\n{name}: no end after {limit} s (GPUHASH_TEST_LIMIT); the run ends here", file=sys.stderr, flush=True)
        os.kill(pid, signal.SIGABRT)
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, whose end closes standard input
    main(int(sys.argv[1]))
