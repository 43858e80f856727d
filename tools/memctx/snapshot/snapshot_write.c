/* SPDX-License-Identifier: MIT */
/*
 * snapshot_write.c - writes a model as a snapshot file (snapshot_format.h).
 *
 * The writer goes through the model twice. The first pass numbers the texts, names and frames,
 * which the file stores only once (share.h). The second pass writes the tables. So the writer needs
 * memory for these numbers and for one block.
 */
#include "snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "model/tails.h"
#include "snapshot/pack.h"
#include "snapshot/share.h"

struct snapshot_writer {
    const struct model *model;
    struct model_write_options options;
    struct pack *pack;
    struct share share;
    uint32_t *frames; /* number of each context's frame, as share_frame gives it */
    /* model_frames[number of a frame in the model]: the frame's number in the file plus 1; 0: the
     * frame has none */
    uint32_t *model_frames;
};

/* --- numbers ----------------------------------------------------------------------------- */

static uint32_t number_frame(struct snapshot_writer *writer, const struct model_frame *frame) {
    struct share *share = &writer->share;
    uint32_t list = share_names(share, writer->options.names ? frame->names : NULL);
    uint32_t module = frame->module == WIRE_NONE ? 0 : frame->module + 1;
    return share_frame(share, frame->address, module, list);
}

static void number_context(struct snapshot_writer *writer, size_t i) {
    const struct model_context *context = &writer->model->contexts[i];
    struct share *share = &writer->share;
    share_text(share, context->why);
    if (context->frame->kind != WIRE_KIND_PATH) {
        share_text(share, context->frame->label);
        return;
    }
    writer->frames[i] = number_frame(writer, context->frame);
    writer->model_frames[context->frame->number] = writer->frames[i];
}

static void number_tails(const struct model_tails *tails, void *writer) {
    for (uint32_t i = 0; i < tails->count; i++)
        number_frame(writer, &tails->frames[i]);
}

static void number_figures(struct snapshot_writer *writer) {
    struct share *share = &writer->share;
#define X(name) share_text(share, #name);
    MODEL_LEDGER(X)
    if (!writer->model->has_mappings)
        return;
    MODEL_MAPPINGS(X) /* the macro expands to several statements, so no `if` can stand before it */
#undef X
}

static void number_all(struct snapshot_writer *writer) {
    const struct model *model = writer->model;
    struct share *share = &writer->share;
    share_text(share, model->exe);
    share_text(share, model->program);
    share_text(share, model->how);
    share_text(share, model->library_version);
    number_figures(writer);
    for (size_t i = 0; i < model->module_count; i++) {
        share_text(share, model->modules[i].path);
        share_text(share, writer->options.names ? model->modules[i].symbols : NULL);
    }
    for (size_t i = 0; i < model->thread_count && writer->options.threads; i++)
        share_text(share, model->threads[i].name);
    for (size_t i = 0; i < model->mark_count; i++)
        share_text(share, model->marks[i].name);
    for (size_t i = 0; i < model->note_count; i++)
        share_text(share, model->notes[i]);
    writer->frames = cli_alloc(model->context_count, sizeof *writer->frames);
    writer->model_frames = cli_alloc(model->frame_count, sizeof *writer->model_frames);
    for (size_t i = 0; i < model->context_count; i++)
        number_context(writer, i);
    if (writer->options.names)
        tails_visit(model, number_tails, writer);
}

static void put_text(struct snapshot_writer *writer, unsigned column, const char *text) {
    pack_number(writer->pack, column, share_text(&writer->share, text));
}

/* --- texts, functions, frames ------------------------------------------------------------ */

static void write_texts(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    pack_begin_table(pack, SNAPSHOT_TEXTS);
    for (uint32_t i = 0; i < writer->share.text_set.count; i++) {
        const char *text = writer->share.texts[i];
        size_t length = strnlen(text, SNAPSHOT_TEXT_MAX);
        pack_number(pack, TEXTS_LENGTH, length);
        pack_bytes(pack, TEXTS_BYTES, text, length);
        pack_end_row(pack);
    }
    pack_end_table(pack);
}

