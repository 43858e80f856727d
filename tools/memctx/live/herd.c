/* SPDX-License-Identifier: MIT */
/* herd.c - asks several processes for their totals. */
#include "live/herd.h"

#include <stdlib.h>

#include "base/clock.h"

struct watch *herd_add(struct herd *herd, const struct process_facts *facts) {
    if (herd->count == herd->capacity) {
        herd->capacity = 2 * herd->capacity + 16;
        herd->watches = cli_grow(herd->watches, herd->capacity, sizeof(struct watch *));
    }
    struct watch *watch = cli_alloc(1, sizeof *watch);
    watch_begin(watch, facts);
    watch->no_names = herd->no_names;
    watch->debug_directory = herd->debug_directory;
    watch->interval_s = herd->interval_s;
    snprintf(watch->how, sizeof watch->how, "pid %d was not asked yet", (int)facts->pid);
    herd->watches[herd->count++] = watch;
    return watch;
}

static bool visit_process(pid_t pid, void *argument) {
    struct herd *herd = argument;
    struct process_facts facts;
    for (size_t i = 0; i < herd->count; i++)
        if (herd->watches[i]->facts.pid == pid && herd->watches[i]->state != WATCH_ENDED)
            return true;
    if (process_read_askable(pid, &facts) && (!herd->match || process_matches(&facts, herd->match)))
        herd_add(herd, &facts);
    return true;
}

static void forget_ended(struct herd *herd) {
    size_t kept = 0;
    for (size_t i = 0; i < herd->count; i++) {
        struct watch *watch = herd->watches[i];
        if (watch->state != WATCH_ENDED) {
            herd->watches[kept++] = watch;
            continue;
        }
        watch_end(watch);
        free(watch);
    }
    herd->count = kept;
}

static int compare_watches(const void *a, const void *b) {
    const struct watch *left = *(struct watch *const *)a, *right = *(struct watch *const *)b;
    if (left->totals.live_bytes != right->totals.live_bytes)
        return left->totals.live_bytes > right->totals.live_bytes ? -1 : 1;
    return left->facts.pid < right->facts.pid ? -1 : left->facts.pid > right->facts.pid;
}

/* Longest time of a look, without the request that is under way at its end: meanwhile the screen
 * takes no keys. */
#define LOOK_MOST_S 1
/* Requests to processes that do not answer take at most one part in so many of the time: to find
 * out that a process does not answer takes a second or two. */
#define SILENT_SHARE 10

/* Processes that have not answered come last; else the process comes first that was asked longest
 * ago. */
static int compare_turns(const void *a, const void *b) {
    const struct watch *left = *(struct watch *const *)a, *right = *(struct watch *const *)b;
    bool left_silent = left->state == WATCH_SILENT, right_silent = right->state == WATCH_SILENT;
    if (left_silent != right_silent)
        return left_silent - right_silent;
    return left->tried_s < right->tried_s ? -1 : left->tried_s > right->tried_s;
}

static void look_at_one(struct herd *herd, struct watch *watch) {
    bool silent = watch->state == WATCH_SILENT;
    double now = clock_now_s();
    if (silent &&
        (now - watch->tried_s < HERD_SCAN_S || !watch_is_due(&herd->silent_due, SILENT_SHARE)))
        return;
    watch->tried_s = now;
    watch_look_at_totals(watch);
    if (silent)
        watch_was_done(&herd->silent_due);
}

void herd_look(struct herd *herd, bool whole) {
    double now = clock_now_s();
    if (herd->all && (herd->scan_s <= 0 || now - herd->scan_s >= HERD_SCAN_S)) {
        herd->scan_s = now;
        forget_ended(herd);
        process_for_each(visit_process, herd);
    }
    if (herd->count == 0)
        return;
    qsort(herd->watches, herd->count, sizeof(struct watch *), compare_turns);
    double end_s = clock_now_s() + LOOK_MOST_S;
    for (size_t i = 0; i < herd->count && (whole || clock_now_s() < end_s); i++)
        look_at_one(herd, herd->watches[i]);
    qsort(herd->watches, herd->count, sizeof(struct watch *), compare_watches);
}
