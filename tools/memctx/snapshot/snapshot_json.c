/* SPDX-License-Identifier: MIT */
/*
 * snapshot_json.c - reads a snapshot file of JSON (`memctx dump --json -o`) back into a model.
 *
 * Unknown keys are ignored: a later version may add keys. If a required key is missing or has a
 * value of another type, the file counts as damaged; a figure may be null.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/tails.h"
#include "snapshot/snapshot.h"
#include "snapshot/snapshot_format.h"

#define SCHEMA "memctx/1"

static bool damaged(const struct model *model, struct cli_failure *failure, const char *what) {
    return cli_fail(failure, CLI_REFUSED,
                    "%s: damaged snapshot; %s; take it again with "
                    "memctx dump -o",
                    model->source, what);
}

/* Returns a whole number; WIRE_UNKNOWN for null and for a missing key. */
static int64_t integer_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : WIRE_UNKNOWN;
}

static uint32_t number_of(const json_t *object, const char *key) {
    int64_t value = integer_of(object, key);
    return value >= 0 && value < WIRE_NONE ? (uint32_t)value : WIRE_NONE;
}

static uint64_t hex_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? strtoull(text, NULL, 16) : 0;
}

static char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? cli_clean(cli_copy(text)) : NULL;
}

static struct model_totals totals_of(const json_t *object) {
    struct model_totals totals;
#define X(name) totals.name = integer_of(object, #name);
    MODEL_TOTALS(X)
#undef X
    return totals;
}

static bool load_modules(struct model *model, const json_t *root, struct cli_failure *failure) {
    const json_t *list = json_object_get(root, "modules");
    model->module_count = json_array_size(list);
    model->modules = cli_alloc(model->module_count, sizeof *model->modules);
    for (size_t i = 0; i < model->module_count; i++) {
        const json_t *object = json_array_get(list, i);
        struct model_module *module = &model->modules[i];
        module->path = text_of(object, "path");
        if (!module->path)
            return damaged(model, failure, "a module has no path");
        module->start = hex_of(object, "start");
        module->end = hex_of(object, "end");
        module->bias = hex_of(object, "bias");
        module->closed = json_is_true(json_object_get(object, "closed"));
        module->symbols = text_of(object, "symbols");
        const char *id = json_string_value(json_object_get(object, "build_id"));
        size_t bytes = id ? strlen(id) / 2 : 0;
        bytes = bytes > sizeof module->build_id ? sizeof module->build_id : bytes;
        for (size_t k = 0; k < bytes; k++) {
            char digits[3] = {id[2 * k], id[2 * k + 1], '\0'};
            module->build_id[k] = (uint8_t)strtoul(digits, NULL, 16);
        }
        module->build_id_bytes = (uint32_t)bytes;
    }
    return true;
}

static void load_function(struct model_function *function, const json_t *object) {
    function->name = text_of(object, "function");
    function->file = text_of(object, "file");
    int64_t line = integer_of(object, "line");
    function->line = line > 0 ? line : 0;
}

/* Returns the index of the module with this path and bias. Tries the module of the last call first,
 * because neighbouring contexts mostly share a module. */
static uint32_t find_module(const struct model *model, const char *path, uint64_t bias) {
    static uint32_t last;
    if (last < model->module_count && model->modules[last].bias == bias &&
        strcmp(model->modules[last].path, path) == 0)
        return last;
    for (size_t i = 0; i < model->module_count; i++)
        if (model->modules[i].bias == bias && strcmp(model->modules[i].path, path) == 0)
            return last = (uint32_t)i;
    return WIRE_NONE;
}

static const struct model_names *load_names(const json_t *frame) {
    const json_t *inlined = json_object_get(frame, "inlined");
    struct model_names *names = cli_alloc(1, sizeof *names);
    names->count = 1 + (uint32_t)json_array_size(inlined);
    names->functions = cli_alloc(names->count, sizeof *names->functions);
    load_function(&names->functions[0], frame);
    for (uint32_t i = 1; i < names->count; i++)
        load_function(&names->functions[i], json_array_get(inlined, i - 1));
    return names->count > 1 || names->functions[0].name || names->functions[0].file ? names : NULL;
}

