"""Mistakes to plant in the code of CUDA kernels, each of which the tests on emulated warps have to notice.

`wrong` replaces `right` where that stands in the file, once; statements end in a semicolon, the rest are expressions.
"""

from typing import NamedTuple

DRIVE, TILE, ALLOC = "libgpuhash/drive/cuda.cuh", "libgpuhash/tile/cuda.cuh", "libgpuhash/alloc/slab_batch.cuh"
HEAP, HIVE_PLACE = "libgpuhash/alloc/slab_heap.hpp", "plugins/hive/place.hpp"
HOMES = "libgpuhash/drive/cuda_homes.cuh"
LINEAR, SLAB = "plugins/linear_probe/ops.hpp", "plugins/slab_hash/ops.hpp"
HIVE = "plugins/hive/ops.hpp"
MEANING, DEVICE = "libgpuhash/kit/meaning.hpp", "libgpuhash/kit/cuda_device.cuh"
ENGINE = "libgpuhash/kit/engine.hpp"
LINEAR_PARTS = "plugins/linear_probe/parts.hpp"
POLICY, IMAGE = "libgpuhash/drive/bulk/policy.hpp", "libgpuhash/drive/bulk/image.cuh"
# Large batches.
BULK, COMBINE, COMBINE_ALL, COMBINE_PARTITIONS, COUNT_SLOTS, FAILED, FREQUENT = (
    "libgpuhash/drive/bulk/" + name + ".cuh"
    for name in ("bulk", "combine", "combine_all", "combine_partitions", "count_slots", "failed", "frequent")
)
PARTITION, PLAN, REST, SAMPLE, SERVE, WORK = (
    "libgpuhash/drive/bulk/" + name + ".cuh" for name in ("partition", "plan", "rest", "sample", "serve", "work")
)

LINEAR_MOVE, SLAB_MOVE = "plugins/linear_probe/rebuild.cuh", "plugins/slab_hash/rebuild.cuh"

ROWS, STACK = "plugins/stadium/serve_rows.cuh", "plugins/stadium/serve_stack.cuh"
LINES = "plugins/stadium/serve_lines.cuh"
SKIP_READ, SKIP_BUILD, SKIP_WALK, SKIP_PARTS, SKIP_CUDA, SKIP_DENSE = (
    "plugins/skiplist/" + name
    for name in ("read.cuh", "build.cuh", "walk.hpp", "parts.cuh", "plugin_cuda.cu", "dense.hpp")
)


class Mutant(NamedTuple):
    """One planted mistake."""

    name: str
    file: str
    right: str
    wrong: str


