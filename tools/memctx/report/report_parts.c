/* SPDX-License-Identifier: MIT */
/*
 * report_parts.c - the parts of a report that split memory by thread and by time.
 *
 * The size of both parts is bounded: the page lists only the contexts that held most. The bytes of
 * all other contexts are in `rest`, and in the sums of the threads.
 */
#include "report/report_parts.h"

#include <stdlib.h>

#define VIEWS_MAX 50000 /* greatest number of pairs of a thread and a context that a page lists */
/* greatest number of contexts that a page lists with figures at each sample */
#define SERIES_MAX 2000

/* --- threads --------------------------------------------------------------------------------- */

/* The figures that each thread has. A chunk that a thread frees is subtracted from the thread's
 * figures, even if another thread allocated the chunk. So the first two figures may be negative. */
#define THREAD_FIGURES(X)                                                                          \
    X(requested_bytes)                                                                             \
    X(live_chunks)                                                                                 \
    X(allocs)                                                                                      \
    X(requested_cum_bytes)

static bool is_empty(const struct model_totals *totals) {
#define X(figure)                                                                                  \
    if (totals->figure != 0)                                                                       \
        return false;
    THREAD_FIGURES(X)
#undef X
    return true;
}

/* A view that is not empty. */
struct found_view {
    int64_t size_bytes;
    uint32_t context, number; /* index of the context; index of the view in the context */
};

