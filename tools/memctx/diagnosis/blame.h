/* SPDX-License-Identifier: MIT */
/*
 * blame.h - finds the call paths that explain a figure when no single path stands out.
 *
 * Contexts whose figure reaches a floor are named with their whole path. The others are put
 * together by the innermost frames that they share: four hundred plugins that leave a little each
 * through one plugin_state() are one suspect, plugin_state(). A suspect is as narrow as the floor
 * allows: the longest common inner part of paths whose figures, without those of narrower suspects,
 * add up to it. What reaches it nowhere is left over.
 *
 * Recursion is folded first (folding.h). Without that, a tree that is built by recursion would have
 * as many paths as nodes, and no part of them would stand out.
 */
#ifndef MEMCTX_BLAME_H
#define MEMCTX_BLAME_H

#include "model/model.h"

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

/* The folded paths of all contexts that have figures, innermost frame first. The index is the
 * number of the figures. */
struct blame_paths {
    const struct model *model;
    uint32_t *frames; /* indices of nodes, path behind path */
    uint32_t *first;  /* where its path begins; the next one's begin is its end */
    uint32_t *plain;  /* so many frames stand further in than all that was left out */
    uint32_t *same;   /* the first one with the same folded path */
    uint32_t *alike;  /* how many have that, where it is the first */
};
static inline uint32_t blame_number(const struct blame_paths *paths, uint32_t context) {
    return paths->model->contexts[context].figures->number;
}
void blame_paths_make(struct blame_paths *paths, const struct model *model);
void blame_paths_free(struct blame_paths *paths);

/* figures: one for each number of figures; what is not above 0 takes no part. floor: at least 1. */
void blame_make(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                int64_t floor);
/* Marks the members of the suspect, and every other context with the same folded path as one of
 * them, even if nothing is alive in it. */
void blame_widen(const struct blame_paths *paths, const struct blame_suspect *suspect,
                 bool *members);
void blame_free(struct blame *blame);

#endif
