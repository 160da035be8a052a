"""What the papers claim of each figure, and how it is judged from the rows of ours.

A check gets the rows of a figure's JSON file and says what they show and whether the claim holds: the shape, a factor
or where curves cross, never a rate, which is of another machine. None: the rows cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

Rows = Sequence[dict[str, Any]]
Judged = tuple[str, bool | None]


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


def values(rows: Rows, column: str, **like: Any) -> list[float]:
    """A column of the rows that are like this. A condition is a value, or a function of it."""

    def matches(row: dict[str, Any]) -> bool:
        return column in row and all(
            name in row and (want(row[name]) if callable(want) else row[name] == want) for name, want in like.items()
        )

    found = [row[column] for row in rows if matches(row)]
    if not found:
        raise KeyError(f"no row has {column!r} with {', '.join(like)}")
    return found


def best(rows: Rows, column: str, **like: Any) -> float:
    """The largest."""
    return max(values(rows, column, **like))


def span(numbers: Sequence[float], unit: str = "") -> str:
    """ "1.2 to 3.4"."""
    low, high = f"{min(numbers):.3g}{unit}", f"{max(numbers):.3g}{unit}"
    return low if low == high else f"{low} to {high}"


# ---- slab hash -------------------------------------------------------------------------------------------------------


def drop_beyond_65(*operations: str) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        shares = []
        for operation in operations:
            like = {"table": "slab_hash", "operation": operation}
            early = best(rows, "M_per_s", utilisation=lambda u: 0.15 <= u <= 0.62, **like)
            late = best(rows, "M_per_s", utilisation=lambda u: u >= 0.68, **like)
            shares.append(late / early)
        return f"beyond 65 %: {span(shares)} of the best rate of 19 to 60 %", max(shares) < 0.9

    return check


def static_is_faster(*operations: str) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        factors = []
        for operation in operations:
            ours, static = (
                {row["asked"] if len({r["n"] for r in rows}) == 1 else row["n"]: row["M_per_s"] for row in own}
                for own in (
                    [r for r in rows if r["table"] == table and r["operation"] == operation]
                    for table in ("slab_hash", "linear_probe")
                )
            )
            factors.append(geometric_mean(static[x] / ours[x] for x in ours.keys() & static.keys()))
        words = ", ".join(f"{f:.2f} ({of})" for f, of in zip(factors, operations, strict=True))
        return f"linear_probe is faster by {words}", min(factors) > 1

    return check


def utilisation_by_beta(rows: Rows) -> Judged:
    by_beta = sorted((row["beta"], row["utilisation"]) for row in rows)
    most = by_beta[-1][1]
    nearest = min(by_beta, key=lambda pair: abs(pair[0] - 0.7))
    return f"{nearest[1]:.0%} at beta {nearest[0]:.2f}, at most {most:.0%}", abs(
        nearest[1] - 0.6
    ) < 0.05 and most < 0.95


def incremental(rows: Rows) -> Judged:
    gains = {}
    for batch in ("128k", "64k", "32k"):
        ends = [
            max((row["n"], row["ms"]) for row in rows if row["table"] == table and row["batch"] == batch)[1]
            for table in ("linear_probe rebuilt", "slab_hash")
        ]
        gains[batch] = ends[0] / ends[1]
    order = list(gains.values())
    words = ", ".join(f"{gain:.1f} ({batch})" for batch, gain in gains.items())
    return f"faster than rebuilding by {words}", order[0] > 1 and order == sorted(order)


def mixtures_of_slabs(rows: Rows) -> Judged:
    names = list(dict.fromkeys(row["mixture"] for row in rows))
    rates = [best(rows, "M_per_s", mixture=name) for name in names]
    late = [values(rows, "M_per_s", mixture=name)[-1] / rate for name, rate in zip(names, rates, strict=True)]
    words = f"{' < '.join(f'{rate:,.0f}' for rate in rates)} M/s at best; {span(late)} of it at the highest utilisation"
    return words.replace("<", "<" if rates == sorted(rates) else ","), rates == sorted(rates) and max(late) < 0.9


def beside_lists(rows: Rows) -> Judged:
    names = list(dict.fromkeys(row["mixture"] for row in rows))  # from the most to the fewest updates
    ours, lists = (
        [values(rows, "M_per_s", table=table, mixture=name) for name in names]
        for table in ("slab_hash", lambda table: table != "slab_hash")
    )
    factors = [
        geometric_mean([a / b for a, b in zip(of_slabs, of_lists, strict=True)])
        for of_slabs, of_lists in zip(ours, lists, strict=True)
    ]
    words = ", ".join(f"{factor:.2f}" for factor in factors)
    return f"{words} times as fast (100, 40, 20 % updates)", min(factors) > 1


# ---- linear probing --------------------------------------------------------------------------------------------------


def slower_as_it_fills(rows: Rows) -> Judged:
    rates = values(rows, "M_per_s", layout=lambda name: name.startswith("source"))
    return f"{rates[0] / rates[-1]:.1f} times slower in the last batch than in the first", rates[0] / rates[-1] > 5


def probes(load: float, mean: float) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        near = {"layout": lambda name: name.startswith("source"), "load_factor": lambda x: abs(x - load) < 0.02}
        ours, longest = values(rows, "mean", **near)[0], values(rows, "longest", **near)[0]
        return f"mean {ours:.4g}, longest {longest:,}", abs(ours / mean - 1) < 0.1

    return check


# ---- hive ------------------------------------------------------------------------------------------------------------


def crc_is_uniform(rows: Rows) -> Judged:
    csr = values(rows, "csr", function=lambda name: name.startswith("crc"), keys="random", n=lambda n: n >= 1 << 15)
    return f"CSR of CRC {span(csr)} from 2^15 random keys on", all(abs(x - 1) < 0.05 for x in csr)


def clustering_at_low_load(rows: Rows) -> Judged:
    csr = values(rows, "csr", function=lambda name: name.startswith(("bit", "city")), keys="random", n=8192)
    return f"CSR {span(csr)} at 8,192 random keys", max(csr) < 1


def two_hashes_win(rows: Rows) -> Judged:
    sizes = sorted({row["n"] for row in rows})
    gains = [
        best(rows, "M_per_s", n=n, hashes=lambda name: name.count("+") == 1)
        / best(rows, "M_per_s", n=n, hashes=lambda name: name.count("+") == 2)
        for n in sizes
    ]
    return f"the best pair by the best triple: {span(gains)}", min(gains) > 1


def crc_is_slower(rows: Rows) -> Judged:
    sizes = sorted({row["n"] for row in rows})
    shares = [
        values(rows, "M_per_s", n=n, hashes="crc32+crc64")[0]
        / values(rows, "M_per_s", n=n, hashes="bithash1+bithash2")[0]
        for n in sizes
    ]
    return f"crc32+crc64 by bithash1+bithash2: {span(shares)}", max(shares) < 0.95


def fastest(rows: Rows) -> Judged:
    sizes = sorted({row["n"] for row in rows})
    gains = [
        values(rows, "M_per_s", n=n, backend="hive")[0] / values(rows, "M_per_s", n=n, backend="linear_probe")[0]
        for n in sizes
    ]
    return f"hive by linear_probe: {span(gains)}", min(gains) > 1


def steady_mixture(rows: Rows) -> Judged:
    rates = [values(rows, "M_per_s", n=n, backend="hive")[0] for n in sorted({row["n"] for row in rows})]
    return f"{rates[0]:,.0f} to {rates[-1]:,.0f} M/s, from the fewest to the most keys", min(rates[1:]) > 0.6 * max(
        rates
    )


def _steps(rows: Rows, load: float, *steps: str) -> float:
    return sum(values(rows, "share", load=load, step=step)[0] for step in steps)


def early_steps(rows: Rows) -> Judged:
    shares = [_steps(rows, load, "home", "other buckets", "lock and claim") for load in (0.55, 0.65, 0.75)]
    return f"{span([100 * share for share in shares], ' %')} without eviction and stash", min(shares) > 0.95


def stash_at_the_end(rows: Rows) -> Judged:
    share = _steps(rows, 0.97, "stash")
    return f"{share:.1%} at 0.97", 0.2 < share < 0.6


def reached_load(rows: Rows) -> Judged:
    loads = [row["load_factor"] for row in rows if row["evictions"] and row["stash"] > 0]
    return f"{span(loads)} before the first element without room, with evictions and a stash", max(loads) >= 0.95


def resizing_gain(rows: Rows) -> Judged:
    gains = [
        values(rows, "M_per_s", phase=phase, segment="auto")[0]
        / values(rows, "M_per_s", phase=phase, segment="whole")[0]
        for phase in ("expansion", "contraction")
    ]
    return f"expansion {gains[0]:.1f}, contraction {gains[1]:.1f} times as fast as a rebuild", min(gains) >= 1.5


# ---- skiplist --------------------------------------------------------------------------------------------------------


def sixteen_warps(rows: Rows) -> Judged:
    top = max(rows, key=lambda row: row["M_per_s"])["warps"]
    return f"{top} warps of {', '.join(str(row['warps']) for row in rows)}", top == 16


def slower_when_small(rows: Rows) -> Judged:
    mixed = {"operation": lambda name: name.startswith("[")}
    small, large = (values(rows, "ratio", range=edge(row["range"] for row in rows), **mixed) for edge in (min, max))
    return f"ratio {span(small)} in the smallest range, {span(large)} in the largest", max(small) < 1 < min(large)


def little_lost(rows: Rows) -> Judged:
    lost = []
    for name in dict.fromkeys(row["operation"] for row in rows):
        at = [values(rows, "M_per_s", table="skiplist", operation=name, range=r)[0] for r in (1_000_000, 10_000_000)]
        lost.append(1 - at[1] / at[0])
    return f"{span([100 * x for x in lost], ' %')} lost from 10^6 to 10^7", max(lost) <= 0.15


def beats_classic(operation: str) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        classic = {
            row["range"]: row["M_per_s"] for row in rows if row["table"] != "skiplist" and row["operation"] == operation
        }
        if not classic:
            return "measured without the other list", None
        gains = [
            values(rows, "M_per_s", table="skiplist", operation=operation, range=r)[0] / rate
            for r, rate in classic.items()
        ]
        return f"faster by {span(gains)}", min(gains) > 1

    return check


# ---- stadium ---------------------------------------------------------------------------------------------------------


def lanes_pay_at_high_load(rows: Rows) -> Judged:
    saved = sorted((row["load"], row["difference_us"]) for row in rows if "series" in row)
    last = [us for load, us in saved if load > 0.85]
    return f"clStash saves {span(last)} us a batch beyond a load of 0.85", min(last) > 0


def speedups(operation: str, least: float, **like: Any) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        by_ticket = {
            ticket: geometric_mean(values(rows, "speedup", operation=operation, ticket=ticket, **like))
            for ticket in (8, 4, 2)
        }
        words = ", ".join(f"{gain:.2f} (ticket {ticket})" for ticket, gain in by_ticket.items())
        return f"{operation}: {words}", min(by_ticket.values()) > least

    return check


def larger_tickets_help(rows: Rows) -> Judged:
    rates = [
        geometric_mean(values(rows, "M_per_s", operation="retrieve, half absent", order="in windows", ticket=ticket))
        for ticket in (8, 4, 2)
    ]
    return f"tickets of 8, 4, 2: {', '.join(f'{x:,.0f}' for x in rates)} M/s", rates == sorted(rates, reverse=True)


def together(rows: Rows) -> Judged:
    shares = values(rows, "efficiency")
    return f"{span([100 * share for share in shares], ' %')}", min(shares) > 0.9


def active_lanes(rows: Rows) -> Judged:
    of = {name: values(rows, "active_percent", table=name) for name in ("cuckoo", "stash", "clstash")}
    words = ", ".join(f"{name} {span(x, ' %')}" for name, x in of.items())
    return words, max(of["cuckoo"]) < min(of["stash"]) and max(of["stash"]) < 60 and min(of["clstash"]) > 80


def lanes_pay_on_the_card(rows: Rows) -> Judged:
    gains = [
        values(rows, "M_per_s", slots="device", how="clstash", operation="insert", ticket=ticket)[0]
        / values(rows, "M_per_s", slots="device", how="stash", operation="insert", ticket=ticket)[0]
        for ticket in (8, 4, 2)
    ]
    return f"clStash by Stash: {span(gains)}", min(gains) > 1


def tickets_help_behind_a_bus(rows: Rows) -> Judged:
    like = {"slots": "host", "how": "in windows", "operation": "retrieve, half absent"}
    rates = [values(rows, "M_per_s", ticket=ticket, **like)[0] for ticket in (8, 4, 2)]
    return f"tickets of 8, 4, 2: {', '.join(f'{x:,.0f}' for x in rates)} M/s", rates == sorted(rates, reverse=True)


def wider_is_slower(*operations: str) -> Callable[[Rows], Judged]:
    def check(rows: Rows) -> Judged:
        shares = []
        for operation in operations:
            narrow, wide = (
                geometric_mean(values(rows, "M_per_s", operation=operation, bytes=edge(row["bytes"] for row in rows)))
                for edge in (min, max)
            )
            shares.append(wide / narrow)
        return f"the widest by the narrowest: {span(shares)}", max(shares) < 1

    return check


def tickets_help_wide_pairs(rows: Rows) -> Judged:
    gains = []
    for edge in (min, max):
        like = {"operation": "retrieve, half absent", "bytes": edge(row["bytes"] for row in rows)}
        gains.append(values(rows, "M_per_s", ticket=8, **like)[0] / values(rows, "M_per_s", ticket=2, **like)[0])
    return f"tickets of 8 by 2 bits: {gains[0]:.3g} (narrowest), {gains[1]:.3g} (widest)", gains[1] > gains[0] > 1


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
        "10^6 keys of 8 bytes are within the 50 MB of this card's second cache and 10^7 are not; of the "
        "paper's 1.75 MB both are beyond",
    ),
    Claim(
        "skiplist",
        "10",
        "finds are faster than a node per key by up to 4.4",
        "V.B",
        beats_classic("find"),
    ),
    Claim("skiplist", "10", "inserts by 3.5 to 9.1", "V.B", beats_classic("insert")),
    Claim(
        "skiplist",
        "10",
        "erases by 3.5 to 12.6",
        "V.B",
        beats_classic("erase"),
        "these are 16 threads; one thread of a Zen 4 erases 2.0, 3.1, 4.5, 8.0 times as fast from 3 * 10^4 to 10^6",
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
        gpu_only="a CPU has no lanes",
    ),
)
