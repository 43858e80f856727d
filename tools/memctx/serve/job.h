/* SPDX-License-Identifier: MIT */
/*
 * job.h - a command that runs for requests, such as `memctx export`, and its output.
 *
 * Work that takes long or may crash runs in a child process with a time limit. Requests with the
 * same key share one job. No function of this header waits: the caller polls the descriptors.
 */
#ifndef MEMCTX_JOB_H
#define MEMCTX_JOB_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOBS_MAX 4
#define JOB_FDS 2

struct job {
    char *key; /* names the output; NULL: this slot has no job */
    pid_t child;
    int64_t deadline_ms;
    bool done;  /* the command has ended: the fields below are complete */
    bool late;  /* the job was killed, because its time was over */
    bool large; /* the job was killed, because its output was too long */
    int status; /* the command's exit status, or -1 */
    struct job_output {
        int fd;
        char *bytes; /* ends with a 0 byte that `length` does not count */
        size_t length, most;
    } out, error;
};

/* Starts a job that executes memctx with the arguments `words`, which end with NULL. */
bool job_start(struct job *job, const char *key, const char *const *words, int64_t deadline_ms);
/* Starts a job that calls `write` in a child process; `fd` is the descriptor for the output. */
bool job_start_call(struct job *job, const char *key, void (*write)(int fd, const void *argument),
                    const void *argument, int64_t deadline_ms);
/* Adds the job's descriptors to a poll list. Returns the number of entries added. */
size_t job_poll(const struct job *job, struct pollfd *entries);
/* Reads the output that has come. Kills the job if its deadline has passed, or if its output has
 * 256 MiB. */
void job_run(struct job *job, int64_t now_ms);
/* Returns why the command failed: as it wrote to standard error, or that its output was too long.
 * NULL: there is no reason. */
const char *job_find_reason(struct job *job);
/* Kills the job if it runs, and frees its memory. */
void job_free(struct job *job);

#endif
