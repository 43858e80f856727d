/* SPDX-License-Identifier: MIT */
/* place.h - where the next chunks of some contexts are to stand: memctx isolate, merge and set TARGET CONTEXT. */
#ifndef MEMCTX_PLACE_H
#define MEMCTX_PLACE_H

#include "choose.h"

/* Places them, leaves a note with the prediction, and says what was done. */
void place_contexts(const struct choice *choice, enum wire_placement placement);

#endif
