/* SPDX-License-Identifier: MIT */
/*
 * wrap.h - prints text in lines that fit the terminal.
 */
#ifndef MEMCTX_WRAP_H
#define MEMCTX_WRAP_H

/* Prints a text to standard output, where the cursor stands in `column` (from 0 on), and ends the
 * line. Breaks lines at spaces, but not between a number and its unit. Later lines begin in column
 * `indent`. Lines have as many columns as the terminal has, or 80 if standard output is no
 * terminal. A longer word stands in a line of its own. */
void wrap_print(const char *text, unsigned column, unsigned indent);

#endif
