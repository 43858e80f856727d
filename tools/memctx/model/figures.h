/* SPDX-License-Identifier: MIT */
/*
 * figures.h - adds up what contexts hold, from the page records of a target. Each page is counted
 * as it arrives and need not be kept.
 *
 * A page of a single context counts as reserved by that context. Its pinned bytes are those that
 * were handed out once and are free now. While anything is alive in the page, all of it comes back
 * only when that context frees it (sole-pinned). In a mixed page a context has its own blocks, and
 * a share of the free bytes that is as large as its share of the live blocks.
 */
#ifndef MEMCTX_FIGURES_H
#define MEMCTX_FIGURES_H

#include "model/model.h"

struct figures {
    struct wire_ledger ledger; /* only the fields that come from the pages */
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
/* Call this after the last page. It sets the policies that result from the pages, and
 * WIRE_UNKNOWN for figures that were not asked for (enum model_flags). */
void figures_finish(const struct figures *figures, struct model *model, uint32_t flags);

#endif
