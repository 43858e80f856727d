/* SPDX-License-Identifier: MIT */
/*
 * conditions.c - parses and evaluates the conditions of `memctx watch`.
 *
 * A window of time is divided into steps, and one value is kept for each step. So a condition needs
 * the same memory for any window and any number of readings.
 */
#include "diagnosis/conditions.h"

#include <stdio.h>
#include <string.h>

#include "base/quantity.h"

#define MILLION 1000000

bool condition_parse_time(const char *text, int64_t *ms) {
    int64_t us;
    if (!quantity_read_time(text, text + strlen(text), &us) || us / 1000 > CONDITION_WINDOW_MS_MAX)
        return false;
    *ms = us / 1000;
    return true;
}

/* --- the grammar ----------------------------------------------------------------------------- */

#define FAIL(...) (snprintf(error, error_bytes, __VA_ARGS__), false)

/* Parses a threshold of rss, inuse or waste: a size, a share of the limit, or (waste only) a share
 * of the resident set. */
static bool parse_amount(const char *text, struct condition *condition, char *error,
                         size_t error_bytes) {
    const char *end = text + strlen(text), *percent = strchr(text, '%'), *stop;
    if (!percent) {
        condition->scale = CONDITION_ABSOLUTE;
        return quantity_read_size(text, end, &condition->threshold) ||
               FAIL("\"%.40s\" is no size; write a number that may end in K, M, G or T, as in "
                    "rss>2G",
                    text);
    }
    if (!quantity_read_number(text, MILLION / 100, &condition->threshold, &stop) || stop != percent)
        return FAIL("\"%.40s\" is no share; write a number before the %%, as in rss>85%%limit",
                    text);
    condition->scale = CONDITION_OF_LIMIT;
    if (strcmp(percent, "%limit") == 0)
        return true;
    condition->scale = CONDITION_OF_RESIDENT;
    if (condition->kind != CONDITION_WASTE)
        return FAIL("\"%.40s\" does not say of what it is a share; write %%limit, as in "
                    "rss>85%%limit",
                    text);
    if (strcmp(percent, "%") != 0 && strcmp(percent, "%rss") != 0)
        return FAIL("\"%.40s\" does not say of what it is a share; write waste>30%% (of the "
                    "resident set) or waste>30%%limit",
                    text);
    return condition->threshold < MILLION ||
           FAIL("\"%.40s\" never holds, because waste is a part of the resident set; write a "
                "share below 100%%, as in waste>30%%",
                text);
}

static bool parse_used(const char *text, struct condition *condition, char *error,
                       size_t error_bytes) {
    if (!parse_amount(text, condition, error, error_bytes))
        return false;
    return (condition->scale == CONDITION_OF_LIMIT && condition->threshold < MILLION) ||
           FAIL("\"%.40s\" is no share of a limit below 100%%; write used>90%%limit", text);
}

static bool parse_growth(const char *text, struct condition *condition, char *error,
                         size_t error_bytes) {
    const char *slash = strchr(text, '/');
    if (!slash)
        return FAIL("growth needs a time, as in growth>100M/10m");
    if (!quantity_read_size(text, slash, &condition->threshold))
        return FAIL("\"%.40s\" is no size and time; write growth>SIZE/TIME, as in growth>100M/10m",
                    text);
    if (!condition_parse_time(slash + 1, &condition->window_ms) || condition->window_ms < 1000)
        return FAIL("\"%.40s\" is no time from 1s to 24h; write a number and s, m or h, as in "
                    "growth>100M/10m",
                    slash + 1);
    return true;
}

