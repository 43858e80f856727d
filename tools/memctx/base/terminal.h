/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - what standard output is, and a pager for long output.
 *
 * The answers are those from before the pager was started, which makes standard output a pipe.
 * Threads: one.
 */
#ifndef MEMCTX_TERMINAL_H
#define MEMCTX_TERMINAL_H

#include <stdbool.h>

/* True if standard output is a terminal. */
bool terminal_is_output(void);
/* Returns the columns of the terminal, at least 40; 80 if standard output is none. */
unsigned terminal_columns(void);

/* Sends what is printed from now on through the pager, if standard output is a terminal: through
 * $PAGER, or less if that is not set. Starts no pager where PAGER is empty or "cat", where TERM is
 * not set or "dumb", or where the pager is not installed. Sets LESS=FRX unless LESS is set, so that
 * less ends by itself if the output fits the screen. */
void terminal_page(void);
/* Ends the output and waits for the pager, if there is one. The end of the process does this, too.
 * Returns true if the user left the pager before it had read everything. */
bool terminal_end(void);

#endif
