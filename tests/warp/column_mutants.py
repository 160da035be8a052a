"""Mistakes to plant in the kernels of columns, each of which their tests have to notice (mutants.py)."""

from .mutants import Mutant

BACK, BINS, CHAIN, ISIN, JOIN, LISTS, ORDER, PAIRS, PARTITION, SAMPLE, TOTALS, WORK = (
    "libgpuhash/columns/cuda/" + name
    for name in (
        "back.cuh",
        "bins.cuh",
        "chain.cuh",
        "isin.cu",
        "join.cu",
        "lists.cuh",
        "order.cuh",
        "pairs.cuh",
        "partition.cuh",
        "sample.cuh",
        "totals.cuh",
        "work.cuh",
    )
)
PLAN, GROUPS = "libgpuhash/columns/cuda/plan.hpp", "libgpuhash/src/groups.cpp"

MUTANTS = [
    # what is shared
    Mutant("count-of-one-lane", WORK, "atomicAdd(counters + which, 32u)", "atomicAdd(counters + which, 31u)"),
    Mutant("lanes-below", WORK, "x += lane >= d ? below : 0;", "x += lane > d ? below : 0;"),
    # frequent keys
    Mutant("frequent-not-probed", SAMPLE, "if (there == h) return at;", "return at;"),
    Mutant("side-not-numbered", SAMPLE, "w.facts->side != 0", "false"),
    Mutant("side-in-the-table", PARTITION, "if (h == no_hash<K>) return slots;", ";"),
    Mutant("place-of-a-frequent-key", PARTITION, "rank[i] |= place;", ";"),
    # the partition
    Mutant("rows-past-the-end", PARTITION, "min(tile, (in_first ? w.split : w.n) - from)", "tile"),
    Mutant("last-tile-of-a-bin", PARTITION, "min(tile, w.coarse_end[low] - from)", "tile"),
    Mutant("bin-of-the-first-pass", PARTITION, "w.bin_count + rows.bin * bins + i", "w.bin_count + i"),
    Mutant(
        "one-row-in-the-bin",
        PARTITION,
        "(own ? atomicAdd(ends + i, own) : 0) - at",
        "(own ? atomicAdd(ends + i, 1u) : 0) - at",
    ),
    Mutant("row-of-the-tile", PARTITION, "word(rows.from + i * divide_threads + me)", "word(i * divide_threads + me)"),
    Mutant("values-do-not-travel", PARTITION, "along[i] = there && x < rows.many ? words[x] : 0;", "along[i] = 0;"),
    Mutant("value-of-a-held-row", PARTITION, "held ? value_of(row) : 0", "0"),
    Mutant(
        "first-of-frequent", PARTITION, "atomicMin(w.frequent_first + i, first[i])", "(w.frequent_first[i] = first[i])"
    ),
    Mutant("totals-not-flushed", PARTITION, "if constexpr (values) of_keys.flush();", ";"),
    # bins
    Mutant("first-look-up", BINS, "there == h && !served_before", "there != no_hash<K> && !served_before"),
    Mutant("no-second-look-up", BINS, "if (u32(staged[x]) != slots) continue;", "continue;"),
    Mutant("served-twice", BINS, "if (some_wait) w.bin_key[from + x] = no_hash<K>;", ";"),
    Mutant("one-round", BINS, "some_wait |= failed;", ";"),
    Mutant("table-not-cleared", BINS, "key[i] = no_hash<K>;", "key[i] = i ? no_hash<K> : key[i];"),
    Mutant("first-row-not-noted", BINS, "row[i] < static_cast<volatile u32*>(first)[slot]", "false"),
    Mutant("values-of-one-chunk", BINS, "note_values(here, value);", "if (!at) note_values(here, value);"),
    Mutant(
        "value-of-the-row",
        BINS,
        "static_cast<const value_word*>(w.values)[row[i]]",
        "static_cast<const value_word*>(w.values)[i]",
    ),
    # aggregates
    Mutant("sign-of-order", TOTALS, "bits & sign_bit<V> ? V(~bits) : V(bits | sign_bit<V>)", "bits"),
    Mutant("order-of-integers", TOTALS, "if (type == GPUHASH_INT) return bits ^ sign_bit<V>;", ";"),
    Mutant("back-from-order", TOTALS, "word & sign_bit<V> ? V(word ^ sign_bit<V>) : V(~word)", "V(~word)"),
    Mutant("narrow-integers", TOTALS, "u64((long long)int(bits))", "bits"),
    Mutant("nan-has-a-place", TOTALS, "!is_nan(bits)", "true"),
    Mutant("carry", TOTALS, "(before + low < low)", "0"),
    Mutant("rows-of-one-lane", TOTALS, "other.many = __shfl_sync(whole_warp, many, lane)", "other.many = 1"),
    Mutant("one-step-of-pairs", TOTALS, "__ballot_sync(whole_warp, rank % 2 == 0)", "__ballot_sync(whole_warp, false)"),
    Mutant("all-lead", TOTALS, "live && leads", "live"),
    Mutant("held-by-another-key", TOTALS, "if (first != held_place) flush();", ";"),
    Mutant(
        "high-is-low",
        TOTALS,
        "a.high > *static_cast<volatile V*>(high + at)",
        "a.high < *static_cast<volatile V*>(high + at)",
    ),
    Mutant("mean-is-sum", TOTALS, "return sum / all.many;", "return sum;"),
    Mutant("frequent-unseen", TOTALS, "if (!all.many) return;", "if (all.many < 40) return;"),
    Mutant(
        "side-key",
        TOTALS,
        "place < w.plan.frequent_slots ? w.frequent[place] : no_hash<K>",
        "w.frequent[place & (w.plan.frequent_slots - 1)]",
    ),
    # order
    Mutant("word-counts-itself", ORDER, "w.ranked[word] = {mine, before};", "w.ranked[word] = {mine, before + 1};"),
    Mutant("words-at-once", ORDER, "word - lane + from + i", "word - lane + i"),
    Mutant("groups-of-all-words", ORDER, "*w.groups = before + __popc(mine);", "*w.groups = before;"),
    # codes
    Mutant("codes-before-the-order", PARTITION, "total == 0 && !w.wants.way_back_of_frequent()", "total == 0"),
    Mutant("code-at-once", PARTITION, "w.frequent_code[rank[i] & ~held_back]", "w.frequent_code[0]"),
    Mutant("place-in-the-bin", PARTITION, "u16(count[own_bin(h[i])] + rank[i])", "u16(rank[i])"),
    Mutant("runs-of-one-tile", PARTITION, "size_t(g) * (bins + 1)", "size_t(0)"),
    Mutant("end-of-a-tile", PARTITION, "runs[bins].from = s.all;", "runs[bins].from = s.all - (s.all > 0);"),
    Mutant("place-of-another-row", BACK, "x < rows.many ? from[x] : 0", "x < rows.many ? from[x / 2] : 0"),
    Mutant("warps-where-runs-are-long", BACK, "bin += divide_threads / lanes", "bin += divide_threads / 8"),
    Mutant("one-piece-of-a-run", BACK, "at += lanes * at_once", "at = end"),
    Mutant("run-without-its-shift", BACK, "from[u32(r.shift + at + i * lanes)]", "from[at + i * lanes]"),
    Mutant("codes-of-the-bins", BACK, "Second || !w.two_passes() ? w.bin_code() : w.coarse_code()", "w.bin_code()"),
    Mutant("frequent-code-is-first", BACK, "if (!w.wants.first) return w.frequent_code[key];", ";"),
    Mutant("frequent-rows-have-counts", BACK, "w.wants.codes ? w.frequent_first[key] : 0", "w.frequent_first[key]"),
    Mutant("frequent-counts", BACK, "group_of(w, w.frequent_first[key])", "group_of(w, 0)"),
    Mutant("first-row-is-no-code", BACK, "w.wants.first ? group_of(w, word) : word", "word"),
    Mutant("count-of-another-row", BINS, "w.bin_row()[from + x] == first[slot] ? count[slot] : 0", "count[slot]"),
    Mutant("tiles-with-their-codes", BACK, "!w.wants.way_back_of_frequent() && runs[bins].from == 0", "false"),
    Mutant("listed-in-no-order", ORDER, "w.listed_at[group_of(w, w.listed_first[i])] = i;", "w.listed_at[i] = i;"),
    Mutant(
        "listed-side-by-side", ORDER, "give_listed_totals<V>(w, at, group);", "give_listed_totals<V>(w, group, group);"
    ),
    Mutant("half-a-word", TOTALS, "u64(at[1]) << 32 | at[0]", "at[0]"),
    Mutant(
        "mean-not-listed",
        TOTALS,
        "if (wants.means) put(to + w.listed_mean, std::bit_cast<u64>(mean_of(wants, all)));",
        ";",
    ),
    Mutant("low-is-high", CHAIN, "w.listed_high = r.wants.listed_high();", "w.listed_high = r.wants.listed_low();"),
    # isin
    Mutant("side-is-not-among", ISIN, "h[i] == no_hash<K> ? side : there[i] == h[i]", "there[i] == h[i]"),
    Mutant("first-slot-only", ISIN, "there[i] != h[i] && there[i] != no_hash<K>", "false"),
    Mutant("wide-where-it-is-not", ISIN, "w.aligned && many == at_once", "w.aligned"),
    # joins
    Mutant("left-rows-not-counted", PARTITION, "column ? w.n - w.split : w.split", "column ? 0 : w.split"),
    Mutant("tiles-of-one-column", PARTITION, "in_first ? w.split : w.n", "w.n"),
    Mutant("row-of-the-second-column", WORK, "more + (row - split)", "more + row"),
    Mutant("first-row-of-frequent", BACK, "w.frequent_first[place[i] & ~of_frequent]", "w.frequent_first[0]"),
    Mutant("left-row-meets-itself", BACK, "row >= w.split && (first < w.split || w.keep)", "row >= w.split"),
    Mutant("repeats-not-seen", BACK, "row < w.split && first != row", "false"),
    Mutant(
        "known-of-another-tile",
        BACK,
        "atomicAdd(w.known + g, (unsigned long long)known);",
        "atomicAdd(w.known, (unsigned long long)known);",
    ),
    Mutant(
        "tiles-of-the-right",
        JOIN,
        "pairs.start = w.known + tiles_of<K>(r.n_right);",
        "pairs.start = w.known + r.n_right / join_tile<K>;",
    ),
    Mutant("pair-without-its-warp", PAIRS, "known.of[me] = s.before;", ";"),
    Mutant("pairs-of-some-tiles", PAIRS, "carry + up_to - own", "up_to - own"),
    Mutant("not-kept", PAIRS, "return keep ? kept : no_row;", "return no_row;"),
    Mutant("number-of-no-row", PAIRS, "right[i] == pairs_work::kept ? -1 : (long long)right[i]", "(long long)right[i]"),
    Mutant("repeats-written", PAIRS, "if (*w.repeats) return;", ";"),
    # lists of right rows
    Mutant("right-rows-held-back", PARTITION, "uses_frequent && !(w.wants.lists && row < w.split)", "uses_frequent"),
    Mutant("side-of-two-rows", PARTITION, "atomicMax(w.repeats, u32(right_too_often));", ";"),
    Mutant("side-is-a-list", PARTITION, "row | of_one_row) != no_row", "row) != no_row"),
    Mutant("no-places-at-all", PARTITION, "(w.wants.lists && rows.from < w.split)", "w.wants.lists"),
    Mutant("left-rows-listed", BINS, "slot != slots && row[i] < w.split", "slot != slots"),
    Mutant("from-behind-the-end", BINS, "atomicAdd(first + slot, ~0u) - 1", "atomicAdd(first + slot, ~0u)"),
    Mutant("list-without-its-length", BINS, "if (right > 1) w.list[at] = right;", ";"),
    Mutant("lists-of-one-bin", BINS, "s.all ? c.base + s.before : 0", "s.before"),
    Mutant("frequent-without-a-word", BINS, "w.frequent_first[place] = first[slot];", ";"),
    Mutant("no-list-of-a-warp", BINS, "right > listed_by_thread && right <= listed_by_warp", "false"),
    Mutant(
        "no-list-of-a-block", BINS, "if (right > listed_by_warp) c.large.at[atomicAdd(&c.large.many, 1u)] = at;", ";"
    ),
    Mutant("too-many-listed", BINS, "sum_before<bin_threads>(right, c.of_warp).all > most_listed", "false"),
    Mutant("five-as-four", LISTS, "many > 4", "many > 5"),
    Mutant("no-mirror", LISTS, "low ^ other", "low + half"),
    Mutant("none-kept", LISTS, "if (word == no_row) return w.keep;", "if (word == no_row) return 0;"),
    Mutant("tiles-of-both", BACK, "Lists ? all.many_of_first() : 0", "0"),
    Mutant("pairs-of-one-warp", BACK, "sums_of[x / 32] + code[x]", "code[x]"),
    Mutant("pairs-of-others-again", PAIRS, "m.word[at] = word + of_others;", "m.word[at] = word;"),
    Mutant("last-mark", PAIRS, "m.last[x] = before - 1;", "m.last[x] = up_to - 1;"),
    Mutant("mark-of-a-later-pair", PAIRS, "~0u >> (31 - x % 32)", "~0u"),
]
