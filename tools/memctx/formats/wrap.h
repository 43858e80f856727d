/* SPDX-License-Identifier: MIT */
/*
 * wrap.h - prints text in lines that fit the terminal.
 */
#ifndef MEMCTX_WRAP_H
#define MEMCTX_WRAP_H

/* Prints a text and a newline to standard output. `column`: where the cursor is now, from 0 on.
 * Breaks lines at spaces, but not between a number and its unit; further lines begin in column
 * `indent`. Lines are as wide as the terminal, or 80 columns if standard output is no terminal. A
 * word wider than a line gets a line of its own. */
void wrap_print(const char *text, unsigned column, unsigned indent);

#endif
