/* SPDX-License-Identifier: MIT */
/* watch_figures.c - reads the figures of one look: totals, contexts, pages. */
#include "live/watch_internal.h"

#include <stdlib.h>

void watch_set_totals(struct watch *watch, const struct wire_dump *head,
                      const struct wire_survey *survey) {
    struct watch_totals *totals = &watch->totals, before = *totals;
    double seconds = watch->read_s - before.uptime_s;
    bool first = watch->history.count == 0;
    totals->live_bytes = survey ? survey->requested_bytes : head->requested_bytes;
    totals->live_chunks = survey ? survey->live_chunks : head->live_chunks;
    totals->allocs = survey ? survey->allocs : head->allocs;
    totals->rss_bytes = head->ledger.rss_bytes;
    totals->contexts = head->contexts;
    totals->uptime_s = watch->read_s;
    if (!first) {
        int64_t allocs = totals->allocs < before.allocs ? 0 : before.allocs;
        totals->growth = rates_per_second(totals->live_bytes, before.live_bytes, seconds);
        totals->alloc_rate = rates_per_second(totals->allocs, allocs, seconds);
    }
    rates_push(&watch->history, totals->live_bytes);
}

static enum loader_visit visit_figures(struct loader *loader, const struct wire_context *context,
                                       const struct wire_sums *sums, char *label) {
    struct watch *watch = loader->visit_argument;
    struct model *model = &watch->model;
    (void)label;
    if (!sums)
        return LOADER_DROP;
    uint32_t index = model_find_context(model, context->id);
    if (index == WIRE_NONE || index >= watch->rates.count) {
        watch->behind = true;
        watch->stale |= context->id <= model->contexts[model->context_count - 1].id;
        return LOADER_DROP;
    }
    struct model_context *known = &model->contexts[index];
    uint32_t parent = known->parent != WIRE_NONE ? model->contexts[known->parent].id : WIRE_NONE;
    if (parent != context->parent || known->frame->address != context->address) {
        watch->stale = true;
        return LOADER_DROP;
    }
    rates_set(&watch->rates, index, (double)loader->survey.uptime_ns / 1e9, sums->requested_bytes,
              sums->live_chunks, sums->allocs);
    return LOADER_DROP;
}

/* Returns the index of the first context with this id or a higher one. */
static size_t index_from(const struct model *model, uint64_t id) {
    size_t low = 0, high = model->context_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->contexts[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool watch_ask_figures(struct watch *watch) {
    struct loader *loader = &watch->loader;
    struct wire_piece_request request = {
        .part = WIRE_PART_BEST, .least = INT64_MIN, .from = watch->from, .ids_below = UINT32_MAX};
    bool good = true;
    uint64_t most_ns = loader->took_ns + (uint64_t)(WATCH_TARGET_SHARE * 1e9 * watch->interval_s);
    loader->visit = visit_figures;
    loader->visit_argument = watch;
    loader->survey = (struct wire_survey){.root_peak_bytes = WIRE_UNKNOWN};
    if (watch->client.outside) { /* the answers have no survey */
        request.part = WIRE_PART_CONTEXTS;
        loader->survey.uptime_ns = (uint64_t)(watch->read_s * 1e9);
    }
    do {
        uint64_t before = request.from;
        good = watch_ask_piece(watch, loader, &request);
        watch->read_s = (double)loader->survey.uptime_ns / 1e9;
        if (request.from <= before)
            request.from = 0;
        uint64_t end = request.from > 0 ? request.from >> 16 : UINT64_MAX;
        if (good)
            rates_end_range(&watch->rates, index_from(&watch->model, before >> 16),
                            index_from(&watch->model, end), watch->read_s);
    } while (good && request.from > 0 && loader->survey.with_figures < WATCH_RECORDS &&
             loader->took_ns < most_ns);
    loader->visit = NULL;
    watch->from = good ? request.from : 0;
    return good;
}

bool watch_ask_pages(struct watch *watch) {
    struct model *model = &watch->model;
    struct wire_piece_request request = {.part = WIRE_PART_PAGES, .flags = WIRE_DUMP_LIGHT};
    watch->loader.figures = (struct figures){0};
    int64_t *held = cli_alloc(model->context_count, sizeof *held);
    watch->loader.held = held;
    bool good = watch_ask_pieces(watch, &watch->loader, &request);
    watch->loader.held = NULL;
    for (size_t i = 0; i < model->context_count && good; i++) {
        int64_t waste = rates_less(held[i], rates_own(&watch->rates, i)->live_bytes);
        /* The live bytes were read before the pages, so they may exceed the bytes in pages. */
        rates_set_waste(&watch->rates, i, waste < 0 && waste != WIRE_UNKNOWN ? 0 : waste);
    }
    free(held);
    return good;
}
