"""Batches of tables, and rows of indexes, by one thread: the courses (courses.py) that compare_builds measures, too."""

from harness.courses import OPERATIONS, Distinct, Export, TableCourse, least_times, sizes

from . import common
from .common import BACKENDS, build_under_test

LABELS = [TableCourse("", *size).label for size in sizes()]


class Tables(common._Courses):
    """Nanoseconds of processor time per key."""

    params = (BACKENDS, list(OPERATIONS), LABELS)

    def setup_cache(self):
        courses = (TableCourse(backend, *size) for backend in BACKENDS for size in sizes())
        return self.measure(build_under_test(), courses, least_times)


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
