"""Every option of slab_hash, and what is refused."""

import itertools
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pygpuhash as gh

OPTIONS = {
    "buckets": [1, 1000],
    "utilization": [0.05, 0.3, 0.9],
    "allocator": ["slab_alloc", "slab_alloc_light"],
    "slab_bytes": ["auto", 64, 128, 256],
    "duplicates": [0, 1],
    "hash": ["murmur", "paper"],
    "tile": ["auto", 32],
}


def exercise(table, rng):
    """All operations once; table is empty before and after."""
    keys = rng.permutation(10_000).astype(table.key_dtype)
    values = None if table.value_dtype is None else (keys * 3).astype(table.value_dtype)
    assert table.insert(keys, values).all()
    assert not table.insert(keys, values).any()
    found_values, found = table.find(keys)
    assert found.all()
    assert values is None or (found_values == values).all()
    assert not table.contains((keys + 10_000).astype(table.key_dtype)).any()
    table.check()
    assert table.erase(keys[::2]).all()
    assert table.contains(keys).tolist() == [i % 2 == 1 for i in range(len(keys))]
    table.flush()
    assert table.contains(keys).tolist() == [i % 2 == 1 for i in range(len(keys))]
    assert table.erase_all(keys).sum() == len(keys) // 2
    assert len(table) == 0
    table.check()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in OPTIONS.items() for v in values])
def test_each_option(make, rng, name, value):
    exercise(make(**{name: value}), rng)


@pytest.mark.parametrize(("slab_bytes", "allocator"), list(itertools.product([64, 128, 256], OPTIONS["allocator"])))
def test_every_width_in_every_slab(make, rng, widths, slab_bytes, allocator):
    exercise(make(**widths, slab_bytes=slab_bytes, allocator=allocator, utilization=0.8), rng)


@pytest.mark.parametrize(
    ("device", "value", "utilization", "slots"),
    [
        ("cpu", "uint32", 0.6, 15),
        ("cpu", "uint32", 0.9, 15),
        ("cpu", "uint64", 0.6, 7),
        ("cpu", "uint64", 0.9, 15),
        ("cpu", "uint64", 0.874, 7),
        ("cpu", "uint64", 0.875, 15),  # 7 of 8: what slabs of 128 bytes could only come near to
        pytest.param("cuda:0", "uint32", 0.6, 7, marks=pytest.mark.gpu),
        pytest.param("cuda:0", "uint32", 0.8, 15, marks=pytest.mark.gpu),
        pytest.param("cuda:0", "uint64", 0.6, 7, marks=pytest.mark.gpu),
    ],
)
def test_slabs_are_chosen_by_device_width_and_utilization(make, device, value, utilization, slots):
    """128 bytes; 64 where that is faster; 256 where no shorter slab can reach the utilization."""
    table = make(device=device, key_dtype="uint32", value_dtype=value, utilization=utilization)
    assert table.stats()["slab_slots"] == slots


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": 0}, "buckets"),
        ({"buckets": 2**32 + 1}, "buckets"),
        ({"utilization": 0.95}, "utilization"),
        ({"utilization": "nan"}, "utilization"),
        ({"allocator": "malloc"}, "slab_alloc"),
        ({"slab_bytes": 96}, "auto|64|128|256"),
        ({"duplicates": 2}, "duplicates"),
        ({"hash": "md5"}, "murmur"),
        ({"tile": 16}, "auto|32"),
    ],
)
def test_values_that_are_refused(make, options, message):
    with pytest.raises(gh.InvalidArgument) as caught:
        make(**options)
    assert message in str(caught.value)


def test_an_unknown_option_suggests_a_known_one(make):
    with pytest.raises(gh.NotFound, match="utilization"):
        make(utilisation=0.5)


def test_more_buckets_than_the_key_width_allows(make):
    with pytest.raises((gh.InvalidArgument, gh.NoMemory)):
        make(key_dtype="uint32", buckets=2**32)


def test_the_papers_hash_reads_all_of_a_long_key(make, rng):
    """Keys that differ in their upper halves only must not share one bucket."""
    keys = np.unique(rng.integers(0, 2**32, 5000, np.uint64)) << np.uint64(32)
    table = make(hash="paper", buckets=1000)
    table.insert(keys, 1)
    assert table.stats()["chain_max"] <= 4  # 5 keys to a bucket on average, 7 to a slab
    assert table.contains(keys).all()


def test_one_bucket_is_a_slab_list(make):
    """The paper's slab list is the table of one bucket: all keys in one chain, none lost."""
    table = make(key_dtype="uint32", value_dtype="uint32", buckets=1)
    keys = np.arange(3000, dtype=np.uint32)
    table.insert(keys, keys)
    assert table.stats()["chain_max"] == 3000 / 15
    assert (table[keys] == keys).all()


def test_numbers_have_a_point_in_every_locale(tmp_path):
    """As programs have it that follow their user's locale, where a number may have a comma."""
    made = tmp_path / "de_DE.UTF-8"
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed")
    done = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(made)], capture_output=True, text=True)
    if not made.exists():
        pytest.skip(f"localedef knows no locale with a comma: {done.stderr.strip()}")
    program = (
        "import locale, pygpuhash as gh\n"
        "locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')\n"
        "assert locale.localeconv()['decimal_point'] == ','\n"
        "for backend, option in (('slab_hash', 'utilization'), ('hive', 'stash'), ('skiplist', 'merge')):\n"
        "    gh.Table(backend, device='cpu', **{option: 0.25}).close()\n"
        "try:\n"
        "    gh.Table('slab_hash', device='cpu', utilization='0,5')\n"
        "except gh.InvalidArgument as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "LOCPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "option utilization=0,5: give a number from" in done.stdout


@pytest.mark.parametrize(
    ("backend", "option", "taken", "refused"),
    [
        (
            "linear_probe",
            "probe_limit",
            ["128", "2147483648"],
            ["127", "2147483649", "200x", "-200", str(200 - 2**64), "", "2e3"],
        ),
        ("slab_hash", "utilization", ["0.05", "0.94"], ["0.04", "0.941", "0.5x", "nan", ""]),
        ("hive", "stash", ["0", "0.25"], ["-0.1", "0.251", "x"]),
        ("skiplist", "merge", ["0", "0.5"], ["0.51", "inf"]),
    ],
)
def test_both_ends_of_a_number_and_nothing_beyond(backend, option, taken, refused):
    for text in taken:
        gh.Table(backend, device="cpu", **{option: text}).close()
    for text in refused:
        with pytest.raises(gh.InvalidArgument, match=f"option {option}={text}: give a "):
            gh.Table(backend, device="cpu", **{option: text})


@pytest.mark.parametrize(
    ("backend", "option", "word"),
    [
        ("linear_probe", "hash", "blog"),
        ("hive", "claim", "commit"),
        ("slab_hash", "allocator", "slab_alloc"),
        ("slab_hash", "duplicates", "1"),
        ("skiplist", "build", "never"),
    ],
)
def test_whole_words_only(backend, option, word):
    gh.Table(backend, device="cpu", **{option: word}).close()
    for text in {word[:-1], word[1:], f"{word}x", f" {word}", f"{word}|", "|", ""}:
        with pytest.raises(gh.InvalidArgument, match=rf"option {option}={re.escape(text)}: choose one of "):
            gh.Table(backend, device="cpu", **{option: text})