static bool load_path_frame(struct model *model, struct model_frame *context, const json_t *frame,
                            struct cli_failure *failure) {
    context->address = hex_of(frame, "addr");
    const char *path = json_string_value(json_object_get(frame, "module"));
    if (path) {
        uint64_t bias = context->address - hex_of(frame, "offset");
        char *clean = cli_clean(cli_copy(path));
        context->module = find_module(model, clean, bias);
        free(clean);
        if (context->module == WIRE_NONE)
            return damaged(model, failure, "a frame lies in a module that is not listed");
    }
    context->names = load_names(frame);
    return true;
}

/* Each context gets a frame of its own, because frames with equal addresses may have different
 * names in the file. */
static bool load_frame(struct model *model, struct model_frame *context, const json_t *frame,
                       struct cli_failure *failure) {
    if (!json_is_object(frame))
        return damaged(model, failure, "a context has no frame");
    if (context->kind != WIRE_KIND_PATH) {
        context->label = text_of(frame, "function");
        return true;
    }
    return load_path_frame(model, context, frame, failure);
}

/* Loads functions that ended in tail calls. Skips functions without a name or a module. */
static bool load_tails(struct model *model, uint32_t outer, uint32_t inner, const json_t *list,
                       struct cli_failure *failure) {
    struct model_tails tails = {.outer = outer, .inner = inner};
    size_t count = json_array_size(list);
    if (count == 0)
        return true;
    tails.frames = cli_alloc(count, sizeof *tails.frames);
    for (size_t i = 0; i < count; i++) {
        struct model_frame frame = {.kind = WIRE_KIND_PATH, .module = WIRE_NONE};
        if (!load_path_frame(model, &frame, json_array_get(list, i), failure))
            return false;
        if (frame.names && frame.module != WIRE_NONE)
            tails.frames[tails.count++] = frame;
    }
    tails_add(model, &tails);
    return true;
}

static uint8_t kind_of(const char *word, bool is_root) {
    return is_root                              ? WIRE_KIND_ROOT
           : word && strcmp(word, "path") == 0  ? WIRE_KIND_PATH
           : word && strcmp(word, "named") == 0 ? WIRE_KIND_NAMED
                                                : WIRE_KIND_UNKNOWN;
}

/* Returns the number from 0 to `most` for which `word_of` returns this word, or 0. */
static uint8_t number_of_word(const char *word, uint8_t most, const char *(*word_of)(uint8_t)) {
    for (uint8_t number = 0; word && number <= most; number++)
        if (strcmp(word, word_of(number)) == 0)
            return number;
    return 0;
}

static void load_folding(struct model_context *context, const json_t *object) {
    context->recursive_from = number_of(object, "recursive_from");
    context->flags = (json_object_get(object, "recursive") ? WIRE_CONTEXT_RECURSIVE : 0) |
                     (json_is_true(json_object_get(object, "partial")) ? WIRE_CONTEXT_PARTIAL : 0) |
                     (json_is_true(json_object_get(object, "late")) ? WIRE_CONTEXT_LATE : 0);
}

