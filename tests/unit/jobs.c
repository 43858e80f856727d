/* SPDX-License-Identifier: MIT */
/* Tests of tools/memctx/serve/job.c: how a job of `memctx serve` ends. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "serve/job.h"

#define DEADLINE_MS 1000
#define PATIENCE_MS 20000 /* a job that takes longer hangs */

/* Writes the text `argument`; then ends, or waits if the text ends with "...". */
static void write_text(int fd, const void *argument) {
    const char *text = argument;
    size_t length = strlen(text);
    cr_assert_eq(write(fd, text, length), (ssize_t)length);
    if (length > 3 && strcmp(text + length - 3, "...") == 0)
        pause();
}

/* Runs a job until it has ended. The job may write `most` bytes. Each call of job_run gets the same
 * time, `now_ms`, however long the job really runs. */
static void run(struct job *job, const char *text, size_t most, int64_t now_ms) {
    struct pollfd entries[JOB_FDS];
    cr_assert(job_start_call(job, "a job", write_text, text, DEADLINE_MS));
    job->out.most = most;
    while (!job->done) {
        cr_assert_neq(poll(entries, (nfds_t)job_poll(job, entries), PATIENCE_MS), 0);
        job_run(job, now_ms);
    }
}

Test(jobs, give_their_output) {
    struct job job = {0};
    run(&job, "hello", 100, DEADLINE_MS);
    cr_assert(!job.late && !job.large && job.status == 0);
    cr_assert_str_eq(job.out.bytes, "hello");
    cr_assert_null(job_find_reason(&job));
    job_free(&job);
}

Test(jobs, that_take_too_long_are_late) {
    struct job job = {0};
    run(&job, "hello...", 100, DEADLINE_MS + 1);
    cr_assert(job.late && !job.large && job.status == -1);
    cr_assert_null(job_find_reason(&job));
    job_free(&job);
}

Test(jobs, that_write_too_much_are_large) {
    struct job job = {0};
    run(&job, "hello...", 4, DEADLINE_MS);
    cr_assert(!job.late && job.large && job.status == -1);
    cr_assert_eq(job.out.length, 4);
    cr_assert(strstr(job_find_reason(&job), "256 MiB"));
    job_free(&job);
}
