"""Everything that is refused, with a sentence that names the value and the way out, and nothing changed."""

import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _arguments, _stage

KEYS = np.arange(4, dtype=np.uint64)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"device": "gpu"}, gh.InvalidArgument, "device='gpu' is not a device"),
        ({"device": 3}, gh.InvalidArgument, "device=3 is not a device"),
        ({"device": np.array([1, 2])}, gh.InvalidArgument, r"device=array\(\[1, 2\]\) is not a device"),
        ({"device": "cpu:7"}, gh.InvalidArgument, "device='cpu:7' cannot be used: there is 1 of its kind"),
        ({"device": "cpu:1"}, gh.InvalidArgument, "device='cpu:1' cannot be used: there is 1 of its kind"),
        ({"device": "cuda:99"}, gh.DeviceError, "cuda:99"),
        ({"capacity": -1}, gh.InvalidArgument, "capacity=-1 is out of range"),
        ({"capacity": 2**64}, gh.InvalidArgument, "capacity=18446744073709551616"),
        ({"capacity": 2**62}, gh.InvalidArgument, "capacity.*overflow"),
        ({"capacity": 1.5}, TypeError, "capacity=1.5 is not an integer"),
        ({"capacity": np.array([1, 2])}, TypeError, "capacity=array.* is not an integer"),
        ({"needs": np.array(["multi", "ordered"])}, gh.InvalidArgument, "is for backend='auto'"),
        ({"max_load_factor": 0}, gh.InvalidArgument, "max_load_factor=0"),
        (
            {"max_load_factor": 1e-9},
            gh.InvalidArgument,
            "max_load_factor=1e-09 is out of range: pass a number from 0.01",
        ),
        ({"max_load_factor": 1.1}, gh.InvalidArgument, "max_load_factor=1.1"),
        ({"max_load_factor": float("nan")}, gh.InvalidArgument, "max_load_factor=nan"),
        ({"seed": -5}, gh.InvalidArgument, "seed=-5"),
        ({"threads": 0}, gh.InvalidArgument, "threads=0"),
        ({"grow": 2}, TypeError, "grow=2 is neither True nor False"),
        ({"threads": 4097}, gh.InvalidArgument, "threads=4097 is out of range: pass 1 to 4096"),
        ({"key_dtype": None}, TypeError, "key_dtype=None is not a dtype"),
        ({"no_such_option": 1}, gh.OptionNotFound, "no_such_option"),
        ({"no_such_option": [1]}, TypeError, "no_such_option"),
        ({"capacty": [1]}, TypeError, "capacty looks like the argument capacity"),
        ({"key_dtyp": [("x", "i4")]}, TypeError, "key_dtyp looks like the argument key_dtype"),
        ({"no\0option": 1}, gh.InvalidArgument, "null character"),
    ],
)
def test_arguments_of_a_table(backend, arguments, error, words):
    with pytest.raises(error, match=words):
        gh.Table(backend, **{"device": "cpu", **arguments})


