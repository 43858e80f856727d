/* SPDX-License-Identifier: MIT */
/*
 * samples.h - how the contexts stood at several moments: at the marks, while memctx watched, now.
 */
#ifndef MEMCTX_SAMPLES_H
#define MEMCTX_SAMPLES_H

#include "model.h"

struct sample_row {
    int64_t requested_bytes, live_chunks, allocs;
};

struct sample {
    double uptime_s;
    struct sample_row
        *rows; /* by index of the last model's contexts; zeros where it was not there yet */
};

struct samples {
    struct sample *samples; /* by rising time; the last one is the model itself */
    size_t count;
};

/* The marks that `model` has counters of, the `earlier` dumps of the same process, and the model. */
void samples_make(struct samples *samples, const struct model *model, const struct model *earlier,
                  size_t earlier_count);

#endif
