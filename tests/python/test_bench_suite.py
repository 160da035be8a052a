"""The suite's own benchmarks of tables: figures, what is not applicable, what fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT), str(ROOT / "asv_bench")]  # at the end, so that pygpuhash is the installed one
pytest.importorskip("asv_bench.compare_builds", reason="asv_bench is in a checkout of the repository only")
from benchmarks import cpu_tables  # noqa: E402


def test_tables(monkeypatch):
    """A structure that was not built is not applicable; a wrong result fails, and the others are measured."""
    size = (8, 8, (4, 4))
    monkeypatch.setattr(cpu_tables, "sizes", lambda: [size])
    real = cpu_tables.least_times

    def least_times(course, build, tables):
        assert course.backend != "stadium", "a result is wrong"
        return real(course, build, tables)

    monkeypatch.setattr(cpu_tables, "least_times", least_times)
    build = cpu_tables.build_under_test()
    del build.modules["slab_hash"]
    monkeypatch.setattr(cpu_tables, "build_under_test", lambda: build)
    benchmark, label = cpu_tables.Tables(), cpu_tables.TableCourse("", *size).label
    measured = benchmark.setup_cache()
    for backend in ("hive", "linear_probe", "skiplist"):
        for operation in cpu_tables.OPERATIONS:
            benchmark.setup(measured, backend, operation, label)
            assert 1 < benchmark.track_key_ns(measured, backend, operation, label) < 1e6
    with pytest.raises(NotImplementedError, match="slab_hash was not built"):
        benchmark.setup(measured, "slab_hash", "insert", label)
    with pytest.raises(AssertionError, match="a result is wrong"):
        benchmark.setup(measured, "stadium", "insert", label)


def test_exports_and_indices():
    for benchmark, backend in ((cpu_tables.Exports(), "hive"), (cpu_tables.Indices(), "numbers")):
        if hasattr(benchmark, "setup"):
            benchmark.setup(backend)
        track = next(getattr(benchmark, name) for name in dir(benchmark) if name.startswith("track_"))
        assert 0.1 < track(backend) < 1e5
