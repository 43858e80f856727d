/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the process-wide tree of contexts: one node for each frame of each call path.
 *
 * A node takes 32 bytes. Only its flags and its list of children change until it is removed, so
 * readers take no lock. New nodes are made under tree_lock. An id is the node's index. The id keeps
 * its meaning until the node is removed. context/sweep.c removes a node when no thread can hold its
 * id any more; a later node gets the id. A node's id is always greater than its parent's. A node
 * holds its first TREE_INLINE_CHILDREN children itself, each with some bits of the child's address.
 * So to find a path again, a look-up mostly reads one cache line for each node, in the order in
 * which the nodes were made. Further children stand in a table keyed by the parent and the frame,
 * which doubles when it is full (tables_hash_is_full). The common path does not use the table.
 */
#ifndef MEMCTX_TREE_H
#define MEMCTX_TREE_H

#include "path/unwind_rules.h"
#include "region/tables.h"

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(MEMCTX_MODEL)
#define TREE_CHILDREN_AT_ONCE
#include <emmintrin.h>
#endif

#define TREE_NODES_PER_BLOCK 4096U
#define TREE_BLOCKS 1024U /* 4 M nodes */
#define TREE_ID_BITS 22U
#define TREE_IDS (TREE_NODES_PER_BLOCK * TREE_BLOCKS)
#define TREE_INLINE_CHILDREN 4U

/* Ids of the nodes that exist from the start. All are children of the root, except the root
 * itself. */
enum tree_fixed {
    TREE_ROOT = 0,
    TREE_UNKNOWN, /* pays for allocations that could not be tracked */
    /* pays for allocations of signal handlers whose thread holds a lock of the library */
    TREE_UNWINDING,
    TREE_TRUNCATED, /* parent of paths longer than MEMCTX_DEPTH */
    TREE_NO_CFI,    /* parent of paths that begin in code without unwind information */
    TREE_BROKEN,    /* parent of paths whose stack contradicts its unwind information */
    TREE_NO_PATHS,  /* pays for everything with MEMCTX_DEPTH=0 */
    TREE_OTHERS,    /* parent of the sites of waiting and evicted paths; see context/admit.h */
    TREE_FIXED_COUNT
};

/* The module of a named context's node. The node's address is the context's place: see
 * named/named.h. */
#define MODULE_NAMED 0xfffeU
/* The module of a node [other callers], whose address is 0. The nodes below it are sites. The sites
 * pay for allocations of waiting and evicted paths that lead through the parent of [other
 * callers]. */
#define MODULE_OTHERS 0xfffdU

/* Flags of a node. */
enum tree_flags {
    TREE_IN_TABLE = 1,   /* the node stands in the table, not in its parent's `children` */
    TREE_HAS_OTHERS = 2, /* one of the node's children is [other callers] */
    /* for lack of room, some allocations below the node were charged further out */
    TREE_PARTIAL = 4,
    /* earlier allocations of the node's path may have been charged to [other callers] */
    TREE_LATE = 8,
    TREE_FOLDED = 16,  /* the function of the node's frame recurs below the node: see tree_loop */
    TREE_COLD = 32,    /* the node's figures are to move further out: see context/evict.h */
    TREE_MARKED = 128, /* a mark or the recording refers to the node, which stays: see marks_pin */
    /* no look-up finds the node any more; it is removed when no thread can know its id */
    TREE_LEAVING = 64,
};

struct tree_node {
    uintptr_t address; /* return address; 0 for fixed nodes */
    uint32_t parent;   /* id */
    uint16_t module;   /* index, MODULE_NONE, MODULE_NAMED or MODULE_OTHERS */
    bool exact;        /* a signal interrupted the program at the address */
    uint8_t flags;     /* atomic: enum tree_flags */
    /* atomic: the id of a child, and above the id tree_child_tag of the child; 0: no child */
    uint32_t children[TREE_INLINE_CHILDREN];
};
_Static_assert(sizeof(struct tree_node) == 32, "two nodes a line");
/* Bytes of the budget for a node: itself, and two bytes that a sweep keeps of each context, see
 * context/sweep.c. */
#define TREE_NODE_COUNTED ((int64_t)(sizeof(struct tree_node) + sizeof(uint16_t)))
_Static_assert(TREE_IDS == 1U << TREE_ID_BITS, "ids fit");

