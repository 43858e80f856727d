/* SPDX-License-Identifier: MIT */
/*
 * blame.h - which call paths a figure is to be blamed on, where none of many stands out alone.
 *
 * Contexts whose figure reaches a floor are named with their whole path. The others are put
 * together by the innermost frames that they share: four hundred plugins that leave a little each
 * through one plugin_state() are one suspect, plugin_state(). A suspect is as narrow as the floor
 * allows: the longest common inner part of paths whose figures, without those of narrower suspects,
 * add up to it. What reaches it nowhere is left over.
 */
#ifndef MEMCTX_BLAME_H
#define MEMCTX_BLAME_H

#include "model.h"

struct blame_suspect {
    int64_t figure;    /* sum over the contexts */
    uint32_t *members; /* indices of the contexts; members[0] has the largest figure */
    size_t count;
    uint32_t frames; /* the members' innermost frames that are common; all of a single one's */
};

struct blame {
    struct blame_suspect *suspects; /* by falling figure */
    size_t count;
    int64_t rest; /* of contexts that belong to no suspect */
};

/* figures: one for each context; what is not above 0 takes no part. floor: at least 1. */
void blame_make(struct blame *blame, const struct model *model, const int64_t *figures,
                int64_t floor);
void blame_free(struct blame *blame);

#endif
