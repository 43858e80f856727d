/* SPDX-License-Identifier: MIT */
/*
 * quantity.h - the one grammar of sizes and times in arguments and conditions.
 *
 * A number is "12" or "1.5"; no sign, no exponent. A size is a number of bytes ("12", "12B"), or a
 * number with K, M, G or T for a power of 1024 ("12K", "12KB", "12KiB"). A time is a number with
 * us, ms, s, m or h behind it; without a unit it is in seconds. The functions return false for any
 * other text and for a value above 2^62; the result then means nothing.
 */
#ifndef MEMCTX_QUANTITY_H
#define MEMCTX_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#define QUANTITY_US_PER_S 1000000

/* Reads a number times `unit`. Sets *end behind the number. */
bool quantity_read_number(const char *text, int64_t unit, int64_t *value, const char **end);
/* Reads a size, which must take all of the text up to `end`. */
bool quantity_read_size(const char *text, const char *end, int64_t *bytes);
/* Reads a time in microseconds, which must take all of the text up to `end`. */
bool quantity_read_time(const char *text, const char *end, int64_t *us);

#endif
