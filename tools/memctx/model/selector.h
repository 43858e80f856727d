/* SPDX-License-Identifier: MIT */
/*
 * selector.h - the contexts that --context names.
 *
 * A selector is a list of terms with commas between them. The term ID is one context. The term ID/N
 * is context ID, and every context that has figures of its own and the innermost N frames of
 * context ID.
 */
#ifndef MEMCTX_SELECTOR_H
#define MEMCTX_SELECTOR_H

#include "model/model.h"

/* Ends the process with a usage error if the text is no selector. */
void selector_check(const char *text);
/* Returns an array with an element for each context of the model: true if the selector names it.
 * Ends the process with a message if the model lacks a context of the selector. The caller frees
 * the array. */
bool *selector_members(const struct model *model, const char *text);
/* Returns true if two contexts have equal innermost `frames` frames. */
bool selector_same_frames(const struct model *model, uint32_t a, uint32_t b, uint32_t frames);

#endif
