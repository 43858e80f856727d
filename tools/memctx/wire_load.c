/* SPDX-License-Identifier: MIT */
/*
 * wire_load.c - answers to WIRE_DUMP and WIRE_PIECE become a model.
 *
 * They come from another process and are not trusted: a record must lie inside its piece, a text must end inside its
 * record, an index must exist.
 */
#include "wire_load.h"

#include <stdlib.h>
#include <string.h>

/* The records of a piece. */
struct records {
    const char *at;
    size_t left;
    uint32_t count; /* that are still to come */
    uint64_t next;
    int64_t segments_resident;
};

static bool damaged(struct loader *loader, const char *what) {
    return cli_fail(loader->failure, CLI_REFUSED,
                    "%s: damaged answer; %s; try again, and if it stays so the library is broken",
                    loader->model->source, what);
}

/* Copies the next `bytes`, which need not be aligned; false: there are not so many. */
static bool take(struct records *records, void *to, size_t bytes) {
    if (records->left < bytes) {
        return false;
    }
    memcpy(to, records->at, bytes);
    records->at += bytes;
    records->left -= bytes;
    return true;
}

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* A text that is to have so many bytes, its end with them; NULL: it has not. */
static char *take_text(struct records *records, size_t bytes) {
    if (bytes == 0 || bytes > records->left || records->at[bytes - 1] != '\0') {
        return NULL;
    }
    char *text = cli_clean(cli_copy(records->at));
    records->at += bytes;
    records->left -= bytes;
    return text;
}

static void skip(struct records *records, size_t bytes) {
    bytes = bytes < records->left ? bytes : records->left;
    records->at += bytes;
    records->left -= bytes;
}

/* Room for one more, twice as much where it does not suffice. */
static void *make_room(void *list, size_t *room, size_t count, size_t bytes) {
    if (count < *room) {
        return list;
    }
    *room = 2 * *room + 64;
    return cli_grow(list, *room, bytes);
}

void loader_begin(struct loader *loader, struct model *model, const char *source,
                  struct cli_failure *failure) {
    *loader = (struct loader){.model = model, .failure = failure};
    *model = (struct model){.source = cli_copy(source)};
}

bool loader_take_head(struct loader *loader, const void *bytes, size_t length) {
    struct model *model = loader->model;
    struct wire_dump head;
    if (length != sizeof(head)) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged answer; %zu bytes are not the head of a dump", model->source,
                        length);
    }
    memcpy(&head, bytes, sizeof(head));
    if (memchr(head.exe, 0, sizeof(head.exe)) == NULL) {
        return damaged(loader, "the name of its program does not end");
    }
    if (model->exe == NULL) {
        model->exe = cli_clean(cli_copy(head.exe));
        model->uptime_s = (double)head.uptime_ns / 1e9;
        model->depth = head.depth;
    }
    model->exact = head.exact != 0;
    loader->contexts = head.contexts;
    model->ledger = head.ledger;
    loader->took_ns += head.took_ns;
    return true;
}

/* --- contexts and modules -------------------------------------------------------------------- */

