/* SPDX-License-Identifier: MIT */
/*
 * snapshot_read.c - reads a snapshot file (snapshot_format.h) back into a model.
 *
 * The rows of each block are added to the model's arrays, which grow with each block, because no
 * count in the file is trusted. A reference to a row of another table is checked at once, because
 * that table comes earlier in the file.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/snapshot_reader.h"

#define ID_MAX (WIRE_NONE - 1)

static bool damaged(const struct snapshot_reader *reader, const char *what) {
    return cli_fail(reader->failure, CLI_REFUSED,
                    "%s: damaged snapshot; %s; take it again with memctx dump -o",
                    reader->model->source, what);
}

/* The capacity of an array is a power of two, so that a block seldom moves the array. */
static size_t capacity_for(size_t count) {
    size_t capacity = 16;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

/* Returns the array, grown to room for `count` elements and all rows of the present block. */
void *snapshot_make_room(const struct snapshot_reader *reader, void *array, size_t count,
                         size_t size_bytes) {
    size_t capacity = capacity_for(count + reader->block.rows);
    return array && capacity == capacity_for(count) ? array : cli_grow(array, capacity, size_bytes);
}

/* Reads the text of a column; NULL: none. */
char *snapshot_text(struct snapshot_reader *reader, unsigned column) {
    uint64_t number = unpack_at_most(&reader->block, column, reader->text_count);
    return number > 0 ? reader->texts[number - 1] : NULL;
}

static char *get_needed_text(struct snapshot_reader *reader, unsigned column, const char *wrong) {
    char *text = snapshot_text(reader, column);
    if (!text && !reader->wrong)
        reader->wrong = wrong;
    return text;
}

uint32_t snapshot_index(struct snapshot_reader *reader, unsigned column, size_t count,
                        const char *wrong) {
    uint64_t index = unpack_number(&reader->block, column);
    if (index >= count) {
        reader->wrong = reader->wrong ? reader->wrong : wrong;
        return 0;
    }
    return (uint32_t)index;
}

/* Reads an "index or none"; WIRE_NONE: none. */
uint32_t snapshot_index_or_none(struct snapshot_reader *reader, unsigned column, size_t count,
                                const char *wrong) {
    uint64_t number = unpack_number(&reader->block, column);
    if (number > count) {
        reader->wrong = reader->wrong ? reader->wrong : wrong;
        return WIRE_NONE;
    }
    return number > 0 ? (uint32_t)(number - 1) : WIRE_NONE;
}

static uint32_t get_word(struct snapshot_reader *reader, unsigned column) {
    return (uint32_t)unpack_at_most(&reader->block, column, UINT32_MAX);
}

static uint8_t get_byte(struct snapshot_reader *reader, unsigned column) {
    return (uint8_t)unpack_at_most(&reader->block, column, UINT8_MAX);
}

static double get_double(struct snapshot_reader *reader, unsigned column) {
    uint64_t bits = unpack_number(&reader->block, column);
    double value;
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) && value >= 0 ? value : 0;
}

/* --- the process ------------------------------------------------------------------------- */

static void read_process(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    struct model *model = reader->model;
    reader->process_count += block->rows;
    if (reader->process_count != 1) {
        reader->wrong = "it describes no process, or several";
        return;
    }
    model->pid = unpack_figure(block, PROCESS_PID, 0);
    model->exe = get_needed_text(reader, PROCESS_EXE, "it has no pid or no exe");
    if (model->pid == WIRE_UNKNOWN)
        reader->wrong = "it has no pid or no exe";
    model->uptime_s = get_double(reader, PROCESS_UPTIME);
    model->slept_s = get_double(reader, PROCESS_SLEPT);
    model->depth = unpack_figure(block, PROCESS_DEPTH, 0);
    model->exact = unpack_number(block, PROCESS_EXACT) != 0;
    model->start_ticks = unpack_number(block, PROCESS_START_TICKS);
    model->library_version = snapshot_text(reader, PROCESS_LIBRARY_VERSION);
    model->build_ns = unpack_figure(block, PROCESS_BUILD_NS, 0);
    model->has_names = unpack_number(block, PROCESS_HAS_NAMES) != 0;
    model->has_threads = unpack_number(block, PROCESS_HAS_THREADS) != 0;
    model->has_pages = unpack_number(block, PROCESS_HAS_PAGES) != 0;
    model->has_mappings = unpack_number(block, PROCESS_HAS_MAPPINGS) != 0;
    model->program = snapshot_text(reader, PROCESS_PROGRAM);
    model->lost_reallocs =
        model_tame((int64_t)unpack_number(&reader->block, PROCESS_LOST_REALLOCS));
    model->how = snapshot_text(reader, PROCESS_HOW);
    model->resets = (uint32_t)unpack_number(block, PROCESS_RESETS);
}

