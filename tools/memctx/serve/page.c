/* SPDX-License-Identifier: MIT */
/*
 * page.c - writes a page without scripts, and fills in doctor's verdict on each process.
 *
 * All processes and their links are written first. A verdict follows when doctor has answered, in
 * any order: the page is a grid, and each verdict names its row.
 */
#include "serve/page.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/output.h"
#include "base/text_file.h"
#include "serve/job.h"

#define DOCTOR_MS 10000 /* longest time of doctor for one process */
#define ALL_MS 25000    /* longest time of doctor for all processes */
#define ASKED_MAX 4     /* processes that are asked at one time */
#define ROW_FIRST 2     /* row 1 of the grid has the headings */

/* Writes the first paragraph of a text. */
static void put_paragraph(FILE *file, const char *text) {
    const char *end = strstr(text, "\n\n");
    output_put_html(file, text, end ? (size_t)(end - text) : strlen(text));
}

/* Writes a text as an argument of a URL, with %XX where needed. */
static void put_query(FILE *file, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x80 && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._~",
                                  byte))
            putc(byte, file);
        else
            fprintf(file, "%%%02X", byte);
    }
}

static void put_link(FILE *file, const struct fleet_process *process, const char *address,
                     const char *more, const char *name) {
    fprintf(file, "<a href=\"%s?target=", address);
    put_query(file, process->program);
    fprintf(file, "&amp;process=%u%s\">%s</a> ", process->number, more, name);
}

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<link rel=\"icon\" href=\"data:,\"><title>memctx</title>\n"
    "<style>:root{color-scheme:light dark}"
    "body{font-family:sans-serif;margin:1em;overflow-wrap:anywhere}"
    "main{display:grid;grid-template-columns:auto auto minmax(8em,1fr) auto;gap:.4em 1em}"
    "main>*{margin:0;min-width:0}.h{font-weight:bold;white-space:nowrap}"
    ".v{grid-column:3;background:Canvas}" /* covers "..." */
    ".n{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}"
    "</style></head>\n"
    "<body><h1>memctx</h1>\n"
    "<p><a href=\"metrics\">/metrics</a> for Prometheus</p>\n"
    "<main><span class=\"h\">program</span><span class=\"h\">process</span>"
    "<span class=\"h\">verdict</span><span></span>\n";

static void put_program(FILE *file, const struct fleet_process *process) {
    output_put_html(file, process->program, strlen(process->program));
}

/* Writes a row with "..." in place of the verdict. */
static void put_row(FILE *file, const struct fleet_process *process, size_t row) {
    fprintf(file, "<span style=\"grid-row:%zu;grid-column:1\">", row);
    put_program(file, process);
    fprintf(file, "</span><span style=\"grid-row:%zu;grid-column:2\">%u</span>", row,
            process->number);
    fprintf(file, "<span style=\"grid-row:%zu;grid-column:3\" aria-hidden=\"true\">...</span>",
            row);
    fprintf(file, "<span style=\"grid-row:%zu;grid-column:4\"><a href=\"p/%d/\">live</a> ", row,
            (int)process->facts.pid);
    put_link(file, process, "doctor", "", "/doctor");
    put_link(file, process, "debug/pprof/heap", "", "/debug/pprof/heap");
    put_link(file, process, "debug/pprof/allocs", "&amp;seconds=10", "/debug/pprof/allocs");
    fputs("</span>\n", file);
}

/* Writes the first paragraph of doctor's text, or why doctor gave none. `job`: NULL if doctor was
 * not asked. The name of the process is for readers who do not see the grid. */