INTERNAL struct lock tree_lock;

struct tree_frame {
    uintptr_t address;
    uint16_t module;
    bool exact;
};

INTERNAL struct tree_node *tree_blocks[TREE_BLOCKS]; /* atomic */
INTERNAL struct tree_node tree_fixed_nodes[TREE_FIXED_COUNT];

INLINE struct tree_node *tree_node(uint32_t id) {
    if (UNLIKELY(id < TREE_FIXED_COUNT))
        return &tree_fixed_nodes[id];
    return &load_acquire(&tree_blocks[id / TREE_NODES_PER_BLOCK])[id % TREE_NODES_PER_BLOCK];
}

INLINE bool tree_is_named(uint32_t id) {
    return tree_node(id)->module == MODULE_NAMED;
}

/* True if the node was removed: all its fields are zero. Does not read a node whose OS page was
 * given to the kernel, because that would map the page again. */
bool tree_is_gone(uint32_t id);

/* True if `id`, which may be any number that a user typed, is the id of a node. */
bool tree_is_id(uint64_t id);

INLINE bool tree_node_is(uint32_t id, uint32_t parent, struct tree_frame frame) {
    const struct tree_node *node = tree_node(id);
    return node->address == frame.address && node->parent == parent &&
           node->module == frame.module && node->exact == frame.exact;
}

/* Returns the bits that stand above a child's id in its parent's `children`. */
INLINE uint32_t tree_child_tag(struct tree_frame frame) {
    return (uint32_t)(frame.address * 0x9e3779b97f4a7c15ULL >> 32) & ~((1U << TREE_ID_BITS) - 1);
}

/* Returns a bit for each entry of the node's `children` that may be the child for the frame. Mostly
 * one bit is set. All entries are compared at once, because for ever new paths the processor could
 * not predict which entry is the child. */
INLINE unsigned tree_children_like(const struct tree_node *node, uint32_t tag) {
#ifdef TREE_CHILDREN_AT_ONCE
    /* The load reads each entry whole. tree_find reads the matching entry once more, with
     * acquire. */
    __m128i children = _mm_load_si128((const __m128i *)(const void *)node->children);
    __m128i tags = _mm_slli_epi32(_mm_srli_epi32(children, TREE_ID_BITS), TREE_ID_BITS);
    return (unsigned)_mm_movemask_ps(
        _mm_castsi128_ps(_mm_cmpeq_epi32(tags, _mm_set1_epi32((int)tag))));
#else
    unsigned like = 0;
    for (unsigned i = 0; i < TREE_INLINE_CHILDREN; i++)
        like |= (unsigned)((load_acquire(&node->children[i]) ^ tag) < 1U << TREE_ID_BITS) << i;
    return like;
#endif
}

/* Returns the child of a node for one more frame, or 0 if there is none. */
uint32_t tree_find_in_table(uint32_t parent, struct tree_frame frame);
INLINE uint32_t tree_find(uint32_t parent, struct tree_frame frame) {
    const struct tree_node *node = tree_node(parent);
    uint32_t tag = tree_child_tag(frame);
    for (unsigned like = tree_children_like(node, tag); like; like &= like - 1) {
        uint32_t id = load_acquire(&node->children[__builtin_ctz(like)]) ^ tag;
        /* Another thread may have put another child here, or removed the child. */
        if (LIKELY(id - 1 < (1U << TREE_ID_BITS) - 1) && LIKELY(tree_node_is(id, parent, frame)))
            return id;
    }
    return tree_find_in_table(parent, frame);
}
/* Returns the child as tree_find does, and makes it when it is missing. Returns 0 if `share` of the
 * budget is used up, the tree is full, or memory is short. */
uint32_t tree_child(uint32_t parent, struct tree_frame frame, enum tables_share share);
/* Makes a path of `count` nodes below `parent`, in which each frame was called by the one before,
 * and sets ids[] to its nodes. Like `count` calls of tree_child, but takes the lock and the bytes
 * of the budget once. For a caller that has searched the first node in vain; `share` is not
 * TABLES_UNCOUNTED. Returns the number of nodes that there was room for. */
