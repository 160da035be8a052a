"""Random programs of operations, compared with a dict after every step. Hypothesis shrinks a failure to a short one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pygpuhash._conformance.harness import Failure, Skipped, Target, audit, check, expect, same, same_set
from pygpuhash.table import Op


@check("insert")
def differential(target: Target) -> None:
    """Random programs of all operations against a dict; the shortest failing one is printed."""
    try:
        import hypothesis
        from hypothesis.stateful import run_state_machine_as_test
    except ModuleNotFoundError:
        raise Skipped("needs the package hypothesis: pip install hypothesis") from None

    for key, value in target.formats:
        settings = hypothesis.settings(
            max_examples=target.pick(40, 200, 3000),
            stateful_step_count=target.pick(30, 50, 100),
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        machine = _machine(target, key, value)
        try:
            run_state_machine_as_test(hypothesis.seed(target.seed)(machine), settings=settings)
        except Failure as failure:
            program = "; ".join(getattr(failure, "__notes__", []))
            raise Failure(f"{failure} with {key} keys and {value} values; {program}") from None


def _machine(target: Target, key: str, value: str | None) -> Any:
    """The class of programs over tables of these widths."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

    top = int(np.iinfo(key).max)
    # Few keys, so that operations meet; the patterns that structures use themselves, and neighbours in a row.
    some_keys = st.sampled_from([0, 1, 2, 3, top, top - 1, top - 2, top // 2, top // 2 + 1, *range(100, 130)])
    keys_of = st.lists(some_keys, min_size=0, max_size=40)
    most = int(np.iinfo(value).max) if value is not None else 0
    numbers = st.sampled_from(sorted({0, 1, 2, 3, most, most - (most > 0), most // 2, most // 3}))
    combines = st.sampled_from(["add", "min", "max"])
    joins: dict[str, Callable[[int, int], int]] = {"add": lambda a, b: (a + b) & most, "min": min, "max": max}

    class Programs(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.table = target.build(key, value)
            self.model: dict[int, int] = {}

        def teardown(self) -> None:
            try:
                audit(self.table, unique=True)
                same_set("exported keys", self.table.export()[0].tolist(), self.model)
            finally:
                self.table.close()

        def _arrays(self, keys: list[int], number: int) -> tuple[Any, Any]:
            array = np.array(keys, key)
            with np.errstate(over="ignore"):
                operands = None if value is None else np.arange(len(keys), dtype=value) + np.dtype(value).type(number)
            return array, operands

        def _agree(self, what: str) -> None:
            size = len(self.table)
            expect(size == len(self.model), f"the size after {what} is {size}, expected {len(self.model)}")

        @rule(keys=keys_of, number=numbers)
        def insert(self, keys: list[int], number: int) -> None:
            keys = list(dict.fromkeys(keys))
            array, operands = self._arrays(keys, number)
            same("insert", self.table.insert(array, operands), [k not in self.model for k in keys], array)
            for k, v in zip(keys, [0] * len(keys) if operands is None else operands.tolist(), strict=True):
                self.model.setdefault(k, v)
            self._agree("insert")

        @rule(keys=keys_of, number=numbers)
        def assign(self, keys: list[int], number: int) -> None:
            array, operands = self._arrays(keys, number)
            mask = self.table.insert_or_assign(array, operands, dedup="last")
            same(
                "keys that insert_or_assign has inserted",
                np.sort(np.unique(array[mask])),
                sorted({*keys} - {*self.model}),
            )
            self.model.update(zip(keys, [0] * len(keys) if operands is None else operands.tolist(), strict=True))
            self._agree("insert_or_assign")

        @precondition(lambda self: value is not None and "accumulate" in target.traits)
        @rule(keys=keys_of, number=numbers, op=combines)
        def accumulate(self, keys: list[int], number: int, op: str) -> None:
            array, operands = self._arrays(keys, number)
            fresh = {*keys} - {*self.model}
            mask = self.table.accumulate(array, operands, op=op)
            same("keys that accumulate has inserted", np.sort(array[mask]), sorted(fresh))
            for k, v in zip(keys, operands.tolist(), strict=True):
                self.model[k] = joins[op](self.model[k], v) if k in self.model else v
            self._agree("accumulate")

        @rule(keys=keys_of)
        def erase(self, keys: list[int]) -> None:
            array, _ = self._arrays(keys, 0)
            mask = self.table.erase(array)
            same("keys that erase has erased", np.sort(array[mask]), sorted({*keys} & {*self.model}))
            for k in keys:
                self.model.pop(k, None)
            self._agree("erase")

        @precondition(lambda self: "answers" in target.traits)
        @rule(keys=keys_of)
        def pop(self, keys: list[int]) -> None:
            array, _ = self._arrays(keys, 0)
            got, mask = self.table.pop(array)
            same("keys that pop has erased", np.sort(array[mask]), sorted({*keys} & {*self.model}))
            if value is not None:
                same("popped values", got[mask], [self.model[k] for k in array[mask].tolist()], array[mask])
                same("values of keys that were not popped", got[~mask], np.zeros(np.count_nonzero(~mask), got.dtype))
            for k in keys:
                self.model.pop(k, None)
            self._agree("pop")

        @precondition(lambda self: "answers" in target.traits)
        @rule(keys=keys_of, number=numbers)
        def find_or_insert(self, keys: list[int], number: int) -> None:
            array, operands = self._arrays(keys, number)
            fresh = {*keys} - {*self.model}
            got, mask = self.table.find_or_insert(array, operands)
            same("keys that find_or_insert has inserted", np.sort(array[mask]), sorted(fresh))
            given = [0] * len(keys) if operands is None else operands.tolist()
            self.model.update((k, v) for k, v, put in zip(keys, given, mask.tolist(), strict=True) if put)
            if value is not None:
                same("values found or inserted", got, [self.model[k] for k in keys], array)
            self._agree("find_or_insert")

        @rule(keys=keys_of)
        def find(self, keys: list[int]) -> None:
            array, _ = self._arrays(keys, 0)
            same("contains", self.table.contains(array), [k in self.model for k in keys], array)
            same("count", self.table.count(array), [int(k in self.model) for k in keys], array)
            if value is not None:
                got, found = self.table.find(array)
                same("found", found, [k in self.model for k in keys], array)
                same("values", got, [self.model.get(k, 0) for k in keys], array)

        @rule(
            pairs=st.dictionaries(some_keys, st.sampled_from([Op.NOP, Op.INSERT, Op.ASSIGN, Op.FIND, Op.ERASE])),
            number=numbers,
        )
        def execute(self, pairs: dict[int, Op], number: int) -> None:
            array, operands = self._arrays(list(pairs), number)
            there = {k: k in self.model for k in pairs}
            got, mask = self.table.execute(np.array(list(pairs.values()), np.uint8), array, operands)
            for i, (k, op) in enumerate(pairs.items()):
                adds = op in (Op.INSERT, Op.ASSIGN)
                expect(
                    bool(mask[i]) == (op != Op.NOP and there[k] != adds),
                    f"execute {op.name} of key {k}: mask {mask[i]}",
                )
                if op == Op.FIND and operands is not None:
                    expect(int(got[i]) == self.model.get(k, 0), f"execute FIND of key {k}: value {got[i]}")
                v = 0 if operands is None else int(operands[i])
                if op == Op.ASSIGN or (op == Op.INSERT and not there[k]):
                    self.model[k] = v
                elif op == Op.ERASE:
                    self.model.pop(k, None)
            self._agree("execute")

        @rule(what=st.sampled_from(["flush", "shrink", "check"]))
        def maintain(self, what: str) -> None:
            if what != "flush" or "flush" in target.traits:
                getattr(self.table, what)()
            if what == "shrink" and "grow" not in target.traits:
                self.table.reserve(3000)  # what the programs need
            self._agree(what)

        @rule(keys=st.sampled_from([0, 1, 100, 3000]))
        def reserve(self, keys: int) -> None:
            self.table.reserve(keys)
            self._agree("reserve")

        @precondition(lambda self: len(self.model) > 20)
        @rule()
        def clear(self) -> None:
            self.table.clear()
            self.model.clear()
            self._agree("clear")

        @rule()
        def export(self) -> None:
            keys, values = self.table.export()
            same_set("exported keys", keys.tolist(), self.model)
            if values is not None:
                same("exported values", values, [self.model[k] for k in keys.tolist()], keys)

    return Programs
