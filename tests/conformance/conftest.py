"""Targets of the conformance tests: every usable backend, in the shapes that its options give it, on every device."""

from __future__ import annotations

import platform

import pytest

import pygpuhash as gh
from pygpuhash import conformance
from pygpuhash._conformance import CHECKS

# Shapes besides the default that reach other code: narrow and wide rows and slabs, the sources' own hashes.
SHAPES = {
    "hive": [
        {"bucket": 16, "ways": 3, "stash": 0.25},
        {"bucket": 32, "segment": "whole", "max_load_factor": 0.97},
        {"evictions": 0},
        {"stash": 0},
        {"claim": "commit"},
    ],
    "linear_probe": [{"row": 1, "indexing": "mask", "hash": "blog"}, {"row": 16}],
    "stadium": [{"ticket": 2}],
    "slab_hash": [{"slab_bytes": 64, "allocator": "slab_alloc_light"}, {"slab_bytes": 256, "hash": "paper"}],
    "skiplist": [{"chunk": 8, "merge": 0.5}],
}
# On a GPU such chunks are for keys of 4 bytes, and the checks use 8, too. hive's named hash functions are for the CPU.
# Equal keys are combined whatever they are, or never.
ON_CPU = {
    "skiplist": [{"chunk": 32, "p_chunk": 0.5}],
    "hive": [{"hashes": "bithash1+bithash2"}, {"hashes": "crc32+city+crc64", "bucket": 16, "parts": "always"}],
    "linear_probe": [{"parts": "always"}, {"parts": "never"}],
    "slab_hash": [{"parts": "always"}, {"parts": "never"}],
}
# Shapes that only a GPU has: batches by parts of the table; slots in host memory, as batches come and in order of small
# windows; stacks of jobs.
ON_CUDA = {
    "hive": [{"parts": "always"}],
    "linear_probe": [{"parts": "always"}],
    "slab_hash": [{"parts": "always"}],
    "stadium": [
        {"placement": "host"},
        {"placement": "host", "ordered_from": 1, "window": 256, "ticket": 4},
        {"inserts": "clstash"},
    ],
}
# The instruction sets below this processor's widest, on checks that reach every kernel and take little time.
NARROWER = [isa for isa in ("avx2", "baseline") if platform.machine() == "x86_64"]
OF_KERNELS = ["widths", "batch-sizes", "every-pattern", "duplicates-in-a-batch", "accumulate", "accumulate-nan"]
OF_KERNELS += [
    "execute-distinct",
    "execute-linearizes",
    "multi-one-hot-key",
    "full-by-execute",
    "growth",
    "maintenance",
    "wide-batches",
    "ordered-answers",
]
USABLE = [row for row in gh.backends() if row.state == "usable"]


def _cases(device: str) -> list[tuple[str, str, dict]]:
    """Every shape on the first device of a kind; on a second one, which runs the same code, the default."""
    kind, _, second = device.partition(":")
    shapes = [] if second else [SHAPES, ON_CPU] if kind == "cpu" else [SHAPES, ON_CUDA]
    return [
        (row.name, device, o)
        for row in USABLE
        if kind in row.devices
        for o in [{}, *(shape for more in shapes for shape in more.get(row.name, []))]
    ]


def pytest_generate_tests(metafunc):
    if "target" in metafunc.fixturenames:
        devices = ["cpu"] if "isa" in metafunc.fixturenames else ["cpu", "cuda", "cuda:1"]
        cases = [case for device in devices for case in _cases(device)]
        marks = {"cpu": (), "cuda": (pytest.mark.gpu,), "cuda:1": (pytest.mark.gpu2,)}
        params = [
            pytest.param(c, id="-".join(map(str, [c[0], c[1], *c[2].values()])), marks=marks[c[1]]) for c in cases
        ]
        if "isa" in metafunc.fixturenames:
            # Of shapes besides the default, they are the nightly run's.
            marked = [
                pytest.param(*p.values, id=p.id, marks=pytest.mark.slow if p.values[0][2] else ()) for p in params
            ]
            metafunc.parametrize("target", marked, indirect=True)
            metafunc.parametrize("isa", NARROWER)
            metafunc.parametrize("check", OF_KERNELS)
        else:
            cases = list(_with_checks(params, metafunc.module.LONG))
            metafunc.parametrize(("target", "check"), cases, indirect=["target"])


def _with_checks(targets, long):
    for one in targets:
        _, device, options = one.values[0]
        for check in CHECKS:
            marks = [pytest.mark.slow] if device == "cpu" and options and check in long else []
            yield pytest.param(*one.values, check, id=f"{one.id}-{check}", marks=[*one.marks, *marks])


@pytest.fixture
def target(request):
    """A backend on a device."""
    name, device, options = request.param
    return conformance.targets(name, device, effort="quick", fields=options)[0]
