/* SPDX-License-Identifier: MIT */
/*
 * terms.h - what a rule, or the program for a named context, asks of the context's chunks beside a
 * policy.
 *
 * For: mostly one call path of a program that is not to be changed. Terms are a limit, pages of its
 * own from the first chunk on, pages of another size, chunks that are zeroed when they are freed,
 * chunks with a guard page (region/guard.h). One byte for each context says which terms hold. The
 * bytes stand in leaves like those of heap_placed and are read together with heap_placed, so that
 * other contexts pay nothing. Contexts with a limit or guards take the slow path at each allocation
 * (the bins of their views are heap_no_bins).
 *
 * A limit holds for all contexts of its rule together. Allocations are granted from an allowance,
 * which is the rest of the limit when the views were last summed up. When the allowance is used up,
 * the views are summed up again, in a few ns a view. So freed bytes count at once, and the limit
 * may be passed by one chunk for each thread that allocates at that moment.
 *
 * Threads: any; the control thread writes the table before a context's byte names the entry.
 */
#ifndef MEMCTX_TERMS_H
#define MEMCTX_TERMS_H

#include "memctx.h"
#include "region/heap.h"

#define TERMS_RULES 65U /* those of rules have the numbers below; 0 is none */
/* Behind the terms of rules stand those that a program asks for, by the sum of enum memctx_flag. */
#define TERMS_COUNT (TERMS_RULES + MEMCTX_FLAGS)

enum terms_flag {
    TERMS_OWN = 1,   /* pages of its own from the first chunk on */
    TERMS_ZERO = 2,  /* what is freed is zeroed */
    TERMS_GUARD = 4, /* each chunk has a guard page behind it */
    TERMS_LIMIT = 8, /* past the limit allocations fail */
    TERMS_WARN = 16, /* past it one line is printed */
};

struct terms {
    uint32_t flags;    /* enum terms_flag */
    uint8_t slices;    /* of a page; 0: as many as usual */
    const char *rule;  /* its text */
    int64_t limit;     /* of requested bytes */
    int64_t allowance; /* atomic: may be granted before the views are summed up again */
    uint64_t passed; /* atomic: allocations that were refused; with TERMS_WARN, times it was told */
    uint64_t guarded;   /* atomic: allocations that have a guard page */
    uint64_t unguarded; /* atomic: those that could have none */
    uint32_t to_tell;   /* atomic: the limit of TERMS_WARN is passed, and nobody was told yet */
};
INTERNAL struct terms terms_table[TERMS_COUNT];
INTERNAL void *terms_leaves[PLACED_LEAVES]; /* atomic: bytes, numbers by context; NULL: all none */

#define HEAP_TERMS (1U << 31) /* in heap_placed_any: some context has terms */

INLINE bool terms_exist(void) {
    return UNLIKELY(load_relaxed(&heap_placed_any) & HEAP_TERMS);
}
INLINE unsigned terms_number(uint32_t context) {
    return terms_exist() ? heap_leaf_byte(terms_leaves, context) : 0;
}
/* Returns the terms of the context if one of `flags` is set in them, else NULL. */
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
/* Returns the requested bytes that are alive in all contexts of the terms. */
int64_t terms_live(unsigned number);
/* Asks for `more` bytes for a chunk that had `had` bytes in the context `had_in`. False: the
 * limit would be passed. */
bool terms_allow(uint32_t context, size_t more, uint32_t had_in, size_t had);

#endif
