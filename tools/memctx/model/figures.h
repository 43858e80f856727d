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
    struct wire_ledger ledger; /* of it, what the pages tell */
    int64_t left_bytes; /* of the mixed page that was counted last: what each live block pins, */
    int64_t left_rest;  /* and what is left of that */
};

/* Counts a page of the context with these figures (NULL: it is mixed). */
void figures_add_page(struct figures *figures, struct model_figures *own,
                      const struct wire_page *page);
/* Counts the share of one context in the page before: `live` blocks, of which `resident` are. */
void figures_add_share(struct figures *figures, struct model_figures *own,
                       const struct wire_page *page, uint32_t live, uint32_t resident);
/* Call this after the last page. It sets the policies that result from the pages, and
 * WIRE_UNKNOWN for figures that were not asked for (enum model_flags). */
void figures_finish(const struct figures *figures, struct model *model, uint32_t flags);

#endif
