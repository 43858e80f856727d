/* SPDX-License-Identifier: MIT */
/*
 * watch_read.c - reads the figures of a watched process: from /proc and the control groups at each
 * look, from the process itself or from its memory only if a condition needs them.
 */
#include "base/clock.h"
#include "formats/render.h"
#include "target/totals.h"
#include "verbs/watch.h"

#include <stdlib.h>

#define LIMIT_EVERY_MS 10000 /* pause between two looks at the limit, which changes seldom */
/* longest pause between two questions to a process that does not answer */
#define PAUSE_MS_MAX 30000
#define TRIGGER_MS_MAX 10000 /* the longest window of a PSI trigger */
/* After a process was read from outside, it is asked again after this many times the duration of
 * the reading. */
#define OUTSIDE_PAUSE 50
/* It takes 1.5 s to find out that a process does not answer, and meanwhile no process is read. So
 * after a process did not answer, no other silent process is asked for this many times as long. */
#define SILENT_PAUSE 9

static const struct watch_settings *settings;
static struct limits_mounts mounts;
/* The silent processes take turns: the one that is due for longest is asked next. */
static struct {
    pid_t last;         /* the process that did not answer last; 0: all have answered */
    int64_t due_ms;     /* when another silent process is due to be asked */
    int64_t longest_ms; /* ask_due_ms of the one that is due for longest */
} silent = {.longest_ms = INT64_MAX};

void watch_read_begin(const struct watch_settings *all) {
    settings = all;
    limits_read_mounts(&mounts, "");
}

static int64_t max_ms(int64_t a, int64_t b) {
    return a > b ? a : b;
}

void watch_read_limit(struct watched *process, int64_t now_ms, bool tell) {
    struct limits_found found;
    char bytes[RENDER_NUMBER_BYTES];
    process->limit_due_ms = now_ms + max_ms(LIMIT_EVERY_MS, settings->every_ms);
    if (!limits_find_smallest(&mounts, process->facts.thread, &found))
        return; /* the last limit stays */
    bool changed = !process->has_limit || found.bytes != process->limit.bytes;
    process->limit = found;
    process->has_limit = true;
    if (!changed || !tell)
        return;
    struct watch_line line = WATCH_LINE("limit", process);
    line.limit_bytes = found.bytes;
    watch_log(&line, "the limit is now %s, %s", render_bytes(bytes, found.bytes, true), found.from);
}

void watch_open_triggers(struct watched *process) {
    char path[PATH_MAX];
    if (!settings->needs_pressure)
        return;
    if (limits_find_pressure(&mounts, process->facts.thread, path, sizeof path))
        process->pressure = cli_copy(path);
    else
        cli_warn("pid %d (%s): this kernel has no figures of memory pressure, so psi conditions "
                 "never hold; it needs CONFIG_PSI and psi=1",
                 (int)process->facts.pid, process->program);
    for (size_t i = 0; i < settings->condition_count && process->pressure; i++) {
        const struct condition *condition = &settings->conditions[i];
        if (condition->kind == CONDITION_PSI && condition->window_ms <= TRIGGER_MS_MAX)
            process->triggers[i] =
                limits_open_trigger(path, condition->threshold, condition->window_ms * 1000);
    }
}

static void tell_silence(struct watched *process, const char *reason, bool stopped) {
    process->failures++;
    process->ask_pause_ms = 2 * max_ms(process->ask_pause_ms, settings->every_ms);
    if (process->ask_pause_ms > PAUSE_MS_MAX)
        process->ask_pause_ms = PAUSE_MS_MAX;
    /* The first failure is not printed: a process that has just started has no socket yet, and all
     * connections may be in use for a moment. */
    if (process->silent || (process->failures < 2 && !stopped))
        return;
    process->silent = true;
    struct watch_line line = WATCH_LINE("silent", process);
    watch_log(&line, "%s; conditions on inuse, waste and growth wait until it answers", reason);
}

/* Reads the memory of a process that has no socket, and takes the sums from it. The more call paths
 * the process has, the longer that takes, and the longer is the pause afterwards. */
