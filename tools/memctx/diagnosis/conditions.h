/* SPDX-License-Identifier: MIT */
/*
 * conditions.h - the conditions of `memctx watch`: their grammar, and when one of them holds.
 *
 * Pure functions. The caller passes in the readings and the time; nothing is read, allocated or
 * printed here. One state belongs to one condition of one process. Bytes are bytes, times are
 * milliseconds, pressure is microseconds.
 */
#ifndef MEMCTX_CONDITIONS_H
#define MEMCTX_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONDITION_UNKNOWN INT64_MIN /* as WIRE_UNKNOWN: null in JSON */
#define CONDITION_TEXT_BYTES 48
#define CONDITION_ERROR_BYTES 400
/* After an action a condition counts as false again only when its value has fallen this many per
 * cent below the threshold. */
#define CONDITION_HYSTERESIS_PERCENT 5
#define CONDITION_WINDOW_MS_MAX (86400 * INT64_C(1000))
/* The steps into which a window is divided, the step that has begun, and one before the window. */
#define CONDITION_STEPS 30
#define CONDITION_ROOM (CONDITION_STEPS + 2)

#define CONDITION_GRAMMAR                                                                          \
    "rss>SIZE, rss>N%limit, inuse>SIZE, inuse>N%limit, waste>SIZE, waste>N%, waste>N%limit, "      \
    "growth>SIZE/TIME, psi>WAIT/TIME or ends"

enum condition_kind {
    CONDITION_RSS,    /* the resident set */
    CONDITION_INUSE,  /* bytes that the program asked for and has not freed */
    CONDITION_WASTE,  /* resident anonymous memory that the program did not ask for */
    CONDITION_GROWTH, /* by how much `inuse` rose within a time */
    CONDITION_PSI,    /* time within a time in which a task waited for memory */
    CONDITION_ENDS    /* the process has ended */
};

/* What the threshold counts. Shares are in millionths. */
enum condition_scale { CONDITION_ABSOLUTE, CONDITION_OF_LIMIT, CONDITION_OF_RESIDENT };

struct condition {
    enum condition_kind kind;
    enum condition_scale scale;
    int64_t threshold; /* bytes, microseconds (psi), or millionths of the limit or resident set */
    int64_t window_ms; /* growth, psi */
    char text[CONDITION_TEXT_BYTES]; /* as the user wrote it */
};

/* What was read at one moment. CONDITION_UNKNOWN: not read, or not known. */
struct condition_reading {
    int64_t now_ms; /* of a clock that never goes back */
    int64_t rss_bytes, inuse_bytes, waste_bytes, limit_bytes;
    int64_t pressure_us; /* total since some time in the past */
    bool pressed;        /* the kernel reported that the pressure passed the threshold */
    bool ended;
};

struct condition_state {
    bool fired;     /* the action was started at least once */
    bool was_false; /* since then the condition was false, or the action failed */
    int64_t fired_ms;
    struct condition_step {
        int64_t at_ms; /* when the step began */
        int64_t value; /* growth: the least value within the step; psi: the first */
    } steps[CONDITION_ROOM];
    unsigned step_count;
};

struct condition_result {
    bool known; /* the other fields have a meaning */
    bool holds;
    bool fires;               /* it holds, and its action is due; the state counts it as started */
    int64_t value, threshold; /* bytes or microseconds; `ends`: 0 */
};

/* Reads a condition. Returns false and writes the reason and what to write instead. */
bool condition_parse(const char *text, struct condition *condition, char *error,
                     size_t error_bytes);
/* Reads a time: a number and ms, s, m or h; without a unit, seconds. Returns false if it is none or
 * exceeds CONDITION_WINDOW_MS_MAX. */
bool condition_parse_time(const char *text, int64_t *ms);
/* Which readings the condition needs. */
bool condition_needs_target(const struct condition *condition); /* inuse_bytes */
bool condition_needs_limit(const struct condition *condition);

/* Takes a reading into account. `cool_ms`: the action is not repeated before this time is over. */
struct condition_result condition_evaluate(const struct condition *condition,
                                           struct condition_state *state,
                                           const struct condition_reading *reading,
                                           int64_t cool_ms);
/* The action failed: it is due again after the cool time even if the condition never was false. */
void condition_action_failed(struct condition_state *state);

#endif
