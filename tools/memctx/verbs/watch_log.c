/* SPDX-License-Identifier: MIT */
/* watch_log.c - the log of `memctx watch`: one line an event, as text or as JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "base/json.h"
#include "base/log.h"
#include "formats/render.h"
#include "verbs/watch.h"

#define LINE_BYTES 2048

static bool as_json;

void watch_log_begin(bool json) {
    as_json = json;
}

static void write_json(FILE *file, const struct watch_line *line, const char *time,
                       const char *text) {
    const struct watched *process = line->process;
    struct json_writer json = {.file = file};
    json_put_open(&json, NULL, '{');
    json_put_text(&json, "schema", "memctx-watch/1");
    json_put_text(&json, "time", time);
    json_put_text(&json, "event", line->event);
    json_put_integer(&json, "pid", process ? process->facts.pid : CONDITION_UNKNOWN);
    json_put_text(&json, "program", process ? process->program : NULL);
    json_put_text(&json, "when", line->when);
    json_put_integer(&json, "value", line->value);
    json_put_integer(&json, "threshold", line->threshold);
    json_put_integer(&json, "rss_bytes", line->rss_bytes);
    json_put_integer(&json, "inuse_bytes", line->inuse_bytes);
    json_put_integer(&json, "limit_bytes", line->limit_bytes);
    json_put_text(&json, "limit_from",
                  line->limit_from                                    ? line->limit_from
                  : line->limit_bytes != CONDITION_UNKNOWN && process ? process->limit.from
                                                                      : NULL);
    json_put_text(&json, "file", line->file);
    json_put_integer(&json, "took_ms", line->took_ms);
    json_put_integer(&json, "status", line->status);
    json_put_text(&json, "text", text);
    json_put_close(&json, '}');
}

void watch_log(const struct watch_line *line, const char *format, ...) {
    char text[LINE_BYTES], time_text[32];
    time_t now = time(NULL);
    struct tm utc;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_clean(text);
    strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    FILE *file = log_begin();
    if (as_json)
        write_json(file, line, time_text, text);
    else if (line->process)
        fprintf(file, "%s pid %d (%s): %s", time_text, (int)line->process->facts.pid,
                line->process->program, text);
    else
        fprintf(file, "%s %s", time_text, text);
    putc('\n', file);
    log_end();
}

char *watch_show_value(char *text, const struct condition *condition, int64_t value) {
    if (condition->kind != CONDITION_PSI)
        return render_bytes(text, value, true);
    snprintf(text, RENDER_NUMBER_BYTES, "%.1f ms", (double)value / 1000);
    return text;
}
