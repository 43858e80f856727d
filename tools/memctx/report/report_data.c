/* SPDX-License-Identifier: MIT */
/*
 * report_data.c - writes the figures of a report.
 *
 * The figures are stored by column, and as differences where these are shorter, because a report
 * may have very many contexts.
 */
#include "report/report_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "diagnosis/tell.h"
#include "formats/emit.h"
#include "model/frames.h"
#include "pages/holders.h"
#include "report/report_parts.h"

/* greatest number of cells of the page map; with more pages, some share a cell */
#define CELLS_MAX 40000
/* greatest number of rows of changes: those of the contexts that changed most */
#define DIFF_ROWS_MAX 2000

/* --- names ----------------------------------------------------------------------------------- */

/* Writes each name once; numbers[] receives the number of each context's name. */
static void write_names(struct json_writer *json, const struct model *model, uint32_t *numbers) {
    size_t slots = 1024, count = 0;
    while (slots < 4 * model->context_count)
        slots *= 2;
    char **table = cli_alloc(slots, sizeof *table);
    uint32_t *number_of = cli_alloc(slots, sizeof *number_of);
    json_put_open(json, "names", '[');
    for (size_t i = 0; i < model->context_count; i++) {
        char *name = frames_write(model, &model->contexts[i], false);
        uint64_t hash = 5381;
        for (const char *at = name; *at != '\0'; at++)
            hash = hash * 33 + (unsigned char)*at;
        size_t slot = (hash ^ hash >> 17) & (slots - 1);
        while (table[slot] && strcmp(table[slot], name) != 0)
            slot = (slot + 1) & (slots - 1);
        if (!table[slot]) {
            table[slot] = name;
            number_of[slot] = (uint32_t)count++;
            json_put_text(json, NULL, name);
        } else {
            free(name);
        }
        numbers[i] = number_of[slot];
    }
    json_put_close(json, ']');
    for (size_t i = 0; i < slots; i++)
        free(table[i]);
    free(table);
    free(number_of);
}

/* --- contexts -------------------------------------------------------------------------------- */

/* Writes the ids, parents and names of all contexts. */
static void write_tree(struct json_writer *json, const struct model *model, const uint32_t *names) {
    /* Differences have fewer digits than ids. id_step: the id less the id of the context before.
     * parent_step: the context's index less its parent's index; 1 for the root. */
    json_put_open(json, "id_step", '[');
    for (size_t i = 0; i < model->context_count; i++) {
        json_put_integer(json, NULL,
                         (int64_t)model->contexts[i].id - (i > 0 ? model->contexts[i - 1].id : 0));
    }
    json_put_close(json, ']');
    json_put_open(json, "parent_step", '[');
    for (size_t i = 0; i < model->context_count; i++) {
        uint32_t parent = model->contexts[i].parent;
        json_put_integer(json, NULL, parent == WIRE_NONE ? 1 : (int64_t)i - parent);
    }
    json_put_close(json, ']');
    json_put_open(json, "name", '[');
    for (size_t i = 0; i < model->context_count; i++)
        json_put_integer(json, NULL, names[i]);
    json_put_close(json, ']');
}

/* Writes the names of the figures, and a row for each context that has figures. */
static void write_rows(struct json_writer *json, const struct model *model) {
    json_put_open(json, "figures", '[');
#define X(figure) json_put_text(json, NULL, #figure);
    MODEL_TOTALS(X)
#undef X
    json_put_close(json, ']');
    json_put_newline(json);
    json_put_open(json, "rows", '[');
    size_t last = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_totals *self = &model->contexts[i].figures->self;
        if (!model_totals_any(self))
            continue;
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, (int64_t)(i - last));
#define X(figure) json_put_integer(json, NULL, self->figure);
        MODEL_TOTALS(X)
#undef X
        json_put_close(json, ']');
        last = i;
    }
    json_put_close(json, ']');
}

/* Most contexts have no pages of their own, and are left out. */
static void write_occupancy(struct json_writer *json, const struct model *model) {
    json_put_open(json, "occupancy", '[');
    for (size_t i = 0; i < model->context_count; i++) {
        if (model_tame(model->contexts[i].figures->self.pages) == 0)
            continue;
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, (int64_t)i);
        for (int bin = 0; bin < WIRE_OCCUPANCY_BINS; bin++)
            json_put_integer(json, NULL, model->contexts[i].figures->occupancy[bin]);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
}

static void write_contexts(struct json_writer *json, const struct model *model) {
    uint32_t *names = cli_alloc(model->context_count, sizeof *names);
    write_names(json, model, names);
    json_put_newline(json);
    json_put_open(json, "contexts", '{');
    write_tree(json, model, names);
    write_rows(json, model);
    json_put_close(json, '}');
    json_put_newline(json);
    write_occupancy(json, model);
    free(names);
}

/* --- the page map ---------------------------------------------------------------------------- */

/* A cell of the page map: one page, or a group of neighbouring pages. Its owner, kind and state are
 * those of the page with most touched bytes. */
