/* SPDX-License-Identifier: MIT */
/*
 * member.h - crowds: named contexts that exist in very large numbers and have had at most one small
 * chunk each.
 *
 * For: an aggregate that keeps the state of each of a million groups in a context of its own. An
 * ordinary context takes 300 bytes for its place, node, account and list. A *member* of the *crowd*
 * of its name takes 24 bytes, and the crowd has the node and the account. Any other request makes
 * the member grow: it becomes an ordinary context (context/named.h). A member's chunk stands in the
 * pages that the thread's contexts of PLACE_APART share; the block's record holds the number of the
 * member in place of the number of a view. Cannot do: hold a second chunk, a policy, terms, a
 * limit, children.
 *
 * Cost: 24 bytes a context. A free of such a chunk takes region_free_further.
 *
 * Source: the cost of PostgreSQL's array_agg with a context for each of a million groups.
 *
 * Threads: the owner of the crowd makes, allocates in and ends members. Any thread frees the chunk.
 */
#ifndef MEMCTX_MEMBER_H
#define MEMCTX_MEMBER_H

#include "region/blocks.h"

#define MEMBER_VIEW (1U << 23) /* in a record: what is below is a member's number */
#define MEMBERS_PER_BLOCK 32768U
#define MEMBER_BLOCKS (MEMBER_VIEW / MEMBERS_PER_BLOCK)

struct member {
    uint32_t generation; /* atomic; odd: alive */
    uint32_t crowd;      /* id of its crowd's node; of a spare one: the next */
    uint64_t chunk;      /* atomic: enum member_state, and by that: */
    uint32_t next, prev; /* region_lock: places of the parent's other children */
};
_Static_assert(sizeof(struct member) == 24, "as the header says");
/* The state stands in the two lowest bits of `chunk` and says what the other bits hold. */
enum member_state {
    MEMBER_HAS = 0,   /* the chunk's address, above it the requested bytes; 0: there was none yet */
    MEMBER_HAD = 1,   /* above: the bytes that were requested */
    MEMBER_GROWN = 2, /* from the third bit on: the id of a node of its own */
};
#define MEMBER_BYTES_SHIFT 48U
#define MEMBER_ID_SHIFT 2U

INTERNAL struct member *member_blocks[MEMBER_BLOCKS]; /* atomic */
INTERNAL uint32_t member_count; /* atomic: numbers below it were used; 0 is none */

INLINE struct member *member_at(uint32_t number) {
    return &load_acquire(&member_blocks[number / MEMBERS_PER_BLOCK])[number % MEMBERS_PER_BLOCK];
}
INLINE enum member_state member_state(uint64_t chunk) {
    return (enum member_state)(chunk & 3);
}
INLINE uint32_t member_bytes(uint64_t chunk) {
    return (uint32_t)(chunk >> MEMBER_BYTES_SHIFT);
}
INLINE void *member_address(uint64_t chunk) { /* MEMBER_HAS; NULL: there was none yet */
    return (void *)(uintptr_t)(chunk & ((1UL << MEMBER_BYTES_SHIFT) - 1));
}
/* Returns the id of the context that pays for the member's chunk. */
INLINE uint32_t member_context(uint32_t number) {
    const struct member *member = member_at(number);
    uint64_t chunk = load_acquire(&member->chunk);
    return member_state(chunk) == MEMBER_GROWN ? (uint32_t)(chunk >> MEMBER_ID_SHIFT)
                                               : load_relaxed(&member->crowd);
}
/* Returns the number of the member that a record names; 0: the record names a view. */
INLINE uint32_t member_of_record(uint32_t view_index) {
    uint32_t number = view_index & (MEMBER_VIEW - 1);
    return view_index & MEMBER_VIEW && number < load_acquire(&member_count) ? number : 0;
}
/* Returns the context that pays for a block of that heap's pages, by the number in the block's
 * record. REGION_NO_CONTEXT: none is known. */
#define REGION_NO_CONTEXT UINT32_MAX
INLINE uint32_t member_payer(struct heap *heap, uint32_t view_index) {
    uint32_t number = UNLIKELY(view_index & MEMBER_VIEW) ? member_of_record(view_index) : 0;
    if (number)
        return member_context(number);
    return view_index && view_index < load_acquire(&heap->view_count)
               ? heap_view_at(heap, view_index)->context
               : REGION_NO_CONTEXT;
}

/* Returns a member number that was never used. The caller holds region_lock. 0: out of memory,
 * or of numbers. */
uint32_t member_new(void);
/* Allocates the member's first chunk, on the account of the crowd's view. NULL: the member has
 * to grow, or there is no memory. */
void *member_alloc(struct heap *heap, struct view *crowd, uint32_t number, size_t size,
                   bool *fresh);
/* Notes that the member's chunk is freed, and returns the context that pays for it. *grown: the
 * member is an ordinary context now, which pays and has the chunk in its list. */
uint32_t member_freed(uint32_t number, bool *grown);

#endif
