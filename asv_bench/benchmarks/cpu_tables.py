"""Batches on tables, and rows on indices, by one thread: the courses of compare_builds."""

import traceback
from pathlib import Path

from harness.builds import Build
from harness.courses import OPERATIONS, Distinct, Export, TableCourse, least_times, sizes

import pygpuhash as gh

from .common import BACKENDS

LABELS = [TableCourse("", *size).label for size in sizes()]


def build_under_test():
    """The library of the installed package."""
    return Build(Path(gh.__file__).parent, "this build")


class Tables:
    """Nanoseconds of processor time per key. One process measures all, since tables take long to fill."""

    params = (BACKENDS, list(OPERATIONS), LABELS)
    param_names = ("backend", "operation", "bytes and keys")
    unit = "ns"
    version = "1"
    timeout = 1200

    def setup_cache(self):
        build, measured = build_under_test(), {}
        for backend in BACKENDS:
            for size in sizes():
                course = TableCourse(backend, *size)
                try:
                    if backend not in build.modules:
                        raise NotImplementedError(f"{backend} was not built")
                    for operation, seconds in least_times(course, build, 3).items():
                        measured[backend, operation, course.label] = seconds / course.count(operation) * 1e9
                except NotImplementedError as error:
                    measured[backend, course.label] = (NotImplementedError, str(error))
                except Exception:
                    measured[backend, course.label] = (AssertionError, traceback.format_exc())
        return measured

    def setup(self, measured, backend, operation, label):
        if (backend, label) in measured:
            kind, words = measured[backend, label]
            raise kind(words)

    def track_key_ns(self, measured, backend, operation, label):
        return measured[backend, operation, label]


class Exports:
    """Nanoseconds per pair of a table of a thousand keys."""

    params = (BACKENDS,)
    param_names = ("backend",)
    unit = "ns"
    version = "1"

    def setup(self, backend):
        self.build = build_under_test()
        if backend not in self.build.modules:
            raise NotImplementedError(f"{backend} was not built")

    def track_pair_ns(self, backend):
        course = Export(backend)
        return least_times(course, self.build, 3)["export"] / course.calls / course.n * 1e9


class Indices:
    """Nanoseconds per row that gets an id."""

    params = (["numbers", "text"],)
    param_names = ("rows",)
    unit = "ns"
    version = "1"

    def track_row_ns(self, rows):
        course = Distinct(rows)
        return least_times(course, build_under_test(), 3)["index"] / course.column.n * 1e9
