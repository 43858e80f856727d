/* SPDX-License-Identifier: MIT */
/*
 * tails.h - functions that a call path lacks, because they ended in a tail call.
 *
 * A function that ends in a tail call jumps to the next function and leaves no return address.
 * names/tail_calls.h finds the functions between two frames of a path, or between the innermost
 * frame and malloc. The model stores them by pair of frames, because each frame may have other
 * neighbours on other paths.
 */
#ifndef MEMCTX_TAILS_H
#define MEMCTX_TAILS_H

#include "model/model.h"

/* The functions between two frames, innermost first. Each function is stored as a frame of a call
 * path, with its names and the address behind its tail call. These frames are not in
 * model->frames. */
struct model_tails {
    uint32_t outer, inner; /* numbers of the frames; `inner` is WIRE_NONE for malloc */
    uint32_t count;        /* number of functions, at least 1 */
    struct model_frame *frames;
};

/* Stores the functions between two frames, and takes over tails->frames. For a pair of frames, only
 * the first call counts. */
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

/* Returns the functions between a frame and malloc on paths that end at this frame; NULL: there are
 * none. */
const struct model_tails *tails_of_frame(const struct model *model,
                                         const struct model_frame *frame);

/* Return true if functions may have ended in tail calls between a context and its caller, or
 * between a context and malloc: the frames are of call paths, the outer one is at a call, and
 * folding left out no frames between the two. */
bool tails_possible_before(const struct model *model, const struct model_context *context);
bool tails_possible_to_malloc(const struct model_context *context);

#endif
