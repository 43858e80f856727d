/* SPDX-License-Identifier: MIT */
/* threads.c - reads the figures of threads, computes rates since the previous reading, and sorts
 * the threads. */
#include "live/threads.h"

#include <stdlib.h>
#include <string.h>

/* --- reading --------------------------------------------------------------------------------- */

static int compare_parts(const void *a, const void *b) {
    const struct threads_part *left = a, *right = b;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int compare_names(const void *a, const void *b) {
    const struct model_thread *left = a, *right = b;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

/* Merges the parts of one thread in one context, which come from several heaps, into one part.
 * Returns the number of parts after that. */
static size_t add_up_parts(struct threads_part *parts, size_t count) {
    size_t kept = 0;
    if (count > 0)
        qsort(parts, count, sizeof *parts, compare_parts);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_parts(&parts[kept - 1], &parts[i]) != 0)
            parts[kept++] = parts[i];
        else
            rates_add(&parts[kept - 1].own, &parts[i].own);
    return kept;
}

/* Computes the rates since the reading `before`. A part that is missing in a reading of all
 * contexts counts as 0 at that reading. */
static void set_rates(struct threads *threads, const struct threads *before) {
    double seconds = threads->read_s - before->read_s;
    bool comparable = before->parts && before->loaded_s == threads->loaded_s;
    for (size_t i = 0; i < threads->count && comparable; i++) {
        struct threads_part *part = &threads->parts[i];
        const struct threads_part *was =
            bsearch(part, before->parts, before->count, sizeof *part, compare_parts);
        if (!was && !before->all)
            continue;
        int64_t allocs = was && was->own.allocs <= part->own.allocs ? was->own.allocs : 0;
        part->own.growth =
            rates_per_second(part->own.live_bytes, was ? was->own.live_bytes : 0, seconds);
        part->own.alloc_rate = rates_per_second(part->own.allocs, allocs, seconds);
    }
}

/* Makes a reading from the views that the process sent. */
static struct threads from_views(const struct watch *watch, const struct watch_views *views,
                                 bool all) {
    struct threads threads = {
        .read_s = watch->read_s, .loaded_s = watch->reload_due.ended_s, .all = all};
    threads.parts = cli_alloc(views->count + 1, sizeof *threads.parts);
    for (size_t i = 0; i < views->count; i++) {
        const struct watch_view *view = &views->list[i];
        threads.parts[i] = (struct threads_part){.tid = view->tid,
                                                 .id = view->id,
                                                 .own = {.live_bytes = view->sums.requested_bytes,
                                                         .live_chunks = view->sums.live_chunks,
                                                         .allocs = view->sums.allocs,
                                                         .waste_bytes = WIRE_UNKNOWN,
                                                         .growth = WIRE_UNKNOWN,
                                                         .alloc_rate = WIRE_UNKNOWN}};
    }
    threads.count = add_up_parts(threads.parts, views->count);
    threads.names = cli_alloc(views->thread_count + 1, sizeof *threads.names);
    threads.name_count = views->thread_count;
    memcpy(threads.names, views->threads, views->thread_count * sizeof *threads.names);
    if (threads.name_count > 0)
        qsort(threads.names, threads.name_count, sizeof *threads.names, compare_names);
    return threads;
}

bool threads_read(struct threads *threads, struct watch *watch, const uint32_t *contexts,
                  size_t count) {
    struct watch_views views;
    bool good = watch_ask_views(watch, contexts, count, &views);
    if (good) {
        struct threads next = from_views(watch, &views, !contexts);
        set_rates(&next, threads);
        next.due = threads->due;
        threads_clear(threads);
        *threads = next;
    }
    watch_free_views(&views);
    return good;
}

bool threads_read_all(struct threads *threads, struct watch *watch) {
    if (!watch_is_due(&threads->due, WATCH_SHARE_CONTEXTS))
        return true;
    bool good = threads_read(threads, watch, NULL, 0);
    watch_was_done(&threads->due);
    return good;
}

void threads_clear(struct threads *threads) {
    free(threads->parts);
    free(threads->names);
    free(threads->list);
    *threads = (struct threads){0};
}

/* --- lines ----------------------------------------------------------------------------------- */

struct group { /* the parts of one thread */
    size_t first, count;
    struct rates_sums sums;
};

/* Sorts by falling key. Equal keys, such as two unknown wastes, are sorted by falling live bytes.
 */
static int compare_sums(const struct rates_sums *left, const struct rates_sums *right,
                        enum rates_column sort) {
    int64_t a = rates_figure(left, sort), b = rates_figure(right, sort);
    if (a == b) {
        a = left->live_bytes;
        b = right->live_bytes;
    }
    return a > b ? -1 : a < b;
}

static int compare_groups(const void *a, const void *b, void *sort) {
    const struct group *left = a, *right = b;
    int order = compare_sums(&left->sums, &right->sums, *(const enum rates_column *)sort);
    return order != 0 ? order : left->first < right->first ? -1 : left->first > right->first;
}

static int compare_own(const void *a, const void *b, void *sort) {
    const struct threads_part *left = a, *right = b;
    int order = compare_sums(&left->own, &right->own, *(const enum rates_column *)sort);
    return order != 0 ? order : compare_parts(left, right);
}

static struct threads_line *add_line(struct threads *threads) {
    if (threads->list_count == threads->list_room) {
        threads->list_room = 2 * threads->list_room + 64;
        threads->list = cli_grow(threads->list, threads->list_room, sizeof *threads->list);
    }
    struct threads_line *line = &threads->list[threads->list_count++];
    *line = (struct threads_line){0};
    return line;
}

static void write_name(const struct threads *threads, uint32_t tid, char *to, size_t bytes) {
    const struct model_thread key = {.tid = tid};
    const struct model_thread *found =
        bsearch(&key, threads->names, threads->name_count, sizeof key, compare_names);
    if (tid == 0)
        snprintf(to, bytes, "exited and new threads");
    else
        snprintf(to, bytes, "thread %u %s", tid, found ? found->name : "?");
}

static void find_contexts(struct threads *threads, const struct watch *watch) {
    if (threads->version == watch->version)
        return;
    threads->version = watch->version;
    for (size_t i = 0; i < threads->count; i++)
        threads->parts[i].context = model_find_context(&watch->model, threads->parts[i].id);
}

/* A call path that is not loaded yet is added to its thread's sum, unless there is a search, which
 * could exclude it. */
static bool counts(const struct threads_part *part, const struct threads_options *options) {
    return !options->counts || (part->context != WIRE_NONE && options->counts[part->context]);
}

/* Adds the lines of a thread and its call paths. `parts` is a buffer with room for the group's
 * parts. */
static void add_group(struct threads *threads, const struct threads_options *options,
                      const struct group *group, struct threads_part *parts) {
    size_t all = 0, count = 0, limit = options->limit;
    uint32_t tid = threads->parts[group->first].tid;
    if (tid == options->wide)
        limit = options->wide_limit;
    for (size_t i = group->first; i < group->first + group->count; i++) {
        if (!counts(&threads->parts[i], options))
            continue;
        all++;
        if (threads->parts[i].context != WIRE_NONE)
            parts[count++] = threads->parts[i];
    }
    enum rates_column sort = options->sort;
    qsort_r(parts, count, sizeof *parts, compare_own, &sort);
    count = count < limit ? count : limit;
    struct threads_line *head = add_line(threads);
    *head = (struct threads_line){
        .is_thread = true, .tid = tid, .sums = group->sums, .left_out = all - count};
    write_name(threads, tid, head->name, sizeof head->name);
    for (size_t i = 0; i < count; i++)
        *add_line(threads) =
            (struct threads_line){.tid = tid, .context = parts[i].context, .sums = parts[i].own};
}

void threads_make(struct threads *threads, const struct watch *watch,
                  const struct threads_options *options) {
    struct group *groups = cli_alloc(threads->count + 1, sizeof *groups);
    struct threads_part *room = cli_alloc(threads->count + 1, sizeof *room);
    size_t count = 0;
    find_contexts(threads, watch);
    for (size_t i = 0; i < threads->count; i++) {
        const struct threads_part *part = &threads->parts[i];
        bool same = count > 0 && threads->parts[groups[count - 1].first].tid == part->tid;
        if (!counts(part, options)) {
            if (same)
                groups[count - 1].count++;
            continue;
        }
        if (!same)
            groups[count++] = (struct group){.first = i,
                                             .sums = {.waste_bytes = WIRE_UNKNOWN,
                                                      .growth = WIRE_UNKNOWN,
                                                      .alloc_rate = WIRE_UNKNOWN}};
        groups[count - 1].count++;
        rates_add(&groups[count - 1].sums, &part->own);
    }
    enum rates_column sort = options->sort;
    qsort_r(groups, count, sizeof *groups, compare_groups, &sort);
    threads->list_count = 0;
    for (size_t i = 0; i < count; i++)
        add_group(threads, options, &groups[i], room);
    free(room);
    free(groups);
}