static bool take_module(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    struct wire_module wire;
    if (!take(records, &wire, sizeof(wire))) {
        return damaged(loader, "its modules lie outside it");
    }
    if (wire.build_id_bytes > sizeof(wire.build_id)) {
        return cli_fail(loader->failure, CLI_REFUSED, "%s: damaged answer; a build-id of %u bytes",
                        model->source, wire.build_id_bytes);
    }
    char *path = take_text(records, wire.path_bytes);
    if (path == NULL || wire.index != model->module_count) {
        free(path);
        return damaged(loader, path == NULL ? "a string lies outside it" : "a module is missing");
    }
    skip(records, padded(wire.path_bytes) - wire.path_bytes);
    model->modules = make_room(model->modules, &loader->module_room, model->module_count,
                               sizeof(*model->modules));
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

static void set_sums(struct model_totals *totals, const struct wire_sums *sums) {
    totals->requested_bytes = sums->requested_bytes;
    totals->live_chunks = sums->live_chunks;
    totals->allocs = sums->allocs;
    totals->frees = sums->frees;
    totals->requested_cum_bytes = sums->requested_cum_bytes;
    totals->peak_requested_bytes = sums->peak_requested_bytes;
}

/* Some threads' sums to others'; nobody knows when they had most together. */
static void add_sums(struct model_totals *totals, const struct wire_sums *sums) {
    totals->requested_bytes = model_add(totals->requested_bytes, sums->requested_bytes);
    totals->live_chunks = model_add(totals->live_chunks, sums->live_chunks);
    totals->allocs = model_add(totals->allocs, sums->allocs);
    totals->frees = model_add(totals->frees, sums->frees);
    totals->requested_cum_bytes = model_add(totals->requested_cum_bytes, sums->requested_cum_bytes);
    totals->peak_requested_bytes = WIRE_UNKNOWN;
}

static bool take_views(struct loader *loader, struct records *record, uint32_t index,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct wire_view wire;
        if (!take(record, &wire, sizeof(wire))) {
            return damaged(loader, "its thread views lie outside it");
        }
        loader->views = make_room(loader->views, &loader->view_room, loader->view_count,
                                  sizeof(*loader->views));
        loader->views[loader->view_count++] = (struct loader_view){index, wire.heap, wire.sums};
    }
    return true;
}

static struct model_context *new_context(struct loader *loader, const struct wire_context *wire) {
    struct model *model = loader->model;
    model->contexts = make_room(model->contexts, &loader->context_room, model->context_count,
                                sizeof(*model->contexts));
    struct model_context *context = &model->contexts[model->context_count++];
    *context = (struct model_context){.id = wire->id,
                                      .parent = wire->parent,
                                      .kind = wire->kind,
                                      .exact_address = wire->exact_address != 0,
                                      .placement = wire->placement,
                                      .module = wire->module,
                                      .flags = wire->flags & MODEL_FLAGS,
                                      .recursive_from = wire->recursive_from,
                                      .address = wire->address};
    if (model->context_count ==
        1) { /* the root's peak is the whole process's, which nobody knows */
        context->self.peak_requested_bytes = WIRE_UNKNOWN;
    }
    return context;
}

/* What follows a context's record. */
static bool take_parts(struct loader *loader, struct records *record,
                       const struct wire_context *wire, struct model_context *context) {
    struct wire_sums sums;
    bool has_sums = (wire->holds & WIRE_CONTEXT_SUMS) != 0;
    bool further = (wire->holds & WIRE_CONTEXT_FURTHER) != 0;
    if (has_sums && !take(record, &sums, sizeof(sums))) {
        return damaged(loader, "its contexts lie outside it");
    }
    if (has_sums && further) {
        add_sums(&context->self, &sums);
    } else if (has_sums) {
        set_sums(&context->self, &sums);
    }
    if (!take_views(loader, record, (uint32_t)(context - loader->model->contexts), wire->views)) {
        return false;
    }
    if (further) {
        return true;
    }
    context->label = take_text(record, wire->label_bytes);
    context->why = take_text(record, wire->why_bytes);
    if ((wire->label_bytes > 0 && context->label == NULL) ||
        (wire->why_bytes > 0 && context->why == NULL)) {
        return damaged(loader, "a string lies outside it");
    }
    return true;
}