def test_unknown_backends_suggest_the_nearest():
    with pytest.raises(gh.BackendNotFound, match=r"linear_prob.*did you mean 'linear_probe'"):
        gh.Table("linear_prob")
    with pytest.raises(gh.BackendNotFound, match="did you mean 'linear_probe'"):
        gh.Table("Linear_Probe")
    with pytest.raises(LookupError, match="no-such-distribution:linear_probe"):
        gh.Table("no-such-distribution:linear_probe")
    with pytest.raises(TypeError, match="backend=3"):
        gh.Table(3)
    with pytest.raises(TypeError, match="backend=array"):
        gh.Table(np.array([1, 2]))
    with pytest.raises(gh.InvalidArgument, match="null character"):
        gh.Table("linear\0probe")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.insert(KEYS), TypeError, "pass values"),
        (lambda t: t.insert(KEYS, KEYS[:3]), ValueError, r"values have shape \(3,\), keys \(4,\)"),
        (lambda t: t.insert(KEYS, KEYS.reshape(2, 2)), ValueError, r"shape \(2, 2\)"),
        (lambda t: t.insert_or_assign(KEYS, KEYS, dedup="first"), gh.InvalidArgument, "dedup='first'"),
        (lambda t: t.insert_or_assign(KEYS, KEYS[:3], dedup="last"), ValueError, r"values have shape \(3,\)"),
        (lambda t: t.get(KEYS, KEYS[:3]), ValueError, r"default has shape \(3,\), keys \(4,\)"),
        (lambda t: t.get(KEYS, KEYS[None]), ValueError, r"default has shape \(1, 4\), keys \(4,\)"),
        (lambda t: t.accumulate(KEYS, 1, op="mul"), gh.InvalidArgument, "op='mul'"),
        (lambda t: t.execute([4], KEYS), ValueError, r"ops have shape \(1,\)"),
        (lambda t: t.execute(None, KEYS), TypeError, "ops is None: pass one operation per key"),
        (lambda t: t.execute([300] * 4, KEYS), OverflowError, "300 does not fit uint8"),
        (lambda t: t.reserve(-1), gh.InvalidArgument, "keys=-1"),
        (lambda t: t.reserve("many"), TypeError, "keys='many'"),
        (lambda t: t.accumulate(KEYS, 1, op=["add"]), gh.InvalidArgument, r"op=\['add'\] is none of"),
        (lambda t: t.histogram(0), gh.InvalidArgument, "n=0 is out of range: pass 1 to"),
        (lambda t: t.histogram(-1), gh.InvalidArgument, "n=-1 is out of range"),
        (lambda t: t.histogram(1.5), TypeError, "n=1.5 is not an integer"),
        (lambda t: t.find(KEYS, out=[0] * 4), TypeError, "out is a list"),
        (lambda t: t.find(KEYS, out=np.empty(4)), TypeError, "out has dtype float64, the results uint64"),
        (lambda t: t.find(KEYS, out=np.empty(3, "u8")), ValueError, r"out has shape \(3,\), keys \(4,\)"),
        (lambda t: t.find(KEYS, out=np.empty(8, "u8")[::2]), ValueError, "out is strided"),
        (lambda t: t.find(KEYS, found=np.empty(4, "i4")), TypeError, "mask has dtype int32"),
        (lambda t: t.find(KEYS, found=np.empty((4, 1), bool)), ValueError, "mask has shape"),
        (lambda t: t.find(KEYS, stream="x", out=1), TypeError, "out is a int"),
        (lambda t: t.count(KEYS, out=np.empty(4, "u8")), TypeError, "out has dtype uint64, the results int64"),
        (lambda t: t.insert(KEYS, KEYS, out=KEYS.view(bool)[:4]), gh.InvalidArgument, "overlaps keys"),
    ],
)
def test_arguments_of_calls(table, call, error, words):
    with pytest.raises(error, match=words):
        call(table)
    assert len(table) == 0


@pytest.mark.parametrize("n", [0, 1, 4])
def test_read_only_outputs(table, n):
    out = np.zeros(n, np.uint64)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        table.find(KEYS[:n], out=out)
    mask = np.zeros(n, bool)
    mask.flags.writeable = False
    with pytest.raises(ValueError, match="mask is read-only"):
        table.insert(KEYS[:n], KEYS[:n], out=mask)


def test_a_misaligned_output(table):
    out = np.zeros(33, np.uint8)[1:].view(np.uint64)
    assert not out.flags.aligned
    with pytest.raises(ValueError, match=r"out is strided or misaligned: pass .*np.empty\(\(4,\), 'uint64'\)"):
        table.find(KEYS, out=out)


def test_overlapping_arrays(table):
    buffer = np.arange(8, dtype=np.uint64)
    with pytest.raises(gh.InvalidArgument, match="out overlaps keys"):
        table.find(buffer[:4], out=buffer[2:6])
    with pytest.raises(gh.InvalidArgument, match="mask overlaps out"):
        table.find(KEYS, out=buffer[:4], found=buffer.view(bool)[8:12])
    with pytest.raises(gh.InvalidArgument, match="mask overlaps values"):
        table.insert(KEYS, buffer[:4], out=buffer.view(bool)[:4])
    ops = np.full(4, gh.Op.ERASE, np.uint8)
    with pytest.raises(gh.InvalidArgument, match="mask overlaps ops"):
        table.execute(ops, KEYS, KEYS, found=ops.view(bool))
    assert (ops == gh.Op.ERASE).all()
    assert (buffer == np.arange(8)).all()
    assert table.find(buffer[:4], out=buffer[4:])[0].tolist() == [0] * 4  # beside each other, not overlapping


