/* SPDX-License-Identifier: MIT */
/*
 * admit.h - finds the context that pays for a walked stack, within the budget of the tables.
 *
 * While the tables are small, each call path becomes a path of the tree. A program with very many
 * call paths is kept within the budget in two ways:
 *
 * Folding. A function that has recurred on very many paths stands on each path only once. Where the
 * function is called again, the path continues from the function's first instance, and the new
 * return address replaces the old one. `main > visit > generic > visit > leaf` becomes `main >
 * visit > leaf`. Folded stacks are walked to their end, so that a deep recursion does not hide its
 * caller.
 *
 * Admission. When more than half of the budget is used, a path that is not in the tree has to show
 * first that it is worth its nodes. It is worth them if it was seen often lately (the fuller the
 * tables are, the more often), or if it allocates a considerable part of the live bytes. Until then
 * its allocations are charged below the deepest of its ancestors that is in the tree: to a node
 * [other callers], and below that node to the path's innermost SITE_FRAMES frames. The subtotals of
 * all ancestors and the figures of all sites are therefore exact. Where there is no room for these
 * nodes either, an ancestor further out gets them. The figures of that ancestor, and of those
 * further out, are exact; the nodes between are marked TREE_PARTIAL.
 *
 * Sources: the truncated recursion is that of GHC's cost centre stacks. The counters that other
 * paths wear down are those of Misra and Gries, with the decay of HeavyKeeper (Gong and others,
 * 2018).
 *
 * Threads: only the owner of the heap calls these functions. While no owner uses the heap,
 * context/visit.c may call admit_forget, admit_forget_known and admit_end.
 */
#ifndef MEMCTX_ADMIT_H
#define MEMCTX_ADMIT_H

#include "path/cache.h"

#define SITE_FRAMES 2U
/* The depth, in nodes, up to which a node is near to the root: such nodes are few, and many nodes
 * stand below each of them. */
#define NEAR_ROOT 5U
/* How often a path must be seen to be admitted. In each of the last ADMIT_STEPS steps before
 * TABLES_ADMITTED a path must be seen four times as often as in the step before. */
#define ADMIT_WEIGHT 16U
#define ADMIT_STEPS 4              /* each step is half of 1/TABLES_PARTS of the budget */
#define ADMIT_LIVE_SHARE 1024      /* one allocation of 1/1024 of the live bytes admits its path */
#define ADMIT_LIVE_LEAST (4 << 20) /* fewer live bytes count as this many */

/* Atomic: counts the look-ups of all threads, except each thread's last few. */
INTERNAL uint64_t admit_looked_up;
/* Atomic: counts the allocations whose path was not admitted, except each thread's last few. */
INTERNAL uint64_t admit_waited;
/* Returns the view that pays for the stack's innermost `depth` frames, which were walked. Never
 * NULL once the heap has a view. Sets *keep: true if a trace may lead to the view. */
struct view *admit_view(struct heap *heap, unsigned depth, size_t size, bool *keep);
/* Returns how many frames the next walk has to read for a path of `depth` frames. */
unsigned admit_walk_depth(struct paths *paths, uintptr_t frame, unsigned depth);
/* Value of stack_frame.before: the preceding frame is not found yet. Any other value is the number,
 * plus 1, of the frame that precedes this one on its path; 0 means that no frame precedes it. */
#define ADMIT_BEFORE_UNKNOWN 0x7fffU
/* Forgets everything that was found out about the stack. */
INLINE void admit_forget(struct paths *paths) {
    paths->nodes_valid = 0;
    paths->first_cold = UINT32_MAX;
}
/* Forgets the views that pay for paths that are not admitted yet. */
void admit_forget_known(struct paths *paths);
/* Frees the counts of waiting paths, and forgets the stack, of a thread that ended or sleeps. */
void admit_end(struct paths *paths);

#endif
