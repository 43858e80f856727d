/* SPDX-License-Identifier: MIT */
/* report_html.h - the HTML of a report, which needs no other file. */
#ifndef MEMCTX_REPORT_HTML_H
#define MEMCTX_REPORT_HTML_H

#include <stdio.h>

/* Writes a page with these figures (report_data.h). */
void report_write_html(FILE *file, const char *title, const char *data, size_t data_length);

#endif
