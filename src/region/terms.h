/* SPDX-License-Identifier: MIT */
/*
 * terms.h - the terms of a context: limits, guards and other demands on its chunks, beside a
 * policy.
 *
 * For: a call path that a placement rule names, in a program that is not to be changed. A program
 * may also ask for terms when it creates a named context. Terms are a limit, pages of the context's
 * own from the first chunk on, pages of another size, chunks that are zeroed when they are freed,
 * chunks with a guard behind them (region/guard.h). One byte for each context names an entry of
 * terms_table. The bytes are in leaves like those of heap_placed. The common malloc and free
 * (api/fast.h) do not read them, so contexts without terms pay nothing. The bins of contexts with a
 * limit or guards are heap_no_bins, so region/alloc.c serves each of their allocations. Cannot do:
 * change chunks that are allocated already.
 *
 * A limit holds for all contexts of its rule together. Allocations are granted from an allowance:
 * the bytes that were left of the limit when the views were last summed up. When the allowance is
 * used up, the views are summed up again, in a few ns a view. Each new sum takes freed bytes into
 * account. The limit may be passed by one chunk for each thread that allocates at that moment.
 *
 * Threads: any. An entry of the table is written before a context's byte names it: for a rule by
 * the constructor or the control thread, else by the thread that creates the context.
 */
#ifndef MEMCTX_TERMS_H
#define MEMCTX_TERMS_H

#include "memctx.h"
#include "region/heap.h"

/* The terms of rules have the numbers from 1 to TERMS_RULES - 1. Number 0 means no terms. Behind
 * the rules' terms are the terms that a program can ask for, one for each sum of enum memctx_flag.
 */
#define TERMS_RULES 65U
#define TERMS_COUNT (TERMS_RULES + MEMCTX_FLAGS)

enum terms_flag {
    TERMS_OWN = 1,   /* the context has pages of its own from the first chunk on */
    TERMS_ZERO = 2,  /* a free overwrites the chunk with zeros */
    TERMS_GUARD = 4, /* each chunk has a guard behind it: region/guard.h */
    TERMS_LIMIT = 8, /* allocations that would exceed the limit fail */
    TERMS_WARN = 16, /* one line is printed when the limit is exceeded */
};

struct terms {
    uint32_t flags;   /* sum of enum terms_flag */
    uint8_t slices;   /* number of slices of a page; 0: the number without terms */
    const char *rule; /* text of the rule; NULL: the program asked for the terms */
    int64_t limit;    /* greatest sum of requested bytes of all contexts with these terms */
    /* atomic: bytes to grant before the views are summed up again; with TERMS_WARN, the live bytes
     * at which the next warning comes */
    int64_t allowance;
    uint64_t passed;    /* atomic: number of refused allocations; with TERMS_WARN, of warnings */
    uint64_t guarded;   /* atomic: allocations that got a guard */
    uint64_t unguarded; /* atomic: allocations that could get no guard, see region/guard.h */
    /* atomic: 1: the limit is exceeded, and the next call of region_alloc prints the line */
    uint32_t to_tell;
};
INTERNAL struct terms terms_table[TERMS_COUNT];
/* Atomic: leaves with a byte for each context, the number of its terms; NULL: no context of the
 * leaf has terms. */
INTERNAL void *terms_leaves[PLACED_LEAVES];

#define HEAP_TERMS (1U << 31) /* a flag in heap_placed_any: some context has, or had, terms */

INLINE bool terms_exist(void) {
    return UNLIKELY(load_relaxed(&heap_placed_any) & HEAP_TERMS);
}
INLINE unsigned terms_number(uint32_t context) {
    return terms_exist() ? heap_leaf_byte(terms_leaves, context) : 0;
}
/* Returns the context's terms if they have one of `flags`, else NULL. */
INLINE struct terms *terms_with(uint32_t context, uint32_t flags) {
    if (!terms_exist())
        return NULL;
    struct terms *terms = &terms_table[terms_number(context)];
    return load_relaxed(&terms->flags) & flags ? terms : NULL;
}
/* Sets the terms of a context. False: out of memory. */
bool terms_set(uint32_t context, unsigned number);
/* Sets the terms that a program asks for: `flags` is a sum of enum memctx_flag. False: out of
 * memory. */
bool terms_ask(uint32_t context, unsigned flags);
/* Returns the sum of enum memctx_flag that the program asked for; 0: nothing, or the terms are
 * those of a rule. */
INLINE unsigned terms_asked(uint32_t context) {
    unsigned number = terms_number(context);
    return number >= TERMS_RULES ? number - TERMS_RULES + 1 : 0;
}
/* Returns the requested bytes that are alive in all contexts that have the terms with this number.
 */
int64_t terms_live(unsigned number);
/* Takes `more` bytes out of the limit of the context's terms, if they have one. If a chunk is
 * resized, the chunk has `had` bytes in the context `had_in`; else `had` is 0. False: the limit
 * would be exceeded. */
bool terms_allow(uint32_t context, size_t more, uint32_t had_in, size_t had);

#endif
