/* SPDX-License-Identifier: MIT */
/* rows.c - chooses, sorts and names the lines. */
#include "live/rows.h"

#include <stdlib.h>
#include <string.h>

#include "model/frames.h"
#include "model/tails.h"
#include "model/view.h"
#include "model/who.h"

#define OPEN_AT_FIRST 2 /* levels of the tree that are open at first */

/* --- which contexts are shown ---------------------------------------------------------------- */

static void find_matches(struct rows *rows, const struct model *model, uint32_t version,
                         const struct rows_options *options) {
    if (rows->matches && rows->matches_version == version &&
        rows->matches_search == options->search_number)
        return;
    rows->matches_version = version;
    rows->matches_search = options->search_number;
    rows->matches = cli_grow(rows->matches, model->frame_count, sizeof *rows->matches);
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        rows->matches[frame->number] = view_matches_frame(model, frame, options->search) ||
                                       view_matches_tails(model, frame, options->search);
}

static bool has_figures(const struct rates *rates, size_t index) {
    const struct rates_sums *own = rates_own(rates, index);
    return own->live_bytes != 0 || own->live_chunks != 0 || own->allocs != 0;
}

static void choose(struct rows *rows, const struct model *model, uint32_t version,
                   const struct rates *rates, const struct rows_options *options) {
    size_t count = model->context_count;
    if (count > rows->room) {
        rows->room = count + count / 4;
        rows->counts = cli_grow(rows->counts, rows->room, sizeof *rows->counts);
        rows->has = cli_grow(rows->has, rows->room, sizeof *rows->has);
    }
    if (options->search)
        find_matches(rows, model, version, options);
    for (size_t i = 0; i < count; i++) {
        const struct model_context *context = &model->contexts[i];
        rows->counts[i] = !options->search || rows->matches[context->frame->number] ||
                          (i > 0 && rows->counts[context->parent]);
        rows->has[i] = rows->counts[i] && has_figures(rates, i);
    }
    for (size_t i = count; i-- > 1;)
        rows->has[model->contexts[i].parent] |= rows->has[i];
}

/* --- the lines ------------------------------------------------------------------------------- */

struct maker {
    struct rows *rows;
    const struct model *model;
    const struct rates *rates;
    const struct rows_options *options;
};

static struct rows_line *add_line(struct rows *rows, const struct rows_line *line) {
    if (rows->count == rows->capacity) {
        rows->capacity = 2 * rows->capacity + 64;
        rows->list = cli_grow(rows->list, rows->capacity, sizeof *rows->list);
    }
    rows->list[rows->count] = *line;
    return &rows->list[rows->count++];
}

struct ranked {
    int64_t key;
    uint32_t context;
};

/* The largest key comes first. WIRE_UNKNOWN is the least number, so unknown keys come last. */
static int compare_ranked(const void *a, const void *b) {
    const struct ranked *left = a, *right = b;
    if (left->key != right->key)
        return left->key > right->key ? -1 : 1;
    return left->context < right->context ? -1 : left->context > right->context;
}

static int64_t key_of(const struct maker *maker, uint32_t context, bool subtree) {
    return rates_value(maker->rates, context, maker->options->sort, subtree,
                       maker->options->difference);
}

/* Returns whether a line is folded. If the user has neither folded nor opened it, its depth
 * decides. */
static enum rows_fold fold_of(const struct maker *maker, uint32_t context, unsigned depth) {
    uint32_t id = maker->model->contexts[context].id;
    const struct rows *rows = maker->rows;
    if (id < rows->fold_room && rows->folds[id] != ROWS_LEAF)
        return (enum rows_fold)rows->folds[id];
    return depth < OPEN_AT_FIRST || maker->options->search ? ROWS_OPEN : ROWS_FOLDED;
}

