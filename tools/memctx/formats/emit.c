/* SPDX-License-Identifier: MIT */
/*
 * emit.c - writes a model as JSON, schema memctx/1.
 *
 * The output is one object. Each context, module and mark is one line, so that files can be
 * compared line by line. In a snapshot file the object has more keys: the counters of the marks,
 * the notes and the pages. Other output lacks them, because the command can ask a live process for
 * them.
 */
#include "formats/emit.h"

#include <stdlib.h>

#include "base/json.h"
#include "model/folding.h"
#include "model/frames.h"
#include "model/tails.h"

void emit_totals(struct json_writer *json, const char *key, const struct model_totals *totals) {
    json_put_open(json, key, '{');
#define X(name) json_put_integer(json, #name, totals->name);
    MODEL_TOTALS(X)
#undef X
    json_put_close(json, '}');
}

static void write_place(struct json_writer *json, const struct model *model,
                        const struct model_frame *frame) {
    if (frame->kind != WIRE_KIND_PATH) {
        json_put_null(json, "addr");
        json_put_null(json, "module");
        json_put_null(json, "offset");
        return;
    }
    json_put_hex(json, "addr", frame->address);
    if (frame->module == WIRE_NONE) {
        json_put_null(json, "module");
        json_put_null(json, "offset");
        return;
    }
    const struct model_module *module = &model->modules[frame->module];
    json_put_text(json, "module", module->path);
    json_put_hex(json, "offset", frame->address - module->bias);
}

static void write_function(struct json_writer *json, const struct model_function *function) {
    json_put_text(json, "function", function ? function->name : NULL);
    json_put_text(json, "file", function ? function->file : NULL);
    json_put_integer(json, "line", function && function->file ? function->line : WIRE_UNKNOWN);
}

