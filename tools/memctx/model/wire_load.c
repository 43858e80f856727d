/* SPDX-License-Identifier: MIT */
/*
 * wire_load.c - reads answers to WIRE_DUMP and WIRE_PIECE into a model.
 *
 * The answers come from another process and are not trusted: a record must lie inside its piece, a
 * text must end inside its record, and an index must exist.
 */
#include "model/wire_records.h"

#include <stdlib.h>
#include <string.h>

bool loader_damaged(struct loader *loader, const char *what) {
    return cli_fail(loader->failure, CLI_REFUSED, "%s: damaged answer; %s" CLI_ASK_AGAIN,
                    loader->model->source, what);
}

bool loader_take_bytes(struct loader_records *records, void *to, size_t bytes) {
    if (records->left < bytes)
        return false;
    memcpy(to, records->at, bytes);
    records->at += bytes;
    records->left -= bytes;
    return true;
}

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* Returns a copy of a text of `bytes` bytes, its final 0 included; NULL if the last byte is not 0.
 */
static char *take_text(struct loader_records *records, size_t bytes) {
    if (bytes == 0 || bytes > records->left || records->at[bytes - 1] != '\0')
        return NULL;
    char *text = cli_clean(cli_copy(records->at));
    records->at += bytes;
    records->left -= bytes;
    return text;
}

static void skip(struct loader_records *records, size_t bytes) {
    bytes = bytes < records->left ? bytes : records->left;
    records->at += bytes;
    records->left -= bytes;
}

void *loader_make_room(void *list, size_t *room, size_t count, size_t bytes) {
    if (count < *room)
        return list;
    *room = 2 * *room + 64;
    return cli_grow(list, *room, bytes);
}

void loader_begin(struct loader *loader, struct model *model, const char *source,
                  struct cli_failure *failure) {
    *loader = (struct loader){.model = model, .failure = failure};
    loader->survey.root_peak_bytes = WIRE_UNKNOWN;
    model_begin(model, source);
}

/* Removes the end that the kernel adds to the path of a file that was removed or replaced. */
static char *drop_deleted(char *path) {
    static const char end[] = " (deleted)";
    size_t length = strlen(path), end_length = strlen(end);
    if (length > end_length && strcmp(path + length - end_length, end) == 0)
        path[length - end_length] = '\0';
    return path;
}

bool loader_take_head(struct loader *loader, const void *bytes, size_t length) {
    struct model *model = loader->model;
    struct wire_dump head;
    if (length != sizeof head) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged answer; %zu bytes are not the head of a dump" CLI_ASK_AGAIN,
                        model->source, length);
    }
    memcpy(&head, bytes, sizeof head);
    if (!memchr(head.exe, 0, sizeof head.exe))
        return loader_damaged(loader, "the name of the program is cut off");
    if (!model->exe) {
        model->exe = drop_deleted(cli_clean(cli_copy(head.exe)));
        model->uptime_s = (double)head.uptime_ns / 1e9;
        model->slept_s = (double)head.slept_ns / 1e9;
        model->resets = head.resets;
        model->depth = head.depth;
    }
    model->exact = head.exact != 0;
    loader->contexts = head.contexts;
    model->ledger = head.ledger;
    loader->took_ns += head.took_ns;
    return true;
}

/* --- contexts and modules -------------------------------------------------------------------- */

static bool take_module(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_module wire;
    if (!loader_take_bytes(records, &wire, sizeof wire))
        return loader_damaged(loader, "a module record is cut off");
    if (wire.build_id_bytes > sizeof wire.build_id) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged answer; a build-id of %u bytes" CLI_ASK_AGAIN, model->source,
                        wire.build_id_bytes);
    }
    char *path = take_text(records, wire.path_bytes);
    if (!path || wire.index != model->module_count) {
        free(path);
        return loader_damaged(loader, !path ? "a string is cut off" : "a module is missing");
    }
    skip(records, padded(wire.path_bytes) - wire.path_bytes);
    model->modules = loader_make_room(model->modules, &loader->module_room, model->module_count,
                                      sizeof *model->modules);
    struct model_module *module = &model->modules[model->module_count++];
    *module = (struct model_module){.start = wire.start,
                                    .end = wire.end,
                                    .bias = wire.bias,
                                    .path = path,
                                    .build_id_bytes = wire.build_id_bytes,
                                    .closed = wire.closed != 0};
    memcpy(module->build_id, wire.build_id, wire.build_id_bytes);
    return true;
}

