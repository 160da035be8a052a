"""What the papers claim of each figure, and which check of judges.py tells whether it holds for ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .judges import (
    Judged,
    Rows,
    active_lanes,
    beats_classic,
    beside_lists,
    clustering_at_low_load,
    crc_is_slower,
    crc_is_uniform,
    drop_beyond_65,
    early_steps,
    fastest,
    incremental,
    lanes_pay_at_high_load,
    lanes_pay_on_the_card,
    larger_tickets_help,
    little_lost,
    mixtures_of_slabs,
    probes,
    reached_load,
    resizing_gain,
    sixteen_warps,
    slower_as_it_fills,
    slower_when_small,
    speedups,
    stash_at_the_end,
    static_is_faster,
    steady_mixture,
    tickets_help_behind_a_bus,
    tickets_help_wide_pairs,
    together,
    two_hashes_win,
    utilisation_by_beta,
    wider_is_slower,
)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper about a figure."""

    structure: str
    figure: str
    text: str
    where: str  # in the paper
    check: Callable[[Rows], Judged] | None  # None: no program of ours measures it
    unlike: str = ""  # of ours, for a claim that does not hold or is not measured
    gpu_only: str = ""  # why a CPU has no such figure


PAPERS = {
    "slab_hash": ("Ashkiani, Farach-Colton, Owens, A Dynamic Hash Table for the GPU (2018)", "Tesla K40c, 288 GB/s"),
    "linear_probe": ("Farrell, A Simple GPU Hash Table (2020)", "not named"),
    "hive": ("Polak, Troendle, Jang, Hive Hash Table", "GeForce RTX 4090, 1,008 GB/s"),
    "skiplist": ("Moscovici, Cohen, Petrank, A GPU-Friendly Skiplist Algorithm (2017)", "GeForce GTX 970, 224 GB/s"),
    "stadium": ("Khorasani and others, Stadium Hashing (2015)", "GeForce GTX 780, PCI Express 3.0"),
}


# What is unlike the paper; why a claim does not hold has to be examined, not guessed.
NO_BUS = "a CPU's memory is that of the host, no bus lies between"
NO_CUCKOO = "the cuckoo table beside it is written for CUDA"
PEER = "the static table beside it is linear_probe, not CUDPP's cuckoo table"

