/* SPDX-License-Identifier: MIT */
/* page.c - asks doctor about each process, and writes a page without scripts. */
#include "serve/page.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/output.h"
#include "serve/job.h"

#define DOCTOR_MS 10000 /* longest time of doctor for one process */
#define ALL_MS 25000    /* longest time of doctor for all processes */

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

/* Writes the first paragraph of doctor's text, or why doctor gave none. */
static void put_verdict(FILE *file, const struct fleet_process *process, int64_t deadline_ms) {
    struct job job = {0};
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)process->facts.pid);
    const char *words[] = {"doctor", pid, NULL};
    if (clock_now_ms() >= deadline_ms || !job_start(&job, "doctor", words, deadline_ms)) {
        fputs("not asked", file);
        return;
    }
    while (!job.done) {
        struct pollfd entries[JOB_FDS];
        poll(entries, job_poll(&job, entries), 100);
        job_run(&job, clock_now_ms());
    }
    if (job.late)
        fputs("doctor took too long", file);
    else if (job.status == 0)
        put_paragraph(file, job.out.length > 0 ? job.out.bytes : "");
    else
        put_paragraph(file, job.large              ? job_find_reason(&job)
                            : job.error.length > 0 ? job.error.bytes
                                                   : "doctor has ended");
    job_free(&job);
}

static void put_link(FILE *file, const struct fleet_process *process, const char *address,
                     const char *more, const char *name) {
    fprintf(file, "<a href=\"%s?target=", address);
    put_query(file, process->program);
    fprintf(file, "&amp;process=%u%s\">%s</a> ", process->number, more, name);
}

void page_write(int fd, const void *argument) {
    const struct fleet *fleet = argument;
    FILE *file = fdopen(fd, "w");
    int64_t end_ms = clock_now_ms() + ALL_MS;
    if (!file)
        return;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">"
          "<link rel=\"icon\" href=\"data:,\"><title>memctx</title>\n"
          "<style>:root{color-scheme:light dark}"
          "body{font-family:sans-serif;margin:1em;overflow-wrap:anywhere}"
          "td,th{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}</style></head>\n"
          "<body><h1>memctx</h1>\n"
          "<p><a href=\"metrics\">/metrics</a> for Prometheus</p>\n"
          "<table><tr><th>program</th><th>process</th><th>verdict</th><th></th></tr>\n",
          file);
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = fleet->processes[i];
        int64_t limit_ms = clock_now_ms() + DOCTOR_MS;
        fputs("<tr><td>", file);
        output_put_html(file, process->program, strlen(process->program));
        fprintf(file, "</td><td>%u</td><td>", process->number);
        fflush(file); /* before job_start forks */
        put_verdict(file, process, limit_ms < end_ms ? limit_ms : end_ms);
        fputs("</td><td>", file);
        fprintf(file, "<a href=\"p/%d/\">live</a> ", (int)process->facts.pid);
        put_link(file, process, "doctor", "", "/doctor");
        put_link(file, process, "debug/pprof/heap", "", "/debug/pprof/heap");
        put_link(file, process, "debug/pprof/allocs", "&amp;seconds=10", "/debug/pprof/allocs");
        fputs("</td></tr>\n", file);
    }
    fputs("</table></body></html>\n", file);
    fclose(file);
}