static int by_falling_size(const void *a, const void *b) {
    const struct found_view *left = a, *right = b;
    if (left->size_bytes != right->size_bytes)
        return left->size_bytes > right->size_bytes ? -1 : 1;
    if (left->context != right->context)
        return left->context < right->context ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Returns the views that are not empty, the largest first. */
static struct found_view *list_views(const struct model *model, size_t *count) {
    struct found_view *list = NULL;
    size_t room = 0;
    *count = 0;
    for (size_t i = 0; i < model->context_count; i++) {
        const struct model_figures *figures = model->contexts[i].figures;
        for (uint32_t k = 0; k < figures->view_count; k++) {
            struct model_view view = model_view_at(model, figures, k);
            if (is_empty(&view.totals))
                continue;
            if (*count == room) {
                room = 2 * room + 64;
                list = cli_grow(list, room, sizeof *list);
            }
            list[(*count)++] =
                (struct found_view){llabs(model_tame(view.totals.requested_bytes)), (uint32_t)i, k};
        }
    }
    if (*count > 0)
        qsort(list, *count, sizeof *list, by_falling_size);
    return list;
}

static void write_view(struct json_writer *json, const struct model *model,
                       const struct found_view *found) {
    struct model_view view =
        model_view_at(model, model->contexts[found->context].figures, found->number);
    json_put_open(json, NULL, '[');
    json_put_integer(json, NULL, view.thread);
    json_put_integer(json, NULL, view.context);
#define X(figure) json_put_integer(json, NULL, view.totals.figure);
    THREAD_FIGURES(X)
#undef X
    json_put_close(json, ']');
}

/* Returns the sums of each thread over all contexts. *busy receives the number of threads with a
 * figure that is not 0. */
static struct model_totals *add_up(const struct model *model, size_t *busy) {
    struct model_totals *sums = cli_alloc(model->thread_count, sizeof *sums);
    for (size_t i = 0; i < model->figures_count; i++) {
        const struct model_figures *figures = model_figures_at(model, i);
        for (uint32_t k = 0; k < figures->view_count; k++) {
            struct model_view view = model_view_at(model, figures, k);
            model_add_totals(&sums[view.thread], &view.totals);
        }
    }
    *busy = 0;
    for (size_t i = 0; i < model->thread_count; i++)
        *busy += !is_empty(&sums[i]);
    return sums;
}

static void write_sums(struct json_writer *json, const struct model *model,
                       const struct model_totals *sums) {
    json_put_open(json, "sums", '[');
    for (size_t i = 0; i < model->thread_count; i++) {
        json_put_open(json, NULL, '[');
#define X(figure) json_put_integer(json, NULL, sums[i].figure);
        THREAD_FIGURES(X)
#undef X
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
}

void report_write_threads(struct json_writer *json, const struct model *model) {
    size_t count = 0, busy = 0;
    struct model_totals *sums = model->has_threads ? add_up(model, &busy) : NULL;
    if (busy < 2) {
        free(sums);
        return;
    }
    struct found_view *views = list_views(model, &count);
    json_put_newline(json);
    json_put_open(json, "threads", '{');
    json_put_open(json, "list", '[');
    for (size_t i = 0; i < model->thread_count; i++) {
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, model->threads[i].tid);
        json_put_text(json, NULL, model->threads[i].name);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
    json_put_open(json, "figures", '[');
#define X(figure) json_put_text(json, NULL, #figure);
    THREAD_FIGURES(X)
#undef X
    json_put_close(json, ']');
    write_sums(json, model, sums);
    json_put_integer(json, "left_out", count > VIEWS_MAX ? (int64_t)(count - VIEWS_MAX) : 0);
    json_put_open(json, "rows", '[');
    for (size_t i = 0; i < count && i < VIEWS_MAX; i++)
        write_view(json, model, &views[i]);
    json_put_close(json, ']');
    json_put_close(json, '}');
    free(views);
    free(sums);
}

/* --- time ------------------------------------------------------------------------------------ */

/* The figures of a context, and the most bytes that it held at a sample. */
struct peak {
    int64_t bytes;
    uint32_t number; /* number of the figures (struct model_figures) */
};

static int by_falling_peak(const void *a, const void *b) {
    const struct peak *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

static size_t find_peaks(const struct model *model, const struct samples *samples,
                         struct peak *peaks) {
    size_t count = 0;
    for (uint32_t i = 1; i < model->figures_count; i++) {
        struct peak peak = {.number = i};
        for (size_t k = 0; k < samples->count; k++) {
            int64_t bytes = samples->samples[k].rows[i].requested_bytes;
            peak.bytes = bytes > peak.bytes ? bytes : peak.bytes;
        }
        if (peak.bytes > 0 && model_figures_at(model, i)->context != WIRE_NONE)
            peaks[count++] = peak;
    }
    if (count > 0)
        qsort(peaks, count, sizeof *peaks, by_falling_peak);
    return count;
}

/* Returns the name of the mark with counters that was set at this uptime; NULL: there is none. */
static const char *mark_at(const struct model *model, double uptime_s) {
    for (size_t i = 0; i < model->mark_count; i++)
        if (model->marks[i].has_entries && model->marks[i].uptime_s == uptime_s)
            return model->marks[i].name;
    return NULL;
}

static void write_samples(struct json_writer *json, const struct model *model,
                          const struct samples *samples) {
    json_put_open(json, "samples", '[');
    for (size_t i = 0; i < samples->count; i++) {
        double uptime_s = samples->samples[i].uptime_s;
        json_put_open(json, NULL, '[');
        json_put_text(json, NULL, i + 1 < samples->count ? mark_at(model, uptime_s) : "now");
        json_put_decimal(json, NULL, uptime_s);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
}

void report_write_series(struct json_writer *json, const struct model *model,
                         const struct samples *samples) {
    if (samples->count < 2)
        return;
    struct peak *peaks = cli_alloc(model->figures_count, sizeof *peaks);
    size_t count = find_peaks(model, samples, peaks);
    json_put_newline(json);
    json_put_open(json, "series", '{');
    write_samples(json, model, samples);
    json_put_open(json, "rows", '[');
    for (size_t i = 0; i < count && i < SERIES_MAX; i++) {
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, model_figures_at(model, peaks[i].number)->context);
        for (size_t k = 0; k < samples->count; k++)
            json_put_integer(json, NULL, samples->samples[k].rows[peaks[i].number].requested_bytes);
        json_put_close(json, ']');
    }
    json_put_close(json, ']');
    json_put_open(json, "rest", '[');
    for (size_t k = 0; k < samples->count; k++) {
        int64_t rest = 0;
        for (size_t i = SERIES_MAX; i < count; i++)
            rest = model_add(rest, samples->samples[k].rows[peaks[i].number].requested_bytes);
        json_put_integer(json, NULL, rest);
    }
    json_put_close(json, ']');
    json_put_close(json, '}');
    free(peaks);
}
