/* SPDX-License-Identifier: MIT */
/*
 * prefix.h - finds the nodes of a walked stack in the tree, and makes missing ones. Only admit.c
 * and prefix.c include this header; admit.h explains folding and admission.
 *
 * Each frame of the stack has a *prefix*: the node of the path up to the frame, the length of that
 * path in nodes, and a hash. A prefix is *cold* if the path is not in the tree. (The flag TREE_COLD
 * means something else.) The node of a cold prefix is PREFIX_WAITS plus the deepest ancestor that
 * is in the tree, and its hash is the hash of the path. If the path is in the tree, the hash has a
 * bit for each folded function on the path. The prefixes of frames that a walk kept are known, so
 * only new frames are looked up.
 *
 * Folding erases loops from the path in the order in which the calls made them. Only the last
 * (innermost) frame of a folded function stands on the path, followed by the frames that this frame
 * called. So one pass over the frames finds the last frame of each folded function, and only frames
 * that stay on the path need a prefix. Most other frames have none: their length is 0.
 *
 * Threads: only the owner of the heap calls these functions.
 */
#ifndef MEMCTX_PREFIX_H
#define MEMCTX_PREFIX_H

#include "context/admit.h"
#include "context/tree.h"

#define PREFIX_WAITS (1U << 31) /* set in prefix.node: the path is not in the tree */
#define KNOWN_FIRST 61U         /* entries of the first table; struct admission fits an OS page */

/* The view that pays for waiting paths with the same two innermost frames and the same ancestor. */
struct known {
    struct view *view;
    uintptr_t site, caller;
    uint32_t ancestor;
};
/* The state of one thread for paths that wait and for folding. It is made for the thread's first
 * path that waits or is folded. */
struct admission {
    struct known *known; /* a hash gives the place; the table is `first` or a larger one */
    /* number of entries; number of look-ups that found none, since the last look_at_known */
    uint32_t known_count, known_missed;
    struct known first[KNOWN_FIRST];
    uint32_t waited; /* number of look-ups of this thread whose path was charged to a site */
    uint16_t look;   /* numbers the searches for last frames, in steps of LOOK_ONE */
    /* Indexed by a folded function's number: the value of `look` of a search, plus the index of the
     * function's last frame in that search. */
    uint16_t last[RULE_FOLDED_PLACES + 1];
};
_Static_assert(sizeof(struct admission) <= OS_PAGE_BYTES, "part of TABLES_HEAP_BYTES");
#define LOOK_ONE STACK_FRAMES_MAX /* `look` plus the index of a frame fits 16 bits */

struct prefix {
    uint32_t node, hash, length;
};

/* The state of one look-up. */
struct admit {
    struct heap *heap;
    struct paths *paths;
    struct stack *stack;
    unsigned depth; /* greatest number of nodes of a path */
    unsigned begin; /* the outermost frame that belongs to the path */
    /* folding: some functions are folded. anchored: the walk came to its end within the depth, so
     * the path begins at the outermost frame that can be known */
    bool folding, anchored;
    enum tables_share share; /* share of the tables' budget for new nodes */
    uint32_t table_clears;   /* value of tree_table_clears when the look-up began */
    struct prefix root;
};

INLINE struct tree_frame prefix_frame(const struct stack_frame *frame) {
    return (struct tree_frame){frame->address, (uint16_t)rule_module(frame->rule), frame->exact};
}

INLINE uint32_t prefix_ancestor(uint32_t node) {
    return node & ~PREFIX_WAITS;
}

/* Returns the prefix of the innermost frame. Sets the prefixes of the other frames that stand on
 * the path. */
struct prefix prefix_of_stack(struct admit *admit);
/* Reports functions that stand twice among the innermost frames to function_recurs. */
void prefix_watch_all(const struct admit *admit);

#endif