unsigned tree_chain(uint32_t parent, const struct tree_frame *frames, unsigned count,
                    enum tables_share share, uint32_t *ids);
/* Returns the node [other callers] below a node; returns 0 as tree_child does. */
uint32_t tree_others(uint32_t parent, enum tables_share share);

/* Returns the end of a folded node's loop: the last node of the path before the node's function
 * recurred for the first time. The loop begins with the first frame of that function. Returns 0 if
 * the node is not folded, or if its loop is not known. */
uint32_t tree_loop(uint32_t id);
/* Sets the end of the node's loop and flags the node TREE_FOLDED. Without room for the entry, does
 * nothing. */
void tree_set_loop(uint32_t id, uint32_t last);

INLINE void tree_flag(uint32_t id, enum tree_flags flag) {
    if (!(load_relaxed(&tree_node(id)->flags) & flag))
        or_release(&tree_node(id)->flags, (uint8_t)flag);
}
/* Tells whether a rule applies to a frame, so that the frame's path is to be kept. NULL: no rule
 * was ever given. Takes tree_lock while there are rules. */
INTERNAL bool (*tree_wanted)(struct tree_frame frame);
/* Tells whether a rule applies to a node, so that the node is to stay. NULL: no rule was ever
 * given. */
INTERNAL bool (*tree_is_ruled)(uint32_t id);
/* Called with each new node before any other thread finds the node, under tree_lock. NULL if no
 * layer above watches. */
INTERNAL void (*tree_watch)(uint32_t id);
/* Until this time (os_now_exact_ns) a reader reads the tree in pieces: no figures are evicted, and
 * no new node gets the id of a removed one. Only the control thread sets it. A dump sets it when it
 * begins and with each piece; when no dump is left, it is 0 (dump_begins in control/server.c). A
 * mark, a reset and a moment of a recording set it to UINT64_MAX while they are made. */
INTERNAL uint64_t tree_read_until_ns; /* atomic */
INLINE void tree_unflag(uint32_t id, enum tree_flags flag) {
    if (load_relaxed(&tree_node(id)->flags) & flag)
        and_release(&tree_node(id)->flags, (uint8_t)~flag);
}

/* tree_unlink takes a node out of its parent's list of children, so that no thread finds the node
 * any more, and flags it TREE_LEAVING. False: the node is too new to stand in a list. tree_link
 * puts the node back. False: there is no room, or another node for the frame is in the list. Where
 * they return false, nothing has changed. If tree_others needs a node that was taken out, it puts
 * the node back, so a parent never has two nodes [other callers]. tree_remove makes the id of a
 * node that was taken out free for a new node. The caller holds tree_lock. */
bool tree_unlink(uint32_t id);
bool tree_link(uint32_t id);
void tree_remove(uint32_t id);
/* Atomic: changes when the table of children is cleared in place, and is odd meanwhile. A search
 * may then miss a child; tree_find_again finds it. */
INTERNAL uint32_t tree_table_clears;
/* Like tree_find, but under tree_lock. */
uint32_t tree_find_again(uint32_t parent, struct tree_frame frame);
/* When the table of children grows, the old table stays for look-ups that search in it.
 * tree_free_old frees the tables that were old at the last call of tree_note_old; all look-ups that
 * were under way at that time must be over. tree_note_old is true if there is an old table. The
 * caller holds tree_lock and heap_global.lock. */
bool tree_note_old(void);
void tree_free_old(void);
void tree_discard(void);   /* gives OS pages to the kernel in which all nodes are removed */
uint32_t tree_nodes(void); /* counts the nodes that exist */
/* True when more than `parts` of TABLES_PARTS parts of all ids have a node. */
bool tree_ids_are_past(unsigned parts);
/* counts the nodes ever made, also removed ones; the count wraps around */
uint32_t tree_made(void);
uint32_t tree_reused(void); /* counts the nodes that got the id of a removed node */
void tree_fork_child(void); /* for a forked child: its first new nodes go into no list */
INTERNAL const uint32_t *const tree_count_shown; /* for control/outside.c: the count's address */
/* an id below this number is valid, or tree_is_gone is true for the id */
uint32_t tree_count(void);
const char *tree_fixed_label(uint32_t id); /* NULL for a node that is a frame */

#endif
