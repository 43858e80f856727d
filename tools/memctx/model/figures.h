/* SPDX-License-Identifier: MIT */
/*
 * figures.h - what contexts hold, added up from the pages that a target tells: a page is read, counted, and may be forgotten.
 *
 * Of a page of one context all of it is that context's: reserved; pinned is what was handed out once and is free now; as long
 * as something is alive in it, all of that would come back only with it (sole-pinned). Of a mixed page a context has its blocks,
 * and of the free bytes as large a share as it has of the live blocks; all of it, where nobody else has any.
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
/* When all were counted: the policies that follow, and WIRE_UNKNOWN for what was not asked (enum model_flags). */
void figures_finish(const struct figures *figures, struct model *model, uint32_t flags);

#endif
