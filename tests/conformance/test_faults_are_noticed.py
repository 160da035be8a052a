"""Backends with a planted fault: the suite has to notice each of them, by the check that is meant for it.

A fault is a subclass of Table that spoils the answers of one method. None of them raises, or breaks the table itself.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import conformance
from pygpuhash._conformance import CHECKS, run

ONES = {4: np.uint32(0xFFFFFFFF), 8: np.uint64(0xFFFFFFFFFFFFFFFF)}


def ones_of(t):
    return ONES[t.key_dtype.itemsize]


class ReservesAllOnes(gh.Table):
    """Ignores the key whose bits are all ones."""

    def insert(self, keys, values=None, **more):
        taken = np.asarray(keys).view(f"u{self.key_dtype.itemsize}") != ones_of(self)
        mask = np.zeros(np.shape(keys), bool)
        mask[taken] = super().insert(keys[taken], None if values is None else values[taken], **more)
        return mask


class ReservesAValue(gh.Table):
    """Reads a stored value whose bits are all ones as absent."""

    def find(self, keys, **more):
        values, found = super().find(keys, **more)
        return values, found & (values != np.array(-1).astype(values.dtype))


class TwoInserted(gh.Table):
    """All equal keys of a batch report that they were inserted."""

    def insert(self, keys, values=None, **more):
        mask = super().insert(keys, values, **more)
        return np.isin(keys, keys[mask])


class KeepsOtherValue(gh.Table):
    """Of equal keys in a batch, another than the one that reports inserted leaves its value."""

    def insert(self, keys, values=None, **more):
        mask = super().insert(keys, values, **more)
        if values is not None and len(keys) > 1 and mask.any():
            super().insert_or_assign(keys, values, dedup="last")
        return mask


class LosesSilently(gh.Table):
    """A table without room says nothing."""

    def insert(self, keys, values=None, **more):
        try:
            return super().insert(keys, values, **more)
        except (gh.TableFull, gh.NoMemory) as error:
            return error.status == 1


class UndoesWhenFull(gh.Table):
    """A batch that does not fit erases what was there before."""

    def insert(self, keys, values=None, **more):
        try:
            return super().insert(keys, values, **more)
        except (gh.TableFull, gh.NoMemory):
            self.erase(self.keys()[:1])
            raise


class Leaks(gh.Table):
    """Every batch takes more memory."""

    batches = 0

    def insert(self, keys, values=None, **more):
        self.batches += 1
        self.reserve(4000 * self.batches)
        return super().insert(keys, values, **more)


class MissesDuringWrites(gh.Table):
    """A find while a batch is written misses its first key."""

    writing = 0

    def insert(self, keys, values=None, **more):
        self.writing += 1
        try:
            return super().insert(keys, values, **more)
        finally:
            self.writing -= 1

    def contains(self, keys, **more):
        mask = super().contains(keys, **more)
        if self.writing and len(keys) > 1:
            mask[0] = False
        return mask


class LosesCounts(gh.Table):
    """A batch that is counted while another one is, is read and written back in two steps."""

    between = threading.Semaphore(1)

    def accumulate(self, keys, values=1, *, op="add", **more):
        if np.ndim(values) or not self.between.acquire(blocking=False):
            return super().accumulate(keys, values, op=op, **more)
        try:
            mask = super().accumulate(keys, values, op=op, **more)
            stored, _ = self.find(keys)
            threading.Event().wait(0.001)
            self.insert_or_assign(keys, stored)
            return mask
        finally:
            self.between.release()


class SignedAsUnsigned(gh.Table):
    """The smaller of two signed numbers is taken by their bits."""

    def accumulate(self, keys, values=1, *, op="add", **more):
        if op == "min" and self.value_dtype.kind == "i":
            op = "max"
        return super().accumulate(keys, values, op=op, **more)


class ForgetsOnRebuild(gh.Table):
    """reserve loses a key."""

    def reserve(self, keys, **more):
        held = self.keys()
        super().reserve(keys, **more)
        if len(held) > 20:
            self.erase(held[:1])


class WrongSize(gh.Table):
    """The size is one too large after an erase."""

    erased = False

    def erase(self, keys, **more):
        mask = super().erase(keys, **more)
        self.erased |= bool(np.any(mask))
        return mask

    def __len__(self):
        return super().__len__() + self.erased


class ExportsTwice(gh.Table):
    """Export has one pair twice."""

    def export(self, **more):
        keys, values = super().export(**more)
        return np.append(keys, keys[:1]), None if values is None else np.append(values, values[:1])


class ExecuteReordersNothing(gh.Table):
    """A mixed batch answers finds with the values from before it, as if it had two phases."""

    def execute(self, ops, keys, values=None, **more):
        before = None if values is None else super().find(keys)[0]
        got, mask = super().execute(ops, keys, values, **more)
        return (got if before is None else np.where(ops == gh.Op.FIND, before, got)), mask


class IgnoresSeed(gh.Table):
    """Every table takes one seed."""

    @property
    def seed(self):
        return 7


class EraseFirstOnly(gh.Table):
    """erase_all erases one pair."""

    def erase_all(self, keys, **more):
        return self.erase(keys, **more)


class BreaksAnInvariant(gh.Table):
    """Nothing else can be seen of it."""

    def check(self):
        raise gh.Corrupt("two keys in one slot")


class TwoCounted(gh.Table):
    """All equal keys of a batch that is counted report that they were inserted."""

    def accumulate(self, keys, values=1, **more):
        mask = super().accumulate(keys, values, **more)
        return np.isin(keys, keys[mask])


class TakesNans(gh.Table):
    """A NaN operand is a zero."""

    def accumulate(self, keys, values=1, **more):
        return super().accumulate(keys, np.nan_to_num(values), **more)


class DropsAnOperand(gh.Table):
    """An operand whose bits are all ones is left out."""

    def accumulate(self, keys, values=1, **more):
        taken = values != np.array(-1).astype(values.dtype)
        mask = np.zeros(len(keys), bool)
        mask[taken] = super().accumulate(keys[taken], values[taken], **more)
        return mask


class ReportsNothings(gh.Table):
    """Elements of a mixed batch that do nothing report that they did."""

    def execute(self, ops, keys, values=None, **more):
        got, mask = super().execute(ops, keys, values, **more)
        return got, mask | (ops == gh.Op.NOP)


class FindsAnother(gh.Table):
    """The values that a mixed batch finds are one too large."""

    def execute(self, ops, keys, values=None, **more):
        got, mask = super().execute(ops, keys, values, **more)
        return None if got is None else got + (mask & (ops == gh.Op.FIND)).astype(got.dtype), mask


class StoresAnother(gh.Table):
    """A mixed batch stores a value that is one too large."""

    def execute(self, ops, keys, values=None, **more):
        answer = super().execute(ops, keys, values, **more)
        held = self.keys()[:1]
        if values is not None and len(held):
            self.insert_or_assign(held, self.find(held)[0] + values.dtype.type(1))
        return answer


class PopsTwice(gh.Table):
    """All equal keys of a batch are popped."""

    def pop(self, keys, **more):
        values, mask = super().pop(keys, **more)
        return values, np.isin(keys, keys[mask])


class PopsWhatWasFound(gh.Table):
    """pop is a find, and then an erase."""

    def pop(self, keys, **more):
        values, _ = self.find(keys)
        threading.Event().wait(0.001)
        mask = self.erase(keys)
        return np.where(mask, values, 0).astype(values.dtype), mask


class AnswersItsOwn(gh.Table):
    """find_or_insert answers the value that it was given."""

    def find_or_insert(self, keys, values=None, **more):
        _, mask = super().find_or_insert(keys, values, **more)
        return values, mask


class FindsAndThenInserts(gh.Table):
    """find_or_insert is an insert that says what was found before it."""

    def find_or_insert(self, keys, values=None, **more):
        found, there = self.find(keys)
        threading.Event().wait(0.001)
        mask = self.insert(keys, values)
        return np.where(there, found, values).astype(found.dtype), mask


FAULTS = [
    (AnswersItsOwn, "find-or-insert"),
    (FindsAndThenInserts, "one-value-for-all"),
    (PopsTwice, "pop"),
    (PopsWhatWasFound, "popping-from-threads"),
    (BreaksAnInvariant, "widths"),
    (TwoCounted, "accumulate"),
    (TakesNans, "accumulate-nan"),
    (DropsAnOperand, "accumulate-patterns"),
    (ReportsNothings, "execute-distinct"),
    (FindsAnother, "execute-distinct"),
    (StoresAnother, "execute-distinct"),
    (ReservesAllOnes, "every-pattern"),
    (ReservesAllOnes, "patterns-alone"),
    (ReservesAValue, "every-pattern"),
    (TwoInserted, "duplicates-in-a-batch"),
    (TwoInserted, "one-hot-key"),
    (KeepsOtherValue, "duplicates-in-a-batch"),
    (LosesSilently, "full"),
    (UndoesWhenFull, "full"),
    (Leaks, "ageing"),
    (MissesDuringWrites, "growth-under-finds"),
    (LosesCounts, "counting-from-threads"),
    (SignedAsUnsigned, "accumulate"),
    (ForgetsOnRebuild, "maintenance"),
    (WrongSize, "widths"),
    (WrongSize, "differential"),
    (ExportsTwice, "lifecycle"),
    (ExportsTwice, "widths"),
    (ExecuteReordersNothing, "execute-linearizes"),
    (IgnoresSeed, "seeds"),
    (EraseFirstOnly, "multi-one-hot-key"),
]


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_fault_is_noticed(fault, check):
    backend = "slab_hash" if "multi" in check else "linear_probe"
    target = conformance.targets(backend, "cpu", effort="quick")[0]
    result = run(CHECKS[check], replace(target, make=fault))
    assert result.outcome == "fail", f"{fault.__name__} passed {check}"
    assert result.message