static bool parse_pressure(const char *text, struct condition *condition, char *error,
                           size_t error_bytes) {
    const char *slash = strchr(text, '/');
    if (!slash || !quantity_read_time(text, slash, &condition->threshold))
        return FAIL("psi needs two times, waiting within a window, as in psi>150ms/2s");
    if (!condition_parse_time(slash + 1, &condition->window_ms) || condition->window_ms < 500)
        return FAIL("\"%.40s\" is no window from 500ms to 24h; write psi>WAIT/TIME, as in "
                    "psi>150ms/2s",
                    slash + 1);
    if (condition->threshold >= condition->window_ms * 1000)
        return FAIL("nothing waits for %.*s within %.40s; the first time must be the smaller one",
                    (int)(slash - text) < 40 ? (int)(slash - text) : 40, text, slash + 1);
    return true;
}

bool condition_parse(const char *text, struct condition *condition, char *error,
                     size_t error_bytes) {
    static const struct {
        const char *name;
        enum condition_kind kind;
        bool (*parse)(const char *, struct condition *, char *, size_t);
    } kinds[] = {
        {"used", CONDITION_USED, parse_used},       {"rss", CONDITION_RSS, parse_amount},
        {"inuse", CONDITION_INUSE, parse_amount},   {"waste", CONDITION_WASTE, parse_amount},
        {"growth", CONDITION_GROWTH, parse_growth}, {"psi", CONDITION_PSI, parse_pressure}};
    size_t name = strcspn(text, "><=");
    *condition = (struct condition){.kind = CONDITION_ENDS};
    if (strlen(text) >= sizeof condition->text)
        return FAIL("\"%.40s...\" is too long for a condition", text);
    snprintf(condition->text, sizeof condition->text, "%s", text);
    if (strcmp(text, "ends") == 0)
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strlen(kinds[i].name) != name || strncmp(kinds[i].name, text, name) != 0)
            continue;
        condition->kind = kinds[i].kind;
        if (text[name] == '\0')
            return FAIL("\"%s\" has no \">\"; quote the condition, because the shell takes an "
                        "unquoted > for itself",
                        text);
        if (text[name] != '>' || text[name + 1] == '=')
            return FAIL("\"%s\": the only comparison is >, as in rss>2G", text);
        return kinds[i].parse(text + name + 1, condition, error, error_bytes);
    }
    return FAIL("\"%.*s\" is no figure that can be watched", (int)name, text);
}

bool condition_needs_target(const struct condition *condition) {
    return condition->kind == CONDITION_INUSE || condition->kind == CONDITION_WASTE ||
           condition->kind == CONDITION_GROWTH;
}

bool condition_needs_limit(const struct condition *condition) {
    return condition->scale == CONDITION_OF_LIMIT && condition->kind != CONDITION_USED;
}

/* --- windows --------------------------------------------------------------------------------- */

static int64_t step_ms(const struct condition *condition) {
    return condition->window_ms / CONDITION_STEPS + 1;
}

static void drop_first(struct condition_state *state) {
    state->step_count--;
    memmove(state->steps, state->steps + 1, state->step_count * sizeof state->steps[0]);
}

/* Adds a value. Returns true if the value began a new step. */
static bool add_step(const struct condition *condition, struct condition_state *state,
                     int64_t now_ms, int64_t value) {
    unsigned count = state->step_count;
    if (count > 0 && now_ms - state->steps[count - 1].at_ms < step_ms(condition))
        return false;
    if (count == CONDITION_ROOM)
        drop_first(state);
    state->steps[state->step_count++] = (struct condition_step){now_ms, value};
    return true;
}

/* Notes the value, and returns by how much it exceeds the least value of the window. */
static int64_t growth_of(const struct condition *condition, struct condition_state *state,
                         int64_t now_ms, int64_t value) {
    while (state->step_count > 0 && state->steps[0].at_ms < now_ms - condition->window_ms)
        drop_first(state);
    if (!add_step(condition, state, now_ms, value)) {
        struct condition_step *last = &state->steps[state->step_count - 1];
        last->value = value < last->value ? value : last->value;
    }
    int64_t least = value;
    for (unsigned i = 0; i < state->step_count; i++)
        least = state->steps[i].value < least ? state->steps[i].value : least;
    return value - least;
}

