/* SPDX-License-Identifier: MIT */
/* watch_tree.c - keeps the tree of a watched process's contexts, and their names, up to date. */
#include "live/watch_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "model/tails.h"
#include "names/symbols.h"

void watch_free_model(struct model *model) {
    while (model->frames) {
        struct model_frame *next = model->frames->next;
        free(model->frames->label);
        free(model->frames);
        model->frames = next;
    }
    for (size_t i = 0; i < model->module_count; i++) {
        free(model->modules[i].path);
        free(model->modules[i].symbols);
    }
    for (size_t i = 0; i < model->context_count; i++)
        free(model->contexts[i].why);
    free(model->modules);
    free(model->threads);
    free(model->source);
    free(model->exe);
    free(model->program);
    model_drop(model);
}

/* Keeps the sums of a new context for watch_take_new. The first look takes them at once, as if the
 * context had never been read: that look may not read all contexts, and a rate over the short time
 * to its reading would mean nothing. */
static void take_sums(struct loader *loader, uint32_t context, const struct wire_sums *sums) {
    struct watch *watch = loader->visit_argument;
    struct watch_new *new = &watch->new;
    if (watch->rates.look == 0) {
        rates_reserve(&watch->rates, (size_t)context + 1);
        rates_set(&watch->rates, context, -1, sums->requested_bytes, sums->live_chunks,
                  sums->allocs);
        return;
    }
    if (new->count == new->room) {
        new->room = 2 * new->room + 64;
        new->list = cli_grow(new->list, new->room, sizeof *new->list);
    }
    new->list[new->count++] =
        (struct watch_new_sums){context, sums->requested_bytes, sums->live_chunks, sums->allocs};
}

static void drop_new(struct watch *watch) {
    free(watch->new.list);
    watch->new = (struct watch_new){0};
}

void watch_take_new(struct watch *watch) {
    struct model *model = &watch->model;
    rates_reserve(&watch->rates, model->context_count);
    for (size_t i = 0; i < watch->new.count; i++) {
        const struct watch_new_sums *sums = &watch->new.list[i];
        rates_set(&watch->rates, sums->context, watch->read_s, sums->live_bytes, sums->live_chunks,
                  sums->allocs);
    }
    drop_new(watch);
    if (model->context_count > watch->asked_room) {
        watch->asked_room = model->context_count + model->context_count / 4;
        watch->asked = cli_grow(watch->asked, watch->asked_room, sizeof *watch->asked);
    }
    for (; watch->asked_count < model->context_count; watch->asked_count++)
        watch->asked[watch->asked_count] = false;
    watch->version++;
}

/* Reads the contexts from an id on, with their figures and the process's uptime. */
static bool ask_contexts(struct watch *watch, uint64_t from_id) {
    struct wire_dump head;
    struct wire_piece_request contexts = {.part = WIRE_PART_CONTEXTS,
                                          .from = WIRE_FROM_ID(from_id)};
    struct wire_piece_request modules = {.part = WIRE_PART_MODULES,
                                         .from = watch->model.module_count};
    drop_new(watch);
    watch->loader.visit = NULL;
    watch->loader.visit_argument = watch;
    watch->loader.take_sums = take_sums;
    return watch_ask_pieces(watch, &watch->loader, &contexts) &&
           watch_ask_head(watch, WIRE_DUMP_BEGIN, &head) &&
           watch_ask_pieces(watch, &watch->loader, &modules) && loader_check_frames(&watch->loader);
}

bool watch_load_all(struct watch *watch) {
    struct model *model = &watch->model;
    loader_begin(&watch->loader, model, watch->client.source, &watch->failure);
    watch->loader.partial = true;
    model->exe = cli_copy("?");
    model->pid = watch->facts.pid;
    model->start_ticks = watch->facts.start_ticks;
    model->program = cli_copy(watch->program);
    watch->from = 0;
    watch->stale = watch->behind = false;
    watch->asked_count = 0;
    if (!ask_contexts(watch, 0) || !model_link(model, &watch->failure)) {
        watch_free_model(model);
        return false;
    }
    watch->loaded = true;
    return true;
}

static bool is_same(const struct model *a, uint32_t index, const struct model *b, uint32_t other) {
    const struct model_context *one = &a->contexts[index], *two = &b->contexts[other];
    uint32_t parent = one->parent != WIRE_NONE ? a->contexts[one->parent].id : WIRE_NONE;
    uint32_t other_parent = two->parent != WIRE_NONE ? b->contexts[two->parent].id : WIRE_NONE;
    return parent == other_parent && one->frame->address == two->frame->address &&
           one->frame->module == two->frame->module;
}

struct tails_copy {
    struct model *to;
    const struct model_frame **frames; /* frames[number of a frame in the old model] */
};

static void copy_tails(const struct model_tails *tails, void *data) {
    struct tails_copy *copy = data;
    struct model_tails again = *tails;
    again.outer = model_find_frame(copy->to, copy->frames[tails->outer])->number;
    if (tails->inner != WIRE_NONE)
        again.inner = model_find_frame(copy->to, copy->frames[tails->inner])->number;
    tails_add(copy->to, &again);
}