static bool take_context(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    struct wire_context wire;
    if (records->left < sizeof(wire)) {
        return damaged(loader, "its contexts lie outside it");
    }
    memcpy(&wire, records->at, sizeof(wire));
    if (wire.bytes < sizeof(wire) || wire.bytes > records->left || wire.bytes % 8 != 0) {
        return damaged(loader, "its contexts lie outside it");
    }
    struct records record = {.at = records->at + sizeof(wire), .left = wire.bytes - sizeof(wire)};
    skip(records, wire.bytes);
    if (wire.kind > WIRE_KIND_UNKNOWN) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged answer; context %u has a kind or module that does not exist",
                        model->source, wire.id);
    }
    if (loader->visit != NULL) {
        struct wire_sums sums;
        bool has_sums = (wire.holds & WIRE_CONTEXT_SUMS) != 0;
        if (has_sums && !take(&record, &sums, sizeof(sums))) {
            return damaged(loader, "its contexts lie outside it");
        }
        skip(&record, wire.views * sizeof(struct wire_view));
        char *label = take_text(&record, wire.label_bytes);
        bool good = loader->visit(loader, &wire, has_sums ? &sums : NULL, label);
        free(label);
        return good;
    }
    struct model_context *context;
    if ((wire.holds & WIRE_CONTEXT_FURTHER) == 0) {
        if (model->context_count >= WIRE_NONE - 1) {
            return damaged(loader, "too many elements");
        }
        context = new_context(loader, &wire);
    } else if (model->context_count > 0 &&
               model->contexts[model->context_count - 1].id == wire.id) {
        context = &model->contexts[model->context_count - 1];
    } else {
        return damaged(loader, "more threads of a context that is not there");
    }
    return take_parts(loader, &record, &wire, context);
}

bool loader_link(struct loader *loader) {
    struct model *model = loader->model;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        if (context->module != WIRE_NONE && context->module >= model->module_count) {
            return cli_fail(loader->failure, CLI_REFUSED,
                            "%s: damaged answer; context %u has a kind or module that does not "
                            "exist",
                            model->source, context->id);
        }
    }
    return model_link(model, loader->failure);
}

/* --- threads --------------------------------------------------------------------------------- */

#define HEAPS_MAX (1U << 20)

/* All that have exited are the first. */
static void add_exited(struct loader *loader) {
    struct model *model = loader->model;
    if (model->thread_count == 0) {
        model->threads =
            make_room(model->threads, &loader->thread_room, 0, sizeof(*model->threads));
        model->threads[model->thread_count++] = (struct model_thread){.name = MODEL_EXITED};
    }
}

static bool take_thread(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    struct wire_thread wire;
    if (!take(records, &wire, sizeof(wire)) || wire.heap >= HEAPS_MAX) {
        return damaged(loader, "its threads lie outside it");
    }
    add_exited(loader);
    if (wire.heap >= loader->heap_count) {
        size_t count = 2 * (size_t)wire.heap + 8;
        loader->thread_of = cli_grow(loader->thread_of, count, sizeof(*loader->thread_of));
        memset(loader->thread_of + loader->heap_count, 0,
               (count - loader->heap_count) * sizeof(*loader->thread_of));
        loader->heap_count = count;
    }
    model->threads = make_room(model->threads, &loader->thread_room, model->thread_count,
                               sizeof(*model->threads));
    struct model_thread *thread = &model->threads[model->thread_count];
    *thread = (struct model_thread){.tid = wire.tid};
    memcpy(thread->name, wire.name, sizeof(wire.name));
    cli_clean(thread->name);
    loader->thread_of[wire.heap] = (uint32_t)model->thread_count++;
    return true;
}

static uint32_t thread_of(const struct loader *loader, uint32_t heap) {
    return heap < loader->heap_count ? loader->thread_of[heap] : 0;
}

static bool take_remote(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    struct wire_remote wire;
    if (!take(records, &wire, sizeof(wire))) {
        return damaged(loader, "its frees by others lie outside it");
    }
    add_exited(loader);
    model->remotes = make_room(model->remotes, &loader->remote_room, model->remote_count,
                               sizeof(*model->remotes));
    model->remotes[model->remote_count++] = (struct model_remote){
        thread_of(loader, wire.freed_by), thread_of(loader, wire.owner), wire.frees};
    return true;
}