static bool load_contexts(struct model *model, const json_t *list, struct cli_failure *failure) {
    model->context_count = json_array_size(list);
    model->contexts = cli_alloc(model->context_count, sizeof *model->contexts);
    for (size_t i = 0; i < model->context_count; i++) {
        const json_t *object = json_array_get(list, i);
        struct model_context *context = &model->contexts[i];
        context->id = number_of(object, "id");
        context->parent = number_of(object, "parent");
        context->policy = number_of_word(json_string_value(json_object_get(object, "policy")),
                                         WIRE_POLICY_SIMPLE, model_policy_word);
        context->placement = number_of_word(json_string_value(json_object_get(object, "placement")),
                                            WIRE_PLACE_SIMPLE, model_placement_word);
        context->why = text_of(object, "why");
        struct model_frame frame = {
            .module = WIRE_NONE,
            .kind = kind_of(json_string_value(json_object_get(object, "kind")), i == 0),
            .exact_address = json_is_true(json_object_get(object, "exact_address"))};
        load_folding(context, object);
        const json_t *self = json_object_get(object, "self");
        if (context->id == WIRE_NONE || !json_is_object(self))
            return damaged(model, failure, "a context has no id or no figures");
        struct model_figures figures = {.self = totals_of(self)};
        const json_t *bins = json_object_get(object, "occupancy");
        for (size_t bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
            figures.occupancy[bin] = (uint32_t)json_integer_value(json_array_get(bins, bin));
        model_set_figures(model, context, &figures);
        if (i > 0 && !load_frame(model, &frame, json_object_get(object, "frame"), failure))
            return false;
        context->frame = model_new_frame(model, &frame);
    }
    return true;
}

static uint32_t thread_of(const struct model *model, uint32_t tid) {
    for (size_t i = 0; i < model->thread_count; i++)
        if (model->threads[i].tid == tid)
            return (uint32_t)i;
    return WIRE_NONE;
}

static bool load_all_tails(struct model *model, const json_t *list, struct cli_failure *failure) {
    for (size_t i = 1; i < model->context_count; i++) {
        const struct model_context *context = &model->contexts[i];
        const json_t *frame = json_object_get(json_array_get(list, i), "frame");
        uint32_t number = context->frame->number;
        if (!load_tails(model, model->contexts[context->parent].frame->number, number,
                        json_object_get(frame, "tail_calls"), failure) ||
            !load_tails(model, number, WIRE_NONE, json_object_get(frame, "tail_calls_to_malloc"),
                        failure))
            return false;
    }
    return true;
}

static bool load_views(struct model *model, const json_t *root, const json_t *list,
                       struct cli_failure *failure) {
    const json_t *threads = json_object_get(root, "threads");
    model->has_threads = json_is_array(threads);
    model->thread_count = json_array_size(threads);
    model->threads = cli_alloc(model->thread_count, sizeof *model->threads);
    for (size_t i = 0; i < model->thread_count; i++) {
        const json_t *object = json_array_get(threads, i);
        model->threads[i].tid = number_of(object, "tid");
        const char *name = json_string_value(json_object_get(object, "name"));
        snprintf(model->threads[i].name, sizeof model->threads[i].name, "%s", name ? name : "");
        cli_clean(model->threads[i].name);
    }
    size_t capacity = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        json_t *map = json_object_get(json_array_get(list, i), "threads");
        if (json_object_size(map) == 0)
            continue;
        struct model_figures *own = model_own_figures(model, &model->contexts[i]);
        const char *key;
        json_t *value;
        json_object_foreach(map, key, value) {
            uint32_t thread = thread_of(
                model, strcmp(key, MODEL_EXITED) == 0 ? 0 : (uint32_t)strtoul(key, NULL, 10));
            if (thread == WIRE_NONE)
                return damaged(model, failure,
                               "a thread view belongs to a thread that is not listed");
            if (model->view_count == capacity) {
                capacity = 2 * capacity + 64;
                model->views = cli_grow(model->views, capacity, sizeof *model->views);
            }
            model->views[model->view_count++] =
                (struct model_view){(uint32_t)i, thread, totals_of(value)};
            own->first_view =
                own->view_count++ == 0 ? (uint32_t)model->view_count - 1 : own->first_view;
        }
        model_fold_view(model, own);
    }
    return true;
}

