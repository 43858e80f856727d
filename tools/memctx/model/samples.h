/* SPDX-License-Identifier: MIT */
/*
 * samples.h - collects the figures of contexts at several moments: at the marks, at earlier looks
 * of this command (doctor --watch), and now.
 */
#ifndef MEMCTX_SAMPLES_H
#define MEMCTX_SAMPLES_H

#include "model/mapped.h"
#include "model/model.h"

struct sample_row {
    int64_t requested_bytes, live_chunks, allocs;
    int64_t resident_bytes; /* set only if sample.has_resident; marks do not have it */
};

struct sample {
    double uptime_s, slept_s;
    bool has_resident;
    /* indexed by the number of a context's figures in the last model; 0 if the context did not
     * exist at that moment */
    struct sample_row *rows;
    /* allocations of the process, including those of contexts that a mark left out */
    int64_t allocs;
};

/* The contexts that had figures in an earlier look at the process. */
struct samples_look {
    double uptime_s, slept_s;
    struct samples_look_row {
        uint32_t id, parent; /* ids; the root's parent is WIRE_NONE */
        uint64_t address;    /* of the frame */
        struct sample_row row;
    } * rows;
    size_t count;
    struct mapped mapped;
};

struct samples {
    struct sample *samples; /* sorted by rising time; the last sample is the model itself */
    size_t count;
    /* Memory that did not come from malloc, at the earlier looks and now. Marks do not have it. */
    struct samples_mapped {
        double uptime_s;
        struct mapped mapped;
    } * mapped;
    size_t mapped_count;
};

/* Keeps the figures of a model as a look, and takes its places over (mapped.h). */
void samples_keep(struct samples_look *look, struct model *model);
/* Makes samples of three kinds: the marks of `model` that have their counters, the `earlier` looks
 * at the process, and `model` itself. A context gets figures of its own in `model` if an earlier
 * look has figures for it. */
void samples_make(struct samples *samples, struct model *model, const struct samples_look *earlier,
                  size_t earlier_count);
/* Returns the samples without marks that show nothing: the last mark if the program did hardly
 * anything since then, one of two marks that were set at one time, and a mark that was set just
 * before or after an earlier look. Samples of earlier looks are not left out. The caller frees the
 * list `samples`; the rows belong to the given samples. */
struct samples samples_to_judge(const struct samples *samples);
/* Returns how long the machine slept between an uptime of the target and the last sample, counted
 * from the last sample at or before that uptime; 0 if there is no such sample. */
double samples_slept_since(const struct samples *samples, double uptime_s);

#endif
