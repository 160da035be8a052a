"""hive grows and shrinks where it is: by linear hashing, segment by segment, against a reference."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import pygpuhash as gh

OPTIONS = {"key_dtype": "uint32", "value_dtype": "uint32", "device": "cpu", "seed": 3}
# Segments of 64 KiB hold 8192 pairs of 4 + 4 bytes; a table of 16 of them and more grows where it is.
IN_PLACE = 120_000


def table(n: int, **options: object) -> gh.Table:
    return gh.Table("hive", capacity=n, **(OPTIONS | options))


def draw(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    return rng.choice(np.iinfo("uint32").max, n, replace=False).astype(dtype)


def same(t: gh.Table, there: np.ndarray, values: np.ndarray, absent: np.ndarray) -> None:
    t.check()
    assert len(t) == len(there)
    if t.value_dtype is None:
        assert t.contains(there).all()
    else:
        found_values, found = t.find(there)
        assert found.all()
        assert (found_values == values).all()
    assert not t.contains(absent).any()


@pytest.mark.usual_sizes("how many segments a step adds decides whether it ends inside of a round")
@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        ("uint32", "uint32", {}),
        ("uint64", "uint64", {"ways": 3}),
        ("uint64", None, {"bucket": 16, "stash": 0}),
        ("uint32", None, {"bucket": 32, "max_load_factor": 0.8}),
    ],
)
def test_rounds_up_and_down(key: str, value: str | None, options: dict) -> None:
    """From 2^10 keys on until three rounds of splitting are through, and back."""
    rng = np.random.default_rng(1)
    n = 1_500_000 if key == "uint32" and value else 700_000
    keys = draw(rng, n + 1000, key)
    absent, keys = keys[n:], keys[:n]
    values = keys * 7 if value else keys
    segments = []
    with table(1024, key_dtype=key, value_dtype=value, **options) as t:
        for end in [1000, 100_000, *range(170_000, n, 170_000), n]:
            have = len(t)
            new = keys[have:end]
            assert (t.insert(new, values[have:end]) if value else t.insert(new)).all()
            same(t, keys[:end], values[:end], absent)
            segments.append(int(t.stats()["segments"]))
            assert t.stats()["load_factor"] > 0.3 or end == 1000
        up = segments[-1]
        assert up > 60
        assert sorted(segments) == segments
        assert len({s for s in segments if s & (s - 1)}) >= 3, "some sizes are inside of a round"
        for end in [n * 3 // 4, n // 2, n // 3, n // 8, 5000]:
            gone = keys[end : len(t)]
            assert t.erase(gone).all()
            t.shrink()
            same(t, keys[:end], values[:end], gone[:1000])
            segments.append(int(t.stats()["segments"]))
        assert segments[-5:] == sorted(segments[-5:], reverse=True)
        assert segments[-2] < up / 3
        assert segments[-1] == 1


def test_a_step_adds_few_segments() -> None:
    """Batch by batch the table grows by what the batch needs, not by doubling."""
    keys = draw(np.random.default_rng(2), 1_000_000, "uint32")
    with table(IN_PLACE) as t:
        assert t.stats()["segments"] >= 16
        steps, before = [], t.stats()["segments"]
        for part in np.array_split(keys, 250):
            assert t.insert(part, part).all()
            now = t.stats()["segments"]
            steps.append((now - before) / before)
            before = now
        assert before > 120
        assert max(steps) < 0.5
        assert np.count_nonzero(steps) > 30
        same(t, keys, keys, np.uint32(1) + keys[:0])


def test_reserve_takes_all_at_once_and_shrink_gives_it_back() -> None:
    keys = draw(np.random.default_rng(4), 300_000, "uint32")
    with table(IN_PLACE) as t:
        assert t.insert(keys[:100_000], keys[:100_000]).all()
        small = t.stats()
        t.reserve(2_000_000)
        large = t.stats()
        assert large["segments"] > 8 * small["segments"]
        assert t.capacity >= 2_000_000
        same(t, keys[:100_000], keys[:100_000], keys[100_000:110_000])
        assert t.insert(keys[100_000:], keys[100_000:]).all()
        assert t.stats()["segments"] == large["segments"]
        t.shrink()
        assert t.stats()["segments"] < large["segments"] / 2
        assert t.stats()["bytes"] < large["bytes"] / 2
        same(t, keys, keys, np.uint32(1) + keys[:0])


def test_dead_slots_go_when_the_table_is_packed() -> None:
    keys = draw(np.random.default_rng(5), 200_000, "uint32")
    with table(200_000) as t:
        t.insert(keys, keys)
        segments = t.stats()["segments"]
        t.erase(keys[::2])
        assert t.stats()["dead"] > 90_000
        t.flush()
        assert t.stats()["dead"] == 0
        assert t.stats()["segments"] == segments
        same(t, keys[1::2], keys[1::2], keys[::2])
        t.clear()
        assert len(t) == 0
        t.insert(keys, keys)
        same(t, keys, keys, np.uint32(1) + keys[:0])


def test_threads_that_insert_find_and_erase_while_it_grows() -> None:
    rng = np.random.default_rng(6)
    keys = draw(rng, 800_000, "uint32")
    fixed, rest = keys[:100_000], np.array_split(keys[100_000:], 4)
    wrong: list[str] = []
    with table(IN_PLACE) as t:
        t.insert(fixed, fixed)
        begin = t.stats()["segments"]
        done = threading.Event()

        def insert(part: np.ndarray) -> None:
            for piece in np.array_split(part, 20):
                if not t.insert(piece, piece).all():
                    wrong.append("a new key was there")
                if not t.erase(piece[::2]).all():
                    wrong.append("a key was lost")

        def look() -> None:
            while not done.is_set():
                values, found = t.find(fixed)
                if not found.all() or (values != fixed).any():
                    wrong.append("a key that no thread touches was not found")

        def shrink() -> None:
            while not done.wait(0.02):
                t.shrink()

        workers = [threading.Thread(target=insert, args=(part,)) for part in rest]
        others = [threading.Thread(target=look), threading.Thread(target=shrink)]
        for thread in workers + others:
            thread.start()
        for thread in workers:
            thread.join()
        done.set()
        for thread in others:
            thread.join()
        assert not wrong, wrong[:3]
        left = np.concatenate([fixed, *(piece[1::2] for part in rest for piece in np.array_split(part, 20))])
        same(t, left, left, rest[0][::2][:0])
        assert t.stats()["segments"] > 2 * begin


def hashes(keys: np.ndarray) -> np.ndarray:
    """The first hash of keys of 4 bytes, in a table with seed 3."""
    k = keys ^ np.uint32(3)
    k ^= k >> np.uint32(16)
    k *= np.uint32(0x85EBCA6B)
    k ^= k >> np.uint32(13)
    k *= np.uint32(0xC2B2AE35)
    return k ^ k >> np.uint32(16)


@pytest.mark.usual_sizes("how far a table contracts depends on the length of its steps")
def test_segments_that_are_too_full_are_not_merged() -> None:
    """All keys in one segment of the first round and what it was split into: the others give way, these stay."""
    keys = np.arange(1, 3_000_000, dtype=np.uint32)
    with table(IN_PLACE) as t:
        base = int(t.stats()["segments"])
        assert base < 32
        few = keys[hashes(keys).astype(np.uint64) * np.uint64(base) >> np.uint64(32) == 5][:125_000]
        t.reserve(4_000_000)
        grown = t.stats()["segments"]
        assert t.insert(few, few).all()
        assert t.stats()["segments"] == grown
        t.shrink()
        assert 2 * base < t.stats()["segments"] < grown / 2
        same(t, few, few, np.arange(1 << 31, (1 << 31) + 1000, dtype=np.uint32))
        assert t.erase(few[::2]).all()
        t.shrink()
        assert t.stats()["segments"] < grown / 4
        same(t, few[1::2], few[1::2], few[::2])


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_what_shrink_gives_back_the_system_has() -> None:
    keys = np.arange(IN_PLACE, dtype=np.uint32)
    with table(IN_PLACE) as t:
        t.insert(keys, keys)
        t.reserve(8_000_000)
        large, held = t.nbytes, resident()
        t.shrink()
        assert t.stats()["segments"] >= 16, "or else it lies somewhere else now"
        assert large - t.nbytes > 60 << 20
        assert held - resident() > 0.9 * (large - t.nbytes)


def in_a_process_with(limit: str, amount: int, body: str) -> str:
    """What a process prints whose address space (AS) or data (DATA) may grow by so many bytes."""
    program = f"""
        import resource
        import numpy as np, pygpuhash as gh
        gh.Table("hive", capacity=10, key_dtype="uint32", value_dtype="uint32", device="cpu").close()
        keys = np.random.default_rng(1).permutation(1 << 21).astype(np.uint32)
        def bounded():
            field = {{"AS": 0, "DATA": 5}}["{limit}"]
            now = int(open("/proc/self/statm").read().split()[field]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_{limit}, (now + {amount}, resource.RLIM_INFINITY))
        def table(n, **options):
            return gh.Table("hive", capacity=n, key_dtype="uint32", value_dtype="uint32", device="cpu", threads=1,
                            seed=3, **options)
    """
    text = textwrap.dedent(program) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_growth_that_fails_for_lack_of_memory_leaves_the_table_as_it_was() -> None:
    said = in_a_process_with(
        "DATA",
        12 << 20,
        """
        t = table(120_000)
        t.insert(keys[:100_000], keys[:100_000])
        bounded()
        there, failed = 0, None
        for part in np.array_split(keys[100_000:], 200):
            try:
                t.insert(part, part)
            except (gh.NoMemory, gh.TableFull) as e:
                failed = e
                break
        assert failed is not None
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        t.check()
        assert t.find(keys[:100_000])[1].all()
        n = len(t)
        assert n > 150_000, n
        more = keys[:1_000_000]
        t.insert(more, more)
        t.check()
        values, found = t.find(more)
        assert found.all() and (values == more).all()
        print(type(failed).__name__)
        """,
    )
    assert said.strip() in ("NoMemory", "HeapFull", "TableFull")


@pytest.mark.parametrize("more", [20 << 20, 400 << 20])
def test_without_address_space_it_is_rebuilt(more: int) -> None:
    """Nothing can be reserved, or so little that the table outgrows it."""
    said = in_a_process_with(
        "AS",
        more + (150 << 20),
        """
        bounded()
        with table(120_000) as t:
            for part in np.array_split(keys[:1_000_000], 20):
                t.insert(part, part)
            t.check()
            assert t.find(keys[:1_000_000])[1].all()
            assert not t.find(keys[1_000_000:1_100_000])[1].any()
            print(t.stats()["segments"])
        """,
    )
    assert float(said) > 100


TOO_MUCH = [(1 << 36, "capacity 68719476736 is too large for this table's layout"), (1 << 62, "overflow the address")]


@pytest.mark.parametrize(("n", "words"), TOO_MUCH, ids=["layout", "address"])
def test_reserve_of_more_than_its_layout_has(n: int, words: str) -> None:
    """It is refused with a sentence, and the table is as before, and grows."""
    keys = draw(np.random.default_rng(9), 400_000, "uint32")
    with table(IN_PLACE) as t:
        assert t.insert(keys[:100_000], keys[:100_000]).all()
        before, held = t.stats(), dict(t.info)
        with pytest.raises(gh.InvalidArgument, match=words):
            t.reserve(n)
        assert t.stats() == before
        assert dict(t.info) == held
        same(t, keys[:100_000], keys[:100_000], keys[100_000:200_000])
        assert t.insert(keys[100_000:], keys[100_000:]).all()
        same(t, keys, keys, np.uint32(1) + keys[:0])


def test_reserve_of_more_than_its_address_space() -> None:
    """What was reserved is outgrown by a rebuild; what cannot be had at all is refused, and the table is as before."""
    said = in_a_process_with(
        "AS",
        60 << 20,
        """
        def unbounded():
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        def whole(present):
            t.check()
            values, found = t.find(keys[:present])
            assert found.all() and (values == keys[:present]).all()
            assert not t.find(keys[1_900_000:])[1].any()
        bounded()
        t = table(120_000)
        t.insert(keys[:100_000], keys[:100_000])
        before = t.stats()
        try:
            t.reserve(1 << 26)
            print("reserved")
        except gh.NoMemory as e:
            assert "bytes for the table could not be allocated" in str(e), e
        assert t.stats() == before
        whole(100_000)
        unbounded()
        t.reserve(8_000_000)
        assert t.capacity >= 8_000_000
        whole(100_000)
        t.insert(keys[:1_000_000], keys[:1_000_000])
        whole(1_000_000)
        t.shrink()
        whole(1_000_000)
        print(t.stats()["segments"])
        """,
    )
    assert float(said) > 100


@pytest.mark.slow
def test_ten_million_operations_while_it_grows_and_shrinks() -> None:
    """Mixed operations while the table grows from 2^12 to 2^22 keys, and shrinks again."""
    rng = np.random.default_rng(8)
    space = 1 << 23
    value = np.zeros(space, np.uint32)  # 0: absent
    done, sizes = 0, []
    with table(4096) as t:
        for target in [1 << b for b in range(12, 23)] + [1 << b for b in range(21, 11, -1)]:
            for _ in range(4):
                n = max(target // 2, 60_000)
                keys = np.unique(rng.integers(1, space, n)).astype(np.uint32)
                present = value[keys] != 0
                grows = np.count_nonzero(value) < target
                ops = np.where(rng.random(len(keys)) < (0.85 if grows else 0.1), gh.Op.ASSIGN, gh.Op.ERASE).astype(
                    np.uint8
                )
                ops[rng.random(len(keys)) < 0.1] = gh.Op.FIND
                operands = rng.integers(1, 1 << 31, len(keys)).astype(np.uint32)
                values, ok = t.execute(ops, keys, operands)
                finds, assigns, erases = ops == gh.Op.FIND, ops == gh.Op.ASSIGN, ops == gh.Op.ERASE
                assert (ok[finds] == present[finds]).all()
                assert (values[finds & present] == value[keys[finds & present]]).all()
                assert (ok[erases] == present[erases]).all()
                value[keys[assigns]] = operands[assigns]
                value[keys[erases]] = 0
                done += len(keys)
            if np.count_nonzero(value) > 2 * target:
                gone = np.flatnonzero(value)[target:].astype(np.uint32)
                assert t.erase(gone).all()
                value[gone] = 0
                done += len(gone)
                t.shrink()
            there = np.flatnonzero(value).astype(np.uint32)
            same(t, there, value[there], np.flatnonzero(value == 0)[1:100_000].astype(np.uint32))
            sizes.append(t.stats()["segments"])
    assert done > 10_000_000
    steps = np.diff(sizes)
    assert (steps > 0).sum() >= 5, sizes  # a batch grows the table once, for all of its keys
    assert (steps < 0).sum() >= 4, sizes


@pytest.mark.slow
def test_eight_rounds_of_linear_hashing_up_and_down() -> None:
    """To 256 times as many segments and back, with mixed operations and check() after each doubling and halving."""
    rng = np.random.default_rng(11)
    most = 1 << 25
    key_of = np.arange(most, dtype=np.uint32) * np.uint32(2654435761)  # all different
    value = key_of.copy()  # of key number i; those of numbers below `live` are there
    live, done, segments = 0, 0, []
    with table(IN_PLACE) as t:
        base = int(t.stats()["segments"])

        def mixed(n: int) -> None:
            """Find, assign and erase n keys of the first `live`, and put those that were erased back."""
            at = rng.permutation(live)[:n]
            ops = rng.choice(np.array([gh.Op.FIND, gh.Op.ASSIGN, gh.Op.ERASE], np.uint8), len(at))
            operands = rng.integers(0, 1 << 32, len(at), dtype=np.uint32)
            values, ok = t.execute(ops, key_of[at], operands)
            finds, assigns, erases = ops == gh.Op.FIND, ops == gh.Op.ASSIGN, ops == gh.Op.ERASE
            assert (ok == ~assigns).all()
            assert (values[finds] == value[at[finds]]).all()
            value[at[assigns]] = operands[assigns]
            assert not t.find(key_of[at[erases]])[1].any()
            assert t.insert(key_of[at[erases]], value[at[erases]]).all()

        for target in [1 << b for b in range(17, 26)] + [1 << b for b in range(24, 16, -1)]:
            grows, begin, end = target > live, min(live, target), max(live, target)
            for part in np.array_split(np.arange(begin, end), 8):
                assert (t.insert(key_of[part], value[part]) if grows else t.erase(key_of[part])).all()
            live = target
            if not grows:
                t.shrink()
            mixed(800_000)
            done += min(800_000, live)
            t.check()
            assert len(t) == live
            values, found = t.find(key_of[:live])
            assert found.all()
            assert (values == value[:live]).all()
            assert not t.contains(key_of[live : live + 1_000_000]).any()
            segments.append(int(t.stats()["segments"]))
    top = segments.index(max(segments))
    assert done > 10_000_000
    assert segments[top] >= 256 * base, segments
    assert segments[-1] <= 2 * base, segments
    assert segments[: top + 1] == sorted(segments[: top + 1])
    assert segments[top:] == sorted(segments[top:], reverse=True)
