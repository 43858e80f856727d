/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - writes the page of a report.
 *
 * The HTML, style and program are in formats/page/ and are compiled into the command.
 */
#include "report/report_html.h"

#include <string.h>

#include "base/output.h"

#define ASSET(name, file)                                                                          \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"tools/memctx/formats/page/" file          \
            "\"\n.byte 0\n.popsection\n");                                                         \
    extern const char name[]
ASSET(asset_page, "report.html");
ASSET(asset_style, "report.css");
ASSET(asset_trees, "trees.js");
ASSET(asset_time, "time.js");
ASSET(asset_program, "report.js");
ASSET(asset_live_page, "live.html");
ASSET(asset_live_program, "live.js");

/* Writes JSON into a script element, where only "<" can begin what HTML understands, such as the
 * element's end. JSON has "<" in strings only, so it can be escaped there. */
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

/* A word between two @ in the page, and the text that replaces it. */
struct filling {
    const char *mark, *text;
};

/* Writes the page. Replaces each word such as @STYLE@ by its text, @TITLE@ by the title, and @DATA@
 * by JSON, which stands in a script element. */
static void write_page(FILE *file, const struct filling *fillings, const char *title,
                       const char *data, size_t data_length) {
    const char *text = asset_page, *mark;
    while ((mark = strchr(text, '@'))) {
        fwrite(text, 1, (size_t)(mark - text), file);
        size_t length = strcspn(mark + 1, "@");
        if (strncmp(mark + 1, "TITLE", length) == 0)
            output_put_html(file, title, strlen(title));
        else if (strncmp(mark + 1, "DATA", length) == 0)
            put_escaped(file, data, data_length);
        for (const struct filling *filling = fillings; filling->mark; filling++)
            if (strlen(filling->mark) == length && memcmp(filling->mark, mark + 1, length) == 0)
                fputs(filling->text, file);
        text = mark + length + 2;
    }
    fputs(text, file);
}

void report_write_html(FILE *file, const char *title, const char *data, size_t data_length) {
    const struct filling fillings[] = {
        {"POLICY", "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"},
        {"STYLE", asset_style},
        {"TREES", asset_trees},
        {"TIME", asset_time},
        {"PROGRAM", asset_program},
        {"BEGIN", "makeReport(JSON.parse(document.getElementById(\"data\").textContent));"},
        {NULL, NULL}};
    write_page(file, fillings, title, data, data_length);
}

void report_write_live_html(FILE *file, const char *nonce) {
    char attribute[64];
    snprintf(attribute, sizeof attribute, " nonce=\"%s\"", nonce);
    const struct filling fillings[] = {
        {"NONCE", attribute},       {"STYLE", asset_style},        {"LIVE", asset_live_page},
        {"HIDDEN", " hidden"},      {"TREES", asset_trees},        {"TIME", asset_time},
        {"PROGRAM", asset_program}, {"BEGIN", asset_live_program}, {NULL, NULL}};
    write_page(file, fillings, "memctx", "", 0);
}