static bool ask_outside(struct watched *process, const char *why, struct totals *totals) {
    struct totals_outside answer;
    int64_t began_ms = clock_now_ms();
    if (!totals_read_outside(&process->facts, why, &answer) || !answer.has_totals)
        return false;
    int64_t now_ms = clock_now_ms();
    process->ask_due_ms = now_ms + OUTSIDE_PAUSE * (now_ms - began_ms);
    *totals = answer.totals;
    return true;
}

/* Returns true if the process is due to be asked: it did not fail to answer a short time ago, and
 * if other silent processes wait, it is its turn. */
static bool is_due(const struct watched *process, int64_t now_ms) {
    if (now_ms < process->ask_due_ms || process->failures == 0)
        return now_ms >= process->ask_due_ms;
    bool first = process->ask_due_ms <= silent.longest_ms;
    if (first)
        silent.longest_ms = process->ask_due_ms;
    if (now_ms < silent.due_ms && !(first && silent.last == process->facts.pid))
        return false;
    /* The one that is due for longest may have ended. */
    return first || now_ms >= silent.due_ms + PAUSE_MS_MAX;
}

/* Asks the process for its sums, if it is due. */
static bool ask_totals(struct watched *process, struct totals *totals) {
    struct client client;
    struct cli_failure failure;
    int64_t now_ms = clock_now_ms();
    if (!is_due(process, now_ms))
        return false;
    if (process_is_stopped(&process->facts)) {
        char *resume = process_tell_resume(&process->facts);
        cli_set_failure(&failure, CLI_REFUSED, "it is stopped, so it cannot answer; %s", resume);
        free(resume);
        tell_silence(process, failure.text, true);
        return false; /* the state is read from /proc, so the next look may come soon */
    }
    bool good = client_connect(&client, &process->facts, true, &failure);
    if (good) {
        good = totals_ask(&client, totals, &failure);
        client_close(&client);
    } else if (client_found_no_socket(&process->facts, &failure)) {
        good = ask_outside(process, failure.text, totals);
    }
    if (!good) {
        tell_silence(process, failure.text, false);
        int64_t end_ms = clock_now_ms();
        process->ask_due_ms = end_ms + process->ask_pause_ms;
        silent.last = process->facts.pid;
        silent.longest_ms = INT64_MAX;
        silent.due_ms = end_ms + SILENT_PAUSE * (end_ms - now_ms);
        return false;
    }
    if (process->silent)
        watch_log(&WATCH_LINE("answers", process), "it answers again");
    process->silent = false;
    process->failures = 0;
    process->ask_pause_ms = 0;
    return true;
}

void watch_read_figures(struct watched *process, struct condition_reading *reading) {
    struct totals totals;
    const struct process_facts *facts = &process->facts;
    if (!ask_totals(process, &totals))
        return;
    reading->inuse_bytes = totals.requested_bytes;
    if (facts->anonymous_bytes >= 0 && totals.requested_bytes != WIRE_UNKNOWN) {
        int64_t waste = facts->anonymous_bytes - totals.requested_bytes - totals.own_bytes;
        reading->waste_bytes = waste > 0 ? waste : 0;
    }
}

void watch_read_used(struct watched *process, struct condition_reading *reading) {
    struct limits_left left;
    double most = -1;
    limits_find_left(&mounts, process->facts.thread, &left);
    for (size_t i = 0; i < left.count; i++) {
        const struct limits_found *limit = &left.list[i];
        int64_t used = limit->bytes - limit->left_bytes;
        if (limit->bytes <= 0 || (double)used / (double)limit->bytes <= most)
            continue;
        most = (double)used / (double)limit->bytes;
        process->fullest = *limit;
        snprintf(process->fullest_figure, sizeof process->fullest_figure, "%llu %s",
                 (unsigned long long)limit->group, limit->from);
        reading->fullest_bytes = limit->bytes;
        reading->used_bytes = used;
    }
}

struct condition_reading watch_read_kernel(struct watched *process, int64_t now_ms) {
    struct condition_reading reading = condition_no_reading(now_ms);
    reading.rss_bytes = process->facts.rss_bytes;
    if (settings->needs_limit && now_ms >= process->limit_due_ms)
        watch_read_limit(process, now_ms, true);
    if (process->has_limit)
        reading.limit_bytes = process->limit.bytes;
    if (process->pressure) {
        int64_t total = limits_read_pressure(process->pressure);
        reading.pressure_us = total >= 0 ? total : CONDITION_UNKNOWN;
    }
    return reading;
}
