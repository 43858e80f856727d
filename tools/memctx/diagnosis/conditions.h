/* SPDX-License-Identifier: MIT */
/*
 * conditions.h - the conditions of `memctx watch`: their grammar, and whether a condition holds.
 *
 * The functions are pure: the caller passes the readings and the time; they read, allocate and
 * print nothing. One state belongs to one condition of one process, or of one figure that several
 * processes share. Times are in milliseconds, pressure in microseconds.
 */
#ifndef MEMCTX_CONDITIONS_H
#define MEMCTX_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONDITION_UNKNOWN INT64_MIN /* null in JSON, like WIRE_UNKNOWN */
#define CONDITION_TEXT_BYTES 48
#define CONDITION_ERROR_BYTES 400
/* After an action the condition can become false again only when its value is this many per cent
 * below the threshold. */
#define CONDITION_HYSTERESIS_PERCENT 5
#define CONDITION_WINDOW_MS_MAX (86400 * INT64_C(1000))
/* A window of time is divided into CONDITION_STEPS steps. A state also has room for the step that
 * has begun and for one before the window. */
#define CONDITION_STEPS 30
#define CONDITION_ROOM (CONDITION_STEPS + 2)

#define CONDITION_GRAMMAR                                                                          \
    "used>N%limit, rss>SIZE, rss>N%limit, inuse>SIZE, inuse>N%limit, waste>SIZE, waste>N%, "       \
    "waste>N%limit, "                                                                              \
    "growth>SIZE/TIME, psi>WAIT/TIME or ends"

enum condition_kind {
    CONDITION_USED,   /* memory that is used of a limit, by all processes for which it counts */
    CONDITION_RSS,    /* the resident set */
    CONDITION_INUSE,  /* bytes that the program asked for and has not freed */
    CONDITION_WASTE,  /* resident anonymous memory that the program did not ask for */
    CONDITION_GROWTH, /* rise of `inuse` within the window */
    CONDITION_PSI,    /* time within the window in which a task waited for memory */
    CONDITION_ENDS    /* the process has ended */
};

/* Unit of the threshold: bytes or microseconds, or a share of the limit or of the resident set, in
 * millionths. */
enum condition_scale { CONDITION_ABSOLUTE, CONDITION_OF_LIMIT, CONDITION_OF_RESIDENT };

struct condition {
    enum condition_kind kind;
    enum condition_scale scale;
    int64_t threshold; /* bytes, microseconds (psi), or millionths of the limit or resident set */
    int64_t window_ms; /* length of the window; only growth and psi */
    char text[CONDITION_TEXT_BYTES]; /* the condition as the user wrote it */
};

/* Figures that were read at one moment. CONDITION_UNKNOWN: not read, or not known. */
struct condition_reading {
    int64_t now_ms; /* time by a monotonic clock */
    int64_t rss_bytes, inuse_bytes, waste_bytes, limit_bytes;
    /* The limit of which the largest share is used, and the bytes that are used. */
    int64_t fullest_bytes, used_bytes;
    int64_t pressure_us; /* total of waiting since a fixed moment in the past */
    bool pressed;        /* the kernel reported that the pressure passed the threshold */
    bool ended;
};

/* A reading in which no figure is known. */
static inline struct condition_reading condition_no_reading(int64_t now_ms) {
    return (struct condition_reading){.now_ms = now_ms,
                                      .rss_bytes = CONDITION_UNKNOWN,
                                      .inuse_bytes = CONDITION_UNKNOWN,
                                      .waste_bytes = CONDITION_UNKNOWN,
                                      .limit_bytes = CONDITION_UNKNOWN,
                                      .fullest_bytes = CONDITION_UNKNOWN,
                                      .used_bytes = CONDITION_UNKNOWN,
                                      .pressure_us = CONDITION_UNKNOWN};
}

struct condition_state {
    bool fired;     /* the action was started at least once */
    bool was_false; /* after the last action the condition was false, or the action failed */
    int64_t fired_ms;
    struct condition_step {
        int64_t at_ms; /* when the step began */
        int64_t value; /* growth: the least value within the step; psi: the first value */
    } steps[CONDITION_ROOM];
    unsigned step_count;
};

struct condition_result {
    bool known; /* the figures of the condition were read: the other fields are valid */
    bool holds;
    bool fires;               /* the condition holds, and the caller must start its action now */
    int64_t value, threshold; /* bytes or microseconds; `ends`: 0 */
};

/* Parses a condition. On a mistake returns false, and writes to `error` what is wrong and what to
 * write instead. */
bool condition_parse(const char *text, struct condition *condition, char *error,
                     size_t error_bytes);
/* Parses a time: a number and ms, s, m or h; without a unit, seconds. Returns false if the text is
 * not a time or the time exceeds CONDITION_WINDOW_MS_MAX. */
bool condition_parse_time(const char *text, int64_t *ms);
/* Returns true if the condition needs inuse_bytes or waste_bytes, for which the process itself has
 * to be asked. */
bool condition_needs_target(const struct condition *condition);
/* Returns true if the condition needs limit_bytes. */
bool condition_needs_limit(const struct condition *condition);

/* Evaluates the condition with a new reading. `cool_ms`: least time between two actions. */
struct condition_result condition_evaluate(const struct condition *condition,
                                           struct condition_state *state,
                                           const struct condition_reading *reading,
                                           int64_t cool_ms);
/* Call this if the action failed: it is due again after the cool time even if the condition stays
 * true. */
void condition_action_failed(struct condition_state *state);

#endif