static void take_figure(struct model *model, uint64_t group, const char *name, int64_t value) {
#define X(member)                                                                                  \
    if (group == FIGURES_LEDGER && strcmp(name, #member) == 0)                                     \
        model->ledger.member = value;
    MODEL_LEDGER(X)
#undef X
#define X(member)                                                                                  \
    if (group == FIGURES_MAPPINGS && strcmp(name, #member) == 0) {                                 \
        model->mappings.member = value;                                                            \
    }
    MODEL_MAPPINGS(X)
#undef X
}

static void read_figures(struct snapshot_reader *reader) {
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        uint64_t group = unpack_number(&reader->block, FIGURES_GROUP);
        const char *name = get_needed_text(reader, FIGURES_NAME, "a figure has no name");
        int64_t value = unpack_figure(&reader->block, FIGURES_VALUE, 0);
        if (name)
            take_figure(reader->model, group, name, value);
    }
}

static void read_modules(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    struct model *model = reader->model;
    model->modules =
        snapshot_make_room(reader, model->modules, model->module_count, sizeof *model->modules);
    for (uint32_t i = 0; i < block->rows; i++) {
        struct model_module *module = &model->modules[model->module_count++];
        *module = (struct model_module){0};
        module->path = get_needed_text(reader, MODULES_PATH, "a module has no path");
        module->start = unpack_number(block, MODULES_START);
        module->end = unpack_number(block, MODULES_END);
        module->bias = unpack_number(block, MODULES_BIAS);
        module->build_id_bytes =
            (uint32_t)unpack_at_most(block, MODULES_ID_LENGTH, sizeof module->build_id);
        const uint8_t *id = unpack_bytes(block, MODULES_ID, module->build_id_bytes);
        if (id)
            memcpy(module->build_id, id, module->build_id_bytes);
        module->closed = unpack_number(block, MODULES_CLOSED) != 0;
        module->symbols = snapshot_text(reader, MODULES_SYMBOLS);
    }
}

/* --- contexts ---------------------------------------------------------------------------- */

static void get_totals(struct unpack_block *block, unsigned column, struct model_totals *totals) {
#define X(name, expected) totals->name = unpack_figure(block, column++, expected);
    SNAPSHOT_TOTALS(X)
#undef X
}

/* Returns the context's frame: for a call path, the frame of row `index`, made on first use; else a
 * frame with the label. */
static struct model_frame *take_frame(struct snapshot_reader *reader, uint8_t kind, bool exact,
                                      uint32_t index, char *label) {
    struct model_frame frame = {
        .module = WIRE_NONE, .kind = kind, .exact_address = exact, .label = label};
    if (index == WIRE_NONE || kind != WIRE_KIND_PATH)
        return model_find_frame(reader->model, &frame);
    struct snapshot_frame *from = &reader->frames[index];
    if (from->made[exact] && !label)
        return from->made[exact];
    frame.address = from->address;
    frame.module = from->module;
    frame.names = from->list != WIRE_NONE ? &reader->names[from->list] : NULL;
    struct model_frame *made = model_new_frame(reader->model, &frame);
    if (!label)
        from->made[exact] = made;
    return made;
}

static void read_context(struct snapshot_reader *reader, size_t i) {
    struct unpack_block *block = &reader->block;
    struct model_context *context = &reader->model->contexts[i];
    *context = (struct model_context){.parent = WIRE_NONE};
    uint64_t id = reader->id_expected + unpack_signed(block, CONTEXTS_ID);
    uint64_t up = unpack_number(block, CONTEXTS_PARENT);
    uint64_t known = unpack_number(block, CONTEXTS_KIND);
    uint8_t kind = known < WIRE_KIND_UNKNOWN ? (uint8_t)known : WIRE_KIND_UNKNOWN;
    if (id > ID_MAX)
        reader->wrong = "a context has an id that does not exist";
    else if ((i == 0) != (kind == WIRE_KIND_ROOT))
        reader->wrong = "its first context, and no other, is not the root";
    else if (i > 0 && (up == 0 || up > i))
        reader->wrong = "a context has no parent before it";
    /* an id, which model_link turns into an index */
    else if (i > 0)
        context->parent = context[-(ptrdiff_t)up].id;
    context->id = (uint32_t)id;
    reader->id_expected = id + 1;
    context->policy = get_byte(reader, CONTEXTS_POLICY);
    context->placement = get_byte(reader, CONTEXTS_PLACEMENT);
    uint64_t flags = unpack_number(block, CONTEXTS_FLAGS);
    bool exact = (flags & CONTEXTS_FLAG_EXACT_ADDRESS) != 0;
    context->flags = flags >> CONTEXTS_FLAGS_SHIFT & MODEL_FLAGS;
    context->recursive_from =
        snapshot_index_or_none(reader, CONTEXTS_RECURSIVE_FROM, WIRE_NONE - 1,
                               "a loop ends in a context that does not exist");
    uint32_t frame = snapshot_index_or_none(reader, CONTEXTS_FRAME, reader->frame_count,
                                            "a context has a frame that is not listed");
    context->frame = take_frame(reader, kind, exact, frame, snapshot_text(reader, CONTEXTS_LABEL));
    context->why = snapshot_text(reader, CONTEXTS_WHY);
    struct model_figures figures;
    for (unsigned bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        figures.occupancy[bin] = get_word(reader, CONTEXTS_OCCUPANCY + bin);
    get_totals(block, CONTEXTS_TOTALS, &figures.self);
    model_set_figures(reader->model, context, &figures);
}

static void read_contexts(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    size_t first = model->context_count;
    model->contexts = snapshot_make_room(reader, model->contexts, first, sizeof *model->contexts);
    for (uint32_t i = 0; i < reader->block.rows && !reader->wrong; i++)
        read_context(reader, first + i);
    model->context_count += reader->block.rows;
}

/* --- threads ----------------------------------------------------------------------------- */

static void read_threads(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    model->threads =
        snapshot_make_room(reader, model->threads, model->thread_count, sizeof *model->threads);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        struct model_thread *thread = &model->threads[model->thread_count++];
        thread->tid = get_word(reader, THREADS_TID);
        const char *name = snapshot_text(reader, THREADS_NAME);
        snprintf(thread->name, sizeof thread->name, "%s", name ? name : "");
    }
}

static void read_view(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    struct model *model = reader->model;
    uint64_t step = unpack_number(block, VIEWS_CONTEXT);
    uint32_t thread = snapshot_index(reader, VIEWS_THREAD, model->thread_count,
                                     "a thread view belongs to a thread that is not listed");
    if (step >= model->context_count - reader->view_context) {
        reader->wrong = "a thread view belongs to a context that is not listed";
        return;
    }
    reader->view_context += (uint32_t)step;
    struct model_figures *own = model_own_figures(model, &model->contexts[reader->view_context]);
    model_unfold_view(model, own);
    struct model_view *view = &model->views[model->view_count++];
    view->context = reader->view_context;
    view->thread = thread;
    if (own->view_count == 0) {
        own->first_view = (uint32_t)(view - model->views);
        snapshot_begin_rest(reader->rest, &own->self);
    }
    own->view_count++;
    unsigned figure = 0;
#define X(name, expected)                                                                          \
    view->totals.name = unpack_figure(block, VIEWS_TOTALS + figure, reader->rest[figure]);         \
    reader->rest[figure++] -= snapshot_known(view->totals.name);
    SNAPSHOT_TOTALS(X)
#undef X
    model_fold_view(model, own);
}

static void read_views(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    /* one more, for a view of the block before this one that is unfolded again */
    model->views =
        snapshot_make_room(reader, model->views, model->view_count + 1, sizeof *model->views);
    for (uint32_t i = 0; i < reader->block.rows && !reader->wrong; i++)
        read_view(reader);
}

static void read_remotes(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    const char *wrong = "remote frees belong to a thread that is not listed";
    model->remotes =
        snapshot_make_room(reader, model->remotes, model->remote_count, sizeof *model->remotes);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        struct model_remote *remote = &model->remotes[model->remote_count++];
        remote->freed_by = snapshot_index(reader, REMOTES_FREED_BY, model->thread_count, wrong);
        remote->owner = snapshot_index(reader, REMOTES_OWNER, model->thread_count, wrong);
        remote->frees = unpack_figure(&reader->block, REMOTES_FREES, 0);
    }
}

/* --- marks ------------------------------------------------------------------------------- */

static void get_left_out(struct unpack_block *block, struct wire_left_out *out) {
    unsigned column = MARKS_SUMS;
    out->contexts = unpack_number(block, MARKS_LEFT_OUT);
    out->ids_below = unpack_number(block, MARKS_IDS_BELOW);
    out->most_bytes = unpack_figure(block, MARKS_MOST, 0);
#define X(name) out->name = unpack_figure(block, column++, 0);
    SNAPSHOT_MARK_FIGURES(X)
#undef X
}

static void get_elsewhere(struct unpack_block *block, struct wire_elsewhere *elsewhere) {
    unsigned column = MARKS_ELSEWHERE;
    bool known = unpack_number(block, MARKS_HAS_ELSEWHERE) != 0;
#define X(name) elsewhere->name = unpack_figure(block, column++, 0);
    SNAPSHOT_ELSEWHERE(X)
#undef X
    if (!known)
        elsewhere->private_bytes = WIRE_UNKNOWN;
    model_tame_elsewhere(elsewhere);
}

static void read_marks(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    model->marks =
        snapshot_make_room(reader, model->marks, model->mark_count, sizeof *model->marks);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        struct model_mark *mark = &model->marks[model->mark_count++];
        *mark = (struct model_mark){0};
        const char *name = snapshot_text(reader, MARKS_NAME);
        snprintf(mark->name, sizeof mark->name, "%s", name ? name : "");
        mark->uptime_s = get_double(reader, MARKS_UPTIME);
        mark->slept_s = get_double(reader, MARKS_SLEPT);
        mark->rss_bytes = unpack_figure(&reader->block, MARKS_RSS, 0);
        if (mark->rss_bytes <= 0)
            mark->rss_bytes = WIRE_UNKNOWN;
        get_elsewhere(&reader->block, &mark->elsewhere);
        mark->has_entries = unpack_number(&reader->block, MARKS_HAS_ENTRIES) != 0;
        mark->entry_count = get_word(reader, MARKS_ENTRIES);
        get_left_out(&reader->block, &mark->left_out);
        reader->entries_told += mark->entry_count;
    }
}

