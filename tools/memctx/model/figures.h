/* SPDX-License-Identifier: MIT */
/*
 * figures.h - adds up what contexts hold, from the page records of a target. Each page is counted
 * as it arrives and need not be kept.
 *
 * All bytes of a single context's page are reserved by that context. While a chunk is live in the
 * page, the pinned bytes are those that were handed out once and are free now. All its touched
 * bytes are then sole-pinned: only frees of that context can bring them back. In a mixed page a
 * context reserves its own blocks; its pinned bytes are a share of the free bytes, as large as its
 * share of the live blocks.
 */
#ifndef MEMCTX_FIGURES_H
#define MEMCTX_FIGURES_H

#include "model/model.h"

struct figures {
    struct wire_ledger ledger; /* only the fields that are sums over pages are set */
    int64_t left_bytes;        /* pinned bytes for each live block of the last mixed page */
    int64_t left_rest;         /* remainder of that division, which the first share gets */
};

/* Counts a page. `own`: figures of the context that owns the page; NULL: the page is mixed. */
void figures_add_page(struct figures *figures, struct model_figures *own,
                      const struct wire_page *page);
/* Counts the share of one context in the page that was counted last: `live` blocks, of which
 * `resident` blocks are resident. */
void figures_add_share(struct figures *figures, struct model_figures *own,
                       const struct wire_page *page, uint32_t live, uint32_t resident);
/* Call this after the last page. It sets each context's policy as its pages show it, and sets
 * figures that were not asked for (enum model_flags) to WIRE_UNKNOWN. */
void figures_finish(const struct figures *figures, struct model *model, uint32_t flags);

#endif