static void put_verdict(FILE *file, const struct fleet_process *process, size_t row,
                        struct job *job) {
    fprintf(file, "<p class=\"v\" style=\"grid-row:%zu\"><span class=\"n\">", row);
    put_program(file, process);
    fprintf(file, " %u: </span>", process->number);
    if (!job)
        fputs("not asked", file);
    else if (job->late)
        fputs("doctor took too long", file);
    else if (job->status == 0)
        put_paragraph(file, job->out.length > 0 ? job->out.bytes : "");
    else
        put_paragraph(file, job->large              ? job_find_reason(job)
                            : job->error.length > 0 ? job->error.bytes
                                                    : "doctor has ended");
    fputs("</p>\n", file);
}

/* A part of the page, which reaches the client at once. */
struct part {
    FILE *file;
    char *text;
    size_t length;
};

static void begin_part(struct part *part) {
    part->file = text_file_open(&part->text, &part->length);
}

static void send_part(struct part *part, gzFile to) {
    fclose(part->file);
    gzwrite(to, part->text, (unsigned)part->length);
    gzflush(to, Z_SYNC_FLUSH);
    free(part->text);
}

/* The processes whose doctor runs. */
struct asking {
    const struct fleet *fleet;
    gzFile to;
    int64_t end_ms;
    size_t next; /* index of the first process that was not asked yet */
    struct {
        struct job job;
        size_t process;
    } runs[ASKED_MAX];
};

static void send_verdict(const struct asking *asking, size_t process, struct job *job) {
    struct part part;
    begin_part(&part);
    put_verdict(part.file, asking->fleet->processes[process], process + ROW_FIRST, job);
    send_part(&part, asking->to);
}

/* Starts doctor for the next process. Returns false if its time is over, or it cannot be started.
 */
static bool ask(const struct asking *asking, size_t process, struct job *job) {
    int64_t now_ms = clock_now_ms(), limit_ms = now_ms + DOCTOR_MS;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)asking->fleet->processes[process]->facts.pid);
    const char *words[] = {"doctor", pid, NULL};
    return now_ms < asking->end_ms &&
           job_start(job, "doctor", words, limit_ms < asking->end_ms ? limit_ms : asking->end_ms);
}

/* Asks doctor about further processes, until ASKED_MAX are asked at one time. */
static void ask_next(struct asking *asking) {
    for (size_t i = 0; i < ASKED_MAX; i++) {
        while (!asking->runs[i].job.key && asking->next < asking->fleet->count) {
            asking->runs[i].process = asking->next++;
            if (!ask(asking, asking->runs[i].process, &asking->runs[i].job))
                send_verdict(asking, asking->runs[i].process, NULL);
        }
    }
}

/* Waits for doctor, and sends the verdicts that have come. Returns false if none was asked. */
static bool send_answers(struct asking *asking) {
    struct pollfd entries[ASKED_MAX * JOB_FDS];
    size_t count = 0;
    bool any = false;
    for (size_t i = 0; i < ASKED_MAX; i++)
        count += job_poll(&asking->runs[i].job, entries + count);
    if (count > 0)
        poll(entries, count, 100);
    for (size_t i = 0; i < ASKED_MAX; i++) {
        struct job *job = &asking->runs[i].job;
        any = any || job->key;
        job_run(job, clock_now_ms());
        if (!job->done)
            continue;
        send_verdict(asking, asking->runs[i].process, job);
        job_free(job);
    }
    return any;
}

void page_write(int fd, const void *argument) {
    const struct page_wish *wish = argument;
    struct part part;
    gzFile to = gzdopen(fd, wish->gzip ? "wb1" : "wbT"); /* T: not compressed */
    if (!to)
        return;
    begin_part(&part);
    fputs(page_head, part.file);
    for (size_t i = 0; i < wish->fleet->count; i++)
        put_row(part.file, wish->fleet->processes[i], i + ROW_FIRST);
    send_part(&part, to);
    struct asking asking = {.fleet = wish->fleet, .to = to, .end_ms = clock_now_ms() + ALL_MS};
    do
        ask_next(&asking);
    while (send_answers(&asking));
    begin_part(&part);
    fputs("</main></body></html>\n", part.file);
    send_part(&part, to);
    gzclose(to);
}
