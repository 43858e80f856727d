/* SPDX-License-Identifier: MIT */
/*
 * forecast.h - describes growth along a straight line: its rate, since when, and when memory is
 * used up.
 *
 * A time is given only where the figures allow it. Times are the user's local time; a snapshot has
 * no date, so its times are given as distances. The clock of marks stands still while the machine
 * sleeps: the rate leaves the sleep out, and times of day count it.
 */
#ifndef MEMCTX_FORECAST_H
#define MEMCTX_FORECAST_H

#include "diagnosis/look.h"

/* A straight rise over several looks. */
struct forecast {
    double bytes_per_s;
    double since_s; /* uptime at which it began, or, if not `began`, of the first look */
    double step_s;  /* time between that look and the next one */
    bool began;     /* there is an earlier look, before the rise */
};

/* Fills in the finding's verdict, since, and rate. */
void forecast_tell_rate(const struct look *look, struct finding *finding,
                        const struct forecast *forecast);
/* Fills in when memory is used up if all straight growth goes on, which is `all_per_s` together.
 * RLIMIT_AS and RLIMIT_DATA count memory that the program asked for and never touched; the other
 * limits do not. The finding gets a moment if it is at most fifty times as far away as the growth
 * was watched, otherwise a rough time. */
void forecast_tell_end(const struct look *look, struct finding *finding,
                       const struct forecast *forecast, double all_per_s);

#endif
