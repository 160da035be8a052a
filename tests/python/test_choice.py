"""`Table("auto")`: which structure it stands for, and why none does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _choice, _core


def chosen(**arguments: Any) -> str:
    with gh.Table(**({"device": "cpu", "capacity": 100} | arguments)) as table:
        return table.backend


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({}, "linear_probe"),
        ({"backend": "auto"}, "linear_probe"),
        ({"key_dtype": "uint8", "value_dtype": "float32"}, "linear_probe"),
        ({"key_dtype": "uint32", "value_dtype": None}, "linear_probe"),
        ({"max_load_factor": 0.94}, "linear_probe"),
        ({"max_load_factor": 0.95}, "hive"),
        ({"max_load_factor": 0.97, "value_dtype": None}, "hive"),
        ({"needs": ["misses"]}, "linear_probe"),
        ({"needs": ["misses"], "max_load_factor": 0.89}, "linear_probe"),
        ({"needs": ["misses"], "max_load_factor": 0.9}, "hive"),
        ({"needs": "misses", "max_load_factor": 0.95, "row": 8}, "linear_probe"),
        ({"needs": ("accumulate",)}, "linear_probe"),
        ({"needs": ["multi"]}, "slab_hash"),
        ({"needs": ["multi", "misses"]}, "slab_hash"),
        ({"needs": ["ordered"]}, "skiplist"),
        ({"slab_bytes": 64}, "slab_hash"),
        ({"hashes": "murmur+city"}, "hive"),
        ({"key_dtype": "S20", "value_dtype": None}, "stadium"),
        ({"key_dtype": "uint64", "value_dtype": ("f4", 5), "max_load_factor": 0.9}, "stadium"),
    ],
)
def test_what_is_taken(arguments: dict[str, Any], taken: str) -> None:
    assert chosen(**arguments) == taken


def test_a_table_that_was_asked_for_several_values_per_key_takes_them() -> None:
    for needs in ("multi", ["multi"], iter(["multi"])):
        with gh.Table(needs=needs, device="cpu") as table:
            assert table.insert_multi([7, 7, 8], [1, 2, 3]).all()
            assert table.count([7, 8]).tolist() == [2, 1]
    for given in (0, False, "0"):
        with pytest.raises(gh.InvalidArgument, match=f"duplicates={given!r} contradict each other"):
            gh.Table(needs="multi", duplicates=given, device="cpu")


NEEDED = {
    "accumulate": lambda t, keys, values: t.accumulate(keys, values, op="max"),
    "multi": lambda t, keys, values: t.insert_multi(keys, values),
    "ordered": lambda t, keys, values: t.lower_bound(keys),
}
CANNOT = (gh.Unsupported, gh.InvalidArgument, TypeError)


def can(table: gh.Table, need: str) -> bool:
    keys = np.zeros(1, table.key_dtype)
    values = None if table.value_dtype is None else np.zeros(1, table.value_dtype)
    try:
        NEEDED[need](table, keys, values)
    except CANNOT:
        return False
    return True


ELEMENTS = [None, "i4", "u1", "f2", "f8", "datetime64[s]", ("u4", 2), ("u4", 3), "S4", "complex64", "complex128"]


@pytest.mark.parametrize("key", ELEMENTS[1:])
@pytest.mark.parametrize("value", ELEMENTS)
def test_a_table_does_what_it_was_needed_for_and_its_traits_say(key: Any, value: Any) -> None:
    """Whatever is needed: the table does it, or there is none. And traits say what each table does, however made."""
    for need in NEEDED:
        try:
            table = gh.Table(needs=[need], key_dtype=key, value_dtype=value, device="cpu")
        except gh.Unsupported:
            continue
        with table:
            assert need in table.traits
            assert can(table, need)
    for name, options in (("slab_hash", {}), ("slab_hash", {"duplicates": 1}), ("skiplist", {}), ("stadium", {})):
        try:
            table = gh.Table(name, key_dtype=key, value_dtype=value, device="cpu", **options)
        except gh.Unsupported:  # of this width
            continue
        with table:
            for need in NEEDED:
                assert can(table, need) == (need in table.traits), (name, need)


BUILT_IN = ("hive", "linear_probe", "skiplist", "slab_hash", "stadium")


def test_traits_of_a_table_and_of_its_backend() -> None:
    built_in = [row for row in gh.backends() if row.name in BUILT_IN]  # others may have been opened by other tests
    assert len(built_in) == len(BUILT_IN)
    for row in built_in:
        for grow in (True, False):
            with gh.Table(row.name, device="cpu", grow=grow, capacity=10) as table:
                assert table.traits == row.traits - {"multi"} - (set() if grow else {"grow"})
                assert table.info["traits"] == table.traits


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"needs": ["ordered", "multi"]}, ["linear_probe lacks multi and ordered", "skiplist lacks multi;"]),
        ({"needs": ["ordered"], "value_dtype": "S20"}, ["skiplist lacks values of 20 bytes", "stadium lacks ordered"]),
        ({"needs": ["multi"], "value_dtype": ("u4", 4)}, ["slab_hash lacks values of 16 bytes"]),
        ({"row": 4, "bucket": 8}, ["linear_probe lacks the option bucket", "hive lacks the option row"]),
    ],
)
def test_why_nothing_fits(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(gh.Unsupported, match="backend='auto': no structure has all that is asked for") as e:
        gh.Table(device="cpu", **arguments)
    assert all(part in str(e.value) for part in words), e.value


def test_devices_that_a_structure_has_no_kernels_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here that is the one which would be taken otherwise."""
    load = _core.backend_load

    def without_cuda(name: str) -> dict[str, Any]:
        info = load(name)
        return info | {"devices": [_core.CPU] if info["name"] == "linear_probe" else [_core.CPU, _core.CUDA]}

    monkeypatch.setattr(_choice._core, "backend_load", without_cuda)
    known = ((), _choice.np.dtype("u4"), None, 0.0, ())
    assert _choice.choose(*known, _core.CUDA) == "hive"
    assert _choice.choose(*known, _core.CPU) == "linear_probe"
    assert _choice.choose(*known, None) == "linear_probe"
    nothing = {"devices": [], "value_widths": (4, 8)}
    monkeypatch.setattr(_choice._core, "backend_load", lambda name: load(name) | nothing)
    for kind, words in ((_core.CPU, "kernels for the CPU"), (_core.CUDA, "kernels for CUDA")):
        with pytest.raises(gh.Unsupported, match=f"linear_probe lacks sets and {words}; hive lacks sets and"):
            _choice.choose(*known, kind)


