"""count, unique, top: words, lines and k-mers, against collections.Counter."""

import gzip
import random
import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from pygpuhash.commands import _words, sources, tally

WHITE = b" \t\n\v\f\r"


def as_uniq(counts):
    """What uniq -c prints of a Counter."""
    return b"".join(b"%7d %s\n" % (n, key) for key, n in counts.items())


def text(seed, size):
    """Bytes with white space of all kinds, words of up to 40 bytes, and NULs."""
    rng = random.Random(seed)
    letters = [bytes([c]) for c in (b"abc\0\xff\xc3" + WHITE * 2)]
    parts = []
    while sum(map(len, parts)) < size:
        parts.append(rng.choice(letters) * rng.choice([1, 1, 2, 11, 12, 13, 40]))
    return b"".join(parts)[:size]


def words(data):
    return [word for word in re.split(rb"[ \t\n\v\f\r]+", data) if word]


def lines(data):
    return data.removesuffix(b"\n").split(b"\n") if data else []


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 129, 2000])
def test_words_and_lines_are_those_of_python(run, written, block, size):
    for seed in range(2):
        data = text(seed, size)
        path = written("some", data)
        assert run("count", path).out == as_uniq(Counter(words(data))), seed
        assert run("count", "--lines", path).out == as_uniq(Counter(lines(data))), seed
        assert run("unique", path).out == b"".join(word + b"\n" for word in dict.fromkeys(words(data)))


@pytest.mark.skipif(shutil.which("tr") is None, reason="needs tr, sort and uniq")
def test_words_are_those_of_tr_sort_and_uniq(run, written):
    path = written("some", b"x" + text(9, 20_000))
    pipe = f"LC_ALL=C tr -s '[:space:]' '\\n' < {path} | LC_ALL=C sort | uniq -c"
    wanted = subprocess.run(pipe, shell=True, capture_output=True, check=True).stdout
    assert sorted(run("count", path).out.split(b"\n")) == sorted(wanted.split(b"\n"))


def test_a_word_ends_where_its_file_ends(run, written):
    one, other = written("one", "a b"), written("other", "c b\n")
    assert run("count", one, other).out == as_uniq({b"a": 1, b"b": 2, b"c": 1})


def test_standard_input_and_what_is_compressed(run, written):
    assert run("count", given=b"b a b").out == as_uniq({b"b": 2, b"a": 1})
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as out:
        out.write(b"a b b")
    two_members = gzip.compress(b"a b ") + gzip.compress(b"b")
    for i, data in enumerate([two_members, stream.getvalue().to_pybytes()]):
        assert run("count", written(f"{i}", data)).out == as_uniq({b"a": 1, b"b": 2})
        assert run("count", "-", given=data).out == as_uniq({b"a": 1, b"b": 2})


def test_a_line_longer_than_many_blocks(run, written, monkeypatch):
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", 4096)
    long = b"x" * 1_000_000
    assert run("count", "--lines", written("some", long + b"\n" + long)).out == as_uniq({long: 2})


@pytest.mark.parametrize("flag", [[], ["--lines"]], ids=["words", "lines"])
def test_a_line_or_word_beyond_its_share_of_memory_is_refused(run, written, monkeypatch, flag):
    monkeypatch.setattr(tally.Memory, "longest", 2000)
    monkeypatch.setattr("pygpuhash.commands.sources.BLOCK", 1000)
    begin = b"a\nb\n" + b"y" * 1990 + b"\n"
    assert run("count", *flag, written("some", begin + b"x" * 2000)).lines[-1].endswith("x" * 2000)
    for end in (b"", b"\nc\n"):
        done = run("count", *flag, written("some", begin + b"x" * 5000 + end))
        assert (done.status, done.out) == (2, b"")
        what = "line" if flag else "word"
        assert f"some: {what} 4, which begins at byte 1,995, has more than 2,000 bytes, an eighth of" in done.err
        assert "pass a larger --memory, or cut it" in done.err


def test_top_is_ordered_by_counts_then_by_first_appearance(run, written):
    path = written("some", "c a b b a d c c")
    assert run("top", 3, path).out == as_uniq({b"c": 3, b"a": 2, b"b": 2})
    assert run("top", 99, path).out == as_uniq({b"c": 3, b"a": 2, b"b": 2, b"d": 1})


def test_top_of_more_keys_than_are_kept_at_a_time(run, written):
    rng = np.random.default_rng(3)
    data = [b"%d" % i for i in np.minimum(rng.geometric(0.001, 1000), 900)] + [b"n%d" % i for i in range(150_000)]
    best = sorted(Counter(data).items(), key=lambda pair: -pair[1])[:50]
    assert run("top", 50, written("some", b"\n".join(data))).out == as_uniq(dict(best))


# ---- k-mers ----------------------------------------------------------------------------------------------------------

TURNED = bytes.maketrans(b"ACGT", b"TGCA")


def kmers(sequences, k, canonical):
    for sequence in sequences:
        letters = sequence.upper().replace(b"U", b"T")
        for i in range(len(letters) - k + 1):
            one = letters[i : i + k]
            if set(one) <= set(b"ACGT"):
                yield min(one, one.translate(TURNED)[::-1]) if canonical else one