static void write_functions(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct share *share = &writer->share;
    pack_begin_table(pack, SNAPSHOT_FUNCTIONS);
    for (uint32_t i = 0; i < share->list_set.count; i++) {
        const struct share_list *list = &share->lists[i];
        for (uint32_t k = 0; k < list->count; k++) {
            const struct share_function *function = &share->functions[list->first + k];
            pack_number(pack, FUNCTIONS_NAME, function->name);
            pack_number(pack, FUNCTIONS_FILE, function->file);
            pack_number(pack, FUNCTIONS_LINE, function->line > 0 ? (uint64_t)function->line : 0);
            pack_number(pack, FUNCTIONS_INLINED, k > 0);
            pack_end_row(pack);
        }
    }
    pack_end_table(pack);
}

static void write_frames(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct share *share = &writer->share;
    uint64_t before = 0;
    pack_begin_table(pack, SNAPSHOT_FRAMES);
    for (uint32_t i = 0; i < share->frame_set.count; i++) {
        const struct share_frame *frame = &share->frames[i];
        pack_signed(pack, FRAMES_ADDRESS, frame->address - before);
        pack_number(pack, FRAMES_MODULE, frame->module);
        pack_number(pack, FRAMES_LIST, frame->list);
        pack_end_row(pack);
        before = frame->address;
    }
    pack_end_table(pack);
}

/* --- the process ------------------------------------------------------------------------- */

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void write_process(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct model *model = writer->model;
    pack_begin_table(pack, SNAPSHOT_PROCESS);
    pack_figure(pack, PROCESS_PID, model->pid, 0);
    put_text(writer, PROCESS_EXE, model->exe);
    pack_number(pack, PROCESS_UPTIME, bits_of(model->uptime_s));
    pack_figure(pack, PROCESS_DEPTH, model->depth, 0);
    pack_number(pack, PROCESS_EXACT, model->exact);
    pack_number(pack, PROCESS_START_TICKS, model->start_ticks);
    put_text(writer, PROCESS_LIBRARY_VERSION, model->library_version);
    pack_figure(pack, PROCESS_BUILD_NS, model->build_ns, 0);
    pack_number(pack, PROCESS_HAS_NAMES, writer->options.names);
    pack_number(pack, PROCESS_HAS_THREADS, writer->options.threads);
    pack_number(pack, PROCESS_HAS_PAGES, model->has_pages);
    pack_number(pack, PROCESS_HAS_MAPPINGS, model->has_mappings);
    put_text(writer, PROCESS_PROGRAM, model->program);
    pack_number(pack, PROCESS_SLEPT, bits_of(model->slept_s));
    pack_number(pack, PROCESS_LOST_REALLOCS, (uint64_t)model->lost_reallocs);
    if (model->how)
        put_text(writer, PROCESS_HOW, model->how);
    pack_number(pack, PROCESS_RESETS, model->resets);
    pack_end_row(pack);
    pack_end_table(pack);
}

static void put_named_figure(struct snapshot_writer *writer, unsigned group, const char *name,
                             int64_t value) {
    pack_number(writer->pack, FIGURES_GROUP, group);
    put_text(writer, FIGURES_NAME, name);
    pack_figure(writer->pack, FIGURES_VALUE, value, 0);
    pack_end_row(writer->pack);
}

static void write_figures(struct snapshot_writer *writer) {
    const struct model *model = writer->model;
    pack_begin_table(writer->pack, SNAPSHOT_FIGURES);
#define X(name) put_named_figure(writer, FIGURES_LEDGER, #name, model->ledger.name);
    MODEL_LEDGER(X)
#undef X
    if (model->has_mappings) {
#define X(name) put_named_figure(writer, FIGURES_MAPPINGS, #name, model->mappings.name);
        MODEL_MAPPINGS(X)
#undef X
    }
    pack_end_table(writer->pack);
}

static void write_modules(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    pack_begin_table(pack, SNAPSHOT_MODULES);
    for (size_t i = 0; i < writer->model->module_count; i++) {
        const struct model_module *module = &writer->model->modules[i];
        put_text(writer, MODULES_PATH, module->path);
        pack_number(pack, MODULES_START, module->start);
        pack_number(pack, MODULES_END, module->end);
        pack_number(pack, MODULES_BIAS, module->bias);
        pack_number(pack, MODULES_ID_LENGTH, module->build_id_bytes);
        pack_bytes(pack, MODULES_ID, module->build_id, module->build_id_bytes);
        pack_number(pack, MODULES_CLOSED, module->closed);
        put_text(writer, MODULES_SYMBOLS, writer->options.names ? module->symbols : NULL);
        pack_end_row(pack);
    }
    pack_end_table(pack);
}