void loader_set_sums(struct model_totals *totals, const struct wire_sums *sums) {
    totals->requested_bytes = sums->requested_bytes;
    totals->live_chunks = sums->live_chunks;
    totals->allocs = sums->allocs;
    totals->frees = sums->frees;
    totals->requested_cum_bytes = sums->requested_cum_bytes;
    totals->peak_requested_bytes = sums->peak_requested_bytes;
}

/* Adds the sums of more threads to those of a context. The peak of the sum is not known, because
 * threads peak at different moments. */
static void add_sums(struct model_totals *totals, const struct wire_sums *sums) {
    totals->requested_bytes = model_add(totals->requested_bytes, sums->requested_bytes);
    totals->live_chunks = model_add(totals->live_chunks, sums->live_chunks);
    totals->allocs = model_add(totals->allocs, sums->allocs);
    totals->frees = model_add(totals->frees, sums->frees);
    totals->requested_cum_bytes = model_add(totals->requested_cum_bytes, sums->requested_cum_bytes);
    totals->peak_requested_bytes = WIRE_UNKNOWN;
}

static void add_view(struct loader *loader, uint32_t index, uint32_t heap,
                     const struct wire_sums *sums) {
    loader->views = loader_make_room(loader->views, &loader->view_room, loader->view_count,
                                     sizeof *loader->views);
    loader->views[loader->view_count++] = (struct loader_view){index, heap, *sums};
}

static bool take_views(struct loader *loader, struct loader_records *record, uint32_t index,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct wire_view wire;
        if (!loader_take_bytes(record, &wire, sizeof wire))
            return loader_damaged(loader, "a thread view is cut off");
        add_view(loader, index, wire.heap, &wire.sums);
    }
    return true;
}

/* Takes the view of a context that has only this one. Returns false if its sums are not all sums of
 * the context, so that it needs an element of loader->views. */
static bool take_lone_view(struct loader *loader, const struct loader_records *record,
                           struct model_context *context, const struct wire_sums *sums) {
    struct loader_records again = *record;
    struct wire_view wire;
    if (!loader->lone_views || again.left != sizeof wire ||
        !loader_take_bytes(&again, &wire, sizeof wire) ||
        memcmp(&wire.sums, sums, sizeof *sums) != 0)
        return false;
    struct model_figures *own = model_own_figures(loader->model, context);
    own->first_view = wire.heap; /* place_views puts the index of the thread here */
    own->view_count = own->lone_view = 1;
    return true;
}

/* Gives the lone view of a context an element of loader->views, because the context has more. */
static void unfold_view(struct loader *loader, struct model_context *context) {
    struct model_figures *own = model_own_figures(loader->model, context);
    const struct model_totals *self = &own->self;
    if (!own->lone_view)
        return;
    struct wire_sums sums = {.requested_bytes = self->requested_bytes,
                             .live_chunks = self->live_chunks,
                             .allocs = self->allocs,
                             .frees = self->frees,
                             .requested_cum_bytes = self->requested_cum_bytes,
                             .peak_requested_bytes = self->peak_requested_bytes};
    add_view(loader, own->context, own->first_view, &sums);
    own->view_count = own->lone_view = 0;
}