@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5, 31, 32])
def test_kmers_of_fasta_and_fastq(run, written, block, k, canonical):
    rng = random.Random(k)
    sequences = [bytes(rng.choices(b"ACGTacgtNU", [9] * 8 + [1, 1], k=rng.randrange(200))) for _ in range(20)]
    fasta = b"".join(
        b">s %d\r\n" % i + b"".join(s[j : j + 60] + b"\n" for j in range(0, len(s), 60))
        for i, s in enumerate(sequences)
    )
    fastq = b"".join(b"@s\n%s\r\n+s\n%s\n" % (s, b"@" * len(s)) for s in sequences)
    counts = Counter(kmers(sequences, k, canonical))
    wanted = as_uniq(dict(sorted(counts.items())))
    flags = ["--k", k] + ["--canonical"] * canonical
    assert run("count", *flags, written("some.fa", fasta)).out == wanted
    assert run("count", *flags, written("some.fq.gz", gzip.compress(fastq))).out == wanted
    assert run("count", *flags, given=fastq[:-1]).out == wanted
    unique = run("unique", *flags, written("some.fa", fasta))
    assert unique.out.split() == list(counts)  # as they come
    best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    assert run("top", 5, *flags, written("some.fa", fasta)).out == as_uniq(dict(best))


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (b"ACGT\n", "line 1 begins neither with '>' (FASTA) nor with '@' (FASTQ)"),
        (b"@s\nACGT\n+\nIII\n", "line 4: a record of FASTQ has 4 bases and 3 qualities"),
        (b"@s\nACGT\nACGT\n+\nIIIIIIII\n", "line 3 does not begin with '+'"),
        (b"@s\nACGT\n+\nIIII\nACGT\n", "line 5 does not begin with '@'"),
        (b"@s\nACGT\n", "the file ends within a record of FASTQ, in line 3"),
        (b"@s\nACGT\n+\nII", "the file ends within a record of FASTQ, in line 4"),
    ],
)
def test_what_is_no_fasta_and_no_fastq_is_refused(run, written, block, contents, words):
    done = run("count", "--k", 3, written("some", contents))
    assert (done.status, done.out) == (2, b"")
    assert words in done.err


# ---- other formats of output -----------------------------------------------------------------------------------------


def test_csv_json_lines_and_parquet(run, written, tmp_path):
    path = written("some", 'a,b "c" \\ é a,b'.encode())
    assert run("count", path, "--to", "csv").out.decode().splitlines() == [
        "count,word", '2,"a,b"', '1,"""c"""', "1,\\", "1,é",
    ]  # fmt: skip
    import json

    found = [json.loads(line) for line in run("count", path, "--to", "jsonl").lines]
    assert found == [{"count": n, "word": word} for word, n in (("a,b", 2), ('"c"', 1), ("\\", 1), ("é", 1))]
    assert run("count", path, "--output", tmp_path / "out.parquet").status == 0
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == found
    assert run("unique", "--lines", written("blank", "a\n\nb"), "--to", "csv").lines == ["line", "a", '""', "b"]
    assert run("unique", written("empty", b""), "--output", tmp_path / "empty.csv").status == 0
    assert (tmp_path / "empty.csv").read_text() == "word\n"


def test_control_characters_in_json(run, written):
    import json

    path = written("some", b"a\x01\x1fb")
    assert json.loads(run("unique", path, "--to", "jsonl").out) == {"word": "a\x01\x1fb"}


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_bytes_that_are_no_text(run, written, tmp_path, to):
    path, out = written("some", b"ok \xff\xfe x\xc3 \xa9y"), tmp_path / "out"
    assert run("unique", path).out == b"ok\n\xff\xfe\nx\xc3\n\xa9y\n"
    done = run("unique", path, "--to", to, "--output", out)
    assert done.status == 2
    assert "is not UTF-8: pass --errors replace" in done.err
    assert not out.exists()
    assert run("unique", path, "--to", to, "--output", out, "--errors", "replace").status == 0
    if to == "jsonl":
        assert out.read_text().count("\ufffd") == 4


def test_arguments_of_the_splitter_are_checked():
    with pytest.raises(ValueError, match="pass uint8 of at least 9 elements"):
        _words.words(np.zeros(8, np.uint8), 9, True)
    with pytest.raises(ValueError, match="the block is int64"):
        _words.lines(np.zeros(8, np.int64), 8, True)


def test_input_that_comes_in_a_few_bytes_at_a_time(run, written, monkeypatch):
    whole = sources.Source.readinto
    monkeypatch.setattr(sources.Source, "readinto", lambda self, room: whole(self, room[:5]))
    data = text(11, 700)
    assert run("count", written("some", data)).out == as_uniq(Counter(words(data)))


def test_two_words_that_are_text_only_together(run, written):
    path = written("some", b"x \xc3 \xa9")
    done = run("unique", path, "--to", "jsonl")
    assert (done.status, done.out) == (2, b"")
    assert run("unique", path, "--to", "jsonl", "--errors", "replace").out.count("\ufffd".encode()) == 2
