/* SPDX-License-Identifier: MIT */
/*
 * garbage.h - whether growth may be memory of dead objects that a runtime did not collect yet.
 *
 * V8, the engine of node, frees the buffers of dead objects when it collects garbage. Many of these
 * buffers stay until a full collection, which may be long after the objects died. So buffers whose
 * number is bounded may grow like a leak from one full collection to the next. The objects of a
 * script in Python or Lua may grow like that, too.
 */
#ifndef MEMCTX_GARBAGE_H
#define MEMCTX_GARBAGE_H

#include "diagnosis/growth.h"

/* Returns what to say if the suspect's chunks may be dead objects that were not collected yet; NULL
 * if they are no objects of such a runtime, or if there are more of them than the runtime leaves.
 * `growth` is the growth of all members. */
const struct garbage *garbage_may_be(const struct look *look, struct series *series,
                                     const struct blame_suspect *suspect,
                                     const struct growth *growth);

#endif
