/* SPDX-License-Identifier: MIT */
/* top.c - loads the contexts that have most. */
#include "top.h"

#include <stdlib.h>
#include <string.h>

#include "folding.h"

#define LIMIT_MAX 200
#define CONTEXTS_MAX (1U << 28)

struct best {
    uint32_t id;
    int64_t key;
    struct model_totals self;
};

/* All contexts, by id. */
struct survey {
    enum view_sort sort;
    bool any; /* one was there */
    uint32_t last, capacity;
    uint32_t *parents;
    uint8_t *kinds; /* enum folding_kind */
    struct folding_shares shares;
    struct model_id *recursive; /* index: what is in recursive_from; by rising ids */
    size_t recursive_count, recursive_room;
    size_t count, leaves; /* contexts; those with figures */
    struct model_totals sum;
    int64_t root_peak;
    struct best *best; /* by falling figures, then rising ids */
    size_t best_count, limit;
};

static struct model_totals totals_of(const struct wire_sums *sums) {
    return (struct model_totals){.requested_bytes = sums->requested_bytes,
                                 .live_chunks = sums->live_chunks,
                                 .allocs = sums->allocs,
                                 .frees = sums->frees,
                                 .requested_cum_bytes = sums->requested_cum_bytes,
                                 .peak_requested_bytes = sums->peak_requested_bytes};
}

/* Puts it among the best, if it is one of them. */
static void consider(struct survey *survey, uint32_t id, const struct model_totals *self) {
    int64_t key = view_key(self, survey->sort);
    size_t place = survey->best_count;
    while (place > 0 && survey->best[place - 1].key < key) {
        place--;
    }
    if (place == survey->limit) {
        return;
    }
    if (survey->best_count < survey->limit) {
        survey->best_count++;
    }
    memmove(&survey->best[place + 1], &survey->best[place],
            (survey->best_count - place - 1) * sizeof(*survey->best));
    survey->best[place] = (struct best){id, key, *self};
}

/* Where the functions of its loop are to be found. */
static void keep_loop(struct survey *survey, const struct wire_context *context) {
    if (survey->recursive_count == survey->recursive_room) {
        survey->recursive_room = 2 * survey->recursive_room + 64;
        survey->recursive =
            cli_grow(survey->recursive, survey->recursive_room, sizeof(*survey->recursive));
    }
    survey->recursive[survey->recursive_count++] =
        (struct model_id){context->id, context->recursive_from};
}

static bool visit(struct loader *loader, const struct wire_context *context,
                  const struct wire_sums *sums, const char *label) {
    struct survey *survey = loader->visit_argument;
    if (survey->any ? context->id <= survey->last : context->id != 0) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged dump; context %u is there twice, or too late",
                        loader->model->source, context->id);
    }
    survey->any = true;
    survey->last = context->id;
    /* Those that were made since the head was asked for are newer than the dump. */
    if (context->id >= survey->capacity) {
        return true;
    }
    if (context->id > 0 && context->parent >= context->id) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged dump; context %u has no parent before it",
                        loader->model->source, context->id);
    }
    survey->parents[context->id] = context->parent;
    uint32_t parent = context->parent;
    uint8_t above = parent < context->id ? survey->kinds[parent] : FOLDING_FULL;
    survey->kinds[context->id] = (uint8_t)folding_kind_of(above, context->kind, label);
    survey->count++;
    if ((context->flags & WIRE_CONTEXT_RECURSIVE) && context->recursive_from < survey->capacity) {
        keep_loop(survey, context);
    }
    if (sums == NULL) {
        return true;
    }
    struct model_totals self = totals_of(sums);
    if (context->id == 0) {
        survey->root_peak = self.peak_requested_bytes;
    }
    model_add_totals(&survey->sum, &self);
    folding_add(&survey->shares, survey->kinds[context->id], self.requested_bytes, self.allocs);
    if (model_totals_any(&self)) {
        survey->leaves++;
        consider(survey, context->id, &self);
    }
    return true;
}

