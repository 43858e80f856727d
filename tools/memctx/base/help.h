/* SPDX-License-Identifier: MIT */
/*
 * help.h - prints help texts, which have lines of up to 100 columns, for terminals of any width.
 */
#ifndef MEMCTX_HELP_H
#define MEMCTX_HELP_H

/* Prints a help text. If the terminal is narrower than the text's longest line, breaks the
 * paragraphs and the descriptions of options anew. A file or pipe counts as 75 columns wide,
 * because such a text is mostly read in a pager or in the manual page. */
void help_print(const char *text);

#endif
