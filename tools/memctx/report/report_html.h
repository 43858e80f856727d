/* SPDX-License-Identifier: MIT */
/* report_html.h - the HTML of a report, which needs no other file, and the HTML of the live page.
 */
#ifndef MEMCTX_REPORT_HTML_H
#define MEMCTX_REPORT_HTML_H

#include <stdio.h>

/* Writes a page that shows `data`, the text that report_write_data wrote. */
void report_write_html(FILE *file, const char *title, const char *data, size_t data_length);
/* Writes the live page of memctx serve, which gets its figures from the server. The scripts and the
 * style of the page carry `nonce`, a text that the server's header Content-Security-Policy names,
 * too. */
void report_write_live_html(FILE *file, const char *nonce);

#endif