/* Returns the time that tasks waited within the last window. If the last two readings are further
 * apart than the window, returns the window's share of the waiting between these readings. */
static int64_t pressure_of(const struct condition *condition, struct condition_state *state,
                           int64_t now_ms, int64_t total_us) {
    while (state->step_count > 1 && state->steps[1].at_ms <= now_ms - condition->window_ms)
        drop_first(state);
    const struct condition_step base =
        state->step_count > 0 ? state->steps[0] : (struct condition_step){now_ms, total_us};
    add_step(condition, state, now_ms, total_us);
    int64_t took_ms = now_ms - base.at_ms, waited_us = total_us - base.value;
    if (waited_us < 0) /* the total fell: another pressure file is read now */
        state->step_count = 0;
    if (waited_us <= 0)
        return 0;
    return took_ms > condition->window_ms
               ? (int64_t)((double)waited_us * (double)condition->window_ms / (double)took_ms)
               : waited_us;
}

/* --- evaluating ------------------------------------------------------------------------------ */

static int64_t value_of(const struct condition *condition, struct condition_state *state,
                        const struct condition_reading *reading) {
    switch (condition->kind) {
    case CONDITION_USED: return reading->used_bytes;
    case CONDITION_RSS: return reading->rss_bytes;
    case CONDITION_INUSE: return reading->inuse_bytes;
    case CONDITION_WASTE: return reading->waste_bytes;
    case CONDITION_GROWTH:
        return reading->inuse_bytes == CONDITION_UNKNOWN
                   ? CONDITION_UNKNOWN
                   : growth_of(condition, state, reading->now_ms, reading->inuse_bytes);
    case CONDITION_PSI:
        return reading->pressure_us == CONDITION_UNKNOWN
                   ? CONDITION_UNKNOWN
                   : pressure_of(condition, state, reading->now_ms, reading->pressure_us);
    default: return 0;
    }
}

static int64_t threshold_of(const struct condition *condition,
                            const struct condition_reading *reading) {
    if (condition->scale == CONDITION_ABSOLUTE)
        return condition->threshold;
    int64_t whole = condition->kind == CONDITION_USED        ? reading->fullest_bytes
                    : condition->scale == CONDITION_OF_LIMIT ? reading->limit_bytes
                                                             : reading->rss_bytes;
    return whole == CONDITION_UNKNOWN
               ? CONDITION_UNKNOWN
               : (int64_t)((double)whole / MILLION * (double)condition->threshold);
}

struct condition_result condition_evaluate(const struct condition *condition,
                                           struct condition_state *state,
                                           const struct condition_reading *reading,
                                           int64_t cool_ms) {
    struct condition_result result = {.value = value_of(condition, state, reading),
                                      .threshold = threshold_of(condition, reading)};
    if (condition->kind == CONDITION_ENDS) {
        result.known = true;
        result.holds = reading->ended;
        result.threshold = 0;
        result.fires = result.holds && !state->fired;
    } else {
        bool pressed = condition->kind == CONDITION_PSI && reading->pressed;
        /* the kernel may have seen a peak between two readings of memctx */
        if (pressed && result.value <= result.threshold)
            result.value = result.threshold;
        result.known = result.value != CONDITION_UNKNOWN && result.threshold != CONDITION_UNKNOWN;
        result.holds = result.known && (pressed || result.value > result.threshold);
        int64_t low =
            (int64_t)((double)result.threshold / 100 * (100 - CONDITION_HYSTERESIS_PERCENT));
        if (result.known && !result.holds && result.value <= low)
            state->was_false = true;
        result.fires =
            result.holds &&
            (!state->fired || (state->was_false && reading->now_ms - state->fired_ms >= cool_ms));
    }
    if (result.fires) {
        state->fired = true;
        state->was_false = false;
        state->fired_ms = reading->now_ms;
    }
    return result;
}

void condition_action_failed(struct condition_state *state) {
    state->was_false = true;
}
