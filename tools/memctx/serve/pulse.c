/* SPDX-License-Identifier: MIT */
/* pulse.c - looks at one process again and again, and sends totals, rates and the top contexts. */
#include "serve/pulse.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text_file.h"
#include "live/rows.h"
#include "live/watch.h"
#include "snapshot/snapshot.h"

/* if a look takes more than 1/10 of the interval, the pause is 10 looks long */
#define LOOK_SHARE 10
#define NAME_BYTES 400 /* a longer call path is cut off after this many bytes */

int64_t pulse_wall_ms(int64_t last_ms) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    return ms > last_ms ? ms : last_ms + 1;
}

/* Finds the contexts with most of a figure, largest first. Returns how many. */
static size_t find_top(const struct watch *watch, enum rates_column column, uint32_t *top,
                       size_t most) {
    size_t count = 0;
    for (uint32_t i = 0; watch->loaded && i < watch->model.context_count; i++) {
        int64_t value = rates_value(&watch->rates, i, column, false, false);
        if (value == WIRE_UNKNOWN || value <= 0)
            continue;
        size_t place = count;
        while (place > 0 &&
               rates_value(&watch->rates, top[place - 1], column, false, false) < value)
            place--;
        if (place == most)
            continue;
        size_t moved = (count < most ? count : most - 1) - place;
        memmove(&top[place + 1], &top[place], moved * sizeof *top);
        top[place] = i;
        count += count < most;
    }
    return count;
}

static void write_top(struct json_writer *json, const char *key, const struct watch *watch,
                      enum rates_column column, size_t most) {
    static const enum rates_column told[] = {RATES_LIVE, RATES_GROWTH, RATES_ALLOCS, RATES_CHUNKS};
    uint32_t top[PULSE_TOP + PULSE_GROWS];
    size_t count = find_top(watch, column, top, most);
    json_put_open(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        const struct rows_line line = {.context = top[i], .frames = 1, .kind = ROWS_CONTEXT};
        char *name = rows_name(&watch->model, &line, false);
        if (strlen(name) > NAME_BYTES)
            name[NAME_BYTES] = '\0';
        json_put_open(json, NULL, '[');
        json_put_integer(json, NULL, watch->model.contexts[top[i]].id);
        json_put_text(json, NULL, name);
        for (size_t k = 0; k < sizeof told / sizeof told[0]; k++)
            json_put_integer(json, NULL, rates_value(&watch->rates, top[i], told[k], false, false));
        json_put_close(json, ']');
        free(name);
    }
    json_put_close(json, ']');
}

static void write_figures(struct json_writer *json, const struct watch *watch) {
    const struct watch_totals *totals = &watch->totals;
    json_put_decimal(json, "uptime_s", totals->uptime_s);
    json_put_integer(json, "rss_bytes", totals->rss_bytes);
    json_put_integer(json, "requested_bytes", totals->live_bytes);
    json_put_integer(json, "live_chunks", totals->live_chunks);
    json_put_integer(json, "allocs", totals->allocs);
    json_put_integer(json, "contexts", totals->contexts);
    json_put_integer(json, "growth_per_s", totals->growth);
    json_put_integer(json, "allocs_per_s", totals->alloc_rate);
    write_top(json, "top", watch, RATES_LIVE, PULSE_TOP);
    write_top(json, "grows", watch, RATES_GROWTH, PULSE_GROWS);
}

/* Writes all bytes. If the server has gone, SIGPIPE ends this process. */
static void write_whole(int fd, const void *bytes, size_t length) {
    for (const char *at = bytes; length > 0;) {
        ssize_t put = write(fd, at, length);
        if (put <= 0)
            _exit(CLI_REFUSED);
        at += put;
        length -= (size_t)put;
    }
}

/* Sends a record with the figures of the last look. *last_ms is the time of the previous record,
 * and becomes the time of the record that is sent. */