/* Gives the frames of a newly loaded model the names of the equal frames of the old model. */
static void keep_names(struct model *model, struct model *old) {
    const struct model_frame **frames = cli_alloc(old->frame_count, sizeof *frames);
    for (struct model_frame *frame = old->frames; frame; frame = frame->next)
        frames[frame->number] = frame;
    struct tails_copy copy = {model, frames};
    tails_visit(old, copy_tails, &copy);
    free(frames);
    for (struct model_frame *frame = model->frames; frame; frame = frame->next)
        frame->names = model_find_frame(old, frame)->names;
}

static int compare_pointers(const void *a, const void *b) {
    uintptr_t left = (uintptr_t) * (void *const *)a, right = (uintptr_t) * (void *const *)b;
    return left < right ? -1 : left > right;
}

/* Returns the pointers to the names of all frames, in rising order. Two frames may share one
 * pointer.
 */
static struct model_names **list_names(const struct model *model, size_t *count) {
    struct model_names **list = cli_alloc(model->frame_count + 1, sizeof *list);
    *count = 0;
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        if (frame->names)
            list[(*count)++] = (struct model_names *)frame->names;
    qsort(list, *count, sizeof *list, compare_pointers);
    return list;
}

/* Frees the names of frames of the old model that no frame of the new model has. */
static void free_lost_names(const struct model *old, const struct model *model) {
    size_t count, kept_count;
    struct model_names **list = list_names(old, &count), **kept = list_names(model, &kept_count);
    for (size_t i = 0, k = 0; i < count; i++) {
        while (k < kept_count && (uintptr_t)kept[k] < (uintptr_t)list[i])
            k++;
        if ((k < kept_count && kept[k] == list[i]) || (i + 1 < count && list[i + 1] == list[i]))
            continue;
        for (uint32_t at = 0; at < list[i]->count; at++) {
            free(list[i]->functions[at].name);
            free(list[i]->functions[at].file);
        }
        free(list[i]->functions);
        free(list[i]);
    }
    free(list);
    free(kept);
}

static const struct model no_model;

void watch_drop_model(struct watch *watch) {
    if (!watch->loaded)
        return;
    free_lost_names(&watch->model, &no_model);
    watch_free_model(&watch->model);
    watch->loaded = false;
}

bool watch_reload(struct watch *watch) {
    struct model old = watch->model;
    struct rates before = watch->rates, *rates = &watch->rates;
    bool *asked = watch->asked;
    watch->loaded = false;
    watch->asked = NULL;
    watch->asked_room = 0;
    watch->rates =
        (struct rates){.look = before.look, .has_base = before.has_base, .since_s = before.since_s};
    bool good = watch_load_all(watch);
    if (good) {
        watch_take_new(watch);
        free(watch->model.exe);
        watch->model.exe = cli_copy(old.exe);
        keep_names(&watch->model, &old);
        free_lost_names(&old, &watch->model);
        for (uint32_t i = 0; i < watch->model.context_count; i++) {
            uint32_t was = model_find_context(&old, watch->model.contexts[i].id);
            if (was == WIRE_NONE || was >= before.count || !is_same(&watch->model, i, &old, was)) {
                /* The path is new in the model but may have existed at the last look, so its rates
                 * are not known. */
                rates_forget_growth(rates, i);
                continue;
            }
            rates_go_on(rates, i, &before, was, watch->read_s);
            watch->asked[i] = asked[was];
        }
    } else {
        rates_clear(rates); /* without the old figures there are no differences to show */
        free_lost_names(&old, &no_model);
    }
    watch_free_model(&old);
    rates_clear(&before);
    free(asked);
    return good;
}

bool watch_append(struct watch *watch) {
    struct model *model = &watch->model;
    size_t before = model->context_count;
    watch->behind = false;
    if (!ask_contexts(watch, (uint64_t)model->contexts[before - 1].id + 1) ||
        !model_link_more(model, before, &watch->failure)) {
        /* drop the new contexts: some may lack their frames or parents */
        model->context_count = before;
        watch->stale = true;
        return false;
    }
    watch_take_new(watch);
    return true;
}

/* --- names ----------------------------------------------------------------------------------- */

void watch_look_up_names(struct watch *watch) {
    struct model *model = &watch->model;
    bool *only = cli_alloc(model->context_count, sizeof *only);
    size_t wanted = 0, nameless = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_frame *frame = model->contexts[i].frame;
        only[i] = !watch->asked[i];
        wanted += only[i];
        nameless += only[i] && frame->kind == WIRE_KIND_PATH && !frame->names;
    }
    if (wanted > 0 &&
        watch_is_due(&watch->names_due, nameless > 0 ? DUE_SHARE_NAMELESS : DUE_SHARE)) {
        sigset_t set, old;
        struct symbols_options options = {.live_pid = watch->facts.thread,
                                          .inner_pid = watch->facts.inner_pid,
                                          .debug_directory = watch->debug_directory,
                                          .progress = true,
                                          .only = only};
        sigemptyset(&set);
        sigaddset(&set, SIGWINCH);
        sigprocmask(SIG_BLOCK, &set, &old);
        symbols_finish(symbols_begin(model, &options), model);
        sigprocmask(SIG_SETMASK, &old, NULL);
        memset(watch->asked, true, model->context_count * sizeof *watch->asked);
        watch->version++;
        watch_was_done(&watch->names_due);
    }
    free(only);
}
