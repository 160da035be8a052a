"""Checks of what batches mean, where every batch of inserts is sorted and merged with the whole table at once."""

import pytest

from pygpuhash import conformance

from .test_conformance import passes

CHECKS = ["batch-sizes", "every-pattern", "every-pattern-as-value", "duplicates-in-a-batch", "one-hot-key"]
CHECKS += ["accumulate", "accumulate-nan", "widths", "ordered-answers", "full", "growth-without-memory"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_batches_at_once(device, check):
    fields = {"build": "always", "chunk": 8}
    passes(conformance.targets("skiplist", device, effort="quick", fields=fields)[0], check)
