/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the process-wide tree of contexts: one node for each frame of each call path.
 *
 * A node is 32 bytes and never changed but for its flags and the list of its children, so readers take no
 * lock. New nodes are made under tree_lock. An id (the node's index) means the same until the node is
 * removed, which context/evict.h alone does, when nobody can hold the id any more; a later node gets it. A
 * node's id is always greater than its parent's. A node holds its first TREE_INLINE_CHILDREN children itself, each with some bits
 * of its address, so that a path that was walked before is found again in the order in which its
 * nodes were made, mostly one line each; further children stand in a table keyed by (parent,
 * address, module), which doubles when half full, off the hit path.
 */
#ifndef MEMCTX_TREE_H
#define MEMCTX_TREE_H

#include "path/rules.h"
#include "region/tables.h"

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(MEMCTX_MODEL)
#define TREE_CHILDREN_AT_ONCE
#include <emmintrin.h>
#endif

#define TREE_NODES_PER_BLOCK 4096U
#define TREE_BLOCKS 1024U /* 4 M nodes */
#define TREE_ID_BITS 22U
#define TREE_INLINE_CHILDREN 4U

/* Nodes that are there from the start; children of the root but for the root itself. Ids. */
enum tree_fixed {
    TREE_ROOT = 0,
    TREE_UNKNOWN,   /* could not be tracked */
    TREE_UNWINDING, /* allocated while this thread was inside the allocator or the unwinder */
    TREE_TRUNCATED, /* above it: paths longer than MEMCTX_DEPTH */
    TREE_NO_CFI,    /* above it: paths that begin in code without unwind information */
    TREE_BROKEN,    /* above it: paths whose stack contradicts its unwind information */
    TREE_NO_PATHS,  /* MEMCTX_DEPTH=0 */
    TREE_OTHERS,    /* above it: sites of paths that are not kept; see context/admit.h */
    TREE_FIXED_COUNT
};

/* The module of a named context's node, whose address is the context's place: see context/named.h. */
#define MODULE_NAMED 0xfffeU
/* The module of a node [other callers]: what stands below it was allocated below the node's parent, by
 * paths that are not kept. The address is 0. */
#define MODULE_OTHERS 0xfffdU

/* Of a node: */
enum tree_flags {
    TREE_IN_TABLE = 1,   /* not among its parent's `children` */
    TREE_HAS_OTHERS = 2, /* a child is [other callers] */
    TREE_PARTIAL = 4, /* some of what belongs below it was charged further out, for lack of room */
    TREE_LATE = 8, /* what its path allocated before it was made was charged to [other callers] */
    TREE_FOLDED = 16,  /* its frame's function recurs below it: see tree_loop */
    TREE_COLD = 32,    /* what is accounted to it is to move further out: see context/evict.h */
    TREE_MARKED = 128, /* a mark tells of it, so it stays: see control/marks.c */
    TREE_LEAVING = 64, /* in no list of children any more, and removed when no thread can know it */
};

struct tree_node {
    uintptr_t address; /* return address; 0 for fixed nodes */
    uint32_t parent;   /* id */
    uint16_t module;   /* index, MODULE_NONE, MODULE_NAMED or MODULE_OTHERS */
    bool exact;
    uint8_t flags;                           /* atomic: enum tree_flags */
    uint32_t children[TREE_INLINE_CHILDREN]; /* atomic: id, above it bits of its address; 0: none */
};
_Static_assert(sizeof(struct tree_node) == 32, "two nodes a line");
_Static_assert(TREE_NODES_PER_BLOCK *TREE_BLOCKS == 1U << TREE_ID_BITS, "ids fit");

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

/* Removed: all of it is zero. */
INLINE bool tree_is_gone(uint32_t id) {
    const struct tree_node *node = tree_node(id);
    return !node->address && !node->module;
}

/* Whether a number, of whatever origin, is a node's id. */
bool tree_is_id(uint64_t id);

INLINE bool tree_node_is(uint32_t id, uint32_t parent, struct tree_frame frame) {
    const struct tree_node *node = tree_node(id);
    return node->address == frame.address && node->parent == parent &&
           node->module == frame.module && node->exact == frame.exact;
}

/* Above the id in a node's list of children. */
INLINE uint32_t tree_child_tag(struct tree_frame frame) {
    return (uint32_t)(frame.address * 0x9e3779b97f4a7c15ULL >> 32) & ~((1U << TREE_ID_BITS) - 1);
}

/* Which of the node's own children may be that for the frame, as bits: mostly one, and which it is
 * cannot be foreseen where paths are ever new. */
INLINE unsigned tree_children_like(const struct tree_node *node, uint32_t tag) {
#ifdef TREE_CHILDREN_AT_ONCE
    /* Each is loaded whole, and what it names was made before. */
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

/* The child of a node for one more frame; 0: there is none. */
uint32_t tree_find_further(uint32_t parent, struct tree_frame frame);
INLINE uint32_t tree_find(uint32_t parent, struct tree_frame frame) {
    const struct tree_node *node = tree_node(parent);
    uint32_t tag = tree_child_tag(frame);
    for (unsigned like = tree_children_like(node, tag); like; like &= like - 1) {
        uint32_t id = load_acquire(&node->children[__builtin_ctz(like)]) ^ tag;
        /* Another child may stand there by now, or none. */
        if (LIKELY(id - 1 < (1U << TREE_ID_BITS) - 1) && LIKELY(tree_node_is(id, parent, frame)))
            return id;
    }
    return tree_find_further(parent, frame);
}
/* The same, made when missing. 0: that share of the budget is used up, the tree is full, or memory is
 * short. */
uint32_t tree_child(uint32_t parent, struct tree_frame frame, enum tables_share share);
/* The node [other callers] below a node; 0 as for tree_child. */
uint32_t tree_others(uint32_t parent, enum tables_share share);

/* Of a folded node: the last node of the path before its function recurred for the first time. The
 * functions from the node's first instance to that one are the loop. 0: it is not folded. */
uint32_t tree_loop(uint32_t id);
void tree_set_loop(uint32_t id, uint32_t last);

INLINE void tree_flag(uint32_t id, enum tree_flags flag) {
    if (!(load_relaxed(&tree_node(id)->flags) & flag))
        or_release(&tree_node(id)->flags, (uint8_t)flag);
}
/* Whether a rule holds for a frame, so that its path is to be kept; NULL: there are no rules. Takes
 * tree_lock. */
INTERNAL bool (*tree_wanted)(struct tree_frame frame);
/* Whether a rule holds for a node, so that it is to stay; NULL: there are no rules. */
INTERNAL bool (*tree_is_ruled)(uint32_t id);
/* Told of each new node before anybody else finds it, under tree_lock; NULL: nobody wants to know. */
INTERNAL void (*tree_watch)(uint32_t id);
/* Until this time (os_now_exact_ns) somebody reads the tree in pieces, so that what an id means must stay. Of the control
 * thread, which sets it when a dump begins, with each piece, and to 0 when no dump is left: see control_dump_begins. */
INTERNAL uint64_t tree_read_until_ns; /* atomic */
INLINE void tree_unflag(uint32_t id, enum tree_flags flag) {
    if (load_relaxed(&tree_node(id)->flags) & flag)
        and_release(&tree_node(id)->flags, (uint8_t)~flag);
}

/* Takes a node out of its parent's list of children, so that no thread finds it any more, and puts it back;
 * and makes its id free for a new node. All under tree_lock. False: nothing changed, because it is too new,
 * or there is no room, or another node for the frame stands there. */
bool tree_unlink(uint32_t id);
bool tree_link(uint32_t id);
void tree_remove(uint32_t id);
void tree_discard(void);   /* memory of removed nodes goes to the kernel */
uint32_t tree_nodes(void); /* that are there */
uint32_t tree_made(void);  /* nodes, removed ones too; it wraps around */
void tree_fork_child(void);
uint32_t tree_count(void);                 /* ids below it are valid, or tree_is_gone */
const char *tree_fixed_label(uint32_t id); /* NULL for a frame */

#endif
