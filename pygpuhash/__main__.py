"""`python -m pygpuhash` is the command line `pygpuhash`."""

from pygpuhash.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