static void read_mark_entries(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    const struct model *model = reader->model;
    reader->entries =
        snapshot_make_room(reader, reader->entries, reader->entry_count, sizeof *reader->entries);
    for (uint32_t i = 0; i < block->rows; i++) {
        struct wire_mark_entry *entry = &reader->entries[reader->entry_count++];
        uint64_t context = reader->entry_context + unpack_signed(block, ENTRIES_CONTEXT);
        if (context >= model->context_count) {
            reader->wrong = "a mark has a context that is not listed";
            return;
        }
        *entry = (struct wire_mark_entry){.context = (uint32_t)context};
        const struct model_totals *totals = &model->contexts[context].figures->self;
        unsigned column = ENTRIES_FIGURES;
#define X(name) entry->name = unpack_figure(block, column++, SNAPSHOT_KNOWN(name));
        SNAPSHOT_MARK_FIGURES(X)
#undef X
        reader->entry_context = entry->context;
    }
}

/* --- pages ------------------------------------------------------------------------------- */

static void read_page(struct snapshot_reader *reader, struct wire_page *page) {
    struct unpack_block *block = &reader->block;
    *page = (struct wire_page){.first_share = (uint32_t)reader->shares_told};
    page->start = reader->page_end + unpack_signed(block, PAGES_START);
    page->bytes = unpack_number(block, PAGES_BYTES);
    reader->page_end = page->start + page->bytes;
    page->touched_bytes = unpack_number(block, PAGES_TOUCHED_BYTES);
    page->live_bytes = unpack_number(block, PAGES_LIVE_BYTES);
    page->resident_bytes = unpack_figure(block, PAGES_RESIDENT_BYTES, page->touched_bytes);
    page->context = snapshot_index_or_none(reader, PAGES_CONTEXT, reader->model->context_count,
                                           "a page belongs to a context that is not listed");
    page->block_bytes = get_word(reader, PAGES_BLOCK_BYTES);
    page->live = get_word(reader, PAGES_LIVE);
    page->capacity = get_word(reader, PAGES_CAPACITY);
    page->tid = get_word(reader, PAGES_TID);
    page->oldest_age = get_word(reader, PAGES_OLDEST_AGE);
    page->newest_age = get_word(reader, PAGES_NEWEST_AGE);
    page->kind = get_byte(reader, PAGES_KIND);
    page->state = get_byte(reader, PAGES_STATE);
    page->apart = get_byte(reader, PAGES_APART);
    page->spare_units = get_byte(reader, PAGES_SPARE_UNITS);
    page->os_empty = (uint16_t)unpack_at_most(block, PAGES_OS_EMPTY, UINT16_MAX);
    page->share_count = get_word(reader, PAGES_SHARES);
    for (unsigned bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        page->os_pages[bin] = (uint16_t)unpack_at_most(block, PAGES_OS_PAGES + bin, UINT16_MAX);
    reader->shares_told += page->share_count;
    model_tame_page(page);
}

static void read_pages(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    model->pages =
        snapshot_make_room(reader, model->pages, model->page_count, sizeof *model->pages);
    for (uint32_t i = 0; i < reader->block.rows; i++)
        read_page(reader, &model->pages[model->page_count++]);
}

static void read_shares(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    model->shares =
        snapshot_make_room(reader, model->shares, model->share_count, sizeof *model->shares);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        struct model_share *share = &model->shares[model->share_count++];
        share->context = snapshot_index(reader, SHARES_CONTEXT, model->context_count,
                                        "a page belongs to a context that is not listed");
        share->live = get_word(reader, SHARES_LIVE);
    }
}

