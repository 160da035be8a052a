"""Mistakes in the kit's host code that the simulation has to find.

Each is a piece of a source and what stands there instead, with PLANTED for "this mistake is active". They are planted
all at once into a copy of the sources; ``kit_sim --mistake N`` activates one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple


class Mistake(NamedTuple):
    name: str
    file: str
    there: str
    instead: str


GATE = "libgpuhash/kit/gate.hpp"
GRAPHS = "libgpuhash/kit/graphs.hpp"
ROOM = "libgpuhash/kit/room.hpp"
BATCHES = "libgpuhash/kit/batches.hpp"
ENGINE = "libgpuhash/kit/engine.hpp"
GROWTH = "libgpuhash/kit/growth.hpp"
MOVING = "libgpuhash/kit/moving.hpp"
EXCLUSIVE = "libgpuhash/kit/exclusive.hpp"
CONTEXT = "libgpuhash/kit/context.hpp"
WHOLE = "libgpuhash/kit/whole_table.hpp"
FULL = "libgpuhash/kit/full_table.hpp"
TABLE = "libgpuhash/kit/table.hpp"
FLAT = "libgpuhash/kit/flat_table.hpp"
HEAP = "libgpuhash/kit/slab_heap_owner.hpp"
SKIP_BUILD = "plugins/skiplist/bulk_build.hpp"
SKIP_POOL = "plugins/skiplist/pool.hpp"
SLAB = "plugins/slab_hash/table.hpp"


def left_out(statement: str) -> str:
    return f"if (!PLANTED) {{ {statement} }}"


MISTAKES = [
    # who may touch the storage
    Mistake("batches pass the barrier", GATE, "if (!barrier_.stands ||", "if (PLANTED || !barrier_.stands ||"),
    Mistake(
        "the barrier falls too early",
        GATE,
        "if (!api_.finished(barrier_.event))",
        "if (!PLANTED && !api_.finished(barrier_.event))",
    ),
    Mistake(
        "writers beside readers", GATE, "if (t->writes && l.reads_alone)", "if (!PLANTED && t->writes && l.reads_alone)"
    ),
    Mistake(
        "erases beside values in place",
        GATE,
        "if (t->erases && l.keys_stay)",
        "if (!PLANTED && t->erases && l.keys_stay)",
    ),
    Mistake(
        "values in place beside erases", GATE, "if (l.erases) t->keys_stay", "if (l.erases && !PLANTED) t->keys_stay"
    ),
    Mistake(
        "elements added not counted",
        BATCHES,
        "if (adds(q.kind)) added_ += q.n;",
        "if (adds(q.kind) && !PLANTED) added_ += q.n;",
    ),
    Mistake(
        "elements added by a graph not counted",
        BATCHES,
        "added_ = any_number;",
        "added_ = PLANTED ? added_ : any_number;",
    ),
    Mistake("erases not remembered", GATE, "l.erases |= t.erases;", "l.erases |= t.erases && !PLANTED;"),
    Mistake(
        "values in place not remembered",
        GATE,
        "l.keys_stay |= t.keys_stay;",
        "l.keys_stay |= t.keys_stay && !PLANTED;",
    ),
    Mistake(
        "executes that erase nothing",
        BATCHES,
        "turn.erases = erases(q.kind);",
        "turn.erases = !PLANTED && erases(q.kind);",
    ),
    Mistake("alone beside writers", GATE, "t->alone = false;", "t->alone = PLANTED;"),
    Mistake("parts beside batches", BATCHES, "int e = held ? 0 : gate_", "int e = held || PLANTED ? 0 : gate_"),
    Mistake("batches beside parts", BATCHES, "if (!e && !held) e = gate_", "if (!e && !held && !PLANTED) e = gate_"),
    Mistake(
        "parts beside graphs", BATCHES, "parts_never || graphs_.any()", "parts_never || (!PLANTED && graphs_.any())"
    ),
    Mistake("parts without memory", BATCHES, "if (!work) return 0;", "if (!work && !PLANTED) return 0;"),
    Mistake("writers not remembered", GATE, "l.writes |= t.writes;", "l.writes |= t.writes && !PLANTED;"),
    Mistake(
        "readers not remembered",
        GATE,
        "l.reads_alone |= !t.writes && t.alone;",
        "l.reads_alone |= !t.writes && t.alone && !PLANTED;",
    ),
    Mistake("exclusive beside batches", GATE, "if (l.id != id)", "if (!PLANTED && l.id != id)"),
    Mistake(
        "running lanes forgotten", GATE, "if (api_.finished(l.event))\n", "if (PLANTED || api_.finished(l.event))\n"
    ),
    Mistake("lanes outlive the barrier", GATE, "lanes_.clear();", left_out("lanes_.clear();")),
    Mistake(
        "event not recorded",
        GATE,
        "return api_.record(l.event, stream);",
        "return PLANTED ? 0 : api_.record(l.event, stream);",
    ),
    Mistake(
        "barrier not recorded",
        GATE,
        "return api_.record(barrier_.event, stream);",
        "return PLANTED ? 0 : api_.record(barrier_.event, stream);",
    ),
    Mistake(
        "events leak",
        GATE,
        "for (void* event : spare_) api_.drop_event(event);",
        left_out("for (void* event : spare_) api_.drop_event(event);"),
    ),
    Mistake(
        "batches during an exclusive operation",
        GATE,
        "return !exclusive_ && !waiting_;",
        "return PLANTED || (!exclusive_ && !waiting_);",
    ),
    Mistake(
        "exclusive during batches",
        GATE,
        "return !exclusive_ && !sharing_;",
        "return !exclusive_ && (PLANTED || !sharing_);",
    ),
    Mistake(
        "the last batch wakes nobody",
        GATE,
        "if (--sharing_ == 0 && waiting_)",
        "if (--sharing_ == 0 && waiting_ && !PLANTED)",
    ),
    Mistake(
        "unlock wakes nobody",
        GATE,
        "exclusive_ = false;\n    turn_.notify_all();",
        "exclusive_ = false;\n    if (!PLANTED) turn_.notify_all();",
    ),
    Mistake(
        "alone beside batches",
        GATE,
        "if (exclusive_ || sharing_ || waiting_)",
        "if (exclusive_ || waiting_ || (sharing_ && !PLANTED))",
    ),
    Mistake(
        "alone without the gate",
        GATE,
        "exclusive_ = true;\n    return true;",
        "exclusive_ = !PLANTED;\n    return true;",
    ),
    Mistake("alone whoever is there", BATCHES, "p.q.alone = alone;", "p.q.alone = PLANTED || alone;"),
    Mistake("exclusive kinds beside others", BATCHES, "by_itself = in_kinds(", "by_itself = !PLANTED && in_kinds("),
    # the accounting of room
    Mistake(
        "more claimed than is left",
        ROOM,
        "if (free_now < least) return {};",
        "if (!PLANTED && free_now < least) return {};",
    ),
    Mistake("claims not counted", ROOM, "claimed_ += c.n;", left_out("claimed_ += c.n;")),
    Mistake("use not counted", ROOM, "c.n;\n    used_ += used;", "c.n;\n    used_ += PLANTED ? 0 : used;"),
    Mistake(
        "what erasures give back is counted twice",
        BATCHES,
        "c = room_.take_nothing(",
        "if (!PLANTED) c = room_.take_nothing(",
    ),
    Mistake("old claims settled", ROOM, "c.recounts != recounts_", "(!PLANTED && c.recounts != recounts_)"),
    Mistake("recount keeps the claims", ROOM, "claimed_ = 0;\n    ++", "if (!PLANTED) claimed_ = 0;\n    ++"),
    # batches
    Mistake(
        "no retry on the CPU",
        BATCHES,
        "while (p.sum.failed && *grown == GPUHASH_OK)",
        "while (!PLANTED && p.sum.failed && *grown == GPUHASH_OK)",
    ),
    Mistake("no retry on CUDA", BATCHES, "while (growing && !s", "while (!PLANTED && growing && !s"),
    Mistake(
        "failures of retries added",
        BATCHES,
        "p.sum.failed = now.failed;",
        "p.sum.failed = (PLANTED ? p.sum.failed : 0) + now.failed;",
    ),
    Mistake(
        "yes of retries only", BATCHES, "p.sum.yes += now.yes;", "p.sum.yes = (PLANTED ? 0 : p.sum.yes) + now.yes;"
    ),
    Mistake(
        "yes of the last part only",
        BATCHES,
        "    sum.yes += p.sum.yes;",
        "    sum.yes = (PLANTED ? 0 : sum.yes) + p.sum.yes;",
    ),
    Mistake(
        "unwatched batches forgotten",
        BATCHES,
        "&& !counters) unwatched_ = true;",
        "&& !counters) unwatched_ = !PLANTED;",
    ),
    Mistake(
        "counters not emptied", BATCHES, "int e = counters ? api_.fill", "int e = counters && !PLANTED ? api_.fill"
    ),
    Mistake(
        "no wait before counters are read",
        BATCHES,
        'if (!e) e = api_.wait(p.q.stream);\n  if (e) return fault(err, e, "a batch");',
        'if (!e && !PLANTED) e = api_.wait(p.q.stream);\n  if (e) return fault(err, e, "a batch");',
    ),
    Mistake(
        "batch not noted at the gate",
        BATCHES,
        "if (!e) e = gate_.after_batch",
        "if (!e && !PLANTED) e = gate_.after_batch",
    ),
    Mistake(
        "statuses of later parts",
        ENGINE,
        "if (q.status) q.status += first;",
        "if (q.status && !PLANTED) q.status += first;",
    ),
    Mistake("op codes of later parts", ENGINE, "if (q.ops) q.ops += first;", "if (q.ops && !PLANTED) q.ops += first;"),
    Mistake(
        "always certain",
        BATCHES,
        "if (c.granted && !estimate_->fits_surely(c.n))",
        "if (!PLANTED && c.granted && !estimate_->fits_surely(c.n))",
    ),
    Mistake(
        "certain after what nobody counted",
        BATCHES,
        "if (!sure) estimate_->invalidate();",
        "if (!sure && !PLANTED) estimate_->invalidate();",
    ),
    Mistake(
        "certain after retries",
        BATCHES,
        "if (*grown != GPUHASH_OK) break;\n    estimate_->invalidate();",
        "if (*grown != GPUHASH_OK) break;\n    if (!PLANTED) estimate_->invalidate();",
    ),
    Mistake(
        "a build beside graphs",
        BATCHES,
        "if (graphs_.any()) return GPUHASH_OK;  // C1, C2",
        "if (!PLANTED && graphs_.any()) return GPUHASH_OK;  // C1, C2",
    ),
    Mistake(
        "bad op codes are counted as done",
        BATCHES,
        "*b.counts = {sum.yes, sum.failed + sum.bad_ops};",
        "*b.counts = {sum.yes, sum.failed + (PLANTED ? 0 : sum.bad_ops)};",
    ),
    Mistake(
        "bad op codes go untold",
        BATCHES,
        "if (sum.bad_ops) return bad_ops(sum.bad_ops, err);",
        "if (sum.bad_ops && !PLANTED) return bad_ops(sum.bad_ops, err);",
    ),
    # growth
    Mistake(
        "grown once for each",
        GROWTH,
        "if (growths_ != p.growths) return GPUHASH_OK;",
        "if (!PLANTED && growths_ != p.growths) return GPUHASH_OK;",
    ),
    Mistake(
        "updates need room",
        GROWTH,
        "if (taking < p.need)",
        "if (!PLANTED && taking < p.need)",
    ),
    Mistake(
        "an erased key comes back to its slot",
        GROWTH,
        "*taking = std::min(adding, *taking);",
        "*taking = std::min(adding, PLANTED ? uint64_t(n - present) : *taking);",
    ),
    Mistake("who cannot look sees all keys", GROWTH, "*taking = adding;", "*taking = PLANTED ? 0 : adding;"),
    Mistake(
        "finds need room",
        GROWTH,
        "if (q.kind != GPUHASH_OP_EXECUTE) return GPUHASH_OK;",
        "if (PLANTED || q.kind != GPUHASH_OP_EXECUTE) return GPUHASH_OK;",
    ),
    Mistake(
        "room provided for updates",
        BATCHES,
        "if (p.need && !estimate_->fits_surely(p.need)",
        "if ((PLANTED || p.need) && !estimate_->fits_surely(p.need)",
    ),
    Mistake(
        "too little need",
        GROWTH,
        "p.need = adding;",
        "p.need = adding / (PLANTED ? 2 : 1);",
    ),
    Mistake(
        "wider windows need no room",
        GROWTH,
        "p.need + taking;",
        "p.need + (PLANTED ? 0 : taking);",
    ),
    Mistake("a cell a step is skipped", MOVING, "lo += m.step)", "lo += m.step + PLANTED)"),
    Mistake(
        "the last step is short",
        MOVING,
        "lo + m.step < m.cells ? lo + m.step : m.cells;",
        "lo + m.step < m.cells ? lo + m.step : m.cells - (PLANTED && lo);",
    ),
    Mistake(
        "moved pairs of the last step only",
        MOVING,
        "*moved += uint64_t(s.used);",
        "*moved = (PLANTED && lo ? 0 : *moved) + uint64_t(s.used);",
    ),
    Mistake(
        "a rebuild by parts with an old counter",
        MOVING,
        "api_.fill(memory.get(), 0, sizeof(uint64_t), stream)",
        "(PLANTED ? 0 : api_.fill(memory.get(), 0, sizeof(uint64_t), stream))",
    ),
    Mistake(
        "pairs that a rebuild by parts has lost",
        MOVING,
        "if (m.unfilled.p && sum->failed) *done = false;",
        "if (m.unfilled.p && sum->failed) PLANTED ? sum->failed = 0 : *done = false;",
    ),
    Mistake("what a rebuild by parts has left is counted", MOVING, "*sum = {};", "if (!PLANTED) *sum = {};"),
    Mistake(
        "pairs move into what parts have left",
        MOVING,
        "if (m.unfilled.p)\n    if (const int e",
        "if (m.unfilled.p && !(PLANTED && engine_->anew))\n    if (const int e",
    ),
    Mistake(
        "the first stripe of a move only",
        MOVING,
        "sum->used += s.used;\n    sum->failed",
        "if (!PLANTED || &s == stripe) sum->used += s.used;\n    sum->failed",
    ),
    Mistake(
        "no recount after a rebuild",
        MOVING,
        "room_.recount(uint64_t(now.used), limit());",
        "if (!PLANTED) room_.recount(uint64_t(now.used), limit());",
    ),
    Mistake(
        "used slots lost by a rebuild",
        MOVING,
        "now.used = int64_t(used);",
        "now.used = int64_t(used) - PLANTED;",
    ),
    # storage
    Mistake(
        "failed growth leaves the new place",
        FLAT,
        "    at_ = before;",
        "    if (!PLANTED || s == GPUHASH_OK) at_ = before;",
    ),
    Mistake(
        "clear keeps the side keys",
        WHOLE,
        "empty_storage(stream, err)) return s;\n  int e = api_.fill(head()->side,",
        "empty_storage(stream, err)) return s;\n  int e = PLANTED ? 0 : api_.fill(head()->side,",
    ),
    Mistake(
        "scratch freed on another stream",
        CONTEXT,
        "~scratch() { t_.drop(b_, stream_); }",
        "~scratch() { t_.drop(b_, PLANTED ? t_.own_stream_ : stream_); }",
    ),
    Mistake(
        "a stream is not returned",
        CONTEXT,
        "if (stream_) t_.api_.return_stream",
        "if (stream_ && !PLANTED) t_.api_.return_stream",
    ),
    Mistake(
        "a stream is returned too soon",
        CONTEXT,
        "      if (t_.on_cuda()) error = t_.api_.borrow_stream(t_.config_.device.ordinal, &stream_);",
        "      if (t_.on_cuda()) error = t_.api_.borrow_stream(t_.config_.device.ordinal, &stream_);\n"
        "      if (PLANTED && stream_) t_.api_.return_stream(t_.config_.device.ordinal, stream_);",
    ),
    Mistake(
        "nothing waits for the stream of before",
        EXCLUSIVE,
        "  exclusive hold(*this, own.get());",
        "  exclusive hold(*this, PLANTED ? nullptr : own.get());",
    ),
    Mistake(
        "destroyed without waiting",
        TABLE,
        "    api_.wait(own_stream_);\n    //",
        "    if (!PLANTED) api_.wait(own_stream_);\n    //",
    ),
    Mistake("the header leaks", TABLE, "    drop(header_, stream);", "    if (!PLANTED) drop(header_, stream);"),
    Mistake("not poisoned", CONTEXT, "  poisoned_ = true;", "  poisoned_ = !PLANTED;"),
    # slab_hash
    Mistake(
        "units always certain",
        SLAB,
        "return table_.taken() <= table_.sure_;",
        "return PLANTED || table_.taken() <= table_.sure_;",
    ),
    Mistake("the heap of before is sure", SLAB, "      sure_ = old_sure;", "      if (!PLANTED) sure_ = old_sure;"),
    Mistake("the old heap leaks", SLAB, "    old_heap.drop(stream);", "    if (!PLANTED) old_heap.drop(stream);"),
    Mistake(
        "failed growth keeps the new layout",
        SLAB,
        "      layout_ = old_layout;",
        "      if (!PLANTED) layout_ = old_layout;",
    ),
    Mistake(
        "limit after a failed growth", SLAB, "      limit_ = old_limit;", "      limit_ = PLANTED ? 1 : old_limit;"
    ),
    Mistake(
        "a note that is never taken away",
        HEAP,
        "heap_.note = note_in(owned_.back());  // the latest",
        "if (!PLANTED || !heap_.supers) heap_.note = note_in(owned_.back());  // the latest",
    ),
    Mistake(
        "bitmaps not emptied",
        HEAP,
        "if (!e) e = api_.fill(heap_.bitmaps[s], 0,",
        "if (!e && !PLANTED) e = api_.fill(heap_.bitmaps[s], 0,",
    ),
    # CUDA graphs
    Mistake(
        "launches pass the barrier",
        GATE,
        "if (const int e = api_.follow_in_graph(stream, barrier_.event)) return e;",
        "if (const int e = PLANTED ? 0 : api_.follow_in_graph(stream, barrier_.event)) return e;",
    ),
    Mistake(
        "launches beside readers", GATE, "if (writes && l.reads_alone)", "if (!PLANTED && writes && l.reads_alone)"
    ),
    Mistake(
        "launches beside values in place", GATE, "if (writes && l.keys_stay)", "if (!PLANTED && writes && l.keys_stay)"
    ),
    Mistake(
        "values in place beside launches",
        BATCHES,
        "turn.keys_stay &= !graphs_.any_that_write();",
        "turn.keys_stay &= PLANTED || !graphs_.any_that_write();",
    ),
    Mistake(
        "alone beside launches",
        BATCHES,
        "turn.alone &= !graphs_.any_that_write();  // C3",
        "turn.alone &= PLANTED || !graphs_.any_that_write();  // C3",
    ),
    Mistake(
        "storage moves under a graph", WHOLE, "if (!graphs_.any()) return", "if (PLANTED || !graphs_.any()) return"
    ),
    Mistake(
        "growing batches in a graph",
        BATCHES,
        '  if (growing)\n    return host->fail(\n        err, GPUHASH_INVALID_ARGUMENT,\n        "the stream is being',
        "  if (growing && !PLANTED)\n    return host->fail(\n        err, GPUHASH_INVALID_ARGUMENT,\n        "
        '"the stream is being',
    ),
    Mistake(
        "counts in a graph",
        BATCHES,
        '  if (counts)\n    return host->fail(err, GPUHASH_INVALID_ARGUMENT,\n                      "the stream is',
        "  if (counts && !PLANTED)\n    return host->fail(err, GPUHASH_INVALID_ARGUMENT,\n                      "
        '"the stream is',
    ),
    Mistake(
        "exclusive operations in a capture",
        WHOLE,
        "  if (!graph) return GPUHASH_OK;",
        "  if (PLANTED || !graph) return GPUHASH_OK;",
    ),
    Mistake(
        "graphs that never end",
        GRAPHS,
        "    n->of->batches.fetch_sub(1, std::memory_order_release);",
        "    if (!PLANTED) n->of->batches.fetch_sub(1, std::memory_order_release);",
    ),
    Mistake(
        "writers of a graph not counted",
        GRAPHS,
        "counts_->writers.fetch_add(writes,",
        "counts_->writers.fetch_add(writes && !PLANTED,",
    ),
    Mistake(
        "graphs not remembered",
        BATCHES,
        "int e = graphs_.add(api_, graph, writes);",
        "int e = PLANTED ? 0 : graphs_.add(api_, graph, writes);",
    ),
    Mistake(
        "captured batches not reported",
        BATCHES,
        "  if (adds(q.kind)) unwatched_ = true;\n  if (!e) return GPUHASH_OK;",
        "  if (adds(q.kind) && !PLANTED) unwatched_ = true;\n  if (!e) return GPUHASH_OK;",
    ),
    # skiplist
    Mistake(
        "built over what is there",
        SKIP_BUILD,
        "gpuhash_status s = in_place ? pools().wipe(",
        "gpuhash_status s = in_place && !PLANTED ? pools().wipe(",
    ),
    Mistake(
        "updates move what is too full",
        SKIP_BUILD,
        "if (!in_place && !b.fresh) return GPUHASH_OK;",
        "if (!PLANTED && !in_place && !b.fresh) return GPUHASH_OK;",
    ),
    Mistake(
        "only one segment is wiped",
        SKIP_POOL,
        "s < t.segments && t.first[s] < chunks",
        "s < (PLANTED ? 1 : t.segments) && t.first[s] < chunks",
    ),
    Mistake(
        "keys encoded twice",
        SKIP_BUILD,
        "encoded((in_place ? table_.pool_ : fresh.it).layout);",
        "PLANTED ? (in_place ? table_.pool_ : fresh.it).layout : encoded((in_place ? table_.pool_ : fresh.it).layout);",
    ),
    Mistake(
        "side keys of a built batch",
        SKIP_BUILD,
        "int64_t(b.fresh + b.fresh_side);",
        "int64_t(b.fresh + (PLANTED ? 0 : b.fresh_side));",
    ),
    Mistake(
        "yes of a built batch",
        SKIP_BUILD,
        "sum->yes = b.fresh + b.fresh_side;",
        "sum->yes = b.fresh + (PLANTED ? 0 : b.fresh_side);",
    ),
    Mistake(
        "the pool of before leaks",
        SKIP_POOL,
        "~spare() { of_.drop(it, stream_); }",
        "~spare() { if (!PLANTED) of_.drop(it, stream_); }",
    ),
    Mistake(
        "built behind what it falls short of",
        SKIP_BUILD,
        "if (end.falls_short || end.below",
        "if ((end.falls_short && !PLANTED) || end.below",
    ),
    Mistake(
        "keys behind the end encoded twice",
        SKIP_BUILD,
        "target = encoded(table_.pool_.layout);",
        "target = PLANTED ? table_.pool_.layout : encoded(table_.pool_.layout);",
    ),
    Mistake(
        "pairs before the end forgotten",
        SKIP_BUILD,
        "count_built(b, now, uint64_t(now.used) + b.fresh,",
        "count_built(b, now, (PLANTED ? 0 : uint64_t(now.used)) + b.fresh,",
    ),
    Mistake(
        "built behind the end and served",
        SKIP_BUILD,
        "*done = true;  // from here on nothing runs out\n    int e",
        "*done = !PLANTED;\n    int e",
    ),
    Mistake(
        "an end that nobody waited for",
        SKIP_BUILD,
        'if (!e) e = table_.api_.wait(q.stream);\n    if (e) return table_.fault(err, e, "looking at the end',
        "if (!e && !PLANTED) e = table_.api_.wait(q.stream);\n    "
        'if (e) return table_.fault(err, e, "looking at the end',
    ),
    # guesses
    Mistake(
        "a guess is a promise",
        BATCHES,
        "sure = c.granted && p.by != part::guessed && estimate_->fits_surely(p.q.n);",
        "sure = c.granted && (p.by != part::guessed || PLANTED) && estimate_->fits_surely(p.q.n);",
    ),
    # without memory to grow
    Mistake(
        "without memory the limit is the last slot",
        BATCHES,
        "if (*grown != GPUHASH_OK) return poisoned_ ? *grown : serve_within_limit(p, err);",
        "if (!PLANTED && *grown != GPUHASH_OK) return poisoned_ ? *grown : serve_within_limit(p, err);",
    ),
    Mistake(
        "keys beyond the room there is",
        FULL,
        "serves = here && (!takes || room > 0);",
        "serves = here && (!takes || room > 0 || PLANTED);",
    ),
    Mistake("room that is left is not used", FULL, "take_rest(s.absent())", "take_rest(PLANTED ? 0 : s.absent())"),
    Mistake("present keys need room", FULL, "return !marks[i] &&", "return (!marks[i] || PLANTED) &&"),
    Mistake(
        "what adds nothing needs room",
        FULL,
        "(!mixed || adds_in_mix(ops[i]))",
        "(!mixed || PLANTED || adds_in_mix(ops[i]))",
    ),
    Mistake(
        "served twice",
        FULL,
        "if (status[i] == on_its_way) status[i] = marks[i];",
        "if (status[i] == on_its_way) status[i] = PLANTED ? waits : marks[i];",
    ),
    Mistake(
        "an element without room says no",
        FULL,
        "if (status[i] == waits) status[i] = GPUHASH_ELEMENT_FULL;",
        "if (status[i] == waits) status[i] = PLANTED ? GPUHASH_NO : GPUHASH_ELEMENT_FULL;",
    ),
    Mistake(
        "elements without room are not counted",
        FULL,
        "p.sum.failed = s.end();",
        "s.end();\n  if (!PLANTED) p.sum.failed = s.end();",
    ),
    Mistake(
        "statuses are copied without a wait",
        FULL,
        "s.status, s.n, p.q.stream);\n  if (!e) e = api_.wait(p.q.stream);",
        "s.status, s.n, p.q.stream);\n  if (!e && !PLANTED) e = api_.wait(p.q.stream);",
    ),
    # ordered queries
    Mistake("a query alone beside writers", WHOLE, "  q.alone = turn.alone;", "  q.alone = turn.alone || PLANTED;"),
    Mistake(
        "queries not noted at the gate",
        WHOLE,
        "  if (!e) e = gate_.after_batch(q.stream, turn);",
        "  if (!e && !PLANTED) e = gate_.after_batch(q.stream, turn);",
    ),
    Mistake(
        "some pairs are counted", WHOLE, "  counted.most = ~size_t(0);", "  counted.most = PLANTED ? 4 : ~size_t(0);"
    ),
    Mistake("pairs without room", WHOLE, "  if (q.most < all)", "  if (q.most < all && !PLANTED)"),
    Mistake(
        "ranges read where nothing is counted",
        WHOLE,
        "  q.offsets = offsets;\n",
        "  if (!PLANTED) q.offsets = offsets;\n",
    ),
    Mistake(
        "offsets that nobody waited for",
        WHOLE,
        "sizeof(all), q.stream);\n  if (!e) e = api_.wait(q.stream);",
        "sizeof(all), q.stream);\n  if (!e && !PLANTED) e = api_.wait(q.stream);",
    ),
]


def plant(root: Path, to: Path) -> None:
    """A copy of the sources below ``root`` with every mistake planted, none active."""
    for folder in ("libgpuhash", "plugins"):
        shutil.copytree(root / folder, to / folder, dirs_exist_ok=True)
    for path in {to / mistake.file for mistake in MISTAKES}:  # each knows which one is active
        path.write_text(path.read_text().replace("#pragma once", '#pragma once\n#include "tests/kit/world.hpp"', 1))
    for number, mistake in enumerate(MISTAKES, 1):
        path = to / mistake.file
        text = path.read_text()
        found = text.count(mistake.there)
        assert found == 1, (
            f"{mistake.name}: {mistake.there!r} stands {found} times in {mistake.file}; adapt the mistake"
        )
        planted = mistake.instead.replace("PLANTED", f"::gpuhash::kit_sim::is_planted({number})")
        path.write_text(text.replace(mistake.there, planted))
