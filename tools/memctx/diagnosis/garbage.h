/* SPDX-License-Identifier: MIT */
/*
 * garbage.h - whether growth may be memory of dead objects that V8 did not collect yet.
 *
 * V8, the engine of node, frees the buffers of dead objects when it collects garbage. Many of these
 * buffers stay until a full collection, which may be long after the objects died. So buffers whose
 * number is bounded may grow like a leak from one full collection to the next.
 */
#ifndef MEMCTX_GARBAGE_H
#define MEMCTX_GARBAGE_H

#include "diagnosis/growth.h"

/* True if the suspect's chunks are buffers of JavaScript, and nothing proves that V8 has tried to
 * collect them. `growth` is the growth of all members. */
bool garbage_may_be(const struct look *look, struct series *series,
                    const struct blame_suspect *suspect, const struct growth *growth);

#endif
