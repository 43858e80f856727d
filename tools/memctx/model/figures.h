/* SPDX-License-Identifier: MIT */
/*
 * figures.h - adds up what contexts hold, from the page records of a target. Each page is counted
 * when it arrives, so the records need not be kept.
 *
 * If a page belongs to one context, the context reserves all its bytes. While a chunk in the page
 * is live, the page's free bytes that were touched are pinned. All touched bytes of the page are
 * then sole-pinned: only this context can free all chunks of the page. A large chunk has a page of
 * its own; its live bytes are sole-pinned, and it pins no free bytes. In a mixed page, a context
 * reserves its own blocks, and pins a part of the free bytes in proportion to its live blocks. If
 * all live blocks are of one context, all touched bytes of the page are sole-pinned.
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
/* Call this after the last page. It derives each context's policy from its pages and its placement,
 * copies the sums over pages into the model's ledger, and sets figures that were not asked for
 * (enum model_flags) to WIRE_UNKNOWN. */
void figures_finish(const struct figures *figures, struct model *model, uint32_t flags);

#endif