static void read_notes(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    model->notes =
        snapshot_make_room(reader, model->notes, model->note_count, sizeof *model->notes);
    for (uint32_t i = 0; i < reader->block.rows; i++) {
        model->notes[model->note_count++] =
            get_needed_text(reader, NOTES_TEXT, "a note has no text");
    }
}

static void read_resizes(struct snapshot_reader *reader) {
    struct unpack_block *block = &reader->block;
    struct model *model = reader->model;
    model->resizes =
        snapshot_make_room(reader, model->resizes, model->resize_count, sizeof *model->resizes);
    for (uint32_t i = 0; i < block->rows; i++) {
        struct wire_resizes *resizes = &model->resizes[model->resize_count++];
        uint64_t context = reader->resizes_context + unpack_signed(block, RESIZES_CONTEXT);
        if (context >= model->context_count) {
            reader->wrong = "reallocs belong to a context that is not listed";
            return;
        }
        *resizes = (struct wire_resizes){.context = (uint32_t)context};
        unsigned column = RESIZES_COUNTS;
#define X(name) resizes->name = unpack_figure(block, column++, 0);
        MODEL_RESIZES(X)
#undef X
        reader->resizes_context = resizes->context;
        model_own_figures(model, &model->contexts[context]);
    }
}

/* --- all of it --------------------------------------------------------------------------- */

