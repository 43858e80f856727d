/* SPDX-License-Identifier: MIT */
/*
 * view.h - chooses the contexts of a model that are shown, and their order.
 *
 * The weight of a node is the sum of the sort key over the node and all contexts below it. Siblings
 * are sorted by falling weight. A node of too little weight is hidden, but still counts in the
 * sums.
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
    int64_t min_bytes;    /* -1: not given */
    int64_t levels;       /* levels of the tree to show; -1: all */
    const char *site;     /* a regular expression; NULL: all contexts */
    const char *contexts; /* a selector (selector.h); NULL: all contexts */
};

struct view {
    enum view_sort sort;
    bool *included; /* true for contexts that --site and --context choose; NULL: all contexts */
    bool *shown; /* true for contexts that are shown, and for their ancestors; NULL: all contexts */
    int64_t *weights;  /* weight of each context */
    int64_t threshold; /* contexts of less weight are hidden */
};

/* Returns the sort key that a word behind an option, such as --sort, names. For another word the
 * command ends with a usage error. */
enum view_sort view_parse_sort(const char *option, const char *word);
/* Returns true if the key is a number of chunks or calls, not of bytes. */
bool view_counts(enum view_sort sort);
const char *view_sort_word(enum view_sort sort);
/* Returns true if the key is a figure of pages, which many moments of a recording lack. */
bool view_needs_pages(enum view_sort sort);
/* Returns the figure of the sort key; 0 if it is unknown. */
int64_t view_key(const struct model_totals *totals, enum view_sort sort);
/* Makes a view. With options->site, the model must have its names (names/symbols.h). */
void view_make(struct view *view, const struct model *model, const struct view_options *options);
/* Returns true if --site or --context chooses contexts. */
bool view_chooses(const struct view_options *options);
/* A hint for messages about a --site that matches nothing. doctor and frag name the caller of a
 * wrapper of malloc, and the user may have taken that name for a site. */
#define VIEW_SITE_HINT "a site is the function that calls malloc, often a wrapper such as xmalloc"
/* Compiles a regular expression of the user. If it is invalid, the command ends with a usage
 * error. */
void view_compile_site(regex_t *regex, const char *text);
/* Returns true for an allocation site (a context with figures of its own) that matches: its frame
 * by function, inlined function, file:line or module, or a function between the frame and malloc.
 * Returns false for any other context. */
bool view_matches_site(const struct model *model, const struct model_context *context,
                       const regex_t *regex);
/* Returns true if the frame matches by function, inlined function, file:line or module, or by its
 * whole text, whether its context is an allocation site or not. */
bool view_matches_frame(const struct model *model, const struct model_frame *frame,
                        const regex_t *regex);
/* Returns true if a function between this frame and malloc matches (tails.h). */
bool view_matches_tails(const struct model *model, const struct model_frame *frame,
                        const regex_t *regex);
/* Returns the indices of the *count contexts with figures of their own, by falling sort key. The
 * caller frees the array. */
uint32_t *view_sort_leaves(const struct view *view, const struct model *model, size_t *count);
/* Returns the indices of the *count children of a context, by falling weight. The caller frees the
 * array. */
uint32_t *view_sort_children(const struct view *view, const struct model *model, uint32_t index,
                             size_t *count);

#endif