/* They come in the order of the contexts; several heaps may be one thread's: those of all that have exited. */
static void place_views(struct loader *loader) {
    struct model *model = loader->model;
    model->views = cli_alloc(loader->view_count, sizeof(*model->views));
    for (size_t i = 0; i < loader->view_count; i++) {
        const struct loader_view *from = &loader->views[i];
        struct model_context *context = &model->contexts[from->context];
        uint32_t thread = thread_of(loader, from->heap);
        if (context->view_count == 0) {
            context->first_view = (uint32_t)model->view_count;
        }
        struct model_view *same = NULL;
        for (uint32_t k = 0; thread == 0 && k < context->view_count && same == NULL; k++) {
            struct model_view *view = &model->views[context->first_view + k];
            same = view->thread == 0 ? view : NULL;
        }
        if (same != NULL) {
            add_sums(&same->totals, &from->sums);
            continue;
        }
        struct model_view *view = &model->views[model->view_count++];
        *view = (struct model_view){.context = from->context, .thread = thread};
        struct model_totals *totals = &view->totals;
        set_sums(totals, &from->sums);
        totals->block_bytes = totals->reserved_bytes = totals->resident_bytes = WIRE_UNKNOWN;
        totals->pinned_bytes = totals->sole_pinned_bytes = totals->pages = WIRE_UNKNOWN;
        context->view_count++;
    }
    free(loader->views);
    loader->views = NULL;
}

/* --- marks, notes ---------------------------------------------------------------------------- */

static bool take_mark(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    struct wire_mark wire;
    if (!take(records, &wire, sizeof(wire))) {
        return damaged(loader, "its marks lie outside it");
    }
    if (model->mark_count >= WIRE_MARKS_MAX) {
        return damaged(loader, "too many elements");
    }
    wire.name[sizeof(wire.name) - 1] = '\0';
    model->marks = cli_grow(model->marks, WIRE_MARKS_MAX, sizeof(*model->marks));
    struct model_mark *mark = &model->marks[model->mark_count++];
    *mark =
        (struct model_mark){.uptime_ns = wire.uptime_ns, .uptime_s = (double)wire.uptime_ns / 1e9};
    memcpy(mark->name, wire.name, sizeof(wire.name));
    cli_clean(mark->name);
    return true;
}

static bool take_entry(struct loader *loader, struct records *records) {
    struct model_mark *mark = loader->mark;
    struct wire_mark_entry wire;
    if (!take(records, &wire, sizeof(wire))) {
        return damaged(loader, "its mark entries lie outside it");
    }
    mark->entries =
        make_room(mark->entries, &loader->entry_room, mark->entry_count, sizeof(*mark->entries));
    /* A context that is newer than the contexts that were read is left out there, so here too. */
    wire.context = model_find_context(loader->model, wire.context);
    if (wire.context != WIRE_NONE) {
        mark->entries[mark->entry_count++] = wire;
    }
    return true;
}

static bool take_note(struct loader *loader, struct records *records) {
    struct model *model = loader->model;
    const char *end = memchr(records->at, 0, records->left);
    if (end == NULL) {
        return damaged(loader, "a string lies outside it");
    }
    size_t bytes = (size_t)(end - records->at) + 1;
    model->notes = cli_grow(model->notes, model->note_count + 1, sizeof(*model->notes));
    model->notes[model->note_count++] = take_text(records, bytes);
    skip(records, padded(bytes) - bytes);
    return true;
}

/* --- pages ----------------------------------------------------------------------------------- */

/* Contexts that are newer than those that were read are told as [unknown], which is always there; where only some are kept, none
 * is known. */
static uint32_t page_context(const struct loader *loader, uint32_t id) {
    uint32_t index = model_find_context(loader->model, id);
    return index != WIRE_NONE || loader->partial ? index : loader->model->context_count > 1;
}

