"""How a claim of a paper is judged from the rows of a figure of ours.

A check gets the rows of a figure's JSON file and says what they show and whether the claim holds: the shape, a factor
or where curves cross, never a rate, which is of another machine. None: the rows cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import Any

Rows = Sequence[dict[str, Any]]
Judged = tuple[str, bool | None]


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
