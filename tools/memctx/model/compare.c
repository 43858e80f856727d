/* SPDX-License-Identifier: MIT */
/* compare.c - matches the contexts of two states, and subtracts the earlier figures from the
 * later. */
#include "model/compare.h"

#include <stdlib.h>
#include <string.h>

#include <memctx/record.h>

#define FIGURES(X) X(requested_bytes) X(live_chunks) X(allocs) X(frees) X(requested_cum_bytes)

static void add_figures(struct compare_figures *sum, const struct compare_figures *part) {
#define X(name) sum->name = model_add(sum->name, part->name);
    FIGURES(X)
#undef X
}

static int64_t subtract(int64_t after, int64_t before) {
    return before == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_add(after, -before);
}

/* A counter that went backwards was reset between the two states, so its growth is not known. */
static int64_t subtract_counter(int64_t after, int64_t before) {
    int64_t growth = subtract(after, before);
    return growth < 0 ? WIRE_UNKNOWN : growth;
}

static struct compare_figures subtract_figures(const struct compare_figures *after,
                                               const struct compare_figures *before) {
    return (struct compare_figures){
        .requested_bytes = subtract(after->requested_bytes, before->requested_bytes),
        .live_chunks = subtract(after->live_chunks, before->live_chunks),
        .allocs = subtract_counter(after->allocs, before->allocs),
        .frees = subtract_counter(after->frees, before->frees),
        .requested_cum_bytes =
            subtract_counter(after->requested_cum_bytes, before->requested_cum_bytes),
    };
}

static struct compare_figures figures_of(const struct model_totals *totals) {
    return (struct compare_figures){
#define X(name) .name = totals->name,
        FIGURES(X)
#undef X
    };
}

static int compare_rows(const void *a, const void *b) {
    const struct compare_row *left = a, *right = b;
    if (left->growth.requested_bytes != right->growth.requested_bytes)
        return left->growth.requested_bytes > right->growth.requested_bytes ? -1 : 1;
    if (left->growth.allocs != right->growth.allocs)
        return left->growth.allocs > right->growth.allocs ? -1 : 1;
    return left->context < right->context ? -1 : left->context > right->context;
}

static void forget_counters(struct compare_figures *figures) {
    figures->allocs = figures->frees = figures->requested_cum_bytes = WIRE_UNKNOWN;
}

/* Forgets the growth of all counters: between the two models they were set back to 0, and the
 * models do not tell what they were just before that. Drops the rows that have no other growth. */
static void forget_growth(struct compare *compare) {
    size_t kept = 0;
    forget_counters(&compare->growth);
    for (size_t i = 0; i < compare->count; i++) {
        struct compare_row row = compare->rows[i];
        forget_counters(&row.growth);
        if (row.growth.requested_bytes != 0 || row.growth.live_chunks != 0)
            compare->rows[kept++] = row;
    }
    compare->count = kept;
}

/* True if memctx reset was called after the mark. The library then lowers the mark's counters by
 * their values at the reset, so they are negative. Growth since the mark is right with these
 * counters, but the counters at the mark are not known. */
static bool was_reset(const struct compare_figures *figures) {
    return (figures->allocs < 0 && figures->allocs != WIRE_UNKNOWN) ||
           (figures->frees < 0 && figures->frees != WIRE_UNKNOWN) ||
           (figures->requested_cum_bytes < 0 && figures->requested_cum_bytes != WIRE_UNKNOWN);
}

/* Forgets negative counters at the mark (was_reset), of each row and of the sum. */
static void forget_reset(struct compare *compare) {
    bool any = was_reset(&compare->before);
    for (size_t i = 0; i < compare->count; i++) {
        if (was_reset(&compare->rows[i].before)) {
            forget_counters(&compare->rows[i].before);
            any = true;
        }
    }
    if (any)
        forget_counters(&compare->before);
}

/* Returns true if the row is a sum of contexts of a recording: those that hold little at the
 * moment, or those whose paths are not in the file any more. */
static bool is_sum(const struct compare_row *row) {
    uint32_t id = row->model->contexts[row->context].id;
    return id == RECORD_REST || id == RECORD_FORGOTTEN;
}

/* If a context of a recording is part of a sum (is_sum) at only one of the two moments, the growth
 * of the context's counters is not known, and the growth of the sum's counters is not known. The
 * growth of a context that never freed a chunk is kept: its counters count its live chunks, and
 * these were few while the context was part of the sum. */