static int by_id(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

struct ids {
    uint32_t *list;
    size_t count, room;
};

static void list_id(struct ids *ids, uint32_t id) {
    if (ids->count == ids->room) {
        ids->room = 2 * ids->room + 256;
        ids->list = cli_grow(ids->list, ids->room, sizeof(*ids->list));
    }
    ids->list[ids->count++] = id;
}

static int by_model_id(const void *a, const void *b) {
    return by_id(&((const struct model_id *)a)->id, &((const struct model_id *)b)->id);
}

/* Lists the loop of a context, if it is recursive and its loop begins below the same caller. */
static void list_loop(const struct survey *survey, struct ids *ids, uint32_t id) {
    struct model_id key = {.id = id};
    const struct model_id *found =
        survey->recursive_count == 0
            ? NULL
            : bsearch(&key, survey->recursive, survey->recursive_count, sizeof(key), by_model_id);
    size_t before = ids->count;
    uint32_t at = found != NULL ? found->index : 0;
    for (int level = 0; at != 0 && at < survey->capacity && level < MODEL_LEVELS_MAX; level++) {
        list_id(ids, at);
        if (survey->parents[at] == survey->parents[id]) {
            return;
        }
        at = survey->parents[at];
    }
    ids->count = before;
}

/* The ids of the best, of all above them and of their loops, by rising ids; *count of them. */
static uint32_t *list_needed(const struct survey *survey, size_t *count) {
    struct ids needed = {0};
    size_t kept = 0;
    list_id(&needed, 0);
    for (size_t i = 0; i < survey->best_count; i++) {
        uint32_t at = survey->best[i].id;
        for (int level = 0; at != 0 && at < survey->capacity && level < MODEL_LEVELS_MAX; level++) {
            list_id(&needed, at);
            list_loop(survey, &needed, at);
            at = survey->parents[at];
        }
    }
    uint32_t *ids = needed.list;
    size_t listed = needed.count;
    qsort(ids, listed, sizeof(*ids), by_id);
    for (size_t i = 0; i < listed; i++) {
        if (i == 0 || ids[i] != ids[i - 1]) {
            ids[kept++] = ids[i];
        }
    }
    *count = kept;
    return ids;
}

static int64_t minus(int64_t a, int64_t b) {
    return b == WIRE_UNKNOWN ? WIRE_UNKNOWN : model_add(a, -b);
}

/* Their figures are those of the survey; who only stands on the way has none of his own here. */
static void set_figures(struct model *model, const struct survey *survey) {
    struct model_totals *rest = &model_own_figures(model, &model->left_out)->self;
    *rest = survey->sum;
    for (size_t i = 0; i < model->context_count; i++) {
        model->contexts[i].figures = model_figures_at(model, 0);
    }
    for (size_t i = 0; i < survey->best_count; i++) {
        const struct model_totals *self = &survey->best[i].self;
        uint32_t index = model_find_context(model, survey->best[i].id);
        if (index == WIRE_NONE) {
            continue;
        }
        model_own_figures(model, &model->contexts[index])->self = *self;
        rest->requested_bytes = minus(rest->requested_bytes, self->requested_bytes);
        rest->live_chunks = minus(rest->live_chunks, self->live_chunks);
        rest->allocs = minus(rest->allocs, self->allocs);
        rest->frees = minus(rest->frees, self->frees);
        rest->requested_cum_bytes = minus(rest->requested_cum_bytes, self->requested_cum_bytes);
    }
    model_own_figures(model, &model->contexts[0])->self.peak_requested_bytes = survey->root_peak;
    model->left_out_shares = survey->shares;
    model->left_out_count =
        survey->count > model->context_count ? survey->count - model->context_count : 0;
    model->left_out_leaves = survey->leaves - survey->best_count;
}

bool top_load(struct target *target, struct model *model, const struct target_load_options *options,
              enum view_sort sort, int64_t limit) {
    struct survey survey = {.sort = sort, .root_peak = WIRE_UNKNOWN, .limit = (size_t)limit};
    struct loader *loader = &target->loader;
    if (limit <= 0 || limit > LIMIT_MAX || sort == VIEW_SORT_RESERVED || sort == VIEW_SORT_WASTE ||
        sort == VIEW_SORT_PINNED) {
        return false;
    }
    loader_begin(loader, model, target->client.source, &target->failure);
    target_ask_head(target, WIRE_DUMP_BEGIN);
    survey.capacity = loader->contexts < CONTEXTS_MAX ? loader->contexts : CONTEXTS_MAX;
    survey.parents = cli_alloc(survey.capacity, sizeof(*survey.parents));
    survey.kinds = cli_alloc(survey.capacity, sizeof(*survey.kinds));
    survey.best = cli_alloc(survey.limit + 1, sizeof(*survey.best));
    loader->visit = visit;
    loader->visit_argument = &survey;
    target_ask_part(target, WIRE_PART_CONTEXTS, 0);
    loader->visit = NULL;
    size_t count;
    uint32_t *ids = list_needed(&survey, &count);
    for (size_t i = 0; i < count; i++) {
        struct wire_piece_request request = {
            .part = WIRE_PART_CONTEXTS, .from = WIRE_FROM_ID(ids[i]), .most = 1};
        target_ask_piece(target, &request);
    }
    free(ids);
    free(survey.parents);
    free(survey.kinds);
    free(survey.recursive);
    target_ask_part(target, WIRE_PART_MODULES, 0);
    target_load_begun(target, model, options);
    set_figures(model, &survey);
    free(survey.best);
    loader->partial = true;
    target_load_rest(target, model, options);
    return true;
}
