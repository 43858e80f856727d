/* SPDX-License-Identifier: MIT */
/* forecast.c - writes rates, local times, and when memory will be used up. */
#include "diagnosis/forecast.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* the end is told as a time of day if it is at most this many times as far ahead as the growth was
 * watched */
#define SEEN_TIMES 50
#define SECONDS_UNTIL 600.0 /* a time that is fewer seconds ahead is written with its seconds */
#define SLEPT_TOLD 1.0      /* seconds; a shorter sleep of the machine is not mentioned */
#define WEEKDAY_UNTIL (6 * 86400.0)
#define ROUGH_UNTIL (366 * 86400.0) /* a rough time above this is written as "more than a year" */

/* Returns a local time, in the shortest form that is clear at the time `now`: "14:00", "Tuesday
 * 14:00", "2026-03-01 14:00". The caller frees it. */
static char *write_time(time_t now, double distance_s) {
    time_t time = now + (time_t)distance_s;
    double far = distance_s < 0 ? -distance_s : distance_s;
    struct tm today, then;
    char text[64];
    localtime_r(&now, &today);
    localtime_r(&time, &then);
    bool same_day = today.tm_year == then.tm_year && today.tm_yday == then.tm_yday;
    const char *format = far < SECONDS_UNTIL   ? "%H:%M:%S"
                         : same_day            ? "%H:%M"
                         : far < WEEKDAY_UNTIL ? "%A %H:%M"
                                               : "%Y-%m-%d %H:%M";
    strftime(text, sizeof text, format, &then);
    return cli_copy(text);
}

char *forecast_write_moment(const struct look *look, double uptime_s) {
    double ago_s =
        look->model->uptime_s - uptime_s + samples_slept_since(look->input->samples, uptime_s);
    if (look->input->now_s)
        return write_time((time_t)look->input->now_s, -ago_s);
    char *time = look_time(ago_s), *text = cli_format("%s before the snapshot", time);
    free(time);
    return text;
}

static char *write_rate(double bytes_per_s, double seen_s, const char *sign) {
    double unit_s = seen_s < 30 ? 1 : seen_s < 1800 ? 60 : 3600;
    const char *unit = seen_s < 30 ? "s" : seen_s < 1800 ? "min" : "h";
    double bytes = bytes_per_s * unit_s;
    return cli_format("%s%s/%s", sign, look_bytes(bytes < 9e18 ? (int64_t)bytes : INT64_MAX), unit);
}

void forecast_tell_rate(const struct look *look, struct finding *finding,
                        const struct forecast *forecast) {
    double seen_s = look->model->uptime_s - forecast->since_s;
    char *since = forecast_write_moment(look, forecast->since_s);
    char *rate = write_rate(forecast->bytes_per_s, seen_s, forecast->rough ? "about " : "+");
    char *step = look_time(forecast->step_s);
    finding->rate = (struct finding_rate){.bytes_per_s = forecast->bytes_per_s,
                                          .since_uptime_s = forecast->since_s,
                                          .began = forecast->began};
    free(finding->verdict);
    free(finding->since);
    /* For a snapshot `since` is not a time of day but "7.0 s before the snapshot". */
    const char *before = forecast->began ? "" : look->input->now_s ? "before " : "at least ";
    finding->verdict =
        cli_format("growth of %s since %s%s", rate + !forecast->rough, before, since);
    finding->since =
        forecast->began
            ? cli_format("%s, or up to %s later: %s from then on, steadily", since, step, rate)
            : cli_format("%s%s, when memctx first looked: %s from then on, steadily", before, since,
                         rate);
    double slept_s = samples_slept_since(look->input->samples, forecast->since_s);
    if (slept_s >= SLEPT_TOLD) {
        char *slept = look_time(slept_s), *told = finding->since;
        finding->since = cli_format("%s; of the time since, the machine slept %s, which the rate "
                                    "leaves out",
                                    told, slept);
        free(slept);
        free(told);
    }
    free(since);
    free(rate);
    free(step);
}

#define TOLD_TOGETHER 1.1 /* other growth below 1/10 of this growth is not mentioned */
/* the text mentions the part of the requested bytes that the limit counts if it is below
 * COUNTED_LESS or above COUNTED_MORE */
#define COUNTED_LESS 0.9
#define COUNTED_MORE 1.1

