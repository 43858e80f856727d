/* SPDX-License-Identifier: MIT */
/* frame.c - prints the figures of looks for `memctx top --batch`. */
#include "live/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "live/replay.h"
#include "model/who.h"

char *frame_short(char text[FRAME_NUMBER_BYTES], int64_t value, bool units, bool sign) {
    static const char letters[] = " KMGTPE";
    double step = units ? 1024 : 1000, size = (double)value;
    int letter = 0;
    if (value == WIRE_UNKNOWN) {
        snprintf(text, FRAME_NUMBER_BYTES, "?");
        return text;
    }
    while ((size >= 999.5 || size <= -999.5) && letter < 6) {
        size /= step;
        letter++;
    }
    double large = size < 0 ? -size : size;
    int places = letter == 0 || large >= 99.95 ? 0 : large >= 9.995 ? 1 : 2;
    snprintf(text, FRAME_NUMBER_BYTES, "%s%.*f", sign && value > 0 ? "+" : "", places, size);
    if (letter > 0)
        strncat(text, &letters[letter], 1);
    return text;
}

char *frame_clock(char text[FRAME_CLOCK_BYTES], const struct watch *watch) {
    time_t seconds = (time_t)(replay_moment(watch)->wall_ns / 1000000000U);
    struct tm utc;
    if (!gmtime_r(&seconds, &utc) ||
        strftime(text, FRAME_CLOCK_BYTES, "%Y-%m-%d %H:%M:%S UTC", &utc) == 0)
        snprintf(text, FRAME_CLOCK_BYTES, "?");
    return text;
}

/* Writes a number for text output: short if `human`, else all digits. */
static const char *number(char text[FRAME_NUMBER_BYTES + 16], int64_t value, bool human, bool units,
                          bool sign) {
    if (human || value == WIRE_UNKNOWN)
        return frame_short(text, value, units, sign);
    snprintf(text, FRAME_NUMBER_BYTES + 16, sign ? "%+" PRId64 : "%" PRId64, value);
    return text;
}

#define FIGURE(value, units, sign)                                                                 \
    number((char[FRAME_NUMBER_BYTES + 16]){0}, value, options->human, units, sign)
#define BYTES(value) FIGURE(value, true, false)
#define GROWTH(value) FIGURE(value, true, true) /* bytes with a sign */
#define COUNT(value) FIGURE(value, false, false)

static void print_totals(const struct watch *watch, const struct frame_options *options) {
    const struct watch_totals *totals = &watch->totals;
    if (watch->replay)
        printf("moment of %s, ", frame_clock((char[FRAME_CLOCK_BYTES]){0}, watch));
    printf(
        "pid %d (%s), %sframe %" PRId64 " of %" PRId64
        ": up %.1f s, resident %s, live %s in %s chunks, growth %s/s, allocs %s/s, contexts %s\n",
        (int)watch->facts.pid, watch->program, watch->client.outside ? "read from outside, " : "",
        options->number, options->of, totals->uptime_s, BYTES(totals->rss_bytes),
        BYTES(totals->live_bytes), COUNT(totals->live_chunks), GROWTH(totals->growth),
        COUNT(totals->alloc_rate), COUNT(totals->contexts));
}

static void make_rows(struct watch *watch, struct rows *rows, const struct frame_options *options) {
    rows_make(rows, &watch->model, watch->version, &watch->rates, &options->rows);
}

/* Returns how many rows are printed. rows_make has cut the flat list to the limit, but not the
 * tree. */
static size_t shown(const struct rows *rows, const struct frame_options *options) {
    bool cut = options->rows.tree && rows->count > options->rows.limit;
    return cut ? options->rows.limit : rows->count;
}

void frame_print_text(struct watch *watch, struct rows *rows, const struct frame_options *options) {
    bool tree = options->rows.tree;
    make_rows(watch, rows, options);
    print_totals(watch, options);
    printf("%14s %14s %14s %12s %12s  %s\n", "live", "growth/s", "waste", "allocs/s", "chunks",
           "call path");
    for (size_t i = 0; i < shown(rows, options); i++) {
        const struct rows_line *line = &rows->list[i];
        char *name = rows_name(&watch->model, line, tree);
        int64_t values[RATES_COLUMNS];
        if (line->kind == ROWS_REST) {
            printf("%s\n", name);
            free(name);
            continue;
        }
        for (int column = 0; column < RATES_COLUMNS; column++)
            values[column] =
                rows_value(&watch->rates, line, tree, (enum rates_column)column, false);
        printf("%14s %14s %14s %12s %12s  %*s%s\n", BYTES(values[RATES_LIVE]),
               GROWTH(values[RATES_GROWTH]), BYTES(values[RATES_WASTE]),
               COUNT(values[RATES_ALLOCS]), COUNT(values[RATES_CHUNKS]), tree ? 2 * line->depth : 0,
               "", name);
        free(name);
    }
    if (watch_not_loaded(watch) > 0)
        printf("%14s in new call paths that are not loaded yet\n", BYTES(watch_not_loaded(watch)));
    putchar('\n');
}

