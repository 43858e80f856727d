/* SPDX-License-Identifier: MIT */
/*
 * profile.h - the contexts of a model in the formats of other tools.
 *
 * Each writer writes every context with figures of its own. Frames that were inlined become frames
 * of their own; a frame without a name is "module+0xoffset".
 */
#ifndef MEMCTX_PROFILE_H
#define MEMCTX_PROFILE_H

#include "model/model.h"
#include "model/view.h"

/* One function of a call path. */
struct profile_frame {
    const char *function; /* never NULL */
    const char *file;     /* NULL: not known; line is 0 then */
    int64_t line;
    uint32_t context; /* index of the node that it is of */
};

/* The path of a context, innermost first; *count of them. The array and the made-up names are
 * valid until the next call. */
const struct profile_frame *profile_path(const struct model *model, uint32_t context,
                                         size_t *count);

/* The frames of this one node alone: a function, and before it what was inlined into it. */
const struct profile_frame *profile_frames(const struct model *model, uint32_t context,
                                           size_t *count);

/* Gives equal strings, or frames of equal name, file and line, the same number. The caller frees
 * the slots. */
struct profile_numbers {
    struct numbered *slots;
    size_t mask, count;
};
/* A frame's number, from 1 on in the order of the first time, which *fresh tells. Its strings have
 * to stay. */
uint32_t profile_frame_number(struct profile_numbers *numbers, const struct profile_frame *frame,
                              bool *fresh);
/* The same of a string; 0 for none and for an empty one. */
uint32_t profile_string_number(struct profile_numbers *numbers, const char *text, bool *fresh);

/* "outermost;...;innermost FIGURE" lines, for flame graph tools. Figures of 0 are left out. */
void profile_write_folded(const struct model *model, FILE *file, enum view_sort metric);
/* speedscope's JSON: one profile for each metric. */
void profile_write_speedscope(const struct model *model, FILE *file);
/* One line a context, RFC 4180: ids, frame and all figures; empty where a figure is not known. */
void profile_write_csv(const struct model *model, FILE *file);
/* pprof's profile.proto, not compressed, with at most `limit` samples (0: all). */
void profile_write_pprof(const struct model *model, FILE *file, size_t limit);
/* heaptrack's interpreted format, version 2: what is alive. A context's chunks have its mean size,
 * because sizes of single chunks are not counted; its bytes are exact. */
void profile_write_heaptrack(const struct model *model, FILE *file);

#endif