def test_no_structure_is_asked_after_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    load, asked = _core.backend_load, []
    monkeypatch.setattr(_choice._core, "backend_load", lambda name: asked.append(name) or load(name))
    assert _choice.choose((), _choice.np.dtype("u4"), None, 0.0, (), _core.CPU) == "linear_probe"
    assert set(asked) == {"linear_probe"}


def test_misses_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """There hive is taken at linear_probe's default load, whether the GPU is named or is what "auto" finds."""
    load = _core.backend_load
    both = {"devices": [_core.CPU, _core.CUDA]}
    monkeypatch.setattr(_choice._core, "backend_load", lambda name: load(name) | both)
    key = _choice.np.dtype("u4")
    found = [
        _choice.choose(["misses"], key, None, load_factor, (), kind)
        for load_factor in (0.0, 0.79, 0.8)
        for kind in (_core.CUDA, _core.CPU)
    ]
    assert found == ["hive", "linear_probe", "linear_probe", "linear_probe", "hive", "linear_probe"]
    monkeypatch.setattr(_choice._core, "device_count", lambda kind: (1, ""))
    assert _choice.choose(["misses"], key, None, 0.0, (), None) == "hive"
    monkeypatch.setattr(_choice._core, "device_count", lambda kind: (0, "none"))
    assert _choice.choose(["misses"], key, None, 0.0, (), None) == "linear_probe"


def test_options_of_a_structure_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    load = _core.backend_load

    def without_cuda(name: str) -> dict[str, Any]:
        info = load(name)
        return info | {"devices": [_core.CPU] if info["name"] == "linear_probe" else [_core.CPU, _core.CUDA]}

    monkeypatch.setattr(_choice._core, "backend_load", without_cuda)
    with pytest.raises(gh.Unsupported, match="linear_probe lacks kernels for CUDA; hive lacks the option row"):
        _choice.choose((), _choice.np.dtype("u4"), None, 0.0, ("row",), _core.CUDA)


def test_a_broken_module_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> str:
        if name == "linear_probe":
            raise gh.PluginError("it is not ELF")
        return name

    monkeypatch.setattr(_choice.registry, "resolve", broken)
    assert chosen() == "hive"
    with pytest.raises(gh.Unsupported, match=r"linear_probe lacks a module that can be used \(it is not ELF\)"):
        chosen(row=4)


def test_options_that_nobody_has_are_refused_with_a_hint() -> None:
    with pytest.raises(gh.OptionNotFound, match="did you mean 'row'"):
        gh.Table(rwo=8, device="cpu")


def test_needs_that_do_not_exist_and_needs_of_a_named_structure() -> None:
    with pytest.raises(gh.InvalidArgument, match="needs='fast' is nothing that a table can be chosen by: use accumul"):
        gh.Table(needs=["fast"])
    with pytest.raises(TypeError, match="needs=5 is a int: pass words, as in needs="):
        gh.Table(needs=5)  # type: ignore[arg-type]
    with pytest.raises(gh.InvalidArgument, match=r"needs=.* is for backend='auto': leave it out with backend='hive'"):
        gh.Table("hive", needs=["misses"])