struct cell {
    uint64_t start, bytes, touched;
    int64_t live_bytes;
    /* number of pages in the cell; index of the page with most touched bytes */
    uint32_t pages, page;
    uint32_t live, capacity, oldest;
};

static struct cell *make_cells(const struct model *model, size_t *count) {
    size_t group = model->page_count / CELLS_MAX + 1;
    struct cell *cells = cli_alloc(model->page_count / group + 1, sizeof *cells);
    *count = 0;
    for (size_t i = 0; i < model->page_count; i++) {
        const struct wire_page *page = &model->pages[i];
        if (i % group == 0)
            cells[(*count)++] = (struct cell){.start = page->start, .page = (uint32_t)i};
        struct cell *cell = &cells[*count - 1];
        if (page->touched_bytes > model->pages[cell->page].touched_bytes)
            cell->page = (uint32_t)i;
        cell->bytes += page->bytes;
        cell->touched += page->touched_bytes;
        cell->live_bytes += (int64_t)page->live_bytes;
        cell->live += page->live;
        cell->capacity += page->capacity;
        cell->oldest = page->oldest_age > cell->oldest ? page->oldest_age : cell->oldest;
        cell->pages++;
    }
    return cells;
}

/* A cell is written as a list: KiB from the start of the cell before, size in KiB, touched KiB,
 * live bytes, owner's context or -1, kind, state, pages, live chunks, capacity, seconds since the
 * oldest of the pages was made. In a mixed page, the contexts with most live blocks follow
 * (SHARES_SHOWN at most), each with the number of these blocks. */
#define SHARES_SHOWN 3

static void write_cell(struct json_writer *json, const struct model *model, const struct cell *cell,
                       uint64_t before) {
    const struct wire_page *page = &model->pages[cell->page];
    const int64_t numbers[] = {(int64_t)(cell->start - before) / 1024,
                               (int64_t)(cell->bytes / 1024),
                               (int64_t)(cell->touched / 1024),
                               cell->live_bytes,
                               page->context == WIRE_NONE ? -1 : (int64_t)page->context,
                               page->kind,
                               page->state,
                               cell->pages,
                               cell->live,
                               cell->capacity,
                               (int64_t)holders_seconds(cell->oldest)};
    json_put_open(json, NULL, '[');
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_integer(json, NULL, numbers[i]);
    const struct model_share *shares = model->shares + page->first_share, *last = NULL;
    for (int k = 0; k < SHARES_SHOWN;
         k++) { /* finds the share behind `last` in the order of falling live blocks */
        const struct model_share *best = NULL;
        for (const struct model_share *share = shares; share < shares + page->share_count;
             share++) {
            bool behind =
                !last || share->live < last->live || (share->live == last->live && share > last);
            if (behind && (!best || share->live > best->live))
                best = share;
        }
        if (!best)
            break;
        json_put_integer(json, NULL, best->context);
        json_put_integer(json, NULL, best->live);
        last = best;
    }
    json_put_close(json, ']');
}