/* Adds a context without figures. Copies `label`; takes `why` over. */
static struct model_context *new_context(struct loader *loader, const struct wire_context *wire,
                                         char *label, char *why) {
    struct model *model = loader->model;
    model->contexts = loader_make_room(model->contexts, &loader->context_room, model->context_count,
                                       sizeof *model->contexts);
    struct model_frame frame = {.address = wire->address,
                                .module = wire->module,
                                .kind = wire->kind,
                                .exact_address = wire->exact_address != 0,
                                .label = label};
    struct model_context *context = &model->contexts[model->context_count++];
    *context = (struct model_context){.frame = model_find_frame(model, &frame),
                                      .figures = model_figures_at(model, 0),
                                      .why = why,
                                      .id = wire->id,
                                      .parent = wire->parent,
                                      .placement = wire->placement,
                                      .flags = wire->flags & MODEL_FLAGS,
                                      .recursive_from = wire->recursive_from};
    /* The root's peak is the peak of the whole process, and is unknown unless the root's record has
     * sums. */
    if (model->context_count == 1)
        model_own_figures(model, context)->self.peak_requested_bytes = WIRE_UNKNOWN;
    return context;
}

/* The parts of a context's record behind its head. The texts point into the answer. */
struct context_parts {
    struct wire_sums sums;
    bool has_sums;
    struct loader_records views; /* the thread views, as bytes */
    char *label, *why;           /* NULL: none */
};

/* Returns a text of `bytes` bytes without copying it; NULL if the last byte is not 0. */
static char *find_text(struct loader_records *records, size_t bytes) {
    char *text = (char *)(uintptr_t)records->at;
    if (bytes == 0 || bytes > records->left || text[bytes - 1] != '\0')
        return NULL;
    skip(records, bytes);
    return cli_clean(text);
}

static bool find_parts(struct loader *loader, struct loader_records *record,
                       const struct wire_context *wire, struct context_parts *parts) {
    size_t views_bytes = wire->views * sizeof(struct wire_view);
    *parts = (struct context_parts){.has_sums = (wire->holds & WIRE_CONTEXT_SUMS) != 0};
    if (parts->has_sums && !loader_take_bytes(record, &parts->sums, sizeof parts->sums))
        return loader_damaged(loader, "a context record is cut off");
    if (record->left < views_bytes)
        return loader_damaged(loader, "a thread view is cut off");
    parts->views = (struct loader_records){.at = record->at, .left = views_bytes};
    skip(record, views_bytes);
    if ((wire->holds & WIRE_CONTEXT_FURTHER) != 0)
        return true;
    parts->label = find_text(record, wire->label_bytes);
    parts->why = find_text(record, wire->why_bytes);
    if ((wire->label_bytes > 0 && !parts->label) || (wire->why_bytes > 0 && !parts->why))
        return loader_damaged(loader, "a string is cut off");
    return true;
}

/* Returns the context of a record: a new context, or the last one if the record goes on with the
 * threads of that context. */
static struct model_context *context_of(struct loader *loader, const struct wire_context *wire,
                                        const struct context_parts *parts) {
    struct model *model = loader->model;
    struct model_context *last =
        model->context_count > 0 ? &model->contexts[model->context_count - 1] : NULL;
    if ((wire->holds & WIRE_CONTEXT_FURTHER) != 0) {
        if (!last || last->id != wire->id) {
            loader_damaged(loader, "thread figures of a context that is not there");
            return NULL;
        }
        return last;
    }
    if (model->context_count >= WIRE_NONE - 1) {
        loader_damaged(loader, "too many contexts");
        return NULL;
    }
    return new_context(loader, wire, parts->label, parts->why ? cli_copy(parts->why) : NULL);
}