static bool load_remotes(struct model *model, const json_t *root, struct cli_failure *failure) {
    const json_t *list = json_object_get(root, "remote_frees");
    model->remote_count = json_array_size(list);
    model->remotes = cli_alloc(model->remote_count, sizeof *model->remotes);
    for (size_t i = 0; i < model->remote_count; i++) {
        const json_t *object = json_array_get(list, i);
        uint32_t tids[] = {number_of(object, "freed_by"), number_of(object, "owner")}, found[2];
        for (int k = 0; k < 2; k++) {
            found[k] = thread_of(model, tids[k]);
            if (found[k] == WIRE_NONE)
                return damaged(model, failure,
                               "remote frees belong to a thread that is not listed");
        }
        model->remotes[i] = (struct model_remote){found[0], found[1], integer_of(object, "frees")};
    }
    return true;
}

static void load_resizes(struct model *model, const json_t *root) {
    const json_t *list = json_object_get(root, "reallocs");
    int64_t lost = integer_of(root, "lost_reallocs");
    model->lost_reallocs = lost == WIRE_UNKNOWN ? 0 : lost;
    model->resizes = cli_alloc(json_array_size(list), sizeof *model->resizes);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        uint32_t context = model_find_context(model, number_of(object, "context"));
        if (context == WIRE_NONE)
            continue;
        struct wire_resizes *resizes = &model->resizes[model->resize_count++];
        resizes->context = context;
#define X(name) resizes->name = integer_of(object, #name);
        MODEL_RESIZES(X)
#undef X
        model_own_figures(model, &model->contexts[context]);
    }
    model_sort_resizes(model);
}

static void load_notes(struct model *model, const json_t *root) {
    const json_t *list = json_object_get(root, "notes");
    model->note_count = json_array_size(list);
    model->notes = cli_alloc(model->note_count, sizeof *model->notes);
    for (size_t i = 0; i < model->note_count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        model->notes[i] = cli_clean(cli_copy(text ? text : ""));
    }
}

/* Reads the numbers of a page in the order of write_page (emit.c). A missing number, and a value
 * that is not a number, is 0. */
struct page_reader {
    const json_t *list;
    size_t next;
};

static int64_t next_number(struct page_reader *reader) {
    return json_integer_value(json_array_get(reader->list, reader->next++));
}

static uint32_t next_small(struct page_reader *reader) {
    int64_t value = next_number(reader);
    return value >= 0 && value < WIRE_NONE ? (uint32_t)value : 0;
}

static bool next_is_null(const struct page_reader *reader) {
    return json_is_null(json_array_get(reader->list, reader->next));
}

static bool load_page(struct model *model, struct wire_page *page, const json_t *list) {
    struct page_reader reader = {.list = list};
    page->start = (uint64_t)next_number(&reader);
    page->bytes = (uint64_t)next_number(&reader);
    page->touched_bytes = (uint64_t)next_number(&reader);
    page->live_bytes = (uint64_t)next_number(&reader);
    page->resident_bytes = next_is_null(&reader) ? WIRE_UNKNOWN : 0;
    page->resident_bytes += next_number(&reader);
    bool shared = next_is_null(&reader);
    uint32_t context = next_small(&reader);
    page->context = shared ? WIRE_NONE : model_find_context(model, context);
    if (!shared && page->context == WIRE_NONE)
        return false;
    page->block_bytes = next_small(&reader);
    page->live = next_small(&reader);
    page->capacity = next_small(&reader);
    page->tid = next_small(&reader);
    page->oldest_age = next_small(&reader);
    page->newest_age = next_small(&reader);
    page->kind = (uint8_t)next_small(&reader);
    page->state = (uint8_t)next_small(&reader);
    page->apart = (uint8_t)next_small(&reader);
    page->spare_units = (uint8_t)next_small(&reader);
    for (size_t i = 0; i < WIRE_OCCUPANCY_BINS; i++)
        page->os_pages[i] = (uint16_t)next_small(&reader);
    page->os_empty = (uint16_t)next_small(&reader);
    page->first_share = (uint32_t)model->share_count;
    model_tame_page(page);
    size_t size = json_array_size(list);
    while (reader.next + 1 < size) {
        struct model_share *share = &model->shares[model->share_count++];
        share->context = model_find_context(model, next_small(&reader));
        share->live = next_small(&reader);
        page->share_count++;
        if (share->context == WIRE_NONE)
            return false;
    }
    return true;
}