/* Writes the keys of a frame, without the braces around them. */
static void write_frame(struct json_writer *json, const struct model *model,
                        const struct model_frame *frame, bool names) {
    const struct model_names *found = names ? frame->names : NULL;
    write_place(json, model, frame);
    if (frame->kind != WIRE_KIND_PATH) {
        struct model_function label = {.name = frame->label};
        write_function(json, &label);
    } else {
        write_function(json, found ? &found->functions[0] : NULL);
    }
    json_put_open(json, "inlined", '[');
    for (uint32_t i = 1; found && i < found->count; i++) {
        json_put_open(json, NULL, '{');
        write_place(json, model, frame);
        write_function(json, &found->functions[i]);
        json_put_open(json, "inlined", '[');
        json_put_close(json, ']');
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

static void write_tails(struct json_writer *json, const char *key, const struct model *model,
                        const struct model_tails *tails) {
    if (!tails)
        return;
    json_put_open(json, key, '[');
    for (uint32_t i = 0; i < tails->count; i++) {
        json_put_open(json, NULL, '{');
        write_frame(json, model, &tails->frames[i], true);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

void emit_frame(struct json_writer *json, const char *key, const struct model *model,
                const struct model_context *context, bool names) {
    if (context->frame->kind == WIRE_KIND_ROOT) {
        json_put_null(json, key);
        return;
    }
    json_put_open(json, key, '{');
    write_frame(json, model, context->frame, names);
    if (names) {
        write_tails(json, "tail_calls", model, tails_before(model, context));
        write_tails(json, "tail_calls_to_malloc", model, tails_to_malloc(model, context));
    }
    json_put_close(json, '}');
}

void emit_path(struct json_writer *json, const struct model *model, uint32_t context,
               uint32_t frames) {
    json_put_open(json, "path", '[');
    for (uint32_t i = 0; i < frames && model->contexts[context].parent != WIRE_NONE; i++) {
        char *name = frames_write(model, &model->contexts[context], true);
        json_put_text(json, NULL, name);
        free(name);
        context = model->contexts[context].parent;
    }
    json_put_close(json, ']');
}

static void write_threads(struct json_writer *json, const struct model *model,
                          const struct model_context *context) {
    json_put_open(json, "threads", '{');
    for (uint32_t i = 0; i < context->figures->view_count; i++) {
        struct model_view view = model_view_at(model, context->figures, i);
        uint32_t tid = model->threads[view.thread].tid;
        char key[16];
        snprintf(key, sizeof key, "%u", tid);
        emit_totals(json, tid == 0 ? MODEL_EXITED : key, &view.totals);
    }
    json_put_close(json, '}');
}

/* Writes the functions of a recursive context's loop (model/folding.h): names, or addresses where
 * there is no name. */
static void write_loop(struct json_writer *json, const struct model *model,
                       const struct model_context *context, bool names) {
    uint32_t loop[MODEL_LEVELS_MAX];
    size_t count =
        folding_find_loop(model, (uint32_t)(context - model->contexts), loop, MODEL_LEVELS_MAX);
    json_put_open(json, "recursive", '[');
    for (size_t i = 0; i < count; i++) {
        const struct model_context *step = &model->contexts[loop[i]];
        if (step->frame->kind != WIRE_KIND_PATH)
            json_put_text(json, NULL, step->frame->label);
        else if (names && step->frame->names && step->frame->names->functions[0].name)
            json_put_text(json, NULL, step->frame->names->functions[0].name);
        else
            json_put_hex(json, NULL, step->frame->address);
    }
    json_put_close(json, ']');
}

static void write_folding(struct json_writer *json, const struct model *model,
                          const struct model_context *context, bool names) {
    if (context->flags & WIRE_CONTEXT_RECURSIVE)
        write_loop(json, model, context, names);
    if (context->recursive_from != WIRE_NONE)
        json_put_integer(json, "recursive_from", model->contexts[context->recursive_from].id);
    if (context->flags & WIRE_CONTEXT_PARTIAL)
        json_put_boolean(json, "partial", true);
    if (context->flags & WIRE_CONTEXT_LATE)
        json_put_boolean(json, "late", true);
}

static void write_context(struct json_writer *json, const struct model *model,
                          const struct model_context *context,
                          const struct model_write_options *options) {
    json_put_newline(json);
    json_put_open(json, NULL, '{');
    json_put_integer(json, "id", context->id);
    json_put_integer(json, "parent",
                     context->parent == WIRE_NONE ? WIRE_UNKNOWN
                                                  : model->contexts[context->parent].id);
    json_put_text(json, "kind", model_kind_word(context));
    json_put_text(json, "policy", model_policy_word(context->policy));
    emit_frame(json, "frame", model, context, options->names);
    emit_totals(json, "self", &context->figures->self);
    emit_totals(json, "total", context->total);
    json_put_open(json, "occupancy", '[');
    for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
        json_put_integer(json, NULL, context->figures->occupancy[bin]);
    json_put_close(json, ']');
    if (context->placement != WIRE_PLACE_DEFAULT)
        json_put_text(json, "placement", model_placement_word(context->placement));
    if (context->why)
        json_put_text(json, "why", context->why);
    if (context->frame->exact_address)
        json_put_boolean(json, "exact_address", true);
    write_folding(json, model, context, options->names);
    if (options->threads)
        write_threads(json, model, context);
    json_put_close(json, '}');
}

static void write_left_out(struct json_writer *json, const struct wire_left_out *out) {
    json_put_open(json, "left_out", '{');
    json_put_integer(json, "contexts", (int64_t)out->contexts);
    json_put_integer(json, "ids_below", (int64_t)out->ids_below);
    json_put_integer(json, "most_bytes", out->most_bytes);
    json_put_integer(json, "requested_bytes", out->requested_bytes);
    json_put_integer(json, "live_chunks", out->live_chunks);
    json_put_integer(json, "allocs", out->allocs);
    json_put_integer(json, "frees", out->frees);
    json_put_integer(json, "requested_cum_bytes", out->requested_cum_bytes);
    json_put_close(json, '}');
}

void emit_elsewhere(struct json_writer *json, const struct wire_elsewhere *elsewhere) {
    if (elsewhere->private_bytes == WIRE_UNKNOWN)
        return;
    json_put_open(json, "elsewhere", '{');
    json_put_integer(json, "private_bytes", elsewhere->private_bytes);
    json_put_integer(json, "shared_bytes", elsewhere->shared_bytes);
    json_put_integer(json, "file_bytes", elsewhere->file_bytes);
    json_put_integer(json, "data_bytes", elsewhere->data_bytes);
    json_put_integer(json, "swap_bytes", elsewhere->swap_bytes);
    json_put_close(json, '}');
}

static void write_marks(struct json_writer *json, const struct model *model, bool entries) {
    json_put_open(json, "marks", '[');
    for (size_t i = 0; i < model->mark_count; i++) {
        const struct model_mark *mark = &model->marks[i];
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_text(json, "name", mark->name);
        json_put_decimal(json, "uptime_s", mark->uptime_s);
        if (mark->slept_s > 0)
            json_put_decimal(json, "slept_s", mark->slept_s);
        if (mark->rss_bytes != WIRE_UNKNOWN)
            json_put_integer(json, "rss_bytes", mark->rss_bytes);
        emit_elsewhere(json, &mark->elsewhere);
        if (mark->left_out.contexts > 0)
            write_left_out(json, &mark->left_out);
        if (entries && mark->has_entries) {
            json_put_open(json, "contexts", '[');
            for (size_t k = 0; k < mark->entry_count; k++) {
                const struct wire_mark_entry *entry = &mark->entries[k];
                json_put_open(json, NULL, '{');
                json_put_integer(json, "id", model->contexts[entry->context].id);
                json_put_integer(json, "requested_bytes", entry->requested_bytes);
                json_put_integer(json, "live_chunks", entry->live_chunks);
                json_put_integer(json, "allocs", entry->allocs);
                json_put_integer(json, "frees", entry->frees);
                json_put_integer(json, "requested_cum_bytes", entry->requested_cum_bytes);
                json_put_close(json, '}');
            }
            json_put_close(json, ']');
        }
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

static void write_modules(struct json_writer *json, const struct model *model, bool names) {
    json_put_open(json, "modules", '[');
    for (size_t i = 0; i < model->module_count; i++) {
        const struct model_module *module = &model->modules[i];
        char build_id[2 * sizeof module->build_id + 1] = "";
        for (size_t k = 0; k < module->build_id_bytes; k++)
            snprintf(build_id + 2 * k, 3, "%02x", module->build_id[k]);
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_text(json, "path", module->path);
        json_put_hex(json, "start", module->start);
        json_put_hex(json, "end", module->end);
        json_put_hex(json, "bias", module->bias);
        json_put_text(json, "build_id", module->build_id_bytes > 0 ? build_id : NULL);
        json_put_boolean(json, "closed", module->closed);
        json_put_text(json, "symbols", names ? module->symbols : NULL);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

/* Writes a page as a list of numbers, because a dump may have very many pages. The numbers, most of
 * them fields of struct wire_page, are in this order: start, bytes, touched bytes, live bytes,
 * resident bytes, id of the context or null, block bytes, live blocks, capacity, tid, oldest age,
 * newest age, kind, state, apart, spare units, the OS pages by share of live bytes, the empty OS
 * pages, then context id and live blocks of each share. */
static void write_page(struct json_writer *json, const struct model *model,
                       const struct wire_page *page) {
    json_put_newline(json);
    json_put_open(json, NULL, '[');
    json_put_integer(json, NULL, (int64_t)page->start);
    json_put_integer(json, NULL, (int64_t)page->bytes);
    json_put_integer(json, NULL, (int64_t)page->touched_bytes);
    json_put_integer(json, NULL, (int64_t)page->live_bytes);
    json_put_integer(json, NULL, page->resident_bytes);
    json_put_integer(json, NULL,
                     page->context == WIRE_NONE ? WIRE_UNKNOWN : model->contexts[page->context].id);
    const uint32_t numbers[] = {page->block_bytes, page->live,       page->capacity, page->tid,
                                page->oldest_age,  page->newest_age, page->kind,     page->state,
                                page->apart,       page->spare_units};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_integer(json, NULL, numbers[i]);
    for (size_t i = 0; i < WIRE_OCCUPANCY_BINS; i++)
        json_put_integer(json, NULL, page->os_pages[i]);
    json_put_integer(json, NULL, page->os_empty);
    for (uint32_t i = 0; i < page->share_count; i++) {
        const struct model_share *share = &model->shares[page->first_share + i];
        json_put_integer(json, NULL, model->contexts[share->context].id);
        json_put_integer(json, NULL, share->live);
    }
    json_put_close(json, ']');
}

static void write_pages(struct json_writer *json, const struct model *model) {
    json_put_newline(json);
    json_put_integer(json, "page_numbers", PAGE_NUMBERS);
    json_put_open(json, "pages", '[');
    for (size_t i = 0; i < model->page_count; i++)
        write_page(json, model, &model->pages[i]);
    json_put_close(json, ']');
}

static void write_notes(struct json_writer *json, const struct model *model) {
    json_put_newline(json);
    json_put_open(json, "notes", '[');
    for (size_t i = 0; i < model->note_count; i++)
        json_put_text(json, NULL, model->notes[i]);
    json_put_close(json, ']');
}

static void write_remotes(struct json_writer *json, const struct model *model) {
    json_put_newline(json);
    json_put_open(json, "remote_frees", '[');
    for (size_t i = 0; i < model->remote_count; i++) {
        const struct model_remote *remote = &model->remotes[i];
        json_put_open(json, NULL, '{');
        json_put_integer(json, "freed_by", model->threads[remote->freed_by].tid);
        json_put_integer(json, "owner", model->threads[remote->owner].tid);
        json_put_integer(json, "frees", remote->frees);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

/* Writes the counts of realloc of each context that is written and resized chunks. */
static void write_resizes(struct json_writer *json, const struct model *model,
                          const struct model_write_options *options) {
    json_put_newline(json);
    json_put_integer(json, "lost_reallocs", model->lost_reallocs);
    json_put_open(json, "reallocs", '[');
    for (size_t i = 0; i < model->resize_count; i++) {
        const struct wire_resizes *resizes = &model->resizes[i];
        if (options->shown && !options->shown[resizes->context])
            continue;
        json_put_open(json, NULL, '{');
        json_put_integer(json, "context", model->contexts[resizes->context].id);
#define X(name) json_put_integer(json, #name, resizes->name);
        MODEL_RESIZES(X)
#undef X
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
}

static void write_memory(struct json_writer *json, const struct model *model) {
    json_put_open(json, "ledger", '{');
#define X(name) json_put_integer(json, #name, model->ledger.name);
    MODEL_LEDGER(X)
#undef X
    json_put_close(json, '}');
    if (model->has_mappings) {
        json_put_newline(json);
        json_put_open(json, "mappings", '{');
#define X(name) json_put_integer(json, #name, model->mappings.name);
        MODEL_MAPPINGS(X)
#undef X
        json_put_close(json, '}');
    }
}

static void write_thread_list(struct json_writer *json, const struct model *model) {
    json_put_newline(json);
    json_put_open(json, "threads", '[');
    for (size_t i = 0; i < model->thread_count; i++) {
        json_put_newline(json);
        json_put_open(json, NULL, '{');
        json_put_integer(json, "tid", model->threads[i].tid);
        json_put_text(json, "name", model->threads[i].name);
        json_put_close(json, '}');
    }
    json_put_close(json, ']');
    write_remotes(json, model);
}

void emit_json(const struct model *model, FILE *file, const struct model_write_options *options) {
    struct json_writer json = {.file = file};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx/1");
    json_put_integer(&json, "pid", model->pid);
    json_put_text(&json, "exe", model->exe);
    json_put_text(&json, "program", model_program(model));
    json_put_decimal(&json, "uptime_s", model->uptime_s);
    if (model->slept_s > 0)
        json_put_decimal(&json, "slept_s", model->slept_s);
    if (model->resets > 0)
        json_put_integer(&json, "counter_resets", model->resets);
    json_put_integer(&json, "depth", model->depth);
    json_put_boolean(&json, "exact", model->exact);
    if (model->how)
        json_put_text(&json, "how", model->how);
    if (!model->exact)
        json_put_text(&json, "doubt", model_doubt(model));
    json_put_integer(&json, "rss_bytes", model->ledger.rss_bytes);
    json_put_integer(&json, "start_ticks", (int64_t)model->start_ticks);
    json_put_text(&json, "library_version", model->library_version);
    json_put_integer(&json, "build_ns", model->build_ns);
    json_put_boolean(&json, "has_names", options->names);
    json_put_boolean(&json, "filtered", options->shown != NULL);
    json_put_newline(&json);
    emit_totals(&json, "totals", &model->totals);
    struct folding_shares shares = folding_add_shares(model);
    json_put_open(&json, "full_paths", '{');
    json_put_integer(&json, "requested_bytes", shares.full_bytes);
    json_put_integer(&json, "allocs", shares.full_allocs);
    json_put_close(&json, '}');
    json_put_newline(&json);
    write_memory(&json, model);
    json_put_newline(&json);
    write_marks(&json, model, options->snapshot);
    json_put_newline(&json);
    write_modules(&json, model, options->names);
    if (options->threads)
        write_thread_list(&json, model);
    if (options->snapshot) {
        write_notes(&json, model);
        if (model->has_pages)
            write_pages(&json, model);
    }
    write_resizes(&json, model, options);
    json_put_newline(&json);
    json_put_open(&json, "contexts", '[');
    for (size_t i = 0; i < model->context_count; i++)
        if (!options->shown || options->shown[i])
            write_context(&json, model, &model->contexts[i], options);
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putc('\n', file);
}
