/* SPDX-License-Identifier: MIT */
/*
 * member.h - crowds: named contexts that exist in very large numbers and have had at most one small
 * chunk each.
 *
 * For: an aggregate that keeps the state of each of a million groups in a context of its own. An
 * ordinary context takes 300 bytes for its place, node, account and list. A *member* of the *crowd*
 * of its name takes 24 bytes, and the crowd has the node and the account. A request for anything
 * but one small chunk makes the member grow: it becomes an ordinary context (named/named.h). A
 * member's chunk stands in the pages that the thread's contexts of PLACE_APART share; the block's
 * record holds the number of the member in place of the number of a view. Cannot do: hold a second
 * chunk, a policy, terms, a limit, children that its owner makes.
 *
 * Cost: 24 bytes a context. The common free (api/fast.h) leaves frees of such chunks to
 * page_kinds.h.
 *
 * Layers: frees, dumps and reports of misuse find a member by its number in a block's record, so
 * this layer knows what a member holds, and kind_blocks.c notes that its chunk is freed. All else
 * about crowds is in named/crowd.c, because it needs names and handles.
 *
 * Source: the cost of PostgreSQL's array_agg with a context for each of a million groups.
 *
 * Threads: the owner of the crowd makes, allocates in and ends members. Any thread may free the
 * chunk.
 */
#ifndef MEMCTX_MEMBER_H
#define MEMCTX_MEMBER_H

#include "region/blocks.h"

/* A flag in the view index of a block's record: the lower bits are the number of a member. */
#define MEMBER_VIEW (1U << 23)
#define MEMBERS_PER_BLOCK 32768U
#define MEMBER_BLOCKS (MEMBER_VIEW / MEMBERS_PER_BLOCK)

struct member {
    uint32_t generation; /* atomic: odd while the member is alive */
    uint32_t crowd;      /* id of the node of the member's crowd, also after the member's end */
    uint64_t chunk;      /* atomic: the member's chunk, see enum member_state */
    /* Written under region_lock: neighbours in the list of the parent's children. After the
     * member's end, `prev` is the number of the next member that waits for reuse. `next` is 0 then,
     * because walks over children read `next` without the lock. */
    uint32_t next, prev;
};
_Static_assert(sizeof(struct member) == 24, "as the header says");
/* Behind the members of a block: for each of them that has not grown, the place of its first child;
 * 0: none. Only other threads than the owner make such children, because they may not let the
 * member grow. These words stay untouched, and take no memory, in most programs. */
#define MEMBER_ALL_BYTES (sizeof(struct member) + sizeof(uint32_t))
/* The two lowest bits of member.chunk are the state, which says what the other bits hold. */
enum member_state {
    /* The chunk is alive. The word holds its address, and its requested bytes from bit
     * MEMBER_BYTES_SHIFT on. The word is 0 when the member has had no chunk yet. */
    MEMBER_HAS = 0,
    /* The chunk was freed. The word holds its requested bytes from bit MEMBER_BYTES_SHIFT on. */
    MEMBER_HAD = 1,
    /* The member became an ordinary context. The word holds the id of its node from bit
     * MEMBER_ID_SHIFT on. */
    MEMBER_GROWN = 2,
};
#define MEMBER_BYTES_SHIFT 48U
#define MEMBER_ID_SHIFT 2U

INTERNAL struct member *member_blocks[MEMBER_BLOCKS]; /* atomic */
INTERNAL uint32_t member_count; /* atomic: lower numbers were used; number 0 means no member */

INLINE struct member *member_at(uint32_t number) {
    return &load_acquire(&member_blocks[number / MEMBERS_PER_BLOCK])[number % MEMBERS_PER_BLOCK];
}
INLINE uint32_t *member_children(uint32_t number) {
    struct member *block = load_acquire(&member_blocks[number / MEMBERS_PER_BLOCK]);
    return (uint32_t *)(block + MEMBERS_PER_BLOCK) + number % MEMBERS_PER_BLOCK;
}
INLINE enum member_state member_state(uint64_t chunk) {
    return (enum member_state)(chunk & 3);
}
INLINE uint32_t member_bytes(uint64_t chunk) {
    return (uint32_t)(chunk >> MEMBER_BYTES_SHIFT);
}
/* Returns the address of a chunk in the state MEMBER_HAS. NULL: the member has had no chunk yet. */
INLINE void *member_address(uint64_t chunk) {
    return (void *)(uintptr_t)(chunk & ((1UL << MEMBER_BYTES_SHIFT) - 1));
}
/* Returns the id of the context that pays for the member's chunk. */
INLINE uint32_t member_context(uint32_t number) {
    const struct member *member = member_at(number);
    uint64_t chunk = load_acquire(&member->chunk);
    return member_state(chunk) == MEMBER_GROWN ? (uint32_t)(chunk >> MEMBER_ID_SHIFT)
                                               : load_relaxed(&member->crowd);
}
/* Returns the number of the member that a record's view index names; 0: it names a view. */
INLINE uint32_t member_of_record(uint32_t view_index) {
    uint32_t number = view_index & (MEMBER_VIEW - 1);
    return view_index & MEMBER_VIEW && number < load_acquire(&member_count) ? number : 0;
}
/* Returns the context that pays for a block in a page of `heap`. The block's record names the view
 * or the member. REGION_NO_CONTEXT: the record names neither. */
#define REGION_NO_CONTEXT UINT32_MAX
INLINE uint32_t member_payer(struct heap *heap, uint32_t view_index) {
    uint32_t number = UNLIKELY(view_index & MEMBER_VIEW) ? member_of_record(view_index) : 0;
    if (number)
        return member_context(number);
    return view_index && view_index < load_acquire(&heap->view_count)
               ? heap_view_at(heap, view_index)->context
               : REGION_NO_CONTEXT;
}

#endif
