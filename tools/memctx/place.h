/* SPDX-License-Identifier: MIT */
/* place.h - where the next chunks of some contexts are to stand: memctx isolate, merge and set TARGET CONTEXT. */
#ifndef MEMCTX_PLACE_H
#define MEMCTX_PLACE_H

#include "choose.h"

struct place_request {
    enum wire_placement placement;
    char *const *ids;
    size_t id_count;
    const char *site;
    struct reading_names names;
    bool json, human;
};

/* Places them, leaves a note with the prediction, and says what was done. */
void place_contexts(struct target *target, const struct place_request *request);

#endif