static void (*const readers[SNAPSHOT_TABLES])(struct snapshot_reader *reader) = {
    [SNAPSHOT_TEXTS] = snapshot_read_texts,
    [SNAPSHOT_PROCESS] = read_process,
    [SNAPSHOT_FIGURES] = read_figures,
    [SNAPSHOT_MODULES] = read_modules,
    [SNAPSHOT_FUNCTIONS] = snapshot_read_functions,
    [SNAPSHOT_FRAMES] = snapshot_read_frames,
    [SNAPSHOT_CONTEXTS] = read_contexts,
    [SNAPSHOT_THREADS] = read_threads,
    [SNAPSHOT_VIEWS] = read_views,
    [SNAPSHOT_REMOTES] = read_remotes,
    [SNAPSHOT_MARKS] = read_marks,
    [SNAPSHOT_MARK_ENTRIES] = read_mark_entries,
    [SNAPSHOT_PAGES] = read_pages,
    [SNAPSHOT_SHARES] = read_shares,
    [SNAPSHOT_NOTES] = read_notes,
    [SNAPSHOT_TAILS] = snapshot_read_tails,
    [SNAPSHOT_RESIZES] = read_resizes,
};

static bool read_block(struct snapshot_reader *reader) {
    uint64_t table = reader->block.table;
    if (table >= SNAPSHOT_TABLES)
        return true; /* a table of a later version */
    if (table < reader->table)
        return damaged(reader, "its tables are out of order");
    if (reader->table <= SNAPSHOT_FUNCTIONS && table > SNAPSHOT_FUNCTIONS)
        snapshot_make_names(reader);
    reader->table = table;
    readers[table](reader);
    if (reader->block.bad || (!reader->wrong && !unpack_is_used_up(&reader->block)))
        reader->wrong = "a value cannot be read or does not exist";
    return !reader->wrong || damaged(reader, reader->wrong);
}

