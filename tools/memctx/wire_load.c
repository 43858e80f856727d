/* SPDX-License-Identifier: MIT */
/*
 * wire_load.c - turns an answer to WIRE_DUMP into a model.
 *
 * The answer comes from another process and is not trusted: a section must lie inside it, a string
 * must end inside the strings, an index must exist.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct answer {
    const char *bytes;
    size_t length;
    struct wire_dump head;
    const char *strings;
    const char *source;
    struct cli_failure *failure;
};

static bool section_fits(struct answer *answer, const struct wire_section *section,
                         size_t element_bytes, const char *what) {
    if (section->offset > answer->length ||
        section->count > (answer->length - section->offset) / element_bytes) {
        return cli_fail(answer->failure, CLI_REFUSED,
                        "%s: damaged answer; its %s lie outside it; try again, and if it stays so "
                        "the library is broken",
                        answer->source, what);
    }
    return true;
}

static bool open_answer(struct answer *answer) {
    if (answer->length < sizeof(answer->head)) {
        return cli_fail(answer->failure, CLI_REFUSED,
                        "%s: damaged answer; %zu bytes are too few for a dump", answer->source,
                        answer->length);
    }
    memcpy(&answer->head, answer->bytes, sizeof(answer->head));
    const struct wire_dump *head = &answer->head;
    if (!section_fits(answer, &head->contexts, sizeof(struct wire_context), "contexts") ||
        !section_fits(answer, &head->modules, sizeof(struct wire_module), "modules") ||
        !section_fits(answer, &head->threads, sizeof(struct wire_thread), "threads") ||
        !section_fits(answer, &head->views, sizeof(struct wire_view), "thread views") ||
        !section_fits(answer, &head->remotes, sizeof(struct wire_remote), "frees by others") ||
        !section_fits(answer, &head->notes, 1, "notes") ||
        !section_fits(answer, &head->marks, sizeof(struct wire_mark), "marks") ||
        !section_fits(answer, &head->mark_entries, sizeof(struct wire_mark_entry),
                      "mark entries") ||
        !section_fits(answer, &head->strings, 1, "strings")) {
        return false;
    }
    answer->strings = answer->bytes + head->strings.offset;
    if (head->strings.count == 0 || answer->strings[head->strings.count - 1] != '\0') {
        return cli_fail(answer->failure, CLI_REFUSED, "%s: damaged answer; its strings do not end",
                        answer->source);
    }
    if (head->contexts.count >= WIRE_NONE || head->marks.count > WIRE_MARKS_MAX) {
        return cli_fail(answer->failure, CLI_REFUSED, "%s: damaged answer; too many elements",
                        answer->source);
    }
    return true;
}

/* Element `index` of a section; the arrays need not be aligned. */
static void read_element(const struct answer *answer, const struct wire_section *section,
                         size_t index, void *element, size_t bytes) {
    memcpy(element, answer->bytes + section->offset + index * bytes, bytes);
}

static bool read_string(struct answer *answer, uint32_t offset, char **text) {
    if (offset >= answer->head.strings.count) {
        return cli_fail(answer->failure, CLI_REFUSED,
                        "%s: damaged answer; a string lies outside it", answer->source);
    }
    *text = cli_clean(cli_copy(answer->strings + offset));
    return true;
}

static bool load_modules(struct model *model, struct answer *answer) {
    model->module_count = answer->head.modules.count;
    model->modules = cli_alloc(model->module_count, sizeof(*model->modules));
    for (size_t i = 0; i < model->module_count; i++) {
        struct model_module *module = &model->modules[i];
        struct wire_module wire;
        read_element(answer, &answer->head.modules, i, &wire, sizeof(wire));
        module->start = wire.start;
        module->end = wire.end;
        module->bias = wire.bias;
        module->closed = wire.closed != 0;
        if (wire.build_id_bytes > sizeof(wire.build_id)) {
            return cli_fail(answer->failure, CLI_REFUSED,
                            "%s: damaged answer; a build-id of %u bytes", answer->source,
                            wire.build_id_bytes);
        }
        module->build_id_bytes = wire.build_id_bytes;
        memcpy(module->build_id, wire.build_id, wire.build_id_bytes);
        if (!read_string(answer, wire.path, &module->path)) {
            return false;
        }
    }
    return true;
}

