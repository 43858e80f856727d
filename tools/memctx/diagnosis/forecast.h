/* SPDX-License-Identifier: MIT */
/*
 * forecast.h - describes growth along a straight line: its rate, its beginning, and when memory is
 * used up.
 *
 * Times are the user's local time; a snapshot has no date, so its times are given as distances. The
 * clock of marks stands still while the machine sleeps. So rates do not count the sleep, but times
 * of day do.
 */
#ifndef MEMCTX_FORECAST_H
#define MEMCTX_FORECAST_H

#include "diagnosis/look.h"

/* A straight rise over several looks. */
struct forecast {
    double bytes_per_s;
    double since_s; /* uptime at which the rise began; if not `began`, uptime of the first look */
    double step_s;  /* time between the look at `since_s` and the next look */
    bool began;     /* there was a look before the rise */
    bool rough;     /* the rate is not exact */
};

/* Fills in the finding's verdict, since, and rate. */
void forecast_tell_rate(const struct look *look, struct finding *finding,
                        const struct forecast *forecast);
/* Sets finding->out: when memory is used up if all straight growth, `all_per_s` together, goes on.
 * RLIMIT_AS and RLIMIT_DATA count memory that the program asked for but never touched; the other
 * limits do not. The text has a time of day if that time is at most fifty times as far ahead as the
 * growth was watched, else a rough time. */
void forecast_tell_end(const struct look *look, struct finding *finding,
                       const struct forecast *forecast, double all_per_s);

#endif