def test_operations_that_the_backend_lacks(table):
    lacks = {"multi", "ordered"} - next(row.traits for row in gh.backends() if row.name == table.backend)
    if "multi" in lacks:
        for call in (table.insert_multi, lambda k, v: table.erase_all(k), lambda k, v: table.find_all(k)):
            with pytest.raises(gh.Unsupported, match="does not have"):
                call(KEYS, KEYS)
    if "ordered" in lacks:
        with pytest.raises(gh.Unsupported, match="does not have"):
            table.lower_bound(KEYS)
        with pytest.raises(NotImplementedError, match="does not have"):
            table.range(KEYS, KEYS + np.uint64(1), 4)


def test_a_closed_table(backend):
    table = gh.Table(backend, device="cpu")
    table.close()
    calls = [
        lambda: table.find(KEYS),
        lambda: table.insert(KEYS, KEYS),
        lambda: table.find([]),
        lambda: len(table),
        lambda: table[1],
        lambda: table.stats(),
        lambda: table.histogram(),
        lambda: table.export(),
        lambda: table.clear(),
        lambda: table.check(),
        lambda: table.capacity,
        lambda: table.find_all([1]),
    ]
    for call in calls:
        with pytest.raises(gh.ClosedTable, match="this table is closed"):
            call()


def test_use_after_fork(backend):
    table = gh.Table(backend, device="cpu")
    table.insert(KEYS, KEYS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: by Python from 3.12 on, and by JAX
        child = os.fork()
    if child == 0:
        status = 1
        try:
            table.find(KEYS)
        except gh.Forked as error:
            table.close()  # allowed
            status = 0 if "fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (table[KEYS] == KEYS).all()
    table.close()


@pytest.mark.parametrize(
    ("what", "arguments", "words"),
    [
        ("gather7", {}, "gather7"),
        ("cas64", {"n": 0}, "n=0"),
        ("cas64", {"table_bytes": 0}, "table_bytes=0"),
        ("cas64", {"repeats": 0}, "repeats=0"),
        ("cas64", {"device": "tpu"}, "tpu"),
    ],
)
def test_ceilings(what, arguments, words):
    with pytest.raises(gh.InvalidArgument, match=words):
        gh.measure_ceiling(what, **arguments)


def test_a_ceiling_is_a_time_per_run():
    seconds = gh.measure_ceiling("gather8", table_bytes=1 << 20, n=1 << 16, repeats=4)
    assert seconds.shape == (4,)
    assert (seconds > 0).all()


def test_nothing_is_launched_on_the_cpu():
    with pytest.raises(gh.Unsupported, match="CUDA device"):
        gh.measure_ceiling("launch")


@pytest.mark.gpu
def test_launches_take_microseconds():
    each = gh.measure_ceiling("launch", device="cuda:0", n=250, repeats=5) / 250
    assert (each > 1e-7).all()
    assert (each < 1e-3).all()


def test_every_error_is_of_one_family():
    kinds = {
        gh.InvalidArgument: ValueError,
        gh.Unsupported: NotImplementedError,
        gh.NoMemory: MemoryError,
        gh.BackendNotFound: LookupError,
        gh.OptionNotFound: TypeError,
        gh.PluginError: ImportError,
        gh.Poisoned: gh.DeviceError,
    }
    for kind, builtin in kinds.items():
        assert issubclass(kind, gh.GpuHashError)
        assert issubclass(kind, builtin)
    assert gh.TableFull("x").failed is None


@pytest.mark.parametrize("code", [6, 7, 9, 255])
@pytest.mark.parametrize("at", [0, 3, 99])
def test_an_op_code_that_execute_does_not_have(code, at):
    keys = np.arange(100, dtype=np.uint64)
    ops = np.full(100, gh.Op.INSERT, np.uint8)
    ops[at] = code
    with gh.Table("linear_probe", device="cpu") as table:
        with pytest.raises(ValueError, match=rf"ops\[{at}\] is {code}, which execute does not have"):
            table.execute(ops, keys, keys)
        assert len(table) == 0
        ops[at] = gh.Op.NOP
        assert table.execute(ops, keys, keys)[1].sum() == 99


def test_accumulate_in_execute_on_a_set():
    keys = np.arange(4, dtype=np.uint64)
    with gh.Table("linear_probe", value_dtype=None, device="cpu") as table:
        with pytest.raises(ValueError, match=r"ops\[2\] is ACCUMULATE \(3\), but this table is a set"):
            table.execute(np.array([1, 1, 3, 1], np.uint8), keys)
        assert len(table) == 0


def test_sources_that_were_not_built_say_so(tmp_path):
    """What happens in a fresh checkout, where the folder of the sources hides the installed package."""
    folder = tmp_path / "pygpuhash"
    folder.mkdir()
    shutil.copy(gh.__file__, folder)
    # -S: an editable installation would find the modules of the package wherever the package itself lies.
    command = [sys.executable, "-S", "-c", "import pygpuhash"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"ImportError: {folder / '__init__.py'} is source code that was not built" in done.stderr
    assert "pip install -e ." in done.stderr


def test_numbers_at_the_ends_of_their_ranges(tmp_path):
    for load in (0.01, 1, np.float32(0.5), np.int64(1)):
        assert _arguments.load_factor(load) == float(load)
    for load in (0.00999, 1.001, "1"):
        with pytest.raises(gh.InvalidArgument, match=r"pass a number from 0\.01 to 1"):
            _arguments.load_factor(load)
    for number in (2, 5):
        assert _arguments.whole("n", np.uint8(number), 5, least=2) == number
    for number in (1, 6):
        with pytest.raises(gh.InvalidArgument, match=f"n={number} is out of range: pass 2 to 5"):
            _arguments.whole("n", number, 5, least=2)
    assert _arguments.seed(2**64 - 1) == 2**64 - 1
    assert _arguments.option("path", tmp_path) == str(tmp_path)
    (tmp_path / "file").touch()
    assert [_arguments.option("path", entry) for entry in os.scandir(tmp_path)] == [str(tmp_path / "file")]


@pytest.mark.parametrize("given", ["no", "False", 2, None, 0.0, []])
def test_grow_is_true_or_false(given):
    with pytest.raises(TypeError, match=r"grow=.* is neither True nor False"):
        gh.Table(grow=given, device="cpu")


@pytest.mark.parametrize(("given", "grows"), [(True, True), (0, False), (np.False_, False), (np.int64(1), True)])
def test_what_stands_for_true_and_false(given, grows):
    with gh.Table(grow=given, device="cpu") as t:
        assert ("grow" in t.traits) == grows


def test_numbers_of_numpy_are_options():
    for backend, options in (
        ("linear_probe", {"row": np.int64(8)}),
        ("slab_hash", {"duplicates": np.True_}),
        ("skiplist", {"p_chunk": np.float32(0.5), "chunk": np.uint8(16)}),
    ):
        with gh.Table(backend, device="cpu", **options) as t:
            assert t.insert(1, 2)
    with gh.Table(needs=None, device="cpu") as t:
        assert t.backend == "linear_probe"


@pytest.mark.parametrize("name", ["hive", "skiplist"])
def test_a_range_of_buckets_where_there_is_none(name):
    with (
        gh.Table(name, device="cpu") as t,
        pytest.raises(gh.Unsupported, match="flushed as a whole: flush without a range of buckets"),
    ):
        t.flush(0, 1)


def test_a_table_is_not_reversed(table):
    table.insert(KEYS, KEYS)
    with pytest.raises(TypeError, match="not reversible"):
        reversed(table)


@pytest.mark.parametrize("limit", [2**40, 2**62])
def test_limits_that_no_memory_holds(limit):
    with (
        gh.Table("skiplist", device="cpu") as t,
        pytest.raises(gh.NoMemory, match=r"no memory for results of shape \(1, .*: ask for fewer"),
    ):
        t.range(0, 5, limit)


def test_a_limit_beyond_the_memory_of_the_machine(monkeypatch):
    """Where the system promises memory that it does not have."""
    monkeypatch.setattr(_stage, "_memory_of_the_machine", lambda: 1 << 20)
    with gh.Table("skiplist", device="cpu") as t:
        t.insert(KEYS, KEYS)
        assert len(t.range(0, 5, 1 << 16)[0][0]) == 1 << 16
        with pytest.raises(gh.NoMemory, match=r"of shape \(1, 131073\), 1,048,584 bytes: ask for"):
            t.range(0, 5, (1 << 17) + 1)


def test_an_option_is_not_taken_for_an_argument():
    """`row` is inside of `grow`, which was suggested for it."""
    with pytest.raises(TypeError, match=r"option row=None is a NoneType: pass a string, a path or a number$"):
        gh.Table("linear_probe", row=None)


def test_a_table_that_was_never_made():
    assert repr(gh.Table.__new__(gh.Table)) == "<pygpuhash.Table, never made>"
