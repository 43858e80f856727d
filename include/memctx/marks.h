/* SPDX-License-Identifier: MIT */
/*
 * marks.h - the value of MEMCTX_MARKS: "off", "TIME" or "TIME,COUNT", such as "10m,24".
 *
 * TIME is a number with ms, s, m, h or d, or a number of seconds. The process then sets a mark once
 * every TIME, and keeps the newest COUNT of these marks. The library and the command both parse the
 * value with this code.
 */
#ifndef MEMCTX_MARKS_H
#define MEMCTX_MARKS_H

#include <stdint.h>

#define MEMCTX_MARKS_COUNT_MAX 32
#define MEMCTX_MARKS_COUNT 24 /* if only TIME is given */
#define MEMCTX_MARKS_MS_MIN 100
#define MEMCTX_MARKS_MS_MAX (30LL * 86400 * 1000)
/* The parsed value is the time in ms times MEMCTX_MARKS_PACK plus the count; 0: off. */
#define MEMCTX_MARKS_PACK 64
#define MEMCTX_MARKS_MAX (MEMCTX_MARKS_MS_MAX * MEMCTX_MARKS_PACK + MEMCTX_MARKS_COUNT_MAX)
#define MEMCTX_MARKS_SYNTAX                                                                        \
    "off, TIME or TIME,COUNT: a time from 100ms to 30d (ms, s, m, h or d), a count from 1 to 32"

/* Reads a number into *value. Returns the text behind the number. */
static inline const char *memctx_marks_digits(const char *text, int64_t *value) {
    const char *at = text;
    for (*value = 0; *at >= '0' && *at <= '9' && *value < MEMCTX_MARKS_MS_MAX; at++)
        *value = *value * 10 + (*at - '0');
    return at == text ? "?" : at; /* "?" stands nowhere in a value, so the caller refuses it */
}

/* Returns the parsed value; -1: the text is not valid. */
static inline int64_t memctx_marks_parse(const char *text) {
    int64_t ms, count = MEMCTX_MARKS_COUNT;
    if (text[0] == 'o' && text[1] == 'f' && text[2] == 'f' && !text[3])
        return 0;
    const char *at = memctx_marks_digits(text, &ms);
    int64_t unit = 1000;
    if (at[0] == 'm' && at[1] == 's') {
        unit = 1;
        at += 2;
    } else if (*at == 's' || *at == 'm' || *at == 'h' || *at == 'd') {
        unit = *at == 's' ? 1000 : *at == 'm' ? 60000 : *at == 'h' ? 3600000 : 86400000;
        at++;
    }
    if (*at == ',')
        at = memctx_marks_digits(at + 1, &count);
    if (*at || ms > MEMCTX_MARKS_MS_MAX / unit || ms * unit < MEMCTX_MARKS_MS_MIN || count < 1 ||
        count > MEMCTX_MARKS_COUNT_MAX)
        return -1;
    return ms * unit * MEMCTX_MARKS_PACK + count;
}

/* Returns the largest unit in which a time in ms is a whole number, and sets *value to that number.
 */
static inline const char *memctx_marks_unit(int64_t ms, int64_t *value) {
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    unsigned i = 0;
    while (ms % units[i].ms != 0)
        i++;
    *value = ms / units[i].ms;
    return units[i].name;
}

#endif