static void forget_summed(struct compare *compare) {
    bool any = false, moved = false;
    for (size_t i = 0; i < compare->count; i++)
        any |= is_sum(&compare->rows[i]) && compare->rows[i].before.allocs != 0;
    for (size_t i = 0; any && i < compare->count; i++) {
        struct compare_row *row = &compare->rows[i];
        if (is_sum(row) || (row->before.allocs == 0) == (row->after.allocs == 0))
            continue;
        moved = true;
        if (row->after.allocs == 0 || row->after.frees > 0) {
            forget_counters(&row->before);
            forget_counters(&row->growth);
        }
    }
    for (size_t i = 0; moved && i < compare->count; i++)
        if (is_sum(&compare->rows[i]))
            forget_counters(&compare->rows[i].growth);
}

/* Adds up the rows, drops those that did not change, and sorts the others. */
static void finish(struct compare *compare) {
    size_t kept = 0;
    for (size_t i = 0; i < compare->count; i++) {
        struct compare_row *row = &compare->rows[i];
        row->growth = subtract_figures(&row->after, &row->before);
        add_figures(&compare->before, &row->before);
        add_figures(&compare->after, &row->after);
        if (memcmp(&row->before, &row->after, sizeof row->before) != 0)
            compare->rows[kept++] = *row;
    }
    compare->count = kept;
    compare->growth = subtract_figures(&compare->after, &compare->before);
    if (kept > 0)
        qsort(compare->rows, kept, sizeof *compare->rows, compare_rows);
    forget_summed(compare);
}

/* Sets the figures that a context had at the mark, as if the mark had left it out; the figures of
 * contexts with an entry are overwritten later. A context that the mark left out held at most
 * left_out.most_bytes, so it has grown by at least the growth shown here. */
static void begin_left_out(struct compare_row *row, const struct model_mark *mark) {
    int64_t most = model_tame(mark->left_out.most_bytes);
    if (row->model->contexts[row->context].id >= mark->left_out.ids_below)
        return;
    row->before = row->after;
    if (row->after.requested_bytes > most) {
        row->before =
            (struct compare_figures){most, WIRE_UNKNOWN, WIRE_UNKNOWN, WIRE_UNKNOWN, WIRE_UNKNOWN};
    }
}

/* Computes the sums at the mark. These sums are exact, although the mark has no entries for some
 * contexts. */
static void add_left_out(struct compare *compare, const struct model_mark *mark) {
    compare->left_out = &mark->left_out;
    compare->before = (struct compare_figures){
#define X(name) .name = mark->left_out.name,
        FIGURES(X)
#undef X
    };
    for (size_t i = 0; i < mark->entry_count; i++) {
        struct compare_figures entry = {
#define X(name) .name = mark->entries[i].name,
            FIGURES(X)
#undef X
        };
        add_figures(&compare->before, &entry);
    }
    compare->growth = subtract_figures(&compare->after, &compare->before);
}

void compare_with_mark(struct compare *compare, const struct model *model,
                       const struct model_mark *mark) {
    *compare = (struct compare){.count = model->figures_count};
    compare->rows = cli_alloc(compare->count, sizeof *compare->rows);
    for (size_t i = 0; i < compare->count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        /* The figures with number 0 belong to no single context. Their row stays 0, so finish drops
         * it. */
        bool own = figures->context != WIRE_NONE;
        compare->rows[i] =
            (struct compare_row){.model = model, .context = own ? figures->context : 0};
        if (own)
            compare->rows[i].after = figures_of(&figures->self);
        if (own && mark->left_out.contexts > 0)
            begin_left_out(&compare->rows[i], mark);
    }
    for (size_t i = 0; i < mark->entry_count; i++) {
        const struct wire_mark_entry *entry = &mark->entries[i];
        uint32_t number = model->contexts[entry->context].figures->number;
        compare->rows[number].before = (struct compare_figures){
#define X(name) .name = entry->name,
            FIGURES(X)
#undef X
        };
    }
    finish(compare);
    if (mark->left_out.contexts > 0)
        add_left_out(compare, mark);
    forget_reset(compare);
}

/* --- two models -------------------------------------------------------------------------- */

/* A frame that both models may have. Each frame of a model is matched once: there are few frames,
 * but there may be millions of contexts. */
