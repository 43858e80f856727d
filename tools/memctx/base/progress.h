/* SPDX-License-Identifier: MIT */
/*
 * progress.h - says on a terminal what the command does, when that takes longer than a second.
 *
 * The line stands on standard error and is removed before anything else is written. A timer's
 * signal writes it, so that it appears while the command computes or waits, too. Where no line is
 * possible, these functions do nothing.
 */
#ifndef MEMCTX_PROGRESS_H
#define MEMCTX_PROGRESS_H

#include "base/cli.h"

#define PROGRESS_REMOVE "\r\033[K" /* removes the line that the cursor is in */

/* True if standard error is a terminal that understands PROGRESS_REMOVE: TERM is set, and is not
 * "dumb". */
bool progress_is_possible(void);
/* Sets the text that says what the command does now. The line appears a second after the first call
 * in this process. The text is cut after about a hundred bytes, or where the terminal's line ends.
 */
void progress_tell(const char *format, ...) CLI_PRINTF(1, 2);
/* Removes the line. Call this before any output or message. */
void progress_end(void);

#endif
