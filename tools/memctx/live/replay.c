/* SPDX-License-Identifier: MIT */
/* replay.c - reads moments of a recording into the figures of a watch. */
#include "live/replay.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <memctx/record.h>

#include "names/symbols.h"

static const struct model_moment *moment_at(const struct watch *watch, size_t moment) {
    return &watch->model.recording->moments[moment];
}

size_t replay_count(const struct watch *watch) {
    return watch->model.recording->moment_count;
}

const struct model_moment *replay_moment(const struct watch *watch) {
    return moment_at(watch, watch->replay->at);
}

void replay_begin(struct watch *watch, const struct model *model, struct snapshot_replay *file) {
    *watch = (struct watch){.client = {.fd = -1}, .pidfd = -1, .interval_s = 1, .recording_fd = -1};
    watch->model = *model;
    watch->facts.pid = (pid_t)model->pid;
    watch->program = cli_copy(model_program(model));
    watch->state = WATCH_RUNS;
    watch->loaded = true;
    watch->version = 1;
    watch->no_names = true;
    watch->replay = cli_alloc(1, sizeof *watch->replay);
    watch->replay->file = file;
    watch->replay->bytes = cli_alloc(model->context_count, sizeof(int64_t));
    watch->replay->chunks = cli_alloc(model->context_count, sizeof(int64_t));
    watch->replay->allocs = cli_alloc(model->context_count, sizeof(int64_t));
    watch->replay->frees = cli_alloc(model->context_count, sizeof(int64_t));
    watch->replay->allocs_before = cli_alloc(model->context_count, sizeof(int64_t));
    rates_reserve(&watch->rates, model->context_count);
    replay_go(watch, model->recording->chosen);
}

bool replay_begin_of(struct watch *watch, struct watch *of, char *why, size_t bytes) {
    struct cli_failure failure;
    int fd = watch_open_recording(of);
    if (fd < 0) {
        snprintf(why, bytes,
                 of->state == WATCH_ENDED
                     ? "pid %d has ended, and top knows no recording of it; memctx top FILE.rec "
                       "shows one"
                     : "this process writes no recording; memctx set %d record=DIR begins one",
                 (int)of->facts.pid);
        return false;
    }
    struct model *model = cli_alloc(1, sizeof *model);
    char *path = cli_format("/proc/self/fd/%d", fd);
    struct snapshot_replay *file = snapshot_open_replay(model, path, NULL, &failure);
    free(path);
    close(fd);
    if (!file) {
        free(model);
        snprintf(why, bytes, "its recording cannot be read yet: %.100s", failure.text);
        return false;
    }
    free(model->source);
    model->source = cli_format("pid %d, recorded", (int)of->facts.pid);
    const struct symbols_options options = {.live_pid =
                                                of->state == WATCH_ENDED ? 0 : of->facts.thread,
                                            .inner_pid = of->facts.inner_pid,
                                            .debug_directory = of->debug_directory};
    if (!of->no_names && !model->has_names)
        symbols_finish(symbols_begin(model, &options), model);
    replay_begin(watch, model, file);
    watch->replay->model = model;
    return true;
}

void replay_end(struct watch *watch) {
    struct replay *replay = watch->replay;
    snapshot_end_replay(replay->file);
    watch_end(watch);
    free(replay->model);
    free(replay->bytes);
    free(replay->chunks);
    free(replay->allocs);
    free(replay->frees);
    free(replay->allocs_before);
    free(replay);
}

/* --- a moment -------------------------------------------------------------------------------- */

static void take_entry(void *argument, uint32_t index, const struct wire_sums *sums) {
    struct replay *replay = argument;
    replay->bytes[index] = sums->requested_bytes;
    replay->chunks[index] = sums->live_chunks;
    replay->allocs[index] = sums->allocs;
    replay->frees[index] = sums->frees;
}

/* Sets the figures of all contexts to their figures at a moment. */
static void set_figures(struct watch *watch, size_t moment) {
    struct replay *replay = watch->replay;
    size_t count = watch->model.context_count;
    memset(replay->bytes, 0, count * sizeof *replay->bytes);
    memset(replay->chunks, 0, count * sizeof *replay->chunks);
    memset(replay->allocs, 0, count * sizeof *replay->allocs);
    memset(replay->frees, 0, count * sizeof *replay->frees);
    snapshot_replay_moment(replay->file, moment, take_entry, replay);
    rates_begin(&watch->rates);
    for (size_t i = 0; i < count; i++)
        rates_set(&watch->rates, i, moment_at(watch, moment)->uptime_s, replay->bytes[i],
                  replay->chunks[i], replay->allocs[i]);
    rates_end_range(&watch->rates, 0, count, moment_at(watch, moment)->uptime_s);
}

/* Returns the allocations of all contexts at the moment that set_figures has set. */
static int64_t sum_allocs(const struct watch *watch) {
    int64_t sum = 0;
    for (size_t i = 0; i < watch->model.context_count; i++)
        sum = model_add(sum, watch->replay->allocs[i]);
    return sum;
}