static void write_cells(struct json_writer *json, const struct model *model) {
    size_t count;
    uint64_t before = 0;
    struct cell *cells = make_cells(model, &count);
    json_put_newline(json);
    json_put_open(json, "cells", '[');
    for (size_t i = 0; i < count; i++) {
        write_cell(json, model, &cells[i], before);
        before = cells[i].start;
    }
    json_put_close(json, ']');
    free(cells);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void write_state(struct json_writer *json, const struct report_state *state) {
    const struct model *model = state->model;
    json_put_text(json, "title", state->title);
    json_put_decimal(json, "uptime_s", model->uptime_s);
    json_put_integer(json, "rss_bytes", state->ledger.rss_bytes);
    json_put_newline(json);
    emit_totals(json, "totals", &model->totals);
    json_put_newline(json);
    json_put_open(json, "ledger", '[');
    for (size_t i = 0; i < state->ledger.count; i++) {
        json_put_open(json, NULL, '[');
        json_put_text(json, NULL, state->ledger.lines[i].name);
        json_put_integer(json, NULL, state->ledger.lines[i].bytes);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
    write_cells(json, model);
}

static void write_findings(struct json_writer *json, struct report_state *state,
                           const struct samples *samples, struct findings_input input) {
    const struct tell_options options = {.functions = WHO_FUNCTIONS};
    struct findings findings;
    input.model = state->model;
    input.ledger = &state->ledger;
    input.samples = samples;
    findings_make(&findings, &input);
    json_put_newline(json);
    json_put_open(json, "findings", '[');
    for (size_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];
        char *path = tell_who(state->model, finding, &options);
        json_put_open(json, NULL, '{');
        json_put_text(json, "severity", severity_word(finding->severity));
        json_put_text(json, "id", finding->id);
        json_put_text(json, "title", finding->title);
        json_put_integer(json, "bytes", finding->bytes);
        json_put_integer(json, "context",
                         finding->example == WIRE_NONE ? -1 : (int64_t)finding->example);
        json_put_text(json, "path", path);
        json_put_open(json, "parts", '[');
        size_t parts;
        char **texts = tell_parts(state->model, finding, &options, &parts);
        for (size_t k = 0; k < parts; k++) {
            if (k < TELL_PARTS)
                json_put_text(json, NULL, texts[k]);
            free(texts[k]);
        }
        free(texts);
        json_put_close(json, ']');
        json_put_integer(json, "part_count", (int64_t)parts);
        json_put_text(json, "evidence", finding->evidence);
        json_put_text(json, "since", finding->since);
        json_put_text(json, "out", finding->out);
        json_put_text(json, "why", finding->why);
        json_put_text(json, "fix", finding->advice);
        json_put_text(json, "now", finding->now);
        json_put_text(json, "effect", finding->now_effect);
        json_put_text(json, "sure", finding->sure);
        json_put_text(json, "action", finding->action);
        json_put_close(json, '}');
        free(path);
    }
    json_put_close(json, ']');
}

static int by_change(const void *a, const void *b) {
    int64_t left = llabs(((const struct compare_row *)a)->growth.requested_bytes);
    int64_t right = llabs(((const struct compare_row *)b)->growth.requested_bytes);
    return (left < right) - (left > right);
}

/* Writes the sums over all contexts, which are known for a mark, too; a mark has no ledger and no
 * pages. */
static void write_change_sums(struct json_writer *json, const struct compare *compare) {
    const struct {
        const char *name;
        int64_t before, after;
    } sums[] = {
        {"requested_bytes", compare->before.requested_bytes, compare->after.requested_bytes},
        {"live_chunks", compare->before.live_chunks, compare->after.live_chunks},
        {"allocs", compare->before.allocs, compare->after.allocs},
        {"frees", compare->before.frees, compare->after.frees},
        {"requested_cum_bytes", compare->before.requested_cum_bytes,
         compare->after.requested_cum_bytes},
    };
    json_put_newline(json);
    json_put_open(json, "sums", '[');
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        json_put_open(json, NULL, '[');
        json_put_text(json, NULL, sums[i].name);
        json_put_integer(json, NULL, sums[i].before);
        json_put_integer(json, NULL, sums[i].after);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
}

/* Writes the contexts that changed most. Each row is a list: the context's index in this dump, or
 * -1 and the path if the context is gone; requested bytes before and after; live chunks before and
 * after. */
static void write_changes(struct json_writer *json, const struct model *model,
                          const struct compare *compare) {
    if (compare->count > 0)
        qsort(compare->rows, compare->count, sizeof *compare->rows, by_change);
    json_put_newline(json);
    json_put_integer(json, "changed", (int64_t)compare->count);
    json_put_open(json, "changes", '[');
    for (size_t i = 0; i < compare->count && i < DIFF_ROWS_MAX; i++) {
        const struct compare_row *row = &compare->rows[i];
        bool here = row->model == model;
        char *path = here ? NULL : frames_write_path(row->model, row->context, 8);
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, here ? (int64_t)row->context : -1);
        json_put_text(json, NULL, path);
        json_put_integer(json, NULL, row->before.requested_bytes);
        json_put_integer(json, NULL, row->after.requested_bytes);
        json_put_integer(json, NULL, row->before.live_chunks);
        json_put_integer(json, NULL, row->after.live_chunks);
        json_put_close(json, ']');
        free(path);
    }
    json_put_close(json, ']');
}

/* --- all of it ------------------------------------------------------------------------------- */

void report_write_data(FILE *file, const struct report_input *input) {
    struct report_state *now = input->now;
    const struct report_state *before = input->before;
    const struct compare *compare = input->compare;
    struct json_writer json = {.file = file};
    struct samples samples;
    char taken[64];
    time_t clock = input->taken_s;
    struct tm local;
    strftime(taken, sizeof taken, "%Y-%m-%d %H:%M:%S %z", localtime_r(&clock, &local));
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-report/1");
    json_put_text(&json, "version", CLI_VERSION);
    json_put_text(&json, "taken", taken);
    json_put_integer(&json, "pid", now->model->pid);
    json_put_text(&json, "exe", now->model->exe);
    json_put_text(&json, "program", model_program(now->model));
    json_put_boolean(&json, "exact", now->model->exact);
    json_put_text(&json, "how", now->model->how); /* null: the process answered by itself */
    json_put_newline(&json);
    write_state(&json, now);
    samples_make(&samples, now->model, NULL, 0);
    write_findings(&json, now, &samples, input->findings);
    write_contexts(&json, now->model);
    report_write_threads(&json, now->model);
    report_write_series(&json, now->model, &samples);
    if (compare) {
        json_put_newline(&json);
        json_put_open(&json, "before", '{');
        if (before->model)
            write_state(&json, before);
        else
            json_put_text(&json, "title", before->title);
        write_change_sums(&json, compare);
        write_changes(&json, now->model, compare);
        json_put_close(&json, '}');
    }
    json_put_close(&json, '}');
}
