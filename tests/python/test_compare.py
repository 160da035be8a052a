"""The command line: results, formats, and one clear sentence with status 2 for every bad input."""

import io
import json
import sys
import types
import xml.etree.ElementTree

import numpy as np
import pytest

import pygpuhash as gh
from pygpuhash import _core, cli, compare, keyfile, report, workload

ON_CPU = ["--backend", "linear_probe", "--device", "cpu"]


@pytest.fixture
def run(capsys):
    """Run the command line; returns (status, stdout, stderr)."""

    def call(*arguments):
        try:
            status = cli.main([str(a) for a in arguments])
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def quick(monkeypatch):
    """Time each phase once, over few ceiling accesses."""
    monkeypatch.setattr(compare, "_MIN_RUNS", 1)
    monkeypatch.setattr(compare, "_ENOUGH_SECONDS", 0.0)
    monkeypatch.setattr(compare, "_CEILING_N", 1 << 12)
    monkeypatch.setattr(compare, "_CEILING_RUNS", 1)


@pytest.fixture
def small(monkeypatch, quick):
    """A standard library of a dozen files."""
    files = cli.identifiers.source_files()[:12]
    monkeypatch.setattr(cli.identifiers, "source_files", lambda: files)


def test_the_main_job(run, small):
    status, out, err = run("compare")
    assert status == 0, out + err
    assert err == ""
    assert "the standard library's sources" in out
    header = next(line for line in out.splitlines() if line.startswith("backend"))
    assert " ".join(header.split()) == "backend device distinct count lookup absent erase mixed B/key load verified"
    for name in (r.name for r in gh.backends() if r.state == "usable"):
        row = next(line for line in out.splitlines() if line.startswith(name))
        assert row.endswith("yes")
        assert row.count("%") == 5
    assert "most frequent: " in out
    assert len(out.split("most frequent: ")[1].split(", ")) == 10


def test_json(run, small):
    status, out, _ = run("compare", "--json", *ON_CPU)
    assert status == 0
    report = json.loads(out)
    (row,) = report["results"]
    assert row["verified"] is True
    assert row["device"] == "cpu"
    assert row["distinct"] == report["distinct"] <= report["keys"]
    assert set(row["phases"]) == set(compare.PHASES)
    for phase in row["phases"].values():
        assert phase["keys_per_second"] > 0
        assert phase["share_of_ceiling"] > 0
        assert phase["fastest"] <= phase["median"]
    assert row["bytes_per_key"] > 0
    assert len(report["most_frequent"]) == 10


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "float32", "float64", "bool", ">i4"])
def test_keys_of_a_npy_file(run, quick, tmp_path, rng, dtype):
    keys = rng.integers(0, 2 if dtype == "bool" else 50, 1000).astype(dtype)
    np.save(tmp_path / "keys.npy", keys)
    status, out, err = run("compare", "--keys", tmp_path / "keys.npy", *ON_CPU, "--json")
    assert status == 0, err
    report = json.loads(out)
    assert (report["keys"], report["distinct"]) == (1000, len(np.unique(keys)))
    assert report["results"][0]["error"] is None


def test_all_keys_there_are(run, quick, tmp_path):
    np.save(tmp_path / "keys.npy", np.arange(256, dtype=np.uint8))
    status, out, _ = run("compare", "--keys", tmp_path / "keys.npy", *ON_CPU, "--json")
    assert status == 0
    assert "absent" not in json.loads(out)["results"][0]["phases"]  # no key is absent


@pytest.mark.parametrize("n", [1, 2, 3, 1000])
def test_synthetic_keys(run, quick, n):
    status, out, err = run("compare", "--n", n, *ON_CPU)
    assert status == 0, err
    assert f"{n:,} uniform random 64-bit keys" in out