static const char *const keys[RATES_COLUMNS] = {
    [RATES_LIVE] = "requested_bytes", [RATES_GROWTH] = "growth_bytes_per_s",
    [RATES_WASTE] = "waste_bytes",    [RATES_ALLOCS] = "allocs_per_s",
    [RATES_CHUNKS] = "live_chunks",
};

static void put_context(struct json_writer *json, const struct watch *watch,
                        const struct rows_line *line, bool tree) {
    char *name = rows_name(&watch->model, line, tree);
    const struct model_context *context = &watch->model.contexts[line->context];
    json_put_open(json, NULL, '{');
    json_put_integer(json, "id", context->id);
    for (int column = 0; column < RATES_COLUMNS; column++)
        json_put_integer(json, keys[column],
                         rows_value(&watch->rates, line, tree, (enum rates_column)column, false));
    if (tree) {
        json_put_integer(json, "depth", line->depth);
        json_put_boolean(json, "own", line->kind == ROWS_OWN);
    }
    json_put_text(json, "path", name);
    json_put_close(json, '}');
    free(name);
}

static void put_totals(struct json_writer *json, const struct watch *watch) {
    const struct watch_totals *totals = &watch->totals;
    json_put_integer(json, "pid", watch->facts.pid);
    json_put_text(json, "name", watch->program);
    json_put_boolean(json, "outside", watch->client.outside != NULL);
    json_put_decimal(json, "uptime_s", totals->uptime_s);
    json_put_integer(json, "rss_bytes", totals->rss_bytes);
    json_put_integer(json, "requested_bytes", totals->live_bytes);
    json_put_integer(json, "live_chunks", totals->live_chunks);
    json_put_integer(json, "growth_bytes_per_s", totals->growth);
    json_put_integer(json, "allocs_per_s", totals->alloc_rate);
    json_put_integer(json, "contexts", totals->contexts);
}

/* `recorded`: the frames are moments of a recording, whose distances vary. */
static void put_head(struct json_writer *json, const struct frame_options *options, bool recorded) {
    json_put_open(json, NULL, '{');
    json_put_text(json, "schema", "memctx-top/1");
    json_put_integer(json, "frame", options->number);
    if (recorded)
        json_put_null(json, "interval_s");
    else
        json_put_decimal(json, "interval_s", options->interval_s);
}

static void put_process(struct json_writer *json, const struct watch *watch,
                        const struct frame_options *options) {
    put_head(json, options, watch->replay != NULL);
    json_put_open(json, "process", '{');
    put_totals(json, watch);
    if (watch->replay)
        json_put_decimal(json, "time_s", (double)replay_moment(watch)->wall_ns / 1e9);
    json_put_close(json, '}');
    json_put_text(json, "sort", rates_column_word(options->rows.sort));
}

void frame_print_json(struct watch *watch, struct rows *rows, const struct frame_options *options) {
    struct json_writer json = {.file = stdout};
    make_rows(watch, rows, options);
    put_process(&json, watch, options);
    json_put_open(&json, options->rows.tree ? "tree" : "list", '[');
    for (size_t i = 0; i < shown(rows, options); i++)
        if (rows->list[i].kind != ROWS_REST)
            put_context(&json, watch, &rows->list[i], options->rows.tree);
    json_put_close(&json, ']');
    size_t cut = options->rows.tree ? rows->count - shown(rows, options) : 0;
    json_put_integer(&json, "left_out", (int64_t)(rows->rest + cut));
    json_put_integer(&json, "not_loaded_bytes", watch_not_loaded(watch));
    json_put_close(&json, '}');
    putchar('\n');
}

/* --- threads --------------------------------------------------------------------------------- */

static char *name_of_path(const struct watch *watch, const struct threads_line *line) {
    const struct rows_line path = {.context = line->context, .frames = 1};
    return rows_name(&watch->model, &path, false);
}

