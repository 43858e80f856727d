/* SPDX-License-Identifier: MIT */
/*
 * report_html.c - writes the page of a report.
 *
 * The HTML, style and program are in formats/page/ and are compiled into the command.
 */
#include "report/report_html.h"

#include <string.h>

#include "base/output.h"

#define FILE_OF(name) ".incbin \"tools/memctx/formats/page/" name "\"\n"
#define ASSET(name, files)                                                                         \
    /* global, because link-time optimisation may put this and its uses into different files */    \
    __asm__(".pushsection .rodata\n.globl " #name "\n" #name ":\n" files                           \
            ".byte 0\n.popsection\n");                                                             \
    extern const char name[]
ASSET(asset_page, FILE_OF("report.html"));
ASSET(asset_style, FILE_OF("report.css"));
/* One program. Its entry is makeReport (report.js). */
ASSET(asset_program,
      FILE_OF("words.js") FILE_OF("pen.js") FILE_OF("trees.js") FILE_OF("model.js")
          FILE_OF("overview.js") FILE_OF("graph.js") FILE_OF("table.js") FILE_OF("treemap.js")
              FILE_OF("page_map.js") FILE_OF("occupancy.js") FILE_OF("threads.js")
                  FILE_OF("time.js") FILE_OF("changes.js") FILE_OF("report.js"));
ASSET(asset_live_page, FILE_OF("live.html"));
ASSET(asset_live_program, FILE_OF("live.js"));

/* Writes JSON into a script element, where only "<" can begin markup, such as the end of the
 * element. JSON has "<" in strings only, so it can be escaped there. */
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
        {"PROGRAM", asset_program},
        {"BEGIN", "makeReport(JSON.parse(document.getElementById(\"data\").textContent));"},
        {NULL, NULL}};
    write_page(file, fillings, title, data, data_length);
}

void report_write_live_html(FILE *file, const char *nonce) {
    char attribute[64];
    snprintf(attribute, sizeof attribute, " nonce=\"%s\"", nonce);
    const struct filling fillings[] = {
        {"NONCE", attribute},  {"STYLE", asset_style},     {"LIVE", asset_live_page},
        {"HIDDEN", " hidden"}, {"PROGRAM", asset_program}, {"BEGIN", asset_live_program},
        {NULL, NULL}};
    write_page(file, fillings, "memctx", "", 0);
}
