/* SPDX-License-Identifier: MIT */
/* search.c - remembers the processes that a search did not want. */
#include "target/search.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_MS_MIN 500   /* half of the first pause */
#define PAUSE_MS_MAX 60000 /* longest pause between two looks */
#define NAMES_MS 1000      /* least pause between two comparisons of names */

void search_begin(struct search *search, int64_t now_ms) {
    struct search_seen *seen = search->before;
    size_t capacity = search->before_capacity;
    search->before = search->seen;
    search->before_count = search->count;
    search->before_capacity = search->capacity;
    search->seen = seen;
    search->capacity = capacity;
    search->count = search->at = 0;
    search->now_ms = now_ms;
    search->reads_names = now_ms >= search->names_due_ms;
    if (search->reads_names)
        search->names_due_ms = now_ms + NAMES_MS;
}

static void add(struct search *search) {
    if (search->count == search->capacity) {
        search->capacity = 2 * search->capacity + 64;
        search->seen = cli_grow(search->seen, search->capacity, sizeof *search->seen);
    }
    search->seen[search->count++] = search->present;
}

/* Finds the process among those that the last search did not want. /proc lists rising pids. */
static struct search_seen *find_before(struct search *search, pid_t pid) {
    while (search->at < search->before_count && search->before[search->at].pid < pid)
        search->at++;
    return search->at < search->before_count && search->before[search->at].pid == pid
               ? &search->before[search->at]
               : NULL;
}

bool search_is_due(struct search *search, pid_t pid) {
    struct search_seen *present = &search->present;
    const struct search_seen *before = find_before(search, pid);
    bool due = !before || search->now_ms >= before->due_ms;
    char name[PROCESS_NAME_BYTES] = "";
    *present = before ? *before : (struct search_seen){.pid = pid, .pause_ms = PAUSE_MS_MIN};
    if (due || search->reads_names)
        process_read_name(pid, name);
    if (!due && (!search->reads_names || strcmp(name, present->name) == 0)) {
        add(search);
        return false;
    }
    if (!due)
        present->pause_ms = PAUSE_MS_MIN;
    memcpy(present->name, name, sizeof name);
    return true;
}

void search_put_off(struct search *search) {
    int64_t pause_ms = 2 * search->present.pause_ms;
    search->present.pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
    search->present.due_ms = search->now_ms + search->present.pause_ms;
    add(search);
}

void search_free(struct search *search) {
    free(search->seen);
    free(search->before);
    *search = (struct search){0};
}
