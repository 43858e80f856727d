/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - writes the page of a report.
 *
 * The HTML, style and program are in formats/page/ and are compiled into the command.
 */
#include "report/report_html.h"

#include <string.h>

#define ASSET(name, file)                                                                          \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"tools/memctx/formats/page/" file          \
            "\"\n.byte 0\n.popsection\n");                                                         \
    extern const char name[]
ASSET(asset_page, "report.html");
ASSET(asset_style, "report.css");
ASSET(asset_trees, "trees.js");
ASSET(asset_time, "time.js");
ASSET(asset_program, "report.js");

/* Writes JSON into a script element, in which only "</" means anything. JSON has "<" in strings
 * only, so it can be escaped there. */
static void put_escaped(FILE *file, const char *text, size_t length) {
    for (const char *end = text + length; text < end;) {
        const char *mark = memchr(text, '<', (size_t)(end - text));
        size_t part = mark ? (size_t)(mark - text) : (size_t)(end - text);
        fwrite(text, 1, part, file);
        text += part;
        if (mark) {
            fputs("\\u003c", file);
            text++;
        }
    }
}

static void put_text(FILE *file, const char *text) { /* the text of an HTML element */
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '&': fputs("&amp;", file); break;
        default: putc(*text, file); break;
        }
    }
}

/* Writes the page with its marks @TITLE@, @STYLE@, @TREES@, @TIME@, @PROGRAM@ and @DATA@ replaced.
 */
void report_write_html(FILE *file, const char *title, const char *data, size_t data_length) {
    const char *text = asset_page;
    const char *mark;
    while ((mark = strchr(text, '@'))) {
        fwrite(text, 1, (size_t)(mark - text), file);
        const char *end = strchr(mark + 1, '@');
        size_t length = end ? (size_t)(end - mark - 1) : 0;
        if (strncmp(mark + 1, "TITLE", length) == 0)
            put_text(file, title);
        else if (strncmp(mark + 1, "STYLE", length) == 0)
            fputs(asset_style, file);
        else if (strncmp(mark + 1, "TREES", length) == 0)
            fputs(asset_trees, file);
        else if (strncmp(mark + 1, "TIME", length) == 0)
            fputs(asset_time, file);
        else if (strncmp(mark + 1, "PROGRAM", length) == 0)
            fputs(asset_program, file);
        else if (strncmp(mark + 1, "DATA", length) == 0)
            put_escaped(file, data, data_length);
        text = mark + length + 2;
    }
    fputs(text, file);
}