static bool take_context(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_context wire;
    struct context_parts parts;
    if (records->left < sizeof wire)
        return loader_damaged(loader, "a context record is cut off");
    memcpy(&wire, records->at, sizeof wire);
    if (wire.bytes < sizeof wire || wire.bytes > records->left || wire.bytes % 8 != 0)
        return loader_damaged(loader, "a context record is cut off");
    struct loader_records record = {.at = records->at + sizeof wire,
                                    .left = wire.bytes - sizeof wire};
    skip(records, wire.bytes);
    if (wire.kind > WIRE_KIND_UNKNOWN) {
        return cli_fail(
            loader->failure, CLI_REFUSED,
            "%s: damaged answer; context %u has a kind or module that does not exist" CLI_ASK_AGAIN,
            model->source, wire.id);
    }
    if (!find_parts(loader, &record, &wire, &parts))
        return false;
    enum loader_visit visit =
        loader->visit
            ? loader->visit(loader, &wire, parts.has_sums ? &parts.sums : NULL, parts.label)
            : LOADER_KEEP;
    if (visit != LOADER_KEEP)
        return visit == LOADER_DROP;
    struct model_context *context = context_of(loader, &wire, &parts);
    if (!context)
        return false;
    bool further = (wire.holds & WIRE_CONTEXT_FURTHER) != 0;
    if (further)
        unfold_view(loader, context);
    if (parts.has_sums && loader->take_sums)
        loader->take_sums(loader, (uint32_t)(context - model->contexts), &parts.sums);
    else if (parts.has_sums && further)
        add_sums(&model_own_figures(model, context)->self, &parts.sums);
    else if (parts.has_sums)
        loader_set_sums(&model_own_figures(model, context)->self, &parts.sums);
    if (parts.has_sums && !further && take_lone_view(loader, &parts.views, context, &parts.sums))
        return true;
    return take_views(loader, &parts.views, (uint32_t)(context - model->contexts), wire.views);
}

bool loader_check_frames(struct loader *loader) {
    const struct model *model = loader->model;
    for (const struct model_frame *frame = model->frames; frame; frame = frame->next)
        if (frame->module != WIRE_NONE && frame->module >= model->module_count)
            return loader_damaged(loader, "a context has a kind or module that does not exist");
    return true;
}

bool loader_link(struct loader *loader) {
    return loader_check_frames(loader) && model_link(loader->model, loader->failure);
}

/* --- threads --------------------------------------------------------------------------------- */

#define HEAPS_MAX (1U << 20)

/* Makes the thread with index 0, which stands for all threads that have exited and for those that
 * use the shared heap. */
static void add_exited(struct loader *loader) {
    struct model *model = loader->model;
    if (model->thread_count == 0) {
        model->threads =
            loader_make_room(model->threads, &loader->thread_room, 0, sizeof *model->threads);
        model->threads[model->thread_count++] = (struct model_thread){.name = MODEL_EXITED};
    }
}

static bool take_thread(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_thread wire;
    if (!loader_take_bytes(records, &wire, sizeof wire) || wire.heap >= HEAPS_MAX)
        return loader_damaged(loader, "a thread record is cut off");
    add_exited(loader);
    if (wire.heap >= loader->heap_count) {
        size_t count = 2 * (size_t)wire.heap + 8;
        loader->thread_of = cli_grow(loader->thread_of, count, sizeof *loader->thread_of);
        memset(loader->thread_of + loader->heap_count, 0,
               (count - loader->heap_count) * sizeof *loader->thread_of);
        loader->heap_count = count;
    }
    model->threads = loader_make_room(model->threads, &loader->thread_room, model->thread_count,
                                      sizeof *model->threads);
    struct model_thread *thread = &model->threads[model->thread_count];
    *thread = (struct model_thread){.tid = wire.tid};
    memcpy(thread->name, wire.name, sizeof wire.name);
    cli_clean_bytes(thread->name);
    loader->thread_of[wire.heap] = (uint32_t)model->thread_count++;
    return true;
}

static uint32_t thread_of(const struct loader *loader, uint32_t heap) {
    return heap < loader->heap_count ? loader->thread_of[heap] : 0;
}

static bool take_remote(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_remote wire;
    if (!loader_take_bytes(records, &wire, sizeof wire))
        return loader_damaged(loader, "a record of remote frees is cut off");
    add_exited(loader);
    model->remotes = loader_make_room(model->remotes, &loader->remote_room, model->remote_count,
                                      sizeof *model->remotes);
    model->remotes[model->remote_count++] = (struct model_remote){
        thread_of(loader, wire.freed_by), thread_of(loader, wire.owner), wire.frees};
    return true;
}

/* Makes the views of the model, in the order of the contexts, in which they arrived. The heaps of
 * exited threads and the shared heap belong to thread 0, so their views of one context are added
 * up. */