static bool load_pages(struct model *model, const json_t *root, struct cli_failure *failure) {
    const json_t *list = json_object_get(root, "pages");
    size_t numbers = 0;
    /* Pages with another count of numbers are ignored: another version wrote them, with other
     * meanings. */
    model->has_pages = json_is_array(list) &&
                       json_integer_value(json_object_get(root, "page_numbers")) == PAGE_NUMBERS;
    list = model->has_pages ? list : NULL;
    model->page_count = json_array_size(list);
    for (size_t i = 0; i < model->page_count; i++)
        numbers += json_array_size(json_array_get(list, i));
    model->pages = cli_alloc(model->page_count, sizeof *model->pages);
    model->shares = cli_alloc(numbers / 2 + 1, sizeof *model->shares);
    for (size_t i = 0; i < model->page_count; i++)
        if (!load_page(model, &model->pages[i], json_array_get(list, i)))
            return damaged(model, failure, "a page belongs to a context that is not listed");
    return true;
}

static void load_mark_entries(struct model *model, struct model_mark *mark, const json_t *list) {
    size_t count = json_array_size(list);
    mark->entries = cli_alloc(count, sizeof *mark->entries);
    mark->has_entries = true;
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(list, i);
        uint32_t index = model_find_context(model, number_of(object, "id"));
        if (index != WIRE_NONE) {
            mark->entries[mark->entry_count++] = (struct wire_mark_entry){
                .context = index,
                .requested_bytes = integer_of(object, "requested_bytes"),
                .live_chunks = integer_of(object, "live_chunks"),
                .allocs = integer_of(object, "allocs"),
                .frees = integer_of(object, "frees"),
                .requested_cum_bytes = integer_of(object, "requested_cum_bytes"),
            };
        }
    }
}

static void load_left_out(struct wire_left_out *out, const json_t *object) {
    if (!json_is_object(object))
        return;
    *out = (struct wire_left_out){
        .contexts = number_of(object, "contexts"),
        .ids_below = number_of(object, "ids_below"),
        .most_bytes = integer_of(object, "most_bytes"),
        .requested_bytes = integer_of(object, "requested_bytes"),
        .live_chunks = integer_of(object, "live_chunks"),
        .allocs = integer_of(object, "allocs"),
        .frees = integer_of(object, "frees"),
        .requested_cum_bytes = integer_of(object, "requested_cum_bytes"),
    };
}

/* The object is NULL in a snapshot of an earlier version. */
static void load_elsewhere(struct wire_elsewhere *elsewhere, const json_t *object) {
#define X(name) elsewhere->name = integer_of(object, #name);
    SNAPSHOT_ELSEWHERE(X)
#undef X
    model_tame_elsewhere(elsewhere);
}

static void load_marks(struct model *model, const json_t *root) {
    const json_t *list = json_object_get(root, "marks");
    model->mark_count = json_array_size(list);
    model->marks = cli_alloc(model->mark_count, sizeof *model->marks);
    for (size_t i = 0; i < model->mark_count; i++) {
        const json_t *object = json_array_get(list, i);
        struct model_mark *mark = &model->marks[i];
        const char *name = json_string_value(json_object_get(object, "name"));
        snprintf(mark->name, sizeof mark->name, "%s", name ? name : "");
        cli_clean(mark->name);
        mark->uptime_s = json_number_value(json_object_get(object, "uptime_s"));
        mark->slept_s = json_number_value(json_object_get(object, "slept_s"));
        mark->rss_bytes = json_integer_value(json_object_get(object, "rss_bytes"));
        if (mark->rss_bytes <= 0)
            mark->rss_bytes = WIRE_UNKNOWN;
        load_elsewhere(&mark->elsewhere, json_object_get(object, "elsewhere"));
        load_left_out(&mark->left_out, json_object_get(object, "left_out"));
        const json_t *entries = json_object_get(object, "contexts");
        if (json_is_array(entries))
            load_mark_entries(model, mark, entries);
    }
}