/* --- contexts ---------------------------------------------------------------------------- */

static void put_totals(struct pack *pack, unsigned column, const struct model_totals *totals) {
#define X(name, expected) pack_figure(pack, column++, totals->name, expected);
    SNAPSHOT_TOTALS(X)
#undef X
}

static void write_context(struct snapshot_writer *writer, size_t i) {
    struct pack *pack = writer->pack;
    const struct model_context *context = &writer->model->contexts[i];
    uint64_t id_expected = i > 0 ? (uint64_t)context[-1].id + 1 : 0;
    /* Only the first context may be the root; a damaged dump may have more. */
    uint8_t kind =
        i > 0 && context->frame->kind == WIRE_KIND_ROOT ? WIRE_KIND_UNKNOWN : context->frame->kind;
    pack_signed(pack, CONTEXTS_ID, context->id - id_expected);
    pack_number(pack, CONTEXTS_PARENT, i > 0 ? i - context->parent : 0);
    pack_number(pack, CONTEXTS_KIND, kind);
    pack_number(pack, CONTEXTS_POLICY, context->policy);
    pack_number(pack, CONTEXTS_PLACEMENT, context->placement);
    pack_number(pack, CONTEXTS_FLAGS,
                (context->frame->exact_address ? CONTEXTS_FLAG_EXACT_ADDRESS : 0U) |
                    (unsigned)context->flags << CONTEXTS_FLAGS_SHIFT);
    pack_number(pack, CONTEXTS_RECURSIVE_FROM,
                context->recursive_from == WIRE_NONE ? 0 : (uint64_t)context->recursive_from + 1);
    pack_number(pack, CONTEXTS_FRAME, writer->frames[i]);
    put_text(writer, CONTEXTS_LABEL, kind != WIRE_KIND_PATH ? context->frame->label : NULL);
    put_text(writer, CONTEXTS_WHY, context->why);
    for (unsigned bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        pack_number(pack, CONTEXTS_OCCUPANCY + bin, context->figures->occupancy[bin]);
    put_totals(pack, CONTEXTS_TOTALS, &context->figures->self);
    pack_end_row(pack);
}

static void write_contexts(struct snapshot_writer *writer) {
    pack_begin_table(writer->pack, SNAPSHOT_CONTEXTS);
    for (size_t i = 0; i < writer->model->context_count; i++)
        write_context(writer, i);
    pack_end_table(writer->pack);
}

/* --- threads ----------------------------------------------------------------------------- */

/* Writes the views of one context. `before`: the context of the view before. */
static void write_views_of(struct snapshot_writer *writer, const struct model_figures *figures,
                           uint32_t before) {
    struct pack *pack = writer->pack;
    uint64_t rest[SNAPSHOT_TOTALS_COUNT];
    snapshot_begin_rest(rest, &figures->self);
    for (uint32_t i = 0; i < figures->view_count; i++) {
        struct model_view view = model_view_at(writer->model, figures, i);
        unsigned figure = 0;
        pack_number(pack, VIEWS_CONTEXT, view.context - before);
        pack_number(pack, VIEWS_THREAD, view.thread);
#define X(name, expected)                                                                          \
    pack_figure(pack, VIEWS_TOTALS + figure, view.totals.name, rest[figure]);                      \
    rest[figure++] -= snapshot_known(view.totals.name);
        SNAPSHOT_TOTALS(X)
#undef X
        pack_end_row(pack);
        before = view.context;
    }
}

static void write_views(struct snapshot_writer *writer) {
    const struct model *model = writer->model;
    uint32_t before = 0;
    pack_begin_table(writer->pack, SNAPSHOT_VIEWS);
    for (uint32_t i = 0; i < model->context_count; i++) {
        const struct model_figures *figures = model->contexts[i].figures;
        if (figures->view_count == 0)
            continue;
        write_views_of(writer, figures, before);
        before = i;
    }
    pack_end_table(writer->pack);
}

static void write_threads(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct model *model = writer->model;
    pack_begin_table(pack, SNAPSHOT_THREADS);
    for (size_t i = 0; i < model->thread_count; i++) {
        pack_number(pack, THREADS_TID, model->threads[i].tid);
        put_text(writer, THREADS_NAME, model->threads[i].name);
        pack_end_row(pack);
    }
    pack_end_table(pack);
    write_views(writer);
    pack_begin_table(pack, SNAPSHOT_REMOTES);
    for (size_t i = 0; i < model->remote_count; i++) {
        pack_number(pack, REMOTES_FREED_BY, model->remotes[i].freed_by);
        pack_number(pack, REMOTES_OWNER, model->remotes[i].owner);
        pack_figure(pack, REMOTES_FREES, model->remotes[i].frees, 0);
        pack_end_row(pack);
    }
    pack_end_table(pack);
}

/* --- marks ------------------------------------------------------------------------------- */

static void write_mark_entries(struct snapshot_writer *writer, const struct model_mark *mark,
                               uint32_t *before) {
    struct pack *pack = writer->pack;
    for (size_t i = 0; i < mark->entry_count; i++) {
        const struct wire_mark_entry *entry = &mark->entries[i];
        const struct model_totals *totals = &writer->model->contexts[entry->context].figures->self;
        unsigned column = ENTRIES_CONTEXT;
        pack_signed(pack, column++, (uint64_t)entry->context - *before);
#define X(name) pack_figure(pack, column++, entry->name, SNAPSHOT_KNOWN(name));
        SNAPSHOT_MARK_FIGURES(X)
#undef X
        pack_end_row(pack);
        *before = entry->context;
    }
}

static void put_left_out(struct pack *pack, const struct wire_left_out *out) {
    unsigned column = MARKS_SUMS;
    pack_number(pack, MARKS_LEFT_OUT, out->contexts);
    pack_number(pack, MARKS_IDS_BELOW, out->ids_below);
    pack_figure(pack, MARKS_MOST, out->most_bytes, 0);
#define X(name) pack_figure(pack, column++, out->name, 0);
    SNAPSHOT_MARK_FIGURES(X)
#undef X
}

static void put_elsewhere(struct pack *pack, const struct wire_elsewhere *elsewhere) {
    unsigned column = MARKS_ELSEWHERE;
    bool known = elsewhere->private_bytes != WIRE_UNKNOWN;
    pack_number(pack, MARKS_HAS_ELSEWHERE, known);
#define X(name) pack_figure(pack, column++, known ? elsewhere->name : 0, 0);
    SNAPSHOT_ELSEWHERE(X)
#undef X
}

static void write_marks(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct model *model = writer->model;
    uint32_t before = 0;
    pack_begin_table(pack, SNAPSHOT_MARKS);
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        put_text(writer, MARKS_NAME, mark->name);
        pack_number(pack, MARKS_UPTIME, bits_of(mark->uptime_s));
        pack_number(pack, MARKS_SLEPT, bits_of(mark->slept_s));
        pack_figure(pack, MARKS_RSS, mark->rss_bytes == WIRE_UNKNOWN ? 0 : mark->rss_bytes, 0);
        put_elsewhere(pack, &mark->elsewhere);
        pack_number(pack, MARKS_HAS_ENTRIES, mark->has_entries);
        pack_number(pack, MARKS_ENTRIES, mark->entry_count);
        put_left_out(pack, &mark->left_out);
        pack_end_row(pack);
    }
    pack_end_table(pack);
    pack_begin_table(pack, SNAPSHOT_MARK_ENTRIES);
    for (size_t i = 0; i < model->mark_count; i++)
        write_mark_entries(writer, &model->marks[i], &before);
    pack_end_table(pack);
}