MUTANTS = [
    # totals
    Mutant("stripe", DRIVE, "(sum + stripe)", "(sum)"),
    Mutant("failed-is-yes", DRIVE, "__popc(__ballot_sync(full_warp, failed))", "good_here"),
    Mutant("yes-in-the-table", DRIVE, "lane < 2 || (lane > 2 && !batch_sum)", "lane < 3 || !batch_sum"),
    Mutant("totals-of-reads", DRIVE, "!reads || q.batch_sum", "!reads"),
    Mutant("extra-lanes-counted", DRIVE, "mine && lacks_room(res.status)", "lacks_room(res.status) || !mine"),
    Mutant("codes-of-the-first-round", DEVICE, "i += stride", "i += n"),
    Mutant("codes-past-the-last-block", DEVICE, "size_t(counting_threads) * blocks", "blocks * 128 + 1"),
    Mutant("codes-of-finds", DEVICE, "takes_room_in_mix(ops[i], there ? there[i] : 0)", "(ops[i] != 0)"),
    Mutant("codes-of-keys-that-are-there", DEVICE, "there ? there[i] : 0", "0"),
    # whose element
    Mutant("past-the-end", DRIVE, "i < n && has_work(q, i)", "i < n + 3 && has_work(q, i < n ? i : 0)"),
    Mutant("retry-of-everything", "libgpuhash/drive/io.hpp", "!q.only_failed || lacks_room(q.status[i])", "true"),
    Mutant("accumulate-in-a-set", "libgpuhash/drive/io.hpp", "q.is_set && code == accumulate", "false"),
    Mutant("length-on-the-device", DRIVE, "q.n_there ? *q.n_there : q.n", "q.n"),
    Mutant("value-of-another-lane", DRIVE, "a_value = shuffle(v, from, W)", "a_value = shuffle(v, 0, W)"),
    Mutant("kind-of-another-lane", DRIVE, "shuffle(kd, from, W)", "kd"),
    Mutant("home-of-another-lane", DRIVE, "shuffle(home, from, W)", "home"),
    Mutant("result-to-every-lane", DRIVE, "finished && tile.lane == owner[p]", "finished"),
    Mutant("elements-skipped", DRIVE, "untaken & (untaken - 1)", "untaken & (untaken - 1) & (untaken - 2)"),
    Mutant("side-keys-in-the-table", DRIVE, "carries && !(Op::table::side_slots && is_side_key(k))", "carries"),
    Mutant("side-keys-of-followers", DRIVE, "carries && is_side_key(k)", "mine && is_side_key(k)"),
    # go
    Mutant("step-without-go", DRIVE, "op[p].step(tile, t, j, row[p], active)", "op[p].step(tile, t, j, row[p], true)"),
    Mutant("slow-without-go", DRIVE, "op[p].slow(tile, t, j, slow)", "op[p].slow(tile, t, j, true)"),
    Mutant("slow-lost", DRIVE, "d = slow ? after : d;", "d = verdict::done;"),
    Mutant("swap-without-go", TILE, "go && lane == lead(h)", "lane == lead(h)"),
    Mutant("once-without-go", TILE, "go && lane == 0", "lane == 0"),
    # collectives
    Mutant("loop-per-lane", DRIVE, "__any_sync(full_warp, busy)", "busy"),
    Mutant("slow-per-tile", DRIVE, "__any_sync(full_warp, slow)", "slow"),
    # homes first
    Mutant("home-without-go", HOMES, "carried >> (first + p) & 1", "true"),
    Mutant("home-of-every-lane", HOMES, "carries && tile.lane == first + p", "carries"),
    Mutant("one-for-all-tiles", HOMES, "busy ? of_warp[tile_no] : 0", "of_warp[0]"),
    # looks at homes and at further lines
    Mutant("glance-at-another-home", HOMES, "shuffle(at, first + p, W)", "shuffle(at, first, W)"),
    Mutant("glance-for-another-key", HOMES, "shuffle(k, first + p, W)", "k"),
    Mutant("live-in-another-tile", HOMES, "tile.own_part(live) != 0", "live != 0"),
    Mutant("never-left", HOMES, "*left = !there && tile.own_part(ends) == 0;", "*left = false;"),
    Mutant("ends-in-another-tile", HOMES, "!there && tile.own_part(ends) == 0", "!there && ends == 0"),
    Mutant("value-of-the-first-lane", HOMES, "shuffle(g[p].seen, at_live, W)", "shuffle(g[p].seen, 0, W)"),
    Mutant("value-of-the-last-row", HOMES, "seen = own ? x : seen;", "seen = x;"),
    Mutant("value-of-the-absent", HOMES, "there ? answer : value(0)", "answer"),
    Mutant("count-of-the-seen", HOMES, "Op::fixed_kind == count ? value(1) : seen", "seen"),
    Mutant("onward-of-this-lane", HOMES, "shuffle(g[p].onward, Op::tile_type::last_lane, W)", "g[p].onward"),
    Mutant("further-every-other", HOMES, "mine += tiles, visits = 1;", "mine += 2 * tiles, visits = 1;"),
    Mutant("further-visits-kept", HOMES, "mine += tiles, visits = 1;", "mine += tiles;"),
    Mutant("further-by-every-lane", HOMES, "tile.lane == tile.first_lane(all_live)", "true"),
    Mutant("further-for-ever", HOMES, "visits > most", "false"),
    Mutant("further-past-the-end", HOMES, "there || tile.own_part(all_ends)", "there"),
    Mutant("further-the-same-line", HOMES, "line = Op::line_after(t, k, line, onward);", "line = line;"),
    Mutant("further-onward-of-this-lane", HOMES, "shuffle(g.onward, Op::tile_type::last_lane, W)", "g.onward"),
    Mutant(
        "further-count-of-the-seen", HOMES, "Op::fixed_kind == count ? value(1) : all[rank].value", "all[rank].value"
    ),
    Mutant("glance-past-the-end", TILE, "match(r.part.w[i]) && lane * S + i < end", "match(r.part.w[i])"),
    Mutant("glance-at-another-word", TILE, "x = match(r.part.w[i]) ? r.part.w[i] : x;", "x = r.part.w[i];"),
    Mutant("lines-without-end", LINEAR, "line + R == t.slots + t.n_slots ? t.slots : line + R", "line + R"),
    Mutant("answer-of-the-idle", HOMES, "busy && d == verdict::done", "d == verdict::done"),
    Mutant("answer-of-a-neighbour", HOMES, "rank * W % 32", "rank % 32"),
    Mutant("served-too-many", HOMES, "left && rank < tiles", "left"),
    Mutant("left-without-go", HOMES, "op.step(tile, t, j, row, busy)", "op.step(tile, t, j, row, true)"),
    Mutant("left-slow-without-go", HOMES, "op.slow(tile, t, j, slow)", "op.slow(tile, t, j, true)"),
    Mutant("left-slow-lost", HOMES, "d = slow ? after : d;", "d = verdict::done;"),
    # hive's other bucket as a line, and the stash
    Mutant("stash-not-asked", HIVE, "return stashed != 0;", "return false;"),
    Mutant("another-slot-of-the-stash", HIVE, "t.stash + (stashed - 1)", "t.stash + stashed"),
    Mutant("two-ways-for-three", HIVE, "return t.ways == 2;", "return true;"),
    Mutant(
        "home-again",
        HIVE,
        "t.bucket_of(a_key, index(u64(home_line - t.slots) >> t.slot_bits), 1)",
        "index(u64(home_line - t.slots) >> t.slot_bits)",
    ),
    Mutant("absent-is-looked-for", HOMES, "if (left) left = !Op::absent(t, kd, k, home);", "left = false;"),
    Mutant("counted-by-value", HOMES, "if constexpr (Op::fixed_kind == count) res.value = 1;", ";"),
    # batches by parts of the table
    Mutant("sums-of-the-first-block", PARTITION, "no_operand_of<value>(j)", "w.combined[i]"),
    Mutant("bin-one-longer", PARTITION, "i >= (first + bin + 1) * room", "i > (first + bin + 1) * room"),
    Mutant("full-bin-unnoticed", PARTITION, "in_bin + own > room", "in_bin > room"),
    Mutant("full-bin-dropped", WORK, "*n < room ? *n : room", "*n <= room ? *n : 0"),
    Mutant(
        "bin-of-the-whole",
        PARTITION,
        "u32(Partitions::group_of(t, F::key_of(e)) >> group_shift) - first",
        "u32(Partitions::group_of(t, F::key_of(e)) >> group_shift)",
    ),
    Mutant("bins-overlap", PARTITION, "atomicAdd(to.n + first + me, own)", "atomicAdd(to.n + first + me, 0u)"),
    Mutant("staged-over-each-other", PARTITION, "before += i < warp ? here.of_warp[i] : 0;", "before += 0;"),
    Mutant("number-of-another", PARTITION, "Second ? w.bin.at[x] : number_at(w, x)", "number_at(w, x)"),
    Mutant("leaves-its-part", SERVE, "Partitions::left(op)", "lacks_room(op.res.status)"),
    Mutant("left-is-dropped", REST, "w.again && !w.found->combines ? *list.n : 0", "0"),
    Mutant("left-twice", REST, "w.found->divided ? w.rest : w.source", "w.source"),
    Mutant("part-not-written", SERVE, "copy_to_table<F, serve_threads>(t.slots + begin, slots, size);", ";"),
    Mutant("usual-is-assumed", COUNT_SLOTS, "status && answer != default_status", "false"),
    Mutant("contents-unseen", POLICY, "b.added > b.slots / nearly_empty_share", "false"),
    Mutant("repeats-unseen", POLICY, "s.repeats < few_repeats", "true"),
    Mutant("few-for-many-slots", POLICY, "b.slots / p.least_share * (b.elements < p.least ? 2 : 1)", "0"),
    Mutant(
        "never-for-auto",
        POLICY,
        "b.kind != erase && enough(has_contents ? p.least : p.least_into_empty)",
        "b.kind == accumulate && enough(p.least)",
    ),
    Mutant("joined-say-yes", PARTITION, "if (with_statuses) q.status[number_at(w, x)] = u8(no);", ";"),
    Mutant("leader-of-a-block", PARTITION, "atomicCAS(w.leader + i, none, leads)", "(w.leader[i] = leads, none)"),
    Mutant("assigned-by-the-leader", REST, "q.kind == assign && last != none ? last : leads", "leads"),
    Mutant("side-keys-of-one", FREQUENT, "frequent_slots + u32(empty_key<Key> - k)", "frequent_slots"),
    Mutant("joined-fail-alone", REST, "w.found->failed = 1;", "w.found->failed = 0;"),
    Mutant("failed-counted-once", FAILED, "if (slot == none || !w.failed[slot]) continue;", "if (true) continue;"),
    Mutant("nan-of-nothing", COMBINE, "V(~V(0) >> 1)", "V(0)"),
    Mutant("chunk-without-its-values", ENGINE, "skip(q.values, q.value_bytes)", "q.values"),
    Mutant("chunk-of-the-first-status", ENGINE, "if (q.status) q.status += first;", ";"),
    Mutant("part-from-its-start", LINEAR_PARTS, "return group;", "return 0;"),
    Mutant("part-goes-on", LINEAR_PARTS, "part.n_slots = n;", "part.n_slots = n - n / 4;"),
    Mutant("value-added-twice", "plugins/linear_probe/ops.hpp", "go && writing && !won", "go && writing"),
    # batches that are joined as a whole
    Mutant("missed-are-lost", COMBINE_ALL, "missed |= u32(!combined) << i;", ";"),
    Mutant("slot-of-another", COMBINE_ALL, "combined = seen == empty_key<key> || seen == k;", "combined = true;"),
    Mutant(
        "cache-is-dropped",
        COMBINE_ALL,
        "pass_on(from + me < slots && keys[i] != empty_key<key>, keys[i], sums[i]);",
        ";",
    ),
    Mutant("sums-from-garbage", COMBINE, "sums[i] = no_operand_of<Value>(j);", "(void)sums[i];"),
    Mutant(
        "joined-fail-unseen",
        COMBINE_ALL,
        "if (lacks_room(op.res.status)) defer(w, op.res.status, F::make(k, v), 0);",
        ";",
    ),
    Mutant("joined-fail-all", FAILED, "has_key<Partitions>(t, j, looks, k) || !looks", "!looks"),
    Mutant(
        "joined-and-divided", SAMPLE, "samples && !combines && (w.again || wanted)", "samples && (w.again || wanted)"
    ),
    Mutant("left-joined-and-served", REST, "w.again && !w.found->combines", "w.again"),
    Mutant("left-joined-from-the-batch", COMBINE_ALL, "(of_left)", "(false)"),
    Mutant(
        "left-of-a-lane",
        WORK,
        "return shuffle(first, 0, 32) + u32(__popc(all & ((1u << lane) - 1)));",
        "return shuffle(first, 0, 32);",
    ),
    Mutant(
        "left-without-number",
        WORK,
        "if (!some) return;\n  list.word[i] = w;\n  if (list.at) list.at[i] = at;",
        "if (some) list.word[i] = w;",
    ),
    Mutant("left-and-joined-untold", REST, "if (mine && !leads && q.status) q.status[x->at] = u8(no);", ";"),
    Mutant("left-and-joined-twice", REST, "return mine && leads;", "return mine;"),
    Mutant("full-and-fresh", BULK, "given.added == 0 && done == 0 && !again", "done == 0 && !again"),
    Mutant("fresh-in-each-chunk", BULK, "given.added == 0 && done == 0 && !again", "given.added == 0 && !again"),
    Mutant("fresh-again", BULK, "given.added == 0 && done == 0 && !again", "given.added == 0 && done == 0"),
    Mutant("chunk-too-far", BULK, "done += w.slice", "done += slice_at_most"),
    Mutant("large-segment-served", BULK, "w.partition_room", "true"),
    Mutant("joined-beyond-the-room", COMBINE_PARTITIONS, "append_some(w.rest, some && !fits, e, number);", ";"),
    # parts whose elements are joined
    Mutant("place-of-another", COMBINE, "if (*there || seen == empty_key<Key>) return at;", "return at;"),
    Mutant("without-a-place-dropped", COMBINE_PARTITIONS, "append(w.rest, e[g], number[g]);", ";"),
    Mutant("large-in-a-part", COMBINE_PARTITIONS, "may_join_first(j, F::value_of(e[g]), log_combined)", "true"),
    Mutant(
        "operand-of-a-part-lost",
        COMBINE_PARTITIONS,
        "join_in_block(sums + at, F::value_of(e[g]), j);",
        "sums[at] = F::value_of(e[g]);",
    ),
    Mutant(
        "part-as-long-as-before",
        COMBINE_PARTITIONS,
        "if (me == 0 && !w.sub_bits) w.partition.n[partition] = *listed;",
        ";",
    ),
    Mutant("keys-without-their-sums", COMBINE_PARTITIONS, "F::make(keys[i], sums[i])", "F::make(keys[i], value(1))"),
    Mutant("bin-is-the-part", COMBINE_PARTITIONS, "blockIdx.x >> a_work.sub_bits", "blockIdx.x"),
    Mutant("list-beyond-its-room", COMBINE_PARTITIONS, "some && at < w.partition_room", "some"),
    Mutant("bins-stay-where-they-are", COMBINE_PARTITIONS, "!combines && !w.sub_bits", "!combines"),
    Mutant("lack-in-parts-unseen", FAILED, "w.found->lacking == 0", "true"),
    Mutant(
        "joined-in-a-part-say-yes",
        COMBINE_PARTITIONS,
        "if (there && default_status != no) q.status[number[g]] = u8(no);",
        ";",
    ),
    Mutant("nobody-leads", COMBINE_PARTITIONS, "if (!there) leaders[at] = number[g];", ";"),
    Mutant(
        "number-of-the-part-lost",
        COMBINE_PARTITIONS,
        "if (with_statuses()) w.partition.at[first_of_partition + at] = number;",
        ";",
    ),
    Mutant("put-off-and-forgotten", WORK, "append(w.rest, e, at);", ";"),
    Mutant("retried-say-nothing", FAILED, "if (there && q.status) q.status[w.partition.at[i]] = u8(no);", ";"),
    Mutant(
        "retried-past-the-end",
        FAILED,
        "has_key<Partitions>(t, j, from + lane < n, k)",
        "has_key<Partitions>(t, j, true, k)",
    ),
    Mutant(
        "absent-are-added-at-last",
        FAILED,
        "serve_homes<typename Partitions::rest_op, 1>(tile, t, j, there, accumulate, k, v, t.home(k));",
        "serve_homes<typename Partitions::rest_op, 1>(tile, t, j, from + lane < n, accumulate, k, v, t.home(k));",
    ),
    Mutant("absent-say-no", FAILED, "if (q.status) q.status[i] = u8(w.found->lacking);", ";"),
    # values that change in place
    Mutant("every-join-adds", MEANING, "(Kind == assign || adds_integers(j))", "true"),
    Mutant("idle-tiles-write", LINEAR, "go && in_place", "in_place"),
    Mutant("nothing-to-write-at-all", LINEAR, "F::value_of(want) == seen", "true"),
    Mutant("slab-idle-tiles-write", SLAB, "go && in_place", "in_place"),
    Mutant("slab-nothing-to-write", SLAB, "F::value_of(want) == seen", "true"),
    Mutant("swapped-and-added", SLAB, "go && writing && !won", "go && writing"),
    Mutant(
        "first-slot-of-the-lane",
        TILE,
        "mem::template store<order::relaxed>(line + lane * S + own_slot(h), w);",
        "mem::template store<order::relaxed>(line + lane * S, w);",
    ),
    # parts that are served by counting
    Mutant("slots-in-use-forgotten", COUNT_SLOTS, "n << had_at | n", "n"),
    Mutant(
        "groups-of-other-lanes", COUNT_SLOTS, "in_use >> lane & ((1u << lanes) - 1)", "in_use & ((1u << lanes) - 1)"
    ),
    Mutant("contents-not-looked-at", COUNT_SLOTS, "F::key_of(some.w[y]) == k && i + y < many", "false"),
    Mutant(
        "tombstones-not-looked-at", COUNT_SLOTS, "*dead |= F::key_of(some.w[y]) == dead_key<key>;", "*dead |= false;"
    ),
    Mutant(
        "present-key-says-yes",
        COUNT_SLOTS,
        "report(x, no);\n        return true;",
        "report(x, yes);\n        return true;",
    ),
    Mutant(
        "overflow-of-a-group-dropped",
        COUNT_SLOTS,
        "if (place >= group_slots()) return false;",
        "if (place >= group_slots()) return true;",
    ),
    Mutant("one-slot-further", COUNT_SLOTS, "slots + first + place", "slots + first + (place ? place - 1 : 0)"),
    Mutant("twice-inserted", COUNT_SLOTS, "if (twice) end = combine_equal(first, had, end, j);", ";"),
    Mutant(
        "only-neighbours-compared",
        COUNT_SLOTS,
        "for (u32 y = 0; y < i; ++y) same |= keys[y] == keys[i];",
        "same |= keys[i - 1] == keys[i];",
    ),
    Mutant("equal-ones-uncounted", COUNT_SLOTS, "counters[group] = had << had_at | end;", ";"),
    Mutant("who-took-the-slot", COUNT_SLOTS, "who[first + i] = who[first + end];", ";"),
    Mutant("taken-by-nobody", COUNT_SLOTS, "if (who) who[first + place] = uint16_t(x);", ";"),
    Mutant("equal-operand-lost", COUNT_SLOTS, "Kind == assign || Kind == accumulate", "Kind == assign"),
    Mutant("chain-lost-swap", COUNT_SLOTS, "if (before == seen) break;", "break;"),
    Mutant("slot-not-emptied", COUNT_SLOTS, "block_mem::store<order::relaxed>(group + end, empty_word<F>());", ";"),
    Mutant("chain-of-one", COUNT_SLOTS, "some_bits(F::key_of(e)) | seen >> chain_at", "some_bits(F::key_of(e))"),
    Mutant(
        "home-not-looked-at",
        COUNT_SLOTS,
        "slot_with(group << group_bits, taken < group_slots() ? taken : group_slots(), k, &dead) != none",
        "false",
    ),
    Mutant("further-where-it-was-full", COUNT_SLOTS, "(counter >> had_at & had_mask) == group_slots()", "false"),
    Mutant("further-over-the-end", SERVE, "if (end == overflow_left) leave(e, x);", ";"),
    Mutant("placed-twice", SERVE, "if (end == overflow_unclear) left.own |= bit;", "left.own |= bit;"),
    Mutant("list-of-others", SERVE, "left.in_chains ? chained[own] : uint16_t(own)", "uint16_t(own)"),
    Mutant("list-of-one-round", SERVE, "served < left.total", "served == 0 && left.total"),
    # joined elements
    Mutant("join-any-key", DRIVE, "key[seen] == k", "true"),
    Mutant("join-lost-swap", DRIVE, "before == seen", "true"),
    Mutant("join-overwrites", DRIVE, "join_operands(j, seen, v)", "v"),
    Mutant("join-nan", DRIVE, "join_operands(j, seen, v)", "join(j, seen, v)"),
    Mutant("join-value-early", DRIVE, "__syncthreads();\n    v = value[me];", "v = value[me];"),
    Mutant("join-any-kind", DRIVE, "kind[seen] == kd", "true"),
    Mutant("assigned-and-lost", DRIVE, "if (first != me && kd == assign) value[first] = v;", ";"),
    Mutant("follower-of-failed", DRIVE, "said > yes || kd == find ? said : u32(no)", "kd == find ? said : u32(no)"),
    Mutant("follower-says-yes", DRIVE, "said > yes || kd == find ? said : u32(no)", "said"),
    Mutant("follower-finds-nothing", DRIVE, "if (same) res.value = value[first];", ";"),
    Mutant(
        "follower-early",
        DRIVE,
        "__syncthreads();\n    if (!mine || first == me) return;",
        "if (!mine || first == me) return;",
    ),
    # batches in pieces
    Mutant("piece-of-the-first", SKIP_CUDA, "part_of(q, done, piece)", "part_of(q, 0, piece)"),
    Mutant("piece-left-out", SKIP_CUDA, "done += piece;", "done += piece + 1;"),
    # cells
    Mutant("cells-overlap", DRIVE, "up_to - mine", "up_to"),
    Mutant("cells-above", DRIVE, "lane >= d ? below : 0", "below"),
    Mutant("cell-past-the-end", DRIVE, "at_order < hi", "at_order <= hi"),
    # the tile
    Mutant("lanes-of-another-tile", TILE, "(all >> shift) & tile_mask", "all & tile_mask"),
    Mutant("swap-by-first-lane", TILE, "go && lane == lead(h)", "go && lane == 0"),
    Mutant("slots-past-end", TILE, "lane * S + i >= first && lane * S + i < end", "lane * S + i >= first"),
    Mutant("number-of-first", TILE, "__popc(ballot(h.at[i]))", "__popc(ballot(h.at[0]))"),
    Mutant("slot-of-first-lane", TILE, "shuffle(x, i / S, W)", "shuffle(x, 0, W)"),
    Mutant(
        "value-of-first-lane", TILE, "shuffle(F::value_of(own_word(r, h)), lead(h), W)", "F::value_of(own_word(r, h))"
    ),
    Mutant("own-slot-last", TILE, "h.at[i] ? i : s", "s"),
    # the allocator
    Mutant("old-and-fresh-supers-swapped", HEAP, "u32(drawn) < share", "u32(drawn) >= share"),
    Mutant("last-block-never-drawn", HEAP, "reduce(drawn, u64(all - old))", "reduce(drawn, u64(all - old - 1))"),
    Mutant("units-too-many", ALLOC, "need > before_me ? need - before_me : 0", "need"),
    Mutant("units-twice", ALLOC, "got = want & ~before", "got = want"),
    Mutant("units-past-the-end", ALLOC, "lane < need", "lane <= need"),
    Mutant("units-not-wiped", ALLOC, "good && wipe", "false"),
    Mutant("missing-per-lane", ALLOC, "lane == 0", "lane <= 1"),
    Mutant("sum-not-prefix", ALLOC, "threadIdx.x % 32 >= d ? below : 0", "below"),
    # rows behind a bus
    Mutant(
        "rows-past-the-end", ROWS, "j < there && i < n && has_work(q, i)", "j < there && i < n + 3 && has_work(q, i)"
    ),
    Mutant("first-piece-decides", ROWS, "!(__ballot_sync(full_warp, differs) & group)", "!differs"),
    Mutant(
        "rows-of-all-groups", ROWS, "__ballot_sync(full_warp, differs) & group", "__ballot_sync(full_warp, differs)"
    ),
    Mutant("rows-nobody-wants", ROWS, "(wanted >> whose & 1) && at < t.stride", "at < t.stride"),
    Mutant("pieces-past-the-row", ROWS, "(wanted >> whose & 1) && at < t.stride", "(wanted >> whose & 1) != 0"),
    Mutant("rank-forgotten", ROWS, "starts[window[j]] + rank[j]", "starts[window[j]]"),
    Mutant("settled-says-yes", ROWS, "answer(t, q, i, e.kind, no)", "answer(t, q, i, e.kind, yes)"),
    Mutant("settled-is-listed", ROWS, "window[j] != settled", "true"),
    Mutant(
        "lists-of-the-first-chunk",
        ROWS,
        "first + of",
        "(list ? of : first + of)",
    ),
    Mutant("put-off-is-lost", ROWS, "put_off ? later : settled", "settled"),
    Mutant("again-serves-all", ROWS, "again ? window[j] != later : i >= n || !has_work(q, i)", "i >= n"),
    Mutant("second-round-puts-off", ROWS, "round + 1 < rounds ? l.window() : nullptr", "l.window()"),
    Mutant("step-of-a-block", ROWS, "begin += step", "begin += 2 * step"),
    Mutant("sums-of-the-last-round", ROWS, "did.live += o.res.live", "did.live = o.res.live"),
    Mutant("part-begins-anew", ROWS, "before ? before[blockIdx.x] : 0", "0"),
    Mutant("sums-of-one-warp", ROWS, "threadIdx.x % 32 == 0 && sum", "threadIdx.x == 0 && sum"),
    Mutant(
        "end-of-every-part",
        ROWS,
        "from + here == windows && threadIdx.x == block_threads - 1",
        "threadIdx.x == block_threads - 1",
    ),
    Mutant("windows-before", ROWS, "k < threadIdx.x", "k <= threadIdx.x"),
    Mutant("value-of-the-lead-only", ROWS, "if (lane == next) v = now;", "if (lane == lead) v = now;"),
    Mutant("wide-values-stay", ROWS, "compares && equal && o.replaces(t)", "false"),
    Mutant("published-twice", ROWS, "if (writes_row) o.publish(t);", "if (writes_row || compares) o.publish(t);"),
    # finds by lines
    Mutant("finds-past-the-end", LINES, "i < n && has_work(q, i)", "i < n + 3"),
    Mutant("line-jobs-in-one-place", LINES, "jobs[n_jobs + rank]", "jobs[n_jobs]"),
    Mutant("line-jobs-of-other-warps", LINES, "list.of[threadIdx.x / 32]", "list.of[0]"),
    Mutant("line-jobs-left", LINES, "f.n_jobs != 0", "f.n_jobs >= 32"),
    Mutant("line-job-of-a-neighbour", LINES, "f.n_jobs + (mine ? lane : 0)", "f.n_jobs"),
    Mutant("found-once", LINES, "found += is_there", "found = is_there"),
    Mutant("value-of-another-key", LINES, "is_there ? v : value(0)", "v"),
    Mutant("home-of-a-job", LINES, "v.group = job.group", "v.group"),
    # a stack of jobs
    Mutant("stack-not-emptied", STACK, "top || next < many", "top >= 32 || next < many"),
    Mutant("jobs-in-one-place", STACK, "stack[top + __popc(rest & ((1u << lane) - 1))]", "stack[top]"),
    Mutant("jobs-of-other-warps", STACK, "stacks.of[threadIdx.x / 32]", "stacks.of[0]"),
    Mutant("run-past-the-end", STACK, "mine.element < many", "true"),
    Mutant("job-of-a-neighbour", STACK, "stack[top - takes + lane]", "stack[top - takes]"),
    Mutant("failed-by-stack", STACK, "failed += lacks_room(o.res.status);", ";"),
    # skiplist: reading level by level
    Mutant(
        "same-as-what-is-below",
        SKIP_READ,
        "v.same = counts ? F::key_of(r.w[i]) == k : v.same;",
        "v.same = v.same || counts;",
    ),
    Mutant("down-from-nothing", SKIP_READ, "goes && (!v.any() || v.goes_right())", "goes && v.goes_right()"),
    Mutant("right-is-down", SKIP_READ, "goes && (!v.any() || v.goes_right())", "goes && !v.any()"),
    Mutant(
        "old-rows-for-ever",
        SKIP_READ,
        "left = one_step<false>(sought, chunk, left);",
        "left = one_step<true>(sought, chunk, left);",
    ),
    Mutant("one-look-at-a-miss", SKIP_READ, "look_twice(tile, t, j, k, e);", "(void)j;"),
    Mutant("least-is-the-last", SKIP_READ, "u32(__ffs(int(hits))) - 1", "31 - u32(__clz(int(hits)))"),
    Mutant("greatest-of-one-chunk", SKIP_READ, "found = walk{t}.greatest(k);", "found.there = false;"),
    Mutant("range-past-its-room", SKIP_READ, "in[i] && at < range.end", "in[i]"),
    Mutant("range-to-the-chunk", SKIP_READ, "!gone && range.high <= max", "!gone"),
    # skiplist: long ranges in parts
    Mutant("part-drops-a-key", SKIP_PARTS, "part.high = low[i + 1];", "part.high = key(low[i + 1] - 1);"),
    Mutant("key-of-two-parts", SKIP_PARTS, "part.high = low[i + 1];", "part.high = key(low[i + 1] + 1);"),
    Mutant("part-from-the-low", SKIP_PARTS, "part.low = low[i];", ";"),
    Mutant("parts-to-the-end", SKIP_PARTS, "part.to_end = false;", ";"),
    Mutant("last-part-to-the-next", SKIP_PARTS, "i + 1 != (range + 1) * per", "true"),
    Mutant("parts-of-all-ranges", SKIP_PARTS, "before[i] - before[i / per * per]", "before[i]"),
    Mutant("part-over-the-first", SKIP_PARTS, "part.first += others;", ";"),
    Mutant("part-past-its-room", SKIP_PARTS, "part.room > others ? part.room - others : 0", "part.room"),
    Mutant("counts-that-write", SKIP_PARTS, "counting.out_keys = counting.out_values = nullptr;", ";"),
    Mutant("parts-count-past-limits", SKIP_PARTS, "q.offsets || there < q.most", "true"),
    Mutant("parts-count-to-the-room", SKIP_PARTS, "q.offsets || there < q.most", "there < q.most"),
    Mutant("last-sum-is-missing", SKIP_PARTS, "if (i > q.n) return;", "if (i >= q.n) return;"),
    Mutant("counts-past-the-end", SKIP_PARTS, "!q.counts || i == q.n", "!q.counts"),
    Mutant("parts-beside-writers", SKIP_PARTS, "!q.alone || q.n == 0", "q.n == 0"),
    Mutant("no-parts", SKIP_WALK, "level > 0 && i > 0", "false"),
    Mutant("parts-of-the-first-key", SKIP_WALK, "i = place % parts;", "i = 0;"),
    Mutant("parts-from-the-left", SKIP_WALK, "first += e > 0 && k <= low;", ";"),
    Mutant("parts-one-too-far", SKIP_WALK, "e > 0 && k <= low", "k <= low"),
    Mutant("parts-to-the-right", SKIP_WALK, "end += k <= last;", "end += k != Table::no_key;"),
    Mutant("cut-left-of-its-key", SKIP_WALK, "Table::is_gone(link) || low > F::key_of(next)", "Table::is_gone(link)"),
    # skiplist: operands of a batch that is built at once
    Mutant("joined-across-keys", SKIP_BUILD, "shuffle(k, from, 32) == k", "true"),
    Mutant("first-joined-twice", SKIP_BUILD, "i < a.n && at == to", "i < a.n"),
    Mutant("joined-past-the-end", SKIP_BUILD, "i < a.n && at == to", "at == to"),
    Mutant(
        "open-is-dropped",
        SKIP_BUILD,
        "if (all.open) store(all.to, all.k, all.sum);\n    all = next;",
        "all = next;",
    ),
    Mutant("open-of-other-warps", SKIP_BUILD, "all.open && all.k == next.k", "all.open"),
    Mutant("open-of-one-warp", SKIP_BUILD, "ends.of_warp[threadIdx.x / 32]", "ends.of_warp[0]"),
    Mutant("open-of-another-key", SKIP_BUILD, "k == open_key", "true"),
    Mutant("open-replaces", SKIP_BUILD, "some ? join_operands(j, sum, v) : sum", "sum"),
    Mutant("large-are-joined", SKIP_BUILD, "some && !may_join_first(j, v)", "false"),
    Mutant("last-stored-twice", SKIP_BUILD, "first && lane != last && some", "first && some"),
    Mutant("sum-lost-to-others", SKIP_BUILD, "if (before == seen) return;", "return;"),
    Mutant(
        "narrow-sums-carry", SKIP_BUILD, "atomicAdd(reinterpret_cast<u32*>(stored), u32(v));", "atomicAdd(stored, v);"
    ),
    Mutant("side-sum-of-both", SKIP_BUILD, "a.found + 2 + side", "a.found + 2"),
    Mutant(
        "side-starts-anew",
        SKIP_BUILD,
        "adds ? read_value<F>(q, element) : F::value_of(side_word(t, k))",
        "read_value<F>(q, element)",
    ),
    Mutant("stored-as-an-operand", SKIP_BUILD, "join(j, seen, v)", "join_operands(j, seen, v)"),
    Mutant("search-of-the-block", SKIP_BUILD, "threadIdx.x == block_threads - 1", "threadIdx.x == 0"),
    Mutant(
        "found-from-the-first",
        SKIP_BUILD,
        "found.begin + ascending_lower(keys + found.begin, found.end - found.begin, k)",
        "ascending_lower(keys + found.begin, found.end - found.begin, k)",
    ),
    Mutant("staged-of-another", SKIP_READ, "shuffle(n, element, 32)", "n"),
    Mutant("side-inserted-over", SKIP_BUILD, "q.kind == insert && side_is_there(t, k)", "false"),
    # skiplist: a batch behind the end
    Mutant("end-links-on", SKIP_DENSE, "last ? none : handle(l, j + 1)", "handle(l, j + 1)"),
    Mutant("end-links-to-itself", SKIP_DENSE, "last ? none : handle(l, j + 1)", "last ? none : handle(l, j)"),
    Mutant("low-off-by-one", SKIP_DENSE, "key(low(l, j + 1) - 1)", "key(low(l, j + 1))"),
    Mutant("name-lost", SKIP_DENSE, "e < (l ? s.chunks[l - 1] : n)", "e + (l > 0) < (l ? s.chunks[l - 1] : n)"),
    Mutant("names-written-over", SKIP_DENSE, "(i < s.own[l] || i + 1 == t.slots)", "(i + 1 == t.slots)"),
    Mutant("names-begin-anew", SKIP_DENSE, "j * per + i - s.earlier[l]", "j * per + i"),
    Mutant("pairs-under-names", SKIP_DENSE, "ahead += s.earlier[l] * (span / per);", ";"),
    Mutant("full-chunk-of-names", SKIP_DENSE, "(s.own[l] < per ? s.own[l] : per) - 1", "s.own[l] - 1"),
    Mutant(
        "taken-as-a-handle",
        SKIP_DENSE,
        "t.handle_of(u32(s.taken + s.before[level] + number - 1))",
        "u32(s.taken + s.before[level] + number - 1)",
    ),
    Mutant("levels-share-chunks", SKIP_DENSE, "s.before[l] = s.all;", ";"),
    Mutant("taken-not-raised", SKIP_CUDA, "u32(s.taken + s.all)", "s.taken"),
    Mutant("top-not-raised", SKIP_DENSE, "end.top < s.levels - 1 ? s.levels - 1 : end.top", "end.top"),
    Mutant("top-lowered", SKIP_DENSE, "end.top < s.levels - 1 ? s.levels - 1 : end.top", "s.levels - 1"),
    Mutant("end-is-found-too-soon", SKIP_WALK, "at = last_from(at, &from);", ";"),
    Mutant("end-without-names", SKIP_WALK, "from = F::key_of(last) > from ? F::key_of(last) : from;", ";"),
    Mutant("end-of-names-alone", SKIP_WALK, "*from = key(F::key_of(next) + 1);", ";"),
    Mutant("heads-without-a-name", SKIP_WALK, "end->entries[l] = 1;", "end->entries[l] = 0;"),
    Mutant("none-below-the-end", SKIP_WALK, "below += F::key_of(w) < from;", ";"),
    Mutant("last-chunk-forgotten", SKIP_WALK, "end->entries[l] = n;", "end->entries[l] = l ? n : 0;"),
    Mutant("short-by-one-lane", SKIP_CUDA, "__any_sync(full_warp, short_of_it)", "short_of_it"),
    Mutant("short-of-nothing", SKIP_CUDA, "t.encode(read_key<F>(q, i)) < end->from", "false"),
    Mutant("short-by-its-bits", SKIP_CUDA, "t.encode(read_key<F>(q, i)) < end->from", "read_key<F>(q, i) < end->from"),
    Mutant(
        "short-at-the-end",
        SKIP_CUDA,
        "t.encode(read_key<F>(q, i)) < end->from",
        "t.encode(read_key<F>(q, i)) <= end->from",
    ),
    Mutant("above-everything", SKIP_READ, "q.which == above && k == empty_key<key>", "false"),
    # sums that leave the range of their type, and come back
    Mutant("large-in-a-block", DRIVE, "return kd != accumulate || may_join_first(j, v);", "return true;"),
    Mutant(
        "carry-of-a-block",
        DRIVE,
        "if (high) atomicAdd(half + 1, high);",
        "if (v >> 32) atomicAdd(half + 1, u32(v >> 32));",
    ),
    Mutant("halves-of-narrow-sums", DRIVE, "adds_integers(j) && !j.narrow", "adds_integers(j)"),
    Mutant("large-in-a-bin", PARTITION, "q.kind != accumulate || may_join_first(j, v, log_combined)", "true"),
    Mutant("retries-by-parts", PLAN, "q.only_failed || q.n_there", "q.n_there != nullptr"),
    # a table that moves into another one
    Mutant(
        "moved-to-no-home",
        LINEAR_MOVE,
        "u64(to.home(F::key_of(w))) << to.group_bits",
        "u64(to.home(F::key_of(w)))",
    ),
    Mutant("moved-past-the-limit", LINEAR_MOVE, "t.probe_limit - (home & (t.widest - 1))", "t.probe_limit"),
    Mutant("not-moved-and-unsaid", LINEAR_MOVE, "live && !placed", "false"),
    # and part by part
    Mutant("another-part's-moved", LINEAR_MOVE, "group >= groups", "group > groups"),
    Mutant("a-slot-too-many", LINEAR_MOVE, "slot >= group_slots", "slot > group_slots"),
    Mutant("read-to-any-empty-slot", LINEAR_MOVE, "far(g) + x >= before_last", "true"),
    Mutant("not-read-around-the-end", LINEAR_MOVE, "at < from.n_slots ? at : at - from.n_slots", "at % 64"),
    Mutant("a-pair-that-left-is-lost", LINEAR_MOVE, "i < parts.room", "i + 1 < parts.room"),
    Mutant("pairs-that-left-unsaid", LINEAR_MOVE, "n > parts.room && me == 0", "false"),
    Mutant(
        "a-group-behind-the-part", LINEAR_MOVE, "(end - group) << to.group_bits", "(end - group + 1) << to.group_bits"
    ),
    Mutant("last-part-as-large", LINEAR_MOVE, "part_end < to.groups ? part_end : u64(to.groups)", "part_end"),
    Mutant("counters-of-anybody", LINEAR_MOVE, "part.given[i] = 0;", ";"),
    Mutant("slots-of-anybody", LINEAR_MOVE, "block_mem::store_row(slots + i, none);", ";"),
    Mutant("moved-and-uncounted", LINEAR_MOVE, "++moved;", ";"),
    Mutant("by-parts-with-another-seed", LINEAR_MOVE, "from.seed == to.seed", "true"),
    Mutant("by-parts-past-the-limit", LINEAR_MOVE, "to.probe_limit >= moved_bytes / sizeof(word)", "true"),
    Mutant("moved-by-everybody", SLAB_MOVE, "!side && to.home(F::key_of(w)) != index(b)", "false"),
    Mutant("one-bucket-moved", SLAB_MOVE, "side || next < old ? next : old - 1", "first"),
    Mutant("no-slab-and-unsaid", SLAB_MOVE, "failed += !placed;", ";"),
    # places that are claimed first
    Mutant(
        "stash-of-the-impatient",
        HIVE_PLACE,
        "t.commits ? most_patience : some_patience",
        "t.commits ? 0u : some_patience",
    ),
    Mutant(
        "half-a-bucket-seen",
        HIVE_PLACE,
        "from < bucket_slots() && !found",
        "from < 4 && !found",
    ),
]