static void tell(int fd, const struct watch *watch, enum pulse_state state, int64_t *last_ms) {
    char *text = NULL;
    size_t length = 0;
    FILE *file = text_file_open(&text, &length);
    struct json_writer json = {.file = file};
    struct pulse_record record = {.state = state, .ms = pulse_wall_ms(*last_ms)};
    *last_ms = record.ms;
    json_put_open(&json, NULL, '{');
    json_put_integer(&json, "ms", record.ms);
    if (state == PULSE_FIGURES) {
        record.rss_bytes = watch->totals.rss_bytes;
        record.requested_bytes = watch->totals.live_bytes;
        record.live_chunks = watch->totals.live_chunks;
        record.allocs = watch->totals.allocs;
        record.contexts = watch->totals.contexts;
        write_figures(&json, watch);
    } else {
        json_put_text(&json, "how", watch->how);
    }
    json_put_close(&json, '}');
    fclose(file);
    record.length = (uint32_t)length;
    /* The server would take a longer text for damage. */
    if (length <= PULSE_TEXT_MAX) {
        write_whole(fd, &record, sizeof record);
        write_whole(fd, text, length);
    }
    free(text);
}

static void tell_moment(int fd, const struct model_moment *moment) {
    struct pulse_record record = {.state = PULSE_PAST,
                                  .ms = (int64_t)(moment->wall_ns / 1000000),
                                  .rss_bytes = moment->rss_bytes,
                                  .requested_bytes = moment->requested_bytes,
                                  .live_chunks = moment->live_chunks,
                                  .allocs = WIRE_UNKNOWN,
                                  .contexts = WIRE_UNKNOWN};
    char *text =
        cli_format("[%lld,%lld,%lld,%lld]", (long long)record.ms, (long long)record.rss_bytes,
                   (long long)record.requested_bytes, (long long)record.live_chunks);
    record.length = (uint32_t)strlen(text);
    write_whole(fd, &record, sizeof record);
    write_whole(fd, text, record.length);
    free(text);
}

/* Sends the moments of the process's recording, so that the time axis begins before the first look.
 * Returns the time of the last record. */
static int64_t tell_past(int fd, struct watch *watch, int64_t since_ms) {
    struct model model;
    struct cli_failure failure;
    int file_fd = watch_open_recording(watch);
    if (file_fd < 0)
        return since_ms;
    char *path = cli_format("/proc/self/fd/%d", file_fd);
    struct snapshot_replay *file = snapshot_open_replay(&model, path, NULL, &failure);
    free(path);
    close(file_fd);
    if (!file)
        return since_ms;
    const struct model_recording *recording = model.recording;
    size_t step = recording->moment_count / PULSE_PAST_MAX + 1;
    int64_t before_ms = since_ms, now_ms = pulse_wall_ms(since_ms);
    for (size_t i = 0; i < recording->moment_count; i += step) {
        int64_t ms = (int64_t)(recording->moments[i].wall_ns / 1000000);
        bool known = recording->moments[i].rss_bytes != WIRE_UNKNOWN;
        /* skip moments that are out of order, because the clock was set */
        if (known && ms > before_ms && ms < now_ms) {
            tell_moment(fd, &recording->moments[i]);
            before_ms = ms;
        }
    }
    snapshot_end_replay(file);
    model_drop(&model);
    return before_ms;
}

void pulse_run(const struct process_facts *facts, int fd, int64_t every_ms, int64_t since_ms) {
    struct watch watch;
    watch_begin(&watch, facts);
    /* without an answer on its socket, the process is read from its memory */
    watch.outside = true;
    watch.interval_s = (double)every_ms / 1000;
    int64_t last_ms = tell_past(fd, &watch, since_ms);
    for (int64_t before_ms = 0;;) {
        int64_t began_ms = clock_now_ms();
        bool good = watch_look(&watch);
        tell(fd, &watch,
             good                         ? PULSE_FIGURES
             : watch.state == WATCH_ENDED ? PULSE_ENDED
                                          : PULSE_SILENT,
             &last_ms);
        if (watch.state == WATCH_ENDED)
            _exit(CLI_DONE);
        /* The pause follows the shorter of the last two looks, so that a single long look, such as
         * the first with its name look-ups, does not prolong it. */
        int64_t took_ms = clock_now_ms() - began_ms;
        int64_t share_ms = LOOK_SHARE * (took_ms < before_ms ? took_ms : before_ms);
        int64_t pause_ms = share_ms > every_ms  ? share_ms
                           : took_ms < every_ms ? every_ms - took_ms
                                                : 0;
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
        before_ms = took_ms;
    }
}
