/* SPDX-License-Identifier: MIT */
/*
 * watch_shared.c - conditions of `memctx watch --all` on a figure that many processes share: the
 * use of a limit, or the pressure of a control group.
 *
 * Such a condition begins to hold for all these processes at one moment. Its state therefore
 * belongs to the figure, and its actions are done for one process, the largest of those that share
 * the figure.
 */
#include <stdlib.h>
#include <string.h>

#include "verbs/watch.h"

/* The state of one condition on one shared figure. */
struct shared {
    size_t condition;
    char *figure; /* watched.fullest_figure, or the path of the pressure file */
    struct condition_state state;
    int64_t looked_ms; /* the last look at which a process had this figure */
    struct shared *next;
};

static struct shared *list;

const char *watch_shared_figure(const struct watched *process, const struct condition *condition) {
    if (condition->kind == CONDITION_PSI)
        return process->pressure;
    /* limits of a single process begin with RLIMIT_ */
    bool shared = condition->kind == CONDITION_USED && process->fullest.from[0] != '\0' &&
                  strncmp(process->fullest.from, "RLIMIT_", strlen("RLIMIT_")) != 0;
    return shared ? process->fullest_figure : NULL;
}

static struct shared *find(size_t condition, const char *figure) {
    for (struct shared *shared = list; shared; shared = shared->next)
        if (shared->condition == condition && strcmp(shared->figure, figure) == 0)
            return shared;
    return NULL;
}

struct condition_state *watch_shared_state(size_t condition, const char *figure, int64_t now_ms) {
    struct shared *shared = find(condition, figure);
    if (!shared) {
        shared = cli_alloc(1, sizeof *shared);
        *shared = (struct shared){.condition = condition, .figure = cli_copy(figure), .next = list};
        list = shared;
    }
    shared->looked_ms = now_ms;
    return &shared->state;
}

void watch_shared_failed(size_t condition, const char *figure) {
    struct shared *shared = find(condition, figure);
    if (shared)
        condition_action_failed(&shared->state);
}

struct watched *watch_shared_largest(struct watched *processes, const struct condition *condition,
                                     const char *figure, size_t *count) {
    struct watched *largest = NULL;
    *count = 0;
    for (struct watched *process = processes; process; process = process->next) {
        const char *own = watch_shared_figure(process, condition);
        if (process->ended || !own || strcmp(own, figure) != 0)
            continue;
        ++*count;
        if (!largest || process->facts.rss_bytes > largest->facts.rss_bytes)
            largest = process;
    }
    return largest;
}

void watch_shared_forget(const struct condition *conditions, int64_t now_ms, int64_t least_ms) {
    for (struct shared **at = &list; *at;) {
        struct shared *shared = *at;
        int64_t window_ms = conditions[shared->condition].window_ms;
        if (now_ms - shared->looked_ms <= (window_ms > least_ms ? window_ms : least_ms)) {
            at = &shared->next;
            continue;
        }
        *at = shared->next;
        free(shared->figure);
        free(shared);
    }
}