static void set_totals(struct watch *watch, size_t moment, int64_t allocs_before) {
    const struct model_moment *now = moment_at(watch, moment);
    struct watch_totals *totals = &watch->totals;
    *totals = (struct watch_totals){.live_bytes = now->requested_bytes,
                                    .live_chunks = now->live_chunks,
                                    .allocs = sum_allocs(watch),
                                    .rss_bytes = now->rss_bytes,
                                    .growth = WIRE_UNKNOWN,
                                    .alloc_rate = WIRE_UNKNOWN,
                                    .uptime_s = now->uptime_s};
    for (size_t i = 0; i < watch->model.context_count; i++)
        totals->contexts += watch->replay->chunks[i] != 0;
    if (moment == 0)
        return;
    const struct model_moment *before = moment_at(watch, moment - 1);
    double seconds = now->uptime_s - before->uptime_s;
    totals->growth = rates_per_second(now->requested_bytes, before->requested_bytes, seconds);
    totals->alloc_rate = rates_per_second(totals->allocs, allocs_before, seconds);
}

/* Contexts that hold little, or whose paths are not in the file any more, are in a sum. If a
 * context is in a sum at only one of the two moments, the rate of the context is not known, and the
 * rate of the sum is not known. The rate of a context is kept if the context left the sum between
 * the two moments and never freed a chunk: the context had few allocations while in the sum. */
static void forget_summed(struct watch *watch) {
    struct replay *replay = watch->replay;
    uint32_t rest = model_find_context(&watch->model, RECORD_REST);
    uint32_t forgotten = model_find_context(&watch->model, RECORD_FORGOTTEN);
    bool moved = false;
    if (rest == WIRE_NONE || forgotten == WIRE_NONE ||
        (replay->allocs_before[rest] == 0 && replay->allocs_before[forgotten] == 0))
        return;
    for (size_t i = 0; i < watch->model.context_count; i++) {
        if (i == rest || i == forgotten ||
            (replay->allocs_before[i] == 0) == (replay->allocs[i] == 0))
            continue;
        moved = true;
        if (replay->allocs[i] == 0 || replay->frees[i] > 0)
            rates_forget_allocs(&watch->rates, i);
    }
    if (moved) {
        rates_forget_allocs(&watch->rates, rest);
        rates_forget_allocs(&watch->rates, forgotten);
    }
}

void replay_go(struct watch *watch, size_t moment) {
    size_t count = replay_count(watch);
    int64_t allocs_before = 0;
    watch->replay->at = moment = moment < count ? moment : count - 1;
    rates_forget_all(&watch->rates); /* the moment may be an earlier one */
    if (moment > 0) {
        set_figures(watch, moment - 1);
        allocs_before = sum_allocs(watch);
        memcpy(watch->replay->allocs_before, watch->replay->allocs,
               watch->model.context_count * sizeof(int64_t));
    }
    set_figures(watch, moment);
    if (moment > 0)
        forget_summed(watch);
    rates_end(&watch->rates, moment_at(watch, moment)->uptime_s);
    set_totals(watch, moment, allocs_before);
}

/* --- the time axis --------------------------------------------------------------------------- */

/* Returns the place of a moment on the time axis: 0 for the first moment, 1 for the last. */
static double share_of(const struct watch *watch, size_t moment) {
    double first = moment_at(watch, 0)->uptime_s;
    double span = moment_at(watch, replay_count(watch) - 1)->uptime_s - first;
    return span > 0 ? (moment_at(watch, moment)->uptime_s - first) / span : 1;
}

size_t replay_column(const struct watch *watch, size_t width) {
    double place = share_of(watch, watch->replay->at) * (double)(width - 1);
    return width > 0 ? (size_t)(place + 0.5) : 0;
}

struct wanted {
    const bool *counts;
    int64_t sum;
};

static void add_entry(void *argument, uint32_t index, const struct wire_sums *sums) {
    struct wanted *wanted = argument;
    if (wanted->counts[index])
        wanted->sum = model_add(wanted->sum, sums->requested_bytes);
}

/* Returns an array with true for each context whose figures the line adds up. The caller frees it.
 */
static bool *find_contexts(const struct model *model, const struct rows_line *line, bool tree) {
    bool *counts = cli_alloc(model->context_count, sizeof *counts);
    bool below = tree && line->kind == ROWS_CONTEXT;
    counts[line->context] = true;
    for (size_t i = line->context + 1; below && i < model->context_count; i++)
        counts[i] = counts[model->contexts[i].parent];
    return counts;
}

void replay_fill_history(struct watch *watch, const struct rows_line *line, bool tree,
                         struct rates_history *history, size_t width) {
    bool *counts = line ? find_contexts(&watch->model, line, tree) : NULL;
    int64_t value = WIRE_UNKNOWN;
    size_t moment = 0, read = SIZE_MAX, last = replay_count(watch) - 1;
    *history = (struct rates_history){0};
    for (size_t i = 0; i < width && i < RATES_HISTORY; i++) {
        double share = width > 1 ? (double)i / (double)(width - 1) : 1;
        while (moment < last && share_of(watch, moment + 1) <= share)
            moment++;
        struct wanted wanted = {.counts = counts};
        if (moment != read && line)
            snapshot_replay_moment(watch->replay->file, moment, add_entry, &wanted);
        if (moment != read)
            value = line ? wanted.sum : moment_at(watch, moment)->requested_bytes;
        read = moment;
        rates_push(history, value);
    }
    free(counts);
}
