/* SPDX-License-Identifier: MIT */
/* rule_lines.h - the figures of placement rules, as metrics. */
#ifndef MEMCTX_RULE_LINES_H
#define MEMCTX_RULE_LINES_H

#include <stdio.h>

/* Writes the lines of exposition.h for an answer to the request "list" of WIRE_RULES, which is
 * changed. */
void rule_lines_tell(FILE *file, char *text);

#endif
