"""Every check of the conformance suite, on every backend that is registered: `pygpuhash conformance` as tests."""

import pytest

from pygpuhash._conformance import CHECKS, run

# What takes a second or more. Shapes besides the default have pytest.mark.slow there: they are the nightly run's.
LONG = {
    "differential",
    "adversarial-batches",
    "conservation",
    "counts",
    "counting-from-threads",
    "growth-under-finds",
    "full",
    "multi",
}


def test_conformance(target, check):
    passes(target, check)


def test_narrower_instruction_sets(target, check, isa, monkeypatch):
    """A module looks at GPUHASH_ISA whenever it makes a table."""
    monkeypatch.setenv("GPUHASH_ISA", isa)
    passes(target, check)


def passes(target, check):
    result = run(CHECKS[check], target)
    if result.outcome == "skip":
        pytest.skip(result.message)
    again = (
        f"pygpuhash conformance {target.backend} --device {target.device} --seed {target.seed} --quick --check {check}"
    )
    options = "".join(f" --option {key}={value}" for key, value in target.fields.items())
    assert result.outcome == "pass", f"{result.message}\nagain: {again}{options}"
