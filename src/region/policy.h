/* SPDX-License-Identifier: MIT */
/*
 * policy.h - how a context's chunks are placed: a policy is a name and a recipe for pages.
 *
 * A recipe is a sum of enum recipe_flag (heap.h). A region's bins carry the recipe, and the code
 * that makes pages and takes chunks from them asks the recipe, never the policy. How a chunk is
 * freed or resized later depends on its page alone (page_kinds.h), because a page outlives a change
 * of policy.
 *
 *   aset        Blocks by size class, reused at once: region/aset.h. Every context without another
 *               policy has aset. Source: PostgreSQL's allocation sets.
 *   slab        Like aset, but with blocks of exactly the requested sizes: region/slab.h. For
 *               contexts that request one size, or a few. Source: PostgreSQL's slab contexts (Tomas
 *               Vondra, 2017; David Rowley, 2022).
 *   generation  Chunks one behind the other: region/serial.h. A page is given back when all its
 *               chunks were freed. Two empty pages stay for the next chunks: the current page and a
 *               spare one, so that a queue of constant length needs no new pages. For queues, logs,
 *               tuples of a sort. Source: PostgreSQL's generation contexts (Tomas Vondra, 2017).
 *   bump        Like generation, but no spare page is kept. For contexts that are only ever reset.
 *               A rule may give this policy to a call path of a program that frees single chunks,
 *               so frees work, too. Source: PostgreSQL's bump contexts (David Rowley, 2024), which
 *               cannot free.
 *   simple      Each chunk has a block and is in a list: region/simple.h. The other policies are
 *               measured against simple.
 *
 * Threads: any thread reads the table, which is constant. The owner of the heap sets a policy.
 */
#ifndef MEMCTX_POLICY_H
#define MEMCTX_POLICY_H

#include "base/options.h"
#include "region/bins.h"

struct policy {
    const char *name; /* name of the policy in placement rules */
    uint8_t recipe;
};
INTERNAL const struct policy policies[PLACE_COUNT]; /* indexed by enum placement */

/* Returns the policy for a placement: the placement itself from PLACE_SLAB on, else PLACE_DEFAULT
 * (aset). In the checking mode (region/check.h) every context has aset. */
INLINE uint32_t policy_placed(enum placement placement) {
    return placement >= PLACE_SLAB && !UNLIKELY(options.check) ? placement : PLACE_DEFAULT;
}
/* Sets the policy and the recipe of a region's bins. The caller puts aside the pages that do not
 * fit the new recipe. */
void policy_set(struct bins *bins, uint32_t policy);

#endif