/* Gives each mark its part of the entries. */
static void hand_out_entries(struct snapshot_reader *reader) {
    size_t next = 0;
    reader->entries = reader->entries ? reader->entries : cli_alloc(0, 1);
    for (size_t i = 0; i < reader->model->mark_count; i++) {
        struct model_mark *mark = &reader->model->marks[i];
        mark->entries = reader->entries + next;
        next += mark->entry_count;
    }
}

static bool check_whole(struct snapshot_reader *reader) {
    struct model *model = reader->model;
    if (reader->process_count != 1)
        return damaged(reader, "it describes no process, or several");
    if (reader->shares_told != model->share_count || reader->entries_told != reader->entry_count)
        return damaged(reader, "parts of pages or marks are missing");
    for (size_t i = 0; i < model->context_count; i++) {
        struct model_context *context = &model->contexts[i];
        if (context->recursive_from == WIRE_NONE)
            continue;
        if (context->recursive_from >= model->context_count)
            return damaged(reader, "a loop ends in a context that does not exist");
        /* an id, which model_link turns into an index */
        context->recursive_from = model->contexts[context->recursive_from].id;
    }
    hand_out_entries(reader);
    if (reader->tails.count > 0)
        tails_add(model, &reader->tails);
    if (!model_link(model, reader->failure))
        return false;
    model_sort_resizes(model);
    model_add_up(model);
    return true;
}

static void set_unknown(struct model *model) {
#define X(name) model->ledger.name = WIRE_UNKNOWN;
    MODEL_LEDGER(X)
#undef X
#define X(name) model->mappings.name = WIRE_UNKNOWN;
    MODEL_MAPPINGS(X)
#undef X
}

bool snapshot_read_packed(struct model *model, const char *bytes, size_t length,
                          struct cli_failure *failure) {
    struct snapshot_reader reader = {.model = model, .failure = failure};
    struct unpack *unpack = unpack_begin(bytes, length, model->source, failure);
    bool good = unpack != NULL;
    set_unknown(model);
    while (good && unpack_next_block(unpack, &reader.block))
        good = read_block(&reader);
    good = unpack && unpack_finish(unpack) && good;
    good = good && check_whole(&reader);
    free(reader.texts);
    free(reader.list_starts);
    free(reader.frames);
    return good;
}
