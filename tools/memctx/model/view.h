/* SPDX-License-Identifier: MIT */
/*
 * view.h - which contexts of a model are shown, and in what order.
 *
 * The weight of a node is the sum of the sort key over the contexts below it and itself; siblings
 * stand by falling weight, and what weighs too little is hidden, never dropped from the sums.
 */
#ifndef MEMCTX_VIEW_H
#define MEMCTX_VIEW_H

#include <regex.h>
#include <stdbool.h>

#include "model/model.h"

enum view_sort {
    VIEW_SORT_REQUESTED,
    VIEW_SORT_RESERVED,
    VIEW_SORT_ALLOCS,
    VIEW_SORT_FREES,
    VIEW_SORT_WASTE,
    VIEW_SORT_PINNED,
    VIEW_SORT_PEAK,
    VIEW_SORT_CHUNKS,
    VIEW_SORTS,
};

#define VIEW_SORT_WORDS "requested, reserved, allocs, frees, waste, pinned, peak, chunks"

struct view_options {
    enum view_sort sort;
    bool sorted;       /* --sort was given */
    int64_t min_bytes; /* -1: not given */
    int64_t levels;    /* of the tree; -1: all */
    const char *site;  /* a regular expression; NULL: all contexts */
};

struct view {
    enum view_sort sort;
    bool *included;    /* the contexts that --site names; NULL: all */
    bool *shown;       /* what is shown, with its ancestors; NULL: all */
    int64_t *weights;  /* by context */
    int64_t threshold; /* what weighs less is hidden */
};

/* The word after --sort; a usage error where it is none. */
enum view_sort view_parse_sort(const char *word);
const char *view_sort_word(enum view_sort sort);
/* The figure that is sorted by; WIRE_UNKNOWN counts as 0. */
int64_t view_key(const struct model_totals *totals, enum view_sort sort);
/* Chooses. With a site, the names must have been resolved. */
void view_make(struct view *view, const struct model *model, const struct view_options *options);
/* A regular expression that the user gave; a usage error where it is none. */
void view_compile_site(regex_t *regex, const char *text);
/* True where a context's own frame (function, inlined function, file:line, module) matches and
 * the context is an allocation site: something was allocated right there. */
bool view_matches_site(const struct model *model, const struct model_context *context,
                       const regex_t *regex);
/* The same of any context with such a frame. */
bool view_matches_frame(const struct model *model, struct model_frame *frame, const regex_t *regex);
/* The indices of the contexts with figures of their own, by falling weight; *count of them. */
uint32_t *view_sort_leaves(const struct view *view, const struct model *model, size_t *count);
/* A context's children by falling weight, *count of them; free() it. */
uint32_t *view_sort_children(const struct view *view, const struct model *model, uint32_t index,
                             size_t *count);

#endif