def test_text_files(tmp_path):
    (tmp_path / "a.txt").write_text("3\n\n 5 \n3\n")
    assert keyfile.read_keys(str(tmp_path / "a.txt"), None).tolist() == [3, 5, 3]
    (tmp_path / "b.txt").write_text("-1\n9223372036854775807\n")
    assert keyfile.read_keys(str(tmp_path / "b.txt"), None).dtype == np.int64
    (tmp_path / "c.txt").write_text("18446744073709551615")
    assert keyfile.read_keys(str(tmp_path / "c.txt"), None).tolist() == [2**64 - 1]
    (tmp_path / "z.txt").write_text("0\n5\n")
    assert keyfile.read_keys(str(tmp_path / "z.txt"), None).dtype == np.uint64
    (tmp_path / "d.txt").write_text("1\n2.5\n")
    assert keyfile.read_keys(str(tmp_path / "d.txt"), None).tolist() == [1.0, 2.5]
    (tmp_path / "E.TXT").write_text("2.5\n1\n")
    assert keyfile.read_keys(str(tmp_path / "E.TXT"), None).tolist() == [2.5, 1.0]
    (tmp_path / "f.txt").write_text("-9223372036854775808\n9223372036854775807")
    assert keyfile.read_keys(str(tmp_path / "f.txt"), None).tolist() == [-(2**63), 2**63 - 1]