static struct ranked *sort_children(const struct maker *maker, uint32_t context, size_t *count) {
    const struct model_context *contexts = maker->model->contexts;
    size_t room = 0;
    *count = 0;
    for (uint32_t at = contexts[context].first_child; at != WIRE_NONE;
         at = contexts[at].next_sibling)
        room += maker->rows->has[at];
    struct ranked *ranked = cli_alloc(room, sizeof *ranked);
    for (uint32_t at = contexts[context].first_child; at != WIRE_NONE;
         at = contexts[at].next_sibling)
        if (maker->rows->has[at])
            ranked[(*count)++] = (struct ranked){key_of(maker, at, true), at};
    if (*count > 0)
        qsort(ranked, *count, sizeof *ranked, compare_ranked);
    return ranked;
}

/* Returns the only child with figures; WIRE_NONE if there is none or there are several. */
static uint32_t only_child(const struct maker *maker, uint32_t context) {
    const struct model_context *contexts = maker->model->contexts;
    uint32_t only = WIRE_NONE;
    for (uint32_t at = contexts[context].first_child; at != WIRE_NONE;
         at = contexts[at].next_sibling) {
        if (!maker->rows->has[at])
            continue;
        if (only != WIRE_NONE)
            return WIRE_NONE;
        only = at;
    }
    return only;
}

static bool has_own(const struct maker *maker, uint32_t context) {
    return maker->rows->counts[context] && has_figures(maker->rates, context);
}

/* Adds the line of a subtree, and the lines below it if it is open. */
static void add_tree(const struct maker *maker, uint32_t context, unsigned depth) {
    struct rows *rows = maker->rows;
    struct rows_line line = {.context = context, .frames = 1, .depth = (uint16_t)depth};
    uint32_t only;
    while (context != 0 && !has_own(maker, line.context) &&
           (only = only_child(maker, line.context)) != WIRE_NONE) {
        line.context = only;
        line.frames++;
    }
    size_t count;
    struct ranked *children = sort_children(maker, line.context, &count);
    if (count > 0)
        line.fold = (uint8_t)fold_of(maker, line.context, depth);
    add_line(rows, &line);
    if (line.fold == ROWS_OPEN && has_own(maker, line.context)) {
        struct rows_line own = {
            .context = line.context, .depth = (uint16_t)(depth + 1), .kind = ROWS_OWN};
        add_line(rows, &own);
    }
    for (size_t i = 0; line.fold == ROWS_OPEN && i < count && rows->count < ROWS_TREE_MAX; i++)
        add_tree(maker, children[i].context, depth + 1);
    free(children);
}

static void sift_down(struct ranked *heap, size_t count, size_t at) {
    for (;;) {
        size_t least = at, left = 2 * at + 1;
        for (size_t child = left; child < left + 2 && child < count; child++)
            if (compare_ranked(&heap[child], &heap[least]) > 0)
                least = child;
        if (least == at)
            return;
        struct ranked other = heap[at];
        heap[at] = heap[least];
        heap[least] = other;
        at = least;
    }
}

/* Lists the contexts with the largest sort keys. The list is built as a binary heap with the
 * smallest key on top. */
static void add_flat(const struct maker *maker) {
    struct rows *rows = maker->rows;
    size_t limit = maker->options->limit, count = 0, all = 0;
    limit = limit > 0 ? limit : ROWS_FLAT_MAX;
    struct ranked *heap = cli_alloc(limit, sizeof *heap);
    for (uint32_t i = 0; i < maker->model->context_count; i++) {
        if (!has_own(maker, i))
            continue;
        struct ranked one = {key_of(maker, i, false), i};
        all++;
        if (count < limit) {
            heap[count++] = one;
            for (size_t at = count / 2; count == limit && at-- > 0;)
                sift_down(heap, count, at);
        } else if (compare_ranked(&one, &heap[0]) < 0) {
            heap[0] = one;
            sift_down(heap, count, 0);
        }
    }
    if (count > 0)
        qsort(heap, count, sizeof *heap, compare_ranked);
    for (size_t i = 0; i < count; i++)
        add_line(rows, &(struct rows_line){.context = heap[i].context, .frames = 1});
    free(heap);
    rows->rest = all - count;
    if (rows->rest > 0)
        add_line(rows, &(struct rows_line){.kind = ROWS_REST, .frames = (uint32_t)rows->rest});
}

