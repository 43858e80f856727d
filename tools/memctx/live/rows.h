/* SPDX-License-Identifier: MIT */
/*
 * rows.h - the lines that are shown of one process: a tree that can be folded, or a flat list of
 * the contexts with most of the sort key.
 *
 * In the tree, a context without figures of its own that has one child with figures shares the
 * line of that child. The ids of folded and opened contexts are kept, so a line stays as the user
 * left it.
 */
#ifndef MEMCTX_ROWS_H
#define MEMCTX_ROWS_H

#include <regex.h>

#include "live/rates.h"
#include "model/model.h"

#define ROWS_FLAT_MAX 500  /* lines of the flat list */
#define ROWS_TREE_MAX 5000 /* lines of the tree; more are not made */

enum rows_kind {
    ROWS_CONTEXT, /* a subtree, or in the flat list a context */
    ROWS_OWN,     /* the chunks that a context with children allocated itself */
    ROWS_REST,    /* the last line of the flat list: how many contexts the list leaves out */
};

enum rows_fold { ROWS_LEAF, ROWS_OPEN, ROWS_FOLDED };

struct rows_line {
    uint32_t context;
    uint32_t frames; /* contexts in this line of the tree, from `context` outwards */
    uint16_t depth;
    uint8_t kind; /* enum rows_kind */
    uint8_t fold; /* enum rows_fold */
};

struct rows_options {
    bool tree;
    enum rates_column sort;
    bool difference;        /* show and sort by the difference to the base */
    const regex_t *search;  /* show only paths with a frame that matches; NULL: show all */
    uint32_t search_number; /* changes with `search` */
    size_t limit;           /* flat list; 0: ROWS_FLAT_MAX */
};

struct rows {
    struct rows_line *list;
    size_t count, capacity;
    size_t rest; /* contexts that the flat list leaves out */
    /* By index of the context: whether it counts, and whether there are figures in its subtree. */
    bool *counts, *has;
    size_t room;
    /* By number of the frame: whether it matches the search. */
    bool *matches;
    uint32_t matches_version, matches_search;
    /* By id: enum rows_fold of contexts that were folded or opened, else ROWS_LEAF. */
    uint8_t *folds;
    size_t fold_room;
};

/* Makes the lines, and adds up the subtrees in `rates`. `version`: the version of the model. */
void rows_make(struct rows *rows, const struct model *model, uint32_t version, struct rates *rates,
               const struct rows_options *options);
/* Folds or opens a line's subtree. `all`: everything below, too. */
void rows_fold(struct rows *rows, const struct model *model, const struct rows_line *line,
               enum rows_fold fold, bool all);
/* Returns the name of a line. The caller frees the text. */
char *rows_name(const struct model *model, const struct rows_line *line, bool tree);
/* Returns a figure of a line. */
int64_t rows_value(const struct rates *rates, const struct rows_line *line, bool tree,
                   enum rates_column column, bool difference);
/* Lists the contexts whose figures the line adds up: of these, the at most `room` with most live
 * bytes go into `list`. Returns how many contexts the line adds up. */
size_t rows_leaves(const struct rows *rows, const struct model *model, const struct rates *rates,
                   const struct rows_line *line, bool tree, uint32_t *list, size_t room);
void rows_free(struct rows *rows);

#endif