def test_arrays_of_any_shape(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    assert keyfile.read_keys(str(tmp_path / "a.npy"), None).tolist() == list(range(6))


def test_csv_files(tmp_path):
    name = str(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text('id,"user name",n\n7,x,1\n8,y,2\n')
    assert keyfile.read_keys(name, "id").tolist() == [7, 8]
    assert keyfile.read_keys(name, "3").tolist() == [1, 2]
    (tmp_path / "b.csv").write_text("7\n8\n")
    assert keyfile.read_keys(str(tmp_path / "b.csv"), None).tolist() == [7, 8]
    (tmp_path / "c.csv").write_text("7,1\n8,2\n")  # no header, so that "1" is a number of a column
    assert keyfile.read_keys(str(tmp_path / "c.csv"), "1").tolist() == [7, 8]
    (tmp_path / "d.csv").write_text("x,1\ny,2\n")  # nor is this one, where one cell is a number
    assert keyfile.read_keys(str(tmp_path / "d.csv"), "2").tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
@pytest.mark.parametrize("content", [b"\xef\xbb\xbf7\n8\n", b"7\r\n8\r\n", b"7\n8", b"\n7\n\n8\n\n"])
def test_how_editors_and_spreadsheets_write_text(tmp_path, name, content):
    """With a byte-order mark, with the line ends of Windows, without a last line end, with empty lines."""
    (tmp_path / name).write_bytes(content)
    assert keyfile.read_keys(str(tmp_path / name), None).tolist() == [7, 8]


@pytest.mark.parametrize("column", ["0", "4", "-1", "+1", "1.0", "\N{SUPERSCRIPT TWO}", "", "User Name"])
def test_columns_that_are_not_there(tmp_path, column):
    (tmp_path / "a.csv").write_text('id,"user name",n\n7,8,9\n')
    with pytest.raises(keyfile.InputError, match="has no column"):
        keyfile.read_keys(str(tmp_path / "a.csv"), column)


@pytest.mark.parametrize(("column", "key"), [("1", 7), ("2", 8), ("3", 9), ("user name", 8), ("id", 7)])
def test_every_column_can_be_chosen(tmp_path, column, key):
    (tmp_path / "a.csv").write_text('id,"user name",n\n7,8,9\n')
    assert keyfile.read_keys(str(tmp_path / "a.csv"), column).tolist() == [key]


def test_standard_input(run, quick, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n2\n2\n"))
    status, out, _ = run("compare", "--keys", "-", *ON_CPU)
    assert status == 0
    assert "3 uint64 keys of standard input" in out
    assert "most frequent: 2 2, 1 1" in out


def test_standard_input_that_is_no_numbers(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n" + "x" * 50))
    with pytest.raises(keyfile.InputError, match=r"^standard input, line 2: 'x{37}\.\.\.' is not a number$"):
        keyfile.read_keys("-", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\n\xff\n"), encoding="utf-8"))
    with pytest.raises(keyfile.InputError, match="standard input is not text in UTF-8"):
        keyfile.read_keys("-", None)


FILES = {
    "word.txt": b"1\nabc\n",
    "nan.txt": b"1\nnan\n",
    "empty.txt": b"\n\n",
    "latin.txt": b"\xff\xfe\n",
    "huge.txt": b"18446744073709551616\n",
    "edge.txt": b"-1\n9223372036854775808\n",
    "mixed.txt": b"-1\n18446744073709551615\n",
    "two.csv": b"a,b\n1,2\n",
    "short.csv": b"a,b\n1,2\n3\n",
    "text.csv": b"a\nx\n",
    "none.csv": b"",
    "junk.npy": b"junk",
    "void.npy": b"",
    "keys.parquet": b"PAR1",
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--keys", "missing.npy"], "'missing.npy' cannot be read: No such file or directory"),
        (["--keys", "missing.txt"], "'missing.txt' cannot be read: No such file or directory"),
        (["--keys", "folder.csv"], "cannot be read: Is a directory"),
        (["--keys", "word.txt"], "word.txt, line 2: 'abc' is not a number"),
        (["--keys", "nan.txt"], "nan.txt, line 2: NaN"),
        (["--keys", "empty.txt"], "'empty.txt' has no keys"),
        (["--keys", "latin.txt"], "not a text file in UTF-8"),
        (["--keys", "huge.txt"], "fit neither int64 nor uint64"),
        (["--keys", "mixed.txt"], "fit neither int64 nor uint64"),
        (["--keys", "edge.txt"], "from -1 to 9223372036854775808, which fit neither int64 nor uint64"),
        (["--keys", "two.csv"], "'two.csv' has 2 columns: choose one with --column ('a', 'b')"),
        (["--keys", "two.csv", "--column", "c"], "has no column 'c'"),
        (["--keys", "short.csv", "--column", "b"], "row 3: there are 1 columns"),
        (["--keys", "text.csv"], "'x' is not a number"),
        (["--keys", "none.csv"], "has no rows"),
        (
            ["--keys", "junk.npy"],
            "'junk.npy' is not a .npy file of numbers: it holds Python objects, or something else",
        ),
        (["--keys", "void.npy"], "is not a .npy file of numbers"),
        (["--keys", "nan.npy"], "'nan.npy' has NaN at index 1"),
        (["--keys", "zero.npy"], "'zero.npy' has no keys"),
        (["--keys", "object.npy"], "is not a .npy file of numbers"),
        (["--keys", "complex.npy"], "has dtype complex128"),
        (["--keys", "long.npy"], f"has dtype {np.dtype('longdouble')}"),
        (["--keys", "archive.npy"], "is an archive of arrays"),
        (["--keys", "keys.parquet"], "is none of .npy, .txt, .csv"),
        (["--keys", "word.txt", "--column", "a"], "--column=a needs a .csv file"),
        (["--column", "a"], "--column=a needs --keys"),
        (["--n", "0"], "--n=0 is too small"),
        (["--n", "-3"], "--n=-3 is too small"),
        (["--n", "10000000000000000"], "do not fit this machine's memory"),
        (["--n", "many"], "invalid int value: 'many'"),
        (["--n", "5", "--keys", "word.txt"], "not allowed with argument"),
        (["--n", "5", "--backend", "linear_prob"], "did you mean 'linear_probe'"),
        (["--n", "5", "--device", "tpu"], "device='tpu' is not a device"),
        (["--n", "5", "--device", "cuda:64"], "device='cuda:64' cannot be used"),
        (["--n", "5", "--plot", "a.pdf"], "--plot='a.pdf' is neither .svg nor .png"),
        (["--n", "5", "--plot", "no/such/folder/a.svg"], "there is no directory"),
    ],
)
def test_bad_input(run, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    np.save("nan.npy", np.array([1, np.nan, 2, np.nan]))
    np.save("zero.npy", np.empty(0))
    np.save("object.npy", np.array([None]), allow_pickle=True)
    np.save("complex.npy", np.ones(2, complex))
    np.save("long.npy", np.ones(2, "longdouble"))
    np.savez("archive.npz", a=np.ones(2))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    status, out, err = run("compare", *arguments)
    assert status == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    if not err.startswith("usage"):
        assert err.count("\n") == 1  # one sentence


def test_pictures(run, quick, tmp_path):
    status, _, err = run("compare", "--n", 100, *ON_CPU, "--plot", tmp_path / "a.svg")
    assert status == 0, err
    root = xml.etree.ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    bars = [e for e in root if e.tag.endswith("rect")]
    assert len(bars) == 1 + len(compare.PHASES)
    texts = " ".join(e.text for e in root if e.tag.endswith("text"))
    assert "linear_probe (cpu)" in texts
    assert "of the ceiling" in texts


def test_png(run, quick, tmp_path):
    pytest.importorskip("matplotlib")
    status, _, err = run("compare", "--n", 100, *ON_CPU, "--plot", tmp_path / "a.png")
    assert status == 0, err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_png_needs_matplotlib(run, quick, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run("compare", "--n", 100, *ON_CPU, "--plot", tmp_path / "a.png")
    assert status == 2
    assert "needs matplotlib: pip install matplotlib, or write .svg" in err


class Lying(gh.Table):
    """A backend that forgets, miscounts or invents, as `lie` says."""

    lie = ""
    nbytes = 1 << 16

    def __init__(self, **arguments):
        super().__init__("linear_probe", **arguments)

    def accumulate(self, keys, values=1, **rest):
        if self.lie == "count":
            keys = keys[1:]
            values, rest["out"] = values[1:], None
        mask = super().accumulate(keys, values, **rest)
        if self.lie == "inserted":
            mask[0] = ~mask[0]
        return mask

    def find(self, keys, *, out=None, found=None, stream=None):
        result = super().find(keys, out=out, found=found)
        if self.lie == "value":
            out[np.flatnonzero(found)[-1:]] += 1
        if self.lie == "value of an absent key":
            out[~found] = 1
        if self.lie == "found":
            found[0] = ~found[0]
        return result

    def erase(self, keys, *, out=None, stream=None):
        return super().erase(keys[1:] if self.lie == "erase" else keys, out=out[1:] if self.lie == "erase" else out)

    def contains(self, keys, **rest):
        mask = super().contains(keys, **rest)
        if self.lie == "left":
            mask[0] = ~mask[0]
        return mask

    def check(self):
        super().check()
        if self.lie == "check":
            raise gh.Corrupt("an invariant")

    def __len__(self):
        return super().__len__() + (self.lie == "size")

    def execute(self, ops, keys, values=None, **rest):
        result = super().execute(ops, keys, values, **rest)
        if self.lie == "mixed":
            self.insert_or_assign(keys[:1], values[:1] + values.dtype.type(1))
        if self.lie == "mixed value":
            result[0][-1] += 1
        if self.lie == "mixed mask":
            result[1][0] = ~result[1][0]
        if self.lie == "another key":
            last = self.keys().max()
            self[last + np.uint64(1)] = self[last]
            del self[last]
        return result


LIES = {
    "": "",
    "count": "count: ",
    "inserted": "count: newly inserted keys",
    "value": "lookup: values",
    "value of an absent key": "absent: values",
    "found": "lookup: found",
    "erase": "erase: ",
    "left": "erase: keys left",
    "size": "erase: size",
    "mixed": "mixed: ",
    "mixed value": "mixed: values found",
    "mixed mask": "mixed: mask",
    "another key": "mixed: keys afterwards",
    "check": "an invariant",
}


@pytest.mark.parametrize("least", [1, 450])
@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_answer_is_noticed(quick, monkeypatch, rng, lie, least):
    monkeypatch.setitem(compare._LEAST_BATCH, _core.CPU, least)
    monkeypatch.setattr(Lying, "lie", lie)
    monkeypatch.setattr(compare, "Table", lambda name, **arguments: Lying(**arguments))
    keys = rng.integers(0, 40, 100, np.uint64)
    work = workload.make("keys", keys)
    result = compare.run_backend(work, "linear_probe", "cpu")
    assert result.verified is (lie == ""), result.error
    text = report.table_text(work, [result])
    if lie:
        assert "NO" in text
        assert result.error in text
        assert result.error.startswith(LIES[lie])


def test_what_is_timed(quick, monkeypatch, rng):
    """Each phase once without being counted, then as often as it says; beside what bounds keys of that width."""
    calls = []

    class Counting(Lying):
        def find(self, keys, **rest):
            calls.append(len(keys))
            return super().find(keys, **rest)

    monkeypatch.setattr(compare, "_MIN_RUNS", 4)
    monkeypatch.setattr(compare, "Table", lambda name, **arguments: Counting(**arguments))
    for dtype, ceiling in (("u4", "gather8"), ("u8", "gather16")):
        calls.clear()
        work = workload.make("keys", rng.integers(0, 40, 100, dtype))
        result = compare.run_backend(work, "hive", "cpu")
        phases = result.phases
        assert result.bytes_per_key == (1 << 16) / len(work.unique)
        assert {name: phase.ceiling for name, phase in phases.items()} == {
            "count": "cas64", "lookup": ceiling, "absent": ceiling, "erase": "cas64", "mixed": "cas64"
        }  # fmt: skip
        assert [phase.runs for phase in phases.values()] == [4] * 5
        assert len(calls) == 2 * (4 + 1)


@pytest.mark.parametrize(
    ("took", "runs", "median", "fastest", "slowest"),
    [([9.0, 0.2, 0.1, 0.4], 3, 0.2, 0.1, 0.4), ([9.0, *[0.01] * 30], 25, 0.01, 0.01, 0.01)],
)
def test_what_counts(monkeypatch, took, runs, median, fastest, slowest):
    """The time of a batch until it is done on the device, without the first one, and without what prepares it."""
    clock, queued, steps = [100.0], [], []
    monkeypatch.setattr(compare, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))

    def wait():
        clock[0] += sum(queued)
        queued.clear()

    def prepare():
        steps.append("prepare")
        queued.append(5.0)

    def batch():
        queued.append(took[steps.count("batch")])
        steps.append("batch")

    run = compare._Run.__new__(compare._Run)
    run.place = types.SimpleNamespace(wait=wait)
    ceilings = iter([7.0, 5.0])
    run.ceiling = lambda what: next(ceilings)
    phase = run.time(10, "cas64", prepare, batch)
    assert (phase.n, phase.runs, phase.ceiling, phase.ceiling_rate) == (10, runs, "cas64", 7.0)
    assert np.allclose([phase.median, phase.fastest, phase.slowest], [median, fastest, slowest])
    assert np.allclose([phase.rate, phase.share], [10 / median, 10 / median / 7])
    assert steps == ["prepare", "batch"] * (runs + 1)


@pytest.mark.parametrize(
    ("device", "nbytes", "n"), [("cpu", 0, 1 << 18), ("cpu", 1 << 22, 1 << 20), ("cuda:0", 0, 1 << 22)]
)
def test_the_ceiling_is_that_of_the_fastest_run(monkeypatch, device, nbytes, n):
    asked = []
    monkeypatch.setattr(
        compare._devices, "measure_ceiling", lambda *a, **k: asked.append((a, k)) or np.array([4.0, 2.0, 8.0])
    )
    assert compare.ceiling_of("gather8", device, nbytes) == n / 2
    (((what,), given),) = asked
    assert (what, given["device"], given["n"], given["table_bytes"]) == ("gather8", device, n, max(nbytes, 1 << 16))


def test_others_take_no_more_than_there_is(monkeypatch):
    others = compare.Others()
    monkeypatch.setattr(others, "_now", lambda: (others.start[0] + 1, others.start[1] + 10_000, others.start[2]))
    assert others.taken() == others.cpus
    monkeypatch.setattr(others, "_now", lambda: (others.start[0] + 1, others.start[1], others.start[2] + 5))
    assert others.taken() == 0


def test_a_gpu_is_given_work(quick, monkeypatch, rng):
    monkeypatch.setitem(compare._LEAST_BATCH, _core.CPU, 450)
    counter = workload.Counter(map(str, keys := rng.integers(0, 40, 100, np.uint64)))
    work = workload.make("keys", keys, {int(key): str(key) for key in keys}, counter)
    result = compare.run_backend(work, "linear_probe", "cpu")
    assert result.verified, result.error
    assert all(450 <= phase.n < 550 for phase in result.phases.values())
    assert result.repeats == {name: -(-450 // (p.n // result.repeats[name])) for name, p in result.phases.items()}
    assert result.repeats["count"] == result.repeats["lookup"] == 5
    assert set(result.short_call) == {"count", "lookup"}
    assert all(0 < seconds < 1 for seconds in result.short_call.values())
    text = report.table_text(work, [result])
    assert "each batch has the same keys again and again, to be long enough for a GPU: count 5 times, lookup 5" in text
    assert "a call of 1,024 keys (or all), until its results are there: count " in text
    row = result.as_json()
    assert row["repeats"]["count"] == 5
    assert row["short_call"]["count"] > 0
    monkeypatch.setitem(compare._LEAST_BATCH, _core.CPU, 1)
    text = report.table_text(work, [compare.run_backend(work, "linear_probe", "cpu")])
    assert "again and again" not in text
    assert "until its results are there" not in text


def shown(**changes):
    """The report of one phase of a million keys in 10 ms, with some figures changed."""
    figures = {"n": 10**6, "runs": 5, "median": 0.01, "fastest": 0.009, "slowest": 0.02, "ceiling": "cas64"}
    others = changes.pop("others", 0.0)
    phase = compare.Phase(**{**figures, "ceiling_rate": 2e8, **changes})
    result = compare.Result("some", "cpu", 3, {"count": phase}, verified=True, cpus=4, others=others)
    return report.table_text(workload.make("keys", np.arange(3)), [result])


def test_the_spread_is_shown():
    text = shown()
    assert "100 (50%)" in text
    assert "slowest to fastest run: count 50 to 111" in text
    assert "busy" not in text
    assert "above the ceiling" not in text
    assert "the machine was uneven: the fastest run beats the median in count 2.5x" in shown(fastest=0.004)


def test_ceilings_and_short_calls_are_shown():
    """The best that a ceiling was; microseconds."""
    times = {"n": 10**6, "runs": 5, "median": 0.01, "fastest": 0.01, "slowest": 0.01, "ceiling": "cas64"}
    phases = {name: compare.Phase(**times, ceiling_rate=rate) for name, rate in (("count", 3e8), ("erase", 2e8))}
    result = compare.Result("some", "cuda:0", 3, phases, short_call={"count": 12.34e-6})
    text = report.table_text(workload.make("keys", np.arange(3)), [result])
    assert "ceilings over the table's memory: random 64-bit compare-and-swaps 300 M/s\n" in text
    assert "a call of 1,024 keys (or all), until its results are there: count 12.3 us" in text
    assert "keys x runs: count 1,000,000 x 5, erase 1,000,000 x 5" in text
    assert [report._millions(rate) for rate in (1e9, 9.996e8, 99.94e6, 1.2345e5)] == ["1,000", "1,000", "99.9", "0.123"]


def test_bars_are_as_long_as_rates(tmp_path):
    times = {"n": 10**6, "runs": 5, "fastest": 0.01, "slowest": 0.04, "ceiling": "cas64", "ceiling_rate": 1e8}
    phases = {name: compare.Phase(**times, median=median) for name, median in (("count", 0.01), ("erase", 0.04))}
    result = compare.Result("some", "cpu", 3, phases, load_factor=0.456, bytes_per_key=12.34)
    work = workload.make("keys", np.arange(3))
    report.plot(str(tmp_path / "bars.svg"), work, [result])
    bars = [rect for rect in xml.etree.ElementTree.parse(tmp_path / "bars.svg").iter() if rect.get("x") == "260"]
    assert [float(bar.get("width")) for bar in bars] == [520.0, 130.0]
    assert report.table_text(work, [result]).splitlines()[3].split()[-3:] == ["12.3", "0.46", "NO"]


def test_a_busy_machine_is_named():
    assert "the machine was busy: other processes took 1.5 of 4 CPUs" in shown(others=1.5)
    assert "busy" not in shown(others=0.5)
    assert "busy" not in shown(others=None)


def test_no_share_above_the_ceiling_without_a_word():
    assert "104%" in shown(ceiling_rate=1e8 / 1.04)
    assert "(>100%)" in shown(ceiling_rate=1e8 / 1.06)
    text = shown(ceiling_rate=1e8 / 2.73)
    assert "273%" not in text
    assert "100 (>100%)" in text
    assert "above the ceiling: count 2.7x; frequent keys stay in cache, or the machine was busier" in text


def test_the_ceiling_is_measured_before_and_after(quick, monkeypatch):
    """The better of the two counts, so that a moment of load does not lower it."""
    rates = iter([1e6, 5e6, 7e6, 2e6] + [3e6] * 20)
    monkeypatch.setattr(compare, "ceiling_of", lambda what, device, nbytes: next(rates))
    result = compare.run_backend(workload.make("keys", np.arange(100, dtype=np.uint64)), "linear_probe", "cpu")
    assert result.verified, result.error
    assert [phase.ceiling_rate for phase in result.phases.values()] == [5e6, 7e6, 3e6, 3e6, 3e6]
    for phase in result.phases.values():
        assert phase.fastest <= phase.median <= phase.slowest


def test_what_others_take_of_the_cpus(monkeypatch):
    times = iter([(0.0, 100.0, 10.0), (10.0, 128.0, 25.0), (20.0, 130.0, 50.0)])
    monkeypatch.setattr(compare.Others, "_now", staticmethod(lambda: next(times)))
    monkeypatch.setattr(compare.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(compare.os, "cpu_count", lambda: 2)
    others = compare.Others()
    assert others.cpus == 2
    assert others.taken() == pytest.approx(1.3)  # 28 seconds of all less 15 of our own, in 10 by the clock
    assert others.taken() == 0.0
    times = iter([(0.0, 100.0, 10.0), (10.0, 128.0, 15.0)])
    monkeypatch.setattr(compare.os, "cpu_count", lambda: 3)
    assert compare.Others().taken() == pytest.approx(1.3)  # of 2.3, less the one that we may not use


def test_what_counts_as_work_of_the_cpus(monkeypatch):
    """All but idling and waiting for disks; guests are in the first figure."""
    text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 900000000 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n"
    monkeypatch.setattr(compare, "Path", lambda name: types.SimpleNamespace(read_text=lambda: text))
    assert compare.Others._now()[1] * compare.os.sysconf("SC_CLK_TCK") == pytest.approx(87600321)


def test_the_machine_tells_what_others_take():
    taken = compare.Others().taken()
    assert taken is None or 0 <= taken <= len(compare.os.sched_getaffinity(0))


def test_a_failing_backend_is_reported(quick, run):
    result = compare.run_backend(workload.make("keys", np.arange(3)), "no such backend", "cpu")
    assert not result.verified
    assert "no such backend" in result.error


def test_expected_results_of_the_mixed_batch(rng):
    work = workload.make("keys", rng.integers(0, 1000, 5000, np.uint64))
    assert len(np.unique(work.erased)) == len(work.erased) == len(work.unique) // 2
    model = dict(zip(work.unique.tolist(), work.counts.tolist(), strict=True))
    assert not set(work.absent.tolist()) & set(model)
    assert len(np.unique(work.mixed_keys)) == len(work.mixed_keys)
    for op, key, value, wanted, mask in zip(
        work.ops, work.mixed_keys.tolist(), work.mixed_values.tolist(), work.mixed_found, work.mixed_mask, strict=True
    ):
        present = key in model
        assert wanted == (model.get(key, 0) if op == gh.Op.FIND else 0)
        assert mask == (present if op in (gh.Op.FIND, gh.Op.ERASE) else not present)
        if op == gh.Op.ERASE:
            del model[key]
        elif op != gh.Op.FIND:
            model[key] = value
    assert dict(zip(work.after[0].tolist(), work.after[1].tolist(), strict=True)) == model
    assert {gh.Op.FIND, gh.Op.INSERT, gh.Op.ASSIGN, gh.Op.ERASE} == set(work.ops.tolist())


def test_info_and_backends(run):
    status, out, _ = run("info")
    assert status == 0
    for word in (gh.__version__, "devices", "cpu", "linear_probe", np.__version__):
        assert word in out
    status, out, _ = run("info", "--json")
    assert {"config", "devices", "backends"} == set(json.loads(out))
    status, out, _ = run("backends")
    assert "linear_probe" in out
    assert "accumulate" in out
    status, out, _ = run("backends", "--json")
    assert "linear_probe" in [row["name"] for row in json.loads(out)]


def test_sizes_and_versions_of_devices(run, monkeypatch):
    gpu = cli._devices.Device("cuda:0", "GPU", 80 << 30, 132, (9, 0), 13010)
    monkeypatch.setattr(cli._devices, "devices", lambda: [gpu])
    out = run("info")[1]
    assert "GPU, 80.0 GiB, 132 multiprocessors, compute capability 9.0, driver for CUDA 13.1\n" in out


def test_which_backends_are_run(capsys, monkeypatch):
    states = ("usable", "not loaded", "ambiguous", "broken")
    rows = [cli.registry.BackendInfo(state.replace(" ", "_"), state=state, error="why") for state in states]
    monkeypatch.setattr(cli.probe, "backends", lambda: rows)
    assert cli._backend_names(None) == ["usable", "not_loaded", "ambiguous"]
    assert capsys.readouterr().err == "pygpuhash: backend broken is left out: why\n"


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, 130), (BrokenPipeError, 0)])
def test_a_command_that_is_ended(monkeypatch, error, status):
    def ends():
        raise error

    said = io.StringIO()
    said.close = lambda: None
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(cli.probe, "backends", ends)
    assert cli.main(["backends"]) == status
    assert said.getvalue() == ("pygpuhash: interrupted\n" if status else "")


def test_usage(run):
    status, out, _ = run("--version")
    assert status == 0
    assert out == f"pygpuhash {gh.__version__}\n"
    status, _, err = run()
    assert status == 2
    assert "usage" in err
    status, _, err = run("frobnicate")
    assert status == 2


def test_the_progress_bar_is_for_terminals(run, quick, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert cli.main(["compare", "--n", "10", *ON_CPU]) == 0
    assert "linear_probe: lookup" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")


def test_half_of_all_keys_leave_absent_ones_and_one_more_does_not():
    """Of so many keys one zero in memory is as good as all."""
    half = 1 << 31
    rng = np.random.default_rng(1)
    with pytest.raises(workload.InputError, match=f"{half + 1} distinct keys leave too few absent keys of 4 bytes"):
        workload._absent(np.broadcast_to(np.uint32(0), half + 1), 1, rng)
    with pytest.raises(ValueError, match="at least one array"):  # is not refused; it has nothing to draw
        workload._absent(np.broadcast_to(np.uint32(0), half), 0, rng)
