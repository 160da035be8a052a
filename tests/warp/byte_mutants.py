"""Mistakes to plant in the kernels of columns of bytes, each of which their tests have to notice (mutants.py)."""

from .mutants import Mutant

BYTES, WORK = "libgpuhash/columns/cuda/bytes.cuh", "libgpuhash/columns/cuda/work.cuh"

MUTANTS = [
    # rows
    Mutant("slice-from-its-buffer", BYTES, "begin_of(first + i)", "begin_of(i)"),
    Mutant("bit-of-the-buffer", BYTES, "i += first;", ";"),
    Mutant(
        "next-word-left-out",
        BYTES,
        "if (off + many > 8) v |= *reinterpret_cast<const u64*>(low + 8) << (64 - 8 * off);",
        ";",
    ),
    Mutant("bytes-behind-the-row", BYTES, "if (many < 8) v &= (u64(1) << 8 * many) - 1;", ";"),
    Mutant("two-zeros", BYTES, "size == 0", "v == 0"),
    Mutant("nans-by-their-bits", BYTES, "size > infinite", "v == infinite + 1"),
    Mutant("row-of-the-other-column", BYTES, "row < one.n ? row : row - one.n", "row"),
    # words of rows
    Mutant("last-of-the-list", BYTES, "w.items - 1 - i", "w.items - 1"),
    Mutant("words-of-one-warp", BYTES, "warps * 32", "32"),
    Mutant("sum-of-a-lane", WORK, "lane >= d", "lane == d"),
    Mutant("warps-skip-rows", BYTES, "i += warps", "i += warps + 1"),
    # hashes
    Mutant("no-length", BYTES, "of(s.size, 0)", "of(0, 0)"),
    Mutant("null-is-empty", BYTES, "of(1, ~u64(0))", "of(0, 0)"),
    Mutant("words-without-places", BYTES, "j + 1", "1"),
    Mutant("no-seed", BYTES, "seed + place * 0x9e3779b97f4a7c15u", "place * 0x9e3779b97f4a7c15u"),
    Mutant("any-null", BYTES, "known->first_null > i", "known->first_null == ~0ull"),
    # comparisons
    Mutant("lengths-not-compared", BYTES, "a.size != b.size", "false"),
    Mutant("nulls-not-compared", BYTES, "a.null != b.null", "false"),
    Mutant(
        "last-word-not-compared",
        BYTES,
        "mine.word(a, j) != its.word(b, j)",
        "j + 8 < words && mine.word(a, j) != its.word(b, j)",
    ),
    Mutant("from-its-own-column", BYTES, "rows.side(with).row(rows.own(with))", "rows.side(i).row(rows.own(with))"),
    Mutant("dropped-rows-compared", BYTES, "codes[i] < 0", "codes[i] < -1"),
    Mutant(
        "any-row-first",
        BYTES,
        "static_cast<volatile unsigned long long*>(first)[codes[i]] > i",
        "first[codes[i]] == ~0ull",
    ),
    # rows that are picked
    Mutant("nulls-as-they-lie", BYTES, "data[i * width + j] = 0;", ";"),
    Mutant("no-bits", BYTES, "u32(!w.from(8 * i + j).null) << j", "1u << j"),
    Mutant("bytes-of-the-first", BYTES, "u8(word >> 8 * b)", "u8(word)"),
    Mutant("strips-from-zero", BYTES, "atomicAdd(&block.before, strips[i]);", ";"),
    Mutant("tiles-from-zero", BYTES, "before += block.of_warp[warp];", ";"),
    Mutant("warps-from-zero", BYTES, "mine += warp < threadIdx.x / 32 ? block.of_warp[warp] : 0;", ";"),
    Mutant("own-bytes-before", BYTES, "mine + up_to - size", "mine + up_to"),
]