static bool load_memory(struct model *model, const json_t *root, struct cli_failure *failure) {
    const json_t *ledger = json_object_get(root, "ledger");
    if (!json_is_object(ledger))
        return damaged(model, failure, "it has no ledger");
#define X(name) model->ledger.name = integer_of(ledger, #name);
    MODEL_LEDGER(X)
#undef X
    const json_t *mappings = json_object_get(root, "mappings");
    model->has_mappings = json_is_object(mappings);
#define X(name) model->mappings.name = integer_of(mappings, #name);
    MODEL_MAPPINGS(X)
#undef X
    return true;
}

static bool load_root(struct model *model, const json_t *root, struct cli_failure *failure) {
    model->pid = integer_of(root, "pid");
    model->exe = text_of(root, "exe");
    model->program = text_of(root, "program");
    model->uptime_s = json_number_value(json_object_get(root, "uptime_s"));
    model->slept_s = json_number_value(json_object_get(root, "slept_s"));
    model->resets = (uint32_t)json_integer_value(json_object_get(root, "counter_resets"));
    model->depth = integer_of(root, "depth");
    model->exact = json_is_true(json_object_get(root, "exact"));
    model->how = text_of(root, "how");
    int64_t start_ticks = integer_of(root, "start_ticks");
    model->start_ticks = start_ticks > 0 ? (uint64_t)start_ticks : 0;
    model->library_version = text_of(root, "library_version");
    model->build_ns = integer_of(root, "build_ns");
    model->has_names = json_is_true(json_object_get(root, "has_names"));
    if (!model->exe || model->pid == WIRE_UNKNOWN)
        return damaged(model, failure, "it has no pid or no exe");
    if (json_is_true(json_object_get(root, "filtered"))) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: holds only some contexts; take a snapshot without --site, --context, "
                        "--min and --depth",
                        model->source);
    }
    const json_t *contexts = json_object_get(root, "contexts");
    if (!load_memory(model, root, failure) || !load_modules(model, root, failure) ||
        !load_contexts(model, contexts, failure) || !model_link(model, failure) ||
        !load_all_tails(model, contexts, failure) || !load_views(model, root, contexts, failure) ||
        !load_remotes(model, root, failure) || !load_pages(model, root, failure))
        return false;
    load_marks(model, root);
    load_notes(model, root);
    load_resizes(model, root);
    model_add_up(model);
    return true;
}

/* Returns true if the text begins like a JSON snapshot of any version. */
static bool begins_as_ours(const char *bytes) {
    static const char opening[] = "{\"schema\":\"memctx/";
    return strncmp(bytes, opening, strlen(opening)) == 0;
}

bool snapshot_read_json(struct model *model, const char *bytes, size_t length,
                        struct cli_failure *failure) {
    json_error_t error;
    json_t *root = json_loadb(bytes, length, 0, &error);
    bool ours = begins_as_ours(bytes);
    if (!root && ours && json_error_code(&error) == json_error_premature_end_of_input) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: truncated snapshot; it ends after %zu bytes in the middle of the "
                        "object; take it again with memctx dump -o",
                        model->source, length);
    }
    if (!root && ours) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: damaged snapshot; line %d: %s; take it again with memctx dump -o",
                        model->source, error.line, error.text);
    }
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strncmp(schema, "memctx/", strlen("memctx/")) != 0)
        return cli_fail(failure, CLI_REFUSED, SNAPSHOT_NOT_ONE, model->source);
    if (strcmp(schema, SCHEMA) != 0) {
        return cli_fail(failure, CLI_REFUSED,
                        "%s: snapshot of schema %s; this memctx (%s) reads %s; use the memctx "
                        "that wrote it",
                        model->source, schema, CLI_VERSION, SCHEMA);
    }
    bool good = load_root(model, root, failure);
    json_decref(root);
    return good;
}
