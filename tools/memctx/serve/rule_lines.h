/* SPDX-License-Identifier: MIT */
/* rule_lines.h - the figures of placement rules, as metrics. */
#ifndef MEMCTX_RULE_LINES_H
#define MEMCTX_RULE_LINES_H

#include <stdio.h>

/* Writes lines (exposition.h) with the figures of each rule. `text` is the process's answer to the
 * request "list" of WIRE_RULES; it is changed. */
void rule_lines_tell(FILE *file, char *text);

#endif
