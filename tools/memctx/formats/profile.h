/* SPDX-License-Identifier: MIT */
/*
 * profile.h - writes the contexts of a model in the formats of other tools.
 *
 * Each writer writes every context with figures of its own; CSV and heaptrack have all contexts.
 * Inlined functions, and functions that ended in a tail call, become separate frames, except in
 * CSV. A frame without a name is written as "module+0xoffset".
 */
#ifndef MEMCTX_PROFILE_H
#define MEMCTX_PROFILE_H

#include "model/model.h"
#include "model/view.h"

/* One function of a call path. */
struct profile_frame {
    const char *function; /* never NULL */
    const char *file;     /* NULL: not known; `line` is then 0 */
    int64_t line;
};

/* Returns the path of a context as *count functions, innermost first. The array is valid until the
 * next call of profile_path, profile_frames or profile_tail_frames. */
const struct profile_frame *profile_path(const struct model *model, uint32_t context,
                                         size_t *count);

/* Returns the functions of the context's own frame, as profile_path does: the inlined functions,
 * innermost first, then the function into which they were inlined. */
const struct profile_frame *profile_frames(const struct model *model, uint32_t context,
                                           size_t *count);

/* Returns the functions of a frame that ended in a tail call (model/tails.h), as profile_path does;
 * *count may be 0. */
const struct profile_frame *profile_tail_frames(const struct model_frame *tail, size_t *count);

/* Numbers for strings, or for frames. Equal strings have one number, and so have frames with equal
 * name, file and line. The caller frees `slots`. */
struct profile_numbers {
    struct numbered *slots;
    size_t mask, count;
};
/* Returns the number of a frame, from 1 on. Sets *fresh to true if the frame had no number yet. The
 * strings of the frame must stay valid. */
uint32_t profile_frame_number(struct profile_numbers *numbers, const struct profile_frame *frame,
                              bool *fresh);
/* Returns the number of a string; 0 for NULL and for an empty string. */
uint32_t profile_string_number(struct profile_numbers *numbers, const char *text, bool *fresh);

/* Writes lines "outermost;...;innermost FIGURE", for flame graph tools. Figures of 0 are left out.
 */
void profile_write_folded(const struct model *model, FILE *file, enum view_sort metric);
/* Writes speedscope's JSON: a profile for each of five metrics, those of pages only if the model
 * has sums over pages. */
void profile_write_speedscope(const struct model *model, FILE *file);
/* Writes CSV (RFC 4180), one line for each context: ids, frame and all figures. The field of an
 * unknown figure is empty. */
void profile_write_csv(const struct model *model, FILE *file);
/* Options of the writers for pprof and OTLP, whose samples have several values. */
struct profile_values {
    size_t limit; /* greatest number of samples that are written; 0: no limit */
    /* An earlier state of the process, to be subtracted; NULL: none. The samples then say how the
     * figures changed since that state, so live figures may be negative. */
    const struct model *before;
    /* OTLP: attributes NAME=VALUE of the resource. If service.name is not among them, it is the
     * program's name. */
    const char *const *attributes;
    size_t attribute_count;
};
/* Writes pprof's profile.proto, not compressed. */
void profile_write_pprof(const struct model *model, FILE *file,
                         const struct profile_values *options);
/* Writes OpenTelemetry's ExportProfilesServiceRequest (profiles, v1development), not compressed. */
void profile_write_otlp(const struct model *model, FILE *file,
                        const struct profile_values *options);
/* Writes live memory in heaptrack's interpreted format, version 2. The sizes of single chunks are
 * not known, so all chunks of a context are written with its mean size. The sum of bytes is
 * exact. */
void profile_write_heaptrack(const struct model *model, FILE *file);

#endif