void forecast_measure(const struct look *look, const struct blame_suspect *suspect,
                      struct forecast *forecast) {
    int64_t asked = SUM_OVER(look, suspect, requested_bytes);
    int64_t blocks = SUM_OVER(look, suspect, block_bytes), memory = 0;
    for (size_t i = 0; i < suspect->count && look->holders.list; i++) {
        uint32_t number = blame_number(&look->paths, suspect->members[i]);
        int64_t held = look->holders.list[number].held_bytes,
                own = look_totals(look, number).block_bytes;
        memory = model_tame(memory + (held < own ? held : own));
    }
    int64_t all = look->model->totals.requested_bytes;
    forecast->blocks = asked > 0 && blocks > asked ? share(blocks, asked) : 1;
    /* Without pages, only the share of all requested memory that is resident is known. */
    forecast->memory = asked > 0 && memory > 0 ? share(memory, asked)
                       : all > look->rss_bytes ? share(look->rss_bytes, all)
                                               : 1;
}

void forecast_use(struct finding *finding, const struct forecast *forecast) {
    struct finding_use *use = &finding->use;
    if (use->asked_per_s <= 0)
        use->since_s = forecast->since_s;
    use->asked_per_s += forecast->bytes_per_s;
    use->blocks_per_s += forecast->bytes_per_s * forecast->blocks;
    use->memory_per_s += forecast->bytes_per_s * forecast->memory;
}

/* Returns the rate at which this growth takes the bytes that the limit counts: of addresses or of
 * memory. */
static double counted_per_s(const struct finding_use *use, const struct limits_found *limit) {
    return limits_counts_addresses(limit) ? use->blocks_per_s : use->memory_per_s;
}

/* Returns a clause that says why the limit counts more or less than the program asks for; an empty
 * text if the difference is small. The caller frees it. */
static char *write_counted(double part) {
    if (part < COUNTED_LESS)
        return cli_format("; of what this growth asks for, %.0f %% is in memory, and only that "
                          "counts",
                          100 * part);
    if (part > COUNTED_MORE)
        return cli_format("; the chunks' blocks are %.0f %% larger than the program asks for",
                          100 * (part - 1));
    return cli_copy("");
}

/* Returns the forecast's condition: that the growth of this finding, or of all findings together,
 * goes on. The caller frees the text. */
static char *write_condition(double own_per_s, double all_per_s, double seen_s, const char *alone) {
    if (all_per_s <= TOLD_TOGETHER * own_per_s)
        return cli_copy(alone);
    char *rate = write_rate(all_per_s, seen_s, "+");
    char *text = cli_format("if all growth goes on, %s together", rate);
    free(rate);
    return text;
}

/* Returns a rough time until the end, and says why it is rough. The caller frees it. */
static char *write_rough_end(double left_s, double seen_s, const char *condition) {
    char *seen = look_time(seen_s);
    char *left = left_s < ROUGH_UNTIL ? look_time(left_s) : NULL;
    char *end =
        left ? cli_format("in about %s %s; a rough figure, because the growth", left, condition)
             : cli_format("in more than a year %s; the growth", condition);
    char *text = cli_format("memory is used up %s was watched for %s only", end, seen);
    free(end);
    free(seen);
    free(left);
    return text;
}

/* Sets finding->out. `all`: the rates of all findings together. */
static void tell_end(const struct look *look, struct finding *finding,
                     const struct finding_use *all) {
    const struct limits_found *limit = look->input->limit;
    double seen_s = look->model->uptime_s - finding->use.since_s;
    double left_s = (double)limit->left_bytes / counted_per_s(all, limit);
    char *counted = write_counted(counted_per_s(all, limit) / all->asked_per_s);
    char *room = cli_format("%s are left of %s (%s)%s", look_bytes(limit->left_bytes),
                            look_bytes(limit->bytes), limit->from, counted);
    free(counted);
    bool rough = left_s > SEEN_TIMES * seen_s;
    char *condition = write_condition(finding->use.asked_per_s, all->asked_per_s, seen_s,
                                      rough ? "at this rate" : "if this goes on");
    finding->out_per_s = counted_per_s(all, limit);
    if (!rough) {
        char *when = write_time((time_t)look->input->now_s, left_s), *time = look_time(left_s);
        finding->out =
            cli_format("memory is used up at %s, in %s, %s: %s", when, time, condition, room);
        finding->out_s = left_s;
        free(when);
        free(time);
    } else {
        char *end = write_rough_end(left_s, seen_s, condition);
        finding->out = cli_format("%s: %s", end, room);
        free(end);
    }
    free(condition);
    free(room);
}

void forecast_tell_ends(const struct look *look) {
    const struct limits_found *limit = look->input->limit;
    struct finding_use all = {0};
    for (size_t i = 0; i < look->findings->count; i++) {
        const struct finding_use *use = &look->findings->list[i].use;
        all.asked_per_s += use->asked_per_s;
        all.blocks_per_s += use->blocks_per_s;
        all.memory_per_s += use->memory_per_s;
    }
    if (!limit || !look->input->now_s || counted_per_s(&all, limit) <= 0)
        return;
    for (size_t i = 0; i < look->findings->count; i++)
        if (look->findings->list[i].use.ends)
            tell_end(look, &look->findings->list[i], &all);
}