static void place_views(struct loader *loader) {
    struct model *model = loader->model;
    model->views = cli_alloc(loader->view_count, sizeof *model->views);
    for (size_t i = 0; i < loader->view_count; i++) {
        const struct loader_view *from = &loader->views[i];
        struct model_figures *own = model_own_figures(model, &model->contexts[from->context]);
        uint32_t thread = thread_of(loader, from->heap);
        if (own->view_count == 0)
            own->first_view = (uint32_t)model->view_count;
        struct model_view *same = NULL;
        for (uint32_t k = 0; thread == 0 && k < own->view_count && !same; k++) {
            struct model_view *view = &model->views[own->first_view + k];
            same = view->thread == 0 ? view : NULL;
        }
        if (same) {
            add_sums(&same->totals, &from->sums);
            continue;
        }
        struct model_view *view = &model->views[model->view_count++];
        *view = (struct model_view){.context = from->context, .thread = thread};
        struct model_totals *totals = &view->totals;
        loader_set_sums(totals, &from->sums);
        totals->block_bytes = totals->reserved_bytes = totals->resident_bytes = WIRE_UNKNOWN;
        totals->pinned_bytes = totals->sole_pinned_bytes = totals->pages = WIRE_UNKNOWN;
        own->view_count++;
    }
    free(loader->views);
    loader->views = NULL;
    for (size_t i = 1; i < model->figures_count; i++) {
        struct model_figures *figures = model_figures_at(model, i);
        if (figures->lone_view)
            figures->first_view = thread_of(loader, figures->first_view);
    }
}

/* --- marks, notes ---------------------------------------------------------------------------- */

static bool take_mark(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_mark wire;
    if (!loader_take_bytes(records, &wire, sizeof wire))
        return loader_damaged(loader, "a mark record is cut off");
    if (model->mark_count >= WIRE_MARKS_ALL)
        return loader_damaged(loader, "too many marks");
    wire.name[sizeof wire.name - 1] = '\0';
    model->marks = cli_grow(model->marks, WIRE_MARKS_ALL, sizeof *model->marks);
    struct model_mark *mark = &model->marks[model->mark_count++];
    *mark = (struct model_mark){.uptime_ns = wire.uptime_ns,
                                .uptime_s = (double)wire.uptime_ns / 1e9,
                                .slept_s = (double)wire.slept_ns / 1e9,
                                .rss_bytes =
                                    wire.rss_bytes > 0 ? model_tame(wire.rss_bytes) : WIRE_UNKNOWN,
                                .elsewhere = wire.elsewhere,
                                .left_out = wire.left_out};
    model_tame_elsewhere(&mark->elsewhere);
    memcpy(mark->name, wire.name, sizeof wire.name);
    cli_clean(mark->name);
    return true;
}

static bool take_entry(struct loader *loader, struct loader_records *records) {
    struct model_mark *mark = loader->mark;
    struct wire_mark_entry wire;
    if (!loader_take_bytes(records, &wire, sizeof wire))
        return loader_damaged(loader, "a mark entry is cut off");
    mark->entries = loader_make_room(mark->entries, &loader->entry_room, mark->entry_count,
                                     sizeof *mark->entries);
    /* A context that is newer than the contexts that were read is not in the model, so its entry is
     * left out. */
    wire.context = model_find_context(loader->model, wire.context);
    if (wire.context != WIRE_NONE) {
        model_own_figures(loader->model, &loader->model->contexts[wire.context]);
        mark->entries[mark->entry_count++] = wire;
    }
    return true;
}

static bool take_resizes(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    struct wire_resizes wire;
    if (!loader_take_bytes(records, &wire, sizeof wire))
        return loader_damaged(loader, "a record of reallocs is cut off");
    if (wire.context == WIRE_NONE) {
        model->lost_reallocs = model_tame(wire.reallocs);
        return true;
    }
    /* A context that is newer than the contexts that were read is not in the model, so its counts
     * are left out. */
    wire.context = model_find_context(model, wire.context);
    if (wire.context == WIRE_NONE)
        return true;
    model_own_figures(model, &model->contexts[wire.context]);
    model->resizes = loader_make_room(model->resizes, &loader->resize_room, model->resize_count,
                                      sizeof *model->resizes);
    model->resizes[model->resize_count++] = wire;
    return true;
}

