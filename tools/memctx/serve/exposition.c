/* SPDX-License-Identifier: MIT */
/* exposition.c - writes metrics as OpenMetrics and in Prometheus' text format. */
#include "serve/exposition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <memctx/wire.h>

#include "base/cli.h"
#include "base/json.h"
#include "base/text_file.h"

struct family {
    const char *name, *type, *unit, *help;
};

static const struct family families[FAMILIES] = {
#define FAMILY(constant, ...) [FAMILY_##constant] = {__VA_ARGS__},
    EXPOSITION_FAMILIES(FAMILY)
#undef FAMILY
};

const char *const exposition_types[EXPOSITION_FORMATS] = {
    [EXPOSITION_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
    [EXPOSITION_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/* --- which format ---------------------------------------------------------------------------- */

/* Returns the quality of one entry of an Accept header, in thousandths. */
static int quality_of(const char *entry, size_t length) {
    for (const char *at = entry; at + 1 < entry + length; at++) {
        if (*at != ';')
            continue;
        const char *name = at + 1;
        name += strspn(name, " \t");
        if (name + 2 < entry + length && strncasecmp(name, "q=", 2) == 0) {
            double quality = strtod(name + 2, NULL);
            return quality >= 1 ? 1000 : quality > 0 ? (int)(quality * 1000) : 0;
        }
    }
    return 1000;
}

static bool has_type(const char *entry, size_t length, const char *type) {
    size_t bytes = strlen(type);
    return length >= bytes && strncasecmp(entry, type, bytes) == 0 &&
           (length == bytes || strchr("; \t", entry[bytes]));
}

enum exposition_format exposition_choose(const char *accept) {
    int open_metrics = 0, text = -1, any = 0;
    for (const char *at = accept ? accept : ""; *at != '\0';) {
        at += strspn(at, " \t,");
        size_t length = strcspn(at, ",");
        int quality = quality_of(at, length);
        if (has_type(at, length, "application/openmetrics-text"))
            open_metrics = quality > open_metrics ? quality : open_metrics;
        else if (has_type(at, length, "text/plain"))
            text = quality > text ? quality : text;
        else if (has_type(at, length, "*/*") || has_type(at, length, "text/*"))
            any = quality > any ? quality : any;
        at += length;
    }
    /* A wildcard counts for text/plain if no entry names text/plain. */
    if (text < 0)
        text = any;
    return open_metrics > 0 && open_metrics >= text ? EXPOSITION_OPENMETRICS
                                                    : EXPOSITION_PROMETHEUS;
}

/* --- the lines of one process ---------------------------------------------------------------- */

void exposition_put_label(FILE *file, const char *name, const char *value, size_t most) {
    fprintf(file, "%s=\"", name);
    for (size_t length = 0; *value != '\0' && length < most; length++) {
        size_t bytes = json_utf8_length(value);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", file);
        else if (*value == '\n')
            fputs("\\n", file);
        else if ((unsigned char)*value < 0x20)
            putc('?', file);
        else if (*value == '"' || *value == '\\')
            fprintf(file, "\\%c", *value);
        else
            fwrite(value, 1, bytes, file);
        value += bytes > 0 ? bytes : 1;
    }
    putc('"', file);
}

char *exposition_two_labels(const char *first, const char *value, const char *second,
                            const char *other, size_t most) {
    char *labels = NULL;
    size_t length;
    FILE *file = text_file_open(&labels, &length);
    exposition_put_label(file, first, value, most);
    putc(',', file);
    exposition_put_label(file, second, other, most);
    fclose(file);
    return labels;
}

void exposition_put(FILE *file, enum exposition_family family, const char *labels, int64_t value) {
    if (value != WIRE_UNKNOWN)
        fprintf(file, "%d\t%s\t%" PRId64 "\n", (int)family, labels, value);
}

void exposition_put_seconds(FILE *file, enum exposition_family family, double seconds) {
    fprintf(file, "%d\t\t%.6f\n", (int)family, seconds);
}

/* --- all processes --------------------------------------------------------------------------- */

static void write_head(FILE *file, const struct family *family, enum exposition_format format) {
    bool counter = strcmp(family->type, "counter") == 0;
    /* In OpenMetrics the name of a counter's family has no _total; in Prometheus' older format it
     * is the name of the samples. */
    const char *suffix = counter && format == EXPOSITION_PROMETHEUS ? "_total" : "";
    fprintf(file, "# HELP %s%s %s\n", family->name, suffix, family->help);
    fprintf(file, "# TYPE %s%s %s\n", family->name, suffix, family->type);
    if (format == EXPOSITION_OPENMETRICS && family->unit[0] != '\0')
        fprintf(file, "# UNIT %s %s\n", family->name, family->unit);
}

/* Writes the lines at *at that belong to the family, and moves *at behind them. */
static void write_lines(FILE *file, int number, const char *process, const char **at, bool *headed,
                        enum exposition_format format) {
    const struct family *family = &families[number];
    char *labels;
    while (strtol(*at, &labels, 10) == number && *labels == '\t') {
        size_t label_bytes = strcspn(++labels, "\t");
        const char *value = labels + label_bytes + (labels[label_bytes] == '\t');
        size_t value_bytes = strcspn(value, "\n");
        const char *comma = process[0] != '\0' && label_bytes > 0 ? "," : "";
        bool braces = process[0] != '\0' || label_bytes > 0;
        if (!*headed)
            write_head(file, family, format);
        *headed = true;
        fprintf(file, "%s%s%s%s%s%.*s%s %.*s\n", family->name,
                strcmp(family->type, "counter") == 0 ? "_total" : "", braces ? "{" : "", process,
                comma, (int)label_bytes, labels, braces ? "}" : "", (int)value_bytes, value);
        *at = value + value_bytes + (value[value_bytes] == '\n');
    }
}

char *exposition_write(const struct exposition_source *sources, size_t count,
                       enum exposition_format format, size_t *length) {
    char *text = NULL;
    FILE *file = text_file_open(&text, length);
    const char **at = cli_alloc(count, sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = sources[i].text;
    for (int number = 0; number < FAMILIES; number++) {
        bool headed = false;
        for (size_t i = 0; i < count; i++)
            write_lines(file, number, sources[i].labels, &at[i], &headed, format);
    }
    if (format == EXPOSITION_OPENMETRICS)
        fputs("# EOF\n", file);
    free(at);
    fclose(file);
    return text;
}