/* --- pages ------------------------------------------------------------------------------- */

static void write_page(struct pack *pack, const struct wire_page *page, uint64_t expected_start) {
    pack_signed(pack, PAGES_START, page->start - expected_start);
    pack_number(pack, PAGES_BYTES, page->bytes);
    pack_number(pack, PAGES_TOUCHED_BYTES, page->touched_bytes);
    pack_number(pack, PAGES_LIVE_BYTES, page->live_bytes);
    pack_figure(pack, PAGES_RESIDENT_BYTES, page->resident_bytes, page->touched_bytes);
    pack_number(pack, PAGES_CONTEXT, page->context == WIRE_NONE ? 0 : (uint64_t)page->context + 1);
    pack_number(pack, PAGES_BLOCK_BYTES, page->block_bytes);
    pack_number(pack, PAGES_LIVE, page->live);
    pack_number(pack, PAGES_CAPACITY, page->capacity);
    pack_number(pack, PAGES_TID, page->tid);
    pack_number(pack, PAGES_OLDEST_AGE, page->oldest_age);
    pack_number(pack, PAGES_NEWEST_AGE, page->newest_age);
    pack_number(pack, PAGES_KIND, page->kind);
    pack_number(pack, PAGES_STATE, page->state);
    pack_number(pack, PAGES_APART, page->apart);
    pack_number(pack, PAGES_SPARE_UNITS, page->spare_units);
    pack_number(pack, PAGES_OS_EMPTY, page->os_empty);
    pack_number(pack, PAGES_SHARES, page->share_count);
    for (unsigned bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        pack_number(pack, PAGES_OS_PAGES + bin, page->os_pages[bin]);
    pack_end_row(pack);
}

static void write_pages(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct model *model = writer->model;
    uint64_t expected = 0;
    pack_begin_table(pack, SNAPSHOT_PAGES);
    for (size_t i = 0; i < model->page_count; i++) {
        write_page(pack, &model->pages[i], expected);
        expected = model->pages[i].start + model->pages[i].bytes;
    }
    pack_end_table(pack);
    pack_begin_table(pack, SNAPSHOT_SHARES);
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        for (uint32_t k = 0; k < page->share_count; k++) {
            const struct model_share *share = &model->shares[page->first_share + k];
            pack_number(pack, SHARES_CONTEXT, share->context);
            pack_number(pack, SHARES_LIVE, share->live);
            pack_end_row(pack);
        }
    }
    pack_end_table(pack);
}

