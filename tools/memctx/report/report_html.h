/* SPDX-License-Identifier: MIT */
/* report_html.h - the HTML of a report, which needs no other file, and the HTML of the live page.
 */
#ifndef MEMCTX_REPORT_HTML_H
#define MEMCTX_REPORT_HTML_H

#include <stdio.h>

/* Writes a page that shows `data`, which report_write_data has written. */
void report_write_html(FILE *file, const char *title, const char *data, size_t data_length);
/* Writes the page of memctx serve, which gets its figures from the server. The scripts and the
 * style of the page have the nonce, the text that the server's Content-Security-Policy names. */
void report_write_live_html(FILE *file, const char *nonce);

#endif