static bool take_note(struct loader *loader, struct loader_records *records) {
    struct model *model = loader->model;
    const char *end = memchr(records->at, 0, records->left);
    if (!end)
        return loader_damaged(loader, "a string is cut off");
    size_t bytes = (size_t)(end - records->at) + 1;
    model->notes = cli_grow(model->notes, model->note_count + 1, sizeof *model->notes);
    model->notes[model->note_count++] = take_text(records, bytes);
    skip(records, padded(bytes) - bytes);
    return true;
}

/* --- surveys --------------------------------------------------------------------------------- */

static bool take_survey(struct loader *loader, struct loader_records *records) {
    struct wire_survey *sum = &loader->survey, survey;
    if (!loader_take_bytes(records, &survey, sizeof survey))
        return loader_damaged(loader, "the sums are cut off");
    sum->uptime_ns = survey.uptime_ns;
    sum->contexts += survey.contexts;
    sum->with_figures += survey.with_figures;
#define ADD(name) sum->name = model_add(sum->name, survey.name);
    ADD(requested_bytes)
    ADD(live_chunks)
    ADD(allocs)
    ADD(frees)
    ADD(requested_cum_bytes)
    ADD(labelled_bytes)
    ADD(labelled_allocs)
    ADD(merged_bytes)
    ADD(merged_allocs)
#undef ADD
    if (survey.root_peak_bytes != WIRE_UNKNOWN)
        sum->root_peak_bytes = survey.root_peak_bytes;
    return true;
}

/* --- pieces ---------------------------------------------------------------------------------- */

bool loader_take_piece(struct loader *loader, enum wire_part part, const void *bytes, size_t length,
                       uint64_t *next) {
    static bool (*const takers[WIRE_PARTS])(struct loader *, struct loader_records *) = {
        [WIRE_PART_CONTEXTS] = take_context, [WIRE_PART_MODULES] = take_module,
        [WIRE_PART_THREADS] = take_thread,   [WIRE_PART_REMOTES] = take_remote,
        [WIRE_PART_MARKS] = take_mark,       [WIRE_PART_ENTRIES] = take_entry,
        [WIRE_PART_NOTES] = take_note,       [WIRE_PART_PAGES] = loader_take_page,
        [WIRE_PART_BEST] = take_context,     [WIRE_PART_PATH] = take_context,
        [WIRE_PART_RESIZES] = take_resizes,
    };
    struct loader_records records = {.at = bytes, .left = length};
    struct wire_piece head;
    if (!loader_take_bytes(&records, &head, sizeof head)) {
        return cli_fail(
            loader->failure, CLI_REFUSED,
            "%s: damaged answer; %zu bytes are too few for a piece of a dump" CLI_ASK_AGAIN,
            loader->model->source, length);
    }
    loader->took_ns += head.took_ns;
    if (part == WIRE_PART_BEST && !take_survey(loader, &records))
        return false;
    for (uint32_t i = 0; i < head.count; i++)
        if (!takers[part](loader, &records))
            return false;
    if (part == WIRE_PART_PAGES) {
        struct wire_ledger *ledger = &loader->figures.ledger;
        ledger->segments_resident =
            model_add(ledger->segments_resident, model_tame(head.segments_resident));
        loader->model->has_pages = loader->keep_pages;
    }
    *next = head.next;
    return true;
}

void loader_finish(struct loader *loader, uint32_t flags) {
    struct model *model = loader->model;
    if (flags & MODEL_THREADS) {
        model->has_threads = true;
        add_exited(loader);
        place_views(loader);
    }
    model->build_ns = (int64_t)loader->took_ns;
    model_sort_resizes(model);
    figures_finish(&loader->figures, model, flags);
    model_add_up(model);
    free(loader->thread_of);
    loader->thread_of = NULL;
}
