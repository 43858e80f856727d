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
    /* bytes of blocks, and bytes in memory, for each byte that the program asks for */
    double blocks, memory;
};

/* Returns the time at which the process had this uptime, as text. The caller frees it. */
char *forecast_write_moment(const struct look *look, double uptime_s);
/* Fills in the finding's verdict, since, and rate. */
void forecast_tell_rate(const struct look *look, struct finding *finding,
                        const struct forecast *forecast);
/* Sets the forecast's figures `blocks` and `memory` to those of the suspect's chunks. */
void forecast_measure(const struct look *look, const struct blame_suspect *suspect,
                      struct forecast *forecast);
/* Adds the forecast to the rates of finding->use, which forecast_tell_ends adds up. */
void forecast_use(struct finding *finding, const struct forecast *forecast);
/* Sets finding->out of each finding with use.ends: when memory is used up if all growth of the
 * findings with rates goes on. RLIMIT_AS and RLIMIT_DATA count blocks, touched or not; the other
 * limits count memory. The text has a time of day if that time is at most fifty times as far ahead
 * as the growth was watched, else a rough time. */
void forecast_tell_ends(const struct look *look);

#endif
