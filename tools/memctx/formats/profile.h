/* SPDX-License-Identifier: MIT */
/*
 * profile.h - writes the contexts of a model in the formats of other tools.
 *
 * Each writer writes every context with figures of its own. Functions that were inlined or that
 * ended in a tail call become frames of their own; a frame without a name is "module+0xoffset".
 */
#ifndef MEMCTX_PROFILE_H
#define MEMCTX_PROFILE_H

#include "model/model.h"
#include "model/view.h"

/* One function of a call path. */
struct profile_frame {
    const char *function; /* never NULL */
    const char *file;     /* NULL: not known; then line is 0 */
    int64_t line;
    uint32_t context; /* index of the context whose frame this is */
};

/* Returns the path of a context as *count functions, innermost first. The array is valid until the
 * next call. */
const struct profile_frame *profile_path(const struct model *model, uint32_t context,
                                         size_t *count);

/* Returns the functions of the context's own frame: the inlined ones, innermost first, then the
 * function that they were inlined into. */
const struct profile_frame *profile_frames(const struct model *model, uint32_t context,
                                           size_t *count);

/* Returns the functions of a frame that ended in a tail call (model/tails.h), on the path of a
 * context; *count may be 0. */
const struct profile_frame *profile_tail_frames(const struct model_frame *tail, uint32_t context,
                                                size_t *count);

/* Gives equal strings, or frames of equal name, file and line, the same number. The caller frees
 * the slots. */
struct profile_numbers {
    struct numbered *slots;
    size_t mask, count;
};
/* Returns the number of a frame. Numbers count from 1 on in the order of first calls; *fresh is set
 * to true on the first call for a frame. The strings of the frame must stay valid. */
uint32_t profile_frame_number(struct profile_numbers *numbers, const struct profile_frame *frame,
                              bool *fresh);
/* Returns the number of a string; 0 for NULL and for an empty string. */
uint32_t profile_string_number(struct profile_numbers *numbers, const char *text, bool *fresh);

/* "outermost;...;innermost FIGURE" lines, for flame graph tools. Figures of 0 are left out. */
void profile_write_folded(const struct model *model, FILE *file, enum view_sort metric);
/* speedscope's JSON: one profile for each metric. */
void profile_write_speedscope(const struct model *model, FILE *file);
/* One line a context, RFC 4180: ids, frame and all figures; empty where a figure is not known. */
void profile_write_csv(const struct model *model, FILE *file);
/* The arguments of the writers of samples with several values (pprof, OTLP). */
struct profile_values {
    size_t limit; /* the most samples; 0: no limit */
    /* An earlier state of the same process, which is subtracted from each figure; NULL: none. The
     * samples then tell what was allocated since, and live figures may be negative. */
    const struct model *before;
    /* NAME=VALUE of the resource in OTLP; service.name is the program's name if it is not given. */
    const char *const *attributes;
    size_t attribute_count;
};
/* pprof's profile.proto, not compressed. */
void profile_write_pprof(const struct model *model, FILE *file,
                         const struct profile_values *options);
/* OpenTelemetry's ExportProfilesServiceRequest (profiles, v1development), not compressed. */
void profile_write_otlp(const struct model *model, FILE *file,
                        const struct profile_values *options);
/* heaptrack's interpreted format, version 2: live memory. A context's chunks have its mean size,
 * because sizes of single chunks are not counted; its bytes are exact. */
void profile_write_heaptrack(const struct model *model, FILE *file);

#endif
