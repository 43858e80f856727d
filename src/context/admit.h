/* SPDX-License-Identifier: MIT */
/*
 * admit.h - from the walked stack of a thread to the context that pays, within the tables' budget.
 *
 * While the tables are small, each call path becomes a path of the tree. Programs whose paths are
 * very many are kept within the budget in two ways:
 *
 * Folding. A function that has recurred on very many paths stands on each path once: where it is called
 * again, the path goes on from its first instance, whose return address is replaced by the new one.
 * `main > visit > generic > visit > leaf` becomes `main > visit > leaf`. Folded stacks are walked to
 * their end, so that a deep recursion does not hide its caller.
 *
 * Admission. When more than half of the budget is used, a path that is not in the tree has to show
 * first that it is worth its nodes: it was seen often lately, the more often the fuller the tables are,
 * or it allocates a part of the live bytes that is worth telling. Until then it is charged below the
 * deepest of its ancestors that stands in the tree, to a node [other callers] and below it to its
 * innermost SITE_FRAMES frames. So the subtotals of all ancestors and the figures of all sites are
 * exact. Where there is no room for these nodes either, an ancestor further out has them: its figures,
 * and those further out, are exact, and the nodes between are marked (TREE_PARTIAL).
 *
 * Sources: truncated recursion is that of GHC's cost centre stacks; the counts that others wear down are
 * those of Misra and Gries, with the decay of HeavyKeeper (Gong and others, 2018).
 *
 * Threads: the owner of the heap.
 */
#ifndef MEMCTX_ADMIT_H
#define MEMCTX_ADMIT_H

#include "path/cache.h"

#define SITE_FRAMES 2U
#define NEAR_ROOT 5U     /* nodes: so near to the root there are few, and much stands below each */
#define ADMIT_WEIGHT 16U /* sightings at first; four times as many in each of the last half parts */
#define ADMIT_STEPS 4    /* of the budget */
#define ADMIT_LIVE_SHARE 1024 /* an allocation of that part of the live bytes is enough by itself */
#define ADMIT_LIVE_LEAST (4 << 20)

/* Atomic: look-ups of all threads, but for their last few. */
INTERNAL uint64_t admit_looked_up;
/* Atomic: allocations whose path was not kept. */
INTERNAL uint64_t admit_waited;
/* The view that pays for the stack's innermost `depth` frames, which were walked; never NULL once the
 * heap has a view. *keep: a trace may lead to it. */
struct view *admit_view(struct heap *heap, unsigned depth, size_t size, bool *keep);
/* How far the next walk has to go for a path of `depth` frames. */
unsigned admit_walk_depth(struct paths *paths, uintptr_t frame, unsigned depth);
/* For `before` of a frame: while functions are folded, the number and 1 of the frame that stands
 * before it on its path; 0: none does. */
#define ADMIT_BEFORE_UNKNOWN 0x7fffU
/* Everything that was found out of the stack is forgotten. */
INLINE void admit_forget(struct paths *paths) {
    paths->nodes_valid = 0;
    paths->first_cold = UINT32_MAX;
}
/* The same of the views that pay for paths that wait. */
void admit_forget_known(struct paths *paths);
/* The thread is gone. */
void admit_end(struct paths *paths);

#endif