CLAIMS = (
    Claim("slab_hash", "4a", "best at 19 to 60 % utilisation, a sudden drop at 65 %", "VI.A", drop_beyond_65("build")),
    Claim("slab_hash", "4a", "a static table builds 1.33 times as fast", "VI.A", static_is_faster("build"), PEER),
    Claim(
        "slab_hash",
        "4b",
        "the same drop in searches",
        "VI.A",
        drop_beyond_65("all exist", "none exist"),
        "existing keys are mostly in a list's first slab: at 0.70 they lose 9 % of the best rate, absent ones 37 %",
    ),
    Claim(
        "slab_hash",
        "4b",
        "a static table finds 2.08 (all exist), 2.04 times (none) as fast",
        "VI.A",
        static_is_faster("all exist", "none exist"),
        PEER,
    ),
    Claim("slab_hash", "4c", "60 % at an average slab count of 0.7, at most 94 %", "VI.A", utilisation_by_beta),
    Claim(
        "slab_hash",
        "5",
        "a static table is faster by 1.19 (build), 1.19 (all exist), but 0.94 (none)",
        "VI.A",
        static_is_faster("build", "all exist", "none exist"),
        PEER,
    ),
    Claim(
        "slab_hash",
        "6",
        "batches beat rebuilding by 6.4 (128k), 10.4 (64k), 17.3 (32k)",
        "VI.B",
        incremental,
        "a batch of 32k takes 53 us there, one of 128k 96 us: of either, 39 us are what any call takes; and "
        "64 rebuilds take no longer than 32 (11.3, 11.7 ms), which is not examined",
    ),
    Claim("slab_hash", "7", "fewer updates are faster; a sharp drop beyond 65 %", "VI.C", mixtures_of_slabs),
    Claim(
        "slab_hash",
        "7b",
        "5.1, 4.3, 3.1 times as fast as a lock-free table of linked lists (100, 40, 20 % updates)",
        "VI.C",
        beside_lists,
        "not examined",
    ),
    Claim(
        "linear_probe",
        "table",
        "20.7 times slower at a load of 0.94 than at 0",
        "Linear Probing Problems",
        slower_as_it_fills,
    ),
    Claim("linear_probe", "probe", "at 0.50: mean 0.4774, longest 60", "Linear Probing Problems", probes(0.5, 0.4774)),
    Claim(
        "linear_probe",
        "probe",
        "at 0.97: mean 10.1757, longest 6,474",
        "Linear Probing Problems",
        probes(0.96875, 10.1757),
        "124/128 of the slots; (1/(1-a) - 1)/2, what Knuth derives for random keys, is 15.5",
    ),
    Claim("hive", "3", "CRC has a CSR of about 1 at all sizes", "III.C", crc_is_uniform),
    Claim(
        "hive",
        "3",
        "BitHash and CityHash cluster mildly at low loads (CSR < 1)",
        "III.C",
        clustering_at_low_load,
        "of random keys, ours are uniform; which keys the paper has is not said",
    ),
    Claim(
        "hive",
        "5",
        "two hash functions beat three",
        "V.B",
        two_hashes_win,
        "a CPU: repeats of one pair differ up to twofold; by the processor time of one thread, least of 7 on a Zen 4, "
        "the best pair takes .94 (2^18 keys) and .92 (2^20) of the time of the best triple. A GPU: at a load of .95 "
        "evictions take 31 % of an insert's time with two buckets of 8 slots (9), where the paper's have 32; with a "
        "third bucket 20 to 33 of 2^20 keys go to the stash, not 560 to 596",
    ),
    Claim(
        "hive",
        "5",
        "pairs of CRC are slower by 12 to 25 %",
        "V.B",
        crc_is_slower,
        "a CPU: with 2^20 keys the repeats differ twofold (.68 in the median), with 2^21 and 2^22 it is .92 and .95; "
        "by the processor time of one thread, least of 7 on a Zen 4, it is .84 with 2^20",
    ),
    Claim(
        "hive",
        "6",
        "inserts at 0.95: the fastest of four tables, by 2.5 to 4",
        "V.C",
        fastest,
        "beside linear_probe",
    ),
    Claim("hive", "7", "finds at 0.95: the fastest of four tables", "V.C", fastest, "beside linear_probe"),
    Claim("hive", "8", "a mixture: stable after a decline, 2,611 down to 1,796 M/s", "V.C", steady_mixture),
    Claim(
        "hive",
        "9",
        "up to 0.75, steps 1 and 2 take more than 95 % of the time",
        "V.D",
        early_steps,
        "a CPU: it holds at 0.55 and 0.65; at 0.75 one insert of 92 evicts, which takes 10 % of the time",
    ),
    Claim(
        "hive",
        "9",
        "the stash takes 41 % at 0.97",
        "V.D",
        stash_at_the_end,
        "evictions find room: on a CPU no element goes to the stash, or a few, on a GPU 43,231 of 16,273,899",
    ),
    Claim("hive", "load", "loads of 0.95 are sustained", "I, VI", reached_load),
    Claim(
        "hive",
        "resizing",
        "resizing is 3 to 4 times as fast as that of a slab hash",
        "V.A",
        resizing_gain,
        "beside a rebuild of ours",
    ),
    Claim(
        "skiplist",
        "II",
        "16 warps of a block are best: 65.7 of 52.9 to 65.7 M/s",
        "V.A",
        sixteen_warps,
        gpu_only="a CPU has no blocks",
    ),
    Claim(
        "skiplist",
        "8",
        "up to 47 % slower than a node per key in a range of 10^4, 27 to 1,064 % faster in large ones",
        "V.B",
        slower_when_small,
        "in the paper a warp serves one operation of its own and 32 of the other list's, on a CPU a thread "
        "serves one of either. A GPU: in a range of 10^4 slower by 37, 25 % with 2, 10 % of updates, faster by 1.2, "
        "2.0 with 20, 40 %; in the paper slower by 15 to 47 % with up to 20 %, and faster by 8 % with 40 %",
    ),
    Claim(
        "skiplist",
        "9",
        "from 10^6 to 10^7, at most 8 % are lost",
        "V.B",
        little_lost,
        "a CPU: with 98, 90, 80, 60 % of finds 8.4, 15.3, 2.2, 8.2 % are lost (a run of three repeats); not examined. "
        "A GPU: 10^6 keys "
        "of 8 bytes are within the 50 MB of this card's second cache and 10^7 are not; of the paper's 1.75 MB both are "
        "beyond",
    ),
    Claim(
        "skiplist",
        "10",
        "finds are faster than a node per key by up to 4.4",
        "V.B",
        beats_classic("find"),
    ),
    Claim(
        "skiplist",
        "10",
        "inserts by 3.5 to 9.1",
        "V.B",
        beats_classic("insert"),
        "slower in a range of 10^4, where threads meet on few chunks and a batch has three pieces for 16 threads; "
        "faster by 1.3, 2.5, 4.3, 6.3, 7.2, 9.0 from 3 * 10^4 on. Before ADR 61, by which updates do not take shared "
        "chunks away from one another, 0.8 to 1.5",
    ),
    Claim(
        "skiplist",
        "10",
        "erases by 3.5 to 12.6",
        "V.B",
        beats_classic("erase"),
        "faster by 1.1, 1.9, 3.1, 4.4, 5.8, 6.6, 7.6 from 10^4 to 10^7; before ADR 61 by 0.8 to 1.1",
    ),
    Claim(
        "stadium",
        "13",
        "collaborative lanes are slower while the table is empty, and faster beyond a threshold",
        "III.C",
        lanes_pay_at_high_load,
        "lanes do not bound it: with collaborating ones 50 to 55 % are active, not 34 to 44 (table I), and "
        "the batch is slower",
        "a CPU serves both alike",
    ),
    Claim(
        "stadium",
        "14",
        "finds beside a cuckoo table, all exist: 1.04 to 1.19 times",
        "IV.A",
        speedups("retrieve", 1.0),
        "a state takes two bits of a ticket, the paper's one: tickets of 2 bits name no key, and each taken "
        "slot of a path is read; with 8 bits the factor is .90 to 1.11, more keys having the lower one",
        NO_CUCKOO,
    ),
    Claim(
        "stadium",
        "14",
        "half exist: 1.55 to 1.65 times",
        "IV.A",
        speedups("retrieve, half absent", 1.0),
        "tickets of 2 bits name no key, as above: an absent one reads each taken slot of its path, at .8 four "
        "of five; with 8 bits it holds",
        NO_CUCKOO,
    ),
    Claim(
        "stadium",
        "15",
        "inserts and finds together: 96.8 % of the speed of both apart",
        "IV.A",
        together,
        "finds alone are served in a way that mixed batches lack: by one thread of a Zen 4 (2^20 of each) "
        "both apart take 72.8 ms, each kind alone as a mixed batch is served 88.3, mixed 85.7",
    ),
    Claim(
        "stadium",
        "16",
        "in host memory, all exist: 1.25 to 1.75 times a cuckoo table",
        "IV.A",
        speedups("retrieve", 1.0, order="in windows"),
        "tickets of 2 bits name no key, as in 14; with 4 and 8 bits it holds",
        NO_CUCKOO,
    ),
    Claim(
        "stadium",
        "16",
        "half exist: 1.23 to 2.47 times",
        "IV.A",
        speedups("retrieve, half absent", 1.0, order="in windows"),
        "tickets of 2 bits name no key, as in 14; with 4 and 8 bits it holds",
        NO_CUCKOO,
    ),
    Claim(
        "stadium",
        "17",
        "larger tickets are faster at absent keys in host memory (3.99, 3.23, 1.59)",
        "IV.A",
        larger_tickets_help,
        "a CPU: of keys that are looked for in windows, tickets of 4 and 2 bits are alike; as keys come it holds",
    ),
    Claim(
        "stadium",
        "18",
        "in host memory, tickets help, and larger ones more",
        "IV.B",
        tickets_help_behind_a_bus,
    ),
    Claim(
        "stadium",
        "18",
        "in device memory, collaborative lanes are faster at inserts",
        "IV.B",
        lanes_pay_on_the_card,
        "as in 13; on a CPU both are one",
    ),
    Claim("stadium", "19", "inserts are slower with wider keys and values (a)", "IV.C", wider_is_slower("insert")),
    Claim(
        "stadium",
        "19",
        "finds and erases, too (c)",
        "IV.C",
        wider_is_slower("retrieve", "retrieve, half absent", "delete"),
    ),
    Claim(
        "stadium",
        "19b",
        "in host memory inserts are slower with wider keys and values: the bus limits them (b)",
        "IV.C",
        wider_is_slower("insert"),
        gpu_only=NO_BUS,
    ),
    Claim(
        "stadium",
        "19b",
        "in host memory larger tickets are the more necessary, the wider keys and values are (d)",
        "IV.C",
        tickets_help_wide_pairs,
        gpu_only=NO_BUS,
    ),
    Claim(
        "stadium",
        "I",
        "lanes that are active: cuckoo 22 to 25, Stash 41 to 49, clStash 86 to 88 %",
        "IV.A, table I",
        active_lanes,
        "the profiler counts the same, threads in an instruction, but of other inserts. clStash here: a warp has "
        "256 elements and empties its stack at their end, where the paper's goes on as long as there are pairs; "
        "in a model of the warps (asv_bench.harness.stadium_lanes, loads .8 and .95) 83 and 72 % of lanes have a "
        "job in a visit, with 4,096 elements 99 and 98 %. And an insert here looks whether its key is there: in "
        "62 and 64 % of visits 7 % of the lanes compare a key while the others wait, which the paper's inserts "
        "(figure 12), which only reserve, never do. Cuckoo and Stash, whose warps end with their slowest lane in "
        "both, are within 7 points of the paper's",
        gpu_only="a CPU has no lanes",
    ),
)