static bool load_contexts(struct model *model, struct answer *answer) {
    model->context_count = answer->head.contexts.count;
    model->contexts = cli_alloc(model->context_count, sizeof(*model->contexts));
    for (size_t i = 0; i < model->context_count; i++) {
        struct model_context *context = &model->contexts[i];
        struct wire_context wire;
        read_element(answer, &answer->head.contexts, i, &wire, sizeof(wire));
        context->id = wire.id;
        context->parent = wire.parent;
        context->kind = wire.kind;
        context->exact_address = wire.exact_address != 0;
        context->policy = wire.policy;
        context->module = wire.module;
        context->address = wire.address;
        memcpy(context->occupancy, wire.occupancy, sizeof(context->occupancy));
        context->placement = wire.placement;
        context->self = wire.self;
        if (wire.kind > WIRE_KIND_UNKNOWN ||
            (wire.module != WIRE_NONE && wire.module >= model->module_count)) {
            return cli_fail(answer->failure, CLI_REFUSED,
                            "%s: damaged answer; context %u has a kind or module that does not "
                            "exist",
                            answer->source, wire.id);
        }
        if ((wire.label != WIRE_NONE && !read_string(answer, wire.label, &context->label)) ||
            (wire.why != WIRE_NONE && !read_string(answer, wire.why, &context->why))) {
            return false;
        }
    }
    return true;
}

/* The views come in the order of threads or of contexts; here they stand by context. */
static bool load_views(struct model *model, struct answer *answer) {
    const struct wire_dump *head = &answer->head;
    model->has_threads = (head->flags & WIRE_DUMP_THREADS) != 0;
    model->thread_count = head->threads.count;
    model->threads = cli_alloc(model->thread_count, sizeof(*model->threads));
    for (size_t i = 0; i < model->thread_count; i++) {
        struct wire_thread wire;
        read_element(answer, &head->threads, i, &wire, sizeof(wire));
        model->threads[i].tid = wire.tid;
        memcpy(model->threads[i].name, wire.name, sizeof(wire.name));
        cli_clean(model->threads[i].name);
    }
    size_t count = head->views.count;
    struct model_view *loaded = cli_alloc(count, sizeof(*loaded));
    for (size_t i = 0; i < count; i++) {
        struct wire_view wire;
        read_element(answer, &head->views, i, &wire, sizeof(wire));
        uint32_t index = model_find_context(model, wire.context);
        if (index == WIRE_NONE || wire.thread >= model->thread_count) {
            return cli_fail(answer->failure, CLI_REFUSED,
                            "%s: damaged answer; a thread view of a context or thread that does "
                            "not exist",
                            answer->source);
        }
        loaded[i] = (struct model_view){index, wire.thread, wire.totals};
        model->contexts[index].view_count++;
    }
    uint32_t next = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        model->contexts[i].first_view = next;
        next += model->contexts[i].view_count;
        model->contexts[i].view_count = 0;
    }
    model->views = cli_alloc(count, sizeof(*model->views));
    model->view_count = count;
    for (size_t i = 0; i < count; i++) {
        struct model_context *context = &model->contexts[loaded[i].context];
        model->views[context->first_view + context->view_count++] = loaded[i];
    }
    free(loaded);
    return true;
}

static bool load_remotes(struct model *model, struct answer *answer) {
    model->remote_count = answer->head.remotes.count;
    model->remotes = cli_alloc(model->remote_count, sizeof(*model->remotes));
    for (size_t i = 0; i < model->remote_count; i++) {
        struct wire_remote wire;
        read_element(answer, &answer->head.remotes, i, &wire, sizeof(wire));
        if (wire.freed_by >= model->thread_count || wire.owner >= model->thread_count) {
            return cli_fail(answer->failure, CLI_REFUSED,
                            "%s: damaged answer; frees by a thread that does not exist",
                            answer->source);
        }
        model->remotes[i] = (struct model_remote){wire.freed_by, wire.owner, wire.frees};
    }
    return true;
}

/* Each ends with a 0 byte. */
static void load_notes(struct model *model, struct answer *answer) {
    const char *bytes = answer->bytes + answer->head.notes.offset;
    size_t length = answer->head.notes.count, at = 0;
    while (at < length && memchr(bytes + at, 0, length - at) != NULL) {
        model->notes = cli_grow(model->notes, model->note_count + 1, sizeof(*model->notes));
        model->notes[model->note_count] = cli_clean(cli_copy(bytes + at));
        at += strlen(bytes + at) + 1;
        model->note_count++;
    }
}

static void load_marks(struct model *model, struct answer *answer) {
    model->mark_count = answer->head.marks.count;
    model->marks = cli_alloc(model->mark_count, sizeof(*model->marks));
    for (size_t i = 0; i < model->mark_count; i++) {
        struct wire_mark wire;
        read_element(answer, &answer->head.marks, i, &wire, sizeof(wire));
        wire.name[sizeof(wire.name) - 1] = '\0';
        memcpy(model->marks[i].name, wire.name, sizeof(wire.name));
        cli_clean(model->marks[i].name);
        model->marks[i].uptime_s = (double)wire.uptime_ns / 1e9;
    }
}

