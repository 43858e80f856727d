/* SPDX-License-Identifier: MIT */
/* watch_views.c - reads the figures of each thread in chosen contexts. */
#include "live/watch_internal.h"

#include <stdlib.h>
#include <string.h>

/* Returns true if the context with this id was asked for. In place of a removed context the process
 * sends the context with the next id. */
static bool is_wanted(const struct watch *watch, const uint32_t *contexts, size_t count,
                      uint32_t id) {
    for (size_t i = 0; contexts && i < count; i++)
        if (watch->model.contexts[contexts[i]].id == id)
            return true;
    return !contexts;
}

static bool ask_chosen(struct watch *watch, struct loader *loader, const uint32_t *contexts,
                       size_t count) {
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t id = watch->model.contexts[contexts[i]].id;
        struct wire_piece_request request = {
            .part = WIRE_PART_CONTEXTS, .flags = WIRE_DUMP_THREADS, .from = WIRE_FROM_ID(id)};
        /* A context with more threads than fit into one record has several records. */
        uint64_t before;
        do {
            before = request.from;
            request.most = 1;
            good = watch_ask_piece(watch, loader, &request);
        } while (good && request.from > before && request.from >> 16 == id);
    }
    return good;
}

static void take_views(const struct watch *watch, const struct loader *loader,
                       const uint32_t *contexts, size_t count, struct watch_views *views) {
    const struct model *model = loader->model;
    views->list = cli_alloc(loader->view_count + 1, sizeof *views->list);
    views->threads = cli_alloc(model->thread_count + 1, sizeof *views->threads);
    views->thread_count = model->thread_count;
    if (model->thread_count > 0)
        memcpy(views->threads, model->threads, model->thread_count * sizeof *views->threads);
    for (size_t i = 0; i < loader->view_count; i++) {
        const struct loader_view *view = &loader->views[i];
        uint32_t id = model->contexts[view->context].id;
        uint32_t number = view->heap < loader->heap_count ? loader->thread_of[view->heap] : 0;
        if (is_wanted(watch, contexts, count, id))
            views->list[views->count++] = (struct watch_view){
                .tid = number > 0 ? model->threads[number].tid : 0, .id = id, .sums = view->sums};
    }
}

bool watch_ask_views(struct watch *watch, const uint32_t *contexts, size_t count,
                     struct watch_views *views) {
    struct loader loader;
    struct model model;
    struct wire_dump head;
    struct wire_piece_request ask_all = {.part = WIRE_PART_CONTEXTS, .flags = WIRE_DUMP_THREADS};
    struct wire_piece_request ask_heaps = {.part = WIRE_PART_THREADS};
    *views = (struct watch_views){0};
    if (!watch_is_open(watch))
        return false;
    loader_begin(&loader, &model, watch->client.source, &watch->failure);
    bool good = watch_ask_head(watch, WIRE_DUMP_BEGIN, &head) &&
                (contexts ? ask_chosen(watch, &loader, contexts, count)
                          : watch_ask_pieces(watch, &loader, &ask_all)) &&
                watch_ask_pieces(watch, &loader, &ask_heaps) &&
                watch_ask_head(watch, WIRE_DUMP_END, &head);
    if (good)
        take_views(watch, &loader, contexts, count, views);
    free(loader.views);
    free(loader.thread_of);
    watch_free_model(&model);
    return good;
}

void watch_free_views(struct watch_views *views) {
    free(views->list);
    free(views->threads);
}