static void print_threads_text(const struct watch *watch, const struct threads *threads,
                               const struct frame_options *options) {
    print_totals(watch, options);
    printf("%14s %14s %12s %12s  %s\n", "live", "growth/s", "allocs/s", "chunks",
           "thread, and its call paths");
    for (size_t i = 0; i < threads->list_count; i++) {
        const struct threads_line *line = &threads->list[i];
        char *name = line->is_thread ? cli_copy(line->name) : name_of_path(watch, line);
        printf("%14s %14s %12s %12s  %s%s", BYTES(line->sums.live_bytes), GROWTH(line->sums.growth),
               COUNT(line->sums.alloc_rate), COUNT(line->sums.live_chunks),
               line->is_thread ? "" : "  ", name);
        if (line->left_out > 0)
            printf(", %zu more path%s", line->left_out, line->left_out == 1 ? "" : "s");
        putchar('\n');
        free(name);
    }
    putchar('\n');
}

/* The waste of a thread is not known, so it is left out. */
static void put_sums(struct json_writer *json, const struct rates_sums *sums) {
    for (int column = 0; column < RATES_COLUMNS; column++)
        if (column != RATES_WASTE)
            json_put_integer(json, keys[column], rates_figure(sums, (enum rates_column)column));
}

static void print_threads_json(const struct watch *watch, const struct threads *threads,
                               const struct frame_options *options) {
    struct json_writer json = {.file = stdout};
    put_process(&json, watch, options);
    json_put_open(&json, "threads", '[');
    for (size_t i = 0; i < threads->list_count;) {
        const struct threads_line *line = &threads->list[i++];
        json_put_open(&json, NULL, '{');
        json_put_integer(&json, "tid", line->tid > 0 ? (int64_t)line->tid : WIRE_UNKNOWN);
        json_put_text(&json, "name", line->name);
        put_sums(&json, &line->sums);
        json_put_integer(&json, "left_out", (int64_t)line->left_out);
        json_put_open(&json, "list", '[');
        for (; i < threads->list_count && !threads->list[i].is_thread; i++) {
            const struct threads_line *path = &threads->list[i];
            char *name = name_of_path(watch, path);
            json_put_open(&json, NULL, '{');
            json_put_integer(&json, "id", watch->model.contexts[path->context].id);
            put_sums(&json, &path->sums);
            json_put_text(&json, "path", name);
            json_put_close(&json, '}');
            free(name);
        }
        json_put_close(&json, ']');
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}

bool frame_print_threads(struct watch *watch, struct threads *threads,
                         const struct frame_options *options, bool json) {
    if (!threads_read(threads, watch, NULL, 0))
        return false;
    const struct threads_options how = {
        .sort = options->rows.sort, .limit = options->rows.limit, .wide = WIRE_NONE};
    threads_make(threads, watch, &how);
    (json ? print_threads_json : print_threads_text)(watch, threads, options);
    return true;
}

/* --- several processes ----------------------------------------------------------------------- */

void frame_print_herd_text(const struct herd *herd, const struct frame_options *options) {
    printf("frame %" PRId64 " of %" PRId64 ": %zu processes\n%10s %14s %14s %14s %12s %10s  %s\n",
           options->number, options->of, herd->count, "pid", "resident", "live", "growth/s",
           "allocs/s", "contexts", "program");
    for (size_t i = 0; i < herd->count; i++) {
        const struct watch *watch = herd->watches[i];
        const struct watch_totals *totals = &watch->totals;
        if (watch->state != WATCH_RUNS) {
            printf("%10d %s\n", (int)watch->facts.pid, watch->how);
            continue;
        }
        printf("%10d %14s %14s %14s %12s %10s  %s\n", (int)watch->facts.pid,
               BYTES(totals->rss_bytes), BYTES(totals->live_bytes), GROWTH(totals->growth),
               COUNT(totals->alloc_rate), COUNT(totals->contexts), watch->program);
    }
    putchar('\n');
}

void frame_print_herd_json(const struct herd *herd, const struct frame_options *options) {
    struct json_writer json = {.file = stdout};
    put_head(&json, options, false);
    json_put_open(&json, "processes", '[');
    for (size_t i = 0; i < herd->count; i++) {
        const struct watch *watch = herd->watches[i];
        json_put_open(&json, NULL, '{');
        put_totals(&json, watch);
        json_put_text(&json, "command", watch->facts.command);
        json_put_text(&json, "reason", watch->state != WATCH_RUNS ? watch->how : NULL);
        json_put_close(&json, '}');
    }
    json_put_close(&json, ']');
    json_put_close(&json, '}');
    putchar('\n');
}
