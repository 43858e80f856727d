/* SPDX-License-Identifier: MIT */
/*
 * tails.h - functions that a call path lacks, because they ended in a tail call.
 *
 * Such a function jumped to the next one and left no return address. names/tail_calls.h finds the
 * functions between two frames of a path, or between the innermost frame and malloc. These
 * functions belong to the pair of frames, because each frame may have other neighbours on other
 * paths.
 */
#ifndef MEMCTX_TAILS_H
#define MEMCTX_TAILS_H

#include "model/model.h"

/* The functions between two frames, innermost first. Each one is a frame of a call path, with
 * names; its address is the one behind the tail call. These frames are not in model->frames. */
struct model_tails {
    uint32_t outer, inner; /* numbers of the frames; `inner` is WIRE_NONE for malloc */
    uint32_t count;        /* number of functions, at least 1 */
    struct model_frame *frames;
};

/* Stores the functions between two frames, and takes over tails->frames. Call this once for each
 * pair of frames. */
void tails_add(struct model *model, const struct model_tails *tails);
/* Calls `visit` for each pair of frames between which functions ended in tail calls. */
void tails_visit(const struct model *model,
                 void (*visit)(const struct model_tails *tails, void *data), void *data);
void tails_free(struct model *model);

/* tails_before returns the functions between the frames of a context and of its caller.
 * tails_to_malloc returns the functions between the frame of a context that allocates and malloc.
 * NULL: there are none. The context must be one of the model's. */
const struct model_tails *tails_before(const struct model *model,
                                       const struct model_context *context);
const struct model_tails *tails_to_malloc(const struct model *model,
                                          const struct model_context *context);

/* Returns the functions between a frame and malloc, for paths that end at this frame; NULL: there
 * are none. */
const struct model_tails *tails_of_frame(const struct model *model,
                                         const struct model_frame *frame);

/* Return true if functions may have ended in tail calls between a context and its caller, or
 * between a context and malloc: the frames are of call paths, and folding left out none between
 * them. */
bool tails_possible_before(const struct model *model, const struct model_context *context);
bool tails_possible_to_malloc(const struct model_context *context);

#endif