static struct model_context *context_at(const struct loader *loader, uint32_t index) {
    return index != WIRE_NONE ? &loader->model->contexts[index] : &loader->model->left_out;
}

/* Where the page is to stand: behind the others, or, where it is only more of the last one, there. */
static bool keep_page(struct loader *loader, const struct wire_page *page) {
    struct model *model = loader->model;
    if (page->further) {
        const struct wire_page *last =
            model->page_count > 0 ? &model->pages[model->page_count - 1] : NULL;
        return last != NULL && last->start == page->start && last->context == WIRE_NONE;
    }
    model->pages = make_room(model->pages, &loader->page_room, model->page_count, sizeof(*page));
    struct wire_page *kept = &model->pages[model->page_count++];
    *kept = *page;
    model->shares = /* also where none follows */
        make_room(model->shares, &loader->share_room, model->share_count, sizeof(*model->shares));
    kept->first_share = (uint32_t)model->share_count;
    kept->share_count = 0;
    return true;
}

static void keep_share(struct loader *loader, const struct model_share *share) {
    struct model *model = loader->model;
    model->shares =
        make_room(model->shares, &loader->share_room, model->share_count, sizeof(*share));
    model->shares[model->share_count++] = *share;
    model->pages[model->page_count - 1].share_count++;
}

static bool take_page(struct loader *loader, struct records *records) {
    struct wire_page page;
    if (!take(records, &page, sizeof(page))) {
        return damaged(loader, "its pages lie outside it");
    }
    bool shared = page.context == WIRE_NONE;
    if (page.share_count > records->left / sizeof(struct wire_share) ||
        (page.share_count > 0 && !shared)) {
        return damaged(loader, "a page has shares that do not exist");
    }
    model_tame_page(&page);
    page.context = shared ? WIRE_NONE : page_context(loader, page.context);
    if (page.further && !shared) {
        return damaged(loader, "a page has shares that do not exist");
    }
    if (loader->keep_pages && !keep_page(loader, &page)) {
        return damaged(loader, "more of a page that is not there");
    }
    figures_add_page(&loader->figures, shared ? NULL : context_at(loader, page.context), &page);
    for (uint32_t i = 0; i < page.share_count; i++) {
        struct wire_share wire = {0};
        take(records, &wire, sizeof(wire));
        struct model_share share = {page_context(loader, wire.context), wire.live};
        figures_add_share(&loader->figures, context_at(loader, share.context), &page, wire.live,
                          wire.resident);
        if (loader->keep_pages) {
            keep_share(loader, &share);
        }
    }
    return true;
}

/* --- all of it ------------------------------------------------------------------------------- */

bool loader_take_piece(struct loader *loader, enum wire_part part, const void *bytes, size_t length,
                       uint64_t *next) {
    static bool (*const takers[WIRE_PARTS])(struct loader *, struct records *) = {
        [WIRE_PART_CONTEXTS] = take_context, [WIRE_PART_MODULES] = take_module,
        [WIRE_PART_THREADS] = take_thread,   [WIRE_PART_REMOTES] = take_remote,
        [WIRE_PART_MARKS] = take_mark,       [WIRE_PART_ENTRIES] = take_entry,
        [WIRE_PART_NOTES] = take_note,       [WIRE_PART_PAGES] = take_page,
    };
    struct records records = {.at = bytes, .left = length};
    struct wire_piece head;
    if (!take(&records, &head, sizeof(head))) {
        return cli_fail(loader->failure, CLI_REFUSED,
                        "%s: damaged answer; %zu bytes are too few for a piece of a dump",
                        loader->model->source, length);
    }
    loader->took_ns += head.took_ns;
    for (uint32_t i = 0; i < head.count; i++) {
        if (!takers[part](loader, &records)) {
            return false;
        }
    }
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
    figures_finish(&loader->figures, model, flags);
    model_add_up(model);
    free(loader->thread_of);
    loader->thread_of = NULL;
}
