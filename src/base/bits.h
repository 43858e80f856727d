/* SPDX-License-Identifier: MIT */
/* bits.h - searches, fills and counts runs of set bits in a map of BITS_COUNT bits. */
#ifndef MEMCTX_BITS_H
#define MEMCTX_BITS_H

#include "base/base.h"

#define BITS_COUNT 256U

/* Returns the first bit at or behind `from` that equals `set`, or BITS_COUNT if there is no such
 * bit. */
INLINE unsigned bits_next(const uint64_t *bits, unsigned from, bool set) {
    while (from < BITS_COUNT) {
        uint64_t word = (set ? bits[from >> 6] : ~bits[from >> 6]) >> (from & 63);
        if (word)
            return from + (unsigned)__builtin_ctzl(word);
        from = (from | 63) + 1;
    }
    return BITS_COUNT;
}

/* Returns the start of the first run of at least `count` set bits. If there is no such run, returns
 * BITS_COUNT and sets *longest to the length of the longest run. */
INLINE unsigned bits_find_run(const uint64_t *bits, unsigned count, unsigned *longest) {
    *longest = 0;
    for (unsigned start = bits_next(bits, 0, true); start < BITS_COUNT;) {
        unsigned end = bits_next(bits, start, false);
        if (end - start >= count)
            return start;
        if (end - start > *longest)
            *longest = end - start;
        start = bits_next(bits, end, true);
    }
    return BITS_COUNT;
}

/* Returns the length of the run of set bits that the set bit `bit` belongs to. */
INLINE unsigned bits_run_around(const uint64_t *bits, unsigned bit) {
    unsigned end = bits_next(bits, bit, false), word = bit >> 6, above = 63 - (bit & 63);
    /* the run begins behind the highest bit below `bit` that is not set */
    uint64_t clear = ~bits[word] << above >> above;
    while (!clear && word)
        clear = ~bits[--word];
    return end - (clear ? (word << 6) + 64 - (unsigned)__builtin_clzl(clear) : 0);
}

/* Returns the mask of the bits from `start` on, before `end`, that are in the word of `start`. */
INLINE uint64_t bits_mask(unsigned start, unsigned end) {
    unsigned above = (start | 63) < end ? 0 : 64 - (end & 63);
    return ~0UL << (start & 63) & ~0UL >> above;
}

/* Sets or clears `count` bits from `start` on. */
INLINE void bits_fill(uint64_t *bits, unsigned start, unsigned count, bool set) {
    for (unsigned end = start + count; start < end; start = (start | 63) + 1) {
        uint64_t mask = bits_mask(start, end), *word = &bits[start >> 6];
        *word = set ? *word | mask : *word & ~mask;
    }
}

/* Counts the set bits among `count` bits from `start` on. */
INLINE unsigned bits_count_in(const uint64_t *bits, unsigned start, unsigned count) {
    unsigned sum = 0;
    for (unsigned end = start + count, next; start < end; start = next) {
        uint64_t mask = bits_mask(start, end), word = bits[start >> 6] & mask;
        next = (start | 63) + 1;
        if (word == mask) /* mostly; the processor may lack an instruction that counts bits */
            sum += (end < next ? end : next) - start;
        else if (word)
            sum += (unsigned)__builtin_popcountl(word);
    }
    return sum;
}

#endif