static void write_notes(struct snapshot_writer *writer) {
    pack_begin_table(writer->pack, SNAPSHOT_NOTES);
    for (size_t i = 0; i < writer->model->note_count; i++) {
        put_text(writer, NOTES_TEXT, writer->model->notes[i]);
        pack_end_row(writer->pack);
    }
    pack_end_table(writer->pack);
}

static void put_tails(const struct model_tails *tails, void *data) {
    struct snapshot_writer *writer = data;
    uint32_t outer = writer->model_frames[tails->outer];
    uint32_t inner = tails->inner != WIRE_NONE ? writer->model_frames[tails->inner] : 0;
    /* A frame has no number if no context of the file has it. */
    if (outer == 0 || (tails->inner != WIRE_NONE && inner == 0))
        return;
    for (uint32_t i = 0; i < tails->count; i++) {
        pack_number(writer->pack, TAILS_OUTER, outer - 1);
        pack_number(writer->pack, TAILS_INNER, inner);
        pack_number(writer->pack, TAILS_FUNCTION, number_frame(writer, &tails->frames[i]) - 1);
        pack_end_row(writer->pack);
    }
}

static void write_tails(struct snapshot_writer *writer) {
    pack_begin_table(writer->pack, SNAPSHOT_TAILS);
    if (writer->options.names)
        tails_visit(writer->model, put_tails, writer);
    pack_end_table(writer->pack);
}

static void write_resizes(struct snapshot_writer *writer) {
    struct pack *pack = writer->pack;
    const struct model *model = writer->model;
    uint32_t before = 0;
    pack_begin_table(pack, SNAPSHOT_RESIZES);
    for (size_t i = 0; i < model->resize_count; i++) {
        const struct wire_resizes *resizes = &model->resizes[i];
        unsigned column = RESIZES_COUNTS;
        pack_signed(pack, RESIZES_CONTEXT, (uint64_t)resizes->context - before);
#define X(name) pack_figure(pack, column++, resizes->name, 0);
        MODEL_RESIZES(X)
#undef X
        pack_end_row(pack);
        before = resizes->context;
    }
    pack_end_table(pack);
}

void snapshot_write(const struct model *model, FILE *file,
                    const struct model_write_options *options) {
    struct snapshot_writer writer = {.model = model, .options = *options};
    share_begin(&writer.share);
    number_all(&writer);
    writer.pack = pack_begin(file);
    write_texts(&writer);
    write_process(&writer);
    write_figures(&writer);
    write_modules(&writer);
    write_functions(&writer);
    write_frames(&writer);
    write_contexts(&writer);
    if (options->threads)
        write_threads(&writer);
    write_marks(&writer);
    if (model->has_pages)
        write_pages(&writer);
    write_notes(&writer);
    write_tails(&writer);
    write_resizes(&writer);
    pack_finish(writer.pack);
    free(writer.frames);
    free(writer.model_frames);
    share_end(&writer.share);
}
