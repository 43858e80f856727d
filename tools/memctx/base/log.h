/* SPDX-License-Identifier: MIT */
/*
 * log.h - standard output as a log of lines, for commands that run for days.
 *
 * A line that cannot be written, for instance because the disk is full, is lost, and the command
 * goes on. When the reader has gone, the log is broken: nothing can be written to it any more. Only
 * one thread may use the log, and the command writes nothing else to standard output.
 */
#ifndef MEMCTX_LOG_H
#define MEMCTX_LOG_H

#include <stdbool.h>
#include <stdio.h>

/* Returns a stream for the text of one line or of several whole lines. */
FILE *log_begin(void);
/* Writes the text that the stream of log_begin has collected. Tells on standard error when lines
 * are lost, and when the log can be written again. */
void log_end(void);
bool log_is_broken(void);
/* Returns `code`; CLI_REFUSED if a line was lost. Prints why, if the log is broken. */
int log_finish(int code);

#endif
