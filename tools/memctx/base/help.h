/* SPDX-License-Identifier: MIT */
/*
 * help.h - prints help texts, which have lines of up to 100 columns, on terminals of any width.
 */
#ifndef MEMCTX_HELP_H
#define MEMCTX_HELP_H

/* Prints a help text. On a terminal that is narrower than the text's longest line, breaks the
 * paragraphs and the descriptions of options anew. */
void help_print(const char *text);

#endif