bool model_load_wire(struct model *model, const void *bytes, size_t length, const char *source,
                     struct cli_failure *failure) {
    struct answer answer = {.bytes = bytes, .length = length, .source = source, .failure = failure};
    model->source = cli_copy(source);
    if (!open_answer(&answer)) {
        return false;
    }
    const struct wire_dump *head = &answer.head;
    model->uptime_s = (double)head->uptime_ns / 1e9;
    model->build_ns = (int64_t)head->build_ns;
    model->depth = head->depth;
    model->exact = head->exact != 0;
    model->ledger = head->ledger;
    if (!read_string(&answer, head->exe, &model->exe) || !load_modules(model, &answer) ||
        !load_contexts(model, &answer) || !model_link(model, failure) ||
        !load_views(model, &answer) || !load_remotes(model, &answer)) {
        return false;
    }
    load_marks(model, &answer);
    load_notes(model, &answer);
    return true;
}

/* Contexts that are newer than the dump are told as [unknown], which is always there. */
static uint32_t page_context(const struct model *model, uint32_t id) {
    uint32_t index = model_find_context(model, id);
    return index != WIRE_NONE ? index : model->context_count > 1;
}

bool model_load_pages(struct model *model, const void *bytes, size_t length, uint64_t *next,
                      struct cli_failure *failure) {
    struct wire_pages head;
    size_t room = length - sizeof(head);
    if (length >= sizeof(head)) {
        memcpy(&head, bytes, sizeof(head));
    }
    if (length < sizeof(head) || head.count > room / sizeof(struct wire_page) ||
        room !=
            head.count * sizeof(struct wire_page) + head.share_count * sizeof(struct wire_share)) {
        return cli_fail(failure, CLI_REFUSED, "%s: damaged answer; its pages lie outside it",
                        model->source);
    }
    const char *at = (const char *)bytes + sizeof(head);
    size_t pages = model->page_count + head.count, shares = model->share_count + head.share_count;
    model->pages = cli_grow(model->pages, pages + 1, sizeof(*model->pages));
    model->shares = cli_grow(model->shares, shares + 1, sizeof(*model->shares));
    memcpy(model->pages + model->page_count, at, head.count * sizeof(*model->pages));
    at += head.count * sizeof(*model->pages);
    memcpy(model->shares + model->share_count, at, head.share_count * sizeof(*model->shares));
    uint32_t next_share = 0;
    for (size_t i = model->page_count; i < pages; i++) {
        struct wire_page *page = &model->pages[i];
        /* One page's shares behind the other's. */
        if ((page->share_count > 0 && page->first_share != next_share) ||
            page->share_count > head.share_count - next_share) {
            return cli_fail(failure, CLI_REFUSED,
                            "%s: damaged answer; a page has shares that do not exist",
                            model->source);
        }
        page->first_share = (uint32_t)model->share_count + next_share;
        next_share += page->share_count;
        model_tame_page(page);
        if (page->context != WIRE_NONE) {
            page->context = page_context(model, page->context);
        }
    }
    for (size_t i = model->share_count; i < shares; i++) {
        model->shares[i].context = page_context(model, model->shares[i].context);
    }
    model->page_count = pages;
    model->share_count = shares;
    model->has_pages = true;
    *next = head.next;
    return true;
}

bool model_load_mark(struct model *model, const char *name, const void *bytes, size_t length,
                     struct cli_failure *failure) {
    struct answer answer = {
        .bytes = bytes, .length = length, .source = model->source, .failure = failure};
    if (!open_answer(&answer)) {
        return false;
    }
    struct model_mark *mark = model_find_mark(model, name);
    if (mark == NULL || answer.head.mark_found == 0) {
        return cli_fail(failure, CLI_REFUSED, "%s has no mark \"%s\"; set one with memctx mark",
                        model->source, name);
    }
    size_t count = answer.head.mark_entries.count;
    mark->has_entries = true;
    mark->entries = cli_alloc(count, sizeof(*mark->entries));
    mark->entry_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct wire_mark_entry *entry = &mark->entries[mark->entry_count];
        read_element(&answer, &answer.head.mark_entries, i, entry, sizeof(*entry));
        /* A context that is newer than the first answer is left out there, so here too. */
        entry->context = model_find_context(model, entry->context);
        mark->entry_count += entry->context != WIRE_NONE;
    }
    return true;
}
