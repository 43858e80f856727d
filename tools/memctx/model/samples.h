/* SPDX-License-Identifier: MIT */
/*
 * samples.h - how the contexts stood at several moments: at the marks, while memctx watched, now.
 */
#ifndef MEMCTX_SAMPLES_H
#define MEMCTX_SAMPLES_H

#include "model/model.h"

struct sample_row {
    int64_t requested_bytes, live_chunks, allocs;
};

struct sample {
    double uptime_s;
    struct sample_row
        *rows; /* by number of the last model's figures; zeros where it was not there yet */
};

/* What is kept of an earlier look at the same process: contexts with figures. */
struct samples_look {
    double uptime_s;
    struct samples_look_row {
        uint32_t id;
        struct sample_row row;
    } * rows;
    size_t count;
};

struct samples {
    struct sample *samples; /* by rising time; the last one is the model itself */
    size_t count;
};

void samples_keep(struct samples_look *look, const struct model *model);
/* Makes samples of three kinds: the marks of `model` that have counters, the `earlier` looks at
 * the same process, and `model` itself. A context gets figures of its own in `model` if an
 * earlier look has figures for it. */
void samples_make(struct samples *samples, struct model *model, const struct samples_look *earlier,
                  size_t earlier_count);

#endif
