/* SPDX-License-Identifier: MIT */
/*
 * rows.h - the lines that `memctx top` shows of one process: a tree that can be folded, or a flat
 * list of the contexts with the largest sort keys.
 *
 * In the tree, a context that has no figures of its own and only one child with figures shares the
 * child's line. The ids of folded and opened contexts are kept, so that new lines are folded as the
 * user left the old ones.
 */
#ifndef MEMCTX_ROWS_H
#define MEMCTX_ROWS_H

#include <regex.h>

#include "live/rates.h"
#include "model/model.h"

#define ROWS_FLAT_MAX 500  /* greatest number of lines of the flat list */
#define ROWS_TREE_MAX 5000 /* greatest number of lines of the tree */

enum rows_kind {
    ROWS_CONTEXT, /* in the tree a subtree, in the flat list a context */
    ROWS_OWN,     /* the chunks that a context with children allocated itself */
    ROWS_REST,    /* the last line of the flat list: how many contexts the list leaves out */
};

enum rows_fold { ROWS_LEAF, ROWS_OPEN, ROWS_FOLDED };

struct rows_line {
    uint32_t context;
    /* number of contexts that share a line of the tree, from `context` outwards; for ROWS_REST the
     * number of contexts that the list leaves out */
    uint32_t frames;
    uint16_t depth;
    uint8_t kind; /* enum rows_kind */
    uint8_t fold; /* enum rows_fold */
};

struct rows_options {
    bool tree;
    enum rates_column sort;
    bool difference;        /* show and sort by the difference to the base */
    const regex_t *search;  /* show only paths with a frame that matches; NULL: show all */
    uint32_t search_number; /* another number for each search */
    size_t limit;           /* greatest number of lines of the flat list; 0: ROWS_FLAT_MAX */
};

struct rows {
    struct rows_line *list;
    size_t count, capacity;
    size_t rest; /* contexts that the flat list leaves out */
    /* By index of the context. counts: the search does not exclude the context; has: its subtree
     * has figures. */
    bool *counts, *has;
    size_t room;
    /* matches[number of a frame]: the frame matches the search */
    bool *matches;
    uint32_t matches_version, matches_search;
    /* folds[id of a context]: enum rows_fold, if the user folded or opened it, else ROWS_LEAF */
    uint8_t *folds;
    size_t fold_room;
};

/* Makes the lines. For the tree it adds up the subtrees in `rates`. `version`: watch->version,
 * which rises when the model changes. */
void rows_make(struct rows *rows, const struct model *model, uint32_t version, struct rates *rates,
               const struct rows_options *options);
/* Folds or opens a line's subtree; with `all` also all subtrees in it. */
void rows_fold(struct rows *rows, const struct model *model, const struct rows_line *line,
               enum rows_fold fold, bool all);
/* Returns the name of a line. The caller frees the text. */
char *rows_name(const struct model *model, const struct rows_line *line, bool tree);
/* Returns a figure of a line; with `difference`, less the figure of the base. */
int64_t rows_value(const struct rates *rates, const struct rows_line *line, bool tree,
                   enum rates_column column, bool difference);
/* Writes the indices of the contexts whose figures a line adds up to `list`: at most `room`, those
 * with most live bytes. Returns the number of all contexts that the line adds up. */
size_t rows_leaves(const struct rows *rows, const struct model *model, const struct rates *rates,
                   const struct rows_line *line, bool tree, uint32_t *list, size_t room);
void rows_free(struct rows *rows);

#endif
