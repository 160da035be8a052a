"""Batches of several threads on one table, exclusive operations among them."""

import threading

import numpy as np
import pytest

N, THREADS, ROUNDS = 4000, 4, 12


def together(work, n=THREADS):
    """Run work(i) in n threads; the first exception is raised here."""
    failures = []

    def run(i):
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("options", [{}, {"buckets": 16}, {"buckets": 16, "allocator": "slab_alloc_light"}])
def test_threads_with_keys_of_their_own(make, options):
    table = make(threads=1, **options)

    def work(i):
        keys = np.arange(N, dtype=np.uint64) * THREADS + np.uint64(i)
        for r in range(ROUNDS):
            assert table.insert(keys, keys + r).all()
            assert (table[keys] == keys + r).all()
            assert table.erase(keys[::2]).all()
            assert table.contains(keys).tolist() == [j % 2 == 1 for j in range(N)]
            if i == 0 and r % 4 == 1:
                table.flush()
            assert table.erase(keys[1::2]).all()

    together(work)
    assert len(table) == 0


def test_one_of_all_threads_inserts_each_key(make):
    """Appends to the same chains at the same time: one slab is linked, the others go back (S4, S5)."""
    table = make(threads=1, buckets=2)
    inserted = np.zeros(N, np.int64)
    lock = threading.Lock()

    def work(i):
        mine = table.insert(np.roll(np.arange(N, dtype=np.uint64), i * 100), i)
        with lock:
            np.add(inserted, np.roll(mine, -i * 100), out=inserted)

    together(work)
    assert (inserted == 1).all()
    assert len(table) == N
    stats = table.stats()
    assert stats["heap_taken"] <= N / 7 + 2


def test_a_key_that_is_there_all_the_time_is_always_found(make):
    """Duplicates: one pair of the key is erased and inserted over and over, another stays."""
    table = make(threads=1, duplicates=1, buckets=1)
    keys = np.arange(20, dtype=np.uint64)
    table.insert_multi(keys, 1)
    stop = threading.Event()

    def work(i):
        if i == 0:
            for _ in range(60):
                table.insert_multi(keys, 2)
                table.erase(keys)
            stop.set()
        while not stop.is_set():
            assert table.contains(keys).all()

    together(work, 3)
    assert (table.count(keys) == 1).all()


def test_find_all_while_others_write(make):
    table = make(threads=1, duplicates=1)
    keys = np.arange(50, dtype=np.uint64)

    def work(i):
        for r in range(ROUNDS * 4):
            if i:
                table.insert_multi(keys, np.full(50, i * 1000 + r, np.uint64))
            else:
                offsets, values = table.find_all(keys)
                assert offsets[-1] == len(values)
                assert len(set(values.tolist())) <= (THREADS - 1) * ROUNDS * 4

    together(work)
    assert (table.count(keys) == (THREADS - 1) * ROUNDS * 4).all()


def test_growth_under_reading_and_writing_threads(make):
    table = make(threads=1)
    stable = np.arange(1000, dtype=np.uint64) + np.uint64(2**40)
    table.insert(stable, stable)

    def work(i):
        for r in range(ROUNDS):
            if i % 2:
                first = (i * ROUNDS + r) * N
                assert table.insert(np.arange(first, first + N, dtype=np.uint64), 1).all()
            else:
                assert (table[stable] == stable).all()

    together(work)
    assert len(table) == 1000 + N * ROUNDS * THREADS // 2
    assert table.info["rebuilds"] > 0