struct place {
    const char *module; /* from name_module; NULL: the frame has no module */
    /* the module of the frame; NULL: the frame matches in every build of its module */
    const struct model_module *build;
    const char *label; /* frame's label, or its function if `build` is NULL */
    uint64_t offset;
    uint32_t next; /* next place in the bucket */
};

/* A context that both models may have, identified by its parent and its own frame. */
struct node {
    uint32_t parent; /* index of a node; WIRE_NONE for the root */
    uint32_t place;  /* index of a place; WIRE_NONE for the root */
    uint32_t next;   /* next node in the bucket */
    uint32_t row;    /* index of a row; WIRE_NONE: no context had figures */
};

/* The first element of each list of elements with equal hashes. */
struct buckets {
    uint32_t *first;
    size_t count;
};

struct merge {
    struct place *places;
    struct node *nodes;
    size_t place_count, node_count;
    struct buckets place_buckets, node_buckets;
    struct compare_row *rows; /* of the nodes whose contexts have figures */
    size_t row_count, row_room;
    bool same_program; /* the two models are of programs of one name */
};

/* One of the two models. */
struct side {
    const struct model *model;
    bool is_after;
    bool *rebuilt; /* for each module: the other model has only other builds of it */
};

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text) {
    for (; text && *text != '\0'; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_build(const struct model_module *a, const struct model_module *b) {
    return !a || !b || a->build_id_bytes == 0 || b->build_id_bytes == 0 ||
           (a->build_id_bytes == b->build_id_bytes &&
            memcmp(a->build_id, b->build_id, a->build_id_bytes) == 0);
}

/* Returns the name by which a module is matched: its path, or "" for the program itself, because
 * its file may be in another folder in the other state. */
static const char *name_module(const struct merge *merge, const struct model *model,
                               const struct model_module *module) {
    return merge->same_program && strcmp(module->path, model->exe) == 0 ? "" : module->path;
}

/* True if the other state has modules of this name, and each of them is of another build. */
static bool is_rebuilt(const struct merge *merge, const struct model *model,
                       const struct model_module *module, const struct model *other) {
    const char *name = name_module(merge, model, module);
    bool any = false;
    for (size_t i = 0; i < other->module_count; i++) {
        const struct model_module *of_other = &other->modules[i];
        if (strcmp(name_module(merge, other, of_other), name) != 0)
            continue;
        if (same_build(module, of_other))
            return false;
        any = true;
    }
    return any;
}

static void find_rebuilt(const struct merge *merge, struct side *side, const struct model *other) {
    side->rebuilt = cli_alloc(side->model->module_count, sizeof *side->rebuilt);
    for (size_t i = 0; i < side->model->module_count; i++)
        side->rebuilt[i] = is_rebuilt(merge, side->model, &side->model->modules[i], other);
}

static struct buckets make_buckets(size_t most) {
    struct buckets buckets = {.count = 1024};
    while (buckets.count < most)
        buckets.count *= 2;
    buckets.first = cli_alloc(buckets.count, sizeof *buckets.first);
    memset(buckets.first, 0xff, buckets.count * sizeof *buckets.first);
    return buckets;
}

/* Returns the index of a place in merge->places; adds the place if it is not there. */
static uint32_t place_index(struct merge *merge, const struct place *wanted) {
    uint64_t hash = mix(mix_text(0, wanted->label), wanted->offset);
    uint32_t *bucket = &merge->place_buckets.first[hash & (merge->place_buckets.count - 1)];
    for (uint32_t at = *bucket; at != WIRE_NONE; at = merge->places[at].next) {
        const struct place *place = &merge->places[at];
        if (place->offset == wanted->offset && same_text(place->label, wanted->label) &&
            same_text(place->module, wanted->module) && same_build(place->build, wanted->build))
            return at;
    }
    uint32_t index = (uint32_t)merge->place_count++;
    merge->places[index] = *wanted;
    merge->places[index].next = *bucket;
    *bucket = index;
    return index;
}

/* Returns the index of a node in merge->nodes; adds the node if it is not there. */
static uint32_t node_index(struct merge *merge, uint32_t parent, uint32_t place) {
    uint64_t hash = mix(mix(0, parent), place);
    uint32_t *bucket = &merge->node_buckets.first[hash & (merge->node_buckets.count - 1)];
    for (uint32_t at = *bucket; at != WIRE_NONE; at = merge->nodes[at].next)
        if (merge->nodes[at].parent == parent && merge->nodes[at].place == place)
            return at;
    uint32_t index = (uint32_t)merge->node_count++;
    merge->nodes[index] = (struct node){parent, place, *bucket, WIRE_NONE};
    *bucket = index;
    return index;
}

/* Returns the node's row. Makes a row only if `figures` are not all 0: in a large tree nearly all
 * contexts have no figures. NULL: there is no row. */
static struct compare_row *row_of(struct merge *merge, struct node *node,
                                  const struct compare_figures *figures) {
    static const struct compare_figures none;
    if (node->row == WIRE_NONE && memcmp(figures, &none, sizeof none) == 0)
        return NULL;
    if (node->row == WIRE_NONE) {
        if (merge->row_count == merge->row_room) {
            merge->row_room = 2 * merge->row_room + 64;
            merge->rows = cli_grow(merge->rows, merge->row_room, sizeof *merge->rows);
        }
        node->row = (uint32_t)merge->row_count++;
        merge->rows[node->row] = (struct compare_row){0};
    }
    return &merge->rows[node->row];
}

/* Identifies a frame by its module and its offset in the module. In another build of a module, the
 * offset may belong to another function, so there the frame is identified by its function. */
static struct place identify(const struct merge *merge, const struct side *side,
                             const struct model_frame *frame) {
    if (frame->module == WIRE_NONE)
        return (struct place){.label = frame->label, .offset = frame->address};
    const struct model_module *module = &side->model->modules[frame->module];
    const struct model_names *names = frame->names;
    struct place place = {.module = name_module(merge, side->model, module),
                          .build = module,
                          .label = frame->label,
                          .offset = frame->address - module->bias};
    if (side->rebuilt[frame->module] && names && names->functions[0].name) {
        place.label = names->functions[0].name;
        place.offset = 0;
        place.build = NULL;
    }
    return place;
}

static void merge_model(struct merge *merge, const struct side *side) {
    const struct model *model = side->model;
    uint32_t *node_of = cli_alloc(model->context_count, sizeof *node_of);
    uint32_t *place_of = cli_alloc(model->frame_count, sizeof *place_of); /* by number of a frame */
    memset(place_of, 0xff, model->frame_count * sizeof *place_of);
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        uint32_t *place = &place_of[context->frame->number];
        if (i > 0 && *place == WIRE_NONE) {
            struct place wanted = identify(merge, side, context->frame);
            *place = place_index(merge, &wanted);
        }
        node_of[i] = i > 0 ? node_index(merge, node_of[context->parent], *place)
                           : node_index(merge, WIRE_NONE, WIRE_NONE);
        struct compare_figures figures = figures_of(&context->figures->self);
        struct compare_row *row = row_of(merge, &merge->nodes[node_of[i]], &figures);
        if (!row)
            continue;
        add_figures(side->is_after ? &row->after : &row->before, &figures);
        if (!row->model || (side->is_after && row->model != model)) {
            row->model = model;
            row->context = (uint32_t)i;
        }
    }
    free(node_of);
    free(place_of);
}

void compare_models(struct compare *compare, const struct model *before,
                    const struct model *after) {
    size_t nodes = before->context_count + after->context_count;
    size_t places = before->frame_count + after->frame_count;
    struct merge merge = {.place_buckets = make_buckets(places),
                          .node_buckets = make_buckets(nodes),
                          .same_program = strcmp(model_program(before), model_program(after)) == 0};
    struct side sides[] = {{before, false, NULL}, {after, true, NULL}};
    merge.places = cli_alloc(places, sizeof *merge.places);
    merge.nodes = cli_alloc(nodes, sizeof *merge.nodes);
    find_rebuilt(&merge, &sides[0], after);
    find_rebuilt(&merge, &sides[1], before);
    merge_model(&merge, &sides[0]);
    merge_model(&merge, &sides[1]);
    *compare = (struct compare){
        .rows = merge.rows, .count = merge.row_count, .reset = before->resets != after->resets};
    for (size_t i = after->module_count; i-- > 0;) {
        if (sides[1].rebuilt[i]) {
            compare->rebuilt = after->modules[i].path;
            compare->rebuilt_count++;
        }
    }
    finish(compare);
    if (compare->reset)
        forget_growth(compare);
    free(sides[0].rebuilt);
    free(sides[1].rebuilt);
    free(merge.places);
    free(merge.nodes);
    free(merge.place_buckets.first);
    free(merge.node_buckets.first);
}
