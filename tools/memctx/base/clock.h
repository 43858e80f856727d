/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the time since some moment in the past, of a clock that nobody sets and that never goes
 * back: for pauses, deadlines and rates. Any thread may call these functions, and a signal handler.
 */
#ifndef MEMCTX_CLOCK_H
#define MEMCTX_CLOCK_H

#include <stdint.h>

int64_t clock_now_ms(void);
double clock_now_s(void);

#endif
