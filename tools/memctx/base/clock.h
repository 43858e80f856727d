/* SPDX-License-Identifier: MIT */
/*
 * clock.h - reads the monotonic clock, which nobody sets and which never goes back: for pauses,
 * deadlines and rates. Its zero is some moment in the past. Threads and signal handlers may call
 * these functions.
 */
#ifndef MEMCTX_CLOCK_H
#define MEMCTX_CLOCK_H

#include <stdint.h>

int64_t clock_now_ms(void);
double clock_now_s(void);

#endif
