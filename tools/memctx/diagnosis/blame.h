/* SPDX-License-Identifier: MIT */
/*
 * blame.h - finds the call paths that explain a figure when no single path stands out.
 *
 * A context whose figure reaches a floor is a suspect by itself, with its whole path. All other
 * contexts are grouped by innermost frames that they share: if four hundred plugins each leak a
 * little through plugin_state(), the suspect is plugin_state(). A group becomes a suspect if its
 * figures add up to the floor. Longer common parts are tried first; contexts of a suspect with a
 * longer part do not count for shorter parts. Contexts that are in no such group belong to no
 * suspect.
 *
 * Recursion is folded first (folding.h). Without that, a data structure that a recursive function
 * builds could have as many paths as nodes, and no common part of these paths would stand out.
 */
#ifndef MEMCTX_BLAME_H
#define MEMCTX_BLAME_H

#include "model/model.h"
#include "model/who.h"

#define BLAME_LISTED 12 /* commands list at most so many contexts; else they name shared frames */
#define BLAME_RHYTHMS 4 /* ways in which the memory of a script grows (rhythm.h) */
#define BLAME_GROUPS (2 * BLAME_RHYTHMS)

struct blame_suspect {
    int64_t figure;    /* sum over the members */
    uint32_t *members; /* indices of the contexts; members[0] has the largest figure */
    size_t count;
    /* Number of innermost frames that the members share. For a single member, the number of frames
     * of its whole path; for a joined suspect, of the whole path of members[0]. */
    uint32_t frames;
    /* The number of contexts that a single member stands for: all contexts with its folded path. 0:
     * the suspect has several members, or the member stands only for itself. */
    size_t alike;
    /* join_suspects (join.h) joins suspects of one `group` (below BLAME_GROUPS) that have only a
     * function in common. The fields below describe a joined suspect. */
    uint8_t group;
    bool joined;
    bool companions; /* parts have equally many chunks (rhythm.h), and need not share `common` */
    struct who_step common;      /* the innermost function that nearly all paths have in common */
    struct blame_suspect *parts; /* sorted by falling figure */
    size_t part_count;
};

struct blame {
    struct blame_suspect *suspects; /* sorted by falling figure */
    size_t count;
    bool divided; /* the memory of a script grows in several ways, one for each group */
};

/* The folded paths of all contexts that have figures, innermost frame first. All arrays but
 * `frames` are indexed by the number of a context's figures (struct model_figures). */
struct blame_paths {
    const struct model *model;
    uint32_t *frames; /* indices of nodes, path behind path */
    uint32_t *first;  /* start of each path in `frames`; a path ends where the next one starts */
    /* plain[n]: number of innermost frames before the first frame that folding left out */
    uint32_t *plain;
    /* same[n]: the lowest number m for which the figures m and n have equal folded paths. Frames
     * are equal if they have the same functions and source lines: a compiler that unrolls a loop
     * makes several addresses of one line. Without source lines, equal frames have one address.
     * Code that was generated at run time, and all frames farther out, are not compared. */
    uint32_t *same;
    uint32_t *alike; /* alike[same[n]]: how many figures have the folded path of the figures n */
    uint32_t *next;  /* next[n]: the next number with the folded path of n; 0: there is none */
};
static inline uint32_t blame_number(const struct blame_paths *paths, uint32_t context) {
    return paths->model->contexts[context].figures->number;
}
void blame_paths_make(struct blame_paths *paths, const struct model *model);
void blame_paths_free(struct blame_paths *paths);

/* Makes the suspects. `figures` has an element for each number of figures; elements of 0 or less
 * are ignored. A `floor` below 1 counts as 1. */
void blame_make(struct blame *blame, const struct blame_paths *paths, const int64_t *figures,
                int64_t floor);
/* True if the frame is code that was generated at run time, or a function of V8 through which such
 * code calls native functions. A runtime generates a function again when it is used often, and then
 * inlines other functions. So one line of a script has several such frames in turn. */
bool blame_is_generated(const struct model_frame *frame);
/* True if the figures `number` have the folded path of other figures, but other addresses. */
bool blame_has_copies(const struct blame_paths *paths, uint32_t number);
/* Adds the other contexts with the folded path of a suspect's only member. If all their frames have
 * equal addresses, counts them in suspect->alike; else makes them members. Sets suspect->frames to
 * the number of innermost frames that all of them share. But if they become members and commands
 * list them, because there are at most BLAME_LISTED, suspect->frames has all frames of members[0]
 * in front of the first one that folding left out. */
void blame_add_alike(const struct blame_paths *paths, struct blame_suspect *suspect);
/* Sets members[context] for the members of the suspect, and for all contexts whose folded path is
 * that of a member, even if they have no live chunks. */
void blame_widen(const struct blame_paths *paths, const struct blame_suspect *suspect,
                 bool *members);
/* Removes the suspects for which `dropped` is true. */
void blame_drop(struct blame *blame, const bool *dropped);
/* Moves the members of `other` to `one`, which becomes a joined suspect with the function `common`,
 * and leaves `other` without members. `common` is a step of the path of one->members[0]; the paths
 * of `other` need not have it. */
void blame_join(const struct model *model, struct blame_suspect *one, struct blame_suspect *other,
                struct who_step common);
/* Removes suspects without members, and sorts the others. */
void blame_tidy(struct blame *blame);
void blame_free(struct blame *blame);

#endif
