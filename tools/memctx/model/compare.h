/* SPDX-License-Identifier: MIT */
/*
 * compare.h - compares contexts between two states: a mark and now, or two snapshots.
 *
 * Within one process, contexts are matched by id. Two snapshots may come from two runs, in which
 * ids and addresses differ. There a context is matched by its path of modules and offsets. In
 * another build of a module the offsets differ. So frames of such a module are matched by function
 * name, and frames without a name are not matched.
 */
#ifndef MEMCTX_COMPARE_H
#define MEMCTX_COMPARE_H

#include "model/model.h"

struct compare_figures {
    int64_t requested_bytes, live_chunks, allocs, frees, requested_cum_bytes;
};

struct compare_row {
    const struct model *model; /* the model that has the context's frames */
    uint32_t context;          /* index of the context in `model` */
    struct compare_figures before, after, growth;
};

struct compare {
    struct compare_row *rows; /* contexts that changed, by falling growth of requested bytes */
    size_t count;
    struct compare_figures before, after, growth; /* sums over all contexts */
    const struct wire_left_out *left_out;         /* contexts that the mark left out; NULL: none */
    const char *rebuilt;  /* path of the first module with another build now; NULL: none */
    size_t rebuilt_count; /* number of such modules */
    bool reset; /* counters were reset between the two states, so their growth is not known */
};

/* Fill in *compare. Its rows point into the models and the mark, which must stay in memory. */
void compare_with_mark(struct compare *compare, const struct model *model,
                       const struct model_mark *mark);
void compare_models(struct compare *compare, const struct model *before, const struct model *after);

#endif
