/* SPDX-License-Identifier: MIT */
/* place.h - decides where the next chunks of some contexts go: memctx isolate, merge and set
 * TARGET CONTEXT. */
#ifndef MEMCTX_PLACE_H
#define MEMCTX_PLACE_H

#include "verbs/choose.h"

struct placing {
    const char *policy; /* WORD of policy=WORD on the command line */
    const char *action; /* word for the placement in output and in notes */
    const char *where;  /* where the next chunks go, for the text output */
    enum wire_placement placement;
};
/* Both return the placing with this policy or with this action; NULL: there is none. */
const struct placing *placing_by_policy(const char *policy);
const struct placing *placing_by_action(const char *action);
/* Returns true if the effect of a placing is measured by the free bytes around the chunks;
 * otherwise it is measured by the rounding and holes of the chunks. */
bool placing_is_shared(const struct placing *placing);
/* Returns the bytes that these contexts waste with this placement: free bytes around their chunks,
 * or the rounding and holes of their chunks. */
int64_t placing_waste(const struct placing *placing, const struct model *model,
                      const bool *members);

/* Places the contexts, leaves a note with the prediction in the target, and prints the result. */
void place_contexts(const struct choice *choice, const struct placing *placing);

#endif
