/* SPDX-License-Identifier: MIT */
/*
 * admit.h - finds the context that pays for a walked stack, within the budget of the tables.
 *
 * While the tables are small, each call path becomes a path of the tree. A program with very many
 * call paths is kept within the budget in two ways:
 *
 * Folding. A function that has recurred on very many paths stands on each path only once. Where the
 * function is called again, the path continues from the function's first frame, whose return
 * address the new one replaces. `main > visit > generic > visit > leaf` becomes `main > visit >
 * leaf`. Folded stacks are walked to their end, so that a deep recursion does not hide its caller.
 *
 * Admission. When more than 18/32 of the budget is used (TABLES_PATH), a path that is not in the
 * tree gets no nodes at first: it *waits*. The path is admitted in three cases. It was seen often
 * lately; the fuller the tables are, the more often it must be seen (weight_wanted). Or one of its
 * allocations is large in comparison with the live bytes. Or a rule applies to one of its frames.
 * Until then the path's allocations are charged below its deepest ancestor that is in the tree: to
 * a node [other callers], and below that node to the path's innermost SITE_FRAMES frames. In this
 * file such a pair of frames is called a *site*. The subtotals of all ancestors and the figures of
 * all sites are therefore exact. If there is no room for these nodes either, the nodes come below
 * an ancestor further out. The figures of that ancestor, and of all nodes further out, are exact.
 * The deepest ancestor, and all nodes between it and that ancestor, are marked TREE_PARTIAL.
 *
 * Sources: the truncated recursion is that of GHC's cost centre stacks. The counts of sightings are
 * a count-min sketch with conservative update (Estan and Varghese, 2002), whose counts are halved
 * now and then, as in TinyLFU (Einziger and others, 2017).
 *
 * Threads: only the owner of the heap calls these functions. While no owner uses the heap,
 * context/visit.c may call admit_forget, admit_forget_known and admit_end.
 */
#ifndef MEMCTX_ADMIT_H
#define MEMCTX_ADMIT_H

#include "path/cache.h"

#define SITE_FRAMES 2U /* greatest number of frames of a site */
/* The depth, in nodes, up to which a node is near to the root: such nodes are few, and many nodes
 * stand below each of them. */
#define NEAR_ROOT 5U
/* How often a path must be seen to be admitted while the tables have room. In each of the last
 * ADMIT_STEPS steps before TABLES_ADMITTED, the path must be seen twice as often as in the step
 * before. A step is 1/TABLES_PARTS of the budget. */
#define ADMIT_WEIGHT 4U
#define ADMIT_WEIGHT_MOST (ADMIT_WEIGHT << ADMIT_STEPS)
#define ADMIT_STEPS 4
#define ADMIT_OFTEN UINT8_MAX /* a path seen this often may use the budget up to TABLES_OFTEN */
#define ADMIT_LIVE_SHARE 1024 /* one allocation of 1/1024 of the live bytes admits its path */
/* if fewer bytes are live, this number takes the place of the live bytes */
#define ADMIT_LIVE_LEAST (4 << 20)
/* about the bytes of a path's nodes and view */
#define ADMIT_PATH_BYTES 400
/* smaller allocations never count as large, however few bytes are live */
#define ADMIT_LARGE 2048U

/* Atomic: counts the look-ups of all threads. A thread adds its look-ups when a window of look-ups
 * ends (context/lookup.c), so those of its present window are missing. */
INTERNAL uint64_t admit_looked_up;
/* Atomic: counts the look-ups that charged an allocation to [other callers] or to a site below it.
 * Each thread adds several at once, so its last few are missing. Allocations that a trace charges
 * to a site are not counted. */
INTERNAL uint64_t admit_waited;
INTERNAL bool admit_any_waited; /* atomic: some path was not admitted at once */
/* Returns the view that pays for the stack's innermost `depth` frames. The caller has walked the
 * innermost `walked` frames. Never NULL once the heap has a view. Sets *kind to the kind
 * of trace that may lead to the view. */
struct view *admit_view(struct heap *heap, unsigned depth, unsigned walked, size_t size,
                        enum trace_kind *kind);
/* Called before each walk. Updates which functions the thread folds. Returns how many frames the
 * walk has to read for a path of `depth` frames: more, if functions are folded. `frame`: the frame
 * pointer of the exported function. */
unsigned admit_walk_depth(struct paths *paths, uintptr_t frame, unsigned depth);
/* Value of stack_frame.before: the next frame outwards on this frame's path is not found yet. Any
 * other value is the index of that next frame, plus 1; 0: the path has no frame further out. */
#define ADMIT_BEFORE_UNKNOWN 0x7fffU
/* Forgets which nodes the frames of the walked stack have. */
INLINE void admit_forget(struct paths *paths) {
    paths->nodes_valid = 0;
    paths->first_cold = UINT32_MAX;
}
/* Forgets the known views, which pay for paths that are not admitted yet (struct known in
 * prefix.h). */
void admit_forget_known(struct paths *paths);
/* Gives back the larger table of known views (struct known in prefix.h), if there is one; the first
 * table takes its place. True: memory came free. */
bool admit_shrink(struct paths *paths);
/* For a thread that ended or sleeps: frees what it keeps about waiting paths (struct admission in
 * prefix.h), and forgets the nodes of its stack. */
void admit_end(struct paths *paths);

#endif