void rows_make(struct rows *rows, const struct model *model, uint32_t version, struct rates *rates,
               const struct rows_options *options) {
    struct maker maker = {rows, model, rates, options};
    choose(rows, model, version, rates, options);
    if (options->tree)
        rates_add_up(rates, model, rows->counts);
    rows->count = rows->rest = 0;
    if (!options->tree)
        add_flat(&maker);
    else if (rows->has[0])
        add_tree(&maker, 0, 0);
}

/* --- folding --------------------------------------------------------------------------------- */

static void set_fold(struct rows *rows, const struct model *model, uint32_t context,
                     enum rows_fold fold) {
    uint32_t id = model->contexts[context].id;
    if (id >= rows->fold_room) {
        size_t room = (size_t)id + id / 4 + 256;
        rows->folds = cli_grow(rows->folds, room, sizeof *rows->folds);
        memset(rows->folds + rows->fold_room, ROWS_LEAF, room - rows->fold_room);
        rows->fold_room = room;
    }
    rows->folds[id] = (uint8_t)fold;
}

void rows_fold(struct rows *rows, const struct model *model, const struct rows_line *line,
               enum rows_fold fold, bool all) {
    set_fold(rows, model, line->context, fold);
    if (!all)
        return;
    bool *below = cli_alloc(model->context_count, sizeof *below);
    below[line->context] = true;
    for (uint32_t i = line->context + 1; i < model->context_count; i++) {
        below[i] = below[model->contexts[i].parent];
        if (below[i])
            set_fold(rows, model, i, fold);
    }
    free(below);
}

/* In a full list, replaces the context with fewest live bytes by `context`, if `context` has more.
 */
static void replace_least(const struct rates *rates, uint32_t *list, size_t room,
                          uint32_t context) {
    size_t least = 0;
    for (size_t i = 1; i < room; i++)
        if (rates_own(rates, list[i])->live_bytes < rates_own(rates, list[least])->live_bytes)
            least = i;
    if (rates_own(rates, context)->live_bytes > rates_own(rates, list[least])->live_bytes)
        list[least] = context;
}

size_t rows_leaves(const struct rows *rows, const struct model *model, const struct rates *rates,
                   const struct rows_line *line, bool tree, uint32_t *list, size_t room) {
    size_t count = 0;
    bool subtree = tree && line->kind == ROWS_CONTEXT;
    bool *below = cli_alloc(model->context_count, sizeof *below);
    for (uint32_t i = line->context; i < model->context_count; i++) {
        below[i] = i == line->context || (subtree && below[model->contexts[i].parent]);
        if (!below[i] || !rows->counts[i] || !has_figures(rates, i))
            continue;
        if (count < room)
            list[count] = i;
        else
            replace_least(rates, list, room, i);
        count++;
    }
    free(below);
    return count;
}

/* --- text ------------------------------------------------------------------------------------ */

char *rows_name(const struct model *model, const struct rows_line *line, bool tree) {
    if (line->kind == ROWS_OWN)
        return cli_copy("[its own chunks]");
    if (line->kind == ROWS_REST)
        return cli_format("... and %u more call paths", line->frames);
    if (tree)
        return line->context == 0 ? cli_copy("[the whole program]")
                                  : frames_write_path(model, line->context, line->frames);
    struct who_part part = who_frames(model, line->context, UINT32_MAX);
    char *name = who_write(model, &part, WHO_FUNCTIONS);
    if (name[0] != '\0')
        return name;
    free(name);
    return frames_write_path(model, line->context, WHO_FUNCTIONS);
}

int64_t rows_value(const struct rates *rates, const struct rows_line *line, bool tree,
                   enum rates_column column, bool difference) {
    if (line->kind == ROWS_REST)
        return WIRE_UNKNOWN;
    return rates_value(rates, line->context, column, tree && line->kind == ROWS_CONTEXT,
                       difference);
}

void rows_free(struct rows *rows) {
    free(rows->list);
    free(rows->counts);
    free(rows->has);
    free(rows->matches);
    free(rows->folds);
    *rows = (struct rows){0};
}
