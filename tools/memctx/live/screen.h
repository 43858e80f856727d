/* SPDX-License-Identifier: MIT */
/*
 * screen.h - shows running processes on the terminal until the user quits.
 */
#ifndef MEMCTX_SCREEN_H
#define MEMCTX_SCREEN_H

#include "live/herd.h"
#include "live/rows.h"

struct screen_options {
    struct rows_options rows;
    double interval_s;
    bool threads; /* begin with the list of threads */
};

/* Ends the command with a message, unless standard input and output are a terminal that curses can
 * use. */
void screen_check(void);
/* Shows the herd's first process if `single`, else the list of all. Returns the exit code. The
 * terminal is restored on return, at exit(), and after SIGINT, SIGTERM, SIGHUP and SIGQUIT. */
int screen_run(struct herd *herd, bool single, const struct screen_options *options);

#endif
