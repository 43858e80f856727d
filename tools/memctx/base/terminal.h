/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - tells whether standard output is a terminal and how wide it is; a pager for long
 * output.
 *
 * The pager makes standard output a pipe; the functions go on describing the terminal behind the
 * pager. Threads: one.
 */
#ifndef MEMCTX_TERMINAL_H
#define MEMCTX_TERMINAL_H

#include <stdbool.h>

/* True if standard output is a terminal. */
bool terminal_is_output(void);
/* Returns the columns of the terminal, at least 40; 80 if standard output is no terminal. */
unsigned terminal_columns(void);

/* Sends all later output through the pager, if standard output is a terminal. The pager is $PAGER,
 * or less if PAGER is not set. Starts no pager where PAGER is empty or "cat", where TERM is not set
 * or "dumb", or where the pager is not installed. Sets LESS=FRX unless LESS is set, so that less
 * ends by itself if the output fits the screen. */
void terminal_page(void);
/* Ends the output and waits for the pager, if one runs. exit() calls this, too. Returns true if the
 * user left the pager before it had read everything. */
bool terminal_end(void);

#endif
